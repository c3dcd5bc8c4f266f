"""Laws that hold for every access pattern and every kernel, checked without a GPU.

`PATTERN_LAWS` take a `Pattern`, `KERNEL_LAWS` a `Run` of a generated kernel, `MACHINE_LAWS` its timed result. A law
raises `Disagreement` with what it expected and what the model predicted. `coalescing`, `patterns` and the rest are
called through their modules, so that a fault planted there is met here.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import coalescing, patterns, reference
from warpsim.grammar import Evaluation, Name, Reduce, SmallKernel, Store, evaluate, statements
from warpsim.patterntable import Pattern

if TYPE_CHECKING:
    from warpsim.frontend.program import Program
    from warpsim.gpu import Gpu
    from warpsim.launch import Launch
    from warpsim.result import Result

__all__ = ["KERNEL_LAWS", "MACHINE_LAWS", "PATTERN_LAWS", "Disagreement", "Run", "run_kernel", "time_kernel"]

Figures = dict[str, int]
LANES = range(32)
_ORDERLESS = ("sectors", "tags", "tag_wavefronts", "l2_requests")
GLOBAL = ("sectors", "tags", "tag_wavefronts", "data_wavefronts", "l2_requests")


class Disagreement(AssertionError):  # noqa: N818 - the word that reports use
    """A law does not hold: what it expected, and what the model said."""

    def __init__(self, expected: Mapping[str, Any], predicted: Mapping[str, Any], what: str = "") -> None:
        self.expected = {k: v for k, v in expected.items() if predicted.get(k) != v}
        self.predicted = {k: predicted.get(k) for k in self.expected}
        self.what = what
        self.at: Mapping[str, int] = {}  # addresses of buffers, where the case lay on a GPU
        super().__init__(f"{what}: expected {self.expected}, predicted {self.predicted}")


def _agree(expected: Mapping[str, Any], predicted: Mapping[str, Any], what: str) -> None:
    if any(predicted.get(name) != value for name, value in expected.items()):
        raise Disagreement(expected, predicted, what)


def _within(low: int, value: int, high: int, name: str, what: str) -> None:
    if not low <= value <= high:
        raise Disagreement({name: f"{low} to {high}"}, {name: value}, what)


# ---- one warp


def _op(p: Pattern) -> str:
    """The operation as `access` calls it: a shared atomic costs the same without its result."""
    return "atomic" if p.space == "shared" and p.op == "red" else p.op


def _figures(pattern: Pattern, gpu: Gpu, **changes: Any) -> Figures:
    p = replace(pattern, **changes) if changes else pattern
    found = patterns.access(p.addresses, width=p.width, op=_op(p), space=p.space, active=p.active, gpu=gpu)
    return {name: int(value) for name, value in vars(found).items() if name != "exact"}


def _figures_of_rows(pattern: Pattern, gpu: Gpu, rows: Sequence[Sequence[int]], active: Any = None) -> list[Figures]:
    """The figures of several variants of a pattern at once."""
    found = patterns.access(
        np.array(rows, np.int64), width=pattern.width, op=_op(pattern), space=pattern.space,
        active=pattern.active if active is None else active, gpu=gpu,
    )  # fmt: skip
    return [{n: int(v[i]) for n, v in vars(found).items() if n != "exact"} for i in range(len(rows))]


def _only(figures: Figures, names: Sequence[str]) -> Figures:
    return {name: figures[name] for name in names}


def _shuffle(pattern: Pattern) -> list[int]:
    """A permutation of the lanes that belongs to the pattern."""
    seed = [pattern.mask, *(a & 0xFFFFFFFF for a in pattern.addresses[:4])]
    return [int(i) for i in np.random.default_rng(seed).permutation(32)]


def equals_reference(p: Pattern, gpu: Gpu) -> None:
    """All figures are those that brute force over bytes finds."""
    if p.space == "global":
        expected = reference.global_figures(p.op, p.width, p.addresses, p.active, gpu.l1.tag_bank_masks)
    else:
        expected = reference.shared_figures(_op(p), p.width, p.addresses, p.active)
    found = _figures(p, gpu)
    _agree(expected, found, "brute-force reference")


def stays_within_bounds(p: Pattern, gpu: Gpu) -> None:
    """Every figure lies between the ideal of its bytes and one a lane: sectors and wavefronts from floor to 32."""
    found = _figures(p, gpu)
    lanes = sum(p.active)
    names = GLOBAL if p.space == "global" else ("data_wavefronts",)
    for name in names:
        ways = 2 if name == "data_wavefronts" and p.op == "atomic" else 1  # operands, and old values back
        _within(found[f"ideal_{name}"], found[name], ways * lanes, name, "ideal to one a lane")
    if p.space == "global":
        most = found["tags"] if p.op in ("load", "store") else lanes
        _within(-(-found["tags"] // 4), found["tag_wavefronts"], most, "tag_wavefronts", "four tag banks")
        if p.op in ("load", "store"):
            _within(found["tags"], found["sectors"], 4 * found["tags"], "sectors", "one to four sectors a line")
    else:
        _within(
            0,
            found["conflicts"],
            found["data_wavefronts"] - 1,
            "conflicts",
            "conflicts are the wavefronts beyond the first",
        )


def ignores_order_of_lanes(p: Pattern, gpu: Gpu) -> None:
    """Permuting the lanes changes no sector and no tag; XOR-ing lane numbers with a constant, no shared wavefront.

    Lanes of an atomic take turns in their order: only its tags stay.
    """
    if p.op.startswith("ldmatrix"):
        return
    constant = 1 + p.mask % 31
    order = _shuffle(p) if p.space == "global" or p.width <= 4 else [lane ^ constant for lane in LANES]
    names: Sequence[str] = _ORDERLESS if p.space == "global" else ("data_wavefronts", "conflicts")
    if p.space == "global" and p.op not in ("load", "store"):
        names = ("tags",)
    moved = _figures(p, gpu, addresses=tuple(p.addresses[i] for i in order), active=tuple(p.active[i] for i in order))
    _agree(_only(_figures(p, gpu), names), moved, "lanes in another order")


def ignores_pages(p: Pattern, gpu: Gpu) -> None:
    """Moving all addresses by a multiple of 4 KB changes no sector, tag or shared-memory count."""
    step = 4096 * (1 + p.mask % 7)
    names: Sequence[str] = ("sectors", "tags", "l2_requests")
    if p.space == "shared":
        names = ("data_wavefronts", "conflicts")
    if p.space == "global" and p.op not in ("load", "store"):
        names = ("tags",)  # the turns depend on which lines share a tag bank
    moved = _figures(p, gpu, addresses=tuple(a + step for a in p.addresses))
    _agree(_only(_figures(p, gpu), names), moved, f"all addresses {step} bytes further")


def renames_banks(p: Pattern, gpu: Gpu) -> None:
    """XOR-ing all line numbers with a constant, or turning the shared banks, only renames banks: no figure changes."""
    found = _figures(p, gpu)
    if p.space == "global":
        flip = (1 + p.mask % 1023) << 7
        _agree(_only(found, GLOBAL), _figures(p, gpu, addresses=tuple(a ^ flip for a in p.addresses)), "banks renamed")
        return
    turned = [[a + 16 * turn for a in p.addresses] for turn in range(1, 8)]
    for moved in _figures_of_rows(p, gpu, turned):
        _agree(_only(found, ("data_wavefronts", "conflicts")), moved, "banks renamed")


def grows_with_lanes(p: Pattern, gpu: Gpu) -> None:
    """A lane less never costs more; an idle lane that copies an active one costs no sector and no tag."""
    if p.op.startswith("ldmatrix"):
        return
    lanes = [lane for lane in LANES if p.active[lane]]
    names: Sequence[str] = _ORDERLESS if p.space == "global" else ("data_wavefronts",)
    if p.space == "global" and p.op not in ("load", "store"):
        names = ("tags",)
    found = _figures(p, gpu)
    if len(lanes) > 1:
        gone = [lanes[i] for i in sorted({0, p.mask % len(lanes), len(lanes) - 1})]
        fewer = [tuple(on and lane != g for lane, on in enumerate(p.active)) for g in gone]
        for less in _figures_of_rows(p, gpu, [p.addresses] * len(gone), fewer):
            for name in names:
                _within(0, less[name], found[name], name, "one lane less")
    if len(lanes) < 32 and p.op in ("load", "store") and p.space == "global":
        idle = next(lane for lane in LANES if not p.active[lane])
        model = lanes[p.mask % len(lanes)]
        addresses = tuple(p.addresses[model] if lane == idle else a for lane, a in enumerate(p.addresses))
        active = tuple(on or lane == idle for lane, on in enumerate(p.active))
        more = _figures(p, gpu, addresses=addresses, active=active)
        _agree(_only(found, _ORDERLESS), more, "an idle lane copies an active one")


def adds_up_over_lanes(p: Pattern, gpu: Gpu) -> None:
    """Splitting the lanes over two accesses conserves bytes: neither half costs more, both together not less."""
    if sum(p.active) < 2 or p.op.startswith("ldmatrix"):
        return
    order = _shuffle(p)
    chosen = {lane for lane in LANES if order[lane] % 2}
    halves = [
        tuple(on and (lane in chosen) == side for lane, on in enumerate(p.active)) for side in (False, True)
    ]  # fmt: skip
    halves = [half for half in halves if any(half)]
    found = _figures(p, gpu)
    parts = _figures_of_rows(p, gpu, [p.addresses] * len(halves), halves)
    names = ["sectors", "tags", "tag_wavefronts"] if p.space == "global" else []
    if p.space == "global" and p.op not in ("load", "store"):
        names = ["tags"]
    if p.space == "shared" and (p.width <= 4 or p.op == "store"):
        names = ["data_wavefronts"]
    for name in names:
        most, total = max(part[name] for part in parts), sum(part[name] for part in parts)
        _within(most, found[name], total, name, "the most expensive half to both halves")


def conserves_bytes_when_split(p: Pattern, gpu: Gpu) -> None:
    """Two accesses of half the width touch the same sectors; wide ones are whole where both halves together are."""
    if p.width == 1 or p.space == "shared" or p.op not in ("load", "store"):
        return
    half = p.width // 2
    whole = _touched(p, p.addresses, p.width, gpu)
    low, high = _touched(p, p.addresses, half, gpu), _touched(p, [a + half for a in p.addresses], half, gpu)
    parts = {line: low.get(line, 0) | high.get(line, 0) for line in {*low, *high}}
    if whole != parts:
        expected = sum(bits.bit_count() for bits in parts.values())
        predicted = sum(bits.bit_count() for bits in whole.values())
        raise Disagreement({"sectors": f"{expected} {parts}"}, {"sectors": f"{predicted} {whole}"}, "split into halves")


def _touched(p: Pattern, addresses: Sequence[int], width: int, gpu: Gpu) -> dict[int, int]:
    """Line -> its touched sectors."""
    lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    op = coalescing.LOAD if p.op == "load" else coalescing.STORE
    count = coalescing.global_request(list(addresses), p.mask, width, op, gpu.l1.tag_bank_masks, lines, out, scratch)
    return {word >> 16: word & 15 for word in lines[:count]}


def stores_touch_what_loads_touch(p: Pattern, gpu: Gpu) -> None:
    """A store and a load of the same addresses have the same sectors and tags; an atomic at least those."""
    if p.space == "shared":
        return
    found = _figures(p, gpu)
    load = _figures(p, gpu, op="load")
    if p.op in ("load", "store"):
        _agree(_only(load, ("sectors", "tags", "tag_wavefronts")), _figures(p, gpu, op="store"), "store against load")
    else:
        for name in ("sectors", "l2_requests"):
            _within(load[name], found[name], 32, name, "atomic against load")
        distinct = len({a for a, on in zip(p.addresses, p.active, strict=True) if on}) == sum(p.active)
        if distinct and load["tags"] == 1:
            _agree(_only(load, ("sectors", "l2_requests")), found, "an atomic on distinct words is a load")


def is_the_same_compiled(p: Pattern, gpu: Gpu) -> None:
    """The compiled rules, which the executor uses, give what the plain ones give."""
    rows, masks = np.array([p.addresses], np.int64), np.array([p.mask], np.int64)
    fast = coalescing.compiled()
    lines, out = np.zeros(coalescing.LINES, np.uint64), np.zeros(coalescing.OUT, np.int64)
    scratch = np.zeros(coalescing.SCRATCH, np.int64)
    found = _figures(p, gpu)
    if p.space == "global":
        code = {"load": coalescing.LOAD, "store": coalescing.STORE, "red": coalescing.RED}.get(p.op, coalescing.ATOMIC)
        results = np.zeros((1, 5), np.int64)
        banks = np.array(gpu.l1.tag_bank_masks, np.int64)
        fast.many_requests(rows, masks, p.width, code, banks, lines, out, scratch, results)
        _agree(dict(zip(GLOBAL, results[0].tolist(), strict=True)), found, "compiled rules")
    elif not p.op.startswith("ldmatrix"):
        code = {"load": coalescing.LOAD, "store": coalescing.STORE, "atomic": coalescing.SHARED_ATOMIC}[_op(p)]
        results = np.zeros((1, 2), np.int64)
        fast.many_shared_requests(rows, masks, p.width, code, out, scratch, results)
        wavefronts, groups = results[0].tolist()
        _agree({"data_wavefronts": wavefronts, "conflicts": wavefronts - groups}, found, "compiled rules")


PatternLaw = Callable[[Pattern, "Gpu"], None]

PATTERN_LAWS: dict[str, PatternLaw] = {
    law.__name__: law
    for law in (
        equals_reference, stays_within_bounds, ignores_order_of_lanes, ignores_pages, renames_banks, grows_with_lanes,
        adds_up_over_lanes, conserves_bytes_when_split, stores_touch_what_loads_touch, is_the_same_compiled,
    )
}  # fmt: skip


# ---- whole kernels


@dataclass
class Run:
    """A generated kernel, executed and evaluated."""

    kernel: SmallKernel
    launch: Launch
    program: Program
    gpu: Gpu
    arrays: dict[str, NDArray[Any]]
    metrics: dict[str, int]
    lines: list[dict[str, Any]]
    expected: Evaluation
    barriers: int
    again: Callable[[], dict[str, int]]


def run_kernel(kernel: SmallKernel, program: Program, gpu: Gpu) -> Run:
    """Execute a kernel from its SASS, and evaluate it with NumPy."""
    from warpsim.batch import execute, launch_of
    from warpsim.frontend import counts

    launch = launch_of(kernel)
    executor = execute(launch, program, gpu)
    found = counts.count(executor)
    executed, _ = counts._per_instruction(executor)
    barriers = sum(int(executed[i.index]) for i in program.instructions if i.opcode == "BAR")

    def again() -> dict[str, int]:
        return counts.count(execute(launch_of(kernel), program, gpu)).metrics

    arrays = {name: np.asarray(array) for name, array in executor.arrays.items() if array is not None}
    return Run(kernel, launch, program, gpu, arrays, found.metrics, found.lines, evaluate(kernel), barriers, again)


def outputs_equal_numpy(run: Run) -> None:
    """Every output of the executed SASS is what NumPy computes from the same tree."""
    for name, array in run.expected.arrays.items():
        certain = np.repeat(run.expected.certain[name], array.size // run.expected.certain[name].size)
        wrong = np.flatnonzero((run.arrays[name] != array) & certain)
        if wrong.size:
            i = int(wrong[0])
            where = f"{name}[{i}]"
            raise Disagreement(
                {where: int(array[i])}, {where: int(run.arrays[name][i])}, f"{wrong.size} elements differ"
            )


@functools.lru_cache(maxsize=1 << 16)
def _reference(
    op: str, width: int, addresses: tuple[int, ...], active: tuple[bool, ...], masks: Any
) -> tuple[tuple[str, int], ...]:
    if masks is None:
        return tuple(reference.shared_figures(op, width, addresses, active).items())
    return tuple(reference.global_figures(op, width, addresses, active, masks).items())


def expected_counters(run: Run) -> dict[str, int]:
    """Nsight's counters of a volatile kernel, counted by brute force from the accesses that NumPy listed."""
    from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts

    base = {buffer.name: buffer.address for buffer in run.launch.buffers}
    total: Counter[str] = Counter()
    for access in run.expected.accesses:
        code = {"load": "ld", "store": "st", "red": "red"}[access.op]
        shared = access.buffer == "tile"
        masks = None if shared else tuple(run.gpu.l1.tag_bank_masks)
        addresses = access.addresses + (0 if shared else base[access.buffer])
        for row, active in zip(addresses, access.active, strict=True):
            if not active.any():
                continue
            found = dict(_reference(access.op, access.width, tuple(row.tolist()), tuple(active.tolist()), masks))
            if shared:
                total[f"smsp__sass_inst_executed_op_shared_{code}.sum"] += 1
                total[shared_wavefronts(code)] += found["data_wavefronts"]
                total[shared_conflicts(code)] += found["conflicts"]
                continue
            total[global_requests(code)] += 1
            total[global_sectors(code)] += found["sectors"]
            if code == "ld":
                total["l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum"] += found["tag_wavefronts"]
    return dict(total)


