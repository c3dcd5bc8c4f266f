"""A straight piece of SASS, written as text, compiled and run on one warp: what the opcode tests use."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from llvmlite import binding, ir

from warpsim.frontend.emitter import Emitter, State, Value
from warpsim.frontend.program import Instruction, Operand
from warpsim.frontend.special import SPECIAL, SPECIAL_WORDS

FIELDS = ("regs", "regs_unknown", "uregs", "uregs_unknown", "preds", "preds_unknown", "upreds", "upreds_unknown",
          "cbank", "cbank_size", "special")  # fmt: skip


def operand(text: str) -> Operand:
    """One operand as nvdisasm prints it (immediates: integers, or floats as float32)."""
    text = text.strip()
    signs = {"negate": False, "invert": False, "absolute": False}
    while text and text[0] in "-~!|":
        if text[0] == "-" and re.match(r"-[\d.]", text):
            break
        signs[{"-": "negate", "~": "invert", "!": "invert", "|": "absolute"}[text[0]]] = True
        text = text[1:]
    text = text.replace("|", "")
    constant = re.fullmatch(r"c\[(\w+)\]\[(?:(U?R\w+)\+?)?(-?\w+)?\]((?:\.\w+)*)", text)
    if constant:
        bank, register, offset, suffix = constant.groups()
        if register is None and offset is not None and offset[:1] in "RU":
            register, offset = offset, None
        index = uindex = None
        if register is not None:
            number = 255 if register.endswith("RZ") else int(register.lstrip("UR"))
            index, uindex = (None, number) if register[0] == "U" else (number, None)
        names = tuple(suffix.split(".")[1:])
        return Operand("const", index, int(offset or "0", 0), int(bank, 0), uindex, modifiers=names, **signs)
    name, *modifiers = text.split(".") if not re.match(r"-?\d|SR", text) else [text]
    register_ = re.fullmatch(r"(UR|R|UP|P)(\d+|Z|T)", name)
    if register_:
        kind = {"UR": "ureg", "R": "reg", "UP": "upred", "P": "pred"}[register_[1]]
        number = {"Z": 255, "T": 7}.get(register_[2]) or (0 if register_[2] == "0" else int(register_[2]))
        return Operand(kind, number, modifiers=tuple(modifiers), **signs)
    if name == "PR":
        return Operand("predset")
    if name.startswith("SR"):
        return Operand("special", name=text)
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
        return Operand("imm", value=int(text, 0) & 0xFFFFFFFF)
    return Operand("imm", value=struct.unpack("<I", struct.pack("<f", float(text)))[0])


def instruction(text: str, index: int = 0) -> Instruction:
    """An instruction from its printed form, guard included."""
    guard = None
    full = text
    if text.startswith("@"):
        first, text = text.split(maxsplit=1)
        guard = operand(first[1:])
    opcode, _, rest = text.partition(" ")
    base, *modifiers = opcode.split(".")
    operands = tuple(operand(o) for o in re.split(r",\s*", rest.strip()) if o)
    immediate = next((o.value for o in operands if o.kind == "imm"), 0)
    return Instruction(index, base, tuple(modifiers), operands, guard, 1, False, 7, 7, 0, 0, 0, full, immediate << 32)


class Warp:
    """The state of one warp in NumPy arrays, named as in `State`."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        raw = np.zeros(256 * 32 + 32, np.uint32)
        start = -(raw.ctypes.data // 4) % 32
        self.regs = raw[start : start + 256 * 32].reshape(256, 32)
        self.regs[:255] = rng.integers(0, 1 << 32, (255, 32), dtype=np.uint32)
        self.regs_unknown = np.zeros(256, np.uint32)
        self.uregs = rng.integers(0, 1 << 32, 256, dtype=np.uint32)
        self.uregs_unknown = np.zeros(256, np.uint32)
        self.preds = rng.integers(0, 1 << 32, 8, dtype=np.uint32)
        self.preds_unknown = np.zeros(8, np.uint32)
        self.upreds = rng.integers(0, 2, 8, dtype=np.uint32)
        self.upreds_unknown = np.zeros(8, np.uint32)
        self.banks = [rng.integers(0, 256, 0x400, dtype=np.uint8) for _ in range(5)]
        self.cbank_size = np.full(5, 0x400, np.int32)
        self.special = np.zeros(SPECIAL_WORDS + 64, np.uint32)[: SPECIAL_WORDS + 16]
        offset = -(self.special.ctypes.data // 4) % 16
        self.special = self.special[offset : offset + SPECIAL_WORDS]
        for kind, at in SPECIAL.values():
            if kind != "unknown":
                count = 32 if kind == "lane" else 1
                self.special[at : at + count] = rng.integers(0, 1 << 32, count)
        self.active = 0xFFFFFFFF
        self.unknown_notes: list[str] = []
        self.assumptions: list[str] = []

    @property
    def cbank(self) -> np.ndarray:
        return np.array([bank.ctypes.data for bank in self.banks], np.uint64)

    def lanes(self, mask: int) -> np.ndarray:
        return (int(mask) >> np.arange(32) & 1).astype(bool)

    def p(self, k: int) -> np.ndarray:
        return self.lanes(0xFFFFFFFF if k == 7 else self.preds[k])

    def r64(self, k: int) -> np.ndarray:
        return self.regs[k].astype(np.uint64) | self.regs[k + 1].astype(np.uint64) << np.uint64(32)

    def f32(self, k: int) -> np.ndarray:
        return self.regs[k].view(np.float32)

    def set64(self, k: int, values: np.ndarray) -> None:
        words = np.ascontiguousarray(values).view(np.uint64)
        self.regs[k], self.regs[k + 1] = words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)

    def run(self, *lines: str | Instruction, full: bool = False) -> Warp:
        """Execute instructions on this warp."""
        code = [line if isinstance(line, Instruction) else instruction(line, k) for k, line in enumerate(lines)]
        function, keep = compiled(code, self, full)
        arrays = [getattr(self, name) for name in FIELDS]
        function(self.active, *(a.ctypes.data for a in arrays))
        del keep
        return self


def target() -> binding.TargetMachine:
    """A code generator for this machine (an execution engine owns and frees the one it is given)."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=2
    )


def module_of(code: Sequence[Instruction], warp: Warp, full: bool) -> ir.Module:
    pointer = ir.PointerType()
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(32)] + [pointer] * len(FIELDS)), "run")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emitter = Emitter(
        builder,
        State(*function.args[1:]),
        lambda i, lanes: warp.unknown_notes.append(i.opcode),
        lambda i, lanes: warp.assumptions.append(i.opcode),
    )
    emitter.reset(builder.bitcast(function.args[0], ir.VectorType(ir.IntType(1), 32)))
    emitter.full = full
    for i in code:
        emitter.emit(i)
    emitter.flush()
    builder.ret_void()
    return module


def compiled(code: Sequence[Instruction], warp: Warp, full: bool) -> tuple[Callable[..., None], object]:
    parsed = binding.parse_assembly(str(module_of(code, warp, full)))
    engine = binding.create_mcjit_compiler(parsed, target())
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_uint32, *[ctypes.c_void_p] * len(FIELDS))
    return prototype(engine.get_function_address("run")), engine


def mask_of(lanes: Iterable[bool]) -> int:
    return sum(1 << k for k, lane in enumerate(lanes) if lane)


__all__ = ["Value", "Warp", "instruction", "mask_of"]
