# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L1 cache of an SM: sectored lines in four sets, one a tag bank, found by comparing 16 bits of all at once.

Replacement is not LRU: a new line is unmarked, a hit marks it, an unmarked line is evicted at random, one time in
eight any line (from a hash of line and count, so that results repeat); when all are marked, all marks are cleared.
Lines with sectors under way stay. A load that finds no line to evict is fetched past the cache.

An entry is known by its number within the SM; `base` is the SM's first. Marks, and which entries wait for sectors, are
bit maps of 512 bits a set.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.host import inlined, lowest, matches, ones

SETS = 4
LINES = 512  # stride of a set in the array of signs
WORDS = 8  # of a set's bit map


@inlined
def bank_of(line, mask0, mask1):
    """Tag bank of a line: two parities over bits of its number."""
    return (ones(line & mask0) & 1) | (ones(line & mask1) & 1) << 1


@inlined
def sign_of(line):
    """16 bits, odd, that tell most lines apart; an entry never used has 0."""
    return ((line & 0xFFFFFFFF) * 0x9E3779B1 >> 24) & 0xFFFF | 1


@inlined
def await_sectors(awaited, bank, capacity, sm, entry):
    """Sectors of an entry are under way."""
    spot = entry - bank * capacity
    awaited[(sm * SETS + bank) * WORDS + (spot >> 6)] |= np.int64(1) << (spot & 63)


@inlined
def settle(awaited, bank, capacity, sm, entry):
    """No sectors of an entry are under way any more."""
    spot = entry - bank * capacity
    awaited[(sm * SETS + bank) * WORDS + (spot >> 6)] &= ~(np.int64(1) << (spot & 63))


@inlined
def find(lines, signs, base, sm, bank, capacity, line):
    """Number of the entry that holds the line, or -1."""
    sign = sign_of(line)
    tag = np.int32(line)
    first = (sm * SETS + bank) * LINES
    for start in range(0, capacity, 32):
        found = matches(signs, first + start, sign)
        while found:
            entry = bank * capacity + start + lowest(found)
            if lines[base + entry].line == tag:
                return entry
            found &= found - 1
    return -1


@inlined
def mark(marks, banks, bank, capacity, sm, entry):
    """A hit on an entry: it is no longer one of those that may go."""
    group = sm * SETS + bank
    spot = entry - bank * capacity
    bit = np.int64(1) << (spot & 63)
    word = group * WORDS + (spot >> 6)
    if marks[word] & bit:
        marks[word] ^= bit
        banks[group].unmarked -= 1


@inlined
def victim(marks, awaited, capacity, group, draw):
    """An unmarked entry of the set at random, one time in eight any; none with sectors under way (-1 after 8 draws)."""
    for attempt in range(8):
        draw = (draw * 0x5851F42D4C957F2D + 0x14057B7EF767814F) & 0x7FFFFFFFFFFFFFFF
        if attempt == 0 and draw >> 60 == 0:
            spot = (draw >> 20) % capacity
            if not (awaited[group * WORDS + (spot >> 6)] >> (spot & 63)) & 1:
                return spot
        word = (draw >> 40) & (WORDS - 1)
        bits = marks[group * WORDS + word] & (np.int64(-1) << ((draw >> 50) & 63))
        for _ in range(WORDS):
            if bits:
                break
            word = (word + 1) & (WORDS - 1)
            bits = marks[group * WORDS + word]
        if bits == 0:
            word = (word + 1) & (WORDS - 1)
            bits = marks[group * WORDS + word]
        spot = (word << 6) | lowest(bits)
        if not (awaited[group * WORDS + word] >> (spot & 63)) & 1:
            return spot
    return -1


@inlined
def allocate(lines, signs, marks, awaited, banks, capacity, base, sm, bank, line, salt):
    """An entry for a new line, or -1 when every candidate has sectors under way."""
    group = sm * SETS + bank
    first = bank * capacity
    state = banks[group]
    if state.used < capacity:
        spot = np.int64(state.used)
        state.used += 1
    else:
        if state.unmarked == 0:
            for k in range(capacity):
                marks[group * WORDS + (k >> 6)] |= np.int64(1) << (k & 63)
            state.unmarked = capacity
        spot = victim(marks, awaited, capacity, group, line * 0x9E3779B97F4A7C1 + salt)
        if spot < 0:
            return spot
    entry = first + spot
    e = lines[base + entry]
    e.line = np.int32(line)
    e.valid = 0
    e.pending = 0
    e.waiter = -1
    signs[group * LINES + spot] = sign_of(line)
    bit = np.int64(1) << (spot & 63)
    word = group * WORDS + (spot >> 6)
    if not marks[word] & bit:
        marks[word] |= bit
        state.unmarked += 1
    return entry
