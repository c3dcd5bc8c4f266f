"""Which float32 divisions a GPU sends through the slow path, by the exponents of both operands: what FCHK decides.

    python tests/division_paths.py tests/data/division-paths-h200.json

times a division for every pair of biased exponents (mantissas 0 and random) in a warp of its own; the slow path is a
call of about a hundred instructions. `test_opcodes.py` compares the executor's rule with the recording.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = r"""
extern "C" __global__ void divide(const float *a, const float *b, float *out, unsigned *cycles) {
    int i = blockIdx.x;
    float x = a[i], y = b[i], q = 0;
    unsigned start, end, best = ~0u;
    #pragma unroll 1
    for (int k = 0; k < 3; k++) {
        asm volatile("mov.u32 %0, %%clock;" : "=r"(start), "+f"(x), "+f"(y) :: "memory");
        q = x / y;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(end), "+f"(q) :: "memory");
        out[i] = q;
        best = min(best, end - start);
    }
    cycles[i] = best;
}
"""


def operands() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Words a and b of shape (2, 256, 256): mantissas zero, then random; exponents by row and column."""
    rng = np.random.default_rng(0)
    mantissas = np.zeros((2, 2, 256, 256), np.uint32)
    mantissas[:, 1] = rng.integers(1, 1 << 23, (2, 256, 256))
    exponents = np.arange(256, dtype=np.uint32) << np.uint32(23)
    return mantissas[0] | exponents[:, None], mantissas[1] | exponents[None, :]


def unpack(recording: dict[str, Any]) -> NDArray[np.bool_]:
    """Whether each division of `operands` is slow."""
    packed = np.frombuffer(zlib.decompress(base64.b64decode(recording["slow"])), np.uint8)
    return np.unpackbits(packed).astype(bool).reshape(2, 256, 256)


def record(path: Path) -> None:
    """Time every division on the GPU and write which ones are slow."""
    from warpsim.replayer import device, require_gpu

    cp = require_gpu()
    kernel = cp.RawModule(code=SOURCE, options=("-std=c++17",)).get_function("divide")
    a, b = (cp.asarray(words.reshape(-1).view(np.float32)) for words in operands())
    out, cycles = cp.zeros(a.size, cp.float32), cp.zeros(a.size, cp.uint32)
    for _ in range(2):
        kernel((a.size,), (32,), (a, b, out, cycles))
    taken = cp.asnumpy(cycles)
    fast = int(np.percentile(taken, 20))
    slow = taken > 2 * fast
    facts = device()
    found: dict[str, Any] = {k: facts[k] for k in ("device", "driver", "cuda", "compiler", "cupy")}
    found["cycles"] = {"fast": fast, "slow": int(np.median(taken[slow])) if slow.any() else None}
    found["slow"] = base64.b64encode(zlib.compress(np.packbits(slow).tobytes(), 9)).decode()
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{int(slow.sum())} of {slow.size} divisions are slow; cycles {found['cycles']}")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
