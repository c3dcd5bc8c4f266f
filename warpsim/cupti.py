"""Hardware counters of the running process through CUPTI's range profiler: one range a kernel launch.

Nsight Compute starts a process and takes 0.15-0.3 s a launch; here a launch costs milliseconds, which is what makes
campaigns of thousands of single-warp patterns possible. The library comes with `nvidia-cuda-cupti` or the toolkit;
the calls are C functions that each take a pointer to a struct whose fields `_CALLS` lists (cupti_range_profiler.h,
cupti_profiler_host.h, CUPTI 13). Counters need the permission that Nsight Compute needs too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpsim.errors import UnsupportedError

__all__ = ["RangeProfiler", "passes"]

_TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "z": ctypes.c_size_t, "i": ctypes.c_int, "I": ctypes.c_uint32, "H": ctypes.c_uint16,
    "B": ctypes.c_uint8, "s": ctypes.c_char_p,
}  # fmt: skip

# function -> fields after structSize and pPriv, as type letter:name
_CALLS = {
    "cuptiProfilerInitialize": "",
    "cuptiProfilerDeInitialize": "",
    "cuptiDeviceGetChipName": "z:device s:chip",
    "cuptiProfilerGetCounterAvailability": "p:context z:size p:image",
    "cuptiProfilerHostInitialize": "i:type s:chip p:availability p:host",
    "cuptiProfilerHostDeinitialize": "p:host",
    "cuptiProfilerHostConfigAddMetrics": "p:host p:names z:count",
    "cuptiProfilerHostGetConfigImageSize": "p:host z:size",
    "cuptiProfilerHostGetConfigImage": "p:host z:size p:image",
    "cuptiProfilerHostGetNumOfPasses": "z:size p:image z:passes",
    "cuptiProfilerHostEvaluateToGpuValues": "p:host p:data z:size z:index p:names z:count p:values",
    "cuptiRangeProfilerEnable": "p:context p:profiler",
    "cuptiRangeProfilerDisable": "p:profiler",
    "cuptiRangeProfilerGetCounterDataSize": "p:profiler p:names z:count z:ranges I:nodes z:size",
    "cuptiRangeProfilerCounterDataImageInitialize": "p:profiler z:size p:data",
    "cuptiRangeProfilerSetConfig": "p:profiler z:config_size p:config z:size p:data i:range i:replay z:ranges H:levels "
    "H:level z:pass_index H:target",
    "cuptiRangeProfilerStart": "p:profiler",
    "cuptiRangeProfilerStop": "p:profiler z:pass_index z:target B:submitted",
    "cuptiRangeProfilerDecodeData": "p:profiler z:dropped",
    "cuptiRangeProfilerGetCounterDataInfo": "p:data z:size z:ranges",
}

_RANGE_PROFILER = 0  # CUPTI_PROFILER_TYPE_RANGE_PROFILER
_AUTO_RANGE = 1  # CUPTI_AutoRange: every kernel launch is a range
_KERNEL_REPLAY = 2  # CUPTI_KernelReplay: CUPTI runs each kernel once a pass and restores memory between
_USER_REPLAY = 3  # CUPTI_UserReplay: we launch everything once a pass


def _library() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cu13" / "lib" for p in (found.submodule_search_locations or [])] if found else []
    folders += [Path(p) / "cuda_cupti" / "lib" for p in (found.submodule_search_locations or [])] if found else []
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            folders += [Path(root) / "extras" / "CUPTI" / "lib64", Path(root) / "lib64"]
    for folder in folders:
        for file in sorted(folder.glob("libcupti.so*"), reverse=True):
            try:
                # CUPTI finds these two by soname only if they are loaded already.
                for other in ("libnvperf_host.so", "libnvperf_target.so"):
                    if (folder / other).exists():
                        ctypes.CDLL(str(folder / other), mode=ctypes.RTLD_GLOBAL)
                return ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
    raise UnsupportedError("CUPTI was not found: install nvidia-cuda-cupti or set CUDA_HOME to the CUDA toolkit")


class _Cupti:
    """The C library: `call(name, field=value)` fills the parameter struct, calls, checks, returns the struct."""

    def __init__(self) -> None:
        self.library = _library()
        self.structs: dict[str, tuple[Any, int]] = {}

    def struct(self, name: str) -> tuple[Any, int]:
        """The parameter struct of a function and its size up to its last field, as CUPTI counts it."""
        if name not in self.structs:
            fields = [("size_", ctypes.c_size_t), ("private", ctypes.c_void_p)]
            fields += [(word[2:], _TYPES[word[0]]) for word in _CALLS[name].split()]
            made: Any = type(name, (ctypes.Structure,), {"_fields_": fields})
            last = getattr(made, fields[-1][0])
            self.structs[name] = made, last.offset + last.size
        return self.structs[name]

    def call(self, name: str, **values: Any) -> Any:
        kind, size = self.struct(name)
        parameters = kind(size_=size, **values)
        status = getattr(self.library, name)(ctypes.byref(parameters))
        if status:
            text = ctypes.c_char_p()
            self.library.cuptiGetResultString(status, ctypes.byref(text))
            what = text.value.decode() if text.value else str(status)
            if "PRIVILEGES" in what or "PERMISSION" in what:
                what += ": the driver lets only the administrator read counters (ERR_NVGPUCTRPERM)"
            raise UnsupportedError(f"CUPTI: {name} failed with {what}")
        return parameters


def _names(metrics: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(metrics))(*[m.encode() for m in metrics])


def _configure(cupti: _Cupti, host: int, metrics: Sequence[str]) -> tuple[Any, int]:
    """The config image for these metrics, and how many passes it takes."""
    names = _names(metrics)
    cupti.call("cuptiProfilerHostConfigAddMetrics", host=host, names=ctypes.addressof(names), count=len(metrics))
    size = cupti.call("cuptiProfilerHostGetConfigImageSize", host=host).size
    image = ctypes.create_string_buffer(size)
    address = ctypes.addressof(image)
    cupti.call("cuptiProfilerHostGetConfigImage", host=host, size=size, image=address)
    count = cupti.call("cuptiProfilerHostGetNumOfPasses", size=size, image=address).passes
    return image, int(count)


def passes(chip: str, metrics: Sequence[str]) -> int:
    """How many times a kernel runs to collect these metrics on that chip (``GH100``); needs no GPU."""
    cupti = _Cupti()
    host = cupti.call("cuptiProfilerHostInitialize", type=_RANGE_PROFILER, chip=chip.encode()).host
    try:
        return _configure(cupti, host, metrics)[1]
    finally:
        cupti.call("cuptiProfilerHostDeinitialize", host=host)


class RangeProfiler:
    """Counts `metrics` of each kernel launched by a function, in the current CUDA context.

    Use it as a context manager; `measure(launch, n)` calls `launch()`, which must launch n kernels, and
    returns n lists of values in the order of the metrics. `launch` is called once a pass, or just once with
    `restore`, where CUPTI repeats each kernel itself with memory as it was.
    """

    def __init__(
        self, context: int, metrics: Sequence[str], *, ranges: int = 512, device: int = 0, restore: bool = False
    ) -> None:
        self.metrics = list(metrics)
        self.ranges = ranges
        self.restore = restore
        self.cupti = _Cupti()
        self.names = _names(self.metrics)
        call = self.cupti.call
        call("cuptiProfilerInitialize")
        self.chip = call("cuptiDeviceGetChipName", device=device).chip
        size = call("cuptiProfilerGetCounterAvailability", context=context).size
        self.availability = ctypes.create_string_buffer(size)
        available = ctypes.addressof(self.availability)
        call("cuptiProfilerGetCounterAvailability", context=context, size=size, image=available)
        self.host = call(
            "cuptiProfilerHostInitialize", type=_RANGE_PROFILER, chip=self.chip, availability=available
        ).host  # fmt: skip
        self.config, self.passes = _configure(self.cupti, self.host, self.metrics)
        self.profiler = call("cuptiRangeProfilerEnable", context=context).profiler
        self.data_size = call(
            "cuptiRangeProfilerGetCounterDataSize", profiler=self.profiler, names=ctypes.addressof(self.names),
            count=len(self.metrics), ranges=ranges, nodes=ranges,
        ).size  # fmt: skip

    def __enter__(self) -> RangeProfiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the counters back."""
        self.cupti.call("cuptiRangeProfilerDisable", profiler=self.profiler)
        self.cupti.call("cuptiProfilerHostDeinitialize", host=self.host)

    def measure(self, launch: Callable[[], None], count: int) -> list[list[float]]:
        """Values of each of the `count` kernels that `launch` launches; at most `ranges` at a time."""
        if not 0 < count <= self.ranges:
            raise ValueError(f"{count} launches, but the profiler was made for 1 to {self.ranges}")
        call = self.cupti.call
        data = ctypes.create_string_buffer(self.data_size)
        at = ctypes.addressof(data)
        call("cuptiRangeProfilerCounterDataImageInitialize", profiler=self.profiler, size=self.data_size, data=at)
        try:
            self._set_config(at)
        except UnsupportedError:
            if self.restore:
                raise
            self.restore = True  # some drivers take automatic ranges only with CUPTI's own replay
            self._set_config(at)
        for _ in range(1 if self.restore else self.passes + 1):
            call("cuptiRangeProfilerStart", profiler=self.profiler)
            try:
                launch()
            finally:
                submitted = call("cuptiRangeProfilerStop", profiler=self.profiler).submitted
            if submitted:
                break
        dropped = call("cuptiRangeProfilerDecodeData", profiler=self.profiler).dropped
        found = call("cuptiRangeProfilerGetCounterDataInfo", data=at, size=self.data_size).ranges
        if dropped or found != count:
            raise UnsupportedError(f"CUPTI returned {found} of {count} launches and dropped {dropped}")
        values = (ctypes.c_double * len(self.metrics))()
        rows = []
        for index in range(count):
            call(
                "cuptiProfilerHostEvaluateToGpuValues", host=self.host, data=at, size=self.data_size, index=index,
                names=ctypes.addressof(self.names), count=len(self.metrics), values=ctypes.addressof(values),
            )  # fmt: skip
            rows.append(list(values))
        return rows

    def _set_config(self, data: int) -> None:
        self.cupti.call(
            "cuptiRangeProfilerSetConfig", profiler=self.profiler, config_size=len(self.config),
            config=ctypes.addressof(self.config), size=self.data_size, data=data, range=_AUTO_RANGE,
            replay=_KERNEL_REPLAY if self.restore else _USER_REPLAY, ranges=self.ranges, levels=1, level=1, target=1,
        )  # fmt: skip
