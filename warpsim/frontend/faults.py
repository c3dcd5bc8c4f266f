"""What went wrong in a kernel, in one line: source line, thread, address, and where an unknown value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.errors import KernelError, UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend.program import RZ, Instruction, Program

if TYPE_CHECKING:
    from warpsim.frontend.simt import Executor

__all__ = ["explain", "place_of"]


def place_of(program: Program, index: int) -> str:
    """`file:line (SASS text)` of an instruction."""
    i = program.instructions[index]
    file = program.files[i.file] if i.line and i.file < len(program.files) else ""
    where = f"{file}:{i.line}" if i.line else f"instruction {index}"
    return f"{where} ({i.text})"


def _thread(executor: Executor, row: int, lane: int) -> str:
    slot, warp = divmod(row, executor.warps_per_cta)
    cta = int(executor.slot_cta[slot])
    gx, gy, _ = executor.launch.grid
    bx, by, _ = executor.launch.block
    thread = warp * 32 + lane
    lane_of = f"({thread % bx}, {thread // bx % by}, {thread // (bx * by)})"
    return f"thread {lane_of} of CTA ({cta % gx}, {cta // gx % gy}, {cta // (gx * gy)})"


def _nearest(executor: Executor, address: int) -> str:
    best = ""
    distance = 1 << 62
    for name, row in zip(executor.buffer_names, executor.buffers, strict=False):
        base, end = int(row[ctx.B_BASE]), int(row[ctx.B_END])
        if address >= end and address - end < distance:
            distance = address - end
            best = f"{address - end} bytes past the end of buffer '{name}' ({end - base} bytes)"
        elif address < base and base - address < distance:
            distance = base - address
            best = f"{base - address} bytes before buffer '{name}'"
        elif base <= address < end:
            return f"at the end of buffer '{name}' ({end - base} bytes)"
    return best or "there is no buffer"


def explain(executor: Executor) -> KernelError | UnsupportedError:
    """The error that the executor's record describes."""
    kind, index, lane, address, row, extra = (int(v) for v in executor.error[: ctx.E_SIZE])
    program = executor.program
    kernel = f"kernel '{executor.launch.entry}'"
    thread = _thread(executor, row, lane)
    where = place_of(program, index)
    if kind in (ctx.UNKNOWN_ADDRESS, ctx.UNKNOWN_BRANCH, ctx.UNKNOWN_GUARD):
        what = {
            ctx.UNKNOWN_ADDRESS: "an address",
            ctx.UNKNOWN_BRANCH: "a branch",
            ctx.UNKNOWN_GUARD: "whether memory is accessed",
        }[kind]
        return KernelError(
            f"{kernel}: an unknown value decides {what} at {where}, {thread}; "
            + _origin(executor, program.instructions[index], kind)
        )
    if kind == ctx.OUT_OF_BOUNDS:
        return KernelError(
            f"{kernel}: out of bounds: {extra} bytes at 0x{address:x} at {where}, {thread}: "
            + _nearest(executor, address)
        )
    if kind == ctx.MISALIGNED:
        return KernelError(
            f"{kernel}: misaligned: {extra} bytes at 0x{address & ((1 << 64) - 1):x}, not a multiple of {extra}, "
            f"at {where}, {thread}"
        )
    size = int(executor.context[ctx.C_SHARED_SIZE])
    if kind == ctx.SHARED_BOUNDS:
        return KernelError(
            f"{kernel}: shared memory out of bounds: {extra} bytes at offset {address}, the CTA has {size}, "
            f"at {where}, {thread}"
        )
    if kind == ctx.SHARED_UNWRITTEN:
        return KernelError(
            f"{kernel}: shared memory read at offset {address} that was never written, or by another warp without a "
            f"barrier (__syncthreads) between, at {where}, {thread}"
        )
    if kind == ctx.SHARED_RACE:
        return KernelError(
            f"{kernel}: race on shared memory at offset {address}: another warp accessed it without a barrier "
            f"(__syncthreads) between, at {where}, {thread}"
        )
    if kind == ctx.DIVERGENT_BARRIER:
        return KernelError(f"{kernel}: divergent barrier: {thread} does not take part in __syncthreads at {where}")
    if kind == ctx.BUDGET and extra:
        return KernelError(f"{kernel}: endless loop: a warp is in a state it has been in before, at {where}, {thread}")
    if kind == ctx.BUDGET:
        return KernelError(
            f"{kernel}: a warp ran {executor.budget} instructions and has not finished, at {where}, {thread}: "
            "an endless loop?"
        )
    if kind == ctx.DEADLOCK:
        if extra:
            return KernelError(
                f"{kernel}: deadlock: {thread} waits at a barrier that other warps of its CTA never reach"
            )
        return KernelError(f"{kernel}: deadlock: lanes of a warp wait for each other and none can run, {thread}")
    if kind == ctx.LOCAL_BOUNDS:
        return KernelError(f"{kernel}: local memory out of bounds: offset {address} at {where}, {thread}")
    if kind == ctx.MIXED_GENERIC:
        return KernelError(
            f"{kernel}: a generic access to several memory spaces at once is not supported, at {where}, {thread}"
        )
    if kind == ctx.TRAP:
        return KernelError(
            f"{kernel}: it stops itself with a trap at {where}, {thread} (__trap(), or a cooperative grid's sync())"
        )
    if kind == ctx.EXTERNAL:
        function = program.externals[extra][1]
        if function == "__assertfail":
            return KernelError(f"{kernel}: assertion failed at {where}, {thread}")
        return UnsupportedError(
            f"{kernel}: it calls {function}, which the driver brings and is not modelled, at {where}, {thread}"
        )
    return KernelError(f"{kernel}: jump to 0x{address:x}, where no code is, at {where}, {thread}")


