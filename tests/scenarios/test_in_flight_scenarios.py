"""Bytes in flight: the bandwidth curve, Little's law beside it, and the bandwidth test."""

from __future__ import annotations

import math

import pytest

from tests.scenarios.checks import run, time_of
from warpsim.derivation import dram_latency_ns, warps_needed
from warpsim.gpu import load_gpu

WARPS = (4, 16, 64)


def bandwidth(name: str, warps: int, loads: int) -> float:
    """Bytes read a nanosecond."""
    result = run(name, warps=warps, loads=loads, total=2097152 if name == "in_flight" else 1048576)
    buffer = next(b for b in result.buffers if b["name"] == "in")
    return float(buffer["bytes"] / time_of(result))


@pytest.mark.parametrize("name", ["in_flight", "in_flight_float4"])
def test_bandwidth_rises_with_warps(name: str) -> None:
    few, some, many = (bandwidth(name, warps, 1) for warps in WARPS)
    assert few < some < many


def test_bandwidth_rises_with_independent_loads() -> None:
    curve = [bandwidth("in_flight", 8, loads) for loads in (1, 2, 4, 8)]
    assert curve == sorted(curve)
    assert curve[-1] > 3 * curve[0]


def test_four_times_as_wide_loads_need_fewer_warps() -> None:
    assert bandwidth("in_flight_float4", 8, 1) > 2 * bandwidth("in_flight", 8, 1)


def test_latency_bound_reads_obey_littles_law() -> None:
    """One load of a warp at a time: bytes under way / bandwidth is the latency, never less than unloaded."""
    gpu = load_gpu("h200")
    under_way = gpu.sm.count * 4 * 128
    latency = under_way / bandwidth("in_flight", 4, 1)
    assert latency > 0.9 * dram_latency_ns(gpu)
    assert latency < 3 * dram_latency_ns(gpu)  # launch and the addition between two loads included


@pytest.mark.parametrize("loads", [1, 2, 4, 8])
@pytest.mark.parametrize(("name", "width"), [("in_flight", 4), ("in_flight_float4", 16)])
def test_result_puts_littles_law_beside_the_curve(name: str, width: int, loads: int) -> None:
    law = run(name, warps=16, loads=loads).derived["littles_law"]
    assert law["needed_bytes_per_sm"] == pytest.approx(law["latency_ns"] * 4800 / 132, rel=0.01)
    assert law["loads_per_warp"] == loads
    assert law["bytes_per_warp"] == 32 * width * loads
    assert law["warps_needed_per_sm"] == math.ceil(law["needed_bytes_per_sm"] / law["bytes_per_warp"])
    assert 0 < law["in_flight_bytes"] <= 132 * 16 * law["bytes_per_warp"]


@pytest.mark.parametrize(("bytes_per_warp", "warps"), [(128, 119), (512, 30), (1024, 15)])
def test_warps_needed_on_an_h100(bytes_per_warp: int, warps: int) -> None:
    """Float, float4 and two float4 loads a thread, at the 600 ns that a load takes on a busy H100."""
    gpu = load_gpu("h100")
    assert warps_needed(600, gpu.peaks.dram_gbs * 1e9, gpu.sm.count, bytes_per_warp) == warps


def test_effective_bandwidth_is_bytes_read_and_written_over_time() -> None:
    result = run("bandwidth")
    n = result.params["n"]
    bandwidth = result.derived["bandwidth"]
    assert bandwidth["effective"] == pytest.approx(8 * n / (time_of(result) * 1e-9))
    assert bandwidth["effective_share_of_peak"] == pytest.approx(bandwidth["effective"] / 4.8e12, rel=0.01)


def test_low_bandwidth_brings_advice() -> None:
    result = run("bandwidth", n=65536)
    assert result.derived["bandwidth"]["effective_share_of_peak"] < 0.5
    (finding,) = (f for f in result.findings if f["rule"] == "low-bandwidth")
    assert finding["advice"]
