"""A kernel's SASS cut into blocks, and their static description: operations and memory accesses.

A *block* is straight code between leaders (branch targets, resume points), short enough that its trace records fit a
ring. `code` translates the same blocks into native code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from warpsim.errors import UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend import trace
from warpsim.frontend.program import RZ, Instruction, Program
from warpsim.frontend.special import SPECIAL_WORDS

__all__ = [
    "ARRIVED", "DONE", "ERROR", "FULL", "MEMORY_KINDS", "WAIT", "Blocks", "Layout", "fp_kind", "is_indirect_call",
    "kind_of", "target_of",
]  # fmt: skip

# What running a warp ends with.
DONE, FULL, WAIT, ERROR, ARRIVED = range(5)
GLOBALS_A_BLOCK = 8  # global accesses a block may have: bounds the ring space a block needs
INSTRUCTIONS_A_BLOCK = 400
RUN = 3  # plain instructions that a warp issues in one step of the machine, in which other warps do not come between

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_LOADS = {"LDG": ctx.GLOBAL, "LDS": ctx.SHARED, "LDL": ctx.LOCAL, "LD": ctx.GENERIC}
_STORES = {"STG": ctx.GLOBAL, "STS": ctx.SHARED, "STL": ctx.LOCAL, "ST": ctx.GENERIC}
_ATOMICS = {"ATOMG": ctx.GLOBAL, "ATOM": ctx.GENERIC, "ATOMS": ctx.SHARED}
_REDUCTIONS = {"RED": ctx.GLOBAL, "REDG": ctx.GLOBAL}
_ACTIONS = {
    "ADD": ctx.ATOM_ADD, "MIN": ctx.ATOM_MIN, "MAX": ctx.ATOM_MAX, "AND": ctx.ATOM_AND, "OR": ctx.ATOM_OR,
    "XOR": ctx.ATOM_XOR, "EXCH": ctx.ATOM_EXCH, "CAS": ctx.ATOM_CAS, "CAST": ctx.ATOM_CAST, "INC": ctx.ATOM_INC,
    "DEC": ctx.ATOM_DEC, "POPC": ctx.ATOM_POPC_INC,
}  # fmt: skip
_ENDS = {"BRA", "BRX", "JMP", "JMX", "CALL", "RET", "EXIT", "BSYNC", "BAR", "WARPSYNC", "ENDCOLLECTIVE", "KILL"}

# Latency in cycles from issue to the scoreboard's release, for producers that go neither to memory nor through a fixed
# pipe. Values of public micro-benchmarks of Volta to Hopper, rounded: they matter little beside memory's.
_LATENCY = {
    "S2R": 20, "S2UR": 20, "LDC": 30, "LDCU": 30, "MUFU": 20, "SHFL": 23, "R2UR": 12, "FCHK": 12, "MATCH": 30,
    "REDUX": 22,
}  # fmt: skip
_FIXED_LATENCY = 14
_FP = {
    "FADD": "fadd", "FMUL": "fmul", "FFMA": "ffma", "DADD": "dadd", "DMUL": "dmul", "DFMA": "dfma", "HADD2": "hadd",
    "HMUL2": "hmul", "HFMA2": "hfma",
}  # fmt: skip
# Pipes, each found on an H200 by loops of one instruction and of pairs (docs/access-rules.md): two instructions that
# share a pipe take their times one after the other, others overlap.
_FMA_PIPE = {"FADD", "FMUL", "FFMA", "FSWZADD"}
_IMAD_PIPE = {"IMAD", "IDP", "VIADD", "HFMA2", "HADD2", "HMUL2"}
_FP64_PIPE = {"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"}
_XU_PIPE = {"MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV", "FCHK"}
_NO_PIPE = {"NOP", "BRA", "EXIT", "BSSY", "BSYNC", "BAR", "S2R", "LDC", "SHFL", "REDUX", "MATCH"}
# Instructions other than memory's that read their registers on another path.
_NO_READS = {"S2R", "LDC", "SHFL", "REDUX", "MATCH", "BRA", "BRX", "JMX", "CALL", "RET", "R2UR", "WARPSYNC", "BAR"}
_NO_REGISTER_WRITTEN = {"ISETP", "FSETP", "DSETP", "HSETP2", "FCHK", "PLOP3", "R2P"}

MEMORY_KINDS = {
    trace.LOAD, trace.STORE, trace.ATOMIC, trace.REDUCTION, trace.SHARED_LOAD, trace.SHARED_STORE, trace.SHARED_ATOMIC,
    trace.LOCAL_LOAD, trace.LOCAL_STORE, trace.ASYNC_COPY,
}  # fmt: skip
_SHARED_KINDS = {trace.SHARED_LOAD, trace.SHARED_STORE, trace.SHARED_ATOMIC}


@dataclass
class Layout:
    """Byte offsets within a warp's state; `size` is a multiple of 128."""

    registers: int
    uniforms: int
    special: int = field(init=False)
    uregs: int = field(init=False)
    uregs_unknown: int = field(init=False)
    regs_unknown: int = field(init=False)
    regs: int = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.special = 4 * dv.HEADER
        self.uregs = self.special + 4 * SPECIAL_WORDS
        self.uregs_unknown = self.uregs + 4 * self.uniforms
        self.regs_unknown = self.uregs_unknown + 4 * self.uniforms
        end = self.regs_unknown + 4 * self.registers
        self.regs = (end + 127) // 128 * 128
        self.size = self.regs + 128 * self.registers


