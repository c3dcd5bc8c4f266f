"""Rules of conversions (F2F, F2I, I2F, FRND), of the division check and of the special function unit.

Float to integer saturates; a NaN gives 0 for narrow forms (`.NTZ`) and the sign bit alone otherwise. MUFU works on
float32 with denormals flushed (TANH keeps them); RCP, RSQ and SQRT here are correctly rounded values, EX2, LG2, SIN,
COS and TANH polynomials good to about 2 ulp (SIN, COS: 2^-22 absolute) where the GPU has tables of like precision: last
bits differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from warpsim.frontend.bits import INTEGERS, field
from warpsim.frontend.doubles import float64
from warpsim.frontend.emitter import F16, F32, F64, I16, I32, I64, NAN, Emitter, Value
from warpsim.frontend.floating import directed, flush, literal, rounding, signed, two_sum
from warpsim.frontend.packed import half_of
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []

FLOATS = ("F16", "BF16", "F32", "F64")
ROUND = {"TRUNC": "trunc", "FLOOR": "floor", "CEIL": "ceil"}


def split_types(modifiers: Sequence[str]) -> list[str]:
    """Type names in printed order, destination before source."""
    return [m for m in modifiers if m in FLOATS or m in INTEGERS]


def float_source(e: Emitter, i: Instruction, operand: Operand, kind: str) -> tuple[ir.Value, Value]:
    """A float operand of a type as <n x float> (16-bit types widened) or <n x double>."""
    b = e.builder
    if kind == "F64":
        return float64(e, operand)
    value = e.source(operand)
    if kind == "F32":
        bits = flush(e, value.bits) if "FTZ" in i.modifiers else value.bits
        return signed(e, b.bitcast(bits, e.vector(F32)), operand), value
    upper = any(m in ("H1", "H1_H1") for m in operand.modifiers)
    bits = b.lshr(value.bits, e.constant(16)) if upper else value.bits
    if kind == "BF16":
        wide = b.bitcast(b.shl(bits, e.constant(16)), e.vector(F32))
    else:
        wide = b.fpext(b.bitcast(b.trunc(bits, e.vector(I16)), e.vector(F16)), e.vector(F32))
    return signed(e, wide, operand), value


def odd32(e: Emitter, high: ir.Value, rest: ir.Value | None = None) -> ir.Value:
    """float32 of a double (plus a smaller rest) rounded to odd, so that a second rounding to 16 bits is right."""
    b = e.builder
    near = b.fptrunc(high, e.vector(F32))
    residue = b.fsub(high, b.fpext(near, e.vector(F64)))
    zero = literal(e, 0.0, F64)
    if rest is not None:
        residue = b.select(b.fcmp_ordered("==", residue, zero), rest, residue)
    words = b.bitcast(near, e.vector(I32))
    even = b.icmp_unsigned("==", b.and_(words, e.constant(1)), e.constant(0))
    inexact = b.fcmp_ordered("!=", residue, zero)
    finite = b.icmp_unsigned("!=", b.and_(words, e.constant(0x7F800000)), e.constant(0x7F800000))
    negative = b.icmp_signed("<", words, e.constant(0))
    outward = b.icmp_unsigned("==", negative, b.fcmp_ordered("<", residue, zero))
    step = b.select(outward, e.constant(1), e.constant(0xFFFFFFFF))
    change = b.and_(b.and_(even, inexact), finite)
    return b.bitcast(b.add(words, b.select(change, step, e.constant(0))), near.type)


def write_float(e: Emitter, i: Instruction, kind: str, bits: ir.Value, unknown: ir.Value | None) -> None:
    """A float32 or float64 vector as the destination's type (float64 destinations get float64)."""
    b = e.builder
    d = i.operands[0]
    if kind == "F64":
        e.result64(d, Value(b.bitcast(bits, e.vector(I64)), unknown))
    elif kind == "F32":
        words = b.bitcast(bits, e.vector(I32))
        ftz = "FTZ" in i.modifiers
        e.result(d, Value(flush(e, words) if ftz else words, unknown, ftz, loose=True))
    else:
        e.result(d, Value(half_of(e, bits, kind == "BF16", "RZ" in i.modifiers), unknown))


