"""Rules of bit field, byte, minimum and maximum, and packed integer instructions."""

from __future__ import annotations

from llvmlite import ir

from warpsim.frontend.emitter import I1, I8, I16, I32, Emitter, SplatConstant, Value
from warpsim.frontend.integer import bounded_shift, is_predicate, split, wanted, word
from warpsim.frontend.program import RZ, Instruction, Operand

__all__: list[str] = []


def popc(e: Emitter, i: Instruction) -> None:
    x = word(e, i.operands[1])
    e.result(i.operands[0], Value(e.call("ctpop", x.bits), x.unknown))


def brev(e: Emitter, i: Instruction) -> None:
    x = word(e, i.operands[1])
    e.result(i.operands[0], Value(e.call("bitreverse", x.bits), x.unknown))


def leading_zeros(e: Emitter, x: ir.Value) -> ir.Value:
    function = e.intrinsic(f"llvm.ctlz.v{e.lanes}i32", x.type, [x.type, I1])
    return e.builder.call(function, [x, I1(0)])


def flo(e: Emitter, i: Instruction) -> None:
    """Index of the highest set bit (signed: that differs from the sign), all ones for none; `.SH`: 31 - index."""
    b = e.builder
    out, sources = split(i.operands)
    d, operand = sources[:2]
    x = word(e, operand)
    bits = x.bits if "U32" in i.modifiers else b.xor(x.bits, b.ashr(x.bits, e.constant(31)))
    zeros = leading_zeros(e, bits)
    index = zeros if "SH" in i.modifiers else b.sub(e.constant(31), zeros)
    found = b.icmp_unsigned("!=", bits, e.constant(0))
    e.result(d, Value(b.select(found, index, e.constant(0xFFFFFFFF)), x.unknown))
    if wanted(out):
        e.result(out[0], Value(found, x.unknown))


def at_most(e: Emitter, x: ir.Value, limit: int) -> ir.Value:
    return e.call("umin", x, e.constant(limit))


def bmsk(e: Emitter, i: Instruction) -> None:
    """`b` ones from bit `a` on; amounts clamp at 32, or wrap with `.W`."""
    b = e.builder
    start, width = word(e, i.operands[1]), word(e, i.operands[2])
    if "W" in i.modifiers:
        first, count = (b.and_(v.bits, e.constant(31)) for v in (start, width))
    else:
        first, count = start.bits, width.bits
    ones = b.not_(bounded_shift(e, "shl", e.constant(0xFFFFFFFF), count, None))
    e.result(i.operands[0], Value(bounded_shift(e, "shl", ones, first, None), e.unknown(start, width)))


def sgxt(e: Emitter, i: Instruction) -> None:
    """The low `b` bits of `a`, sign- or with `.U32` zero-extended; b clamps at 32, or wraps with `.W`."""
    b = e.builder
    x, width = word(e, i.operands[1]), word(e, i.operands[2])
    kind = "lshr" if "U32" in i.modifiers else "ashr"
    if isinstance(width.bits, SplatConstant):
        count = width.bits.value & 31 if "W" in i.modifiers else min(width.bits.value, 32)
        if count == 0:
            bits: ir.Value = e.constant(0)
        else:
            shift = e.constant(32 - count)
            bits = x.bits if count == 32 else getattr(b, kind)(b.shl(x.bits, shift), shift)
    else:
        limited = b.and_(width.bits, e.constant(31)) if "W" in i.modifiers else at_most(e, width.bits, 32)
        shift = b.sub(e.constant(32), limited)
        moved = bounded_shift(e, "shl", x.bits, shift, None)
        bits = bounded_shift(e, kind, moved, shift, None)
    e.result(i.operands[0], Value(bits, e.unknown(x, width)))


