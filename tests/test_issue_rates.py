"""Pipes and register banks: the model's rule against loops that an H200 ran (`tests/issue_rates.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from tests.issue_rates import Loops, cases
from warpsim.frontend.blocks import Blocks
from warpsim.frontend.sass import program_from_cubin
from warpsim.frontend.trace import OPERATION
from warpsim.gpu import load_gpu

MEASURED = json.loads((Path(__file__).parent / "data" / "issue-rates-h200.json").read_text())["cycles"]
LOOPS = Loops()


# Where the reads of neighbours overlap further than within runs of three.
APART = {"FADD ee, FADD oo"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.xfail(strict=True)) if n in APART else n for n in MEASURED]
)
def test_a_loop_takes_the_cycles_of_its_busiest_pipe_or_bank(name: str) -> None:
    program = program_from_cubin(LOOPS.image(cases()[name]), "timed")
    blocks = Blocks(program)
    loop = next(n for n, (first, count) in enumerate(blocks.spans) if first <= LOOPS.places[0] < first + count)
    first = blocks.block_first[loop]
    ops = np.array(blocks.operations[first : first + blocks.block_count[loop]], OPERATION)
    spec = load_gpu("h200").sm
    pipes = {
        "slots": (ops["gap_instructions"] + 1).sum(),
        "reads": ops["gap_reads"].sum() / spec.register_ports,
        **{p: ops[f"gap_{p}"].sum() * getattr(spec, f"{p}_cycles") for p in ("int", "fma", "imad", "fp64", "xu")},
    }  # fmt: skip
    expected = max(pipes.values()) / len(LOOPS.places)
    assert MEASURED[name] == pytest.approx(expected, rel=0.1, abs=0.12), pipes
