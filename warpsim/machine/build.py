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
    limit            CTAs to run at most; the rest is extrapolated from the steady rate (None: run all)
    window           cycles between wake-ups (default: the longest allowed, at most 120)

`MachineResult` has times, counters by level, counters by instruction index and a time series.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from warpsim.errors import InputError, KernelError
from warpsim.frontend.trace import OPERATION, WarpSource
from warpsim.gpu import Gpu
from warpsim.machine import crossbar, dram, l1, l2, launch, sm
from warpsim.machine.records import CTA, LINE, MESSAGE, OPS, SM_STATE, TICK, WAITER, WARP

__all__ = ["Machine", "MachineResult", "simulate_launch"]

WINDOW = 120
MERGES = 2048  # merge records of an SM

Parameters = namedtuple(
    "Parameters",
    "sms rows warps ctas_per_sm schedulers barrier_latency line_limit store_limit queue hit_latency return_latency "
    "store_wavefronts miss_wavefronts fill_wavefronts shared_latency l1_capacity mask0 mask1 request_ticks store_ticks "
    "return_ticks request_latency response_latency warp_start partitions slices clump_lines sets ways dirty_ways near_copies "
    "slice_sector_ticks slice_request_ticks partial_ticks atomic_ticks hop_ticks fetch partial_sectors channels "
    "dram_sector_ticks activation_ticks open_pieces piece_lines drain_ticks drain_interval_ticks turnaround_ticks "
    "write_queue_ticks dram_latency_ticks far_ticks",
)

State = namedtuple(
    "State",
    "sms warps ctas heap fifo ops sched int_free fma_free fp64_free xu_free board_time board_pending group_pending "
    "group_time group_barrier messages free lines heads unmarked unmarked_count used waiters free_waiters blocks block_head "
    "block_tail block_mask words word_head word_mask done block_first block_count retired retired_slot retired_time fault "
    "stalls l1_hits l1_misses l2_hits l2_misses calendar_head calendar_tail deals tags line_of state cover hand victim "
    "clean_hand dirty_count waiting stack slice_free slice_busy partial_queue partial_head partial_tail partial_count "
    "commands command_count channel_free channel_backlog channel_busy channel_turning channel_drained channel_active "
    "open_piece tail l2_counters dram_counters",
)


@dataclass
class MachineResult:
    """What a launch did to the machine. Cycles are SM cycles; `ns` includes the fixed time of a launch."""

    cycles: float
    ns: float
    machine_cycles: int  # from the first CTA to the last event, without the fixed time
    ctas: int
    ctas_run: int
    half_width: float  # 95 % of the extrapolated time, relative; 0 when all CTAs ran
    counters: dict[str, float]
    by_instruction: dict[str, NDArray[np.int64]]
    busy: dict[str, float]  # share of the machine's cycles that each server worked
    series: dict[str, NDArray[np.float64]]
    spans: NDArray[np.int64]  # a row a CTA: its number, slot (SM x CTAs an SM + place), launch and exit cycle
    windows: int = 0
    refills: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def _ticks(cycles: float) -> int:
    return round(cycles * TICK)


