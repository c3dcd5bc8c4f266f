# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""The crossbar: requests from each SM's port to the slice that serves them, responses back through its return port.

A line's own slice follows from its address: consecutive pieces are dealt to the slices in pseudo-random order, each
slice once in a block of pieces; in the same way larger clumps are dealt to the channels of DRAM. A request from the
other side first goes to the slice of the same number on the SM's side.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.host import borrowed, compiled, prefetch
from warpsim.machine.records import HOME, NEAR, TICK_BITS, WRITE

CALENDAR = 2048  # cycles ahead for which events have a bucket of their own
BUCKET = 256  # events of a cycle; more go to the next
DEALS = 16  # tables of a pseudo-random order
CHANNEL_ROUNDS = 32  # times each channel occurs in a table of clumps; each slice occurs once in one of pieces


def deal_table(places: int, rounds: int = 1) -> np.ndarray:
    """`DEALS` orders in which stretches of lines are dealt to slices or channels, each so many times in an order."""
    rng = np.random.default_rng(12345)
    deck = np.tile(np.arange(places), rounds)
    return np.stack([rng.permutation(deck) for _ in range(DEALS)]).astype(np.int16).ravel()


@compiled
def mix(x):
    """A hash of an integer, non-negative."""
    x = (x ^ (x >> 31)) * 0x7FB5D329728EA185
    x = (x ^ (x >> 27)) * 0x1B03738712FAD5C9
    return (x ^ (x >> 32)) & 0x7FFFFFFFFFFFFFFF


@compiled
def place_of(line, deals, clump_lines):
    """The slice, or the channel, that a line belongs to."""
    clump = line // clump_lines
    size = deals.shape[0] // DEALS
    block = clump // size
    h = mix(block)
    return deals[(h & (DEALS - 1)) * size + (clump - block * size + (h >> 8) % size) % size]


@compiled
def schedule(counts, buckets, i, time, now):
    """Put a message in the bucket of its time; one too far ahead goes to the last bucket and is put off again there."""
    cycle = time >> TICK_BITS
    if cycle < now:
        cycle = now
    if cycle >= now + CALENDAR - 1:
        cycle = now + CALENDAR - 2
    b = cycle & (CALENDAR - 1)
    while counts[b] == BUCKET:
        b = (b + 1) & (CALENDAR - 1)
    buckets[b * BUCKET + counts[b]] = i
    counts[b] += 1


@compiled
def send(m, now, end):
    """Move the requests that leave the SMs before cycle `end` on to the slices; returns how many."""
    p = m.parameters[0]
    sms, messages, deals = borrowed(m.sms), borrowed(m.messages), borrowed(m.deals)
    counts, buckets = borrowed(m.counts), borrowed(m.buckets)
    outs, stores = borrowed(m.outs), borrowed(m.stores)
    ring = outs.shape[0] // sms.shape[0]
    half = p.slices // p.partitions
    moved = 0
    limit = end << TICK_BITS
    for sm in range(p.sms):
        s = sms[sm]
        side = (sm & 1) if p.partitions == 2 else 0
        load, store = s.out_head, s.store_head
        while True:
            # The earlier of the next load and the next store.
            i = np.int64(-1)
            time = limit
            if load < s.out_tail:
                i = np.int64(outs[sm * ring + (load & (ring - 1))])
                time = messages[i].time
                if load + 4 < s.out_tail:
                    prefetch(messages, np.int64(outs[sm * ring + ((load + 4) & (ring - 1))]))
            if store < s.store_tail:
                if store + 4 < s.store_tail:
                    prefetch(messages, np.int64(stores[sm * ring + ((store + 4) & (ring - 1))]))
                j = np.int64(stores[sm * ring + (store & (ring - 1))])
                if i < 0 or messages[j].time < time:
                    i = j
                    time = messages[j].time
            if time >= limit:
                break
            msg = messages[i]
            if msg.kind == WRITE:
                store += 1
            else:
                load += 1
            home = place_of(msg.line, deals, p.interleave_lines)
            msg.home_slice = home
            msg.near_slice = side * half + home % half
            msg.set = (mix(msg.line) >> 20) % p.sets
            msg.stage = HOME if msg.near_slice == home else NEAR
            msg.time += p.request_latency
            schedule(counts, buckets, i, msg.time, now)
            moved += 1
        s.out_head = load
        s.store_head = store
    return moved


@compiled
def respond(p, sms, messages, responses, times, i, time, sectors):
    """Charge the return port of the message's SM at `time` (ticks) and hand the response over."""
    msg = messages[i]
    s = sms[msg.sm]
    start = max(time, s.return_free)
    finish = start + sectors * p.return_ticks
    s.return_busy += finish - start
    s.return_free = finish
    ring = responses.shape[0] // sms.shape[0]
    at = msg.sm * ring + (s.response_tail & (ring - 1))
    responses[at] = i
    times[at] = (finish + p.response_latency + 63) >> TICK_BITS
    s.response_tail += 1
