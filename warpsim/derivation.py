"""What follows from a run's counters: ratios, bandwidths, Little's law, roofline, the limiter.

All of `Result.derived` is computed here, from metrics, launch and GPU facts alone, so that simulated and measured
results mean the same. Rates and shares are fractions of 1; bandwidths bytes/s; a ratio over zero is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpsim.metrics import FLOP_WEIGHTS, global_requests, global_sectors, shared_conflicts, shared_wavefronts

if TYPE_CHECKING:
    from warpsim.gpu import Gpu

__all__ = ["SATURATED", "SECTOR", "derive", "dram_latency_ns", "gpu_facts", "ratio", "warps_needed"]

SECTOR = 32
SATURATED = 0.6
"""A component busy for this share of the time limits the kernel (Nsight Compute's speed-of-light rules use 60 %)."""

_WORDS = {"ld": "load", "st": "store", "atom": "atomic", "red": "reduction"}
_LDGSTS = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts_cache_{}.sum"

Numbers = Mapping[str, Any]


def ratio(part: float | None, whole: float | None) -> float | None:
    """`part` / `whole`, None where either is unknown or `whole` is zero."""
    return None if part is None or not whole else part / whole


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """What `derive` needs to know of a GPU, from its profile; rates that no source gives are left out."""
    peaks = gpu.peaks
    rates = {
        "fp32": peaks.fp32, "fp64": peaks.fp64, "fp16": peaks.fp16, "fp16_tensor": peaks.tensor_fp16,
        "tf32_tensor": peaks.tensor_tf32,
    }  # fmt: skip
    return {
        "name": gpu.name,
        "title": gpu.title,
        "checked": gpu.checked,
        "assumed": [name for name, figure in gpu.figures.items() if figure.source.startswith("assumed")],
        "sms": gpu.sm.count,
        "max_warps": gpu.sm.max_warps,
        "clock_mhz": gpu.sm.clock_mhz,
        "l2_bytes": gpu.l2.size_bytes,
        "dram_bandwidth": peaks.dram_gbs * 1e9,
        "dram_latency_ns": dram_latency_ns(gpu),
        "flops": {name: rate * 1e12 for name, rate in rates.items() if rate},
    }


def dram_latency_ns(gpu: Gpu) -> float:
    """Mean latency of a load that comes from DRAM, nothing else under way; half of them from the far partition."""
    there_and_back = gpu.crossbar.request_latency + gpu.crossbar.return_latency + gpu.l1.return_latency
    far = gpu.l2.hop_latency + gpu.dram.far_latency / 2 if gpu.l2.partitions == 2 else 0
    cycles = there_and_back + gpu.l2.latency + gpu.dram.latency + gpu.dram.latency_tail + far
    return 1e3 * cycles / gpu.sm.clock_mhz


def warps_needed(latency_ns: float, bandwidth: float, sms: int, bytes_per_warp: float) -> int:
    """Warps an SM that keep `bandwidth` (bytes/s) busy when each has so many bytes under way: Little's law."""
    return math.ceil(latency_ns * 1e-9 * bandwidth / sms / bytes_per_warp - 1e-9)


def derive(metrics: Numbers, extra: Numbers, launch: Numbers, gpu: Numbers, clock_mhz: float) -> dict[str, Any]:
    """`Result.derived`; the arguments are those of `warpsim.result.build_result`."""
    seconds = metrics.get("gpu__time_duration.sum", 0) * 1e-9 or None
    useful = _useful(extra)
    traffic = _traffic(metrics)
    distinct = extra.get("useful_bytes", {}).get("write_sectors")
    traffic["l2"]["capacity_bytes"] = gpu.get("l2_bytes")
    traffic["l2"]["distinct_write_bytes"] = None if distinct is None else distinct * SECTOR
    bandwidth = _bandwidth(traffic, useful, seconds, gpu)
    flops = _flops(metrics, extra)
    intensity = {
        "useful": ratio(flops["total"], useful["bytes"]),
        "dram": ratio(flops["total"], traffic["dram"]["bytes"]),
    }
    return {
        "global": _global(metrics, extra),
        "shared": _shared(metrics, extra),
        "l2": traffic["l2"],
        "dram": traffic["dram"],
        "useful": useful,
        "bytes_per_useful_byte": _waste(metrics, traffic, useful, extra),
        "bandwidth": bandwidth,
        "occupancy": _occupancy(metrics, launch, gpu),
        "littles_law": _littles_law(metrics, extra, launch, gpu, clock_mhz),
        "flops": flops,
        "intensity": intensity,
        "roofline": _roofline(flops, intensity, metrics, seconds, gpu),
        "limiter": _limiter(metrics, extra, bandwidth, gpu),
        "trust": {
            "profile_checked": bool(gpu.get("checked", False)),
            "assumed": list(gpu.get("assumed", ())),
            "notes": list(extra.get("notes", ())),
            "unknowns": list(extra.get("unknowns", ())),
        },
        **({"timeline": extra["timeline"]} if "timeline" in extra else {}),
    }


def _global(metrics: Numbers, extra: Numbers) -> dict[str, Any]:
    ideal = extra.get("ideal", {})
    requested = extra.get("requested_bytes", {})
    table: dict[str, Any] = {}
    for op, word in _WORDS.items():
        requests, sectors = metrics.get(global_requests(op)), metrics.get(global_sectors(op))
        least = ideal.get(global_sectors(op))
        table[word] = {
            "requests": requests,
            "sectors": sectors,
            "ideal_sectors": least,
            "sectors_per_request": ratio(sectors, requests),
            "ideal_sectors_per_request": ratio(least, requests),
            "requested_bytes": requested.get(op),
        }
    hit = metrics.get(global_sectors("ld").replace(".sum", "_lookup_hit.sum"))
    miss = metrics.get(global_sectors("ld").replace(".sum", "_lookup_miss.sum"))
    table["load"]["hit_rate"] = None if hit is None or miss is None else ratio(hit, hit + miss)
    copies = [metrics[n] for kind in ("access", "bypass") if (n := _LDGSTS.format("sectors", kind)) in metrics]
    if copies:
        calls = [metrics[n] for kind in ("access", "bypass") if (n := _LDGSTS.format("requests", kind)) in metrics]
        table["async_copy"] = {
            "requests": sum(calls),
            "sectors": sum(copies),
            "sectors_per_request": ratio(sum(copies), sum(calls)),
        }
    return table


def _shared(metrics: Numbers, extra: Numbers) -> dict[str, Any]:
    ideal = extra.get("ideal", {})
    requests = extra.get("shared_requests", {})
    table: dict[str, Any] = {}
    for op in ("ld", "st"):
        wavefronts, conflicts = metrics.get(shared_wavefronts(op)), metrics.get(shared_conflicts(op))
        least = ideal.get(shared_wavefronts(op))
        if least is None and wavefronts is not None and conflicts is not None:
            least = wavefronts - conflicts
        table[_WORDS[op]] = {
            "requests": requests.get(op),
            "wavefronts": wavefronts,
            "ideal_wavefronts": least,
            "conflicts": conflicts,
            "ways": ratio(wavefronts, least),
        }
    return table


def _traffic(metrics: Numbers) -> dict[str, dict[str, Any]]:
    def in_bytes(name: str) -> Any:
        return metrics[name] * SECTOR if name in metrics else None

    hit, miss = (metrics.get(f"lts__t_sectors_srcunit_tex_lookup_{kind}.sum") for kind in ("hit", "miss"))
    l2 = {
        "requests": metrics.get("lts__t_requests_srcunit_tex.sum"),
        "read_bytes": in_bytes("lts__t_sectors_srcunit_tex_op_read.sum"),
        "write_bytes": in_bytes("lts__t_sectors_srcunit_tex_op_write.sum"),
        "hit_rate": None if hit is None or miss is None else ratio(hit, hit + miss),
    }
    dram = {"read_bytes": in_bytes("dram__sectors_read.sum"), "write_bytes": in_bytes("dram__sectors_write.sum")}
    for level in (l2, dram):
        known = [level[k] for k in ("read_bytes", "write_bytes")]
        level["bytes"] = None if None in known else sum(known)
    return {"l2": l2, "dram": dram}


def _useful(extra: Numbers) -> dict[str, Any]:
    given = extra.get("useful_bytes", {})
    read, write = given.get("read"), given.get("write")
    return {
        "read_bytes": read,
        "write_bytes": write,
        "bytes": None if read is None or write is None else read + write,
    }


def _waste(metrics: Numbers, traffic: Numbers, useful: Numbers, extra: Numbers) -> dict[str, Any]:
    """Bytes moved for each byte needed: at L1 over the bytes that lanes asked for, below it over distinct bytes."""
    requested = extra.get("requested_bytes", {})
    table: dict[str, Any] = {}
    for way, op, key in (("read", "ld", "read_bytes"), ("write", "st", "write_bytes")):
        sectors = metrics.get(global_sectors(op))
        table[f"l1_{way}"] = ratio(None if sectors is None else sectors * SECTOR, requested.get(op))
        for level in ("l2", "dram"):
            table[f"{level}_{way}"] = ratio(traffic[level][key], useful[key])
    for level in ("l2", "dram"):
        table[level] = ratio(traffic[level]["bytes"], useful["bytes"])
    return table


def _bandwidth(traffic: Numbers, useful: Numbers, seconds: float | None, gpu: Numbers) -> dict[str, Any]:
    peak = gpu.get("dram_bandwidth")
    effective = ratio(useful["bytes"], seconds)
    dram = ratio(traffic["dram"]["bytes"], seconds)
    return {
        "effective": effective,
        "effective_share_of_peak": ratio(effective, peak),
        "dram": dram,
        "dram_share_of_peak": ratio(dram, peak),
        "l2": ratio(traffic["l2"]["bytes"], seconds),
        "peak": peak,
    }


def _warps_per_cta(launch: Numbers) -> int:
    return math.ceil(math.prod(int(n) for n in launch["block"]) / 32)


def _occupancy(metrics: Numbers, launch: Numbers, gpu: Numbers) -> dict[str, Any]:
    resident = launch.get("ctas_per_sm")
    achieved = metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    ctas = math.prod(int(n) for n in launch["grid"])
    slots = None if resident is None or not gpu.get("sms") else resident * gpu["sms"]
    warps = None if resident is None else resident * _warps_per_cta(launch)
    return {
        "ctas_per_sm": resident,
        "warps_per_sm": warps,
        "theoretical": ratio(warps, gpu.get("max_warps")),
        "achieved": None if achieved is None else achieved / 100,
        "limit": launch.get("limit"),
        "waves": ratio(ctas, slots),
    }


def _littles_law(metrics: Numbers, extra: Numbers, launch: Numbers, gpu: Numbers, clock_mhz: float) -> dict[str, Any]:
    """Bytes in flight against latency x bandwidth, and how many warps of this kernel's loads that takes an SM."""
    latency_ns, peak, sms = gpu.get("dram_latency_ns"), gpu.get("dram_bandwidth"), gpu.get("sms")
    needed = None if latency_ns is None or peak is None else latency_ns * 1e-9 * peak
    in_flight = extra.get("in_flight_bytes")
    loads = extra.get("loads_per_warp", 1)
    request = ratio(extra.get("requested_bytes", {}).get("ld"), metrics.get(global_requests("ld")))
    per_warp = None if request is None else request * loads
    warps = warps_needed(latency_ns, peak, sms, per_warp) if latency_ns and peak and sms and per_warp else None
    resident = launch.get("ctas_per_sm")
    return {
        "latency_ns": latency_ns,
        "latency_cycles": None if latency_ns is None else latency_ns * clock_mhz * 1e-3,
        "loaded_latency_cycles": extra.get("latency_cycles"),
        "needed_bytes": needed,
        "needed_bytes_per_sm": ratio(needed, sms),
        "in_flight_bytes": in_flight,
        "in_flight_bytes_per_sm": ratio(in_flight, sms),
        "share": ratio(in_flight, needed),
        "loads_per_warp": loads,
        "bytes_per_warp": per_warp,
        "warps_needed_per_sm": warps,
        "warps_per_sm": None if resident is None else resident * _warps_per_cta(launch),
    }


def _flops(metrics: Numbers, extra: Numbers) -> dict[str, Any]:
    table: dict[str, Any] = {"fp32": 0, "fp64": 0, "fp16": 0}
    for name, (precision, weight) in FLOP_WEIGHTS.items():
        table[precision] += weight * metrics.get(name, 0)
    table["total"] = sum(table.values())
    table["other_ops"] = dict(extra.get("other_ops", {}))
    return table


def _roofline(
    flops: Numbers, intensity: Numbers, metrics: Numbers, seconds: float | None, gpu: Numbers
) -> dict[str, Any]:
    """Where the kernel lies under min(peak FLOP/s, intensity x DRAM bandwidth).

    An HFMA2 may be the move of a constant: alone it makes no kernel with other FLOPs one of halves.
    """
    peaks, peak = gpu.get("flops", {}), gpu.get("dram_bandwidth")
    ridge = {name: ratio(rate, peak) for name, rate in peaks.items()}
    halves = any(metrics.get(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum") for op in ("hadd", "hmul"))
    kinds = ("fp32", "fp64", "fp16") if halves or not flops["fp32"] + flops["fp64"] else ("fp32", "fp64")
    used = max(kinds, key=lambda p: (flops[p], p == "fp32"))
    top = peaks.get(used)
    at = intensity["dram"] if intensity["dram"] is not None else intensity["useful"]
    if not flops["total"]:
        bound, attainable = None if at is None else "memory", None
    elif at is None or top is None or peak is None:
        bound, attainable = None, top
    else:
        bound = "memory" if at * peak < top else "compute"
        attainable = min(top, at * peak)
    return {
        "precision": used,
        "ridge": ridge,
        "bound": bound,
        "achieved_flops": ratio(flops["total"], seconds),
        "attainable_flops": attainable,
        "peak_flops": top,
    }


def _limiter(metrics: Numbers, extra: Numbers, bandwidth: Numbers, gpu: Numbers) -> dict[str, Any]:
    """The busiest component; "latency" where none is saturated.

    Busy fractions come from the machine; without it (a measured result) from counters over cycles, as far as they go.
    """
    detail = dict(extra.get("busy", {}))
    busy = {name: share for name, share in detail.items() if not name.startswith("DRAM ")}
    if "DRAM data" in detail:  # data and turnarounds share a channel's time; activations are a limit beside it
        channel = detail["DRAM data"] + detail.get("DRAM turnaround", 0.0)
        busy["DRAM"] = max(channel, detail.get("DRAM activation", 0.0))
    if not busy:
        cycles, sms = metrics.get("sm__cycles_elapsed.max"), gpu.get("sms")
        if cycles and sms:
            if "l1tex__data_pipe_lsu_wavefronts.sum" in metrics:
                busy["data stage"] = metrics["l1tex__data_pipe_lsu_wavefronts.sum"] / (cycles * sms)
            if "smsp__inst_executed.sum" in metrics:
                busy["issue"] = metrics["smsp__inst_executed.sum"] / (4 * cycles * sms)
        if bandwidth["dram_share_of_peak"] is not None:
            busy["DRAM"] = bandwidth["dram_share_of_peak"]
    if not busy:
        return {"name": None, "share": None, "busy": {}, "dram": {}}
    name = max(busy, key=lambda key: (busy[key], key))
    share = busy[name]
    parts = {key.removeprefix("DRAM "): value for key, value in detail.items() if key.startswith("DRAM ")}
    return {"name": name if share >= SATURATED else "latency", "share": share, "busy": busy, "dram": parts}
