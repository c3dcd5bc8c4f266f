# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L2: slices in one or two partitions, sectored lines, write-back.

A request is looked up in the near slice first; where the line belongs to the other side, misses and writes go on to its
home slice, and read data stays near as a copy while the home copy is next to go. A read miss brings whole fetch units
from DRAM. Whole-sector writes need nothing from DRAM; a partly written sector waits in its slice's queue for the rest
and, when the queue is full, is filled from DRAM and written back. A set holds a limited number of dirty lines.
Sectors under way merge. Each slice serves requests in order of arrival.
"""

from __future__ import annotations

from numba import njit

from warpsim.machine.crossbar import CALENDAR, mix, respond, schedule
from warpsim.machine.records import ATOMIC, FILL, HOME, NEAR, READ, REDUCTION, RESPOND, TICK, TICK_BITS, WRITE

WAYS = 64  # stride of a set in the tag arrays
QUEUE = 8192  # partly written lines that a slice can list
INLINE = 4 * TICK  # responses due this soon are charged at once

# What a way knows: bits 0-3 valid, 4-7 dirty, 8-11 under way, 12-15 partly written, 16 referenced, 17 has waiters.
REFERENCED = 1 << 16
WAITED = 1 << 17

# Commands to DRAM.
READ_LINE, WRITE_LINE, FILL_LINE = 0, 1, 2


@njit(cache=True)
def sectors_of(mask):
    return (0x4332322132212110 >> (mask * 4)) & 15


@njit(cache=True)
def set_of(p, slice_, line):
    """First way of the set that the line maps to."""
    return (slice_ * p.sets + ((mix(line) >> 20) % p.sets)) * WAYS


@njit(cache=True)
def look_up(tags, first, ways, tag):
    """Way index that holds the tag, or -1; the loop has no exit so that it vectorises."""
    found = -1
    for w in range(ways):
        if tags[first + w] == tag:
            found = w
    return first + found if found >= 0 else -1


@njit(cache=True)
def command(m, kind, message, line, slice_, mask, time):
    """Hand a command to DRAM: a read for a message, a write-back, or a fill of partly written sectors."""
    n = m.command_count[0]
    c = m.commands[n]
    c.kind = kind
    c.message = message
    c.line = line
    c.channel = slice_
    c.mask = mask
    c.time = time
    m.command_count[0] = n + 1


@njit(cache=True)
def write_back(p, m, entry, slice_, time):
    """Write the dirty sectors of an entry to DRAM; partly written ones are filled first."""
    state = m.state[entry]
    dirty = (state >> 4) & 15
    part = (state >> 12) & 15
    if part:
        command(m, FILL_LINE, -1, m.line_of[entry], slice_, part, time)
        m.partial_count[slice_] -= sectors_of(part)
        m.cover[entry] = 0
    command(m, WRITE_LINE, -1, m.line_of[entry], slice_, dirty, time)
    m.state[entry] = (state | part) & ~(15 << 4) & ~(15 << 12)


@njit(cache=True)
def replace(p, m, entry, slice_, line, time):
    """Give a way to a new line."""
    if (m.state[entry] >> 4) & 15:
        m.dirty_count[entry // WAYS] -= 1
        write_back(p, m, entry, slice_, time)
    m.tags[entry] = line & 0x7FFFFFFF
    m.line_of[entry] = line
    m.state[entry] = 0
    return entry


@njit(cache=True)
def insert(p, m, first, slice_, line, time):
    """A way for a new line: one that was only passed through, else the hand's next; -1 if none can go.

    The hand goes round the set, past lines under way and, once, past referenced ones.
    """
    group = first // WAYS
    ready = m.victim[group]
    if ready >= 0:
        m.victim[group] = -1
        if m.state[first + ready] & (REFERENCED | 0xFF0) == 0:
            return replace(p, m, first + ready, slice_, line, time)
    hand = m.hand[group]
    for _ in range(2 * p.ways + 1):
        entry = first + hand
        hand += 1
        if hand == p.ways:
            hand = 0
        state = m.state[entry]
        if (state >> 8) & 15:
            continue
        if state & REFERENCED:
            m.state[entry] = state & ~REFERENCED
            continue
        m.hand[group] = hand
        return replace(p, m, entry, slice_, line, time)
    return -1


@njit(cache=True)
def wait(m, messages, entry, i):
    """Put a message on the list of those that wait for sectors of an entry."""
    if m.state[entry] & WAITED:
        messages[i].next = m.waiting[entry]
    else:
        messages[i].next = -1
        m.state[entry] |= WAITED
    m.waiting[entry] = i


@njit(cache=True)
def written(p, m, messages, i, entry, slice_, time):
    """Account for a write's sectors in an entry of its home slice."""
    msg = messages[i]
    group = entry // WAYS
    state = m.state[entry]
    if (state >> 4) & 15 == 0:
        m.dirty_count[group] += 1
    valid = (state & 15) | msg.full
    part = (state >> 12) & 15
    m.partial_count[slice_] -= sectors_of(part & msg.full)
    part &= 15 ^ msg.full
    rest = msg.mask & (15 ^ valid)
    if rest and p.partial_sectors > 0:
        covered = m.cover[entry]
        fresh = part == 0
        for k in range(4):
            if rest & (1 << k):
                have = (covered >> (8 * k)) & 255 if part & (1 << k) else 0
                covered &= ~(255 << (8 * k))
                have += msg.cover
                if have >= 32:
                    valid |= 1 << k
                    if part & (1 << k):
                        m.partial_count[slice_] -= 1
                    part &= ~(1 << k)
                else:
                    covered |= have << (8 * k)
                    if not part & (1 << k):
                        m.partial_count[slice_] += 1
                    part |= 1 << k
        m.cover[entry] = covered
        if fresh and part:
            tail = m.partial_tail[slice_]
            if tail - m.partial_head[slice_] == QUEUE:
                settle(p, m, slice_, time)
            m.partial_queue[slice_, tail & (QUEUE - 1)] = entry
            m.partial_tail[slice_] = tail + 1
    elif rest:
        valid |= rest
    m.state[entry] = (state & ~0xF00F) | valid | (msg.mask << 4) | (part << 12) | REFERENCED
    while p.partial_sectors > 0 and m.partial_count[slice_] > p.partial_sectors:
        settle(p, m, slice_, time)
    if p.dirty_ways > 0 and m.dirty_count[group] > p.dirty_ways:
        first = group * WAYS
        hand = m.clean_hand[group]
        for _ in range(p.ways):
            other = first + hand
            hand += 1
            if hand == p.ways:
                hand = 0
            if (m.state[other] >> 4) & 15 and other != entry:
                m.dirty_count[group] -= 1
                write_back(p, m, other, slice_, time)
                break
        m.clean_hand[group] = hand


