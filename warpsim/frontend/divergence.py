# mypy: disallow-untyped-defs=False
"""A warp's state in memory, and how its lanes part and meet again.

A warp runs as *splits*: a program counter and the lanes that share it. One split runs; the others are ready, on a
stack, or wait. BSYNC waits for all lanes of a convergence barrier that have not exited, WARPSYNC for those of a mask;
each arriving split issues its own BSYNC, which the counters count. WARPSYNC.COLLECTIVE brings the lanes of a mask
together wherever they are: they run what follows it, at the place of the last to come, up to ENDCOLLECTIVE, and there
go each to the target of its own WARPSYNC. Native code handles the common cases itself and calls `diverge`, or `regroup`
for what few kernels do, for the rest.

The counter of executed instructions also counts what is issued again (H200): a WARPSYNC for lanes that had to wait;
WARPSYNC.EXCLUSIVE for each further mask; ENDCOLLECTIVE, RET and other indirect branches for each further target.
"""

from __future__ import annotations

import numpy as np

from warpsim.compilation import carray, cfunc, njit
from warpsim.frontend.context import (
    BAD_TARGET,
    C_LEADERS,
    C_NOTES,
    C_STATE,
    C_STATE_STRIDE,
    C_STATS,
    DEADLOCK,
    EXTERNAL,
    S_REISSUED,
    S_SIZE,
    fail,
    first_lane,
    i32,
    i64,
    on,
)

# State of a warp, in 32-bit words; what follows HEADER depends on the kernel.
PC, ACTIVE, EXITED, DEPTH, WAITS, BAR_ID, BAR_THREADS, BAR_VOTE, BUDGET_WORD, BAR_MODE, INDEX = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    11,
)
STACK, WAITING = 16, 144
PREDICATES, PREDICATES_UNKNOWN, UPREDICATES, UPREDICATES_UNKNOWN = 272, 280, 288, 296
RETURNS = 304  # of each lane: the block at which it goes on after a collective
BARRIERS = (
    336  # of each barrier and lane: the lanes that meet there; lanes that parted may use one for different things
)
HEADER = BARRIERS + 16 * 32
VOTE_NONE, VOTE_COUNT, VOTE_AND, VOTE_OR = range(4)
FINISHED = -1  # pc of a warp all of whose lanes have exited
EXTERNALS = (
    0x7D00_0000_0000  # address of the driver's first function; 16 bytes each, the first half of those that return
)

NEXT, ARRIVE, WARP, JUMP, RELEASE, COLLECT, LEAVE, EXCLUDE, DRIVER = range(9)
_WARP, _COLLECTIVE = np.int32(-1), np.int32(-2)  # in place of a barrier's number, in an entry that waits for a mask


@njit
def _remove(s, w):
    s[WAITS] -= 1
    last = WAITING + 4 * s[WAITS]
    for k in range(4):
        s[WAITING + 4 * w + k] = s[last + k]


@njit
def _alike(values, first, left, lane):
    """The lanes of `left` whose values are that of one of them; lane k's is `values[first + k]`."""
    together = np.uint32(0)
    for other in range(32):
        if on(left, other) and values[first + other] == values[first + lane]:
            together |= np.uint32(1) << np.uint32(other)
    return together


@njit
def _open(s, w):
    """Lanes for which entry w still waits."""
    return s[WAITING + 4 * w + 3] & ~s[EXITED] & ~s[WAITING + 4 * w + 1]


@njit
def _next(context, row, s):
    """Go on with a ready split, else with one whose wait is over."""
    if s[DEPTH] > 0:
        s[DEPTH] -= 1
        s[PC] = s[STACK + 2 * s[DEPTH]]
        s[ACTIVE] = s[STACK + 2 * s[DEPTH] + 1]
        return 0
    for w in range(s[WAITS]):
        if _open(s, w) == 0:
            s[PC] = s[WAITING + 4 * w]
            s[ACTIVE] = s[WAITING + 4 * w + 1]
            _remove(s, w)
            return 0
    if s[WAITS] == 0:
        s[PC] = FINISHED
        s[ACTIVE] = 0
        return 0
    # WARPSYNC at several places: they meet when together they are all lanes of the mask.
    for w in range(s[WAITS]):
        kind = s[WAITING + 4 * w + 2]
        if kind < 0:
            need = s[WAITING + 4 * w + 3]
            arrived = np.int32(0)
            last = np.int32(0)
            for v in range(s[WAITS]):
                if s[WAITING + 4 * v + 2] == kind and s[WAITING + 4 * v + 3] == need:
                    arrived |= s[WAITING + 4 * v + 1]
                    last = s[WAITING + 4 * v]
            if need & ~s[EXITED] & ~arrived == 0:
                v = 0
                while v < s[WAITS]:
                    if s[WAITING + 4 * v + 2] == kind and s[WAITING + 4 * v + 3] == need:
                        if kind == _WARP:
                            _push(s, s[WAITING + 4 * v], s[WAITING + 4 * v + 1])
                        _remove(s, v)
                    else:
                        v += 1
                if kind == _COLLECTIVE:
                    _push(s, last, arrived)
                return _next_ready(s)
    return fail(context, DEADLOCK, 0, 0, 0, row, 0)


