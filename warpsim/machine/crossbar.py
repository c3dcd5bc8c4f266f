# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""The crossbar: requests from each SM's port to the slice that serves them, responses back through its return port.

A line's own slice follows from its address: consecutive pieces are dealt to the slices in pseudo-random order, each
slice equally often in a block of pieces; in the same way larger clumps are dealt to the channels of DRAM. A request
from the other side first goes to the slice of the same number on the SM's side.

Reads of one line by SMs of one GPC merge while the first is on its way: L2 sees one request, which at most
`merge_requests` of them share. SMs are numbered GPC by GPC, in the order in which CTAs are launched on them; GPCs take
turns between the sides of L2.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.host import borrowed, compiled, high_product, inlined, prefetch
from warpsim.machine.records import ATOMIC, HOME, NEAR, READ, RESPONSE_BITS, TICK_BITS, WRITE, sectors_of

CALENDAR = 2048  # cycles ahead for which events have a bucket of their own
BUCKET = 256  # events of a cycle; more go to the next
DEALS = 16  # tables of a pseudo-random order
AHEAD = 16  # loads, and stores, of the next SM that are brought into the host's cache
LEADERS = 2048  # lines of a GPC whose last read is remembered
CHANNEL_ROUNDS = 32  # times each channel occurs in a table of clumps
SLICE_ROUNDS = 4  # times each slice occurs in a table of pieces: a few pieces may well meet in one slice


def deal_table(places: int, rounds: int = 1) -> np.ndarray:
    """`DEALS` orders in which stretches of lines are dealt to slices or channels, each so many times in an order."""
    rng = np.random.default_rng(12345)
    deck = np.tile(np.arange(places), rounds)
    return np.stack([rng.permutation(deck) for _ in range(DEALS)]).astype(np.int16).ravel()


@inlined
def mix(x):
    """A hash of an integer, non-negative."""
    x = (x ^ (x >> 31)) * 0x7FB5D329728EA185
    x = (x ^ (x >> 27)) * 0x1B03738712FAD5C9
    return (x ^ (x >> 32)) & 0x7FFFFFFFFFFFFFFF


@compiled
def inverse_of(divisor):
    """What `quotient` multiplies with in place of a division by this."""
    return np.int64((np.uint64(0x8000000000000000) + np.uint64(divisor - 1)) // np.uint64(divisor))


@inlined
def quotient(x, divisor, inverse):
    """x // divisor for x >= 0 of at most 62 bits."""
    q = high_product(x << 1, inverse)
    return q - (q * divisor > x)


@inlined
def rest(x, divisor, inverse):
    """x % divisor, likewise."""
    return x - quotient(x, divisor, inverse) * divisor


@inlined
def place(line, deals, size, by_size, clump_lines, by_clump):
    """`place_of` with the inverses of `size`, the length of a table, and of `clump_lines` at hand."""
    clump = quotient(line, clump_lines, by_clump)
    block = quotient(clump, size, by_size)
    h = mix(block)
    at = clump - block * size + rest(h >> 8, size, by_size)
    return deals[(h & (DEALS - 1)) * size + (at - size if at >= size else at)]


@compiled
def place_of(line, deals, clump_lines):
    """The slice, or the channel, that a line belongs to."""
    size = deals.shape[0] // DEALS
    return place(line, deals, size, inverse_of(size), clump_lines, inverse_of(clump_lines))


@inlined
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
    ring, size = m.outs.shape[0] // m.sms.shape[0], m.deals.shape[0] // DEALS
    m = borrowed(m)
    p = m.parameters[0]
    sms, messages, deals, counts, buckets = m.sms, m.messages, m.deals, m.counts, m.buckets
    outs, stores = m.outs, m.stores
    half = p.slices // p.partitions
    clump = p.interleave_lines
    by_size, by_clump, by_half, by_sets = inverse_of(size), inverse_of(clump), inverse_of(half), inverse_of(p.sets)
    moved = 0
    limit = end << TICK_BITS
    for sm in range(p.sms):
        s = sms[sm]
        if sm + 1 < p.sms:
            other, first = sms[sm + 1], (sm + 1) * ring
            for k in range(other.out_head, min(other.out_tail, other.out_head + AHEAD)):
                prefetch(messages, np.int64(outs[first + (k & (ring - 1))]))
            for k in range(other.store_head, min(other.store_tail, other.store_head + AHEAD)):
                prefetch(messages, np.int64(stores[first + (k & (ring - 1))]))
        gpc = sm * p.gpcs // p.sms
        side = gpc % p.partitions
        load, store = s.out_head, s.store_head
        while True:
            # The earlier of the next load and the next store.
            i = np.int64(-1)
            time = limit
            if load < s.out_tail:
                i = np.int64(outs[sm * ring + (load & (ring - 1))])
                time = messages[i].time
            if store < s.store_tail:
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
            home = np.int64(place(msg.line, deals, size, by_size, clump, by_clump))
            msg.home_slice = home
            msg.near_slice = side * half + rest(home, half, by_half)
            msg.set = rest(mix(msg.line) >> 20, p.sets, by_sets)
            msg.stage = HOME if msg.near_slice == home else NEAR
            msg.time += p.request_latency
            schedule(counts, buckets, i, msg.time, now)
            moved += 1
        s.out_head = load
        s.store_head = store
    return moved


@inlined
def merge(p, total, messages, leaders, follows, msg, i, by_sms):
    """Let a read that comes to L2 follow one of its line and GPC that is not answered yet, or be followed itself.

    A leader is its line's low bits, and the message.
    """
    gpc = quotient(msg.sm * p.gpcs, p.sms, by_sms)
    spot = gpc * LEADERS + ((msg.line ^ (msg.line >> 11)) & (LEADERS - 1))
    line = msg.line & ((1 << (63 - RESPONSE_BITS)) - 1)
    leader = leaders[spot]
    if leader >> RESPONSE_BITS == line:
        j = leader & ((1 << RESPONSE_BITS) - 1)
        first = messages[j]
        if (
            0 < first.operations < p.merge_requests
            and first.line == msg.line
            and first.kind == READ
            and msg.mask & ~first.mask == 0
        ):
            follows[i] = follows[j]
            follows[j] = i
            first.operations += 1
            total.merged_requests += 1
            total.merged_sectors += sectors_of(np.int64(msg.mask))
            return True
    leaders[spot] = line << RESPONSE_BITS | i
    msg.operations = 1
    return False


@inlined
def respond(p, sms, messages, responses, ring, follows, i, time):
    """Hand the response of a message, and of those that merged with it, over through the return ports of their SMs."""
    shared = np.int64(1)
    if messages[i].kind == READ:
        shared = np.int64(messages[i].operations)
        messages[i].operations = 0
    while True:
        msg = messages[i]
        s = sms[msg.sm]
        start = max(time, s.return_free)
        finish = start
        if msg.kind == READ or msg.kind == ATOMIC:
            finish += sectors_of(msg.mask) * p.return_ticks
        s.return_busy += finish - start
        s.return_free = finish
        due = (finish + p.response_latency + 63) >> TICK_BITS
        responses[msg.sm * ring + (s.response_tail & (ring - 1))] = due << RESPONSE_BITS | i
        s.response_tail += 1
        shared -= 1
        if shared <= 0:
            break
        i = np.int64(follows[i])
