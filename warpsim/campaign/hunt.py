"""Hypothesis at work: draw cases, judge them all, shrink what fails.

Cases are drawn first and judged together, for kernels are cheaper compiled together, and patterns measured together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.strategies import SearchStrategy

from warpsim.campaign.cases import Case, small
from warpsim.campaign.simplify import complexity, simplify
from warpsim.laws import Disagreement

__all__ = ["Round", "draw", "shrink"]

_ROUNDS = 12  # of Hypothesis, until there are as many different cases as asked for
_STARTS = 3  # failing cases from which greedy shrinking begins

_QUIET: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "verbosity": Verbosity.quiet,
    "print_blob": False,
    "report_multiple_bugs": False,
    "derandomize": False,
}


@contextmanager
def _same_everywhere() -> Iterator[None]:
    """Hypothesis draws some integers from the constants in the modules that happen to be loaded; not here.

    The cases of a seed are then the same in every process and installation.
    """
    from hypothesis.internal.conjecture import providers

    original = getattr(providers, "_get_local_constants", None)  # since 6.131
    if original is None:
        yield
        return
    nothing = type(original())()
    providers._get_local_constants = lambda: nothing
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = original
        providers.CONSTANTS_CACHE.cache.clear()


class _FoundError(Exception):
    """Tells Hypothesis that a case fails; always raised at one place, for it to be one failure."""


@dataclass(frozen=True)
class Round:
    """A run of Hypothesis: the same seed and size draw the same cases."""

    seed: int
    size: int


def draw(strategy: SearchStrategy[Any], count: int, number: int) -> dict[Case, Round]:
    """`count` different cases from a seed, each with the round that drew it; fewer only if there are hardly as many."""
    cases: dict[Case, Round] = {}
    for again in range(_ROUNDS):
        missing = count - len(cases)
        if missing:
            now = Round(number + again, 2 * missing + 8 if again else missing)
            drawn = _draw_round(strategy, now)
            cases |= dict.fromkeys([case for case in drawn if case not in cases][:missing], now)
    return cases


def _draw_round(strategy: SearchStrategy[Any], now: Round) -> dict[Case, None]:
    cases: dict[Case, None] = {}

    @seed(now.seed)
    @settings(max_examples=now.size, database=None, phases=[Phase.generate], **_QUIET)
    @given(strategy)
    def collect(case: Case) -> None:
        cases[case] = None

    with _same_everywhere():
        collect()
    return cases


def shrink(
    strategy: SearchStrategy[Any],
    drawn: Mapping[Case, Round],
    failing: Mapping[Case, Disagreement],
    judge: Callable[[Sequence[Case]], Sequence[Disagreement | None]],
    *,
    database: Path | None = None,
    limit: float = 60,
    clock: Callable[[], float] = time.process_time,
) -> tuple[Case, Disagreement]:
    """The simplest case that `judge` finds wrong, from the `failing` of those drawn, in about `limit` s.

    Greedy steps from the simplest ones, each until nothing more can go; where that ends above `small`, Hypothesis
    shrinks the choices that led to the case, and greedy steps go on from there. The limit is one of CPU time unless
    another `clock` is given: a busy machine shrinks no worse.
    """
    began = clock()
    known: dict[Case, Disagreement | None] = {**dict.fromkeys(drawn), **failing}

    def verdicts(cases: Sequence[Case]) -> list[Disagreement | None]:
        new = [case for case in cases if case not in known]
        if new:
            known.update(dict.fromkeys(new) if clock() - began > limit else zip(new, judge(new), strict=True))
        return [known[case] for case in cases]

    starts = sorted(failing, key=complexity)[:_STARTS]
    best, wrong = starts[0], failing[starts[0]]
    for start in starts:
        case, found = simplify(start, failing[start], verdicts)
        if complexity(case) < complexity(best):
            best, wrong = case, found
        if small(best):
            return best, wrong
    case, found = simplify(*_by_hypothesis(strategy, drawn[starts[0]], (best, wrong), verdicts, database), verdicts)
    return (case, found) if complexity(case) < complexity(best) else (best, wrong)


def _by_hypothesis(
    strategy: SearchStrategy[Any],
    where: Round,
    first: tuple[Case, Disagreement],
    verdicts: Callable[[Sequence[Case]], Sequence[Disagreement | None]],
    database: Path | None,
) -> tuple[Case, Disagreement]:
    """What Hypothesis ends with from the seed of a round: it meets the case that fails again, and shrinks it."""
    simplest = [first]

    @seed(where.seed)
    @settings(
        max_examples=where.size,
        database=None if database is None else DirectoryBasedExampleDatabase(database),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        **_QUIET,
    )
    @given(strategy)
    def test(case: Case) -> None:
        wrong = verdicts([case])[0]
        if wrong is not None:
            simplest[:] = [(case, wrong)]
            raise _FoundError

    try:
        with _same_everywhere():
            test()
    except (_FoundError, Flaky, HypothesisException):
        pass
    return simplest[0]