@njit
def _push(s, block, mask):
    s[STACK + 2 * s[DEPTH]] = block
    s[STACK + 2 * s[DEPTH] + 1] = mask
    s[DEPTH] += 1


@njit
def _push_last(s, block, mask):
    """Let lanes go on at a block after all that are ready, together with those that go on there."""
    for k in range(s[DEPTH]):
        if s[STACK + 2 * k] == block:
            s[STACK + 2 * k + 1] |= mask
            return
    for k in range(2 * s[DEPTH] - 1, -1, -1):
        s[STACK + 2 + k] = s[STACK + k]
    s[STACK] = block
    s[STACK + 1] = mask
    s[DEPTH] += 1


@njit
def _next_ready(s):
    s[DEPTH] -= 1
    s[PC] = s[STACK + 2 * s[DEPTH]]
    s[ACTIVE] = s[STACK + 2 * s[DEPTH] + 1]
    return 0


@njit
def _reissue(c, index, times):
    i64(c[C_STATS])[index * S_SIZE + S_REISSUED] += times


@njit
def _collect(s, need, mask):
    """All lanes that wait for a collective of the mask `need`, and these, who leave it if they are all; else none."""
    arrived = mask
    for w in range(s[WAITS]):
        if s[WAITING + 4 * w + 2] == _COLLECTIVE and s[WAITING + 4 * w + 3] == need:
            arrived |= s[WAITING + 4 * w + 1]
    if need & ~s[EXITED] & ~arrived != 0:
        return np.int32(0)
    w = 0
    while w < s[WAITS]:
        if s[WAITING + 4 * w + 2] == _COLLECTIVE and s[WAITING + 4 * w + 3] == need:
            _remove(s, w)
        else:
            w += 1
    return arrived


@njit
def _gather(s, resume, mask, barrier, required):
    """Let lanes wait to go on at a block; whether all have come, who are the running split then."""
    place = -1
    for w in range(s[WAITS]):
        need = s[WAITING + 4 * w + 3]
        same = s[WAITING + 4 * w] == resume and s[WAITING + 4 * w + 2] == barrier
        if same and (need & mask != 0 if barrier >= 0 else need == required):
            place = w
            break
    if place < 0:
        place = s[WAITS]
        s[WAITS] += 1
        s[WAITING + 4 * place] = resume
        s[WAITING + 4 * place + 1] = 0
        s[WAITING + 4 * place + 2] = barrier
    s[WAITING + 4 * place + 1] |= mask
    s[WAITING + 4 * place + 3] = required | s[WAITING + 4 * place + 1]
    if _open(s, place) == 0:
        s[PC] = resume
        s[ACTIVE] = s[WAITING + 4 * place + 1]
        _remove(s, place)
        return True
    return False


@njit
def _arrive(context, row, s, resume, mask, barrier, required):
    if _gather(s, resume, mask, barrier, required):
        return 0
    return _next(context, row, s)


_SIGNATURE = "int64(int64, int64, int64, int64, int32, CPointer(int64))"


@cfunc(_SIGNATURE)
def diverge(context, row, kind, argument, mask, targets):
    """Choose the split to run next, into the warp's PC and ACTIVE; 0, or 1 for an error.

    NEXT: the running split is over. ARRIVE: its lanes `mask` reach a BSYNC of barrier `argument & 15`, to go on at
    block `argument >> 4`. All else is `regroup`'s.
    """
    c = i64(context)
    s = i32(c[C_STATE] + row * c[C_STATE_STRIDE])
    if kind == ARRIVE:
        barrier = np.int32(argument & 15)
        required = s[BARRIERS + 32 * barrier + first_lane(np.uint32(mask))]
        return _arrive(context, row, s, np.int32(argument >> 4), mask, barrier, required)
    return _next(context, row, s)


REGROUPING = {"CALL", "RET", "BRX", "BREAK", "WARPSYNC", "ENDCOLLECTIVE"}  # instructions that need `regroup`


