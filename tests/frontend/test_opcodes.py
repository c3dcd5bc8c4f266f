"""Each opcode against a NumPy formula: one instruction, compiled, on random registers."""
# ruff: noqa: E501

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from warpsim.errors import UnsupportedError
from warpsim.frontend.emitter import Emitter
from warpsim.frontend.opcodes import OPCODES, results_of
from warpsim.frontend.special import SPECIAL

from .straight_line import FIELDS, Warp, instruction, mask_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
LANE = np.arange(32)
U32, I32, U64, I64, F16, F32, F64 = np.uint32, np.int32, np.uint64, np.int64, np.float16, np.float32, np.float64

Before = Warp
Reference = Callable[[Warp], np.ndarray]


def i32(values: np.ndarray) -> np.ndarray:
    return values.view(I32)


def wide(values: np.ndarray) -> np.ndarray:
    """Words as Python integers, which never overflow."""
    return values.astype(object)


def words(values: np.ndarray) -> np.ndarray:
    return np.array([int(v) & 0xFFFFFFFF for v in values], U32)


def pairs(values: np.ndarray) -> np.ndarray:
    return np.array([int(v) % 2**64 for v in values], U64)


def ftz(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < F32(2.0**-126), np.copysign(F32(0), values), values).astype(F32)


def halves(values: np.ndarray) -> np.ndarray:
    return values.view(F16).reshape(32, 2)


def packed(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.stack([low, high], 1).astype(F16)).view(U32).reshape(32)


