"""A kernel's code as the executor uses it: static tables, and the address of the native function that runs a warp.

What emits that function is `coder`, which is imported only when it is not in the cache.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.frontend import context as ctx
from warpsim.frontend import trace
from warpsim.frontend.blocks import Blocks, Layout, fp_kind
from warpsim.frontend.native import compile_native
from warpsim.frontend.program import Program

__all__ = ["Code", "build", "native"]


@dataclass
class Code:
    """What describes a kernel's code."""

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


@functools.lru_cache(maxsize=32)
def build(program: Program) -> Code:
    """The tables of a program."""
    blocks = Blocks(program)
    reached = [program.instructions[k] for first, count in blocks.spans for k in range(first, first + count)]
    return Code(
        layout=blocks.layout,
        leaders=blocks.leaders,
        blocks=blocks.spans,
        words=blocks.words,
        accesses=np.array(blocks.accesses, np.int64).reshape(-1, ctx.O_SIZE),
        operations=np.array(blocks.operations, trace.OPERATION),
        block_first=np.array(blocks.block_first, np.int32),
        block_count=np.array(blocks.block_count, np.int32),
        end_block=len(blocks.spans),
        guarded_fp={i.index for i in reached if fp_kind(i) and i.guard is not None},
    )


def _ir(program: Program) -> str:
    from warpsim.frontend.coder import emit

    return emit(program)


@functools.lru_cache(maxsize=32)
def native(program: Program) -> int:
    """Address of a program's `run_warp`; UnsupportedError names an instruction without a rule."""
    return compile_native(functools.partial(_ir, program), program.key, "run_warp")
