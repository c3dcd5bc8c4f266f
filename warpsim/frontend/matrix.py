"""Rules of the moves of 8 x 8 matrices that lie in the registers of a warp."""

from __future__ import annotations

from llvmlite import ir

from warpsim.frontend.emitter import I16, I32, LANES, Emitter, Value
from warpsim.frontend.integer import word
from warpsim.frontend.program import Instruction

__all__: list[str] = []


def movm(e: Emitter, i: Instruction) -> None:
    """MOVM.16.MT88: an 8 x 8 matrix of half words transposed; lane l holds row l/4, columns 2(l%4) and the next."""
    b = e.builder
    if set(i.modifiers) != {"16", "MT88"}:
        raise e.unsupported("its shape")
    x = word(e, i.operands[1])
    halves = b.bitcast(x.bits, ir.VectorType(I16, 2 * LANES))
    source = [(2 * (lane % 4) + j, lane // 4) for lane in range(LANES) for j in (0, 1)]  # (row, column) read
    places = [2 * (4 * row + column // 2) + column % 2 for row, column in source]
    moved = b.shuffle_vector(halves, halves, ir.Constant(ir.VectorType(I32, 2 * LANES), places))
    unknown = x.unknown
    if unknown is not None:
        lanes = [[place // 2 for place in places[j::2]] for j in (0, 1)]
        parts = [b.shuffle_vector(unknown, unknown, ir.Constant(ir.VectorType(I32, LANES), part)) for part in lanes]
        unknown = b.or_(*parts)
    e.result(i.operands[0], Value(b.bitcast(moved, e.vector(I32)), unknown))
