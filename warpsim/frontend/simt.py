"""The SIMT executor: runs every CTA of a launch from its SASS and says what each warp asks of memory.

    executor = Executor(launch, program, gpu)
    executor.run()                        # count: execute all CTAs, no traces
    executor.open(slots); executor.start(ctas, slots); executor.refill(slots)     # `trace.WarpSource`, for the machine

A CTA runs warp by warp between barriers. Its rings belong to its *slot*. Its registers, shared memory and the like lie
in a *seat*, which it keeps while it waits for room in its rings and leaves when it is done: the next CTA takes the
seat that was left last, whose memory is in the host's cache.

After the run `stats`, `executed` and `lanes` hold the counters, `arrays` the buffers. Raises KernelError for what the
kernel does wrong, naming source line, thread and address.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warpsim.coalescing import LINES, OUT, SCRATCH
from warpsim.compilation import carray, intrinsic, njit, types
from warpsim.errors import KernelError
from warpsim.frontend import blocks
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend.atomics import atomic, atomic_rule
from warpsim.frontend.code import build, native
from warpsim.frontend.faults import explain
from warpsim.frontend.memory import ACCESSES
from warpsim.frontend.program import Program
from warpsim.frontend.special import SPECIAL, SPECIAL_WORDS
from warpsim.frontend.trace import Rings

if TYPE_CHECKING:
    from warpsim.gpu import Gpu
    from warpsim.launch import Launch

__all__ = ["Executor"]

BUDGET = 1 << 22  # warp instructions a warp may execute before the kernel counts as endless
GLOBALS_ADDRESS = 0x7E00_0000_0000  # of __device__ variables
SHARED_WINDOW, LOCAL_WINDOW = 0x10000, 0x10001  # high words of generic addresses
_RETURNING = ("vprintf",)  # functions of the driver that a kernel may call here
_RUN = 5  # status of a warp that can run, beside those of `blocks`

# Context words of the slots' own, after those of `memory`.
(
    _SLOT_CTA, _STATUS, _DONE, _ARRIVALS, _ENTRY, _END_BLOCK, _GRID, _BLOCK_THREADS, _CTAID, _UNKNOWN_FROM,
    _UNKNOWN_WORDS, _BUDGET, _SPIN, _FIRSTS, _PARTS, _PART_COUNT, _SEAT, _FREE, _FREE_COUNT, _SEATED, _SPECIAL,
    _SPECIAL_AT, _SPECIAL_WORDS,
) = range(ctx.C_SIZE, ctx.C_SIZE + 23)  # fmt: skip
_SIZE = ctx.C_SIZE + 23


@intrinsic
def _call(typingctx, function, context, row):  # type: ignore[no-untyped-def]
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        from llvmlite import ir

        word = ir.IntType(64)
        pointer = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(pointer, arguments[1:])

    return signature, codegen


@njit
def _sit(c, slot):  # type: ignore[no-untyped-def]
    """Let the slot's number and rows lead to the memory of its seat."""
    parts = ctx.i64(c[_PARTS])
    for k in range(c[_PART_COUNT]):  # context word, address, bytes a seat
        c[parts[3 * k]] = parts[3 * k + 1] + (ctx.i64(c[_SEAT])[slot] - slot) * parts[3 * k + 2]


