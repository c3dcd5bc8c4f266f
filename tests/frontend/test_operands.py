"""Operand forms as nvdisasm prints them: golden, without a compiler."""

from __future__ import annotations

import struct

import pytest

from warpsim.frontend.operands import parse_guard, parse_operands
from warpsim.frontend.program import RZ, URZ, Operand


def parse(text: str, raw: int = 0) -> tuple[Operand, ...]:
    """Operands of a whole printed instruction; `raw` is what bits 32-63 of its encoding hold."""
    opcode, _, operands = text.partition(" ")
    base, *modifiers = opcode.split(".")
    return parse_operands(base, tuple(modifiers), operands, raw << 32)


def reg(index: int, **more) -> Operand:
    return Operand("reg", index=index, **more)


def bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IADD3 R2,R15.reuse,-R7.reuse,RZ", (reg(2), reg(15), reg(7, negate=True), reg(RZ))),
        ("IADD3.X R6,RZ,~R9.reuse,RZ,P2,!PT", (reg(6), reg(RZ), reg(9, invert=True), reg(RZ),
                                               Operand("pred", index=2), Operand("pred", index=7, invert=True))),
        ("FADD.FTZ R3,-|R9|,|R14|.reuse", (reg(3), reg(9, negate=True, absolute=True), reg(14, absolute=True))),
        ("HADD2.F32 R2,-RZ,R5.reuse.H1_H1", (reg(2), reg(RZ, negate=True), reg(5, modifiers=("H1_H1",)))),
        ("I2F.F64.S64 R2,R4.64", (reg(2), reg(4, width64=True))),
        ("UIADD3.X UR7,URZ,~UR7,URZ,UP0,!UPT", (Operand("ureg", index=7), Operand("ureg", index=URZ),
                                                Operand("ureg", index=7, invert=True), Operand("ureg", index=URZ),
                                                Operand("upred", index=0), Operand("upred", index=7, invert=True))),
        ("P2R R2,PR,RZ,0x1", (reg(2), Operand("predset", name="PR"), reg(RZ), Operand("imm", value=1))),
        ("S2R R0,SR_CTAID.X", (reg(0), Operand("special", name="SR_CTAID.X"))),
        ("CS2R R2,SRZ", (reg(2), Operand("special", name="SRZ"))),
        ("BSYNC B12", (Operand("barrier", index=12),)),
        ("DEPBAR.LE SB0,0x1", (Operand("scoreboard", index=0), Operand("imm", value=1))),
        ("BSSY B0,0x630", (Operand("barrier", index=0), Operand("label", value=0x63))),
        ("BRA P1,0x40", (Operand("pred", index=1), Operand("label", value=4))),
        ("BRA.U !UP0,0x40", (Operand("upred", index=0, invert=True), Operand("label", value=4))),
        ("BRA.DIV UR4,0x0", (Operand("ureg", index=4), Operand("label", value=0))),
        ("WARPSYNC.COLLECTIVE R13,0x120", (reg(13), Operand("label", value=0x12))),
        ("WARPSYNC 0xffffffff", (Operand("imm", value=0xFFFFFFFF),)),
        ("BRX R6,-0x1b0", (reg(6), Operand("imm", value=0xFFFFFE50))),
        ("EXIT", ()),
    ],
)  # fmt: skip
def test_registers_predicates_and_places(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[R2.64]", Operand("addr", index=2, width64=True)),
        ("[R2.64+-0x8]", Operand("addr", index=2, width64=True, value=-8)),
        ("[R2.64+0x1f40]", Operand("addr", index=2, width64=True, value=0x1F40)),
        ("[R19+0x18]", Operand("addr", index=19, value=0x18)),
        ("[R2+-0x4]", Operand("addr", index=2, value=-4)),
        ("[RZ]", Operand("addr")),
        ("[0xc]", Operand("addr", value=12)),
        ("[UR4]", Operand("addr", uindex=4)),
        ("[URZ]", Operand("addr")),
        ("[UR4+0x10]", Operand("addr", uindex=4, value=16)),
        ("[R4+UR6+0x100]", Operand("addr", index=4, uindex=6, value=256)),
        ("[R4.X4+UR6]", Operand("addr", index=4, uindex=6, scale=4)),
        ("[R4.X16]", Operand("addr", index=4, scale=16)),
        ("[R2.U32+UR4]", Operand("addr", index=2, uindex=4, modifiers=("U32",))),
        ("[R2.U32+UR4.64+0x8]", Operand("addr", index=2, uindex=4, value=8, modifiers=("U32", "UR.64"))),
    ],
)
def test_addresses(text, expected):
    assert parse(f"LDS R1,{text}") == (reg(1), expected)


