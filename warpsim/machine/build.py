"""Builds the machine from a GPU profile and runs a launch on it.

    result = simulate_launch(source, gpu, ctas_per_sm=8, carveout_kib=8)

`source` is a `WarpSource` (frontend/trace.py): the executor, or a synthetic stream. SimPy holds the only clock. One
process per component (SM array with L1TEX and shared memory, crossbar, L2, DRAM) wakes once a window and advances its
queues in compiled code; launches and retirements of CTAs, the monitor and the stop are events of their own. The
window is no longer than the smallest latency between components that feed back, so no component sees a message late.

Keyword arguments of `simulate_launch`:

    ctas_per_sm      residency, from `gpu.occupancy`
    carveout_kib     shared-memory carve-out, which L1 loses
    caches           "cold" | "flushed" (other data, partly dirty) | "warm" (`warm_up` is run first on the same caches)
    warm_up          a second source of the same launch, for "warm"
    clock_mhz        SM clock instead of the profile's
    sample           stop at a steady state and extrapolate the rest; runs on where none is reached
    window           cycles between wake-ups (default: the longest allowed, at most 147)
    watch            SMs of which each warp and request is logged (`Watch`)

`MachineResult` has times, counters by level, counters by instruction index and a time series.
"""

from __future__ import annotations

import gc
import math
from collections import namedtuple
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from warpsim.errors import InputError, KernelError
from warpsim.frontend.trace import ASYNC_COPY, LDGDEPBAR, OPERATION, WarpSource
from warpsim.gpu import Gpu
from warpsim.machine import crossbar, dram, l1, l2, launch, sm
from warpsim.machine.records import (
    CHANNEL,
    COMMAND,
    CTA,
    ENTRY,
    FOREVER,
    GROUP,
    LANE,
    LINE,
    MESSAGE,
    OPS,
    REQUEST,
    RETIREMENT,
    SET,
    SLICE,
    SM_STATE,
    STATISTICS,
    TICK,
    TOTALS,
    WAITER,
    WARP,
)  # fmt: skip

__all__ = ["Machine", "MachineResult", "Watch", "simulate_launch"]

WINDOW = 147
LONG_RUN = 8  # instructions of a block, from which their order no longer matters
MERGES = 2048  # merge records of an SM
_STUDENT = 2.4  # over 1 - 1/n: 95 % quantile of Student's t for n batches, 3.2 for 4, 2.7 for 8

NAMES = (
    "sms gpcs rows warps copies ctas_per_sm schedulers int fma fp64 xu imad branch_latency barrier_latency line_limit "
    "store_limit queue hit_latency return_latency store_wavefronts miss_wavefronts fill_wavefronts shared_latency "
    "l1_ways mask0 mask1 request_ticks store_ticks return_ticks request_latency response_latency merge_requests "
    "warp_start cold_start merge_ticks merge_lines partitions slices interleave_lines clump_lines sets "
    "dirty_ways kept_age near_copies slice_sector_ticks slice_write_ticks slice_request_ticks partial_ticks "
    "atomic_request_ticks atomic_word_ticks atomic_return_ticks atomic_ticks atomic_latency_ticks hop_ticks "
    "fetch partial_lines channels dram_sector_ticks activation_ticks write_activation_ticks row_ticks "
    "open_pieces piece_lines drain_ticks drain_interval_ticks turnaround_ticks write_queue_ticks "
    "dram_latency_ticks tail_growth far_ticks log_begin log_end log_requests"
)
PARAMETERS = np.dtype([(name, np.int64) for name in NAMES.split()])

# What each component's kernel works on.
SMs = namedtuple(
    "SMs",
    "parameters totals sms warps ctas due wheel served cycles fifo ops lanes boards board_pending groups messages free "
    "outs stores responses lines turns "
    "recent waiters free_waiters blocks block_head block_tail block_mask words word_head word_mask done "
    "block_first block_count retirements statistics log",
)
Crossbar = namedtuple("Crossbar", "parameters totals sms messages outs stores counts buckets deals")
Slices = namedtuple(
    "Slices",
    "parameters totals sms messages responses follows counts buckets entries marks sets slices queue "
    "commands channels statistics stack channel_deals leaders",
)
Channels = namedtuple(
    "Channels",
    "parameters totals messages counts buckets commands channels open_piece tail channel_deals order starts log",
)


@dataclass(frozen=True)
class Watch:
    """SMs, and the time in us, of which the first `requests` requests and the first `warps` lives are logged."""

    sms: Sequence[int] = ()
    begin_us: float = 0.0
    end_us: float = math.inf
    requests: int = 0
    warps: int = 0


