# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""The SM array: warps, schedulers, barriers, L1TEX with its tag and data stages, shared memory.

A warp issues in order. Of each operation: the plain instructions before it take scheduler slots and the warp's own
stall cycles; it waits for its scoreboards; it issues; its stall cycles pass. Of the warps that wait for a scheduler, a
pipe or a place in the LSU's queue, those of the oldest CTA go first, within a CTA the first come (measured: clocks that
warps of arithmetic, of shared memory and of loads read on the way, CTAs of 64 to 1024 threads).

Memory operations go through one queue, in order: tag stage (tag wavefronts), data stage (data wavefronts, shared with
shared memory), L1 look-up a line, a message to L2 for each line with missing sectors. Sectors under way merge. When
lines or stores outstanding reach their limit the queue stops, and goes on with the response that makes room. All of
this happens at the event's own time; latencies are added to completions only.
"""

from __future__ import annotations

import numpy as np

from warpsim.frontend.trace import (
    ASYNC_COPY,
    ATOMIC,
    BARRIER,
    DEPBAR,
    EXIT,
    FIXED,
    LDGDEPBAR,
    LOAD,
    LOCAL_STORE,
    REDUCTION,
    SHARED_ATOMIC,
    SHARED_LOAD,
    STORE,
)  # fmt: skip
from warpsim.machine.crossbar import inverse_of, rest
from warpsim.machine.host import below, borrowed, compiled, inlined, lowest, prefetch
from warpsim.machine.l1 import SETS, WAYS, allocate, find, protect, set_of
from warpsim.machine.records import (
    AT_BARRIER,
    AT_LSU,
    BOARD_FIRST,
    BOARD_STRIDE,
    CHECK,
    EXECUTE,
    FOREVER,
    GAP,
    IDLE,
    KEY_BITS,
    LEAVE,
    LSU_QUEUE,
    NEVER,
    PENDING_FIRST,
    PENDING_STRIDE,
    PORT,
    READ,
    RESPONSE_BITS,
    RUNNING,
    SERVICE,
    TICK_BITS,
    WAITING,
    WRITE,
    sectors_of,
)  # fmt: skip
from warpsim.machine.records import ATOMIC as ATOMIC_MESSAGE
from warpsim.machine.records import REDUCTION as REDUCTION_MESSAGE

GROUPS = 16  # groups of asynchronous copies a warp may have open
FIFO = 64
RECENT = 64  # store lines of an SM that a later one can find: the largest `store_merge_lines`
MESSAGES = (1 << RESPONSE_BITS) - 1
NO_RESPONSE = NEVER  # later than any
AHEAD = 32  # lines of a warp's next request whose sets of L1 are brought in early
ONE = np.int64(1)


@compiled
def finish_groups(w, row, groups, board_pending, board_time):
    """Close the books on groups of asynchronous copies that are there, in order."""
    while w.group_head < w.group_tail:
        g = groups[row * GROUPS + (w.group_head & (GROUPS - 1))]
        if g.pending != 0:
            break
        w.group_time = max(w.group_time, g.time)
        if g.barrier < 6:
            board_pending[row * PENDING_STRIDE + PENDING_FIRST + g.barrier] -= 1
            board_time[row * BOARD_STRIDE + BOARD_FIRST + g.barrier] = max(
                board_time[row * BOARD_STRIDE + BOARD_FIRST + g.barrier], w.group_time
            )
        w.group_head += 1


@inlined
def ready_time(w, op, row, time, board_pending, board_time):
    """Cycle from which the operation may issue, or -1 while something it waits for is under way."""
    ready = time
    mask = op.wait
    b = row * BOARD_STRIDE + BOARD_FIRST
    c = row * PENDING_STRIDE + PENDING_FIRST
    while mask:
        if mask & 1:
            if board_pending[c] > 0:
                return -1
            ready = max(ready, board_time[b])
        mask >>= 1
        b += 1
        c += 1
    if op.kind == DEPBAR:
        if w.group_tail - w.group_head > op.count:
            return -1
        ready = max(ready, w.group_time)
    return ready


@inlined
def put(wheel, cycles, due, first, begin, end, row, time):
    """Note that a warp of the SM has an event at `time`: on the wheel, or for a later window. Returns its key."""
    if time < end:
        time = max(time, begin)  # a response can come up to some cycles late
        k = time - begin
        wheel[k] |= ONE << row
        cycles[k >> 6] |= ONE << (k & 63)
    else:
        due[first + row] = time
    return time << KEY_BITS | row


@inlined
def put_service(served, cycles, lane, number, begin, end, time):
    """Note that a scheduler serves those that wait for it at `time`, if not before. Returns its key."""
    time = max(time, begin)
    if time < lane.due:
        lane.due = time
        if time < end:
            k = time - begin
            served[k] |= ONE << number
            cycles[k >> 6] |= ONE << (k & 63)
            return time << KEY_BITS | SERVICE | number
    return NEVER


@inlined
def stand(served, cycles, lane, number, begin, end, w, r, time, free_at):
    """Let a warp wait from `time` on for its scheduler, which can take it at `free_at`. Returns the service's key."""
    w.since = time
    lane.waiting |= ONE << r
    return put_service(served, cycles, lane, number, begin, end, max(free_at, time))


