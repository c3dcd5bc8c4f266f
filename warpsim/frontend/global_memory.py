# mypy: disallow-untyped-defs=False
"""Accesses to global memory: bounds, coalescing, counters, trace records, footprints, data."""

from __future__ import annotations

import numpy as np

from warpsim.coalescing import ATOMIC, CAS, LINES, LOAD, OUT, RED, SCRATCH, STORE, compiled
from warpsim.compilation import carray, njit

from warpsim.frontend.context import (  # isort: skip
    ASYNC, ATOM_CAS, ATOM_CAST, ATOMICS, B_BASE, B_DATA, B_DIRTY, B_END, B_HIGH, B_LOW, B_READ_BITS, B_SHADOW, B_SIZE,
    B_WRITE_BITS, C_ATOMIC, C_ATOMIC_RULE, C_BANK_MASKS,
    C_BUFFER_COUNT, C_BUFFERS, C_IDEAL, C_LINES, C_OPS, C_ORIGIN, C_OUT, C_RULES, C_STATS,
    I_BASE, I_BUFFERS, I_KEYS, I_LANES, I_LIMIT, I_MASK, I_NEXT, I_PLACES, I_ROW, LOADS, MISALIGNED, O_ACTION, O_ATOMIC,
    O_BUFFER, O_IDEAL, O_INDEX, O_OPERATION, O_SIGNED, O_SIZE, O_WIDTH, OUT_OF_BOUNDS, REDUCTIONS, S_DATA_WAVEFRONTS,
    S_IDEAL_SECTORS, S_L2_REQUESTS, S_REQUESTS, S_SECTORS, S_SIZE, S_TAG_WAVEFRONTS, S_TAGS, S_THREADS, S_WORST, STORES,
    call, fail, first_lane, i64, keep_worst, load_lane, on, popcount, record, store_lane, u8, u32, u64,
)  # fmt: skip

contiguous_request, global_request = compiled().contiguous_request, compiled().global_request


