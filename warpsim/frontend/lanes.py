"""Rules of special registers, constant loads, moves between register files, shuffles, votes and warp reductions.

`SPECIAL` says where the special registers lie in the `special` table of a warp's state (i32 words):

- ``lane``: 32 words from the offset on, one a lane
- ``warp``: one word
- ``unknown``: no value can be given (clocks, timers, the SM's number); reading makes the result unknown

SR_LANEID and the lane masks (SR_LTMASK, SR_EQMASK ...) are constants of the lane and SRZ is zero: they need no table.
SR_VIRTID has the warp's number in bits 8-14 and SR_VIRTCFG the most warps in bits 8-15: made of SR_WARPID and
SR_NWARPID.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warpsim.frontend.emitter import F32, I1, I32, I64, LANES, Emitter, SplatConstant, Value
from warpsim.frontend.integer import is_predicate
from warpsim.frontend.program import Instruction, Operand
from warpsim.frontend.special import SPECIAL

__all__ = ["special"]

_MASKS: dict[str, Callable[[int], int]] = {
    "SR_LANEID": lambda lane: lane,
    "SR_EQMASK": lambda lane: 1 << lane,
    "SR_LTMASK": lambda lane: (1 << lane) - 1,
    "SR_LEMASK": lambda lane: (2 << lane) - 1,
    "SR_GTMASK": lambda lane: 0xFFFFFFFF & ~((2 << lane) - 1),
    "SR_GEMASK": lambda lane: 0xFFFFFFFF & ~((1 << lane) - 1),
}
_SHIFTED = {"SR_VIRTID": "SR_WARPID", "SR_VIRTCFG": "SR_NWARPID"}
ALL = 0xFFFFFFFF


def special(e: Emitter, name: str) -> Value:
    """The value of a special register at the current width (uniform reads of a per-lane one take lane 0)."""
    b = e.builder
    if name == "SRZ":
        return Value(e.constant(0), flushed=True)
    if name in _MASKS:
        bits: ir.Value = ir.Constant(ir.VectorType(I32, LANES), [_MASKS[name](lane) for lane in range(LANES)])
        return Value(bits if e.lanes == LANES else e.splat_lane(bits))
    if name in _SHIFTED:
        number = special(e, _SHIFTED[name])
        return Value(b.shl(number.bits, e.constant(8)))
    kind, offset = SPECIAL.get(name, ("", 0))
    if kind == "unknown":
        every = e.constant(1, I1)
        if e.instruction is not None:
            e.note_unknown(e.instruction, every)
        return Value(e.constant(0), every)
    if kind == "":
        raise e.unsupported(f"special register {name}")
    address = b.gep(e.state.special, [I64(offset)], source_etype=I32)
    if kind == "warp":
        return Value(e.splat(b.load(address, align=4, typ=I32)))
    bits = b.load(address, align=64 if offset % 16 == 0 else 4, typ=ir.VectorType(I32, LANES))
    return Value(bits if e.lanes == LANES else e.splat_lane(bits))


def s2r(e: Emitter, i: Instruction) -> None:
    e.result(i.operands[0], e.source(i.operands[1]))


def cs2r(e: Emitter, i: Instruction) -> None:
    """A register pair, or one register with `.32`; the second of a clock or timer is its high word."""
    d, operand = i.operands[:2]
    value = e.source(operand)
    if "32" in i.modifiers:
        e.result(d, value)
        return
    e.result64(d, Value(e.builder.zext(value.bits, e.vector(I64)), value.unknown))


def ldc(e: Emitter, i: Instruction) -> None:
    """Load 1, 2 or 4 registers, or a byte or half word, from a constant bank."""
    d, operand = i.operands[:2]
    b = e.builder
    assert d.index is not None
    modifiers = i.modifiers
    for name, size, signed in (("U8", 1, False), ("S8", 1, True), ("U16", 2, False), ("S16", 2, True)):
        if name in modifiers:
            narrow = e.load_constant(operand, size)
            bits = (b.sext if signed else b.zext)(narrow.bits, e.vector(I32))
            e.result(d, Value(bits, narrow.unknown))
            return
    words = 4 if "128" in modifiers else 2 if "64" in modifiers else 1
    values = [e.load_constant(moved(operand, 4 * k), 4) for k in range(words)]
    for k, value in enumerate(values):
        e.result(register(d, k), value)


def moved(operand: Operand, offset: int) -> Operand:
    """The same constant operand further on."""
    if offset == 0:
        return operand
    return Operand(
        operand.kind,
        operand.index,
        operand.value + offset,
        operand.bank,
        operand.uindex,
        operand.scale,
        operand.width64,
    )


def register(operand: Operand, k: int) -> Operand:
    """The register k after this one (RZ stays RZ)."""
    assert operand.index is not None
    return operand if k == 0 or operand.index == 255 else Operand(operand.kind, operand.index + k)


def first_active(e: Emitter) -> ir.Value:
    """The index of the first executing lane, 0 when there is none (i32)."""
    b = e.builder
    mask = e.lane_word(executing(e))
    lowest = b.call(e.intrinsic("llvm.cttz.i32", I32, [I32, I1]), [mask, I1(0)])
    return b.and_(lowest, I32(LANES - 1))


def executing(e: Emitter) -> ir.Value:
    """<32 x i1>: lanes that execute the current instruction; a uniform guard holds them all back."""
    return e.constant(1, I1, LANES) if e.mask is None and e.full else e.active if e.mask is None else e.mask


def r2ur(e: Emitter, i: Instruction) -> None:
    """The first active lane's value in a uniform register; a predicate result says that other lanes have others."""
    b = e.builder
    operands = [o for o in i.operands if not is_predicate(o)]
    lane = first_active(e)
    value = e.source(operands[1])
    if is_predicate(i.operands[0]):
        active = executing(e)
        other = b.icmp_unsigned("!=", value.bits, e.splat(b.extract_element(value.bits, lane)))
        hidden = None if value.unknown is None else e.splat(e.any_lane(b.and_(value.unknown, active)))
        e.result(i.operands[0], Value(e.splat(e.any_lane(b.and_(other, active))), hidden))
    bits = e.splat(b.extract_element(value.bits, lane), 1)
    unknown = None if value.unknown is None else e.splat(b.extract_element(value.unknown, lane), 1)
    e.write_uniform(index(operands[0]), Value(bits, unknown), uniform_mask(e, i))