def fp_kind(instruction: Instruction) -> str | None:
    """`fadd` ... `hfma` where Nsight counts the instruction's threads as floating-point operations.

    An HFMA2 that only moves a constant and an HADD2.F32 that only converts are counted too (H200).
    """
    return _FP.get(instruction.opcode)


def _width(i: Instruction) -> tuple[int, bool]:
    for m in i.modifiers:
        if m in _WIDTHS:
            return _WIDTHS[m], m in ("S8", "S16")
    return 4, False


def _atomic_type(i: Instruction) -> tuple[int, int]:
    """(type, width) of an atomic."""
    m = i.modifiers
    if "F16x2" in m:
        return ctx.T_F16X2, 4
    if "BF16x2" in m or "BF16_V2" in m:
        return ctx.T_BF16X2, 4
    if "F64" in m:
        return ctx.T_F64, 8
    if "F32" in m:
        return ctx.T_F32, 4
    if "64" in m or "U64" in m:
        return ctx.T_U64, 8
    if "S64" in m:
        return ctx.T_S64, 8
    if "S32" in m:
        return ctx.T_S32, 4
    return ctx.T_U32, 4


def target_of(i: Instruction, program: Program) -> int:
    """The instruction that a direct branch or call goes to."""
    for o in i.operands:
        if o.kind == "label":
            return o.value
        if o.kind == "function" and o.name in program.functions:
            return program.functions[o.name]
    raise UnsupportedError(f"branch without a known target: {i.text} (instruction {i.index}, source line {i.line})")


def is_indirect_call(i: Instruction, program: Program) -> bool:
    """Whether a register says where a call goes."""
    return i.opcode == "CALL" and not any(
        o.kind == "label" or (o.kind == "function" and o.name in program.functions) for o in i.operands
    )


