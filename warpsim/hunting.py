"""The command that looks for disagreement: campaign."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from warpsim.errors import InputError, KernelError
from warpsim.options import format_option, gpu_option, output_option, print_parts, write

if TYPE_CHECKING:
    from warpsim.campaign import Progress, Report

__all__ = ["campaign"]


@click.command()
@click.argument("corpus", metavar="[FOLDER]", default="warpsim-corpus")
@click.option(
    "--patterns", type=click.IntRange(min=0), metavar="N", help="Single-warp patterns [20000; 50 a cell on a GPU]."
)
@click.option("--kernels", type=click.IntRange(min=0), metavar="N", help="Generated kernels [1000; 200 on a GPU].")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed draws other cases.")
@click.option("--on-gpu", is_flag=True, help="Compare with the counters of the GPU that is here.")
@click.option("--replay", "again", is_flag=True, help="Judge the failures in FOLDER again, nothing else.")
@click.option("--jobs", type=click.IntRange(min=0), default=0, help="Processes; 0, the default, means one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Work on this Dask cluster (tcp://host:8786).")
@click.option("--limit", type=float, metavar="SECONDS", help="Begin nothing new after so many seconds.")
@gpu_option
@format_option("text", "json")
@output_option
def campaign(
    corpus: str, patterns: int | None, kernels: int | None, seed: int, on_gpu: bool, again: bool, jobs: int,
    scheduler: str | None, limit: float | None, gpu: str | None, form: str, output: str | None,
) -> None:  # fmt: skip
    """Let Hypothesis look for patterns and kernels that break a law.

    Failures are shrunk and kept in FOLDER as scenarios with the figures. The same command goes on with a campaign that
    was stopped. Exit status 1 if anything disagreed.
    """
    from warpsim import campaign as campaigns

    if on_gpu and (scheduler or again):
        raise InputError(f"--on-gpu and {'--scheduler' if scheduler else '--replay'} do not go together")
    with _progress() as watch:
        report: Report
        if again:
            report = campaigns.replay(corpus, gpu=gpu, watch=watch)
        elif on_gpu:
            from warpsim.campaign.hardware import run_on_gpu

            report = run_on_gpu(
                corpus, patterns=patterns, kernels=200 if kernels is None else kernels,
                gpu=gpu or "h200", seed=seed, limit=limit, watch=watch,
            )  # fmt: skip
        else:
            report = campaigns.run(
                corpus, patterns=20_000 if patterns is None else patterns,
                kernels=1_000 if kernels is None else kernels, gpu=gpu or "h200", seed=seed, jobs=jobs,
                scheduler=scheduler, limit=limit, watch=watch,
            )  # fmt: skip
    if form == "json":
        write(json.dumps(report.to_dict(), indent=1) + "\n", output)
    else:
        print_parts(report.parts(), output)
    if not report.ok:
        count = len(report.failures)
        raise KernelError(f"{sum(report.failed.values())} checks disagreed, {count} failures are kept in '{corpus}'")


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """A bar on a terminal: chunks, cases a second, failures, values of features met."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: Sequence[Any] = (
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:,.0f} cases/s"),
        TextColumn("{task.fields[failures]} failures"), TimeRemainingColumn(), TextColumn("{task.fields[coverage]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("campaign", total=None, rate=0.0, failures=0, coverage="")

        def watch(now: Any) -> None:
            rate = now.examples / now.seconds if now.seconds else 0.0
            shown = {"rate": rate, "failures": now.failures, "coverage": now.coverage}
            bar.update(task, completed=now.done, total=now.of, **shown)

        yield watch
