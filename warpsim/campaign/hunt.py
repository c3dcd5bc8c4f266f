"""Hypothesis at work: draw cases, judge them all, shrink what fails.

Cases are drawn first and judged together, for kernels are cheaper compiled together, and patterns measured together.
Hypothesis then runs again from the same seed: it draws the same cases, meets the one that fails, and shrinks it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.strategies import SearchStrategy

from warpsim.campaign.cases import Case
from warpsim.campaign.simplify import simplify
from warpsim.laws import Disagreement

__all__ = ["draw", "shrink"]

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


def draw(strategy: SearchStrategy[Any], count: int, number: int) -> list[Case]:
    """`count` cases from a seed."""
    cases: list[Case] = []

    @seed(number)
    @settings(max_examples=count, database=None, phases=[Phase.generate], **_QUIET)
    @given(strategy)
    def collect(case: Case) -> None:
        cases.append(case)

    with _same_everywhere():
        collect()
    return cases


def shrink(
    strategy: SearchStrategy[Any],
    count: int,
    number: int,
    judge: Callable[[Case], Disagreement | None],
    first: tuple[Case, Disagreement],
    *,
    others: Iterable[Case] = (),
    database: Path | None = None,
    limit: float = 60,
) -> tuple[Case, Disagreement]:
    """The simplest case that `judge` finds wrong after some `limit` s, beginning with `first`.

    That is one of those that `draw` gave; `others` are the cases drawn with it, which are passed over.
    """
    began = time.monotonic()
    known: dict[Case, Disagreement | None] = {**dict.fromkeys(others), first[0]: first[1]}
    simplest = [first]

    @seed(number)
    @settings(
        max_examples=count,
        database=None if database is None else DirectoryBasedExampleDatabase(database),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        **_QUIET,
    )
    @given(strategy)
    def test(case: Case) -> None:
        if case not in known:
            known[case] = None if time.monotonic() - began > limit else judge(case)
        wrong = known[case]
        if wrong is not None:
            simplest[:] = [(case, wrong)]
            raise _FoundError

    try:
        with _same_everywhere():
            test()
    except (_FoundError, Flaky, HypothesisException):
        pass
    case, wrong = simplest[0]
    return simplify(case, wrong, lambda c: None if time.monotonic() - began > 2 * limit else judge(c))
