"""Assertions for test suites: how a kernel's accesses must behave.

Each takes a `Result`, a scenario (its name, its path or the object), or a `warpsim.Kernel` with its launch:

    assert_coalesced("transpose_tiled")
    assert_no_bank_conflicts(kernel, grid=64, block=256, args=[x, y])
    assert_max_sectors_per_request(result, 4, op="load")

A failed assertion names every source line at fault, with numbers. They return the `Result`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts
from warpsim.result import Result

if TYPE_CHECKING:
    from warpsim.kernel import Kernel
    from warpsim.scenario import Scenario

    Target = Result | Scenario | Kernel | str | os.PathLike[str]

__all__ = ["assert_coalesced", "assert_max_sectors_per_request", "assert_no_bank_conflicts"]

_GLOBAL = {"load": "ld", "store": "st", "atomic": "atom", "red": "red"}


def assert_coalesced(
    target: Target,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    args: Sequence[Any] | None = None,
    *,
    op: str | None = None,
    factor: float = 1.0,
    **options: Any,
) -> Result:
    """Every global load and store (or only `op`) asks for at most `factor` times the sectors that its bytes need."""
    result = _result(target, grid, block, args, options)
    faults = []
    for name in _ops(op):
        for where, metrics, ideal in _places(result):
            requests, sectors = _counts(metrics, name)
            least = ideal.get(global_sectors(_GLOBAL[name]))
            if not requests:
                continue
            if least is None:
                raise ValueError(
                    f"{result.scenario}: the result has no ideal sectors; simulate it, a measured one does not know"
                )
            if sectors > factor * least * (1 + 1e-9):
                faults.append(
                    f"{where}: global {name} takes {sectors / requests:.4g} sectors a request, "
                    f"{least / requests:.4g} would do ({requests:,} requests, {sectors - least:,} sectors too many)"
                )
    return _verdict(result, "not coalesced", faults)


def assert_no_bank_conflicts(
    target: Target,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    args: Sequence[Any] | None = None,
    *,
    op: str | None = None,
    **options: Any,
) -> Result:
    """No shared-memory load or store (or only `op`) takes more wavefronts than its width asks for."""
    result = _result(target, grid, block, args, options)
    faults = []
    for name in _ops(op):
        for where, metrics, _ in _places(result):
            conflicts = metrics.get(shared_conflicts(_GLOBAL[name]), 0)
            wavefronts = metrics.get(shared_wavefronts(_GLOBAL[name]), 0)
            if conflicts:
                ways = wavefronts / (wavefronts - conflicts) if wavefronts > conflicts else float("inf")
                faults.append(
                    f"{where}: shared {name} has {ways:.3g}-way bank conflicts "
                    f"({conflicts:,} of {wavefronts:,} wavefronts are extra)"
                )
    return _verdict(result, "bank conflicts", faults)


def assert_max_sectors_per_request(
    target: Target,
    limit: float,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    args: Sequence[Any] | None = None,
    *,
    op: str | None = None,
    **options: Any,
) -> Result:
    """No global load or store (or only `op`) takes more than `limit` sectors a request on average, line by line."""
    result = _result(target, grid, block, args, options)
    faults = []
    for name in _ops(op, allowed=tuple(_GLOBAL)):
        for where, metrics, _ in _places(result):
            requests, sectors = _counts(metrics, name)
            if requests and sectors / requests > limit * (1 + 1e-9):
                faults.append(
                    f"{where}: global {name} takes {sectors / requests:.4g} sectors a request, "
                    f"at most {limit:g} allowed"
                )
    return _verdict(result, f"more than {limit:g} sectors a request", faults)


def _result(
    target: Target,
    grid: int | Sequence[int] | None,
    block: int | Sequence[int] | None,
    args: Sequence[Any] | None,
    options: Mapping[str, Any],
) -> Result:
    launch = {"grid": grid, "block": block, "args": args}
    given = [name for name, value in launch.items() if value is not None]
    if isinstance(target, Result):
        if given or options:
            raise TypeError(f"a Result takes no {', '.join([*given, *options])}: it has been run")
        return target
    if isinstance(target, str | Path) or hasattr(target, "bind") or hasattr(target, "__fspath__"):
        if given:
            raise TypeError(f"a scenario takes no {', '.join(given)}: its file says so; use params={{...}}")
        from warpsim.scenario import load
        from warpsim.simulator import simulate

        named = isinstance(target, str) or hasattr(target, "__fspath__")
        scenario: Any = load(os.fspath(target)) if named else target  # type: ignore[arg-type]
        return simulate(scenario, **options)
    if hasattr(target, "simulate"):
        if grid is None or block is None:
            raise TypeError("a Kernel needs grid and block")
        result: Result = target.simulate(grid, block, args or (), **options)
        return result
    raise TypeError(f"a Result, a scenario or a Kernel is expected, {type(target).__name__} given")


def _ops(op: str | None, allowed: tuple[str, ...] = ("load", "store")) -> tuple[str, ...]:
    if op is not None and op not in allowed:
        raise ValueError(f"op {op!r} given, allowed: {', '.join(allowed)}")
    return ("load", "store") if op is None else (op,)


def _places(result: Result) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """(where, metrics, ideal) of each source line; of the whole kernel where there is no line information."""
    if result.lines:
        for line in result.lines:
            text = str(line.get("text", "")).strip()
            where = f"{line['file']}:{line['line']}" + (f" `{text}`" if text else "")
            yield where, line["metrics"], line.get("ideal", {})
        return
    ideal = {global_sectors(_GLOBAL[op]): result.derived["global"][op]["ideal_sectors"] for op in ("load", "store")}
    yield result.kernel, result.metrics, ideal


def _counts(metrics: Mapping[str, Any], op: str) -> tuple[int, int]:
    """Requests and sectors of a global `op`."""
    return metrics.get(global_requests(_GLOBAL[op]), 0), metrics.get(global_sectors(_GLOBAL[op]), 0)


def _verdict(result: Result, what: str, faults: Sequence[str]) -> Result:
    if faults:
        raise AssertionError(
            f"{result.scenario} on {result.gpu}: {what}\n" + "\n".join(f"  {fault}" for fault in faults)
        )
    return result
