"""Registers, operands and unknown shadows of one warp, as LLVM IR.

An `Emitter` writes the IR of instructions at the position of an `ir.IRBuilder`. A warp's state lies in memory
(`State`); within a basic block the emitter keeps registers as SSA values, loads them on first use and stores changed
ones in `flush`.

    emitter = Emitter(builder, State(...), note_unknown=..., note_assumption=...)
    emitter.reset(active)            # a new block begins at the builder's position; all registers are in memory
    emitter.full = True              # optional, after reset: the caller knows that all 32 lanes are active
    emitter.emit(instruction)        # dispatch through opcodes.OPCODES; UnsupportedError names opcode, index and line
    emitter.flush()                  # before the block's terminator and before code that looks at registers in memory
    emitter.invalidate(registers)    # after code that changed these vector registers (default: everything) in memory

For code of the caller's own (memory, control flow):

    emitter.guard_mask(i)            # <32 x i1>: active lanes in which the guard holds
    emitter.guard_unknown(i)         # <32 x i1> or None: active lanes in which the guard is unknown
    emitter.read(r)                  # vector register r: Value of <32 x i32>; RZ (255) is zero
    emitter.read64(r)                # pair (r, r+1): Value of <32 x i64>; RZ is zero
    emitter.write(r, value, mask)    # mask <32 x i1>, or None: all lanes; RZ swallows it
    emitter.write64(r, value, mask)  # pair
    emitter.read_uniform(r)          # uniform register: Value of <1 x i32>; read_uniform64 for a pair of them
    emitter.write_uniform(r, value)  # Value of <1 x i32>; optional mask <1 x i1>
    emitter.source(operand)          # 32 bits of any source operand at the current width; no signs applied
    emitter.predicate(operand)       # Value of <n x i1>, `!` applied; pred or upred
    emitter.write_predicate(operand, value, mask)
    emitter.widen(value)             # <1 x T> to <32 x T>
    emitter.any_lane(mask)           # i1: some lane of a <32 x i1> is set

A `Value` is `bits` (<n x iK>) and `unknown` (<n x i1>, or None where no lane can be unknown). Bits of unknown lanes are
arbitrary, the same in every run. The width n is 32 for the vector datapath and 1 (`emitter.lanes`) while the rule of
an instruction of the uniform datapath runs: one rule serves IADD3 and UIADD3. Uniform registers and predicates are
written whatever the active mask is; only a uniform guard holds them back.

All reads must be emitted where they dominate the rest of the block: never inside a conditional region of the
caller's own, unless it calls `flush` before and `reset` after.

Pointers in `State` are opaque (`ir.PointerType()`); vector registers are 128-byte aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from llvmlite import ir

from warpsim.errors import UnsupportedError
from warpsim.frontend.program import RZ, Instruction, Operand

__all__ = ["LANES", "Emitter", "State", "Value"]

LANES = 32
NAN = 0x7FFFFFFF  # the NaN of the GPU's float32 arithmetic
PT = 7  # the predicate that is always true

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F16 = ir.HalfType()
F32 = ir.FloatType()
F64 = ir.DoubleType()
POINTER = ir.PointerType()


@dataclass(frozen=True, slots=True)
class State:
    """Where a warp's state lies.

    `regs` i32[n][32] and `regs_unknown` i32[n] lane masks; `uregs`, `uregs_unknown` i32[256] (unknown 0 or 1); `preds`,
    `preds_unknown` i32[8] lane masks; `upreds`, `upreds_unknown` i32[8] (0 or 1); `cbank` i8*[5] and `cbank_size`
    i32[5]; `special` i32[] as `special.SPECIAL` lays it out.
    """

    regs: ir.Value
    regs_unknown: ir.Value
    uregs: ir.Value
    uregs_unknown: ir.Value
    preds: ir.Value
    preds_unknown: ir.Value
    upreds: ir.Value
    upreds_unknown: ir.Value
    cbank: ir.Value
    cbank_size: ir.Value
    special: ir.Value


@dataclass(frozen=True, slots=True)
class Value:
    """A vector and the lanes in which it is not known.

    `flushed`: as float32, it holds no denormals. `loose`: its float32 NaNs do not have the GPU's one pattern yet; they
    get it when anything but float32 arithmetic looks at the register.
    """

    bits: ir.Value
    unknown: ir.Value | None = None
    flushed: bool = False
    loose: bool = False


class SplatConstant(ir.Constant):  # type: ignore[misc]
    """A vector constant with all elements the same integer."""

    def __init__(self, typ: ir.VectorType, value: int) -> None:
        super().__init__(typ, None)
        self.value = value

    def get_reference(self) -> str:
        if self.value == 0:
            return "zeroinitializer"
        return f"<{', '.join([f'{self.type.element} {self.value}'] * self.type.count)}>"


Note = Callable[[Instruction, ir.Value], None]


def ignore(instruction: Instruction, lanes: ir.Value) -> None:
    """The callback of an emitter whose owner does not ask for notes."""


class Emitter:
    """Emits instructions of one warp; see the module's text.

    `note_unknown(instruction, lanes)` is called where an instruction without a value rule writes unknown results,
    `note_assumption(instruction, lanes)` where a test of an unknown was assumed (sentinels, division's fast path);
    `lanes` is the <n x i1> of lanes concerned, so that the caller can emit code that records it.
    """

    def __init__(
        self, builder: ir.IRBuilder, state: State, note_unknown: Note = ignore, note_assumption: Note = ignore
    ) -> None:
        self.builder = builder
        self.state = state
        self.note_unknown = note_unknown
        self.note_assumption = note_assumption
        self.lanes = LANES
        self.full = False
        self.active: ir.Value = self.constant(1, I1, LANES)
        self.instruction: Instruction | None = None
        self.mask: ir.Value | None = None  # lanes the current instruction writes; None: all
        self.mask_unknown: ir.Value | None = None
        self._cache: dict[tuple[str, int], Value] = {}
        self._dirty: set[tuple[str, int]] = set()
        self._banks: dict[int, tuple[ir.Value, ir.Value]] = {}

    # Blocks

    def reset(self, active: ir.Value) -> None:
        """Begin a block: nothing is cached, `active` lanes (<32 x i1>) execute."""
        self.active = active
        self.full = False
        self.invalidate()
        self._banks.clear()

    def flush(self) -> None:
        """Store every changed register and predicate."""
        for key in sorted(self._dirty):
            value = self._cache[key] = self._canonical(self._cache[key])
            self._store(key, value)
        self._dirty.clear()

    def invalidate(self, registers: Iterable[int] | None = None) -> None:
        """Forget vector registers that changed in memory (None: everything), unsaved changes included."""
        keys = list(self._cache) if registers is None else [("reg", r) for r in registers]
        for key in keys:
            self._cache.pop(key, None)
            self._dirty.discard(key)

    def emit(self, instruction: Instruction) -> None:
        """Emit one instruction by its rule in `opcodes.OPCODES`."""
        from warpsim.frontend.opcodes import rule

        emit_rule = rule(instruction)
        self.instruction = instruction
        self.enter(instruction, LANES)
        emit_rule(self, instruction)
        self.instruction = None

    def enter(self, instruction: Instruction, lanes: int) -> None:
        """Set width and write mask for an instruction."""
        self.lanes = lanes
        guard = instruction.guard
        self.mask_unknown = None
        if lanes == LANES:
            unguarded = guard is None or (guard.index == PT and not guard.invert)
            self.mask = None if self.full and unguarded else self.guard_mask(instruction)
            self.mask_unknown = self.guard_unknown(instruction)
        elif guard is None:
            self.mask = None
        else:
            value = self.predicate(guard)
            self.mask, self.mask_unknown = value.bits, value.unknown

    def unsupported(self, what: str = "") -> UnsupportedError:
        """The error for the current instruction."""
        i = self.instruction
        assert i is not None
        return unsupported(i, what)

    # Guards

    def guard_mask(self, instruction: Instruction) -> ir.Value:
        """Active lanes in which the guard holds."""
        if instruction.guard is None:
            return self.active
        bits = self._at_width(self.predicate(instruction.guard), LANES).bits
        return self.builder.and_(self.active, bits)

    def guard_unknown(self, instruction: Instruction) -> ir.Value | None:
        """Active lanes in which the guard is unknown."""
        if instruction.guard is None:
            return None
        unknown = self._at_width(self.predicate(instruction.guard), LANES).unknown
        return None if unknown is None else self.builder.and_(self.active, unknown)

    # Registers

    def read(self, register: int) -> Value:
        """A vector register."""
        return self._read("reg", register)

    def write(self, register: int, value: Value, mask: ir.Value | None) -> None:
        """Write a vector register in the lanes of `mask` (None: all)."""
        self._write("reg", register, value, mask)

    def read64(self, register: int) -> Value:
        """A pair of vector registers."""
        return self._read64("reg", register)

    def write64(self, register: int, value: Value, mask: ir.Value | None) -> None:
        """Write a pair of vector registers in the lanes of `mask`."""
        self._write64("reg", register, value, mask)

    def read_uniform(self, register: int) -> Value:
        """A uniform register, one lane wide."""
        return self._read("ureg", register)

    def read_uniform64(self, register: int) -> Value:
        """A pair of uniform registers."""
        return self._read64("ureg", register)

    def write_uniform(self, register: int, value: Value, mask: ir.Value | None = None) -> None:
        """Write a uniform register."""
        self._write("ureg", register, value, mask)

    def predicate(self, operand: Operand) -> Value:
        """The value of a predicate operand, `!` applied, at the current width."""
        assert operand.index is not None
        value = self._at_width(self._read(operand.kind, operand.index))
        if operand.invert:
            if isinstance(value.bits, SplatConstant):
                return Value(self.constant(1 - value.bits.value, I1))
            return Value(self.builder.not_(value.bits), value.unknown)
        return value

    def write_predicate(self, operand: Operand, value: Value, mask: ir.Value | None) -> None:
        """Write the predicate that an operand names."""
        assert operand.index is not None
        self._write(operand.kind, operand.index, value, mask)

    # Operands

    def source(self, operand: Operand, loose: bool = False) -> Value:
        """The 32 bits of an operand at the current width; signs and complements are not applied."""
        if operand.kind in ("reg", "ureg"):
            assert operand.index is not None
            return self._at_width(self._read(operand.kind, operand.index, loose))
        if operand.kind == "imm":
            return Value(self.constant(operand.value & 0xFFFFFFFF))
        if operand.kind == "const":
            return self.load_constant(operand, 4)
        if operand.kind == "special":
            from warpsim.frontend.lanes import special

            return special(self, operand.name)
        raise self.unsupported(f"a source operand of kind {operand.kind}")

    def source64(self, operand: Operand, immediate_high: bool = False) -> Value:
        """The 64 bits of an operand; an immediate gives the low word, or the high one (doubles)."""
        if operand.kind in ("reg", "ureg"):
            assert operand.index is not None
            return self._at_width(self._read64(operand.kind, operand.index))
        if operand.kind == "imm":
            return Value(self.constant((operand.value & 0xFFFFFFFF) << (32 if immediate_high else 0), I64))
        if operand.kind == "const":
            return self.load_constant(operand, 8)
        raise self.unsupported(f"a 64-bit source operand of kind {operand.kind}")

    def result(self, operand: Operand, value: Value) -> None:
        """Write 32 bits under the current instruction's mask; an unknown guard makes the result unknown."""
        assert operand.index is not None
        self._write(operand.kind, operand.index, value, self.mask, self.mask_unknown)

    def result64(self, operand: Operand, value: Value) -> None:
        """Write a register pair likewise."""
        assert operand.index is not None
        self._write64(operand.kind, operand.index, value, self.mask, self.mask_unknown)

    def load_constant(self, operand: Operand, size: int) -> Value:
        """`size` (1, 2, 4 or 8) bytes of a constant bank as <n x i(8*size)>; outside the bank reads zero."""
        b = self.builder
        element = ir.IntType(8 * size)
        base, bytes_ = self._bank(operand.bank)
        index = operand.uindex if operand.uindex is not None else operand.index
        vector_index = operand.uindex is None and operand.index not in (None, RZ) and self.lanes == LANES
        if vector_index:
            assert index is not None
            register = self.read(index)
            offset = b.add(register.bits, self.constant(operand.value & 0xFFFFFFFF))
            last = self.splat(b.sub(b.zext(bytes_, I64), I64(size)))
            inside = b.icmp_unsigned("<=", b.zext(offset, self.vector(I64)), last)
            nonempty = self.splat(b.icmp_unsigned(">=", bytes_, I32(size)))
            inside = b.and_(inside, nonempty)
            addresses = b.gep(self.splat(base), [b.zext(offset, self.vector(I64))], source_etype=I8)
            gather = self.intrinsic(
                f"llvm.masked.gather.v{LANES}i{8 * size}.v{LANES}p0",
                self.vector(element),
                [addresses.type, I32, self.vector(I1), self.vector(element)],
            )
            bits = b.call(gather, [addresses, I32(size), inside, self.constant(0, element)])
            return Value(bits, register.unknown)
        unknown = None
        start: ir.Value = I32(operand.value & 0xFFFFFFFF)
        if index not in (None, RZ):
            assert index is not None
            uniform = self.read_uniform(index)
            start = b.add(b.extract_element(uniform.bits, I32(0)), start)
            unknown = (
                uniform.unknown if self.lanes == 1 or uniform.unknown is None else self.splat_lane(uniform.unknown)
            )
        end = b.add(b.zext(start, I64), I64(size))
        inside = b.icmp_unsigned("<=", end, b.zext(bytes_, I64))
        address = b.select(inside, b.gep(base, [b.zext(start, I64)], source_etype=I8), self.state.cbank_size)
        word = b.select(inside, b.load(address, align=size, typ=element), element(0))
        return Value(self.splat(word), unknown)

    # Small helpers

    def vector(self, element: ir.Type, lanes: int | None = None) -> ir.VectorType:
        """The vector type of an element at the current width."""
        return ir.VectorType(element, self.lanes if lanes is None else lanes)

    def constant(self, value: int, element: ir.IntType = I32, lanes: int | None = None) -> ir.Constant:
        """A splat of an integer at the current width."""
        return SplatConstant(self.vector(element, lanes), value)

    def splat(self, scalar: ir.Value, lanes: int | None = None) -> ir.Value:
        """A scalar in every lane."""
        lanes = self.lanes if lanes is None else lanes
        undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, I32(0))
        return first if lanes == 1 else self.builder.shuffle_vector(first, undefined, shuffle_zeros(lanes))

    def splat_lane(self, vector: ir.Value, lanes: int | None = None) -> ir.Value:
        """Element 0 of a vector in every lane."""
        lanes = self.lanes if lanes is None else lanes
        if isinstance(vector, SplatConstant):
            return self.constant(vector.value, vector.type.element, lanes)
        undefined = ir.Constant(vector.type, ir.Undefined)
        return self.builder.shuffle_vector(vector, undefined, shuffle_zeros(lanes))

    def widen(self, value: Value) -> Value:
        """A uniform value as one of 32 lanes."""
        return self._at_width(value, LANES)

    def any_lane(self, mask: ir.Value) -> ir.Value:
        """i1: whether some lane is set."""
        word = self.lane_word(mask)
        return self.builder.icmp_unsigned("!=", word, word.type(0))

    def lane_word(self, mask: ir.Value) -> ir.Value:
        """A <32 x i1> as the i32 lane mask; a <1 x i1> as i1."""
        if mask.type.count == 1:
            return self.builder.extract_element(mask, I32(0))
        return self.builder.bitcast(mask, I32)

    def unknown(self, *values: Value) -> ir.Value | None:
        """Lanes in which any of the values is unknown."""
        result = None
        for value in values:
            if value.unknown is not None and value.unknown is not result:
                result = value.unknown if result is None else self.builder.or_(result, value.unknown)
        return result

    def intrinsic(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        """A declared LLVM intrinsic, by its full name."""
        module = self.builder.module
        found = module.globals.get(name)
        return found if found is not None else ir.Function(module, ir.FunctionType(result, arguments), name)

    def call(self, name: str, *arguments: ir.Value) -> ir.Value:
        """An element-wise intrinsic whose result and arguments all have one vector type."""
        typ = arguments[0].type
        letters = {"half": "f16", "float": "f32", "double": "f64"}.get(str(typ.element), str(typ.element))
        function = self.intrinsic(f"llvm.{name}.v{typ.count}{letters}", typ, [a.type for a in arguments])
        return self.builder.call(function, list(arguments))

    # Memory behind the cache

    def _files(self, kind: str) -> tuple[ir.Value, ir.Value, int]:
        s = self.state
        return {
            "reg": (s.regs, s.regs_unknown, LANES),
            "ureg": (s.uregs, s.uregs_unknown, 1),
            "pred": (s.preds, s.preds_unknown, LANES),
            "upred": (s.upreds, s.upreds_unknown, 1),
        }[kind]

    def _at_width(self, value: Value, lanes: int | None = None) -> Value:
        lanes = self.lanes if lanes is None else lanes
        have = value.bits.type.count
        if have == lanes:
            return value
        if have != 1:
            raise self.unsupported("a vector register in the uniform datapath")
        unknown = None if value.unknown is None else self.splat_lane(value.unknown, lanes)
        return replace(value, bits=self.splat_lane(value.bits, lanes), unknown=unknown)

    def _read(self, kind: str, index: int, loose: bool = False) -> Value:
        lanes = LANES if kind in ("reg", "pred") else 1
        if kind in ("reg", "ureg"):
            if index == RZ:
                return Value(self.constant(0, I32, lanes), None, flushed=True)
        elif index == PT:
            return Value(self.constant(1, I1, lanes))
        value = self._cache.get((kind, index))
        if value is None:
            value = self._cache[kind, index] = self._load(kind, index)
        elif value.loose and not loose:
            value = self._cache[kind, index] = self._canonical(value)
        return value

    def _canonical(self, value: Value) -> Value:
        """float32 NaNs as the GPU writes them."""
        if not value.loose:
            return value
        b = self.builder
        floats = b.bitcast(value.bits, ir.VectorType(F32, value.bits.type.count))
        nan = b.fcmp_unordered("uno", floats, floats)
        bits = b.select(nan, SplatConstant(value.bits.type, NAN), value.bits)
        return replace(value, bits=bits, loose=False)

    def _read64(self, kind: str, index: int) -> Value:
        b = self.builder
        if index == RZ:
            return Value(self.constant(0, I64, LANES if kind == "reg" else 1))
        low, high = self._read(kind, index), self._read(kind, index + 1)
        wide = ir.VectorType(I64, low.bits.type.count)
        shift = SplatConstant(wide, 32)
        bits = b.or_(b.zext(low.bits, wide), b.shl(b.zext(high.bits, wide), shift))
        return Value(bits, self.unknown(low, high))

    def _write64(
        self, kind: str, index: int, value: Value, mask: ir.Value | None, mask_unknown: ir.Value | None = None
    ) -> None:
        b = self.builder
        narrow = ir.VectorType(I32, value.bits.type.count)
        low = b.trunc(value.bits, narrow)
        high = b.trunc(b.lshr(value.bits, SplatConstant(value.bits.type, 32)), narrow)
        self._write(kind, index, Value(low, value.unknown), mask, mask_unknown)
        if index != RZ:
            self._write(kind, index + 1, Value(high, value.unknown), mask, mask_unknown)

    def _write(
        self, kind: str, index: int, value: Value, mask: ir.Value | None, mask_unknown: ir.Value | None = None
    ) -> None:
        b = self.builder
        if index == (RZ if kind in ("reg", "ureg") else PT):
            return
        if mask is not None:
            value = self._canonical(value)
            old = self._read(kind, index)
            bits = b.select(mask, value.bits, old.bits)
            unknown = None
            if value.unknown is not None or old.unknown is not None:
                none = self.constant(0, I1, value.bits.type.count)
                unknown = b.select(mask, value.unknown or none, old.unknown or none)
            value = Value(bits, unknown, value.flushed and old.flushed)
        if mask_unknown is not None:
            value = replace(value, unknown=self.unknown(value, Value(mask_unknown, mask_unknown)))
        self._cache[kind, index] = value
        self._dirty.add((kind, index))

    def _load(self, kind: str, index: int) -> Value:
        b = self.builder
        bits_at, unknown_at, lanes = self._files(kind)
        if kind == "reg":
            address = b.gep(bits_at, [I64(index * LANES)], source_etype=I32)
            bits = b.load(address, align=64, typ=ir.VectorType(I32, LANES))
        else:
            bits = self._load_word(bits_at, index)
            bits = self._lanes_of(bits, lanes) if kind != "ureg" else self.splat(bits, 1)
        return Value(bits, self._lanes_of(self._load_word(unknown_at, index), lanes))

    def _store(self, key: tuple[str, int], value: Value) -> None:
        b = self.builder
        kind, index = key
        bits_at, unknown_at, _ = self._files(kind)
        if kind == "reg":
            b.store(value.bits, b.gep(bits_at, [I64(index * LANES)], source_etype=I32), align=64)
        else:
            word = b.extract_element(value.bits, I32(0)) if kind == "ureg" else self._word_of(value.bits)
            b.store(word, b.gep(bits_at, [I64(index)], source_etype=I32), align=4)
        unknown = I32(0) if value.unknown is None else self._word_of(value.unknown)
        b.store(unknown, b.gep(unknown_at, [I64(index)], source_etype=I32), align=4)

    def _load_word(self, base: ir.Value, index: int) -> ir.Value:
        return self.builder.load(self.builder.gep(base, [I64(index)], source_etype=I32), align=4, typ=I32)

    def _lanes_of(self, word: ir.Value, lanes: int) -> ir.Value:
        if lanes == 1:
            return self.splat(self.builder.trunc(word, I1), 1)
        return self.builder.bitcast(word, ir.VectorType(I1, LANES))

    def _word_of(self, lanes: ir.Value) -> ir.Value:
        if lanes.type.count == 1:
            return self.builder.zext(self.builder.extract_element(lanes, I32(0)), I32)
        return self.builder.bitcast(lanes, I32)

    def _bank(self, bank: int) -> tuple[ir.Value, ir.Value]:
        if bank not in self._banks:
            b = self.builder
            address = b.gep(self.state.cbank, [I64(bank)], source_etype=POINTER)
            self._banks[bank] = b.load(address, align=8, typ=POINTER), self._load_word(self.state.cbank_size, bank)
        return self._banks[bank]


def shuffle_zeros(lanes: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)


def unsupported(instruction: Instruction, what: str = "") -> UnsupportedError:
    """The error that names an instruction without a rule."""
    where = f"instruction {instruction.index}"
    if instruction.line:
        where += f", source line {instruction.line}"
    detail = f" ({what})" if what else ""
    text = instruction.text or instruction.opcode
    return UnsupportedError(f"SASS instruction not supported: {text}{detail} ({where})")
