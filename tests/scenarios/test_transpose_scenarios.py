"""Transpose: naive, tiled without and with padding, 32 x 32 and 32 x 8 threads."""

from __future__ import annotations

import pytest

from tests.scenarios.checks import dram_write, per_request, run, shared, time_of

LARGE = {"rows": 1024, "cols": 1024}


@pytest.mark.parametrize("shape", ["", "_32x8"])
def test_naive_transpose_writes_a_sector_for_every_word(shape: str) -> None:
    metrics = run(f"transpose_naive{shape}").metrics
    assert per_request(metrics, "ld") == 4
    assert per_request(metrics, "st") == 32


@pytest.mark.parametrize("shape", ["", "_32x8"])
@pytest.mark.parametrize("tile", ["unpadded", "tiled"])
def test_tiled_transpose_is_coalesced_both_ways(tile: str, shape: str) -> None:
    metrics = run(f"transpose_{tile}{shape}").metrics
    assert per_request(metrics, "ld") == 4
    assert per_request(metrics, "st") == 4


@pytest.mark.parametrize("shape", ["", "_32x8"])
def test_padding_removes_the_conflicts_of_the_tile(shape: str) -> None:
    assert shared(run(f"transpose_unpadded{shape}")) == (32, 31)
    assert shared(run(f"transpose_tiled{shape}")) == (1, 0)
    assert shared(run(f"transpose_tiled{shape}"), "st") == (1, 0)


def test_tiles_pay_off_and_so_do_eight_rows_of_threads() -> None:
    naive, tiled, fewer = (time_of(run(f"transpose_{n}", **LARGE)) for n in ("naive", "tiled", "tiled_32x8"))
    assert naive > 1.5 * tiled
    assert fewer < tiled


def test_conflicts_cost_time() -> None:
    assert time_of(run("transpose_unpadded_32x8", **LARGE)) > 1.2 * time_of(run("transpose_tiled_32x8", **LARGE))


def test_l2_merges_the_naive_transposes_writes() -> None:
    result = run("transpose_naive", **LARGE)
    useful = 4 * 1024 * 1024
    assert 32 * result.metrics["lts__t_sectors_srcunit_tex_op_write.sum"] == 8 * useful
    assert dram_write(result) <= 1.1 * useful