@njit
def _begin(c, cta, slot):  # type: ignore[no-untyped-def]
    """Put a CTA into a slot: registers known, rings empty, shared memory unwritten, the warps at instruction 0."""
    warps = c[ctx.C_WARPS]
    c[_FREE_COUNT] -= 1
    seat = ctx.i64(c[_FREE])[c[_FREE_COUNT]]
    ctx.i64(c[_SEAT])[slot] = seat
    _sit(c, slot)
    if seat == c[_SEATED]:  # for the first time
        c[_SEATED] += 1
        special = ctx.i32(c[_SPECIAL])
        for w in range(warps):
            s = ctx.i32(c[ctx.C_STATE] + (slot * warps + w) * c[ctx.C_STATE_STRIDE])
            for k in range(c[_SPECIAL_WORDS]):
                s[c[_SPECIAL_AT] + k] = special[w * c[_SPECIAL_WORDS] + k]
    grid_x, grid_y = ctx.i64(c[_GRID])[0], ctx.i64(c[_GRID])[1]
    x, y, z = cta % grid_x, cta // grid_x % grid_y, cta // (grid_x * grid_y)
    ctx.i64(c[_SLOT_CTA])[slot] = cta
    threads = c[_BLOCK_THREADS]
    for w in range(warps):
        row = slot * warps + w
        s = ctx.i32(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE])
        live = min(threads - 32 * w, 32)
        mask = np.int32(np.uint32((np.int64(1) << live) - 1))
        for k in range(dv.STACK):
            s[k] = 0
        for k in range(dv.PREDICATES, dv.HEADER):
            s[k] = 0
        s[dv.ACTIVE] = mask
        s[dv.EXITED] = ~mask
        ctx.i64(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE] + 4 * dv.BUDGET_WORD)[0] = c[_BUDGET]
        at = c[_CTAID]
        s[at], s[at + 1], s[at + 2] = x, y, z
        for k in range(c[_UNKNOWN_FROM], c[_UNKNOWN_FROM] + c[_UNKNOWN_WORDS]):
            s[k] = 0
        ctx.i64(c[_STATUS])[row] = _RUN
        ctx.u8(c[_DONE])[row] = 0
        # Rings begin at different places, so that they do not meet in the same sets of the host's cache.
        ctx.i64(c[ctx.C_BLOCK_HEAD])[row] = 32 * (row % 8)
        ctx.i64(c[ctx.C_BLOCK_TAIL])[row] = 32 * (row % 8)
        ctx.i64(c[ctx.C_WORD_HEAD])[row] = 8 * (row % 32)
        ctx.i64(c[ctx.C_WORD_TAIL])[row] = 8 * (row % 32)
        if c[ctx.C_LOCAL_BYTES]:
            hidden = ctx.u8(c[ctx.C_LOCAL_UNKNOWN] + row * c[ctx.C_LOCAL_BYTES] * 8)
            for k in range(c[ctx.C_LOCAL_BYTES] * 8):
                hidden[k] = 0
    words = c[ctx.C_WORD_STRIDE]
    if c[ctx.C_SHARED_SIZE]:
        written = ctx.u32(c[ctx.C_WRITTEN] + slot * words * 4)
        read = ctx.u32(c[ctx.C_READ] + slot * words * 4)
        hidden = ctx.u8(c[ctx.C_SHARED_UNKNOWN] + slot * words)
        for k in range(words):
            written[k] = 0
            read[k] = 0
            hidden[k] = 0
    ctx.i64(c[ctx.C_EPOCH])[slot] = 1
    for w in range(warps):
        ctx.i64(c[_SPIN] + (slot * warps + w) * 40)[0] = -1
    arrivals = ctx.i64(c[_ARRIVALS])
    for k in range(16):
        arrivals[slot * 16 + k] = 0