@inlined
def next_key(wheel, served, cycles, words, begin):
    """Key of the first event on the wheel: in each cycle those of warps, then those of schedulers."""
    k = np.int64(-1)
    for word in range(words - 1, -1, -1):
        bits = cycles[word]
        k = word << 6 | lowest(bits) if bits else k
    if k < 0:
        return NEVER
    row = wheel[k]
    return (begin + k) << KEY_BITS | (lowest(row) if row else SERVICE | lowest(served[k]))


@inlined
def take(wheel, served, cycles, words, begin, top):
    """Take the first event, of key `top`, off the wheel; returns the key of the next."""
    k = (top >> KEY_BITS) - begin
    if top & SERVICE:
        served[k] &= served[k] - 1
    else:
        wheel[k] &= wheel[k] - 1
    left = wheel[k] | served[k]
    bits = cycles[k >> 6]
    cycles[k >> 6] = bits if left else bits & (bits - 1)
    return next_key(wheel, served, cycles, words, begin)


@inlined
def opening(lane, op, phase, queue):
    """Cycle from which a scheduler can take what a warp asks for: plain instructions, or the operation itself."""
    free_at = lane.issue
    if phase == GAP:
        if op.pipes:
            # Those of a pipe come last in their run.
            slots = op.slots
            if op.int_cycles > 0:
                free_at = max(free_at, lane.int - max(0, slots - op.int_cycles))
            if op.fma_cycles > 0:
                free_at = max(free_at, lane.fma - max(0, slots - op.fma_cycles))
            if op.fp64_cycles > 0:
                free_at = max(free_at, lane.fp64 - max(0, slots - op.fp64_cycles))
            if op.xu_cycles > 0:
                free_at = max(free_at, lane.xu - max(0, slots - op.xu_cycles))
            if op.imad_cycles > 0:
                free_at = max(free_at, lane.imad - max(0, slots - op.imad_cycles))
    elif LOAD <= op.kind <= ASYNC_COPY:
        free_at = max(free_at, lane.begun[(lane.sent - queue) & (LSU_QUEUE - 1)])
    return free_at


@compiled
def choose(lane, warps, first_row, ops, time, queue):
    """Of the warps that wait for a scheduler, the first come of the oldest CTA that it can take.

    Returns its row in the SM, or -1 and the cycle in which there is one.
    """
    best, soonest = np.int64(-1), FOREVER
    age, since = FOREVER, FOREVER
    left = lane.waiting
    while left:
        r = lowest(left)
        left &= left - 1
        w = warps[first_row + r]
        free_at = max(opening(lane, ops[w.op], w.phase, queue), w.since)
        if free_at > time:
            soonest = min(soonest, free_at)
        elif w.started < age or (w.started == age and w.since < since):
            best, age, since = r, np.int64(w.started), np.int64(w.since)
    return best, soonest


@inlined
def call_rings(m, row):
    """Bring in a warp, and what it reads next of its rings."""
    prefetch(m.warps, row)
    prefetch(m.boards, row * BOARD_STRIDE + 8)
    prefetch(m.words, row * (m.word_mask + 1) + (m.word_head[row] & m.word_mask))
    prefetch(m.blocks, row * (m.block_mask + 1) + (m.block_head[row] & m.block_mask))


@inlined
def call_sets(m, p, row, first_line):
    """Bring in the sets of L1 that a warp's next request will be looked up in."""
    at = m.word_head[row]
    first = row * (m.word_mask + 1)
    count = m.words[first + (at & m.word_mask)] & 255
    for k in range(1, min(count, AHEAD) + 1):
        line = m.words[first + ((at + k) & m.word_mask)] >> 16
        prefetch(m.lines, first_line + WAYS * set_of(line, p))