def counters_equal_brute_force(run: Run) -> None:
    """Requests, sectors, tag wavefronts, shared wavefronts and conflicts of a volatile kernel equal brute force.

    The compiler may move a load whose value nobody reads into a guard behind it, where fewer warps execute it. Of a
    kernel that loads too little a second one is judged, which stores the value that the first only computes. Of a
    reduction that it knows to meet on one word, behind a guard that fixes the bits of the index say, the compiler makes
    an access by one lane, which it tells how many there are: POPC in the code says so.
    """
    if not run.kernel.volatile:
        return
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    expected = expected_counters(run)
    if run.metrics.get(requests, 0) < expected.get(requests, 0):
        from warpsim.batch import programs

        kernel = replace(run.kernel, body=(*run.kernel.body, Store(Name("threadIdx.x"), Name("v"))))
        run = run_kernel(kernel, programs([kernel], run.program.arch)[0], run.gpu)
        expected = expected_counters(run)
    names = {n for n in run.metrics if "_mem_global_op_" in n or "_mem_shared_op_" in n}
    if any(i.opcode == "POPC" for i in run.program.instructions):
        sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
        expected.pop(sectors, None)
        names.discard(sectors)
    _agree(
        {**dict.fromkeys(names, 0), **expected},
        {**dict.fromkeys(expected, 0), **run.metrics},
        "brute-force reference",
    )