def lepc(e: Emitter, i: Instruction) -> None:
    """The byte offset of a place in the code, for a call to return to."""
    place = next((o.value for o in i.operands if o.kind == "label"), i.index)
    e.result64(i.operands[0], Value(e.constant(16 * place, I64)))


def index(operand: Operand) -> int:
    assert operand.index is not None
    return operand.index


def uniform_mask(e: Emitter, i: Instruction) -> ir.Value | None:
    """<1 x i1>: whether a vector instruction with a uniform result executes at all."""
    if i.guard is None:
        return None
    return e.splat(e.any_lane(e.guard_mask(i)), 1)


def s2ur(e: Emitter, i: Instruction) -> None:
    e.enter(i, 1)
    e.result(i.operands[0], e.source(i.operands[1]))


def shfl(e: Emitter, i: Instruction) -> None:
    """d = a of another lane, p = source in range; c holds the clamp (bits 0-4) and the segment mask (bits 8-12).

    The value of a lane that does not execute is undefined on the GPU; here it is what that register holds.
    """
    b = e.builder
    operands = list(i.operands)
    out = operands.pop(0) if is_predicate(operands[0]) else None
    d, a, lane_operand, limits = operands[:4]
    mode = next((m for m in i.modifiers if m in ("IDX", "UP", "DOWN", "BFLY")), None)
    if mode is None:
        raise e.unsupported("its mode")
    x, amount, c = e.source(a), e.source(lane_operand), e.source(limits)
    lane = special(e, "SR_LANEID").bits
    clamp = b.and_(c.bits, e.constant(31))
    segment = b.and_(b.lshr(c.bits, e.constant(8)), e.constant(31))
    inverse = b.xor(segment, e.constant(31))
    distance = b.and_(amount.bits, e.constant(31))
    lowest = b.and_(lane, segment)
    highest = b.or_(lowest, b.and_(clamp, inverse))
    if mode == "UP":
        source = b.sub(lane, distance)
        in_range = b.icmp_signed(">=", source, highest)
    elif mode == "DOWN":
        source = b.add(lane, distance)
        in_range = b.icmp_signed("<=", source, highest)
    elif mode == "BFLY":
        source = b.xor(lane, distance)
        in_range = b.icmp_signed("<=", source, highest)
    else:
        source = b.or_(lowest, b.and_(distance, inverse))
        in_range = b.icmp_signed("<=", source, highest)
    source = b.and_(b.select(in_range, source, lane), e.constant(31))
    bits = permute(e, x.bits, source)
    steering = e.unknown(amount, c)
    unknown = None if x.unknown is None else permute_mask(e, x.unknown, source)
    value = Value(bits, unknown, x.flushed)
    if steering is not None:
        value = Value(bits, e.unknown(value, Value(bits, steering)))
    e.result(d, value)
    if out is not None:
        e.result(out, Value(in_range, steering))


