"""NumPy's answer for every shipped kernel: small filled inputs, and what the outputs must hold.

Inputs are small integers in floats, so that sums are exact whatever their order, and outputs can be compared for
equality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

TOKEN_FLOATS = 132


@dataclass(frozen=True)
class Case:
    """One launch: `args` in order (arrays are written in place), `expected` {argument number: contents}."""

    kernel: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: list[Any]
    expected: dict[int, np.ndarray[Any, Any]]
    dynamic_shared: int = 0
    options: tuple[str, ...] = ()


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def floats(count: int, seed: int = 0, high: int = 8) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-high, high, count).astype(np.float32)


def empty(count: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An output with a mark in it, so that an element that is not written shows."""
    return np.full(count, -77, dtype)


N = 1000  # no multiple of a block: the last CTA is partly filled


def flat(kernel: str, entry: str, args: list[Any], expected: dict[int, np.ndarray[Any, Any]], n: int = N) -> Case:
    return Case(kernel, entry, ((n + 255) // 256,), (256,), args, expected)


@case
def copy() -> Case:
    x = floats(N)
    return flat("copy.cu", "copy", [x, empty(N), N], {1: x})


@case
def copy_float4() -> Case:
    x = floats(4 * N)
    return flat("copy.cu", "copy_float4", [x, empty(4 * N), N], {1: x})


@case
def copy_scale() -> Case:
    x = floats(N)
    return flat("copy.cu", "scale", [x, empty(N), N], {1: 2 * x})


@case
def copy_strided() -> Case:
    x = floats(N * 3)
    return flat("copy.cu", "copy_strided", [x, empty(N), 3, N], {1: x[::3]})


@case
def copy_offset() -> Case:
    x = floats(N + 5)
    return flat("copy.cu", "copy_offset", [x, empty(N), 5, N], {1: x[5:]})


def walk(entry: str) -> tuple[Case, np.ndarray[Any, Any]]:
    x = floats(50 * 50)
    return Case("copy.cu", entry, (2, 7), (32, 8), [x, empty(2500), 50], {}), x.reshape(50, 50)


@case
def row_walk() -> Case:
    launch, x = walk("row_walk")
    launch.expected[1] = x.ravel()
    return launch


@case
def column_walk() -> Case:
    launch, x = walk("column_walk")
    launch.expected[1] = x.T.ravel()
    return launch


@case
def array_of_structs() -> Case:
    x = floats(4 * N)
    return flat("structs.cu", "array_of_structs", [x, empty(N), N], {1: x[::4]})


@case
def struct_of_arrays() -> Case:
    x = floats(N)
    return flat("structs.cu", "struct_of_arrays", [x, empty(N), N], {1: x})


def in_flight(entry: str, loads: int, width: int) -> Case:
    ctas, threads, rounds = 3, 64, 2
    x = floats(ctas * threads * loads * rounds * width)
    sums = x.reshape(rounds * loads, ctas * threads, width).sum((0, 2))
    return Case("in_flight.cu", f"{entry}<{loads}>", (ctas,), (threads,), [x, empty(ctas * threads), rounds], {1: sums})


for _loads in (1, 2, 4, 8):
    CASES[f"read_float_{_loads}"] = lambda loads=_loads: in_flight("read_float", loads, 1)  # type: ignore[misc]
    CASES[f"read_float4_{_loads}"] = lambda loads=_loads: in_flight("read_float4", loads, 4)  # type: ignore[misc]


class Paged:
    """A cache of `pages` pages of `page` tokens behind a random table; `tokens` is it in logical order."""

    def __init__(self, page: int, pages: int) -> None:
        self.page, self.pages = page, pages
        self.cache = floats(pages * page * TOKEN_FLOATS)
        self.table = np.random.default_rng(1).permutation(pages).astype(np.int32)
        self.tokens = self.cache.reshape(pages, page, TOKEN_FLOATS)[self.table].reshape(-1, TOKEN_FLOATS)


def kv_component(page: int) -> Case:
    kv = Paged(page, 300 // page + 1)
    n = 300
    args = [kv.cache, kv.table, empty(n), 7, n]
    return Case("paged_kv.cu", f"kv_component<{page}>", (2,), (256,), args, {2: kv.tokens[:n, 7]})


for _page in (1, 2, 4, 8, 16, 32, 64, 128, 256):
    CASES[f"kv_component_{_page}"] = lambda page=_page: kv_component(page)  # type: ignore[misc]


@case
def kv_contiguous() -> Case:
    x = floats(300 * TOKEN_FLOATS)
    return Case("paged_kv.cu", "kv_contiguous", (2,), (256,), [x, empty(300), 131, 300], {1: x[131::TOKEN_FLOATS]})


@case
def kv_vector() -> Case:
    kv = Paged(16, 19)
    args = [kv.cache, kv.table, empty(300), 32, 300]
    return Case("paged_kv.cu", "kv_vector<16>", (2,), (256,), args, {2: kv.tokens[:300, 128:].sum(1)})


@case
def kv_token() -> Case:
    kv = Paged(16, 3)
    args = [kv.cache, kv.table, empty(45), 45]
    return Case("paged_kv.cu", "kv_token<16>", (12,), (128,), args, {2: kv.tokens[:45].sum(1)})


@case
def kv_topk() -> Case:
    kv = Paged(16, 19)
    picks = np.random.default_rng(2).permutation(19 * 16).astype(np.int32)
    args = [kv.cache, kv.table, picks, empty(200), 3, 200]
    return Case("paged_kv.cu", "kv_topk<16>", (1,), (256,), args, {3: kv.tokens[picks[:200], 3]})


@case
def kv_staged() -> Case:
    kv = Paged(16, 5)
    args = [kv.cache, kv.table, empty(80)]
    return Case("paged_kv.cu", "kv_staged<16>", (5,), (128,), args, {2: kv.tokens.sum(1)}, dynamic_shared=528 * 16)


@case
def kv_page_major() -> Case:
    kv = Paged(16, 5)
    sums = kv.tokens.reshape(5, -1).sum(1)
    return Case("paged_kv.cu", "kv_page_major<16>", (2,), (128,), [kv.cache, kv.table, empty(5), 5], {2: sums})


@case
def kv_window() -> Case:
    kv = Paged(16, 3)
    start, step, n = 16, 48, 300
    flat_tokens = kv.tokens.ravel()
    first = start + step * np.arange(n)
    sums = np.array([flat_tokens[b // 4 : b // 4 + 128].sum() for b in first], np.float32)
    crosses = (first // 8448 != (first + 511) // 8448).astype(np.int32)
    args = [kv.cache, kv.table, empty(n), empty(n, np.int32), start, step, n]
    return Case("paged_kv.cu", "kv_window<16>", (75,), (128,), args, {2: sums, 3: crosses})


@case
def kv_tail() -> Case:
    sequences, shortest, row = 4, 20, 4
    extra = np.array([0, 13, 12, 40], np.int32)
    kv = Paged(16, sequences * row)
    pages = kv.tokens.reshape(sequences, row, -1).sum(2)
    used = -(-(shortest + extra) // 16)
    sums = np.array([pages[s, : used[s]].sum() for s in range(sequences)], np.float32)
    args = [kv.cache, kv.table, extra, empty(sequences), shortest, row]
    return Case("paged_kv.cu", "kv_tail<16>", (sequences,), (64,), args, {3: sums})


def bank(
    entry: str,
    pick: Callable[[np.ndarray[Any, Any], int, int, np.ndarray[Any, Any]], Any],
    each: bool = False,
    size: int = 1,
) -> Case:
    """`pick(tile, warp, round, lanes)` is what the lanes of a warp read in a round."""
    ctas, rounds = 2, 20
    x = floats(1024 * size * (ctas if each else 1))
    out = np.zeros((ctas, 8, 32), np.float32)
    lanes = np.arange(32)
    for cta in range(ctas):
        tile = x.reshape(-1, 32, 32 * size)[cta if each else 0]
        for warp in range(8):
            for turn in range(rounds):
                out[cta, warp] += pick(tile, warp, turn, lanes)
    return Case("shared.cu", entry, (ctas,), (32, 8), [x, empty(ctas * 256), rounds], {1: out.ravel()})


def column(tile: np.ndarray[Any, Any], warp: int, turn: int, lanes: np.ndarray[Any, Any]) -> Any:
    return tile[lanes, (warp + turn) % 32]


def diagonal(tile: np.ndarray[Any, Any], warp: int, turn: int, lanes: np.ndarray[Any, Any]) -> Any:
    return tile[lanes, (lanes + warp + turn) % 32]


CASES["bank_column"] = lambda: bank("bank_column<32>", column)
CASES["bank_padded"] = lambda: bank("bank_column<33>", column)
CASES["bank_diagonal"] = lambda: bank("bank_diagonal<32>", diagonal)
CASES["bank_diagonal_padded"] = lambda: bank("bank_diagonal<33>", diagonal)
CASES["bank_swizzle"] = lambda: bank("bank_swizzle", column)


@case
def bank_broadcast() -> Case:
    return bank("bank_broadcast", lambda tile, warp, turn, lanes: tile[(warp + turn) % 32, warp])


def vectors(entry: str, width: int) -> Case:
    return bank(
        entry, lambda tile, warp, turn, lanes: tile.reshape(32, 32, width)[(warp + turn) % 32].sum(1), size=width
    )


CASES["bank_float2"] = lambda: vectors("bank_float2", 2)
CASES["bank_float4"] = lambda: vectors("bank_float4", 4)


def tile_sums(entry: str) -> Case:
    return bank(entry, lambda tile, warp, turn, lanes: tile[(warp + turn) % 32], each=True)


CASES["tile_through_shared"] = lambda: tile_sums("tile_through_shared")
CASES["tile_through_l1"] = lambda: tile_sums("tile_through_l1")


@case
def histogram() -> Case:
    values = np.random.default_rng(5).integers(0, 256, 3000).astype(np.int32)
    bins = np.bincount(values, minlength=256).astype(np.uint32)
    return Case("shared.cu", "histogram", (3,), (256,), [values, np.zeros(256, np.uint32), 3000], {1: bins})


@case
def histogram_weighted() -> Case:
    values = np.random.default_rng(5).integers(0, 40, 3000).astype(np.int32)
    bins = 5 * np.bincount(values, minlength=256).astype(np.uint32)
    args = [values, np.zeros(256, np.uint32), 5, 3000]
    return Case("shared.cu", "histogram_weighted", (3,), (256,), args, {1: bins})


def transpose(entry: str, block: tuple[int, int], grid: tuple[int, int]) -> Case:
    rows, cols = 70, 50
    x = floats(rows * cols)
    args = [x, empty(rows * cols), rows, cols]
    return Case("transpose.cu", entry, grid, block, args, {1: x.reshape(rows, cols).T.ravel()})


CASES["transpose_naive"] = lambda: transpose("transpose_naive", (32, 32), (2, 3))
CASES["transpose_naive_32x8"] = lambda: transpose("transpose_naive", (32, 8), (2, 9))
CASES["transpose_tiled"] = lambda: transpose("transpose_tiled<33>", (32, 32), (2, 3))
CASES["transpose_unpadded"] = lambda: transpose("transpose_tiled<32>", (32, 32), (2, 3))
CASES["transpose_tiled_32x8"] = lambda: transpose("transpose_tiled<33, 8>", (32, 8), (2, 3))
CASES["transpose_unpadded_32x8"] = lambda: transpose("transpose_tiled<32, 8>", (32, 8), (2, 3))


@case
def axpy() -> Case:
    x, y = floats(N), floats(N, 1)
    return flat("reuse.cu", "axpy", [x, y.copy(), 3.0, N], {1: 3 * x + y})


@case
def axpy_restrict() -> Case:
    x, y = floats(N), floats(N, 1)
    return flat("reuse.cu", "axpy_restrict", [x, y.copy(), 3.0, N], {1: 3 * x + y})


def product(entry: str, n: int, block: tuple[int, int], grid: tuple[int, int]) -> Case:
    a, b = floats(n * n), floats(n * n, 1)
    c = a.reshape(n, n) @ b.reshape(n, n)
    return Case("reuse.cu", entry, grid, block, [a, b, empty(n * n), n], {2: c.ravel()})


CASES["matmul_naive"] = lambda: product("matmul_naive", 45, (32, 8), (2, 6))
CASES["matmul_tiled"] = lambda: product("matmul_tiled", 64, (32, 32), (2, 2))


@case
def stencil5() -> Case:
    rows, cols = 20, 50
    x = 5 * floats(rows * cols).reshape(rows, cols)
    out = empty(rows * cols).reshape(rows, cols)
    around = x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    expected = out.copy()
    expected[1:-1, 1:-1] = np.float32(0.2) * around
    return Case("reuse.cu", "stencil5", (2, 3), (32, 8), [x.ravel(), out.ravel(), rows, cols], {1: expected.ravel()})


@case
def row_sums() -> Case:
    x = floats(70 * 37)
    args = [x, empty(70), 70, 37]
    return Case("reuse.cu", "row_sums", (2,), (64,), args, {1: x.reshape(70, 37).sum(1)})


@case
def column_sums() -> Case:
    x = floats(70 * 37)
    args = [x, empty(37), 70, 37]
    return Case("reuse.cu", "column_sums", (2,), (32,), args, {1: x.reshape(70, 37).sum(0)})


def reduction(entry: str) -> Case:
    x = floats(3 * 256)
    args = [x, empty(3)]
    return Case("reuse.cu", entry, (3,), (256,), args, {1: x.reshape(3, 256).sum(1)}, dynamic_shared=1024)


CASES["reduce_strided"] = lambda: reduction("reduce_strided")
CASES["reduce_sequential"] = lambda: reduction("reduce_sequential")


@case
def read_again() -> Case:
    n, passes = 150, 3
    x = floats(2 * n * 4)
    sums = np.zeros((2, 64), np.float32)
    for i in range(n):
        sums[:, i % 64] += passes * x.reshape(2, n, 4)[:, i].sum(1)
    return Case("reuse.cu", "read_again", (2,), (64,), [x, empty(128), n, passes], {1: sums.ravel()})


@case
def fusion_multiply() -> Case:
    x = floats(N)
    return flat("fusion.cu", "multiply", [x, empty(N), 3.0, N], {1: 3 * x})


@case
def fusion_add() -> Case:
    x, y = floats(N), floats(N, 1)
    return flat("fusion.cu", "add", [x, y, empty(N), N], {2: x + y})


@case
def fusion_fused() -> Case:
    x, y = floats(N), floats(N, 1)
    return flat("fusion.cu", "multiply_add", [x, y, empty(N), 3.0, N], {2: 3 * x + y})


def spilling(options: tuple[str, ...]) -> Case:
    n, steps = 256, 3
    x = np.random.default_rng(0).integers(0, 3, steps * n).astype(np.float32)
    value = np.repeat(0.25 * np.arange(36, dtype=np.float32)[:, None], n, 1)
    for step in x.reshape(steps, n):
        value = value * step + np.float32(0.5)
    return Case("spills.cu", "spills", (1,), (256,), [x, empty(n), steps, n], {1: value.sum(0)}, options=options)


CASES["spills"] = lambda: spilling(("--maxrregcount=32",))
CASES["no_spills"] = lambda: spilling(())


@case
def write_strided() -> Case:
    expected = empty(N * 3)
    expected[::3] = np.arange(N)
    return flat("writes.cu", "write_strided", [empty(N * 3), 3, N], {0: expected})


@case
def scatter() -> Case:
    x = floats(N)
    where = np.random.default_rng(1).permutation(N).astype(np.int32)
    expected = empty(N)
    expected[where] = x
    return flat("writes.cu", "scatter", [x, where, empty(N), N], {2: expected})


@case
def write_per_cta() -> Case:
    expected = empty(40 * 32)
    expected[::32] = np.arange(40)
    return Case("writes.cu", "write_per_cta", (40,), (32,), [empty(40 * 32), 32], {0: expected})


@case
def roofline_add() -> Case:
    x, y = floats(N), floats(N, 1)
    return flat("roofline.cu", "add", [x, y, empty(N), N], {2: x + y})


@case
def roofline_scale() -> Case:
    x = floats(N)
    return flat("roofline.cu", "scale", [x, empty(N), 3.0, N], {1: 3 * x})


@case
def roofline_dot() -> Case:
    x, y = floats(N), floats(N, 1)
    return Case("roofline.cu", "dot", (2,), (64,), [x, y, np.zeros(1, np.float32), N], {2: np.array([x @ y])})


@case
def roofline_relu() -> Case:
    x = floats(N)
    return flat("roofline.cu", "relu", [x, empty(N), N], {1: np.maximum(x, 0)})
