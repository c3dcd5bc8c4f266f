"""Results made by hand, for tests of what reads results."""

from typing import Any

from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts
from warpsim.result import Result, build_result, zeros

GPU = {
    "name": "h200",
    "title": "NVIDIA H200",
    "checked": True,
    "assumed": [],
    "sms": 132,
    "max_warps": 64,
    "clock_mhz": 1980.0,
    "dram_bandwidth": 4.8e12,
    "dram_latency_ns": 600.0,
    "flops": {"fp32": 67e12, "fp16_tensor": 990e12},
}


def global_line(line: int, op: str, requests: int, sectors: int, ideal: int, text: str = "") -> dict[str, Any]:
    """Counters of a source line with one global access."""
    return {
        "file": "k.cu",
        "line": line,
        "text": text,
        "metrics": {global_requests(op): requests, global_sectors(op): sectors},
        "ideal": {global_sectors(op): ideal},
    }


def shared_line(line: int, op: str, wavefronts: int, ideal: int, text: str = "") -> dict[str, Any]:
    """Counters of a source line with one shared access."""
    return {
        "file": "k.cu",
        "line": line,
        "text": text,
        "metrics": {shared_wavefronts(op): wavefronts, shared_conflicts(op): wavefronts - ideal},
        "ideal": {shared_wavefronts(op): ideal},
    }


def make(
    lines: list[dict[str, Any]] | None = None,
    metrics: dict[str, float] | None = None,
    extra: dict[str, Any] | None = None,
    *,
    gpu: dict[str, Any] | None = None,
    launch: dict[str, Any] | None = None,
    **more: Any,
) -> Result:
    """A simulated Result whose totals are the sums of its lines."""
    totals = zeros()
    totals["gpu__time_duration.sum"] = 10_000
    totals["sm__cycles_elapsed.max"] = 19_800
    ideal: dict[str, float] = {}
    for line in lines or ():
        for name, value in line["metrics"].items():
            totals[name] += value
        for name, value in line["ideal"].items():
            ideal[name] = ideal.get(name, 0) + value
    totals.update(metrics or {})
    shape = {"grid": [1056], "block": [256], "registers": 16, "shared": 0, "ctas_per_sm": 8, "limit": "warps"}
    arguments: dict[str, Any] = {
        "scenario": "made",
        "kernel": "k",
        "source": "simulated",
        "gpu": {**GPU, **(gpu or {})},
        "launch": {**shape, **(launch or {})},
        "metrics": totals,
        "extra": {"ideal": ideal, **(extra or {})},
        "lines": lines or [],
        "compiler": "NVRTC 13.0",
    }
    return build_result(**{**arguments, **more})