def _reachable(program: Program) -> tuple[set[int], set[int]]:
    """Instructions that can run, and leaders among them."""
    instructions = program.instructions
    leaders = {0}
    seen: set[int] = set()
    todo = [0]
    while todo:
        k = todo.pop()
        while k < len(instructions) and k not in seen:
            seen.add(k)
            i = instructions[k]
            following = k + 1
            ends = i.opcode in _ENDS
            direct = i.opcode in ("BRA", "JMP", "CALL") and not is_indirect_call(i, program)
            if direct or "COLLECTIVE" in i.modifiers:
                target = target_of(i, program)
                leaders.add(target)
                todo.append(target)
            elif i.opcode in ("BRX", "JMX", "CALL"):
                through_pointer = program.functions.values() if i.opcode == "CALL" else ()
                for target in (*program.branch_targets.get(k, ()), *through_pointer):
                    leaders.add(target)
                    todo.append(target)
            if ends:
                leaders.add(following)
                always = i.guard is None and not any(o.kind in ("pred", "upred") for o in i.operands)
                if i.opcode in ("EXIT", "RET", "BRX", "JMX", "KILL", "ENDCOLLECTIVE") and always:
                    break
                if i.opcode in ("BRA", "JMP") and always and not {"DIV", "CONV"} & set(i.modifiers):
                    break
            k = following
    # Return addresses are moved into registers as byte offsets before a CALL: what follows it is a leader already.
    return seen, {k for k in leaders if k in seen}


def kind_of(i: Instruction) -> int | None:
    """What the instruction is to the timed machine; None: a plain one."""
    op = i.opcode
    if op in _LOADS:
        return {"LDS": trace.SHARED_LOAD, "LDL": trace.LOCAL_LOAD}.get(op, trace.LOAD)
    if op in _STORES:
        return {"STS": trace.SHARED_STORE, "STL": trace.LOCAL_STORE}.get(op, trace.STORE)
    if op in _REDUCTIONS:
        return trace.REDUCTION
    if op in _ATOMICS:
        return trace.SHARED_ATOMIC if op == "ATOMS" else trace.ATOMIC
    fixed = {"LDSM": trace.SHARED_LOAD, "LDGSTS": trace.ASYNC_COPY, "LDGDEPBAR": trace.LDGDEPBAR}.get(op)
    if fixed is not None:
        return fixed
    if op == "DEPBAR" and any(o.kind == "imm" for o in i.operands):
        return trace.DEPBAR
    if op == "BAR" and "ARV" not in i.modifiers:
        return trace.BARRIER
    if i.write_barrier != 7 or i.read_barrier != 7:
        return trace.FIXED
    return None


def _pipe(i: Instruction) -> str | None:
    if "MMA" in i.modifiers:
        return None
    if i.opcode in _FP64_PIPE:
        return "fp64"
    if i.opcode in _FMA_PIPE:
        return "fma"
    if i.opcode in _IMAD_PIPE:
        return "imad"
    if i.opcode in _XU_PIPE:
        return "xu"
    if i.opcode in _NO_PIPE or i.opcode.startswith(("U", "LD", "ST", "R2", "S2")):
        return None
    return "int"


class _Gap:
    """What plain instructions ask of the scheduler and the pipes until the next operation."""

    def __init__(self) -> None:
        self.reused: dict[int, int] = {}  # register that the last instruction left at each operand's place
        self.clear()

    def clear(self) -> None:
        """Start anew; what is kept for reuse stays."""
        self.n = self.stall = 0
        self.pipes = dict.fromkeys(("int", "fp64", "xu", "fma", "imad"), 0)
        self.reads = [0, 0]  # of even and odd registers

    def add(self, i: Instruction) -> None:
        """Count what the instruction asks of its pipe and of the register banks."""
        pipe = _pipe(i)
        wide = i.opcode == "IMAD" and bool({"WIDE", "HI"} & set(i.modifiers))  # both passes read the registers
        if pipe:
            self.pipes[pipe] += 1 + wide
            if pipe == "imad":
                self.pipes["fma"] += 1
        read = set()
        kept = {}
        for place, (register, keep) in enumerate(_sources(i)):
            if register is None:
                continue
            if self.reused.get(place) != register:
                read |= {register, register + 1} if pipe == "fp64" else {register}
            if keep:
                kept[place] = register
        self.reused = kept
        for register in read:
            self.reads[register % 2] += 1 + wide

    def fields(self) -> tuple[int, ...]:
        """The fields `gap_instructions` to `gap_reads` of an operation."""
        p = self.pipes
        return self.n, self.stall, p["int"], p["fp64"], p["xu"], p["fma"], p["imad"], max(self.reads)