def barriers_are_counted(run: Run) -> None:
    """Every warp executes every barrier of the source once each time it comes by."""
    warps = -(-run.kernel.threads // 32) * run.kernel.ctas
    _agree({"barriers": run.expected.barriers * warps}, {"barriers": run.barriers}, "BAR instructions of all warps")


def lines_add_up(run: Run) -> None:
    """The counters of the source lines sum to those of the kernel."""
    total: Counter[str] = Counter()
    for line in run.lines:
        total.update(line["metrics"])
    _agree(dict(total), {**dict.fromkeys(total, 0), **run.metrics}, "sum over lines")


def bytes_are_conserved(run: Run) -> None:
    """Sectors are at least the requests, and at most 32 a request of those that were made."""
    for op in ("ld", "st", "red"):
        requests = run.metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum", 0)
        sectors = run.metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum", 0)
        _within(requests, sectors, 32 * requests, f"sectors of {op}", "one to 32 sectors a request")


def runs_are_repeatable(run: Run) -> None:
    """A second execution counts the same."""
    _agree(run.metrics, run.again(), "second execution")


KernelLaw = Callable[[Run], None]

KERNEL_LAWS: dict[str, KernelLaw] = {
    law.__name__: law
    for law in (
        outputs_equal_numpy, counters_equal_brute_force, barriers_are_counted, lines_add_up, bytes_are_conserved,
        runs_are_repeatable,
    )
}  # fmt: skip


# ---- time


@dataclass
class Timed:
    """A generated kernel with its timed result, and the means to time it again."""

    kernel: SmallKernel
    gpu: Gpu
    result: Result
    again: Callable[..., Result]  # on another profile, or with caches in another state, if one is given
    counted: Callable[[], dict[str, int]]  # executed for its counts alone


def time_kernel(kernel: SmallKernel, gpu: Gpu, program: Program | None = None) -> Timed:
    """Simulate the kernel with the machine; `program` saves a compilation."""
    from warpsim import simulator
    from warpsim.batch import execute, launch_of, programs

    def again(profile: Gpu = gpu, caches: str = "cold") -> Result:
        launch = launch_of(kernel)
        launch = replace(launch, state=replace(launch.state, caches=caches))
        return simulator.simulate_bound(launch, gpu=profile, exact=True, timeline=False, program=program)

    def counted() -> dict[str, int]:
        from warpsim.frontend import counts

        chosen = program or programs([kernel], int(gpu.arch.removeprefix("sm_")))[0]
        return counts.count(execute(launch_of(kernel), chosen, gpu)).metrics

    return Timed(kernel, gpu, again(), again, counted)


def is_deterministic(timed: Timed) -> None:
    """The same launch again gives the same result, bit for bit."""
    _agree(timed.result.metrics, timed.again().metrics, "second simulation")


def levels_conserve_sectors(timed: Timed) -> None:
    """What a level is asked for it hits or misses; L1 misses are what L2 is read for, at most, and so on down."""
    m = timed.result.metrics
    loads = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    hit = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]
    miss = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum"]
    _agree({"L1 sectors": loads}, {"L1 sectors": hit + miss}, "L1 hits + misses")
    read, written = m["lts__t_sectors_srcunit_tex_op_read.sum"], m["lts__t_sectors_srcunit_tex_op_write.sum"]
    _within(0, int(read), int(miss), "L2 read sectors", "at most L1's misses")
    stores = int(m["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"])
    _within(
        min(stores, 1), int(written), stores, "L2 written sectors", "stores write through, and may merge on the way"
    )


