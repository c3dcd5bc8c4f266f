"""A stand-in for CuPy whose GPU memory is host memory and whose kernels are Python functions.

Kernel `twice` writes out[i] = 2 * in[i] for n floats; `faulty` raises as a CUDA fault does; `rejected` does not
compile.
"""

import ctypes
import sys
import time
from types import SimpleNamespace

import numpy as np

__version__ = "14.2.0-fake"
_blocks: dict[int, object] = {}
log: list[str] = []
launches: list[tuple[str, tuple, tuple[int, ...]]] = []
constant: dict[str, int] = {}


class CompileError(Exception):
    pass


def _malloc(size: int) -> int:
    block = ctypes.create_string_buffer(size)
    address = ctypes.addressof(block)
    _blocks[address] = block
    return address


def _array(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def _copy(to: int, source: int, size: int, kind: int, stream: int = 0) -> None:
    ctypes.memmove(to, source, size)


def _set(address: int, value: int, size: int, stream: int = 0) -> None:
    ctypes.memset(address, value, size)


class _Kernel:
    num_regs = 12
    shared_size_bytes = 128
    local_size_bytes = 0

    def __init__(self, entry: str, options: tuple[str, ...]) -> None:
        self.name = entry
        self.kernel = SimpleNamespace(ptr=1)
        log.append(f"options {' '.join(options)}")

    def __call__(self, grid: tuple, block: tuple, arguments: tuple, shared_mem: int = 0) -> None:
        assert all(isinstance(a, np.unsignedinteger) for a in arguments)
        log.append(f"launch {self.name} {grid} {block} {shared_mem}")
        launches.append((self.name, grid, tuple(int(a) for a in arguments)))
        if self.name == "replay":
            return
        if self.name == "faulty":
            raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
        source, target, count = (int(a) for a in arguments)
        _array(target, count)[:] = 2 * _array(source, count)


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...], name_expressions: list[str] | None = None) -> None:
        self.code, self.options, self.names = code, options, name_expressions

    def get_function(self, entry: str) -> _Kernel:
        assert self.names is None or entry in self.names
        if entry == "rejected":
            raise CompileError('kern.cu(3): error: identifier "x" is undefined\n1 error detected')
        return _Kernel(entry, self.options)

    def get_global(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(ptr=constant.setdefault(name, _malloc(1 << 16)))


class _Event:
    def record(self, stream: object = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass


class _Stream:
    def __init__(self, non_blocking: bool = False) -> None:
        pass

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_capture(self) -> None:
        pass

    def end_capture(self) -> SimpleNamespace:
        return SimpleNamespace(launch=lambda stream: None)


cuda = SimpleNamespace(
    runtime=SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda _: {
            "name": b"NVIDIA H200", "multiProcessorCount": 132, "l2CacheSize": 1 << 16, "totalGlobalMem": 1 << 30,
        },
        runtimeGetVersion=lambda: 13000,
        malloc=_malloc,
        free=_blocks.pop,
        memGetInfo=lambda: (64 << 20, 128 << 20),
        memcpy=_copy,
        memcpyAsync=_copy,
        memset=_set,
        memsetAsync=_set,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
        deviceSynchronize=lambda: None,
        profilerStart=lambda: log.append("profiler on"),
        profilerStop=lambda: log.append("profiler off"),
    ),
    driver=SimpleNamespace(
        occupancyMaxActiveBlocksPerMultiprocessor=lambda pointer, threads, shared: 16,
        ctxGetCurrent=lambda: 1,
    ),
    nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
    Event=_Event,
    Stream=_Stream,
    get_elapsed_time=lambda a, b: 1e3 * (b.at - a.at),
)  # fmt: skip

# The driver's cuFuncGetParamInfo has no stand-in in CuPy: two pointers and an int.
_replayer = sys.modules["warpsim.replayer"]
_replayer._parameters = lambda function, count: [  # type: ignore[attr-defined]
    _replayer._Parameter(0, 8), _replayer._Parameter(8, 8), _replayer._Parameter(16, 4),  # type: ignore[attr-defined]
]  # fmt: skip