@njit(cache=True)
def settle(p, m, slice_, time):
    """Take the oldest line off a slice's queue of partly written ones; if it still is, fill it and write it back."""
    head = m.partial_head[slice_]
    entry = m.partial_queue[slice_, head & (QUEUE - 1)]
    m.partial_head[slice_] = head + 1
    state = m.state[entry]
    if (state >> 12) & 15 and not (state >> 8) & 15:
        m.dirty_count[entry // WAYS] -= 1
        write_back(p, m, entry, slice_, time)


@njit(cache=True)
def finish(p, m, messages, i, time, now):
    """A message has its sectors: respond now, or as an event of its own when the slice is behind."""
    msg = messages[i]
    if time - (now << TICK_BITS) <= INLINE:
        sectors = sectors_of(msg.mask) if msg.kind == READ or msg.kind == ATOMIC else 0
        respond(p, m.sms, messages, i, time, sectors)
    else:
        msg.time = time
        msg.stage = RESPOND
        schedule(messages, m.calendar_head, m.calendar_tail, i, now)


@njit(cache=True)
def arrive(p, m, messages, entry, got, depth):
    """Sectors `got` are in an entry: put the messages that waited for it on the stack, whose new depth is returned."""
    if got == 0:
        return depth
    state = (m.state[entry] | got) & ~(got << 8)
    part = (state >> 12) & got
    if part:
        m.partial_count[entry // (p.sets * WAYS)] -= sectors_of(part)
        state &= ~(part << 12)
    if state & WAITED:
        i = m.waiting[entry]
        state &= ~WAITED
        while i >= 0:
            m.stack[depth] = i
            depth += 1
            i = messages[i].next
    m.state[entry] = state
    return depth


@njit(cache=True)
def filled(p, m, messages, i, time, now):
    """Sectors of a message arrived from DRAM or the other side: into its entries, on to all that waited for them."""
    stack = m.stack
    depth = 1
    stack[0] = i
    while depth > 0:
        depth -= 1
        j = stack[depth]
        msg = messages[j]
        entry = msg.home
        if entry >= 0:
            depth = arrive(p, m, messages, entry, msg.full, depth)
            msg.full = 0
            state = m.state[entry]
            if (state >> 8) & msg.fetch:
                wait(m, messages, entry, j)
                continue
            if not state & REFERENCED:
                m.victim[entry // WAYS] = entry % WAYS
            msg.home = -1
        entry = msg.near
        if entry >= 0:
            depth = arrive(p, m, messages, entry, msg.fetch, depth)
            msg.fetch = 0
            if (m.state[entry] >> 8) & msg.mask:
                wait(m, messages, entry, j)
                continue
        finish(p, m, messages, j, time, now)


@njit(cache=True)
def serve(p, m, slice_, time, ticks):
    """A slice takes a request at `time` for so many ticks; returns when it is through."""
    start = max(time, m.slice_free[slice_])
    m.slice_free[slice_] = start + ticks
    m.slice_busy[slice_] += ticks
    return start + ticks


@njit(cache=True)
def pairs(mask, fetch):
    """Sectors that come along with those asked for: whole units of `fetch` sectors."""
    if fetch == 2:
        low = (mask | (mask >> 1)) & 5
        return low | (low << 1)
    if fetch == 4:
        return 15 if mask else 0
    return mask


@njit(cache=True)
def advance(p, m, begin, end):
    """Serve all events of the cycles from `begin` to before `end`."""
    messages = m.messages
    head, tail = m.calendar_head, m.calendar_tail
    counters = m.l2_counters
    for now in range(begin, end):
        b = now & (CALENDAR - 1)
        while head[b] >= 0:
            i = head[b]
            msg = messages[i]
            head[b] = msg.next
            t = msg.time
            if (t >> TICK_BITS) > now:
                schedule(messages, head, tail, i, now)
                continue
            stage = msg.stage
            if stage == RESPOND:
                sectors = sectors_of(msg.mask) if msg.kind == READ or msg.kind == ATOMIC else 0
                respond(p, m.sms, messages, i, t, sectors)
                continue
            if stage == FILL:
                filled(p, m, messages, i, t, now)
                continue
            kind = msg.kind
            if stage == NEAR:
                # The near slice of a line that belongs to the other side.
                slice_ = msg.near_slice
                n = sectors_of(msg.mask)
                counters[0] += n
                ticks = max(p.slice_request_ticks, n * p.slice_sector_ticks)
                if kind == READ:
                    through = serve(p, m, slice_, t, ticks)
                    msg.fetch = pairs(msg.mask, p.fetch)
                    if p.near_copies:
                        first = set_of(p, slice_, msg.line)
                        entry = look_up(m.tags, first, p.ways, msg.line & 0x7FFFFFFF)
                        if entry >= 0:
                            state = m.state[entry]
                            m.state[entry] = state | REFERENCED
                            missing = msg.mask & (15 ^ (state & 15))
                            counters[1] += n - sectors_of(missing)
                            counters[2] += sectors_of(missing)
                            m.l2_hits[msg.instruction] += n - sectors_of(missing)
                            m.l2_misses[msg.instruction] += sectors_of(missing)
                            if missing == 0:
                                finish(p, m, messages, i, through, now)
                                continue
                            under_way = (state >> 8) & 15
                            if missing & (15 ^ under_way) == 0:
                                msg.near = entry
                                msg.fetch = 0
                                wait(m, messages, entry, i)
                                continue
                            msg.fetch = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
                        else:
                            counters[2] += n
                            m.l2_misses[msg.instruction] += n
                            entry = insert(p, m, first, slice_, msg.line, through)
                        msg.near = entry
                        if entry >= 0:
                            m.state[entry] |= msg.fetch << 8
                elif kind == WRITE:
                    part = sectors_of(msg.mask & (15 ^ msg.full))
                    counters[1] += n
                    m.l2_hits[msg.instruction] += n
                    through = serve(
                        p, m, slice_, t, max(p.slice_request_ticks, (n - part) * p.slice_sector_ticks + part * p.partial_ticks)
                    )
                else:
                    counters[1] += n
                    through = serve(p, m, slice_, t, p.slice_request_ticks)
                msg.stage = HOME
                msg.time = through + p.hop_ticks
                schedule(messages, head, tail, i, now)
                continue
            # The home slice.
            slice_ = msg.home_slice
            near_is_home = msg.near_slice == slice_
            first = set_of(p, slice_, msg.line)
            entry = look_up(m.tags, first, p.ways, msg.line & 0x7FFFFFFF)
            hop = 0 if near_is_home else p.hop_ticks
            if kind == READ:
                if near_is_home:
                    want = msg.mask
                    msg.fetch = pairs(want, p.fetch)
                else:
                    want = msg.fetch
                n = sectors_of(want)
                counters[0] += n
                through = serve(p, m, slice_, t, max(p.slice_request_ticks, n * p.slice_sector_ticks))
                missing = want
                state = 0
                if entry >= 0:
                    state = m.state[entry]
                    missing = want & (15 ^ (state & 15))
                    if missing == 0 or near_is_home:
                        m.state[entry] = state | REFERENCED
                if near_is_home:
                    counters[1] += n - sectors_of(missing)
                    counters[2] += sectors_of(missing)
                    m.l2_hits[msg.instruction] += n - sectors_of(missing)
                    m.l2_misses[msg.instruction] += sectors_of(missing)
                if missing == 0:
                    if near_is_home:
                        finish(p, m, messages, i, through, now)
                    else:
                        msg.stage = FILL
                        msg.time = through + hop
                        schedule(messages, head, tail, i, now)
                    continue
                under_way = (state >> 8) & 15
                ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
                if ask == 0:
                    if near_is_home:
                        msg.near = entry
                        msg.fetch = 0
                    else:
                        msg.home = entry
                        msg.full = 0
                    wait(m, messages, entry, i)
                    continue
                if entry < 0:
                    entry = insert(p, m, first, slice_, msg.line, through)
                if entry >= 0:
                    m.state[entry] |= ask << 8
                if near_is_home:
                    msg.near = entry
                    msg.fetch = ask
                    command(m, READ_LINE, i, msg.line, slice_, ask, through)
                else:
                    msg.home = entry
                    msg.full = ask
                    command(m, READ_LINE, i, msg.line, slice_, ask, through)
                continue
            # Writes and atomics.
            n = sectors_of(msg.mask)
            counters[0] += n
            if near_is_home:
                counters[1] += n
                m.l2_hits[msg.instruction] += n
            if kind == WRITE:
                part = sectors_of(msg.mask & (15 ^ msg.full))
                ticks = max(p.slice_request_ticks, (n - part) * p.slice_sector_ticks + part * p.partial_ticks)
                through = serve(p, m, slice_, t, ticks)
                if entry < 0:
                    entry = insert(p, m, first, slice_, msg.line, through)
                if entry < 0:
                    command(m, WRITE_LINE, -1, msg.line, slice_, msg.mask, through)
                else:
                    written(p, m, messages, i, entry, slice_, through)
                late = 0
                if p.write_queue_ticks > 0:
                    channel = slice_ * p.channels // p.slices
                    backlog = m.channel_free[channel] + m.channel_backlog[channel] - through
                    late = max(0, backlog - p.write_queue_ticks)
                finish(p, m, messages, i, through + hop + late, now)
                continue
            through = serve(p, m, slice_, t, max(p.slice_request_ticks, msg.operations * p.atomic_ticks))
            if entry < 0:
                entry = insert(p, m, first, slice_, msg.line, through)
            if entry < 0:
                finish(p, m, messages, i, through + hop, now)
                continue
            state = m.state[entry]
            if (state >> 4) & 15 == 0:
                m.dirty_count[entry // WAYS] += 1
            m.state[entry] = state | (msg.mask << 4) | REFERENCED
            missing = msg.mask & (15 ^ (state & 15))
            if missing == 0:
                finish(p, m, messages, i, through + hop, now)
                continue
            under_way = (state >> 8) & 15
            ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
            msg.near = entry
            msg.fetch = ask
            if ask == 0:
                wait(m, messages, entry, i)
            else:
                m.state[entry] |= ask << 8
                command(m, READ_LINE, i, msg.line, slice_, ask, through)