def bank(w: Warp, number: int, offset: int) -> int:
    return int(w.banks[number].view(U32)[offset // 4])


def prepared(seed: int = 1) -> Warp:
    """Random registers; R16 to R23 hold floats of ordinary size, R24 to R31 pairs that hold doubles, R32 small numbers."""
    w = Warp(seed)
    rng = np.random.default_rng(seed)
    w.regs[16:24] = (rng.standard_normal((8, 32)) * 10.0 ** rng.uniform(-3, 3, (8, 32))).astype(F32).view(U32)
    for k in range(24, 32, 2):
        w.set64(k, rng.standard_normal(32) * 10.0 ** rng.uniform(-3, 3, 32))
    w.regs[32] = rng.integers(0, 70, 32)
    w.regs[33:36] = rng.standard_normal((3, 64)).astype(F16).view(U32)
    w.regs[36, :8] = 0
    w.regs[37, :4] = w.regs[38, :4] = 0x00012345  # a denormal
    w.regs[39, :16] = w.regs[40, :16]
    return w


# text: (result register, reference)
WORDS: dict[str, Reference] = {
    "IADD3 R0, R1, R2, R3": lambda w: w.regs[1] + w.regs[2] + w.regs[3],
    "IADD3 R0, R1, -R2, 0x7": lambda w: w.regs[1] - w.regs[2] + U32(7),
    "IADD3 R0, -R1, c[0x0][0x20], -R3": lambda w: U32(bank(w, 0, 0x20)) - w.regs[1] - w.regs[3],
    "IADD3.X R0, R1, ~R2, RZ, P0, !PT": lambda w: w.regs[1] + ~w.regs[2] + w.p(0).astype(U32),
    "IADD3.X R0, PT, PT, R1, R2, R3, P0, P1": lambda w: w.regs[1:4].sum(0, dtype=U32) + w.p(0) + w.p(1),
    "VIADD R0, R1, 0xfffffffe": lambda w: w.regs[1] - U32(2),
    "VIADD.16x2 R0, R1, -R2": lambda w: (w.regs[1].view(np.uint16) - w.regs[2].view(np.uint16)).view(U32),
    "IMAD R0, R1, R2, R3": lambda w: w.regs[1] * w.regs[2] + w.regs[3],
    "IMAD.MOV.U32 R0, RZ, RZ, R3": lambda w: w.regs[3],
    "IMAD.IADD R0, R1, 0x1, -R3": lambda w: w.regs[1] - w.regs[3],
    "IMAD.X R0, R1, 0x1, R3, P2": lambda w: w.regs[1] + w.regs[3] + w.p(2),
    "IMAD.HI R0, R1, R2, RZ": lambda w: words((wide(i32(w.regs[1])) * wide(i32(w.regs[2]))) >> 32),
    "IMAD.HI.U32 R0, R1, R2, R4": lambda w: words((wide(w.regs[1]) * wide(w.regs[2]) + wide(w.r64(4))) >> 32),
    "IMAD R0, R1, UR2, R3": lambda w: w.regs[1] * w.uregs[2] + w.regs[3],
    "LEA R0, R1, R2, 0x4": lambda w: (w.regs[1] << U32(4)) + w.regs[2],
    "LEA.HI R0, R1, R2, R3, 0x5": lambda w: words(((wide(w.regs[3]) << 32 | wide(w.regs[1])) << 5 >> 32) + w.regs[2]),
    "LEA.HI.X R0, R1, R2, R3, 0x5, P1":
        lambda w: words(((wide(w.regs[3]) << 32 | wide(w.regs[1])) << 5 >> 32) + w.regs[2] + w.p(1)),
    "LEA.HI.X.SX32 R0, R1, R2, 0x3, P1": lambda w: words((wide(i32(w.regs[1])) << 3 >> 32) + w.regs[2] + w.p(1)),
    "LEA.HI.SX32 R0, R1, R2, 0x1d": lambda w: words((wide(i32(w.regs[1])) << 29 >> 32) + w.regs[2]),
    "SHF.L.U32 R0, R1, 0x9, RZ": lambda w: w.regs[1] << U32(9),
    "SHF.L.U32 R0, R1, R32, RZ": lambda w: words(wide(w.regs[1]) << wide(w.regs[32])),
    "SHF.R.U32.HI R0, RZ, 0x9, R1": lambda w: w.regs[1] >> U32(9),
    "SHF.R.S32.HI R0, RZ, R32, R1": lambda w: words(wide(i32(w.regs[1])) >> wide(w.regs[32])),
    "SHF.R.U32.HI R0, RZ, R32, R1": lambda w: words(wide(w.regs[1]) >> wide(w.regs[32])),
    "SHF.L.U64.HI R0, R1, R32, R2": lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) << wide(w.regs[32]) >> 32),
    "SHF.L.U64.HI R0, R1, 0x23, R2": lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) << 35 >> 32),
    "SHF.R.U64 R0, R1, R32, R2": lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) >> wide(w.regs[32])),
    "SHF.R.S64 R0, R1, R32, R2": lambda w: words((wide(i32(w.regs[2])) << 32 | wide(w.regs[1])) >> wide(w.regs[32])),
    "SHF.R.U32 R0, R1, R32, R2":
        lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) >> np.minimum(wide(w.regs[32]), 32)),
    "SHF.L.W.U32.HI R0, R1, R3, R2":
        lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) << (wide(w.regs[3]) & 31) >> 32),
    "SHF.R.W.U32 R0, R1, R3, R2": lambda w: words((wide(w.regs[2]) << 32 | wide(w.regs[1])) >> (wide(w.regs[3]) & 31)),
    "LOP3.LUT R0, R1, R2, R3, 0x96, !PT": lambda w: w.regs[1] ^ w.regs[2] ^ w.regs[3],
    "LOP3.LUT R0, R1, R2, R3, 0xe2, !PT": lambda w: (w.regs[1] & w.regs[2]) | (~w.regs[2] & w.regs[3]),
    "LOP3.LUT R0, RZ, ~R2, RZ, 0x33, !PT": lambda w: w.regs[2],
    "SEL R0, R1, R2, P0": lambda w: np.where(w.p(0), w.regs[1], w.regs[2]),
    "SEL R0, R1, -0x1, !P0": lambda w: np.where(w.p(0), U32(0xFFFFFFFF), w.regs[1]),
    "MOV R0, c[0x2][0x8]": lambda w: np.full(32, bank(w, 2, 8), U32),
    "MOV R0, UR5": lambda w: np.full(32, w.uregs[5]),
    "IABS R0, R1": lambda w: words(abs(wide(i32(w.regs[1])))),
    "ISET.GT.AND R0, R1, R2, P1": lambda w: np.where((i32(w.regs[1]) > i32(w.regs[2])) & w.p(1), U32(0xFFFFFFFF), U32(0)),
    "IMNMX.U32 R0, R1, R2, PT": lambda w: np.minimum(w.regs[1], w.regs[2]),
    "IMNMX R0, R1, R2, !PT": lambda w: np.maximum(i32(w.regs[1]), i32(w.regs[2])).view(U32),
    "VIMNMX R0, R1, R2, P1":
        lambda w: np.where(w.p(1), np.minimum(i32(w.regs[1]), i32(w.regs[2])), np.maximum(i32(w.regs[1]), i32(w.regs[2]))),
    "VIMNMX3.S16x2 R0, R1, R2, R3, !PT": lambda w: w.regs[1:4].view(np.int16).max(0).view(U32),
    "VIADDMNMX.RELU R0, R1, R2, R3, PT":
        lambda w: np.maximum(np.minimum(i32(w.regs[1] + w.regs[2]), i32(w.regs[3])), 0).view(U32),
    "VABSDIFF R0, R1, R2, R3": lambda w: words(abs(wide(i32(w.regs[1])) - wide(i32(w.regs[2]))) + w.regs[3]),
    "VABSDIFF4.U8.ACC R0, R1, R2, R3": lambda w: words(
        np.abs(w.regs[1].view(np.uint8).astype(int) - w.regs[2].view(np.uint8)).reshape(32, 4).sum(1) + w.regs[3]
    ),
    "IDP.4A.S8.S8 R0, R1, R2, R3": lambda w: words(
        (w.regs[1].view(np.int8).astype(int) * w.regs[2].view(np.int8)).reshape(32, 4).sum(1) + w.regs[3]
    ),
    "IDP.2A.HI.S16.S8 R0, R1, R2, R3": lambda w: words(
        (w.regs[1].view(np.int16).astype(int).reshape(32, 2) * w.regs[2].view(np.int8).reshape(32, 4)[:, 2:]).sum(1) + w.regs[3]
    ),
    "PRMT R0, R1, 0x6b34, R2": lambda w: prmt(w.regs[1], np.full(32, 0x6B34), w.regs[2]),
    "PRMT R0, R1, R3, R2": lambda w: prmt(w.regs[1], w.regs[3], w.regs[2]),
    "POPC R0, ~R1": lambda w: np.bitwise_count(~w.regs[1]),
    "FLO.U32 R0, R36": lambda w: words(np.array([int(v).bit_length() - 1 for v in w.regs[36]])),
    "FLO R0, R1": lambda w: words(np.array([int(v if v >= 0 else ~v).bit_length() - 1 for v in i32(w.regs[1])])),
    "FLO.U32.SH R0, R36": lambda w: words(np.array([32 - int(v).bit_length() if v else -1 for v in w.regs[36]])),
    "BREV R0, R1": lambda w: np.array([int(f"{v:032b}"[::-1], 2) for v in w.regs[1]], U32),
    "BMSK R0, R32, R32": lambda w: words(((1 << np.minimum(wide(w.regs[32]), 32)) - 1) << wide(w.regs[32])),
    "SGXT R0, R1, 0x5": lambda w: (i32(w.regs[1] << U32(27)) >> 27).view(U32),
    "SGXT.U32 R0, R1, R32": lambda w: words(wide(w.regs[1]) & ((1 << np.minimum(wide(w.regs[32]), 32)) - 1)),
    "I2I.S8.S32.SAT R0, R1": lambda w: np.clip(i32(w.regs[1]), -128, 127).view(U32),
    "I2IP.S16.S32.SAT R0, R1, R2, RZ": lambda w: words(
        (wide(np.clip(i32(w.regs[1]), -32768, 32767)) & 0xFFFF) << 16 | (wide(np.clip(i32(w.regs[2]), -32768, 32767)) & 0xFFFF)
    ),
    "LDC R0, c[0x3][R32+0x10]": lambda w: np.array([word_at(w, 3, int(a) + 16) for a in w.regs[32]], U32),
    "LDC.S8 R0, c[0x3][R1]": lambda w: np.zeros(32, U32),  # outside the bank
    "LDC.U16 R0, c[0x3][0x6]": lambda w: np.full(32, w.banks[3].view(np.uint16)[3], U32),
    "P2R R0, PR, R1, 0x5": lambda w: (w.regs[1] & ~U32(5)) | w.p(0).astype(U32) | (w.p(2).astype(U32) << U32(2)),
    "F2I.TRUNC.NTZ R0, R16": lambda w: np.trunc(w.f32(16)).astype(I32).view(U32),
    "F2I.U32.CEIL.NTZ R0, |R16|": lambda w: np.ceil(np.abs(w.f32(16))).astype(U32),
    "F2I.F64 R0, R24": lambda w: np.rint(w.r64(24).view(F64)).astype(I32).view(U32),
    "F2FP.F16.F32.PACK_AB R0, R16, R17": lambda w: packed(w.f32(17), w.f32(16)),
    "F2FP.BF16.F32.PACK_AB.RZ R0, R16, R17": lambda w: (w.regs[16] & U32(0xFFFF0000)) | w.regs[17] >> U32(16),
    "HFMA2.MMA R0, -RZ, RZ, 0x3c000001": lambda w: np.full(32, 0x3C000001, U32),
    "HFMA2.BF16_V2 R0, -RZ.H0_H0, RZ.H0_H0, |R33|": lambda w: w.regs[33] & U32(0x7FFF7FFF),
    "HFMA2.BF16_V2 R0, -RZ.H0_H0, RZ.H0_H0, -R33.H1_H1":
        lambda w: (w.regs[33] >> U32(16)) * U32(0x10001) ^ U32(0x80008000),
    "MOVM.16.MT88 R0, R1": lambda w: w.regs[1].view(np.uint16).reshape(8, 8).T.copy().view(U32).reshape(32),
    "SHFL.BFLY PT, R0, R1, 0x5, 0x1f": lambda w: w.regs[1][LANE ^ 5],
    "SHFL.UP PT, R0, R1, 0x3, 0x1800": lambda w: w.regs[1][np.where(LANE % 8 >= 3, LANE - 3, LANE)],
    "SHFL.DOWN PT, R0, R1, 0x7, 0x101f": lambda w: w.regs[1][np.where(LANE % 16 + 7 < 16, LANE + 7, LANE)],
    "SHFL.IDX PT, R0, R1, R32, 0x1c1f": lambda w: w.regs[1][LANE // 4 * 4 + w.regs[32] % 4],
    "MATCH.ANY R0, R39": lambda w: np.array([mask_of(w.regs[39] == v) for v in w.regs[39]], U32),
    "VOTE.ANY R0, PT, !P1": lambda w: np.full(32, ~w.preds[1]),
}  # fmt: skip


