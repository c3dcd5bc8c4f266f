"""What a launch would take if something about it were ideal: the machine runs again with that changed.

Either some accesses are ideal (the traces show their bytes together and aligned, bank conflicts are gone, spills are
not there; data, other accesses and instructions stay) or a figure of the machine is. One model gives both times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from warpsim.errors import InputError
from warpsim.gpu import Gpu, load_gpu
from warpsim.metrics import global_requests, shared_wavefronts
from warpsim.result import Result
from warpsim.simulator import simulate_bound

if TYPE_CHECKING:
    from warpsim.frontend.simt import Executor
    from warpsim.scenario import Scenario

__all__ = ["ACCESSES", "BUDGET", "QUICK", "Counterfactual", "if_ideal", "if_machine", "with_gains"]

ACCESSES = {
    "load": ("global", ("LDG", "LD", "LDGSTS")),
    "store": ("global", ("STG", "ST")),
    "shared load": ("shared", ("LDS", "LDSM")),
    "shared store": ("shared", ("STS", "LDGSTS")),
    "local load": ("local", ("LDL",)),
    "local store": ("local", ("STL",)),
}
"""Kinds of access as findings name them: their space and opcodes."""

QUICK, BUDGET = 2_000_000, 12_000_000
"""Work that may be done again (`_work`): less than a second's worth, and a few seconds'."""


@dataclass(frozen=True)
class Counterfactual:
    """Time as it is and as it would be."""

    change: str
    time_ns: float
    time_after_ns: float

    @property
    def speedup(self) -> float:
        """How many times faster."""
        return self.time_ns / self.time_after_ns

    def gain(self) -> dict[str, Any]:
        """As findings hold it."""
        return {
            "time_ns": self.time_ns,
            "time_after_ns": self.time_after_ns,
            "speedup": self.speedup,
            "how": f"simulated again, {self.change}",
        }


def if_ideal(
    scenario: Scenario,
    result: Result,
    *,
    line: int | None = None,
    file: str | None = None,
    access: str | None = None,
    instructions: Collection[int] | None = None,
    gpu: str | Gpu | None = None,
    exact: bool | None = None,
) -> Counterfactual:
    """Run again with the accesses of a source line, or with some instructions (index: pc / 16), ideal.

    `result` is what `simulate` gave for the scenario; `access` is a key of `ACCESSES` (None: all accesses).
    """
    if access is not None and access not in ACCESSES:
        raise InputError(f"access {access!r} given, allowed: {', '.join(ACCESSES)}")
    chosen = set(instructions) if instructions is not None else _instructions(result, line, file, access)
    if not chosen:
        where = "the kernel" if line is None else f"line {line}"
        raise InputError(f"{result.scenario}: {where} has no {access or 'memory'} access")
    requests = _requests(result)
    touched = {buffer["name"]: int(buffer.get("touched", buffer["bytes"])) for buffer in result.buffers}
    change = "the access ideal" if len(chosen) == 1 else "these accesses ideal"
    return _again(scenario, result, change, gpu, exact, prepare=partial(_idealise, chosen, requests, touched))


def if_machine(
    scenario: Scenario, result: Result, change: str, *, gpu: str | Gpu | None = None, exact: bool | None = None
) -> Counterfactual:
    """Run again on another machine; `change` is a key of `MACHINES`."""
    if change not in MACHINES:
        raise InputError(f"change {change!r} given, allowed: {', '.join(MACHINES)}")
    profile = gpu if isinstance(gpu, Gpu) else load_gpu(gpu or scenario.gpu)
    return _again(scenario, result, change, MACHINES[change](profile), exact)


def _again(
    scenario: Scenario, result: Result, change: str, gpu: str | Gpu | None, exact: bool | None, **more: Any
) -> Counterfactual:
    launch = scenario.bind(result.params)
    after = simulate_bound(launch, gpu=gpu, exact=exact, timeline=False, **more)
    return Counterfactual(change, result.time_ns, after.time_ns)


def _idealise(instructions: Collection[int], requests: int, touched: Mapping[str, int], executor: Executor) -> None:
    executor.idealise(instructions, requests, [touched.get(name, 0) for name in executor.buffer_names])


def _instructions(result: Result, line: int | None, file: str | None, access: str | None) -> set[int]:
    space, opcodes = ACCESSES[access] if access is not None else ("", ())
    return {
        one["index"]
        for row in result.lines
        if line in (None, row["line"]) and file in (None, row["file"])
        for one in row.get("accesses", ())
        if access is None or (one["op"] in opcodes and (one["space"] == space or one["op"] == "LDGSTS"))
    }


def _requests(result: Result) -> int:
    """Warp requests to memory of a launch."""
    metrics = result.metrics
    names = [*map(global_requests, ("ld", "st", "atom", "red")), *map(shared_wavefronts, ("ld", "st"))]
    return int(sum(metrics.get(name, 0) for name in names))


def _work(result: Result, *, ideal: bool) -> float:
    """About what another run costs: warp instructions and lines asked of L2, in lines; ideal accesses ask for fewer.

    Not measured, so that a result does not depend on the computer.
    """
    metrics = result.metrics
    lines = metrics.get("lts__t_requests_srcunit_tex.sum", 0)
    if ideal:
        lines = min(lines, 4 * _requests(result))
    return max(metrics.get("smsp__inst_executed.sum", 0) / 5 + lines, 20_000)


def _exact_fetch(gpu: Gpu) -> Gpu:
    return dataclasses.replace(gpu, l2=dataclasses.replace(gpu.l2, fetch_bytes=gpu.l1.sector_bytes))


def _quick_dispatch(gpu: Gpu) -> Gpu:
    return dataclasses.replace(gpu, launch=dataclasses.replace(gpu.launch, dispatch_cycles=0.125))


def _short_latency(gpu: Gpu) -> Gpu:
    """Loads come back as soon as the machine's window lets them; bandwidths stay."""
    crossbar, l2 = gpu.crossbar, gpu.l2
    return dataclasses.replace(
        gpu,
        dram=dataclasses.replace(gpu.dram, latency=min(gpu.dram.latency, 120), latency_tail=0.0, far_latency=0),
        l2=dataclasses.replace(l2, latency=min(l2.latency, max(1, 120 - crossbar.return_latency)), hop_latency=1),
    )


