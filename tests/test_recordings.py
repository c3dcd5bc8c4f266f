"""Recordings are written launch by launch, survive faults, say when they are stale, and need a GPU to be made."""
# ruff: noqa: E501

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from warpsim import recordings
from warpsim.errors import KernelError, UnsupportedError
from warpsim.metrics import REQUIRED
from warpsim.result import Result
from warpsim.scenario import Scenario, load, parse

from .test_replayer import FAKES, SCENARIO


def scenario(entry: str, name: str = "") -> Scenario:
    import dataclasses

    return dataclasses.replace(parse(SCENARIO.format(entry=entry), None), name=name or entry)


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake GPU for this process and its workers, and an ncu that reports each launch between start and stop."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    original = sys.modules["warpsim.replayer"]._parameters  # type: ignore[attr-defined]
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ncu").write_text(f"#!{sys.executable}\n" + NCU)
    (tools / "ncu").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    yield tools
    sys.modules["warpsim.replayer"]._parameters = original  # type: ignore[attr-defined]
    sys.modules.pop("cupy", None)


NCU = """
import csv, json, subprocess, sys
words = sys.argv[1:]
metrics = words[words.index("--metrics") + 1].split(",")
log = words[words.index("--log-file") + 1]
command = words[words.index("--metrics") + 2:]
subprocess.run(command, check=False)
lines = [json.loads(x) for x in open(command[-1])]
with open(log, "w") as file:
    out = csv.writer(file, quoting=csv.QUOTE_ALL)
    file.write("==PROF== Connected to process 1\\n")
    out.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", "CC", *metrics])
    out.writerow(["", "", "", "", "", *([""] * len(metrics))])
    for line in lines:
        if "launch" in line:
            shape = [str(tuple(line["launch"][k])) for k in ("block", "grid")]
            values = ["n/a" if "ldgsts" in m else "0" if "local" in m else "1,975,000,000" if "per_second" in m else "2,000" for m in metrics]
            out.writerow([line["index"], line["name"], *shape, "9.0", *values])
"""


def test_a_recording_holds_all_that_is_required(gpu: Path, tmp_path: Path) -> None:
    report = recordings.record([scenario("twice")], folder=tmp_path, repetitions=3)
    assert report.failures == []
    assert report.written == [tmp_path / "h200" / "twice.json"]
    result = Result.load(report.written[0])
    assert result.source == "measured"
    assert result.gpu == "h200"
    assert result.missing == []
    assert set(result.metrics) >= set(REQUIRED)
    assert not any("local" in name or "ldgsts" in name for name in result.metrics)
    assert result.clock_mhz == 1975
    assert [b["name"] for b in result.buffers] == ["in", "out"]
    assert result.buffers[0]["address"] % (2 << 20) == 0
    assert {"driver", "cuda", "cupy", "date", "hash", "event_us", "event_us_spread", "clocks", "samples"} <= set(
        result.recording
    )


def test_a_faulting_kernel_costs_only_itself(gpu: Path, tmp_path: Path) -> None:
    said: list[str] = []
    asked = [scenario("twice", "a"), scenario("faulty"), scenario("rejected"), scenario("twice", "b")]
    report = recordings.record(asked, folder=tmp_path, repetitions=3, say=said.append)
    assert [p.stem for p in report.written] == ["a", "b"]
    assert len(report.failures) == 2
    assert "illegal memory access" in report.failures[0]
    assert "CuPy cannot compile 'rejected'" in report.failures[1]
    assert Result.load(report.written[1]).missing == []


def test_without_counters_times_are_kept_and_the_reason_is_said(gpu: Path, tmp_path: Path) -> None:
    (gpu / "ncu").write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM'\n")
    said: list[str] = []
    report = recordings.record([scenario("twice")], folder=tmp_path, repetitions=3, say=said.append)
    result = Result.load(report.written[0])
    assert "reserves them for the administrator" in said[0]
    assert result.recording["counters"].startswith("none: no counters")
    assert result.time_ns == pytest.approx(1e3 * result.recording["event_us"])
    assert "gpu__time_duration.sum" in result.uncertainty


def test_a_recording_is_stale_once_the_kernel_or_launch_changes(gpu: Path, tmp_path: Path) -> None:
    made = scenario("twice")
    recordings.record([made], folder=tmp_path, repetitions=3)
    assert recordings.why_stale(made.bind(), "h200", tmp_path, default=made.params) == ""
    commented = parse("# a comment\n" + SCENARIO.format(entry="twice"), None)
    found = recordings.find(made.bind(), "h200", tmp_path, default=made.params)
    assert found is not None
    assert not recordings.stale(found, commented.bind())
    for old, new in (("2 * in", "3 * in"), ("grid = [8]", "grid = [9]"), ("3*i", "4*i"), ("T = 32", "T = 33")):
        changed = parse(SCENARIO.format(entry="twice").replace(old, new), None)
        assert recordings.stale(found, changed.bind()), new
    why = recordings.why_stale(made.bind({"n": 10}), "h200", tmp_path, default=made.params)
    assert why == "twice: not recorded on h200"
    assert recordings.record([made], folder=tmp_path, only_stale=True).written == []


def test_other_parameters_have_a_file_of_their_own(gpu: Path, tmp_path: Path) -> None:
    report = recordings.record([scenario("twice")], params={"n": 500}, folder=tmp_path, repetitions=3)
    assert report.written[0].name == "twice@n=500.json"


def test_after_the_time_limit_no_group_is_begun(gpu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "GROUP", 1)
    report = recordings.record(
        [scenario("twice", "a"), scenario("twice", "b")], folder=tmp_path, repetitions=3, limit=0
    )
    assert report.written == []
    assert report.failures == ["2 scenarios not measured: the time limit of 0 s was reached"]


def test_replay_returns_or_raises(gpu: Path) -> None:
    assert recordings.replay(scenario("twice")).source == "measured"
    with pytest.raises(KernelError, match="illegal memory access"):
        recordings.replay(scenario("faulty"))


def test_recording_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r"needs a GPU and warpsim\[gpu\]"):
        recordings.record([scenario("twice")], folder=tmp_path)
    assert json.dumps([str(p) for p in tmp_path.iterdir()]) == "[]"


def test_faults_are_never_run_on_a_gpu_unasked() -> None:
    names = recordings.recordable()
    assert "transpose_tiled" in names
    assert not any("faults" in name for name in names)


RECORDED = sorted(p.name for p in (recordings.shipped("scenarios") / "recorded").glob("*") if p.is_dir())


@pytest.mark.parametrize("gpu_name", RECORDED)
def test_shipped_recordings_are_of_the_shipped_scenarios(gpu_name: str) -> None:
    assert recordings.check_all([load(name) for name in recordings.recordable()], gpu_name) == []
