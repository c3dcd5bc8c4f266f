"""A kernel's SASS as one native function that runs a warp.

The program is cut into *blocks*: straight code between leaders (branch targets, resume points), short enough that a
block's trace records fit a ring. `run_warp(context, row)` runs the warp in that row from its saved PC until it has
finished (DONE), its rings have no room for the next block (FULL), it reaches a CTA barrier (WAIT, or ARRIVED for
BAR.ARV), or something is wrong (ERROR). Arithmetic is the emitter's and `opcodes`'; this module has control flow,
memory instructions and the static description of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from warpsim.errors import UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend import trace
from warpsim.frontend.emitter import Emitter, State, Value
from warpsim.frontend.lanes import SPECIAL_WORDS
from warpsim.frontend.program import RZ, Instruction, Operand, Program

__all__ = ["ARRIVED", "DONE", "ERROR", "FULL", "WAIT", "Code", "Layout", "build"]

DONE, FULL, WAIT, ERROR, ARRIVED = range(5)
GLOBALS_A_BLOCK = 8  # global accesses a block may have: bounds the ring space a block needs
INSTRUCTIONS_A_BLOCK = 400

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
V32 = ir.VectorType(I32, 32)
V64 = ir.VectorType(I64, 32)
MASK = ir.VectorType(I1, 32)
POINTER = ir.PointerType()

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
_NOTHING = {
    "NOP", "YIELD", "NANOSLEEP", "PMTRIG", "MEMBAR", "ERRBAR", "CCTL", "CCTLL", "DEPBAR", "LDGDEPBAR", "PREEXIT",
    "ACQBULK", "FENCE",
}  # fmt: skip
_ENDS = {"BRA", "BRX", "JMP", "JMX", "CALL", "RET", "EXIT", "BSYNC", "BAR", "WARPSYNC", "KILL"}

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
_FMA_PIPE = {"FADD", "FMUL", "FFMA", "IMAD", "FSWZADD", "IDP"}
_FP64_PIPE = {"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"}
_XU_PIPE = {"MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV"}
_NO_PIPE = {"NOP", "BRA", "EXIT", "BSSY", "BSYNC", "BAR", "S2R", "LDC", "MOV"}


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


@dataclass
class Code:
    """What a kernel is compiled from and described by: LLVM IR and static tables."""

    ir: str
    layout: Layout
    leaders: NDArray[np.int32]  # block of an instruction that begins one, else -1
    blocks: list[tuple[int, int]]  # first instruction and number of instructions
    words: int  # ring words the greediest block needs
    accesses: NDArray[np.int64]  # [n, O_SIZE]
    operations: NDArray[np.void]  # dtype OPERATION
    block_first: NDArray[np.int32]
    block_count: NDArray[np.int32]
    end_block: int  # the block of one EXIT that closes every warp's stream
    guarded_fp: set[int]  # instruction indices whose lanes are counted one by one


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


def _target(i: Instruction, program: Program) -> int:
    for o in i.operands:
        if o.kind == "label":
            return o.value
        if o.kind == "function" and o.name in program.functions:
            return program.functions[o.name]
    raise UnsupportedError(f"branch without a known target: {i.text} (instruction {i.index}, source line {i.line})")


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
            if i.opcode in ("BRA", "JMP", "CALL"):
                target = _target(i, program)
                leaders.add(target)
                todo.append(target)
            elif i.opcode in ("BRX", "JMX"):
                for target in program.branch_targets.get(k, ()):
                    leaders.add(target)
                    todo.append(target)
            if ends:
                leaders.add(following)
                always = i.guard is None and not any(o.kind in ("pred", "upred") for o in i.operands)
                if i.opcode in ("EXIT", "RET", "BRX", "JMX", "KILL") and always:
                    break
                if i.opcode in ("BRA", "JMP") and always and not {"DIV", "CONV"} & set(i.modifiers):
                    break
            k = following
    # Return addresses are moved into registers as byte offsets before a CALL: what follows it is a leader already.
    return seen, {k for k in leaders if k in seen}


class _Builder:
    def __init__(self, program: Program) -> None:
        self.program = program
        seen, leaders = _reachable(program)
        self.blocks: list[tuple[int, int]] = []
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
                    self.blocks.append((first, k - first))
                    first, accesses = k, 0
            if k > first:
                self.blocks.append((first, k - first))
        self.leaders = np.full(len(program.instructions) + 1, -1, np.int32)
        for b, (first, _) in enumerate(self.blocks):
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
        self.guarded_fp: set[int] = set()

    # Static description

    def describe(self) -> None:
        """Operations of every block, and the access table in the order in which code is emitted."""
        for first, count in self.blocks:
            self.block_first.append(len(self.operations))
            gap = dict.fromkeys(("n", "stall", "int", "fp64", "xu", "fma"), 0)
            words = 0
            begin = len(self.operations)
            for k in range(first, first + count):
                i = self.program.instructions[k]
                kind = self._kind(i)
                last = k == first + count - 1
                if kind is None and not i.wait_mask and not last:
                    gap["n"] += 1
                    gap["stall"] += max(i.stall, 1)
                    pipe = self._pipe(i)
                    if pipe:
                        gap[pipe] += 1
                    continue
                width, flags, depth = 0, 0, 0
                if kind in _MEMORY_KINDS:
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
                if kind in (None, trace.FIXED) and (pipe := self._pipe(i)):
                    gap[pipe] += 1
                latency = _LATENCY.get(i.opcode, _FIXED_LATENCY) if kind == trace.FIXED else 0
                wait = i.wait_mask
                if kind == trace.DEPBAR:
                    barrier = next((o.index for o in i.operands if o.kind == "scoreboard"), None)
                    flags = 255 if barrier is None else barrier
                self.operations.append(
                    (trace.ISSUE if kind is None else kind, i.stall, wait, i.write_barrier, i.read_barrier, flags,
                     depth, width, latency, gap["n"], gap["stall"], gap["int"], gap["fp64"], gap["xu"], gap["fma"],
                     i.index)
                )  # fmt: skip
                gap = dict.fromkeys(gap, 0)
            self.words = max(self.words, words)
            self.block_count.append(len(self.operations) - begin)
        self.block_first.append(len(self.operations))
        self.block_count.append(1)
        self.operations.append((trace.EXIT, 1, 0, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    def _kind(self, i: Instruction) -> int | None:
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

    @staticmethod
    def _pipe(i: Instruction) -> str | None:
        if i.opcode in _FMA_PIPE:
            return "fma"
        if i.opcode in _FP64_PIPE:
            return "fp64"
        if i.opcode in _XU_PIPE:
            return "xu"
        if i.opcode in _NO_PIPE or i.opcode.startswith(("U", "LD", "ST", "R2", "S2")):
            return None
        return "int"

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

    # Code

    def emit(self) -> str:
        self.module = ir.Module("kernel")
        function = ir.Function(self.module, ir.FunctionType(I64, [I64, I64]), "run_warp")
        self.function = function
        entry = function.append_basic_block("entry")
        b = self.b = ir.IRBuilder(entry)
        self.context = b.inttoptr(function.args[0], POINTER)
        self.row = function.args[1]
        state = b.add(self.word(ctx.C_STATE), b.mul(self.row, self.word(ctx.C_STATE_STRIDE)))
        self.state = b.inttoptr(state, POINTER)
        at = lambda offset: b.gep(self.state, [I64(offset)], source_etype=ir.IntType(8))  # noqa: E731
        layout = self.layout
        emitter_state = State(
            regs=at(layout.regs),
            regs_unknown=at(layout.regs_unknown),
            uregs=at(layout.uregs),
            uregs_unknown=at(layout.uregs_unknown),
            preds=at(4 * dv.PREDICATES),
            preds_unknown=at(4 * dv.PREDICATES_UNKNOWN),
            upreds=at(4 * dv.UPREDICATES),
            upreds_unknown=at(4 * dv.UPREDICATES_UNKNOWN),
            cbank=b.inttoptr(self.word(ctx.C_CBANK), POINTER),
            cbank_size=b.inttoptr(self.word(ctx.C_CBANK_SIZE), POINTER),
            special=at(layout.special),
        )
        self.addresses = self.scratch(ir.ArrayType(I64, 64), 64)
        self.data = self.scratch(ir.ArrayType(I32, 256), 64)
        self.unknown = self.scratch(ir.ArrayType(I32, 8), 32)
        self.active = b.alloca(I32)
        self.exited = b.alloca(I32)
        self.executed = b.inttoptr(self.word(ctx.C_EXECUTED), POINTER)
        self.lanes = b.inttoptr(self.word(ctx.C_LANES), POINTER)
        self.ring_mask = self.word(ctx.C_BLOCKS_MASK)
        blocks = b.add(self.word(ctx.C_BLOCKS), b.mul(b.add(self.ring_mask, I64(1)), b.mul(self.row, I64(2))))
        self.ring = b.inttoptr(blocks, POINTER)
        self.block_tail = self.slot(ctx.C_BLOCK_TAIL)
        self.word_tail = self.slot(ctx.C_WORD_TAIL)
        tracing = b.icmp_signed("!=", self.word(ctx.C_TRACE), I64(0))
        everything = I64((1 << 62) - 1)
        block_head = b.load(self.slot(ctx.C_BLOCK_HEAD), typ=I64)
        word_head = b.load(self.slot(ctx.C_WORD_HEAD), typ=I64)
        self.block_limit = b.select(tracing, b.add(block_head, self.ring_mask), everything)
        self.word_limit = b.select(tracing, b.add(word_head, self.word(ctx.C_WORDS_MASK)), everything)
        self.e = Emitter(b, emitter_state, note_unknown=self._note_unknown, note_assumption=self._note_assumption)
        b.store(self.field(dv.ACTIVE), self.active)
        b.store(self.field(dv.EXITED), self.exited)
        self.pc = b.alloca(I32)
        b.store(self.field(dv.PC), self.pc)
        self.dispatch = function.append_basic_block("dispatch")
        self.error = function.append_basic_block("error")
        self.done = function.append_basic_block("done")
        self.full = function.append_basic_block("full")
        self.code = [function.append_basic_block(f"b{n}") for n in range(len(self.blocks))]
        b.branch(self.dispatch)
        b.position_at_end(self.dispatch)
        trap = function.append_basic_block("trap")
        switch = b.switch(b.load(self.pc, typ=I32), trap)
        for n, block in enumerate(self.code):
            switch.add_case(I32(n), block)
        switch.add_case(I32(dv.FINISHED & 0xFFFFFFFF), self.done)
        b.position_at_end(trap)
        b.unreachable()
        for end, status in ((self.error, ERROR), (self.done, DONE), (self.full, FULL)):
            b.position_at_end(end)
            self.save()
            b.ret(I64(status))
        self.number = 0
        for n in range(len(self.blocks)):
            self._block(n)
        return str(self.module)

    def scratch(self, typ: ir.Type, align: int) -> ir.Value:
        place = self.b.alloca(typ)
        place.align = align
        place.type = POINTER  # opaque: it is used for vectors and scalars
        return place

    def word(self, index: int) -> ir.Value:
        return self.b.load(self.b.gep(self.context, [I64(index)], source_etype=I64), align=8, typ=I64)

    def slot(self, index: int) -> ir.Value:
        """Pointer to this row's element of a 64-bit array of the context."""
        return self.b.gep(self.b.inttoptr(self.word(index), POINTER), [self.row], source_etype=I64)

    def place(self, word: int | ir.Value) -> ir.Value:
        return self.b.gep(self.state, [I64(word) if isinstance(word, int) else word], source_etype=I32)

    def field(self, word: int) -> ir.Value:
        return self.b.load(self.place(word), align=4, typ=I32)

    def save(self) -> None:
        b = self.b
        b.store(b.load(self.pc, typ=I32), self.place(dv.PC))
        b.store(b.load(self.active, typ=I32), self.place(dv.ACTIVE))
        b.store(b.load(self.exited, typ=I32), self.place(dv.EXITED))

    def bump(self, base: ir.Value, index: int, amount: ir.Value) -> None:
        b = self.b
        p = b.gep(base, [I64(index)], source_etype=I64)
        b.store(b.add(b.load(p, align=8, typ=I64), amount), p, align=8)

    def popcount(self, mask: ir.Value) -> ir.Value:
        return self.b.zext(self.b.ctpop(mask), I64)

    def _note_unknown(self, i: Instruction, lanes: ir.Value) -> None:
        origin = self.b.inttoptr(self.word(ctx.C_NOTES), POINTER)
        self.b.store(I64(1), self.b.gep(origin, [I64(i.index)], source_etype=I64), align=8)

    def _note_assumption(self, i: Instruction, lanes: ir.Value) -> None:
        b = self.b
        some = self.e.any_lane(lanes) if lanes.type.count == 32 else b.extract_element(lanes, I32(0))
        p = b.gep(b.inttoptr(self.word(ctx.C_NOTES), POINTER), [I64(i.index)], source_etype=I64)
        b.store(b.or_(b.load(p, align=8, typ=I64), b.select(some, I64(2), I64(0))), p, align=8)

    def _block(self, n: int) -> None:
        b, e = self.b, self.e
        first, count = self.blocks[n]
        b.position_at_end(self.code[n])
        b.store(I32(n), self.pc)
        tail = b.load(self.block_tail, align=8, typ=I64)
        room = b.icmp_signed("<", tail, self.block_limit)
        words = self._block_words(n)
        if words:
            after = b.add(b.load(self.word_tail, align=8, typ=I64), I64(words))
            room = b.and_(room, b.icmp_signed("<=", after, self.word_limit))
        go = self.function.append_basic_block(f"b{n}.go")
        b.cbranch(room, go, self.full)
        b.position_at_end(go)
        b.store(
            ir.Constant(ir.IntType(16), n),
            b.gep(self.ring, [b.and_(tail, self.ring_mask)], source_etype=ir.IntType(16)),
            align=2,
        )
        b.store(b.add(tail, I64(1)), self.block_tail, align=8)
        active = b.load(self.active, typ=I32)
        self.bump(self.executed, n, I64(1))
        self.bump(self.lanes, n, self.popcount(active))
        budget = self.place(dv.BUDGET_WORD)
        left = b.sub(b.load(budget, align=8, typ=I64), I64(count))
        b.store(left, budget, align=8)
        self.check(b.icmp_signed("<", left, I64(0)), ctx.BUDGET, self.program.instructions[first], I32(0))
        e.reset(b.bitcast(active, MASK))
        self.next = n + 1
        for k in range(first, first + count):
            i = self.program.instructions[k]
            e.lanes = 32  # the rule of a uniform instruction leaves 1
            if fp_kind(i) and i.guard is not None:
                self.guarded_fp.add(i.index)
                self.bump(
                    b.inttoptr(self.word(ctx.C_FP_LANES), POINTER), i.index, self.popcount(e.lane_word(e.guard_mask(i)))
                )
            if i.opcode in _NOTHING:
                pass
            elif self._kind(i) in _MEMORY_KINDS:
                self._memory(i)
            elif i.opcode in _CONTROL:
                _CONTROL[i.opcode](self, i)
                if b.block.is_terminated:
                    return
            else:
                e.emit(i)
        e.flush()
        self.jump(first + count)

    def _block_words(self, n: int) -> int:
        words = 0
        first = self.block_first[n]
        for operation in self.operations[first : first + self.block_count[n]]:
            kind = operation[0]
            if kind in _MEMORY_KINDS:
                words += 66 if kind in (trace.LOCAL_LOAD, trace.LOCAL_STORE) else (1 if kind in _SHARED_KINDS else 34)
        return words

    def jump(self, instruction: int) -> None:
        block = int(self.leaders[instruction]) if instruction < len(self.leaders) else -1
        if block < 0:
            raise UnsupportedError(f"code runs past instruction {instruction - 1} of {self.program.entry}")
        self.b.branch(self.code[block])

    # Checks

    def check(self, wrong: ir.Value, kind: int, i: Instruction, lanes: ir.Value, extra: int = 0) -> None:
        """Leave with an error if `wrong` (i1) holds; `lanes` is an i32 mask whose first lane is named."""
        b = self.b
        bad = self.function.append_basic_block("bad")
        good = self.function.append_basic_block("good")
        b.cbranch(wrong, bad, good)
        b.position_at_end(bad)
        record = b.inttoptr(self.word(ctx.C_ERROR), POINTER)
        lane = b.zext(b.cttz(lanes, I1(0)), I64)
        for column, value in (
            (ctx.E_INDEX, I64(i.index)),
            (ctx.E_LANE, lane),
            (ctx.E_ROW, self.row),
            (ctx.E_EXTRA, I64(extra)),
            (ctx.E_KIND, I64(kind)),
        ):
            b.store(value, b.gep(record, [I64(column)], source_etype=I64), align=8)
        b.branch(self.error)
        b.position_at_end(good)

    def check_known(self, unknown: ir.Value | None, i: Instruction, kind: int) -> None:
        if unknown is not None:
            lanes = self.e.lane_word(unknown)
            self.check(self.b.icmp_unsigned("!=", lanes, I32(0)), kind, i, lanes)

    def condition(self, i: Instruction) -> ir.Value:
        """The i32 mask of active lanes in which guard and predicate operands hold; unknown ones are an error."""
        b, e = self.b, self.e
        mask = e.guard_mask(i)
        self.check_known(e.guard_unknown(i), i, ctx.UNKNOWN_BRANCH)
        for o in i.operands:
            if o.kind in ("pred", "upred"):
                value = e.widen(e.predicate(o)) if o.kind == "upred" else e.predicate(o)
                if value.unknown is not None:
                    self.check_known(b.and_(mask, value.unknown), i, ctx.UNKNOWN_BRANCH)
                mask = b.and_(mask, value.bits)
        return e.lane_word(mask)

    # Control flow; every rule ends its block

    def call_diverge(self, kind: int, argument: int, mask: ir.Value, back: ir.BasicBlock | None = None) -> None:
        b = self.b
        self.save()
        typ = ir.FunctionType(I64, [I64, I64, I64, I64, I32, POINTER])
        callee = b.inttoptr(self.word(ctx.C_DIVERGE), typ.as_pointer())
        wrong = b.call(callee, [self.function.args[0], self.row, I64(kind), I64(argument), mask, self.addresses])
        reload = self.function.append_basic_block("reload")
        b.cbranch(b.icmp_signed("!=", wrong, I64(0)), self.error, reload)
        b.position_at_end(reload)
        if back is not None:
            b.branch(back)
            return
        b.store(self.field(dv.PC), self.pc)
        b.store(self.field(dv.ACTIVE), self.active)
        b.branch(self.dispatch)

    def split(self, taken: ir.Value, target: ir.BasicBlock, target_number: int, otherwise: int | None) -> None:
        """Branch: all, none or some of the active lanes go to `target`, the others to instruction `otherwise`."""
        b = self.b
        active = b.load(self.active, typ=I32)
        if otherwise is None:
            b.branch(target)
            return
        some = self.function.append_basic_block("some")
        part = self.function.append_basic_block("part")
        fall = self.code[int(self.leaders[otherwise])]
        b.cbranch(b.icmp_unsigned("==", taken, I32(0)), fall, some)
        b.position_at_end(some)
        b.cbranch(b.icmp_unsigned("==", taken, active), target, part)
        b.position_at_end(part)
        depth = self.field(dv.DEPTH)
        at = b.add(I64(dv.STACK), b.shl(b.zext(depth, I64), I64(1)))
        b.store(I32(target_number), self.place(at), align=4)
        b.store(taken, self.place(b.add(at, I64(1))), align=4)
        b.store(b.add(depth, I32(1)), self.place(dv.DEPTH), align=4)
        b.store(b.and_(active, b.not_(taken)), self.active)
        b.branch(fall)

    def _bra(self, i: Instruction) -> None:
        b, e = self.b, self.e
        target = int(self.leaders[_target(i, self.program)])
        if "DIV" in i.modifiers or "CONV" in i.modifiers:
            # Taken where the active lanes are not those of the register.
            o = next(o for o in i.operands if o.kind == "ureg")
            assert o.index is not None
            want = b.extract_element(e.read_uniform(o.index).bits, I32(0))
            mask = self.condition(i)
            differs = b.icmp_unsigned("!=", b.load(self.active, typ=I32), want)
            if "CONV" in i.modifiers:
                differs = b.not_(differs)
            taken = b.select(differs, mask, I32(0))
            always = False
        else:
            taken = self.condition(i)
            always = i.guard is None and not any(o.kind in ("pred", "upred") for o in i.operands)
        e.flush()
        self.split(taken, self.code[target], target, None if always else i.index + 1)

    def _call(self, i: Instruction) -> None:
        if not any(o.kind in ("label", "function") for o in i.operands):
            raise UnsupportedError(
                f"indirect call not supported: {i.text} (instruction {i.index}, source line {i.line})"
            )
        self._bra(i)

    def _indirect(self, i: Instruction) -> None:
        """RET and BRX: each lane's target is a register's value plus a constant."""
        b, e = self.b, self.e
        taken = self.condition(i)
        register = next((o for o in i.operands if o.kind in ("reg", "addr") and o.index is not None), None)
        if register is None:
            raise UnsupportedError(f"branch without a register: {i.text} (instruction {i.index}, source line {i.line})")
        assert register.index is not None
        value = e.read(register.index)
        if value.unknown is not None:
            self.check_known(b.and_(b.bitcast(taken, MASK), value.unknown), i, ctx.UNKNOWN_BRANCH)
        offset = 0
        if i.opcode == "RET":
            name = next((o for o in i.operands if o.kind in ("label", "function")), None)
            if name is not None:
                offset = 16 * (name.value if name.kind == "label" else self.program.functions.get(name.name, 0))
            lanes = b.zext(value.bits, V64)
        else:
            offset = 16 * (i.index + 1) + register.value
            offset += sum(_signed(o.value) for o in i.operands if o.kind == "imm")
            lanes = b.sext(value.bits, V64)
        lanes = b.add(lanes, e.splat(I64(offset), 32))
        b.store(lanes, self.addresses, align=64)
        e.flush()
        if i.guard is not None:
            some = self.function.append_basic_block("jumps")
            fall = self.code[int(self.leaders[i.index + 1])]
            b.cbranch(b.icmp_unsigned("==", taken, I32(0)), fall, some)
            b.position_at_end(some)
            stay = b.and_(b.load(self.active, typ=I32), b.not_(taken))
            both = self.function.append_basic_block("both")
            jump = self.function.append_basic_block("jump")
            b.cbranch(b.icmp_unsigned("==", stay, I32(0)), jump, both)
            b.position_at_end(both)
            depth = self.field(dv.DEPTH)
            at = b.add(I64(dv.STACK), b.shl(b.zext(depth, I64), I64(1)))
            b.store(I32(int(self.leaders[i.index + 1])), self.place(at), align=4)
            b.store(stay, self.place(b.add(at, I64(1))), align=4)
            b.store(b.add(depth, I32(1)), self.place(dv.DEPTH), align=4)
            b.branch(jump)
            b.position_at_end(jump)
        self.call_diverge(dv.JUMP, i.index, taken)

    def _exit(self, i: Instruction) -> None:
        b, e = self.b, self.e
        leaving = self.condition(i)
        e.flush()
        b.store(b.or_(b.load(self.exited, typ=I32), leaving), self.exited)
        left = b.and_(b.load(self.active, typ=I32), b.not_(leaving))
        b.store(left, self.active)
        over = self.function.append_basic_block("over")
        if i.guard is not None:
            b.cbranch(b.icmp_unsigned("!=", left, I32(0)), self.code[int(self.leaders[i.index + 1])], over)
        else:
            b.branch(over)
        b.position_at_end(over)
        self.call_diverge(dv.NEXT, 0, I32(0))

    def _bssy(self, i: Instruction) -> None:
        o = next(o for o in i.operands if o.kind == "barrier")
        assert o.index is not None
        self.b.store(self.e.lane_word(self.e.guard_mask(i)), self.place(dv.BARRIERS + o.index), align=4)

    def _bsync(self, i: Instruction) -> None:
        b, e = self.b, self.e
        o = next(o for o in i.operands if o.kind == "barrier")
        assert o.index is not None
        following = int(self.leaders[i.index + 1])
        mask = self.condition(i)
        e.flush()
        active = b.load(self.active, typ=I32)
        whole = b.and_(self.field(dv.BARRIERS + o.index), b.not_(b.load(self.exited, typ=I32)))
        here = b.icmp_unsigned("==", whole, active)
        if i.guard is not None:
            here = b.or_(here, b.icmp_unsigned("==", mask, I32(0)))
        wait = self.function.append_basic_block("wait")
        b.cbranch(here, self.code[following], wait)
        b.position_at_end(wait)
        self.call_diverge(dv.ARRIVE, following << 4 | o.index, active)

    def _break(self, i: Instruction) -> None:
        b = self.b
        o = next(o for o in i.operands if o.kind == "barrier")
        assert o.index is not None
        mask = self.condition(i)
        self.e.flush()
        some = self.function.append_basic_block("break")
        after = self.function.append_basic_block("after")
        b.cbranch(b.icmp_unsigned("==", mask, I32(0)), after, some)
        b.position_at_end(some)
        self.call_diverge(dv.RELEASE, o.index, mask, after)
        b.position_at_end(after)

    def _warpsync(self, i: Instruction) -> None:
        b, e = self.b, self.e
        following = int(self.leaders[i.index + 1])
        if "ALL" in i.modifiers:
            need: ir.Value = I32(0xFFFFFFFF)
        else:
            o = next((o for o in i.operands if o.kind in ("reg", "ureg", "imm", "const")), None)
            if o is None:
                raise UnsupportedError(
                    f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})"
                )
            need = I32(o.value) if o.kind == "imm" else self._uniform(e.widen(e.source(o)), i)
        if {"COLLECTIVE"} & set(i.modifiers):
            raise UnsupportedError(f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})")
        e.flush()
        active = b.load(self.active, typ=I32)
        whole = b.and_(need, b.not_(b.load(self.exited, typ=I32)))
        wait = self.function.append_basic_block("wait")
        b.cbranch(b.icmp_unsigned("==", whole, active), self.code[following], wait)
        b.position_at_end(wait)
        b.store(b.zext(need, I64), self.addresses, align=8)
        self.call_diverge(dv.WARP, following, active)

    def _uniform(self, value: Value, i: Instruction) -> ir.Value:
        """The value of the first active lane."""
        b = self.b
        if value.unknown is not None:
            self.check_known(b.and_(value.unknown, self.e.active), i, ctx.UNKNOWN_BRANCH)
        lane = b.cttz(self.e.lane_word(self.e.active), I1(0))
        return b.extract_element(value.bits, b.and_(lane, I32(31)))

    def _bar(self, i: Instruction) -> None:
        b, e = self.b, self.e
        following = int(self.leaders[i.index + 1])
        mask = self.condition(Instruction(**{**{s: getattr(i, s) for s in i.__slots__}, "operands": ()}))
        numbers = [o for o in i.operands if o.kind in ("imm", "reg", "ureg", "const")]
        values = [I32(o.value) if o.kind == "imm" else self._uniform(e.widen(e.source(o)), i) for o in numbers]
        vote: ir.Value = I32(0)
        if "RED" in i.modifiers:
            o = next(o for o in i.operands if o.kind == "pred")
            p = e.predicate(o)
            if p.unknown is not None:
                self.check_known(b.and_(p.unknown, e.active), i, ctx.UNKNOWN_BRANCH)
            vote = e.lane_word(b.and_(p.bits, e.active))
            mode = dv.VOTE_COUNT if "POPC" in i.modifiers else (dv.VOTE_AND if "AND" in i.modifiers else dv.VOTE_OR)
        else:
            mode = dv.VOTE_NONE
        e.flush()
        if i.guard is not None:
            some = self.function.append_basic_block("bar")
            b.cbranch(b.icmp_unsigned("==", mask, I32(0)), self.code[following], some)
            b.position_at_end(some)
        whole = b.not_(b.load(self.exited, typ=I32))
        strays = b.and_(whole, b.not_(mask))
        self.check(b.icmp_unsigned("!=", strays, I32(0)), ctx.DIVERGENT_BARRIER, i, strays)
        b.store(values[0] if values else I32(0), self.place(dv.BAR_ID), align=4)
        b.store(values[1] if len(values) > 1 else I32(0), self.place(dv.BAR_THREADS), align=4)
        b.store(vote, self.place(dv.BAR_VOTE), align=4)
        b.store(I32(mode), self.place(dv.BAR_MODE), align=4)
        b.store(I32(following), self.pc)
        self.save()
        b.ret(I64(ARRIVED if "ARV" in i.modifiers else WAIT))

    def _b2r(self, i: Instruction) -> None:
        """B2R.RESULT: what the last BAR.RED of the CTA found, popcount in a register or and/or in a predicate."""
        b, e = self.b, self.e
        if "RESULT" not in i.modifiers:
            raise UnsupportedError(f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})")
        votes = b.inttoptr(self.word(ctx.C_VOTES), POINTER)
        slot = b.sdiv(self.row, self.word(ctx.C_WARPS))

        def take(k: int) -> ir.Value:
            at = b.gep(votes, [b.add(b.mul(slot, I64(4)), I64(k))], source_etype=I64)
            return b.trunc(b.load(at, align=8, typ=I64), I32)

        mask = e.guard_mask(i)
        for o in i.operands:
            if o.kind == "reg" and o.index is not None:
                e.write(o.index, Value(e.splat(take(0), 32)), mask)
            elif o.kind == "pred":
                e.write_predicate(o, Value(e.splat(b.icmp_unsigned("!=", take(1), I32(0)), 32)), mask)

    def _bmov(self, i: Instruction) -> None:
        b, e = self.b, self.e
        target, source = i.operands[0], i.operands[1]
        if target.kind == "barrier" and target.index is not None:
            value = I32(source.value) if source.kind == "imm" else self._uniform(e.widen(e.source(source)), i)
            b.store(value, self.place(dv.BARRIERS + target.index), align=4)
        elif source.kind == "barrier" and source.index is not None and target.index is not None:
            e.write(target.index, Value(e.splat(self.field(dv.BARRIERS + source.index), 32)), e.guard_mask(i))
            if "CLEAR" in i.modifiers:
                b.store(I32(0), self.place(dv.BARRIERS + source.index), align=4)
        else:
            raise UnsupportedError(f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})")

    # Memory

    def _address(self, o: Operand, space: int) -> Value:
        """<32 x i64> of an address operand."""
        b, e = self.b, self.e
        unknown: list[Value] = []
        if o.index is None or o.index == RZ:
            lanes: ir.Value = e.splat(I64(0), 32)
        elif o.width64 and space in (ctx.GLOBAL, ctx.GENERIC):
            base = e.read64(o.index)
            lanes = base.bits
            unknown.append(base)
        else:
            base = e.read(o.index)
            lanes = b.zext(base.bits, V64)
            unknown.append(base)
        if o.scale != 1:
            lanes = b.mul(lanes, e.splat(I64(o.scale), 32))
        if o.uindex is not None and o.uindex != RZ:
            uniform = e.widen(
                e.read_uniform64(o.uindex) if space in (ctx.GLOBAL, ctx.GENERIC) else e.read_uniform(o.uindex)
            )
            bits = uniform.bits if uniform.bits.type.element == I64 else b.zext(uniform.bits, V64)
            lanes = b.add(lanes, bits)
            unknown.append(uniform)
        if o.value:
            lanes = b.add(lanes, e.splat(I64(o.value), 32))
        return Value(lanes, e.unknown(*unknown))

    def _memory(self, i: Instruction) -> None:
        b, e = self.b, self.e
        number = self.number
        self.number += 1
        a = self.accesses[number]
        assert a[ctx.O_INDEX] == i.index
        action, width, space = a[ctx.O_ACTION], a[ctx.O_WIDTH], a[ctx.O_SPACE]
        registers = max(width // 4, 1)
        self.check_known(e.guard_unknown(i), i, ctx.UNKNOWN_GUARD)
        mask = e.guard_mask(i)
        places = [k for k, o in enumerate(i.operands) if o.kind == "addr"]
        if not places:
            raise UnsupportedError(
                f"memory instruction without an address: {i.text} (instruction {i.index}, source line {i.line})"
            )
        address = self._address(i.operands[places[-1]], space)
        b.store(address.bits, self.addresses, align=64)
        hidden = address.unknown
        e.lanes = 32
        store: list[tuple[int, Value]] = []  # (row of data, value)
        after = [o for o in i.operands[places[-1] + 1 :] if o.kind in ("reg", "ureg", "imm", "const")]
        target = next((o for o in i.operands[: places[0]] if o.kind == "reg"), None)
        if action == ctx.ASYNC:
            shared = self._address(i.operands[places[0]], ctx.SHARED)
            b.store(shared.bits, b.gep(self.addresses, [I64(32)], source_etype=I64), align=64)
            if shared.unknown is not None:
                hidden = shared.unknown if hidden is None else b.or_(hidden, shared.unknown)
            skip: ir.Value = I32(0)
            for o in i.operands[places[-1] + 1 :]:
                if o.kind == "pred":
                    p = e.predicate(o)
                    if p.unknown is not None:
                        self.check_known(b.and_(p.unknown, mask), i, ctx.UNKNOWN_GUARD)
                    skip = e.lane_word(b.not_(p.bits))
            b.store(skip, b.gep(self.data, [I64(255)], source_etype=I32), align=4)
        elif action in (ctx.STORES, ctx.ATOMICS, ctx.REDUCTIONS):
            operands = (
                after[:2] if a[ctx.O_ATOMIC] in (ctx.ATOM_CAS, ctx.ATOM_CAST) and action == ctx.ATOMICS else after[:1]
            )
            for place, o in enumerate(operands):
                store.extend((4 * place + k, self._data(o, k)) for k in range(registers))
        unknown: dict[int, Value] = {}
        for place, value in store:
            b.store(value.bits, b.gep(self.data, [I64(32 * place)], source_etype=I32), align=64)
            if value.unknown is not None:
                unknown[place] = value
        b.store(ir.Constant(ir.VectorType(I32, 8), None), self.unknown, align=32)
        for place, value in unknown.items():
            b.store(e.lane_word(value.unknown), b.gep(self.unknown, [I64(place)], source_etype=I32), align=4)
        typ = ir.FunctionType(I64, [I64, I64, I64, POINTER, I32, I32, POINTER, POINTER])
        callee = b.inttoptr(self.word(ctx.C_ACCESS + (ctx.COPY if action == ctx.ASYNC else space)), typ.as_pointer())
        hidden_word = I32(0) if hidden is None else e.lane_word(hidden)
        wrong = b.call(
            callee,
            [
                self.function.args[0],
                self.row,
                I64(number),
                self.addresses,
                e.lane_word(mask),
                hidden_word,
                self.data,
                self.unknown,
            ],
        )
        good = self.function.append_basic_block("accessed")
        b.cbranch(b.icmp_signed("!=", wrong, I64(0)), self.error, good)
        b.position_at_end(good)
        if action in (ctx.LOADS, ctx.ATOMICS, ctx.MATRIX) and target is not None and target.index != RZ:
            assert target.index is not None
            for k in range(a[ctx.O_REGISTERS] if action == ctx.MATRIX else registers):
                bits = b.load(b.gep(self.data, [I64(32 * k)], source_etype=I32), align=64, typ=V32)
                lanes = b.load(b.gep(self.unknown, [I64(k)], source_etype=I32), align=4, typ=I32)
                e.write(target.index + k, Value(bits, b.bitcast(lanes, MASK)), mask)
        if action == ctx.ATOMICS:
            # A predicate result says that the operation took place: always, but for a compare-and-swap.
            for o in i.operands[: places[0]]:
                if o.kind == "pred" and o.index != 7:
                    bits = b.load(self.data, align=64, typ=V32)
                    lanes = b.load(self.unknown, align=4, typ=I32)
                    swapped = (
                        b.icmp_unsigned("!=", bits, e.constant(0))
                        if a[ctx.O_ATOMIC] == ctx.ATOM_CAST
                        else e.constant(1, I1)
                    )
                    e.write_predicate(
                        o, Value(swapped, b.bitcast(lanes, MASK) if a[ctx.O_ATOMIC] == ctx.ATOM_CAST else None), mask
                    )

    def _data(self, o: Operand, k: int) -> Value:
        """Register k of a store's or atomic's operand."""
        e = self.e
        if o.kind == "reg" and o.index is not None:
            return e.read(o.index if o.index == RZ else o.index + k)
        if o.kind == "ureg" and o.index is not None:
            return e.widen(e.read_uniform(o.index if o.index == RZ else o.index + k))
        return e.widen(e.source(o))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 & 1 and value < 1 << 32 else value


_MEMORY_KINDS = {
    trace.LOAD, trace.STORE, trace.ATOMIC, trace.REDUCTION, trace.SHARED_LOAD, trace.SHARED_STORE, trace.SHARED_ATOMIC,
    trace.LOCAL_LOAD, trace.LOCAL_STORE, trace.ASYNC_COPY,
}  # fmt: skip
_SHARED_KINDS = {trace.SHARED_LOAD, trace.SHARED_STORE, trace.SHARED_ATOMIC}
_CONTROL = {
    "BRA": _Builder._bra,
    "JMP": _Builder._bra,
    "CALL": _Builder._call,
    "RET": _Builder._indirect,
    "BRX": _Builder._indirect,
    "EXIT": _Builder._exit,
    "BSSY": _Builder._bssy,
    "BSYNC": _Builder._bsync,
    "BREAK": _Builder._break,
    "WARPSYNC": _Builder._warpsync,
    "BAR": _Builder._bar,
    "B2R": _Builder._b2r,
    "BMOV": _Builder._bmov,
}


def build(program: Program) -> Code:
    """Translate a program; UnsupportedError names an instruction without a rule."""
    builder = _Builder(program)
    builder.describe()
    text = builder.emit()
    return Code(
        ir=text,
        layout=builder.layout,
        leaders=builder.leaders,
        blocks=builder.blocks,
        words=builder.words,
        accesses=np.array(builder.accesses, np.int64).reshape(-1, ctx.O_SIZE),
        operations=np.array(builder.operations, trace.OPERATION),
        block_first=np.array(builder.block_first, np.int32),
        block_count=np.array(builder.block_count, np.int32),
        end_block=len(builder.blocks),
        guarded_fp=builder.guarded_fp,
    )
