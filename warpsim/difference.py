"""Two results side by side: what changed, and why one is faster."""

from __future__ import annotations

import math
from typing import Any

from warpsim.metrics import METRICS
from warpsim.result import Result, flatten

__all__ = ["Row", "difference", "reasons"]

Row = tuple[str, Any, Any, float | None]

_FIGURES = (
    "occupancy.theoretical",
    "occupancy.achieved",
    "global.load.sectors_per_request",
    "global.store.sectors_per_request",
    "global.load.hit_rate",
    "shared.load.ways",
    "shared.store.ways",
    "l2.hit_rate",
    "l2.bytes",
    "dram.bytes",
    "useful.bytes",
    "bandwidth.effective",
    "bandwidth.dram",
    "littles_law.in_flight_bytes_per_sm",
    "limiter.name",
    "limiter.share",
)


def difference(a: Result, b: Result, everything: bool = False) -> list[Row]:
    """(name, value in a, value in b, b / a) of what differs: launch, derived figures, then metrics."""
    rows: list[Row] = []
    rows += [(key, getattr(a, key), getattr(b, key), None) for key in ("gpu", "compiler", "clock_mhz")]
    for part, x, y in (("launch", a.launch, b.launch), ("params", a.params, b.params)):
        rows += [(f"{part}.{key}", x.get(key), y.get(key), None) for key in dict.fromkeys([*x, *y])]
    left, right = flatten(a.derived), flatten(b.derived)
    rows += [(key, left.get(key), right.get(key), _ratio(left.get(key), right.get(key))) for key in _FIGURES]
    for name in METRICS:
        before, after = a.metrics.get(name), b.metrics.get(name)
        rows.append((name, before, after, _ratio(before, after)))
    return [row for row in rows if (row[1] is not None or row[2] is not None) and (everything or row[1] != row[2])]


def reasons(a: Result, b: Result) -> list[str]:
    """The explanation in words: time, then the counters whose change goes with it, largest first."""
    quotient = b.time_ns / a.time_ns if a.time_ns else 1.0
    if abs(quotient - 1) < 0.005:
        head = "B takes as long as A"
    elif quotient < 1:
        head = f"B is {1 / quotient:.3g} times as fast as A"
    else:
        head = f"B takes {quotient:.3g} times as long as A"
    lines = [f"{head} ({a.time_ns / 1e3:,.4g} us and {b.time_ns / 1e3:,.4g} us)"]
    work = {
        "DRAM bytes": ("dram", "bytes"),
        "L2 bytes": ("l2", "bytes"),
        "sectors of global loads": ("global", "load", "sectors"),
        "sectors of global stores": ("global", "store", "sectors"),
        "wavefronts of shared loads": ("shared", "load", "wavefronts"),
        "wavefronts of shared stores": ("shared", "store", "wavefronts"),
    }
    changes = []
    for name, path in work.items():
        x, y = _get(a.derived, path), _get(b.derived, path)
        if x and y and abs(y / x - 1) >= 0.02:
            changes.append((abs(math.log(y / x)), f"{name}: {x:,.0f} to {y:,.0f} ({y / x:.3g} times)"))
        elif x is not None and y is not None and bool(x) != bool(y):
            changes.append((1e9, f"{name}: {x:,.0f} to {y:,.0f}"))
    x, y = (r.metrics.get("smsp__inst_executed.sum") for r in (a, b))
    if x and y and abs(y / x - 1) >= 0.02:
        changes.append((abs(math.log(y / x)), f"instructions: {x:,} to {y:,} ({y / x:.3g} times)"))
    lines += [text for _, text in sorted(changes, reverse=True)]
    before, after = a.derived["limiter"]["name"], b.derived["limiter"]["name"]
    if before != after:
        lines.append(f"limited by {before} before, by {after} after")
    for sign, one, other in (("gone", a, b), ("new", b, a)):
        names = {f["rule"] for f in other.findings}
        only = sorted({f["rule"] for f in one.findings if f["severity"] != "info"} - names)
        if only:
            lines.append(f"{sign}: {', '.join(only)}")
    return lines


def _get(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _ratio(x: Any, y: Any) -> float | None:
    number = int | float
    return y / x if isinstance(x, number) and isinstance(y, number) and x else None
