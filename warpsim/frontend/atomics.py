# mypy: disallow-untyped-defs=False
"""Atomic operations, one lane at a time, as the hardware orders the lanes of a warp that meet on a word."""

from __future__ import annotations

import numpy as np

from warpsim.coalescing import LINES, OUT, SCRATCH, compiled
from warpsim.compilation import carray, cfunc, njit

from warpsim.frontend.context import (  # isort: skip
    ATOM_ADD, ATOM_AND, ATOM_CAS, ATOM_CAST, ATOM_DEC, ATOM_EXCH, ATOM_INC, ATOM_MAX, ATOM_MIN, ATOM_OR, ATOM_POPC_INC,
    ATOM_XOR, C_BANK_MASKS, C_LINES, C_OPS, C_OUT, C_RULES, O_ATOMIC, O_SIZE, O_TYPE, O_WIDTH, T_BF16X2, T_F16X2, T_F32,
    T_F64, T_S32, T_S64, f32, f64, i64, u32, u64,
)  # fmt: skip

_atomic_request = compiled().atomic_request


@njit
def _flushed(bits):
    """A float's bits with a denormal made zero of the same sign."""
    return bits if bits & np.uint32(0x7F800000) else bits & np.uint32(0x80000000)


@njit
def _atomic_32(action, kind, where, x, y):
    """One lane's 32-bit atomic at memory `where`; returns what was there."""
    word = u32(where)
    old = word[0]
    if kind == T_F32:
        f = f32(where)
        if action == ATOM_ADD:
            # L2 adds with denormals flushed, and gives one NaN (H200)
            word[0] = _flushed(old)
            was = f[0]
            word[0] = _flushed(x)
            f[0] = was + f[0]
            word[0] = np.uint32(0x7FFFFFFF) if f[0] != f[0] else _flushed(word[0])
            return old
        was = f[0]
        word[0] = x
        value = f[0]
        word[0] = old
        if action == ATOM_EXCH:
            word[0] = x
        elif action == ATOM_MIN:
            f[0] = min(was, value)
        elif action == ATOM_MAX:
            f[0] = max(was, value)
        return old
    if action == ATOM_ADD:
        word[0] = old + x
    elif action == ATOM_MIN:
        word[0] = np.uint32(min(np.int32(old), np.int32(x))) if kind == T_S32 else min(old, x)
    elif action == ATOM_MAX:
        word[0] = np.uint32(max(np.int32(old), np.int32(x))) if kind == T_S32 else max(old, x)
    elif action == ATOM_AND:
        word[0] = old & x
    elif action == ATOM_OR:
        word[0] = old | x
    elif action == ATOM_XOR:
        word[0] = old ^ x
    elif action == ATOM_EXCH:
        word[0] = x
    elif action == ATOM_CAS:
        if old == x:
            word[0] = y
    elif action == ATOM_CAST:  # returns whether the swap took place
        if old == x:
            word[0] = y
            return np.uint32(1)
        return np.uint32(0)
    elif action == ATOM_INC:
        word[0] = np.uint32(0) if old >= x else old + np.uint32(1)
    elif action == ATOM_DEC:
        word[0] = x if old == np.uint32(0) or old > x else old - np.uint32(1)
    elif action == ATOM_POPC_INC:
        word[0] = old + np.uint32(1)
    return old


@njit
def _atomic_64(action, kind, where, x, y):
    word = u64(where)
    old = word[0]
    if kind == T_F64:
        f = f64(where)
        was = f[0]
        word[0] = x
        value = f[0]
        word[0] = old
        if action == ATOM_ADD:
            f[0] = was + value
        elif action == ATOM_EXCH:
            word[0] = x
        return old
    if action == ATOM_ADD:
        word[0] = old + x
    elif action == ATOM_MIN:
        word[0] = np.uint64(min(np.int64(old), np.int64(x))) if kind == T_S64 else min(old, x)
    elif action == ATOM_MAX:
        word[0] = np.uint64(max(np.int64(old), np.int64(x))) if kind == T_S64 else max(old, x)
    elif action == ATOM_AND:
        word[0] = old & x
    elif action == ATOM_OR:
        word[0] = old | x
    elif action == ATOM_XOR:
        word[0] = old ^ x
    elif action == ATOM_EXCH:
        word[0] = x
    elif action == ATOM_CAS:
        if old == x:
            word[0] = y
    elif action == ATOM_CAST:
        if old == x:
            word[0] = y
            return np.uint64(1)
        return np.uint64(0)
    return old


