"""Rules of packed half precision (fp16 and bf16 pairs in one register) and conversions into it.

Sums, products and fused multiply-adds are computed in float32 so that one rounding to 16 bits remains: a float32 sum or
product of 16-bit floats rounds innocently, a fused one is rounded to odd first. (Exception: bf16 products in float32's
denormal range.)
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from warpsim.frontend.emitter import F16, F32, I1, I16, I32, Emitter, SplatConstant, Value
from warpsim.frontend.floating import compare_floats, finish32, float32, two_sum
from warpsim.frontend.integer import combine, is_predicate
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []


def is_bf16(modifiers: Sequence[str]) -> bool:
    return any(m.startswith("BF16") for m in modifiers)


def pair_word(e: Emitter, i: Instruction, operand: Operand) -> Value:
    """The 32 bits of a packed operand, its half selector (`.H0_H0`, `.H1_H1`) applied."""
    if operand.kind == "imm":
        return Value(e.constant(i.encoding >> 32 & 0xFFFFFFFF))
    b = e.builder
    value = e.source(operand)
    low, high = e.constant(0xFFFF), e.constant(16)
    if "H0_H0" in operand.modifiers:
        half = b.and_(value.bits, low)
        return Value(b.or_(half, b.shl(half, high)), value.unknown)
    if "H1_H1" in operand.modifiers:
        half = b.lshr(value.bits, high)
        return Value(b.or_(half, b.shl(half, high)), value.unknown)
    if "H0_H1" in operand.modifiers:  # halves swapped
        return Value(b.or_(b.lshr(value.bits, high), b.shl(value.bits, high)), value.unknown)
    return value


def halves(e: Emitter, words: ir.Value, bf16: bool) -> ir.Value:
    """<n x i32> as <2n x float>, low half first."""
    b = e.builder
    count = 2 * words.type.count
    if bf16:
        narrow = b.bitcast(words, ir.VectorType(I16, count))
        wide = b.zext(narrow, ir.VectorType(I32, count))
        return b.bitcast(b.shl(wide, SplatConstant(wide.type, 16)), ir.VectorType(F32, count))
    return b.fpext(b.bitcast(words, ir.VectorType(F16, count)), ir.VectorType(F32, count))


def packed(e: Emitter, floats: ir.Value, bf16: bool) -> ir.Value:
    """<2n x float> rounded to nearest even, as <n x i32>."""
    b = e.builder
    words = ir.VectorType(I32, floats.type.count // 2)
    if not bf16:
        short = ir.VectorType(I16, floats.type.count)
        half = b.bitcast(b.fptrunc(floats, ir.VectorType(F16, floats.type.count)), short)
        half = b.select(b.fcmp_unordered("uno", floats, floats), SplatConstant(short, 0x7FFF), half)
        return b.bitcast(half, words)
    narrow = b.trunc(b.lshr(to_bf16(e, floats), SplatConstant(ir.VectorType(I32, floats.type.count), 16)),
                     ir.VectorType(I16, floats.type.count))  # fmt: skip
    return b.bitcast(narrow, words)


def to_bf16(e: Emitter, floats: ir.Value) -> ir.Value:
    """bf16 in the upper half of i32 words, nearest even; NaN is the canonical one."""
    b = e.builder
    typ = ir.VectorType(I32, floats.type.count)

    def number(value: int) -> ir.Value:
        return SplatConstant(typ, value)

    bits = b.bitcast(floats, typ)
    odd = b.and_(b.lshr(bits, number(16)), number(1))
    rounded = b.add(bits, b.add(odd, number(0x7FFF)))
    return b.select(b.fcmp_unordered("uno", floats, floats), number(0x7FFF0000), rounded)


def operand_pair(e: Emitter, i: Instruction, operand: Operand, bf16: bool) -> tuple[ir.Value, Value]:
    """A packed operand as <2n x float> with its signs, and its raw words."""
    value = pair_word(e, i, operand)
    bits = halves(e, value.bits, bf16)
    if "FTZ" in i.modifiers and operand.kind != "imm":
        bits = flush_half(e, bits, bf16)
    if operand.kind != "imm":
        if operand.absolute:
            bits = e.call("fabs", bits)
        if operand.negate:
            bits = e.builder.fneg(bits)
    return bits, value


def flush_half(e: Emitter, bits: ir.Value, bf16: bool) -> ir.Value:
    """Values below the smallest normal of the 16-bit format become zeros of their sign."""
    b = e.builder
    smallest = 2.0**-126 if bf16 else 2.0**-14
    limit = ir.Constant(bits.type, [ir.Constant(F32, smallest)] * bits.type.count)
    small = b.fcmp_ordered("<", e.call("fabs", bits), limit)
    zero = ir.Constant(bits.type, [ir.Constant(F32, 0.0)] * bits.type.count)
    return b.select(small, e.call("copysign", zero, bits), bits)


def finish_pair(e: Emitter, i: Instruction, bits: ir.Value, unknown: ir.Value | None, bf16: bool) -> Value:
    """A packed result; `.SAT` clamps to [0, 1], `.RELU` at zero, `.F32` gives the low half as float32."""
    b = e.builder
    if "F32" in i.modifiers:
        lanes = bits.type.count // 2
        low = ir.Constant(ir.VectorType(I32, lanes), [2 * k for k in range(lanes)])
        return finish32(e, i.modifiers, b.shuffle_vector(bits, bits, low), unknown)
    if "FTZ" in i.modifiers:
        bits = flush_half(e, bits, bf16)
    zero = ir.Constant(bits.type, [ir.Constant(F32, 0.0)] * bits.type.count)
    if "SAT" in i.modifiers:
        one = ir.Constant(bits.type, [ir.Constant(F32, 1.0)] * bits.type.count)
        bits = b.select(b.fcmp_ordered(">", bits, zero), bits, zero)
        bits = b.select(b.fcmp_ordered("<", bits, one), bits, one)
    if "RELU" in i.modifiers:
        bits = b.select(b.fcmp_ordered("<=", bits, zero), zero, bits)  # NaN stays NaN
    return Value(packed(e, bits, bf16), unknown)


def sources(i: Instruction) -> list[Operand]:
    """Source operands; the two halves of an immediate pair count as one."""
    found: list[Operand] = []
    for operand in i.operands[1:]:
        if operand.kind == "imm" and found and found[-1].kind == "imm":
            continue
        if not is_predicate(operand):
            found.append(operand)
    return found


def hfma2(e: Emitter, i: Instruction) -> None:
    bf16 = is_bf16(i.modifiers)
    x, y, z = sources(i)[:3]
    nothing = x.kind == y.kind == "reg" and x.index == y.index == 255
    if nothing and z.kind == "imm" and not ("SAT" in i.modifiers or "RELU" in i.modifiers):
        e.result(i.operands[0], pair_word(e, i, z))  # how the compiler writes a move of an immediate
        return
    (u, vu), (v, vv), (w, vw) = (operand_pair(e, i, o, bf16) for o in (x, y, z))
    bits = fused(e, u, v, w)
    e.result(i.operands[0], finish_pair(e, i, bits, e.unknown(vu, vv, vw), bf16))


def fused(e: Emitter, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x*y + z of 16-bit floats as float32, rounded to odd so that a second rounding to 16 bits is right."""
    b = e.builder
    product = b.fmul(x, y)
    zero = ir.Constant(product.type, [ir.Constant(F32, 0.0)] * product.type.count)
    smallest = ir.Constant(product.type, [ir.Constant(F32, 2.0**-149)] * product.type.count)
    vanished = b.and_(b.fcmp_ordered("==", product, zero), b.fcmp_unordered("!=", x, zero))  # only bf16 products can
    vanished = b.and_(vanished, b.fcmp_unordered("!=", y, zero))
    product = b.select(vanished, e.call("copysign", smallest, product), product)
    total, rest = two_sum(e, product, z)
    typ = ir.VectorType(I32, total.type.count)
    words = b.bitcast(total, typ)
    even = b.icmp_unsigned("==", b.and_(words, SplatConstant(typ, 1)), SplatConstant(typ, 0))
    inexact = b.fcmp_ordered("!=", rest, zero)
    outward = b.icmp_unsigned("==", b.icmp_signed("<", words, SplatConstant(typ, 0)), b.fcmp_ordered("<", rest, zero))
    step = b.select(outward, SplatConstant(typ, 1), SplatConstant(typ, 0xFFFFFFFF))
    odd = b.add(words, b.select(b.and_(even, inexact), step, SplatConstant(typ, 0)))
    return b.bitcast(odd, total.type)