@inlined
def call_up(m, p, sm, end, pool, ring):
    """Bring what the SMs behind `sm` will work on into the host's cache, in four steps, each of which needs the last.

    Heads of rings; messages that come back and warps with events; what those messages wake, and the lines of L1 that
    these warps will ask for; then those that the woken ones will.
    """
    sms, due, messages, responses = m.sms, m.due, m.messages, m.responses
    sets = SETS * WAYS
    rows = p.rows
    other = sm + 4
    if other < p.sms:
        s = sms[other]
        first = other * (ring + 1)
        for k in range(0, 32, 8):
            prefetch(responses, first + ((s.response_head + k) & ring))
        prefetch(m.free, other * pool + s.free - 1)
        for k in range(0, rows, 8):
            prefetch(due, other * 64 + k)
            prefetch(m.word_head, other * rows + k)
            prefetch(m.block_head, other * rows + k)
            prefetch(m.block_tail, other * rows + k)
    for other in range(sm + 1, min(sm + 4, p.sms)):
        s = sms[other]
        step = other - sm
        first = other * (ring + 1)
        for k in range(s.response_head, s.response_tail):
            response = responses[first + (k & ring)]
            if response >> RESPONSE_BITS >= end:
                break
            if step == 3:
                prefetch(messages, response & MESSAGES)
                continue
            msg = messages[response & MESSAGES]
            if msg.kind == WRITE or msg.kind == REDUCTION_MESSAGE:
                continue
            if step == 2:
                if msg.entry >= 0:
                    prefetch(m.lines, other * sets + msg.entry)
                call_rings(m, np.int64(msg.row))
            else:
                call_sets(m, p, np.int64(msg.row), other * sets)
        if step > 1:
            rest = below(due, other * 64, end)
            while rest:
                row = other * rows + lowest(rest)
                rest &= rest - 1
                if step == 3:
                    call_rings(m, row)
                else:
                    call_sets(m, p, row, other * sets)


