# mypy: disallow-untyped-defs=False
"""What the native code of a kernel and its memory accesses share: where everything lies, and how to reach it.

A launch in execution is plain memory. `context`, an array of 64-bit words indexed by the `C_*` constants, says where
its tables lie; the other constants are their columns. `i64(address)` and its kin see memory at an address as an array
without bounds.
"""

from __future__ import annotations

import numpy as np

from warpsim.compilation import intrinsic, memory, njit, types

# Context words.
(
    C_ACCESS, _C_SHARED, _C_LOCAL, _C_GENERIC, _C_COPY, C_NOTES, C_VOTES, C_DIVERGE, C_CBANK, C_CBANK_SIZE, C_STATE,
    C_STATE_STRIDE, C_BLOCKS, C_BLOCKS_MASK, C_BLOCK_HEAD, C_BLOCK_TAIL, C_WORDS, C_WORDS_MASK, C_WORD_HEAD,
    C_WORD_TAIL, C_TRACE, C_EXECUTED, C_LANES, C_OPS, C_STATS, C_BUFFERS, C_BUFFER_COUNT, C_ORIGIN, C_SHARED_DATA,
    C_SHARED_STRIDE, C_SHARED_SIZE, C_SHARED_OFFSET, C_WRITTEN, C_READ, C_SHARED_UNKNOWN, C_WORD_STRIDE, C_LOCAL_DATA,
    C_LOCAL_BYTES, C_LOCAL_UNKNOWN, C_EPOCH, C_WARPS, C_BANK_MASKS, C_LINES, C_OUT, C_ERROR, C_LEADERS,
    C_SHARED_WINDOW, C_LOCAL_WINDOW, C_RACES, C_FP_LANES, C_RULES, C_WORST, C_IDEAL, C_ATOMIC_RULE, C_ATOMIC,
    C_REGROUP, C_SIZE,
) = range(57)  # fmt: skip

# Per-access static description, columns of the table at C_OPS.
(
    O_SPACE, O_ACTION, O_WIDTH, O_INDEX, O_OPERATION, O_ATOMIC, O_TYPE, O_SIGNED, O_BUFFER, O_REGISTERS, O_MATRIX,
    O_MEMO, O_IDEAL, O_SIZE,
) = range(14)  # fmt: skip

GLOBAL, SHARED, LOCAL, GENERIC, COPY = range(5)  # COPY: global to shared

LOADS, STORES, ATOMICS, REDUCTIONS, ASYNC, MATRIX = range(6)

(
    ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC, ATOM_POPC_INC,
    ATOM_CAST,
) = range(12)  # fmt: skip

T_U32, T_S32, T_U64, T_S64, T_F32, T_F64, T_F16X2, T_BF16X2 = range(8)

# An access's last shared pattern.
M_ACTIVE, M_KIND, M_BASE, M_WAVEFRONTS, M_GROUPS, M_OFFSETS, M_SIZE = 0, 1, 2, 3, 4, 5, 37

# Counters per instruction, columns of the table at C_STATS.
(
    S_REQUESTS, S_SECTORS, S_TAGS, S_TAG_WAVEFRONTS, S_DATA_WAVEFRONTS, S_IDEAL_SECTORS, S_THREADS, S_CONFLICTS,
    S_IDEAL_WAVEFRONTS, S_L2_REQUESTS, S_WORST, S_REISSUED, S_SIZE,
) = range(13)  # fmt: skip

W_ACTIVE, W_ADDRESSES, W_SIZE = 0, 1, 33  # an instruction's worst request, rows of the table at C_WORST

# What counterfactual runs need, at C_IDEAL: a table of requests seen, then a row a buffer, then 32 addresses.
I_MASK, I_KEYS, I_PLACES, I_LANES, I_BUFFERS = range(5)

I_BASE, I_LIMIT, I_NEXT, I_ROW = range(4)

# Buffer table, columns.
B_BASE, B_END, B_DATA, B_SHADOW, B_DIRTY, B_READ_BITS, B_WRITE_BITS, B_LOW, B_HIGH, B_SIZE = range(10)

# Error record.
E_KIND, E_INDEX, E_LANE, E_ADDRESS, E_ROW, E_EXTRA, E_SIZE = range(7)

(
    OK, UNKNOWN_ADDRESS, UNKNOWN_BRANCH, OUT_OF_BOUNDS, MISALIGNED, SHARED_BOUNDS, SHARED_UNWRITTEN, SHARED_RACE,
    DIVERGENT_BARRIER, BUDGET, DEADLOCK, LOCAL_BOUNDS, MIXED_GENERIC, BAD_TARGET, STACK_OVERFLOW, UNKNOWN_GUARD, TRAP,
    EXTERNAL,
) = range(18)  # fmt: skip


@intrinsic
def call(typingctx, function, context, a, b, c, d):
    """Call a C function of five 64-bit integers by its address: compiled apart, it is compiled when needed."""
    word = types.int64

    def codegen(_context, builder, _signature, values):
        from llvmlite import ir

        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 5)
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])

    return word(word, word, word, word, word, word), codegen


i64, u64, i32, u32, u16, u8, f32, f64 = (
    memory(name) for name in ("int64", "uint64", "int32", "uint32", "uint16", "uint8", "float32", "float64")
)


@njit
def popcount(x):
    """How many of 32 bits are set."""
    x = np.uint32(x)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(((x * np.uint32(0x01010101)) & np.uint32(0xFFFFFFFF)) >> np.uint32(24))  # numba widens to 64 bits


@njit(signature="int64(int64, int64, int64, int64, int64, int64, int64)")  # once, whatever literals it is called with
def fail(context, kind, index, lane, address, row, extra):
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
def on(active, lane):
    """Whether a lane is in a mask."""
    return (np.uint32(active) >> np.uint32(lane)) & np.uint32(1) != np.uint32(0)


@njit
def first_lane(mask):
    """The lowest lane in a mask, 0 for none."""
    for lane in range(32):
        if on(mask, lane):
            return lane
    return 0


@njit(signature="void(int64[::1], int64, int64, int64, int64, int64, int64, int64)")
def record(c, row, operation, n_lines, tag_wavefronts, data_wavefronts, lanes, sectors):
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
def keep_worst(c, index, a, active):
    """Remember a request that is worse than all before it."""
    worst = i64(c[C_WORST] + index * W_SIZE * 8)
    worst[W_ACTIVE] = np.int64(active)
    for lane in range(32):
        worst[W_ADDRESSES + lane] = a[lane]


@njit
def load_lane(source, width, signed, data, lane):
    """Bytes at an address into a lane of rows 0.. of `data`, short ones extended to 32 bits."""
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
def store_lane(target, width, data, lane):
    """A lane of rows 0.. of `data` to an address."""
    if width == 4:
        u32(target)[0] = data[lane]
    elif width == 8 or width == 16:
        for k in range(width // 4):
            u32(target)[k] = data[k * 32 + lane]
    elif width == 2:
        u16(target)[0] = np.uint16(data[lane] & np.uint32(0xFFFF))
    else:
        u8(target)[0] = np.uint8(data[lane] & np.uint32(0xFF))
