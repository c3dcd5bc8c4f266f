"""Faults: each kernel is stopped, and the message says what, where and which thread."""

from __future__ import annotations

import re

import pytest

import warpsim
from tests.scenarios.checks import source_of
from warpsim.errors import WarpsimError
from warpsim.library import folder


def line_of(text: str) -> int:
    """Line number of the one line of faults.cu that contains *text*."""
    found = [number for number, line in enumerate(source_of("faults.cu").splitlines(), 1) if text in line]
    assert len(found) == 1
    return found[0]


def message(name: str) -> str:
    scenario = warpsim.load(folder("scenarios") / "faults" / f"{name}.toml")
    with pytest.raises(WarpsimError) as caught:
        warpsim.simulate(scenario)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "words", "where"),
    [
        ("missing_sync", r"without a barrier", None),
        ("missing_second_sync", r"race on shared memory", None),
        ("shared_unwritten", r"never written", "out[threadIdx.x] = tile[threadIdx.x];"),
        ("out_of_bounds", r"out of bounds", None),
        ("misaligned_float4", r"misaligned", "reinterpret_cast<const float4*>"),
        ("opaque_address", r"'?where'?", "out[i] = in[place];"),
        ("divergent_barrier", r"barrier", None),
        ("endless", r"endless|for ever|never end", "while (i >= 0)"),
    ],
)
def test_fault_is_caught_at_its_line(name: str, words: str, where: str | None) -> None:
    text = message(name)
    assert re.search(words, text, re.IGNORECASE), text
    assert "faults.cu" in text
    if where is not None:
        assert f"faults.cu:{line_of(where)}" in text or f"line {line_of(where)}" in text, text


@pytest.mark.parametrize("name", ["out_of_bounds", "misaligned_float4"])
def test_faulty_access_names_thread_and_address(name: str) -> None:
    text = message(name)
    assert re.search(r"thread", text), text
    assert re.search(r"0x[0-9a-f]+", text), text


def test_60_kb_of_static_shared_memory_is_the_compilers_error() -> None:
    text = message("static_shared")
    assert "ptxas" in text
    assert "too much shared data" in text


def test_60_kb_of_dynamic_shared_memory_needs_opt_in() -> None:
    text = message("dynamic_shared")
    assert "opt_in_shared" in text
    assert "61440" in text or "60 KB" in text, text
