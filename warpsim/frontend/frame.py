"""The frame of a kernel's native code: LLVM IR that reaches a warp's state, its rings and the context, and checks."""

from __future__ import annotations

from llvmlite import ir

from warpsim.errors import UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend.blocks import DONE, ERROR, FULL, Blocks
from warpsim.frontend.emitter import Emitter, State, Value
from warpsim.frontend.program import Instruction

__all__ = ["I1", "I32", "I64", "MASK", "POINTER", "V32", "V64", "Frame"]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
V32 = ir.VectorType(I32, 32)
V64 = ir.VectorType(I64, 32)
MASK = ir.VectorType(I1, 32)
POINTER = ir.PointerType()


class Frame:
    """The function `run_warp` up to its dispatch: what the rules of instructions build on."""

    def __init__(self, blocks: Blocks) -> None:
        self.program = blocks.program
        self.blocks = blocks
        self.leaders = blocks.leaders
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
        layout = blocks.layout
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
        ring = b.add(self.word(ctx.C_BLOCKS), b.mul(b.add(self.ring_mask, I64(1)), b.mul(self.row, I64(2))))
        self.ring = b.inttoptr(ring, POINTER)
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
        self.code = [function.append_basic_block(f"b{n}") for n in range(len(blocks.spans))]
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

    def scratch(self, typ: ir.Type, align: int) -> ir.Value:
        """Memory of the warp's stack."""
        place = self.b.alloca(typ)
        place.align = align
        place.type = POINTER  # opaque: it is used for vectors and scalars
        return place

    def word(self, index: int) -> ir.Value:
        """A 64-bit word of the context."""
        return self.b.load(self.b.gep(self.context, [I64(index)], source_etype=I64), align=8, typ=I64)

    def slot(self, index: int) -> ir.Value:
        """Pointer to this row's element of a 64-bit array of the context."""
        return self.b.gep(self.b.inttoptr(self.word(index), POINTER), [self.row], source_etype=I64)

    def place(self, word: int | ir.Value) -> ir.Value:
        """Pointer to a 32-bit word of the warp's state."""
        return self.b.gep(self.state, [I64(word) if isinstance(word, int) else word], source_etype=I32)

    def field(self, word: int) -> ir.Value:
        """A 32-bit word of the warp's state."""
        return self.b.load(self.place(word), align=4, typ=I32)

    def save(self) -> None:
        """Write PC, active and exited lanes back to the warp's state."""
        b = self.b
        b.store(b.load(self.pc, typ=I32), self.place(dv.PC))
        b.store(b.load(self.active, typ=I32), self.place(dv.ACTIVE))
        b.store(b.load(self.exited, typ=I32), self.place(dv.EXITED))

    def bump(self, base: ir.Value, index: int, amount: ir.Value) -> None:
        """Add to a 64-bit counter."""
        b = self.b
        p = b.gep(base, [I64(index)], source_etype=I64)
        b.store(b.add(b.load(p, align=8, typ=I64), amount), p, align=8)

    def popcount(self, mask: ir.Value) -> ir.Value:
        """How many lanes an i32 mask has, as i64."""
        return self.b.zext(self.b.ctpop(mask), I64)

    def _note_unknown(self, i: Instruction, lanes: ir.Value) -> None:
        origin = self.b.inttoptr(self.word(ctx.C_NOTES), POINTER)
        self.b.store(I64(1), self.b.gep(origin, [I64(i.index)], source_etype=I64), align=8)

    def _note_assumption(self, i: Instruction, lanes: ir.Value) -> None:
        b = self.b
        some = self.e.any_lane(lanes) if lanes.type.count == 32 else b.extract_element(lanes, I32(0))
        p = b.gep(b.inttoptr(self.word(ctx.C_NOTES), POINTER), [I64(i.index)], source_etype=I64)
        b.store(b.or_(b.load(p, align=8, typ=I64), b.select(some, I64(2), I64(0))), p, align=8)

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
        """Leave with an error if a lane of `unknown` is set."""
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

    def uniform(self, value: Value, i: Instruction) -> ir.Value:
        """The value of the first active lane."""
        b = self.b
        if value.unknown is not None:
            self.check_known(b.and_(value.unknown, self.e.active), i, ctx.UNKNOWN_BRANCH)
        lane = b.cttz(self.e.lane_word(self.e.active), I1(0))
        return b.extract_element(value.bits, b.and_(lane, I32(31)))

    def jump(self, instruction: int) -> None:
        """Go on at an instruction that begins a block."""
        block = int(self.leaders[instruction]) if instruction < len(self.leaders) else -1
        if block < 0:
            raise UnsupportedError(f"code runs past instruction {instruction - 1} of {self.program.entry}")
        self.b.branch(self.code[block])
