"""Shared memory: bank conflicts, shared against L1, shared atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.scenarios.checks import run, shared, time_of


@pytest.mark.parametrize(
    ("name", "wavefronts", "conflicts"),
    [
        ("bank_column", 32, 31),
        ("bank_padded", 1, 0),
        ("bank_broadcast", 1, 0),
        ("bank_diagonal", 1, 0),
        ("bank_diagonal_padded", 2, 1),
        ("bank_float2", 2, 0),
        ("bank_float4", 4, 0),
        ("bank_swizzle", 1, 0),
    ],
)
def test_wavefronts_and_conflicts_of_a_read(name: str, wavefronts: int, conflicts: int) -> None:
    result = run(name)
    assert shared(result) == (wavefronts, conflicts)
    assert result.derived["shared"]["load"]["requests"] == 8 * 8 * result.params["rounds"]


def test_conflicts_serialise() -> None:
    slow, fast = run("bank_column", ctas=132, rounds=64), run("bank_padded", ctas=132, rounds=64)
    wavefronts = 8 * 64 * 31
    assert slow.metrics["sm__cycles_elapsed.max"] - fast.metrics["sm__cycles_elapsed.max"] == pytest.approx(
        wavefronts, rel=0.1
    )


def test_a_tile_with_conflicts_is_slower_than_reading_l1_directly() -> None:
    through_shared, through_l1 = (run(f"tile_through_{way}", ctas=264, rounds=64) for way in ("shared", "l1"))
    assert shared(through_shared) == (32, 31)
    assert through_l1.derived["global"]["load"]["hit_rate"] > 0.7
    assert time_of(through_shared) > 1.5 * time_of(through_l1)


def atomics(name: str, spread: int) -> tuple[float, np.ndarray[Any, Any]]:
    """Wavefronts of the shared atomics of a histogram, and its values, a row a warp."""
    result = run(name, spread=spread)
    values = np.random.default_rng(1).integers(0, spread, result.params["n"]).reshape(-1, 32)
    return result.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"], values


def busiest_bank(values: np.ndarray[Any, Any], distinct: bool) -> int:
    """Sum over warps of the most lanes (of the most *distinct* bins) in one bank."""
    return sum(int(np.bincount((np.unique(row) if distinct else row) % 32).max()) for row in values)


@pytest.mark.parametrize("spread", [256, 1])
def test_counting_by_one_takes_all_lanes_on_a_bin_at_once(spread: int) -> None:
    wavefronts, values = atomics("histogram", spread)
    assert wavefronts == busiest_bank(values, distinct=True)


@pytest.mark.parametrize("spread", [256, 1])
def test_lanes_that_add_to_one_bin_wait_for_each_other(spread: int) -> None:
    wavefronts, values = atomics("histogram_weighted", spread)
    assert wavefronts == busiest_bank(values, distinct=False)


def test_a_histogram_of_one_bin_costs_time() -> None:
    spread, one_bin = (run("histogram_weighted", n=540672, ctas=1056, spread=s) for s in (256, 1))
    assert time_of(one_bin) > 1.1 * time_of(spread)
