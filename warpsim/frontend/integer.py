"""Rules of integer, logic, shift, select and move instructions.

Signs: `-x` is two's complement, `~x` the complement (that is how `.X` forms print a negation). Carries count how often
the sum of zero-extended 32-bit terms passes 2^32; the `~x + 1` of a negated zero does.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from warpsim.frontend.emitter import I1, I16, I32, I64, Emitter, SplatConstant, Value
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []

SENTINEL = 1 << 20  # an unknown integer is taken to differ from a constant at least this large


def word(e: Emitter, operand: Operand) -> Value:
    """An integer operand with its sign or complement; `.H0` / `.H1`, `.B0` .. are not applied."""
    value = e.source(operand)
    if operand.kind == "imm":
        return value
    b = e.builder
    if operand.absolute:
        zero = e.constant(0)
        negative = b.icmp_signed("<", value.bits, zero)
        value = Value(b.select(negative, b.sub(zero, value.bits), value.bits), value.unknown)
    if operand.negate:
        value = Value(b.sub(e.constant(0), value.bits), value.unknown)
    elif operand.invert:
        value = Value(b.not_(value.bits), value.unknown)
    return value


def is_zero(value: Value) -> bool:
    return isinstance(value.bits, SplatConstant) and value.bits.value == 0


def add(e: Emitter, *values: Value) -> Value:
    """A sum without carries; zeros cost nothing."""
    terms = [v for v in values if not is_zero(v)]
    if not terms:
        return Value(e.constant(0, values[0].bits.type.element))
    bits = terms[0].bits
    for term in terms[1:]:
        bits = e.builder.add(bits, term.bits)
    return Value(bits, e.unknown(*terms))


def multiply(e: Emitter, x: Value, y: Value) -> Value:
    if is_zero(x) or is_zero(y):
        return Value(e.constant(0, x.bits.type.element))
    return Value(e.builder.mul(x.bits, y.bits), e.unknown(x, y))


def widened(e: Emitter, value: Value, signed: bool) -> Value:
    wide = e.vector(I64)
    if isinstance(value.bits, SplatConstant):
        v = value.bits.value
        return Value(e.constant((v | ~0xFFFFFFFF) & (1 << 64) - 1 if signed and v >> 31 else v, I64))
    return Value(e.builder.sext(value.bits, wide) if signed else e.builder.zext(value.bits, wide), value.unknown)


def carry_bit(e: Emitter, operand: Operand | None, element: ir.IntType = I32) -> Value:
    """A carry-in predicate as 0 or 1."""
    if operand is None:
        return Value(e.constant(0, element))
    p = e.predicate(operand)
    if isinstance(p.bits, SplatConstant):
        return Value(e.constant(p.bits.value, element))
    return Value(e.builder.zext(p.bits, e.vector(element)), p.unknown)


def is_predicate(operand: Operand) -> bool:
    return operand.kind in ("pred", "upred")


def split(operands: Sequence[Operand]) -> tuple[list[Operand], list[Operand]]:
    """Leading predicates (carry-outs) and the rest."""
    k = 0
    while k < len(operands) and is_predicate(operands[k]):
        k += 1
    return list(operands[:k]), list(operands[k:])


def wanted(predicates: Sequence[Operand]) -> bool:
    return any(p.index != 7 for p in predicates)


def write_carries(e: Emitter, outs: Sequence[Operand], carries: Sequence[ir.Value], unknown: ir.Value | None) -> None:
    """First predicate: carry of at least 1; second: at least 2."""
    b = e.builder
    none = e.constant(0, I1)
    once: ir.Value = none
    twice: ir.Value = none
    for carry in carries:
        twice = b.or_(twice, b.and_(once, carry))
        once = b.or_(once, carry)
    for out, bits in zip(outs, (once, twice), strict=False):
        e.result(out, Value(bits, unknown))


def sum_with_carries(e: Emitter, terms: Sequence[Operand], carry_in: Sequence[Operand]) -> tuple[Value, list[ir.Value]]:
    b = e.builder
    zero = e.constant(0)
    values, carries = [], []
    for operand in terms:
        value = word(e, operand)
        if operand.negate and operand.kind != "imm":
            carries.append(b.icmp_unsigned("==", value.bits, zero))
        values.append(value)
    values += [carry_bit(e, p) for p in carry_in]
    values = [v for v in values if not is_zero(v)] or [Value(zero)]
    total = values[0].bits
    for value in values[1:]:
        total = b.add(total, value.bits)
        carries.append(b.icmp_unsigned("<", total, value.bits))
    return Value(total, e.unknown(*values)), carries


def iadd3(e: Emitter, i: Instruction) -> None:
    outs, sources = split(i.operands[1:])
    carry_in = [p for p in sources if is_predicate(p)]
    terms = [s for s in sources if not is_predicate(s)]
    if wanted(outs):
        total, carries = sum_with_carries(e, terms, carry_in)
    else:
        total, carries = add(e, *(word(e, t) for t in terms), *(carry_bit(e, p) for p in carry_in)), []
    e.result(i.operands[0], total)
    if wanted(outs):
        write_carries(e, outs, carries, total.unknown)


def imad(e: Emitter, i: Instruction) -> None:
    modifiers = i.modifiers
    signed = "U32" not in modifiers
    outs, sources = split(i.operands[1:])
    carry_in = [p for p in sources if is_predicate(p)]
    x, y, z = [s for s in sources if not is_predicate(s)][:3]
    if "WIDE" not in modifiers and "HI" not in modifiers:
        product = multiply(e, word(e, x), word(e, y))
        e.result(i.operands[0], add(e, product, word(e, z), *(carry_bit(e, p) for p in carry_in)))
        return
    product = multiply(e, widened(e, word(e, x), signed), widened(e, word(e, y), signed))
    addend = signed64(e, z)
    carry = [carry_bit(e, p, I64) for p in carry_in]
    total = add(e, product, addend, *carry)
    if "HI" in modifiers:
        high = e.builder.lshr(total.bits, e.constant(32, I64))
        e.result(i.operands[0], Value(e.builder.trunc(high, e.vector(I32)), total.unknown))
    else:
        e.result64(i.operands[0], total)
    if wanted(outs):
        carries = [e.builder.icmp_unsigned("<", total.bits, addend.bits)]
        if carry_in:
            without = add(e, product, addend)
            carries = [e.builder.icmp_unsigned("<", without.bits, addend.bits)]
            carries.append(e.builder.icmp_unsigned("<", total.bits, without.bits))
        write_carries(e, outs, carries, total.unknown)


def signed64(e: Emitter, operand: Operand) -> Value:
    """A 64-bit integer operand with its sign or complement."""
    value = e.source64(operand)
    if operand.negate:
        return Value(e.builder.sub(e.constant(0, I64), value.bits), value.unknown)
    if operand.invert:
        return Value(e.builder.not_(value.bits), value.unknown)
    return value


def imul(e: Emitter, i: Instruction) -> None:
    signed = "U32" not in i.modifiers
    x, y = (word(e, s) for s in i.operands[1:3])
    if "WIDE" in i.modifiers or "HI" in i.modifiers:
        product = multiply(e, widened(e, x, signed), widened(e, y, signed))
        if "WIDE" in i.modifiers:
            e.result64(i.operands[0], product)
        else:
            bits = e.builder.trunc(e.builder.lshr(product.bits, e.constant(32, I64)), e.vector(I32))
            e.result(i.operands[0], Value(bits, product.unknown))
    else:
        e.result(i.operands[0], multiply(e, x, y))


def shift_left(e: Emitter, x: Value, amount: int) -> Value:
    if amount == 0 or is_zero(x):
        return x
    return Value(e.builder.shl(x.bits, e.constant(amount, x.bits.type.element)), x.unknown)


def lea(e: Emitter, i: Instruction) -> None:
    b = e.builder
    outs, sources = split(i.operands[1:])
    carry_in = [p for p in sources if is_predicate(p)]
    terms = [s for s in sources if not is_predicate(s)]
    amount = terms[-1].value & 31
    x_operand, y_operand = terms[0], terms[1]
    x = word(e, x_operand)
    if "HI" in i.modifiers:
        if "SX32" in i.modifiers:
            high = Value(b.ashr(x.bits, e.constant(31)), x.unknown)
        else:
            high = word(e, terms[2])
        if amount:
            bits = b.or_(b.shl(high.bits, e.constant(amount)), b.lshr(x.bits, e.constant(32 - amount)))
            x = Value(bits, e.unknown(x, high))
        else:
            x = high
    else:
        x = shift_left(e, x, amount)
    y = word(e, y_operand)
    total = add(e, x, y, *(carry_bit(e, p) for p in carry_in))
    e.result(i.operands[0], total)
    if wanted(outs):
        carries = []
        if y_operand.negate and y_operand.kind != "imm":
            carries.append(b.icmp_unsigned("==", y.bits, e.constant(0)))
        partial = b.add(x.bits, y.bits)
        carries.append(b.icmp_unsigned("<", partial, y.bits))
        if carry_in:
            carries.append(b.icmp_unsigned("<", total.bits, partial))
        write_carries(e, outs, carries, total.unknown)


def iscadd(e: Emitter, i: Instruction) -> None:
    x = shift_left(e, word(e, i.operands[1]), i.operands[3].value & 31)
    e.result(i.operands[0], add(e, x, word(e, i.operands[2])))


def shift_amount(e: Emitter, operand: Operand) -> tuple[Value, int | None]:
    value = e.source(operand)
    return value, value.bits.value if isinstance(value.bits, SplatConstant) else None


def bounded_shift(e: Emitter, kind: str, x: ir.Value, amount: ir.Value, constant: int | None) -> ir.Value:
    """shl, lshr or ashr of 32-bit words by any unsigned amount: 32 and more shift everything out."""
    b = e.builder
    if constant is not None:
        if constant == 0:
            return x
        if constant > 31:
            return b.ashr(x, e.constant(31)) if kind == "ashr" else e.constant(0)
        return getattr(b, kind)(x, e.constant(constant))
    large = b.icmp_unsigned(">", amount, e.constant(31))
    if kind == "ashr":
        return b.ashr(x, b.select(large, e.constant(31), amount))
    return b.select(large, e.constant(0), getattr(b, kind)(x, amount))


def shf(e: Emitter, i: Instruction) -> None:
    """The low or high word of the pair {c:a} shifted; amounts clamp at 32 (or 64) unless `.W` wraps them."""
    b = e.builder
    modifiers = i.modifiers
    low, high = word(e, i.operands[1]), word(e, i.operands[3])
    shift, constant = shift_amount(e, i.operands[2])
    wide = "U64" in modifiers or "S64" in modifiers
    signed = "S32" in modifiers or "S64" in modifiers
    take_high = "HI" in modifiers
    amount = shift.bits
    if "W" in modifiers:
        limit = 63 if wide else 31
        constant = None if constant is None else constant & limit
        amount = b.and_(amount, e.constant(limit))
    right = "ashr" if signed else "lshr"
    if "L" in modifiers and not take_high:
        e.result(i.operands[0], Value(bounded_shift(e, "shl", low.bits, amount, constant), e.unknown(low, shift)))
        return
    if "R" in modifiers and take_high:
        e.result(i.operands[0], Value(bounded_shift(e, right, high.bits, amount, constant), e.unknown(high, shift)))
        return
    # a funnel shift; beyond 31 only the other word is left
    name = "fshl" if "L" in modifiers else "fshr"
    far, kind = (low.bits, "shl") if "L" in modifiers else (high.bits, right)
    if constant is not None and constant < 32:
        bits = e.call(name, high.bits, low.bits, e.constant(constant))
    elif constant is not None:
        bits = bounded_shift(e, kind, far, amount, constant - 32 if wide else 0)
    else:
        bits = e.call(name, high.bits, low.bits, amount)
        if "W" not in modifiers or wide:
            beyond = bounded_shift(e, kind, far, b.sub(amount, e.constant(32)), None) if wide else far
            bits = b.select(b.icmp_unsigned(">", amount, e.constant(31)), beyond, bits)
    e.result(i.operands[0], Value(bits, e.unknown(low, high, shift)))


def shl(e: Emitter, i: Instruction) -> None:
    x, (shift, constant) = word(e, i.operands[1]), shift_amount(e, i.operands[2])
    e.result(i.operands[0], Value(bounded_shift(e, "shl", x.bits, shift.bits, constant), e.unknown(x, shift)))


def shr(e: Emitter, i: Instruction) -> None:
    x, (shift, constant) = word(e, i.operands[1]), shift_amount(e, i.operands[2])
    kind = "lshr" if "U32" in i.modifiers else "ashr"
    e.result(i.operands[0], Value(bounded_shift(e, kind, x.bits, shift.bits, constant), e.unknown(x, shift)))


def ignores(lut: int, position: int) -> bool:
    """Whether a three-input table does not depend on the input of that weight (4, 2 or 1)."""
    return all((lut >> k & 1) == (lut >> (k ^ position) & 1) for k in range(8))


def lookup(e: Emitter, lut: int, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """The bitwise function with truth table `lut` (index x<<2 | y<<1 | z)."""
    b = e.builder
    element = z.type.element
    ones = e.constant((1 << element.width) - 1, element)

    def two(table: int, u: ir.Value, v: ir.Value) -> ir.Value:
        high, low = one(table >> 2, v), one(table & 3, v)
        return mux(u, high, low, table >> 2, table & 3, 3)

    def one(table: int, v: ir.Value) -> ir.Value:
        if table == 1:
            return b.not_(v)
        return (e.constant(0, element), v, ones)[(table + 1) // 2]

    def mux(s: ir.Value, high: ir.Value, low: ir.Value, th: int, tl: int, full: int) -> ir.Value:
        if th == tl:
            return high
        if th == full and tl == 0:
            return s
        if th == 0 and tl == full:
            return b.not_(s)
        if tl == 0:
            return b.and_(s, high)
        if th == 0:
            return b.and_(b.not_(s), low)
        if th == full:
            return b.or_(s, low)
        if tl == full:
            return b.or_(b.not_(s), high)
        if th == tl ^ full:
            return b.xor(s, low)
        return b.or_(b.and_(s, high), b.and_(b.not_(s), low))

    return mux(x, two(lut >> 4, y, z), two(lut & 15, y, z), lut >> 4, lut & 15, 15)


def lop3(e: Emitter, i: Instruction) -> None:
    """d = table(a, b, c); the predicate is (d != 0) or (with .PAND: and) q."""
    operands = list(i.operands)
    out = operands.pop(0) if is_predicate(operands[0]) else None
    inputs = [word(e, o) for o in operands[1:4]]
    lut = operands[4].value & 0xFF
    used = [v for v, weight in zip(inputs, (4, 2, 1), strict=True) if not ignores(lut, weight)]
    value = Value(lookup(e, lut, *(v.bits for v in inputs)), e.unknown(*used))
    e.result(operands[0], value)
    if out is not None and out.index != 7:
        b = e.builder
        set_ = Value(b.icmp_unsigned("!=", value.bits, e.constant(0)), value.unknown)
        q = e.predicate(operands[5]) if len(operands) > 5 else Value(e.constant(0, I1))
        e.result(out, combine(e, "AND" if "PAND" in i.modifiers else "OR", set_, q))


def lop(e: Emitter, i: Instruction) -> None:
    x, y = word(e, i.operands[1]), word(e, i.operands[2])
    b = e.builder
    for name, make in (("AND", b.and_), ("OR", b.or_), ("XOR", b.xor)):
        if name in i.modifiers:
            e.result(i.operands[0], Value(make(x.bits, y.bits), e.unknown(x, y)))
            return
    e.result(i.operands[0], y)  # PASS_B


def combine(e: Emitter, operation: str, p: Value, q: Value) -> Value:
    """AND, OR or XOR of predicates; a known operand that decides the result makes it known."""
    b = e.builder
    if isinstance(q.bits, SplatConstant):
        if operation == "AND":
            return p if q.bits.value else Value(e.constant(0, I1))
        if operation == "OR":
            return Value(e.constant(1, I1)) if q.bits.value else p
    if operation == "XOR":
        return Value(b.xor(p.bits, q.bits), e.unknown(p, q))
    bits = (b.and_ if operation == "AND" else b.or_)(p.bits, q.bits)
    unknown = e.unknown(p, q)
    if unknown is not None:
        for v in (p, q):
            decides = b.not_(v.bits) if operation == "AND" else v.bits
            if v.unknown is not None:
                decides = b.and_(decides, b.not_(v.unknown))
            unknown = b.and_(unknown, b.not_(decides))
    return Value(bits, unknown)


def plop3(e: Emitter, i: Instruction) -> None:
    """Two predicates from two tables over three; unknown only where an unknown input can change the result."""
    outs, inputs = i.operands[:2], [predicate_or_sign(e, o) for o in i.operands[2:5]]
    tables = [o.value & 0xFF for o in i.operands[5:7]]
    results = [lookup_predicates(e, lut, inputs) for lut in tables]
    for out, value in zip(outs, results, strict=False):
        e.result(out, value)


def predicate_or_sign(e: Emitter, operand: Operand) -> Value:
    """A predicate, or the sign bit of a register printed with `.SIGN`."""
    if is_predicate(operand):
        return e.predicate(operand)
    if "SIGN" not in operand.modifiers:
        raise e.unsupported("its operands")
    x = e.source(operand)
    bits = e.builder.icmp_signed("<", x.bits, e.constant(0))
    return Value(e.builder.not_(bits) if operand.invert else bits, x.unknown)


def lookup_predicates(e: Emitter, lut: int, inputs: Sequence[Value]) -> Value:
    b = e.builder
    x, y, z = inputs
    bits = lookup(e, lut, x.bits, y.bits, z.bits)
    used = [v for v, weight in zip(inputs, (4, 2, 1), strict=True) if not ignores(lut, weight)]
    if e.unknown(*used) is None:
        return Value(bits)
    can: list[tuple[ir.Value, ir.Value]] = []
    for v in inputs:
        false, true = b.not_(v.bits), v.bits
        can.append((false, true) if v.unknown is None else (b.or_(false, v.unknown), b.or_(true, v.unknown)))
    possible: list[ir.Value] = [e.constant(0, I1), e.constant(0, I1)]
    for k in range(8):
        term = b.and_(b.and_(can[0][k >> 2 & 1], can[1][k >> 1 & 1]), can[2][k & 1])
        possible[lut >> k & 1] = b.or_(possible[lut >> k & 1], term)
    return Value(bits, b.and_(possible[0], possible[1]))


COMPARE = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}


def compare_integers(e: Emitter, i: Instruction, x: Operand, y: Operand, low: Operand | None) -> Value:
    """The comparison that the modifiers name; with `.EX` of the high words, `low` decides where they are equal."""
    b = e.builder
    name = next((m for m in i.modifiers if m in COMPARE or m in ("F", "T")), None)
    if name is None:
        raise e.unsupported("its comparison")
    if name in ("F", "T"):
        return Value(e.constant(int(name == "T"), I1))
    u, v = word(e, x), word(e, y)
    icmp = b.icmp_unsigned if "U32" in i.modifiers else b.icmp_signed
    unknown = e.unknown(u, v)
    if low is None:
        bits = icmp(COMPARE[name], u.bits, v.bits)
        if name in ("EQ", "NE") and unknown is not None:
            bits, unknown = sentinel(e, i, name, bits, unknown, ((u, x), (v, y)))
        return ordinary(e, i, name, y, Value(bits, unknown))
    less = e.predicate(low)
    equal = b.icmp_unsigned("==", u.bits, v.bits)
    strict = {"LT": "<", "LE": "<", "GT": ">", "GE": ">", "EQ": None, "NE": "!="}[name]
    decided = b.and_(equal, less.bits)
    bits = decided if strict is None else b.or_(icmp(strict, u.bits, v.bits), decided)
    return Value(bits, e.unknown(u, v, less))


# Compares by which the compiler's own code for reciprocals, divisions, roots and sines tells extreme arguments, that
# need a slow path, from ordinary ones: (comparison, constant's bits) -> its value for ordinary arguments.
ORDINARY = {
    ("GT", 0x01FFFFFF): 1,  # 1 / x
    ("GT", 0x727FFFFF): 0,  # sqrt(x)
    ("GE", 0x7CA00000): 0,  # sqrt(double)
    ("GEU", 0x00400402): 1,  # 1 / double: 5.9e-39
    ("GEU", 0x03600000): 1,  # double / double: 6.6e-37
    ("GT", 0x00100000): 1,  # double / double: 1.5e-39
    ("GE", 0x47CE4780): 0,  # sin, cos, tan: 105615
}


def ordinary(e: Emitter, i: Instruction, name: str, constant: Operand, result: Value) -> Value:
    """Where such a compare is of an unknown value, it is taken to be an ordinary one."""
    assumed = ORDINARY.get((name, constant.value)) if constant.kind == "imm" else None
    if result.unknown is None or assumed is None:
        return result
    e.note_assumption(i, result.unknown)
    return Value(e.builder.select(result.unknown, e.constant(assumed, I1), result.bits))


def sentinel(
    e: Emitter, i: Instruction, name: str, bits: ir.Value, unknown: ir.Value, sides: Sequence[tuple[Value, Operand]]
) -> tuple[ir.Value, ir.Value]:
    """An unknown value is taken to differ from a large constant: kernels compare with such to keep values alive."""
    b = e.builder
    for value, operand in sides:
        if operand.kind not in ("imm", "const") and not isinstance(value.bits, SplatConstant):
            continue
        large = b.icmp_unsigned(
            ">=", b.add(value.bits, e.constant(SENTINEL - 1)), e.constant(2 * SENTINEL - 1)
        )  # |c| >= 2^20
        assumed = b.and_(unknown, large)
        if value.unknown is not None:
            assumed = b.and_(assumed, b.not_(value.unknown))
        if not (isinstance(value.bits, SplatConstant) and small(value.bits.value)):
            e.note_assumption(i, assumed)
        return b.select(assumed, e.constant(int(name == "NE"), I1), bits), b.and_(unknown, b.not_(assumed))
    return bits, unknown


def small(value: int) -> bool:
    return value < SENTINEL or value > (1 << 32) - SENTINEL


def isetp(e: Emitter, i: Instruction) -> None:
    p, q, x, y, r = i.operands[:5]
    low = i.operands[5] if "EX" in i.modifiers else None
    set_predicates(e, i, p, q, compare_integers(e, i, x, y, low), r)


def set_predicates(e: Emitter, i: Instruction, p: Operand, q: Operand, compared: Value, r: Operand) -> None:
    """p = compared bool r, q = !compared bool r."""
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    other = e.predicate(r)
    inverse = Value(e.builder.not_(compared.bits), compared.unknown)
    first = combine(e, operation, compared, other)
    second = combine(e, operation, inverse, other) if q.index != 7 else None
    e.result(p, first)
    if second is not None:
        e.result(q, second)


def iset(e: Emitter, i: Instruction) -> None:
    d, x, y, r = i.operands[:4]
    low = i.operands[4] if "EX" in i.modifiers else None
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    p = combine(e, operation, compare_integers(e, i, x, y, low), e.predicate(r))
    one = 0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF
    e.result(d, Value(e.builder.select(p.bits, e.constant(one), e.constant(0)), p.unknown))


def choose(e: Emitter, p: Value, x: Value, y: Value) -> Value:
    """p ? x : y; unknown where p or the chosen side is."""
    if isinstance(p.bits, SplatConstant):
        return x if p.bits.value else y
    b = e.builder
    unknown = None
    if x.unknown is not None or y.unknown is not None:
        none = e.constant(0, I1)
        unknown = b.select(p.bits, x.unknown or none, y.unknown or none)
    chosen = Value(b.select(p.bits, x.bits, y.bits), unknown, x.flushed and y.flushed)
    return chosen if p.unknown is None else Value(chosen.bits, e.unknown(chosen, p), chosen.flushed)


def sel(e: Emitter, i: Instruction) -> None:
    d, x, y, p = i.operands[:4]
    if "64" in i.modifiers:
        e.result64(d, choose(e, e.predicate(p), e.source64(x), e.source64(y)))
    else:
        e.result(d, choose(e, e.predicate(p), word(e, x), word(e, y)))


def mov(e: Emitter, i: Instruction) -> None:
    """A copy; the mask operand of MOV (byte enables) is always full."""
    if "64" in i.modifiers:
        e.result64(i.operands[0], e.source64(i.operands[1]))
    else:
        e.result(i.operands[0], e.source(i.operands[1]))


def viadd(e: Emitter, i: Instruction) -> None:
    """A sum without carry, of words or with `.16x2` of half words."""
    if not i.modifiers:
        e.result(i.operands[0], add(e, *(word(e, o) for o in i.operands[1:])))
        return
    b = e.builder
    typ = ir.VectorType(I16, 2 * e.lanes)
    values, terms = [], []
    for operand in i.operands[1:]:
        value = e.source(operand)
        half_words = b.bitcast(value.bits, typ)
        if operand.negate and operand.kind != "imm":
            half_words = b.sub(SplatConstant(typ, 0), half_words)
        values.append(value)
        terms.append(half_words)
    e.result(i.operands[0], Value(b.bitcast(b.add(*terms), e.vector(I32)), e.unknown(*values)))


def iabs(e: Emitter, i: Instruction) -> None:
    b = e.builder
    x = word(e, i.operands[1])
    zero = e.constant(0)
    e.result(i.operands[0], Value(b.select(b.icmp_signed("<", x.bits, zero), b.sub(zero, x.bits), x.bits), x.unknown))
