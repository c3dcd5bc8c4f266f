"""Running a campaign, and replaying a corpus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpsim import workers
from warpsim.campaign.cases import Case, Verdicts, case_of, judge_kernels, judge_pattern
from warpsim.campaign.chunks import Chunk, Settings, plan, work
from warpsim.campaign.report import Progress, Report, campaign_name, check_sizes
from warpsim.corpus import Corpus, Entry, Journal
from warpsim.errors import InputError, UnsupportedError
from warpsim.gpu import Gpu, load_gpu
from warpsim.grammar import SmallKernel
from warpsim.replayer import require_gpu

__all__ = ["replay", "run"]

_LOOK = 10  # seconds after which a campaign looks what others with the same corpus have done


def run(
    corpus: str | Path,
    *,
    patterns: int = 20_000,
    kernels: int = 1_000,
    gpu: str = "h200",
    seed: int = 0,
    jobs: int = 0,
    scheduler: str | None = None,
    limit: float | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Report:
    """Examine so many patterns and kernels offline, or go on with it; after `limit` seconds begin no further chunk.

    All local cores work (`jobs` processes), or a Dask cluster at `scheduler`. The report is over the whole campaign:
    the same corpus, seed, sizes and version of warpsim.
    """
    check_sizes(patterns, kernels)
    profile = load_gpu(gpu)
    folder = Corpus(corpus)
    folder.folder.mkdir(parents=True, exist_ok=True)
    chunks = plan(patterns, kernels, seed)
    name = campaign_name(patterns, kernels, seed, profile)
    before = folder.finished(name)
    left = [chunk for chunk in chunks if chunk.name not in before]
    report = Report(name, str(corpus), profile.name)
    settings = Settings(str(Path(corpus).absolute()), gpu)
    found = sum(len(line["failures"]) for line in before.values())
    began = time.monotonic()
    examined = 0
    seen = Report(name, str(corpus), profile.name)
    seen.add(before.values())
    journal = Journal(folder, name)
    done: dict[str, dict[str, Any]] = {}
    try:
        tasks = _left(left, settings, limit, folder, name)
        for _, outcome in workers.as_done(work, tasks, jobs=jobs, scheduler=scheduler):
            line = asdict(outcome)
            journal.write(line)
            done[outcome.chunk] = line
            examined += outcome.examples
            found += len(outcome.failures)
            seen.add([line])
            if watch is not None:
                seconds = time.monotonic() - began
                watch(Progress(len(before) + len(done), len(chunks), examined, seconds, found, seen.covered))
    finally:
        journal.close()
    everything = {**folder.finished(name), **done}
    report.add(everything.values())
    report.seconds = time.monotonic() - began
    report.chunks = (len(done), len(before), len(chunks))
    names = {failure for line in everything.values() for failure in line["failures"]}
    report.failures = [entry for entry in folder.entries() if entry.name in names]
    missing = len(chunks) - len(everything)
    if missing > 0:
        report.notes.append(f"{missing} of {len(chunks)} chunks are left: run the same command again to go on")
    return report


def _left(
    chunks: Sequence[Chunk], settings: Settings, limit: float | None, folder: Corpus, name: str
) -> Iterator[tuple[Chunk, Settings]]:
    """Chunks to do, until the time is up; those that another process has done meanwhile are passed over."""
    began = looked = time.monotonic()
    theirs: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        now = time.monotonic()
        if limit is not None and now - began > limit:
            return
        if now - looked > _LOOK:
            theirs, looked = folder.finished(name), now
        if chunk.name not in theirs:
            yield chunk, settings


def replay(corpus: str | Path, *, gpu: str | None = None, watch: Callable[[Progress], None] | None = None) -> Report:
    """Judge every failure of a corpus again; those that hold now are `closed`."""
    folder = Corpus(corpus)
    if not folder.failures.is_dir():
        raise InputError(f"corpus '{corpus}': there is no folder '{folder.failures}' of failures")
    entries = folder.entries()
    report = Report("replay", str(corpus), gpu or "as recorded")
    began = time.monotonic()
    for number, entry in enumerate(entries, 1):
        verdict = _again(entry, gpu)
        if verdict is None:
            report.closed.append(entry.name)
        else:
            report.failures.append(Entry(entry.name, {**entry.document, **verdict}))
            report.failed[entry.law] = report.failed.get(entry.law, 0) + 1
        if watch is not None:
            watch(Progress(number, len(entries), number, time.monotonic() - began, len(report.failures)))
    report.examples = {"failures": len(entries)}
    report.seconds = time.monotonic() - began
    return report


def _again(entry: Entry, gpu: str | None) -> dict[str, Any] | None:
    """Expected and predicted figures now, or None where the law holds."""
    try:
        case: Case = case_of(entry.document["case"])
        profile = load_gpu(gpu or entry.document["gpu"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"corpus entry '{entry.name}': not a case ({type(error).__name__}: {error})") from None
    law = entry.law
    if law.startswith("gpu:"):
        return _measured_again(entry, case, profile)
    found: Verdicts
    if isinstance(case, SmallKernel):
        found = judge_kernels([case], profile, (law,))[0]
    else:
        found = judge_pattern(case, profile, (law,))
    if law not in found and "is_accepted" not in found:
        return None
    wrong = found.get(law) or found["is_accepted"]
    return {"expected": wrong.expected, "predicted": wrong.predicted, "what": wrong.what}


def _measured_again(entry: Entry, case: Case, gpu: Gpu) -> dict[str, Any] | None:
    """A failure against hardware: measured again on a GPU that is here; elsewhere its counters are those of then."""
    from warpsim.campaign import hardware

    try:
        require_gpu()
    except UnsupportedError:
        figures = hardware.predict_again(entry, case, gpu)
        wrong = {name: value for name, value in entry.document["expected"].items() if figures.get(name) != value}
        if entry.law == "gpu:time" and all(hardware.time_agrees(figures[name], [wrong[name]]) for name in wrong):
            return None
        if not wrong:
            return None
        return {"expected": wrong, "predicted": {name: figures.get(name) for name in wrong}, "what": "as measured then"}
    again = hardware.replay_on_gpu(entry, case, gpu)
    return None if again is None else {"expected": again.expected, "predicted": again.predicted, "what": again.what}