def prmt(e: Emitter, i: Instruction) -> None:
    """Four bytes of the eight in {c:a}; bit 3 of a selector digit replicates the byte's sign."""
    b = e.builder
    low, selector, high = (e.source(o) for o in i.operands[1:4])
    mode = next((m for m in i.modifiers if m in PRMT_MODES), None)
    if mode:
        selector = prmt_selector(e, PRMT_MODES[mode], selector)
    if isinstance(selector.bits, SplatConstant):
        digits = [selector.bits.value >> 4 * k & 15 for k in range(4)]
        used = [v for v, first in ((low, 0), (high, 4)) if any(first <= d & 7 < first + 4 for d in digits)]
        e.result(i.operands[0], Value(constant_prmt(e, low.bits, high.bits, digits), e.unknown(*used)))
        return
    bits: ir.Value = e.constant(0)
    for k in range(4):
        digit = b.lshr(selector.bits, e.constant(4 * k)) if k else selector.bits
        upper = b.icmp_unsigned("!=", b.and_(digit, e.constant(4)), e.constant(0))
        shift = b.shl(b.and_(digit, e.constant(3)), e.constant(3))
        byte = b.lshr(b.select(upper, high.bits, low.bits), shift)
        sign = b.ashr(b.shl(byte, e.constant(24)), e.constant(31))
        replicate = b.icmp_unsigned("!=", b.and_(digit, e.constant(8)), e.constant(0))
        byte = b.and_(b.select(replicate, sign, byte), e.constant(255))
        bits = b.or_(bits, b.shl(byte, e.constant(8 * k))) if k else byte
    e.result(i.operands[0], Value(bits, e.unknown(low, selector, high)))


# what the special modes pick for the low two bits of the selector, as selectors of the general mode
PRMT_MODES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543), "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333), "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210), "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip


def prmt_selector(e: Emitter, choices: tuple[int, ...], selector: Value) -> Value:
    b = e.builder
    if isinstance(selector.bits, SplatConstant):
        return Value(e.constant(choices[selector.bits.value & 3]))
    low = b.and_(selector.bits, e.constant(3))
    bits: ir.Value = e.constant(choices[0])
    for k in (1, 2, 3):
        bits = b.select(b.icmp_unsigned("==", low, e.constant(k)), e.constant(choices[k]), bits)
    return Value(bits, selector.unknown)


def constant_prmt(e: Emitter, low: ir.Value, high: ir.Value, digits: list[int]) -> ir.Value:
    b = e.builder
    count = 4 * e.lanes
    typ = ir.VectorType(I8, count)
    places = [4 * lane + d % 4 + (count if d & 4 else 0) for lane in range(e.lanes) for d in digits]
    first, second = b.bitcast(low, typ), b.bitcast(high, typ)
    picked = b.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, count), places))
    if any(d & 8 for d in digits):
        shifts = ir.Constant(typ, [7 if d & 8 else 0 for _ in range(e.lanes) for d in digits])
        picked = b.ashr(picked, shifts)
    return b.bitcast(picked, ir.VectorType(I32, e.lanes))


def lane_type(modifiers: tuple[str, ...]) -> tuple[ir.IntType, bool]:
    """Element type and signedness of a packed or plain minimum."""
    for name, element, signed in (("S16x2", I16, True), ("U16x2", I16, False), ("S8x4", I8, True), ("U8x4", I8, False)):
        if name in modifiers:
            return element, signed
    return I32, not {"U32", "U16x2"} & set(modifiers)


