# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L1 cache of an SM: sectored lines in 256 sets, 64 in each of four tag banks, a way for every 32 KB.

Measured on an H200: passes over more and more lines begin to miss at 1,700 lines and hit nothing from 2,200 on, with
carve-outs of 32 to 196 KB proportionally sooner, each 32 KB a way, whether one sector of a line is read or all four.

Replacement: lines that were hit are protected, up to four of a set; beyond, the one that came first loses it. A new
line takes the place of the one that came first of those that are not. Lines with sectors under way stay. A load that
finds no line to evict is fetched past the cache. Of a stream of lines the newest 1,700 are there, a third of those
1,900 back, none 2,500 back; of 1,500 lines that were hit 1,024 outlast any number that were not, of 1,024 all.

An entry is known by its number within the SM.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.host import inlined, ones

BANKS = 4
BANK_SETS = 64
SETS = BANKS * BANK_SETS
WAYS = 8  # stride of a set in the arrays: a line of the host's cache
SPREAD, SHIFT = 0x360D5A3F, 8  # lines in a row fill the sets as evenly as the passes say
PROTECTED = 4  # lines of a set, and one less than it has ways
HIT = 16  # bit of an entry's `valid`: it was hit and is protected


@inlined
def set_of(line, p):
    """Number of the set, within the SM, of the line: the bank is two parities over bits of the line number."""
    bank = (ones(line & p.mask0) & 1) | (ones(line & p.mask1) & 1) << 1
    return bank * BANK_SETS + ((line >> 2) * SPREAD >> SHIFT & (BANK_SETS - 1))


@inlined
def find(lines, first, line):
    """Way of the set whose entries begin at `first` that holds the line, or -1."""
    for way in range(WAYS):
        if lines[first + way].tag == np.int32(line):
            return way
    return -1


@inlined
def following(way, ways):
    """The way whose line came next into a set."""
    return np.int64(way + 1 if way + 1 < ways else 0)


@inlined
def protect(lines, turns, first, way, ways):
    """Protect a line that is hit; the first come of too many loses it."""
    if lines[first + way].valid & HIT:
        return
    lines[first + way].valid |= HIT
    count = 0
    for k in range(ways):
        count += lines[first + k].valid >> 4
    if count > min(PROTECTED, ways - 1):
        oldest = np.int64(turns[first // WAYS])
        for _ in range(ways):
            if oldest != way and lines[first + oldest].valid & HIT:
                lines[first + oldest].valid &= HIT - 1
                break
            oldest = following(oldest, ways)


@inlined
def allocate(lines, turns, first, line, ways):
    """A way of the set for a new line, or -1 when all its lines have sectors under way."""
    place = first // WAYS
    chosen = np.int64(-1)
    way = np.int64(turns[place])
    for k in range(2 * ways):
        e = lines[first + way]
        if e.pending == 0 and (k >= ways or not e.valid & HIT):
            chosen = way
            break
        way = following(way, ways)
    if chosen < 0:
        return chosen
    turns[place] = following(chosen, ways)
    e = lines[first + chosen]
    e.tag = line
    e.valid = 0
    e.waiter = -1
    return chosen