def f2f(e: Emitter, i: Instruction) -> None:
    b = e.builder
    kinds = split_types(i.modifiers)
    if len(kinds) != 2:
        raise e.unsupported("its types")
    to, source = kinds
    x, value = float_source(e, i, i.operands[1], source)
    if source == to:
        write_float(e, i, to, whole(e, i, x), value.unknown)
        return
    mode = rounding(i.modifiers)
    if source == "F64" and to == "F32":
        bits = directed(e, mode, x, literal(e, 0.0, F64)) if mode else b.fptrunc(x, e.vector(F32))
        e.result(i.operands[0], Value(b.bitcast(bits, e.vector(I32)), value.unknown))  # a NaN goes through
        return
    if mode and (mode != "RZ" or to not in ("F16", "BF16")):
        raise e.unsupported("its rounding")
    if source == "F64":
        bits = odd32(e, x)
    elif to == "F64":
        nan = b.fcmp_unordered("uno", x, x)
        bits = b.fpext(b.select(nan, b.bitcast(e.constant(NAN), x.type), x), e.vector(F64))
    else:
        bits = x
    write_float(e, i, to, bits, value.unknown)


def whole(e: Emitter, i: Instruction, x: ir.Value) -> ir.Value:
    """Rounded to an integer of the same type; nearest even unless the modifiers say otherwise."""
    name = next((ROUND[m] for m in i.modifiers if m in ROUND), "roundeven")
    return e.call(name, x)


def frnd(e: Emitter, i: Instruction) -> None:
    kind = next((m for m in i.modifiers if m in FLOATS), "F32")
    x, value = float_source(e, i, i.operands[1], kind)
    write_float(e, i, kind, whole(e, i, x), value.unknown)


def saturated(e: Emitter, x: ir.Value, width: int, is_signed: bool) -> ir.Value:
    """Whole floats as integers of `width` bits, extended to 32 or 64; NaN gives 0."""
    element = I64 if width == 64 else I32
    letters = {"float": "f32", "double": "f64"}[str(x.type.element)]
    name = f"llvm.fpto{'s' if is_signed else 'u'}i.sat.v{e.lanes}{element}.v{e.lanes}{letters}"
    bits = e.builder.call(e.intrinsic(name, e.vector(element), [x.type]), [x])
    if width < 32:
        low = -(1 << width - 1) if is_signed else 0
        high = (1 << width - 1) - 1 if is_signed else (1 << width) - 1
        names = ("smin", "smax") if is_signed else ("umin", "umax")
        bits = e.call(names[0], e.call(names[1], bits, e.constant(low & 0xFFFFFFFF)), e.constant(high))
    return bits


def f2i(e: Emitter, i: Instruction) -> None:
    b = e.builder
    width, is_signed = next((INTEGERS[m] for m in i.modifiers if m in INTEGERS), (32, True))
    source = next((m for m in i.modifiers if m in FLOATS), "F32")
    x, value = float_source(e, i, i.operands[1], source)
    x = whole(e, i, x)
    element = I64 if width == 64 else I32
    bits = saturated(e, x, width, is_signed)
    if "NTZ" not in i.modifiers:
        nan = b.fcmp_unordered("uno", x, x)
        bits = b.select(nan, e.constant(1 << width - 1, element), bits)
    (e.result64 if width == 64 else e.result)(i.operands[0], Value(bits, value.unknown))


def f2ip(e: Emitter, i: Instruction) -> None:
    """F2IP.U8.F32 d, a, b, c: two saturated integers packed, a above b; for bytes the low half of c lies above both."""
    b = e.builder
    kind = next((m for m in i.modifiers if m in INTEGERS), "")
    if INTEGERS.get(kind, (64, False))[0] > 16:
        raise e.unsupported("its types")
    width, is_signed = INTEGERS[kind]
    parts, values = [], []
    for operand in i.operands[1:3]:
        x, value = float_source(e, i, operand, "F32")
        parts.append(b.and_(saturated(e, whole(e, i, x), width, is_signed), e.constant((1 << width) - 1)))
        values.append(value)
    bits = b.or_(b.shl(parts[0], e.constant(width)), parts[1])
    if width == 8:
        values.append(e.source(i.operands[3]))
        bits = b.or_(bits, b.shl(values[2].bits, e.constant(16)))
    e.result(i.operands[0], Value(bits, e.unknown(*values)))


