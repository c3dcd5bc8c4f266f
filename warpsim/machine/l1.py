# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L1 cache of an SM: sectored lines in four sets, one a tag bank, found through a hash table.

Replacement is not LRU: a new line is unreferenced, a hit marks it, an unreferenced line is evicted at random (from a
hash of line and count, so that results repeat); when all are marked, all marks are cleared. Lines with sectors under
way stay. A load that finds no line to evict is fetched past the cache.
"""

from __future__ import annotations

from numba import njit

from warpsim.machine.records import LINE, WAITER  # noqa: F401  (layouts that the kernels below work on)

HEADS = 2048  # hash table of an SM
SETS = 4


@njit(cache=True)
def bank_of(line, mask0, mask1):
    """Tag bank of a line: two parities over bits of its number."""
    a = line & mask0
    b = line & mask1
    a ^= a >> 32
    a ^= a >> 16
    a ^= a >> 8
    a ^= a >> 4
    b ^= b >> 32
    b ^= b >> 16
    b ^= b >> 8
    b ^= b >> 4
    return ((0x6996 >> (a & 15)) & 1) | (((0x6996 >> (b & 15)) & 1) << 1)


@njit(cache=True)
def find(lines, heads, sm, line):
    """Entry of the line in the L1 of `sm`, or -1."""
    entry = heads[sm * HEADS + ((line ^ (line >> 11)) & (HEADS - 1))]
    while entry >= 0:
        if lines[entry].line == line:
            return entry
        entry = lines[entry].next
    return -1


@njit(cache=True)
def mark(lines, unmarked, unmarked_count, capacity, entry):
    """A hit on an unreferenced line: take it off the list of those that may go."""
    here = lines[entry].position
    bank = entry // capacity
    last = unmarked_count[bank] - 1
    moved = unmarked[bank * capacity + last]
    unmarked[bank * capacity + here] = moved
    lines[moved].position = here
    unmarked_count[bank] = last
    lines[entry].position = -1


@njit(cache=True)
def allocate(lines, heads, unmarked, unmarked_count, used, capacity, sm, bank, line, salt):
    """An entry for a new line, or -1 when every candidate has sectors under way."""
    group = sm * SETS + bank
    base = group * capacity
    if used[group] < capacity:
        entry = base + used[group]
        used[group] += 1
    else:
        if unmarked_count[group] == 0:
            for i in range(capacity):
                unmarked[base + i] = base + i
                lines[base + i].position = i
            unmarked_count[group] = capacity
        count = unmarked_count[group]
        entry = -1
        draw = (line * 0x9E3779B97F4A7C15 + salt * 0x632BE59BD9B4E019) & 0x7FFFFFFFFFFFFFFF
        start = (draw >> 33) % count
        for i in range(min(count, 8)):
            spot = start + i
            if spot >= count:
                spot -= count
            candidate = unmarked[base + spot]
            if lines[candidate].pending == 0:
                entry = candidate
                break
        if entry < 0:
            return -1
        old = lines[entry].line
        head = sm * HEADS + ((old ^ (old >> 11)) & (HEADS - 1))
        at = heads[head]
        if at == entry:
            heads[head] = lines[entry].next
        else:
            while lines[at].next != entry:
                at = lines[at].next
            lines[at].next = lines[entry].next
        here = lines[entry].position
        moved = unmarked[base + count - 1]
        unmarked[base + here] = moved
        lines[moved].position = here
        unmarked_count[group] = count - 1
    head = sm * HEADS + ((line ^ (line >> 11)) & (HEADS - 1))
    e = lines[entry]
    e.line = line
    e.valid = 0
    e.pending = 0
    e.waiter = -1
    e.next = heads[head]
    heads[head] = entry
    spot = unmarked_count[group]
    unmarked[base + spot] = entry
    e.position = spot
    unmarked_count[group] = spot + 1
    return entry
