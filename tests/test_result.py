"""The Result record, its JSON, and what is derived from counters."""

import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import GPU, global_line, make, shared_line
from warpsim.derivation import gpu_facts, warps_needed
from warpsim.errors import InputError
from warpsim.gpu import load_gpu
from warpsim.metrics import REQUIRED, global_requests, global_sectors
from warpsim.report import html
from warpsim.result import Result, build_result, plain, write_atomically, zeros
from warpsim.text import summary

KEYS = [
    "schema", "warpsim", "scenario", "kernel", "source", "gpu", "launch", "params", "state", "buffers", "compiler",
    "clock_mhz", "coverage", "metrics", "derived", "uncertainty", "lines", "findings",
]  # fmt: skip


def copy(**more: object) -> Result:
    """A contiguous float copy of 2^20 elements: 32768 requests each way, 4 sectors each."""
    requests = 32768
    lines = [
        global_line(3, "ld", requests, 4 * requests, 4 * requests, "float x = in[i];"),
        global_line(4, "st", requests, 4 * requests, 4 * requests, "out[i] = x;"),
    ]
    metrics = {
        "lts__t_sectors_srcunit_tex_op_read.sum": 131072,
        "lts__t_sectors_srcunit_tex_op_write.sum": 131072,
        "lts__t_sectors_srcunit_tex_lookup_hit.sum": 131072,
        "lts__t_sectors_srcunit_tex_lookup_miss.sum": 131072,
        "dram__sectors_read.sum": 131072,
        "dram__sectors_write.sum": 65536,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 75.0,
    }
    extra = {
        "requested_bytes": {"ld": 1 << 22, "st": 1 << 22},
        "useful_bytes": {"read": 1 << 22, "write": 1 << 22},
        "ideal": {global_sectors("ld"): 131072, global_sectors("st"): 131072},
        **more,
    }
    return make(lines, metrics, extra)


def test_json_has_the_documented_keys_in_order_and_every_required_metric() -> None:
    document = json.loads(copy().to_json())
    assert list(document) == KEYS
    assert list(document["metrics"]) == list(REQUIRED)
    assert document["schema"] == 1
    assert document["source"] == "simulated"
    assert {"grid", "block", "registers", "shared", "ctas_per_sm"} <= document["launch"].keys()
    assert set(document["coverage"]) == {"ctas", "of"}


def test_json_keeps_a_list_of_numbers_on_one_line() -> None:
    text = copy(timeline={"cycle": [0, 1.5, 2e-9, -3]}, notes=["[\n 1,\n 2]"]).to_json()
    assert '"grid": [ 1056 ]' in text
    assert '"cycle": [ 0, 1.5, 2e-09, -3 ]' in text
    assert json.loads(text)["derived"]["trust"]["notes"] == ["[\n 1,\n 2]"]


def test_json_comes_back_as_the_same_result() -> None:
    result = copy()
    again = Result.from_json(result.to_json())
    assert again == result
    assert Result.from_json(result.to_dict()) == result
    assert summary(again) == summary(result)


def test_numpy_numbers_become_json_numbers_and_infinities_null() -> None:
    value = plain({"a": np.int64(3), "b": np.array([1.5, np.inf]), "c": (np.bool_(True), float("nan"))})
    assert value == {"a": 3, "b": [1.5, None], "c": [True, None]}
    assert type(value["a"]) is int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2 given, this version reads schema 1"),
        ({"surprise": 1}, "unknown key 'surprise'; allowed: scenario"),
        ({"metrics": None}, "key 'metrics' is missing"),
    ],
)
def test_a_wrong_document_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    document = copy().to_dict() | change
    document = {k: v for k, v in document.items() if v is not None}
    with pytest.raises(InputError, match=message):
        Result.from_json(document, "x.json")


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"schema": 1, "metrics": "no"}'])
def test_text_that_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^x.json: "):
        Result.from_json(text, "x.json")


def test_save_is_atomic_and_load_reads_it(tmp_path: Path) -> None:
    result = copy()
    target = tmp_path / "r.json"
    target.write_text("old")
    result.save(target)
    assert Result.load(target) == result
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    with pytest.raises(InputError, match=r"cannot write: No such file"):
        result.save(tmp_path / "no" / "r.json")
    with pytest.raises(InputError, match=r"cannot read: No such file"):
        Result.load(tmp_path / "none.json")


