"""Control flow as LLVM IR: branches, convergence barriers, CTA barriers, exits."""

from __future__ import annotations

from llvmlite import ir

from warpsim.errors import UnsupportedError
from warpsim.frontend import context as ctx
from warpsim.frontend import divergence as dv
from warpsim.frontend.blocks import ARRIVED, WAIT, is_indirect_call, target_of
from warpsim.frontend.emitter import Value
from warpsim.frontend.frame import I1, I32, I64, MASK, POINTER, V32, V64, Frame
from warpsim.frontend.program import Instruction

__all__ = ["CONTROL", "Control"]

RESULT_REGISTER = 4  # of functions that return a word


class Control(Frame):
    """Rules of the instructions that choose what runs next; most end their block."""

    def call_diverge(self, kind: int, argument: int, mask: ir.Value, back: ir.BasicBlock | None = None) -> None:
        """Let `divergence` choose the split to run next, or go on at `back` where it is given."""
        b = self.b
        common = kind in (dv.NEXT, dv.ARRIVE)
        assert common or any(i.opcode in dv.REGROUPING for i in self.program.instructions)
        self.save()
        typ = ir.FunctionType(I64, [I64, I64, I64, I64, I32, POINTER])
        callee = b.inttoptr(self.word(ctx.C_DIVERGE if common else ctx.C_REGROUP), typ.as_pointer())
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

    def call_at(self, i: Instruction, kind: int, argument: int, mask: ir.Value) -> None:
        """`call_diverge` for what is counted again when it is issued again."""
        self.b.store(I32(i.index), self.place(dv.INDEX), align=4)
        self.call_diverge(kind, argument, mask)

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
        target = int(self.leaders[target_of(i, self.program)])
        if "DIV" in i.modifiers or "CONV" in i.modifiers:
            # Taken by all where the lanes in which the guard holds are not those of the register: the guard is false
            # where R2UR found lanes that have different masks.
            o = next(o for o in i.operands if o.kind == "ureg")
            assert o.index is not None
            want = b.extract_element(e.read_uniform(o.index).bits, I32(0))
            want = b.and_(want, b.not_(b.load(self.exited, typ=I32)))  # nor do lanes that a CTA lacks count
            differs = b.icmp_unsigned("!=", self.condition(i), want)
            if "CONV" in i.modifiers:
                differs = b.not_(differs)
            taken = b.select(differs, b.load(self.active, typ=I32), I32(0))
            always = False
        else:
            taken = self.condition(i)
            always = i.guard is None and not any(o.kind in ("pred", "upred") for o in i.operands)
        e.flush()
        self.split(taken, self.code[target], target, None if always else i.index + 1)

    def _call(self, i: Instruction) -> None:
        if not is_indirect_call(i, self.program):
            self._bra(i)
            return
        register = next((o for o in i.operands if o.kind == "reg" and o.index is not None), None)
        if register is None:
            raise UnsupportedError(f"call of unknown code: {i.text} (instruction {i.index}, source line {i.line})")
        assert register.index is not None
        b, e = self.b, self.e
        taken = self.condition(i)
        target = e.read64(register.index)
        if target.unknown is not None:
            self.check_known(b.and_(b.bitcast(taken, MASK), target.unknown), i, ctx.UNKNOWN_BRANCH)
        b.store(target.bits, self.addresses, align=64)
        e.flush()
        if "REL" in i.modifiers:  # a function pointer counts from the kernel's first byte
            self._go(i, taken, dv.JUMP, i.index)
            return
        result = self.blocks.layout.regs_unknown // 4 + RESULT_REGISTER
        self._go(i, taken, dv.DRIVER, result << 32 | i.index)

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
        self._go(i, taken, dv.JUMP, i.index)

    def _go(self, i: Instruction, taken: ir.Value, kind: int, argument: int) -> None:
        """Let lanes go where `self.addresses` says; others of a guarded instruction go on behind it."""
        b = self.b
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
        self.call_diverge(kind, argument, taken)

    def _trap(self, i: Instruction) -> None:
        """BPT.TRAP, __trap(): the kernel stops with an error."""
        if "TRAP" not in i.modifiers:
            raise UnsupportedError(f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})")
        mask = self.condition(i)
        self.check(self.b.icmp_unsigned("!=", mask, I32(0)), ctx.TRAP, i, mask)

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

    def write_barrier(self, number: int, lanes: ir.Value, mask: ir.Value) -> None:
        """Set which lanes meet there, for the lanes of a mask."""
        b, place = self.b, self.place(dv.BARRIERS + 32 * number)
        b.store(b.select(mask, lanes, b.load(place, align=64, typ=V32)), place, align=64)

    def _bssy(self, i: Instruction) -> None:
        o = next(o for o in i.operands if o.kind == "barrier")
        assert o.index is not None
        mask = self.e.guard_mask(i)
        self.write_barrier(o.index, self.e.splat(self.e.lane_word(mask), 32), mask)

    def _bsync(self, i: Instruction) -> None:
        b, e = self.b, self.e
        o = next(o for o in i.operands if o.kind == "barrier")
        assert o.index is not None
        following = int(self.leaders[i.index + 1])
        mask = self.condition(i)
        e.flush()
        active = b.load(self.active, typ=I32)
        lane = b.zext(b.cttz(active, I1(0)), I64)
        barrier = b.load(self.place(b.add(I64(dv.BARRIERS + 32 * o.index), lane)), align=4, typ=I32)
        whole = b.and_(barrier, b.not_(b.load(self.exited, typ=I32)))
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
            masks: ir.Value = e.constant(0xFFFFFFFF)
        else:
            o = next((o for o in i.operands if o.kind in ("reg", "ureg", "imm", "const")), None)
            if o is None:
                raise UnsupportedError(
                    f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})"
                )
            value = e.widen(e.source(o))
            if value.unknown is not None:
                self.check_known(b.and_(value.unknown, e.active), i, ctx.UNKNOWN_BRANCH)
            masks = value.bits
        b.store(b.zext(masks, V64), self.addresses, align=64)
        every = e.intrinsic("llvm.vector.reduce.or.v32i32", I32, [V32])
        need = b.call(every, [b.select(e.active, masks, e.constant(0))])
        e.flush()
        active = b.load(self.active, typ=I32)
        if "COLLECTIVE" in i.modifiers:
            end = int(self.leaders[target_of(i, self.program)])
            self.call_at(i, dv.COLLECT, following << 32 | end, active)
            return
        if "EXCLUSIVE" in i.modifiers:
            self.call_at(i, dv.EXCLUDE, following, active)
            return
        whole = b.and_(need, b.not_(b.load(self.exited, typ=I32)))
        wait = self.function.append_basic_block("wait")
        b.cbranch(b.icmp_unsigned("==", whole, active), self.code[following], wait)
        b.position_at_end(wait)
        self.call_at(i, dv.WARP, following, active)

    def _endcollective(self, i: Instruction) -> None:
        self.e.flush()
        self.call_at(i, dv.LEAVE, int(self.leaders[i.index + 1]), self.b.load(self.active, typ=I32))

    def _bar(self, i: Instruction) -> None:
        b, e = self.b, self.e
        following = int(self.leaders[i.index + 1])
        mask = self.condition(Instruction(**{**{s: getattr(i, s) for s in i.__slots__}, "operands": ()}))
        numbers = [o for o in i.operands if o.kind in ("imm", "reg", "ureg", "const")]
        values = [I32(o.value) if o.kind == "imm" else self.uniform(e.widen(e.source(o)), i) for o in numbers]
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
            value = e.widen(e.source(source))
            if value.unknown is not None:
                self.check_known(b.and_(value.unknown, e.active), i, ctx.UNKNOWN_BRANCH)
            self.write_barrier(target.index, value.bits, e.guard_mask(i))
        elif source.kind == "barrier" and source.index is not None and target.index is not None:
            mask = e.guard_mask(i)
            e.write(target.index, Value(b.load(self.place(dv.BARRIERS + 32 * source.index), align=64, typ=V32)), mask)
            if "CLEAR" in i.modifiers:
                self.write_barrier(source.index, e.constant(0), mask)
        else:
            raise UnsupportedError(f"instruction not supported: {i.text} (instruction {i.index}, source line {i.line})")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 & 1 and value < 1 << 32 else value


CONTROL = {
    "BRA": Control._bra,
    "JMP": Control._bra,
    "CALL": Control._call,
    "RET": Control._indirect,
    "BRX": Control._indirect,
    "EXIT": Control._exit,
    "BSSY": Control._bssy,
    "BSYNC": Control._bsync,
    "BREAK": Control._break,
    "WARPSYNC": Control._warpsync,
    "ENDCOLLECTIVE": Control._endcollective,
    "BAR": Control._bar,
    "B2R": Control._b2r,
    "BPT": Control._trap,
    "BMOV": Control._bmov,
}
