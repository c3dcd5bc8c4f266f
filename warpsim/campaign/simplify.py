"""The last steps to a small case: what Hypothesis cannot do inside a cell, such as fewer lanes than it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from warpsim.campaign.cases import Case
from warpsim.grammar import If, Loop, SmallKernel, Statement
from warpsim.laws import Disagreement
from warpsim.patterntable import Pattern

__all__ = ["simplify"]


def simplify(
    case: Case, wrong: Disagreement, judge: Callable[[Case], Disagreement | None], tries: int = 200
) -> tuple[Case, Disagreement]:
    """Take parts away as long as the case fails, at most `tries` times."""
    left = tries
    smaller = True
    while smaller:
        smaller = False
        for candidate in _kernels(case) if isinstance(case, SmallKernel) else _patterns(case):
            if left == 0:
                return case, wrong
            left -= 1
            found = judge(candidate)
            if found is not None:
                case, wrong, smaller = candidate, found, True
                break
    return case, wrong


def _patterns(p: Pattern) -> Iterator[Pattern]:
    """Fewer lanes: half of them, then one less; then all addresses moved to the start."""
    if p.op.startswith("ldmatrix"):
        return
    lanes = [lane for lane in range(32) if p.active[lane]]
    size = len(lanes) // 2
    while size >= 1 and len(lanes) > 1:
        for first in range(0, len(lanes), size):
            kept = set(lanes[:first] + lanes[first + size :])
            if kept:
                active = tuple(lane in kept for lane in range(32))
                addresses = tuple(a if lane in kept else 0 for lane, a in enumerate(p.addresses))
                yield replace(p, active=active, addresses=addresses)
        size //= 2
    base = min(p.addresses[lane] for lane in lanes) // 128 * 128
    if base:
        yield replace(p, addresses=tuple(a - base if on else 0 for a, on in zip(p.addresses, p.active, strict=True)))


def _kernels(kernel: SmallKernel) -> Iterator[SmallKernel]:
    """A statement less, or what it holds in its place; then one CTA of one warp."""
    for body in _bodies(kernel.body):
        if body:
            yield replace(kernel, body=body)
    for launch in ({"grid": (1, 1, 1)}, {"block": (32, 1, 1)}):
        small = replace(kernel, **launch)  # type: ignore[arg-type]
        if small != kernel:
            yield small


def _bodies(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    for i, statement in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        yield before + after
        if isinstance(statement, (If, Loop)):
            if not (isinstance(statement, Loop) and _uses_variables(statement)):
                yield before + statement.body + after
            for inner in _bodies(statement.body):
                if inner:
                    yield (*before, replace(statement, body=inner), *after)


def _uses_variables(loop: Loop) -> bool:
    from warpsim.grammar import expressions, names

    return any(names(expression) & set("ijk") for expression in expressions(loop.body))