@njit
def _release(c, slot):  # type: ignore[no-untyped-def]
    """Open the CTA barriers that all the warps they wait for have reached; whether there was one."""
    warps = c[ctx.C_WARPS]
    status = ctx.i64(c[_STATUS])
    live = 0
    for w in range(warps):
        live += status[slot * warps + w] != blocks.DONE
    opened = False
    for w in range(warps):
        row = slot * warps + w
        if status[row] != blocks.WAIT:
            continue
        s = ctx.i32(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE])
        barrier = s[dv.BAR_ID]
        need = live if s[dv.BAR_THREADS] == 0 else s[dv.BAR_THREADS] // 32
        here = ctx.i64(c[_ARRIVALS])[slot * 16 + barrier]
        for v in range(warps):
            t = ctx.i32(c[ctx.C_STATE] + (slot * warps + v) * c[ctx.C_STATE_STRIDE])
            here += status[slot * warps + v] == blocks.WAIT and t[dv.BAR_ID] == barrier
        if here < need:
            continue
        count, every, some = np.int64(0), 1, 0
        for v in range(warps):
            t = ctx.i32(c[ctx.C_STATE] + (slot * warps + v) * c[ctx.C_STATE_STRIDE])
            if status[slot * warps + v] == blocks.WAIT and t[dv.BAR_ID] == barrier:
                status[slot * warps + v] = _RUN
                vote = np.uint32(t[dv.BAR_VOTE])
                for lane in range(32):
                    count += np.int64((vote >> np.uint32(lane)) & np.uint32(1))
                every = every and t[dv.BAR_VOTE] == t[dv.ACTIVE]
                some = some or vote != np.uint32(0)
        votes = ctx.i64(c[ctx.C_VOTES])
        if s[dv.BAR_MODE] != dv.VOTE_NONE:
            votes[slot * 4] = count
            votes[slot * 4 + 1] = every if s[dv.BAR_MODE] == dv.VOTE_AND else some
        ctx.i64(c[_ARRIVALS])[slot * 16 + barrier] = 0
        ctx.i64(c[ctx.C_EPOCH])[slot] += 1
        opened = True
    return opened


@njit
def _spins(c, row):  # type: ignore[no-untyped-def]
    """Whether a warp has come back to a state it was in, with no memory access since: it will never leave its loop.

    Called when its rings are full. Brent's method: a state is kept, and replaced after 1, 2, 4, 8 ... calls.
    """
    spin = ctx.i64(c[_SPIN] + row * 40)
    accesses = ctx.i64(c[ctx.C_WORD_TAIL])[row]
    run = ctx.i64(c[ctx.C_BLOCK_TAIL])[row]
    if run == spin[4]:  # it has not run at all
        return False
    spin[4] = run
    words = ctx.i64(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE])
    state = np.uint64(accesses)
    for k in range(c[ctx.C_STATE_STRIDE] // 8):
        if k != dv.BUDGET_WORD // 2:
            state = (state ^ np.uint64(words[k])) * np.uint64(0x9E3779B97F4A7C15)
            state ^= state >> np.uint64(31)
    if spin[0] == accesses and np.uint64(spin[1]) == state:
        return True
    spin[2] += 1
    if spin[0] != accesses or spin[2] >= spin[3]:
        spin[3] = 1 if spin[0] != accesses else 2 * spin[3]
        spin[0], spin[1], spin[2] = accesses, np.int64(state), 0
    return False


@njit
def _advance(context, slot):  # type: ignore[no-untyped-def]
    """Run the CTA in a slot until it is done or its rings are full; 0, or 1 for an error."""
    c = carray(context, _SIZE, np.int64)
    warps = c[ctx.C_WARPS]
    if ctx.i64(c[_SEAT])[slot] < 0:
        return 0
    _sit(c, slot)
    status = ctx.i64(c[_STATUS])
    for w in range(warps):
        if status[slot * warps + w] == blocks.FULL:
            status[slot * warps + w] = _RUN
    while True:
        for w in range(warps):
            row = slot * warps + w
            while status[row] == _RUN:
                result = _call(c[_ENTRY], context, row)
                if result == blocks.ERROR:
                    return 1
                if result == blocks.DONE:
                    mask = c[ctx.C_BLOCKS_MASK]
                    tails = ctx.i64(c[ctx.C_BLOCK_TAIL])
                    ctx.u16(c[ctx.C_BLOCKS] + row * (mask + 1) * 2)[tails[row] & mask] = np.uint16(c[_END_BLOCK])
                    tails[row] += 1
                    ctx.u8(c[_DONE])[row] = 1
                if result == blocks.ARRIVED:
                    s = ctx.i32(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE])
                    ctx.i64(c[_ARRIVALS])[slot * 16 + s[dv.BAR_ID]] += 1
                    ctx.i64(c[ctx.C_EPOCH])[slot] += 1
                    result = _RUN
                if result == blocks.FULL and _spins(c, row):
                    s = ctx.i32(c[ctx.C_STATE] + row * c[ctx.C_STATE_STRIDE])
                    return ctx.fail(context, ctx.BUDGET, ctx.i32(c[_FIRSTS])[s[dv.PC]], 0, 0, row, 1)
                status[row] = result
        if not _release(c, slot):
            break
    stuck = -1
    for w in range(warps):
        if status[slot * warps + w] == blocks.FULL:
            return 0
        if status[slot * warps + w] == blocks.WAIT:
            stuck = slot * warps + w
    if stuck >= 0:
        return ctx.fail(context, ctx.DEADLOCK, 0, 0, 0, stuck, 1)
    ctx.i64(c[_FREE])[c[_FREE_COUNT]] = ctx.i64(c[_SEAT])[slot]
    c[_FREE_COUNT] += 1
    ctx.i64(c[_SEAT])[slot] = -1
    return 0


