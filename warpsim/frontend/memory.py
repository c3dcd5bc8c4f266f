"""Memory accesses of the SIMT executor: checks, data, coalescing, traces.

The native code of a kernel (`blocks.py`) calls the functions here once a warp instruction, through their addresses. They are
numba cfuncs over plain memory: `context`, an array of 64-bit words indexed by the `C_*` constants below, says where everything lies.
A call returns 0, or 1 after writing an error record (`E_*`).
"""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from warpsim.compilation import cfunc, njit
from warpsim.coalescing import LDMATRIX_X1, LDMATRIX_X2, LDMATRIX_X4, LINES, LOAD, OUT, SCRATCH, SHARED_ATOMIC, STORE, compiled

_rules = compiled()
global_request, shared_request, atomic_request = _rules.global_request, _rules.shared_request, _rules.atomic_request

# Context words.
(
    C_ACCESS, _C_SHARED, _C_LOCAL, _C_GENERIC, _C_COPY, C_NOTES, C_VOTES, C_DIVERGE, C_CBANK, C_CBANK_SIZE, C_STATE, C_STATE_STRIDE,
    C_BLOCKS, C_BLOCKS_MASK, C_BLOCK_HEAD, C_BLOCK_TAIL, C_WORDS, C_WORDS_MASK, C_WORD_HEAD, C_WORD_TAIL,
    C_TRACE, C_EXECUTED, C_LANES, C_OPS, C_STATS, C_BUFFERS, C_BUFFER_COUNT, C_ORIGIN,
    C_SHARED_DATA, C_SHARED_STRIDE, C_SHARED_SIZE, C_SHARED_OFFSET, C_WRITTEN, C_READ, C_SHARED_UNKNOWN, C_WORD_STRIDE,
    C_LOCAL_DATA, C_LOCAL_BYTES, C_LOCAL_UNKNOWN, C_EPOCH, C_WARPS, C_BANK_MASKS, C_LINES, C_OUT,
    C_ERROR, C_BUDGET, C_LEADERS, C_SHARED_WINDOW, C_LOCAL_WINDOW, C_RACES, C_FP_LANES, C_RULES, C_WORST,
    C_IDEAL, C_SIZE,
) = range(55)  # fmt: skip

# Per-access static description, columns of the table at C_OPS.
(
    O_SPACE, O_ACTION, O_WIDTH, O_INDEX, O_OPERATION, O_ATOMIC, O_TYPE, O_SIGNED, O_BUFFER, O_REGISTERS, O_MATRIX, O_MEMO,
    O_IDEAL, O_SIZE,
) = range(14)  # fmt: skip
GLOBAL, SHARED, LOCAL, GENERIC, COPY = range(5)  # COPY: global to shared
LOADS, STORES, ATOMICS, REDUCTIONS, ASYNC, MATRIX = range(6)
ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC, ATOM_POPC_INC, ATOM_CAST = range(12)
T_U32, T_S32, T_U64, T_S64, T_F32, T_F64, T_F16X2, T_BF16X2 = range(8)

M_ACTIVE, M_KIND, M_BASE, M_WAVEFRONTS, M_GROUPS, M_OFFSETS, M_SIZE = 0, 1, 2, 3, 4, 5, 37  # of an access's last shared pattern

# Counters per instruction, columns of the table at C_STATS.
(
    S_REQUESTS, S_SECTORS, S_TAGS, S_TAG_WAVEFRONTS, S_DATA_WAVEFRONTS, S_IDEAL_SECTORS, S_THREADS, S_CONFLICTS, S_IDEAL_WAVEFRONTS,
    S_L2_REQUESTS, S_WORST, S_SIZE,
) = range(12)  # fmt: skip

W_ACTIVE, W_ADDRESSES, W_SIZE = 0, 1, 33  # an instruction's worst request, rows of the table at C_WORST

# What counterfactual runs need, at C_IDEAL: a table of requests seen, then a row a buffer, then 32 addresses.
I_MASK, I_KEYS, I_PLACES, I_LANES, I_BUFFERS = range(5)
I_BASE, I_LIMIT, I_NEXT, I_ROW = range(4)

# Buffer table, columns.
B_BASE, B_END, B_DATA, B_SHADOW, B_DIRTY, B_READ_BITS, B_WRITE_BITS, B_LOW, B_HIGH, B_SIZE = range(10)

# Error record.
E_KIND, E_INDEX, E_LANE, E_ADDRESS, E_ROW, E_EXTRA, E_SIZE = range(7)
(
    OK, UNKNOWN_ADDRESS, UNKNOWN_BRANCH, OUT_OF_BOUNDS, MISALIGNED, SHARED_BOUNDS, SHARED_UNWRITTEN, SHARED_RACE, DIVERGENT_BARRIER,
    BUDGET, DEADLOCK, LOCAL_BOUNDS, MIXED_GENERIC, BAD_TARGET, STACK_OVERFLOW, UNKNOWN_GUARD,
) = range(16)  # fmt: skip


@intrinsic
def _pointer(typingctx, source):  # type: ignore[no-untyped-def]
    signature = types.voidptr(source)

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        from numba.core import cgutils

        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return signature, codegen


