"""Commands that meet a real GPU: compare, record, calibrate."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from warpsim.errors import InputError, KernelError
from warpsim.options import (
    exact_option,
    format_option,
    gpu_option,
    output_option,
    print_parts,
    set_option,
    settings,
    write,
)

__all__ = ["calibrate", "compare", "record"]


@click.command()
@click.argument("scenarios", metavar="[SCENARIO|NAME]...", nargs=-1)
@click.option("--recorded", is_flag=True, help="Compare with the shipped recordings even where there is a GPU.")
@click.option("--ncu", metavar="REPORT", help="Compare with an Nsight Compute report of one's own (.csv or .ncu-rep).")
@gpu_option
@set_option
@exact_option
@click.option(
    "--fail-over", "over", metavar="SHARE", is_flag=False, flag_value="", default=None,
    help="Exit with status 1 when a row is out of tolerance, or when a time is off by more than SHARE (0.1 or 10%).",
)  # fmt: skip
@click.option("--parity", metavar="FILE", help="Draw predicted against measured into FILE (.png, .svg, .pdf).")
@click.option("--folder", metavar="DIR", help="Recordings, in the place of scenarios/recorded.")
@click.option("--verbose", is_flag=True, help="Also show metrics that are zero on both sides; tell the progress.")
@format_option("text", "json")
@output_option
def compare(
    scenarios: Sequence[str], recorded: bool, ncu: str | None, gpu: str | None, assignments: Sequence[str],
    exact: bool | None, over: str | None, parity: str | None, folder: str | None, verbose: bool, form: str,
    output: str | None,
) -> None:  # fmt: skip
    """Put prediction and hardware side by side.

    The hardware is a GPU that is here, else the shipped recordings, or a report of one's own.
    Without SCENARIO all shipped ones are compared. A required metric that one side lacks is a failure.
    """
    from warpsim import comparison

    limit = None if not over else _share(over)
    found = comparison.compare_scenarios(
        list(scenarios) or None, recorded=recorded, ncu=ncu, gpu=gpu, params=settings(assignments) or None, exact=exact,
        root=None if folder is None else Path(folder), say=_progress(verbose),
    )  # fmt: skip
    if form == "json":
        write(json.dumps(comparison.document(found), indent=1) + "\n", output)
    else:
        print_parts([comparison.render(found, verbose=verbose)], output)
    if parity is not None:
        from warpsim.parity import save_parity

        save_parity(found, parity)
    if not found:
        raise InputError("nothing was compared: no recording for these scenarios and this GPU")
    bad = (
        comparison.failures(found, limit)
        if over is not None
        else [f"{c.scenario}: {c.error}" for c in found if c.error]
    )
    if bad:
        for line in bad[:-1]:
            click.echo(f"error: {line}", err=True)
        raise KernelError(bad[-1])


@click.command()
@click.argument("scenarios", metavar="[SCENARIO|NAME]...", nargs=-1)
@set_option
@click.option("--folder", metavar="DIR", help="Write there, in the place of scenarios/recorded.")
@click.option("--no-counters", is_flag=True, help="Times only, without Nsight Compute.")
@click.option("--stale", is_flag=True, help="Only what is not recorded yet or has changed since.")
@click.option("--repetitions", type=click.IntRange(min=1), default=20, show_default=True, help="Timed launches.")
@click.option("--limit", type=float, metavar="SECONDS", help="Begin nothing new after so many seconds.")
def record(
    scenarios: Sequence[str], assignments: Sequence[str], folder: str | None, no_counters: bool, stale: bool,
    repetitions: int, limit: float | None,
) -> None:  # fmt: skip
    """Run scenarios on the GPU and keep what it said.

    Without SCENARIO all shipped ones are run.
    """
    from warpsim.recordings import record as measure

    done = measure(
        list(scenarios) or None, params=settings(assignments) or None, folder=folder, counters=not no_counters,
        repetitions=repetitions, only_stale=stale, limit=limit, say=_progress(True),
    )  # fmt: skip
    for path in done.written:
        click.echo(path)
    if done.failures:
        for line in done.failures[:-1]:
            click.echo(f"error: {line}", err=True)
        raise KernelError(done.failures[-1])


@click.command()
@click.option("-o", "--output", metavar="FILE", help="Write the profile (TOML) there; it then goes with --gpu FILE.")
@click.option("--limit", type=float, default=120, show_default=True, metavar="SECONDS", help="Begin no step after it.")
@format_option("text", "json")
def calibrate(output: str | None, limit: float, form: str) -> None:
    """Measure the GPU that is here and write a profile with what was found."""
    from warpsim.calibration import calibrate as measure

    found = measure(out=output, limit=limit, say=_progress(form == "text"))
    if form == "json":
        click.echo(json.dumps(found.to_dict(), indent=1))
    elif output is None:
        click.echo(found.profile, nl=False)
    if found.failures:
        for line in found.failures[:-1]:
            click.echo(f"error: {line}", err=True)
        raise KernelError(found.failures[-1])


def _progress(wanted: bool) -> Callable[[str], None]:
    """Lines on standard error: asked for, or for somebody who waits at a terminal."""
    shown = wanted or sys.stderr.isatty()
    return (lambda line: click.echo(line, err=True)) if shown else (lambda _: None)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"--fail-over {text}: give a share such as 0.1 or 10%")
    return value
