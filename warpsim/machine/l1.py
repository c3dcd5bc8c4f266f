# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L1 cache of an SM: sectored lines in sets of four ways, as many sets in each of four tag banks.

Replacement: a new line takes the place of the one in its set that has been there longest and was not hit. When all
have been hit, they count as not hit again. Lines with sectors under way stay. A load that finds no line to evict is
fetched past the cache. A stream of lines on an H200 leaves all of the newest 1400 in L1, half of those 1750 lines
back and none of those 1900 back; passes over 2400 lines hit nothing, orders at random some, and lines that were hit
once outlast any number that were not.

An entry is known by its number within the SM.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.crossbar import mix, quotient, rest
from warpsim.machine.host import inlined, ones

BANKS = 4
WAYS = 4
HIT = 16  # bit of an entry's `valid`: it was hit


@inlined
def set_of(line, p, by_sets):
    """Number of the set, within the SM, of the line: neighbours lie in different ones.

    The bank is two parities over bits of the line number; within it, blocks of as many lines as there are sets are
    turned by a hash.
    """
    bank = (ones(line & p.mask0) & 1) | (ones(line & p.mask1) & 1) << 1
    block = quotient(line >> 2, p.l1_sets, by_sets)
    return bank * p.l1_sets + rest((line >> 2) + rest(mix(block) >> 8, p.l1_sets, by_sets), p.l1_sets, by_sets)


@inlined
def find(lines, first, line):
    """Way of the set whose entries begin at `first` that holds the line, or -1."""
    for way in range(WAYS):
        if lines[first + way].tag == np.int32(line):
            return way
    return -1


@inlined
def allocate(lines, turns, first, line):
    """A way of the set for a new line, or -1 when all its lines have sectors under way."""
    place = first // WAYS
    chosen = -1
    for k in range(2 * WAYS):
        way = (turns[place] + k) & (WAYS - 1)
        e = lines[first + way]
        if e.pending == 0 and (k >= WAYS or not e.valid & HIT):
            chosen = way
            break
    if chosen < 0:
        return chosen
    if lines[first + chosen].valid & HIT:
        for way in range(WAYS):
            lines[first + way].valid &= HIT - 1
    turns[place] = (chosen + 1) & (WAYS - 1)
    e = lines[first + chosen]
    e.tag = line
    e.valid = 0
    e.waiter = -1
    return chosen
