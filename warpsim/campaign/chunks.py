"""A campaign cut into chunks: each with a seed of its own, done by any process, its outcome a line of the journal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from warpsim import cache, laws, strategies
from warpsim.campaign.cases import (
    DENSITIES,
    SPANS,
    Case,
    Verdicts,
    case_data,
    features,
    judge_kernels,
    judge_pattern,
    scenario_of,
    size_of,
)
from warpsim.campaign.hunt import Round, draw, shrink
from warpsim.campaign.simplify import complexity
from warpsim.corpus import Corpus
from warpsim.gpu import Gpu, load_gpu
from warpsim.laws import Disagreement
from warpsim.patterntable import CELLS

__all__ = ["LEAST", "Chunk", "Outcome", "Settings", "cells", "plan", "record", "work"]

LEAST = 50
"""Examples that every cell of width x op x space x mask density x span is to get."""
PATTERNS, KERNELS = 25, 40
"""Cases of a chunk; the disassembler takes as long for one kernel as for many."""
MOST = 100
"""Patterns of a chunk where every cell has one."""
_STRIDE = 101  # from one cell to the next: prime to their number, so that neighbours differ in all
TIMED_EVERY = 4  # chunks of kernels of which one is timed by the machine too
KEPT = 20  # failures of a law in a corpus after which further ones are only counted


@dataclass(frozen=True)
class Settings:
    """What all chunks of a campaign share."""

    corpus: str
    gpu: str
    limit: float = 30  # seconds of a process's time to shrink a failure
    shrunk: int = 2  # laws of a chunk whose failures are shrunk; those of others are kept as drawn


@dataclass(frozen=True)
class Chunk:
    """`count` cases of a kind from a seed; patterns of one cell."""

    name: str
    kind: str  # patterns or kernels
    seed: int
    count: int
    cell: tuple[str, str, int, str, str] | None = None  # op, space, width, density, span
    timed: bool = False

    def strategy(self) -> SearchStrategy[Any]:
        """What its cases are drawn from."""
        if self.cell is None:
            return strategies.kernels()
        op, space, width, density, span = self.cell
        return strategies.patterns(
            op=op, space=space, width=width, kind=None, lanes=DENSITIES[density], span=SPANS[space][span]
        )


@dataclass(frozen=True)
class Outcome:
    """What came of a chunk."""

    chunk: str
    kind: str
    examples: int
    seconds: float
    failed: dict[str, int]  # law -> cases
    failures: list[str]  # names in the corpus
    coverage: dict[str, dict[str, int]]  # feature -> value -> cases


def cells() -> list[tuple[str, str, int, str, str]]:
    """Every op x space x width x mask density x span that a warp can have; ldmatrix has all lanes."""
    found = []
    for op, space, width in dict.fromkeys(cell[:3] for cell in CELLS):
        for density in DENSITIES:
            if op.startswith("ldmatrix") and density != "all":
                continue
            found += [(op, space, width, density, span) for span in SPANS[space]]
    return found


def plan(patterns: int, kernels: int, seed: int, sizes: tuple[int, int] = (PATTERNS, KERNELS)) -> list[Chunk]:
    """The chunks of a campaign: patterns of a cell each, kernels spread among them.

    A chunk has about `sizes` cases. If that is enough for a chunk of every cell, all cells get equally many patterns,
    give or take one.
    """
    table = cells()
    placed = []
    number_of = -(-patterns // sizes[0])
    if number_of > len(table):
        number_of = len(table) * -(-patterns // (len(table) * MOST))
    for number, (where, count) in enumerate(_cut(patterns, number_of)):
        name = f"patterns-{number:05}"
        cell = table[number * _STRIDE % len(table)]
        placed.append((where, Chunk(name, "patterns", _seed(seed, name), count, cell)))
    for number, (where, count) in enumerate(_cut(kernels, -(-kernels // sizes[1]))):
        name = f"kernels-{number:05}"
        placed.append((where, Chunk(name, "kernels", _seed(seed, name), count, None, number % TIMED_EVERY == 0)))
    return [chunk for _, chunk in sorted(placed, key=lambda pair: pair[0])]


def _cut(total: int, pieces: int) -> Iterator[tuple[float, int]]:
    """Pieces of `total`, as equal as can be: how far each lies in it, from 0 to 1, and how large it is."""
    for piece in range(pieces):
        first, end = total * piece // pieces, total * (piece + 1) // pieces
        yield first / total, end - first


def _seed(seed: int, name: str) -> int:
    return int(cache.digest(str(seed), name)[:12], 16)


def work(task: tuple[Chunk, Settings]) -> Outcome:
    """Do a chunk; failures are in the corpus when it returns."""
    chunk, settings = task
    began = time.monotonic()
    gpu = load_gpu(settings.gpu)
    with cache.scratch():
        drawn = draw(chunk.strategy(), chunk.count, chunk.seed)
        cases = list(drawn)
        verdicts = _judge(cases, chunk, gpu)
        failed: Counter[str] = Counter(law for found in verdicts for law in found)
        known = dict(zip(cases, verdicts, strict=True))
        failures = [
            name
            for number, law in enumerate(sorted(failed))
            for name in _keep(law, chunk, settings, gpu, drawn, known, number < settings.shrunk)
        ]
    coverage: dict[str, Counter[str]] = {}
    for case in cases:
        for feature, value in features(case):
            coverage.setdefault(feature, Counter())[value] += 1
    seconds = time.monotonic() - began
    counted = {feature: dict(values) for feature, values in coverage.items()}
    return Outcome(chunk.name, chunk.kind, len(cases), seconds, dict(failed), failures, counted)


def _judge(cases: Sequence[Case], chunk: Chunk, gpu: Gpu, names: tuple[str, ...] = ()) -> list[Verdicts]:
    if chunk.kind == "kernels":
        return judge_kernels(cases, gpu, names, chunk.timed)  # type: ignore[arg-type]
    return [judge_pattern(case, gpu, names) for case in cases]  # type: ignore[arg-type]


def _keep(
    law: str, chunk: Chunk, settings: Settings, gpu: Gpu, drawn: dict[Case, Round], known: dict[Case, Verdicts],
    shrinking: bool,
) -> Iterator[str]:  # fmt: skip
    """Put the simplest failure of a law into the corpus, at once and then as shrunk."""
    corpus = Corpus(settings.corpus)
    if len(list(corpus.failures.glob(f"{law}-*"))) >= KEPT:
        return
    failing = {case: found[law] for case, found in known.items() if law in found}
    first = min(failing, key=complexity)
    yield record(corpus, law, first, failing[first], settings.gpu, chunk, shrunk=False)
    if not shrinking:
        return

    laws_of_case = dict.fromkeys(failing, law)
    alike = next((tuple(table) for table in (laws.PATTERN_LAWS, laws.KERNEL_LAWS) if law in table), (law,))
    names = () if law == "is_accepted" else alike

    def judge(cases: Sequence[Case]) -> list[Disagreement | None]:
        """A smaller case may show the same fault by another law: what loses a tile's conflicts can lose an output."""
        wrong: list[Disagreement | None] = []
        for case, found in zip(cases, _judge(cases, chunk, gpu, names), strict=True):
            laws_of_case[case] = law if law in found or not found else next(iter(found))
            wrong.append(found.get(laws_of_case[case]))
        return wrong

    case, wrong = shrink(chunk.strategy(), drawn, failing, judge, database=corpus.database(law), limit=settings.limit)
    if case != first:
        yield record(corpus, laws_of_case[case], case, wrong, settings.gpu, chunk, shrunk=True)


def record(
    corpus: Corpus, law: str, case: Case, wrong: Disagreement, gpu: str, chunk: Chunk | None, *, shrunk: bool
) -> str:
    """Put a failure into the corpus."""
    from warpsim import __version__

    document = {
        "warpsim": __version__,
        "gpu": gpu,
        "what": wrong.what,
        "expected": wrong.expected,
        "predicted": wrong.predicted,
        "at": dict(wrong.at),
        "size": size_of(case),
        "shrunk": shrunk,
        "found_by": None if chunk is None else {"chunk": chunk.name, "seed": chunk.seed},
        "case": case_data(case),
    }
    return corpus.add(law, scenario_of(case, gpu, f"{law}: {wrong.what}"[:200]), document)
