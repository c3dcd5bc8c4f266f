"""The outputs of the shipped kernels equal NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from tests.scenarios.checks import source_of
from tests.scenarios.references import CASES
from warpsim.library import list_kernels
from warpsim.signature import kernels


@pytest.mark.parametrize("name", CASES)
def test_outputs_equal_numpys(name: str) -> None:
    case = CASES[name]()
    kernel = warpsim.Kernel(source_of(case.kernel), case.entry, options=case.options)
    kernel.simulate(case.grid, case.block, case.args, dynamic_shared=case.dynamic_shared)
    for argument, expected in case.expected.items():
        np.testing.assert_array_equal(case.args[argument], expected)


def test_every_shipped_kernel_has_a_reference() -> None:
    covered = {(case.kernel, case.entry.partition("<")[0]) for case in (make() for make in CASES.values())}
    apart = {"calibrate.cu", "faults.cu", "replay.cu"}  # measure, stop, or are compared with the access rules
    shipped = {
        (file, name)
        for file in list_kernels()
        if file not in apart
        for name in {kernel.name for kernel in kernels(source_of(file))}
    }
    assert shipped - covered == set()
