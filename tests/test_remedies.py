"""Layouts that are suggested against bank conflicts leave none, and move no two bytes to one place."""

import pytest

from warpsim.patterns import access
from warpsim.remedies import padding, remedies, swizzle

ALL = [True] * 32
PATTERNS = {
    "column of float[32][32]": ([128 * lane for lane in range(32)], 4),
    "column of float[32][64]": ([256 * lane for lane in range(32)], 4),
    "column of float4[32][8]": ([128 * lane for lane in range(32)], 16),
    "every second float": ([8 * lane for lane in range(32)], 4),
    "8 x 4 tile": ([lane % 8 * 128 + lane // 8 * 4 for lane in range(32)], 4),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_what_is_suggested_leaves_no_conflict(name: str) -> None:
    addresses, width = PATTERNS[name]
    found = remedies(addresses, ALL, width)
    assert found
    for remedy in found:
        moved = access([remedy.place(a) for a in addresses], width=width, space="shared")
        assert (moved.conflicts, moved.data_wavefronts) == (0, remedy.wavefronts)


def test_a_column_is_padded_by_one_element() -> None:
    texts = [remedy.text for remedy in remedies(PATTERNS["column of float[32][32]"][0], ALL, 4)]
    assert texts[0] == "4 B of padding after every 128 B"
    assert "XORing" in texts[1]


def test_lanes_that_are_off_do_not_count() -> None:
    addresses = [128 * lane for lane in range(32)]
    assert remedies(addresses, [lane == 3 for lane in range(32)], 4) == []


def test_without_conflicts_nothing_is_suggested() -> None:
    assert remedies([4 * lane for lane in range(32)], ALL, 4) == []
    assert remedies([0] * 32, ALL, 4) == []


@pytest.mark.parametrize("place", [padding(128, 4), padding(96, 12), swizzle(128, 4), swizzle(256, 16)])
def test_layouts_keep_words_apart(place: object) -> None:
    moved = [place(offset) for offset in range(0, 8192, 4)]  # type: ignore[operator]
    assert len(set(moved)) == len(moved)
