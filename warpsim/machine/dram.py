# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""DRAM channels: reads in order of arrival, writes gathered and drained in batches, a limit on row activations.

A read of a piece (consecutive bytes on one row of a channel) that is not among those open costs an activation, as
does every write-back and fill: the channel starts at most one in `activation_ns`. A drain costs a turnaround. The
latency of a read has a part that is fixed and an exponential part drawn from a hash of its stretch of 1 KB; its mean
grows with the share of the data rate that is in use.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsim.machine.crossbar import DEALS, inverse_of, mix, place, quotient, rest, schedule
from warpsim.machine.host import borrowed, compiled, inlined, prefetch
from warpsim.machine.l2 import READ_LINE, WRITE_LINE
from warpsim.machine.records import FILL, TICK_BITS, sectors_of

MEMORY = 1200  # cycles over which the share of the data rate in use is a moving mean


def tail_table(mean_ticks: float) -> NDArray[np.int64]:
    """1024 quantiles of an exponential distribution."""
    return np.array([-mean_ticks * math.log((k + 0.5) / 1024) for k in range(1024)]).astype(np.int64)


@inlined
def opened(open_piece, slot, piece):
    """Whether the piece's row is open; it is afterwards."""
    if open_piece[slot] == piece:
        return True
    open_piece[slot] = piece
    return False


@compiled
def drain(ch, start, turnaround):
    """Write what waits, from `start` on: the turnaround hides behind activations if these take longer than the data."""
    ch.free = start + max(ch.backlog + turnaround, ch.rows)
    ch.busy += ch.backlog
    ch.turning += turnaround
    ch.backlog = 0
    ch.rows = 0
    ch.drained = ch.free


@compiled
def advance(m, begin, end):
    """Carry out the commands of this window in order of time."""
    size = m.channel_deals.shape[0] // DEALS
    m = borrowed(m)
    p, total = m.parameters[0], m.totals[0]
    messages, commands, channels, deals = m.messages, m.commands, m.channels, m.channel_deals
    counts, buckets, open_piece, tail = m.counts, m.buckets, m.open_piece, m.tail
    order, starts, log = m.order, m.starts, m.log
    by_size, by_clump = inverse_of(size), inverse_of(p.clump_lines)
    by_piece, by_open = inverse_of(p.piece_lines), inverse_of(p.open_pieces)
    # Sort by cycle; what slices hand over after this window stays for the next.
    count = total.commands
    length = end - begin
    for k in range(length + 2):
        starts[k] = 0
    for k in range(count):
        starts[min(max((commands[k].time >> TICK_BITS) - begin, 0), length) + 1] += 1
    for k in range(length):
        starts[k + 1] += starts[k]
    due = np.int64(starts[length])
    for k in range(count):
        b = min(max((commands[k].time >> TICK_BITS) - begin, 0), length)
        if b < length:
            order[starts[b]] = k
            starts[b] += 1
    for position in range(due):
        c = commands[np.int64(order[position])]
        if position + 8 < due and commands[np.int64(order[position + 8])].kind == READ_LINE:
            prefetch(messages, np.int64(commands[np.int64(order[position + 8])].message))
        channel = np.int64(place(c.line & 0x7FFFFFFF, deals, size, by_size, p.clump_lines, by_clump))
        ch = channels[channel]
        n = sectors_of(c.mask)
        data = n * p.dram_sector_ticks
        piece = quotient(c.line, p.piece_lines, by_piece)
        t = c.time
        # The share of the data rate in use is a moving mean, as a part of 2**30, brought up to each command.
        passed = min(max(t - total.dram_moved, 0), MEMORY << TICK_BITS)
        total.dram_load += (data << 30) // (p.channels * MEMORY << TICK_BITS)
        total.dram_load -= total.dram_load * passed // (MEMORY << TICK_BITS)
        total.dram_moved = max(total.dram_moved, t)
        # Write-backs and fills come one line at a time, by age: each opens its row.
        closed = c.kind != READ_LINE or not opened(
            open_piece, channel * p.open_pieces + rest(piece, p.open_pieces, by_open), piece
        )
        total.activations += closed
        if c.kind == WRITE_LINE:
            total.dram_written += n
            ch.backlog += data + p.row_ticks
            ch.rows += p.write_activation_ticks
            continue
        total.dram_read += n
        if ch.backlog > 0 and (max(ch.backlog, ch.rows) >= p.drain_ticks or t - ch.drained >= p.drain_interval_ticks):
            drain(ch, max(ch.free, t), p.turnaround_ticks)
        start = max(t, ch.free)
        if closed:
            start = max(start, ch.active)
            ch.active = start + p.activation_ticks
            data += p.row_ticks
        ch.free = start + data
        ch.busy += data
        if c.kind == READ_LINE:
            msg = messages[c.message]
            late = tail[(mix(c.line >> 3) >> 16) & 1023]
            late += (late * p.tail_growth >> 10) * (min(total.dram_load, 1 << 30) >> 20) >> 10
            if msg.near_slice != msg.home_slice:
                late += p.far_ticks
            msg.time = ch.free + p.dram_latency_ticks + late
            msg.stage = FILL
            if msg.request > 0:
                log[msg.request - 1].dram += sectors_of(np.int64(c.mask & msg.mask))
            schedule(counts, buckets, np.int64(c.message), msg.time, end)
        else:
            total.fills += n
    kept = 0
    if due < count:
        for k in range(count):
            if (commands[k].time >> TICK_BITS) - begin >= length:
                commands[kept] = commands[k]
                kept += 1
    total.commands = kept
    # A channel without reads drains on its own.
    total.dram_ahead = 0
    for number in range(p.channels):
        ch = channels[number]
        start = max(ch.free, begin << TICK_BITS)
        if max(ch.backlog, ch.rows) >= p.drain_ticks and start < end << TICK_BITS:
            drain(ch, start, p.turnaround_ticks)
        total.dram_ahead += max(ch.free - (begin << TICK_BITS), 0) + ch.backlog