_SHAPE = 1 << 45


@njit
def i64(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.int64)


@njit
def u64(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.uint64)


@njit
def i32(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.int32)


@njit
def u32(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.uint32)


@njit
def u16(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.uint16)


@njit
def u8(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.uint8)


@njit
def f32(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.float32)


@njit
def f64(address):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), _SHAPE, np.float64)


@njit
def _popcount(x):  # type: ignore[no-untyped-def]
    x = np.uint32(x)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(((x * np.uint32(0x01010101)) & np.uint32(0xFFFFFFFF)) >> np.uint32(24))  # numba widens to 64 bits


@njit
def fail(context, kind, index, lane, address, row, extra):  # type: ignore[no-untyped-def]
    """Write the error record, the first of a run only, and return 1."""
    c = i64(context)
    e = i64(c[C_ERROR])
    if e[E_KIND] == OK:
        e[E_KIND] = kind
        e[E_INDEX] = index
        e[E_LANE] = lane
        e[E_ADDRESS] = address
        e[E_ROW] = row
        e[E_EXTRA] = extra
    return 1


@njit
def _on(active, lane):  # type: ignore[no-untyped-def]
    return (np.uint32(active) >> np.uint32(lane)) & np.uint32(1) != np.uint32(0)


@njit
def _first(mask):  # type: ignore[no-untyped-def]
    for lane in range(32):
        if _on(mask, lane):
            return lane
    return 0


@njit
def _record(c, row, operation, n_lines, tag_wavefronts, data_wavefronts, lanes, sectors):  # type: ignore[no-untyped-def]
    """Append a header and `n_lines` line words from the scratch at C_LINES to the row's ring."""
    if c[C_TRACE] == 0:
        return
    mask = c[C_WORDS_MASK]
    ring = u64(c[C_WORDS] + row * (mask + 1) * 8)
    tails = i64(c[C_WORD_TAIL])
    tail = tails[row]
    header = (
        n_lines
        | min(tag_wavefronts, 255) << 8
        | min(data_wavefronts, 65535) << 16
        | lanes << 32
        | min(sectors, 255) << 40
        | operation << 48
    )
    ring[tail & mask] = np.uint64(header)
    lines = u64(c[C_LINES])
    for k in range(n_lines):
        ring[(tail + 1 + k) & mask] = lines[k]
    tails[row] = tail + 1 + n_lines


@njit
def _keep(c, index, a, active):  # type: ignore[no-untyped-def]
    """Remember a request that is worse than all before it."""
    worst = i64(c[C_WORST] + index * W_SIZE * 8)
    worst[W_ACTIVE] = np.int64(active)
    for lane in range(32):
        worst[W_ADDRESSES + lane] = a[lane]