@njit
def _half(bits):
    """The value of an IEEE half given by its 16 bits."""
    sign = -1.0 if bits & 0x8000 else 1.0
    exponent = (bits >> 10) & 31
    mantissa = bits & 1023
    if exponent == 0:
        return sign * mantissa * 2.0**-24
    if exponent == 31:
        return sign * np.inf if mantissa == 0 else np.nan
    return sign * (1024 + mantissa) * 2.0 ** (exponent - 25)


@njit
def _half_bits(value):
    """Round to the nearest half, ties to even."""
    if np.isnan(value):
        return 0x7FFF
    sign = 0x8000 if value < 0 or (value == 0 and 1.0 / value < 0 if value != 0 else False) else 0
    value = abs(value)
    if value >= 65520.0:
        return sign | 0x7C00
    if value < 2.0**-14:
        return sign | round(value * 2.0**24)
    exponent = int(np.floor(np.log2(value)))
    if 2.0**exponent > value:
        exponent -= 1
    scaled = value * 2.0 ** (10 - exponent)
    mantissa = int(np.floor(scaled))
    rest = scaled - mantissa
    if rest > 0.5 or (rest == 0.5 and mantissa & 1):
        mantissa += 1
    return sign | ((exponent + 14) << 10) + mantissa


@njit
def _atomic_packed(action, kind, where, x):
    """Two 16-bit floats added at once."""
    word = u32(where)
    old = word[0]
    result = np.int64(0)
    for h in range(2):
        a = (np.int64(old) >> (16 * h)) & 0xFFFF
        b = (np.int64(x) >> (16 * h)) & 0xFFFF
        if kind == T_F16X2:
            bits = np.int64(_half_bits(_half(a) + _half(b)))
        else:
            word[0] = np.uint32(a << 16)
            fa = f32(where)[0]
            word[0] = np.uint32(b << 16)
            fb = f32(where)[0]
            f32(where)[0] = fa + fb
            raw = np.int64(word[0])
            bits = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16) & 0xFFFF
        result |= bits << (16 * h)
    word[0] = np.uint32(result)
    return old


@njit
def _lane(op, where, data, lane, k):
    """Apply one lane's atomic; the old value replaces rows 0.. of `data`. k: 32-bit registers an operand has."""
    action, kind = op[O_ATOMIC], op[O_TYPE]
    if k == 2:
        x = np.uint64(data[lane]) | np.uint64(data[32 + lane]) << np.uint64(32)
        y = np.uint64(data[128 + lane]) | np.uint64(data[160 + lane]) << np.uint64(32)
        old = _atomic_64(action, kind, where, x, y)
        data[lane] = np.uint32(old & np.uint64(0xFFFFFFFF))
        data[32 + lane] = np.uint32(old >> np.uint64(32))
    elif kind in (T_F16X2, T_BF16X2):
        data[lane] = _atomic_packed(action, kind, where, data[lane])
    else:
        data[lane] = _atomic_32(action, kind, where, data[lane], data[128 + lane])


@cfunc("int64(int64, int64, int64, int64, int64)")
def atomic(context, number, where, data, lane):
    """Apply one lane's atomic of access `number`; the old value replaces rows 0.. of the registers at `data`."""
    op = i64(i64(context)[C_OPS] + number * O_SIZE * 8)
    _lane(op, where, carray(data, 256, np.uint32), lane, max(op[O_WIDTH] // 4, 1))
    return 0


@cfunc("int64(int64, int64, int64, int64, int64)")
def atomic_rule(context, number, addresses, active, turns):
    """Coalesce an atomic or reduction; returns its lines, the rest is in the table at C_OUT."""
    c = i64(context)
    width = i64(c[C_OPS] + number * O_SIZE * 8)[O_WIDTH]
    lines = carray(c[C_LINES], LINES, np.uint64)
    masks = carray(c[C_BANK_MASKS], 2, np.int64)
    out = carray(c[C_OUT], OUT, np.int64)
    scratch = carray(c[C_RULES], SCRATCH, np.int64)
    return _atomic_request(carray(addresses, 64, np.int64), active, width, masks, lines, out, scratch, turns)