def word_at(w: Warp, number: int, offset: int) -> int:
    return int.from_bytes(w.banks[number][offset : offset + 4].tobytes(), "little")


def prmt(low: np.ndarray, selector: np.ndarray, high: np.ndarray) -> np.ndarray:
    result = []
    for a, s, c in zip(low, selector, high, strict=True):
        source = (int(c) << 32 | int(a)).to_bytes(8, "little")
        digits = [int(s) >> 4 * k & 15 for k in range(4)]
        bytes_ = [(255 if source[d & 7] & 128 else 0) if d & 8 else source[d & 7] for d in digits]
        result.append(int.from_bytes(bytes(bytes_), "little"))
    return np.array(result, U32)


@pytest.mark.parametrize("text", WORDS)
def test_word(text: str) -> None:
    w = prepared()
    before = prepared()
    want = WORDS[text](before).astype(np.int64).astype(U32)
    w.run(text)
    np.testing.assert_array_equal(w.regs[0], want)
    np.testing.assert_array_equal(w.regs[3:], before.regs[3:])  # nothing else changed


FLOATS: dict[str, Reference] = {
    "FADD R0, -R16, |R17|": lambda w: np.abs(w.f32(17)) - w.f32(16),
    "FADD.FTZ R0, R37, -RZ": lambda w: ftz(w.f32(37)),
    "FADD R0, R37, -RZ": lambda w: w.f32(37),
    "FADD.SAT R0, R16, R17": lambda w: np.clip(w.f32(16) + w.f32(17), 0, 1),
    "FMUL R0, R16, 2.5": lambda w: w.f32(16) * F32(2.5),
    "FMUL.FTZ R0, R38, 0.5": lambda w: ftz(ftz(w.f32(38)) * F32(0.5)),
    "FMUL.D4 R0, R16, R17": lambda w: (w.f32(16).astype(F64) * w.f32(17) / 4).astype(F32),
    "FMUL.FTZ.M8 R0, R16, R17": lambda w: ftz((ftz(w.f32(16)).astype(F64) * ftz(w.f32(17)) * 8).astype(F32)),
    "FMUL.RZ R0, R16, R17": lambda w: toward_zero(w.f32(16).astype(F64) * w.f32(17)),
    "FADD.RP R0, R16, R17": lambda w: upward(w.f32(16).astype(np.longdouble) + w.f32(17)),
    "FFMA R0, R16, -R17, R18": lambda w: fused(w.f32(16), -w.f32(17), w.f32(18)),
    "FFMA.FTZ R0, R16, R17, c[0x0][0x10]": lambda w: ftz(fused(w.f32(16), w.f32(17), np.full(32, constant_float(w)))),
    "FSEL R0, -R16, |R17|, P1": lambda w: np.where(w.p(1), -w.f32(16), np.abs(w.f32(17))),
    "FMNMX R0, R16, R17, PT": lambda w: np.fmin(w.f32(16), w.f32(17)),
    "FMNMX.NAN R0, R1, R17, !PT": lambda w: np.maximum(w.f32(1), w.f32(17)),
    "FMNMX3 R0, R16, R17, R18, !PT": lambda w: np.fmax(np.fmax(w.f32(16), w.f32(17)), w.f32(18)),
    "FSET.BF.GT.AND R0, R16, R17, PT": lambda w: (w.f32(16) > w.f32(17)).astype(F32),
    "FRND R0, R16": lambda w: np.rint(w.f32(16)),
    "FRND.FLOOR R0, -R16": lambda w: np.floor(-w.f32(16)),
    "F2F.F32.F64 R0, R24": lambda w: w.r64(24).view(F64).astype(F32),
    "F2F.F32.F64.RZ R0, R24": lambda w: toward_zero(w.r64(24).view(F64)),
    "I2F R0, R1": lambda w: i32(w.regs[1]).astype(F32),
    "I2F.U32.RP R0, R1": lambda w: upward(w.regs[1].astype(np.longdouble)),
    "I2FP.F32.U32.RZ R0, R1": lambda w: toward_zero(w.regs[1].astype(F64)),
    "I2F.U16 R0, R1": lambda w: (w.regs[1] & U32(0xFFFF)).astype(F32),
    "I2F.S64 R0, R2": lambda w: w.r64(2).view(I64).astype(F32),
    "I2F.U64.RP R0, R2": lambda w: upward(w.r64(2).astype(np.longdouble)),
    "HADD2.F32 R0, -RZ, R33.H1_H1": lambda w: halves(w.regs[33])[:, 1].astype(F32),
    "MUFU.RCP R0, R16": lambda w: F32(1) / w.f32(16),
    "MUFU.SQRT R0, |R16|": lambda w: np.sqrt(np.abs(w.f32(16))),
}  # fmt: skip


