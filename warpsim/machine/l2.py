# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""L2: slices in one or two partitions, sectored lines, write-back.

A request is looked up in the near slice first; where the line belongs to the other side, misses and writes go on to its
home slice, and data read or wholly written stays near as a copy, so that a line of the other side takes two places. A
read miss brings whole fetch units from DRAM, which like stores take a slice's time for writing. Whole-sector writes
need nothing from DRAM; a partly written sector waits in its slice's queue for the rest and, when the queue is full, is
filled from DRAM. Sectors under way merge. Each slice serves requests in order of arrival.

Of a set the line goes that was longest untouched, counted in lines that came into the set since; one that was hit or is
dirty counts as `kept_age` younger. A set holds a limited number of dirty lines; beyond it the oldest is written back.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.crossbar import BUCKET, CALENDAR, DEALS, inverse_of, merge, place, respond, schedule
from warpsim.machine.host import borrowed, compiled, eldest, inlined, lowest, matches, ones, prefetch
from warpsim.machine.records import ATOMIC, FILL, HOME, READ, RESPOND, TICK, TICK_BITS, WRITE, sectors_of

WAYS = 32  # stride of a set in the arrays
MARKS = 2 * WAYS  # bytes of a set: a sign of each way's tag, then when it was touched, in lines of the set, modulo 256
QUEUE = 8192  # partly written lines that a slice can list
INLINE = 4 * TICK  # responses due this soon are charged at once

WAITED = 1 << 16  # flag of an entry's state
ONE, ALL = np.int64(1), np.int64((1 << WAYS) - 1)

# What comes next for a message.
NOTHING, LATER, FINISHED, ANSWERED = np.int64(0), np.int64(1), np.int64(2), np.int64(3)

# Commands to DRAM.
READ_LINE, WRITE_LINE, FILL_LINE = 0, 1, 2


@inlined
def sign_of(tag):
    """A byte that tells most tags of a set apart."""
    return (np.int64(tag) * 0x9E3779B1 >> 24) & 255


@inlined
def look_up(entries, marks, number, tag):
    """Entry of a set with that tag, or -1."""
    found = matches(marks, number * MARKS, sign_of(tag)) & ALL
    while found:
        entry = number * WAYS + lowest(found)
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
def touch(p, group, marks, entry, again):
    """A use of an entry: it is as young as the last line of its set, or younger if it is used again or dirty."""
    younger = p.kept_age if again or (group.dirty >> (entry & (WAYS - 1))) & 1 else 0
    marks[2 * entry - (entry & (WAYS - 1)) + WAYS] = np.uint8((group.lines + younger) & 255)


@inlined
def next_way(p, group, marks, number, allowed):
    """The way that was longest untouched, of those in a bit map; WAYS: none."""
    return eldest(marks, number * MARKS + WAYS, group.lines + p.kept_age + 1, allowed)


@inlined
def insert(p, entries, marks, group, number, slice_record, slice_, commands, total, line, time):
    """A way for a new line, or -1 if all lines of the set are under way."""
    way = next_way(p, group, marks, number, ~group.busy)
    if way == WAYS:
        return -1
    entry = number * WAYS + way
    if (group.dirty >> way) & 1:
        write_back(entries, entry, group, slice_record, slice_, commands, total, time)
    group.lines += 1
    entries[entry].tag = line & 0x7FFFFFFF
    entries[entry].state = 0
    marks[number * MARKS + way] = sign_of(line & 0x7FFFFFFF)
    touch(p, group, marks, entry, False)
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
def written(p, msg, entries, marks, entry, sets, slice_record, slice_, queue, commands, total, time):
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
    touch(p, group, marks, entry, False)
    if 0 < p.dirty_ways < ones(group.dirty):
        number = entry // WAYS
        way = next_way(p, group, marks, number, group.dirty & ~(ONE << (entry & (WAYS - 1))))
        write_back(entries, number * WAYS + way, group, slice_record, slice_, commands, total, time)
        marks[number * MARKS + WAYS + way] -= np.uint8(p.kept_age)


