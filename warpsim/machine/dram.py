# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""DRAM channels: reads in order of arrival, writes gathered and drained in batches, a limit on row activations.

A piece (consecutive bytes on one row of a channel) that is not among those open costs an activation: the channel starts
at most one in `activation_ns`. A drain costs a turnaround. The latency of a read has a part that is fixed and an
exponential part drawn from a hash of its piece.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from warpsim.machine.crossbar import mix, schedule
from warpsim.machine.l2 import READ_LINE, WRITE_LINE, sectors_of
from warpsim.machine.records import FILL

COMMAND = np.dtype(
    [
        ("time", np.int64),
        ("line", np.int64),
        ("message", np.int32),
        ("channel", np.int32),
        ("kind", np.int32),
        ("mask", np.int32),
    ],
    align=True,
)


def tail_table(mean_ticks: float) -> np.ndarray:
    """1024 quantiles of an exponential distribution."""
    return np.array([-mean_ticks * math.log((k + 0.5) / 1024) for k in range(1024)]).astype(np.int64)


@njit(cache=True)
def opened(m, p, channel, piece):
    """Whether the piece's row is open; it is afterwards."""
    slot = piece % p.open_pieces
    if m.open_piece[channel, slot] == piece:
        return True
    m.open_piece[channel, slot] = piece
    return False


@njit(cache=True)
def advance(p, m, begin, end):
    """Carry out the commands of this window, in the order in which the slices gave them."""
    messages = m.messages
    counters = m.dram_counters
    for k in range(m.command_count[0]):
        c = m.commands[k]
        channel = c.channel * p.channels // p.slices
        n = sectors_of(c.mask)
        data = n * p.dram_sector_ticks
        piece = c.line // p.piece_lines
        t = c.time
        if c.kind == WRITE_LINE:
            counters[1] += n
            if not opened(m, p, channel, piece):
                counters[2] += 1
                data = max(data, p.activation_ticks)
            m.channel_backlog[channel] += data
            continue
        counters[0] += n
        backlog = m.channel_backlog[channel]
        free = m.channel_free[channel]
        if backlog > 0 and (backlog >= p.drain_ticks or t - m.channel_drained[channel] >= p.drain_interval_ticks):
            free = max(free, t) + backlog + p.turnaround_ticks
            m.channel_busy[channel] += backlog
            m.channel_turning[channel] += p.turnaround_ticks
            m.channel_backlog[channel] = 0
            m.channel_drained[channel] = free
        start = max(t, free)
        if not opened(m, p, channel, piece):
            counters[2] += 1
            start = max(start, m.channel_active[channel])
            m.channel_active[channel] = start + p.activation_ticks
        free = start + data
        m.channel_busy[channel] += data
        m.channel_free[channel] = free
        if c.kind == READ_LINE:
            msg = messages[c.message]
            far = p.far_ticks if msg.near_slice != msg.home_slice else 0
            tail = m.tail[(mix(piece * 1024 + (msg.row & 1023)) >> 16) & 1023]
            msg.time = free + p.dram_latency_ticks + tail + far
            msg.stage = FILL
            schedule(messages, m.calendar_head, m.calendar_tail, c.message, end)
    m.command_count[0] = 0
    # Channels without reads drain on their own.
    for channel in range(p.channels):
        if m.channel_backlog[channel] >= p.drain_ticks:
            now = end << 6
            free = max(m.channel_free[channel], begin << 6)
            if free < now:
                backlog = m.channel_backlog[channel]
                m.channel_busy[channel] += backlog
                m.channel_turning[channel] += p.turnaround_ticks
                m.channel_free[channel] = free + backlog + p.turnaround_ticks
                m.channel_backlog[channel] = 0
                m.channel_drained[channel] = m.channel_free[channel]
