"""What is measured: whole commands in processes of their own, the timed machine alone, the executor alone, the
textbook machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.machine.streams import Stream, operation, request
from tests.machine.textbook import Textbook
from warpsim.frontend.counts import thread_instructions
from warpsim.frontend.sass import load_program
from warpsim.frontend.simt import Executor
from warpsim.frontend.trace import EXIT, LOAD, STORE
from warpsim.gpu import load_gpu, occupancy
from warpsim.machine import crossbar, dram, l2, sm
from warpsim.machine.build import MachineResult, simulate_launch
from warpsim.scenario import load

__all__ = ["Spent", "command", "executor_rate", "first_run", "machine_rate", "textbook_rate"]


_CHILD = """
import os, re, sys
from warpsim.cli import main
status = main(sys.argv[1:])
with open("/proc/self/status") as file:
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", file.read())[1]
sys.stdout.flush()
os.write(int(os.environ["PEAK_TO"]), peak.encode())
sys.exit(status)
"""


# Python keeps the bytecode of what it imports, as where warpsim is used.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Spent:
    """What a process took, children included."""

    cpu: float  # seconds, user and system
    wall: float
    mib: float  # peak resident set of the process itself


def command(arguments: Sequence[str], **environment: str) -> Spent:
    """Run `warpsim ARGUMENTS`; its output is thrown away."""
    # The kernel's own figure for a child begins with its parent's memory, so the child reads its peak itself.
    read, write = os.pipe()
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, *arguments], stdout=subprocess.DEVNULL, pass_fds=[write],
        env={**_ENVIRONMENT, **environment, "PEAK_TO": str(write)},
    )  # fmt: skip
    os.close(write)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    with os.fdopen(read) as pipe:
        peak = pipe.read()
    if process.returncode:
        raise SystemExit(f"warpsim {' '.join(arguments)}: exit status {process.returncode}")
    return Spent(usage.ru_utime + usage.ru_stime, wall, int(peak or 0) / 1000)


def first_run(arguments: Sequence[str]) -> Spent:
    """A command with an empty cache: all it needs is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        return command(arguments, WARPSIM_CACHE_DIR=folder)


class _Timed:
    """A source of warps that adds up the CPU time spent in it."""

    def __init__(self, source: Executor) -> None:
        self._source = source
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def start(self, ctas: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        begin = time.process_time()
        self._source.start(ctas, slots)
        self.seconds += time.process_time() - begin

    def refill(self, slots: NDArray[np.int64]) -> None:
        begin = time.process_time()
        self._source.refill(slots)
        self.seconds += time.process_time() - begin


def _executor(name: str, **params: int | str) -> Executor:
    gpu = load_gpu("h200")
    launch = load(name).bind(params)
    program = load_program(
        launch.source,
        launch.entry,
        int(gpu.arch.removeprefix("sm_")),
        options=launch.compile.options,
        define=launch.compile.define,
        filename=launch.kernel,
    )
    return Executor(launch, program, gpu)


@dataclass(frozen=True)
class Rate:
    """Work of the timed machine, and its CPU time without the executor's."""

    warp_requests: int
    line_requests: int
    seconds: float
    result: MachineResult
    parts: dict[str, float]  # seconds of each component and of the executor


@contextlib.contextmanager
def _components() -> Iterator[dict[str, float]]:
    """CPU seconds spent in the compiled code of each component."""
    spent: dict[str, float] = {}
    kernels = {"SMs": (sm, "advance"), "crossbar": (crossbar, "send"), "L2": (l2, "advance"), "DRAM": (dram, "advance")}
    before = {part: getattr(module, name) for part, (module, name) in kernels.items()}

    def timed(part: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            begin = time.process_time()
            result = before[part](*arguments)
            spent[part] = spent.get(part, 0.0) + time.process_time() - begin
            return result

        return call

    for part, (module, name) in kernels.items():
        setattr(module, name, timed(part))
    try:
        yield spent
    finally:
        for part, (module, name) in kernels.items():
            setattr(module, name, before[part])


def machine_rate(name: str, **params: int | str) -> Rate:
    """A shipped scenario on the H200's machine, every CTA timed; the best of two runs."""
    rates = []
    for _ in range(2):
        executor = _executor(name, **params)
        timed = _Timed(executor)
        shared = executor.program.shared + executor.launch.dynamic_shared
        fit = occupancy(executor.gpu, executor.launch.threads, executor.program.registers, shared)
        begin = time.process_time()
        with _components() as parts:
            result = simulate_launch(timed, executor.gpu, ctas_per_sm=fit.ctas_per_sm, carveout_kib=fit.carveout_kib)
        seconds = time.process_time() - begin - timed.seconds
        requests = int(executor.stats[:, 0].sum())
        parts |= {"executor": timed.seconds, "SimPy, Python": seconds - sum(parts.values())}
        rates.append(Rate(requests, int(result.counters["l2_requests"]), seconds, result, parts))
    return min(rates, key=lambda rate: sum(rate.parts.values()))


def executor_rate(name: str, **params: int | str) -> float:
    """Thread instructions a CPU second of a scenario executed for its counts alone; the best of two runs."""
    rates = []
    for _ in range(2):
        executor = _executor(name, **params)
        begin = time.process_time()
        executor.run()
        rates.append(thread_instructions(executor) / (time.process_time() - begin))
    return max(rates)


def textbook_rate(ctas: int = 264, warps: int = 8) -> tuple[float, float]:
    """Warp requests a CPU second of a float copy in the textbook machine of 132 SMs, and line requests."""
    blocks = [[operation(LOAD, write_barrier=0), operation(STORE, wait_mask=1), operation(EXIT)]]

    def trace(cta: int, warp: int) -> list[tuple[int, list[int]]]:
        line = (1 << 20) + cta * warps + warp
        return [(0, request([line]) + request([line + (1 << 20)]))]

    stream = Stream(blocks, trace, ctas, warps)
    book = Textbook(load_gpu("h200"), blocks, stream.trace, ctas, warps, 8)
    begin = time.process_time()
    book.run()
    rate = 2 * ctas * warps / (time.process_time() - begin)
    return rate, rate
