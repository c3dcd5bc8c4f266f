"""Replay with a stand-in for CuPy: contents, addresses, what is allocated, times, and what goes wrong."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsim import replayer
from warpsim.errors import KernelError, UnsupportedError
from warpsim.launch import ALIGNMENT, Launch
from warpsim.scenario import parse

FAKES = Path(__file__).parent / "fakes" / "gpu"

SCENARIO = """
schema = 1
entry = "{entry}"
source = '''
extern "C" __global__ void twice(const float *in, float *out, int n) {{ out[threadIdx.x] = 2 * in[threadIdx.x]; }}
extern "C" __global__ void faulty(const float *in, float *out, int n) {{ out[1ll << 40] = 0; }}
extern "C" __global__ void rejected(const float *in, float *out, int n) {{ out[0] = x; }}
'''
[params]
n = 1000
[launch]
grid = [8]
block = [128]
dynamic_shared = 64
[compile]
define = {{ T = 32 }}
options = ["-maxrregcount=32"]
[[arg]]
name = "in"
buffer = "float"
count = "n"
fill = {{ expr = "3*i" }}
[[arg]]
name = "out"
buffer = "float"
count = "n"
[[arg]]
name = "n"
value = "n"
"""


def launch(entry: str = "twice", **params: int) -> Launch:
    return parse(SCENARIO.format(entry=entry), None).bind(params)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    original = replayer._parameters
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    import cupy  # type: ignore[import-not-found]

    yield cupy
    replayer._parameters = original
    sys.modules.pop("cupy", None)


def test_without_cupy_one_line_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r"needs a GPU and warpsim\[gpu\]: pip install") as caught:
        replayer.require_gpu()
    assert caught.value.exit_status == 3


def test_buffers_keep_their_simulated_distances_where_they_fit() -> None:
    buffers = launch().allocations
    offsets, size = replayer.layout(buffers, {}, 1 << 30)
    assert offsets == {b.name: b.address - buffers[0].address for b in buffers}
    assert size == buffers[-1].address + buffers[-1].bytes - buffers[0].address


def test_opaque_buffers_take_what_is_touched_where_whole_ones_do_not_fit() -> None:
    text = SCENARIO.format(entry="twice").replace(
        'count = "n"\n[[arg]]\nname = "n"', 'count = "2**34"\n[[arg]]\nname = "n"'
    )
    buffers = parse(text, None).bind().allocations
    offsets, size = replayer.layout(buffers, {"out": 8192}, 1 << 30)
    assert offsets["out"] % ALIGNMENT == 0
    assert offsets["out"] >= ALIGNMENT
    assert size == offsets["out"] + 8192
    with pytest.raises(
        UnsupportedError, match=r"the buffers take 64\.0 GiB \('out' alone 64\.0\), and 1\.0 GiB .*--set"
    ):
        replayer.layout(buffers, {}, 1 << 30)


def test_contents_are_the_simulators_and_addresses_are_the_real_ones(cupy: Any) -> None:
    job = replayer.Job((launch(),), ({},), repetitions=3)
    line = replayer._time(job, 0, replayer.Flusher(cupy))
    addresses = {b["name"]: b["address"] for b in line["buffers"]}
    assert all(a % ALIGNMENT == 0 for a in addresses.values())
    index = line["samples"]["in"]["index"]
    found = [np.frombuffer(bytes.fromhex(h), "<f4")[0] for h in line["samples"]["in"]["hex"]]
    assert found == [3.0 * i for i in index]
    assert (index[0], index[-1], len(index)) == (0, 999, replayer.SAMPLES)
    doubled = [np.frombuffer(bytes.fromhex(h), "<f4")[0] for h in line["samples"]["out"]["hex"]]
    assert doubled == [6.0 * i for i in index]
    assert line["launch"] == {
        "grid": [8, 1, 1],
        "block": [128, 1, 1],
        "registers": 12,
        "shared": 192,
        "ctas_per_sm": 16,
        "local": 0,
    }
    assert line["time"]["repetitions"] == 3
    assert line["time"]["event_us_spread"][0] <= line["time"]["event_us"] <= line["time"]["event_us_spread"][1]
    assert not cupy._blocks or max(len(b) for b in cupy._blocks.values()) == 4 << 16  # only the flusher's stays


def test_cupy_gets_the_front_ends_options(cupy: Any) -> None:
    with replayer.prepared(launch(), {}):
        pass
    assert cupy.log[-1].startswith("options -lineinfo -std=c++17 -DT=32 -maxrregcount=32")
    assert "ftz" not in cupy.log[-1]


def test_only_the_measured_launch_is_profiled(cupy: Any) -> None:
    text = SCENARIO.format(entry="twice") + '[state]\ncaches = "warm"\n'
    job = replayer.Job((launch(), parse(text, None).bind()), ({}, {}))
    flusher = replayer.Flusher(cupy)
    replayer._count(job, 0, flusher)
    replayer._count(job, 1, flusher)
    events = [
        line.split()[0] if line.startswith("launch") else line for line in cupy.log if not line.startswith("options")
    ]
    assert events == ["profiler on", "launch", "profiler off", "launch", "profiler on", "launch", "profiler off"]


def test_a_source_that_cupy_rejects_is_one_line(cupy: Any) -> None:
    with (
        pytest.raises(KernelError, match=r"CuPy cannot compile 'rejected': kern\.cu\(3\): error: identifier") as caught,
        replayer.prepared(launch("rejected"), {}),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_opaque_buffers_are_not_zero(cupy: Any) -> None:
    with replayer.prepared(launch(), {}) as made:
        out = made.launch.allocations[1]
        assert ctypes.string_at(out.address, out.bytes) == bytes([replayer.OPAQUE_BYTE]) * out.bytes