def takes_its_time(timed: Timed) -> None:
    """The time after the first instruction of a cold SM is never below work / rate of a level, nor below the unloaded
    latency of the furthest level that it reads.
    """
    m, gpu = timed.result.metrics, timed.gpu
    cycle, sms = 1e3 / gpu.sm.clock_mhz, gpu.sm.count
    ns = m["gpu__time_duration.sum"] - gpu.launch.fixed_ns - gpu.launch.cold_start * cycle
    sectors = m["dram__sectors_read.sum"] + m["dram__sectors_write.sum"]
    l2_cycle = 1e3 / gpu.l2.clock_mhz / gpu.l2.slices
    work = {
        "instructions": m["smsp__inst_executed.sum"] / (gpu.sm.schedulers * sms) * cycle,
        "wavefronts": m["l1tex__data_pipe_lsu_wavefronts.sum"] / sms * cycle,
        "L2 sectors": m["lts__t_sectors_srcunit_tex_op_read.sum"] * gpu.l2.sector_cycles * l2_cycle,
        "L2 requests": m["lts__t_requests_srcunit_tex.sum"] * gpu.l2.request_cycles * l2_cycle,
        "DRAM bytes": 32 * sectors / (1.001 * gpu.dram.bandwidth_gbs),
    }
    for name, least in work.items():
        if ns < least:
            raise Disagreement({name: f"at least {least:.1f} ns"}, {name: f"{ns:.1f} ns"}, "work / rate")
    there = gpu.crossbar.request_latency + gpu.l2.latency + gpu.crossbar.return_latency
    loads = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    reads = m["lts__t_sectors_srcunit_tex_op_read.sum"]
    for name, count, latency in (
        ("an L1 read", loads, gpu.l1.hit_latency),
        ("an L2 read", reads, there),
        ("a DRAM read", reads and m["dram__sectors_read.sum"], there + gpu.dram.latency),
    ):
        if count and ns < latency * cycle:
            raise Disagreement({name: f"at least {latency * cycle:.1f} ns"}, {name: f"{ns:.1f} ns"}, "unloaded latency")