@compiled
def advance(m, end):
    """Advance every SM to cycle `end`, or to where it lacks a warp's next block; returns how many lack one."""
    # The kernel is one piece, for speed.
    pool, ring = m.free.shape[0] // m.sms.shape[0], m.responses.shape[0] // m.sms.shape[0] - 1
    merges, log_room, window_words = m.free_waiters.shape[0] // m.sms.shape[0], m.log.shape[0], m.cycles.shape[0]
    m = borrowed(m)
    p, total = m.parameters[0], m.totals[0]
    sms, warps, ctas, due, fifo, ops, lanes, groups = m.sms, m.warps, m.ctas, m.due, m.fifo, m.ops, m.lanes, m.groups
    board_time, board_pending, messages, free = m.boards, m.board_pending, m.messages, m.free
    outs, stores, responses, lines, turns, recent = m.outs, m.stores, m.responses, m.lines, m.turns, m.recent
    waiters, free_waiters, words, word_head, log = m.waiters, m.free_waiters, m.words, m.word_head, m.log
    blocks, block_head, block_tail, finished = m.blocks, m.block_head, m.block_tail, m.done
    block_first, block_count, retirements, statistics = m.block_first, m.block_count, m.retirements, m.statistics
    block_mask, word_mask = m.block_mask, m.word_mask
    wheel, served, cycles = m.wheel, m.served, m.cycles
    rows = p.rows
    by_schedulers = inverse_of(p.schedulers)
    starved = 0
    for sm in range(p.sms):
        s = sms[sm]
        if s.until >= end:
            continue
        call_up(m, p, sm, end, pool, ring)
        base = sm * 64
        begin = s.until
        first_row = sm * rows
        first_line = sm * SETS * WAYS
        first_waiter = sm * merges
        first_response = sm * (ring + 1)
        # Events before `end` lie on the wheel: of each cycle, and of the cycles that have any, a bit map.
        soon = below(due, base, end)
        while soon:
            r = lowest(soon)
            soon &= soon - 1
            put(wheel, cycles, due, base, begin, end, r, due[base + r])
            due[base + r] = FOREVER
        for number in range(p.schedulers):
            lane = lanes[sm * 4 + number]
            time = lane.due
            if time < end:
                lane.due = FOREVER
                put_service(served, cycles, lane, number, begin, end, time)
        top = next_key(wheel, served, cycles, window_words, begin)
        response = NO_RESPONSE
        if s.response_head < s.response_tail:
            response = responses[first_response + (s.response_head & ring)]
        tr = response >> RESPONSE_BITS
        stopped = False
        while True:
            # The next event: a queued memory operation, a response, a warp, or a scheduler.
            if s.fifo_count > 0 and s.blocked == 0:
                r = fifo[sm * FIFO + s.fifo_head]
                s.fifo_head = (s.fifo_head + 1) & (FIFO - 1)
                s.fifo_count -= 1
                t = s.now
                from_fifo = True
                service = np.int64(0)
            else:
                from_fifo = False
                tw = top >> KEY_BITS
                if tr <= tw:
                    if tr >= end:
                        break
                    # A response: sectors of a load or atomic, or the acknowledgement of a store.
                    head = response & MESSAGES
                    s.response_head += 1
                    now = tr
                    response = NO_RESPONSE
                    if s.response_head < s.response_tail:
                        response = responses[first_response + (s.response_head & ring)]
                    tr = response >> RESPONSE_BITS
                    msg = messages[head]
                    s.now = now
                    s.last = max(s.last, now)
                    total.busy -= 1
                    if msg.kind == WRITE or msg.kind == REDUCTION_MESSAGE:
                        s.stores -= 1
                        if msg.request > 0:
                            log[msg.request - 1].end = max(log[msg.request - 1].end, now)
                            log[msg.request - 1].l2 += sectors_of(msg.mask)
                    else:
                        s.loads -= 1
                        n = sectors_of(msg.mask)
                        total.flying -= n
                        done = now + p.return_latency
                        if p.fill_wavefronts > 0:
                            s.data_free = max(s.data_free, now) + p.fill_wavefronts
                            s.data_busy += p.fill_wavefronts
                        chain = np.int64(-1)
                        if msg.entry >= 0:
                            e = lines[first_line + msg.entry]
                            e.valid |= msg.mask
                            e.pending &= 15 ^ msg.mask
                            chain = np.int64(e.waiter)
                            if chain >= 0:
                                e.waiter = -1
                        row = np.int64(msg.row)
                        generation = msg.generation
                        barrier = msg.barrier
                        request = np.int64(msg.request)
                        if request > 0:
                            log[request - 1].l2 += n
                        while True:
                            if request > 0:
                                log[request - 1].end = max(log[request - 1].end, done)
                            w = warps[row]
                            if w.generation == generation:
                                if barrier < 7:
                                    board_pending[row * PENDING_STRIDE + PENDING_FIRST + barrier] -= 1
                                    board_time[row * BOARD_STRIDE + BOARD_FIRST + barrier] = max(
                                        board_time[row * BOARD_STRIDE + BOARD_FIRST + barrier], done
                                    )
                                elif barrier >= 8:
                                    g = barrier - 8
                                    groups[row * GROUPS + g].pending -= 1
                                    groups[row * GROUPS + g].time = max(groups[row * GROUPS + g].time, done)
                                    finish_groups(w, row, groups, board_pending, board_time)
                                if w.state == WAITING:
                                    ready = ready_time(w, ops[w.op], row, max(now, w.since), board_pending, board_time)
                                    if ready >= 0:
                                        stall = ready - w.since
                                        statistics[ops[w.op].index].stalls += stall
                                        s.stall_cycles += stall
                                        w.state = RUNNING
                                        w.phase = PORT
                                        key = put(wheel, cycles, due, base, begin, end, row - first_row, ready)
                                        top = min(top, key)
                            # Next of the requests that merged with this line.
                            found = False
                            while chain >= 0:
                                a = waiters[first_waiter + chain]
                                nxt = np.int64(a.next)
                                e = lines[first_line + msg.entry]
                                if a.mask & e.pending:
                                    a.next = e.waiter
                                    e.waiter = chain
                                else:
                                    row = np.int64(a.row)
                                    generation = a.generation
                                    barrier = a.barrier
                                    request = np.int64(a.request)
                                    free_waiters[sm * merges + s.waiters] = chain
                                    s.waiters += 1
                                    found = True
                                chain = nxt
                                if found:
                                    break
                            if not found:
                                break
                    free[sm * pool + s.free] = head
                    s.free += 1
                    if s.blocked:
                        s.blocked = 0
                        s.blocked_cycles += now - s.blocked_since
                    continue
                if tw >= end:
                    break
                r = top & 63
                t = tw
                service = top & SERVICE
                top = take(wheel, served, cycles, window_words, begin, top)
                s.now = t
            number = r if service else rest(r, p.schedulers, by_schedulers)
            lane = lanes[sm * 4 + number]
            chosen = False
            if service:
                if lane.due != t:
                    continue
                lane.due = FOREVER
                r, soonest = choose(lane, warps, first_row, ops, t, p.queue)
                if r >= 0:
                    chosen = True
                    lane.waiting ^= ONE << r
                    w = warps[first_row + r]
                    soonest = t + (max(1, ops[w.op].slots) if w.phase == GAP else 1)
                if lane.waiting and soonest < FOREVER:
                    top = min(top, put_service(served, cycles, lane, number, begin, end, soonest))
                if not chosen:
                    continue
            row = first_row + r
            w = warps[row]
            w.state = RUNNING
            # The warp goes on inline while nothing else comes first.
            limit = min(top, min(tr, end) << KEY_BITS)
            while True:
                if w.phase == GAP:
                    if w.op == w.end:
                        at = block_head[row]
                        if at == block_tail[row]:
                            if finished[row]:
                                total.fault = 1
                                w.state = IDLE
                                break
                            top = min(top, put(wheel, cycles, due, base, begin, end, r, t))
                            stopped = True
                            break
                        block = blocks[row * (block_mask + 1) + (at & block_mask)]
                        block_head[row] = at + 1
                        taken = block_first[block] != w.end
                        w.op = block_first[block]
                        w.end = w.op + block_count[block]
                        if taken and p.branch_latency > 0:
                            t += p.branch_latency
                            if ((t << KEY_BITS) | r) >= limit:
                                top = min(top, put(wheel, cycles, due, base, begin, end, r, t))
                                break
                    op = ops[w.op]
                    slots = op.slots
                    if slots > 0 or op.pipes:
                        if not chosen:
                            free_at = opening(lane, op, GAP, p.queue)
                            if lane.waiting or free_at > t:
                                top = min(top, stand(served, cycles, lane, number, begin, end, w, r, t, free_at))
                                break
                        chosen = False
                        lane.issue = t + slots
                        s.issued += slots
                        t2 = t + max(op.gap_stall, slots)
                        if op.pipes:
                            if op.int_cycles > 0:
                                lane.int = max(t, lane.int) + op.int_cycles
                                t2 = max(t2, lane.int - p.int)
                            if op.fma_cycles > 0:
                                lane.fma = max(t, lane.fma) + op.fma_cycles
                                t2 = max(t2, lane.fma - p.fma)
                            if op.fp64_cycles > 0:
                                lane.fp64 = max(t, lane.fp64) + op.fp64_cycles
                                t2 = max(t2, lane.fp64 - p.fp64)
                            if op.xu_cycles > 0:
                                lane.xu = max(t, lane.xu) + op.xu_cycles
                                t2 = max(t2, lane.xu - p.xu)
                            if op.imad_cycles > 0:
                                lane.imad = max(t, lane.imad) + op.imad_cycles
                                t2 = max(t2, lane.imad - p.imad)
                        t = t2
                    w.phase = CHECK
                    if op.kind == DEPBAR and ((t << KEY_BITS) | r) >= limit:
                        top = min(top, put(wheel, cycles, due, base, begin, end, r, t))
                        break
                op = ops[w.op]
                if w.phase == CHECK:
                    # What nothing under way counts on stays; so this need not wait for its cycle, but for groups.
                    w.phase = PORT
                    if op.wait != 0 or op.kind == DEPBAR:
                        ready = ready_time(w, op, row, t, board_pending, board_time)
                        if ready < 0:
                            w.state = WAITING
                            w.since = t
                            break
                        statistics[op.index].stalls += ready - t
                        s.stall_cycles += ready - t
                        t = ready
                    if ((t << KEY_BITS) | r) >= limit:
                        top = min(top, put(wheel, cycles, due, base, begin, end, r, t))
                        break
                if w.phase == PORT:
                    if not chosen:
                        free_at = opening(lane, op, PORT, p.queue)
                        if lane.waiting or free_at > t:
                            top = min(top, stand(served, cycles, lane, number, begin, end, w, r, t, free_at))
                            break
                    chosen = False
                    w.phase = EXECUTE
                    lane.issue = t + 1
                    s.issued += 1
                # Execute at t.
                kind = op.kind
                next_time = t + op.stall
                s.last = max(s.last, t)
                if LOAD <= kind <= ASYNC_COPY:
                    at = word_head[row]
                    header = words[row * (word_mask + 1) + (at & word_mask)]
                    count = header & 255
                    if (header >> 32) & 63:
                        tag = (header >> 8) & 255
                        data = (header >> 16) & 0xFFFF
                        is_shared = SHARED_LOAD <= kind <= SHARED_ATOMIC
                        is_store = kind in (STORE, REDUCTION, LOCAL_STORE)
                        if s.blocked or (not from_fifo and s.fifo_count > 0):
                            full = True
                        elif is_shared:
                            full = False
                        elif is_store:
                            full = (p.store_limit > 0 and s.stores >= p.store_limit) or s.free < 33
                        else:
                            full = s.loads >= p.line_limit or s.free < 33 or s.waiters < 33
                        if full:
                            w.state = AT_LSU
                            if not from_fifo:
                                lane.begun[lane.sent & (LSU_QUEUE - 1)] = FOREVER
                                lane.sent += 1
                            if from_fifo:
                                s.fifo_head = (s.fifo_head - 1) & (FIFO - 1)
                                fifo[sm * FIFO + s.fifo_head] = r
                                s.fifo_count += 1
                            else:
                                fifo[sm * FIFO + ((s.fifo_head + s.fifo_count) & (FIFO - 1))] = r
                                s.fifo_count += 1
                            if s.blocked == 0:
                                s.blocked = 1
                                s.blocked_since = t
                            break
                        word_head[row] = at + 1 + count
                        done = t
                        noted = np.int64(0)
                        if s.watched and p.log_begin <= t < p.log_end and total.logged < p.log_requests:
                            total.logged += 1
                            noted = total.logged
                            q = log[noted - 1]
                            q.start = t
                            q.row = row
                            q.instruction = op.index
                            q.kind = kind
                            q.sectors = (header >> 40) & 255
                        if is_shared:
                            start = max(t, s.data_free)
                            s.data_free = start + data
                            s.data_busy += data
                            held = start
                            done = start + data - 1 + p.shared_latency
                            source = start + data
                        else:
                            start = max(t, max(s.tag_free, s.begun_at))
                            s.tag_free = start + tag
                            s.tag_busy += tag
                            data_start = max(start, s.data_free)
                            held = data_start
                            departure = max(start << TICK_BITS, s.port_free)
                            port = departure
                            misses = 0
                            bypass = op.flags & 1
                            code = op.write_barrier
                            if kind == ASYNC_COPY:
                                g = w.group_tail & (GROUPS - 1)
                                code = 8 + g
                            if kind == LOAD:
                                s.load_wavefronts += tag
                            cover = 32
                            if is_store or kind == ATOMIC:
                                sectors = (header >> 40) & 255
                                cover = min(32, (op.width * ((header >> 32) & 63) + sectors - 1) // max(sectors, 1))
                            for k in range(count):
                                word = words[row * (word_mask + 1) + ((at + 1 + k) & word_mask)]
                                mask = word & 15
                                line = word >> 16
                                entry = -1
                                send = mask
                                if not is_store and kind != ATOMIC and not bypass:
                                    place = WAYS * set_of(line, p)
                                    way = find(lines, first_line + place, line)
                                    if way >= 0:
                                        entry = place + way
                                        e = lines[first_line + entry]
                                        need = mask & (15 ^ e.valid)
                                        send = need & (15 ^ e.pending)
                                        if need == 0:
                                            protect(lines, turns, first_line + place, way, p.l1_ways)
                                        if need & e.pending:
                                            s.waiters -= 1
                                            slot = free_waiters[sm * merges + s.waiters]
                                            a = waiters[first_waiter + slot]
                                            a.row = row
                                            a.generation = w.generation
                                            a.mask = need
                                            a.barrier = code
                                            a.next = e.waiter
                                            a.request = noted
                                            e.waiter = slot
                                            if code < 7:
                                                board_pending[row * PENDING_STRIDE + PENDING_FIRST + code] += 1
                                            elif code >= 8:
                                                groups[row * GROUPS + code - 8].pending += 1
                                    n_all = sectors_of(mask)
                                    n_send = sectors_of(send)
                                    statistics[op.index].l1_hits += n_all - n_send
                                    statistics[op.index].l1_misses += n_send
                                    if kind in (LOAD, ASYNC_COPY):
                                        s.load_hits += n_all - n_send
                                        s.load_misses += n_send
                                    if send == 0:
                                        continue
                                    misses += 1
                                    if entry < 0:
                                        way = allocate(lines, turns, first_line + place, line, p.l1_ways)
                                        entry = place + way if way >= 0 else -1
                                    if entry >= 0:
                                        lines[first_line + entry].pending |= send
                                elif kind in (STORE, LOCAL_STORE) and not bypass:
                                    # Written through; the line stays, as if it had been hit.
                                    place = first_line + WAYS * set_of(line, p)
                                    way = find(lines, place, line)
                                    if way >= 0:
                                        protect(lines, turns, place, way, p.l1_ways)
                                    elif word & 0xF0:
                                        way = allocate(lines, turns, place, line, p.l1_ways)
                                    if way >= 0:
                                        e = lines[place + way]
                                        e.valid |= (word >> 4) & (15 ^ e.pending)
                                elif not is_store:
                                    misses += 1
                                    n_all = sectors_of(mask)
                                    statistics[op.index].l1_misses += n_all
                                    if kind in (LOAD, ASYNC_COPY):
                                        s.load_misses += n_all
                                n = sectors_of(send)
                                if is_store and kind != REDUCTION and count < p.merge_lines:
                                    # A store that waits to leave takes in a later one to its line.
                                    other = s.store_tail - 1
                                    oldest = max(s.store_head, s.store_tail - p.merge_lines)
                                    while other >= oldest and recent[sm * RECENT + (other & (RECENT - 1))] != line:
                                        other -= 1
                                    if other >= oldest:
                                        msg = messages[np.int64(stores[first_response + (other & ring)])]
                                    if other >= oldest and msg.time > start << TICK_BITS:
                                        both = send & msg.mask & (15 ^ msg.full)
                                        whole = np.int64(msg.full) | ((word >> 4) & 15)
                                        if both & (15 ^ whole):
                                            if cover + msg.cover >= 32:
                                                whole |= both
                                            else:
                                                msg.cover += cover
                                        else:
                                            msg.cover = max(np.int64(msg.cover), cover)
                                        n = sectors_of(send & (15 ^ msg.mask))
                                        msg.full = whole
                                        msg.mask |= send
                                        port += n * p.store_ticks
                                        s.write_sectors += n
                                        total.l2_asked += n
                                        continue
                                s.free -= 1
                                i = free[sm * pool + s.free]
                                msg = messages[i]
                                msg.line = line
                                msg.sm = sm
                                msg.row = row
                                msg.generation = w.generation
                                msg.entry = entry
                                msg.near = -1
                                msg.home = -1
                                msg.instruction = op.index
                                msg.mask = send
                                msg.fetch = 0
                                msg.stage = 0
                                msg.barrier = code
                                msg.request = noted
                                s.requests += 1
                                total.busy += 1
                                total.l2_asked += n
                                if is_store:
                                    port += max(p.request_ticks, n * p.store_ticks)
                                    msg.full = (word >> 4) & 15
                                    msg.cover = cover
                                    s.stores += 1
                                    if kind != REDUCTION:  # which Nsight does not count as written
                                        s.write_sectors += n
                                    if kind == REDUCTION:
                                        msg.kind = REDUCTION_MESSAGE
                                        msg.operations = ((word >> 8) & 31) + 1
                                    else:
                                        msg.kind = WRITE
                                else:
                                    port += p.request_ticks
                                    s.loads += 1
                                    total.flying += n
                                    s.read_sectors += n
                                    if kind == ATOMIC:
                                        msg.kind = ATOMIC_MESSAGE
                                        msg.cover = cover
                                        msg.operations = ((word >> 8) & 31) + 1
                                        port += max(0, n * p.store_ticks - p.request_ticks)
                                    else:
                                        msg.kind = READ
                                        msg.operations = 0
                                    if code < 7:
                                        board_pending[row * PENDING_STRIDE + PENDING_FIRST + code] += 1
                                    elif code >= 8:
                                        groups[row * GROUPS + code - 8].pending += 1
                                if is_store and kind != REDUCTION:
                                    msg.time = port + p.merge_ticks
                                    stores[first_response + (s.store_tail & ring)] = i
                                    recent[sm * RECENT + (s.store_tail & (RECENT - 1))] = (
                                        line if count < p.merge_lines else -1
                                    )
                                    s.store_tail += 1
                                else:
                                    msg.time = port
                                    outs[first_response + (s.out_tail & ring)] = i
                                    s.out_tail += 1
                            s.port_busy += port - departure
                            s.port_free = port
                            if is_store:
                                s.stored = port >> TICK_BITS
                                data += p.store_wavefronts
                            elif misses > 0:
                                data += p.miss_wavefronts
                            s.data_free = data_start + data
                            s.data_busy += data
                            source = data_start + data
                            done = data_start + data - 1 + p.hit_latency
                            if kind == ASYNC_COPY:
                                groups[row * GROUPS + code - 8].time = max(groups[row * GROUPS + code - 8].time, done)
                        if op.write_barrier < 6 and kind != ASYNC_COPY and not is_store:
                            board_time[row * BOARD_STRIDE + BOARD_FIRST + op.write_barrier] = max(
                                board_time[row * BOARD_STRIDE + BOARD_FIRST + op.write_barrier], done
                            )
                        if op.read_barrier < 6:
                            board_time[row * BOARD_STRIDE + BOARD_FIRST + op.read_barrier] = max(
                                board_time[row * BOARD_STRIDE + BOARD_FIRST + op.read_barrier], source
                            )
                        if noted > 0:
                            log[noted - 1].end = max(done, source)
                        s.begun_at = held
                        lane.begun[lane.left & (LSU_QUEUE - 1)] = held
                        lane.left += 1
                        if not from_fifo:
                            lane.sent += 1
                        elif lane.waiting:
                            held = max(t, max(lane.issue, held))
                            top = min(top, put_service(served, cycles, lane, number, begin, end, held))
                    else:
                        word_head[row] = at + 1 + count
                elif kind == FIXED:
                    done = t + op.latency
                    if op.count > 0:  # a shuffle: through the data stage
                        s.data_free = max(s.data_free, t) + op.count
                        s.data_busy += op.count
                        done = s.data_free - 1 + op.latency
                        next_time = max(next_time, s.data_free - p.queue)
                    if op.write_barrier < 6:
                        board_time[row * BOARD_STRIDE + BOARD_FIRST + op.write_barrier] = max(
                            board_time[row * BOARD_STRIDE + BOARD_FIRST + op.write_barrier], done
                        )
                    if op.read_barrier < 6:
                        board_time[row * BOARD_STRIDE + BOARD_FIRST + op.read_barrier] = max(
                            board_time[row * BOARD_STRIDE + BOARD_FIRST + op.read_barrier], t + 2
                        )
                elif kind == LDGDEPBAR:
                    groups[row * GROUPS + (w.group_tail & (GROUPS - 1))].barrier = op.write_barrier
                    if op.write_barrier < 6:
                        board_pending[row * PENDING_STRIDE + PENDING_FIRST + op.write_barrier] += 1
                    w.group_tail += 1
                    finish_groups(w, row, groups, board_pending, board_time)
                    g = groups[row * GROUPS + (w.group_tail & (GROUPS - 1))]
                    g.pending = 0
                    g.time = 0
                elif kind == EXIT and w.phase != LEAVE and s.stored > t:
                    # It holds its place until its stores have left the SM.
                    w.phase = LEAVE
                    top = min(top, put(wheel, cycles, due, base, begin, end, r, s.stored))
                    break
                elif kind in (BARRIER, EXIT):
                    slot = row // p.warps
                    c = ctas[slot]
                    if kind == BARRIER:
                        w.op += 1
                        w.phase = GAP
                        c.arrived += 1
                        w.state = AT_BARRIER
                        w.since = t
                    else:
                        c.alive -= 1
                        w.state = IDLE
                        w.generation += 1
                        total.warps -= 1
                        s.warp_cycles += t - w.started
                        if s.watched and w.started < p.log_end and t >= p.log_begin and total.logged < log_room:
                            q = log[total.logged]
                            total.logged += 1
                            q.start = w.started
                            q.end = t
                            q.row = row
                            q.instruction = -1
                    if c.alive == 0:
                        retirements[total.retired].slot = slot
                        retirements[total.retired].time = t
                        total.retired += 1
                    elif c.arrived == c.alive:
                        c.arrived = 0
                        for other in range(slot * p.warps, slot * p.warps + p.warps):
                            o = warps[other]
                            if o.state == AT_BARRIER:
                                o.state = RUNNING
                                statistics[ops[o.op - 1].index].stalls += t + p.barrier_latency - o.since
                                s.stall_cycles += t + p.barrier_latency - o.since
                                key = put(
                                    wheel, cycles, due, base, begin, end, other - first_row, t + p.barrier_latency
                                )
                                top = min(top, key)
                    break
                w.op += 1
                w.phase = GAP
                from_fifo = False
                t = next_time
                if ((t << KEY_BITS) | r) >= limit or (s.fifo_count > 0 and s.blocked == 0):
                    top = min(top, put(wheel, cycles, due, base, begin, end, r, t))
                    break
            if stopped:
                break
        if stopped:
            starved += 1
            while top < NEVER:
                if not top & SERVICE:  # a scheduler keeps its own
                    due[base + (top & 63)] = top >> KEY_BITS
                top = take(wheel, served, cycles, window_words, begin, top)
        else:
            s.until = end
    return starved
