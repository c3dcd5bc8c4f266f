# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""CTA dispatch: one queue for the GPU, a CTA every `dispatch_cycles`, each slot refilled some time after it is free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.machine.host import borrowed, compiled, prefetch
from warpsim.machine.records import (
    BOARD_FIRST,
    BOARD_STRIDE,
    GAP,
    PENDING_FIRST,
    PENDING_STRIDE,
    RUNNING,
    TICK_BITS,
)  # fmt: skip
from warpsim.machine.sm import GROUPS


@compiled
def start(m, slots, times):
    """Put the warps of the CTAs launched in these slots at these cycles on their SMs."""
    m = borrowed(m)
    p = m.parameters[0]
    sms, warps, ctas, due = m.sms, m.warps, m.ctas, m.due
    groups, board_pending, board_time = m.groups, m.board_pending, m.boards
    for k in range(slots.shape[0]):
        slot = slots[k]
        if k + 2 < slots.shape[0]:
            for row in range(slots[k + 2] * p.warps, (slots[k + 2] + 1) * p.warps):
                prefetch(warps, row)
                prefetch(board_time, row * BOARD_STRIDE + 8)
        sm = slot // p.ctas_per_sm
        s = sms[sm]
        ctas[slot].alive = p.warps
        ctas[slot].arrived = 0
        first = times[k] + p.warp_start
        # The first CTA of an SM waits for code and constants to come through cold caches.
        if s.begun == 0:
            s.begun = 1 + times[k] + p.cold_start
        first = max(first, s.begun - 1)
        m.totals[0].warps += p.warps
        for row in range(slot * p.warps, (slot + 1) * p.warps):
            w = warps[row]
            w.op = 0
            w.end = 0
            w.phase = GAP
            w.state = RUNNING
            w.started = times[k]
            w.group_head = 0
            w.group_tail = 0
            w.group_time = 0
            if p.copies:
                groups[row * GROUPS].pending = 0
                groups[row * GROUPS].time = 0
            for b in range(6):
                board_pending[row * PENDING_STRIDE + PENDING_FIRST + b] = 0
                board_time[row * BOARD_STRIDE + BOARD_FIRST + b] = 0
            due[sm * 64 + row - sm * p.rows] = first


class Dispatcher:
    """Which CTA goes where and when."""

    def __init__(self, ctas: int, slots: int, sms: int, dispatch_ticks: int, turnaround: int) -> None:
        self.ctas = ctas
        self.next_cta = 0
        self.free_ticks = 0
        self.dispatch_ticks = dispatch_ticks
        self.turnaround = turnaround
        per_sm = slots // sms
        order = np.arange(slots, dtype=np.int64)
        self._first = (order % sms) * per_sm + order // sms  # breadth first over the SMs

    def first_wave(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """CTAs of the start: numbers, slots, launch cycles."""
        return self._launch(self._first[: self.ctas], np.zeros(min(self.ctas, len(self._first)), np.int64))

    def after(
        self, slots: NDArray[np.int64], times: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """CTAs for slots that became free at these cycles: CTA numbers, slots, launch cycles."""
        order = np.lexsort((slots, times))[: max(0, self.ctas - self.next_cta)]
        return self._launch(slots[order], times[order] + self.turnaround)

    def _launch(
        self, slots: NDArray[np.int64], ready: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        n = len(slots)
        ctas = np.arange(self.next_cta, self.next_cta + n, dtype=np.int64)
        self.next_cta += n
        # A queue with constant service: launch k = max over j <= k of ready j + (k - j) × service.
        step = np.arange(n, dtype=np.int64) * self.dispatch_ticks
        base = np.maximum.accumulate((ready << TICK_BITS) - step) if n else step
        at = np.maximum(base, self.free_ticks) + step
        if n:
            self.free_ticks = int(at[-1]) + self.dispatch_ticks
        return ctas, slots, (at + 63) >> TICK_BITS
