"""`warpsim calibrate`: measure a GPU with kernels/calibrate.cu and write a profile with what was found.

Latencies by pointer chases, bandwidths and rates by CUDA events, cache behaviour, granules and unit counts by
hardware counters (left out where counters may not be read). The profile is the text of the one it starts from, with
each measured figure replaced and its source naming kernel and date; figures that cannot be measured so keep their
source, or become `assumed` when the GPU is another than the starting profile's.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.cupti import RangeProfiler
from warpsim.errors import InputError, UnsupportedError, WarpsimError
from warpsim.gpu import PROFILES
from warpsim.library import find_kernel
from warpsim.patternreplay import measure as measure_patterns
from warpsim.patterntable import Pattern
from warpsim.replayer import device, require_gpu

__all__ = ["Calibration", "Measured", "bank_masks", "calibrate", "profile_text"]

MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """One figure: where it goes in the profile (``l1.hit_latency``, or empty), its value and how it was found."""

    name: str
    value: Any
    unit: str
    how: str
    key: str = ""


@dataclass
class Calibration:
    """What `calibrate` found, and the profile made of it."""

    gpu: str
    device: dict[str, Any]
    figures: list[Measured] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    profile: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON object."""
        return {
            "gpu": self.gpu, "device": self.device, "seconds": round(self.seconds, 1), "failures": self.failures,
            "figures": [vars(figure) for figure in self.figures],
        }  # fmt: skip


