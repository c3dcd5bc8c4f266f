"""Running shipped scenarios at their test sizes and reading what they cost."""

from __future__ import annotations

from functools import cache
from typing import Any

import warpsim
from warpsim.library import find_kernel
from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts

__all__ = [
    "dram_read", "dram_write", "l2_read", "line", "load_miss", "per_request", "run", "shared", "source_of", "time_of",
]  # fmt: skip

SECTOR = 32


@cache
def run(name: str, gpu: str | None = None, **params: int) -> warpsim.Result:
    """Scenario *name* with its `[test_params]`, every CTA, and *params* over them."""
    scenario = warpsim.load(name)
    return warpsim.simulate(scenario, gpu=gpu, params={**scenario.test_params, **params}, exact=True)


def line(result: warpsim.Result, text: str) -> dict[str, Any]:
    """Metrics of the one source line that contains *text*."""
    found = [x for x in result.lines if text in x["text"]]
    assert len(found) == 1, f"{len(found)} lines with {text!r} among {[x['text'] for x in result.lines]}"
    return dict(found[0]["metrics"])


def per_request(metrics: dict[str, Any], op: str) -> float:
    """Sectors a request of global `op`, ld or st."""
    return float(metrics[global_sectors(op)] / metrics[global_requests(op)])


def load_miss(metrics: dict[str, Any]) -> int:
    """Sectors of global loads that L1 had to ask L2 for."""
    return int(metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum"])


def l2_read(result: warpsim.Result) -> int:
    """Bytes that the SMs read from L2."""
    return SECTOR * int(result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"])


def dram_read(result: warpsim.Result) -> int:
    return SECTOR * int(result.metrics["dram__sectors_read.sum"])


def dram_write(result: warpsim.Result) -> int:
    return SECTOR * int(result.metrics["dram__sectors_write.sum"])


def shared(result: warpsim.Result, op: str = "ld") -> tuple[float, float]:
    """Wavefronts and conflicts a request of shared `op`, ld or st."""
    requests = result.derived["shared"]["load" if op == "ld" else "store"]["requests"]
    return result.metrics[shared_wavefronts(op)] / requests, result.metrics[shared_conflicts(op)] / requests


def time_of(result: warpsim.Result) -> float:
    """Nanoseconds."""
    return float(result.metrics["gpu__time_duration.sum"])


def source_of(kernel: str) -> str:
    """Text of a shipped kernel file."""
    return find_kernel(kernel).read_text(encoding="utf-8")
