"""The `warpsim` command. Everything heavy is imported inside the command that needs it, so that `--help` is quick."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpsim import __version__, charts, crosscheck, hunting
from warpsim.errors import InputError, KernelError, WarpsimError
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

if TYPE_CHECKING:
    from warpsim.comparison import Comparison
    from warpsim.gpu import Gpu, Occupancy
    from warpsim.machine.build import MachineResult, Watch
    from warpsim.result import Result
    from warpsim.scenario import Scenario

__all__ = ["command", "main"]

SOURCES = (".cu", ".cuh", ".cpp", ".cc")


class Commands(click.Group):
    """Commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="warpsim")
@click.option("--debug", is_flag=True, help="Show a Python traceback when warpsim itself fails.")
def command(debug: bool) -> None:
    """What a CUDA kernel's memory accesses cost on a GPU, simulated offline and checked on real ones.

    \b
    warpsim run transpose_tiled            a shipped scenario
    warpsim run my.toml --gpu a100-80gb    a scenario file on another GPU
    warpsim run my.cu --entry f --grid 4096 --block 256 --arg in=float:1Mi --arg n=1048576
    warpsim access '32*lane' --space shared    one warp instruction, drawn

    Exit status: 0; 1 a check failed or the kernel is at fault; 2 bad input; 3 not supported, no GPU or missing extra.
    """
    del debug  # read by `main`, before anything can fail


def _launch_words(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--define", "defines", metavar="NAME[=V]", multiple=True, help="KERNEL.cu: a macro; repeatable."),
        click.option("--shared", metavar="BYTES", help="KERNEL.cu: dynamic shared memory of a block."),
        click.option(
            "--arg", "args", metavar="NAME=ARG", multiple=True,
            help="KERNEL.cu: a parameter, in order: a number, or TYPE:COUNT[:FILL] for a buffer; repeatable.",
        ),
        click.option("--block", metavar="N[,N[,N]]", help="KERNEL.cu: threads of a block."),
        click.option("--grid", metavar="N[,N[,N]]", help="KERNEL.cu: blocks of the grid."),
        click.option("--entry", metavar="E", help="KERNEL.cu: the kernel, as C++ writes it: copy<float>."),
    ):  # fmt: skip
        function = option(function)
    return function


@command.command()
@click.argument("target", metavar="SCENARIO|NAME|KERNEL.cu")
@gpu_option
@set_option
@format_option("text", "json", "html")
@output_option
@click.option("--trace", metavar="FILE", help="Write the run over time (Chrome trace, JSON) for ui.perfetto.dev.")
@click.option("--trace-sms", metavar="LIST", help="SMs in the trace: all, 0-3 (the default) or 0,5.")
@click.option("--trace-window", metavar="START:END", help="Microseconds in the trace; default: the whole run.")
@exact_option
@click.option(
    "--gains/--no-gains",
    default=None,
    help="Simulate again without what each finding names. Default: where it is quick; of a report, some seconds.",
)
@click.option(
    "--fail-on", metavar="RULE[:LIMIT]", multiple=True,
    help="Exit with status 1 when a finding of RULE is worse than LIMIT; `warpsim list rules` names them; repeatable.",
)  # fmt: skip
@_launch_words
def run(
    target: str, gpu: str | None, assignments: Sequence[str], form: str, output: str | None, trace: str | None,
    trace_sms: str | None, trace_window: str | None, exact: bool | None, gains: bool | None, fail_on: Sequence[str],
    **words: Any,
) -> None:  # fmt: skip
    """Simulate a scenario file, a shipped scenario or a CUDA source."""
    from warpsim.findings import check, parse

    for wanted in fail_on:
        parse(wanted)
    scenario = _scenario(target, words)
    for option, given in (("--trace-sms", trace_sms), ("--trace-window", trace_window)):
        if trace is None and given is not None:
            raise InputError(f"{option} goes with --trace FILE")
    tracer = None if trace is None else _Tracer(trace, trace_sms or "0-3", trace_window, gpu or scenario.gpu)
    result = _simulate(scenario, gpu, settings(assignments), exact, tracer)
    if tracer is not None:
        tracer.write(result)
    if gains is not False:
        from warpsim.counterfactual import BUDGET, QUICK, with_gains

        budget = None if gains else BUDGET if form == "html" else QUICK
        result = with_gains(scenario, result, gpu=gpu, exact=exact, budget=budget)
    _show(result, form, output, _recorded(scenario, result) if form == "html" else None)
    figures = (result.metrics, result.derived, result.launch, result.lines)
    violations = [text for wanted in fail_on for text in check(*figures, wanted)]
    for text in violations[:-1]:
        click.echo(f"error: {text}", err=True)
    if violations:
        raise KernelError(violations[-1])


