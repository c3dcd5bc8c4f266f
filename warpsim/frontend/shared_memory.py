# mypy: disallow-untyped-defs=False
"""Accesses to shared memory: bounds, banks, races, words never written, data."""

from __future__ import annotations

import numpy as np

from warpsim.coalescing import (  # isort: skip
    LDMATRIX_X1, LDMATRIX_X2, LDMATRIX_X4, LOAD, OUT, SCRATCH, SHARED_ATOMIC, SHARED_CAS, STORE, compiled,
)  # fmt: skip
from warpsim.compilation import carray, njit

from warpsim.frontend.context import (  # isort: skip
    ASYNC, ATOM_CAS, ATOM_CAST, ATOM_POPC_INC, ATOMICS, C_ATOMIC, C_EPOCH, C_OPS, C_OUT, C_RACES, C_READ, C_RULES,
    C_SHARED_DATA, C_SHARED_OFFSET, C_SHARED_SIZE, C_SHARED_STRIDE, C_SHARED_UNKNOWN, C_STATS, C_WARPS, C_WORD_STRIDE,
    C_WRITTEN, LOADS, M_ACTIVE, M_BASE, M_GROUPS, M_KIND, M_OFFSETS, M_WAVEFRONTS, MATRIX, MISALIGNED, O_ACTION,
    O_ATOMIC, O_IDEAL, O_INDEX, O_MATRIX, O_MEMO, O_OPERATION, O_REGISTERS, O_SIGNED, O_SIZE, O_WIDTH, OK, REDUCTIONS,
    S_CONFLICTS, S_DATA_WAVEFRONTS, S_IDEAL_WAVEFRONTS, S_REQUESTS, S_SIZE, S_THREADS, S_WORST, SHARED_BOUNDS,
    SHARED_RACE, SHARED_UNWRITTEN, STORES, call, fail, i64, keep_worst, load_lane, on, popcount, record,
    store_lane, u8, u16, u32,
)  # fmt: skip

_rules = compiled()
shared_request = _rules.shared_request


@njit
def _shared_touch(context, c, row, slot, index, lane, offset, width, write, atomic, same):
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
        if (
            last >> 12 == epoch
            and last & bytes_
            and (last >> 6 & 63) != warp
            and not (atomic and last & 32)
            and not same
        ):
            return SHARED_RACE
        if write:
            past = np.int64(read[word + k])
            if (
                past >> 12 == epoch
                and past & bytes_
                and ((past >> 6 & 63) != warp or past & 16)
                and not (atomic and past & 32)
                and not same
            ):
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
def _matrix(c, op, slot, a, data, unknown):
    """ldmatrix: row r of matrix m lies at lane 8 m + r's address.

    Lane l gets elements 2 (l % 4) and the next of row l // 4, in one register a matrix.
    """
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
def bank_wavefronts(c, op, a, active, width, kind):
    """(wavefronts, groups) of a shared request.

    Banks turn with the address, so a pattern moved by whole words keeps its counts: those of the last one are kept.
    """
    memo = i64(op[O_MEMO])
    base = a[0]
    if memo[M_ACTIVE] == np.int64(active) and memo[M_KIND] == kind and (base - memo[M_BASE]) & 3 == 0:
        stray = np.int64(0)
        for lane in range(32):
            stray |= (a[lane] - base) ^ memo[M_OFFSETS + lane]
        if stray == 0:
            return memo[M_WAVEFRONTS], memo[M_GROUPS]
    out = carray(c[C_OUT] + OUT * 8, OUT, np.int64)
    scratch = carray(c[C_RULES], SCRATCH, np.int64)
    shared_request(a, np.int64(active), width, kind, out, scratch)
    if active == np.uint32(0xFFFFFFFF):
        memo[M_ACTIVE], memo[M_KIND], memo[M_BASE] = np.int64(active), kind, base
        memo[M_WAVEFRONTS], memo[M_GROUPS] = out[0], out[1]
        for lane in range(32):
            memo[M_OFFSETS + lane] = a[lane] - base
    return out[0], out[1]


@njit
def _strange(load, last, past, mine):
    """1 if a whole word with these shadows may not be accessed by a warp whose mark is `mine`, else 0."""
    epoch, warp = mine >> np.uint32(12), mine >> np.uint32(6) & np.uint32(63)
    stranger = np.uint32(last >> np.uint32(12) == epoch) & np.uint32(last >> np.uint32(6) & np.uint32(63) != warp)
    if load:
        return np.uint32(last == np.uint32(0)) | stranger
    other = np.uint32(past >> np.uint32(6) & np.uint32(63) != warp) | np.uint32(past & np.uint32(16) != np.uint32(0))
    return stranger | np.uint32(past >> np.uint32(12) == epoch) & other


@njit
def _reader(past, mine):
    """The shadow of a whole word's last reader after a warp whose mark is `mine` has read it."""
    warp = mine >> np.uint32(6) & np.uint32(63)
    several = np.uint32(past >> np.uint32(6) & np.uint32(63) != warp) << np.uint32(4) | past & np.uint32(16)
    return mine | (several if past >> np.uint32(12) == mine >> np.uint32(12) else np.uint32(0))


