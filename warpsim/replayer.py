"""Launches on a real GPU: the only module that imports cupy.

The scenario's own source is compiled by CuPy with the options that the front end uses, its buffers get the same
contents at the same distances from each other (multiples of 2 MiB), and the kernel is launched. The work is done by a
worker process (``python -m warpsim.replayer time|count JOB OUT``): a kernel that faults takes its process down,
and Nsight Compute needs a process to wrap. `warpsim.recordings` drives the workers.

Times are CUDA events around single launches, after a warm-up, each with the L2 flushed before (unless the scenario asks
for warm caches); an event pair itself takes 3-7 us, so `gpu__time_duration.sum` is what predictions are compared with.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from warpsim.errors import InputError, KernelError, UnsupportedError, WarpsimError
from warpsim.launch import ALIGNMENT, BufferArg, Launch, ValueArg, place

__all__ = ["Job", "Replayed", "compile_options", "device", "layout", "require_gpu"]

OPAQUE_BYTE = 0x3C  # contents of opaque buffers: zeros would be kinder to power and links than data is
SAMPLES = 64  # elements of each output kept in a recording
ROOM = 0.45  # of the free memory for buffers: Nsight Compute keeps a copy of them on the GPU


@dataclass(frozen=True)
class Job:
    """Launches for a worker, with the bytes of each opaque buffer that are touched, where known."""

    launches: tuple[Launch, ...]
    touched: tuple[Mapping[str, int], ...]
    repetitions: int = 20
    first: int = 0


@dataclass
class Replayed:
    """A launch made ready on the GPU."""

    launch: Launch  # at its real addresses
    kernel: Any
    arguments: tuple[Any, ...]
    info: dict[str, Any]
    memory: Any
    copies: list[tuple[int, Any, int]] = field(default_factory=list)  # address, device copy, bytes


def require_gpu() -> Any:
    """CuPy, or an error that says what is missing."""
    try:
        import cupy
    except ImportError:
        raise UnsupportedError("replaying needs a GPU and warpsim[gpu]: pip install 'warpsim[gpu]'") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no driver: CuPy raises CUDARuntimeError or OSError
        raise UnsupportedError(
            f"replaying needs a GPU and warpsim[gpu]; CuPy is here, but finds no GPU: {error}"
        ) from None
    if count == 0:
        raise UnsupportedError("replaying needs a GPU and warpsim[gpu]; CuPy is here, but finds no GPU")
    return cupy


def device() -> dict[str, Any]:
    """Name, profile, driver, CUDA and compiler versions of GPU 0."""
    cp = require_gpu()
    from warpsim.gpu import load_gpu

    properties = cp.cuda.runtime.getDeviceProperties(0)
    name = properties["name"].decode() if isinstance(properties["name"], bytes) else str(properties["name"])
    try:
        profile = load_gpu(name).name
    except InputError:
        profile = re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-")
    version = cp.cuda.runtime.runtimeGetVersion()
    return {
        "device": name, "profile": profile, "sms": int(properties["multiProcessorCount"]),
        "l2_bytes": int(properties["l2CacheSize"]),
        "memory_bytes": int(properties["totalGlobalMem"]), "cuda": f"{version // 1000}.{version % 1000 // 10}",
        "compiler": "NVRTC {}.{}".format(*cp.cuda.nvrtc.getVersion()), "cupy": cp.__version__,
        "driver": smi("driver_version"),
    }  # fmt: skip


def smi(field_name: str) -> str:
    """One field of nvidia-smi, empty where there is none."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={field_name}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def clocks() -> dict[str, float]:
    """SM and memory clock now, in MHz."""
    words = re.findall(r"[\d.]+", smi("clocks.sm,clocks.mem"))
    return dict(zip(("sm_mhz", "memory_mhz"), map(float, words), strict=False)) if len(words) == 2 else {}


def compile_options(launch: Launch) -> tuple[str, ...]:
    """What CuPy is given: the front end's options, but for the architecture and -ftz=true, which it adds itself."""
    settings = launch.compile
    options = ["-lineinfo"]
    if not any(re.match(r"--?std\b", option) for option in settings.options):
        options.append(f"-std={settings.std or 'c++17'}")
    options += [f"-D{name}={value}" for name, value in settings.define.items()]
    options += settings.options
    folder = Path(launch.kernel).parent
    if launch.kernel != "(inline)" and folder.is_dir():
        options.append(f"-I{folder.absolute()}")
    return tuple(options)


