"""Loads of a warp under way before the first wait, read off the SASS."""

from __future__ import annotations

import pytest

from warpsim.frontend.independence import independent_loads
from warpsim.frontend.sass import load_program
from warpsim.library import find_kernel

pytest.importorskip("cuda.bindings")


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize(
    ("kernel", "entry", "loads"),
    [
        ("copy.cu", "copy", 1),
        ("roofline.cu", "add", 2),  # both operands before the sum
        ("paged_kv.cu", "kv_component<16>", 1),  # the second load needs the first
        ("reuse.cu", "stencil5", 5),
        *[("in_flight.cu", f"read_float<{n}>", n) for n in (1, 2, 4, 8)],
        *[("in_flight.cu", f"read_float4<{n}>", n) for n in (1, 2, 4, 8)],
    ],
)
def test_loads_between_two_waits(arch: int, kernel: str, entry: str, loads: int) -> None:
    program = load_program(find_kernel(kernel).read_text(), entry, arch)
    assert independent_loads(program, [1] * len(program.instructions)) == loads


def test_rare_loads_do_not_decide() -> None:
    program = load_program(find_kernel("in_flight.cu").read_text(), "read_float<8>", 90)
    loads = [i.index for i in program.instructions if i.opcode == "LDG"]
    requests = [0] * len(program.instructions)
    requests[loads[0]] = 1000
    for index in loads[1:]:
        requests[index] = 1
    assert independent_loads(program, requests) == 1
