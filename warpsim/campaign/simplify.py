"""Greedy shrinking: parts are taken away, or replaced by simpler ones, as long as the case fails.

It does what Hypothesis cannot do inside a cell, such as fewer lanes than it has, or in its choices, such as a statement
out of the middle of a loop. It ends where no single step is left, whatever the case it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from warpsim import grammar
from warpsim.campaign.cases import Case
from warpsim.grammar import (
    Barrier,
    Binary,
    Expression,
    If,
    Load,
    Loop,
    Name,
    Number,
    Reduce,
    SmallKernel,
    Statement,
    Store,
    Tile,
)
from warpsim.laws import Disagreement
from warpsim.patterntable import Pattern

__all__ = ["complexity", "simplify"]

T = Name("threadIdx.x")
Body = tuple[Statement, ...]


def simplify(
    case: Case, wrong: Disagreement, judge: Callable[[Sequence[Case]], Sequence[Disagreement | None]], tries: int = 400
) -> tuple[Case, Disagreement]:
    """The case after all steps that make it less complex and let it fail, some `tries` of them tried.

    Kernels are judged several at a time, for they are cheaper compiled together; the first that fails is the step.
    """
    tried = {case}
    step: tuple[Case, Disagreement] | None = (case, wrong)
    while step is not None:
        case, wrong = step
        step = None
        for some in _groups(case, tried):
            if len(tried) > tries:
                break
            step = next(((c, found) for c, found in zip(some, judge(some), strict=True) if found is not None), None)
            if step is not None:
                break
    return case, wrong


def _groups(case: Case, tried: set[Case]) -> Iterator[list[Case]]:
    """Candidates that were not tried: patterns one by one, kernels 2 together, then 4, then 8."""
    size = 2 if isinstance(case, SmallKernel) else 1
    some: list[Case] = []
    for candidate in _kernels(case) if isinstance(case, SmallKernel) else _patterns(case):
        if candidate in tried or complexity(candidate) >= complexity(case):
            continue
        tried.add(candidate)
        some.append(candidate)
        if len(some) >= size:
            yield some
            size, some = min(2 * size, 8) if size > 1 else 1, []
    if some:
        yield some


def complexity(case: Case) -> tuple[int, ...]:
    """What a step must lower: lanes and addresses of a pattern; lines, statements, expressions, launch of a kernel."""
    if isinstance(case, Pattern):
        return sum(case.active), case.op != "load", bool(case.kind), sum(case.addresses)
    every = list(grammar.statements(case.body))
    leaves = [leaf for e in grammar.expressions(case.body) for leaf in _leaves(e)]
    return (
        len(grammar.lines_of(case)), len(every), len(leaves), case.ctas, case.threads,
        sum(leaf != T for leaf in leaves), sum(leaf.value for leaf in leaves if isinstance(leaf, Number)),
        sum(_oddity(s) for s in every), sum(case.block[1:]) + sum(case.grid[1:]), not case.volatile, case.seed,
    )  # fmt: skip


def _oddity(s: Statement) -> int:
    """How far the parts that are not expressions are from those of the simplest statement."""
    match s:
        case Load():
            return (s.width != 4) + s.add
        case Store():
            return int(s.width != 4)
        case Tile():
            return (s.width != 4) + s.swizzle + s.transposed + abs(s.columns - 32) + abs(s.pitch - s.columns)
        case If():
            return int(s.sign != "==")
    return 0


def _leaves(expression: Expression) -> Iterator[Number | Name]:
    if isinstance(expression, Binary):
        yield from _leaves(expression.left)
        yield from _leaves(expression.right)
    else:
        yield expression


# ---- patterns


def _patterns(p: Pattern) -> Iterator[Pattern]:
    """A load, where it fails too; fewer lanes: half of them, then one less; then all addresses moved to the start."""
    yield replace(p, op="load", kind="")
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


# ---- kernels


def _kernels(kernel: SmallKernel) -> Iterator[SmallKernel]:
    """The largest steps first: one statement or expression alone, statements away, a smaller launch, simpler parts."""
    body = kernel.body
    flat = dict.fromkeys(_flat(body))
    singles = [s for s in flat if not isinstance(s, (If, Loop, Tile))]
    singles += [Barrier()] if any(isinstance(s, Tile) for s in flat) else []
    found = [*grammar.expressions(tuple(flat))]
    found += [Binary("^", T, Number(s.swizzle)) for s in flat if isinstance(s, Tile) and s.swizzle]
    for e in dict.fromkeys(found):
        if isinstance(e, Binary) and not grammar.names(e) & set("vijk"):
            singles += [Store(T, e), Store(e, T)]
    for s in dict.fromkeys(singles):
        yield replace(kernel, body=(s,), grid=(1, 1, 1), block=(32, 1, 1))
        yield replace(kernel, body=(s,))
    size = len(body) // 2
    while size > 1:
        for first in range(0, len(body), size):
            yield replace(kernel, body=body[:first] + body[first + size :])
        size //= 2
    for less in _bodies(body, 0):
        yield replace(kernel, body=less)
    yield replace(kernel, grid=(1, 1, 1), block=(32, 1, 1))
    for grid in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)):
        yield replace(kernel, grid=grid)
    for threads in (32, 64, 33, kernel.threads // 2, kernel.threads):
        yield replace(kernel, block=(max(threads, 1), 1, 1))
    for simpler in _simpler(body):
        yield replace(kernel, body=simpler)
    yield replace(kernel, volatile=True)
    yield replace(kernel, seed=0)


def _flat(body: Body, depth: int = 0) -> Iterator[Statement]:
    """All statements by themselves, taken out of their loops."""
    for s in body:
        yield s
        if isinstance(s, If):
            yield from _flat(s.body, depth)
        elif isinstance(s, Loop):
            yield from _flat(_once(s, depth, 0), depth)


def _bodies(body: Body, depth: int) -> Iterator[Body]:
    """A statement less, or what it holds in its place."""
    for i, s in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        if before or after:
            yield before + after
        if isinstance(s, If):
            yield before + s.body + after
        elif isinstance(s, Loop):
            yield before + _once(s, depth, 0) + after
            yield before + _once(s, depth, 1) + after
        elif isinstance(s, Tile):
            yield (*before, Barrier(), *after)
        if isinstance(s, (If, Loop)):
            for inner in _bodies(s.body, depth + isinstance(s, Loop)):
                yield (*before, replace(s, body=inner), *after)


def _once(loop: Loop, depth: int, value: int) -> Body:
    """The body of a loop, `depth` loops deep, where its variable has a value; those of inner loops move up a letter."""
    letters = "ijk"
    into: dict[str, Expression] = {letters[depth]: Number(value)}
    into |= {letters[inner]: Name(letters[inner - 1]) for inner in range(depth + 1, 3)}

    def change(e: Expression) -> Expression:
        match e:
            case Name(name):
                return into.get(name, e)
            case Binary(sign, left, right):
                return Binary(sign, change(left), change(right))
        return e

    return tuple(_changed(s, change) for s in loop.body)


def _changed(s: Statement, change: Callable[[Expression], Expression]) -> Statement:
    """The statement with all its expressions changed."""
    parts: dict[str, Any] = {}
    for name in ("index", "value", "source", "count", "left", "right"):
        if hasattr(s, name):
            parts[name] = change(getattr(s, name))
    if isinstance(s, (If, Loop)):
        parts["body"] = tuple(_changed(inner, change) for inner in s.body)
    return replace(s, **parts)


def _simpler(body: Body) -> Iterator[Body]:
    """One statement simpler in one part."""
    for i, s in enumerate(body):
        for simpler in _simpler_statements(s):
            yield (*body[:i], simpler, *body[i + 1 :])
        if isinstance(s, (If, Loop)):
            for inner in _simpler(s.body):
                yield (*body[:i], replace(s, body=inner), *body[i + 1 :])


def _simpler_statements(s: Statement) -> Iterator[Statement]:
    match s:
        case Load():
            yield from (replace(s, index=e) for e in _simpler_expressions(s.index))
            yield replace(s, width=4)
            yield replace(s, add=False)
        case Store():
            yield from (replace(s, index=e) for e in _simpler_expressions(s.index))
            yield from (replace(s, value=e) for e in _simpler_expressions(s.value))
            yield replace(s, width=4)
        case Reduce():  # its address must differ between lanes, or the compiler makes one access of the warp's
            yield replace(s, index=T)
            if isinstance(s.index, Binary) and s.index.sign == "+":
                yield replace(s, index=s.index.left)
        case Tile():
            yield from (replace(s, value=e) for e in _simpler_expressions(s.value))
            yield from (replace(s, source=e) for e in _simpler_expressions(s.source))
            yield replace(s, columns=32, pitch=32 + s.pitch - s.columns)
            yield replace(s, pitch=s.columns)
            yield replace(s, swizzle=0)
            yield replace(s, swizzle=min(s.swizzle, 1))
            yield replace(s, transposed=False)
            yield replace(s, width=4)
        case Loop():
            yield from (replace(s, count=Number(n)) for n in (1, 2))
            if isinstance(s.count, Binary):  # some expression, modulo a few
                yield replace(s, count=replace(s.count, left=T))
        case If():
            yield from (replace(s, left=e) for e in _simpler_expressions(s.left))
            yield from (replace(s, right=e) for e in _simpler_expressions(s.right))
            yield replace(s, sign="==")


def _simpler_expressions(e: Expression, least: int = 0) -> Iterator[Expression]:
    """The thread's index, 0, 1, a part of it, or one part simpler; divisors stay above 0."""
    if not least:
        yield T
    yield from (Number(n) for n in (0, 1) if n >= least)
    match e:
        case Number(value):
            yield Number(max(value // 2, least))
        case Binary(sign, left, right):
            yield left
            if sign not in ("/", "%", ">>", "<<"):
                yield right
            yield from (Binary(sign, one, right) for one in _simpler_expressions(left))
            if sign in ("/", "%", ">>", "<<"):
                yield from (Binary(sign, left, one) for one in _simpler_expressions(right, 1))
            else:
                yield from (Binary(sign, left, one) for one in _simpler_expressions(right))
