"""A kernel's SASS as one native function that runs a warp.

`run_warp(context, row)` runs the warp in that row from its saved PC until it has finished (DONE), its rings have no
room for the next block (FULL), it reaches a CTA barrier (WAIT, or ARRIVED for BAR.ARV), or something is wrong (ERROR).
Arithmetic is the emitter's and `opcodes`', control flow `control`'s; memory instructions are here.
"""

from __future__ import annotations

from llvmlite import ir

from warpsim.errors import UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend.blocks import MEMORY_KINDS, Blocks, fp_kind, kind_of
from warpsim.frontend.control import CONTROL, Control
from warpsim.frontend.emitter import Value
from warpsim.frontend.frame import I1, I32, I64, MASK, POINTER, V32, V64
from warpsim.frontend.program import RZ, Instruction, Operand, Program

__all__ = ["emit"]

_NOTHING = {
    "NOP", "YIELD", "NANOSLEEP", "PMTRIG", "MEMBAR", "ERRBAR", "CCTL", "CCTLL", "DEPBAR", "LDGDEPBAR", "PREEXIT",
    "ACQBULK", "FENCE", "CGAERRBAR",
}  # fmt: skip


class _Coder(Control):
    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks)
        self.number = 0
        for n in range(len(blocks.spans)):
            self._block(n)

    def _block(self, n: int) -> None:
        b, e = self.b, self.e
        first, count = self.blocks.spans[n]
        b.position_at_end(self.code[n])
        b.store(I32(n), self.pc)
        tail = b.load(self.block_tail, align=8, typ=I64)
        room = b.icmp_signed("<", tail, self.block_limit)
        words = self.blocks.record_words(n)
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
        self.check(b.icmp_signed("<", left, I64(0)), ctx.BUDGET, self.program.instructions[first], active)
        e.reset(b.bitcast(active, MASK))
        for k in range(first, first + count):
            i = self.program.instructions[k]
            e.lanes = 32  # the rule of a uniform instruction leaves 1
            if fp_kind(i) and i.guard is not None:
                self.bump(
                    b.inttoptr(self.word(ctx.C_FP_LANES), POINTER), i.index, self.popcount(e.lane_word(e.guard_mask(i)))
                )
            if i.opcode in _NOTHING:
                pass
            elif kind_of(i) in MEMORY_KINDS:
                self._memory(i)
            elif i.opcode in CONTROL:
                CONTROL[i.opcode](self, i)
                if b.block.is_terminated:
                    return
            else:
                e.emit(i)
        e.flush()
        self.jump(first + count)

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
        a = self.blocks.accesses[number]
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


def emit(program: Program) -> str:
    """The LLVM IR of `run_warp`; UnsupportedError names an instruction without a rule."""
    return str(_Coder(Blocks(program)).module)
