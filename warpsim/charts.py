"""`warpsim plot`: charts of one or several runs as SVG or PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warpsim.errors import InputError
from warpsim.options import exact_option, gpu_option

if TYPE_CHECKING:
    from warpsim.result import Result

__all__ = ["plot"]

KINDS = ("memory-chart", "roofline", "timeline", "in-flight", "parity")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("targets", metavar="SCENARIO|NAME|RESULT.json...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", required=True, help="The file to write: .svg, or .png.")
@click.option(
    "--set", "assignments", metavar="K=VALUES", multiple=True,
    help="Values of a parameter, as for sweep: a point each in roofline and in-flight; repeatable.",
)  # fmt: skip
@gpu_option
@exact_option
def plot(
    kind: str, targets: Sequence[str], output: str, assignments: Sequence[str], gpu: str | None, exact: bool | None
) -> None:
    """Draw runs: SVG for light and dark pages, or PNG.

    \b
    memory-chart  bytes between SMs, L1, L2 and DRAM        timeline  bytes in flight and bandwidths over time
    roofline      FLOP/s over FLOP a byte, a point a run    parity    simulated against recorded time
    in-flight     DRAM bandwidth over bytes in flight, a point a run, with Little's law
    """
    from warpsim import plots
    from warpsim.svg import check_target

    check_target(output)
    runs = [(target, _results(target, assignments, gpu, exact)) for target in targets]
    results = [result for _, some in runs for result in some]
    if kind in ("memory-chart", "timeline") and len(results) > 1:
        raise InputError(f"plot {kind}: takes one run, {len(results)} given")
    if kind == "parity":
        drawing = plots.parity(*((result, _measured(target, result)) for target, some in runs for result in some))
    else:
        drawing = getattr(plots, kind.replace("-", "_"))(*results)
    drawing.save(output)


def _results(target: str, assignments: Sequence[str], gpu: str | None, exact: bool | None) -> list[Result]:
    if Path(target).suffix.lower() == ".json":
        from warpsim.result import Result

        return [Result.load(target)]
    from warpsim.scenario import load
    from warpsim.simulator import simulate
    from warpsim.sweep import grid, values

    axes = {}
    for text in assignments:
        name, equals, given = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r}: write NAME=VALUES")
        axes[name.strip()] = values(given)
    scenario = load(target)
    return [simulate(scenario, gpu=gpu, params=point or None, exact=exact) for point in grid(axes)]


def _measured(target: str, result: Result) -> Result:
    from warpsim.recordings import find
    from warpsim.scenario import load

    if result.source == "measured":
        raise InputError(f"{target}: measured; parity takes simulated results, or scenarios, and finds the recording")
    scenario = load(result.scenario if target.lower().endswith(".json") else target)
    measured = find(scenario.bind(result.params), result.gpu, default=scenario.params)
    if measured is None:
        settings = "".join(f" {name}={value}" for name, value in result.params.items())
        raise InputError(f"{target}: not recorded on {result.gpu} with{settings}")
    return measured