@njit
def _whole(c, op, row, slot, a, data, unknown):
    """A shared load or store of whole words by all lanes, the common case, without branches; False: look closer.

    Lanes side by side, and a word that all lanes load, are one piece of consecutive words.
    """
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
    first = a[0] >> 2
    stray, apart = np.int64(0), np.int64(0)
    for lane in range(32):
        stray |= a[lane] - a[0] - lane * op[O_WIDTH]
        apart |= a[lane] - a[0]
    one = load and apart == 0
    piece = 32 * words if stray == 0 else (words if one else 0)
    if c[C_RACES] != 0:
        wrong = np.uint32(0)
        for w in range(first, first + piece):
            wrong |= _strange(load, written[w], read[w], mine)
        for k in range(words if piece == 0 else 0):
            for lane in range(32):
                w = (a[lane] >> 2) + k
                wrong |= _strange(load, written[w], read[w], mine)
        if wrong != np.uint32(0):
            return False
        if load:
            for w in range(first, first + piece):
                read[w] = _reader(read[w], mine)
        else:
            for w in range(first, first + piece):
                written[w] = mine
        for k in range(words if piece == 0 else 0):
            for lane in range(32):
                w = (a[lane] >> 2) + k
                if load:
                    read[w] = _reader(read[w], mine)
                else:
                    written[w] = mine
    for k in range(words):
        if one:
            for lane in range(32):
                data[k * 32 + lane] = shared[first + k]
            if hidden[first + k]:
                unknown[k] = np.uint32(0xFFFFFFFF)
        elif load:
            veil = np.uint32(0)
            if stray == 0 and words == 1:
                for lane in range(32):
                    data[lane] = shared[first + lane]
                    veil |= np.uint32(hidden[first + lane]) << np.uint32(lane)
            else:
                for lane in range(32):
                    w = (a[lane] >> 2) + k
                    data[k * 32 + lane] = shared[w]
                    veil |= np.uint32(hidden[w]) << np.uint32(lane)
            unknown[k] |= veil
        elif stray == 0 and words == 1:
            for lane in range(32):
                shared[first + lane] = data[lane]
                hidden[first + lane] = np.uint8(unknown[0] >> np.uint32(lane) & np.uint32(1))
        else:
            for lane in range(32):
                w = (a[lane] >> 2) + k
                shared[w] = data[k * 32 + lane]
                hidden[w] = np.uint8(unknown[k] >> np.uint32(lane) & np.uint32(1))
    return True


@njit
def access_shared(context, row, number, a, active, data, unknown):
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
        if on(rows, lane):
            if a[lane] & (width - 1):
                return fail(context, MISALIGNED, index, lane, a[lane], row, width)
            if a[lane] < 0 or a[lane] + width > size:
                return fail(context, SHARED_BOUNDS, index, lane, a[lane], row, width)
    atomic = action in (ATOMICS, REDUCTIONS)
    kind = LOAD
    store = action in (STORES, ASYNC)
    if store:
        kind = STORE
    elif atomic and op[O_ATOMIC] != ATOM_POPC_INC:  # that one counts the lanes on a word at once, as a load broadcasts
        kind = SHARED_CAS if op[O_ATOMIC] == ATOM_CAS or op[O_ATOMIC] == ATOM_CAST else SHARED_ATOMIC
    elif matrix:
        kind = LDMATRIX_X1 if op[O_REGISTERS] == 1 else (LDMATRIX_X2 if op[O_REGISTERS] == 2 else LDMATRIX_X4)
    wavefronts, groups = bank_wavefronts(c, op, a, active, width, kind)
    lanes = popcount(active)
    if action != ASYNC:
        stats = i64(c[C_STATS] + index * S_SIZE * 8)
        stats[S_REQUESTS] += 1
        stats[S_DATA_WAVEFRONTS] += wavefronts
        stats[S_CONFLICTS] += wavefronts - groups
        stats[S_IDEAL_WAVEFRONTS] += groups
        stats[S_THREADS] += lanes
        if wavefronts > stats[S_WORST]:
            stats[S_WORST] = wavefronts
            keep_worst(c, index, a, active)
        record(c, row, op[O_OPERATION], 0, 0, groups if op[O_IDEAL] else wavefronts, lanes, 0)
    spin = action == LOADS and op[O_ATOMIC] == ATOM_CAS  # the read of a compare-and-swap loop
    whole = sound and active == np.uint32(0xFFFFFFFF) and width >= 4 and not spin and action in (LOADS, STORES)
    if whole and _whole(c, op, row, slot, a, data, unknown):
        return 0
    shared = c[C_SHARED_DATA] + slot * c[C_SHARED_STRIDE]
    hidden = u8(c[C_SHARED_UNKNOWN] + slot * c[C_WORD_STRIDE])
    registers = max(width // 4, 1)
    write = store or atomic
    races = c[C_RACES] != 0
    for lane in range(32):
        if not on(rows, lane):
            continue
        offset = a[lane]
        if races:
            same = False
            if action == STORES and width <= 4 and not hidden[offset >> 2] and not on(unknown[0], lane):
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
            load_lane(shared + offset, width, op[O_SIGNED], data, lane)
            for k in range(registers):
                if hidden[(offset >> 2) + k]:
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
        elif store:
            store_lane(shared + offset, width, data, lane)
            for k in range(registers):
                if on(unknown[k], lane):
                    hidden[(offset >> 2) + k] = 1
                elif width >= 4:
                    hidden[(offset >> 2) + k] = 0
        elif atomic:
            veiled = False
            for k in range(registers):
                veiled = veiled or hidden[(offset >> 2) + k] != 0 or on(unknown[k], lane) or on(unknown[4 + k], lane)
            if veiled:
                for k in range(registers):
                    hidden[(offset >> 2) + k] = 1
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
            else:
                call(c[C_ATOMIC], context, number, shared + offset, data.ctypes.data, lane)
    if action == MATRIX:
        _matrix(c, op, slot, a, data, unknown)
    return 0