@njit
def _start(context, ctas, slots):  # type: ignore[no-untyped-def]
    c = carray(context, _SIZE, np.int64)
    for k in range(len(ctas)):
        _begin(c, ctas[k], slots[k])
        if _advance(context, slots[k]):
            return 1
    return 0


@njit
def _refill(context, slots):  # type: ignore[no-untyped-def]
    for k in range(len(slots)):
        if _advance(context, slots[k]):
            return 1
    return 0


@njit
def _count(context, first, last):  # type: ignore[no-untyped-def]
    c = carray(context, _SIZE, np.int64)
    for cta in range(first, last):
        _begin(c, cta, 0)
        if _advance(context, 0):
            return 1
    return 0


def _lazy(size: int) -> NDArray[np.uint8]:
    """Zeroed memory that costs nothing where it is not touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, max(size, 4096), flags=flags), np.uint8)


def _aligned(size: int) -> NDArray[np.uint8]:
    """Zeroed bytes at a multiple of 128."""
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 128
    return raw[start : start + size]


class Executor:
    """A launch in execution; see the module's text."""

    def __init__(self, launch: Launch, program: Program, gpu: Gpu, *, budget: int = BUDGET, races: bool = True) -> None:
        self.launch = launch
        self.program = program
        self.gpu = gpu
        self.budget = budget
        threads = launch.threads
        self._check_launch()
        self.ctas = launch.ctas
        self.warps_per_cta = (threads + 31) // 32
        self.instructions = len(program.instructions)
        self.code = build(program)
        self.operations = self.code.operations
        self.block_first, self.block_count = self.code.block_first, self.code.block_count
        entry = native(program)
        self._hold: list[NDArray[np.generic]] = []
        self.context = np.zeros(_SIZE, np.int64)
        c = self.context
        self.executed = self._array(len(self.code.blocks), ctx.C_EXECUTED)
        self.lanes = self._array(len(self.code.blocks), ctx.C_LANES)
        self.stats = self._array((self.instructions, ctx.S_SIZE), ctx.C_STATS)
        self.worst = self._array((self.instructions, ctx.W_SIZE), ctx.C_WORST)
        self.fp_lanes = self._array(self.instructions, ctx.C_FP_LANES)
        self.notes = self._array(self.instructions, ctx.C_NOTES)
        self.error = self._array(ctx.E_SIZE, ctx.C_ERROR)
        accesses = self.code.accesses.copy() if len(self.code.accesses) else np.zeros((1, ctx.O_SIZE), np.int64)
        memos = np.zeros((len(accesses), ctx.M_SIZE), np.int64)
        self._hold.append(memos)
        accesses[:, ctx.O_MEMO] = memos.ctypes.data + 8 * ctx.M_SIZE * np.arange(len(accesses))
        self._point(ctx.C_OPS, accesses)
        self.accesses = accesses
        self.origin = self._array(max(len(accesses), 1), ctx.C_ORIGIN)
        self.origin[:] = -1
        self._point(ctx.C_LEADERS, self.code.leaders)
        self._point(ctx.C_BANK_MASKS, np.array(gpu.l1.tag_bank_masks, np.int64))
        self._array(LINES + 8, ctx.C_LINES)
        self._array(2 * OUT, ctx.C_OUT)
        self._array(SCRATCH, ctx.C_RULES)
        self._place_functions()
        c[ctx.C_WARPS] = self.warps_per_cta
        c[ctx.C_SHARED_OFFSET] = program.reserved_shared
        c[ctx.C_SHARED_SIZE] = program.shared + launch.dynamic_shared
        c[ctx.C_SHARED_WINDOW], c[ctx.C_LOCAL_WINDOW] = SHARED_WINDOW, LOCAL_WINDOW
        c[ctx.C_RACES] = races
        self._local = (program.local + 15) // 16 * 16
        c[ctx.C_LOCAL_BYTES] = self._local
        c[_ENTRY], c[_END_BLOCK], c[_BUDGET] = entry, self.code.end_block, budget
        c[_BLOCK_THREADS] = threads
        self._point(_FIRSTS, np.array([first for first, _ in self.code.blocks], np.int32))
        self._point(_GRID, np.array(launch.grid, np.int64))
        layout = self.code.layout
        c[ctx.C_STATE_STRIDE] = layout.size
        c[_CTAID] = layout.special // 4 + SPECIAL["SR_CTAID.X"][1]
        c[_UNKNOWN_FROM] = layout.uregs // 4
        c[_UNKNOWN_WORDS] = (layout.regs_unknown - layout.uregs) // 4 + layout.registers
        self._place_buffers()
        self._place_constants()
        self.rings: Rings

    # Memory that the native code sees

    def _point(self, index: int, array: NDArray[np.generic]) -> None:
        self._hold.append(array)
        self.context[index] = array.ctypes.data

    def _array(self, shape: int | tuple[int, ...], index: int) -> NDArray[np.int64]:
        array = np.zeros(shape, np.int64)
        self._point(index, array)
        return array

    def _place_functions(self) -> None:
        """Addresses of the functions that this kernel needs; the others are not compiled."""
        c, accesses = self.context, self.accesses[: len(self.code.accesses)]
        actions, spaces = accesses[:, ctx.O_ACTION], set(accesses[:, ctx.O_SPACE].tolist())
        if ctx.GENERIC in spaces:
            spaces |= {ctx.GLOBAL, ctx.SHARED, ctx.LOCAL}
        if (actions == ctx.ASYNC).any():
            spaces |= {ctx.COPY, ctx.GLOBAL, ctx.SHARED}
        for space in spaces:
            c[ctx.C_ACCESS + space] = ACCESSES[space].address
        if np.isin(actions, (ctx.ATOMICS, ctx.REDUCTIONS)).any():
            c[ctx.C_ATOMIC], c[ctx.C_ATOMIC_RULE] = atomic.address, atomic_rule.address
        c[ctx.C_DIVERGE] = dv.diverge.address
        if any(i.opcode in dv.REGROUPING for i in self.program.instructions):
            c[ctx.C_REGROUP] = dv.regroup.address

    def _check_launch(self) -> None:
        launch, program, gpu = self.launch, self.program, self.gpu
        name = launch.entry
        if launch.threads > program.max_threads:
            raise KernelError(
                f"kernel '{name}' is compiled for at most {program.max_threads} threads a CTA (__launch_bounds__), "
                f"the launch has {launch.threads}"
            )
        if launch.threads > gpu.sm.max_threads_per_cta:
            raise KernelError(
                f"kernel '{name}': {launch.threads} threads a CTA, {gpu.name} allows {gpu.sm.max_threads_per_cta}"
            )
        most = gpu.shared.max_per_cta_kib * 1024
        total = program.shared + launch.dynamic_shared
        if total > most:
            raise KernelError(f"kernel '{name}': {total} bytes of shared memory a CTA, {gpu.name} allows {most}")
        if launch.dynamic_shared and total > 48 * 1024 and not launch.opt_in_shared:
            raise KernelError(
                f"kernel '{name}': {total} bytes of shared memory a CTA are over 49152; "
                "set opt_in_shared = true under [launch] (cudaFuncAttributeMaxDynamicSharedMemorySize on the GPU)"
            )

    def _place_buffers(self) -> None:
        program = self.program
        rows = []
        self.arrays: dict[str, NDArray[np.generic] | None] = {}
        self.buffer_names: list[str] = []
        for buffer in self.launch.allocations:
            data = buffer.data
            if data is not None and not data.flags.c_contiguous:
                raise KernelError(f"buffer '{buffer.name}' is not contiguous")
            self.arrays[buffer.name] = data
            rows.append((buffer.name, buffer.address, buffer.bytes, data))
        if program.globals_:
            self._globals = np.frombuffer(bytearray(program.globals_), np.uint8)
            rows.append(("__device__ variables", GLOBALS_ADDRESS, len(program.globals_), self._globals))
        table = np.zeros((max(len(rows), 1), ctx.B_SIZE), np.int64)
        table[:, ctx.B_LOW] = 1 << 62
        self.read_bits: list[NDArray[np.uint8]] = []
        self.write_bits: list[NDArray[np.uint8]] = []
        for k, (name, address, size, data) in enumerate(rows):
            self.buffer_names.append(name)
            table[k, ctx.B_BASE], table[k, ctx.B_END] = address, address + size
            if data is not None:
                self._hold.append(data)
                table[k, ctx.B_DATA] = data.ctypes.data
                shadow = _lazy(size // 4 + 8)
                self._hold.append(shadow)
                table[k, ctx.B_SHADOW] = shadow.ctypes.data
            for column, keep in ((ctx.B_READ_BITS, self.read_bits), (ctx.B_WRITE_BITS, self.write_bits)):
                bits = _lazy((size // 128 + 2) * 4)
                keep.append(bits)
                table[k, column] = bits.ctypes.data
        self.buffers = table
        self._point(ctx.C_BUFFERS, table)
        self.context[ctx.C_BUFFER_COUNT] = len(rows)

    def _place_constants(self) -> None:
        program, launch = self.program, self.launch
        parameters = launch.pack(program.parameters, entry=program.entry)
        blackwell = program.arch >= 100
        bank = np.zeros(max(program.parameter_base + len(parameters), 0x400) + 64, np.uint8)
        words = bank.view(np.uint32)
        block_at, grid_at = (0x360, 0x36C + 4) if blackwell else (0x0, 0xC)
        if blackwell:
            grid_at = 0x370
        for k in range(3):
            words[block_at // 4 + k] = launch.block[k]
            words[grid_at // 4 + k] = launch.grid[k]
        words[(0x37C if blackwell else 0x28) // 4] = self._local
        words[(0x2F8 if blackwell else 0x20) // 4 + 1] = LOCAL_WINDOW
        if program.arch < 90:
            words[0x18 // 4 + 1] = SHARED_WINDOW
        words[(0x2AC if blackwell else 0x2C) // 4] = launch.dynamic_shared
        words[(0x2D0 if blackwell else 0x10C) // 4] = self.gpu.sm.count
        bank[program.parameter_base : program.parameter_base + len(parameters)] = np.frombuffer(parameters, np.uint8)
        images = [
            bank,
            *(np.frombuffer(bytearray(program.banks.get(k, b"") or bytes(8)), np.uint8) for k in range(1, 5)),
        ]
        for offset, target in program.relocations:
            images[4][offset : offset + 8] = np.frombuffer((GLOBALS_ADDRESS + target).to_bytes(8, "little"), np.uint8)
        for number, (offset, function) in enumerate(program.externals):
            address = dv.EXTERNALS + 16 * number + (0 if function in _RETURNING else 8)
            images[4][offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
        for place, offset, target in program.pointers:
            image = self._globals if place < 0 else images[place]
            image[offset : offset + 8] = np.frombuffer((GLOBALS_ADDRESS + target).to_bytes(8, "little"), np.uint8)
        self._hold.extend(images)
        self._point(ctx.C_CBANK, np.array([image.ctypes.data for image in images], np.int64))
        self._point(ctx.C_CBANK_SIZE, np.array([image.size for image in images], np.int32))

    # The machine's side

    def idealise(self, instructions: Iterable[int], requests: int, touched: Sequence[int]) -> None:
        """Let the traces show these instructions as a better layout would make them; counts and data stay as they are.

        requests: how many they make, about; touched: distinct bytes that the launch touches, of each buffer.
        """
        self.accesses[np.isin(self.accesses[:, ctx.O_INDEX], list(instructions)), ctx.O_IDEAL] = 1
        size = 1 << min(max(2 * requests, 1024), 1 << 22).bit_length()
        buffers = np.zeros((len(self.buffers), ctx.I_ROW), np.int64)
        buffers[: len(touched), ctx.I_LIMIT] = [(count + 127) // 128 * 128 for count in touched]
        room = (buffers[:, ctx.I_LIMIT] >> 21) + 2 << 21  # behind all buffers, and as these at multiples of 2 MiB
        free = max((b.address + b.bytes for b in self.launch.allocations), default=0)
        buffers[:, ctx.I_BASE] = (free >> 21) + 2 << 21
        buffers[1:, ctx.I_BASE] += np.cumsum(room)[:-1]
        table = np.zeros(ctx.I_BUFFERS + 1, np.int64)
        table[ctx.I_MASK] = size - 1
        parts = (
            (ctx.I_KEYS, np.zeros(size, np.uint64)),
            (ctx.I_PLACES, np.zeros(size, np.int64)),
            (ctx.I_LANES, np.zeros(32, np.int64)),
        )
        for index, array in (*parts, (ctx.I_BUFFERS, buffers)):
            self._hold.append(array)
            table[index] = array.ctypes.data
        self._point(ctx.C_IDEAL, table)

    def open(self, slots: int, *, trace: bool = True) -> None:
        """Make state and rings for that many CTA slots."""
        c = self.context
        warps = self.warps_per_cta
        rows = slots * warps
        # Room for the greediest block twice, so that one is read while one is written; once where that is much.
        word_room, block_room = 256, 256
        while trace and word_room < self.code.words * (2 if word_room < 1024 else 1):
            word_room *= 2
        self.rings = Rings(
            blocks=np.zeros((rows, block_room), np.uint16),
            block_head=np.zeros(rows, np.int64),
            block_tail=np.zeros(rows, np.int64),
            words=np.zeros((rows, word_room), np.uint64),
            word_head=np.zeros(rows, np.int64),
            word_tail=np.zeros(rows, np.int64),
            done=np.zeros(rows, np.uint8),
        )
        r = self.rings
        for index, array in (
            (ctx.C_BLOCKS, r.blocks), (ctx.C_BLOCK_HEAD, r.block_head), (ctx.C_BLOCK_TAIL, r.block_tail),
            (ctx.C_WORDS, r.words), (ctx.C_WORD_HEAD, r.word_head), (ctx.C_WORD_TAIL, r.word_tail), (_DONE, r.done),
        ):  # fmt: skip
            self._point(index, array)
        c[ctx.C_BLOCKS_MASK], c[ctx.C_WORDS_MASK], c[ctx.C_TRACE] = block_room - 1, word_room - 1, int(trace)
        self.slot_cta = self._array(slots, _SLOT_CTA)
        size = int(c[ctx.C_SHARED_SIZE])
        stride = (size + 127) // 128 * 128
        words = stride // 4
        c[ctx.C_SHARED_STRIDE], c[ctx.C_WORD_STRIDE] = stride, words
        parts = {
            ctx.C_STATE: warps * self.code.layout.size, ctx.C_SHARED_DATA: stride, ctx.C_WRITTEN: 4 * words,
            ctx.C_READ: 4 * words, ctx.C_SHARED_UNKNOWN: words, ctx.C_LOCAL_DATA: warps * self._local * 32,
            ctx.C_LOCAL_UNKNOWN: warps * self._local * 8, ctx.C_EPOCH: 8, ctx.C_VOTES: 32, _STATUS: 8 * warps,
            _ARRIVALS: 8 * 16, _SPIN: 40 * warps,
        }  # fmt: skip
        table = np.zeros((len(parts), 3), np.int64)
        for row, (index, bytes_) in zip(table, parts.items(), strict=True):
            self._point(index, _aligned(slots * bytes_))
            row[:] = index, c[index], bytes_
        self._point(_PARTS, table)
        c[_PART_COUNT] = len(parts)
        self._array(slots, _SEAT)[:] = -1
        self._point(_FREE, np.arange(slots - 1, -1, -1))
        c[_FREE_COUNT], c[_SEATED] = slots, 0
        self._point(_SPECIAL, self._special())

    @property
    def seats(self) -> int:
        """How many seats have been taken since `open`."""
        return int(self.context[_SEATED])

    def _special(self) -> NDArray[np.int32]:
        """The special registers of a CTA's warps that do not change from CTA to CTA."""
        launch = self.launch
        warps = self.warps_per_cta
        special = np.zeros((warps, SPECIAL_WORDS), np.int32)
        self.context[_SPECIAL_AT] = self.code.layout.special // 4
        self.context[_SPECIAL_WORDS] = SPECIAL_WORDS
        thread = np.arange(warps * 32)
        x, y, _ = launch.block
        tids = {"X": thread % x, "Y": thread // x % y, "Z": thread // (x * y)}
        for axis, tid in tids.items():
            at = SPECIAL[f"SR_TID.{axis}"][1]
            special[:, at : at + 32] = tid.reshape(warps, 32)
        fixed = {
            "SR_NWARPID": warps, "SR_SMEMSZ": int(self.context[ctx.C_SHARED_SIZE]), "SR_SWINHI": SHARED_WINDOW,
            "SR_LWINHI": LOCAL_WINDOW, "SR_CgaSize": 1, "SR_NSMID": self.gpu.sm.count,
            "SR_VIRTUALSMCNT": self.gpu.sm.count, "SR_CTA_SIZE": launch.threads,
        }  # fmt: skip
        for k, axis in enumerate("XYZ"):
            fixed[f"SR_NTID.{axis}"] = launch.block[k]
            fixed[f"SR_NCTAID.{axis}"] = launch.grid[k]
        for name, value in fixed.items():
            special[:, SPECIAL[name][1]] = value
        special[:, SPECIAL["SR_VIRTID"][1]] = np.arange(warps)
        special[:, SPECIAL["SR_WARPID"][1]] = np.arange(warps)
        return special

    def _settle(self, failed: int) -> None:
        if failed:
            raise explain(self)

    def start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Begin these CTAs in these slots and run each as far as its rings go."""
        self._settle(_start(self.context.ctypes.data, np.asarray(ctas, np.int64), np.asarray(slots, np.int64)))

    def refill(self, slots: NDArray[np.int64]) -> None:
        """Go on with the CTAs in these slots until their rings are full or they are done."""
        self._settle(_refill(self.context.ctypes.data, np.asarray(slots, np.int64)))

    def finish(self, slots: NDArray[np.int64], first: int) -> None:
        """Without traces: run the CTAs in these slots to their ends, then CTAs `first` and on."""
        self.context[ctx.C_TRACE] = 0
        self.refill(slots)
        self._settle(_count(self.context.ctypes.data, first, self.ctas))

    def run(self, first: int = 0, last: int | None = None) -> None:
        """Execute CTAs `first` to `last` - 1 (all) for their counts and data, without traces."""
        self.open(1, trace=False)
        self._settle(_count(self.context.ctypes.data, first, self.ctas if last is None else last))
