"""What each mechanism of the machine is worth: errors on a few launches with the mechanism switched off.

A mechanism is switched off by its figures in the GPU's profile. Errors of time are means over `CASES`, in percent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpsim.accuracy import READS, WRITES, run
from warpsim.cases import every_case
from warpsim.errors import InputError
from warpsim.gpu import Gpu, load_gpu

if TYPE_CHECKING:
    from warpsim.accuracy import Row

__all__ = ["CASES", "MECHANISMS", "ablate", "text", "without"]

MECHANISMS: dict[str, dict[str, float]] = {
    "CTA dispatch rate": {"launch.dispatch_cycles": 0.0},
    "CTA slot turnaround, warp start": {"launch.slot_turnaround": 0, "launch.warp_start": 0},
    "fixed time of a launch": {"launch.fixed_ns": 0.0},
    "cold start of an SM": {"launch.cold_start": 0},
    "stores that merge on their way out": {"l1.store_merge_lines": 0},
    "integer, double and special pipes": {
        "sm.int_cycles": 1.0, "sm.fma_cycles": 1.0, "sm.imad_cycles": 1.0, "sm.fp64_cycles": 1.0, "sm.xu_cycles": 1.0,
    },
    "reads of register banks": {"sm.register_ports": 8},
    "pipes that crowd each other": {"sm.packing_power": 1000.0},
    "branches that are taken": {"sm.branch_latency": 0},
    "limit of line misses an SM": {"l1.line_limit": 8192},
    "limit of stores an SM": {"l1.store_limit": 0},
    "data stage of misses and stores": {"l1.miss_wavefronts": 0, "l1.store_wavefronts": 0},
    "return port of an SM": {"crossbar.return_sector_cycles": 0.0},
    "request port of an SM": {"crossbar.request_cycles": 0.0, "crossbar.store_sector_cycles": 0.0},
    "reads that merge in a GPC": {"crossbar.merge_requests": 1},
    "L2 slices: look-ups": {"l2.sector_cycles": 0.0, "l2.request_cycles": 0.0},
    "L2 slices: stores and fills": {"l2.write_sector_cycles": 0.0},
    "L2 slices: partly written sectors": {"l2.partial_write_cycles": 0.0},
    "two partitions, near copies": {"l2.partitions": 1, "l2.near_copies": 0},
    "limit of dirty ways": {"l2.dirty_ways": 0},
    "lines hit or dirty kept longer": {"l2.kept_age": 0},
    "partly written sectors fetched by age": {"l2.partial_lines": 0},
    "fetch of 64 B": {"l2.fetch_bytes": 32},
    "row activations": {"dram.activation_ns": 0.0, "dram.write_activation_ns": 0.0},
    "spread of DRAM latency": {"dram.latency_tail": 0.0},
    "its growth with the load": {"dram.loaded_tail": 100.0},
    "latency of the far side": {"dram.far_latency": 0},
    "turnaround of writes": {"dram.turnaround": 0},
    "stores held by a full write queue": {"dram.write_queue": 0},
    "lines dealt to slices one by one": {"dram.clump_bytes": 128},
}  # fmt: skip


CASES = (
    "copy", "copy_float4", "scatter", "write_strided", "transpose_naive_1024x1024", "structs_aos", "simple_stride_16",
    "simple_stride_32", "pointer_jump_16Mi", "triad_2Mi", "row_sums", "l1_carveout", "sum_eight_1500k",
)  # fmt: skip


def without(gpu: Gpu, figures: Mapping[str, float]) -> Gpu:
    """The GPU with other figures, named ``component.figure``."""
    for name, value in figures.items():
        component, _, key = name.partition(".")
        gpu = dataclasses.replace(gpu, **{component: dataclasses.replace(getattr(gpu, component), **{key: value})})
    return gpu


def ablate(name: str = "h200", *, jobs: int = 1) -> Iterator[dict[str, Any]]:
    """A line for the whole machine, then one for each mechanism switched off."""
    cases = [c for c in every_case(name) if c.name in CASES]
    missing = set(CASES) - {c.name for c in cases if c.measured is not None}
    if missing:
        raise InputError(f"no recording on {name}: {', '.join(sorted(missing))}")
    gpu = load_gpu(name)
    whole: dict[str, Row] = {}
    for what, figures in [("nothing", {}), *MECHANISMS.items()]:
        rows = list(run(cases, jobs=jobs, gpu=without(gpu, figures)))
        good = {r.name: r for r in rows if not r.error}
        whole = whole or good
        most = max(good.values(), key=lambda r: abs(r.time_error - whole[r.name].time_error), default=None)
        yield {
            "off": what,
            "time": _mean([r.time_error for r in good.values()]),
            "dram": _mean([100 * _bytes(r) for r in good.values()]),
            "most": most.name if most is not None and most is not whole.get(most.name) else "",
            "change": most.time_error - whole[most.name].time_error if most is not None else 0.0,
            "failed": [f"{r.name}: {r.error}" for r in rows if r.error],
        }


def _bytes(row: Row) -> float:
    """Relative error of the DRAM bytes, reads and writes together."""
    measured = row.measured[READS] + row.measured[WRITES]
    return (row.predicted[READS] + row.predicted[WRITES]) / measured - 1


def _mean(errors: Sequence[float]) -> float:
    return sum(abs(e) for e in errors) / len(errors) if errors else float("nan")


def text(line: Mapping[str, Any]) -> str:
    """One line of the table."""
    most = f"{line['change']:+6.1f} {line['most']}" if line["most"] else ""
    failed = f"  failed: {'; '.join(line['failed'])}" if line["failed"] else ""
    return f"{line['off']:40s}{line['time']:9.1f}{line['dram']:9.1f}   {most}{failed}"
