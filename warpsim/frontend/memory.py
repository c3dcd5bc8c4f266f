# mypy: disallow-untyped-defs=False
"""The functions that native code calls through their addresses, one for each memory space, once a warp instruction.

They return 0, or 1 after writing an error record (`context.E_*`). They are compiled apart and call each other by
address, which keeps each small.
"""

from __future__ import annotations

import numpy as np

from warpsim.coalescing import STORE
from warpsim.compilation import carray, cfunc, intrinsic, njit, types

from warpsim.frontend.context import (  # isort: skip
    C_ACCESS, C_LINES, C_LOCAL_BYTES, C_LOCAL_DATA, C_LOCAL_UNKNOWN, C_LOCAL_WINDOW, C_OPS, C_OUT, C_SHARED_WINDOW,
    C_STATS, GLOBAL, LOADS, LOCAL, LOCAL_BOUNDS, MISALIGNED, MIXED_GENERIC, O_ACTION, O_IDEAL, O_INDEX, O_OPERATION,
    O_SIGNED, O_SIZE, O_WIDTH, S_CONFLICTS, S_DATA_WAVEFRONTS, S_IDEAL_SECTORS, S_IDEAL_WAVEFRONTS, S_REQUESTS,
    S_SECTORS, S_SIZE, S_TAG_WAVEFRONTS, S_TAGS, S_THREADS, S_WORST, SHARED, UNKNOWN_ADDRESS, fail, first_lane, i64,
    load_lane, on, popcount, record, store_lane, u8, u64,
)  # fmt: skip
from warpsim.frontend.global_memory import access_global
from warpsim.frontend.shared_memory import access_shared, bank_wavefronts

LOCAL_LINES = (1 << 38) + (3 << 30)  # number of the first line of local memory: no buffer's, in its low 32 bits either


@njit
def access_local(context, row, number, a, active, data, unknown):
    """A local access: a thread's own bytes, interleaved by 4-byte words over the lanes, in lines of their own."""
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
        if not on(active, lane):
            continue
        offset = a[lane] & 0xFFFFFF
        if offset & (width - 1):
            return fail(context, MISALIGNED, index, lane, offset, row, width)
        if offset + width > size:
            return fail(context, LOCAL_BOUNDS, index, lane, offset, row, width)
        place = local + lane * size + offset
        if action == LOADS:
            load_lane(place, width, op[O_SIGNED], data, lane)
        else:
            store_lane(place, width, data, lane)
        for k in range(registers):
            word = (offset >> 2) + k
            if action == LOADS:
                if hidden[lane * (size >> 2) + word]:
                    unknown[k] |= np.uint32(1) << np.uint32(lane)
            else:
                hidden[lane * (size >> 2) + word] = 1 if on(unknown[k], lane) else 0
            line = LOCAL_LINES + row * (size >> 2) + word
            sector = 1 << (lane >> 3)
            found = np.int64(-1)
            for j in range(n_lines):
                if np.int64(lines[j] >> np.uint64(16)) == line:
                    found = np.int64(j)
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
        sectors += popcount(np.uint32(lines[j] & np.uint64(15)))
    lanes = popcount(active)
    stats = i64(c[C_STATS] + index * S_SIZE * 8)
    stats[S_REQUESTS] += registers  # wider accesses are a request a word (8 B: counted on an H200)
    stats[S_SECTORS] += sectors
    stats[S_TAGS] += n_lines
    stats[S_TAG_WAVEFRONTS] += tag_wavefronts
    stats[S_DATA_WAVEFRONTS] += n_lines
    stats[S_IDEAL_SECTORS] += (lanes * width + 31) // 32
    stats[S_THREADS] += lanes
    stats[S_WORST] = max(stats[S_WORST], sectors)
    if op[O_IDEAL]:  # as if it were not there
        n_lines = tag_wavefronts = lanes = sectors = np.int64(0)
    record(c, row, op[O_OPERATION], n_lines, tag_wavefronts, n_lines, lanes, sectors)
    return 0


_ACCESS = "int64(int64, int64, int64, CPointer(int64), uint32, uint32, CPointer(uint32), CPointer(uint32))"


@intrinsic
def _through(typingctx, function, context, row, number, addresses, active, hidden, data, unknown):
    """Call another access function by its address: compiled apart, they stay small."""
    arguments = (context, row, number, addresses, active, hidden, data, unknown)

    def codegen(_context, builder, _signature, values):
        from llvmlite import ir

        kind = ir.FunctionType(ir.IntType(64), [v.type for v in values[1:]])
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])

    return types.int64(function, *arguments), codegen


