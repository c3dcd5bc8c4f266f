"""Compiled code that is stored runs without numba, and gives what numba's own call gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from collections import namedtuple

import numpy as np

from warpsim.compilation import cfunc, intrinsic, njit, types

RECORD = np.dtype([("count", np.int32), ("total", np.int64)], align=True)
Tables = namedtuple("Tables", "records limit weights")


@intrinsic
def negated(typingctx, a):
    return types.int64(types.int64), lambda context, builder, signature, values: builder.neg(values[0])


@njit
def step(tables, k):
    tables.records[k].total += negated(tables.weights[0, k]) * tables.limit
    return tables.records[k].total


@njit
def run(tables, first, last):
    \"\"\"Called from Python; `step` is not.\"\"\"
    for k in range(first, last):
        tables.records[k].count += 1
        step(tables, k)
    return tables.records[first].total


@njit
def clear(values):
    for k in range(len(values)):
        values[k] = 0


@cfunc("int64(int64, int64)")
def sum_of(a, b):
    return a + b
"""

PROGRAM = """
import ctypes, sys
import numpy as np
import kernels

for start in (0, 1):  # two launches, of which the second finds the first one's address perhaps again
    records = np.zeros(4, kernels.RECORD)
    tables = kernels.Tables(records, 10 + start, np.arange(8).reshape(2, 4))
    print(kernels.run(tables, start, 4), kernels.run(tables, start, np.int64(2)), records.tolist())
values = np.arange(3)
print(kernels.clear(values), values.tolist())
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(kernels.sum_of.address)(40, 2))
print("numba" in sys.modules)
values = np.arange(6)
kernels.clear(values[::2])  # not of the kinds that stored code takes: numba itself is asked
print(values.tolist())
"""


def test_stored_code_runs_without_numba(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(MODULE)
    environment = {**os.environ, "WARPSIM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:."}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[1],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    first, second = run(), run()
    assert (first.pop(4), second.pop(4)) == ("True", "False")
    assert (
        first
        == second
        == [
            "0 0 [(2, 0), (2, -20), (1, -20), (1, -30)]",
            "-11 -22 [(0, 0), (2, -22), (1, -22), (1, -33)]",
            "0 [0, 0, 0]",
            "42",
            "[0, 1, 0, 3, 0, 5]",
        ]
    )


@pytest.mark.cuda
def test_a_scenario_that_ran_before_runs_without_numba() -> None:
    program = "import sys; from warpsim.cli import main; main(sys.argv[1:]); print('numba' in sys.modules)"
    command = [sys.executable, "-c", program, "run", "copy", "--set", "n=4096", "--no-gains"]
    for _ in range(2):
        last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert last == "False"