def permute(e: Emitter, words: ir.Value, source: ir.Value) -> ir.Value:
    """words[source] of <32 x i32>, through memory: a gather from the stack."""
    b = e.builder
    slot = stack_slot(e)
    b.store(words, slot, align=64)
    addresses = b.gep(e.splat(slot), [b.zext(source, e.vector(I64))], source_etype=I32)
    gather = e.intrinsic(
        f"llvm.masked.gather.v{LANES}i32.v{LANES}p0",
        words.type,
        [addresses.type, I32, e.vector(I1), words.type],
    )
    return b.call(gather, [addresses, I32(4), e.constant(1, I1), e.constant(0)])


def permute_mask(e: Emitter, lanes: ir.Value, source: ir.Value) -> ir.Value:
    """lanes[source] of <32 x i1>."""
    b = e.builder
    word = e.splat(e.lane_word(lanes))
    return b.trunc(b.lshr(word, source), e.vector(I1))


def stack_slot(e: Emitter) -> ir.Value:
    """128 aligned bytes on the stack of the function, made once in its entry block."""
    function = e.builder.function
    for instruction in function.entry_basic_block.instructions:
        if instruction.name == "shuffle_slot":
            return instruction
    with e.builder.goto_entry_block():
        slot = e.builder.alloca(ir.VectorType(I32, LANES), name="shuffle_slot")
    slot.align = 128
    return slot


def vote(e: Emitter, i: Instruction) -> None:
    """VOTE / VOTEU: ballot in the register and all, any or equal in the predicate, over executing lanes."""
    b = e.builder
    operands = list(i.operands)
    register_out = operands.pop(0) if not is_predicate(operands[0]) else None
    predicate_out = operands.pop(0) if len(operands) > 1 else None
    p = e.predicate(operands[0])
    active = executing(e)
    true = b.and_(p.bits, active)
    some_unknown = None if p.unknown is None else e.any_lane(b.and_(p.unknown, active))
    if register_out is not None:
        ballot = e.lane_word(true)
        write_scalar(e, i, register_out, ballot, some_unknown)
    if predicate_out is None:
        return
    false = b.and_(active, b.not_(p.bits))
    known = None if p.unknown is None else b.not_(p.unknown)
    unknown = some_unknown
    if "ALL" in i.modifiers:
        bit = b.not_(e.any_lane(false))
        if known is not None:  # one known false decides
            unknown = b.and_(unknown, b.not_(e.any_lane(b.and_(false, known))))
    elif "EQ" in i.modifiers:
        bit = b.or_(b.not_(e.any_lane(true)), b.not_(e.any_lane(false)))
    else:
        bit = e.any_lane(true)
        if known is not None:  # one known true decides
            unknown = b.and_(unknown, b.not_(e.any_lane(b.and_(true, known))))
    write_scalar(e, i, predicate_out, bit, unknown)


