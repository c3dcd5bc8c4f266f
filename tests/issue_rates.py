"""Cycles that a scheduler of a GPU takes for loops of given SASS instructions: pipes and register banks.

    python -m tests.issue_rates FILE.json        # on a machine with a GPU: some 5 s

A compiled loop of FFMAs is the template: its cubin is patched, instruction by instruction, with encodings taken from
other compiled code, registers replaced. `tests/test_issue_rates.py` compares the model's rules with what an H200 gave,
``tests/data/issue-rates-h200.json``.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsim.frontend.nvrtc import compile_cubin
from warpsim.frontend.program import Instruction
from warpsim.frontend.sass import program_from_cubin

ACCUMULATORS, LENGTH = 48, 128
SAMPLES = """
#include <cuda_fp16.h>
extern "C" __global__ void samples(float* f, int* o, double* d, int n) {
  int i = threadIdx.x; float a = f[i], b = f[i + 32], c = f[i + 64]; int x = o[i], y = o[i + 32], z = o[i + 64];
  double p = d[i], q = d[i + 32];
  f[i + 100] = a + b; f[i + 200] = a * b; f[i + 300] = fmaf(a, b, c); f[i + 400] = fminf(a, b);
  f[i + 500] = a > b ? c : b;
  o[i + 100] = x + y + z; o[i + 200] = x * y + z; o[i + 400] = __funnelshift_l(x, y, z); f[i + 1300] = a / b;
  o[i + 500] = __byte_perm(x, y, z); o[i + 600] = min(x, y); o[i + 700] = x > y ? z : y; o[i + 800] = __popc(x);
  o[i + 1100] = (int)a; f[i + 600] = (float)y; f[i + 700] = __expf(b); d[i + 100] = p * q + p; d[i + 200] = p + q;
  long long w = (long long)x * y; o[i + 1400] = w >> 32; o[i + 2200] = x << 3; o[i + 2000] = abs(x) + y;
  __half2 h = *(__half2*)&x, k = *(__half2*)&y, l = *(__half2*)&z; ((__half2*)o)[i + 1600] = __hfma2(h, k, l);
  ((__half2*)o)[i + 1800] = __hmul2(k, l); f[i + 1100] = __half2float(*(__half*)&z); o[i + 2500] = x - 1;
  o[i + 2600] = __ballot_sync(~0u, x > 3); f[i + 1200] = (float)(char)y; o[i + 2700] = __clz(y);
}
"""
# What is measured alone: opcode with modifiers that set it apart, and the banks of its operands (e: even registers).
ALONE = {
    "FADD": "eo", "FMUL": "eo", "FFMA": "eoe", "IMAD": "eo", "IMAD.WIDE": "ee", "VIADD": "e", "IADD3": "eo",
    "SHF": "eo", "LOP3": "eo", "PRMT": "eoe", "SEL": "eo", "ISETP": "eo", "FSETP": "eo", "FMNMX": "eo", "FSEL": "eo",
    "VIMNMX": "eo", "IABS": "e", "HFMA2": "eoe", "HMUL2": "eo", "I2FP": "e", "I2F": "e", "F2I": "e",
    "MUFU": "e", "POPC": "e", "FLO": "e", "DFMA": "eee", "DADD": "ee", "MOV": "",
}  # fmt: skip
PAIRS = (
    ("FADD", "IMAD"), ("FADD", "IADD3"), ("IMAD", "IADD3"), ("IMAD", "VIADD"), ("IADD3", "ISETP"),
    ("IADD3", "SEL"), ("IADD3", "FMNMX"), ("IADD3", "I2FP"), ("FADD", "MUFU"), ("MUFU", "POPC"), ("MUFU", "I2F"),
    ("IADD3", "VIADD"), ("FADD", "DADD"),
)  # fmt: skip
BANKS = (
    ("FADD ee", [("FADD", "ee")]), ("FADD eo", [("FADD", "eo")]), ("FFMA eee", [("FFMA", "eee")]),
    ("FFMA eoe", [("FFMA", "eoe")]), ("FFMA ooo", [("FFMA", "ooo")]), ("IADD3 eee", [("IADD3", "eee")]),
    ("FADD ee, FADD oo", [("FADD", "ee"), ("FADD", "oo")]), ("FFMA eeo, FFMA ooe", [("FFMA", "eeo"), ("FFMA", "ooe")]),
)  # fmt: skip
_NO_REGISTER = {"ISETP", "FSETP"}


def template() -> str:
    """A kernel with a loop of FFMAs over `ACCUMULATORS` registers, timed by each warp."""
    names = [f"r{k}" for k in range(ACCUMULATORS)]
    lines = ['extern "C" __global__ void timed(float* f, long long* out, int n) { int i = threadIdx.x;']
    lines += [f"float {r} = f[i + {37 * k}];" for k, r in enumerate(names)]
    lines += ["__syncthreads(); long long t0 = clock64();", "#pragma unroll 1", "for (int k = 0; k < n; k++) {"]
    for k in range(LENGTH):
        a, b, c = (names[(k + j) % ACCUMULATORS] for j in range(3))
        lines.append(f'asm volatile("fma.rn.f32 %0,%0,%1,%2;" : "+f"({a}) : "f"({b}), "f"({c}));')
    lines += ["}", "long long t1 = clock64();", *(f"f[i + {37 * k}] = {r};" for k, r in enumerate(names))]
    return "\n".join([*lines, "if (i % 32 == 0) { out[i / 16] = t0; out[i / 16 + 1] = t1; } }"])


class Loops:
    """The template patched with loops of other instructions."""

    def __init__(self) -> None:
        self.cubin = compile_cubin(template(), "timed", 90).cubin
        instructions = program_from_cubin(self.cubin, "timed").instructions
        begin = next(i.index for i in instructions if i.opcode == "FFMA")
        end = next(i.index for i in instructions[begin:] if i.opcode == "BRA")
        self.places = [i.index for i in instructions[begin:end] if i.opcode == "FFMA"]
        used = sorted({o.index for k in self.places for o in instructions[k].operands[:1] if o.index is not None})
        self.even, self.odd = [r for r in used if r % 2 == 0], [r for r in used if r % 2]
        self.pairs = [r for r in self.even if r + 1 in used]
        self.start = self.cubin.find(struct.pack("<QQ", *_halves(instructions[0].encoding)))
        samples = program_from_cubin(compile_cubin(SAMPLES, "samples", 90).cubin, "samples").instructions
        self.samples = {name: _sample(name, samples) for name in ALONE}

    def instruction(self, name: str, banks: str, k: int) -> int:
        """The k-th of a loop: 128 bits, its operands in registers of these banks."""
        word = self.samples[name]
        wide = name in ("DFMA", "DADD") or name == "IMAD.WIDE"
        rows = {"e": self.pairs if wide else self.even, "o": self.odd}
        if name in _NO_REGISTER:
            word = _put(word, 81, 6, 5 | 7 << 3)  # P5, PT
        else:
            both = sorted(self.even + self.odd)
            word = _put(word, 16, 8, self.pairs[k % len(self.pairs)] if wide else both[k % len(both)])
        for n, (at, bank) in enumerate(zip((24, 32, 64), banks, strict=False)):
            word = _put(word, at, 8, rows[bank][(3 * k + 5 * n + 1) % len(rows[bank])])
        return _put(word, 105, 21, 1 | 1 << 4 | 7 << 5 | 7 << 8)  # stall 1, no barrier, no reuse

    def image(self, kinds: Sequence[tuple[str, str]]) -> bytes:
        """The cubin with the loop patched."""
        image = bytearray(self.cubin)
        for k, place in enumerate(self.places):
            word = self.instruction(*kinds[k % len(kinds)], k)
            struct.pack_into("<QQ", image, self.start + 16 * place, *_halves(word))
        return bytes(image)

    def cycles(self, kinds: Sequence[tuple[str, str]], warps: int = 16, rounds: int = 12) -> float:
        """Cycles an instruction and scheduler, on the GPU."""
        import cupy

        module = cupy.cuda.function.Module()
        module.load(self.image(kinds))
        kernel = module.get_function("timed")
        values, out = cupy.zeros(1 << 16, cupy.float32), cupy.zeros(64, cupy.int64)
        found = []
        for _ in range(2):
            kernel((1,), (32 * warps,), (values, out, cupy.int32(rounds)))
            times = out.get()[: 2 * warps].reshape(-1, 2)
            found.append((times[:, 1].max() - times[:, 0].min()) / (rounds * len(self.places) * warps / 4))
        return round(float(min(found)), 3)


def _halves(word: int) -> tuple[int, int]:
    return word & (1 << 64) - 1, word >> 64


def _put(word: int, at: int, bits: int, value: int) -> int:
    mask = (1 << bits) - 1
    return word & ~(mask << at) | (value & mask) << at


def _sample(name: str, instructions: Sequence[Instruction]) -> int:
    """An encoding of the instruction without guard, constants and uniform registers, with registers enough."""
    opcode, *modifiers = name.split(".")
    for i in instructions:
        registers = [o for o in i.operands if o.kind == "reg" and o.index != 255]
        if i.opcode != opcode or i.guard is not None or not set(modifiers) <= set(i.modifiers):
            continue
        if opcode == "IMAD" and not modifiers and {"WIDE", "MOV", "HI", "IADD", "SHL", "X"} & set(i.modifiers):
            continue
        if any(o.kind in ("const", "ureg") for o in i.operands):
            continue
        if len(registers) >= len(ALONE[name]) + (opcode not in _NO_REGISTER):
            return i.encoding
    raise LookupError(f"no {name} in the samples")


def cases() -> dict[str, list[tuple[str, str]]]:
    """What is measured: instructions in turn, with the banks of their operands, by name."""
    alone = {f"{name} {banks}".strip(): [(name, banks)] for name, banks in ALONE.items()}
    pairs = {f"{a}, {b}": [(a, ALONE[a]), (b, ALONE[b])] for a, b in PAIRS}
    return alone | pairs | dict(BANKS)


def main(target: str) -> int:
    """Measure and write the file."""
    import cupy

    loops = Loops()
    found: dict[str, Any] = {"device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()}
    found["cycles"] = {name: loops.cycles(kinds) for name, kinds in cases().items()}
    Path(target).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
