"""Random operands for the kernels of opcodes.cu, and what a GPU made of them.

    python tests/opcode_vectors.py tests/data/opcodes-h200.json

runs them with CuPy and writes the recording that `test_opcode_vectors.py` compares the executor with. Three words go
in, eight come out; a third of the operands are special: zeros, extremes, infinities, NaNs, denormals, small integers.
"""
# ruff: noqa: E501

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("opcodes.cu")
THREADS = 256
BLOCK = 64
WORDS = 8

_SPECIAL = [
    0, 1, 2, 3, 7, 31, 32, 33, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 0x7FFFFFFF, 0x80000001, 0x8000, 0x7FFF, 0xFF, 0x100, 0x10000,
    0x3F800000, 0xBF800000, 0x40490FDB, 0x00800000, 0x007FFFFF, 0x00000001, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00000,
    0xFFC00001, 0x7F800001, 0x7F7FFFFF, 0x4F000000, 0x4F800000, 0xCF000000, 0x3F000000, 0xBF000000, 0x3FC00000, 0x4B000001,
    0x7FF00000, 0xFFF00000, 0x7FF80000, 0x3FF00000, 0x00100000, 0x000FFFFF, 0x7C007C00, 0xFC00FC00, 0x7E007E00, 0x3C003C00,
    0x04000400, 0x03FF03FF, 0x00010001, 0x7BFF7BFF, 0x80008000, 0x7F807F80, 0x7FC07FC0, 0x3F803F80,
]  # fmt: skip


def names() -> list[str]:
    """The kernels of opcodes.cu, in order."""
    return re.findall(r"^OP\((\w+),", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)


def source(name: str) -> str:
    """opcodes.cu with one kernel only, which compiles in a twentieth of the time."""
    text = SOURCE.read_text(encoding="utf-8")
    blocks = []
    for match in re.finditer(r"^OP\((\w+),", text, re.MULTILINE):
        depth, end = 0, match.start()
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0 and text[end - 1] == ")":
                break
        if match[1] != name:
            blocks.append((match.start(), end))
    for start, end in reversed(blocks):
        text = text[:start] + text[end:]
    return text


def operands(name: str) -> NDArray[np.uint32]:
    """Three rows of words for a kernel: any bits, special values, small integers, or floats of ordinary size."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shape = (3, THREADS)
    anything = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    special = rng.choice(np.array(_SPECIAL, np.uint32), shape)
    small = rng.integers(-40, 41, shape).astype(np.int32).view(np.uint32)
    ordinary = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 6, shape)).astype(np.float32).view(np.uint32)
    if name.startswith("double"):  # ordinary doubles need an ordinary upper word; each word is one once
        ordinary = np.where(
            rng.random(shape) < 0.8, (ordinary & np.uint32(0x803FFFFF)) | np.uint32(0x3FC00000), ordinary
        )
    if name.startswith("half"):
        halves = (rng.standard_normal((3, 2 * THREADS)) * 10.0 ** rng.integers(-3, 4, (3, 2 * THREADS))).astype(
            np.float16
        )
        ordinary = halves.view(np.uint32)
    which = rng.integers(0, 6, shape)
    return np.choose(which, [anything, anything, special, special, small, ordinary])


def pack(words: NDArray[np.uint32]) -> str:
    """Words as text."""
    return base64.b64encode(zlib.compress(words.astype("<u4").tobytes(), 9)).decode()


def unpack(text: str) -> NDArray[np.uint32]:
    """The words of a kernel's output, a row for each of its eight results."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u4").reshape(WORDS, THREADS)


def record(path: Path) -> None:
    """Run every kernel on the GPU and write its output words."""
    from warpsim.frontend.nvrtc import include_directories
    from warpsim.replayer import device, require_gpu

    cp = require_gpu()
    options = ("-std=c++17", *(f"-I{d}" for d in include_directories()))
    module = cp.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=options)
    facts = device()
    found: dict[str, Any] = {k: facts[k] for k in ("device", "driver", "cuda", "compiler", "cupy")}
    found["kernels"] = {}
    for name in names():
        a, b, c = (cp.asarray(row) for row in operands(name))
        out = cp.zeros(WORDS * THREADS, cp.uint32)
        module.get_function(name)((THREADS // BLOCK,), (BLOCK,), (a, b, c, out, np.int32(THREADS)))
        found["kernels"][name] = pack(cp.asnumpy(out))
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found['kernels'])} kernels recorded in {path}")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
