"""The table of SASS opcodes that compute: which rule each has, and which only make their results unknown.

Memory, control flow and barriers are not here: they belong to the executor. A rule is a function of (Emitter, Instruction).
"""

from __future__ import annotations

from collections.abc import Callable

from warpsim.frontend import bits, convert, doubles, floating, integer, lanes, packed
from warpsim.frontend.emitter import I1, Emitter, Value, unsupported
from warpsim.frontend.program import Instruction

__all__ = ["OPCODES", "rule"]

Rule = Callable[[Emitter, Instruction], None]

VECTOR: dict[str, Rule] = {
    "IADD3": integer.iadd3, "IADD": integer.viadd, "VIADD": integer.viadd, "IMAD": integer.imad, "IMUL": integer.imul,
    "LEA": integer.lea, "ISCADD": integer.iscadd, "SHF": integer.shf, "SHL": integer.shl, "SHR": integer.shr,
    "LOP3": integer.lop3, "LOP": integer.lop, "PLOP3": integer.plop3, "ISETP": integer.isetp, "ISET": integer.iset,
    "SEL": integer.sel, "MOV": integer.mov, "IABS": integer.iabs,
    "FADD": floating.fadd, "FMUL": floating.fmul, "FFMA": floating.ffma, "FSETP": floating.fsetp, "FSET": floating.fset,
    "FSEL": floating.fsel, "FMNMX": floating.fmnmx, "FMNMX3": floating.fmnmx,
    "HFMA2": packed.hfma2, "HADD2": packed.hadd2, "HMUL2": packed.hmul2, "HMNMX2": packed.hmnmx2,
    "HSETP2": packed.hsetp2, "HSET2": packed.hset2, "F2FP": packed.f2fp,
    "POPC": bits.popc, "FLO": bits.flo, "BREV": bits.brev, "BMSK": bits.bmsk, "SGXT": bits.sgxt, "PRMT": bits.prmt,
    "IMNMX": bits.vimnmx, "VIMNMX": bits.vimnmx, "VIMNMX3": bits.vimnmx, "VIADDMNMX": bits.viaddmnmx,
    "VABSDIFF": bits.vabsdiff, "VABSDIFF4": bits.vabsdiff4, "IDP": bits.idp, "I2I": bits.i2i, "I2IP": bits.i2ip,
    "DADD": doubles.dadd, "DMUL": doubles.dmul, "DFMA": doubles.dfma, "DSETP": doubles.dsetp, "DMNMX": doubles.dmnmx,
    "F2F": convert.f2f, "F2I": convert.f2i, "I2F": convert.i2f, "I2FP": convert.i2f, "FRND": convert.frnd,
    "FCHK": convert.fchk, "MUFU": convert.mufu,
    "S2R": lanes.s2r, "CS2R": lanes.cs2r, "LDC": lanes.ldc, "P2R": lanes.p2r, "R2P": lanes.r2p,
}  # fmt: skip

# rules that look after both register files themselves
MIXED: dict[str, Rule] = {
    "S2UR": lanes.s2ur, "R2UR": lanes.r2ur, "SHFL": lanes.shfl, "VOTE": lanes.vote, "VOTEU": lanes.vote,
    "MATCH": lanes.match, "REDUX": lanes.redux, "CREDUX": lanes.redux, "ELECT": lanes.elect,
}  # fmt: skip


def uniform(vector_rule: Rule) -> Rule:
    """The rule of the uniform datapath: the same on one lane."""

    def emit(e: Emitter, i: Instruction) -> None:
        e.enter(i, 1)
        vector_rule(e, i)

    return emit


def table() -> dict[str, Rule]:
    special_names = {"LDC": ("ULDC", "LDCU"), "P2R": ("UP2UR",), "R2P": ("UR2UP",)}
    rules = {**VECTOR, **MIXED}
    for name, vector_rule in VECTOR.items():
        for uniform_name in special_names.get(name, (f"U{name}",)):
            rules[uniform_name] = uniform(vector_rule)
    return rules


# Opcodes without a value rule that write nothing but registers: how many. Matrix products go by shape, see `results_of`.
UNKNOWN_RESULTS = {"HMMA": 0, "IMMA": 0, "DMMA": 0, "BMMA": 0, "QMMA": 0, "OMMA": 0, "FSWZADD": 1, "MOVM": 1}


def results_of(instruction: Instruction) -> int:
    """Registers that an opcode of `UNKNOWN_RESULTS` writes, from its shape: 8 x 8 or 16 x 8 results over 32 lanes."""
    count = UNKNOWN_RESULTS[instruction.opcode]
    if count:
        return count
    shape = next((m for m in instruction.modifiers if m.isdigit()), "")
    count = 4 if shape.startswith("16") else 2
    if instruction.opcode == "DMMA":
        return 2 * count
    # the first type named is the result's; fp16 results lie two in a register
    kind = next((m for m in instruction.modifiers if m in ("F16", "F32")), "F16" if instruction.opcode == "HMMA" else "")
    return count // 2 if kind == "F16" else count


def arithmetic_unknown(e: Emitter, i: Instruction) -> None:
    """All results of an opcode without a value rule become unknown, and the caller is told."""
    every = e.constant(1, I1)
    for k in range(results_of(i)):
        e.result(lanes.register(i.operands[0], k), Value(e.constant(0), every))
    e.note_unknown(i, every if e.mask is None else e.mask)


OPCODES: dict[str, Rule] = {**table(), **dict.fromkeys(UNKNOWN_RESULTS, arithmetic_unknown)}


def rule(instruction: Instruction) -> Rule:
    """The rule of an instruction; UnsupportedError if it has none."""
    found = OPCODES.get(instruction.opcode)
    if found is None:
        raise unsupported(instruction)
    return found