@dataclass
class MachineResult:
    """What a launch did to the machine. Cycles are SM cycles; `ns` includes the fixed time of a launch."""

    cycles: float
    ns: float
    machine_cycles: int  # simulated, from the first CTA to the last event, without the fixed time
    ctas: int
    ctas_run: int
    half_width: float  # 95 % of the extrapolated time, relative; 0 when all CTAs ran
    counters: dict[str, float]
    by_instruction: dict[str, NDArray[np.int64]]
    busy: dict[str, float]  # share of the machine's cycles that each server worked
    series: dict[str, NDArray[np.float64]]
    spans: NDArray[
        np.int64
    ]  # a row a CTA of a watched SM: number, slot (SM x CTAs an SM + place), launch and exit cycle
    slots: int  # of CTAs, on an SM
    log: NDArray[Any]  # REQUEST records of the watched SMs, in no order
    windows: int = 0
    refills: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def _ticks(cycles: float) -> int:
    return round(cycles * TICK)


def _aligned(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that start at a line of the host's cache."""
    raw = np.zeros(count * dtype.itemsize + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + count * dtype.itemsize].view(dtype)


class Machine:
    """A GPU's memory system and SMs, with the caches' contents kept from launch to launch."""

    def __init__(self, gpu: Gpu, *, clock_mhz: float | None = None, window: int | None = None) -> None:
        self.gpu = gpu
        self.clock_mhz = clock_mhz or gpu.sm.clock_mhz
        response = gpu.crossbar.return_latency + gpu.l2.latency
        longest = min(response, gpu.dram.latency)
        self.window = window or min(WINDOW, longest)
        if not 0 < self.window <= longest:
            raise InputError(
                f"window of {self.window} cycles: at most {longest} on {gpu.name}, its smallest feedback latency"
            )
        self._l2 = self._cold_l2()

    # -- state ------------------------------------------------------------------------------------------------------

    def _cold_l2(self) -> dict[str, NDArray[Any]]:
        spec = self.gpu.l2
        groups = spec.slices * spec.sets
        sets = _aligned(groups, SET)
        sets["busy"] = (1 << l2.WAYS) - (1 << spec.ways)  # ways that there are not never come free
        entries = _aligned(groups * l2.WAYS, ENTRY)
        entries["tag"] = -1
        return {
            "entries": entries,
            "marks": _aligned(groups * l2.MARKS, np.dtype(np.uint8)),
            "sets": sets,
            "slices": np.zeros(spec.slices, SLICE),
            "queue": np.zeros(spec.slices * l2.QUEUE, np.int32),
        }

    def fill_with_other_data(self) -> None:
        """L2 holds lines of other buffers, as many of them dirty as it allows."""
        spec = self.gpu.l2
        states = self._l2["entries"]["state"].reshape(-1, l2.WAYS)
        states[:, : spec.ways] = 15
        states[:, : spec.dirty_ways] |= 15 << 4
        self._l2["entries"]["tag"] = -2
        self._l2["sets"]["dirty"] = (1 << min(spec.dirty_ways, spec.ways)) - 1

    def _parameters(self, warps: int, ctas_per_sm: int, carveout_kib: int) -> Any:
        g = self.gpu
        slow = self.clock_mhz / g.l2.clock_mhz
        ns = self.clock_mhz / 1000
        capacity = (g.l1.total_kib - carveout_kib - g.l1.reserved_kib) * 1024 // g.l1.line_bytes
        sector_ns = g.l1.sector_bytes / (g.dram.bandwidth_gbs * g.dram.efficiency / g.dram.channels)
        values = {
            "sms": g.sm.count, "rows": warps * ctas_per_sm, "warps": warps, "ctas_per_sm": ctas_per_sm,
            "copies": 0, "schedulers": g.sm.schedulers, "branch_latency": g.sm.branch_latency,
            "int": round(g.sm.int_cycles), "fma": round(g.sm.fma_cycles), "fp64": round(g.sm.fp64_cycles),
            "xu": round(g.sm.xu_cycles), "imad": round(g.sm.imad_cycles),
            "barrier_latency": g.sm.barrier_latency, "line_limit": g.l1.line_limit, "store_limit": g.l1.store_limit,
            "queue": g.l1.queue, "hit_latency": g.l1.hit_latency, "return_latency": g.l1.return_latency,
            "store_wavefronts": g.l1.store_wavefronts, "miss_wavefronts": g.l1.miss_wavefronts,
            "fill_wavefronts": round(g.l1.fill_wavefronts), "shared_latency": g.shared.latency,
            "l1_ways": max(1, capacity // l1.SETS), "mask0": g.l1.tag_bank_masks[0],
            "mask1": g.l1.tag_bank_masks[1],
            "request_ticks": _ticks(g.crossbar.request_cycles), "store_ticks": _ticks(g.crossbar.store_sector_cycles),
            "return_ticks": _ticks(g.crossbar.return_sector_cycles),
            "request_latency": _ticks(g.crossbar.request_latency),
            "response_latency": _ticks(g.crossbar.return_latency + g.l2.latency), "warp_start": g.launch.warp_start,
            "cold_start": g.launch.cold_start, "merge_ticks": _ticks(g.l1.store_merge_cycles),
            "merge_lines": g.l1.store_merge_lines,
            "gpcs": g.crossbar.gpcs, "merge_requests": g.crossbar.merge_requests,
            "partitions": g.l2.partitions, "slices": g.l2.slices, "clump_lines": max(1,
            g.dram.clump_bytes // g.l1.line_bytes),
            "interleave_lines": max(1, g.l2.interleave_bytes // g.l1.line_bytes),
            "sets": g.l2.sets, "dirty_ways": g.l2.dirty_ways, "kept_age": g.l2.kept_age,
            "near_copies": g.l2.near_copies,
            "slice_sector_ticks": _ticks(g.l2.sector_cycles * slow),
            "slice_request_ticks": _ticks(g.l2.request_cycles * slow),
            "slice_write_ticks": _ticks(g.l2.write_sector_cycles * slow),
            "partial_ticks": _ticks(g.l2.partial_write_cycles * slow),
            "atomic_request_ticks": _ticks(g.l2.atomic_request_cycles * slow),
            "atomic_word_ticks": _ticks(g.l2.atomic_word_cycles * slow),
            "atomic_return_ticks": _ticks(g.l2.atomic_return_cycles * slow),
            "atomic_ticks": _ticks(g.l2.atomic_cycles * slow), "atomic_latency_ticks": _ticks(g.l2.atomic_latency),
            "hop_ticks": _ticks(g.l2.hop_latency), "fetch": g.l2.fetch_bytes // g.l1.sector_bytes,
            "partial_lines": g.l2.partial_lines, "channels": g.dram.channels,
            "dram_sector_ticks": _ticks(sector_ns * ns),
            "activation_ticks": _ticks(g.dram.activation_ns * ns),
            "write_activation_ticks": _ticks(g.dram.write_activation_ns * ns), "row_ticks": _ticks(g.dram.row_ns * ns),
            "open_pieces": g.dram.open_pieces,
            "piece_lines": g.dram.piece_bytes // g.l1.line_bytes, "drain_ticks": _ticks(g.dram.drain_cycles),
            "drain_interval_ticks": _ticks(g.dram.drain_interval), "turnaround_ticks": _ticks(g.dram.turnaround),
            "write_queue_ticks": _ticks(g.dram.write_queue), "dram_latency_ticks": _ticks(g.dram.latency),
            "tail_growth": round(1024 * (g.dram.loaded_tail / g.dram.latency_tail - 1)) if g.dram.latency_tail else 0,
            "far_ticks": _ticks(g.dram.far_latency),
        }  # fmt: skip
        table = np.zeros(1, PARAMETERS)
        for name, value in values.items():
            table[name] = value
        return table

    def _operations(self, source: WarpSource) -> NDArray[np.void]:
        given = source.operations
        if given.dtype != OPERATION:
            raise KernelError("operation table of another layout")
        spec = self.gpu.sm
        ops = np.zeros(len(given), OPS)
        for name in ("kind", "stall", "write_barrier", "read_barrier", "flags", "count", "width", "latency", "index"):
            ops[name] = given[name]
        ops["wait"] = given["wait_mask"]
        gap = given["gap_instructions"]
        ops["gap_stall"] = np.maximum(given["gap_stall"], gap)
        for name, cycles in (
            ("int", spec.int_cycles), ("fma", spec.fma_cycles), ("fp64", spec.fp64_cycles), ("xu", spec.xu_cycles),
            ("imad", spec.imad_cycles),
        ):  # fmt: skip
            ops[f"{name}_cycles"] = np.round(given[f"gap_{name}"] * cycles)
        ops["fma_cycles"] *= int(spec.fma_cycles > 1)  # a full-rate pipe is the scheduler itself
        ops["stall"] = np.maximum(ops["stall"], 1)
        pipes = [ops[f"{name}_cycles"] for name in ("int", "fma", "fp64", "xu", "imad")]
        ops["pipes"] = np.bitwise_or.reduce(pipes) > 0
        # Issue slots: a register bank gives one operand a cycle. Blocks that ask for slots and pipes alike get in each
        # other's way: all take longer by the p-norm of the three over the largest.
        slots = np.maximum(gap + 1.0, given["gap_reads"] / spec.register_ports)
        asked = [slots, ops["int_cycles"].astype(float), ops["imad_cycles"].astype(float)]
        for first, count in zip(source.block_first, source.block_count, strict=True):
            block = slice(first, first + count)
            sums = np.array([a[block].sum() for a in asked])
            if gap[block].sum() + count >= LONG_RUN:
                crowding = ((sums / sums.max()) ** spec.packing_power).sum() ** (1 / spec.packing_power)
                for a in asked:
                    a[block] = np.diff(np.round(np.cumsum(a[block]) * crowding), prepend=0)
        ops["slots"] = np.maximum(np.round(asked[0]) - 1, 0)  # the operation itself has a slot of its own
        ops["int_cycles"], ops["imad_cycles"] = asked[1], asked[2]
        return ops

    def _state(self, source: WarpSource, table: NDArray[np.void], log: NDArray[np.void]) -> tuple[Any, Any, Any, Any]:
        p = table[0]
        sms, slots = int(p["sms"]), int(p["sms"] * p["ctas_per_sm"])
        rows = slots * int(p["warps"])
        store_limit = int(p["store_limit"])
        pool = int(p["line_limit"]) + 32 + (store_limit + 32 if store_limit else 4096) + 33
        rings = source.rings
        state = np.zeros(sms, SM_STATE)
        state["free"], state["waiters"] = pool, MERGES
        messages = _aligned(sms * pool, MESSAGE)
        counts, buckets = np.zeros(crossbar.CALENDAR, np.int32), np.zeros(crossbar.CALENDAR * crossbar.BUCKET, np.int32)
        ring = 1 << (pool - 1).bit_length()
        outs, stores = np.zeros(sms * ring, np.int32), np.zeros(sms * ring, np.int32)
        responses = np.zeros(sms * ring, np.int64)
        follows = np.zeros(sms * pool, np.int32)
        lines = sms * l1.SETS * l1.WAYS
        totals, statistics = np.zeros(1, TOTALS), np.zeros(source.instructions, STATISTICS)
        commands, channels = np.zeros(1 << 18, COMMAND), np.zeros(int(p["channels"]), CHANNEL)

        words = -(-self.window // 64)
        due = _aligned(sms * 64, np.dtype(np.int64))
        due[:] = FOREVER
        ways = _aligned(lines, LINE)
        ways[:] = np.array((-1, -1, 0, 0), LINE)
        schedulers = np.zeros(sms * 4, LANE)
        schedulers["due"] = FOREVER
        warps, operations = _aligned(rows, WARP), self._operations(source)
        table["copies"] = np.isin(operations["kind"], (ASYNC_COPY, LDGDEPBAR)).any()
        channel_deals = crossbar.deal_table(int(p["channels"]), crossbar.CHANNEL_ROUNDS)

        def stacks(depth: int) -> NDArray[np.int32]:
            return np.arange(sms * depth, dtype=np.int32).reshape(sms, depth)[:, ::-1].ravel().copy()

        return (
            SMs(
                parameters=table, totals=totals, sms=state, warps=warps, ctas=np.zeros(slots, CTA),
                due=due, wheel=np.zeros(64 * words, np.int64),
                served=np.zeros(64 * words, np.int64), cycles=np.zeros(words, np.int64),
                fifo=np.zeros(sms * sm.FIFO, np.int32),
                ops=operations, lanes=schedulers, boards=warps.view(np.int64),
                board_pending=warps.view(np.int32), groups=np.zeros(rows * sm.GROUPS, GROUP), messages=messages,
                free=stacks(pool), outs=outs, stores=stores, responses=responses,
                lines=ways, turns=np.zeros(lines // l1.WAYS, np.uint8),
                recent=np.full(sms * sm.RECENT, -1, np.int64),
                waiters=np.zeros(sms * MERGES, WAITER), free_waiters=np.tile(np.arange(MERGES, dtype=np.int16)[::-1],
                sms), blocks=rings.blocks.reshape(-1),
                block_head=rings.block_head, block_tail=rings.block_tail, block_mask=rings.blocks.shape[1] - 1,
                words=rings.words.view(np.int64).reshape(-1), word_head=rings.word_head,
                word_mask=rings.words.shape[1] - 1, done=rings.done,
                block_first=np.asarray(source.block_first, np.int32),
                block_count=np.asarray(source.block_count, np.int32), retirements=np.zeros(slots, RETIREMENT),
                statistics=statistics, log=log,
            ),
            Crossbar(
                parameters=table, totals=totals, sms=state, messages=messages, outs=outs, stores=stores, counts=counts,
                buckets=buckets, deals=crossbar.deal_table(int(p["slices"]), crossbar.SLICE_ROUNDS),
            ),
            Slices(
                parameters=table, totals=totals, sms=state, messages=messages, responses=responses, follows=follows,
                counts=counts,
                buckets=buckets, commands=commands,
                channels=channels, statistics=statistics, stack=np.zeros(sms * pool + 1, np.int32),
                channel_deals=channel_deals,
                leaders=np.full(int(p["gpcs"]) * crossbar.LEADERS, -1, np.int64), **self._l2,
            ),
            Channels(
                parameters=table, totals=totals, messages=messages, counts=counts, buckets=buckets, commands=commands,
                channels=channels, open_piece=np.full(int(p["channels"] * max(1, p["open_pieces"])), -1, np.int64),
                tail=dram.tail_table(self.gpu.dram.latency_tail * TICK), channel_deals=channel_deals,
                order=np.zeros(len(commands), np.int32), starts=np.zeros(self.window + 2, np.int32), log=log,
            ),
        )  # fmt: skip

    # -- a launch ---------------------------------------------------------------------------------------------------

    def run(
        self, source: WarpSource, *, ctas_per_sm: int, carveout_kib: int = 8, sample: bool = False,
        watch: Watch | None = None,
    ) -> MachineResult:  # fmt: skip
        """Run a launch on the machine as the last one left its L2."""
        per_sm = min(ctas_per_sm, -(-source.ctas // self.gpu.sm.count))
        for name in ("free", "busy", "filled", "writing"):  # by the last launch's clock
            self._l2["slices"][name] = 0
        source.open(self.gpu.sm.count * per_sm)
        return _Launch(self, source, per_sm, carveout_kib, sample, watch or Watch()).run()


class _Launch:
    """One launch: its SimPy environment, processes and events."""

    def __init__(
        self, machine: Machine, source: WarpSource, ctas_per_sm: int, carveout_kib: int, sample: bool, watch: Watch
    ) -> None:
        gpu = machine.gpu
        if source.warps_per_cta * ctas_per_sm > gpu.sm.max_warps:
            raise InputError(
                f"{ctas_per_sm} CTAs of {source.warps_per_cta} warps an SM: at most {gpu.sm.max_warps} warps"
            )
        self.machine, self.source = machine, source
        table = machine._parameters(source.warps_per_cta, ctas_per_sm, carveout_kib)
        self.p = table[0]
        for name, us in (("log_begin", watch.begin_us), ("log_end", watch.end_us)):
            table[name] = int(min(us * machine.clock_mhz, float(FOREVER)))
        table["log_requests"] = watch.requests
        log = np.zeros(watch.requests + watch.warps if len(watch.sms) else 1, REQUEST)
        self.sm_array, self.crossbar, self.slices, self.channels = machine._state(source, table, log)
        self.watched = list(watch.sms)
        self.sm_array.sms["watched"][self.watched] = 1
        self.totals = self.sm_array.totals[0]
        self.env = simpy.Environment()
        self.sms = gpu.sm.count
        slots = self.sms * ctas_per_sm
        self.wanted = source.ctas
        self.batch = slots if sample and source.ctas >= 24 * slots else 0  # CTAs between two looks at the rate
        self.marks: list[tuple[int, int, dict[str, Any]]] = []  # cycle, work done, counters
        self.skipped = 0
        self.half_width = 0.0
        self.taken = 0  # looks that the extrapolation rests on
        self.dispatcher = launch.Dispatcher(
            self.wanted, slots, self.sms, _ticks(gpu.launch.dispatch_cycles), gpu.launch.slot_turnaround
        )
        self.retired = 0
        self.last_retirement = 0
        self.refills = 0
        self.windows = 0
        self.retirement = self.env.event()
        self.finished = self.env.event()
        self.samples: list[tuple[int, ...]] = []
        self.running = np.full((slots, 2), -1, np.int64)  # CTA in each slot, and its launch cycle
        self.spans: list[NDArray[np.int64]] = []

    def run(self) -> MachineResult:
        self._start(*self.dispatcher.first_wave())
        parts = (self._sms, self._crossbar, self._l2, self._dram, self._monitor, self._launches)
        processes = [part() for part in parts]
        for process in processes:
            self.env.process(process)
        collecting = gc.isenabled()
        gc.disable()  # a launch makes no cycles; scanning the compiler's objects again and again costs 7 %
        try:
            self.env.run(until=self.finished)
        finally:
            if collecting:
                gc.enable()
            for process in processes:  # they refer to each other by the clock's events, which would keep all memory
                process.close()
        return self._result()

    def _start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if len(ctas):
            self.running[slots] = np.stack([ctas, times], 1)
            self.source.start(ctas, slots)
            # The first issue, not the launch, must not come before the window's end.
            soonest = self.machine.window + int(self.env.now) - self.machine.gpu.launch.warp_start
            launch.start(self.sm_array, slots, np.maximum(times, soonest if self.retired else 0))

    def _window(self) -> tuple[int, int]:
        now = int(self.env.now)
        return now, now + self.machine.window

    def _sms(self) -> Generator[Any, Any, None]:
        """SM array with L1TEX and shared memory; fetches further blocks of warps that run dry."""
        while True:
            _, end = self._window()
            while sm.advance(self.sm_array, end):
                self._refill()
            if self.totals["fault"]:
                raise KernelError("a warp's stream ended without EXIT")
            if self.totals["retired"]:
                self.retirement.succeed()
            yield self.env.timeout(self.machine.window)

    def _refill(self) -> None:
        """Ask the source for more blocks, for every slot that has used half of its rings."""
        rings = self.source.rings
        lines = rings.block_tail - rings.block_head
        words = rings.word_tail - rings.word_head
        low = (lines * 2 <= rings.blocks.shape[1]) | (words * 2 <= rings.words.shape[1])
        low &= rings.done == 0
        slots = np.unique(np.flatnonzero(low) // self.source.warps_per_cta)
        before = rings.block_tail.sum()
        self.source.refill(slots)
        self.refills += 1
        if rings.block_tail.sum() == before and not rings.done[low].any():
            raise KernelError("the source of a launch gave no further blocks")

    def _crossbar(self) -> Generator[Any, Any, None]:
        while True:
            crossbar.send(self.crossbar, *self._window())
            yield self.env.timeout(self.machine.window)

    def _l2(self) -> Generator[Any, Any, None]:
        while True:
            l2.advance(self.slices, *self._window())
            yield self.env.timeout(self.machine.window)

    def _dram(self) -> Generator[Any, Any, None]:
        while True:
            dram.advance(self.channels, *self._window())
            yield self.env.timeout(self.machine.window)

    def _launches(self) -> Generator[Any, Any, None]:
        """Retirements of a window free slots; the next CTAs are launched there."""
        while True:
            yield self.retirement
            self.retirement = self.env.event()
            n = int(self.totals["retired"])
            done = self.sm_array.retirements[:n]
            slots, times = done["slot"].copy(), done["time"].copy()
            self.totals["retired"] = 0
            if len(self.watched):
                seen = np.isin(slots // int(self.p["ctas_per_sm"]), self.watched)
                spans = np.column_stack([self.running[slots, 0], slots, self.running[slots, 1], times])
                self.spans.append(spans[seen])
            self.retired += n
            self.last_retirement = max(self.last_retirement, int(times.max()))
            self._start(*self.dispatcher.after(slots, times))

    def _monitor(self) -> Generator[Any, Any, None]:
        """Samples once a window; ends the run when nothing is left to happen."""
        while True:
            self.windows += 1
            yield self.env.timeout(self.machine.window)
            t = self.totals
            self.samples.append(
                (
                    int(self.env.now), self.retired, int(t["flying"]), int(t["warps"]),
                    int(t["l2_asked"] - t["flying"]), self._moved(),
                )
            )  # fmt: skip
            if self.batch and self.retired >= self.batch * (1 + len(self.marks)):
                self._look()
            if self.retired == self.wanted and t["busy"] == 0:
                self.finished.succeed()
                return

    def _moved(self) -> int:
        """Sectors that went over DRAM's pins: those that channels took on, less those that they still have to move."""
        t = self.totals
        return int(t["dram_read"] + t["dram_written"]) - int(t["dram_ahead"]) // max(
            1, int(self.p["dram_sector_ticks"])
        )

    def _work(self) -> int:
        """Sectors that L2 has given and taken; of a launch that asks it for none, CTAs."""
        return int(self.totals["l2_asked"] - self.totals["flying"]) or self.retired

    # -- steady state -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Note time and counters; stop launching when the last batches took the same time and traffic for their work.

        The first batches, in which caches fill, and all that comes after the stop stay as simulated: only the CTAs
        between are extrapolated. A kernel that writes is not steady before its write-backs are. Work is counted in
        sectors that L2 has given or taken: CTAs retire in bursts, which have nothing to do with the pace.
        """
        self.marks.append((int(self.env.now), self._work(), self._counters()))
        left = self.source.ctas - self.dispatcher.next_cta
        if len(self.marks) < 8 or left < 4 * self.batch:
            return
        half = len(self.marks) // 2
        step = max(1, half // 8)  # batches that are put together: 4 to 16 remain
        count = half // step
        last = self.marks[-count * step - 1 :: step]
        work = np.diff([mark[1] for mark in last])
        if work.min() <= 0:
            return

        def rate(name: str) -> NDArray[np.float64]:
            values: NDArray[np.float64] = np.diff([float(mark[2][name]) for mark in last]) / work
            return values

        pace = np.diff([mark[0] for mark in last]) / work
        written = rate("dram_write_sectors")
        begun = written.min() > 0 or rate("l2_write_sectors").max() == 0
        half_width = float(_STUDENT / (1 - 1 / count) * pace.std(ddof=1) / count**0.5 / pace.mean())
        halves = abs(pace[: count // 2].mean() / pace[count // 2 :].mean() - 1)
        steady = written[: count // 2].mean() - written[count // 2 :].mean()
        if half_width > 0.008 or halves > 0.008 or not begun or abs(steady) > 0.03 * max(float(written.mean()), 1e-9):
            return
        self.taken = count * step
        self.skipped = left
        self.dispatcher.ctas = self.wanted = self.dispatcher.next_cta
        self.batch = 0
        self.half_width = half_width

    # -- result -----------------------------------------------------------------------------------------------------

    def _counters(self) -> dict[str, Any]:
        """All that adds up over CTAs: by name, and under "statistics" by instruction."""
        t, s = self.totals, self.sm_array.sms
        return {
            "l1_load_hit_sectors": s["load_hits"].sum(), "l1_load_miss_sectors": s["load_misses"].sum(),
            "l1_load_tag_wavefronts": s["load_wavefronts"].sum(), "data_wavefronts": s["data_busy"].sum(),
            "l2_requests": s["requests"].sum() - t["merged_requests"],
            "l2_read_sectors": s["read_sectors"].sum() - t["merged_sectors"],
            "l2_write_sectors": s["write_sectors"].sum(), "l2_sectors": t["l2_sectors"], "l2_hit_sectors": t["l2_hits"],
            "l2_miss_sectors": t["l2_misses"], "dram_read_sectors": t["dram_read"],
            "dram_write_sectors": t["dram_written"],
            "dram_fill_sectors": t["fills"], "dram_activations": t["activations"],
            "stall_cycles": s["stall_cycles"].sum(),
            "blocked_cycles": s["blocked_cycles"].sum(), "warp_cycles": s["warp_cycles"].sum(),
            "statistics": self.sm_array.statistics.copy(),
        }  # fmt: skip

    def _extrapolate(self, counters: dict[str, Any]) -> float:
        """Add what the skipped CTAs would have counted; returns the cycles that they would have taken."""
        (first, before, old), (last, after, new) = self.marks[-self.taken - 1], self.marks[-1]
        share = self.skipped * self._work() / self.retired / (after - before)  # all that was launched is done by now
        for name, value in counters.items():
            if name == "statistics":
                for column in value.dtype.names:
                    value[column] += np.round((new[name][column] - old[name][column]) * share).astype(np.int64)
            else:
                counters[name] = value + round(float(new[name] - old[name]) * share)
        return (last - first) * share

    def _result(self) -> MachineResult:
        t, p, gpu = self.totals, self.p, self.machine.gpu
        s = self.sm_array.sms
        channels = self.channels.channels
        cycles = max(int(s["last"].max()), self.last_retirement)
        clock = self.machine.clock_mhz / 1000
        counters = self._counters()
        whole = cycles + (self._extrapolate(counters) if self.skipped else 0.0)
        statistics = counters.pop("statistics")
        ns = whole / clock + gpu.launch.fixed_ns
        counters["warps_active_pct"] = (
            100 * float(counters.pop("warp_cycles")) / (max(whole, 1) * self.sms * gpu.sm.max_warps)
        )
        span = max(cycles, 1)
        busy = {
            "issue": float(s["issued"].sum()) / (span * self.sms * gpu.sm.schedulers),
            "tag stage": float(s["tag_busy"].sum()) / (span * self.sms),
            "data stage": float(s["data_busy"].sum()) / (span * self.sms),
            "request port": float(s["port_busy"].sum()) / (span * self.sms * TICK),
            "return port": float(s["return_busy"].sum()) / (span * self.sms * TICK),
            "L2 slices": max(float(self.slices.slices[part].sum()) for part in ("busy", "writing"))
            / (span * gpu.l2.slices * TICK),
            "DRAM data": float(channels["busy"].sum()) / (span * gpu.dram.channels * TICK),
            "DRAM turnaround": float(channels["turning"].sum()) / (span * gpu.dram.channels * TICK),
            "DRAM activation": float(t["activations"])
            * float(p["activation_ticks"])
            / (span * gpu.dram.channels * TICK),
            "dispatch": self.retired * self.dispatcher.dispatch_ticks / TICK / span,
        }
        by_instruction = {
            "l1_hit_sectors": statistics["l1_hits"].copy(), "l1_miss_sectors": statistics["l1_misses"].copy(),
            "l2_hit_sectors": statistics["l2_hits"].copy(), "l2_miss_sectors": statistics["l2_misses"].copy(),
            "stall_cycles": statistics["stalls"].copy(),
        }  # fmt: skip
        return MachineResult(
            cycles=ns * clock, ns=ns, machine_cycles=cycles, ctas=self.source.ctas, ctas_run=self.retired,
            half_width=self.half_width * (whole - cycles) / max(whole, 1),
            counters={k: float(v) for k, v in counters.items()}, by_instruction=by_instruction, busy=busy,
            series=self._series(), spans=np.concatenate([np.empty((0, 4), np.int64), *self.spans]),
            slots=int(p["ctas_per_sm"]), log=self.sm_array.log[: int(t["logged"])],
            windows=self.windows, refills=self.refills,
        )  # fmt: skip

    def _series(self, bins: int = 200) -> dict[str, NDArray[np.float64]]:
        """The samples, gathered in at most `bins` bins of equal length; rates are per second."""
        table = np.array([(0,) * 6, *self.samples], np.float64)
        table[:, 5] = np.maximum.accumulate(table[:, 5])
        stride = max(1, -(-(len(table) - 1) // bins))
        ends = table[stride::stride] if len(table) > stride else table[-1:]
        starts = table[:-stride:stride][: len(ends)] if len(table) > stride else table[:1]
        seconds = (ends[:, 0] - starts[:, 0]) / (self.machine.clock_mhz * 1e6)
        seconds[seconds == 0] = np.inf
        return {
            "cycle": ends[:, 0],
            "ctas_retired": ends[:, 1],
            "bytes_in_flight": ends[:, 2] * 32,
            "warps_resident": ends[:, 3],
            "l2_bytes_per_second": (ends[:, 4] - starts[:, 4]) * 32 / seconds,
            "dram_bytes_per_second": (ends[:, 5] - starts[:, 5]) * 32 / seconds,
        }


def simulate_launch(
    source: WarpSource, gpu: Gpu, *, ctas_per_sm: int, carveout_kib: int = 8, caches: str = "cold",
    warm_up: WarpSource | None = None, clock_mhz: float | None = None, sample: bool = False, window: int | None = None,
    watch: Watch | None = None,
) -> MachineResult:  # fmt: skip
    """Time a launch; see the top of this module."""
    machine = Machine(gpu, clock_mhz=clock_mhz, window=window)
    if caches == "flushed":
        machine.fill_with_other_data()
    elif caches == "warm":
        if warm_up is None:
            raise InputError('caches = "warm" needs a source to warm them with')
        machine.run(warm_up, ctas_per_sm=ctas_per_sm, carveout_kib=carveout_kib, sample=sample)
    elif caches != "cold":
        raise InputError(f'caches = {caches!r}: "cold", "flushed" or "warm"')
    return machine.run(source, ctas_per_sm=ctas_per_sm, carveout_kib=carveout_kib, sample=sample, watch=watch)