@command.command()
@click.argument("kernel", metavar="KERNEL.cu")
@output_option
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@_launch_words
def init(kernel: str, output: str | None, force: bool, **words: Any) -> None:
    """Write a scenario for a CUDA source, to edit.

    It names the parameters that the source has and guesses sizes; what --grid, --arg ... give is taken over.
    """
    from warpsim.authoring import init_text

    text = init_text(kernel, **_given(words))
    if output is not None and Path(output).is_file() and not force:
        raise InputError(f"{output} exists; --force overwrites it")
    write(text, output)


@command.command()
@click.argument("expression", metavar="EXPR")
@click.option("--width", type=int, default=4, show_default=True, help="Bytes a lane: 1, 2, 4, 8 or 16.")
@click.option("--op", default="load", show_default=True, help="load, store, atomic, red, ldmatrix_x1, _x2 or _x4.")
@click.option("--space", type=click.Choice(["global", "shared"]), default="global", show_default=True)
@click.option(
    "--active", metavar="MASK", help="Active lanes: a mask (0xffff), ranges (0-15,20) or a condition on lane."
)
@click.option("--svg", metavar="FILE", help="Also draw into FILE.")
@gpu_option
@format_option("text", "json")
@output_option
def access(
    expression: str, width: int, op: str, space: str, active: str | None, svg: str | None, gpu: str | None,
    form: str, output: str | None,
) -> None:  # fmt: skip
    """Draw one warp instruction and count what it costs.

    EXPR gives each lane's element index, in C syntax over `lane`; or it is a list of byte offsets.
    """
    from warpsim import drawing

    if svg is not None and Path(svg).suffix.lower() != ".svg":
        raise InputError(f"--svg {svg}: drawings are written as .svg")
    picture = drawing.pattern(expression, width=width, op=op, space=space, active=active, gpu=gpu or "h200")
    if svg is not None:
        write(drawing.svg(picture), svg)
    if form == "json":
        write(json.dumps(drawing.figures(picture), indent=1) + "\n", output)
    else:
        colour = output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        write(drawing.draw(picture, colour=colour), output)


@command.command("list")
@click.argument("what", type=click.Choice(["all", "scenarios", "faults", "kernels", "gpus", "rules"]), default="all")
@format_option("text", "json")
def list_command(what: str, form: str) -> None:
    """List scenarios, kernels, GPU profiles and rules."""
    from warpsim.catalogue import catalogue, catalogue_text

    table = catalogue(what)
    click.echo(json.dumps(table, indent=1) if form == "json" else catalogue_text(table), nl=form == "json")


@command.command()
@click.argument("names", metavar="[METRIC]...", nargs=-1)
@format_option("text", "json")
def explain(names: Sequence[str], form: str) -> None:
    """Say what a metric counts; without METRIC list all.

    Names are those of Nsight Compute or nvprof.
    """
    from warpsim import metrics

    if form == "json":
        import dataclasses

        chosen = [metrics.find(n) for n in names] or list(metrics.METRICS.values())
        click.echo(json.dumps([dataclasses.asdict(m) for m in chosen], indent=1))
    elif names:
        click.echo("\n\n".join(metrics.explain(name) for name in names))
    else:
        for title, group in (
            ("always in a result", metrics.REQUIRED),
            ("where the kernel has such accesses", metrics.OPTIONAL),
            ("follow from the others", metrics.RATIOS),
        ):
            click.echo(f"{title}:")
            for metric in group.values():
                click.echo(f"  {metric.name}\n      {metric.meaning} [{metric.unit}]")