class _Bench:
    """Kernels, memory and timing for the measurements."""

    def __init__(self) -> None:
        self.cp = require_gpu()
        source = find_kernel("calibrate.cu").read_text(encoding="utf-8")
        self.templates = [f"in_flight<{n}>" for n in (1, 2, 4, 8)]
        plain = re.findall(r"__global__ void (\w+)\(", source) + re.findall(
            r"^(?:CHASE|READ)\((\w+),", source, re.MULTILINE
        )
        plain = [n for n in plain if n not in ("NAME", "in_flight")]
        self.module = self.cp.RawModule(
            code=source, options=("-std=c++17",), name_expressions=[*self.templates, *plain]
        )
        properties = self.cp.cuda.runtime.getDeviceProperties(0)
        self.sms = int(properties["multiProcessorCount"])
        self.l2 = int(properties["l2CacheSize"])
        free = int(self.cp.cuda.runtime.memGetInfo()[0])
        self.size = min(8 << 30, free // 2) // MIB * MIB
        self.data = self.cp.cuda.runtime.malloc(self.size)
        self.cp.cuda.runtime.memset(self.data, 1, self.size)
        self.sink = self.cp.zeros(1 << 20, self.cp.uint64)
        self.context = int(self.cp.cuda.driver.ctxGetCurrent())
        self.mhz = 0.0  # SM clock under load

    def run(self, name: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> None:
        kernel = self.module.get_function(name)
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((grid,), (block,), arguments, shared_mem=shared)

    def seconds(self, launch: Callable[[], None], repetitions: int = 5) -> float:
        """Least event time of a launch."""
        launch()
        best = float("inf")
        for _ in range(repetitions):
            a, b = self.cp.cuda.Event(), self.cp.cuda.Event()
            a.record()
            launch()
            b.record()
            b.synchronize()
            best = min(best, 1e-3 * float(self.cp.cuda.get_elapsed_time(a, b)))
        return best

    def counters(self, launch: Callable[[], None], metrics: Sequence[str], kernels: int = 1) -> list[dict[str, float]]:
        with RangeProfiler(self.context, metrics, ranges=max(kernels, 8)) as profiler:
            rows = profiler.measure(launch, kernels)
        return [dict(zip(metrics, row, strict=True)) for row in rows]

    def chain(self, lines: int, stride: int, seed: int = 0) -> None:
        """A cycle of pointers through all lines of the data, in random order."""
        order = np.random.default_rng(seed).permutation(lines).astype(np.uint32)
        order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))  # starts at the first line
        self.order = self.cp.asarray(order)
        self.run("link", -(-lines // 256), 256, np.uint64(self.data), self.order, np.uint32(lines), np.int64(stride))

    def chase(self, name: str, steps: int) -> float:
        """Cycles a load."""
        self.run(name, 1, 1, np.uint64(self.data), np.int32(steps), self.sink)
        return float(self.sink[0]) / steps

    def flush(self) -> None:
        """Other data into the L2."""
        where = self.data + self.size - 4 * self.l2
        self.cp.cuda.runtime.memset(where, 2, 4 * self.l2)


def _clock(b: _Bench) -> Iterator[Measured]:
    n = 2 << 30
    cycles = b.counters(
        lambda: b.run("read_dram", 8 * b.sms, 256, np.uint64(b.data), b.sink, np.int64(n // 16), np.int32(1)),
        ["sm__cycles_elapsed.max", "gpu__time_duration.sum", "lts__cycles_elapsed.avg", "lts__cycles_elapsed.sum",
         "dram__cycles_elapsed.avg", "dram__cycles_elapsed.sum", "dram__bytes.sum.peak_sustained"],
    )[0]  # fmt: skip
    ns = cycles["gpu__time_duration.sum"]
    b.mhz = 1e3 * cycles["sm__cycles_elapsed.max"] / ns
    yield Measured(
        "SM clock under load", round(b.mhz, 1), "MHz", "sm__cycles_elapsed over time of read_dram", "sm.clock_mhz"
    )
    yield Measured(
        "L2 clock",
        round(1e3 * cycles["lts__cycles_elapsed.avg"] / ns, 1),
        "MHz",
        "lts__cycles_elapsed over time",
        "l2.clock_mhz",
    )
    slices = round(cycles["lts__cycles_elapsed.sum"] / cycles["lts__cycles_elapsed.avg"])
    yield Measured("L2 slices", slices, "", "instances of lts__cycles_elapsed", "l2.slices")
    channels = round(cycles["dram__cycles_elapsed.sum"] / cycles["dram__cycles_elapsed.avg"])
    yield Measured("DRAM channels", channels, "", "instances of dram__cycles_elapsed", "dram.channels")
    peak = cycles["dram__bytes.sum.peak_sustained"] * cycles["dram__cycles_elapsed.avg"] / ns
    yield Measured(
        "DRAM bandwidth, peak",
        round(peak),
        "GB/s",
        "dram__bytes peak a DRAM cycle times its clock",
        "dram.bandwidth_gbs",
    )


def _latencies(b: _Bench) -> Iterator[Measured]:
    b.chain(16 << 10 >> 7, 128)
    b.chase("chase_l1", 4096)
    yield Measured(
        "L1 hit latency", round(b.chase("chase_l1", 1 << 18), 1), "cycles", "chase_l1, 16 KB", "l1.hit_latency"
    )
    b.run("chase_shared", 1, 1, np.int32(16384), b.sink)
    yield Measured(
        "shared memory latency", round(float(b.sink[0]) / 16384, 1), "cycles", "chase_shared", "shared.latency"
    )
    for size in (2 * MIB, 16 * MIB):
        b.chain(size >> 7, 128)
        b.chase("chase_l2", size >> 7)
        yield Measured(
            f"L2 hit latency, {size // MIB} MB",
            round(b.chase("chase_l2", size >> 7), 1),
            "cycles",
            f"chase_l2, {size // MIB} MB",
        )
    lines = (b.size - 8 * b.l2) >> 13
    b.chain(lines, 8192)
    b.flush()
    yield Measured(
        "DRAM latency", round(b.chase("chase_l2", 8192), 1), "cycles", f"chase_l2 over {lines >> 17} GB, first touch"
    )
    lines, stride = 1024, 4096 + 128
    b.run("link_self", 4, 256, np.uint64(b.data), np.int32(lines), np.int64(stride))
    out, where = b.cp.zeros(b.sms * lines, b.cp.float32), b.cp.zeros(b.sms, b.cp.uint32)
    b.run(
        "line_latency",
        b.sms,
        32,
        np.uint64(b.data),
        np.int32(lines),
        np.int64(stride),
        np.int32(3),
        out,
        where,
        shared=160 << 10,
    )
    table = b.cp.asnumpy(out).reshape(b.sms, lines)
    if not 50 < float(np.median(table)) < 5000:
        raise UnsupportedError(f"line_latency: a median of {np.median(table):.1f} cycles a load is no L2 latency")
    near, far, sides = split_sides(table)
    yield Measured("L2 hit latency, near side", round(near, 1), "cycles", "line_latency, 1024 lines from every SM")
    yield Measured("L2 hit latency, far side", round(far, 1), "cycles", "line_latency, 1024 lines from every SM")
    yield Measured("L2 hop", round((far - near) / 2), "cycles", "line_latency: half of far less near", "l2.hop_latency")
    yield Measured(
        "L2 partitions", 1 if far - near < 8 else 2, "", f"line_latency: SMs on the two sides {sides}", "l2.partitions"
    )


def split_sides(table: Any) -> tuple[float, float, list[int]]:
    """Mean near and far latency and SMs a side, from latencies [SM, line]: SMs whose lines agree are on one side."""
    deviation = table - np.median(table, axis=0, keepdims=True)
    deviation = deviation - deviation.mean(axis=1, keepdims=True)
    first = np.linalg.svd(deviation, full_matrices=False)[0][:, 0]
    side = first > 0
    if side.all() or not side.any():
        return float(table.mean()), float(table.mean()), [len(table), 0]
    here, there = table[side].mean(axis=0), table[~side].mean(axis=0)
    near, far = np.minimum(here, there).mean(), np.maximum(here, there).mean()
    return float(near), float(far), [int(side.sum()), int((~side).sum())]


def _bandwidths(b: _Bench) -> Iterator[Measured]:
    n = 4 << 30 if b.size > 5 << 30 else b.size // 2
    t = b.seconds(
        lambda: b.run("read_dram", 16 * b.sms, 256, np.uint64(b.data), b.sink, np.int64(n // 16), np.int32(1))
    )
    yield Measured("DRAM read bandwidth", round(n / t / 1e9), "GB/s", f"read_dram, {n >> 30} GB")
    half = n // 2
    t = b.seconds(
        lambda: b.run("copy", 16 * b.sms, 256, np.uint64(b.data), np.uint64(b.data + half), np.int64(half // 16))
    )
    yield Measured("DRAM copy bandwidth", round(2 * half / t / 1e9), "GB/s", f"copy, {half >> 30} GB")
    size = b.l2 // 4
    t = b.seconds(
        lambda: b.run("read_l2", 8 * b.sms, 256, np.uint64(b.data), b.sink, np.int64(size // 16), np.int32(20))
    )
    yield Measured("L2 read bandwidth", round(20 * size / t / 1e9), "GB/s", f"read_l2, {size // MIB} MB")
    rate = 20 * size / t / (b.mhz * 1e6 * b.sms) if b.mhz else 0.0
    if rate:
        yield Measured("L2 to SM", round(rate, 1), "B/cycle/SM", "read_l2")
        yield Measured(
            "return path a sector", round(32 / rate, 2), "cycles", "read_l2, all SMs", "crossbar.return_sector_cycles"
        )
    mine = 64 << 10
    t = b.seconds(lambda: b.run("read_l1", b.sms, 1024, np.uint64(b.data), b.sink, np.int32(mine // 16), np.int32(200)))
    if b.mhz:
        yield Measured(
            "L1 read bandwidth",
            round(200 * mine / t / (b.mhz * 1e6), 1),
            "B/cycle/SM",
            "read_l1, 64 KB a CTA of 1024 threads",
        )
    b.run("read_shared", b.sms, 1024, b.sink, np.int32(4096), b.sink)
    rate = 32 * 4096 / float(b.cp.asnumpy(b.sink[: b.sms]).mean())
    if rate > 1.05:
        raise UnsupportedError(f"read_shared: {rate:.2f} wavefronts a cycle; the compiler has removed loads")
    yield Measured("shared memory wavefronts", round(rate, 3), "wavefronts/cycle/SM", "read_shared, 32 warps")


def _l2_capacity(b: _Bench) -> Iterator[Measured]:
    hit, miss = (f"lts__t_sectors_srcunit_tex_lookup_{x}.sum" for x in ("hit", "miss"))
    for size in (16, 24, 32, 36, 40, 44, 48, 52, 56, 60, 64):
        n = size * MIB // 16

        def read(n: int = n) -> None:
            b.run("read_l2", 2 * b.sms, 512, np.uint64(b.data), b.sink, np.int64(n), np.int32(1))
            b.run("read_l2", 2 * b.sms, 512, np.uint64(b.data), b.sink, np.int64(n), np.int32(9))

        row = b.counters(read, [hit, miss], 2)[1]
        yield Measured(
            f"L2 hit rate, {size} MB read by the same SMs",
            round(row[hit] / max(row[hit] + row[miss], 1), 4),
            "",
            "read_l2, ten passes",
        )
    for size in (8, 16, 20, 24, 28, 32, 40, 48, 60):
        sectors = size * MIB // 32

        def pick(sectors: int = sectors) -> None:
            for loads in (512, 64):
                b.run("gather", 4 * b.sms, 512, np.uint64(b.data), b.sink, np.uint32(sectors), np.int32(loads))

        row = b.counters(pick, [hit, miss], 2)[1]
        yield Measured(
            f"L2 hit rate, {size} MB gathered by all SMs",
            round(row[hit] / max(row[hit] + row[miss], 1), 4),
            "",
            "gather",
        )


def _l1_capacity(b: _Bench) -> Iterator[Measured]:
    hit, miss = (f"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_{x}.sum" for x in ("hit", "miss"))
    for size in (128, 192, 208, 216, 224, 232, 240, 256, 320):
        n = size * 1024 // 16
        read = partial(b.run, "read_l1", b.sms, 512, np.uint64(b.data), b.sink, np.int32(n), np.int32(20))
        row = b.counters(read, [hit, miss])[0]
        yield Measured(
            f"L1 hit rate, {size} KB an SM",
            round(row[hit] / max(row[hit] + row[miss], 1), 4),
            "",
            "read_l1, twenty passes",
        )


def _granule(b: _Bench) -> Iterator[Measured]:
    metrics = ["dram__sectors_read.sum", "lts__t_sectors_srcunit_tex_op_read.sum"]
    n = 1 << 18
    for stride in (64, 128, 256, 4096):
        b.flush()
        read = partial(b.run, "sparse", n // 256, 256, np.uint64(b.data), b.sink, np.int64(stride), np.int32(n))
        row = b.counters(read, metrics)[0]
        granule = 32 * row[metrics[0]] / n
        key = "l2.fetch_bytes" if stride == 4096 else ""
        value = int(2 ** round(np.log2(max(granule, 1)))) if key else round(granule, 1)
        yield Measured(
            f"DRAM bytes read for one sector, stride {stride} B",
            value,
            "B",
            f"sparse: dram__sectors_read, {granule:.1f} B a load",
            key,
        )


def _launches(b: _Bench) -> Iterator[Measured]:
    nowhere = np.uint64(0)

    def five() -> None:
        for _ in range(5):
            b.run("nothing", 1, 32, nowhere)

    times = [row["gpu__time_duration.sum"] for row in b.counters(five, ["gpu__time_duration.sum"], 5)]
    yield Measured(
        "fixed time of a kernel",
        round(float(np.median(times))),
        "ns",
        "nothing, one CTA, gpu__time_duration",
        "launch.fixed_ns",
    )
    ctas = 1 << 20
    t = b.seconds(lambda: b.run("nothing", ctas, 32, nowhere)) - b.seconds(
        lambda: b.run("nothing", ctas // 2, 32, nowhere)
    )
    if b.mhz:
        cycles = t / (ctas / 2) * b.mhz * 1e6
        yield Measured(
            "CTA dispatch",
            round(cycles, 3),
            "cycles",
            "nothing, a million CTAs of 32 threads",
            "launch.dispatch_cycles",
        )


def _in_flight(b: _Bench) -> Iterator[Measured]:
    n = (2 << 30) // 4
    for loads in (1, 2, 4, 8):
        for warps in (4, 8, 16, 32, 64):
            block = min(32 * warps, 512)
            ctas = b.sms * 32 * warps // block
            t = b.seconds(partial(b.run, f"in_flight<{loads}>", ctas, block, np.uint64(b.data), b.sink, np.int64(n)), 3)
            flight = warps * 32 * 4 * loads
            yield Measured(
                f"bandwidth with {warps} warps an SM, {loads} loads each",
                round(4 * n / t / 1e9),
                "GB/s",
                f"in_flight<{loads}>, {flight} B in flight an SM",
            )


def _tag_hash(b: _Bench) -> Iterator[Measured]:
    free = int(b.cp.cuda.runtime.memGetInfo()[0])
    pairs = tag_pairs(29, (3 * free // 4) >> 7)
    found: dict[tuple[int, int, int], int] = {}
    arena = 0
    for index, row in measure_patterns([_pair(low << 7, high << 7) for _, _, low, high in pairs]):
        bit, partner, low, _ = pairs[index]
        found[bit, partner, low] = row["measured"]["tag_wavefronts"]
        arena = row["base"]
    masks, settled = bank_masks(found, arena >> 7)
    yield Measured(
        "tag bank masks",
        list(masks),
        "bits of the line number",
        f"pairs of lines that differ in line bits 2 to {settled}",
        "l1.tag_bank_masks",
    )


def _pair(low: int, high: int) -> Pattern:
    return Pattern("load", "global", 4, (low, high) + (0,) * 30, (True, True) + (False,) * 30)


def tag_pairs(bits: int, lines: int) -> list[tuple[int, int, int, int]]:
    """(bit, partner, low, high): lines among the first `lines` that tell each line bit's share of the bank.

    Two lines take two tag wavefronts if they share a bank. Bit 0 contributes 1 and bit 1 contributes 2 by choice of
    names; any other bit contributes what `partner`'s bits do together if `low` and ``high = low + 2**bit + partner``
    share a bank. Lines count from a base, a multiple of 4: from a base that has the bit, `low` is ``2**bit``, so that
    adding the bit never carries into others.
    """
    return [
        (bit, partner, low, low + (1 << bit) + partner)
        for bit in range(2, bits)
        for low in (0, 1 << bit)
        for partner in (0, 1, 2, 3)
        if low + (1 << bit) + 3 < lines
    ]


def bank_masks(wavefronts: dict[tuple[int, int, int], int], base: int) -> tuple[tuple[int, int], int]:
    """Masks of the two bank bits and the highest line bit they settle, from tag wavefronts by (bit, partner, low)."""
    masks = [1, 2]
    bit = 2
    while True:
        low = base & 1 << bit
        counts = [wavefronts.get((bit, partner, low)) for partner in (0, 1, 2, 3)]
        if None in counts:  # that line is beyond the memory there is
            return (masks[0], masks[1]), bit - 1
        same = [partner for partner, count in enumerate(counts) if count == 2]
        if len(same) != 1:
            raise UnsupportedError(
                f"line bit {bit}: the tag bank is no XOR of line bits here (partners {same} share a bank)"
            )
        masks = [mask | (same[0] >> k & 1) << bit for k, mask in enumerate(masks)]
        bit += 1


_STEPS: tuple[Callable[[_Bench], Iterator[Measured]], ...] = (
    _clock, _latencies, _launches, _bandwidths, _granule, _l1_capacity, _l2_capacity, _in_flight, _tag_hash,
)  # fmt: skip


def calibrate(
    *, out: str | Path | None = None, limit: float = 120, say: Callable[[str], None] | None = None
) -> Calibration:
    """Measure GPU 0 and, with `out`, write the profile there; after `limit` seconds no further step is begun."""
    say = say or (lambda _: None)
    began = time.monotonic()
    facts = device()
    bench = _Bench()
    result = Calibration(facts["profile"], facts)
    result.figures += [
        Measured("SMs", facts["sms"], "", "device query", "sm.count"),
        Measured("L2 size", facts["l2_bytes"], "B", "device query", "l2.size_bytes"),
    ]
    for step in _STEPS:
        if time.monotonic() - began > limit:
            result.failures.append(f"{step.__name__[1:]}: not begun, the time limit of {limit:g} s was reached")
            continue
        try:
            for figure in step(bench):
                result.figures.append(figure)
                say(f"{time.monotonic() - began:6.1f} s  {figure.name}: {figure.value} {figure.unit}")
        except WarpsimError as error:
            result.failures.append(f"{step.__name__[1:]}: {error}")
            say(result.failures[-1])
        except Exception as error:  # CUDA errors of CuPy: one step less, not the whole calibration
            result.failures.append(f"{step.__name__[1:]}: {type(error).__name__}: {error}")
            say(result.failures[-1])
    result.seconds = time.monotonic() - began
    result.profile = profile_text(result)
    if out is not None:
        try:
            Path(out).write_text(result.profile, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{out}: cannot write: {error.strerror}") from None
    return result


def profile_text(found: Calibration, base: str | Path | None = None) -> str:
    """The profile TOML: that of the same GPU, or the H200's with what is not measured marked as assumed."""
    same = True
    if base is None:
        base = PROFILES / f"{found.gpu}.toml"
        if not Path(base).exists():
            base, same = PROFILES / "h200.toml", False
    text = Path(base).read_text(encoding="utf-8")
    if not same:
        title = found.device["device"]
        text = re.sub(r"^# .*\n", f"# {title}, made by warpsim calibrate.\n", text, count=1)
        text = re.sub(r'title = ".*"', f'title = "{title}"', text, count=1)
        text = re.sub(r"aliases = \[.*\]", f'aliases = ["{title}"]', text, count=1)
        text = re.sub(r'source = "[^"]*"', 'source = "assumed"', text)
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    for figure in found.figures:
        if figure.key:
            text = _replace(text, figure, today)
    return text


def _replace(text: str, figure: Measured, today: str) -> str:
    table, _, key = figure.key.partition(".")
    pattern = re.compile(
        rf"(^\[{table}\]$(?:(?!^\[).)*?^{key} = ){{ value = ([^,]*|\[.*?\]), .*?}}$", re.MULTILINE | re.DOTALL
    )
    how = figure.how.replace("\\", "").replace('"', "'")

    def written(match: re.Match[str]) -> str:
        value = round(figure.value) if isinstance(figure.value, float) and match[2].isdigit() else figure.value
        source = f"measured: kernels/calibrate.cu {how} ({today})"
        return f'{match[1]}{{ value = {value}, unit = "{figure.unit}", source = "{source}" }}'

    changed, count = pattern.subn(written, text)
    if count != 1:
        raise UnsupportedError(f"the starting profile has no figure {figure.key}")
    return changed
