"""Campaigns on a GPU: single-warp patterns and generated kernels, predicted and counted.

Patterns are replayed hundreds a session from a table (`patternreplay`); their counters are those of one warp by itself
and must be equal where the rule is settled. Kernels are launched from the very code that was simulated: requests,
sectors, executed instructions and outputs must be equal, wavefronts and conflicts too for a launch of one warp (more
warps only add to them), and the time must be within the tolerance of a comparison (`time_agrees`).

Before they are counted kernels have run once, and nothing is flushed: their code, constants and data are in the caches
in every pass of the profiler, and that is what is predicted. How cold they were would depend on the pass.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from warpsim import batch, cache, coalescing, grammar, patterns
from warpsim.campaign.cases import Case, features
from warpsim.campaign.chunks import KEPT, LEAST, Chunk, Outcome, cells, plan, record
from warpsim.campaign.hunt import Round, draw, shrink
from warpsim.campaign.report import Progress, Report, campaign_name, check_sizes
from warpsim.campaign.simplify import complexity
from warpsim.comparison import TIME, TOLERANCES
from warpsim.corpus import Corpus, Entry, Journal
from warpsim.cupti import RangeProfiler
from warpsim.errors import WarpsimError
from warpsim.frontend import nvrtc
from warpsim.frontend.counts import count
from warpsim.frontend.program import Program
from warpsim.gpu import Gpu, load_gpu
from warpsim.grammar import SmallKernel
from warpsim.launch import ALIGNMENT
from warpsim.laws import Disagreement, fault_of
from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts
from warpsim.patternreplay import PatternReplay
from warpsim.patterntable import TABLE, Pattern, metrics_of, reading
from warpsim.replayer import require_gpu

__all__ = ["KernelBench", "PatternBench", "predicted", "run_on_gpu"]

Figures = dict[str, int]
Judged = tuple[str, Disagreement] | None  # law and what is wrong

_NOTHING = Pattern("load", "global", 4, (0,) * 32, (False,) * 32, name="nothing")  # what a launch counts by itself
_SHRUNK = 6  # failures of a law in a session after which further ones are kept as drawn
_TIMINGS = 5  # times that a kernel is measured
_REQUESTS_AND_SECTORS = [f(op) for op in ("ld", "st", "red") for f in (global_requests, global_sectors)]
_STAGES = [
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    *(f(op) for op in ("ld", "st") for f in (shared_wavefronts, shared_conflicts)),
]
COUNTED = (*_REQUESTS_AND_SECTORS, "smsp__inst_executed.sum", *_STAGES, TIME)


# ---- patterns


def predicted(pattern: Pattern, arena: int, gpu: Gpu) -> Figures:
    """The settled figures of a pattern at its real address, under the names that `metrics_of` measures."""
    base = arena if pattern.space == "global" else 0
    addresses = [a + base if on else 0 for a, on in zip(pattern.addresses, pattern.active, strict=True)]
    if pattern.kind == "cas":
        return {"requests": 1, **_compare_and_swap(pattern, addresses, gpu)}
    op = "atomic" if pattern.space == "shared" and pattern.op == "red" else pattern.op
    found = patterns.access(addresses, width=pattern.width, op=op, space=pattern.space, active=pattern.active, gpu=gpu)
    names = ["data_wavefronts", "conflicts"]
    if pattern.space == "global":
        names = ["sectors", "data_wavefronts", "l2_requests", *(["tag_wavefronts"] if pattern.op == "load" else [])]
    if not found.exact:
        names = ["sectors"] if pattern.op == "store" and pattern.space == "global" else []
    return {"requests": 1, **{name: int(getattr(found, name)) for name in names}}


def _compare_and_swap(pattern: Pattern, addresses: list[int], gpu: Gpu) -> Figures:
    """The figures of the one atomic that `access` does not have."""
    lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    if pattern.space == "shared":
        coalescing.shared_request(addresses, pattern.mask, pattern.width, coalescing.SHARED_CAS, out, scratch)
        return {"data_wavefronts": out[0], "conflicts": out[0] - out[1]}
    banks = gpu.l1.tag_bank_masks
    coalescing.atomic_request(addresses, pattern.mask, pattern.width, banks, lines, out, scratch, coalescing.CAS)
    return {"sectors": out[0], "data_wavefronts": out[3], "l2_requests": out[4]}


class PatternBench:
    """Measures patterns of one operation and space at a time."""

    def __init__(self) -> None:
        self.replay = PatternReplay()
        self.group: tuple[str, str] | None = None
        self.profiler: RangeProfiler | None = None

    def close(self) -> None:
        """Give memory and counters back."""
        if self.profiler is not None:
            self.profiler.close()
        self.replay.close()

    def measure(self, cases: Sequence[Pattern]) -> list[Figures]:
        """Figures of each, all of one (op, space), a launch a pattern."""
        group = (cases[0].op, cases[0].space)
        names = metrics_of(*group)
        if group != self.group or self.profiler is None:
            if self.profiler is not None:
                self.profiler.close()
                self.profiler = None
            self.profiler = RangeProfiler(self.replay.context(), list(names.values()), ranges=TABLE)
            self.group = group
        found: list[Figures] = []
        for first in range(0, len(cases), TABLE - 1):
            table = [_NOTHING, *cases[first : first + TABLE - 1]]
            self.replay.load(table)

            def launch(rows: int = len(table)) -> None:
                for row in range(rows):
                    self.replay.launch(row)
                self.replay.cp.cuda.runtime.deviceSynchronize()

            values = self.profiler.measure(launch, len(table))
            found += [reading(list(names), row, values[0]) for row in values[1:]]
        return found

    def judge(self, cases: Sequence[Pattern], gpu: Gpu) -> list[Judged]:
        """What is wrong with the prediction of each pattern, or None."""
        judged: list[Judged] = []
        for case, measured in zip(cases, self.measure(cases), strict=True):
            figures = predicted(case, self.replay.arena, gpu)
            expected = {name: measured[name] for name in figures}
            if expected == figures:
                judged.append(None)
                continue
            wrong = Disagreement(expected, figures, "counted on the GPU")
            wrong.at = {"arena": self.replay.arena}
            judged.append(("gpu:patterns", wrong))
        return judged


# ---- kernels


def predict_kernel(
    kernel: SmallKernel, program: Program, gpu: Gpu, addresses: Mapping[str, int], timed: bool
) -> dict[str, float]:
    """Counters of a kernel whose buffers lie at these addresses, and its time."""
    from warpsim import simulator

    launch = batch.launch_of(kernel, addresses=addresses)
    metrics: dict[str, float] = dict(count(batch.execute(launch, program, gpu)).metrics)
    if timed:
        again = batch.launch_of(kernel, addresses=addresses)
        again = replace(again, state=replace(again.state, caches="warm"))
        warm = replace(gpu, launch=replace(gpu.launch, cold_start=0))
        result = simulator.simulate_bound(again, gpu=warm, exact=True, timeline=False, program=program)
        metrics[TIME] = float(result.metrics[TIME])
    return metrics


def time_agrees(predicted: float, measured: Sequence[float]) -> bool:
    """Whether a time in ns is within the tolerance of a comparison of what was measured, or between two of it.

    That is 10 %, and at least 500 ns, which decides below 5 us: a launch is 1.3 us longer than its work, and that
    differs from one launch of an empty kernel to the next by 200 ns.
    """
    tolerance = TOLERANCES[TIME]
    low, high = (value + sign * max(tolerance.share * value, tolerance.floor)
                 for value, sign in ((min(measured), -1), (max(measured), 1)))  # fmt: skip
    return low <= predicted <= high


class KernelBench:
    """Launches generated kernels from the code that is simulated, and counts them."""

    def __init__(self) -> None:
        self.cp = require_gpu()
        self.runtime = self.cp.cuda.runtime
        self.times: list[tuple[float, list[float]]] = []  # of the kernels judged last: predicted, measured in ns

    def judge(
        self, kernels: Sequence[SmallKernel], gpu: Gpu, *, timed: bool = True
    ) -> list[list[tuple[str, Disagreement]]]:
        """The laws that each kernel breaks: gpu:counters, gpu:outputs, gpu:time, is_accepted."""
        self.times = []
        arch = int(gpu.arch.removeprefix("sm_"))
        compiled = nvrtc.compile_cubin(batch.unit(kernels), "k0", arch)
        programs = batch.programs(kernels, arch)
        found: list[list[tuple[str, Disagreement]]] = [[] for _ in kernels]
        with tempfile.TemporaryDirectory(prefix="warpsim-") as scratch:
            file = Path(scratch) / "kernels.cubin"
            file.write_bytes(compiled.cubin)
            module = self.cp.RawModule(path=str(file))  # read when the first function is asked for
            functions = [module.get_function(f"k{number}") for number in range(len(kernels))]
        size = sum(ALIGNMENT for kernel in kernels for _ in grammar.buffers(kernel))
        pointer = self.runtime.malloc(size + ALIGNMENT)
        try:
            position = -(-pointer // ALIGNMENT) * ALIGNMENT
            ready: list[tuple[int, Any, dict[str, int]]] = []
            predictions: dict[int, dict[str, float]] = {}
            for number, kernel in enumerate(kernels):
                addresses = {name: position + k * ALIGNMENT for k, name in enumerate(grammar.buffers(kernel))}
                position += ALIGNMENT * len(addresses)
                try:
                    predictions[number] = predict_kernel(kernel, programs[number], gpu, addresses, timed)
                except Exception as error:  # not launched then: what the executor refuses could fault
                    found[number].append(("is_accepted", fault_of(error)))
                    continue
                for name, array in grammar.inputs(kernel).items():
                    self.runtime.memcpy(
                        addresses[name], array.ctypes.data, array.nbytes, self.runtime.memcpyHostToDevice
                    )
                ready.append((number, functions[number], addresses))
            if ready:
                measured = self._count(kernels, ready, timed)
                for (number, _, addresses), (counted, times) in zip(ready, measured, strict=True):
                    wrong = [*self._compare(kernels[number], predictions[number], counted, times if timed else [])]
                    wrong += self._outputs(kernels[number], addresses)
                    for _, disagreement in wrong:
                        disagreement.at = addresses
                    found[number] += wrong
        finally:
            self.runtime.free(pointer)
        return found

    def _count(
        self, kernels: Sequence[SmallKernel], ready: Sequence[tuple[int, Any, dict[str, int]]], timed: bool
    ) -> list[tuple[dict[str, float], list[float]]]:
        """Counters and times of each."""

        def launch() -> None:
            for number, function, addresses in ready:
                kernel = kernels[number]
                function(kernel.grid, kernel.block, tuple(np.uint64(a) for a in addresses.values()))
            self.runtime.deviceSynchronize()

        context = int(self.cp.cuda.driver.ctxGetCurrent())
        launch()  # code and data come into the caches
        with RangeProfiler(context, COUNTED, ranges=len(ready)) as profiler:
            rounds = [profiler.measure(launch, len(ready)) for _ in range(_TIMINGS if timed else 1)]
        counted = [dict(zip(COUNTED, row, strict=True)) for row in rounds[0]]
        place = COUNTED.index(TIME)
        return [(counted[k], [rows[k][place] for rows in rounds]) for k in range(len(ready))]

    def _compare(
        self, kernel: SmallKernel, figures: dict[str, float], counted: dict[str, float], times: list[float]
    ) -> Iterator[tuple[str, Disagreement]]:
        alone = kernel.ctas == 1 and kernel.threads <= 32
        equal = (*_REQUESTS_AND_SECTORS, "smsp__inst_executed.sum", *(_STAGES if alone else ()))
        expected = {name: round(counted[name]) for name in equal}
        predictions = {name: int(figures.get(name, 0)) for name in equal}
        for name in () if alone else _STAGES:
            if figures.get(name, 0) > counted[name]:
                expected[name], predictions[name] = round(counted[name]), int(figures[name])
        if expected != predictions:
            yield "gpu:counters", Disagreement(expected, predictions, "counted on the GPU")
        if times:
            self.times.append((figures[TIME], times))
            if not time_agrees(figures[TIME], times):
                what = f"time, ns; measured {', '.join(str(round(t)) for t in sorted(times))}"
                yield "gpu:time", Disagreement({TIME: round(median(times))}, {TIME: round(figures[TIME])}, what)

    def _outputs(self, kernel: SmallKernel, addresses: dict[str, int]) -> Iterator[tuple[str, Disagreement]]:
        expected = grammar.evaluate(kernel)
        for name, array in expected.arrays.items():
            if not name.startswith("out"):
                continue  # inputs do not change, and every pass of the profiler adds to the bins
            there = np.empty_like(array)
            self.runtime.memcpy(there.ctypes.data, addresses[name], there.nbytes, self.runtime.memcpyDeviceToHost)
            certain = np.repeat(expected.certain[name], array.size // expected.certain[name].size)
            wrong = np.flatnonzero((there != array) & certain)
            if wrong.size:
                i = int(wrong[0])
                yield (
                    "gpu:outputs",
                    Disagreement(
                        {f"{name}[{i}]": int(there[i])}, {f"{name}[{i}]": int(array[i])}, "NumPy against the GPU"
                    ),
                )
                return


def time_note(times: Sequence[tuple[float, Sequence[float]]]) -> str:
    """What the report says about the times of kernels: (predicted, measured) in ns."""
    middle = [median(measured) for _, measured in times]
    errors = sorted(abs(p - m) for (p, _), m in zip(times, middle, strict=True))
    shares = [abs(p / m - 1) for (p, _), m in zip(times, middle, strict=True) if m]
    spread = sorted(max(measured) - min(measured) for _, measured in times)
    return (
        f"time of {len(times)} kernels, {min(middle) / 1e3:.1f} to {max(middle) / 1e3:.1f} us in warm caches: "
        f"error {median(shares):.1%} in the median, {errors[len(errors) * 9 // 10]:.0f} ns at most in 9 of 10, "
        f"{errors[-1]:.0f} ns at worst; {_TIMINGS} launches of one differ by {median(spread):.0f} ns in the median. "
        f"Allowed is 10 % beyond them, and 500 ns where that is more: below 5 us the time is launch overhead for the "
        f"most part, which differs by some 200 ns from one launch of an empty kernel to another"
    )


# ---- the campaign


def run_on_gpu(
    corpus: str | Path,
    *,
    patterns: int | None = None,
    kernels: int = 200,
    gpu: str = "h200",
    seed: int = 0,
    limit: float | None = None,
    shrinking: float = 10,
    timed: bool = True,
    watch: Callable[[Progress], None] | None = None,
) -> Report:
    """Compare so many patterns and kernels with the GPU that is here; goes on where a killed one stopped.

    By default every cell gets 50 patterns. After `limit` seconds no further chunk is begun; a failure is shrunk for
    `shrinking` seconds at most.
    """
    profile = load_gpu(gpu)
    patterns = LEAST * len(cells()) if patterns is None else patterns
    check_sizes(patterns, kernels)
    folder = Corpus(corpus)
    folder.folder.mkdir(parents=True, exist_ok=True)
    name = "gpu-" + campaign_name(patterns, kernels, seed, profile)
    before = folder.finished(name)
    chunks = plan(patterns, kernels, seed)
    left = [chunk for chunk in chunks if chunk.name not in before]
    state = _Session(folder, profile, gpu, shrinking, timed)
    report = Report(name, str(corpus), profile.name)
    began = time.monotonic()
    done: dict[str, dict[str, Any]] = {}
    journal = Journal(folder, name)
    kinds: dict[str, float] = {}
    seen = Report(name, str(corpus), profile.name)
    seen.add(before.values())
    try:
        for group in _groups(left):
            if limit is not None and time.monotonic() - began > limit:
                break
            started = time.monotonic()
            for outcome in state.work(group):
                journal.write(asdict(outcome))
                done[outcome.chunk] = asdict(outcome)
                seen.add([done[outcome.chunk]])
            kinds[group[0].kind] = kinds.get(group[0].kind, 0) + time.monotonic() - started
            if watch is not None:
                examples = sum(line["examples"] for line in done.values())
                failures = sum(len(line["failures"]) for line in done.values())
                seconds = time.monotonic() - began
                watch(Progress(len(before) + len(done), len(chunks), examples, seconds, failures, seen.covered))
    finally:
        journal.close()
        state.close()
    everything = {**before, **done}
    report.add(everything.values())
    report.seconds = time.monotonic() - began
    report.work_seconds = kinds
    report.chunks = (len(done), len(before), len(chunks))
    names = {failure for line in everything.values() for failure in line["failures"]}
    report.failures = [entry for entry in folder.entries() if entry.name in names]
    for kind, seconds in kinds.items():
        examined = sum(line["examples"] for line in done.values() if line["kind"] == kind)
        report.notes.append(
            f"{examined} {kind} in {seconds:.1f} s on the GPU, prediction and shrinking included: "
            f"{examined / max(seconds, 1e-9):.0f}/s"
        )
    report.notes += state.notes()
    if len(everything) < len(chunks):
        report.notes.append(
            f"{len(chunks) - len(everything)} of {len(chunks)} chunks are left: run the same command again to go on"
        )
    return report


def _groups(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Patterns of one operation together, as many as the table holds; kernels chunk by chunk."""
    tables: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        if chunk.cell is None:
            yield [chunk]
        else:
            tables.setdefault(chunk.cell[:2], []).append(chunk)
    for members in tables.values():
        size = max(1, (TABLE - 1) // max(chunk.count for chunk in members))
        for first in range(0, len(members), size):
            yield members[first : first + size]


class _Session:
    """The benches, opened when first needed, and what becomes of the cases that fail."""

    def __init__(self, corpus: Corpus, gpu: Gpu, gpu_name: str, shrinking: float, timed: bool) -> None:
        self.corpus, self.gpu, self.gpu_name, self.shrinking, self.timed = corpus, gpu, gpu_name, shrinking, timed
        self.patterns: PatternBench | None = None
        self.kernels: KernelBench | None = None
        self.shrunk: Counter[str] = Counter()  # law -> failures
        self.times: list[tuple[float, list[float]]] = []  # of the kernels drawn, not of those that shrinking tried

    def close(self) -> None:
        if self.patterns is not None:
            self.patterns.close()

    def notes(self) -> list[str]:
        return [time_note(self.times)] if self.times else []

    def judge(self, cases: Sequence[Case], kind: str) -> list[dict[str, Disagreement]]:
        if kind == "kernels":
            if self.patterns is not None:  # one profiler at a time
                self.patterns.close()
                self.patterns = None
            self.kernels = self.kernels or KernelBench()
            return [dict(found) for found in self.kernels.judge(cases, self.gpu, timed=self.timed)]  # type: ignore[arg-type]
        self.patterns = self.patterns or PatternBench()
        return [dict([found] if found else []) for found in self.patterns.judge(cases, self.gpu)]  # type: ignore[arg-type]

    def work(self, group: Sequence[Chunk]) -> Iterator[Outcome]:
        """Do chunks together; their outcomes."""
        began = time.monotonic()
        kind = group[0].kind
        with cache.scratch():
            drawn = [draw(chunk.strategy(), chunk.count, chunk.seed) for chunk in group]
            verdicts = iter(self.judge([case for cases in drawn for case in cases], kind))
            if kind == "kernels" and self.kernels is not None:
                self.times += self.kernels.times
            for chunk, cases in zip(group, drawn, strict=True):
                known = {case: next(verdicts) for case in cases}
                failed = Counter(law for case in cases for law in known[case])
                failures = [name for law in failed for name in self.keep(law, chunk, cases, known)]
                coverage: dict[str, Counter[str]] = {}
                for case in cases:
                    for feature, value in features(case):
                        coverage.setdefault(feature, Counter())[value] += 1
                seconds, began = time.monotonic() - began, time.monotonic()
                counted = {feature: dict(values) for feature, values in coverage.items()}
                yield Outcome(chunk.name, kind, len(cases), seconds, dict(failed), failures, counted)

    def keep(
        self, law: str, chunk: Chunk, drawn: dict[Case, Round], known: dict[Case, dict[str, Disagreement]]
    ) -> Iterator[str]:
        """Keep the failures of a law in a chunk as drawn, and the simplest as shrunk."""
        failing = {case: found[law] for case, found in known.items() if law in found}
        kept = len(list(self.corpus.failures.glob(f"{law.replace(':', '-')}-*")))
        for case in sorted(failing, key=complexity)[: max(1, KEPT - kept)]:
            yield record(self.corpus, law, case, failing[case], self.gpu_name, chunk, shrunk=False)
        if self.shrunk[law] >= _SHRUNK:
            return
        self.shrunk[law] += 1
        first = min(failing, key=complexity)

        def judge(cases: Sequence[Case]) -> list[Disagreement | None]:
            try:
                return [found.get(law) for found in self.judge(cases, chunk.kind)]
            except WarpsimError:
                return [None] if len(cases) == 1 else [judge([case])[0] for case in cases]

        case, wrong = shrink(
            chunk.strategy(), drawn, failing, judge,
            database=self.corpus.database(law), limit=self.shrinking, clock=time.monotonic,
        )  # fmt: skip
        if case != first:
            yield record(self.corpus, law, case, wrong, self.gpu_name, chunk, shrunk=True)


def replay_on_gpu(entry: Entry, case: Case, gpu: Gpu) -> Disagreement | None:
    """Measure a kept failure again."""
    session = _Session(Corpus("."), gpu, gpu.name, 0, entry.law == "gpu:time")
    kind = "kernels" if isinstance(case, SmallKernel) else "patterns"
    try:
        with cache.scratch():
            return session.judge([case], kind)[0].get(entry.law)
    finally:
        session.close()


def predict_again(entry: Entry, case: Case, gpu: Gpu) -> dict[str, Any]:
    """What is predicted today, at the addresses of then, for a failure whose counters are kept."""
    at = entry.document.get("at", {})
    if isinstance(case, Pattern):
        return dict(predicted(case, int(at.get("arena", 0)), gpu))
    if entry.law == "gpu:outputs":
        arrays = grammar.evaluate(case).arrays
        return {f"{name}[{i}]": int(value) for name, array in arrays.items() for i, value in enumerate(array)}
    with cache.scratch():
        program = batch.programs([case], int(gpu.arch.removeprefix("sm_")))[0]
        figures = predict_kernel(case, program, gpu, at, entry.law == "gpu:time")
    return {name: round(figures.get(name, 0)) for name in entry.document["expected"]}