def _large_l2(gpu: Gpu) -> Gpu:
    return dataclasses.replace(gpu, l2=dataclasses.replace(gpu.l2, sets=8 * gpu.l2.sets))


MACHINES = {
    "L2 of eight times its size": _large_l2,
    "DRAM giving single sectors": _exact_fetch,
    "CTAs dispatched at once": _quick_dispatch,
    "latency hidden as far as the model can": _short_latency,
}

_BY_RULE = {
    "l2-thrash": "L2 of eight times its size",
    "dram-granularity": "DRAM giving single sectors",
    "dispatch-bound": "CTAs dispatched at once",
    "low-in-flight": "latency hidden as far as the model can",
}


def with_gains(
    scenario: Scenario,
    result: Result,
    *,
    gpu: str | Gpu | None = None,
    exact: bool | None = None,
    budget: float | None = BUDGET,
) -> Result:
    """The result with the gain of its findings simulated, warnings first, until work of `budget` has been done again.

    Findings that the budget does not reach keep their estimate; None sets no limit.
    """
    left = float("inf") if budget is None else budget
    found: list[dict[str, Any]] = []
    done: dict[Any, dict[str, Any]] = {}
    for one in result.findings:
        key = _change(result, one)
        cost = _work(result, ideal=one["rule"] not in _BY_RULE)
        if key is not None and key not in done and left >= cost:
            left -= cost
            done[key] = _run(scenario, result, one, gpu, exact).gain()
        found.append({**one, "gain": done[key]} if key in done else one)
    return dataclasses.replace(result, findings=_sorted(found))


def _change(result: Result, finding: Mapping[str, Any]) -> Any:
    """What a second run for the finding changes; None where there is nothing to change."""
    rule = finding["rule"]
    if rule in _BY_RULE:
        return _BY_RULE[rule]
    if rule == "local-memory":
        return rule
    if rule in ("uncoalesced", "misaligned", "bank-conflicts", "partial-stores", "same-sector-writes"):
        place = finding.get("line"), finding.get("file"), finding["access"]
        return place if place[2] in ACCESSES and _instructions(result, *place) else None
    return None


def _run(
    scenario: Scenario, result: Result, finding: Mapping[str, Any], gpu: str | Gpu | None, exact: bool | None
) -> Counterfactual:
    rule = finding["rule"]
    if rule in _BY_RULE:
        return if_machine(scenario, result, _BY_RULE[rule], gpu=gpu, exact=exact)
    if rule == "local-memory":
        spilled = _instructions(result, None, None, "local load") | _instructions(result, None, None, "local store")
        return if_ideal(scenario, result, instructions=spilled, gpu=gpu, exact=exact)
    place = {"line": finding.get("line"), "file": finding.get("file")}
    return if_ideal(scenario, result, access=finding["access"], gpu=gpu, exact=exact, **place)


def _sorted(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    rank = {"warning": 0, "advice": 1, "info": 2}
    return sorted(findings, key=lambda one: (rank[one["severity"]], -(one["gain"] or {}).get("speedup", 1.0)))
