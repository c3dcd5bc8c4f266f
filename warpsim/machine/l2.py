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

from warpsim.machine.crossbar import BUCKET, CALENDAR, DEALS, inverse_of, place, respond, schedule
from warpsim.machine.host import borrowed, compiled, inlined, lowest, matches, ones, prefetch
from warpsim.machine.records import FILL, HOME, READ, RESPOND, TICK, TICK_BITS, WRITE, sectors_of

WAYS = 64  # stride of a set in the arrays
QUEUE = 8192  # partly written lines that a slice can list
INLINE = 4 * TICK  # responses due this soon are charged at once

WAITED = 1 << 17  # flag of an entry's state
ONE, ALL = np.int64(1), np.int64(-1)

# What comes next for a message.
NOTHING, LATER, FINISHED, ANSWERED = np.int64(0), np.int64(1), np.int64(2), np.int64(3)

# Commands to DRAM.
READ_LINE, WRITE_LINE, FILL_LINE = 0, 1, 2


@inlined
def sign_of(tag):
    """A byte that tells most tags of a set apart."""
    return (np.int64(tag) * 0x9E3779B1 >> 24) & 255


@inlined
def look_up(entries, signs, first, tag):
    """Entry of the set that starts at `first` with that tag, or -1."""
    found = matches(signs, first, sign_of(tag))
    while found:
        entry = first + lowest(found)
        if entries[entry].tag == tag:
            return entry
        found &= found - 1
    return -1


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
def write_back(entries, entry, group, slice_record, slice_, commands, total, time):
    """Write the dirty sectors of an entry to DRAM; partly written ones are filled first."""
    group.dirty &= ~(ONE << (entry & (WAYS - 1)))
    state = np.int64(entries[entry].state)
    dirty = (state >> 4) & 15
    part = (state >> 12) & 15
    if part:
        command(commands, total, FILL_LINE, -1, entries[entry].tag, slice_, part, time)
        slice_record.partial -= 1
    command(commands, total, WRITE_LINE, -1, entries[entry].tag, slice_, dirty, time)
    entries[entry].state = (state | part) & ~0xF0F0


@inlined
def next_way(group, ways):
    """The first way from the hand on that is neither under way nor referenced, or -1."""
    open_ways = ~(group.busy | group.referenced) & ways
    if open_ways == 0:
        return -1
    behind = open_ways & (ALL << group.hand)
    return lowest(behind if behind else open_ways)


@inlined
def insert(ways, entries, signs, group, first, slice_record, slice_, commands, total, line, time):
    """A way for a new line: one that was only passed through, else the hand's next; -1 if none can go.

    The hand goes round the set, past lines under way and, once, past referenced ones. `ways` is a bit map of all.
    """
    way = np.int64(group.victim)
    if way >= 0:
        group.victim = -1
        if ((group.dirty | group.busy | group.referenced) >> way) & 1:
            way = np.int64(-1)
    if way < 0:
        hand = np.int64(group.hand)
        way = next_way(group, ways)
        if way >= 0:
            passed = (ALL << hand) & ~(ALL << way) if way >= hand else (ALL << hand) | ~(ALL << way)
            group.referenced &= ~(passed & ~group.busy)
        else:
            free = ~group.busy & ways
            if free == 0:
                return -1
            group.referenced &= group.busy
            behind = free & (ALL << hand)
            way = lowest(behind if behind else free)
        group.hand = way + 1 if (ways >> way) & 2 else 0
    entry = first + way
    if (group.dirty >> way) & 1:
        write_back(entries, entry, group, slice_record, slice_, commands, total, time)
    entries[entry].tag = line & 0x7FFFFFFF
    entries[entry].state = 0
    signs[entry] = sign_of(line & 0x7FFFFFFF)
    return entry


@inlined
def wait(messages, entries, entry, i):
    """Put a message on the list of those that wait for sectors of an entry."""
    e = entries[entry]
    messages[i].next = e.waiting if e.state & WAITED else -1
    e.state |= WAITED
    e.waiting = i


