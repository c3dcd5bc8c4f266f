"""Small CUDA kernels and their launches."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

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

__all__ = ["expressions", "kernels", "launches"]

Extent = tuple[int, int, int]
Names = tuple[str, ...]
T = Name("threadIdx.x")
GLOBAL_ID = Binary("+", Binary("*", Name("blockIdx.x"), Name("blockDim.x")), T)
WIDTHS = (4, 8, 16, 2, 1)


@functools.cache
def launches(threads: int = 256, ctas: int = 8) -> st.SearchStrategy[tuple[Extent, Extent]]:
    """(grid, block), at most `threads` a CTA; simplest: one CTA of 32 threads."""
    blocks: list[Extent] = [
        (32, 1, 1), (64, 1, 1), (128, 1, 1), (256, 1, 1), (32, 2, 1), (16, 16, 1), (8, 8, 1), (32, 8, 1), (4, 4, 4),
        (2, 32, 1), (16, 3, 2), (1, 1, 1), (7, 9, 1), (33, 1, 1), (100, 1, 1), (1, 40, 1), (5, 1, 8),
    ]  # fmt: skip
    grids: list[Extent] = [(x, 1, 1) for x in range(1, ctas + 1)]
    grids += [g for g in ((1, 2, 1), (2, 2, 1), (3, 2, 1), (1, 1, 2), (2, 2, 2)) if g[0] * g[1] * g[2] <= ctas]
    odd = st.integers(1, threads).map(lambda x: (x, 1, 1))
    fitting = st.sampled_from([b for b in blocks if b[0] * b[1] * b[2] <= threads])
    return st.tuples(st.sampled_from(grids), st.one_of(fitting, fitting, odd))


@functools.cache
def expressions(*names: str, depth: int = 2) -> st.SearchStrategy[Expression]:
    """Index expressions over thread and block indices and `names`; simplest: `threadIdx.x`."""
    words = [T, GLOBAL_ID, *(Name(n) for n in (*names, "threadIdx.y", "blockIdx.x"))]
    leaf: st.SearchStrategy[Expression] = st.one_of(st.sampled_from(words), st.integers(0, 63).map(Number))
    factor = st.one_of(st.integers(2, 40), st.sampled_from([32, 33, 64, 128])).map(Number)
    small = st.integers(1, 40).map(Number)
    for _ in range(depth):
        less = leaf
        leaf = st.one_of(
            less,
            st.builds(Binary, st.just("+"), less, st.one_of(small, less)),
            st.builds(Binary, st.just("*"), less, factor),
            st.builds(Binary, st.sampled_from(["%", "/"]), less, factor),
            st.builds(Binary, st.sampled_from(["^", "&", "|"]), less, st.one_of(small, less)),
            st.builds(Binary, st.sampled_from([">>", "<<"]), less, st.integers(0, 5).map(Number)),
        )
    return leaf


def _conditions(names: Names) -> st.SearchStrategy[tuple[Expression, str, Expression]]:
    bits = st.builds(Binary, st.just("&"), st.just(T), st.integers(1, 31).map(Number))
    signs = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])
    return st.one_of(
        st.tuples(st.just(T), st.just("<"), st.integers(1, 31).map(Number)),
        st.tuples(bits, st.sampled_from(["==", "!="]), st.integers(0, 3).map(Number)),
        st.tuples(expressions(*names, depth=1), signs, expressions(*names, depth=0)),
    )


def _accesses(names: Names) -> st.SearchStrategy[tuple[Statement, ...]]:
    """Loads, stores and reductions; the simplest by far is `v = a4[threadIdx.x]`."""
    index = st.one_of(st.sampled_from([T, GLOBAL_ID]), expressions(*names))
    value = st.one_of(st.sampled_from([Number(0), Name("v")]), expressions(*names, depth=1))
    load = st.builds(
        lambda i, form: (Load(i, *form),), index, st.sampled_from([(w, add) for add in (False, True) for w in WIDTHS])
    )
    store = st.builds(lambda i, w, v: (Store(i, v, w),), index, st.sampled_from(WIDTHS), value)
    # Of an atomicAdd whose address the compiler knows to be one a warp it makes an access by one lane.
    cut = st.builds(Binary, st.sampled_from(["/", "&"]), st.just(T), st.integers(2, 40).map(Number))
    uneven = st.one_of(
        st.sampled_from([T, GLOBAL_ID]), cut, st.builds(Binary, st.just("+"), cut, expressions(*names, depth=1))
    )
    reduce = st.builds(lambda i, _: (Reduce(i),), uneven, st.booleans())
    return st.one_of(load, store, reduce)


def _gathers() -> st.SearchStrategy[tuple[Statement, ...]]:
    """A load through a page table that lies in memory: `v = a4[t / P]; v = aW[v % pages * P + t % P]`."""

    def build(width: int, page: int, pages: int, start: Expression) -> tuple[Statement, ...]:
        begin = Binary("*", Binary("%", Name("v"), Number(pages)), Number(page))
        place = Binary("+", begin, Binary("%", start, Number(page)))
        return Load(Binary("/", start, Number(page))), Load(place, width)

    starts = st.sampled_from([T, GLOBAL_ID])
    return st.builds(build, st.sampled_from(WIDTHS), st.sampled_from([16, 2, 4, 33, 128]), st.integers(1, 60), starts)


def _tiles(names: Names) -> st.SearchStrategy[tuple[Statement, ...]]:
    """A word a thread through shared memory, padded or swizzled or neither."""

    def build(
        layout: tuple[int, int, int, bool], value: Expression, other: Expression, width: int
    ) -> tuple[Statement, ...]:
        columns, pad, swizzle, transposed = layout
        return (Tile(columns, columns + pad, swizzle, transposed, value, other, width),)

    layouts = st.tuples(
        st.sampled_from([32, 16, 8, 4, 64]),
        st.sampled_from([0, 1, 2, 4, 7]),
        st.sampled_from([0, 1, 2, 3]),
        st.booleans(),
    )
    value = st.one_of(st.sampled_from([T, Name("v")]), expressions(*names, depth=1))
    other = st.one_of(st.just(T), expressions(*names))
    return st.builds(build, layouts, value, other, st.sampled_from([4, 8, 16]))


@functools.cache
def _bodies(depth: int, uniform: bool, loops: int) -> st.SearchStrategy[tuple[Statement, ...]]:
    """Statements; those that hold a barrier only where all threads of a CTA come by."""
    names = ("v", *"ijk"[:loops])
    kinds = [_accesses(names)]
    if uniform:
        # drawn with as many choices as a load, which is to be the simpler of the two
        barrier = st.tuples(st.booleans(), st.booleans(), st.booleans()).map(lambda _: (Barrier(),))
        kinds += [_tiles(names), _gathers(), barrier]
    if depth:
        guarded = st.builds(
            lambda c, body: (If(c[0], c[1], c[2], body),), _conditions(names), _bodies(depth - 1, False, loops)
        )
        count = st.integers(1, 5).map(Number)
        repeated = st.builds(lambda n, body: (Loop(n, body),), count, _bodies(depth - 1, uniform, loops + 1))
        uneven = st.builds(lambda e, n: Binary("%", e, Number(n)), expressions(depth=1), st.integers(1, 6))
        diverging = st.builds(lambda n, body: (Loop(n, body),), uneven, _bodies(depth - 1, False, loops + 1))
        kinds += [guarded, repeated, diverging]
    size = 4 if depth == 2 else 3
    return st.lists(st.one_of(kinds), min_size=1, max_size=size).map(
        lambda parts: tuple(s for part in parts for s in part)
    )


@functools.cache
def kernels(*, volatile: bool | None = None, threads: int = 256, ctas: int = 8) -> st.SearchStrategy[SmallKernel]:
    """A kernel with its launch; simplest: `v = a4[threadIdx.x]` by one warp.

    A volatile kernel executes every access as written; of another the compiler may drop, merge and move some.
    """

    def build(body: tuple[Statement, ...], launch: tuple[Extent, Extent], kept: bool, seed: int) -> SmallKernel:
        return SmallKernel(body, *launch, kept, seed)

    kept = st.sampled_from([True, True, False] if volatile is None else [volatile])
    return st.builds(build, _bodies(2, True, 0), launches(threads, ctas), kept, st.integers(0, 5))
