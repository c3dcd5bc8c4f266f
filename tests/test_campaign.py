"""Campaigns: found, kept, resumed after kill -9, shared by two, spread over a Dask cluster that loses a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.planted import PATTERN_FAULTS
from warpsim import campaign, coalescing, laws, workers
from warpsim.campaign import chunks
from warpsim.campaign.cases import case_of, scenario_of
from warpsim.campaign.chunks import LEAST, Settings, cells, plan
from warpsim.cli import main
from warpsim.corpus import Corpus, Entry, Journal
from warpsim.errors import InputError, UnsupportedError
from warpsim.scenario import load, parse

RUN = """
import sys
from warpsim import campaign
report = campaign.run({folder!r}, patterns={patterns}, kernels=0, jobs=1, seed={seed})
print(report.total, report.chunks[1], len(report.failures))
"""


def start(folder: Path, patterns: int, seed: int = 0) -> subprocess.Popen[str]:
    code = RUN.format(folder=str(folder), patterns=patterns, seed=seed)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def journal_lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "journal").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n")[:-1]]


def test_a_killed_campaign_goes_on_without_losing_or_repeating_work(tmp_path: Path) -> None:
    first = start(tmp_path, 400)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (tmp_path / "journal").exists() and len(journal_lines(tmp_path)) >= 2:
            break
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert first.stdout is not None
    first.stdout.close()
    before = journal_lines(tmp_path)
    assert 2 <= len(before) < 16
    second = start(tmp_path, 400)
    assert second.communicate()[0].split() == ["400", str(len(before)), "0"]
    names = [line["chunk"] for line in journal_lines(tmp_path)]
    assert sorted(names) == sorted(chunk.name for chunk in plan(400, 0, 0))  # each once


def test_a_line_that_was_not_finished_is_no_line(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    journal = Journal(corpus, "c")
    for number in range(2):
        journal.write({"chunk": f"patterns-{number}", "failures": []})
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-9])
    assert list(corpus.finished("c")) == ["patterns-0"]
    assert corpus.finished("another") == {}


def test_two_campaigns_share_a_corpus(tmp_path: Path) -> None:
    both = [start(tmp_path, 100, seed=1), start(tmp_path, 100, seed=2)]
    assert [process.communicate()[0].split() for process in both] == [["100", "0", "0"]] * 2
    lines = journal_lines(tmp_path)
    assert len(lines) == len({(line["campaign"], line["chunk"]) for line in lines}) == 8
    assert len(list((tmp_path / "journal").iterdir())) == 2


def test_a_failure_that_two_find_is_kept_once_and_whole(tmp_path: Path) -> None:
    names = {Corpus(tmp_path).add("law", "schema = 1\n", {"case": {"a": 1}, "found_by": who}) for who in ("x", "y")}
    (name,) = names
    (entry,) = Corpus(tmp_path).entries()
    assert (entry.name, entry.law, entry.document["found_by"]) == (name, "law", "x")
    assert [p.name for p in (tmp_path / "failures").iterdir()] == [name]  # no half-written folder beside it


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    coalescing.compiled()
    monkeypatch.delitem(laws.PATTERN_LAWS, "is_the_same_compiled")
    monkeypatch.setattr(chunks, "Settings", lambda corpus, gpu: Settings(corpus, gpu, 3, 1))
    PATTERN_FAULTS["lost_sector"](monkeypatch)
    return monkeypatch


def test_failures_are_kept_as_scenarios_and_replayed(
    tmp_path: Path, faulty: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["campaign", str(tmp_path), "--patterns", "25", "--kernels", "0", "--jobs", "1", "--format", "json"]) == 1
    )
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert "checks disagreed" in shown.err
    assert report["ok"] is False
    assert report["failed"]["equals_reference"] > 0
    (smallest, *_) = sorted(report["failures"], key=lambda f: f["size"]["lanes"])
    assert smallest["size"]["lanes"] <= 4
    folder = tmp_path / "failures" / smallest["name"]
    assert load(folder / "scenario.toml").bind().threads == 32
    document = json.loads((folder / "failure.json").read_text())
    assert document["expected"] != document["predicted"]
    assert {"law", "case", "gpu", "what", "found_by", "warpsim"} <= set(document)

    assert main(["campaign", str(tmp_path), "--replay"]) == 1  # the fault is still there
    assert smallest["name"] in capsys.readouterr().out
    faulty.undo()
    assert main(["campaign", str(tmp_path), "--replay"]) == 0
    assert f"closed: {smallest['name']}" in capsys.readouterr().out


def test_a_campaign_without_disagreement_covers_all_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", str(tmp_path), "--patterns", "150", "--kernels", "0", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "no disagreement" in out
    for feature in ("op", "width", "span", "mask density", "lines touched"):
        assert f"\n{feature} " in out
    assert main(["campaign", str(tmp_path), "--patterns", "150", "--kernels", "0", "--jobs", "1"]) == 0
    assert "(6 of 6 chunks were done before)" in capsys.readouterr().out


def test_progress_says_how_much_of_each_feature_was_met(tmp_path: Path) -> None:
    seen: list[campaign.Progress] = []
    campaign.run(tmp_path, patterns=LEAST * len(cells()) // 50, kernels=0, jobs=1, watch=seen.append)
    assert [now.done for now in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].of == len(seen)
    first, last = (now.coverage.split("  ") for now in (seen[0], seen[-1]))
    assert first[0] == "op 1/11"
    assert {"span 3/3", "mask density 3/3", "lines touched 4/4"} <= set(last)


def test_the_time_limit_leaves_work_for_another_time(tmp_path: Path) -> None:
    report = campaign.run(tmp_path, patterns=2000, kernels=0, jobs=1, limit=0.01)
    assert 0 < report.chunks[0] < 80
    assert any("run the same command again" in note for note in report.notes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--patterns", "0", "--kernels", "0"], "at least one case"),
        (["--on-gpu", "--patterns", "0", "--kernels", "0"], "at least one case"),
        (["--on-gpu", "--replay"], "do not go together"),
        (["--gpu", "h2000"], "h2000"),
        (["--replay"], "no folder"),
    ],
)
def test_wrong_words_give_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", str(tmp_path / "c"), *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


# ---- workers


def square(number: int) -> int:
    return number * number


def die_once(task: tuple[int, str]) -> int:
    """The process that meets number 3 first dies."""
    number, mark = task
    if number == 3 and not Path(mark).exists():
        Path(mark).touch()
        os._exit(9)
    time.sleep(0.02)
    return number * number


def slow(task: tuple[int, str]) -> tuple[int, int]:
    number, folder = task
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    time.sleep(0.1)
    return number, os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs: int) -> None:
    assert list(workers.in_order(square, range(20), jobs=jobs)) == [n * n for n in range(20)]


def test_a_worker_process_that_dies_loses_nothing(tmp_path: Path) -> None:
    tasks = [(number, str(tmp_path / "mark")) for number in range(12)]
    assert list(workers.in_order(die_once, tasks, jobs=2)) == [n * n for n in range(12)]
    assert (tmp_path / "mark").exists()


def test_workers_go_when_their_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from tests.test_campaign import slow; from warpsim import workers\n"
        "if __name__ == '__main__': list(workers.in_order(slow, [(n, sys.argv[1]) for n in range(2000)], jobs=2))\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    marks = tmp_path / "marks"
    marks.mkdir()
    parent = subprocess.Popen([sys.executable, str(script), str(marks), str(Path(__file__).parents[1])])
    deadline = time.monotonic() + 120
    while len({p.name.partition("-")[2] for p in marks.iterdir()}) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    children = {int(p.name.partition("-")[2]) for p in marks.iterdir()}
    parent.kill()
    parent.wait()
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(children) == 2
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in children)


def test_a_dask_cluster_that_loses_a_worker_gives_the_same(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    tasks = [(number, str(tmp_path)) for number in range(24)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        found = []
        for number, pid in workers.in_order(slow, tasks, scheduler=cluster.scheduler_address):
            found.append(number)
            if number == 2:
                os.kill(pid, signal.SIGKILL)
                lost = pid
    assert found == list(range(24))
    assert len({p.name.partition("-")[2] for p in tmp_path.iterdir()} - {str(lost)}) >= 1
    assert not list(tmp_path.glob(f"23-{lost}"))  # others did the rest


def test_a_campaign_on_a_dask_cluster_that_loses_a_worker_finds_what_a_local_one_finds(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]

        def lose(now: campaign.Progress) -> None:
            if now.done == 2:
                os.kill(pids[0], signal.SIGKILL)

        there = campaign.run(
            tmp_path / "a", patterns=250, kernels=0, scheduler=cluster.scheduler_address, watch=lose
        )  # fmt: skip
    here = campaign.run(tmp_path / "b", patterns=250, kernels=0, jobs=1)
    assert (there.examples, there.coverage, there.ok) == (here.examples, here.coverage, here.ok)
    assert there.chunks == here.chunks == (10, 0, 10)


def test_a_scheduler_that_is_not_there_is_an_input_error() -> None:
    pytest.importorskip("distributed")
    with pytest.raises((InputError, UnsupportedError), match="scheduler"):
        list(workers.in_order(square, [1, 2], scheduler="nowhere:0:0"))


# ---- disagreements that are known


KNOWN = Corpus(Path(__file__).parent / "corpus")
REMAIN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="docs/crosscheck.md, Disagreements that remain")


@pytest.mark.cuda
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name, marks=REMAIN) for entry in KNOWN.entries()])
def test_a_known_disagreement_closes(entry: Entry, tmp_path: Path) -> None:
    """What tests/corpus keeps is predicted as an H200 counted it; on the day it is, its folder goes."""
    Corpus(tmp_path).add(entry.law, "", entry.document)
    assert campaign.replay(tmp_path).ok


def test_known_disagreements_are_scenarios_as_a_campaign_wrote_them() -> None:
    entries = KNOWN.entries()
    assert {entry.law for entry in entries} == {"gpu:patterns", "gpu:time"}
    for entry in entries:
        case = case_of(entry.document["case"])
        scenario = load(KNOWN.failures / entry.name / "scenario.toml")
        description = f"{entry.law}: {entry.document['what']}"
        assert scenario.bind().source == parse(scenario_of(case, "h200", description)).bind().source
