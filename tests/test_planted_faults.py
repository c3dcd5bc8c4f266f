"""A campaign with the default strategies finds each planted fault and shrinks it to a few lanes or lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted import KERNEL_FAULTS, PATTERN_FAULTS
from warpsim import coalescing, laws
from warpsim.campaign.chunks import Settings, cells, plan, work
from warpsim.corpus import Corpus, Entry


def hunt(folder: Path, patterns: int, kernels: int, limit: float) -> list[Entry]:
    """The failures of the first chunk that has any; each is there as drawn and, if that was larger, as shrunk."""
    for chunk in plan(patterns, kernels, 0, (8, 12)):
        if work((chunk, Settings(str(folder), "h200", limit, 1))).failures:
            break
    return Corpus(folder).entries()


@pytest.mark.parametrize("name", PATTERN_FAULTS)
def test_a_fault_in_an_access_rule_shrinks_to_four_lanes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coalescing.compiled()  # from the rules as they are
    monkeypatch.delitem(laws.PATTERN_LAWS, "is_the_same_compiled")  # it would meet any change of the plain rules
    PATTERN_FAULTS[name](monkeypatch)
    found = hunt(tmp_path, 8 * len(cells()), 0, 5)
    assert found, "not found"
    sizes = {entry.name: entry.document["size"]["lanes"] for entry in found}
    assert min(sizes.values()) <= 4, sizes


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("name", KERNEL_FAULTS)
def test_a_fault_in_the_front_end_shrinks_to_three_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KERNEL_FAULTS[name](monkeypatch)
    found = hunt(tmp_path, 0, 240, 60)
    assert found, "not found"
    sizes = {entry.name: entry.document["size"]["lines"] for entry in found}
    assert min(sizes.values()) <= 3, sizes


def test_without_a_fault_nothing_is_found(tmp_path: Path) -> None:
    assert hunt(tmp_path, 200, 0, 5) == []
