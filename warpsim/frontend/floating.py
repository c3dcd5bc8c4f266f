"""Rules of float32 and float64 arithmetic, comparison and selection.

Arithmetic is IEEE with the rounding that the instruction asks for; `.FTZ` flushes denormal inputs and outputs to a zero
of their sign. A NaN result of float32 is 0x7fffffff (recorded on a GPU).
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from warpsim.frontend.emitter import F32, F64, I1, I32, I64, Emitter, SplatConstant, Value
from warpsim.frontend.integer import choose, combine, is_predicate, ordinary, set_predicates
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []

DIRECTED = ("RZ", "RM", "RP")
SCALES = {"M2": 2.0, "M4": 4.0, "M8": 8.0, "D2": 0.5, "D4": 0.25, "D8": 0.125}  # of FMUL: product times or over 2, 4, 8


def literal(e: Emitter, value: float, element: ir.Type = F32) -> ir.Value:
    """A float constant in every lane."""
    text = ir.Constant(element, value)
    return ir.Constant(e.vector(element), [text] * e.lanes)


def signed(e: Emitter, bits: ir.Value, operand: Operand) -> ir.Value:
    """|x| and -x of a float vector."""
    if operand.kind == "imm":
        return bits
    if operand.absolute:
        bits = e.call("fabs", bits)
    return e.builder.fneg(bits) if operand.negate else bits


def flush(e: Emitter, words: ir.Value) -> ir.Value:
    """float32 words with denormals turned into zeros of their sign."""
    b = e.builder
    if isinstance(words, SplatConstant):
        value = words.value
        return e.constant(value & 0x80000000 if value & 0x7F800000 == 0 else value)
    small = b.icmp_unsigned("==", b.and_(words, e.constant(0x7F800000)), e.constant(0))
    return b.select(small, b.and_(words, e.constant(0x80000000)), words)


def float32(e: Emitter, operand: Operand, ftz: bool) -> tuple[ir.Value, Value]:
    """A float32 operand with its signs, denormals flushed if asked, and the raw value (for its shadow)."""
    value = e.source(operand, loose=True)
    words = flush(e, value.bits) if ftz and not value.flushed else value.bits
    return signed(e, e.builder.bitcast(words, e.vector(F32)), operand), value


def finish32(e: Emitter, modifiers: Sequence[str], bits: ir.Value, unknown: ir.Value | None) -> Value:
    """A float32 result: flushed and saturated as the modifiers ask."""
    b = e.builder
    if "SAT" in modifiers:
        bits = saturate(e, bits)
    words = b.bitcast(bits, e.vector(I32))
    if "FTZ" in modifiers:
        return Value(flush(e, words), unknown, flushed=True, loose=True)
    return Value(words, unknown, loose=True)


def saturate(e: Emitter, bits: ir.Value) -> ir.Value:
    """Clamped to [0, 1]; NaN gives 0."""
    b = e.builder
    element = bits.type.element
    zero, one = literal(e, 0.0, element), literal(e, 1.0, element)
    bits = b.select(b.fcmp_ordered(">", bits, zero), bits, zero)
    return b.select(b.fcmp_ordered("<", bits, one), bits, one)


def directed(e: Emitter, mode: str, high: ir.Value, rest: ir.Value) -> ir.Value:
    """float32 of the exact double sum high + rest (|rest| at most half an ulp of high), rounded as `mode` says."""
    b = e.builder
    near = b.fptrunc(high, e.vector(F32))
    difference = b.fsub(high, b.fpext(near, e.vector(F64)))
    return nudge(e, mode, near, difference, rest)


def nudge(e: Emitter, mode: str, near: ir.Value, difference: ir.Value, rest: ir.Value) -> ir.Value:
    """The neighbour of a nearest result on the side that the rounding asks for; exact = near + difference + rest."""
    b = e.builder
    zero = literal(e, 0.0, F64)
    residue = b.select(b.fcmp_unordered("==", difference, zero), rest, difference)
    integer = I32 if near.type.element is F32 else I64
    words = b.bitcast(near, e.vector(integer))
    above = b.fcmp_ordered(">", residue, zero)
    below = b.fcmp_ordered("<", residue, zero)
    negative = b.icmp_signed("<", words, e.constant(0, integer))
    is_zero = b.fcmp_ordered("==", near, literal(e, 0.0, near.type.element))
    one = e.constant(1, integer)
    sign = e.constant(1 << integer.width - 1, integer)
    if mode == "RZ":
        # magnitude too large: exact lies nearer to zero
        down = b.or_(b.and_(negative, above), b.and_(b.not_(negative), below))
        return b.bitcast(b.select(b.and_(down, b.not_(is_zero)), b.sub(words, one), words), near.type)
    if mode == "RP":
        smallest = one
        moved = b.select(is_zero, smallest, b.select(negative, b.sub(words, one), b.add(words, one)))
        return b.bitcast(b.select(above, moved, words), near.type)
    smallest = b.or_(one, sign)
    moved = b.select(is_zero, smallest, b.select(negative, b.add(words, one), b.sub(words, one)))
    return b.bitcast(b.select(below, moved, words), near.type)


def two_sum(e: Emitter, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x + y = s + r exactly."""
    b = e.builder
    s = b.fadd(x, y)
    t = b.fsub(s, x)
    return s, b.fadd(b.fsub(x, b.fsub(s, t)), b.fsub(y, t))


