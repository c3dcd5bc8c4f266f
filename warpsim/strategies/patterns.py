"""Access patterns of one warp."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from warpsim.patterntable import CELLS, Pattern

__all__ = ["REACH", "SHARED_REACH", "indices", "masks", "page_tables", "patterns"]

REACH = 64 << 20
"""Bytes that global patterns lie in."""
SHARED_REACH = 32 << 10


Index = tuple[int, ...]
Lanes = range(32)


# ---- shapes: an element index for each lane; made once, for making a strategy takes longer than drawing from it

_STRIDES = (1, 2, 3, 4, 8, 16, 32, 33, 64, 5, 6, 7, 9, 12, 17, 31, 40, 65, 66, 128, 256, 1024, *range(41, 64))


def _affine() -> st.SearchStrategy[Index]:
    """`stride * lane`."""
    return st.sampled_from(_STRIDES).map(lambda s: tuple(s * lane for lane in Lanes))


def _backwards() -> st.SearchStrategy[Index]:
    return st.sampled_from(_STRIDES[:20]).map(lambda s: tuple(s * (31 - lane) for lane in Lanes))


def _rows() -> st.SearchStrategy[Index]:
    """Rows and columns of a matrix: `lane % k + lane / k * pitch`."""
    return st.builds(
        lambda k, pitch, step: tuple(lane % k * step + lane // k * pitch for lane in Lanes),
        st.sampled_from([2, 4, 8, 16, 3, 5]), st.integers(1, 1100), st.integers(1, 9),
    )  # fmt: skip


def _broadcast() -> st.SearchStrategy[Index]:
    """A value for 2 to 32 neighbours: `lane / k`."""
    return st.builds(
        lambda k, s: tuple(lane // k * s for lane in Lanes), st.sampled_from([32, 2, 4, 8, 16]), st.integers(1, 64)
    )


def _permuted() -> st.SearchStrategy[Index]:
    return st.builds(lambda p, s: tuple(s * i for i in p), st.permutations(Lanes), st.integers(1, 40))


def _swizzled() -> st.SearchStrategy[Index]:
    """XOR swizzle of a tile's column: `row * pitch + (column ^ row)`."""
    return st.builds(
        lambda pitch, step, c: tuple((lane * step % 32) * pitch + (lane ^ c) for lane in Lanes),
        st.sampled_from([32, 33, 36, 40, 64]), st.integers(0, 8), st.integers(0, 31),
    )  # fmt: skip


