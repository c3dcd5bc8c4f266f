"""Counters of single-warp patterns on a GPU: kernels/replay.cu, one launch a pattern, or hundreds in one.

`measure` gives every pattern's own figures: in this process through CUPTI (hundreds of launches a second), else
through Nsight Compute. `totals` runs many patterns in one launch, each `repeats` times, and gives the sums of their
counters: with random repeats a wrong prediction of any of them shows.

    python -m warpsim.patternreplay OUT.jsonl --random 500 --patterns more.jsonl --limit 120
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.counters import collect
from warpsim.cupti import RangeProfiler
from warpsim.errors import InputError, UnsupportedError
from warpsim.launch import ALIGNMENT
from warpsim.library import find_kernel
from warpsim.patterntable import CELLS, TABLE, Pattern, encode, metrics_of, random_patterns, read, reading, write
from warpsim.replayer import require_gpu

__all__ = ["PatternReplay", "measure", "totals"]

BASE_ALIGNMENT = 4 << 20
_NOTHING = Pattern("load", "global", 4, (0,) * 32, (False,) * 32, name="nothing")  # what a launch counts by itself


class PatternReplay:
    """The compiled replay kernel, an arena for global patterns, and the table in constant memory."""

    def __init__(self, reach: int = 64 << 20) -> None:
        self.cp = require_gpu()
        runtime = self.cp.cuda.runtime
        source = find_kernel("replay.cu").read_text(encoding="utf-8")
        module = self.cp.RawModule(code=source, options=("-std=c++17",))
        self.kernel = module.get_function("replay")
        self.kernel.max_dynamic_shared_size_bytes = 200 << 10
        self.table = int(module.get_global("table").ptr)
        self.reach = -(-reach // ALIGNMENT) * ALIGNMENT
        self.pointer = runtime.malloc(self.reach + BASE_ALIGNMENT)
        self.arena = -(-self.pointer // BASE_ALIGNMENT) * BASE_ALIGNMENT
        runtime.memset(self.arena, 1, self.reach)
        self.module = module
        self.shared = 0
        self.sms = int(runtime.getDeviceProperties(0)["multiProcessorCount"])

    def close(self) -> None:
        """Free the arena."""
        self.cp.cuda.runtime.free(self.pointer)

    def load(self, patterns: Sequence[Pattern], repeats: Sequence[int] | None = None) -> None:
        """Put patterns into the table (TABLE at most)."""
        if len(patterns) > TABLE:
            raise ValueError(f"{len(patterns)} patterns, the table holds {TABLE}")
        for pattern in patterns:
            if pattern.space == "global" and pattern.extent > self.reach:
                raise InputError(f"pattern {pattern.name}: reaches byte {pattern.extent}, the arena has {self.reach}")
        table = encode(patterns, self.arena, repeats)
        runtime = self.cp.cuda.runtime
        runtime.memcpy(self.table, table.ctypes.data, table.nbytes, runtime.memcpyHostToDevice)
        shared = max((p.extent for p in patterns if p.space == "shared"), default=0)
        self.shared = -(-shared // 128) * 128

    def launch(self, first: int, count: int = 1) -> None:
        """Run patterns `first` to `first + count - 1` of the table, one warp a CTA and a CTA an SM."""
        arguments = (np.uint32(first), np.uint32(count), np.uint32(0), np.uint64(0))
        self.kernel((min(count, self.sms),), (32,), arguments, shared_mem=self.shared)

    def context(self) -> int:
        """The CUDA context, for a profiler."""
        return int(self.cp.cuda.driver.ctxGetCurrent())


def measure(
    patterns: Sequence[Pattern],
    *,
    counters: str = "cupti",
    limit: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(index, {"base": arena address, "measured": figures}) of patterns, by operation; ends early after `limit` s."""
    say = say or (lambda _: None)
    began = time.monotonic()
    groups: dict[tuple[str, str], list[int]] = {}
    for index, pattern in enumerate(patterns):
        groups.setdefault((pattern.op, pattern.space), []).append(index)
    replay = PatternReplay(max([64 << 20, *(p.extent for p in patterns if p.space == "global")]))
    try:
        for (op, space), members in groups.items():
            names = metrics_of(op, space)
            started = time.monotonic()
            profiler: RangeProfiler | None = None
            if counters == "cupti":
                try:
                    profiler = RangeProfiler(replay.context(), list(names.values()), ranges=TABLE)
                except UnsupportedError as error:
                    say(f"{error}; using Nsight Compute")
                    counters = "ncu"
            size = TABLE - 1 if profiler is not None else 64
            chunks = [members[i : i + size] for i in range(0, len(members), size)]
            try:
                for chunk in chunks:
                    if limit is not None and time.monotonic() - began > limit:
                        say(f"time limit of {limit:g} s reached in {op} {space}")
                        return
                    table = [_NOTHING, *(patterns[i] for i in chunk)]
                    values = _values(replay, table, list(names.values()), profiler)
                    for index, row in zip(chunk, values[1:], strict=True):
                        yield index, {"base": replay.arena, "measured": reading(list(names), row, values[0])}
            finally:
                if profiler is not None:
                    profiler.close()
            took = time.monotonic() - started
            say(f"{op} {space}: {len(members)} patterns in {took:.1f} s ({len(members) / took:.0f}/s)")
    finally:
        replay.close()


