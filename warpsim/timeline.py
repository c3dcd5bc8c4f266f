"""The run over time as a Chrome trace (JSON) that Perfetto and chrome://tracing open.

One process an SM; in it a track a CTA slot with a slice a CTA, below it a track a warp with a slice a warp and in it
one a memory request, named after the slowest level that had a part of its data. Requests of a warp that overlap take
further tracks. Counters of the whole GPU: bytes in flight, resident warps, L2 and DRAM bandwidth. Size is bounded by
showing some SMs and a stretch of time, and by a limit on the number of slices.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from warpsim.errors import InputError

if TYPE_CHECKING:
    from warpsim.result import Result

__all__ = ["EVENTS", "REQUESTS", "chrome_trace", "full", "sms_of", "window_of"]

EVENTS = 200_000
"""CTAs at most in a trace: some 30 MB of JSON."""

REQUESTS = 100_000
"""Requests at most in a trace, and warps: some 20 MB of JSON each."""

_COUNTERS = {
    "bytes_in_flight": ("bytes in flight", "B", 1.0),
    "warps_resident": ("warps resident", "warps", 1.0),
    "l2_bytes_per_second": ("L2 bandwidth", "GB/s", 1e-9),
    "dram_bytes_per_second": ("DRAM bandwidth", "GB/s", 1e-9),
}
_SLOT = 1_000_000  # of the sort index of tracks: a CTA slot
_WARP = 10_000  # a warp in it

FOREVER = 1 << 62

Event = dict[str, Any]


class Record(NamedTuple):
    """What the machine notes of a request, or of a warp's life (instruction -1): `records.REQUEST`. Cycles."""

    start: int
    end: int
    row: int
    instruction: int
    kind: int
    sectors: int
    l2: int
    dram: int


def chrome_trace(
    result: Result,
    spans: Iterable[Sequence[int]],
    series: Mapping[str, Any],
    log: Iterable[Sequence[int]] = (),
    *,
    slots: int,
    sms: Iterable[int] | None = None,
    window_us: tuple[float, float] = (0.0, float("inf")),
) -> str:
    """JSON text of a simulated run: `spans`, `series` and `log` are the `MachineResult`'s, `slots` the CTAs of an SM.

    `sms` are those to show (None: all); `window_us` is a stretch of time to show. At most `EVENTS` CTAs are
    written, the earliest ones.
    """
    low, high = window_us
    clock = result.clock_mhz
    shown = None if sms is None else set(sms)
    events: list[Event] = [*_process(-1, f"{result.scenario}: GPU")]
    chosen = []
    for cta, slot, start, end in spans:
        sm, place = divmod(int(slot), slots)
        if (shown is None or sm in shown) and end / clock >= low and start / clock <= high:
            chosen.append((start, end, int(cta), sm, place))
    tracks: set[tuple[int, int]] = set()
    for start, end, cta, sm, place in sorted(chosen)[:EVENTS]:
        if (sm, place) not in tracks:
            tracks.add((sm, place))
            events += _track(sm, place, f"CTA slot {place}", place * _SLOT)
        events.append(_slice(sm, place, f"CTA {cta}", "cta", start / clock, end / clock, {"cta": cta, "slot": place}))
    events += _warps(result, [Record(*one) for one in log], slots)
    for sm in sorted({one["pid"] - 1 for one in events if one["pid"]}):
        events += _process(sm, f"SM {sm}")
    for key, (title, unit, scale) in _COUNTERS.items():
        for cycle, value in zip(series.get("cycle", ()), series.get(key, ()), strict=False):
            at = float(cycle) / clock
            if low <= at <= high:
                figure = {unit: round(scale * float(value), 3)}
                events.append({"ph": "C", "pid": 0, "name": title, "ts": round(at, 4), "args": figure})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def full(log: Sequence[Sequence[int]]) -> str:
    """What to say when the requests or the warps did not fit; empty where they did."""
    requests = sum(Record(*one).instruction >= 0 for one in log)
    if requests < REQUESTS and len(log) < 2 * REQUESTS:
        return ""
    what = f"{requests:,} requests" if requests >= REQUESTS else f"{len(log) - requests:,} warps"
    return f"holds the first {what}; --trace-sms and --trace-window choose which"


def _warps(result: Result, log: Sequence[Record], slots: int) -> Iterator[Event]:
    """Warps and their requests: a track a warp slot, and one more for each that overlaps the others."""
    warps = -(-math.prod(result.launch["block"]) // 32)
    names = {
        access["index"]: (access["op"], f"{line['file']}:{line['line']}")
        for line in result.lines
        for access in line.get("accesses", ())
    }
    rows: dict[int, list[Record]] = defaultdict(list)
    for record in log:
        rows[record.row].append(record)
    for row, records in sorted(rows.items()):
        slot, warp = divmod(row, warps)
        sm, place = divmod(slot, slots)
        ends: list[int] = []  # of the last request of each track
        life = FOREVER
        # A warp comes before its requests, which lie within it.
        for one in sorted(records, key=lambda one: (one.start, one.instruction >= 0)):
            if one.instruction < 0:
                life = one.end
            lane = next((k for k, end in enumerate(ends) if end <= one.start and (k or one.end <= life)), len(ends))
            track = slots + (place * warps + warp) * _WARP + lane
            if lane == len(ends):
                ends.append(0)
                title = f"slot {place} warp {warp}" + (f" +{lane}" if lane else "")
                yield from _track(sm, track, title, place * _SLOT + (warp + 1) * _WARP + lane)
            start, end = one.start / result.clock_mhz, one.end / result.clock_mhz
            if one.instruction < 0:
                yield _slice(sm, track, f"warp {warp}", "warp", start, end, {})
                continue
            ends[lane] = one.end
            op, where = names.get(one.instruction, ("request", ""))
            figures: dict[str, Any] = {"line": where}
            if one.sectors:
                figures |= {"sectors": one.sectors, "sectors at L2": one.l2, "sectors from DRAM": one.dram}
            level = "DRAM" if one.dram else "L2" if one.l2 else "L1" if one.sectors else "shared"
            yield _slice(sm, track, f"{op} {level}", "request", start, end, figures)


def _slice(sm: int, track: int, name: str, kind: str, start: float, end: float, figures: Mapping[str, Any]) -> Event:
    start, end = round(start, 4), round(end, 4)  # first, or neighbours overlap
    return {
        "ph": "X", "pid": sm + 1, "tid": track, "name": name, "cat": kind, "ts": start, "dur": round(end - start, 4),
        "args": figures,
    }  # fmt: skip


def _process(sm: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": sm + 1, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": sm + 1, "name": "process_sort_index", "args": {"sort_index": sm}}


def _track(sm: int, track: int, name: str, order: int) -> Iterator[Event]:
    yield {"ph": "M", "pid": sm + 1, "tid": track, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": sm + 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": order}}


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
