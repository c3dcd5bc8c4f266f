# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L2: slices in one or two partitions, sectored lines, write-back.

A request is looked up in the near slice first; where the line belongs to the other side, misses and writes go on to its
home slice, and read data stays near as a copy while the home copy is next to go. A read miss brings whole fetch units
from DRAM. Whole-sector writes need nothing from DRAM; a partly written sector waits in its slice's queue for the rest
and, when the queue is full, is filled from DRAM. A set holds a limited number of dirty lines.
Sectors under way merge. Each slice serves requests in order of arrival.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.crossbar import BUCKET, CALENDAR, place_of, respond, schedule
from warpsim.machine.host import borrowed, compiled, prefetch
from warpsim.machine.records import ATOMIC, FILL, HOME, READ, RESPOND, TICK, TICK_BITS, WRITE, sectors_of

WAYS = 64  # stride of a set in the tag arrays
QUEUE = 8192  # partly written lines that a slice can list
INLINE = 4 * TICK  # responses due this soon are charged at once

# What a way knows: bits 0-3 valid, 4-7 dirty, 8-11 under way, 12-15 partly written.
REFERENCED = 1 << 16
WAITED = 1 << 17

# Commands to DRAM.
READ_LINE, WRITE_LINE, FILL_LINE = 0, 1, 2


@compiled
def look_up(tags, first, tag):
    """Entry of the set that starts at `first` with that tag, or -1; no early exit, so that it vectorises."""
    start = np.uint64(first)  # an unsigned index needs no wrap-around: contiguous loads
    found = np.int32(0)
    for w in range(np.uint64(WAYS)):
        found |= np.int32(w + np.uint64(1)) if tags[start + w] == tag else np.int32(0)
    return first + found - 1 if found else -1


@compiled
def command(commands, total, kind, message, line, slice_, mask, time):
    """Hand a command to DRAM: a read for a message, a write-back, or a fill of partly written sectors."""
    c = commands[total.commands]
    c.kind = kind
    c.message = message
    c.line = line
    c.channel = slice_
    c.mask = mask
    c.time = time
    total.commands += 1


@compiled
def write_back(tags, states, entry, slice_record, slice_, commands, total, time):
    """Write the dirty sectors of an entry to DRAM; partly written ones are filled first."""
    state = np.int64(states[entry])
    dirty = (state >> 4) & 15
    part = (state >> 12) & 15
    if part:
        command(commands, total, FILL_LINE, -1, tags[entry], slice_, part, time)
        slice_record.partial -= 1
    command(commands, total, WRITE_LINE, -1, tags[entry], slice_, dirty, time)
    states[entry] = (state | part) & ~0xF0F0


@compiled
def insert(ways, tags, states, group, first, slice_record, slice_, commands, total, line, time):
    """A way for a new line: one that was only passed through, else the hand's next; -1 if none can go.

    The hand goes round the set, past lines under way and, once, past referenced ones.
    """
    entry = -1
    ready = group.victim
    if ready >= 0:
        group.victim = -1
        if states[first + ready] & (REFERENCED | 0xFF0) == 0:
            entry = first + ready
    if entry < 0:
        hand = group.hand
        for _ in range(2 * ways + 1):
            at = first + hand
            hand += 1
            if hand == ways:
                hand = 0
            state = states[at]
            if state & 0xF00:
                continue
            if state & REFERENCED:
                states[at] = state & ~REFERENCED
                continue
            entry = at
            break
        if entry < 0:
            return -1
        group.hand = hand
    if states[entry] & 0xF0:
        group.dirty -= 1
        write_back(tags, states, entry, slice_record, slice_, commands, total, time)
    tags[entry] = line & 0x7FFFFFFF
    states[entry] = 0
    return entry


@compiled
def wait(messages, states, waiting, entry, i):
    """Put a message on the list of those that wait for sectors of an entry."""
    messages[i].next = waiting[entry] if states[entry] & WAITED else -1
    states[entry] |= WAITED
    waiting[entry] = i


@compiled
def settle(tags, states, slice_record, slice_, queue, commands, total, time):
    """Take the oldest line off a slice's queue of partly written ones; if it still is, fill it."""
    entry = queue[slice_ * QUEUE + (slice_record.partial_head & (QUEUE - 1))]
    slice_record.partial_head += 1
    state = np.int64(states[entry])
    if state & 0xF000 and not state & 0xF00:
        part = (state >> 12) & 15
        command(commands, total, FILL_LINE, -1, tags[entry], slice_, part, time)
        slice_record.partial -= 1
        states[entry] = (state | part) & ~0xF000