def larger_l2_keeps_hits(timed: Timed) -> None:
    """Twice the L2 never loses more than 2 % of the hits."""
    gpu = timed.gpu
    larger = replace(gpu, l2=replace(gpu.l2, sets=2 * gpu.l2.sets, size_bytes=2 * gpu.l2.size_bytes))
    name = "lts__t_sectors_srcunit_tex_lookup_hit.sum"
    before, after = timed.result.metrics[name], timed.again(larger).metrics[name]
    _within(int(0.98 * before), int(after), 1 << 62, "L2 hits", "twice the L2")


def counts_as_without_time(timed: Timed) -> None:
    """Instructions, requests, sectors and wavefronts do not depend on when warps run: those of a run without time."""
    _agree(timed.counted(), timed.result.metrics, "executed without time")


def warm_caches_cost_nothing(timed: Timed) -> None:
    """The same launch once more, with its data in L2, reads no more from DRAM and takes no longer, give or take 2 %.

    Not longer either than with cold caches and a DRAM of next to no latency: what the last launch left is lines, and no
    queue to wait in. Reductions are left out of both: one to the line of the last takes a slice longer than one to
    another line, and which comes last depends on when they arrive.
    """
    gpu, before, after = timed.gpu, timed.result.metrics, timed.again(caches="warm").metrics
    reads = "dram__sectors_read.sum"
    _within(0, int(after[reads]), int(before[reads]), "DRAM sectors", "data in L2 already")
    if any(isinstance(statement, Reduce) for statement in statements(timed.kernel.body)):
        return
    fast = replace(gpu.dram, latency=40, latency_tail=0.0, far_latency=0, row_ns=0.0, activation_ns=0.0)
    at_once = timed.again(replace(gpu, dram=fast)).metrics
    cycles, fixed = "sm__cycles_elapsed.max", gpu.launch.fixed_ns * gpu.sm.clock_mhz / 1e3
    for most, what in ((before, "data in L2 already"), (at_once, "data in L2 already, against a DRAM without latency")):
        _within(0, round(after[cycles] - fixed), round(1.02 * (most[cycles] - fixed)), "cycles", what)


TimeLaw = Callable[[Timed], None]

MACHINE_LAWS: dict[str, TimeLaw] = {
    law.__name__: law
    for law in (
        is_deterministic, counts_as_without_time, levels_conserve_sectors, takes_its_time, larger_l2_keeps_hits,
        warm_caches_cost_nothing,
    )
}  # fmt: skip


def fault_of(error: Exception) -> Disagreement:
    """A generated kernel is correct, so a fault that the executor reports is the executor's."""
    return Disagreement({"fault": None}, {"fault": f"{type(error).__name__}: {error}"}, "a correct kernel was refused")