def rounding(modifiers: Sequence[str]) -> str | None:
    return next((m for m in modifiers if m in DIRECTED), None)


def widen64(e: Emitter, bits: ir.Value) -> ir.Value:
    return e.builder.fpext(bits, e.vector(F64))


def fadd(e: Emitter, i: Instruction) -> None:
    ftz = "FTZ" in i.modifiers
    (x, vx), (y, vy) = (float32(e, o, ftz) for o in i.operands[1:3])
    mode = rounding(i.modifiers)
    if mode:
        bits = directed(e, mode, *two_sum(e, widen64(e, x), widen64(e, y)))
    else:
        bits = e.builder.fadd(x, y)
    e.result(i.operands[0], finish32(e, i.modifiers, bits, e.unknown(vx, vy)))


def fmul(e: Emitter, i: Instruction) -> None:
    ftz = "FTZ" in i.modifiers
    (x, vx), (y, vy) = (float32(e, o, ftz) for o in i.operands[1:3])
    mode = rounding(i.modifiers)
    scale = next((SCALES[m] for m in i.modifiers if m in SCALES), None)
    if mode or scale:
        product = e.builder.fmul(widen64(e, x), widen64(e, y))
        if scale:
            product = e.builder.fmul(product, literal(e, scale, F64))
        zero = literal(e, 0.0, F64)
        bits = directed(e, mode, product, zero) if mode else e.builder.fptrunc(product, e.vector(F32))
    else:
        bits = e.builder.fmul(x, y)
    e.result(i.operands[0], finish32(e, i.modifiers, bits, e.unknown(vx, vy)))


def ffma(e: Emitter, i: Instruction) -> None:
    ftz = "FTZ" in i.modifiers
    (x, vx), (y, vy), (z, vz) = (float32(e, o, ftz) for o in i.operands[1:4])
    mode = rounding(i.modifiers)
    if mode:
        product = e.builder.fmul(widen64(e, x), widen64(e, y))
        bits = directed(e, mode, *two_sum(e, product, widen64(e, z)))
    else:
        bits = e.call("fma", x, y, z)
    e.result(i.operands[0], finish32(e, i.modifiers, bits, e.unknown(vx, vy, vz)))


def pairs(e: Emitter, i: Instruction, count: int) -> tuple[list[list[ir.Value]], ir.Value | None]:
    """Operands of a packed float32 pair instruction (sm_100): for the low and for the high word.

    `.F32x2.HI_LO` is a register pair, `.F32` one register for both.
    """
    b = e.builder
    ftz = "FTZ" in i.modifiers
    words: list[list[ir.Value]] = [[], []]
    values = []
    for operand in i.operands[1 : 1 + count]:
        if operand.kind in ("reg", "ureg") and "HI_LO" in operand.modifiers:
            value = e.source64(operand)
            low, high = (b.trunc(v, e.vector(I32)) for v in (value.bits, b.lshr(value.bits, e.constant(32, I64))))
        elif operand.modifiers == ("F32",):
            value = e.source(operand)
            low = high = value.bits
        else:
            raise e.unsupported("its operands")
        values.append(value)
        for terms, bits in zip(words, (low, high), strict=True):
            bits = flush(e, bits) if ftz else bits
            terms.append(signed(e, b.bitcast(bits, e.vector(F32)), operand))
    return words, e.unknown(*values)


def finish_pairs(e: Emitter, i: Instruction, bits: list[ir.Value], unknown: ir.Value | None) -> None:
    b = e.builder
    low, high = (b.zext(finish32(e, i.modifiers, word, None).bits, e.vector(I64)) for word in bits)
    e.result64(i.operands[0], Value(b.or_(low, b.shl(high, e.constant(32, I64))), unknown))


def fadd2(e: Emitter, i: Instruction) -> None:
    words, unknown = pairs(e, i, 2)
    finish_pairs(e, i, [e.builder.fadd(*terms) for terms in words], unknown)


def fmul2(e: Emitter, i: Instruction) -> None:
    words, unknown = pairs(e, i, 2)
    finish_pairs(e, i, [e.builder.fmul(*terms) for terms in words], unknown)


def ffma2(e: Emitter, i: Instruction) -> None:
    words, unknown = pairs(e, i, 3)
    finish_pairs(e, i, [e.call("fma", *terms) for terms in words], unknown)


FLOAT_COMPARE = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}