def _values(
    replay: PatternReplay, table: Sequence[Pattern], metrics: Sequence[str], profiler: RangeProfiler | None
) -> list[list[float]]:
    if profiler is None:
        return _values_ncu(table, metrics, replay.reach)
    replay.load(table)

    def launch() -> None:
        for row in range(len(table)):
            replay.launch(row)
        replay.cp.cuda.runtime.deviceSynchronize()

    return profiler.measure(launch, len(table))


def _values_ncu(table: Sequence[Pattern], metrics: Sequence[str], reach: int) -> list[list[float]]:
    with tempfile.TemporaryDirectory(prefix="warpsim-") as scratch:
        file = Path(scratch) / "patterns.jsonl"
        write(file, (p.to_dict() for p in table))
        command = [sys.executable, "-m", "warpsim.patternreplay", str(file), "--launch-only", str(reach)]
        launches = collect(command, metrics, cache="none", timeout=60 + len(table))
    if len(launches) != len(table):
        raise UnsupportedError(f"ncu reported {len(launches)} of {len(table)} launches")
    return [[float(x.metrics.get(m, float("nan"))) for m in metrics] for x in launches]


def totals(
    replay: PatternReplay, patterns: Sequence[Pattern], repeats: Sequence[int], metrics: Sequence[str]
) -> list[float]:
    """Sums of counters over patterns of one (op, space), each run `repeats` times, all in one launch."""
    with RangeProfiler(replay.context(), metrics, ranges=1) as profiler:
        replay.load(patterns, repeats)
        return profiler.measure(lambda: replay.launch(0, len(patterns)), 1)[0]


def _launch_only(file: Path, reach: int) -> None:
    patterns = [pattern for pattern, _ in read(file)]
    replay = PatternReplay(reach)
    replay.load(patterns)
    runtime = replay.cp.cuda.runtime
    runtime.deviceSynchronize()
    runtime.profilerStart()
    for row in range(len(patterns)):
        replay.launch(row)
        runtime.deviceSynchronize()
    runtime.profilerStop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure random patterns and those of files; append JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m warpsim.patternreplay", description=main.__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--random", type=int, default=0, help="random patterns of each operation and width")
    parser.add_argument(
        "--patterns", type=Path, action="append", default=[], help="JSON lines: op, space, width, addresses, active"
    )
    parser.add_argument("--reach", type=int, default=1 << 26, help="bytes over which random global patterns scatter")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counters", choices=("cupti", "ncu"), default="cupti")
    parser.add_argument("--limit", type=float, help="seconds after which no further batch is begun")
    parser.add_argument("--launch-only", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.launch_only is not None:
        _launch_only(given.out, given.launch_only)
        return 0
    rows: list[tuple[Pattern, dict[str, Any]]] = [row for file in given.patterns for row in read(file)]
    for op, space, width, kind in CELLS:
        made = random_patterns(op, space, width, given.random, kind=kind, seed=given.seed, reach=given.reach)
        rows += [(p, p.to_dict()) for p in made]
    measured = 0
    batch: list[dict[str, Any]] = []
    for index, found in measure(
        [p for p, _ in rows], counters=given.counters, limit=given.limit, say=lambda line: print(line, flush=True)
    ):
        batch.append({**rows[index][1], **found})
        measured += 1
        if len(batch) == 200:
            write(given.out, batch)
            batch.clear()
    write(given.out, batch)
    print(json.dumps({"patterns": len(rows), "measured": measured}))
    return 0 if measured == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