def hadd2(e: Emitter, i: Instruction) -> None:
    bf16 = is_bf16(i.modifiers)
    (x, vx), (y, vy) = (operand_pair(e, i, o, bf16) for o in sources(i)[:2])
    e.result(i.operands[0], finish_pair(e, i, e.builder.fadd(x, y), e.unknown(vx, vy), bf16))


def hmul2(e: Emitter, i: Instruction) -> None:
    bf16 = is_bf16(i.modifiers)
    (x, vx), (y, vy) = (operand_pair(e, i, o, bf16) for o in sources(i)[:2])
    e.result(i.operands[0], finish_pair(e, i, e.builder.fmul(x, y), e.unknown(vx, vy), bf16))


def hmnmx2(e: Emitter, i: Instruction) -> None:
    bf16 = is_bf16(i.modifiers)
    (x, vx), (y, vy) = (operand_pair(e, i, o, bf16) for o in sources(i)[:2])
    p = e.predicate([o for o in i.operands if is_predicate(o)][-1])
    names = ("minimum", "maximum") if "NAN" in i.modifiers else ("minimumnum", "maximumnum")
    both = interleave(e, p.bits)
    bits = e.builder.select(both, e.call(names[0], x, y), e.call(names[1], x, y))
    e.result(i.operands[0], finish_pair(e, i, bits, e.unknown(vx, vy, p), bf16))