def layout(buffers: Sequence[BufferArg], touched: Mapping[str, int], room: int) -> tuple[dict[str, int], int]:
    """Offsets of buffers in one piece of memory, and its bytes: as simulated if that fits, else as far as touched."""
    if not buffers:
        return {}, ALIGNMENT
    base = min(b.address for b in buffers) // ALIGNMENT * ALIGNMENT
    size = max(b.address + b.bytes for b in buffers) - base
    if size <= room:
        return {b.name: b.address - base for b in buffers}, size
    offsets: dict[str, int] = {}
    position = 0
    end = 0
    for buffer in buffers:
        offsets[buffer.name] = position + buffer.offset
        end = position + buffer.offset + needed(buffer, touched)
        position = -(-end // ALIGNMENT) * ALIGNMENT + ALIGNMENT
    if end > room:
        largest = max(buffers, key=lambda b: needed(b, touched))
        raise UnsupportedError(
            f"the buffers take {end / 2**30:.1f} GiB ('{largest.name}' alone "
            f"{needed(largest, touched) / 2**30:.1f}), and {room / 2**30:.1f} GiB of GPU memory "
            "can be used: choose smaller parameters with --set"
        )
    return offsets, end


def needed(buffer: BufferArg, touched: Mapping[str, int]) -> int:
    """Bytes to allocate: all of a buffer with contents, of an opaque one what is touched."""
    return min(buffer.bytes, touched.get(buffer.name, buffer.bytes)) if buffer.opaque else buffer.bytes


class _Parameter:
    def __init__(self, offset: int, size: int) -> None:
        self.offset = offset
        self.size = size


def _parameters(function: int, count: int) -> list[_Parameter]:
    """Offsets and sizes of a kernel's parameters, from the driver (12.4 or later)."""
    library = ctypes.CDLL("libcuda.so.1")
    if not hasattr(library, "cuFuncGetParamInfo"):
        raise UnsupportedError("replaying needs a driver of CUDA 12.4 or later")
    found: list[_Parameter] = []
    while True:
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        index = ctypes.c_size_t(len(found))
        if library.cuFuncGetParamInfo(ctypes.c_void_p(function), index, ctypes.byref(offset), ctypes.byref(size)):
            return found
        found.append(_Parameter(offset.value, size.value))
        assert len(found) <= max(count, 4096)


def _get_kernel(cp: Any, launch: Launch) -> Any:
    from warpsim.frontend.nvrtc import include_directories

    options = (*compile_options(launch), *(f"-I{d}" for d in include_directories()))
    expressions = None if re.fullmatch(r"_Z\w+", launch.entry) else [launch.entry]
    try:
        module = cp.RawModule(code=launch.source, options=options, name_expressions=expressions)
        kernel = module.get_function(launch.entry)
    except Exception as error:  # CompileException, CUDADriverError: told in one line
        lines = (
            [line for line in str(error).splitlines() if "error" in line] or str(error).splitlines() or [repr(error)]
        )
        raise KernelError(f"{launch.name}: CuPy cannot compile '{launch.entry}': {lines[0].strip()}") from None
    if launch.dynamic_shared > 48 * 1024 and launch.opt_in_shared:
        kernel.max_dynamic_shared_size_bytes = launch.dynamic_shared
    if launch.state.carveout_kb is not None:
        kernel.preferred_shared_memory_carveout = min(100, -(-100 * launch.state.carveout_kb // 228))
    return kernel


@contextmanager
def prepared(launch: Launch, touched: Mapping[str, int], *, keep: bool = False) -> Iterator[Replayed]:
    """The launch compiled and its buffers filled; `keep` holds copies of the filled ones to restore from."""
    cp = require_gpu()
    kernel = _get_kernel(cp, launch)
    buffers = launch.allocations
    room = int(cp.cuda.runtime.memGetInfo()[0] * ROOM)
    offsets, size = layout(buffers, touched, room)
    pointer = cp.cuda.runtime.malloc(size + ALIGNMENT)
    memory = [pointer]
    try:
        start = -(-pointer // ALIGNMENT) * ALIGNMENT
        addresses = {name: start + offset for name, offset in offsets.items()}
        moved = place(launch.arguments, addresses)
        replayed = Replayed(_at(launch, moved), kernel, (), {}, memory)
        for buffer in replayed.launch.allocations:
            data = buffer.data
            if data is None:
                cp.cuda.runtime.memset(buffer.address, OPAQUE_BYTE, needed(buffer, touched))
                continue
            contents = np.ascontiguousarray(data)
            cp.cuda.runtime.memcpy(
                buffer.address, contents.ctypes.data, contents.nbytes, cp.cuda.runtime.memcpyHostToDevice
            )
            if keep:
                copy = cp.cuda.runtime.malloc(contents.nbytes)
                memory.append(copy)
                cp.cuda.runtime.memcpy(copy, buffer.address, contents.nbytes, cp.cuda.runtime.memcpyDeviceToDevice)
                replayed.copies.append((buffer.address, copy, contents.nbytes))
        replayed.arguments = _arguments(kernel, replayed.launch)
        replayed.info = _info(cp, kernel, replayed.launch, touched)
        cp.cuda.runtime.deviceSynchronize()
        yield replayed
    finally:
        for block in memory:
            cp.cuda.runtime.free(block)


def _at(launch: Launch, arguments: tuple[BufferArg | ValueArg, ...]) -> Launch:
    from dataclasses import replace

    return replace(launch, arguments=arguments)


def _arguments(kernel: Any, launch: Launch) -> tuple[Any, ...]:
    """Kernel arguments as NumPy scalars of the parameters' sizes: CuPy passes their bytes on."""
    parameters = _parameters(kernel.kernel.ptr, len(launch.arguments))
    image = launch.pack(parameters)
    return tuple(
        np.frombuffer(image[p.offset : p.offset + p.size], f"<u{p.size}" if p.size in (1, 2, 4, 8) else f"V{p.size}")[0]
        for p in parameters
    )


def _info(cp: Any, kernel: Any, launch: Launch, touched: Mapping[str, int]) -> dict[str, Any]:
    shared = int(kernel.shared_size_bytes) + launch.dynamic_shared
    resident = cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        kernel.kernel.ptr, launch.threads, launch.dynamic_shared
    )
    return {
        "name": launch.name,
        "launch": {
            "grid": list(launch.grid), "block": list(launch.block), "registers": int(kernel.num_regs), "shared": shared,
            "ctas_per_sm": int(resident), "local": int(kernel.local_size_bytes),
        },
        "buffers": [{"name": b.name, "address": b.address, "bytes": b.bytes} for b in launch.buffers],
        "allocated": {b.name: needed(b, touched) for b in launch.allocations},
    }  # fmt: skip


def start(replayed: Replayed) -> None:
    """Launch the kernel on the current stream."""
    launch = replayed.launch
    replayed.kernel(launch.grid, launch.block, replayed.arguments, shared_mem=launch.dynamic_shared)


class Flusher:
    """Overwrites a buffer of four times the L2: other, partly dirty data take the cache's place."""

    def __init__(self, cp: Any) -> None:
        self.runtime = cp.cuda.runtime
        self.size = 4 * int(cp.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])
        self.pointer = self.runtime.malloc(self.size)
        self.value = 0

    def flush(self) -> None:
        """Enqueue the flush."""
        self.value = (self.value + 1) % 256
        self.runtime.memsetAsync(self.pointer, self.value, self.size, 0)


def _restore(cp: Any, replayed: Replayed) -> None:
    for address, copy, size in replayed.copies:
        cp.cuda.runtime.memcpyAsync(address, copy, size, cp.cuda.runtime.memcpyDeviceToDevice, 0)


def measure_time(replayed: Replayed, flusher: Flusher, repetitions: int, budget: float = 1.5) -> dict[str, Any]:
    """Event times in us; fewer repetitions (at least 3) where they would take longer than `budget` seconds."""
    cp = require_gpu()
    warm = replayed.launch.state.caches == "warm"
    times: list[float] = []
    began = time.monotonic()
    for repetition in range(repetitions + 2):
        _restore(cp, replayed)
        if not warm:
            flusher.flush()
        before, after = cp.cuda.Event(), cp.cuda.Event()
        before.record()
        start(replayed)
        after.record()
        after.synchronize()
        if repetition >= 2:  # the first two warm up clocks and code
            times.append(1e3 * cp.cuda.get_elapsed_time(before, after))
        if len(times) >= 3 and time.monotonic() - began > budget:
            break
    report: dict[str, Any] = {
        "event_us": round(median(times), 3), "event_us_spread": [round(min(times), 3), round(max(times), 3)],
        "repetitions": len(times), "clocks": clocks(),
    }  # fmt: skip
    if median(times) < 30:
        report["graph_us"] = round(_graph_time(cp, replayed), 3)
    return report


def _graph_time(cp: Any, replayed: Replayed, launches: int = 50) -> float:
    """Time of one launch among many in a CUDA graph, caches warm: without the event's own time."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for _ in range(launches):
            start(replayed)
        graph = stream.end_capture()
        graph.launch(stream)
        before, after = cp.cuda.Event(), cp.cuda.Event()
        before.record(stream)
        graph.launch(stream)
        after.record(stream)
    after.synchronize()
    elapsed: float = 1e3 * cp.cuda.get_elapsed_time(before, after) / launches
    return elapsed


def samples(replayed: Replayed, allocated: Mapping[str, int]) -> dict[str, Any]:
    """Evenly spaced elements of every buffer after the launch, as hexadecimal bytes."""
    cp = require_gpu()
    taken = {}
    for buffer in replayed.launch.allocations:
        size = buffer.itemsize
        count = allocated[buffer.name] // size
        if not count:
            continue
        index = sorted({i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)})
        word = bytearray(size)
        into = (ctypes.c_char * size).from_buffer(word)
        values = []
        for i in index:
            cp.cuda.runtime.memcpy(
                ctypes.addressof(into), buffer.address + i * size, size, cp.cuda.runtime.memcpyDeviceToHost
            )
            values.append(word.hex())
        taken[buffer.name] = {"index": index, "hex": values}
    return taken


def _time(job: Job, index: int, flusher: Flusher) -> dict[str, Any]:
    cp = require_gpu()
    launch, touched = job.launches[index], job.touched[index]
    with prepared(launch, touched, keep=True) as replayed:
        start(replayed)
        cp.cuda.runtime.deviceSynchronize()
        found = samples(replayed, replayed.info["allocated"])
        return {**replayed.info, "samples": found, "time": measure_time(replayed, flusher, job.repetitions)}


def _count(job: Job, index: int, flusher: Flusher) -> dict[str, Any]:
    cp = require_gpu()
    launch, touched = job.launches[index], job.touched[index]
    with prepared(launch, touched) as replayed:
        if launch.state.caches == "warm":
            start(replayed)
        elif launch.state.caches == "flushed":
            flusher.flush()
        cp.cuda.runtime.deviceSynchronize()
        cp.cuda.runtime.profilerStart()
        start(replayed)
        cp.cuda.runtime.deviceSynchronize()
        cp.cuda.runtime.profilerStop()
        return replayed.info


def work(mode: str, job_file: str, out_file: str) -> int:
    """The worker: one JSON line a launch in `out_file`, written as soon as it is done."""
    with open(job_file, "rb") as file:
        job: Job = pickle.load(file)
    cp = require_gpu()
    flusher = Flusher(cp)
    with open(out_file, "w", encoding="utf-8") as out:
        for index in range(job.first, len(job.launches)):
            out.write(json.dumps({"index": index, "begun": True}) + "\n")
            out.flush()
            line: dict[str, Any] = {"index": index}
            fatal = False
            try:
                line |= _time(job, index, flusher) if mode == "time" else _count(job, index, flusher)
            except WarpsimError as error:
                line["error"] = str(error)
            except Exception as error:  # a CUDA error: the context is lost, the parent starts a new worker
                line["error"] = f"{job.launches[index].name}: {error}"
                fatal = True
            out.write(json.dumps(line) + "\n")
            out.flush()
            if fatal:
                return 1
    return 0


if __name__ == "__main__":
    from warpsim.replayer import work as _work  # the module that the job was pickled by

    sys.exit(_work(*sys.argv[1:4]))