def constant_float(w: Warp) -> float:
    return float(w.banks[0].view(F32)[4])


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.array(
        [np.float32(math.fsum([float(a) * float(b), float(c)])) for a, b, c in zip(x, y, z, strict=True)], F32
    )


def toward_zero(exact: np.ndarray) -> np.ndarray:
    near = exact.astype(F32)
    return np.where(np.abs(near.astype(np.longdouble)) > np.abs(exact), np.nextafter(near, F32(0)), near)


def upward(exact: np.ndarray) -> np.ndarray:
    near = exact.astype(F32)
    return np.where(near.astype(np.longdouble) < exact, np.nextafter(near, F32(np.inf)), near)


@pytest.mark.parametrize("text", FLOATS)
def test_float(text: str) -> None:
    want = FLOATS[text](prepared()).astype(F32)
    np.testing.assert_array_equal(prepared().run(text).f32(0), want)


@pytest.mark.parametrize(
    ("function", "reference", "tolerance"),
    [
        ("RSQ", lambda x: 1 / np.sqrt(np.abs(x)), 1e-7),
        ("EX2", lambda x: np.exp2(np.clip(x, -100, 100)), 3e-7),
        ("LG2", lambda x: np.log2(np.abs(x)), 3e-7),
        ("SIN", lambda x: np.sin(2 * np.pi * x), 3e-7),
        ("COS", lambda x: np.cos(2 * np.pi * x), 3e-7),
        ("TANH", np.tanh, 1e-3),
    ],
)
def test_special_function(function: str, reference: Callable[[np.ndarray], np.ndarray], tolerance: float) -> None:
    w = prepared()
    x = np.clip(w.f32(16), -100, 100)
    if function in ("RSQ", "LG2"):
        x = np.abs(x)
    w.regs[16] = x.view(U32)
    w.run(f"MUFU.{function} R0, R16")
    np.testing.assert_allclose(w.f32(0), reference(x.astype(F64)), rtol=tolerance, atol=tolerance)


def test_special_function_limits() -> None:
    w = prepared()
    w.regs[16, :6] = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-42], F32).view(U32)
    w.run("MUFU.RCP R0, R16", "MUFU.EX2 R1, R16", "MUFU.LG2 R2, R16", "MUFU.RSQ R3, R16")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(w.f32(0)[:6], F32([np.inf, -np.inf, 0, -0.0, np.nan, np.inf]))
        np.testing.assert_array_equal(w.f32(1)[:6], F32([1, 1, np.inf, 0, np.nan, 1]))
        np.testing.assert_array_equal(w.f32(2)[:6], F32([-np.inf, -np.inf, np.inf, np.nan, np.nan, -np.inf]))
        np.testing.assert_array_equal(w.f32(3)[:6], F32([np.inf, -np.inf, 0, np.nan, np.nan, np.inf]))


PAIRS: dict[str, Reference] = {
    "IMAD.WIDE R2, R4, R5, R6": lambda w: pairs(wide(i32(w.regs[4])) * wide(i32(w.regs[5])) + wide(w.r64(6))),
    "IMAD.WIDE.U32 R2, R4, 0xfffffff1, c[0x0][0x10]":
        lambda w: pairs(wide(w.regs[4]) * 0xFFFFFFF1 + (bank(w, 0, 0x14) << 32 | bank(w, 0, 0x10))),
    "IMAD.WIDE.U32 R2, R4, UR8, RZ": lambda w: pairs(wide(w.regs[4]) * int(w.uregs[8])),
    "LDC.64 R2, c[0x0][0x18]": lambda w: np.full(32, bank(w, 0, 0x1C) << 32 | bank(w, 0, 0x18), U64),
    "CS2R R2, SRZ": lambda w: np.zeros(32, U64),
    "DADD R2, R24, -R26": lambda w: w.r64(24).view(F64) - w.r64(26).view(F64),
    "DMUL R2, R24, 0x40080000": lambda w: w.r64(24).view(F64) * 3.0,
    "DFMA R2, R24, R24, |R26|":
        lambda w: (w.r64(24).view(F64).astype(np.longdouble) ** 2 + np.abs(w.r64(26).view(F64))).astype(F64),
    "F2F.F64.F32 R2, R16": lambda w: w.f32(16).astype(F64),
    "I2F.F64.U32 R2, R4": lambda w: w.regs[4].astype(F64),
    "F2I.S64.TRUNC R2, R16": lambda w: np.trunc(w.f32(16)).astype(I64),
    "FRND.F64.FLOOR R2, R24": lambda w: np.floor(w.r64(24).view(F64)),
    "FFMA2 R2, R16.F32x2.HI_LO, R18.F32, R20.F32x2.HI_LO": lambda w: np.ascontiguousarray(np.stack(
        [fused(w.f32(16), w.f32(18), w.f32(20)), fused(w.f32(17), w.f32(18), w.f32(21))], 1)).view(U64).reshape(32),
}  # fmt: skip


