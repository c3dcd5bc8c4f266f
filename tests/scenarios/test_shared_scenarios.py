"""Shared memory: bank conflicts, shared against L1, shared atomics."""

from __future__ import annotations

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


def test_histogram_with_shared_atomics_waits_when_all_lanes_hit_one_bin() -> None:
    spread, one_bin = run("histogram", ctas=16), run("histogram", ctas=16, spread=1)
    assert time_of(one_bin) > 2 * time_of(spread)