@inlined
def go_on(p, sms, messages, responses, ring, follows, counts, buckets, i, step, time, now):
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
        respond(p, sms, messages, responses, ring, follows, i, time)
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
def filled(p, sms, messages, responses, ring, follows, counts, buckets, entries, sets, slices, stack, i, time, now):
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
        go_on(p, sms, messages, responses, ring, follows, counts, buckets, j, FINISHED, time, now)


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
def write(slice_record, time, ticks):
    """Put sectors into a slice's data, of stores or of what comes from elsewhere; returns when that begins."""
    begin = max(time, slice_record.filled)
    slice_record.filled = begin + ticks
    slice_record.writing += ticks
    return begin


@inlined
def serve(p, total, msg, i, stage, messages, entries, marks, sets, slices, queue, commands, channels, statistics, deals,
          size, sets_per_slice, by_deals, by_clump):  # fmt: skip
    """A message is at a slice, the near one or its home; returns what comes next for it, and when."""
    at_home = stage == HOME
    kind = msg.kind
    slice_ = np.int64(msg.home_slice if at_home else msg.near_slice)
    direct = msg.home_slice == msg.near_slice
    here = slices[slice_]
    line = msg.line
    number = slice_ * sets_per_slice + msg.set
    mask = np.int64(msg.mask)
    want = mask if direct or not at_home else np.int64(msg.fetch)  # sectors wanted of this slice
    n = sectors_of(want)
    # The slice's time.
    if kind == READ:
        ticks = max(p.slice_request_ticks, n * p.slice_sector_ticks)
    elif kind == WRITE:
        ticks = p.slice_request_ticks
    elif at_home:
        # Its turns at L1TEX come as one message; those after the first touch some of its sectors only.
        asked = sectors_of(mask)
        ticks = max(asked * p.atomic_ticks, p.atomic_request_ticks + (asked * msg.cover >> 2) * p.atomic_word_ticks)
        ticks += (msg.operations - 1) * (asked + 1) // 2 * p.atomic_ticks
        if kind == ATOMIC:
            ticks += asked * p.atomic_return_ticks
    else:
        ticks = p.slice_request_ticks
    through = max(msg.time, here.free) + ticks
    here.free = through
    here.busy += ticks
    if kind == WRITE:
        part = sectors_of(mask & (15 ^ msg.full))
        ticks = (n - part) * p.slice_write_ticks
        if part > 0 and at_home:
            # One word costs the whole figure, a full sector that of any write; between, the square of what lacks.
            lacking = max(0, 32 - np.int64(msg.cover))
            ticks += part * (
                p.slice_write_ticks + (p.partial_ticks - p.slice_write_ticks) * lacking * lacking // (28 * 28)
            )
        if ticks:
            through = write(here, through, ticks) + ticks
    total.l2_sectors += n
    if not at_home and (kind != READ or p.near_copies == 0):
        # Passed on to the other side.
        if kind != READ:
            total.l2_hits += n
            statistics[msg.instruction].l2_hits += n
        if kind == WRITE and p.near_copies:
            group = sets[number]
            whole = np.int64(msg.full) & mask
            entry = look_up(entries, marks, number, np.int32(line & 0x7FFFFFFF))
            if entry < 0 and whole:
                entry = insert(p, entries, marks, group, number, here, slice_, commands, total, line, through)
            if entry >= 0:
                entries[entry].state |= whole
                touch(p, group, marks, entry, False)
        msg.fetch = pairs(mask, p.fetch)
        msg.stage = HOME
        return LATER, through + p.hop_ticks
    group = sets[number]
    entry = look_up(entries, marks, number, np.int32(line & 0x7FFFFFFF))
    state = np.int64(entries[entry].state) if entry >= 0 else np.int64(0)
    missing = (want if kind == READ else mask) & (15 ^ (state & 15))
    under_way = (state >> 8) & 15
    ask = pairs(missing & (15 ^ under_way), p.fetch) & (15 ^ (state & 15)) & (15 ^ under_way)
    if kind == READ:
        if entry >= 0 and (missing == 0 or direct or not at_home):
            touch(p, group, marks, entry, True)
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
        entry = insert(p, entries, marks, group, number, here, slice_, commands, total, line, through)
    if kind == READ:
        if entry >= 0:
            entries[entry].state |= ask << 8
            group.busy |= ONE << (entry & (WAYS - 1))
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
                written(p, msg, entries, marks, entry, sets, here, slice_, queue, commands, total, through)
            if p.write_queue_ticks > 0:
                channel = channels[np.int64(place(line & 0x7FFFFFFF, deals, size, by_deals, p.clump_lines, by_clump))]
                done += max(0, channel.free + max(channel.backlog, channel.rows) - through - p.write_queue_ticks)
            return FINISHED, done
        if kind == ATOMIC:
            done += p.atomic_latency_ticks
        if entry < 0:
            return FINISHED, done
        group.dirty |= ONE << (entry & (WAYS - 1))
        touch(p, group, marks, entry, False)
        entries[entry].state |= mask << 4
        if missing == 0:
            return FINISHED, done
        msg.near = entry
        msg.fetch = ask
        if ask == 0:
            wait(messages, entries, entry, i)
            return NOTHING, through
        entries[entry].state |= ask << 8
        group.busy |= ONE << (entry & (WAYS - 1))
    command(commands, total, READ_LINE, i, line, slice_, ask, through)
    return NOTHING, through


