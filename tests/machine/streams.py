"""Synthetic warp sources: a kernel as a list of blocks, and for each CTA and warp the records it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from warpsim.frontend.trace import OPERATION, Rings


def operation(kind: int, **fields: int) -> NDArray[np.void]:
    """One row of the operation table; barriers default to none, the stall to one cycle."""
    row = np.zeros((), OPERATION)
    row["kind"], row["stall"], row["write_barrier"], row["read_barrier"], row["width"] = kind, 1, 7, 7, 4
    for name, value in fields.items():
        row[name] = value
    return row


def request(lines: Sequence[int], masks: Sequence[int] | None = None, *, active: int = 32, tag: int = 1, data: int = 1,
            full: bool = True, operations: int = 1) -> list[int]:  # fmt: skip
    """Header and line words of one memory request."""
    masks = [15] * len(lines) if masks is None else masks
    sectors = sum(mask.bit_count() for mask in masks)
    words = [len(lines) | tag << 8 | data << 16 | active << 32 | sectors << 40]
    for line, mask in zip(lines, masks, strict=True):
        words.append(mask | (mask if full else 0) << 4 | (operations - 1) << 8 | line << 16)
    return words


@dataclass
class Stream:
    """A `WarpSource` whose warps follow `trace(cta, warp)`: pairs of a block number and its records' words."""

    blocks: list[list[NDArray[np.void]]]
    trace: Callable[[int, int], list[tuple[int, list[int]]]]
    ctas: int
    warps_per_cta: int
    block_ring: int = 64
    word_ring: int = 1024
    instructions: int = 64
    operations: NDArray[np.void] = field(init=False)
    block_first: NDArray[np.int32] = field(init=False)
    block_count: NDArray[np.int32] = field(init=False)
    rings: Rings = field(init=False)

    def __post_init__(self) -> None:
        self.operations = np.array([op for block in self.blocks for op in block], OPERATION)
        self.block_count = np.array([len(block) for block in self.blocks], np.int32)
        self.block_first = (np.cumsum(self.block_count) - self.block_count).astype(np.int32)
        self._rest: dict[int, list[tuple[int, list[int]]]] = {}

    def open(self, slots: int) -> None:
        rows = slots * self.warps_per_cta
        self.rings = Rings(
            blocks=np.zeros((rows, self.block_ring), np.uint16), block_head=np.zeros(rows, np.int64),
            block_tail=np.zeros(rows, np.int64), words=np.zeros((rows, self.word_ring), np.uint64),
            word_head=np.zeros(rows, np.int64), word_tail=np.zeros(rows, np.int64), done=np.zeros(rows, np.uint8),
        )  # fmt: skip

    def start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        r = self.rings
        for cta, slot in zip(ctas.tolist(), slots.tolist(), strict=True):
            for warp in range(self.warps_per_cta):
                row = slot * self.warps_per_cta + warp
                r.block_head[row] = r.block_tail[row]
                r.word_head[row] = r.word_tail[row]
                r.done[row] = 0
                self._rest[row] = list(self.trace(cta, warp))
        self.refill(slots)

    def refill(self, slots: NDArray[np.int64]) -> None:
        r = self.rings
        for slot in slots.tolist():
            for row in range(slot * self.warps_per_cta, (slot + 1) * self.warps_per_cta):
                rest = self._rest.get(row, [])
                while rest:
                    block, words = rest[0]
                    if r.block_tail[row] - r.block_head[row] >= self.block_ring:
                        break
                    if r.word_tail[row] - r.word_head[row] + len(words) > self.word_ring:
                        break
                    r.blocks[row, r.block_tail[row] % self.block_ring] = block
                    for word in words:
                        r.words[row, r.word_tail[row] % self.word_ring] = word
                        r.word_tail[row] += 1
                    r.block_tail[row] += 1
                    rest.pop(0)
                r.done[row] = not rest