def minmax(
    e: Emitter, i: Instruction, sources: list[Operand], predicate: Operand, outs: list[Operand], sum_first: bool = False
) -> None:
    """The minimum or maximum of two or three words or packed half words; `.RELU`: at least zero."""
    b = e.builder
    element, signed = lane_type(i.modifiers)
    typ = ir.VectorType(element, e.lanes * (32 // element.width))
    values = [word(e, o) for o in sources]
    terms = [b.bitcast(v.bits, typ) if element is not I32 else v.bits for v in values]
    if sum_first:
        terms = [b.add(terms[0], terms[1]), *terms[2:]]
    p = e.predicate(predicate)
    names = ("smin", "smax") if signed else ("umin", "umax")

    def chosen(x: ir.Value, y: ir.Value) -> ir.Value:
        if isinstance(p.bits, SplatConstant):
            return e.call(names[0] if p.bits.value else names[1], x, y)
        both = [e.call(name, x, y) for name in names]
        words = [b.bitcast(v, e.vector(I32)) if element is not I32 else v for v in both]
        picked = b.select(p.bits, *words)
        return b.bitcast(picked, typ) if element is not I32 else picked

    result = terms[0]
    for term in terms[1:]:
        result = chosen(result, term)
    if "RELU" in i.modifiers:
        result = e.call("smax", result, SplatConstant(typ, 0))
    bits = b.bitcast(result, e.vector(I32)) if element is not I32 else result
    unknown = e.unknown(*values, p)
    e.result(i.operands[0], Value(bits, unknown))
    if wanted(outs):
        first_chosen(e, outs, terms, result, unknown)


def first_chosen(
    e: Emitter, outs: list[Operand], terms: list[ir.Value], result: ir.Value, unknown: ir.Value | None
) -> None:
    """Predicates: the result is the first operand's (low half, then high half)."""
    b = e.builder
    if len(terms) > 2 or result.type.element.width < 16:
        raise e.unsupported("its predicate results")
    chosen = b.icmp_unsigned("==", result, terms[0])
    if result.type.count == e.lanes:
        e.result(outs[0], Value(chosen, unknown))
        return
    for k, out in enumerate(outs[:2]):
        pick = ir.Constant(ir.VectorType(I32, e.lanes), [2 * lane + k for lane in range(e.lanes)])
        e.result(out, Value(b.shuffle_vector(chosen, chosen, pick), unknown))


def vimnmx(e: Emitter, i: Instruction) -> None:
    """IMNMX, VIMNMX, VIMNMX3: minimum with a true predicate, maximum with a false one."""
    outs, rest = split(i.operands[1:])
    minmax(e, i, [o for o in rest if not is_predicate(o)], rest[-1], outs)


def viaddmnmx(e: Emitter, i: Instruction) -> None:
    """The minimum or maximum of a + b and c."""
    outs, rest = split(i.operands[1:])
    if wanted(outs):
        raise e.unsupported("its predicate results")
    minmax(e, i, [o for o in rest if not is_predicate(o)], rest[-1], [], sum_first=True)


def vabsdiff(e: Emitter, i: Instruction) -> None:
    """|a - b| + c."""
    b = e.builder
    x, y, z = (word(e, o) for o in i.operands[1:4])
    names = ("umin", "umax") if "U32" in i.modifiers else ("smin", "smax")
    difference = b.sub(e.call(names[1], x.bits, y.bits), e.call(names[0], x.bits, y.bits))
    e.result(i.operands[0], Value(b.add(difference, z.bits), e.unknown(x, y, z)))


def vabsdiff4(e: Emitter, i: Instruction) -> None:
    """Differences of four bytes: packed, or with `.ACC` summed up onto c."""
    b = e.builder
    x, y, z = (word(e, o) for o in i.operands[1:4])
    typ = ir.VectorType(I8, 4 * e.lanes)
    names = ("smin", "smax") if "S8" in i.modifiers else ("umin", "umax")
    u, v = b.bitcast(x.bits, typ), b.bitcast(y.bits, typ)
    difference = b.bitcast(b.sub(e.call(names[1], u, v), e.call(names[0], u, v)), e.vector(I32))
    if "ACC" in i.modifiers:
        total = z.bits
        for k in range(4):
            total = b.add(total, field(e, difference, 8 * k, 8, False))
        e.result(i.operands[0], Value(total, e.unknown(x, y, z)))
        return
    if i.operands[3].index != RZ:
        raise e.unsupported("a third operand")
    e.result(i.operands[0], Value(difference, e.unknown(x, y)))


def field(e: Emitter, x: ir.Value, first: int, width: int, signed: bool) -> ir.Value:
    """Bits first .. first + width - 1, extended."""
    b = e.builder
    up = 32 - first - width
    moved = b.shl(x, e.constant(up)) if up else x
    return (b.ashr if signed else b.lshr)(moved, e.constant(32 - width))


def idp(e: Emitter, i: Instruction) -> None:
    """Dot products: 4A of four bytes each; 2A of two half words with the low or high bytes of b."""
    b = e.builder
    x, y, z = (word(e, o) for o in i.operands[1:4])
    kinds = [m for m in i.modifiers if m in ("S8", "U8", "S16", "U16")]
    if len(kinds) != 2:
        raise e.unsupported("its operand types")
    signs = [kind[0] == "S" for kind in kinds]
    total = z.bits
    wide = "2A" in i.modifiers
    for k in range(2 if wide else 4):
        u = field(e, x.bits, 16 * k if wide else 8 * k, 16 if wide else 8, signs[0])
        v = field(e, y.bits, 8 * k + (16 if wide and "HI" in i.modifiers else 0), 8, signs[1])
        total = b.add(total, b.mul(u, v))
    e.result(i.operands[0], Value(total, e.unknown(x, y, z)))


INTEGERS: dict[str, tuple[int, bool]] = {
    "U8": (8, False), "S8": (8, True), "U16": (16, False), "S16": (16, True), "U32": (32, False), "S32": (32, True),
    "U64": (64, False), "S64": (64, True),
}  # fmt: skip


def narrowed(e: Emitter, x: ir.Value, signed: bool, to: tuple[int, bool], saturate: bool) -> ir.Value:
    """A word saturated or cut to a narrower integer, extended again."""
    b = e.builder
    width, to_signed = to
    if not saturate:
        return field(e, x, 0, width, to_signed)
    low = -(1 << width - 1) if to_signed else 0
    high = (1 << width - 1) - 1 if to_signed else (1 << width) - 1
    if signed:
        return e.call("smin", e.call("smax", x, e.constant(low & 0xFFFFFFFF)), e.constant(high))
    return b.call(e.intrinsic(f"llvm.umin.v{e.lanes}i32", x.type, [x.type] * 2), [x, e.constant(high)])


def i2i(e: Emitter, i: Instruction) -> None:
    """d type, then source type in the modifiers; `.SAT` saturates."""
    kinds = [INTEGERS[m] for m in i.modifiers if m in INTEGERS]
    if not kinds or any(width > 32 for width, _ in kinds):
        raise e.unsupported("its types")
    x = word(e, i.operands[1])
    source = kinds[1] if len(kinds) > 1 else (32, True)
    bits = x.bits if source[0] == 32 else field(e, x.bits, 0, *source)
    if kinds[0][0] < 32:
        bits = narrowed(e, bits, source[1], kinds[0], "SAT" in i.modifiers)
    e.result(i.operands[0], Value(bits, x.unknown))


def i2ip(e: Emitter, i: Instruction) -> None:
    """Two saturated integers packed: a above b, and for bytes the low half of c above both."""
    b = e.builder
    kinds = [m for m in i.modifiers if m in INTEGERS]
    if not kinds or INTEGERS[kinds[0]][0] not in (8, 16):
        raise e.unsupported("its types")
    width, to_signed = INTEGERS[kinds[0]]
    signed = INTEGERS[kinds[1]][1] if len(kinds) > 1 else True
    x, y, *more = (word(e, o) for o in i.operands[1:4])
    parts = [b.and_(narrowed(e, v.bits, signed, (width, to_signed), "SAT" in i.modifiers), e.constant((1 << width) - 1))
             for v in (x, y)]  # fmt: skip
    bits = b.or_(b.shl(parts[0], e.constant(width)), parts[1])
    if width == 8 and more:
        bits = b.or_(bits, b.shl(more[0].bits, e.constant(16)))
    e.result(i.operands[0], Value(bits, e.unknown(x, y, *more)))
