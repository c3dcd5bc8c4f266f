"""What the SIMT executor hands to the timed machine: static operations and per-warp rings.

The executor cuts a kernel into *blocks*, straight pieces of code. Of a block only some instructions are
*operations* with an effect on timing; the plain ones before each are summed up in its `gap_*` fields. A warp's
dynamic stream is a sequence of block numbers (`blocks` ring) and, for every operation that accesses memory, one
record (`words` ring): a header word, then one word a line. Rows of the rings are warp slots: row =
CTA slot × warps a CTA + warp. Rings are indexed modulo their power-of-two width by counters that only grow;
the consumer advances `*_head`, the executor `*_tail`.

Header word: bits 0-7 line words that follow, 8-15 tag wavefronts, 16-31 data wavefronts, 32-37 active lanes (0: the
instruction was off in all lanes and makes no request), 40-47 sectors, 48-63 the operation index within its block.
Line word: bits 0-3 sectors touched, 4-7 sectors wholly covered (stores), 8-12 operations − 1 at L2 (atomics and
reductions), 16-63 line number (address // 128).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ASYNC_COPY", "ATOMIC", "BARRIER", "DEPBAR", "EXIT", "FIXED", "ISSUE", "LDGDEPBAR", "LOAD", "LOCAL_LOAD",
    "LOCAL_STORE", "OPERATION", "REDUCTION", "SHARED_ATOMIC", "SHARED_LOAD", "SHARED_STORE", "STORE", "Rings",
    "WarpSource",
]  # fmt: skip

ISSUE = 0  # a plain instruction that must first wait for a scoreboard, or the end of a block
LOAD = 1  # global; record
STORE = 2  # global; record
ATOMIC = 3  # global, returns a value; record
REDUCTION = 4  # global, returns nothing; record
SHARED_LOAD = 5  # LDS, LDSM; record without lines
SHARED_STORE = 6  # record without lines
SHARED_ATOMIC = 7  # record without lines
LOCAL_LOAD = 8  # record
LOCAL_STORE = 9  # record
ASYNC_COPY = 10  # LDGSTS; record: lines of the global side, data wavefronts of the shared side
BARRIER = 11  # BAR.SYNC of the CTA
EXIT = 12  # all lanes have left: the warp's last operation
FIXED = 13  # variable-latency producer without memory: MUFU, S2R, LDC, SHFL ...; `latency` cycles to its barrier
LDGDEPBAR = 14  # earlier ASYNC_COPYs of the warp form a group that counts on `write_barrier`
DEPBAR = 15  # wait until at most `count` groups are open

OPERATION = np.dtype(
    [
        ("kind", np.uint8),
        ("stall", np.uint8),  # cycles until the warp may issue its next instruction
        ("wait_mask", np.uint8),  # scoreboards that must be zero before this one issues
        ("write_barrier", np.uint8),  # 0-5, 7 none: raised at issue, lowered when the result is there
        ("read_barrier", np.uint8),  # 0-5, 7 none: lowered when the sources have been read
        ("flags", np.uint8),  # 1: bypasses L1 (.STRONG.GPU, volatile), 2: LDG.CONSTANT, 4: evict-first
        ("count", np.uint8),  # DEPBAR; data wavefronts of a FIXED operation (SHFL)
        ("width", np.uint8),  # bytes a lane
        ("latency", np.uint16),  # FIXED
        ("gap_instructions", np.uint16),  # plain instructions before this one, since the last operation
        ("gap_stall", np.uint16),  # the sum of their stall cycles
        # Of them and an ISSUE or FIXED operation itself, how many go to each pipe; `int` is the half-rate integer pipe.
        ("gap_int", np.uint16),
        ("gap_fp64", np.uint16),
        ("gap_xu", np.uint16),
        ("gap_fma", np.uint16),  # FP32/IMAD pipe
        ("gap_imad", np.uint16),  # of these, on the half of it that multiplies integers; a wide product counts twice
        ("gap_reads", np.uint16),  # registers read from the busier of the two banks
        ("index", np.uint16),  # instruction index (pc / 16)
    ]
)


@dataclass
class Rings:
    """The rings of all warp slots; `done[row]` is 1 once the last block of the warp in that row is written."""

    blocks: NDArray[np.uint16]  # [rows, power of two]
    block_head: NDArray[np.int64]
    block_tail: NDArray[np.int64]
    words: NDArray[np.uint64]  # [rows, power of two]
    word_head: NDArray[np.int64]
    word_tail: NDArray[np.int64]
    done: NDArray[np.uint8]


class WarpSource(Protocol):
    """A launch as the machine sees it: the executor, or a synthetic stream in a test."""

    operations: NDArray[np.void]  # dtype OPERATION, all blocks one after the other
    block_first: NDArray[np.int32]  # first operation of each block
    block_count: NDArray[np.int32]  # number of operations of each block, at least 1
    instructions: int  # size of per-instruction counter arrays
    ctas: int
    warps_per_cta: int
    rings: Rings  # set by `open`

    def open(self, slots: int) -> None:
        """Make rings for that many CTA slots."""

    def start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Begin these CTAs in these (free) slots: rings of the slot are emptied, then filled as far as they go."""

    def refill(self, slots: NDArray[np.int64]) -> None:
        """Go on with the CTAs in these slots until their rings are full or they are done."""
