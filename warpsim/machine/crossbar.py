# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""The crossbar: requests from each SM's port to the slice that serves them, responses back through its return port.

A line's own slice follows from its address: consecutive clumps of lines are dealt to the slices in pseudo-random
order, each slice as often in a block of clumps. A request from the other side first goes to the slice of the same
number on the SM's side.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from warpsim.machine.records import HOME, NEAR, RESPOND, TICK_BITS

CALENDAR = 8192  # cycles ahead for which events have a bucket of their own
DEALS = 16  # tables of the pseudo-random order
ROUNDS = 32  # times each slice occurs in a table


def deal_table(slices: int) -> np.ndarray:
    """`DEALS` orders in which clumps are dealt to slices, each slice `ROUNDS` times in each."""
    rng = np.random.default_rng(12345)
    deck = np.tile(np.arange(slices), ROUNDS)
    return np.stack([rng.permutation(deck) for _ in range(DEALS)]).astype(np.int16)


@njit(cache=True)
def mix(x):
    """A hash of an integer, non-negative."""
    x = (x ^ (x >> 31)) * 0x7FB5D329728EA185
    x = (x ^ (x >> 27)) * 0x1B03738712FAD5C9
    return (x ^ (x >> 32)) & 0x7FFFFFFFFFFFFFFF


@njit(cache=True)
def slice_of(line, deals, clump_lines, slices):
    """The slice (and with it side and channel) that a line belongs to."""
    clump = line // clump_lines
    size = slices * ROUNDS
    block = clump // size
    h = mix(block)
    return deals[h & (DEALS - 1), (clump - block * size + (h >> 8) % size) % size]


@njit(cache=True)
def schedule(messages, calendar_head, calendar_tail, i, now):
    """Put a message in the bucket of its time; one too far ahead goes to the last bucket and is put off again there."""
    cycle = messages[i].time >> TICK_BITS
    if cycle < now:
        cycle = now
    if cycle >= now + CALENDAR - 1:
        cycle = now + CALENDAR - 2
    b = cycle & (CALENDAR - 1)
    messages[i].next = -1
    if calendar_head[b] < 0:
        calendar_head[b] = i
    else:
        messages[calendar_tail[b]].next = i
    calendar_tail[b] = i


@njit(cache=True)
def send(p, m, now, end):
    """Move the requests that leave the SMs before cycle `end` on to the slices; returns how many."""
    sms, messages = m.sms, m.messages
    half = p.slices // p.partitions
    moved = 0
    limit = end << TICK_BITS
    for sm in range(p.sms):
        s = sms[sm]
        i = s.out_head
        side = (sm & 1) if p.partitions == 2 else 0
        while i >= 0:
            msg = messages[i]
            if msg.time >= limit:
                break
            following = msg.next
            home = slice_of(msg.line, m.deals, p.clump_lines, p.slices)
            msg.home_slice = home
            msg.near_slice = side * half + home % half
            msg.stage = HOME if msg.near_slice == home else NEAR
            msg.time += p.request_latency
            schedule(messages, m.calendar_head, m.calendar_tail, i, now)
            moved += 1
            i = following
        s.out_head = i
    return moved


@njit(cache=True)
def respond(p, sms, messages, i, time, sectors):
    """Charge the return port of the message's SM at `time` (ticks) and hand the response over."""
    msg = messages[i]
    s = sms[msg.sm]
    start = max(time, s.return_free)
    finish = start + sectors * p.return_ticks
    s.return_busy += finish - start
    s.return_free = finish
    msg.time = finish + p.response_latency
    msg.next = -1
    msg.stage = RESPOND
    if s.response_head < 0:
        s.response_head = i
    else:
        messages[s.response_tail].next = i
    s.response_tail = i