def _sources(i: Instruction, first: bool = False) -> set[tuple[str, int]]:
    """Registers and predicates an instruction depends on (destinations among them do no harm)."""
    found: set[tuple[str, int]] = set()
    for o in i.operands:
        if o.kind in ("reg", "ureg", "pred", "upred") and o.index is not None:
            found.add((o.kind, o.index))
            if o.kind in ("reg", "ureg"):
                found.add((o.kind, o.index + 1))
        if o.kind == "addr":
            if o.index is not None:
                found |= {("reg", o.index), ("reg", o.index + 1)}
            if o.uindex is not None:
                found |= {("ureg", o.uindex), ("ureg", o.uindex + 1)}
    if i.guard is not None and i.guard.index is not None:
        found.add((i.guard.kind, i.guard.index))
    return {(kind, k) for kind, k in found if k != RZ and not (kind in ("pred", "upred") and k == 7)}


def _targets(i: Instruction) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for place, o in enumerate(i.operands[:3]):
        if o.kind in ("pred", "upred") and o.index is not None:
            found.add((o.kind, o.index))
        elif o.kind in ("reg", "ureg") and o.index is not None:
            for k in range(4 if place == 0 else 1):
                found.add((o.kind, o.index + k))
            break
    return found


def _origin(executor: Executor, at: Instruction, kind: int) -> str:
    """Follow definitions backwards from an instruction to a load of an opaque buffer or an opcode without a rule."""
    program = executor.program
    loads = {int(a[ctx.O_INDEX]): n for n, a in enumerate(executor.code.accesses)}
    address_only = [o for o in at.operands if o.kind == "addr"]
    wanted = set()
    if kind == ctx.UNKNOWN_ADDRESS and address_only:
        for o in address_only:
            if o.index is not None:
                wanted |= {("reg", o.index), ("reg", o.index + 1)}
            if o.uindex is not None:
                wanted |= {("ureg", o.uindex), ("ureg", o.uindex + 1)}
    elif kind == ctx.UNKNOWN_GUARD and at.guard is not None and at.guard.index is not None:
        wanted = {(at.guard.kind, at.guard.index)}
    else:
        wanted = _sources(at)
    count = len(program.instructions)
    for _ in range(2):  # twice round, for loops
        order = [*range(at.index - 1, -1, -1), *range(count - 1, at.index - 1, -1)]
        for k in order:
            i = program.instructions[k]
            if not _targets(i) & wanted:
                continue
            n = loads.get(k)
            if n is not None:
                b = int(executor.origin[n])
                if b >= 0:
                    name = executor.buffer_names[b]
                    return (
                        f"it comes from buffer '{name}', which has no fill, read at {place_of(program, k)}: "
                        "give it a fill (zeros, randint, permutation, expr, values or file)"
                    )
            elif executor.notes[k] & 1:
                return f"it comes from {i.opcode} at {place_of(program, k)}, whose result is not modelled"
            wanted |= _sources(i)
    return "its origin was not found"