@cfunc(_SIGNATURE)
def regroup(context, row, kind, argument, mask, targets):
    """As `diverge`, for what few kernels do.

    WARP: a WARPSYNC in which each lane waits for those of its own targets[lane], to go on at block `argument`.
    EXCLUDE: WARP where those of one mask go on without others. COLLECT: WARP for a collective that goes on at block
    `argument >> 32` and ends at block `argument & 0xffffffff`. LEAVE: lanes `mask` end a collective whose own place
    ends at block `argument`. These four are of instruction s[INDEX].
    JUMP: each lane goes on at byte offset targets[lane]. RELEASE: lanes `mask` leave barrier `argument` (BREAK).
    DRIVER: instruction `argument & 0xffffffff` calls the driver's function at targets[lane]; its result goes into the
    register whose unknown lanes are word `argument >> 32` of the state.
    """
    c = i64(context)
    s = i32(c[C_STATE] + row * c[C_STATE_STRIDE])
    if kind == LEAVE:
        left = np.uint32(mask)
        here = np.int32(0)
        targets_left = 0
        while left != np.uint32(0):
            lane = first_lane(left)
            together = _alike(s, RETURNS, left, lane)
            if s[RETURNS + lane] == np.int32(argument):
                here = np.int32(together)
            else:
                _push_last(s, s[RETURNS + lane], np.int32(together))
            targets_left += 1
            left &= ~together
        _reissue(c, s[INDEX], targets_left - 1)
        if here != 0:
            _push(s, np.int32(argument), here)
    if kind in (WARP, EXCLUDE, COLLECT):
        resume, waits = argument, _WARP
        if kind == COLLECT:
            resume, waits = argument >> 32, _COLLECTIVE
            for lane in range(32):
                if on(mask, lane):
                    s[RETURNS + lane] = np.int32(argument & 0xFFFFFFFF)
        needs = carray(targets, 32, np.int64)
        left = np.uint32(mask)
        met = np.int32(0)
        groups = 0
        while left != np.uint32(0):
            lane = first_lane(left)
            together = _alike(needs, 0, left, lane)
            need = np.int32(np.uint32(needs[lane] & 0xFFFFFFFF))
            left &= ~together
            groups += 1
            if kind == COLLECT:
                arrived = _collect(s, need, np.int32(together))
                if arrived != 0:
                    _push(s, np.int32(resume), arrived)
                    continue
            if _gather(s, np.int32(resume), np.int32(together), waits, need):
                if kind == WARP:
                    met |= s[ACTIVE]
                else:
                    _push(s, s[PC], s[ACTIVE])
        if met != 0:
            _push(s, np.int32(resume), met)
        if kind == EXCLUDE:
            _reissue(c, s[INDEX], groups - 1)
        elif kind == WARP and met & ~mask != 0:
            _reissue(c, s[INDEX], 1)
    if kind == DRIVER:
        index = argument & 0xFFFFFFFF
        lane = first_lane(mask)
        target = carray(targets, 32, np.int64)[lane]
        for other in range(32):
            if on(mask, other) and carray(targets, 32, np.int64)[other] != target:
                return fail(context, BAD_TARGET, index, other, carray(targets, 32, np.int64)[other], row, 0)
        if target < EXTERNALS or target >= EXTERNALS + 0x10000:
            return fail(context, BAD_TARGET, index, lane, target, row, 0)
        if target & 15:
            return fail(context, EXTERNAL, index, lane, target, row, (target - EXTERNALS) >> 4)
        i64(c[C_NOTES])[index] |= 4
        s[argument >> 32] |= mask
        _push(s, i32(c[C_LEADERS])[index + 1], mask)
    if kind == RELEASE:
        for lane in range(32):
            s[BARRIERS + 32 * argument + lane] &= ~mask
        for w in range(s[WAITS]):
            if s[WAITING + 4 * w + 2] == argument:
                s[WAITING + 4 * w + 3] &= ~mask
        return 0
    if kind == JUMP:
        leaders = i32(c[C_LEADERS])
        t = carray(targets, 32, np.int64)
        left = np.uint32(mask)
        _reissue(c, argument, -1)
        while left != np.uint32(0):
            lane = first_lane(left)
            together = _alike(t, 0, left, lane)
            block = np.int32(-1) if t[lane] < 0 or t[lane] & 15 else leaders[t[lane] >> 4]
            if block < 0:
                return fail(context, BAD_TARGET, argument, lane, t[lane], row, 0)
            _push(s, block, np.int32(together))
            _reissue(c, argument, 1)
            left &= ~together
    return _next(context, row, s)
