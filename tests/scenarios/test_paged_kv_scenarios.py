"""Paged KV: bytes moved for each useful byte at L1, L2 and DRAM, with the table's own loads apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsim
from tests.scenarios.checks import SECTOR, dram_read, line, load_miss, per_request, run, source_of
from warpsim.metrics import global_requests, global_sectors

TOKEN = 528
LD = global_sectors("ld")


def ratios(result: warpsim.Result, text: str, useful: int, indices: int) -> tuple[float, float, float]:
    """Bytes over useful bytes of the cache's load line: L1 (asked for), L2 (read), DRAM without `indices` bytes."""
    cache = line(result, text)
    return (
        SECTOR * cache[LD] / useful,
        SECTOR * load_miss(cache) / useful,
        (dram_read(result) - indices) / useful,
    )


def close(*expected: float) -> Any:
    return pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("page", [16, 128])
def test_one_component_a_lane_costs_8_8_16(page: int) -> None:
    result = run("kv_component", page=page)
    tokens = result.params["tokens"]
    assert ratios(result, "cache[slot * TOKEN_FLOATS + component]", 4 * tokens, 4 * tokens // page) == close(8, 8, 16)


@pytest.mark.parametrize("page", [16, 128])
def test_16_bytes_a_lane_cost_2_2_4(page: int) -> None:
    result = run("kv_vector", page=page)
    tokens = result.params["tokens"]
    assert ratios(result, "cache[slot * TOKEN_VECTORS + vector]", 16 * tokens, 4 * tokens // page) == close(2, 2, 4)


@pytest.mark.parametrize("page", [16, 128])
def test_a_whole_token_by_a_warp_costs_nothing_extra(page: int) -> None:
    result = run("kv_token", page=page)
    tokens = result.params["tokens"]
    l1, l2, dram = ratios(result, "value = vectors[i + lane]", TOKEN * tokens, 4 * tokens // page)
    assert round(l1, 2) == 1.06
    assert l2 == pytest.approx(1.00, abs=0.01)
    assert dram == pytest.approx(1.00, abs=0.01)


def test_top_k_picks_with_one_component_each_cost_8_8_16() -> None:
    result = run("kv_topk")
    count, tokens = result.params["count"], result.params["tokens"]
    indices = 4 * count + 4 * tokens // 16
    assert ratios(result, "cache[slot * TOKEN_FLOATS + component]", 4 * count, indices) == close(8, 8, 16)


@pytest.mark.parametrize("page", [16, 128])
def test_a_page_staged_through_shared_memory_costs_nothing_extra(page: int) -> None:
    result = run("kv_staged", page=page)
    tokens = result.params["tokens"]
    assert ratios(result, "staged[i] = vectors[i]", TOKEN * tokens, 4 * tokens // page) == close(1, 1, 1)


@pytest.mark.parametrize("page", [16, 128])
def test_page_major_warps_cost_nothing_extra_and_read_the_table_once_a_page(page: int) -> None:
    result = run("kv_page_major", page=page)
    tokens = result.params["tokens"]
    assert ratios(result, "value = vectors[i]", TOKEN * tokens, 4 * tokens // page) == close(1, 1, 1)
    table = line(result, "page = table[warp]")
    assert table[global_requests("ld")] == table[LD] == tokens // page


@pytest.mark.parametrize("page", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_paging_wastes_no_bytes_at_any_page_size(page: int) -> None:
    """L1's sectors are those of the addresses; where the page lies does not change how many a component takes."""
    tokens = 2048
    component = run("kv_component", page=page, tokens=tokens)
    assert line(component, "cache[slot")[LD] == tokens
    whole = run("kv_token", page=page, tokens=tokens)
    table = np.random.default_rng(1).permutation(tokens // page)
    token = np.arange(tokens)
    start = (table[token // page] * page + token % page) * TOKEN
    first = (start + 511) // SECTOR - start // SECTOR + 1
    assert (
        line(whole, "value = vectors[i + lane]")[LD] == first.sum() + tokens
    )  # the last 16 bytes never cross a sector


@pytest.mark.parametrize("page", [16, 128])
def test_the_tables_own_loads_are_apart(page: int) -> None:
    result = run("kv_component", page=page)
    table = line(result, "page = table[token / PAGE]")
    assert table[global_requests("ld")] == result.params["tokens"] // 32
    assert per_request(table, "ld") == 1  # 2 entries for 16 tokens a page, 1 for 128: one sector


def test_a_table_far_larger_than_l2_costs_dram_bytes_and_time() -> None:
    small, large = run("kv_table_small"), run("kv_table_large")
    count = large.params["count"]
    entry = (dram_read(large) - dram_read(small)) / count
    assert 45 < entry < 66  # a fetch of 64 B for each 4 B entry, less those that share one and the small table
    assert large.metrics["sm__cycles_elapsed.max"] > small.metrics["sm__cycles_elapsed.max"]


def test_the_dependent_load_is_visible_as_latency() -> None:
    """One warp: through the table it waits for DRAM twice, without it once."""
    paged, contiguous = (
        run(name, tokens=32, threads=32).metrics["sm__cycles_elapsed.max"] for name in ("kv_component", "kv_contiguous")
    )
    assert 500 < paged - contiguous < 1100


@pytest.mark.parametrize(
    ("start", "sectors", "why"),
    [
        (1024, 16, "within a page, at a sector"),
        (1040, 17, "within a page, in the middle of a sector"),
        (8448 - 256, 16, "across a boundary, at a sector: a page is 264 whole sectors"),
        (8448 - 240, 17, "across a boundary, in the middle of a sector"),
        (8448, 16, "begins exactly at a boundary"),
        (8448 - 512, 16, "ends exactly at a boundary"),
    ],
)
def test_512_byte_reads_and_page_boundaries(start: int, sectors: int, why: str) -> None:
    metrics = line(run("kv_window", start=start, windows=1), "value = cache[page")
    assert metrics[LD] == sectors, why


@pytest.mark.parametrize(("page", "starts", "share"), [(16, 528, 0.059), (128, 4224, 0.0073)])
def test_share_of_16_byte_aligned_starts_that_cross_a_boundary(page: int, starts: int, share: float) -> None:
    pages = 3
    kernel = warpsim.Kernel(source_of("paged_kv.cu"), f"kv_window<{page}>")
    cache = np.zeros(pages * page * 132, np.float32)
    table = np.random.default_rng(0).permutation(pages).astype(np.int32)
    out, crosses = np.zeros(starts, np.float32), np.zeros(starts, np.int32)
    kernel.simulate((starts // 8,), (256,), [cache, table, out, crosses, 0, 16, starts])
    assert crosses.sum() == 31
    assert crosses.mean() == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(("page", "waste"), [(16, 0.002), (128, 0.016)])
def test_mean_tail_waste_of_lengths_near_4096(page: int, waste: float) -> None:
    result = run("kv_tail", page=page, sequences=64)
    lengths = 3584 + np.random.default_rng(3).integers(0, 1024, 64)
    read = SECTOR * line(result, "value = vectors[i]")[LD]
    assert read == -(-lengths // page).sum() * page * TOKEN
    wasted = read / (lengths.sum() * TOKEN) - 1
    assert wasted == pytest.approx(waste, rel=0.15)
    assert dram_read(result) == pytest.approx(read, rel=0.01)