def write_scalar(e: Emitter, i: Instruction, d: Operand, scalar: ir.Value, unknown: ir.Value | None) -> None:
    """A warp-wide result in a vector register or predicate (executing lanes), or a uniform one."""
    lanes = 1 if d.kind in ("ureg", "upred") else LANES
    value = Value(e.splat(scalar, lanes), None if unknown is None else e.splat(unknown, lanes))
    if lanes == LANES:
        e.result(d, value)
    elif d.kind == "ureg":
        e.write_uniform(index(d), value, uniform_mask(e, i))
    else:
        e.write_predicate(d, value, uniform_mask(e, i))


def match(e: Emitter, i: Instruction) -> None:
    """MATCH.ANY: lanes with the same value; MATCH.ALL: the executing lanes if they agree, else none; a predicate."""
    b = e.builder
    operands = list(i.operands)
    out = operands.pop(0) if is_predicate(operands[0]) else None
    d, a = operands[:2]
    x = e.source64(a) if "U64" in i.modifiers else e.source(a)
    active = executing(e)
    unknown = None if x.unknown is None else e.any_lane(b.and_(x.unknown, active))
    if "ALL" in i.modifiers:
        first = e.splat(b.extract_element(x.bits, first_active(e)))
        agree = b.not_(e.any_lane(b.and_(active, b.icmp_unsigned("!=", x.bits, first))))
        write_scalar(e, i, d, b.select(agree, e.lane_word(active), I32(0)), unknown)
        if out is not None:
            write_scalar(e, i, out, agree, unknown)
        return
    bits: ir.Value = e.constant(0)
    for lane in range(LANES):
        same = b.icmp_unsigned("==", x.bits, e.splat(b.extract_element(x.bits, I32(lane))))
        there = b.extract_element(active, I32(lane))
        same = b.and_(same, e.splat(there))
        bits = b.or_(bits, b.select(same, e.constant(1 << lane), e.constant(0)))
    e.result(d, Value(bits, None if unknown is None else e.splat(unknown)))


def redux(e: Emitter, i: Instruction) -> None:
    """A reduction over the executing lanes into a uniform register (REDUX, CREDUX) or a vector one."""
    b = e.builder
    d, a = [o for o in i.operands if not is_predicate(o)][:2]
    x = e.source(a)
    active = executing(e)
    signed = "S32" in i.modifiers
    names = {
        "AND": ("and", ALL), "OR": ("or", 0), "XOR": ("xor", 0), "SUM": ("add", 0),
        "MIN": ("smin", 0x7FFFFFFF) if signed else ("umin", ALL),
        "MAX": ("smax", 0x80000000) if signed else ("umax", 0),
    }  # fmt: skip
    name, neutral = next((names[m] for m in i.modifiers if m in names), names["AND"])
    if "F32" in i.modifiers:
        if not {"MIN", "MAX"} & set(i.modifiers):
            raise e.unsupported("its operation")
        redux_float(e, i, d, x, active)
        return
    masked = b.select(active, x.bits, e.constant(neutral))
    function = e.intrinsic(f"llvm.vector.reduce.{name}.v{LANES}i32", I32, [masked.type])
    unknown = None if x.unknown is None else e.any_lane(b.and_(x.unknown, active))
    write_scalar(e, i, d, b.call(function, [masked]), unknown)