class Machine:
    """A GPU's memory system and SMs, with the caches' contents kept from launch to launch."""

    def __init__(self, gpu: Gpu, *, clock_mhz: float | None = None, window: int | None = None) -> None:
        self.gpu = gpu
        self.clock_mhz = clock_mhz or gpu.sm.clock_mhz
        response = gpu.crossbar.return_latency + gpu.l2.latency
        longest = min(response, gpu.dram.latency, gpu.launch.slot_turnaround)
        self.window = window or min(WINDOW, longest)
        if not 0 < self.window <= longest:
            raise InputError(f"window of {self.window} cycles: at most {longest} on {gpu.name}, its smallest feedback latency")
        self._l2 = self._cold_l2()

    # -- state ------------------------------------------------------------------------------------------------------

    def _cold_l2(self) -> dict[str, NDArray[Any]]:
        spec = self.gpu.l2
        groups = spec.slices * spec.sets
        entries = groups * l2.WAYS
        return {
            "tags": np.full(entries, -1, np.int32),
            "line_of": np.full(entries, -1, np.int64),
            "state": np.zeros(entries, np.int32),
            "cover": np.zeros(entries, np.int64),
            "hand": np.zeros(groups, np.int32),
            "victim": np.full(groups, -1, np.int32),
            "clean_hand": np.zeros(groups, np.int32),
            "dirty_count": np.zeros(groups, np.int32),
            "waiting": np.full(entries, -1, np.int32),
            "partial_queue": np.zeros((spec.slices, l2.QUEUE), np.int32),
            "partial_head": np.zeros(spec.slices, np.int64),
            "partial_tail": np.zeros(spec.slices, np.int64),
            "partial_count": np.zeros(spec.slices, np.int64),
        }

    def fill_with_other_data(self) -> None:
        """L2 holds lines of other buffers, as many of them dirty as it allows."""
        spec = self.gpu.l2
        state = self._l2["state"].reshape(-1, l2.WAYS)
        state[:, : spec.ways] = 15
        state[:, : spec.dirty_ways] |= 15 << 4
        self._l2["dirty_count"][:] = spec.dirty_ways
        self._l2["line_of"][:] = (1 << 40) + np.arange(len(self._l2["line_of"]))
        self._l2["tags"][:] = -2

    def _parameters(self, warps: int, ctas_per_sm: int, carveout_kib: int) -> Any:
        g = self.gpu
        slow = self.clock_mhz / g.l2.clock_mhz
        ns = self.clock_mhz / 1000
        capacity = (g.l1.total_kib - carveout_kib - g.l1.reserved_kib) * 1024 // g.l1.line_bytes
        sector_ns = g.l1.sector_bytes / (g.dram.bandwidth_gbs * g.dram.efficiency / g.dram.channels)
        return Parameters(
            sms=g.sm.count, rows=warps * ctas_per_sm, warps=warps, ctas_per_sm=ctas_per_sm, schedulers=g.sm.schedulers,
            barrier_latency=g.sm.barrier_latency, line_limit=g.l1.line_limit, store_limit=g.l1.store_limit,
            queue=g.l1.queue, hit_latency=g.l1.hit_latency, return_latency=g.l1.return_latency,
            store_wavefronts=g.l1.store_wavefronts, miss_wavefronts=g.l1.miss_wavefronts,
            fill_wavefronts=round(g.l1.fill_wavefronts), shared_latency=g.shared.latency,
            l1_capacity=max(1, capacity // l1.SETS), mask0=g.l1.tag_bank_masks[0], mask1=g.l1.tag_bank_masks[1],
            request_ticks=_ticks(g.crossbar.request_cycles), store_ticks=_ticks(g.crossbar.store_sector_cycles),
            return_ticks=_ticks(g.crossbar.return_sector_cycles), request_latency=_ticks(g.crossbar.request_latency),
            response_latency=_ticks(g.crossbar.return_latency + g.l2.latency), warp_start=g.launch.warp_start,
            partitions=g.l2.partitions, slices=g.l2.slices, clump_lines=max(1, g.dram.clump_bytes // g.l1.line_bytes),
            sets=g.l2.sets, ways=g.l2.ways, dirty_ways=g.l2.dirty_ways, near_copies=g.l2.near_copies,
            slice_sector_ticks=_ticks(g.l2.sector_cycles * slow), slice_request_ticks=_ticks(g.l2.request_cycles * slow),
            partial_ticks=_ticks(g.l2.partial_write_cycles * slow), atomic_ticks=_ticks(g.l2.atomic_cycles * slow),
            hop_ticks=_ticks(g.l2.hop_latency), fetch=g.l2.fetch_bytes // g.l1.sector_bytes,
            partial_sectors=g.l2.partial_sectors, channels=g.dram.channels, dram_sector_ticks=_ticks(sector_ns * ns),
            activation_ticks=_ticks(g.dram.activation_ns * ns), open_pieces=g.dram.open_pieces,
            piece_lines=g.dram.piece_bytes // g.l1.line_bytes, drain_ticks=_ticks(g.dram.drain_cycles),
            drain_interval_ticks=_ticks(g.dram.drain_interval), turnaround_ticks=_ticks(g.dram.turnaround),
            write_queue_ticks=_ticks(g.dram.write_queue), dram_latency_ticks=_ticks(g.dram.latency),
            far_ticks=_ticks(g.dram.far_latency),
        )  # fmt: skip

    def _operations(self, source: WarpSource) -> NDArray[np.void]:
        given = source.operations
        if given.dtype != OPERATION:
            raise KernelError("operation table of another layout")
        spec = self.gpu.sm
        ops = np.zeros(len(given), OPS)
        for name in ("kind", "stall", "write_barrier", "read_barrier", "flags", "count", "width", "latency", "index"):
            ops[name] = given[name]
        ops["wait"] = given["wait_mask"]
        ops["gap"] = given["gap_instructions"]
        ops["gap_stall"] = np.maximum(given["gap_stall"], given["gap_instructions"])
        for name, cycles in (
            ("int", spec.int_cycles), ("fma", spec.fma_cycles), ("fp64", spec.fp64_cycles), ("xu", spec.xu_cycles)
        ):  # fmt: skip
            ops[f"{name}_cycles"] = np.round(given[f"gap_{name}"] * cycles)
        ops["fma_cycles"] *= int(spec.fma_cycles > 1)  # a full-rate pipe is the scheduler itself
        ops["stall"] = np.maximum(ops["stall"], 1)
        return ops

    def _state(self, source: WarpSource, p: Any) -> Any:
        sms, slots = p.sms, p.sms * p.ctas_per_sm
        rows = slots * p.warps
        pool = p.line_limit + 32 + (p.store_limit + 32 if p.store_limit else 4096) + 33
        rings = source.rings
        state = np.zeros(sms, SM_STATE)
        state["free"] = pool
        state["waiters"] = MERGES
        for name in ("response_head", "response_tail", "out_head", "out_tail"):
            state[name] = -1
        messages = np.zeros(sms * pool, MESSAGE)
        messages["sm"] = np.repeat(np.arange(sms), pool)
        lanes = sms * 4
        n = source.instructions
        return State(
            sms=state, warps=np.zeros(rows, WARP), ctas=np.zeros(slots, CTA), heap=np.zeros(sms * 64 + 64, np.int64),
            fifo=np.zeros((sms, sm.FIFO), np.int32), ops=self._operations(source),
            sched=np.zeros(lanes, np.int64), int_free=np.zeros(lanes, np.int64), fma_free=np.zeros(lanes, np.int64),
            fp64_free=np.zeros(lanes, np.int64), xu_free=np.zeros(lanes, np.int64),
            board_time=np.zeros((rows, 8), np.int64), board_pending=np.zeros((rows, 8), np.int32),
            group_pending=np.zeros((rows, sm.GROUPS), np.int32), group_time=np.zeros((rows, sm.GROUPS), np.int64),
            group_barrier=np.zeros((rows, sm.GROUPS), np.uint8), messages=messages,
            free=np.arange(sms * pool, dtype=np.int32).reshape(sms, pool)[:, ::-1].copy(),
            lines=np.zeros(sms * l1.SETS * p.l1_capacity, LINE), heads=np.full(sms * l1.HEADS, -1, np.int32),
            unmarked=np.zeros(sms * l1.SETS * p.l1_capacity, np.int32),
            unmarked_count=np.zeros(sms * l1.SETS, np.int32), used=np.zeros(sms * l1.SETS, np.int32),
            waiters=np.zeros(sms * MERGES, WAITER),
            free_waiters=np.arange(sms * MERGES, dtype=np.int32).reshape(sms, MERGES)[:, ::-1].copy(),
            blocks=rings.blocks, block_head=rings.block_head, block_tail=rings.block_tail,
            block_mask=rings.blocks.shape[1] - 1, words=rings.words.view(np.int64), word_head=rings.word_head,
            word_mask=rings.words.shape[1] - 1, done=rings.done,
            block_first=np.asarray(source.block_first, np.int32), block_count=np.asarray(source.block_count, np.int32),
            retired=np.zeros(1, np.int64), retired_slot=np.zeros(slots, np.int64), retired_time=np.zeros(slots, np.int64),
            fault=np.zeros(1, np.int64), stalls=np.zeros(n, np.int64), l1_hits=np.zeros(n, np.int64),
            l1_misses=np.zeros(n, np.int64), l2_hits=np.zeros(n, np.int64), l2_misses=np.zeros(n, np.int64),
            calendar_head=np.full(crossbar.CALENDAR, -1, np.int32), calendar_tail=np.full(crossbar.CALENDAR, -1, np.int32),
            deals=crossbar.deal_table(p.slices), stack=np.zeros(sms * pool + 1, np.int32),
            slice_free=np.zeros(p.slices, np.int64), slice_busy=np.zeros(p.slices, np.int64),
            commands=np.zeros(1 << 18, dram.COMMAND), command_count=np.zeros(1, np.int64),
            channel_free=np.zeros(p.channels, np.int64), channel_backlog=np.zeros(p.channels, np.int64),
            channel_busy=np.zeros(p.channels, np.int64), channel_turning=np.zeros(p.channels, np.int64),
            channel_drained=np.zeros(p.channels, np.int64), channel_active=np.zeros(p.channels, np.int64),
            open_piece=np.full((p.channels, max(1, p.open_pieces)), -1, np.int64),
            tail=dram.tail_table(self.gpu.dram.latency_tail * TICK), l2_counters=np.zeros(8, np.int64),
            dram_counters=np.zeros(8, np.int64), **self._l2,
        )  # fmt: skip

    # -- a launch ---------------------------------------------------------------------------------------------------

    def run(self, source: WarpSource, *, ctas_per_sm: int, carveout_kib: int = 8, limit: int | None = None) -> MachineResult:
        """Run a launch on the machine as the last one left its L2."""
        per_sm = min(ctas_per_sm, -(-source.ctas // self.gpu.sm.count))
        source.open(self.gpu.sm.count * per_sm)
        return _Launch(self, source, per_sm, carveout_kib, limit).run()


class _Launch:
    """One launch: its SimPy environment, processes and events."""

    def __init__(self, machine: Machine, source: WarpSource, ctas_per_sm: int, carveout_kib: int, limit: int | None) -> None:
        gpu = machine.gpu
        if source.warps_per_cta * ctas_per_sm > gpu.sm.max_warps:
            raise InputError(f"{ctas_per_sm} CTAs of {source.warps_per_cta} warps an SM: at most {gpu.sm.max_warps} warps")
        self.machine, self.source = machine, source
        self.p = machine._parameters(source.warps_per_cta, ctas_per_sm, carveout_kib)
        self.m = machine._state(source, self.p)
        self.env = simpy.Environment()
        slots = self.p.sms * ctas_per_sm
        self.wanted = source.ctas if limit is None else min(source.ctas, limit)
        self.dispatcher = launch.Dispatcher(
            self.wanted, slots, self.p.sms, _ticks(gpu.launch.dispatch_cycles), gpu.launch.slot_turnaround
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
        for process in (self._sms, self._crossbar, self._l2, self._dram, self._monitor):
            self.env.process(process())
        self.env.process(self._launches())
        self.env.run(until=self.finished)
        return self._result()

    def _start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if len(ctas):
            self.running[slots] = np.stack([ctas, times], 1)
            self.source.start(ctas, slots)
            launch.start(self.p, self.m, slots, times)

    def _window(self) -> tuple[int, int]:
        now = int(self.env.now)
        return now, now + self.machine.window

    def _sms(self) -> Generator[Any, Any, None]:
        """SM array with L1TEX and shared memory; fetches further blocks of warps that run dry."""
        while True:
            _, end = self._window()
            while sm.advance(self.p, self.m, end):
                self._refill()
            if self.m.fault[0]:
                raise KernelError("a warp's stream ended without EXIT")
            if self.m.retired[0]:
                self.retirement.succeed()
            yield self.env.timeout(self.machine.window)

    def _refill(self) -> None:
        """Ask the source for more blocks, for every slot that has used half of its rings."""
        rings = self.source.rings
        lines = rings.block_tail - rings.block_head
        words = rings.word_tail - rings.word_head
        low = (lines * 2 <= rings.blocks.shape[1]) | (words * 2 <= rings.words.shape[1])
        low &= rings.done == 0
        slots = np.unique(np.flatnonzero(low) // self.p.warps)
        before = rings.block_tail.sum()
        self.source.refill(slots)
        self.refills += 1
        if rings.block_tail.sum() == before and not rings.done[low].any():
            raise KernelError("the source of a launch gave no further blocks")

    def _crossbar(self) -> Generator[Any, Any, None]:
        while True:
            crossbar.send(self.p, self.m, *self._window())
            yield self.env.timeout(self.machine.window)

    def _l2(self) -> Generator[Any, Any, None]:
        while True:
            l2.advance(self.p, self.m, *self._window())
            yield self.env.timeout(self.machine.window)

    def _dram(self) -> Generator[Any, Any, None]:
        while True:
            dram.advance(self.p, self.m, *self._window())
            yield self.env.timeout(self.machine.window)

    def _launches(self) -> Generator[Any, Any, None]:
        """Retirements of a window free slots; the next CTAs are launched there."""
        while True:
            yield self.retirement
            self.retirement = self.env.event()
            n = int(self.m.retired[0])
            slots, times = self.m.retired_slot[:n].copy(), self.m.retired_time[:n].copy()
            self.m.retired[0] = 0
            self.spans.append(np.column_stack([self.running[slots, 0], slots, self.running[slots, 1], times]))
            self.retired += n
            self.last_retirement = max(self.last_retirement, int(times.max()))
            self._start(*self.dispatcher.after(slots, times))

    def _monitor(self) -> Generator[Any, Any, None]:
        """Samples once a window; ends the run when nothing is left to happen."""
        while True:
            self.windows += 1
            yield self.env.timeout(self.machine.window)
            m, s = self.m, self.m.sms
            busy = int(s["loads"].sum() + s["stores"].sum())
            self.samples.append(
                (
                    int(self.env.now), self.retired, int(s["flying"].sum()), int(s["warps"].sum()),
                    int(s["read_sectors"].sum() + s["write_sectors"].sum()), int(m.dram_counters[0]), int(m.dram_counters[1]),
                )
            )  # fmt: skip
            if self.retired == self.wanted and busy == 0:
                self.finished.succeed()
                return

    # -- result -----------------------------------------------------------------------------------------------------

    def _result(self) -> MachineResult:
        m, p, gpu = self.m, self.p, self.machine.gpu
        s = m.sms
        cycles = max(int(s["last"].max()), self.last_retirement)
        clock = self.machine.clock_mhz / 1000
        ns = cycles / clock + gpu.launch.fixed_ns
        counters = {
            "l1_load_hit_sectors": int(s["load_hits"].sum()),
            "l1_load_miss_sectors": int(s["load_misses"].sum()),
            "l1_load_tag_wavefronts": int(s["load_wavefronts"].sum()),
            "data_wavefronts": int(s["data_busy"].sum()),
            "l2_requests": int(s["requests"].sum()),
            "l2_read_sectors": int(s["read_sectors"].sum()),
            "l2_write_sectors": int(s["write_sectors"].sum()),
            "l2_sectors": int(m.l2_counters[0]),
            "l2_hit_sectors": int(m.l2_counters[1]),
            "l2_miss_sectors": int(m.l2_counters[2]),
            "dram_read_sectors": int(m.dram_counters[0]),
            "dram_write_sectors": int(m.dram_counters[1]),
            "dram_activations": int(m.dram_counters[2]),
            "warps_active_pct": 100 * float(s["warp_cycles"].sum()) / (max(cycles, 1) * p.sms * gpu.sm.max_warps),
            "stall_cycles": int(s["stall_cycles"].sum()),
            "blocked_cycles": int(s["blocked_cycles"].sum()),
        }
        span = max(cycles, 1)
        busy = {
            "issue": float(s["issued"].sum()) / (span * p.sms * p.schedulers),
            "tag stage": float(s["tag_busy"].sum()) / (span * p.sms),
            "data stage": float(s["data_busy"].sum()) / (span * p.sms),
            "request port": float(s["port_busy"].sum()) / (span * p.sms * TICK),
            "return port": float(s["return_busy"].sum()) / (span * p.sms * TICK),
            "L2 slices": float(m.slice_busy.sum()) / (span * p.slices * TICK),
            "DRAM data": float(m.channel_busy.sum()) / (span * p.channels * TICK),
            "DRAM turnaround": float(m.channel_turning.sum()) / (span * p.channels * TICK),
            "DRAM activation": float(m.dram_counters[2]) * p.activation_ticks / (span * p.channels * TICK),
            "dispatch": self.retired * self.dispatcher.dispatch_ticks / TICK / span,
        }
        by_instruction = {
            "l1_hit_sectors": m.l1_hits, "l1_miss_sectors": m.l1_misses, "l2_hit_sectors": m.l2_hits,
            "l2_miss_sectors": m.l2_misses, "stall_cycles": m.stalls,
        }  # fmt: skip
        return MachineResult(
            cycles=ns * clock, ns=ns, machine_cycles=cycles, ctas=self.source.ctas, ctas_run=self.retired, half_width=0.0,
            counters={k: float(v) for k, v in counters.items()}, by_instruction=by_instruction, busy=busy,
            series=self._series(), spans=np.concatenate([np.empty((0, 4), np.int64), *self.spans]), windows=self.windows, refills=self.refills,
        )  # fmt: skip

    def _series(self, bins: int = 200) -> dict[str, NDArray[np.float64]]:
        """The samples, gathered in at most `bins` bins of equal length; rates are per second."""
        table = np.array([(0,) * 7, *self.samples], np.float64)
        stride = max(1, -(-(len(table) - 1) // bins))
        ends = table[stride::stride] if len(table) > stride else table[-1:]
        starts = table[: -stride : stride][: len(ends)] if len(table) > stride else table[:1]
        seconds = (ends[:, 0] - starts[:, 0]) / (self.machine.clock_mhz * 1e6)
        seconds[seconds == 0] = np.inf
        return {
            "cycle": ends[:, 0],
            "ctas_retired": ends[:, 1],
            "bytes_in_flight": ends[:, 2] * 32,
            "warps_resident": ends[:, 3],
            "l2_bytes_per_second": (ends[:, 4] - starts[:, 4]) * 32 / seconds,
            "dram_bytes_per_second": (ends[:, 5:7] - starts[:, 5:7]).sum(1) * 32 / seconds,
        }


def simulate_launch(
    source: WarpSource, gpu: Gpu, *, ctas_per_sm: int, carveout_kib: int = 8, caches: str = "cold",
    warm_up: WarpSource | None = None, clock_mhz: float | None = None, limit: int | None = None, window: int | None = None,
) -> MachineResult:  # fmt: skip
    """Time a launch; see the top of this module."""
    machine = Machine(gpu, clock_mhz=clock_mhz, window=window)
    if caches == "flushed":
        machine.fill_with_other_data()
    elif caches == "warm":
        if warm_up is None:
            raise InputError('caches = "warm" needs a source to warm them with')
        machine.run(warm_up, ctas_per_sm=ctas_per_sm, carveout_kib=carveout_kib, limit=limit)
    elif caches != "cold":
        raise InputError(f'caches = {caches!r}: "cold", "flushed" or "warm"')
    return machine.run(source, ctas_per_sm=ctas_per_sm, carveout_kib=carveout_kib, limit=limit)