@command.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@gpu_option
@set_option
@exact_option
@click.option("--all", "everything", is_flag=True, help="Show what is equal, too.")
@format_option("text", "json")
@output_option
def diff(
    a: str, b: str, gpu: str | None, assignments: Sequence[str], exact: bool | None, everything: bool, form: str,
    output: str | None,
) -> None:  # fmt: skip
    """Say what differs between two runs, and why.

    A and B are scenario files, names of shipped scenarios, or results written by `run --format json`.
    """
    from warpsim.difference import difference, reasons

    params = settings(assignments)
    if all(target.lower().endswith(".json") for target in (a, b)):
        for option, given in (("--gpu", gpu), ("--set", params), ("--exact/--sample", exact is not None)):
            if given:
                raise InputError(f"{option}: goes with a scenario; {a} and {b} are results")
    left, right = (_result(target, gpu, params, exact) for target in (a, b))
    rows = difference(left, right, everything)
    if form == "json":
        document = {
            "a": left.scenario, "b": right.scenario, "reasons": reasons(left, right),
            "rows": [{"name": n, "a": x, "b": y, "ratio": q} for n, x, y, q in rows],
        }  # fmt: skip
        write(json.dumps(document, indent=1) + "\n", output)
        return
    from warpsim.text import make_table, number

    sources = [f", {run.source}" if left.source != right.source else "" for run in (left, right)]
    table = make_table("", f"A: {left.scenario}{sources[0]}", f"B: {right.scenario}{sources[1]}", "B/A")
    for name, x, y, quotient in rows:
        table.add_row(name, _cell(name, x), _cell(name, y), "" if quotient is None else number(quotient, 4))
    print_parts([*reasons(left, right), "", table if rows else "no difference"], output)


@command.command()
@click.argument("target", metavar="SCENARIO|NAME")
@click.option(
    "--set", "assignments", metavar="K=VALUES", multiple=True, required=True,
    help="Values of a parameter: 1..64, 1..64:2 (step), 1..64:*2 (factor) or 1,2,8; repeatable: all combinations.",
)  # fmt: skip
@gpu_option
@exact_option
@click.option("--metric", "wanted", metavar="METRIC", multiple=True, help="One more column of the table; repeatable.")
@click.option("--plot", "chart", metavar="FILE", help="Draw time, or the first --metric, too: .svg, or .png.")
@click.option("--jobs", type=click.IntRange(min=0), default=0, help="Processes; 0, the default, means one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Work on this Dask cluster (tcp://host:8786).")
@format_option("text", "csv", "json")
@output_option
def sweep(
    target: str, assignments: Sequence[str], gpu: str | None, exact: bool | None, wanted: Sequence[str], jobs: int,
    scheduler: str | None, form: str, output: str | None, chart: str | None,
) -> None:  # fmt: skip
    """Run a scenario over a grid of parameter values, on all cores.

    warpsim sweep stride --set stride=1..64:*2 --plot stride.svg
    """
    from warpsim import metrics
    from warpsim import sweep as sweeping
    from warpsim.svg import check_target

    if chart is not None:
        check_target(chart)
    columns = [metrics.find(name).name for name in wanted]
    axes = {}
    for text in assignments:
        name, equals, given = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r}: write NAME=VALUES")
        axes[name.strip()] = sweeping.values(given)
    points = sweeping.grid(axes)
    _scenario(target, {})
    results = list(sweeping.sweep(Point(target, gpu, exact), points, jobs, scheduler))
    if chart is not None:
        sweeping.as_plot(results, points, *columns[:1]).save(chart)
    if form == "json":
        write(json.dumps([r.to_dict() for r in results], indent=1) + "\n", output)
    elif form == "csv":
        write(sweeping.as_csv(results), output)
    else:
        print_parts([sweeping.as_table(results, points, columns)], output)