@compiled
def written(p, msg, tags, states, covers, entry, sets, slice_record, slice_, queue, commands, total, time):
    """Account for a write's sectors in an entry of its home slice."""
    group = sets[entry // WAYS]
    state = np.int64(states[entry])
    if state & 0xF0 == 0:
        group.dirty += 1
    full = np.int64(msg.full)
    mask = np.int64(msg.mask)
    valid = (state & 15) | full
    before = (state >> 12) & 15
    part = before & (15 ^ full)
    rest = mask & (15 ^ valid)
    if rest and p.partial_lines > 0:
        covered = covers[entry]
        for k in range(4):
            bit = 1 << k
            if rest & bit:
                have = (covered >> (8 * k)) & 255 if part & bit else 0
                covered &= ~(255 << (8 * k))
                have += msg.cover
                if have >= 32:
                    valid |= bit
                    part &= 15 ^ bit
                else:
                    covered |= have << (8 * k)
                    part |= bit
        covers[entry] = covered
        if before == 0 and part:
            if slice_record.partial_tail - slice_record.partial_head == QUEUE:
                settle(tags, states, slice_record, slice_, queue, commands, total, time)
            queue[slice_ * QUEUE + (slice_record.partial_tail & (QUEUE - 1))] = entry
            slice_record.partial_tail += 1
    else:
        valid |= rest
    slice_record.partial += (part != 0) - (before != 0)
    states[entry] = (state & ~0xF00F) | valid | (mask << 4) | (part << 12)
    if p.partial_lines > 0:
        while slice_record.partial > p.partial_lines and slice_record.partial_head < slice_record.partial_tail:
            settle(tags, states, slice_record, slice_, queue, commands, total, time)
    if 0 < p.dirty_ways < group.dirty:
        first = entry - entry % WAYS
        hand = group.clean_hand
        for _ in range(p.ways):
            other = first + hand
            hand += 1
            if hand == p.ways:
                hand = 0
            if states[other] & 0xF0 and other != entry:
                group.dirty -= 1
                write_back(tags, states, other, slice_record, slice_, commands, total, time)
                break
        group.clean_hand = hand


@compiled
def finish(p, sms, messages, responses, times, counts, buckets, i, time, now):
    """A message has its sectors: respond now, or as an event of its own when the slice is behind."""
    msg = messages[i]
    if time - (now << TICK_BITS) <= INLINE:
        sectors = sectors_of(msg.mask) if msg.kind == READ or msg.kind == ATOMIC else 0
        respond(p, sms, messages, responses, times, i, time, sectors)
    else:
        msg.time = time
        msg.stage = RESPOND
        schedule(counts, buckets, i, msg.time, now)


@compiled
def arrive(messages, states, waiting, entry, got, slice_record, stack, depth):
    """Sectors `got` are in an entry: put the messages that waited for it on the stack, whose new depth is returned."""
    if got == 0:
        return depth
    state = (states[entry] | got) & ~(got << 8)
    part = (state >> 12) & got
    if part:
        state &= ~(part << 12)
        slice_record.partial -= state & 0xF000 == 0
    if state & WAITED:
        i = waiting[entry]
        state &= ~WAITED
        while i >= 0:
            stack[depth] = i
            depth += 1
            i = messages[i].next
    states[entry] = state
    return depth


@compiled
def filled(p, sms, messages, responses, times, counts, buckets, states, waiting, sets, slices, stack, i, time, now):
    """Sectors of a message arrived from DRAM or the other side: into its entries, on to all that waited for them."""
    depth = 1
    stack[0] = i
    while depth > 0:
        depth -= 1
        j = stack[depth]
        msg = messages[j]
        if msg.home >= 0:
            entry = np.int64(msg.home)
            depth = arrive(messages, states, waiting, entry, np.int64(msg.full), slices[msg.home_slice], stack, depth)
            msg.full = 0
            if (states[entry] >> 8) & msg.fetch:
                wait(messages, states, waiting, entry, j)
                continue
            if not states[entry] & REFERENCED:
                sets[entry // WAYS].victim = entry % WAYS
            msg.home = -1
        if msg.near >= 0:
            entry = np.int64(msg.near)
            depth = arrive(
                messages, states, waiting, entry, np.int64(msg.fetch), slices[entry // (p.sets * WAYS)], stack, depth
            )
            msg.fetch = 0
            if (states[entry] >> 8) & msg.mask & 15:
                wait(messages, states, waiting, entry, j)
                continue
        finish(p, sms, messages, responses, times, counts, buckets, j, time, now)


@compiled
def pairs(mask, fetch):
    """Sectors that come along with those asked for: whole units of `fetch` sectors."""
    if fetch == 2:
        low = (mask | (mask >> 1)) & 5
        return low | (low << 1)
    if fetch == 4:
        return 15 if mask else 0
    return mask


@compiled
def advance(m, begin, end):
    """Serve all events of the cycles from `begin` to before `end`."""
    p = m.parameters[0]
    total = m.totals[0]
    sms, messages, responses, times = borrowed(m.sms), borrowed(m.messages), borrowed(m.responses), borrowed(m.times)
    counts, buckets = borrowed(m.counts), borrowed(m.buckets)
    tags, states, covers, waiting = borrowed(m.tags), borrowed(m.states), borrowed(m.covers), borrowed(m.waiting)
    sets, slices, queue, stack = borrowed(m.sets), borrowed(m.slices), borrowed(m.queue), borrowed(m.stack)
    commands, channels, statistics = borrowed(m.commands), borrowed(m.channels), borrowed(m.statistics)
    deals = borrowed(m.channel_deals)
    ways = p.ways
    sets_per_slice = p.sets
    for now in range(begin, end):
        b = now & (CALENDAR - 1)
        # Bring in what the next cycles work on.
        ahead = (now + 2) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            prefetch(messages, np.int64(buckets[ahead * BUCKET + k]))
        ahead = (now + 1) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            msg = messages[np.int64(buckets[ahead * BUCKET + k])]
            if msg.stage == FILL:
                if msg.home >= 0:
                    prefetch(states, np.int64(msg.home))
                if msg.near >= 0:
                    prefetch(states, np.int64(msg.near))
            elif msg.stage != RESPOND:
                number = np.int64(msg.home_slice if msg.stage == HOME else msg.near_slice) * sets_per_slice + msg.set
                prefetch(sets, number)
                prefetch(states, number * WAYS + sets[number].hand)
                for w in range(0, WAYS, 16):
                    prefetch(tags, number * WAYS + w)
        k = -1
        while k + 1 < counts[b]:
            k += 1
            i = np.int64(buckets[b * BUCKET + k])
            msg = messages[i]
            t = msg.time
            if (t >> TICK_BITS) > now:
                schedule(counts, buckets, i, msg.time, now)
                continue
            stage = msg.stage
            kind = msg.kind
            if stage == RESPOND:
                respond(
                    p,
                    sms,
                    messages,
                    responses,
                    times,
                    i,
                    t,
                    sectors_of(msg.mask) if kind in (READ, ATOMIC) else 0,
                )
                continue
            if stage == FILL:
                # Mostly the line is near or home alone and nobody waits for it.
                near, home = np.int64(msg.near), np.int64(msg.home)
                fetch = np.int64(msg.fetch)
                if home < 0 and near >= 0:
                    state = np.int64(states[near])
                    if state & (WAITED | (fetch << 12)) == 0:
                        state = (state | fetch) & ~(fetch << 8)
                        states[near] = state
                        if (state >> 8) & msg.mask & 15 == 0:
                            sectors = sectors_of(msg.mask) if kind in (READ, ATOMIC) else 0
                            respond(p, sms, messages, responses, times, i, t, sectors)
                            continue
                filled(
                    p, sms, messages, responses, times, counts, buckets, states, waiting, sets, slices, stack, i, t, now
                )
                continue
            at_home = stage == HOME
            slice_ = np.int64(msg.home_slice if at_home else msg.near_slice)
            direct = msg.home_slice == msg.near_slice
            here = slices[slice_]
            line = msg.line
            tag = np.int32(line & 0x7FFFFFFF)
            number = slice_ * sets_per_slice + msg.set
            first = number * WAYS
            mask = np.int64(msg.mask)
            want = mask if direct or not at_home else np.int64(msg.fetch)  # sectors wanted of this slice
            n = sectors_of(want)
            # The slice's time.
            if kind == READ:
                ticks = max(p.slice_request_ticks, n * p.slice_sector_ticks)
            elif kind == WRITE:
                part = sectors_of(mask & (15 ^ msg.full))
                ticks = p.slice_request_ticks  # passed on with nothing but the request
                if at_home:
                    ticks = max(ticks, (n - part) * p.slice_write_ticks + part * p.partial_ticks)
            elif at_home:
                ticks = max(
                    p.slice_request_ticks,
                    msg.operations * (p.atomic_repeat_ticks if here.atomic == line else p.atomic_ticks),
                )
                here.atomic = line
            else:
                ticks = p.slice_request_ticks
            through = max(t, here.free) + ticks
            here.free = through
            here.busy += ticks
            total.l2_sectors += n
            if not at_home and (kind != READ or p.near_copies == 0):
                # Passed on to the other side.
                if kind != READ:
                    total.l2_hits += n
                    statistics[msg.instruction].l2_hits += n
                msg.fetch = pairs(mask, p.fetch)
                msg.stage = HOME
                msg.time = through + p.hop_ticks
                schedule(counts, buckets, i, msg.time, now)
                continue
            entry = look_up(tags, first, tag)
            state = np.int64(states[entry]) if entry >= 0 else np.int64(0)
            if kind == READ:
                missing = want & (15 ^ (state & 15))
                if entry >= 0 and (missing == 0 or direct or not at_home):
                    states[entry] = state | REFERENCED
                under_way = (state >> 8) & 15
                ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
                if direct or not at_home or p.near_copies == 0:
                    # The counter of misses counts what is fetched, asked for or not; sectors under way are hits.
                    hits = n - sectors_of(want & ask)
                    lost = sectors_of(ask)
                    total.l2_hits += hits
                    total.l2_misses += lost
                    statistics[msg.instruction].l2_hits += hits
                    statistics[msg.instruction].l2_misses += lost
                if missing == 0:
                    if direct or not at_home:
                        finish(p, sms, messages, responses, times, counts, buckets, i, through, now)
                    else:
                        msg.stage = FILL
                        msg.time = through + p.hop_ticks
                        schedule(counts, buckets, i, msg.time, now)
                    continue
                if ask == 0:
                    if direct or not at_home:
                        msg.near = entry
                        msg.fetch = 0
                    else:
                        msg.home = entry
                        msg.full = 0
                    wait(messages, states, waiting, entry, i)
                    continue
                if entry < 0:
                    entry = insert(
                        ways, tags, states, sets[number], first, here, slice_, commands, total, line, through
                    )
                if entry >= 0:
                    states[entry] |= ask << 8
                if at_home:
                    if direct:
                        msg.near = entry
                        msg.fetch = ask
                    else:
                        msg.home = entry
                        msg.full = ask
                    command(commands, total, READ_LINE, i, line, slice_, ask, through)
                else:
                    msg.near = entry
                    msg.fetch = ask
                    msg.stage = HOME
                    msg.time = through + p.hop_ticks
                    schedule(counts, buckets, i, msg.time, now)
                continue
            # Writes and atomics, at home.
            hop = 0
            if direct:
                total.l2_hits += n
                statistics[msg.instruction].l2_hits += n
            else:
                hop = p.hop_ticks
            if entry < 0:
                entry = insert(ways, tags, states, sets[number], first, here, slice_, commands, total, line, through)
            if kind == WRITE:
                if entry < 0:
                    command(commands, total, WRITE_LINE, -1, line, slice_, mask, through)
                else:
                    written(p, msg, tags, states, covers, entry, sets, here, slice_, queue, commands, total, through)
                late = 0
                if p.write_queue_ticks > 0:
                    channel = channels[np.int64(place_of(line & 0x7FFFFFFF, deals, p.clump_lines))]
                    late = max(0, channel.free + max(channel.backlog, channel.rows) - through - p.write_queue_ticks)
                finish(p, sms, messages, responses, times, counts, buckets, i, through + hop + late, now)
                continue
            if entry < 0:
                finish(p, sms, messages, responses, times, counts, buckets, i, through + hop, now)
                continue
            state = np.int64(states[entry])
            if state & 0xF0 == 0:
                sets[number].dirty += 1
            states[entry] = state | (mask << 4) | REFERENCED
            missing = mask & (15 ^ (state & 15))
            if missing == 0:
                finish(p, sms, messages, responses, times, counts, buckets, i, through + hop, now)
                continue
            under_way = (state >> 8) & 15
            ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
            msg.near = entry
            msg.fetch = ask
            if ask == 0:
                wait(messages, states, waiting, entry, i)
            else:
                states[entry] |= ask << 8
                command(commands, total, READ_LINE, i, line, slice_, ask, through)
        counts[b] = 0
