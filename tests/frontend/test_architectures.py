"""Other architectures compute what the H200 computed: the same sources, other SASS."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from warpsim.frontend.sass import load_program
from warpsim.frontend.simt import Executor
from warpsim.gpu import load_gpu
from warpsim.kernel import Kernel

TESTS = Path(__file__).parents[1]
RECORDED = json.loads((TESTS / "data" / "opcodes-h200.json").read_text(encoding="utf-8"))["kernels"]
KERNELS = ("int_mad_hi", "shift64", "minmax3", "float_fma", "double_mul", "half2_mul")


def vectors() -> ModuleType:
    spec = importlib.util.spec_from_file_location("opcode_vectors", TESTS / "opcode_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VECTORS = vectors()


@pytest.mark.cuda
@pytest.mark.parametrize("gpu", ["a100-80gb", "b200"])
@pytest.mark.parametrize("name", KERNELS)
def test_same_results_as_the_h200(name: str, gpu: str) -> None:
    spec = load_gpu(gpu)
    a, b, c = (np.ascontiguousarray(row) for row in VECTORS.operands(name))
    out = np.zeros(VECTORS.WORDS * VECTORS.THREADS, np.uint32)
    source = VECTORS.source(name)
    grid = VECTORS.THREADS // VECTORS.BLOCK
    launch = Kernel(source, name).launch(grid, VECTORS.BLOCK, [a, b, c, out, VECTORS.THREADS])
    Executor(launch, load_program(source, name, {"a100-80gb": 80, "b200": 100}[gpu]), spec).run()
    np.testing.assert_array_equal(out.reshape(VECTORS.WORDS, -1), VECTORS.unpack(RECORDED[name]))
