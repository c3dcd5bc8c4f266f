"""FCHK sends the divisions through the slow path that the GPU sends there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from . import division_paths as paths
from .frontend.straight_line import FIELDS, Warp, compiled, instruction

RECORDING = Path(__file__).with_name("data") / "division-paths-h200.json"


@pytest.mark.skipif(not RECORDING.exists(), reason="not recorded: python tests/division_paths.py FILE on a GPU")
def test_the_check_agrees_with_the_gpu() -> None:
    a, b = (words.reshape(-1, 32) for words in paths.operands())
    warp = Warp()
    function, _engine = compiled([instruction("FCHK P1, R1, R2")], warp, True)
    arrays = [getattr(warp, name) for name in FIELDS]
    pointers = [array.ctypes.data for array in arrays]
    ours = np.zeros(a.shape, bool)
    for row, (x, y) in enumerate(zip(a, b, strict=True)):
        warp.regs[1], warp.regs[2] = x, y
        function(0xFFFFFFFF, *pointers)
        ours[row] = warp.p(1)
    theirs = paths.unpack(json.loads(RECORDING.read_text(encoding="utf-8")))
    wrong = np.argwhere(ours.reshape(theirs.shape) != theirs)
    assert len(wrong) == 0, f"{len(wrong)} differ, first (mantissa kind, exponent a, exponent b): {wrong[:8].tolist()}"