@njit
def _ideal(c, b, a, active, width, low, high):  # type: ignore[no-untyped-def]
    """The addresses the request would have with its bytes together and aligned: what a better layout would give.

    Dense ones move down to a boundary. Others are packed one after the other in order of first occurrence, in a region as
    large as what the kernel touches of buffer b; a request seen before goes to its old place.
    """
    table = i64(c[C_IDEAL])
    lanes = i64(table[I_LANES])
    size = _popcount(active) * width
    if high + width - low <= size:
        shift = low & (127 if size >= 128 else 31)
        for lane in range(32):
            lanes[lane] = a[lane] - shift
        return lanes
    key = np.uint64(width)
    distinct = 0
    for lane in range(32):
        if _on(active, lane):
            key = (key ^ np.uint64(a[lane])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
            place = distinct
            for other in range(lane):
                if _on(active, other) and a[other] == a[lane]:
                    place = lanes[other]
                    break
            lanes[lane] = place
            distinct += place == distinct
    keys, places = u64(table[I_KEYS]), i64(table[I_PLACES])
    at = np.int64(key >> np.uint64(20)) & table[I_MASK]
    if keys[at] != key:
        row = i64(table[I_BUFFERS] + b * I_ROW * 8)
        step = (distinct * width + 31) & ~31
        if step >= 128:
            step = (step + 127) & ~127
        if row[I_NEXT] + step > row[I_LIMIT]:
            row[I_NEXT] = 0
        keys[at] = key
        places[at] = row[I_BASE] + row[I_NEXT]
        row[I_NEXT] += step
    for lane in range(32):
        lanes[lane] = places[at] + lanes[lane] * width if _on(active, lane) else 0
    return lanes


@njit
def _find(c, address, width):  # type: ignore[no-untyped-def]
    buffers = i64(c[C_BUFFERS])
    for b in range(c[C_BUFFER_COUNT]):
        if buffers[b * B_SIZE + B_BASE] <= address and address + width <= buffers[b * B_SIZE + B_END]:
            return b
    return -1


@njit
def _mark(bits, base, a, active, width, contiguous):  # type: ignore[no-untyped-def]
    """Set the 4-byte words an access touches in a bitmap of one bit a word, one 32-bit entry a line."""
    if contiguous and width >= 4:
        first = (a[0] - base) >> 2
        last = (a[31] + width - 1 - base) >> 2
        k = first >> 5
        while k <= last >> 5:
            low = max(first - (k << 5), 0)
            high = min(last - (k << 5), 31)
            bits[k] |= np.uint32((np.uint64(0xFFFFFFFF) >> np.uint64(31 - high + low)) << np.uint64(low))
            k += 1
        return
    for lane in range(32):
        if _on(active, lane):
            word = (a[lane] - base) >> 2
            last = (a[lane] + width - 1 - base) >> 2
            while word <= last:
                bits[word >> 5] |= np.uint32(1) << np.uint32(word & 31)
                word += 1


@njit
def _atomic_32(action, kind, where, x, y):  # type: ignore[no-untyped-def]
    """One lane's 32-bit atomic at memory `where`; returns what was there."""
    word = u32(where)
    old = word[0]
    if kind == T_F32:
        operand = u32(where)  # bits through memory: the sum is made in place
        saved = operand[0]
        f = f32(where)
        was = f[0]
        word[0] = x
        value = f[0]
        word[0] = saved
        if action == ATOM_ADD:
            f[0] = was + value
        elif action == ATOM_MIN:
            f[0] = min(was, value)
        elif action == ATOM_MAX:
            f[0] = max(was, value)
        elif action == ATOM_EXCH:
            word[0] = x
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
def _atomic_64(action, kind, where, x, y):  # type: ignore[no-untyped-def]
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
def _half(bits):  # type: ignore[no-untyped-def]
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
def _half_bits(value):  # type: ignore[no-untyped-def]
    """Round to the nearest half, ties to even."""
    if np.isnan(value):
        return 0x7FFF
    sign = 0x8000 if value < 0 or (value == 0 and 1.0 / value < 0 if value != 0 else False) else 0
    value = abs(value)
    if value >= 65520.0:
        return sign | 0x7C00
    if value < 2.0**-14:
        return sign | int(round(value * 2.0**24))
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
def _atomic_packed(action, kind, where, x):  # type: ignore[no-untyped-def]
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
def _atomic_lane(op, where, data, lane, k):  # type: ignore[no-untyped-def]
    """Apply one lane's atomic; the old value replaces rows 0.. of `data`. k: 32-bit registers an operand has."""
    action, kind = op[O_ATOMIC], op[O_TYPE]
    if k == 2:
        x = np.uint64(data[lane]) | np.uint64(data[32 + lane]) << np.uint64(32)
        y = np.uint64(data[128 + lane]) | np.uint64(data[160 + lane]) << np.uint64(32)
        old = _atomic_64(action, kind, where, x, y)
        data[lane] = np.uint32(old & np.uint64(0xFFFFFFFF))
        data[32 + lane] = np.uint32(old >> np.uint64(32))
    elif kind == T_F16X2 or kind == T_BF16X2:
        data[lane] = _atomic_packed(action, kind, where, data[lane])
    else:
        data[lane] = _atomic_32(action, kind, where, data[lane], data[128 + lane])


@njit
def _load_lane(source, width, signed, data, lane):  # type: ignore[no-untyped-def]
    if width == 4:
        data[lane] = u32(source)[0]
    elif width == 8 or width == 16:
        for k in range(width // 4):
            data[k * 32 + lane] = u32(source)[k]
    elif width == 2:
        h = np.int64(u16(source)[0])
        data[lane] = np.uint32((h ^ 0x8000) - 0x8000) if signed else np.uint32(h)
    else:
        b = np.int64(u8(source)[0])
        data[lane] = np.uint32((b ^ 0x80) - 0x80) if signed else np.uint32(b)


@njit
def _store_lane(target, width, data, lane):  # type: ignore[no-untyped-def]
    if width == 4:
        u32(target)[0] = data[lane]
    elif width == 8 or width == 16:
        for k in range(width // 4):
            u32(target)[k] = data[k * 32 + lane]
    elif width == 2:
        u16(target)[0] = np.uint16(data[lane] & np.uint32(0xFFFF))
    else:
        u8(target)[0] = np.uint8(data[lane] & np.uint32(0xFF))


@njit
def _global_data(c, op, number, b, a, active, data, unknown):  # type: ignore[no-untyped-def]
    """Move the data of lanes `active`, all in buffer b. `unknown`: in: which lanes' operands are unknown, a mask a register; out too."""
    buffers = i64(c[C_BUFFERS])
    base, content, shadow = buffers[b * B_SIZE + B_BASE], buffers[b * B_SIZE + B_DATA], buffers[b * B_SIZE + B_SHADOW]
    width, action = op[O_WIDTH], op[O_ACTION]
    registers = max(width // 4, 1)
    if content == 0:  # opaque
        if action == LOADS or action == ATOMICS or action == ASYNC:
            for k in range(registers):
                unknown[k] |= np.uint32(active)
            i64(c[C_ORIGIN])[number] = b
        return
    dirty = buffers[b * B_SIZE + B_DIRTY] != 0
    mixed = np.uint32(0)
    for k in range(8):
        mixed |= unknown[k]
    if action == LOADS or action == ASYNC:
        for lane in range(32):
            if _on(active, lane):
                _load_lane(content + a[lane] - base, width, op[O_SIGNED], data, lane)
        if dirty:
            flags = u8(shadow)
            for lane in range(32):
                if _on(active, lane):
                    for k in range(registers):
                        if flags[(a[lane] - base >> 2) + k]:
                            unknown[k] |= np.uint32(1) << np.uint32(lane)
                            i64(c[C_ORIGIN])[number] = b
    elif action == STORES:
        for lane in range(32):
            if _on(active, lane):
                _store_lane(content + a[lane] - base, width, data, lane)
        if dirty or mixed & np.uint32(active) != np.uint32(0):
            buffers[b * B_SIZE + B_DIRTY] = 1
            flags = u8(shadow)
            for lane in range(32):
                if _on(active, lane):
                    for k in range(registers):
                        if _on(unknown[k], lane):
                            flags[(a[lane] - base >> 2) + k] = 1
                        elif width >= 4:
                            flags[(a[lane] - base >> 2) + k] = 0
    else:
        flags = u8(shadow)
        for lane in range(32):
            if not _on(active, lane):
                continue
            word = a[lane] - base >> 2
            hidden = _on(mixed, lane)
            if dirty:
                for k in range(registers):
                    hidden = hidden or flags[word + k] != 0
            if hidden:
                buffers[b * B_SIZE + B_DIRTY] = 1
                for k in range(registers):
                    flags[word + k] = 1
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
                i64(c[C_ORIGIN])[number] = b
            else:
                _atomic_lane(op, content + a[lane] - base, data, lane, registers)


@njit
def _global(context, row, number, a, active, data, unknown):  # type: ignore[no-untyped-def]
    """A global access: check, coalesce, count, trace, move. Returns 0 or 1 (error)."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    width, action, index = op[O_WIDTH], op[O_ACTION], op[O_INDEX]
    low, high, bits = np.int64(1) << 62, np.int64(-1), np.int64(0)
    contiguous = active == np.uint32(0xFFFFFFFF)
    if contiguous:
        first = a[0]
        stray = np.int64(0)
        for lane in range(32):
            x = a[lane]
            low = min(low, x)
            high = max(high, x)
            bits |= x
            stray |= x - first - lane * width
        contiguous = stray == 0
    else:
        for lane in range(32):
            if _on(active, lane):
                x = a[lane]
                low = min(low, x)
                high = max(high, x)
                bits |= x
    if bits & (width - 1):
        for lane in range(32):
            if _on(active, lane) and a[lane] & (width - 1):
                return fail(context, MISALIGNED, index, lane, a[lane], row, width)
    buffers = i64(c[C_BUFFERS])
    b = op[O_BUFFER]
    single = buffers[b * B_SIZE + B_BASE] <= low and high + width <= buffers[b * B_SIZE + B_END]
    if not single:
        b = _find(c, low, width)
        if b >= 0 and high + width <= buffers[b * B_SIZE + B_END]:
            single = True
            op[O_BUFFER] = b
        else:
            for lane in range(32):
                if _on(active, lane) and _find(c, a[lane], width) < 0:
                    return fail(context, OUT_OF_BOUNDS, index, lane, a[lane], row, width)
    lines = carray(_pointer(c[C_LINES]), LINES, np.uint64)
    masks = carray(_pointer(c[C_BANK_MASKS]), 2, np.int64)
    out = carray(_pointer(c[C_OUT]), OUT, np.int64)
    scratch = carray(_pointer(c[C_RULES]), SCRATCH, np.int64)
    rule = STORE if action == STORES else LOAD
    if action == ATOMICS or action == REDUCTIONS:
        n_lines = atomic_request(a, np.int64(active), width, masks, lines, out, scratch)
        l2_requests = out[4]
    else:
        n_lines = global_request(a, np.int64(active), width, rule, masks, lines, out, scratch)
        l2_requests = n_lines
    sectors, tag_wavefronts, data_wavefronts = out[0], out[2], out[3]
    lanes = _popcount(active)
    stats = i64(c[C_STATS] + index * S_SIZE * 8)
    stats[S_REQUESTS] += 1
    stats[S_SECTORS] += sectors
    stats[S_TAGS] += n_lines
    stats[S_TAG_WAVEFRONTS] += tag_wavefronts
    stats[S_DATA_WAVEFRONTS] += data_wavefronts
    stats[S_IDEAL_SECTORS] += (lanes * width + 31) // 32
    stats[S_THREADS] += lanes
    stats[S_L2_REQUESTS] += l2_requests
    if sectors > stats[S_WORST]:
        stats[S_WORST] = sectors
        _keep(c, index, a, active)
    if op[O_IDEAL] and sectors > (lanes * width + 31) // 32 and action != ATOMICS and action != REDUCTIONS:
        packed = _ideal(c, max(b, 0), a, active, width, low, high)
        n_lines = global_request(packed, np.int64(active), width, rule, masks, lines, out, scratch)
        sectors, tag_wavefronts, data_wavefronts = out[0], out[2], out[3]
    if action != ASYNC:
        _record(c, row, op[O_OPERATION], n_lines, tag_wavefronts, data_wavefronts, lanes, sectors)
    if single:
        base = buffers[b * B_SIZE + B_BASE]
        buffers[b * B_SIZE + B_LOW] = min(buffers[b * B_SIZE + B_LOW], low)
        buffers[b * B_SIZE + B_HIGH] = max(buffers[b * B_SIZE + B_HIGH], high + width)
        if action != STORES and action != REDUCTIONS:
            _mark(u32(buffers[b * B_SIZE + B_READ_BITS]), base, a, active, width, contiguous)
        if action != LOADS and action != ASYNC:
            _mark(u32(buffers[b * B_SIZE + B_WRITE_BITS]), base, a, active, width, contiguous)
        _global_data(c, op, number, b, a, active, data, unknown)
    else:
        for lane in range(32):
            if _on(active, lane):
                one = np.uint32(1) << np.uint32(lane)
                b = _find(c, a[lane], width)
                base = buffers[b * B_SIZE + B_BASE]
                buffers[b * B_SIZE + B_LOW] = min(buffers[b * B_SIZE + B_LOW], a[lane])
                buffers[b * B_SIZE + B_HIGH] = max(buffers[b * B_SIZE + B_HIGH], a[lane] + width)
                if action != STORES and action != REDUCTIONS:
                    _mark(u32(buffers[b * B_SIZE + B_READ_BITS]), base, a, one, width, False)
                if action != LOADS and action != ASYNC:
                    _mark(u32(buffers[b * B_SIZE + B_WRITE_BITS]), base, a, one, width, False)
                _global_data(c, op, number, b, a, one, data, unknown)
    return 0


@njit
def _shared_touch(context, c, row, slot, index, lane, offset, width, write, atomic, same):  # type: ignore[no-untyped-def]
    """Was it written before it is read? Do two warps touch it without a barrier between? 0, or an error kind.

    Shadow entries, one a 4-byte word, for the last writer and the last reader:
    bits 0-3 bytes, 4 several warps, 5 atomic, 6-11 warp, 12-31 epoch (barriers passed + 1); 0 is never.
    """
    epoch = i64(c[C_EPOCH])[slot] & 0xFFFFF
    warp = row - slot * c[C_WARPS]
    written = u32(c[C_WRITTEN] + slot * c[C_WORD_STRIDE] * 4)
    read = u32(c[C_READ] + slot * c[C_WORD_STRIDE] * 4)
    word = offset >> 2
    for k in range(max(width >> 2, 1)):
        bytes_ = np.int64(15) if width >= 4 else ((1 << width) - 1) << (offset & 3)
        mine = epoch << 12 | warp << 6 | (1 << 5 if atomic else 0) | bytes_
        last = np.int64(written[word + k])
        if (not write or atomic) and last == 0:
            return SHARED_UNWRITTEN
        if last >> 12 == epoch and last & bytes_ and (last >> 6 & 63) != warp and not (atomic and last & 32) and not same:
            return SHARED_RACE
        if write:
            past = np.int64(read[word + k])
            if past >> 12 == epoch and past & bytes_ and ((past >> 6 & 63) != warp or past & 16) and not (atomic and past & 32) and not same:
                return SHARED_RACE
            if last >> 12 == epoch and (last >> 6 & 63) == warp and last & 32 == (32 if atomic else 0):
                mine |= last & 15
            written[word + k] = np.uint32(mine)
        if not write or atomic:
            past = np.int64(read[word + k])
            if past >> 12 == epoch:
                mine |= past & 31
                if (past >> 6 & 63) != warp:
                    mine |= 16
                if not past & 32:
                    mine &= ~32
            read[word + k] = np.uint32(mine)
    return OK


@njit
def _matrix(c, op, slot, a, data, unknown):  # type: ignore[no-untyped-def]
    """ldmatrix: row r of matrix m lies at lane 8 m + r's address; lane l gets elements 2 (l % 4) and the next of row l // 4, a register a matrix."""
    shared = c[C_SHARED_DATA] + slot * c[C_SHARED_STRIDE]
    hidden = u8(c[C_SHARED_UNKNOWN] + slot * c[C_WORD_STRIDE])
    count, transposed = op[O_REGISTERS], op[O_MATRIX]
    for m in range(count):
        for lane in range(32):
            if transposed:
                element = lane >> 2
                low = a[8 * m + 2 * (lane & 3)] + 2 * element
                high = a[8 * m + 2 * (lane & 3) + 1] + 2 * element
            else:
                low = a[8 * m + (lane >> 2)] + 4 * (lane & 3)
                high = low + 2
            data[32 * m + lane] = np.uint32(u16(shared + low)[0]) | np.uint32(u16(shared + high)[0]) << np.uint32(16)
            if hidden[low >> 2] or hidden[high >> 2]:
                unknown[m] |= np.uint32(1) << np.uint32(lane)


@njit
def _wavefronts(c, op, a, active, width, kind):  # type: ignore[no-untyped-def]
    """(wavefronts, groups) of a shared request. Banks turn with the address, so a pattern moved by whole words keeps them: the last is kept."""
    memo = i64(op[O_MEMO])
    base = a[0]
    if memo[M_ACTIVE] == np.int64(active) and memo[M_KIND] == kind and (base - memo[M_BASE]) & 3 == 0:
        stray = np.int64(0)
        for lane in range(32):
            stray |= (a[lane] - base) ^ memo[M_OFFSETS + lane]
        if stray == 0:
            return memo[M_WAVEFRONTS], memo[M_GROUPS]
    out = carray(_pointer(c[C_OUT] + OUT * 8), OUT, np.int64)
    scratch = carray(_pointer(c[C_RULES]), SCRATCH, np.int64)
    shared_request(a, np.int64(active), width, kind, out, scratch)
    if active == np.uint32(0xFFFFFFFF):
        memo[M_ACTIVE], memo[M_KIND], memo[M_BASE] = np.int64(active), kind, base
        memo[M_WAVEFRONTS], memo[M_GROUPS] = out[0], out[1]
        for lane in range(32):
            memo[M_OFFSETS + lane] = a[lane] - base
    return out[0], out[1]


@njit
def _whole(c, op, row, slot, a, data, unknown):  # type: ignore[no-untyped-def]
    """A shared load or store of whole words by all lanes: the common case of `_shared`, without branches; False: look closer."""
    epoch = np.uint32(i64(c[C_EPOCH])[slot] & 0xFFFFF)
    warp = np.uint32(row - slot * c[C_WARPS])
    stride = c[C_WORD_STRIDE]
    written = u32(c[C_WRITTEN] + slot * stride * 4)
    read = u32(c[C_READ] + slot * stride * 4)
    hidden = u8(c[C_SHARED_UNKNOWN] + slot * stride)
    shared = u32(c[C_SHARED_DATA] + slot * c[C_SHARED_STRIDE])
    load = op[O_ACTION] == LOADS
    mine = np.uint32(epoch << np.uint32(12) | warp << np.uint32(6) | np.uint32(15))
    words = op[O_WIDTH] >> 2
    if c[C_RACES] != 0:
        wrong = np.uint32(0)
        for k in range(words):
            for lane in range(32):
                w = (a[lane] >> 2) + k
                last = written[w]
                stranger = np.uint32(last >> np.uint32(12) == epoch) & np.uint32(last >> np.uint32(6) & np.uint32(63) != warp)
                if load:
                    wrong |= np.uint32(last == np.uint32(0)) | stranger
                else:
                    past = read[w]
                    other = np.uint32(past >> np.uint32(6) & np.uint32(63) != warp) | np.uint32(past & np.uint32(16) != np.uint32(0))
                    wrong |= stranger | np.uint32(past >> np.uint32(12) == epoch) & other
        if wrong != np.uint32(0):
            return False
        for k in range(words):
            for lane in range(32):
                w = (a[lane] >> 2) + k
                if load:
                    past = read[w]
                    several = np.uint32(past >> np.uint32(6) & np.uint32(63) != warp) << np.uint32(4) | past & np.uint32(16)
                    read[w] = mine | (several if past >> np.uint32(12) == epoch else np.uint32(0))
                else:
                    written[w] = mine
    if load:
        for k in range(words):
            veil = np.uint32(0)
            for lane in range(32):
                w = (a[lane] >> 2) + k
                data[k * 32 + lane] = shared[w]
                veil |= np.uint32(hidden[w]) << np.uint32(lane)
            unknown[k] |= veil
    else:
        for k in range(words):
            for lane in range(32):
                w = (a[lane] >> 2) + k
                shared[w] = data[k * 32 + lane]
                hidden[w] = np.uint8(unknown[k] >> np.uint32(lane) & np.uint32(1))
    return True


@njit
def _shared(context, row, number, a, active, data, unknown):  # type: ignore[no-untyped-def]
    """A shared access. `a` are offsets as the instruction gives them; the window's low part is taken off here."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    width, action, index = op[O_WIDTH], op[O_ACTION], op[O_INDEX]
    slot = row // c[C_WARPS]
    shift, size = c[C_SHARED_OFFSET], c[C_SHARED_SIZE]
    matrix = action == MATRIX
    rows = np.uint32(active)
    if matrix and op[O_REGISTERS] < 4:
        rows = np.uint32((1 << (8 * op[O_REGISTERS])) - 1)
    low, high, bits = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for lane in range(32):
        x = (a[lane] & 0xFFFFFF) - shift
        a[lane] = x
        low = min(low, x)
        high = max(high, x)
        bits |= x
    sound = low >= 0 and high + width <= size and bits & (width - 1) == 0
    for lane in range(32 if not sound else 0):
        if _on(rows, lane):
            if a[lane] & (width - 1):
                return fail(context, MISALIGNED, index, lane, a[lane], row, width)
            if a[lane] < 0 or a[lane] + width > size:
                return fail(context, SHARED_BOUNDS, index, lane, a[lane], row, width)
    atomic = action == ATOMICS or action == REDUCTIONS
    kind = LOAD
    if action == STORES or action == ASYNC:
        kind = STORE
    elif atomic and op[O_ATOMIC] != ATOM_POPC_INC:  # ATOMS.POPC.INC counts the lanes on one word at once, as a load broadcasts
        kind = SHARED_ATOMIC
    elif matrix:
        kind = LDMATRIX_X1 if op[O_REGISTERS] == 1 else (LDMATRIX_X2 if op[O_REGISTERS] == 2 else LDMATRIX_X4)
    wavefronts, groups = _wavefronts(c, op, a, active, width, kind)
    lanes = _popcount(active)
    if action != ASYNC:
        stats = i64(c[C_STATS] + index * S_SIZE * 8)
        stats[S_REQUESTS] += 1
        stats[S_DATA_WAVEFRONTS] += wavefronts
        stats[S_CONFLICTS] += wavefronts - groups
        stats[S_IDEAL_WAVEFRONTS] += groups
        stats[S_THREADS] += lanes
        if wavefronts > stats[S_WORST]:
            stats[S_WORST] = wavefronts
            _keep(c, index, a, active)
        _record(c, row, op[O_OPERATION], 0, 0, groups if op[O_IDEAL] else wavefronts, lanes, 0)
    spin = action == LOADS and op[O_ATOMIC] == ATOM_CAS  # the read of a compare-and-swap loop
    if sound and active == np.uint32(0xFFFFFFFF) and width >= 4 and not spin and (action == LOADS or action == STORES):
        if _whole(c, op, row, slot, a, data, unknown):
            return 0
    shared = c[C_SHARED_DATA] + slot * c[C_SHARED_STRIDE]
    hidden = u8(c[C_SHARED_UNKNOWN] + slot * c[C_WORD_STRIDE])
    registers = max(width // 4, 1)
    write = action == STORES or action == ASYNC or atomic
    races = c[C_RACES] != 0
    for lane in range(32):
        if not _on(rows, lane):
            continue
        offset = a[lane]
        if races:
            same = False
            if action == STORES and width <= 4 and not hidden[offset >> 2] and not _on(unknown[0], lane):
                if width == 4:
                    same = u32(shared + offset)[0] == data[lane]
                elif width == 1:
                    same = np.uint32(u8(shared + offset)[0]) == data[lane] & np.uint32(255)
                else:
                    same = np.uint32(u16(shared + offset)[0]) == data[lane] & np.uint32(65535)
            wrong = _shared_touch(context, c, row, slot, index, lane, offset, width, write, atomic or spin, same)
            if wrong != OK:
                return fail(context, wrong, index, lane, offset, row, width)
        if action == LOADS:
            _load_lane(shared + offset, width, op[O_SIGNED], data, lane)
            for k in range(registers):
                if hidden[(offset >> 2) + k]:
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
        elif action == STORES or action == ASYNC:
            _store_lane(shared + offset, width, data, lane)
            for k in range(registers):
                if _on(unknown[k], lane):
                    hidden[(offset >> 2) + k] = 1
                elif width >= 4:
                    hidden[(offset >> 2) + k] = 0
        elif atomic:
            veiled = False
            for k in range(registers):
                veiled = veiled or hidden[(offset >> 2) + k] != 0 or _on(unknown[k], lane) or _on(unknown[4 + k], lane)
            if veiled:
                for k in range(registers):
                    hidden[(offset >> 2) + k] = 1
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
            else:
                _atomic_lane(op, shared + offset, data, lane, registers)
    if action == MATRIX:
        _matrix(c, op, slot, a, data, unknown)
    return 0


@njit
def _local(context, row, number, a, active, data, unknown):  # type: ignore[no-untyped-def]
    """A local access: thread-private bytes, interleaved by 4-byte words over the warp's lanes, as lines of their own."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    width, action, index = op[O_WIDTH], op[O_ACTION], op[O_INDEX]
    size = c[C_LOCAL_BYTES]
    registers = max(width // 4, 1)
    local = c[C_LOCAL_DATA] + row * size * 32
    hidden = u8(c[C_LOCAL_UNKNOWN] + row * size * 8)
    n_lines, sectors = np.int64(0), np.int64(0)
    lines = u64(c[C_LINES])
    for lane in range(32):
        if not _on(active, lane):
            continue
        offset = a[lane] & 0xFFFFFF
        if offset & (width - 1):
            return fail(context, MISALIGNED, index, lane, offset, row, width)
        if offset + width > size:
            return fail(context, LOCAL_BOUNDS, index, lane, offset, row, width)
        place = local + lane * size + offset
        if action == LOADS:
            _load_lane(place, width, op[O_SIGNED], data, lane)
        else:
            _store_lane(place, width, data, lane)
        for k in range(registers):
            word = (offset >> 2) + k
            if action == LOADS:
                if hidden[lane * (size >> 2) + word]:
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
            else:
                hidden[lane * (size >> 2) + word] = 1 if _on(unknown[k], lane) else 0
            line = (1 << 38) + row * (size >> 2) + word
            sector = 1 << (lane >> 3)
            found = -1
            for j in range(n_lines):
                if np.int64(lines[j] >> np.uint64(16)) == line:
                    found = j
                    break
            if found < 0:
                if n_lines == 64:
                    continue
                found = n_lines
                lines[found] = np.uint64(line << 16)
                n_lines += 1
            lines[found] |= np.uint64(sector | sector << 4)
    tag_wavefronts = (n_lines + 3) // 4
    for j in range(n_lines):
        sectors += _popcount(np.uint32(lines[j] & np.uint64(15)))
    lanes = _popcount(active)
    stats = i64(c[C_STATS] + index * S_SIZE * 8)
    stats[S_REQUESTS] += 1
    stats[S_SECTORS] += sectors
    stats[S_TAGS] += n_lines
    stats[S_TAG_WAVEFRONTS] += tag_wavefronts
    stats[S_DATA_WAVEFRONTS] += n_lines
    stats[S_IDEAL_SECTORS] += (lanes * width + 31) // 32
    stats[S_THREADS] += lanes
    stats[S_WORST] = max(stats[S_WORST], sectors)
    if op[O_IDEAL]:  # as if it were not there
        n_lines, tag_wavefronts, lanes, sectors = 0, 0, 0, 0
    _record(c, row, op[O_OPERATION], n_lines, tag_wavefronts, n_lines, lanes, sectors)
    return 0


_ACCESS = types.int64(
    types.int64, types.int64, types.int64, types.CPointer(types.int64), types.uint32, types.uint32, types.CPointer(types.uint32), types.CPointer(types.uint32)
)  # fmt: skip


@intrinsic
def _through(typingctx, function, context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """Call another access function by its address: compiled apart, they stay small."""
    arguments = (context, row, number, addresses, active, hidden, data, unknown)

    def codegen(_context, builder, _signature, values):  # type: ignore[no-untyped-def]
        from llvmlite import ir

        kind = ir.FunctionType(ir.IntType(64), [v.type for v in values[1:]])
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])

    return types.int64(function, *arguments), codegen


@njit
def _idle(context, row, number, active, hidden):  # type: ignore[no-untyped-def]
    """What all accesses begin with: -1 go on, 0 no lane is active, 1 an active lane's address is unknown."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    if active == np.uint32(0):
        _record(c, row, op[O_OPERATION], 0, 0, 0, 0, 0)
        return 0
    veiled = np.uint32(active) & np.uint32(hidden)
    if veiled != np.uint32(0):
        return fail(context, UNKNOWN_ADDRESS, op[O_INDEX], _first(veiled), 0, row, 0)
    return -1


@cfunc(_ACCESS)
def global_access(context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """One warp instruction to global memory.

    addresses: 64 64-bit addresses, of which 32 (LDGSTS: the others are of shared memory) count; active, hidden: masks of active
    lanes and of unknown addresses; data: 8 registers of 32 lanes, operands in, results out (0-3 first operand or result,
    4-7 second operand); unknown: 8 lane masks for them.
    """
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return _global(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def shared_access(context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """One warp instruction to shared memory; arguments as for `global_access`."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return _shared(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def local_access(context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """One warp instruction to local memory; arguments as for `global_access`."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return _local(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def generic_access(context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """LD, ST and ATOM: the window of the addresses says which memory; all lanes must mean the same."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    c = i64(context)
    a = carray(addresses, 64, np.int64)
    space = -1
    for lane in range(32):
        if _on(active, lane):
            high = a[lane] >> 32
            here = SHARED if high == c[C_SHARED_WINDOW] else (LOCAL if high == c[C_LOCAL_WINDOW] else GLOBAL)
            if space >= 0 and here != space:
                op = i64(c[C_OPS] + number * O_SIZE * 8)
                return fail(context, MIXED_GENERIC, op[O_INDEX], lane, a[lane], row, 0)
            space = here
    return _through(c[C_ACCESS + space], context, row, number, addresses, active, hidden, data, unknown)


@cfunc(_ACCESS)
def async_access(context, row, number, addresses, active, hidden, data, unknown):  # type: ignore[no-untyped-def]
    """LDGSTS: global addresses[0:32] to shared addresses[32:64], data included, at once; the record is of the global side.

    data[255] is the mask of lanes whose source is not read (zero fill).
    """
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    reading = np.uint32(np.uint32(active) & ~d[255])
    n_lines, tag_wavefronts, sectors = np.int64(0), np.int64(0), np.int64(0)
    if reading != np.uint32(0):
        if _through(c[C_ACCESS + GLOBAL], context, row, number, addresses, reading, np.uint32(0), data, unknown):
            return 1
        out = i64(c[C_OUT])
        sectors, n_lines, tag_wavefronts = out[0], out[1], out[2]
    for lane in range(32):
        if _on(active, lane) and not _on(reading, lane):
            for k in range(op[O_WIDTH] // 4):
                d[k * 32 + lane] = np.uint32(0)
        a[lane] = a[32 + lane]
    if _through(c[C_ACCESS + SHARED], context, row, number, addresses, active, np.uint32(0), data, unknown):
        return 1
    wavefronts, groups = _wavefronts(c, op, a, active, op[O_WIDTH], STORE)
    stats = i64(c[C_STATS] + op[O_INDEX] * S_SIZE * 8)
    stats[S_CONFLICTS] += wavefronts - groups
    stats[S_IDEAL_WAVEFRONTS] += wavefronts
    _record(c, row, op[O_OPERATION], n_lines, tag_wavefronts, groups if op[O_IDEAL] else wavefronts, _popcount(active), sectors)
    return 0


ACCESSES = (global_access, shared_access, local_access, generic_access, async_access)  # in the order of GLOBAL ... COPY
