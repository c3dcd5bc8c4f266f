"""The executor computes what the GPU computed, bit for bit, for random operands of every SASS opcode it knows.

Approximations (MUFU) differ in their last bits: `APPROXIMATE` says how far.
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

# results that pass through MUFU, whose tables are not public: kernel, row: (relative, absolute) tolerance
NEAR = (2.0**-20, 1e-37)
APPROXIMATE: dict[tuple[str, int], tuple[float, float]] = {
    **{("approximate", row): NEAR for row in range(8)},
    ("approximate", 1): (2.0**-20, 2.0**-22),  # a logarithm near zero
    ("float_divide", 5): NEAR,
    ("approximate_trig", 0): (0, 2.0**-21),  # sine and cosine have an absolute error
    ("approximate_trig", 1): (0, 2.0**-21),
    ("approximate_trig", 2): (2.0**-11, 0),  # tanh
    ("approximate_trig", 3): NEAR,
    ("approximate_trig", 4): (2.0**-20, 2.0**-21),
    ("approximate_trig", 5): (2.0**-15, 0),  # a power: exp2 of a product with a logarithm
    ("approximate_trig", 6): NEAR,
    ("approximate_trig", 7): NEAR,
}


def close(ours: np.ndarray, theirs: np.ndarray, relative: float, absolute: float) -> np.ndarray:
    """Floats near each other, both NaN, or the same bits."""
    a, b = ours.view(np.float32).astype(float), theirs.view(np.float32).astype(float)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= relative * np.abs(b) + absolute
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
    wrong = []
    for row in range(vectors.WORDS):
        same = ours[row] == theirs[row]
        if (name, row) in APPROXIMATE:
            same = close(ours[row], theirs[row], *APPROXIMATE[name, row])
        for thread in np.flatnonzero(~same)[:2]:
            words = " ".join(f"{int(x[thread]):08x}" for x in (a, b, c))
            wrong.append(
                f"r{row}({words}) = {int(theirs[row, thread]):08x} on the GPU, {int(ours[row, thread]):08x} here"
            )
    assert not wrong, "; ".join(wrong)
