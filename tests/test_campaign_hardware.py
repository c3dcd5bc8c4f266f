"""Campaigns against a GPU, with a stand-in for the GPU that counts by brute force: what differs is found and kept."""

from __future__ import annotations

import ctypes
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warpsim import batch, cache, campaign, laws, reference
from warpsim.campaign import hardware
from warpsim.campaign.chunks import record
from warpsim.campaign.hardware import COUNTED, PatternBench, predicted, run_on_gpu
from warpsim.comparison import TIME
from warpsim.corpus import Corpus
from warpsim.gpu import load_gpu
from warpsim.grammar import Binary, Load, Name, Number, SmallKernel, Store, Tile
from warpsim.patterntable import Pattern, metrics_of

GPU = load_gpu("h200")
RECORDED = Path(__file__).parent / "data" / "patterns-h200.jsonl.gz"
ARENA = 0x7F0000400000


def counted(p: Pattern) -> dict[str, int]:
    """What a GPU without surprises counts."""
    found = {"requests": 1}
    if p.space == "global":
        addresses = [a + ARENA for a in p.addresses]
        found |= reference.global_figures(p.op, p.width, addresses, p.active, GPU.l1.tag_bank_masks)
    else:
        found |= reference.shared_figures("atomic" if p.op == "red" else p.op, p.width, p.addresses, p.active)
        found["op_wavefronts"] = found["data_wavefronts"]
    return {name: found[name] for name in metrics_of(p.op, p.space)}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Pattern, dict[str, int]], None]], None]:
    """Install a GPU whose counters are changed by a function."""

    def install(change: Callable[[Pattern, dict[str, int]], None]) -> None:
        def measure(_: PatternBench, cases: Sequence[Pattern]) -> list[dict[str, int]]:
            assert len({(p.op, p.space) for p in cases}) == 1
            rows = [counted(p) for p in cases]
            for p, row in zip(cases, rows, strict=True):
                change(p, row)
            return rows

        replay = SimpleNamespace(arena=ARENA)
        monkeypatch.setattr(PatternBench, "__init__", lambda self: setattr(self, "replay", replay))
        monkeypatch.setattr(PatternBench, "close", lambda self: None)
        monkeypatch.setattr(PatternBench, "measure", measure)

    return install


def test_a_gpu_that_follows_the_rules_agrees_on_all_patterns(tmp_path: Path, bench: Any) -> None:
    bench(lambda p, row: None)
    report = run_on_gpu(tmp_path, patterns=500, kernels=0)
    assert report.ok, [entry.document for entry in report.failures]
    assert report.examples == {"patterns": 500}
    again = run_on_gpu(tmp_path, patterns=500, kernels=0)
    assert again.chunks[:2] == (0, 20)