def test_a_descriptor_stands_before_its_address():
    address = Operand("addr", index=2, width64=True, value=8)
    assert parse("LDG.E R5,desc[UR36][R2.64+0x8]") == (reg(5), Operand("desc", uindex=36), address)


def test_two_addresses_without_a_comma():
    shared, wide = Operand("addr", index=7, value=0x200), Operand("addr", index=4, width64=True, value=0x200)
    assert parse("LDGSTS.E [R7+0x200][R4.64+0x200]") == (shared, wide)
    assert parse("LDGSTS.E [R7+0x200],desc[UR4][R4.64+0x200]") == (shared, Operand("desc", uindex=4), wide)
    assert parse("LDGSTS.E [R7+0x200][R4.64+0x200],P0") == (shared, wide, Operand("pred", index=0))


def test_extended_addresses_are_64_bits_even_where_not_printed_so():
    wide = Operand("addr", index=12, width64=True)
    assert parse("ATOMG.E.CAS.STRONG.GPU PT,R12,[R12],R22,R23")[2] == wide
    assert parse("CCTL.E.PF2 [R12]") == (wide,)
    assert parse("LDS R1,[R12]")[1] == Operand("addr", index=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c[0x0][0x160]", Operand("const", value=0x160)),
        ("-c[0x0][0x188]", Operand("const", value=0x188, negate=True)),
        ("|c[0x0][0x184]|", Operand("const", value=0x184, absolute=True)),
        ("c[0x0][RZ]", Operand("const")),
        ("c[0x4][RZ]", Operand("const", bank=4)),
        ("c[0x2][R0+0xc]", Operand("const", bank=2, index=0, value=12)),
        ("c[0x3][R8]", Operand("const", bank=3, index=8)),
        ("c[0x0][UR4+0x8]", Operand("const", uindex=4, value=8)),
    ],
)
def test_constants(text, expected):
    assert parse(f"LDC R1,{text}") == (reg(1), expected)


@pytest.mark.parametrize(
    ("text", "raw", "value"),
    [
        ("IADD3 R2,R2,-0x80,RZ", 0xFFFFFF80, 0xFFFFFF80),
        ("LOP3.LUT R9,R6,0xff00ff00,R8,0xe5,!PT", 0xFF00FF00, 0xFF00FF00),
        ("FADD.FTZ R0,R9,2.7000000476837158203", bits(2.7), bits(2.7)),
        ("FFMA.FTZ R0,R0,-1,RZ", bits(-1.0), bits(-1.0)),
        ("FSEL R7,RZ,+INF ,!P1", bits(float("inf")), 0x7F800000),
        ("FSEL R7,RZ,-INF ,!P1", bits(-float("inf")), 0xFF800000),
        ("MUFU.RSQ R0,-QNAN ", 0xFFC00000, 0xFFC00000),
        ("DFMA R16,R14,R16,6.75539944105574400000e+15", 0x43380000, 0x43380000),
        ("SHFL.IDX PT,R6,R5,R6,0x1f", 0, 0x1F),
    ],
)
def test_immediates_are_raw_bits(text, raw, value):
    assert next(o.value for o in parse(text, raw) if o.kind == "imm") == value


def test_a_pair_of_halves_is_one_operand():
    pair = Operand("imm", value=0x3C004000)
    assert parse("HFMA2.MMA R4,-RZ,RZ,1,2", 0x3C004000) == (reg(4), reg(RZ, negate=True), reg(RZ), pair)
    assert parse("HFMA2.BF16_V2 R7,R7,1.5,1.5,R0", 0x3FC03FC0) == (
        reg(7), reg(7), Operand("imm", value=0x3FC03FC0), reg(0),
    )  # fmt: skip


def test_the_look_up_table_stays_beside_the_immediate():
    operands = parse("LOP3.LUT R9,R6,0xff00ff00,R8,0xe5,!PT", 0xFF00FF00)
    assert [o.value for o in operands if o.kind == "imm"] == [0xFF00FF00, 0xE5]


def test_guards():
    assert parse_guard("") is None
    assert parse_guard("@!P0") == Operand("pred", index=0, invert=True)
    assert parse_guard("@UP1") == Operand("upred", index=1)
    assert parse_guard("@!PT") == Operand("pred", index=7, invert=True)


def test_what_is_not_known_is_kept_as_printed():
    assert parse("HGMMA.64x64x16.F32 R24,gdesc[UR8],R24,gsb0")[-1] == Operand("unknown", name="gsb0")
