"""What calibration makes of measurements, and the profile it writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warpsim import calibration
from warpsim.calibration import Calibration, Measured, bank_masks, calibrate, profile_text, split_sides, tag_pairs
from warpsim.errors import UnsupportedError
from warpsim.frontend.sass import load_program
from warpsim.gpu import load_gpu
from warpsim.library import find_kernel
from warpsim.patterntable import Pattern

DEVICE = {"device": "NVIDIA H200", "profile": "h200"}


def bank(line: int, masks: tuple[int, int]) -> int:
    return (line & masks[0]).bit_count() % 2 | (line & masks[1]).bit_count() % 2 << 1


def counts(bits: int, lines: int, base: int, masks: tuple[int, int]) -> dict[tuple[int, int, int], int]:
    return {
        (bit, partner, low): 1 + (bank(base + low, masks) == bank(base + high, masks))
        for bit, partner, low, high in tag_pairs(bits, lines)
    }


@pytest.mark.parametrize("seed", range(5))
def test_any_two_bit_xor_hash_is_found_from_line_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = tuple(int(rng.integers(0, 1 << 40)) & ~3 | own for own in (1, 2))  # higher bits do not matter
    for base in (0, 0x21080, 0xFED54C0000, int(rng.integers(0, 1 << 36)) << 2):
        found, settled = bank_masks(counts(24, 1 << 25, base, (masks[0], masks[1])), base)
        assert settled == 23
        assert found == (masks[0] % (1 << 24), masks[1] % (1 << 24))


def test_bits_beyond_the_memory_are_left_out_of_the_masks() -> None:
    masks = (0b1011_0101_1001, 0b1101_1010_1010)
    for base, settled in ((0, 11), (0x800, 10), (0xC00, 10)):
        found = bank_masks(counts(29, 3 << 10, base, masks), base)
        assert found == (tuple(m % (2 << settled) for m in masks), settled)
    assert max(high for *_, high in tag_pairs(29, 3 << 10)) < 3 << 10


@pytest.mark.parametrize(("gib", "settled"), [(141, 28), (24, 27), (12, 25)])
def test_the_hash_of_the_h200_from_an_arena_anywhere(gib: int, settled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    masks, arena = load_gpu("h200").l1.tag_bank_masks, 0xFED54C0000 << 7
    extents = []

    def replayed(patterns: list[Pattern]) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, pattern in enumerate(patterns):
            extents.append(pattern.extent)
            a, b = (bank(arena + x >> 7, masks) for x in pattern.addresses[:2])
            yield index, {"base": arena, "measured": {"tag_wavefronts": 1 + (a == b)}}

    monkeypatch.setattr(calibration, "measure_patterns", replayed)
    bench: Any = SimpleNamespace(cp=SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(
        memGetInfo=lambda: (gib << 30, 150 << 30)))))  # fmt: skip
    (figure,) = calibration._tag_hash(bench)
    assert figure.value == [m % (2 << settled) for m in masks]
    assert figure.how == f"pairs of lines that differ in line bits 2 to {settled}"
    assert max(extents) < 3 * (gib << 30) // 4


def test_a_bank_that_is_no_xor_is_said() -> None:
    with pytest.raises(UnsupportedError, match="line bit 2: the tag bank is no XOR"):
        bank_masks({(2, partner, 0): 2 for partner in range(4)}, 0)


def test_sides_are_told_apart_by_which_lines_are_near() -> None:
    rng = np.random.default_rng(1)
    home = rng.integers(0, 2, 500)
    side = rng.permutation(np.arange(132) % 2)
    table = 277 + 32 * (home[None, :] != side[:, None]) + rng.normal(0, 3, (132, 500)) + rng.normal(0, 8, (132, 1))
    near, far, count = split_sides(table)
    assert near == pytest.approx(277, abs=2)
    assert far == pytest.approx(309, abs=2)
    assert count == [66, 66]


def test_the_profile_keeps_what_was_not_measured_and_names_the_kernel_of_what_was(tmp_path: Path) -> None:
    found = Calibration(
        "h200", DEVICE, [Measured("x", 34.5, "cycles", "chase_l1, 16 KB", "l1.hit_latency"), Measured("y", 1, "", "z")]
    )
    (tmp_path / "h200.toml").write_text(profile_text(found))
    made, shipped = load_gpu(tmp_path / "h200.toml"), load_gpu("h200")
    assert made.l1.hit_latency == round(34.5)
    assert made.dram == shipped.dram
    line = next(x for x in (tmp_path / "h200.toml").read_text().splitlines() if x.startswith("hit_latency"))
    assert 'source = "measured: kernels/calibrate.cu chase_l1, 16 KB (' in line


def test_a_gpu_without_a_profile_gets_one_with_everything_else_assumed(tmp_path: Path) -> None:
    found = Calibration(
        "rtx-x", {"device": "NVIDIA RTX X", "profile": "rtx-x"}, [Measured("SMs", 48, "", "device query", "sm.count")]
    )
    (tmp_path / "rtx-x.toml").write_text(profile_text(found))
    made = load_gpu(tmp_path / "rtx-x.toml")
    assert made.sm.count == 48
    assert made.title == "NVIDIA RTX X"


def test_every_key_that_calibration_sets_is_in_a_profile() -> None:
    source = Path(sys.modules["warpsim.calibration"].__file__ or "").read_text()
    import re

    keys = set(re.findall(r'"((?:sm|l1|shared|crossbar|l2|dram|launch)\.[a-z_]+)"', source))
    assert len(keys) >= 14
    found = Calibration("h200", DEVICE, [Measured(k, 1, "", "x", k) for k in sorted(keys)])
    assert profile_text(found).count("kernels/calibrate.cu x") == len(keys)


def test_the_compiler_leaves_timed_loads_between_their_clocks_and_in_their_loop() -> None:
    source = find_kernel("calibrate.cu").read_text(encoding="utf-8")
    try:
        latency, shared = (load_program(source, k, 90).instructions for k in ("line_latency", "read_shared"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    clocks = [i.index for i in latency if i.opcode == "CS2R" and "SR_CLOCKLO" in i.text]
    assert [sum(i.opcode == "LDG" for i in latency[a:b]) for a, b in pairwise(clocks)] == [32]
    loops = [(i.operands[-1].value, i.index) for i in shared if i.opcode == "BRA" and i.operands[-1].value < i.index]
    assert 16 in [sum(i.opcode == "LDS" for i in shared[a:b]) for a, b in loops]


def test_calibrating_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r"needs a GPU and warpsim\[gpu\]"):
        calibrate()
