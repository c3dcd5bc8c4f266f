"""The table of SASS opcodes that compute: which rule each has, which modifiers it knows, and which only make unknowns.

Memory, control flow and barriers are not here: they belong to the executor. A rule is a function of (Emitter,
Instruction). A modifier that a rule does not know is an error: it may change the result.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsim.frontend import bits, convert, doubles, floating, integer, lanes, matrix, packed
from warpsim.frontend.emitter import I1, Emitter, Value, unsupported
from warpsim.frontend.program import Instruction

__all__ = ["OPCODES", "rule"]

Rule = Callable[[Emitter, Instruction], None]

_BOOL = "AND OR XOR"
_COMPARE = f"F T LT EQ LE GT NE GE {_BOOL}"
_FLOAT_COMPARE = f"{_COMPARE} NUM NAN LTU EQU LEU GTU NEU GEU"
_ROUND = "RN RZ RM RP"
_HALF = "BF16_V2 BF16 MMA FTZ"
_INTEGERS = "U8 S8 U16 S16 U32 S32 U64 S64"
_LOAD = "32 64 128 U8 S8 U16 S16"
_PACK = "F16 BF16 F32 E4M3 E5M2 PACK_AB UNPACK_B PACK_AB_MERGE_C UNPACK_B_MERGE_C"
_MINMAX = "U32 S32 S16x2 U16x2 RELU"

# opcode: (rule, modifiers it knows); the U... twin on the uniform datapath has the same
VECTOR: dict[str, tuple[Rule, str]] = {
    "IADD3": (integer.iadd3, "X"), "IADD": (integer.viadd, ""), "VIADD": (integer.viadd, "16x2 S16x2 U16x2"),
    "IMAD": (integer.imad, "X WIDE HI U32 S32 MOV SHL IADD"), "IMUL": (integer.imul, "WIDE HI U32"),
    "LEA": (integer.lea, "HI X SX32"), "ISCADD": (integer.iscadd, ""), "SHF": (integer.shf, "L R HI W U32 S32 U64 S64"),
    "SHL": (integer.shl, "U32"), "SHR": (integer.shr, "U32 S32"), "LOP3": (integer.lop3, "LUT PAND POR"),
    "LOP": (integer.lop, "AND OR XOR PASS_B"), "PLOP3": (integer.plop3, "LUT"),
    "ISETP": (integer.isetp, f"{_COMPARE} U32 S32 EX"), "ISET": (integer.iset, f"{_COMPARE} U32 S32 EX BF"),
    "SEL": (integer.sel, "64"), "MOV": (integer.mov, "64"), "IABS": (integer.iabs, ""),
    "FADD": (floating.fadd, f"{_ROUND} FTZ SAT"), "FMUL": (floating.fmul, f"{_ROUND} FTZ SAT D2 D4 D8 M2 M4 M8"),
    "FFMA": (floating.ffma, f"{_ROUND} FTZ SAT"), "FADD2": (floating.fadd2, "FTZ"), "FMUL2": (floating.fmul2, "FTZ"),
    "FFMA2": (floating.ffma2, "FTZ"), "FSETP": (floating.fsetp, f"{_FLOAT_COMPARE} FTZ"),
    "FSET": (floating.fset, f"{_FLOAT_COMPARE} FTZ BF"), "FSEL": (floating.fsel, "FTZ"),
    "FMNMX": (floating.fmnmx, "FTZ NAN XORSIGN"), "FMNMX3": (floating.fmnmx, "FTZ NAN"),
    "HFMA2": (packed.hfma2, f"{_HALF} SAT RELU F32"), "HADD2": (packed.hadd2, f"{_HALF} SAT F32"),
    "HMUL2": (packed.hmul2, f"{_HALF} SAT F32"), "HMNMX2": (packed.hmnmx2, f"{_HALF} NAN"),
    "HSETP2": (packed.hsetp2, f"{_HALF} {_FLOAT_COMPARE} H_AND"),
    "HSET2": (packed.hset2, f"{_HALF} {_FLOAT_COMPARE} BF"),
    "F2FP": (packed.f2fp, f"{_PACK} RZ FTZ RELU SATFINITE"),
    "POPC": (bits.popc, ""), "FLO": (bits.flo, "U32 SH"), "BREV": (bits.brev, ""), "BMSK": (bits.bmsk, "W"),
    "SGXT": (bits.sgxt, "U32 W"), "PRMT": (bits.prmt, "IDX F4E B4E RC8 ECL ECR RC16"),
    "IMNMX": (bits.vimnmx, "U32 S32"),
    "VIMNMX": (bits.vimnmx, _MINMAX), "VIMNMX3": (bits.vimnmx, _MINMAX), "VIADDMNMX": (bits.viaddmnmx, _MINMAX),
    "VABSDIFF": (bits.vabsdiff, "U32 S32"), "VABSDIFF4": (bits.vabsdiff4, "U8 S8 ACC"),
    "IDP": (bits.idp, "2A 4A LO HI S8 U8 S16 U16"), "I2I": (bits.i2i, f"{_INTEGERS} SAT"),
    "I2IP": (bits.i2ip, f"{_INTEGERS} SAT"),
    "DADD": (doubles.dadd, _ROUND), "DMUL": (doubles.dmul, _ROUND), "DFMA": (doubles.dfma, _ROUND),
    "DSETP": (doubles.dsetp, f"{_FLOAT_COMPARE} MIN MAX"), "DMNMX": (doubles.dmnmx, "NAN"),
    "F2F": (convert.f2f, f"F16 BF16 F32 F64 FTZ TRUNC FLOOR CEIL {_ROUND}"),
    "F2I": (convert.f2i, f"F16 BF16 F32 F64 FTZ NTZ TRUNC FLOOR CEIL {_INTEGERS}"),
    "F2IP": (convert.f2ip, f"F32 FTZ NTZ TRUNC FLOOR CEIL {_INTEGERS}"),
    "I2F": (convert.i2f, f"F16 BF16 F32 F64 {_ROUND} {_INTEGERS}"), "I2FP": (convert.i2f, f"F32 {_ROUND} U32 S32"),
    "FRND": (convert.frnd, "F16 BF16 F32 F64 FTZ TRUNC FLOOR CEIL"), "FCHK": (convert.fchk, "DIVIDE"),
    "MUFU": (convert.mufu, "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H F16 BF16 BF16_V2"),
    "S2R": (lanes.s2r, "32"), "CS2R": (lanes.cs2r, "32 64"), "LDC": (lanes.ldc, _LOAD), "P2R": (lanes.p2r, ""),
    "R2P": (lanes.r2p, ""),
}  # fmt: skip

# rules that look after both register files themselves, or have no uniform twin
MIXED: dict[str, tuple[Rule, str]] = {
    "S2UR": (lanes.s2ur, "32"), "R2UR": (lanes.r2ur, "OR"), "SHFL": (lanes.shfl, "IDX UP DOWN BFLY"),
    "VOTE": (lanes.vote, "ALL ANY EQ"), "VOTEU": (lanes.vote, "ALL ANY EQ"), "MATCH": (lanes.match, "ANY ALL U64"),
    "REDUX": (lanes.redux, "AND OR XOR SUM MIN MAX S32 U32"),
    "CREDUX": (lanes.redux, "AND OR XOR SUM MIN MAX S32 U32 F32 ABS"), "ELECT": (lanes.elect, ""),
    "LEPC": (lanes.lepc, ""), "QSPC": (lanes.qspc, "E S L G"), "MOVM": (matrix.movm, "16 MT88"),
}  # fmt: skip

_TWINS = {"LDC": ("ULDC", "LDCU"), "P2R": ("UP2UR",), "R2P": ("UR2UP",)}


def uniform(vector_rule: Rule) -> Rule:
    """The rule of the uniform datapath: the same on one lane."""

    def emit(e: Emitter, i: Instruction) -> None:
        e.enter(i, 1)
        vector_rule(e, i)

    return emit


def _table() -> dict[str, tuple[Rule, frozenset[str]]]:
    rules = {name: (emit, frozenset(known.split())) for name, (emit, known) in {**VECTOR, **MIXED}.items()}
    for name in VECTOR:
        for twin in _TWINS.get(name, (f"U{name}",)):
            rules[twin] = (uniform(rules[name][0]), rules[name][1])
    return rules


_RULES = _table()

# Opcodes without a value rule that write nothing but registers, all of which become unknown.
UNKNOWN = ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "FSWZADD")


def results_of(instruction: Instruction) -> int:
    """Registers that an opcode of `UNKNOWN` writes: matrix products give 8 x 8 or 16 x 8 results over 32 lanes."""
    if instruction.opcode == "FSWZADD":
        return 1
    shape = next((m for m in instruction.modifiers if m[0].isdigit()), "")
    count = 4 if shape.startswith("16") else 2
    if instruction.opcode == "DMMA":
        return 2 * count
    # the first type named is the result's; fp16 results lie two in a register
    default = "F16" if instruction.opcode == "HMMA" else ""
    kind = next((m for m in instruction.modifiers if m in ("F16", "F32")), default)
    return count // 2 if kind == "F16" else count


def arithmetic_unknown(e: Emitter, i: Instruction) -> None:
    """All results of an opcode without a value rule become unknown, and the caller is told."""
    every = e.constant(1, I1)
    for k in range(results_of(i)):
        e.result(lanes.register(i.operands[0], k), Value(e.constant(0), every))
    e.note_unknown(i, every if e.mask is None else e.mask)


OPCODES: dict[str, Rule] = {name: emit for name, (emit, _) in _RULES.items()}
OPCODES |= dict.fromkeys(UNKNOWN, arithmetic_unknown)


def rule(instruction: Instruction) -> Rule:
    """The rule of an instruction; UnsupportedError if it has none for this opcode or one of its modifiers."""
    found = OPCODES.get(instruction.opcode)
    if found is None:
        raise unsupported(instruction)
    if instruction.opcode in _RULES:
        strange = [m for m in instruction.modifiers if m not in _RULES[instruction.opcode][1]]
        if strange:
            raise unsupported(instruction, f"modifier {strange[0]}")
    return found
