"""The run over time as a Chrome trace (JSON) that Perfetto and chrome://tracing open.

One process an SM, one thread a CTA slot, one slice a CTA; counters of the whole GPU: bytes in flight, resident warps,
L2 and DRAM bandwidth. The number of slices is bounded by showing some SMs only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpsim.errors import InputError

__all__ = ["EVENTS", "chrome_trace", "sms_of", "window_of"]

EVENTS = 200_000
"""CTAs at most in a trace: some 30 MB of JSON."""

_COUNTERS = {
    "bytes_in_flight": ("bytes in flight", "B", 1.0),
    "warps_resident": ("warps resident", "warps", 1.0),
    "l2_bytes_per_second": ("L2 bandwidth", "GB/s", 1e-9),
    "dram_bytes_per_second": ("DRAM bandwidth", "GB/s", 1e-9),
}


def chrome_trace(
    name: str,
    spans: Iterable[Sequence[int]],
    series: Mapping[str, Any],
    *,
    clock_mhz: float,
    ctas_per_sm: int,
    sms: Iterable[int] | None = None,
    window_us: tuple[float, float] | None = None,
) -> str:
    """JSON text. `spans` has a row a CTA: number, slot, launch and exit cycle; `series` is `MachineResult.series`.

    `sms` are those to show (None: all); `window_us` is a stretch of time to show. At most `EVENTS` CTAs are
    written, the earliest ones.
    """
    low, high = window_us or (0.0, float("inf"))
    shown = None if sms is None else set(sms)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": f"{name}: GPU"}},
        {"ph": "M", "pid": 0, "name": "process_sort_index", "args": {"sort_index": -1}},
    ]
    named: set[int] = set()
    chosen = []
    for cta, slot, start, end in spans:
        sm, place = divmod(int(slot), ctas_per_sm)
        begin, finish = start / clock_mhz, end / clock_mhz
        if (shown is None or sm in shown) and finish >= low and begin <= high:
            chosen.append((begin, finish, int(cta), sm, place))
    for begin, finish, cta, sm, place in sorted(chosen)[:EVENTS]:
        if sm not in named:
            named.add(sm)
            events.append({"ph": "M", "pid": sm + 1, "name": "process_name", "args": {"name": f"SM {sm}"}})
            events.append({"ph": "M", "pid": sm + 1, "name": "process_sort_index", "args": {"sort_index": sm}})
        events.append(
            {
                "ph": "X", "pid": sm + 1, "tid": place, "name": f"CTA {cta}", "cat": "cta",
                "ts": round(begin, 4), "dur": round(finish - begin, 4), "args": {"cta": cta, "slot": place},
            }
        )  # fmt: skip
    for key, (title, unit, scale) in _COUNTERS.items():
        for cycle, value in zip(series.get("cycle", ()), series.get(key, ()), strict=False):
            at = float(cycle) / clock_mhz
            if low <= at <= high:
                events.append(
                    {
                        "ph": "C",
                        "pid": 0,
                        "name": title,
                        "ts": round(at, 4),
                        "args": {unit: round(scale * float(value), 3)},
                    }
                )
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def sms_of(text: str, count: int) -> list[int]:
    """SM numbers that ``all``, ``0-3`` or ``0,5,7-9`` stand for."""
    if text == "all":
        return list(range(count))
    found: list[int] = []
    for piece in text.split(","):
        low, dash, high = piece.partition("-")
        if not low.strip().isdigit() or (dash and not high.strip().isdigit()):
            raise InputError(f"--trace-sms {text}: write all, 0-3 or 0,5,7-9")
        found += range(int(low), int(high if dash else low) + 1)
        if max(found, default=0) >= count:
            raise InputError(f"--trace-sms {text}: the GPU has SMs 0 to {count - 1}")
    return found


def window_of(text: str) -> tuple[float, float]:
    """Start and end in microseconds of ``START:END``; either may be left out."""
    start, colon, end = text.partition(":")
    try:
        window = (float(start or 0), float(end) if end else float("inf"))
    except ValueError:
        window = (1.0, 0.0)
    if not colon or not 0 <= window[0] < window[1]:
        raise InputError(f"--trace-window {text}: write START:END in microseconds")
    return window