@pytest.mark.parametrize("text", PAIRS)
def test_pair(text: str) -> None:
    want = np.ascontiguousarray(PAIRS[text](prepared())).view(U64)
    np.testing.assert_array_equal(prepared().run(text).r64(2), want)


PREDICATES: dict[str, Callable[[Warp], tuple[np.ndarray, np.ndarray]]] = {
    "ISETP.LT.AND P4, P5, R1, R2, P1": lambda w: both(i32(w.regs[1]) < i32(w.regs[2]), np.logical_and, w.p(1)),
    "ISETP.GE.U32.OR P4, P5, R1, 0x80000000, !P1": lambda w: both(w.regs[1] >= 2**31, np.logical_or, ~w.p(1)),
    "ISETP.NE.XOR P4, P5, R39, R40, P1": lambda w: both(w.regs[39] != w.regs[40], np.logical_xor, w.p(1)),
    "ISETP.GT.U32.AND.EX P4, P5, R39, R40, PT, P1":
        lambda w: both((w.regs[39] > w.regs[40]) | ((w.regs[39] == w.regs[40]) & w.p(1)), np.logical_and, w.p(7)),
    "ISETP.NE.AND.EX P4, P5, R39, R40, PT, P1": lambda w: both((w.regs[39] != w.regs[40]) | w.p(1), np.logical_and, w.p(7)),
    "FSETP.GEU.FTZ.AND P4, P5, R1, R37, PT": lambda w: both(~(ftz(w.f32(1)) < ftz(w.f32(37))), np.logical_and, w.p(7)),
    "FSETP.NE.AND P4, P5, R1, R2, PT":
        lambda w: both(
            (w.f32(1) != w.f32(2)) & ~np.isnan(w.f32(1)) & ~np.isnan(w.f32(2)), np.logical_and, w.p(7)),
    "DSETP.GT.AND P4, P5, R24, 0x3fe00000, PT": lambda w: both(w.r64(24).view(F64) > 0.5, np.logical_and, w.p(7)),
    "PLOP3.LUT P4, P5, P0, P1, P2, 0xe8, 0x17":
        lambda w: ((m := w.p(0).astype(int) + w.p(1) + w.p(2)) >= 2, m < 2),
    "PLOP3.LUT P4, P5, R1.SIGN, P1, PT, 0x80, 0x7f": lambda w: (s := (i32(w.regs[1]) < 0) & w.p(1), ~s),
    "HSETP2.GT.AND P4, P5, R33, R34, PT":
        lambda w: tuple((halves(w.regs[33]) > halves(w.regs[34])).T),
    "VIMNMX.U16x2 R0, P4, P5, R1, R2, PT":
        lambda w: tuple((w.regs[1].view(np.uint16) <= w.regs[2].view(np.uint16)).reshape(32, 2).T),
    "VOTE.ALL P4, P1": lambda w: (np.zeros(32, bool), w.p(5)),
    "SHFL.DOWN P4, R0, R1, 0x3, 0x1f": lambda w: (LANE + 3 < 32, w.p(5)),
    "IADD3 R0, P4, R36, -R36, RZ": lambda w: (np.ones(32, bool), w.p(5)),
    "IADD3 R0, P4, P5, R1, R2, R3": lambda w: carries(wide(w.regs[1]) + wide(w.regs[2]) + wide(w.regs[3])),
    "IADD3.X R0, P4, R1, ~R2, RZ, P0, !PT":
        lambda w: (carries(wide(w.regs[1]) + wide(~w.regs[2]) + w.p(0))[0], w.p(5)),
    "LEA R0, P4, R1, R2, 0x2": lambda w: (carries(wide(w.regs[1] << U32(2)) + wide(w.regs[2]))[0], w.p(5)),
    "IMAD.WIDE.U32 R2, P4, R4, R5, R6":
        lambda w: (np.array((wide(w.regs[4]) * wide(w.regs[5]) + wide(w.r64(6))) >> 64, bool), w.p(5)),
    "LOP3.LUT P4, RZ, R36, R1, RZ, 0xc0, !PT": lambda w: ((w.regs[36] & w.regs[1]) != 0, w.p(5)),
    "R2P PR, R1, 0x30": lambda w: ((w.regs[1] & U32(16)) != 0, (w.regs[1] & U32(32)) != 0),
    "FCHK P4, R16, R17": lambda w: (np.zeros(32, bool), w.p(5)),
    "FCHK P4, R16, RZ": lambda w: (np.ones(32, bool), w.p(5)),
}  # fmt: skip