def compare_floats(
    e: Emitter, i: Instruction, sides: Sequence[tuple[ir.Value, Value, Operand]], modifiers: Sequence[str] | None = None
) -> Value:
    """The comparison that the modifiers name, of two float vectors of any precision."""
    b = e.builder
    modifiers = i.modifiers if modifiers is None else modifiers
    (x, vx, _), (y, vy, _) = sides
    for name in modifiers:
        if name in FLOAT_COMPARE:
            bits = b.fcmp_ordered(FLOAT_COMPARE[name], x, y)
        elif name[-1:] == "U" and name[:-1] in FLOAT_COMPARE:
            bits = b.fcmp_unordered(FLOAT_COMPARE[name[:-1]], x, y)
        elif name == "NUM":
            bits = b.fcmp_ordered("ord", x, y)
        elif name == "NAN":
            bits = b.fcmp_unordered("uno", x, y)
        elif name in ("F", "T"):
            return Value(e.constant(int(name == "T"), I1))
        else:
            continue
        break
    else:
        raise e.unsupported("its comparison")
    unknown = e.unknown(vx, vy)
    if unknown is None or name[:2] not in ("EQ", "NE"):
        return ordinary(e, i, name, sides[1][2], Value(bits, unknown))
    # an unknown value is taken to differ from a non-zero constant: kernels compare with such to keep values alive
    for k, (side, value, operand) in enumerate(sides):
        constant = operand.kind in ("imm", "const") or isinstance(value.bits, SplatConstant)
        other = sides[1 - k][1]
        if not constant or other.unknown is None:
            continue
        assumed = b.and_(other.unknown, b.fcmp_ordered("!=", side, literal(e, 0.0, side.type.element)))
        if value.unknown is not None:
            assumed = b.and_(assumed, b.not_(value.unknown))
        if not (isinstance(value.bits, SplatConstant) and value.bits.value << 1 & (1 << 64) - 1 in (0, 1 << 32)):
            e.note_assumption(i, assumed)
        bits = b.select(assumed, e.constant(int(name[:2] == "NE"), I1), bits)
        return Value(bits, b.and_(unknown, b.not_(assumed)))
    return Value(bits, unknown)


def fsetp(e: Emitter, i: Instruction) -> None:
    p, q, x, y, r = i.operands[:5]
    set_predicates(e, i, p, q, compare32(e, i, x, y), r)


def compare32(e: Emitter, i: Instruction, x: Operand, y: Operand) -> Value:
    ftz = "FTZ" in i.modifiers
    return compare_floats(e, i, [(*float32(e, x, ftz), x), (*float32(e, y, ftz), y)])


def fset(e: Emitter, i: Instruction) -> None:
    d, x, y, r = i.operands[:4]
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    p = combine(e, operation, compare32(e, i, x, y), e.predicate(r))
    one = 0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF
    e.result(d, Value(e.builder.select(p.bits, e.constant(one), e.constant(0)), p.unknown, "BF" in i.modifiers))


def fsel(e: Emitter, i: Instruction) -> None:
    d, x, y, p = i.operands[:4]
    ftz = "FTZ" in i.modifiers
    sides = []
    for operand in (x, y):
        e.source(operand)  # a selection does not touch NaNs, so they must be the GPU's
        bits, value = float32(e, operand, ftz)
        sides.append(Value(e.builder.bitcast(bits, e.vector(I32)), value.unknown, value.flushed or ftz))
    e.result(d, choose(e, e.predicate(p), *sides))


def minimum(e: Emitter, x: ir.Value, y: ir.Value, smallest: ir.Value, nan: bool) -> ir.Value:
    """IEEE minimumNumber where `smallest` (<n x i1>), else maximumNumber; -0 < +0; a NaN wins only with `nan`."""
    names = ("minimum", "maximum") if nan else ("minimumnum", "maximumnum")
    if isinstance(smallest, SplatConstant):
        return e.call(names[0] if smallest.value else names[1], x, y)
    return e.builder.select(smallest, e.call(names[0], x, y), e.call(names[1], x, y))


def fmnmx(e: Emitter, i: Instruction) -> None:
    """Minimum (predicate true) or maximum of two or three float32 values."""
    predicates, sources = [o for o in i.operands if is_predicate(o)], [o for o in i.operands[1:] if not is_predicate(o)]
    ftz = "FTZ" in i.modifiers
    terms = [float32(e, o, ftz) for o in sources]
    which = [e.predicate(p) for p in predicates]
    bits = terms[0][0]
    for term, p in zip(terms[1:], which * 2, strict=False):
        bits = minimum(e, bits, term[0], p.bits, "NAN" in i.modifiers)
    if "XORSIGN" in i.modifiers:
        b = e.builder
        raw = [e.source(o).bits for o in sources[:2]]
        sign = b.and_(b.xor(*raw), e.constant(0x80000000))
        words = b.xor(b.bitcast(bits, e.vector(I32)), sign)
        bits = b.bitcast(words, bits.type)
    unknown = e.unknown(*(t[1] for t in terms), *which)
    e.result(i.operands[0], finish32(e, i.modifiers, bits, unknown))