def i2f(e: Emitter, i: Instruction) -> None:
    """I2F and I2FP; the source is signed 32-bit unless a modifier says otherwise."""
    b = e.builder
    kinds = split_types(i.modifiers)
    width, is_signed = next((INTEGERS[k] for k in kinds if k in INTEGERS), (32, True))
    to = next((k for k in kinds if k in FLOATS), "F32")
    operand = i.operands[1]
    if width == 64:
        value = e.source64(operand)
        x = value.bits
        if operand.negate:
            x = b.sub(e.constant(0, I64), x)
    else:
        value = e.source(operand)
        x = value.bits
        first = next((8 * int(m[1]) for m in operand.modifiers if m[0] == "B" and m[1:].isdigit()), 0)
        first += 16 if "H1" in operand.modifiers or "H1_H1" in operand.modifiers else 0
        if width < 32:
            x = field(e, x, first, width, is_signed)
        if operand.negate:
            x = b.sub(e.constant(0), x)
    convert = b.sitofp if is_signed else b.uitofp
    mode = rounding(i.modifiers)
    if to == "F64" and (mode is None or width < 64):
        bits = convert(x, e.vector(F64))
    elif mode is None and to == "F32":
        bits = convert(x, e.vector(F32))
    elif to == "F64":
        raise e.unsupported("its rounding")
    else:
        if width == 64:
            upper = b.ashr(x, e.constant(32, I64)) if is_signed else b.lshr(x, e.constant(32, I64))
            scaled = b.fmul(convert(upper, e.vector(F64)), literal(e, 2.0**32, F64))
            high, rest = two_sum(e, scaled, b.uitofp(b.and_(x, e.constant(0xFFFFFFFF, I64)), e.vector(F64)))
        else:
            high, rest = convert(x, e.vector(F64)), literal(e, 0.0, F64)
        if to == "F32":
            assert mode is not None
            bits = directed(e, mode, high, rest)
        elif mode not in (None, "RZ"):
            raise e.unsupported("its rounding")
        else:
            bits = odd32(e, high, rest)
    write_float(e, i, to, bits, value.unknown)


def fchk(e: Emitter, i: Instruction) -> None:
    """p: the division a / b needs the slow path, by the biased exponents (every pair of them was timed on an H200).

    Both paths give the same quotient. Where an operand is unknown the fast path is assumed.
    """
    b = e.builder
    p, x, y = i.operands[:3]
    u, v = e.source(x), e.source(y)
    exponents = [b.and_(b.lshr(w.bits, e.constant(23)), e.constant(255)) for w in (u, v)]
    numerator, denominator = exponents
    difference = b.sub(numerator, denominator)
    slow = b.icmp_unsigned(">=", b.sub(denominator, e.constant(2)), e.constant(250))  # below 2, above 251
    slow = b.or_(slow, b.icmp_unsigned(">=", b.sub(numerator, e.constant(25)), e.constant(230)))  # below 25, 255
    slow = b.or_(slow, b.icmp_signed(">", difference, e.constant(126)))
    slow = b.or_(slow, b.icmp_signed("<", difference, e.constant(-124 & 0xFFFFFFFF)))
    unknown = e.unknown(u, v)
    if unknown is not None:
        e.note_assumption(i, unknown)
        slow = b.and_(slow, b.not_(unknown))
    e.result(p, Value(slow))


def mufu(e: Emitter, i: Instruction) -> None:
    b = e.builder
    name = next((m for m in i.modifiers if m in MUFU or m in ("RCP64H", "RSQ64H")), None)
    if name is None:
        raise e.unsupported("its function")
    d, operand = i.operands[:2]
    if name in ("RCP64H", "RSQ64H"):
        value = e.source(operand)
        words = b.shl(b.zext(value.bits, e.vector(I64)), e.constant(32, I64))
        x = signed(e, b.bitcast(words, e.vector(F64)), operand)
        root = e.call("sqrt", x) if name == "RSQ64H" else x
        result = b.bitcast(b.fdiv(literal(e, 1.0, F64), root), e.vector(I64))
        high = b.trunc(b.lshr(result, e.constant(32, I64)), e.vector(I32))
        e.result(d, Value(high, value.unknown))
        return
    kind = next((m for m in ("F16", "BF16") if m in i.modifiers or f"{m}_V2" in i.modifiers), "F32")
    x, value = float_source(e, i, operand, kind)
    keeps_denormals = name == "TANH"
    if kind == "F32" and not keeps_denormals:
        x = b.bitcast(flush(e, b.bitcast(x, e.vector(I32))), e.vector(F32))
    bits = MUFU[name](e, x)
    if kind == "F32":
        words = b.bitcast(bits, e.vector(I32))
        e.result(
            d, Value(words if keeps_denormals else flush(e, words), value.unknown, not keeps_denormals, loose=True)
        )
    else:
        e.result(d, Value(half_of(e, bits, kind == "BF16"), value.unknown))