@compiled
def settle(entries, slice_record, slice_, queue, commands, total, time):
    """Take the oldest line off a slice's queue of partly written ones; if it still is, fill it."""
    entry = queue[slice_ * QUEUE + (slice_record.partial_head & (QUEUE - 1))]
    slice_record.partial_head += 1
    state = np.int64(entries[entry].state)
    if state & 0xF000 and not state & 0xF00:
        part = (state >> 12) & 15
        command(commands, total, FILL_LINE, -1, entries[entry].tag, slice_, part, time)
        slice_record.partial -= 1
        entries[entry].state = (state | part) & ~0xF000


@inlined
def written(p, msg, entries, entry, sets, slice_record, slice_, queue, commands, total, time):
    """Account for a write's sectors in an entry of its home slice."""
    group = sets[entry // WAYS]
    e = entries[entry]
    state = np.int64(e.state)
    group.dirty |= ONE << (entry & (WAYS - 1))
    full = np.int64(msg.full)
    mask = np.int64(msg.mask)
    valid = (state & 15) | full
    before = (state >> 12) & 15
    part = before & (15 ^ full)
    rest = mask & (15 ^ valid)
    if rest and p.partial_lines > 0:
        covered = np.int64(e.cover)
        left = rest
        while left:
            bit = left & -left
            left ^= bit
            shift = 8 * lowest(bit)
            have = (covered >> shift) & 255 if part & bit else 0
            covered &= ~(255 << shift)
            have += msg.cover
            if have >= 32:
                valid |= bit
                part &= 15 ^ bit
            else:
                covered |= have << shift
                part |= bit
        e.cover = covered
        if before == 0 and part:
            if slice_record.partial_tail - slice_record.partial_head == QUEUE:
                settle(entries, slice_record, slice_, queue, commands, total, time)
            queue[slice_ * QUEUE + (slice_record.partial_tail & (QUEUE - 1))] = entry
            slice_record.partial_tail += 1
    else:
        valid |= rest
    slice_record.partial += (part != 0) - (before != 0)
    e.state = (state & ~0xF00F) | valid | (mask << 4) | (part << 12)
    if p.partial_lines > 0:
        while slice_record.partial > p.partial_lines and slice_record.partial_head < slice_record.partial_tail:
            settle(entries, slice_record, slice_, queue, commands, total, time)
    if 0 < p.dirty_ways < ones(group.dirty):
        others = group.dirty & ~(ONE << (entry & (WAYS - 1)))
        behind = others & (ALL << group.clean_hand)
        way = lowest(behind if behind else others)
        first = entry & ~(WAYS - 1)
        write_back(entries, first + way, group, slice_record, slice_, commands, total, time)
        group.clean_hand = way + 1 if way + 1 < p.ways else 0


@inlined
def go_on(p, sms, messages, responses, counts, buckets, i, step, time, now):
    """What comes next for a message: nothing yet, an event at `time`, or its response.

    One that has its sectors answers at once, or as an event of its own when the slice is behind.
    """
    if step == FINISHED:
        if time - (now << TICK_BITS) <= INLINE:
            step = ANSWERED
        else:
            messages[i].stage = RESPOND
            step = LATER
    if step == ANSWERED:
        respond(p, sms, messages, responses, i, time)
    elif step == LATER:
        messages[i].time = time
        schedule(counts, buckets, i, time, now)


@inlined
def arrive(messages, entries, entry, got, sets, slice_record, stack, depth):
    """Sectors `got` are in an entry: put the messages that waited for it on the stack, whose new depth is returned."""
    if got == 0:
        return depth
    e = entries[entry]
    state = (e.state | got) & ~(got << 8)
    part = (state >> 12) & got
    if part:
        state &= ~(part << 12)
        slice_record.partial -= state & 0xF000 == 0
    if state & WAITED:
        i = np.int64(e.waiting)
        state &= ~WAITED
        while i >= 0:
            stack[depth] = i
            depth += 1
            i = np.int64(messages[i].next)
    e.state = state
    if state & 0xF00 == 0:
        sets[entry // WAYS].busy &= ~(ONE << (entry & (WAYS - 1)))
    return depth


@inlined
def filled(p, sms, messages, responses, counts, buckets, entries, sets, slices, stack, i, time, now):
    """Sectors of a message arrived from DRAM or the other side: into its entries, on to all that waited for them."""
    depth = 1
    stack[0] = i
    while depth > 0:
        depth -= 1
        j = np.int64(stack[depth])
        msg = messages[j]
        if msg.home >= 0:
            entry = np.int64(msg.home)
            depth = arrive(messages, entries, entry, np.int64(msg.full), sets, slices[msg.home_slice], stack, depth)
            msg.full = 0
            if (entries[entry].state >> 8) & msg.fetch:
                wait(messages, entries, entry, j)
                continue
            group = sets[entry // WAYS]
            if not (group.referenced >> (entry & (WAYS - 1))) & 1:
                group.victim = entry & (WAYS - 1)
            msg.home = -1
        if msg.near >= 0:
            entry = np.int64(msg.near)
            depth = arrive(
                messages, entries, entry, np.int64(msg.fetch), sets, slices[entry // (p.sets * WAYS)], stack, depth
            )
            msg.fetch = 0
            if (entries[entry].state >> 8) & msg.mask & 15:
                wait(messages, entries, entry, j)
                continue
        go_on(p, sms, messages, responses, counts, buckets, j, FINISHED, time, now)


@inlined
def pairs(mask, fetch):
    """Sectors that come along with those asked for: whole units of `fetch` sectors."""
    if fetch == 2:
        low = (mask | (mask >> 1)) & 5
        return low | (low << 1)
    if fetch == 4:
        return 15 if mask else 0
    return mask


@inlined
def serve(p, total, msg, i, stage, messages, entries, signs, sets, slices, queue, commands, channels, statistics, deals,
          ways, sets_per_slice, by_deals, by_clump):  # fmt: skip
    """A message is at a slice, the near one or its home; returns what comes next for it, and when."""
    at_home = stage == HOME
    kind = msg.kind
    slice_ = np.int64(msg.home_slice if at_home else msg.near_slice)
    direct = msg.home_slice == msg.near_slice
    here = slices[slice_]
    line = msg.line
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
    through = max(msg.time, here.free) + ticks
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
        return LATER, through + p.hop_ticks
    group = sets[number]
    entry = look_up(entries, signs, first, np.int32(line & 0x7FFFFFFF))
    state = np.int64(entries[entry].state) if entry >= 0 else np.int64(0)
    missing = (want if kind == READ else mask) & (15 ^ (state & 15))
    under_way = (state >> 8) & 15
    ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
    if kind == READ:
        if entry >= 0 and (missing == 0 or direct or not at_home):
            group.referenced |= ONE << (entry - first)
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
                return FINISHED, through
            msg.stage = FILL
            return LATER, through + p.hop_ticks
        if ask == 0:
            if direct or not at_home:
                msg.near = entry
                msg.fetch = 0
            else:
                msg.home = entry
                msg.full = 0
            wait(messages, entries, entry, i)
            return NOTHING, through
    if entry < 0:
        entry = insert(ways, entries, signs, group, first, here, slice_, commands, total, line, through)
    if kind == READ:
        if entry >= 0:
            entries[entry].state |= ask << 8
            group.busy |= ONE << (entry - first)
        if not at_home:
            msg.near = entry
            msg.fetch = ask
            msg.stage = HOME
            return LATER, through + p.hop_ticks
        if direct:
            msg.near = entry
            msg.fetch = ask
        else:
            msg.home = entry
            msg.full = ask
    else:
        # Writes and atomics, at home.
        done = through
        if direct:
            total.l2_hits += n
            statistics[msg.instruction].l2_hits += n
        else:
            done += p.hop_ticks
        if kind == WRITE:
            if entry < 0:
                command(commands, total, WRITE_LINE, -1, line, slice_, mask, through)
            else:
                written(p, msg, entries, entry, sets, here, slice_, queue, commands, total, through)
            if p.write_queue_ticks > 0:
                size = deals.shape[0] // DEALS
                channel = channels[np.int64(place(line & 0x7FFFFFFF, deals, size, by_deals, p.clump_lines, by_clump))]
                done += max(0, channel.free + max(channel.backlog, channel.rows) - through - p.write_queue_ticks)
            return FINISHED, done
        if entry < 0:
            return FINISHED, done
        group.dirty |= ONE << (entry - first)
        group.referenced |= ONE << (entry - first)
        entries[entry].state |= mask << 4
        if missing == 0:
            return FINISHED, done
        msg.near = entry
        msg.fetch = ask
        if ask == 0:
            wait(messages, entries, entry, i)
            return NOTHING, through
        entries[entry].state |= ask << 8
        group.busy |= ONE << (entry - first)
    command(commands, total, READ_LINE, i, line, slice_, ask, through)
    return NOTHING, through


@compiled
def advance(m, begin, end):
    """Serve all events of the cycles from `begin` to before `end`."""
    p = m.parameters[0]
    total = m.totals[0]
    sms, messages, responses = borrowed(m.sms), borrowed(m.messages), borrowed(m.responses)
    counts, buckets = borrowed(m.counts), borrowed(m.buckets)
    entries, signs = borrowed(m.entries), borrowed(m.signs)
    sets, slices, queue, stack = borrowed(m.sets), borrowed(m.slices), borrowed(m.queue), borrowed(m.stack)
    commands, channels, statistics = borrowed(m.commands), borrowed(m.channels), borrowed(m.statistics)
    deals = borrowed(m.channel_deals)
    ways = np.int64(np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - p.ways))
    sets_per_slice = p.sets
    by_deals, by_clump = inverse_of(deals.shape[0] // DEALS), inverse_of(p.clump_lines)
    for now in range(begin, end):
        b = now & (CALENDAR - 1)
        # Bring in what the next cycles work on, in steps that each need the last.
        ahead = (now + 3) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            prefetch(messages, np.int64(buckets[ahead * BUCKET + k]))
        ahead = (now + 2) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            msg = messages[np.int64(buckets[ahead * BUCKET + k])]
            if msg.stage == FILL:
                if msg.home >= 0:
                    prefetch(entries, np.int64(msg.home))
                if msg.near >= 0:
                    prefetch(entries, np.int64(msg.near))
                    prefetch(sets, np.int64(msg.near) // WAYS)
            elif msg.stage != RESPOND:
                number = np.int64(msg.home_slice if msg.stage == HOME else msg.near_slice) * sets_per_slice + msg.set
                prefetch(sets, number)
                prefetch(signs, number * WAYS)
        ahead = (now + 1) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            msg = messages[np.int64(buckets[ahead * BUCKET + k])]
            if msg.stage < FILL:
                number = np.int64(msg.home_slice if msg.stage == HOME else msg.near_slice) * sets_per_slice + msg.set
                found = matches(signs, number * WAYS, sign_of(msg.line & 0x7FFFFFFF))
                prefetch(entries, number * WAYS + (lowest(found) if found else max(next_way(sets[number], ways), 0)))
                if msg.kind == WRITE:  # which may make a dirty line leave
                    dirty = sets[number].dirty & (ALL << sets[number].clean_hand)
                    prefetch(entries, number * WAYS + (lowest(dirty) if dirty else 0))
        k = -1
        while k + 1 < counts[b]:
            k += 1
            i = np.int64(buckets[b * BUCKET + k])
            msg = messages[i]
            t = msg.time
            if (t >> TICK_BITS) > now:
                go_on(p, sms, messages, responses, counts, buckets, i, LATER, t, now)
                continue
            stage = msg.stage
            if stage == FILL:
                step, at = ANSWERED, t
                # Mostly the line is near or home alone and nobody waits for it.
                near = np.int64(msg.near)
                simple = msg.home < 0 and near >= 0
                if simple:
                    fetch = np.int64(msg.fetch)
                    state = np.int64(entries[near].state)
                    simple = state & (WAITED | (fetch << 12)) == 0
                    if simple:
                        state = (state | fetch) & ~(fetch << 8)
                        entries[near].state = state
                        if state & 0xF00 == 0:
                            sets[near // WAYS].busy &= ~(ONE << (near & (WAYS - 1)))
                        simple = (state >> 8) & msg.mask & 15 == 0
                if not simple:
                    step = NOTHING
                    filled(p, sms, messages, responses, counts, buckets, entries, sets, slices, stack, i, t, now)
            elif stage == RESPOND:
                step, at = ANSWERED, t
            else:
                step, at = serve(
                    p, total, msg, i, stage, messages, entries, signs, sets, slices, queue, commands, channels,
                    statistics, deals, ways, sets_per_slice, by_deals, by_clump,
                )  # fmt: skip
            go_on(p, sms, messages, responses, counts, buckets, i, step, at, now)
        counts[b] = 0