def test_what_the_gpu_counts_otherwise_is_shrunk_kept_and_replayed(tmp_path: Path, bench: Any) -> None:
    """A GPU on which loads that touch five lines or more take one sector more."""

    def change(p: Pattern, row: dict[str, int]) -> None:
        lines = {(a + ARENA) // 128 for a, on in zip(p.addresses, p.active, strict=True) if on}
        if (p.op, p.space) == ("load", "global") and len(lines) >= 3:
            row["sectors"] += 1

    bench(change)
    report = run_on_gpu(tmp_path, patterns=250, kernels=0, shrinking=5)
    assert not report.ok
    assert set(report.failed) == {"gpu:patterns"}
    smallest = min(report.failures, key=lambda entry: entry.document["size"]["lanes"])
    assert smallest.document["size"]["lanes"] == 3
    assert smallest.document["at"] == {"arena": ARENA}
    assert smallest.document["expected"]["sectors"] == smallest.document["predicted"]["sectors"] + 1
    replayed = campaign.replay(tmp_path)  # without a GPU: today's prediction against the counters of then
    assert {entry.name for entry in replayed.failures} == {entry.name for entry in Corpus(tmp_path).entries()}


def test_a_killed_session_goes_on(tmp_path: Path, bench: Any) -> None:
    done: list[int] = []

    def stop(p: Pattern, row: dict[str, int]) -> None:
        done.append(1)
        if len(done) == 300:
            raise KeyboardInterrupt

    bench(stop)
    with pytest.raises(KeyboardInterrupt):
        run_on_gpu(tmp_path, patterns=500, kernels=0)
    bench(lambda p, row: None)
    report = run_on_gpu(tmp_path, patterns=500, kernels=0)
    now, before, of = report.chunks
    assert (now + before, of, report.examples) == (20, 20, {"patterns": 500})
    assert before > 3


def test_predictions_equal_what_an_h200_counted() -> None:
    """What was measured before, compared as a campaign compares."""
    figures = 0
    for line in gzip.decompress(RECORDED.read_bytes()).splitlines():
        record = json.loads(line)
        lanes = tuple(bool(record["mask"] >> lane & 1) for lane in range(32))
        kind = record.get("kind", "")
        p = Pattern(record["op"], record["space"], record["width"], tuple(record["addresses"]), lanes, kind)
        for name, value in predicted(p, record.get("base", 0), GPU).items():
            if name in record["measured"]:
                assert record["measured"][name] == value, (name, record)
                figures += 1
    assert figures > 5000


def test_open_rules_are_not_compared() -> None:
    settled = Pattern("load", "global", 4, tuple(4 * lane for lane in range(32)))
    assert set(predicted(settled, ARENA, GPU)) == {
        "requests", "sectors", "tag_wavefronts", "data_wavefronts", "l2_requests",
    }  # fmt: skip
    scattered = Pattern("store", "global", 4, tuple(128 * 37 * lane + 4 * lane for lane in range(32)))
    assert set(predicted(scattered, ARENA, GPU)) == {"requests", "sectors"}


# ---- kernels


class FakeGpu:
    """Host memory for GPU memory; a launch runs the executor on the buffers at its arguments."""

    def __init__(self, kernels: Sequence[SmallKernel]) -> None:
        self.kernels = kernels
        self.programs = batch.programs(kernels, 90)
        self.times = [
            hardware.predict_kernel(k, p, GPU, {b.name: b.address for b in batch.launch_of(k).buffers}, True)[TIME]
            for k, p in zip(kernels, self.programs, strict=True)
        ]
        self.blocks: dict[int, Any] = {}
        self.launches: list[dict[str, float]] = []
        self.change: Callable[[dict[str, float]], None] = lambda row: None
        self.spoil = False
        runtime = SimpleNamespace(
            malloc=self.malloc, free=self.blocks.pop, memcpyHostToDevice=1, memcpyDeviceToHost=2,
            memcpy=lambda to, source, size, kind: ctypes.memmove(to, source, size), deviceSynchronize=lambda: None,
        )  # fmt: skip
        driver = SimpleNamespace(ctxGetCurrent=lambda: 1)
        self.cuda = SimpleNamespace(runtime=runtime, driver=driver)

    def malloc(self, size: int) -> int:
        block = ctypes.create_string_buffer(size)
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def RawModule(self, path: str) -> Any:  # noqa: N802
        assert Path(path).stat().st_size > 0
        return SimpleNamespace(get_function=lambda name: lambda *call: self.launch(int(name[1:]), *call))

    def launch(self, number: int, grid: Any, block: Any, arguments: Sequence[Any]) -> None:
        kernel = self.kernels[number]
        assert (grid, block) == (kernel.grid, kernel.block)
        names = list(batch.buffers(kernel))
        addresses = {name: int(a) for name, a in zip(names, arguments, strict=True)}
        launch = batch.launch_of(kernel, addresses=addresses)
        executor = batch.execute(launch, self.programs[number], GPU)
        for name, address in addresses.items():
            array = np.asarray(executor.arrays[name])
            if self.spoil and name.startswith("out"):
                array = array ^ 1
            ctypes.memmove(address, array.ctypes.data, array.nbytes)
        row: dict[str, float] = dict.fromkeys(COUNTED, 0.0)
        row |= {name: value for name, value in hardware.count(executor).metrics.items() if name in row}
        row[TIME] = self.times[number]
        self.change(row)
        self.launches.append(row)


KERNELS = (
    SmallKernel((Load(Binary("*", Name("threadIdx.x"), Number(3))), Store(Name("threadIdx.x"), Name("v")))),
    SmallKernel((Tile(32, 32, 0, True), Store(Name("threadIdx.x"), Name("v"), 8)), (3, 1, 1), (64, 1, 1)),
)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    with cache.scratch():
        gpu = FakeGpu(KERNELS)

        class Profiler:
            def __init__(self, context: int, metrics: Sequence[str], ranges: int) -> None:
                assert list(metrics) == list(COUNTED)
                assert ranges == len(KERNELS)

            def measure(self, launch: Callable[[], None], number: int) -> list[list[float]]:
                gpu.launches.clear()
                launch()
                assert len(gpu.launches) == number
                return [list(row.values()) for row in gpu.launches]

            def __enter__(self) -> Profiler:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        monkeypatch.setattr(hardware, "require_gpu", lambda: gpu)
        monkeypatch.setattr(hardware, "RangeProfiler", Profiler)
        yield gpu


@pytest.mark.cuda
def test_the_time_of_a_kernel_is_predicted_for_warm_caches(fake: FakeGpu) -> None:
    """It has run before when it is counted: no code and no data come from DRAM."""
    for kernel, program, warm in zip(KERNELS, fake.programs, fake.times, strict=True):
        cold = laws.time_kernel(kernel, GPU, program).result.metrics[TIME]
        late = GPU.launch.cold_start - GPU.launch.warp_start  # by so much a cold SM's first warps begin later
        assert cold - warm >= 0.9e3 * late / GPU.sm.clock_mhz


def test_times_agree_within_ten_percent_and_half_a_microsecond() -> None:
    assert hardware.time_agrees(1000, [1500, 1400])
    assert not hardware.time_agrees(899, [1500, 1400])
    assert hardware.time_agrees(2000, [1500, 1400])
    assert not hardware.time_agrees(2001, [1500, 1400])
    assert hardware.time_agrees(22_000, [20_000])
    assert not hardware.time_agrees(22_001, [20_000])


@pytest.mark.cuda
def test_kernels_that_a_gpu_counts_alike_agree(fake: FakeGpu) -> None:
    bench = hardware.KernelBench()
    assert bench.judge(KERNELS, GPU) == [[], []]
    assert [len(measured) for _, measured in bench.times] == [5, 5]
    assert "time of 2 kernels, 1." in hardware.time_note(bench.times)
    assert fake.blocks == {}  # everything is given back


@pytest.mark.cuda
def test_kernels_that_a_gpu_counts_otherwise_do_not(fake: FakeGpu) -> None:
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"

    def change(row: dict[str, float]) -> None:
        row[sectors] += 2
        row[conflicts] += 5  # load may add to these: no disagreement unless a warp is alone
        row[TIME] *= 1.5

    fake.change = change
    fake.spoil = True
    first, second = hardware.KernelBench().judge(KERNELS, GPU)
    assert [law for law, _ in first] == ["gpu:counters", "gpu:time", "gpu:outputs"]
    assert set(dict(first)["gpu:counters"].expected) == {sectors, conflicts}
    assert set(dict(second)["gpu:counters"].expected) == {sectors}
    assert dict(second)["gpu:counters"].at.keys() == {"out8"}


@pytest.mark.cuda
@pytest.mark.parametrize(("off", "closed"), [(-450, True), (-600, False)])
def test_a_kept_time_closes_when_it_is_within_the_tolerance(tmp_path: Path, off: int, closed: bool) -> None:
    kernel = KERNELS[0]
    at = {b.name: b.address for b in batch.launch_of(kernel).buffers}
    with cache.scratch():
        now = hardware.predict_kernel(kernel, batch.programs([kernel], 90)[0], GPU, at, True)[TIME]
    wrong = laws.Disagreement({TIME: round(now) + off}, {TIME: 0}, "time, ns")
    wrong.at = at
    name = record(Corpus(tmp_path), "gpu:time", kernel, wrong, "h200", None, shrunk=True)
    assert campaign.replay(tmp_path).closed == ([name] if closed else [])