def _sources(i: Instruction) -> list[tuple[int | None, bool]]:
    """Register (None: none) and reuse flag of each source operand that the register banks deliver; no memory access."""
    if i.opcode in _NO_READS or i.opcode.startswith("U"):
        return []
    rest = list(i.operands)
    while rest and rest[0].kind in ("pred", "upred"):
        rest.pop(0)
    if i.opcode not in _NO_REGISTER_WRITTEN and rest and rest[0].kind in ("reg", "ureg"):
        rest.pop(0)
        while rest and rest[0].kind == "pred":
            rest.pop(0)
    flags = i.encoding >> 122
    return [
        (o.index if o.kind == "reg" and o.index != RZ else None, bool(flags >> place & 1))
        for place, o in enumerate(rest[:3])
    ]


class Blocks:
    """The blocks of a program and what is known of them without running."""

    def __init__(self, program: Program) -> None:
        self.program = program
        seen, leaders = _reachable(program)
        self.spans: list[tuple[int, int]] = []
        for start in sorted(leaders):
            k, first, accesses = start, start, 0
            while k in seen:
                i = program.instructions[k]
                accesses += (
                    i.opcode in _LOADS
                    or i.opcode in _STORES
                    or i.opcode in _ATOMICS
                    or i.opcode in _REDUCTIONS
                    or i.opcode == "LDGSTS"
                )
                k += 1
                if i.opcode in _ENDS or k in leaders:
                    break
                if accesses == GLOBALS_A_BLOCK or k - first == INSTRUCTIONS_A_BLOCK:
                    self.spans.append((first, k - first))
                    first, accesses = k, 0
            if k > first:
                self.spans.append((first, k - first))
        self.leaders = np.full(len(program.instructions) + 1, -1, np.int32)
        for b, (first, _) in enumerate(self.spans):
            self.leaders[first] = b
        registers = uniforms = 0
        for i in program.instructions:
            for o in i.operands:
                if o.kind in ("reg", "addr") and o.index is not None and o.index != RZ:
                    registers = max(registers, o.index + 5)
                if o.kind == "ureg" and o.index is not None and o.index != RZ:
                    uniforms = max(uniforms, o.index + 5)
                if o.uindex is not None and o.uindex != RZ:
                    uniforms = max(uniforms, o.uindex + 5)
        self.layout = Layout(max(registers, program.registers + 4), max(uniforms, 8))
        self.accesses: list[list[int]] = []
        self.operations: list[tuple[int, ...]] = []
        self.block_first: list[int] = []
        self.block_count: list[int] = []
        self.words = 64
        self._describe()

    def _describe(self) -> None:
        """Operations of every block, and the access table in the order in which code is emitted."""
        for first, count in self.spans:
            self.block_first.append(len(self.operations))
            gap = _Gap()
            words = 0
            begin = len(self.operations)
            for k in range(first, first + count):
                i = self.program.instructions[k]
                kind = kind_of(i)
                last = k == first + count - 1
                if kind is None and not i.wait_mask and not last and gap.n < RUN - 1:
                    gap.n += 1
                    gap.stall += max(i.stall, 1)
                    gap.add(i)
                    continue
                width, flags, depth = 0, 0, 0
                if kind in MEMORY_KINDS:
                    access = self._access(i, len(self.operations) - begin)
                    width = access[ctx.O_WIDTH]
                    self.accesses.append(access)
                    words += (
                        66 if kind in (trace.LOCAL_LOAD, trace.LOCAL_STORE) else (1 if kind in _SHARED_KINDS else 34)
                    )
                    if {"GPU", "SYS", "BYPASS"} & set(i.modifiers):
                        flags |= 1
                    if "CONSTANT" in i.modifiers:
                        flags |= 2
                    if "EF" in i.modifiers:
                        flags |= 4
                elif kind == trace.DEPBAR:
                    depth = next((o.value for o in i.operands if o.kind == "imm"), 0)
                if kind in (None, trace.FIXED):
                    gap.add(i)
                else:
                    gap.reused = {}
                if i.opcode == "SHFL":
                    depth = 1  # through the data stage, as a shared-memory load without conflicts
                latency = _LATENCY.get(i.opcode, _FIXED_LATENCY) if kind == trace.FIXED else 0
                wait = i.wait_mask
                if kind == trace.DEPBAR:
                    barrier = next((o.index for o in i.operands if o.kind == "scoreboard"), None)
                    flags = 255 if barrier is None else barrier
                self.operations.append(
                    (trace.ISSUE if kind is None else kind, i.stall, wait, i.write_barrier, i.read_barrier, flags,
                     depth, width, latency, *gap.fields(), i.index)
                )  # fmt: skip
                gap.clear()
            self.words = max(self.words, words)
            self.block_count.append(len(self.operations) - begin)
        self.block_first.append(len(self.operations))
        self.block_count.append(1)
        self.operations.append((trace.EXIT, 1, 0, 7, 7, *[0] * (len(trace.OPERATION.names or ()) - 5)))

    def record_words(self, n: int) -> int:
        """Ring words that the records of block n need at most."""
        words = 0
        first = self.block_first[n]
        for operation in self.operations[first : first + self.block_count[n]]:
            kind = operation[0]
            if kind in MEMORY_KINDS:
                words += 66 if kind in (trace.LOCAL_LOAD, trace.LOCAL_STORE) else (1 if kind in _SHARED_KINDS else 34)
        return words

    def _swapped(self, i: Instruction) -> bool:
        """Whether a shared load gives the word that a compare-and-swap compares.

        Part of an atomic's loop, it races with nothing atomic.
        """
        swaps = [o for o in self.program.instructions if o.opcode == "ATOMS" and {"CAS", "CAST"} & set(o.modifiers)]
        compared = {next((o.index for o in s.operands[1:] if o.kind == "reg"), None) for s in swaps}
        return bool(swaps) and i.operands[0].index in compared

    def _access(self, i: Instruction, operation: int) -> list[int]:
        op = i.opcode
        width, signed = _width(i)
        a = [0] * ctx.O_SIZE
        a[ctx.O_INDEX], a[ctx.O_OPERATION] = i.index, operation
        if op == "LDS" and self._swapped(i):
            a[ctx.O_ATOMIC] = ctx.ATOM_CAS
        if op in _LOADS or op in _STORES:
            a[ctx.O_SPACE] = _LOADS[op] if op in _LOADS else _STORES[op]
            a[ctx.O_ACTION] = ctx.LOADS if op in _LOADS else ctx.STORES
        elif op == "LDGSTS":
            a[ctx.O_SPACE], a[ctx.O_ACTION] = ctx.GLOBAL, ctx.ASYNC
        elif op == "LDSM":
            a[ctx.O_SPACE], a[ctx.O_ACTION] = ctx.SHARED, ctx.MATRIX
            width = 16
            a[ctx.O_REGISTERS] = int(next((m for m in i.modifiers if m in ("2", "4")), "1"))
            a[ctx.O_MATRIX] = int("MT88" in i.modifiers)
        else:
            a[ctx.O_SPACE] = _REDUCTIONS.get(op, _ATOMICS.get(op, ctx.GLOBAL))
            a[ctx.O_ACTION] = ctx.REDUCTIONS if op in _REDUCTIONS else ctx.ATOMICS
            action = next((m for m in i.modifiers if m in _ACTIONS), None)
            if action is None:
                raise UnsupportedError(f"atomic not supported: {i.text} (instruction {i.index}, source line {i.line})")
            a[ctx.O_ATOMIC] = _ACTIONS[action]
            a[ctx.O_TYPE], width = _atomic_type(i)
        a[ctx.O_WIDTH], a[ctx.O_SIGNED] = width, int(signed)
        return a
