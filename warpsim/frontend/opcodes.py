"""The table of SASS opcodes that compute: which rule each has, and which only make their results unknown.

Memory, control flow and barriers are not here: they belong to the executor. A rule is a function of (Emitter, Instruction).
"""

from __future__ import annotations

from collections.abc import Callable

from warpsim.frontend import floating, integer, lanes, packed
from warpsim.frontend.emitter import Emitter, unsupported
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


OPCODES: dict[str, Rule] = table()


def rule(instruction: Instruction) -> Rule:
    """The rule of an instruction; UnsupportedError if it has none."""
    found = OPCODES.get(instruction.opcode)
    if found is None:
        raise unsupported(instruction)
    return found
