"""Chrome traces: the fields that viewers need, the right SMs and times, a bounded size."""

import json
from typing import Any

import pytest

from warpsim import timeline
from warpsim.errors import InputError
from warpsim.timeline import chrome_trace, sms_of, window_of

SPANS = [(0, 0, 0, 2000), (1, 1, 100, 1000), (2, 8, 200, 4000), (3, 1, 3000, 5000)]
SERIES = {"cycle": [2000, 4000], "bytes_in_flight": [64.0, 32.0], "dram_bytes_per_second": [1e12, 0.0]}


def events(**more: Any) -> list[dict[str, Any]]:
    text = chrome_trace("copy", SPANS, SERIES, clock_mhz=2000.0, ctas_per_sm=8, **more)
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
