"""The machine as a textbook would write it: a SimPy process a request, a `simpy.Resource` at each stage.

Caches are sets without an end, so kernels must be small enough to fit; reads of several SMs do not merge on their way
to L2. It imports only the spec, the operation table and the rule that deals lines to slices; times are ticks of 1/64
cycle, as in the machine, so that rates are the same numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from warpsim.frontend.trace import BARRIER, EXIT, FIXED, LOAD, SHARED_LOAD, SHARED_STORE, STORE
from warpsim.gpu import Gpu
from warpsim.machine.crossbar import CHANNEL_ROUNDS, SLICE_ROUNDS, deal_table, place_of

T = 64
Step = Generator[Any, Any, Any]


class Textbook:
    """One launch: `trace(cta, warp)` gives (block, words) pairs, `blocks` the operations of each block."""

    def __init__(self, gpu: Gpu, blocks: list[list[Any]], trace: Any, ctas: int, warps: int, ctas_per_sm: int) -> None:
        self.gpu, self.blocks, self.trace = gpu, blocks, trace
        self.ctas, self.warps, self.ctas_per_sm = ctas, warps, ctas_per_sm
        self.env = env = simpy.Environment()
        sms = gpu.sm.count
        one = lambda n: [simpy.Resource(env) for _ in range(n)]  # noqa: E731
        self.tag, self.data, self.port, self.back = one(sms), one(sms), one(sms), one(sms)
        self.lanes = [simpy.PriorityResource(env) for _ in range(4 * sms)]
        self.lsu = [simpy.PriorityResource(env, gpu.l1.queue) for _ in range(4 * sms)]  # places in a scheduler's queue
        self.begun = [env.timeout(0) for _ in range(sms)]  # the last instruction's leaving it for the data stage
        self.slices, self.writes, self.channels = one(gpu.l2.slices), one(gpu.l2.slices), one(gpu.dram.channels)
        self.deals = deal_table(gpu.l2.slices, SLICE_ROUNDS)
        self.channel_deals = deal_table(gpu.dram.channels, CHANNEL_ROUNDS)
        self.leaving: list[list[Any]] = [[] for _ in range(sms)]  # of each SM: events of its stores' departures
        self.l1: dict[tuple[int, int, int], Any] = {}  # (SM, line, sector): event of its arrival
        self.l2: dict[tuple[int, int, int], Any] = {}  # (slice, line, sector)
        slow = gpu.sm.clock_mhz / gpu.l2.clock_mhz
        self.sector, self.request = round(gpu.l2.sector_cycles * slow * T), round(gpu.l2.request_cycles * slow * T)
        self.written = round(gpu.l2.write_sector_cycles * slow * T)
        ns = gpu.sm.clock_mhz / 1000
        self.burst = round(32 / (gpu.dram.bandwidth_gbs * gpu.dram.efficiency / gpu.dram.channels) * ns * T)
        self.last = 0
        self.dram_sectors = 0

    def run(self) -> int:
        """Cycle of the last event."""
        free = simpy.Store(self.env)
        for k in range(self.gpu.sm.count * min(self.ctas_per_sm, -(-self.ctas // self.gpu.sm.count))):
            free.put(k)
        self.env.process(self.dispatch(free))
        self.env.run()
        return -(-self.last // T)

    def occupy(self, stage: simpy.Resource, ticks: int, **order: int) -> Step:
        """Wait for the stage, keep it busy so long, go on when it begins."""
        grant = stage.request(**order)
        yield grant

        def leave() -> Step:
            yield self.env.timeout(ticks)
            stage.release(grant)

        self.env.process(leave())

    def dispatch(self, free: simpy.Store) -> Step:
        for cta in range(self.ctas):
            slot = yield free.get()
            self.env.process(self.run_cta(cta, slot, free))
            yield self.env.timeout(round(self.gpu.launch.dispatch_cycles * T))

    def run_cta(self, cta: int, slot: int, free: simpy.Store) -> Step:
        sm, place = slot % self.gpu.sm.count, slot // self.gpu.sm.count
        yield self.env.timeout(-self.env.now % T + self.gpu.launch.warp_start * T)
        shared = {"arrived": 0, "alive": self.warps, "open": self.env.event()}
        warps = [self.env.process(self.warp(cta, w, sm, place * self.warps + w, shared)) for w in range(self.warps)]
        yield self.env.all_of(warps)
        yield self.env.timeout(self.gpu.launch.slot_turnaround * T)
        yield free.put(slot)

    def warp(self, cta: int, warp: int, sm: int, row: int, shared: dict[str, Any]) -> Step:
        env, lane = self.env, self.lanes[4 * sm + row % 4]
        boards: list[list[Any]] = [[] for _ in range(8)]
        follows = 0
        for block, words in self.trace(cta, warp):
            words = list(words)
            if block != follows:
                yield env.timeout(self.gpu.sm.branch_latency * T)
            follows = block + 1
            for op in self.blocks[block]:
                n = int(op["gap_instructions"])
                if n:
                    yield from self.occupy(lane, n * T, priority=cta)
                    yield env.timeout(max(int(op["gap_stall"]), n) * T)
                for b in range(6):
                    if op["wait_mask"] >> b & 1:
                        yield env.all_of(boards[b])
                        boards[b] = []
                kind = op["kind"]
                if kind in (LOAD, STORE, SHARED_LOAD, SHARED_STORE):
                    place = self.lsu[4 * sm + row % 4].request(priority=cta)
                    yield place
                yield from self.occupy(lane, T, priority=cta)
                self.last = max(self.last, env.now)
                if kind in (LOAD, STORE, SHARED_LOAD, SHARED_STORE):
                    header = words.pop(0)
                    lines = [words.pop(0) for _ in range(header & 255)]
                    events = self.access(kind, sm, header, lines, place)
                    boards[op["write_barrier"]] += events[0]
                    boards[op["read_barrier"]] += events[1]
                elif kind == FIXED:
                    boards[op["write_barrier"]].append(env.timeout(int(op["latency"]) * T))
                elif kind in (BARRIER, EXIT):
                    if kind == EXIT:
                        yield env.all_of(self.leaving[sm])
                    shared["arrived" if kind == BARRIER else "alive"] += 1 if kind == BARRIER else -1
                    gate = shared["open"]
                    if shared["arrived"] == shared["alive"]:
                        shared["arrived"], shared["open"] = 0, env.event()
                        gate.succeed()
                    if kind == EXIT:
                        return
                    yield gate
                    yield env.timeout(self.gpu.sm.barrier_latency * T)
                    continue
                yield env.timeout(max(int(op["stall"]), 1) * T)

    def access(self, kind: int, sm: int, header: int, lines: list[int], place: Any) -> tuple[list[Any], list[Any]]:
        """Events of the result and of the sources' being read; sectors go to L1 and L2 by processes of their own."""
        env, spec = self.env, self.gpu.l1
        tag, data = header >> 8 & 255, header >> 16 & 0xFFFF
        result: list[Any] = []
        fetches = []
        for word in lines:
            line, mask = word >> 16, word & 15
            lacking = mask
            if kind == LOAD:
                lacking = sum(1 << k for k in range(4) if mask >> k & 1 and (sm, line, k) not in self.l1)
                result += [self.l1[sm, line, k] for k in range(4) if mask >> k & 1 and not lacking >> k & 1]
            if kind == STORE:
                self.l1.update({(sm, line, k): env.timeout(0) for k in range(4) if (sm, line, k) not in self.l1})
            if lacking:
                there = env.event()
                fetches.append((line, lacking, there))
                if kind == LOAD:
                    result.append(there)
                    self.l1.update({(sm, line, k): there for k in range(4) if lacking >> k & 1})
        busy = data
        if kind == STORE:
            busy += spec.store_wavefronts
        elif kind == LOAD and fetches:
            busy = data + spec.miss_wavefronts
        latency = self.gpu.shared.latency if kind in (SHARED_LOAD, SHARED_STORE) else spec.hit_latency
        done, read = env.event(), env.event()
        before, begun = self.begun[sm], env.event()
        self.begun[sm] = begun

        def stages() -> Step:
            yield before  # the LSU takes its instructions in order
            if kind in (LOAD, STORE):
                yield from self.occupy(self.tag[sm], tag * T)
                for line, mask, there in fetches:
                    env.process(self.fetch(sm, line, mask, kind == STORE, there))
            yield from self.occupy(self.data[sm], busy * T)
            begun.succeed()
            place.resource.release(place)
            yield env.timeout(busy * T)
            read.succeed()
            yield env.timeout((latency - 1) * T)
            done.succeed()

        env.process(stages())
        return [done, *result], [read]

    def fetch(self, sm: int, line: int, mask: int, store: bool, there: Any) -> Step:
        env, gpu = self.env, self.gpu
        n = mask.bit_count()
        cost = round(gpu.crossbar.request_cycles * T)
        if store:
            cost = max(cost, n * round(gpu.crossbar.store_sector_cycles * T))
            left = env.event()
            self.leaving[sm].append(left)
        yield from self.occupy(self.port[sm], cost)
        yield env.timeout(cost)
        if store:
            self.leaving[sm].remove(left)
            left.succeed()
        yield env.timeout(gpu.crossbar.request_latency * T)
        home = int(place_of(line, self.deals, gpu.l2.interleave_bytes // 128))
        half = gpu.l2.slices // gpu.l2.partitions
        near = (sm * gpu.crossbar.gpcs // gpu.sm.count) % gpu.l2.partitions * half + home % half
        if store:
            if near != home:
                yield from self.store(near, n)
                self.l2.update({(near, line, k): env.timeout(0) for k in range(4) if mask >> k & 1})
                yield env.timeout(gpu.l2.hop_latency * T)
            self.l2.update({(home, line, k): env.timeout(0) for k in range(4) if mask >> k & 1})
            yield from self.store(home, n)
            yield env.timeout(gpu.l2.hop_latency * T if near != home else 0)
        else:
            yield from self.read(near, home, line, mask, False)
            yield from self.occupy(self.back[sm], n * round(gpu.crossbar.return_sector_cycles * T))
            yield env.timeout(n * round(gpu.crossbar.return_sector_cycles * T))
        yield env.timeout((gpu.crossbar.return_latency + gpu.l2.latency) * T)
        yield env.timeout(-env.now % T)
        self.last = max(self.last, env.now)
        if not store:
            yield env.timeout(gpu.l1.return_latency * T)
        there.succeed()

    def serve(self, place: int, sectors: int) -> Step:
        ticks = max(self.request, sectors * self.sector)
        yield from self.occupy(self.slices[place], ticks)
        yield self.env.timeout(ticks)

    def store(self, place: int, sectors: int) -> Step:
        yield from self.serve(place, 0)
        yield from self.occupy(self.writes[place], sectors * self.written)
        yield self.env.timeout(sectors * self.written)

    def read(self, place: int, home: int, line: int, mask: int, far: bool) -> Step:
        """Sectors of a line from a slice: what it has or awaits, and the rest from home or DRAM, in pairs.

        What DRAM brings for the other side reaches the home slice and the near one together.
        """
        env, gpu = self.env, self.gpu
        awaited = [self.l2[place, line, k] for k in range(4) if mask >> k & 1 and (place, line, k) in self.l2]
        lacking = [k for k in range(4) if mask >> k & 1 and (place, line, k) not in self.l2]
        ask = sorted({j for k in lacking for j in (k & 2, k | 1) if (place, line, j) not in self.l2})
        arrival = env.event()
        self.l2.update({(place, line, k): arrival for k in ask})
        yield from self.serve(place, mask.bit_count())
        if ask:
            if place != home:
                yield env.timeout(gpu.l2.hop_latency * T)
                sectors = [self.l2.get((home, line, k)) for k in ask]
                hit = all(sector is not None and sector.processed for sector in sectors)
                yield from self.read(home, home, line, sum(1 << k for k in ask), True)
                yield env.timeout(gpu.l2.hop_latency * T if hit else 0)
            else:
                self.dram_sectors += len(ask)
                yield from self.occupy(
                    self.channels[place_of(line, self.channel_deals, gpu.dram.clump_bytes // 128)],
                    len(ask) * self.burst,
                )
                yield env.timeout(len(ask) * self.burst + (gpu.dram.latency + far * gpu.dram.far_latency) * T)
            filling = env.process(self.occupy(self.writes[place], len(ask) * self.written))
            if not far:
                yield filling
            arrival.succeed()
        yield env.all_of(awaited)