@compiled
def advance(m, begin, end):
    """Serve all events of the cycles from `begin` to before `end`."""
    ring, size = m.responses.shape[0] // m.sms.shape[0], m.channel_deals.shape[0] // DEALS
    m = borrowed(m)
    p, total = m.parameters[0], m.totals[0]
    sms, messages, responses, follows, leaders = m.sms, m.messages, m.responses, m.follows, m.leaders
    counts, buckets, entries, marks, sets, slices = m.counts, m.buckets, m.entries, m.marks, m.sets, m.slices
    queue, stack, commands, channels, statistics = m.queue, m.stack, m.commands, m.channels, m.statistics
    deals = m.channel_deals
    sets_per_slice = p.sets
    by_deals, by_clump, by_sms = inverse_of(size), inverse_of(p.clump_lines), inverse_of(p.sms)
    for now in range(begin, end):
        b = now & (CALENDAR - 1)
        # Bring in what the next cycles work on, in steps that each need the last.
        ahead = (now + 6) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            prefetch(messages, np.int64(buckets[ahead * BUCKET + k]))
        ahead = (now + 4) & (CALENDAR - 1)
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
                prefetch(marks, number * MARKS)
        ahead = (now + 2) & (CALENDAR - 1)
        for k in range(counts[ahead]):
            msg = messages[np.int64(buckets[ahead * BUCKET + k])]
            if msg.stage < FILL:
                number = np.int64(msg.home_slice if msg.stage == HOME else msg.near_slice) * sets_per_slice + msg.set
                group = sets[number]
                found = matches(marks, number * MARKS, sign_of(msg.line & 0x7FFFFFFF)) & ALL
                way = lowest(found) if found else next_way(p, group, marks, number, ~group.busy) & (WAYS - 1)
                prefetch(entries, number * WAYS + way)
        k = -1
        while k + 1 < counts[b]:
            k += 1
            i = np.int64(buckets[b * BUCKET + k])
            msg = messages[i]
            t = msg.time
            if (t >> TICK_BITS) > now:
                go_on(p, sms, messages, responses, ring, follows, counts, buckets, i, LATER, t, now)
                continue
            stage = msg.stage
            if stage == FILL:
                near = np.int64(msg.near)
                if msg.home >= 0:
                    write(slices[msg.home_slice], t, sectors_of(np.int64(msg.full)) * p.slice_write_ticks)
                if near >= 0:
                    t = write(slices[msg.near_slice], t, sectors_of(np.int64(msg.fetch)) * p.slice_write_ticks)
                step, at = FINISHED, t
                # Mostly the line is near or home alone and nobody waits for it.
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
                    filled(
                        p,
                        sms,
                        messages,
                        responses,
                        ring,
                        follows,
                        counts,
                        buckets,
                        entries,
                        sets,
                        slices,
                        stack,
                        i,
                        t,
                        now,
                    )
            elif stage == RESPOND:
                step, at = ANSWERED, t
            else:
                if (
                    msg.kind == READ
                    and msg.operations == 0
                    and merge(p, total, messages, leaders, follows, msg, i, by_sms)
                ):
                    continue
                step, at = serve(
                    p, total, msg, i, stage, messages, entries, marks, sets, slices, queue, commands, channels,
                    statistics, deals, size, sets_per_slice, by_deals, by_clump,
                )  # fmt: skip
            go_on(p, sms, messages, responses, ring, follows, counts, buckets, i, step, at, now)
        counts[b] = 0
