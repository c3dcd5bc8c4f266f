"""Rules of float64 arithmetic.

Directed rounding of a fused multiply-add judges the residue from two error terms added in float64; in rare cases of
cancelling errors its last bit may be off.
"""

from __future__ import annotations

import math

from llvmlite import ir

from warpsim.frontend.emitter import F64, I1, I64, Emitter, Value
from warpsim.frontend.floating import compare_floats, literal, minimum, nudge, rounding, signed, two_sum
from warpsim.frontend.integer import combine, is_predicate, set_predicates
from warpsim.frontend.program import Instruction, Operand

__all__: list[str] = []


def float64(e: Emitter, operand: Operand) -> tuple[ir.Value, Value]:
    value = e.source64(operand, immediate_high=True)
    return signed(e, e.builder.bitcast(value.bits, e.vector(F64)), operand), value


def finish64(e: Emitter, i: Instruction, bits: ir.Value, *values: Value) -> None:
    """Write a float64 result; a NaN operand goes through, quiet but else unchanged, the last of `values` first."""
    b = e.builder
    words = b.bitcast(bits, e.vector(I64))
    for value in values:
        number = b.bitcast(value.bits, e.vector(F64))
        quiet = b.or_(value.bits, e.constant(1 << 51, I64))
        words = b.select(b.fcmp_unordered("uno", number, number), quiet, words)
    e.result64(i.operands[0], Value(words, e.unknown(*values)))


def dadd(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    mode = rounding(i.modifiers)
    if mode:
        near, rest = two_sum(e, x, y)
        rest = overflowed(e, near, rest, x, y)
        bits = nudge(e, mode, near, rest, rest)
    else:
        bits = e.builder.fadd(x, y)
    finish64(e, i, bits, vx, vy)


def dmul(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    mode = rounding(i.modifiers)
    bits = directed_fma(e, mode, x, y, literal(e, -0.0, F64)) if mode else e.builder.fmul(x, y)
    finish64(e, i, bits, vx, vy)


def dfma(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy), (z, vz) = (float64(e, o) for o in i.operands[1:4])
    mode = rounding(i.modifiers)
    bits = directed_fma(e, mode, x, y, z) if mode else e.call("fma", x, y, z)
    finish64(e, i, bits, vx, vz, vy)


def overflowed(e: Emitter, near: ir.Value, residue: ir.Value, *inputs: ir.Value) -> ir.Value:
    """The residue of a result; one that overflowed from finite inputs is too large by any amount."""
    b = e.builder
    infinity = literal(e, math.inf, F64)
    wrong = b.fcmp_ordered("==", e.call("fabs", near), infinity)
    for x in inputs:
        wrong = b.and_(wrong, b.fcmp_ordered("<", e.call("fabs", x), infinity))
    return b.select(wrong, b.fneg(near), residue)


def directed_fma(e: Emitter, mode: str, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x*y + z rounded toward zero, down or up: the nearest result, corrected by the sign of its residue."""
    b = e.builder
    near = e.call("fma", x, y, z)
    # the residue is judged 2^400 times larger where all is small, so that no error term underflows
    product = b.fmul(x, y)
    limit = literal(e, 2.0**-200, F64)
    small = b.and_(b.fcmp_ordered("<", e.call("fabs", product), limit), b.fcmp_ordered("<", e.call("fabs", z), limit))
    up = literal(e, 2.0**400, F64)
    x_smaller = b.fcmp_ordered("<", e.call("fabs", x), e.call("fabs", y))
    one = literal(e, 1.0, F64)
    u = b.fmul(x, b.select(b.and_(small, x_smaller), up, one))
    v = b.fmul(y, b.select(b.and_(small, b.not_(x_smaller)), up, one))
    scale = b.select(small, up, one)
    w, result = b.fmul(z, scale), b.fmul(near, scale)
    product = b.fmul(u, v)
    zero = literal(e, 0.0, F64)
    vanished = b.and_(b.fcmp_ordered("==", product, zero), b.fcmp_unordered("!=", x, zero))
    vanished = b.and_(vanished, b.fcmp_unordered("!=", y, zero))
    product_rest = e.call("fma", u, v, b.fneg(product))
    product = b.select(vanished, e.call("copysign", literal(e, 2.0**-1074, F64), product), product)
    total, rest = two_sum(e, product, w)
    residue = b.fadd(b.fsub(total, result), b.fadd(rest, product_rest))
    residue = overflowed(e, near, residue, x, y, z)
    return nudge(e, mode, near, residue, residue)


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
    results = [
        combine(e, operation, Value(bits, unknown), other) for bits in (wins, b.and_(b.not_(number), second_nan))
    ]
    e.result(p, results[0])
    e.result(q, results[1])


def dmnmx(e: Emitter, i: Instruction) -> None:
    (x, vx), (y, vy) = (float64(e, o) for o in i.operands[1:3])
    predicates = [o for o in i.operands if is_predicate(o)]
    p = e.predicate(predicates[-1]) if predicates else Value(e.constant(1, I1))
    bits = e.builder.bitcast(minimum(e, x, y, p.bits, "NAN" in i.modifiers), e.vector(I64))
    e.result64(i.operands[0], Value(bits, e.unknown(vx, vy, p)))