def both(compared: np.ndarray, operation: np.ufunc, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return operation(compared, other), operation(~compared, other)


def carries(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count = np.array([int(v) >> 32 for v in total])
    return count >= 1, count >= 2


@pytest.mark.parametrize("text", PREDICATES)
def test_predicate(text: str) -> None:
    want = PREDICATES[text](prepared())
    w = prepared().run(text)
    np.testing.assert_array_equal(w.p(4), want[0])
    np.testing.assert_array_equal(w.p(5), want[1])


HALVES: dict[str, Reference] = {
    "HADD2 R0, R33, -R34": lambda w: halves(w.regs[33]) - halves(w.regs[34]),
    "HMUL2 R0, R33.H0_H0, |R34|": lambda w: halves(w.regs[33])[:, :1] * np.abs(halves(w.regs[34])),
    "HFMA2 R0, R33, R34, R35.H1_H1":
        lambda w: (halves(w.regs[33]).astype(F64) * halves(w.regs[34]) + halves(w.regs[35])[:, 1:]),
    "HFMA2.RELU R0, R33, R34, R35":
        lambda w: np.maximum(halves(w.regs[33]).astype(F64) * halves(w.regs[34]) + halves(w.regs[35]), 0),
    "HFMA2 R0, R33, 0x40003c00, R34": lambda w: halves(w.regs[33]).astype(F64) * [1, 2] + halves(w.regs[34]),
    "HMNMX2 R0, R33, R34, PT": lambda w: np.fmin(halves(w.regs[33]), halves(w.regs[34])),
    "HSET2.BF.LT.AND R0, R33, R34, PT": lambda w: halves(w.regs[33]) < halves(w.regs[34]),
}  # fmt: skip


@pytest.mark.parametrize("text", HALVES)
def test_half(text: str) -> None:
    want = np.asarray(HALVES[text](prepared())).astype(F16)
    np.testing.assert_array_equal(halves(prepared().run(text).regs[0]), want)


def test_half_products_are_rounded_once() -> None:
    """A product halfway between two fp16 numbers is decided by a tiny addend."""
    w = prepared()
    x, y = F16(1 + 2**-6), F16(1 + 2**-6)
    for addend in (F16(2**-24), F16(-(2**-24)), F16(0)):
        exact = float(x) * float(y) + float(addend)
        for register, value in ((33, x), (34, y), (35, addend)):
            w.regs[register] = packed(np.full(32, value), np.full(32, value))
        w.run("HFMA2 R0, R33, R34, R35")
        assert halves(w.regs[0])[0, 0] == F16(exact)


def test_bf16() -> None:
    w = prepared()
    w.run("HFMA2.BF16_V2 R0, R16, R17, R18")
    parts = [(w.regs[k][:, None] >> U32([0, 16]) << U32(16)).view(F32).astype(F64) for k in (16, 17, 18)]
    bits = (parts[0] * parts[1] + parts[2]).astype(F32).view(U32)
    want = (bits + U32(0x7FFF) + (bits >> U32(16) & U32(1))) >> U32(16)
    got = w.regs[0][:, None] >> U32([0, 16]) & U32(0xFFFF)
    finite = np.isfinite(parts[0] * parts[1] + parts[2])
    assert (np.abs(got.astype(int) - want.astype(int))[finite] <= 0).all()


def test_fp8_round_trip() -> None:
    """Every E4M3 code survives the way to fp16 and back; values between two codes go to the nearer one."""
    for first in range(0, 128, 32):
        w = prepared()
        codes = (first + LANE).astype(U32)
        w.regs[1] = codes | (codes | U32(0x80)) << U32(8)
        w.run("F2FP.F16.E4M3.UNPACK_B R2, R1", "F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C R3, R2, RZ")
        number = codes != 0x7F
        np.testing.assert_array_equal(w.regs[3][number], w.regs[1][number])
        values = halves(w.regs[2])[:, 0].astype(F64)
        want = [c % 8 * 2.0**-9 if c < 8 else (1 + c % 8 / 8) * 2.0 ** (c // 8 - 7) for c in codes.tolist()]
        np.testing.assert_array_equal(values[number], np.array(want)[number])


# The uniform datapath

UNIFORM: dict[str, Callable[[Warp], int]] = {
    "UIADD3 UR0, UR1, -UR2, 0x5": lambda w: int(w.uregs[1]) - int(w.uregs[2]) + 5,
    "UIMAD UR0, UR1, UR2, UR3": lambda w: int(w.uregs[1]) * int(w.uregs[2]) + int(w.uregs[3]),
    "ULEA UR0, UR1, UR2, 0x3": lambda w: (int(w.uregs[1]) << 3) + int(w.uregs[2]),
    "USHF.R.U32.HI UR0, URZ, 0x8, UR1": lambda w: int(w.uregs[1]) >> 8,
    "ULOP3.LUT UR0, UR1, UR2, URZ, 0x3c, !UPT": lambda w: int(w.uregs[1]) ^ int(w.uregs[2]),
    "USEL UR0, UR1, UR2, UP0": lambda w: int(w.uregs[1] if w.upreds[0] else w.uregs[2]),
    "UMOV UR0, 0x1234": lambda w: 0x1234,
    "ULDC UR0, c[0x0][0x24]": lambda w: bank(w, 0, 0x24),
    "LDCU UR0, c[0x0][UR40+0x8]": lambda w: bank(w, 0, 0x18),
    "ULDC UR0, c[0x0][0x4000]": lambda w: 0,
    "UPOPC UR0, UR1": lambda w: int(w.uregs[1]).bit_count(),
    "UFLO.U32 UR0, UR1": lambda w: int(w.uregs[1]).bit_length() - 1,
    "R2UR UR0, R1": lambda w: int(w.regs[1][2]),
    "S2UR UR0, SR_CTAID.Y": lambda w: int(w.special[SPECIAL["SR_CTAID.Y"][1]]),
    "VOTEU.ANY UR0, UPT, P1": lambda w: int(w.preds[1]) & w.active,
    "REDUX.SUM UR0, R1": lambda w: int(w.regs[1][w.lanes(w.active)].sum(dtype=object)),
    "REDUX.MIN.S32 UR0, R1": lambda w: int(i32(w.regs[1])[w.lanes(w.active)].min()),
    "REDUX UR0, R1": lambda w: int(np.bitwise_and.reduce(w.regs[1][w.lanes(w.active)])),
    "UFMUL UR0, UR41, 2.0": lambda w: int(F32(w.uregs[41 : 42].view(F32)[0] * F32(2)).view(U32)),
}  # fmt: skip


@pytest.mark.parametrize("equal", [True, False])
def test_r2ur_says_whether_lanes_differ(equal: bool) -> None:
    w = prepared()
    w.active = 0xFFF0
    w.regs[1] = np.where((w.lanes(w.active)) & equal, U32(7), LANE.astype(U32))
    w.run("R2UR P1, URZ, R1")
    assert int(w.preds[1]) & w.active == (0 if equal else w.active)


@pytest.mark.parametrize("text", UNIFORM)
def test_uniform(text: str) -> None:
    def start() -> Warp:
        w = prepared()
        w.active = 0x0F0F00F4
        w.uregs[40], w.uregs[41] = 0x10, F32(1.5).view(U32)
        return w

    want = UNIFORM[text](start()) & 0xFFFFFFFF
    w = start().run(text)
    assert w.uregs[0] == want
    np.testing.assert_array_equal(w.uregs[1:], start().uregs[1:])


def test_uniform_predicates() -> None:
    w = prepared()
    w.uregs[1], w.uregs[2] = 5, 7
    w.run(
        "UISETP.LT.AND UP1, UP2, UR1, UR2, UPT",
        "@UP2 UMOV UR3, 0x1",
        "@UP1 UMOV UR4, 0x2",
        "@UP1 IADD3 R0, RZ, 0x9, RZ",
    )
    assert (w.upreds[1], w.upreds[2], w.uregs[4]) == (1, 0, 2)
    assert w.uregs[3] == prepared().uregs[3]
    assert (w.regs[0] == 9).all()


# Masks


def test_guard_and_active_mask() -> None:
    w = prepared()
    w.active = 0x0000FFFF
    w.run("@!P0 MOV R0, 0x5", "ISETP.EQ.AND P3, PT, RZ, RZ, PT", "@!PT MOV R1, 0x5")
    before = prepared()
    lanes = w.lanes(w.active)
    np.testing.assert_array_equal(w.regs[0], np.where(~before.p(0) & lanes, 5, before.regs[0]))
    np.testing.assert_array_equal(w.p(3), before.p(3) | lanes)
    np.testing.assert_array_equal(w.regs[1], before.regs[1])


def test_full_mask_gives_the_same() -> None:
    code = ("IMAD R0, R1, R2, R3", "@P1 FADD R4, R16, R17", "SHFL.IDX PT, R5, R1, 0x2, 0x1f", "LEA R6, P2, R1, R2, 0x2")
    slow, fast = prepared().run(*code), prepared().run(*code, full=True)
    np.testing.assert_array_equal(slow.regs, fast.regs)
    np.testing.assert_array_equal(slow.preds, fast.preds)


def test_sources_are_read_before_results_are_written() -> None:
    w, before = prepared(), prepared()
    w.run("IMAD.WIDE R2, R2, R3, R2", "PLOP3.LUT P0, P1, P0, P1, PT, 0xc0, 0xfc", "IADD3 R1, P2, R1, R1, RZ")
    want = pairs(wide(i32(before.regs[2])) * wide(i32(before.regs[3])) + wide(before.r64(2)))
    np.testing.assert_array_equal(w.r64(2), want)
    np.testing.assert_array_equal(w.p(0), before.p(0) & before.p(1))
    np.testing.assert_array_equal(w.p(1), before.p(0) | before.p(1))
    np.testing.assert_array_equal(w.p(2), before.regs[1] >> U32(31) == 1)


def test_zero_registers_swallow_results() -> None:
    w = prepared().run(
        "IADD3 RZ, R1, R2, RZ", "ISETP.NE.AND PT, PT, R1, R2, PT", "UIADD3 URZ, UR1, UR2, URZ", "MOV R0, RZ"
    )
    assert (w.regs[255] == 0).all()
    assert (w.regs[0] == 0).all()


# Unknown values


def unknown(w: Warp, **masks: int) -> Warp:
    for name, mask in masks.items():
        kind = name.rstrip("0123456789")
        {"r": w.regs_unknown, "p": w.preds_unknown, "ur": w.uregs_unknown}[kind][int(name[len(kind) :])] = mask
    return w


@pytest.mark.parametrize(
    ("text", "masks", "want"),
    [
        ("IADD3 R0, R1, R2, R3", {"r1": 0xF, "r3": 0x30}, 0x3F),
        ("IADD3 R0, R1, UR2, R3", {"ur2": 1}, 0xFFFFFFFF),
        ("IMAD R0, R1, RZ, R3", {"r1": 0xF}, 0),
        ("MOV R0, 0x1", {"r0": 0xFF}, 0),
        ("LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", {"r3": 0xF}, 0),
        ("LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", {"r2": 0xF}, 0xF),
        ("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", {"r1": 0x1}, 0x2),
        ("PRMT R0, R1, 0x3210, R2", {"r2": 0xF}, 0),
        ("LDC R0, c[0x3][R32]", {"r32": 0xF}, 0xF),
        ("S2R R0, SR_CLOCKLO", {}, 0xFFFFFFFF),
        ("IMAD.WIDE R0, R4, R5, R6", {"r7": 0x3}, 0x3),
        ("HFMA2 R0, R33, R34, R35", {"r34": 0x3}, 0x3),
        ("VOTE.ANY R0, PT, P1", {"p1": 0x2}, 0xFFFFFFFF),
    ],
)
def test_unknown_propagates(text: str, masks: dict[str, int], want: int) -> None:
    assert unknown(prepared(), **masks).run(text).regs_unknown[0] == want


def test_unknown_follows_the_chosen_side() -> None:
    w = unknown(prepared(), r1=0xFFFF).run("SEL R0, R1, R2, P0", "FSEL R3, R16, R1, P0")
    assert w.regs_unknown[0] == 0xFFFF & w.preds[0]
    assert w.regs_unknown[3] == 0xFFFF & ~w.preds[0]


def test_unknown_guard_makes_the_result_unknown() -> None:
    w = unknown(prepared(), p0=0xF0)
    w.active = 0xFF
    w.run("@P0 MOV R0, 0x5", "@P0 ISETP.EQ.AND P1, PT, RZ, RZ, PT")
    assert w.regs_unknown[0] == 0xF0
    assert w.preds_unknown[1] == 0xF0


def test_unknown_is_overwritten_only_in_written_lanes() -> None:
    w = unknown(prepared(), r0=0xFFFFFFFF)
    w.active = 0xFF00
    w.run("MOV R0, R1")
    assert w.regs_unknown[0] == 0xFFFF00FF


def test_predicate_logic_knows_when_an_unknown_does_not_matter() -> None:
    w = unknown(prepared(), p0=0xFFFFFFFF)
    w.run("PLOP3.LUT P2, PT, P0, P1, PT, 0x80, 0x0", "ISETP.GT.AND P3, PT, R1, R2, P0")
    assert w.preds_unknown[2] == w.preds[1]  # false and anything is false
    assert w.preds_unknown[3] == mask_of(i32(w.regs[1]) > i32(w.regs[2]))


def test_predicate_tables_are_exact_over_unknowns() -> None:
    """Against all completions of the unknown inputs, for every table of three inputs with two of them unknown."""
    tables = [0xE8, 0x96, 0x80, 0xFE, 0xCA, 0x1B, 0x6A, 0xF0]
    for lut in tables:
        w = unknown(prepared(), p0=0x00FF00FF, p1=0x0F0F0F0F, p2=0x33333333)
        before = [int(v) for v in w.preds]
        w.run(f"PLOP3.LUT P4, PT, P0, P1, P2, {lut:#x}, 0x0")
        masks = [0x00FF00FF, 0x0F0F0F0F, 0x33333333]
        for lane in range(32):
            choices = [[0, 1] if m >> lane & 1 else [before[k] >> lane & 1] for k, m in enumerate(masks)]
            results = {lut >> (a << 2 | b << 1 | c) & 1 for a in choices[0] for b in choices[1] for c in choices[2]}
            assert (w.preds_unknown[4] >> lane & 1) == (len(results) > 1)
            if len(results) == 1:
                assert (w.preds[4] >> lane & 1) in results


def test_a_vote_is_known_when_a_known_lane_decides() -> None:
    w = unknown(prepared(), p1=0x0000FFFF)
    w.preds[1] = 0x00FF0000
    w.run("VOTE.ANY P2, P1", "VOTE.ALL P3, P1", "VOTE.ANY R0, P4, !P1")
    assert (w.preds[2], w.preds_unknown[2]) == (0xFFFFFFFF, 0)
    assert (w.preds[3], w.preds_unknown[3]) == (0, 0)
    assert (w.preds_unknown[4], w.regs_unknown[0]) == (0, 0xFFFFFFFF)
    w.preds[1] = w.preds_unknown[1] = 0x0000FFFF
    w.run("VOTE.ANY P2, P1", "VOTE.ALL P3, P1")
    assert (w.preds_unknown[2], w.preds_unknown[3]) == (0xFFFFFFFF, 0)


def test_sentinel_compares_are_assumed_unequal() -> None:
    w = unknown(prepared(), r16=0xFFFFFFFF, r1=0xFFFFFFFF)
    w.run(
        "FSETP.NEU.FTZ.AND P1, PT, R16, -1.2345e30, PT",
        "FSETP.EQ.AND P2, P3, R16, -1.2345e30, PT",
        "ISETP.EQ.AND P4, PT, R1, 0x7fffffff, PT",
        "ISETP.NE.AND P5, PT, R1, 0x5, PT",
        "FSETP.NEU.AND P6, PT, R16, 0.0, PT",
    )
    assert list(w.preds[1:5]) == [0xFFFFFFFF, 0, 0xFFFFFFFF, 0]
    assert list(w.preds_unknown[1:7]) == [0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF]
    assert w.assumptions == ["FSETP", "FSETP", "ISETP"]


def test_division_check_of_unknowns_takes_the_fast_path() -> None:
    w = unknown(prepared(), r16=0xF).run("FCHK P1, R16, R17")
    assert w.preds_unknown[1] == 0
    assert w.preds[1] & 0xF == 0
    assert w.assumptions == ["FCHK"]


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", 4),
        ("HMMA.16816.F16 R4, R8, R12, RZ", 2),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 4),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", 4),
        ("IMMA.8816.S8.S8 R4, R8.ROW, R12.COL, R4", 2),
        ("DMMA.8x8x4 R4, R8, R12, R4", 4),
        ("BMMA.168256.AND.POPC R4, R8.ROW, R12.COL, R4", 4),
    ],
)
def test_matrix_products_are_unknown(text: str, registers: int) -> None:
    assert results_of(instruction(text)) == registers
    w = prepared()
    w.active = 0xFFFF
    w.run(text)
    assert [int(v) for v in w.regs_unknown[4:12]] == [0xFFFF] * registers + [0] * (8 - registers)
    assert w.unknown_notes == [text.split(".")[0]]


# Refusals


@pytest.mark.parametrize("text", ["HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", "UTMALDG.2D [UR8], [UR4]", "FROB R0, R1"])
def test_an_opcode_without_rule_is_refused(text: str) -> None:
    opcode = text.split()[0]
    strange = replace(instruction("MOV R0, R1", 7), opcode=opcode.split(".")[0], text=text, line=12)
    with pytest.raises(UnsupportedError, match=rf"{opcode}.*instruction 7, source line 12"):
        Warp().run(strange)


def test_a_modifier_without_rule_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"FADD\.ODD.*modifier ODD"):
        Warp().run("FADD.ODD R0, R1, R2")


def test_a_special_register_without_value_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="SR_NOSUCH"):
        Warp().run("S2R R0, SR_NOSUCH")


def test_uniform_twins_exist() -> None:
    names = (
        "UIADD3 UIMAD ULEA USHF ULOP3 UPLOP3 USEL UISETP UMOV UPRMT UFLO UPOPC UBREV UBMSK USGXT UP2UR UR2UP ULDC LDCU"
    )
    assert set(names.split()) <= set(OPCODES)


def test_cached_registers_can_be_invalidated() -> None:
    from llvmlite import ir

    from warpsim.frontend.emitter import State

    pointer = ir.PointerType()
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [pointer] * len(FIELDS)), "f")
    emitter = Emitter(ir.IRBuilder(function.append_basic_block()), State(*function.args))
    emitter.reset(emitter.constant(1, ir.IntType(1)))
    first = emitter.read(3)
    assert emitter.read(3) is first
    emitter.invalidate([3])
    assert emitter.read(3) is not first
