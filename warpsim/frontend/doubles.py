"""Rules of float64 arithmetic.

Directed rounding of a fused multiply-add judges the residue from two error terms added in float64; in rare cases of
cancelling errors its last bit may be off.
"""

from __future__ import annotations

from llvmlite import ir

from warpsim.frontend.emitter import F64, I1, I64, Emitter, Value
from warpsim.frontend.floating import compare_floats, minimum, nudge, rounding, signed, two_sum
from warpsim.frontend.integer import combine, is_predicate, set_predicates
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []


def float64(e: Emitter, operand: Operand) -> tuple[ir.Value, Value]:
    value = e.source64(operand, immediate_high=True)
    return signed(e, e.builder.bitcast(value.bits, e.vector(F64)), operand), value


def finish64(e: Emitter, i: Instruction, bits: ir.Value, *values: Value) -> None:
    e.result64(i.operands[0], Value(e.builder.bitcast(bits, e.vector(I64)), e.unknown(*values)))


def dadd(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    mode = rounding(i.modifiers)
    if mode:
        near, rest = two_sum(e, x, y)
        bits = nudge(e, mode, near, rest, rest)
    else:
        bits = e.builder.fadd(x, y)
    finish64(e, i, bits, vx, vy)


def dmul(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    bits = e.builder.fmul(x, y)
    mode = rounding(i.modifiers)
    if mode:
        rest = e.call("fma", x, y, e.builder.fneg(bits))
        bits = nudge(e, mode, bits, rest, rest)
    finish64(e, i, bits, vx, vy)


def dfma(e: Emitter, i: Instruction) -> None:
    b = e.builder
    (x, vx), (y, vy), (z, vz) = (float64(e, o) for o in i.operands[1:4])
    bits = e.call("fma", x, y, z)
    mode = rounding(i.modifiers)
    if mode:
        product = b.fmul(x, y)
        product_rest = e.call("fma", x, y, b.fneg(product))
        total, rest = two_sum(e, product, z)
        residue = b.fadd(b.fsub(total, bits), b.fadd(rest, product_rest))
        bits = nudge(e, mode, bits, residue, residue)
    finish64(e, i, bits, vx, vy, vz)


def dsetp(e: Emitter, i: Instruction) -> None:
    p, q, x, y, r = i.operands[:5]
    (u, vu), (v, vv) = float64(e, x), float64(e, y)
    if "MIN" in i.modifiers or "MAX" in i.modifiers:
        choose_first(e, i, (u, vu), (v, vv))
        return
    set_predicates(e, i, p, q, compare_floats(e, i, [(u, vu, x), (v, vv, y)]), r)


def choose_first(e: Emitter, i: Instruction, x: tuple[ir.Value, Value], y: tuple[ir.Value, Value]) -> None:
    """p: the minimum or maximum is the first operand; q: both are NaN (a NaN against a number never wins; -0 < +0)."""
    b = e.builder
    p, q, _, _, r = i.operands[:5]
    first, second = x[0], y[0]
    smaller = "MIN" in i.modifiers
    beats = b.fcmp_ordered("<" if smaller else ">", first, second)
    tie = b.fcmp_ordered("==", first, second)
    sign = b.icmp_signed("<", b.bitcast(first if smaller else second, e.vector(I64)), e.constant(0, I64))
    number, second_nan = b.fcmp_ordered("ord", first, first), b.fcmp_unordered("uno", second, second)
    wins = b.and_(number, b.or_(second_nan, b.or_(beats, b.and_(tie, sign))))
    unknown = e.unknown(x[1], y[1])
    operation = next((m for m in i.modifiers if m in ("AND", "OR", "XOR")), "AND")
    other = e.predicate(r)
    results = [combine(e, operation, Value(bits, unknown), other) for bits in (wins, b.and_(b.not_(number), second_nan))]
    e.result(p, results[0])
    e.result(q, results[1])


def dmnmx(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    predicates = [o for o in i.operands if is_predicate(o)]
    p = e.predicate(predicates[-1]) if predicates else Value(e.constant(1, I1))
    finish64(e, i, minimum(e, x, y, p.bits, "NAN" in i.modifiers), vx, vy, p)