@njit
def _ideal(c, b, a, active, width, low, high):
    """Where to find the addresses the request would have with its bytes together and aligned, as a better layout has.

    Dense ones move down to a boundary. Others are packed one after the other in order of first occurrence, in a region
    as large as what the kernel touches of buffer b; a request seen before goes to its old place.
    """
    table = i64(c[C_IDEAL])
    lanes = i64(table[I_LANES])
    size = popcount(active) * width
    if high + width - low <= size:
        shift = low & (127 if size >= 128 else 31)
        for lane in range(32):
            lanes[lane] = a[lane] - shift
        return table[I_LANES]
    key = np.uint64(width)
    distinct = 0
    for lane in range(32):
        if on(active, lane):
            key = (key ^ np.uint64(a[lane])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
            place = distinct
            for other in range(lane):
                if on(active, other) and a[other] == a[lane]:
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
        lanes[lane] = places[at] + lanes[lane] * width if on(active, lane) else 0
    return table[I_LANES]


@njit
def _find(c, address, width):
    buffers = i64(c[C_BUFFERS])
    for b in range(c[C_BUFFER_COUNT]):
        if buffers[b * B_SIZE + B_BASE] <= address and address + width <= buffers[b * B_SIZE + B_END]:
            return b
    return -1


@njit
def _mark(bits, base, a, active, width, contiguous):
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
        if on(active, lane):
            word = (a[lane] - base) >> 2
            last = (a[lane] + width - 1 - base) >> 2
            while word <= last:
                bits[word >> 5] |= np.uint32(1) << np.uint32(word & 31)
                word += 1


@njit
def _global_data(context, c, op, number, b, a, active, data, unknown):
    """Move the data of lanes `active`, all in buffer b.

    unknown: masks, one a register, of the lanes whose operands (in) or results (out) are unknown.
    """
    buffers = i64(c[C_BUFFERS])
    base, content, shadow = buffers[b * B_SIZE + B_BASE], buffers[b * B_SIZE + B_DATA], buffers[b * B_SIZE + B_SHADOW]
    width, action = op[O_WIDTH], op[O_ACTION]
    registers = max(width // 4, 1)
    if content == 0:  # opaque
        if action in (LOADS, ATOMICS, ASYNC):
            for k in range(registers):
                unknown[k] |= np.uint32(active)
            i64(c[C_ORIGIN])[number] = b
        return
    dirty = buffers[b * B_SIZE + B_DIRTY] != 0
    mixed = np.uint32(0)
    for k in range(8):
        mixed |= unknown[k]
    if action in (LOADS, ASYNC):
        for lane in range(32):
            if on(active, lane):
                load_lane(content + a[lane] - base, width, op[O_SIGNED], data, lane)
        if dirty:
            flags = u8(shadow)
            for lane in range(32):
                if on(active, lane):
                    for k in range(registers):
                        if flags[(a[lane] - base >> 2) + k]:
                            unknown[k] |= np.uint32(1) << np.uint32(lane)
                            i64(c[C_ORIGIN])[number] = b
    elif action == STORES:
        for lane in range(32):
            if on(active, lane):
                store_lane(content + a[lane] - base, width, data, lane)
        if dirty or mixed & np.uint32(active) != np.uint32(0):
            buffers[b * B_SIZE + B_DIRTY] = 1
            flags = u8(shadow)
            for lane in range(32):
                if on(active, lane):
                    for k in range(registers):
                        if on(unknown[k], lane):
                            flags[(a[lane] - base >> 2) + k] = 1
                        elif width >= 4:
                            flags[(a[lane] - base >> 2) + k] = 0
    else:
        flags = u8(shadow)
        for lane in range(32):
            if not on(active, lane):
                continue
            word = a[lane] - base >> 2
            hidden = on(mixed, lane)
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
                call(c[C_ATOMIC], context, number, content + a[lane] - base, data.ctypes.data, lane)


@njit
def access_global(context, row, number, a, active, data, unknown):
    """A global access: check, coalesce, count, trace, move. Returns 0 or 1 (error)."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    width, action, index = op[O_WIDTH], op[O_ACTION], op[O_INDEX]
    stray = np.int64(0)
    for lane in range(32):
        stray |= a[lane] - a[0] - lane * width
    contiguous = active == np.uint32(0xFFFFFFFF) and stray == 0
    if contiguous:
        low, high, bits = a[0], a[31], a[0]
    else:
        some = a[first_lane(active)]
        low, high, bits = some, some, some
        for lane in range(32):
            x = a[lane] if on(active, lane) else some
            low = min(low, x)
            high = max(high, x)
            bits |= x
    if bits & (width - 1):
        for lane in range(32):
            if on(active, lane) and a[lane] & (width - 1):
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
                if on(active, lane) and _find(c, a[lane], width) < 0:
                    return fail(context, OUT_OF_BOUNDS, index, lane, a[lane], row, width)
    lines = carray(c[C_LINES], LINES, np.uint64)
    masks = carray(c[C_BANK_MASKS], 2, np.int64)
    out = carray(c[C_OUT], OUT, np.int64)
    scratch = carray(c[C_RULES], SCRATCH, np.int64)
    rule = STORE if action == STORES else LOAD
    if action in (ATOMICS, REDUCTIONS):
        turns = RED if action == REDUCTIONS else ATOMIC
        if action == ATOMICS and (op[O_ATOMIC] == ATOM_CAS or op[O_ATOMIC] == ATOM_CAST):
            turns = CAS
        n_lines = call(c[C_ATOMIC_RULE], context, number, a.ctypes.data, np.int64(active), turns)
        l2_requests = out[4]
    else:
        if contiguous:
            n_lines = contiguous_request(low, width, rule, masks, lines, out)
        else:
            n_lines = global_request(a, np.int64(active), width, rule, masks, lines, out, scratch)
        l2_requests = n_lines
    sectors, tag_wavefronts, data_wavefronts = out[0], out[2], out[3]
    lanes = popcount(active)
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
        keep_worst(c, index, a, active)
    if op[O_IDEAL] and sectors > (lanes * width + 31) // 32 and action != ATOMICS and action != REDUCTIONS:
        packed = i64(_ideal(c, max(b, 0), a, active, width, low, high))
        n_lines = global_request(packed, np.int64(active), width, rule, masks, lines, out, scratch)
        sectors, tag_wavefronts, data_wavefronts = out[0], out[2], out[3]
    if action != ASYNC:
        record(c, row, op[O_OPERATION], n_lines, tag_wavefronts, data_wavefronts, lanes, sectors)
    if single:
        base = buffers[b * B_SIZE + B_BASE]
        buffers[b * B_SIZE + B_LOW] = min(buffers[b * B_SIZE + B_LOW], low)
        buffers[b * B_SIZE + B_HIGH] = max(buffers[b * B_SIZE + B_HIGH], high + width)
        if action != STORES and action != REDUCTIONS:
            _mark(u32(buffers[b * B_SIZE + B_READ_BITS]), base, a, active, width, contiguous)
        if action != LOADS and action != ASYNC:
            _mark(u32(buffers[b * B_SIZE + B_WRITE_BITS]), base, a, active, width, contiguous)
        _global_data(context, c, op, number, b, a, active, data, unknown)
    else:
        for lane in range(32):
            if on(active, lane):
                one = np.uint32(np.uint32(1) << np.uint32(lane))
                b = _find(c, a[lane], width)
                base = buffers[b * B_SIZE + B_BASE]
                buffers[b * B_SIZE + B_LOW] = min(buffers[b * B_SIZE + B_LOW], a[lane])
                buffers[b * B_SIZE + B_HIGH] = max(buffers[b * B_SIZE + B_HIGH], a[lane] + width)
                if action != STORES and action != REDUCTIONS:
                    _mark(u32(buffers[b * B_SIZE + B_READ_BITS]), base, a, one, width, single)
                if action != LOADS and action != ASYNC:
                    _mark(u32(buffers[b * B_SIZE + B_WRITE_BITS]), base, a, one, width, single)
                _global_data(context, c, op, number, b, a, one, data, unknown)
    return 0
