"""Chrome traces: the fields that viewers need, the right SMs and times, a bounded size."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.synthetic import global_line, make
from warpsim import timeline
from warpsim.errors import InputError
from warpsim.timeline import chrome_trace, full, sms_of, window_of

SPANS = [(0, 0, 0, 2000), (1, 1, 100, 1000), (2, 8, 200, 4000), (3, 1, 3000, 5000)]
SERIES = {"cycle": [2000, 4000], "bytes_in_flight": [64.0, 32.0], "dram_bytes_per_second": [1e12, 0.0]}


# start, end, row, instruction, kind, sectors, sectors at L2, from DRAM; warps have 8 rows a CTA slot
LOG = [
    (100, 300, 8, 7, 1, 4, 4, 4),
    (200, 280, 8, 7, 1, 4, 4, 0),
    (300, 340, 8, 9, 5, 0, 0, 0),
    (500, 560, 8, 7, 1, 4, 0, 0),
    (900, 1200, 8, 11, 2, 4, 4, 0),
    (100, 1000, 8, -1, 0, 0, 0, 0),
    (1000, 1500, 8, -1, 0, 0, 0, 0),
]


def events(log: Sequence[Sequence[int]] = (), **more: Any) -> list[dict[str, Any]]:
    line = {**global_line(5, "ld", 1, 4, 4), "accesses": [{"op": "LDG", "index": 7}, {"op": "STG", "index": 11}]}
    result = make([line], scenario="copy", clock_mhz=2000.0, launch={"block": [256]})
    text = chrome_trace(result, SPANS, SERIES, log, slots=8, **more)
    document = json.loads(text)
    assert document["displayTimeUnit"] == "ns"
    return list(document["traceEvents"])


def test_a_slice_a_cta_with_its_sm_slot_and_microseconds() -> None:
    slices = [e for e in events() if e["ph"] == "X"]
    assert [(e["name"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in slices] == [
        ("CTA 0", 1, 0, 0.0, 1.0), ("CTA 1", 1, 1, 0.05, 0.45), ("CTA 2", 2, 0, 0.1, 1.9), ("CTA 3", 1, 1, 1.5, 1.0),
    ]  # fmt: skip


def test_counters_belong_to_the_gpu() -> None:
    counters = [e for e in events() if e["ph"] == "C"]
    assert {(e["name"], e["ts"], *e["args"].items()) for e in counters} == {
        ("bytes in flight", 1.0, ("B", 64.0)), ("bytes in flight", 2.0, ("B", 32.0)),
        ("DRAM bandwidth", 1.0, ("GB/s", 1000.0)), ("DRAM bandwidth", 2.0, ("GB/s", 0.0)),
    }  # fmt: skip


def test_every_process_with_slices_has_a_name() -> None:
    found = events()
    named = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert named == {0: "copy: GPU", 1: "SM 0", 2: "SM 1"}


def test_requests_lie_in_their_warps_and_overlapping_ones_beside() -> None:
    found = events(LOG)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    slices = [e for e in found if e.get("cat") in ("warp", "request")]
    assert {(names[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in slices} == {
        ("slot 1 warp 0", "warp 0", 0.05, 0.45), ("slot 1 warp 0", "LDG DRAM", 0.05, 0.1),
        ("slot 1 warp 0 +1", "LDG L2", 0.1, 0.04), ("slot 1 warp 0", "request shared", 0.15, 0.02),
        ("slot 1 warp 0", "LDG L1", 0.25, 0.03), ("slot 1 warp 0 +1", "STG L2", 0.45, 0.15),
        ("slot 1 warp 0", "warp 0", 0.5, 0.25),
    }  # fmt: skip
    (dram,) = [e for e in slices if e["name"] == "LDG DRAM"]
    assert dram["args"] == {"line": "k.cu:5", "sectors": 4, "sectors at L2": 4, "sectors from DRAM": 4}


def test_a_trace_says_when_requests_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert full(LOG) == ""
    monkeypatch.setattr(timeline, "REQUESTS", 5)
    assert full(LOG) == "holds the first 5 requests; --trace-sms and --trace-window choose which"
    assert full([life for life in LOG if life[3] < 0] * 5).startswith("holds the first 10 warps; ")
    assert full([life for life in LOG if life[3] < 0] * 4) == ""


def test_sms_window_and_number_bound_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [e["name"] for e in events(sms=[1]) if e["ph"] == "X"] == ["CTA 2"]
    late = events(window_us=(1.2, 1.4))
    assert [e["name"] for e in late if e["ph"] == "X"] == ["CTA 2"]
    assert not [e for e in late if e["ph"] == "C"]
    monkeypatch.setattr(timeline, "EVENTS", 2)
    assert [e["name"] for e in events() if e["ph"] == "X"] == ["CTA 0", "CTA 1"]


def test_sms_and_windows_as_users_write_them() -> None:
    assert sms_of("all", 3) == [0, 1, 2]
    assert sms_of("0,5,7-9", 132) == [0, 5, 7, 8, 9]
    assert window_of("1.5:3") == (1.5, 3.0)
    assert window_of(":3") == (0.0, 3.0)
    for text, message in (("0-200", "SMs 0 to 131"), ("a", "write all"), ("-1", "write all"), ("1-", "write all")):
        with pytest.raises(InputError, match=message):
            sms_of(text, 132)
    for text in ("3", "3:1", "a:b", "-1:2"):
        with pytest.raises(InputError, match="START:END"):
            window_of(text)