class _Tracer:
    """Writes the trace of a run from what the machine saw."""

    def __init__(self, path: str, sms: str, window: str | None, gpu: str) -> None:
        from warpsim.gpu import load_gpu
        from warpsim.timeline import sms_of, window_of

        self.path = path
        self.sms = sms_of(sms, load_gpu(gpu).sm.count)
        self.window = window_of(window or "0:")
        self.machine: MachineResult | None = None

    def __call__(self, gpu: Gpu, fit: Occupancy, machine: MachineResult) -> None:
        self.machine = machine

    def log(self) -> Watch:
        """What the machine has to note."""
        from warpsim.machine.build import Watch
        from warpsim.timeline import REQUESTS

        return Watch(self.sms, *self.window, requests=REQUESTS, warps=REQUESTS)

    def write(self, result: Result) -> None:
        """Write the file; where requests did not fit, say so."""
        from warpsim.timeline import chrome_trace, full

        machine = self.machine
        if machine is None:
            return
        log = machine.log.tolist()
        text = chrome_trace(
            result, machine.spans.tolist(), machine.series, log, slots=machine.slots, sms=self.sms,
            window_us=self.window,
        )  # fmt: skip
        write(text + "\n", self.path)
        if message := full(log):
            click.echo(f"note: {self.path}: {message}", err=True)


class Point:
    """Simulates one point of a sweep; picklable."""

    def __init__(self, target: str, gpu: str | None, exact: bool | None) -> None:
        self.target, self.gpu, self.exact = target, gpu, exact

    def __call__(self, params: dict[str, int | float]) -> Result:
        return _simulate(_scenario(self.target, {}), self.gpu, params, self.exact, None)


def _scenario(target: str, words: dict[str, Any]) -> Scenario:
    given = _given(words)
    if Path(target).suffix.lower() in SOURCES:
        from warpsim.authoring import scenario_from_words

        return scenario_from_words(target, **given)
    if given:
        option = {"args": "arg", "defines": "define"}.get(next(iter(given)), next(iter(given)))
        raise InputError(f"--{option} goes with a CUDA source (.cu); '{target}' is a scenario: use --set, or edit it")
    from warpsim.scenario import load

    return load(target)


def _given(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value not in (None, ())}


def _simulate(
    scenario: Scenario, gpu: str | None, params: dict[str, int | float], exact: bool | None, watch: _Tracer | None
) -> Result:
    from warpsim.simulator import simulate

    log = None if watch is None else watch.log()
    return simulate(scenario, gpu=gpu, params=params or None, exact=exact, watch=watch, log=log)


def _result(target: str, gpu: str | None, params: dict[str, int | float], exact: bool | None) -> Result:
    if target.lower().endswith(".json"):
        from warpsim.result import Result

        return Result.load(target)
    return _simulate(_scenario(target, {}), gpu, params, exact, None)


def _show(result: Result, form: str, output: str | None, comparison: Comparison | None = None) -> None:
    if form == "json":
        write(result.to_json() + "\n", output)
    elif form == "html":
        from warpsim.report import html

        write(html(result, comparison), output)
    elif output is None and sys.stdout.isatty():
        from warpsim.text import make_console, render

        render(result, make_console())
    else:
        from warpsim.text import summary

        write(summary(result), output)


def _recorded(scenario: Scenario, result: Result) -> Comparison | None:
    """The result against the shipped recording of this launch, if there is one."""
    from warpsim import comparison, recordings

    launch = scenario.bind(result.params)
    measured = recordings.find(launch, result.gpu, default=scenario.params)
    return None if measured is None or recordings.stale(measured, launch) else comparison.compare(result, measured)


def _cell(name: str, value: Any) -> str:
    from warpsim.text import bandwidth, byte_count, duration

    if value is None:
        return "–"
    if name == "gpu__time_duration.sum":
        return duration(value)
    if name.endswith("pct_of_peak_sustained_active"):
        return f"{value:.4g}%"
    if name.startswith("bandwidth."):
        return bandwidth(value)
    if name.endswith((".bytes", "_bytes_per_sm")):
        return byte_count(value)
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)


for _command in (charts.plot, crosscheck.compare, crosscheck.record, crosscheck.calibrate, hunting.campaign):
    command.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; every failure is one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's: unused here, each costs 30 ms of spinning
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        status = command.main(words, prog_name="warpsim", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        place = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
        return _fail(error.format_message().rstrip(".") + place, 2)
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except WarpsimError as error:
        return _fail(str(error), error.exit_status)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        if error.errno == errno.EPIPE:
            return _closed_pipe()
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}", 2)
    except Exception as error:
        if "--debug" in words:
            raise
        return _fail(f"internal error, please report it: {type(error).__name__}: {error} (--debug shows where)", 70)


def _fail(message: str, status: int) -> int:
    click.echo("error: " + " ".join(message.split()), err=True)
    return status


def _closed_pipe() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
