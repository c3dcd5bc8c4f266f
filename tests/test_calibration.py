"""What calibration makes of measurements, and the profile it writes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from warpsim.calibration import Calibration, Measured, bank_masks, calibrate, profile_text, split_sides, tag_pairs
from warpsim.errors import UnsupportedError
from warpsim.gpu import load_gpu

DEVICE = {"device": "NVIDIA H200", "profile": "h200"}


def bank(line: int, masks: tuple[int, int]) -> int:
    return (line & masks[0]).bit_count() % 2 | (line & masks[1]).bit_count() % 2 << 1


@pytest.mark.parametrize("seed", range(5))
def test_any_two_bit_xor_hash_is_found_from_line_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = (int(rng.integers(0, 1 << 24)) & ~3 | 1, int(rng.integers(0, 1 << 24)) & ~3 | 2)
    for base in (0, 0x21080, int(rng.integers(0, 1 << 21)) << 2):
        wavefronts = {
            (bit, partner): 1 + (bank(base + line, masks) == bank(base, masks)) for bit, partner, line in tag_pairs(24)
        }
        assert bank_masks(wavefronts, 24, base) == masks


def test_a_bank_that_is_no_xor_is_said() -> None:
    with pytest.raises(UnsupportedError, match="line bit 2: the tag bank is no XOR"):
        bank_masks(dict.fromkeys([(2, 0), (2, 1), (2, 2), (2, 3)], 2), 3)


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


def test_calibrating_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r"needs a GPU and warpsim\[gpu\]"):
        calibrate()