def test_write_follows_a_link_and_writes_into_a_device(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("a")
    link = tmp_path / "link"
    link.symlink_to(real)
    write_atomically(link, "b")
    assert link.is_symlink()
    assert real.read_text() == "b"
    write_atomically(os.devnull, "gone")


def test_a_simulated_result_must_have_every_required_metric_and_no_strange_one() -> None:
    arguments = {
        "scenario": "s", "kernel": "k", "gpu": GPU, "extra": {},
        "launch": {"grid": [1], "block": [32], "registers": 8, "shared": 0, "ctas_per_sm": 32},
    }  # fmt: skip
    metrics = zeros()
    del metrics["lts__t_sectors.sum"]
    with pytest.raises(ValueError, match=r"required metrics missing: \['lts__t_sectors.sum'\]"):
        build_result(source="simulated", metrics=metrics, **arguments)
    assert build_result(source="measured", metrics=metrics, **arguments).missing == ["lts__t_sectors.sum"]
    with pytest.raises(ValueError, match="made_up"):
        build_result(source="measured", metrics={"made_up": 1}, **arguments)


def test_sectors_a_request_and_bytes_a_useful_byte() -> None:
    derived = copy().derived
    assert derived["global"]["load"]["sectors_per_request"] == 4
    assert derived["global"]["load"]["ideal_sectors_per_request"] == 4
    waste = derived["bytes_per_useful_byte"]
    assert (waste["l1_read"], waste["l2_read"], waste["dram_read"]) == (1, 1, 1)
    assert (waste["l1_write"], waste["l2_write"], waste["dram_write"]) == (1, 1, 0.5)
    assert derived["l2"]["hit_rate"] == 0.5
    assert derived["global"]["atomic"]["sectors_per_request"] is None


def test_effective_bandwidth_is_useful_bytes_over_time_as_a_share_of_the_peak() -> None:
    bandwidth = copy().derived["bandwidth"]
    assert bandwidth["effective"] == pytest.approx((1 << 23) / 10e-6)
    assert bandwidth["effective_share_of_peak"] == pytest.approx((1 << 23) / 10e-6 / 4.8e12)
    assert bandwidth["dram"] == pytest.approx(196608 * 32 / 10e-6)


def test_occupancy_counts_warps_of_resident_ctas() -> None:
    occupancy = copy().derived["occupancy"]
    assert (occupancy["warps_per_sm"], occupancy["theoretical"], occupancy["achieved"]) == (64, 1.0, 0.75)
    assert occupancy["waves"] == 1.0
    odd = make(launch={"block": [33, 1, 1], "ctas_per_sm": 4}).derived["occupancy"]
    assert odd["warps_per_sm"] == 8


@pytest.mark.parametrize(("bytes_per_warp", "warps"), [(128, 119), (512, 30), (1024, 15)])
def test_littles_law_on_an_h100_with_600_ns(bytes_per_warp: int, warps: int) -> None:
    """3.35 TB/s x 600 ns over 132 SMs: a float, a float4, two float4 a lane."""
    assert warps_needed(600, 3.35e12, 132, bytes_per_warp) == warps


def test_littles_law_asks_for_latency_times_bandwidth() -> None:
    law = copy(in_flight_bytes=132 * 8192, loads_per_warp=2).derived["littles_law"]
    assert law["needed_bytes"] == pytest.approx(600e-9 * 4.8e12)
    assert law["in_flight_bytes_per_sm"] == 8192
    assert law["share"] == pytest.approx(8192 * 132 / 2.88e6)
    assert law["bytes_per_warp"] == 256
    assert law["warps_needed_per_sm"] == -(-int(2.88e6) // (132 * 256))


def test_flops_intensity_and_ridge() -> None:
    ops = {f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": 1 << 20 for op in ("fadd", "ffma", "dmul")}
    result = make(
        metrics=ops | {"dram__sectors_read.sum": 1 << 20}, extra={"useful_bytes": {"read": 1 << 20, "write": 0}}
    )
    flops = result.derived["flops"]
    assert (flops["fp32"], flops["fp64"], flops["total"]) == (3 << 20, 1 << 20, 4 << 20)
    assert result.derived["intensity"] == {"useful": 4.0, "dram": 4 / 32}
    roofline = result.derived["roofline"]
    assert roofline["ridge"]["fp32"] == pytest.approx(67e12 / 4.8e12)
    assert roofline["bound"] == "memory"
    assert roofline["attainable_flops"] == pytest.approx(4.8e12 / 8)


def test_a_kernel_above_the_ridge_is_compute_bound_and_one_without_flops_memory_bound() -> None:
    ops = {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1 << 30, "dram__sectors_read.sum": 1 << 15}
    assert make(metrics=ops).derived["roofline"]["bound"] == "compute"
    moves = {"dram__sectors_read.sum": 1}
    assert make(metrics=moves, extra={"other_ops": {"FMNMX": 100}}).derived["roofline"]["bound"] == "memory"
    assert make(extra={"other_ops": {"FMNMX": 100}}).derived["roofline"]["bound"] is None


def test_moves_by_hfma2_make_no_kernel_one_of_halves() -> None:
    op = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    single = {op.format("fadd"): 10, op.format("hfma"): 100, "dram__sectors_read.sum": 1}
    assert make(metrics=single).derived["roofline"]["precision"] == "fp32"
    assert make(metrics=single | {op.format("hadd"): 1}).derived["roofline"]["precision"] == "fp16"
    assert make(metrics={op.format("hfma"): 100}).derived["roofline"]["precision"] == "fp16"


def test_ridge_points_of_the_profiles() -> None:
    facts = gpu_facts(load_gpu("a100-80gb"))
    assert facts["flops"]["fp32"] / facts["dram_bandwidth"] == pytest.approx(9.56, abs=0.005)
    for name in ("h200", "h100", "b200", "rtx3090", "rtx4090"):
        facts = gpu_facts(load_gpu(name))
        assert {"fp32", "fp16_tensor", "tf32_tensor"} <= facts["flops"].keys()
        assert 100 < facts["dram_latency_ns"] < 1000


def test_the_limiter_is_the_busiest_component_or_latency() -> None:
    assert copy(busy={"DRAM": 0.92, "L2 slices": 0.5}).derived["limiter"]["name"] == "DRAM"
    assert copy(busy={"DRAM": 0.4, "L2 slices": 0.5}).derived["limiter"] == {
        "name": "latency", "share": 0.5, "busy": {"DRAM": 0.4, "L2 slices": 0.5}, "dram": {},
    }  # fmt: skip


def test_a_measured_result_finds_its_limiter_from_counters() -> None:
    cycles, sms = 19_800, 132
    metrics = zeros() | {"gpu__time_duration.sum": 10_000, "sm__cycles_elapsed.max": cycles}
    metrics["l1tex__data_pipe_lsu_wavefronts.sum"] = int(0.9 * cycles * sms)
    launch = {"grid": [1], "block": [32], "registers": 8, "shared": 0, "ctas_per_sm": 32}
    result = build_result(
        scenario="s", kernel="k", source="measured", gpu=GPU, launch=launch, metrics=metrics, extra={}
    )  # fmt: skip
    assert result.derived["limiter"]["name"] == "data stage"


def test_shared_ways_are_wavefronts_over_ideal() -> None:
    row = make([shared_line(7, "ld", 32 * 100, 100)]).derived["shared"]["load"]
    assert (row["wavefronts"], row["ideal_wavefronts"], row["conflicts"], row["ways"]) == (3200, 100, 3100, 32)


def test_the_dataframe_has_metrics_lines_or_one_row() -> None:
    pytest.importorskip("pandas")
    result = copy()
    assert result.to_dataframe().loc[global_requests("ld"), "value"] == 32768
    assert list(result.to_dataframe("lines")["line"]) == [3, 4]
    assert result.to_dataframe("row").loc[0, "derived.global.load.sectors_per_request"] == 4
    with pytest.raises(InputError, match="allowed: metrics, lines, row"):
        result.to_dataframe("rows")


def test_the_notebook_view_is_a_fragment_with_the_headline() -> None:
    html = copy()._repr_html_()
    assert html.startswith("<pre")
    assert "made" in html
    assert "<body" not in html


def test_the_notebook_view_is_legible_on_light_and_dark_pages() -> None:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(
            w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
            for w, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
        )

    lines = [global_line(7, "ld", 100, 3200, 400), shared_line(9, "ld", 3200, 100)]
    colours = set(re.findall(r"color: (#\w{6})", make(lines, extra={"busy": {"DRAM": 0.9}})._repr_html_()))
    assert len(colours) > 3
    for colour in colours:
        for page in ("#ffffff", "#111111"):
            low, high = sorted((light(colour), light(page)))
            assert (high + 0.05) / (low + 0.05) > 3, (colour, page)


def test_the_text_shows_figures_beside_their_ideal_and_fits_100_columns() -> None:
    text = summary(copy(busy={"DRAM": 0.92}, in_flight_bytes=132 * 8192, notes=["a note"]))
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "limited by DRAM (92% busy)" in text
    assert "Little's law asks for 21.82 kB (600 ns x 4.8 TB/s)" in text
    assert "float x = in[i];" in text
    assert "· a note" in text
    assert "not checked" not in text
    assert "\x1b" not in text


def test_the_text_says_when_a_profile_is_unchecked_assumed_or_the_run_sampled() -> None:
    result = make(
        gpu={"checked": False, "assumed": [f"l2.x{i}" for i in range(8)]},
        coverage={"ctas": 10, "of": 1056},
        uncertainty={"gpu__time_duration.sum": {"relative": 0.034, "why": "steady state"}},
    )
    text = " ".join(summary(result).split())
    assert "profile not checked against the GPU" in text
    assert "assumed without a source: l2.x0, l2.x1, l2.x2, l2.x3, l2.x4, l2.x5 and 2 more" in text
    assert "sampled: 10 of 1,056 CTAs timed" in text
    assert "gpu__time_duration.sum: ± 3.4% (steady state)" in text


def test_of_many_lines_and_findings_the_worst_are_shown_and_the_others_counted() -> None:
    lines = [global_line(i, "ld", 100, 3200 + i if i < 100 else 400, 400) for i in range(1, 161)]
    text = summary(make(lines))
    assert len(text.splitlines()) < 100
    assert "120 more lines: --format json has them all" in text
    assert "! 99 " in text
    assert "! 60 " in text
    assert "! 59 " not in text
    assert text.count("let neighbouring lanes touch") == 4
    assert "95 more like this: k.cu:5, k.cu:6, k.cu:7, k.cu:8, …" in " ".join(text.split())
    page = html(make(lines))
    assert page.count('<tr class="place">') == 160
    assert "95 more like this" in page


def test_long_source_lines_and_many_counts_keep_every_column() -> None:
    lines = [global_line(i, "ld", 10**9, 32 * 10**9, 4 * 10**9, "x" * 300) for i in range(1, 4)]
    text = summary(make([*lines, shared_line(9, "ld", 3200, 100)]))
    row = next(line for line in text.splitlines() if line.lstrip(" !").startswith("2 "))
    assert row.split()[-4:] == ["load", "1,000,000,000", "32", "(4)"]
    assert "…" in row
    assert all(len(line) <= 100 for line in text.splitlines())


def test_data_and_turnarounds_share_the_channels_and_activations_are_a_limit_of_their_own() -> None:
    busy = {"DRAM data": 0.5, "DRAM turnaround": 0.2, "DRAM activation": 0.1, "issue": 0.3}
    limiter = copy(busy=busy).derived["limiter"]
    assert (limiter["name"], limiter["share"]) == ("DRAM", pytest.approx(0.7))
    assert limiter["dram"] == {"data": 0.5, "turnaround": 0.2, "activation": 0.1}
    assert copy(busy=busy | {"DRAM activation": 0.9}).derived["limiter"]["share"] == 0.9


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_loses_no_figure(width: int) -> None:
    """Only source text is cut; a terminal of 120 columns shows every cell whole."""
    lines = [
        global_line(123, "ld", 1_234_567, 39_506_144, 4_938_268, "out[(long long)(y + j) * rows + x] = in[i];"),
        shared_line(124, "st", 3_200_000, 100_000, "tile[threadIdx.y][threadIdx.x] = value;"),
    ]
    metrics = {
        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum": 819_200,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 3_276_800,
        "lts__t_sectors_srcunit_tex_op_read.sum": 39_506_144,
        "dram__sectors_write.sum": 1_234_567,
    }
    result = make(lines, metrics, {"useful_bytes": {"read": 158_024_576, "write": 12_345_678}})
    wide, narrow = (set(re.findall(r"\d[\d.,]*(?: [kMGT]?B(?:/s)?)?", summary(result, w))) for w in (120, width))
    assert len(wide) > 40
    assert wide <= narrow
    assert max(map(len, summary(result, width).splitlines())) <= width


def test_a_result_shows_itself_in_a_line_and_in_notebooks() -> None:
    assert repr(make()) == "<Result made on h200, simulated: 10 us>"
    shown = make()._repr_html_()
    assert shown.startswith("<pre")
    assert "10 us" in shown
