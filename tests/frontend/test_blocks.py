"""What blocks say of plain instructions, against a count over the printed SASS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsim.frontend.blocks import RUN, Blocks
from warpsim.frontend.sass import load_program
from warpsim.frontend.trace import FIXED, ISSUE, OPERATION

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """
extern "C" __global__ void polynomials(const float* in, float* out, const int* which) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i], y = in[i + 4096], s = 0.0f;
  int n = which[i];
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    s = s * x + y; y = y * s + x; x = x * y + s; s = (s + x) * (y - x); n ^= (k * 77 + n) >> 3 & 1;
    y = fminf(x, s) + fmaxf(y, 1.0f);
  }
  out[i] = s + x + y;
}
"""


def read(text: str) -> tuple[set[str], list[tuple[str, bool]]]:
    """Register operands of a printed instruction without its destination: all, and in order with their reuse flags."""
    tokens = text.split(" ", 1)[1].split(", ")
    while re.fullmatch(r"!?U?P[0-9T]", tokens[0].strip()):
        tokens.pop(0)
    if not re.match(r"[FI]SETP|@", text):
        tokens.pop(0)
    found = [re.match(r"[-|~]*R(\d+)\|?(\.reuse)?", t.strip()) for t in tokens]
    return {m[1] for m in found if m}, [(m[1], bool(m[2])) if m else ("", False) for m in found]


def test_register_reads_of_a_loop() -> None:
    program = load_program(SOURCE, "polynomials", 90)
    blocks = Blocks(program)
    rows = {name: k for k, name in enumerate(OPERATION.names or ())}
    checked = 0
    for n, (first, count) in enumerate(blocks.spans):
        instructions = program.instructions[first : first + count]
        plain = [i for i in instructions if i.opcode in ("FFMA", "FADD", "FMUL", "FMNMX", "IMAD", "ISETP", "LOP3")]
        operations = blocks.operations[blocks.block_first[n] : blocks.block_first[n] + blocks.block_count[n]]
        if len(plain) + 1 != count or any(o[0] != ISSUE for o in operations):
            continue
        kept: list[tuple[str, bool]] = []
        for step, o in enumerate(operations):
            banks = [0, 0]
            for i in plain[RUN * step : RUN * (step + 1)]:
                _, places = read(re.sub(r"^@!?P\d ", "", i.text))
                before = [(r if keep else "") for r, keep in kept] + [""] * 8
                for register in {r for k, (r, _) in enumerate(places) if r and before[k] != r}:
                    banks[int(register) % 2] += 1
                kept = places
            assert o[rows["gap_reads"]] == max(banks)
            assert o[rows["gap_instructions"]] == min(RUN, count - RUN * step) - 1
        checked += 1
    assert checked >= 1


def test_shuffles_go_through_the_data_stage() -> None:
    text = (Path(__file__).parents[2] / "kernels" / "roofline.cu").read_text()
    entry = next(e for e in re.findall(r"void\s+(\w+)\(", text) if "__shfl" in text.split(e + "(")[1].split("\n}")[0])
    program = load_program(text, entry, 90)
    blocks = Blocks(program)
    rows = {name: k for k, name in enumerate(OPERATION.names or ())}
    shuffles = {i.index for i in program.instructions if i.opcode == "SHFL"}
    assert shuffles
    assert {o[rows["index"]] for o in blocks.operations if o[rows["kind"]] == FIXED and o[rows["count"]]} == shuffles
