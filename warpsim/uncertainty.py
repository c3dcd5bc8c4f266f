"""How far off a predicted time may be: the errors that the model had on recorded launches of the same limiter.

`gpus/<gpu>.errors.json` is written by ``python -m warpsim.accuracy --intervals`` from launches that the model was not
tuned on. For each class of kernel it holds the relative half-width that takes in nine of ten of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["ALL", "SHORT", "expected", "half_width", "intervals", "limiter_class"]

SHORT = "shorter than 10 us"
ALL = "any"
FEW = 8  # launches of a class below which those of all classes speak for it
INSIDE = 0.9
_GROUPS = {
    "DRAM activation": "DRAM", "DRAM data": "DRAM", "DRAM turnaround": "DRAM", "tag stage": "L1TEX",
    "data stage": "L1TEX", "request port": "crossbar", "return port": "crossbar",
}  # fmt: skip


def limiter_class(busy: Mapping[str, float], ns: float) -> str:
    """The busiest component if it works 60 % of the time, else latency; short launches are a class of their own."""
    if ns < 10_000:
        return SHORT
    shares = dict(busy)
    shares["DRAM data"] = shares.get("DRAM data", 0.0) + shares.pop("DRAM turnaround", 0.0)
    name = max(shares, key=lambda key: (shares[key], key))
    return _GROUPS.get(name, name) if shares[name] >= 0.6 else "latency"


def half_width(errors: Sequence[float]) -> float:
    """The smallest half-width that nine of ten of these relative errors lie within."""
    sizes = sorted(abs(e) for e in errors)
    return sizes[min(len(sizes), math.ceil(INSIDE * len(sizes))) - 1]


def intervals(errors: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Half-width and number of launches of each class that has enough of them, and of all together."""
    every = [e for values in errors.values() for e in values]
    classes = {name: values for name, values in sorted(errors.items()) if len(values) >= FEW} | {ALL: every}
    return {
        name: {"relative": math.ceil(half_width(values) * 1000) / 1000, "launches": len(values)}
        for name, values in classes.items()
        if values
    }


@cache
def _table(gpu: str) -> Mapping[str, Any]:
    path = Path(__file__).parent / "gpus" / f"{gpu}.errors.json"
    table: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return table


def expected(gpu: str, busy: Mapping[str, float], ns: float) -> dict[str, Any]:
    """`Result.uncertainty` of a predicted time: relative half-width and why; empty for a GPU without recordings."""
    table = _table(gpu)
    if not table or not busy:
        return {}
    kind = limiter_class(busy, ns)
    found = table.get(kind, table[ALL])
    which = "all kinds" if kind not in table else f"kernels {kind}" if kind == SHORT else f"kernels limited by {kind}"
    why = f"9 in 10 of the {found['launches']} measured launches of {which} that the model was not tuned on lie within"
    return {"gpu__time_duration.sum": {"relative": found["relative"], "why": why}}
