"""Verdicts follow the tolerances, what one side lacks is a failure, and the summary counts what it says."""
# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsim.comparison import L2_HIT, TIME, compare, document, failures, report_result, summarize, text
from warpsim.errors import InputError
from warpsim.metrics import REQUIRED
from warpsim.parity import save_parity
from warpsim.result import Result, build_result, zeros
from warpsim.scenario import parse

REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
TAGS = "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum"
GPU = {"name": "h200", "sms": 132, "clock_mhz": 1975.0}


def result(source: str, *, grid: int = 64, block: int = 128, drop: tuple[str, ...] = (), **changes: float) -> Result:
    metrics: dict[str, Any] = zeros() | {
        TIME: 10000, REQUESTS: 256, TAGS: 256, "dram__sectors_read.sum": 100000, "lts__t_sectors_srcunit_tex_lookup_hit.sum": 900,
        "lts__t_sectors_srcunit_tex_lookup_miss.sum": 100,
    }  # fmt: skip
    metrics |= {name.replace("__dot__", "."): value for name, value in changes.items()}
    for name in drop:
        del metrics[name]
    launch = {"grid": [grid, 1, 1], "block": [block, 1, 1], "registers": 16, "shared": 0, "ctas_per_sm": 16}
    return build_result(scenario="s", kernel="k", source=source, gpu=GPU, launch=launch, metrics=metrics, extra={})


def measured(**changes: Any) -> Result:
    return result("measured", **changes)


def with_metrics(values: dict[str, float], **shape: int) -> Result:
    return result("measured", **shape, **{name.replace(".", "__dot__"): value for name, value in values.items()})


def test_equal_results_pass_in_every_row() -> None:
    comparison = compare(result("simulated"), measured())
    assert comparison.passed
    assert comparison.exact
    assert {row.verdict for row in comparison.rows} == {"equal", "within", "info"}


def test_a_count_off_by_one_fails() -> None:
    comparison = compare(result("simulated"), with_metrics({REQUESTS: 257}))
    assert comparison[REQUESTS].verdict == "off"
    assert not comparison.exact
    assert failures([comparison]) == [f"s: {REQUESTS} 256 predicted, 257 measured (off, equal)"]


def test_a_required_metric_that_one_side_lacks_is_a_failure() -> None:
    comparison = compare(result("simulated"), measured(drop=(REQUESTS, TIME)))
    assert comparison.missing == [name for name in REQUIRED if name in (REQUESTS, TIME)]
    assert not comparison.passed
    assert len(failures([comparison], over=0.5)) == 2


def test_an_optional_metric_absent_on_one_side_is_zero_there() -> None:
    name = "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum"
    assert compare(result("simulated"), with_metrics({name: 3}))[name].verdict == "off"


def test_stage_counters_are_a_lower_bound_under_load_and_equal_alone() -> None:
    assert compare(result("simulated"), with_metrics({TAGS: 300}))[TAGS].verdict == "bound"
    assert compare(result("simulated"), with_metrics({TAGS: 200}))[TAGS].verdict == "off"
    alone = {"grid": 1, "block": 32}
    assert compare(result("simulated", **alone), with_metrics({TAGS: 300}, **alone))[TAGS].verdict == "off"


@pytest.mark.parametrize(("time", "verdict"), [(10900, "within"), (12000, "off"), (10000, "equal")])
def test_time_has_a_tolerance_of_ten_percent(time: int, verdict: str) -> None:
    comparison = compare(result("simulated", **{TIME: time}), measured())  # type: ignore[arg-type]
    assert comparison[TIME].verdict == verdict
    assert comparison.time_error == pytest.approx(time / 10000 - 1)


def test_hit_rates_are_compared_in_points() -> None:
    other = with_metrics(
        {"lts__t_sectors_srcunit_tex_lookup_hit.sum": 950, "lts__t_sectors_srcunit_tex_lookup_miss.sum": 50}
    )
    row = compare(result("simulated"), other)[L2_HIT]
    assert row.error == pytest.approx(-5)
    assert row.verdict == "off"


def test_fail_over_judges_time_by_the_given_share() -> None:
    comparison = compare(result("simulated", **{TIME: 10900}), measured())  # type: ignore[arg-type]
    assert failures([comparison]) == []
    assert len(failures([comparison], over=0.05)) == 1


def test_summary_counts_and_averages() -> None:
    good = compare(result("simulated"), measured())
    bad = compare(result("simulated", **{TIME: 12000}), with_metrics({REQUESTS: 1, "dram__sectors_read.sum": 200000}))  # type: ignore[arg-type]
    s = summarize([good, bad])
    assert s["counts"] - s["counts_equal"] == 1
    assert s["time_error_mean"] == pytest.approx(0.1)
    assert s["dram_bytes_error_mean"] == pytest.approx(0.25)
    assert s["time_error_worst"] == {"scenario": "s", "error": pytest.approx(0.2)}
    assert json.loads(json.dumps(document([good, bad])))["summary"]["passed"] == 1


def test_table_shows_errors_and_leaves_out_what_both_lack() -> None:
    shown = text(
        [compare(result("simulated"), with_metrics({REQUESTS: 257})), compare(result("simulated"), measured())]
    )
    assert "s on h200" in shown
    assert "-0.39 %" in shown
    assert "op_red" not in shown
    assert "time, mean absolute error" in shown


SCENARIO = """
schema = 1
entry = "copy<{n}>"
source = '''template<int n> __global__ void copy(float *a) { a[threadIdx.x] = n; }'''
[params]
n = 4
[launch]
grid = [10]
block = [128]
[[arg]]
name = "a"
buffer = "float"
count = 128
"""
REPORT = """"ID","Kernel Name","Block Size","Grid Size","CC","dram__bytes_read.sum","gpu__time_duration.sum","other__x.sum"
"","","","","","byte","us",""
"0","void copy<(int)4>(float *)","(128, 1, 1)","({}, 1, 1)","9.0","6,400","3.5","9"
"""


def test_a_users_own_report_becomes_a_measured_result(tmp_path: Path) -> None:
    launch = parse(SCENARIO, None).bind()
    (tmp_path / "r.csv").write_text(REPORT.format(10))
    found = report_result(launch, tmp_path / "r.csv", "h200")
    assert found.metrics == {TIME: 3500, "dram__sectors_read.sum": 200}
    (tmp_path / "r.csv").write_text(REPORT.format(11))
    with pytest.raises(InputError, match=r"grid x block \(11, 1, 1\) x \(128, 1, 1\).*use --set"):
        report_result(launch, tmp_path / "r.csv", "h200")
    (tmp_path / "r.csv").write_text(REPORT.format(10).replace("copy", "move"))
    with pytest.raises(InputError, match="no launch of kernel 'copy'; it has void move"):
        report_result(launch, tmp_path / "r.csv", "h200")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_parity_plot_is_written(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    save_parity([compare(result("simulated"), measured())], tmp_path / f"p{suffix}")
    assert (tmp_path / f"p{suffix}").stat().st_size > 1000
    with pytest.raises(InputError, match=r"written as \.png, \.svg, \.pdf"):
        save_parity([compare(result("simulated"), measured())], tmp_path / "p.txt")
