"""State shared by the components: record layouts and the units of time.

SMs count whole cycles of their clock; ports, slices and channels count ticks of 1/64 cycle, so that rates that are no
whole number of cycles stay exact and deterministic. Messages live in one array; an SM owns a stretch of it.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.host import inlined

TICK_BITS = 6
TICK = 1 << TICK_BITS  # ticks of an SM cycle
FOREVER = np.int64(1) << np.int64(56)
RESPONSE_BITS = 24  # of a response: cycle << 24 | message
KEY_BITS = 7  # of a key: cycle << 7 | row of the SM, or | 64 + scheduler that serves one of those that wait for it
SERVICE = 1 << 6
NEVER = FOREVER << np.int64(6)  # as a key

# Message kinds.
READ, WRITE, ATOMIC, REDUCTION = 0, 1, 2, 3

# Stages of a message in the L2 component.
NEAR, HOME, FILL, RESPOND = 0, 1, 2, 3

# Warp states.
IDLE, RUNNING, WAITING, AT_BARRIER, AT_LSU = 0, 1, 2, 3, 4

# Phases of the operation a warp is at.
GAP, CHECK, PORT, EXECUTE, LEAVE = 0, 1, 2, 3, 4

MESSAGE = np.dtype(
    [
        ("line", np.int64),
        ("time", np.int64),  # ticks: of the next event of this message
        ("next", np.int32),  # in whatever list it is in
        ("row", np.int32),  # warp row that waits for it
        ("entry", np.int32),  # line of L1 that it fills, or -1
        ("near", np.int32),  # entry of L2 on the SM's side that it fills, or -1
        ("home", np.int32),  # entry of L2 on the line's own side that it fills, or -1
        ("generation", np.int32),  # of the row, to know a warp that has left
        ("sm", np.int16),
        ("near_slice", np.int16),
        ("home_slice", np.int16),
        ("instruction", np.uint16),
        ("kind", np.uint8),
        ("stage", np.uint8),
        ("mask", np.uint8),  # sectors asked for
        ("fetch", np.uint8),  # sectors that come from DRAM or the other side
        ("full", np.uint8),  # sectors wholly written
        ("cover", np.uint8),  # bytes written in each other sector
        ("operations", np.uint8),  # of an atomic; of a read those that share the request, none: it has followed another
        ("barrier", np.uint8),  # scoreboard, 7 none, 8 + g: group g of asynchronous copies
        ("set", np.int32),  # of L2, in the slice it goes to next
        ("request", np.int32),  # its record in the log, plus one; 0: none
    ],
    align=True,
)

WARP = np.dtype(  # all that an event of a warp needs, in two lines of the host's cache
    [
        ("op", np.int32),
        ("end", np.int32),
        ("since", np.int64),  # cycle in which its wait began
        ("started", np.int64),
        ("group_time", np.int64),  # when the last finished group of asynchronous copies was there
        ("group_head", np.int32),  # groups finished
        ("group_tail", np.int32),  # groups closed
        ("generation", np.int32),
        ("state", np.uint8),
        ("phase", np.uint8),
        ("padding", np.uint16),
        ("boards", np.int64, 6),  # when each scoreboard is free
        ("pending", np.int32, 6),  # what each waits for
        ("rest", np.int64),
    ],
    align=True,
)
BOARD_STRIDE, BOARD_FIRST = 16, 6  # of `boards`, in words of 8 bytes
PENDING_STRIDE, PENDING_FIRST = 32, 24  # of `pending`, in words of 4 bytes

CTA = np.dtype([("alive", np.int32), ("arrived", np.int32)], align=True)

SM_STATE = np.dtype(
    [
        ("until", np.int64),  # cycle up to which it has been advanced
        ("now", np.int64),
        ("tag_free", np.int64),
        ("data_free", np.int64),
        ("begun_at", np.int64),  # when the LSU began its last instruction: it takes them in order
        ("port_free", np.int64),  # ticks, request port
        ("return_free", np.int64),  # ticks, return port
        ("free", np.int32),  # messages left
        ("waiters", np.int32),  # merge records left
        ("loads", np.int32),  # lines outstanding
        ("stores", np.int32),
        ("blocked", np.int32),
        ("fifo_head", np.int32),
        ("fifo_count", np.int32),
        ("response_head", np.int64),  # counters of the rings of responses and requests
        ("response_tail", np.int64),
        ("out_head", np.int64),
        ("out_tail", np.int64),
        ("store_head", np.int64),
        ("store_tail", np.int64),
        ("stored", np.int64),  # cycle in which the last store leaves it
        ("begun", np.int64),  # whether a CTA has run on it; then the cycle from which its code is at hand
        # counters
        ("issued", np.int64),  # scheduler cycles
        ("tag_busy", np.int64),
        ("data_busy", np.int64),
        ("port_busy", np.int64),  # ticks
        ("return_busy", np.int64),  # ticks
        ("warp_cycles", np.int64),
        ("stall_cycles", np.int64),
        ("blocked_cycles", np.int64),
        ("blocked_since", np.int64),
        ("load_wavefronts", np.int64),  # tag wavefronts of global loads
        ("load_hits", np.int64),  # sectors
        ("load_misses", np.int64),
        ("requests", np.int64),  # to L2
        ("read_sectors", np.int64),  # asked of L2
        ("write_sectors", np.int64),
        ("last", np.int64),  # cycle of its last event
        ("watched", np.int64),  # whether its requests are logged
    ],
    align=True,
)

LINE = np.dtype(  # an entry of L1; numbers within the SM
    [
        ("tag", np.int32),  # the line number, its low bits
        ("waiter", np.int16),  # first request that merged with it
        ("valid", np.uint8),
        ("pending", np.uint8),
    ],
    align=True,
)

WAITER = np.dtype(  # a request merged with one under way
    [
        ("next", np.int16),
        ("row", np.int32),
        ("generation", np.int32),
        ("request", np.int32),
        ("mask", np.uint8),
        ("barrier", np.uint8),
    ],
    align=True,
)

OPS = np.dtype(
    [
        ("kind", np.int32),
        ("stall", np.int32),
        ("wait", np.int32),
        ("write_barrier", np.int32),
        ("read_barrier", np.int32),
        ("flags", np.int32),
        ("count", np.int32),
        ("width", np.int32),
        ("latency", np.int32),
        ("gap_stall", np.int32),
        ("int_cycles", np.int32),
        ("fma_cycles", np.int32),
        ("fp64_cycles", np.int32),
        ("xu_cycles", np.int32),
        ("imad_cycles", np.int32),
        ("pipes", np.int32),  # whether any of these is not 0
        ("slots", np.int32),  # scheduler cycles of the gap: its instructions, or the reads of its registers
        ("index", np.int32),
    ],
    align=True,
)

LSU_QUEUE = 16  # memory instructions of a scheduler that can wait for the LSU
LANE = np.dtype(  # a scheduler: cycle from which it and each of its slower pipes is free
    [(name, np.int64) for name in ("issue", "int", "fma", "fp64", "xu", "imad")]
    + [
        ("begun", np.int64, LSU_QUEUE),  # when its last memory instructions left the queue for the LSU
        ("sent", np.int64),  # memory instructions that it has put there
        ("left", np.int64),  # those that left it
        ("waiting", np.int64),  # rows of the SM that wait for any of these, as a bit map
        ("due", np.int64),  # cycle in which it serves the next of them
    ],
    align=True,
)

GROUP = np.dtype(  # a group of asynchronous copies of a warp
    [("time", np.int64), ("pending", np.int32), ("barrier", np.int32)], align=True
)

RETIREMENT = np.dtype([("time", np.int64), ("slot", np.int64)], align=True)

STATISTICS = np.dtype(  # of an instruction index
    [
        ("l1_hits", np.int64),
        ("l1_misses", np.int64),
        ("l2_hits", np.int64),
        ("l2_misses", np.int64),
        ("stalls", np.int64),
    ],
    align=True,
)

ENTRY = np.dtype(  # a way of a set of L2
    [
        ("tag", np.int32),
        ("state", np.int32),  # bits 0-3 valid, 4-7 dirty, 8-11 under way, 12-15 partly written; flags
        ("cover", np.int32),  # bytes written of each partly written sector
        ("waiting", np.int32),  # first message that waits for sectors under way
    ],
    align=True,
)

SET = np.dtype(  # of L2; its ways' states that matter to others, as bit maps
    [("dirty", np.int64), ("busy", np.int64), ("lines", np.int64)],  # busy: sectors under way; lines that came into it
    align=True,
)

SLICE = np.dtype(
    [
        ("free", np.int64),  # ticks
        ("busy", np.int64),
        ("filled", np.int64),  # ticks: when all that came to be written is
        ("writing", np.int64),
        ("partial_head", np.int64),
        ("partial_tail", np.int64),
        ("partial", np.int64),  # lines now partly written
    ],
    align=True,
)

CHANNEL = np.dtype(
    [
        ("free", np.int64),  # ticks
        ("active", np.int64),  # from when a row may be activated
        ("backlog", np.int64),  # ticks of writes that wait: data, and row activations
        ("rows", np.int64),
        ("drained", np.int64),
        ("busy", np.int64),
        ("turning", np.int64),
    ],
    align=True,
)

COMMAND = np.dtype(  # to DRAM
    [
        ("time", np.int64),
        ("line", np.int64),
        ("message", np.int32),
        ("channel", np.int32),
        ("kind", np.int32),
        ("mask", np.int32),
    ],
    align=True,
)

TOTALS = np.dtype(
    [
        ("retired", np.int64),  # in this window
        ("commands", np.int64),  # in this window
        ("fault", np.int64),
        ("l2_sectors", np.int64),
        ("l2_hits", np.int64),
        ("l2_misses", np.int64),
        ("dram_read", np.int64),
        ("dram_written", np.int64),
        ("dram_moved", np.int64),  # ticks: when DRAM last took a command
        ("dram_ahead", np.int64),  # ticks: what channels had to move when this window began, all together
        ("dram_load", np.int64),  # of 2^30: share of the data rate in use, a moving mean
        ("activations", np.int64),
        ("fills", np.int64),
        ("busy", np.int64),  # lines and stores outstanding
        ("flying", np.int64),  # sectors of loads under way
        ("warps", np.int64),  # resident
        ("l2_asked", np.int64),  # sectors that the SMs asked of L2 or sent to it
        ("merged_requests", np.int64),  # reads that L2 never saw
        ("merged_sectors", np.int64),
        ("logged", np.int64),  # records in the log
    ],
    align=True,
)

REQUEST = np.dtype(  # of the log: a warp's memory instruction, or a warp's whole life
    [
        ("start", np.int64),
        ("end", np.int64),
        ("row", np.int32),
        ("instruction", np.int32),  # index; -1: the warp's life
        ("kind", np.int32),
        ("sectors", np.int32),
        ("l2", np.int32),  # sectors asked of L2 or sent to it
        ("dram", np.int32),  # of these, those that DRAM gave
    ],
    align=True,
)


@inlined
def sectors_of(mask):  # type: ignore[no-untyped-def]
    """Sectors in a mask of four bits."""
    return (0x4332322132212110 >> (mask * 4)) & 15