def _pairs(simple: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    """Lanes t and t ^ 1, or t and t ^ 2, on one address: what merges the groups of shared loads."""
    return st.builds(lambda shape, d: tuple(shape[lane & ~d] for lane in Lanes), simple, st.sampled_from([1, 2]))


def _clustered() -> st.SearchStrategy[Index]:
    """A few places, and the lanes near one of them each."""

    def gather(places: Sequence[int], near: int, picks: Sequence[int]) -> Index:
        return tuple(places[p % len(places)] + p // len(places) % near for p in picks)

    places = st.lists(st.integers(0, 1 << 18), min_size=1, max_size=8)
    picks = st.lists(st.integers(0, 319), min_size=32, max_size=32)
    return st.builds(gather, places, st.integers(1, 40), picks)


def _random() -> st.SearchStrategy[Index]:
    """Every lane for itself, within a window."""
    window = st.sampled_from([64, 256, 1024, 8192, 1 << 18, 1 << 24])
    lanes = st.lists(st.integers(0, (1 << 24) - 1), min_size=32, max_size=32)
    return st.builds(lambda w, picks: tuple(p % w for p in picks), window, lanes)


def _astray(simple: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    """A simple shape with a few lanes thrown elsewhere."""

    def throw(shape: Index, strays: dict[int, int]) -> Index:
        return tuple(strays.get(lane, i) for lane, i in enumerate(shape))

    strays = st.dictionaries(st.integers(0, 31), st.integers(0, 1 << 16), min_size=1, max_size=6)
    return st.builds(throw, simple, strays)


def page_tables(pages: int = 64) -> st.SearchStrategy[tuple[int, ...]]:
    """Where the pages of a sequence lie: physical page numbers, all different."""
    return st.lists(st.integers(0, pages - 1), min_size=1, max_size=min(pages, 33), unique=True).map(tuple)


def _paged() -> st.SearchStrategy[Index]:
    """A run of elements through a page table."""

    def gather(table: Sequence[int], size: int, start: int, step: int) -> Index:
        logical = [(start + step * lane) % (size * len(table)) for lane in Lanes]
        return tuple(table[i // size] * size + i % size for i in logical)

    sizes = st.sampled_from([16, 1, 2, 8, 33, 128, 132])
    return st.builds(gather, page_tables(), sizes, st.integers(0, 500), st.integers(1, 8))


@functools.cache
def indices() -> st.SearchStrategy[Index]:
    """Element indices of the 32 lanes; simplest: `lane`."""
    simple = st.one_of(_affine(), _rows(), _backwards(), _broadcast(), _swizzled())
    return st.one_of(
        _affine(), _rows(), _broadcast(), _backwards(), _swizzled(), _pairs(simple), _paged(), _permuted(),
        _astray(simple), _clustered(), _random(),
    )  # fmt: skip


@functools.cache
def masks(least: int = 1, most: int = 32) -> st.SearchStrategy[tuple[bool, ...]]:
    """Active lanes, `least` to `most` of them; simplest: the first `least`."""

    def lanes(chosen: Any) -> tuple[bool, ...]:
        return tuple(lane in chosen for lane in Lanes)

    first = st.integers(least, most).map(lambda n: lanes(range(n)))
    some = st.sets(st.integers(0, 31), min_size=least, max_size=most).map(lanes)
    but = st.sets(st.integers(0, 31), min_size=32 - most, max_size=32 - least).map(lambda s: lanes(set(Lanes) - s))
    return first if least == most else st.one_of(first, but) if least > 16 else st.one_of(first, some, but)


def _fit(index: Index, active: Sequence[bool], width: int, span: tuple[int, int]) -> list[int]:
    """Byte offsets of a shape, folded and stretched so that those of active lanes span `span` bytes."""
    low, high = span
    room = max(high // width, 1)
    offsets = [i % room * width for i in index]
    lanes = [lane for lane in Lanes if active[lane]]
    reach = max(offsets[t] for t in lanes) - min(offsets[t] for t in lanes) + width
    if reach < low and len(lanes) > 1:
        top = max(lanes, key=lambda t: offsets[t])
        bottom = min(offsets[t] for t in lanes if t != top)
        offsets[top] = (bottom + low - 1) // width * width
    base = min(offsets[t] for t in lanes)
    return [max(offset - base, 0) if active[lane] else 0 for lane, offset in enumerate(offsets)]


def patterns(
    *,
    op: str | None = None,
    space: str | None = None,
    width: int | None = None,
    kind: str | None = "",
    lanes: tuple[int, int] = (1, 32),
    span: tuple[int, int] = (1, REACH),
) -> st.SearchStrategy[Pattern]:
    """One warp instruction that a GPU can run; what is given is fixed.

    `lanes` bounds the active lanes, `span` the bytes from the first to the last that they access. `kind` tells atomics
    apart ("exch", "cas", "fadd"; None: any).
    """
    cells = [
        c for c in CELLS
        if op in (None, c[0]) and space in (None, c[1]) and width in (None, c[2]) and kind in (None, c[3])
    ]  # fmt: skip
    cells.sort(key=lambda c: (c[:3] != ("load", "global", 4),))
    least = max(lanes[0], 2) if lanes[1] > 1 and span[0] > 16 else lanes[0]
    place = st.one_of(st.just(0), st.integers(0, 255), st.integers(0, REACH))
    made = st.tuples(st.sampled_from(cells), masks(least, lanes[1]))
    matrices = [c for c in cells if c[0].startswith("ldmatrix")]
    if len(matrices) == len(cells):
        made = st.tuples(st.sampled_from(cells), masks(32, 32))
    elif matrices:
        # Of all 32 lanes or none: a mask that such an access did not heed would keep it from shrinking to another.
        rest = [c for c in cells if c not in matrices]
        made = masks(least, lanes[1]).flatmap(
            lambda m: st.tuples(st.sampled_from(cells if all(m) else rest), st.just(m))
        )
    return st.builds(
        lambda drawn, index, start: _pattern(drawn[0], drawn[1], index, start, span), made, indices(), place
    )


def _pattern(
    cell: tuple[str, str, int, str], active: tuple[bool, ...], index: Index, place: int, span: tuple[int, int]
) -> Pattern:
    op, space, width, kind = cell
    reach = REACH if space == "global" else SHARED_REACH
    offsets = _fit(index, active, width, (min(span[0], reach), min(span[1], reach)))
    size = max(o for o, on in zip(offsets, active, strict=True) if on) + width
    base = place % ((reach - size) // width + 1) * width
    addresses = tuple(o + base if on else 0 for o, on in zip(offsets, active, strict=True))
    return Pattern(op, space, width, addresses, active, kind)