@njit
def _idle(context, row, number, active, hidden):
    """What all accesses begin with: -1 go on, 0 no lane is active, 1 an active lane's address is unknown."""
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    if active == np.uint32(0):
        record(c, row, op[O_OPERATION], 0, 0, 0, 0, 0)
        return 0
    veiled = np.uint32(active) & np.uint32(hidden)
    if veiled != np.uint32(0):
        return fail(context, UNKNOWN_ADDRESS, op[O_INDEX], first_lane(veiled), 0, row, 0)
    return -1


@cfunc(_ACCESS)
def global_access(context, row, number, addresses, active, hidden, data, unknown):
    """One warp instruction to global memory.

    addresses: 64 64-bit addresses, of which 32 (LDGSTS: the others are of shared memory) count; active, hidden: masks
    of active lanes and of unknown addresses; data: 8 registers of 32 lanes, operands in, results out (0-3 first
    operand or result, 4-7 second operand); unknown: 8 lane masks for them.
    """
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return access_global(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def shared_access(context, row, number, addresses, active, hidden, data, unknown):
    """One warp instruction to shared memory; arguments as for `global_access`."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return access_shared(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def local_access(context, row, number, addresses, active, hidden, data, unknown):
    """One warp instruction to local memory; arguments as for `global_access`."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    a, d, u = carray(addresses, 64, np.int64), carray(data, 256, np.uint32), carray(unknown, 8, np.uint32)
    return access_local(context, row, number, a, active, d, u)


@cfunc(_ACCESS)
def generic_access(context, row, number, addresses, active, hidden, data, unknown):
    """LD, ST and ATOM: the window of the addresses says which memory; all lanes must mean the same."""
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    c = i64(context)
    a = carray(addresses, 64, np.int64)
    space = -1
    for lane in range(32):
        if on(active, lane):
            high = a[lane] >> 32
            here = SHARED if high == c[C_SHARED_WINDOW] else (LOCAL if high == c[C_LOCAL_WINDOW] else GLOBAL)
            if space >= 0 and here != space:
                op = i64(c[C_OPS] + number * O_SIZE * 8)
                return fail(context, MIXED_GENERIC, op[O_INDEX], lane, a[lane], row, 0)
            space = here
    return _through(c[C_ACCESS + space], context, row, number, addresses, active, hidden, data, unknown)


@cfunc(_ACCESS)
def async_access(context, row, number, addresses, active, hidden, data, unknown):
    """LDGSTS: global addresses[0:32] to shared addresses[32:64], data included, at once.

    The record is of the global side.
    data[255] is the mask of lanes whose source is not read (zero fill).
    """
    state = _idle(context, row, number, active, hidden)
    if state >= 0:
        return state
    c = i64(context)
    op = i64(c[C_OPS] + number * O_SIZE * 8)
    a, d = carray(addresses, 64, np.int64), carray(data, 256, np.uint32)
    reading = np.uint32(np.uint32(active) & ~d[255])
    n_lines, tag_wavefronts, sectors = np.int64(0), np.int64(0), np.int64(0)
    if reading != np.uint32(0):
        if _through(c[C_ACCESS + GLOBAL], context, row, number, addresses, reading, np.uint32(0), data, unknown):
            return 1
        out = i64(c[C_OUT])
        sectors, n_lines, tag_wavefronts = out[0], out[1], out[2]
    for lane in range(32):
        if on(active, lane) and not on(reading, lane):
            for k in range(op[O_WIDTH] // 4):
                d[k * 32 + lane] = np.uint32(0)
        a[lane] = a[32 + lane]
    if _through(c[C_ACCESS + SHARED], context, row, number, addresses, active, np.uint32(0), data, unknown):
        return 1
    wavefronts, groups = bank_wavefronts(c, op, a, active, op[O_WIDTH], STORE)
    stats = i64(c[C_STATS] + op[O_INDEX] * S_SIZE * 8)
    stats[S_CONFLICTS] += wavefronts - groups
    stats[S_IDEAL_WAVEFRONTS] += wavefronts
    record(
        c,
        row,
        op[O_OPERATION],
        n_lines,
        tag_wavefronts,
        groups if op[O_IDEAL] else wavefronts,
        popcount(active),
        sectors,
    )
    return 0


ACCESSES = (global_access, shared_access, local_access, generic_access, async_access)  # in the order of GLOBAL ... COPY
