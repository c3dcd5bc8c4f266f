"""The executor computes what the GPU computed, bit for bit, for random operands of every SASS opcode it knows.

Approximations (MUFU) differ in their last bits: they are compared to within 2^-20 of the value.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from warpsim.kernel import Kernel

from . import opcode_vectors as vectors

RECORDING = Path(__file__).with_name("data") / "opcodes-h200.json"
RECORDED = json.loads(RECORDING.read_text(encoding="utf-8"))["kernels"] if RECORDING.exists() else {}

# results that pass through MUFU or host functions in their last bits: kernel -> rows, None for all
APPROXIMATE: dict[str, set[int] | None] = {
    "approximate": None,
    "approximate_trig": None,
    "float_divide": {5},
}


def close(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Floats within 2^-20 of each other, both NaN, or the same bits."""
    a, b = ours.view(np.float32).astype(float), theirs.view(np.float32).astype(float)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= 2.0**-20 * np.abs(b) + 1e-37
    return near | (np.isnan(a) & np.isnan(b)) | (ours == theirs)


@pytest.mark.cuda
@pytest.mark.parametrize("name", vectors.names())
def test_the_executor_agrees_with_the_gpu(name: str) -> None:
    if name not in RECORDED:
        pytest.skip(f"{name} is not recorded: python tests/opcode_vectors.py {RECORDING} on a GPU")
    a, b, c = (np.ascontiguousarray(row) for row in vectors.operands(name))
    out = np.zeros(vectors.WORDS * vectors.THREADS, np.uint32)
    grid = vectors.THREADS // vectors.BLOCK
    Kernel(vectors.source(name), name).simulate(grid, vectors.BLOCK, [a, b, c, out, vectors.THREADS])
    ours, theirs = out.reshape(vectors.WORDS, vectors.THREADS), vectors.unpack(RECORDED[name])
    rows = APPROXIMATE.get(name, set())
    wrong = []
    for row in range(vectors.WORDS):
        same = close(ours[row], theirs[row]) if rows is None or row in rows else ours[row] == theirs[row]
        for thread in np.flatnonzero(~same)[:2]:
            words = " ".join(f"{int(x[thread]):08x}" for x in (a, b, c))
            wrong.append(
                f"r{row}({words}) = {int(theirs[row, thread]):08x} on the GPU, {int(ours[row, thread]):08x} here"
            )
    assert not wrong, "; ".join(wrong)
