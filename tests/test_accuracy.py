"""Accuracy table: small recorded launches come out as stated; errors, counts and intervals mean what they say."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from warpsim import ablation, accuracy, uncertainty
from warpsim.accuracy import L1, READS, TIME, WRITES, Row, table
from warpsim.cases import case_folder, every_case
from warpsim.gpu import load_gpu
from warpsim.metrics import global_requests, global_sectors

pytestmark = pytest.mark.skipif(case_folder() is None, reason="recorded cases come with the source")

QUICK = (
    "simple_stride_16", "simple_shared_conflict", "reduce_shuffle_8MB", "max_pool2_1000", "fft_stage_8", "rope_2048",
)  # fmt: skip
"""Launches that take some tenths of a second each to simulate."""


@pytest.mark.parametrize("name", QUICK)
def test_recorded_launch(name: str) -> None:
    case = next(c for c in every_case() if c.name == name)
    row = accuracy.predict(case)
    assert not row.error
    stated = uncertainty.expected("h200", row.busy, row.predicted[TIME])[TIME]["relative"]
    assert abs(row.ns / row.predicted[TIME] - 1) <= stated
    for op in ("ld", "st", "atom", "red"):
        for count in (global_requests(op), global_sectors(op)):
            assert row.predicted[count] == row.measured[count]
    assert row.predicted["smsp__inst_executed.sum"] == row.measured["smsp__inst_executed.sum"]
    assert row.predicted[READS] == pytest.approx(row.measured[READS], rel=0.03, abs=1000)


def row(name: str = "a", ns: float = 20_000, predicted: float = 22_000, **more: object) -> Row:
    measured = {TIME: ns, "sm__cycles_elapsed.max": 2 * ns, READS: 4e6, WRITES: 1000, L1[0]: 40}
    measured |= {global_sectors("ld"): 100}
    guess = measured | {TIME: predicted, "sm__cycles_elapsed.max": 2 * predicted, READS: 4.2e6, L1[0]: 45, L1[1]: 55}
    given = {"name": name, "kind": "copy", "tuned": False, "gpu": "h200", "model": "m", "busy": {"DRAM data": 0.9}}
    return Row(**(given | {"measured": measured, "predicted": guess} | more))  # type: ignore[arg-type]


def test_errors_of_a_table() -> None:
    figures = table([row(), row("b", predicted=18_000), row("c", ns=5_000, predicted=10_000)])["figures"]
    time = figures["time (%)"]
    assert (time["cases"], round(time["mean"], 9), round(time["bias"], 9), time["within_15"]) == (2, 10, 0, 100)
    assert figures["time, shorter than 10 us (%)"]["worst"] == 100
    assert figures["L1 hit rate (points)"]["mean"] == 5  # misses that were not counted are the sectors without the hits
    assert figures["DRAM reads over 60 MB (%)"]["mean"] == pytest.approx(5)
    assert figures["DRAM writes over 60 MB (%)"]["cases"] == 0


def test_a_count_that_differs_is_named() -> None:
    one = row()
    odd = dataclasses.replace(one, predicted={**one.predicted, global_sectors("ld"): 101})
    assert table([one, odd])["unequal"] == {"a": [f"{global_sectors('ld')} 101 for 100"]}


def test_a_failed_case_is_told_and_counts_nowhere() -> None:
    failed = dataclasses.replace(row("b"), predicted={}, busy={}, error="KernelError: out of bounds")
    content = table([row(), failed])
    assert content["failed"] == {"b": "KernelError: out of bounds"}
    assert content["figures"]["time (%)"]["cases"] == 1
    assert any("failed: b: KernelError" in line for line in accuracy.lines("untuned", content))


def test_rows_of_another_model_are_simulated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[str] = []

    def predict(case: accuracy.Case, gpu: object = None) -> Row:
        simulated.append(case.name)
        return row(case.name, model=accuracy.fingerprint())

    monkeypatch.setattr(accuracy, "predict", predict)
    arguments = ["--only", "fft_stage", "--resume", str(tmp_path / "rows.jsonl")]
    for expected in (2, 2):  # the second run finds the rows of the first
        assert accuracy.main(arguments) == 0
        assert len(simulated) == expected
    monkeypatch.setattr(accuracy, "fingerprint", lambda: "another")
    assert accuracy.main(arguments) == 0
    assert len(simulated) == 4


def test_table_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(accuracy, "predict", lambda case, gpu=None: row(case.name, tuned=case.tuned))
    assert accuracy.main(["--only", "copy_f4_1Mi", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tuned"]["figures"]["time (%)"]["mean"] == pytest.approx(10)


def test_intervals_take_in_nine_of_ten() -> None:
    errors = [k / 100 for k in range(1, 21)]
    assert uncertainty.half_width(errors) == 0.18
    found = uncertainty.intervals({"DRAM": errors, "issue": [0.5]})
    assert found == {"DRAM": {"relative": 0.18, "launches": 20}, "any": {"relative": 0.19, "launches": 21}}


@pytest.mark.parametrize(("busy", "ns", "kind"), [
    ({"DRAM data": 0.5, "DRAM turnaround": 0.2, "issue": 0.65}, 20_000, "DRAM"),
    ({"data stage": 0.9, "issue": 0.65}, 20_000, "L1TEX"),
    ({"L2 slices": 0.59, "issue": 0.2}, 20_000, "latency"),
    ({"L2 slices": 0.99}, 9_000, uncertainty.SHORT),
])  # fmt: skip
def test_class_of_a_kernel(busy: dict[str, float], ns: float, kind: str) -> None:
    assert uncertainty.limiter_class(busy, ns) == kind


def test_most_untuned_times_lie_in_their_interval() -> None:
    table = json.loads((Path(uncertainty.__file__).parent / "gpus" / "h200.errors.json").read_text())
    assert all(0 < entry["relative"] < 1 and entry["launches"] >= 8 for entry in table.values())
    assert uncertainty.expected("a100-80gb", {"DRAM data": 0.9}, 20_000) == {}


def test_every_mechanism_can_be_switched_off() -> None:
    gpu = load_gpu("h200")
    for figures in ablation.MECHANISMS.values():
        assert ablation.without(gpu, figures) != gpu
    names = {c.name for c in every_case() if c.measured is not None and not c.note}
    assert set(ablation.CASES) <= names


def test_a_mechanism_off_changes_times() -> None:
    cases = [c for c in every_case() if c.name == "simple_stride_16"]
    gpu = load_gpu("h200")
    whole, off = (next(accuracy.run(cases, gpu=g)) for g in (gpu, ablation.without(gpu, {"l2.fetch_bytes": 32})))
    assert off.predicted[READS] == pytest.approx(whole.predicted[READS] / 2, rel=0.01)
    assert not math.isclose(off.predicted[TIME], whole.predicted[TIME], rel_tol=0.05)