def redux_float(e: Emitter, i: Instruction, d: Operand, x: Value, active: ir.Value) -> None:
    """CREDUX.F32: minimum or maximum, NaNs ignored unless all are."""
    b = e.builder
    smallest = "MIN" in i.modifiers
    bits = b.and_(x.bits, e.constant(0x7FFFFFFF)) if "ABS" in i.modifiers else x.bits
    neutral = e.constant(0x7FFFFFFF)  # NaN
    masked = b.bitcast(b.select(active, bits, neutral), e.vector(F32))
    name = f"llvm.vector.reduce.{'fmin' if smallest else 'fmax'}.v{LANES}f32"
    result = b.bitcast(b.call(e.intrinsic(name, F32, [masked.type]), [masked]), I32)
    unknown = None if x.unknown is None else e.any_lane(b.and_(x.unknown, active))
    write_scalar(e, i, d, result, unknown)


def elect(e: Emitter, i: Instruction) -> None:
    """p = this is the first executing lane; a uniform register gets its number."""
    b = e.builder
    lane = first_active(e)
    for d in i.operands:
        if d.kind == "pred":
            e.result(d, Value(b.icmp_unsigned("==", special(e, "SR_LANEID").bits, e.splat(lane))))
        elif d.kind == "ureg":
            write_scalar(e, i, d, lane, None)


def p2r(e: Emitter, i: Instruction) -> None:
    """Predicates packed into the bits of the mask operand; other bits come from the register."""
    b = e.builder
    d, _, a, mask_operand = i.operands[:4]
    kind = "upred" if e.lanes == 1 else "pred"
    shift = byte_shift(d, a)
    old, mask = e.source(a), e.source(mask_operand)
    bits: ir.Value = e.constant(0)
    unknown = e.unknown(old, mask)
    selected = mask.bits.value if isinstance(mask.bits, SplatConstant) else 0x7F
    for k in range(7):
        if selected >> k & 1:
            p = e.predicate(Operand(kind, k))
            bits = b.or_(bits, b.select(p.bits, e.constant(1 << k), e.constant(0)))
            unknown = e.unknown(Value(bits, unknown), p)
    keep = b.shl(mask.bits, e.constant(shift)) if shift else mask.bits
    bits = b.shl(bits, e.constant(shift)) if shift else bits
    e.result(d, Value(b.or_(b.and_(old.bits, b.not_(keep)), b.and_(bits, keep)), unknown))


def byte_shift(*operands: Operand) -> int:
    """8 k for a register printed with `.Bk`."""
    for operand in operands:
        for name in operand.modifiers:
            if len(name) == 2 and name[0] == "B" and name[1].isdigit():
                return 8 * int(name[1])
    return 0


def r2p(e: Emitter, i: Instruction) -> None:
    """Predicates of the mask operand from bits of a register."""
    b = e.builder
    a, mask_operand = [o for o in i.operands if o.kind != "predset"][:2]
    x, mask = e.source(a), e.source(mask_operand)
    if not isinstance(mask.bits, SplatConstant):
        raise e.unsupported("a mask that is no immediate")
    kind = "upred" if e.lanes == 1 else "pred"
    shift = byte_shift(a)
    for k in range(7):
        if mask.bits.value >> k & 1:
            bit = b.icmp_unsigned("!=", b.and_(x.bits, e.constant(1 << k + shift)), e.constant(0))
            e.result(Operand(kind, k), Value(bit, x.unknown))


def qspc(e: Emitter, i: Instruction) -> None:
    """p: the generic address lies in shared (`.S`), local (`.L`) or global (`.G`) memory, told by its high word."""
    b = e.builder
    p, d, address = i.operands[:3]
    if address.kind != "addr" or address.index is None or d.index != 255:
        raise e.unsupported("its operands")
    base = e.read64(address.index)
    total = b.add(base.bits, e.constant(address.value & (1 << 64) - 1, I64))
    high = b.trunc(b.lshr(total, e.constant(32, I64)), e.vector(I32))
    shared, local = (b.icmp_unsigned("==", high, special(e, name).bits) for name in ("SR_SWINHI", "SR_LWINHI"))
    if "S" in i.modifiers:
        bits = shared
    elif "L" in i.modifiers:
        bits = local
    elif "G" in i.modifiers:
        bits = b.not_(b.or_(shared, local))
    else:
        raise e.unsupported("its space")
    e.result(p, Value(bits, base.unknown))