def polynomial(e: Emitter, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner, highest power first."""
    total = literal(e, coefficients[0])
    for c in coefficients[1:]:
        total = e.call("fma", total, x, literal(e, c))
    return total


def reciprocal(e: Emitter, x: ir.Value) -> ir.Value:
    return e.builder.fdiv(literal(e, 1.0), x)


def root(e: Emitter, x: ir.Value) -> ir.Value:
    return e.call("sqrt", x)


def reciprocal_root(e: Emitter, x: ir.Value) -> ir.Value:
    b = e.builder
    wide = e.call("sqrt", b.fpext(x, e.vector(F64)))
    return b.fptrunc(b.fdiv(literal(e, 1.0, F64), wide), e.vector(F32))


def exp2(e: Emitter, x: ir.Value) -> ir.Value:
    """2^x: 2^n of the nearest integer times a polynomial of the rest."""
    b = e.builder
    limited = e.call("minnum", e.call("maxnum", x, literal(e, -160.0)), literal(e, 160.0))
    n = e.call("roundeven", limited)
    rest = b.fsub(limited, n)
    p = polynomial(e, rest, [math.log(2) ** k / math.factorial(k) for k in range(7, -1, -1)])
    exponent = b.fptosi(n, e.vector(I32))
    half = b.ashr(exponent, e.constant(1))
    result = b.fmul(b.fmul(p, power_of_two(e, half)), power_of_two(e, b.sub(exponent, half)))
    return b.select(b.fcmp_unordered("uno", x, x), x, result)


def power_of_two(e: Emitter, exponent: ir.Value) -> ir.Value:
    b = e.builder
    return b.bitcast(b.shl(b.add(exponent, e.constant(127)), e.constant(23)), e.vector(F32))


def log2(e: Emitter, x: ir.Value) -> ir.Value:
    """The exponent plus an odd series in (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2))."""
    b = e.builder
    words = b.bitcast(x, e.vector(I32))
    offset = b.sub(words, e.constant(0x3F3504F3))
    exponent = b.ashr(offset, e.constant(23))
    m = b.bitcast(b.sub(words, b.shl(exponent, e.constant(23))), e.vector(F32))
    one = literal(e, 1.0)
    s = b.fdiv(b.fsub(m, one), b.fadd(m, one))
    series = polynomial(e, b.fmul(s, s), [2 / math.log(2) / k for k in (9, 7, 5, 3, 1)])
    result = e.call("fma", series, s, b.sitofp(exponent, e.vector(F32)))
    zero, infinity = literal(e, 0.0), e.constant(0x7F800000)
    result = b.select(b.fcmp_ordered("==", x, zero), b.bitcast(e.constant(0xFF800000), x.type), result)
    result = b.select(b.icmp_unsigned("==", words, infinity), x, result)
    return b.select(b.fcmp_unordered("<", x, zero), b.bitcast(e.constant(0x7FFFFFFF), x.type), result)


def sine_of_quarter(e: Emitter, x: ir.Value) -> ir.Value:
    """sin(2 pi x) for |x| <= 1/4."""
    b = e.builder
    y = b.fmul(x, x)
    coefficients = [(-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(6, -1, -1)]
    return b.fmul(polynomial(e, y, coefficients), x)


def sine(e: Emitter, x: ir.Value) -> ir.Value:
    """sin(2 pi x): MUFU takes its angle in turns."""
    b = e.builder
    r = b.fsub(x, e.call("roundeven", x))
    magnitude = e.call("fabs", r)
    folded = b.select(b.fcmp_ordered(">", magnitude, literal(e, 0.25)), b.fsub(literal(e, 0.5), magnitude), magnitude)
    return sine_of_quarter(e, e.call("copysign", folded, r))


def cosine(e: Emitter, x: ir.Value) -> ir.Value:
    b = e.builder
    r = e.call("fabs", b.fsub(x, e.call("roundeven", x)))
    return sine_of_quarter(e, b.fsub(literal(e, 0.25), r))


def tangent(e: Emitter, x: ir.Value) -> ir.Value:
    """tanh x, the hyperbolic tangent."""
    b = e.builder
    one = literal(e, 1.0)
    power = exp2(e, b.fmul(x, literal(e, 2 / math.log(2))))
    large = b.fsub(one, b.fdiv(literal(e, 2.0), b.fadd(power, one)))
    small = b.fmul(x, polynomial(e, b.fmul(x, x), [-17 / 315, 2 / 15, -1 / 3, 1.0]))
    magnitude = e.call("fabs", x)
    result = b.select(b.fcmp_ordered("<", magnitude, literal(e, 0.15)), small, large)
    return b.select(b.fcmp_ordered("<", magnitude, literal(e, 2.0**-8)), x, result)


MUFU = {
    "RCP": reciprocal, "RSQ": reciprocal_root, "SQRT": root, "EX2": exp2, "LG2": log2, "SIN": sine, "COS": cosine,
    "TANH": tangent,
}  # fmt: skip