def interleave(e: Emitter, lanes: ir.Value) -> ir.Value:
    """<n x T> with every element twice."""
    count = lanes.type.count
    if isinstance(lanes, SplatConstant):
        return SplatConstant(ir.VectorType(lanes.type.element, 2 * count), lanes.value)
    twice = ir.Constant(ir.VectorType(I32, 2 * count), [k // 2 for k in range(2 * count)])
    return e.builder.shuffle_vector(lanes, lanes, twice)


def compare_halves(e: Emitter, i: Instruction, x: Operand, y: Operand) -> tuple[Value, Value]:
    """The comparison of the low halves and of the high ones."""
    bf16 = is_bf16(i.modifiers)
    results = []
    (u, vu), (v, vv) = operand_pair(e, i, x, bf16), operand_pair(e, i, y, bf16)
    for k in (0, 1):
        pick = ir.Constant(ir.VectorType(I32, e.lanes), [2 * lane + k for lane in range(e.lanes)])
        low, high = (e.builder.shuffle_vector(side, side, pick) for side in (u, v))
        results.append(compare_floats(e, i, [(low, vu, x), (high, vv, y)]))
    return results[0], results[1]


def hsetp2(e: Emitter, i: Instruction) -> None:
    """Two predicates, of the low and of the high halves; with `.H_AND` their conjunction and its inverse."""
    p, q, *rest = i.operands
    values = [o for o in rest if not is_predicate(o)]
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    r = e.predicate([o for o in rest if is_predicate(o)][-1])
    low, high = compare_halves(e, i, values[0], values[1])
    if "H_AND" in i.modifiers:
        low = combine(e, "AND", low, high)
        high = Value(e.builder.not_(low.bits), low.unknown)
    first, second = combine(e, operation, low, r), combine(e, operation, high, r)
    e.result(p, first)
    e.result(q, second)


def hset2(e: Emitter, i: Instruction) -> None:
    """Masks (or with `.BF` ones) in both halves."""
    b = e.builder
    d, *rest = i.operands
    values = [o for o in rest if not is_predicate(o)]
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    predicates = [o for o in rest if is_predicate(o)]
    r = e.predicate(predicates[-1]) if predicates else Value(e.constant(1, I1))
    low, high = compare_halves(e, i, values[0], values[1])
    one = (0x3F80 if is_bf16(i.modifiers) else 0x3C00) if "BF" in i.modifiers else 0xFFFF
    parts = [combine(e, operation, side, r) for side in (low, high)]
    words = [b.select(part.bits, e.constant(one << 16 * k), e.constant(0)) for k, part in enumerate(parts)]
    e.result(d, Value(b.or_(*words), e.unknown(*parts)))


def f2fp(e: Emitter, i: Instruction) -> None:
    """F2FP.F16.F32.PACK_AB d, a, b: a in the high half, b in the low one; BF16 likewise; sm_80 does not print F16."""
    b = e.builder
    modifiers = i.modifiers
    if "E4M3" in modifiers or "E5M2" in modifiers:
        convert_fp8(e, i)
        return
    if "PACK_AB" not in modifiers:
        raise e.unsupported("its formats")
    bf16 = "BF16" in modifiers
    operands = [o for o in i.operands[1:] if not is_predicate(o)]
    (x, vx), (y, vy) = (float32(e, o, "FTZ" in modifiers) for o in operands[:2])
    if "RELU" in modifiers:
        zero = ir.Constant(x.type, [ir.Constant(F32, 0.0)] * x.type.count)
        x, y = (b.select(b.fcmp_ordered("<=", s, zero), zero, s) for s in (x, y))
    high, low = (half_of(e, s, bf16, "RZ" in modifiers) for s in (x, y))
    bits = b.or_(b.shl(high, e.constant(16)), low)
    e.result(i.operands[0], Value(bits, e.unknown(vx, vy)))


def half_of(e: Emitter, floats: ir.Value, bf16: bool, truncate: bool = False) -> ir.Value:
    """<n x float> as a 16-bit float in the low half of a word: to nearest even, or toward zero."""
    b = e.builder
    if bf16:
        bits = to_bf16(e, floats)
        if truncate:
            number = b.fcmp_ordered("ord", floats, floats)
            bits = b.select(number, b.bitcast(floats, e.vector(I32)), bits)
        return b.lshr(bits, e.constant(16))
    half = b.fptrunc(floats, e.vector(F16))
    words = b.zext(b.bitcast(half, e.vector(I16)), e.vector(I32))
    words = b.select(b.fcmp_unordered("uno", floats, floats), e.constant(0x7FFF), words)
    if not truncate:
        return words
    outward = b.fcmp_ordered(">", e.call("fabs", b.fpext(half, e.vector(F32))), e.call("fabs", floats))
    return b.select(outward, b.sub(words, e.constant(1)), words)


def convert_fp8(e: Emitter, i: Instruction) -> None:
    """Pairs of 8-bit floats: from two fp16 or float32 values (saturating), or to fp16.

    The pair lies in the low half of the register, a's byte above b's.
    """
    b = e.builder
    modifiers = i.modifiers
    e4m3 = "E4M3" in modifiers
    if "UNPACK_B" in modifiers and "F16" in modifiers:
        operand = i.operands[1]
        value = e.source(operand)
        upper = bool({"H1", "H1_H1", "B1"} & set(operand.modifiers))
        word = b.lshr(value.bits, e.constant(16)) if upper else value.bits
        halves_ = [b.and_(b.lshr(word, e.constant(8 * k)), e.constant(0xFF)) for k in (0, 1)]
        low, high = (fp8_to_half(e, byte, e4m3) for byte in halves_)
        e.result(i.operands[0], Value(b.or_(low, b.shl(high, e.constant(16))), value.unknown))
        return
    merged = i.operands[-1]
    if "SATFINITE" not in modifiers or merged.kind != "reg" or merged.index != 255:
        raise e.unsupported("its formats")
    if "PACK_AB_MERGE_C" in modifiers and "F32" in modifiers:
        (x, vx), (y, vy) = (float32(e, o, "FTZ" in modifiers) for o in i.operands[1:3])
        unknown = e.unknown(vx, vy)
    elif "UNPACK_B_MERGE_C" in modifiers and "F16" in modifiers:
        both, value = operand_pair(e, i, i.operands[1], False)
        picks = [ir.Constant(ir.VectorType(I32, e.lanes), [2 * lane + k for lane in range(e.lanes)]) for k in (1, 0)]
        x, y = (b.shuffle_vector(both, both, pick) for pick in picks)
        unknown = value.unknown
    else:
        raise e.unsupported("its formats")
    if "RELU" in modifiers:
        zero = ir.Constant(x.type, [ir.Constant(F32, 0.0)] * x.type.count)
        x, y = (b.select(b.fcmp_ordered("<=", s, zero), zero, s) for s in (x, y))
    bits = b.or_(b.shl(fp8_of(e, x, e4m3), e.constant(8)), fp8_of(e, y, e4m3))
    e.result(i.operands[0], Value(bits, unknown))


def fp8_to_half(e: Emitter, byte: ir.Value, e4m3: bool) -> ir.Value:
    """An 8-bit float in the low byte of a word as fp16 bits in its low half; every value is exact."""
    b = e.builder
    if not e4m3:
        return b.shl(byte, e.constant(8))
    sign = b.shl(b.and_(byte, e.constant(0x80)), e.constant(8))
    magnitude = b.and_(byte, e.constant(0x7F))
    half = b.bitcast(b.trunc(b.shl(magnitude, e.constant(7)), e.vector(I16)), e.vector(F16))
    wide = b.fmul(b.fpext(half, e.vector(F32)), ir.Constant(e.vector(F32), [ir.Constant(F32, 256.0)] * e.lanes))
    bits = half_of(e, wide, False)
    nan = b.icmp_unsigned("==", magnitude, e.constant(0x7F))
    return b.select(nan, e.constant(0x7FFF), b.or_(bits, sign))


def fp8_of(e: Emitter, x: ir.Value, e4m3: bool) -> ir.Value:
    """<n x float> as an 8-bit float in the low byte of a word: nearest even, saturated to the largest finite value."""
    b = e.builder
    mantissa, bias, largest = (3, 7, 448.0) if e4m3 else (2, 15, 57344.0)
    drop = 23 - mantissa

    def number(value: float) -> ir.Value:
        return ir.Constant(e.vector(F32), [ir.Constant(F32, value)] * e.lanes)

    words = b.bitcast(x, e.vector(I32))
    sign = b.and_(b.lshr(words, e.constant(24)), e.constant(0x80))
    magnitude = e.call("minnum", e.call("fabs", x), number(largest))
    bits = b.bitcast(magnitude, e.vector(I32))
    odd = b.and_(b.lshr(bits, e.constant(drop)), e.constant(1))
    rounded = b.add(bits, b.add(odd, e.constant((1 << drop - 1) - 1)))
    normal = b.sub(b.lshr(rounded, e.constant(drop)), e.constant(127 - bias << mantissa))
    # below the smallest normal: adding this number leaves multiples of the smallest denormal in the last bits
    quantum = 2.0 ** (1 - bias - mantissa + 23)
    shifted = b.bitcast(b.fadd(magnitude, number(quantum)), e.vector(I32))
    denormal = b.sub(shifted, b.bitcast(number(quantum), e.vector(I32)))
    code = b.select(b.fcmp_ordered("<", magnitude, number(2.0 ** (1 - bias))), denormal, normal)
    return b.select(b.fcmp_unordered("uno", x, x), e.constant(0x7F), b.or_(code, sign))
