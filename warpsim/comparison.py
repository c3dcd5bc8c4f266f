"""Prediction and hardware side by side: one row a metric with its error and a verdict against its tolerance.

`compare` takes two Results. Counters that follow from the program (requests, sectors, executed instructions) must be
equal; those of a pipeline stage must be equal for a warp that runs alone and are a lower bound under load; the others
have a tolerance in `TOLERANCES`. A required metric that one side lacks is a failure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.errors import InputError, UnsupportedError, WarpsimError
from warpsim.metrics import METRICS, REQUIRED, Metric

if TYPE_CHECKING:
    from rich.console import RenderableType

    from warpsim.counters import Launch as Profiled
    from warpsim.launch import Launch
    from warpsim.result import Result
    from warpsim.scenario import Scenario

__all__ = [
    "TOLERANCES", "Comparison", "Row", "Tolerance", "compare", "compare_scenarios", "document", "failures", "render",
    "compare_outputs", "report_result", "summarize", "text",
]  # fmt: skip

TIME = "gpu__time_duration.sum"
L1_HIT = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
L2_HIT = "lts__t_sector_srcunit_tex_hit_rate.pct"
_HITS = {
    L1_HIT: tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_{x}.sum" for x in ("hit", "miss")),
    L2_HIT: tuple(f"lts__t_sectors_srcunit_tex_lookup_{x}.sum" for x in ("hit", "miss")),
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed difference: a share of the measured value, or `floor` in the metric's unit where that is more."""

    share: float
    floor: float = 0.0
    points: bool = False  # percentages: `floor` points, no share


TOLERANCES: dict[str, Tolerance] = {
    TIME: Tolerance(0.10, 500),
    "sm__cycles_elapsed.max": Tolerance(0.10, 1000),
    L1_HIT: Tolerance(0, 2, points=True),
    L2_HIT: Tolerance(0, 2, points=True),
    "sm__warps_active.avg.pct_of_peak_sustained_active": Tolerance(0, 5, points=True),
    "lts__t_requests_srcunit_tex.sum": Tolerance(0.02, 64),
    "lts__t_sectors_srcunit_tex_op_read.sum": Tolerance(0.02, 256),
    "lts__t_sectors_srcunit_tex_op_write.sum": Tolerance(0.02, 256),
    "lts__t_sectors.sum": Tolerance(0.05, 4096),
    "dram__sectors_read.sum": Tolerance(0.05, 2048),
    "dram__sectors_write.sum": Tolerance(0.10, 4096),
}
"""Tolerances of what is modelled, not counted; hits and misses are judged by their rates."""

_UNDER_LOAD = Tolerance(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: `error` is (predicted − measured) / measured, or points for percentages; None if undefined.

    `verdict`: ``equal``, ``within``, ``bound`` (below a counter that load raises, as it must be), ``off``, ``missing``
    or ``info`` (judged by another row).
    """

    metric: str
    unit: str
    predicted: float | None
    measured: float | None
    error: float | None
    tolerance: str
    verdict: str

    @property
    def good(self) -> bool:
        """Whether the row does not fail a check."""
        return self.verdict not in ("off", "missing")


@dataclass(frozen=True)
class Comparison:
    """All rows of one scenario."""

    scenario: str
    gpu: str
    params: Mapping[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    error: str = ""  # the scenario could not be compared

    def __getitem__(self, metric: str) -> Row:
        """The row of a metric."""
        return next(row for row in self.rows if row.metric == metric)

    @property
    def exact(self) -> bool:
        """Whether every count that must be equal is."""
        return not self.error and not any(r.verdict in ("off", "missing") for r in self.rows if r.tolerance == "equal")

    @property
    def missing(self) -> list[str]:
        """Required metrics that one side lacks."""
        return [row.metric for row in self.rows if row.verdict == "missing"]

    @property
    def passed(self) -> bool:
        """Whether every row is good."""
        return not self.error and all(row.good for row in self.rows)

    @property
    def time_error(self) -> float | None:
        """Signed relative error of the time."""
        return next((row.error for row in self.rows if row.metric == TIME), None)

    def to_dict(self) -> dict[str, Any]:
        """JSON object."""
        rows = [{name: getattr(row, name) for name in Row.__slots__} for row in self.rows]
        return {
            "scenario": self.scenario, "gpu": self.gpu, "params": dict(self.params), "passed": self.passed,
            "exact": self.exact, "missing": self.missing, "notes": list(self.notes), "error": self.error, "rows": rows,
        }  # fmt: skip


def compare(predicted: Result, measured: Result) -> Comparison:
    """Put two Results of the same launch side by side."""
    alone = _single_warp(measured.launch or predicted.launch)
    names = [n for n in METRICS if n in REQUIRED or n in predicted.metrics or n in measured.metrics]
    rows = [_row(METRICS[n], predicted.metrics.get(n), measured.metrics.get(n), alone, n in REQUIRED) for n in names]
    for name, (hit, miss) in _HITS.items():
        rates = [_rate(side.metrics.get(hit), side.metrics.get(miss)) for side in (predicted, measured)]
        if rates[0] is not None and rates[1] is not None:
            rows.append(_judge(name, "%", rates[0], rates[1], TOLERANCES[name]))
    notes = []
    if measured.recording.get("noisy"):
        notes.append("measured time and cycles come from passes that disagree by more than 5 %")
    if predicted.launch.get("registers") != measured.launch.get("registers") and measured.launch.get("registers"):
        before, after = predicted.launch.get("registers"), measured.launch["registers"]
        notes.append(f"other code: {before} registers predicted, {after} on the GPU")
    if str(measured.recording.get("counters", "")).startswith("none"):
        why = measured.recording["counters"].removeprefix("none: ")
        notes.append(f"no counters in the measurement ({why}); its time is by CUDA events")
    if predicted.coverage.get("ctas") != predicted.coverage.get("of"):
        notes.append(f"time extrapolated from {predicted.coverage.get('ctas')} of {predicted.coverage.get('of')} CTAs")
    return Comparison(
        predicted.scenario, measured.gpu, dict(measured.params or predicted.params), tuple(rows), tuple(notes)
    )


def _single_warp(launch: Mapping[str, Any]) -> bool:
    return bool(math.prod(launch.get("grid", (2,))) == 1 and math.prod(launch.get("block", (64,))) <= 32)


def _rate(hit: float | None, miss: float | None) -> float | None:
    return None if hit is None or miss is None or hit + miss == 0 else 100 * hit / (hit + miss)


def _row(metric: Metric, a: float | None, b: float | None, alone: bool, required: bool) -> Row:
    name, unit = metric.name, metric.unit
    if a is None or b is None:
        # an optional metric absent on one side is zero there: it is kept only where a kernel has such accesses
        if required:
            return Row(name, unit, a, b, None, "required", "missing")
        a, b = a or 0, b or 0
    if name in TOLERANCES:
        return _judge(name, unit, a, b, TOLERANCES[name])
    if any(name in pair for pair in _HITS.values()) or metric.agreement == "tolerance":
        return Row(name, unit, a, b, _relative(a, b), "by its rate", "info")
    if metric.agreement == "isolated" and not alone:
        verdict = "equal" if a == b else "bound" if a <= b * 1.001 else "off"
        return Row(name, unit, a, b, _relative(a, b), "at most", verdict)
    return Row(name, unit, a, b, _relative(a, b), "equal", "equal" if a == b else "off")


def _judge(name: str, unit: str, a: float, b: float, tolerance: Tolerance) -> Row:
    difference = abs(a - b)
    if tolerance.points:
        return Row(
            name,
            unit,
            a,
            b,
            a - b,
            f"±{tolerance.floor:g} points",
            "within" if difference <= tolerance.floor else "off",
        )
    allowed = max(tolerance.share * abs(b), tolerance.floor)
    shown = f"±{100 * tolerance.share:g} %"
    return Row(
        name, unit, a, b, _relative(a, b), shown, "equal" if a == b else "within" if difference <= allowed else "off"
    )


def _relative(a: float, b: float) -> float | None:
    return 0.0 if a == b else None if b == 0 else (a - b) / b


def compare_scenarios(
    scenarios: Sequence[Scenario | str] | None = None,
    *,
    recorded: bool = False,
    ncu: str | Path | None = None,
    gpu: str | None = None,
    params: Mapping[str, Any] | None = None,
    exact: bool | None = None,
    root: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Comparison]:
    """Compare scenarios (all shipped ones by default) with a GPU that is here, with recordings, or with a report.

    With none of `recorded` and `ncu`: a replay where there is a GPU, else the recordings. The prediction is made for
    the GPU measured (`gpu` may name another profile) and at the buffers' measured addresses.
    """
    from warpsim.recordings import recordable
    from warpsim.scenario import load

    say = say or (lambda _: None)
    every = not scenarios
    loaded = [load(s) if isinstance(s, str) else s for s in (scenarios or recordable())]
    if ncu is not None:
        if len(loaded) != 1 or every:
            raise InputError(f"--ncu compares one scenario with a report, {'all' if every else len(loaded)} given")
        return [_against_report(loaded[0], Path(ncu), gpu, params, exact)]
    if not recorded and not _gpu_here():
        say("no GPU here: comparing with recordings")
        recorded = True
    if recorded:
        return _against_recordings(loaded, gpu, params, exact, root, every, say)
    return _against_gpu(loaded, gpu, params, exact, say)


def _gpu_here() -> bool:
    from warpsim.replayer import require_gpu

    try:
        require_gpu()
    except UnsupportedError:
        return False
    return True


def _against_recordings(
    loaded: Sequence[Scenario], gpu: str | None, params: Mapping[str, Any] | None, exact: bool | None,
    root: Path | None, every: bool, say: Callable[[str], None],
) -> list[Comparison]:  # fmt: skip
    from warpsim.gpu import load_gpu
    from warpsim.recordings import find, stale

    found = []
    for scenario in loaded:
        launch = scenario.bind(params)
        name = load_gpu(gpu or launch.gpu).name
        measured = find(launch, name, root, default=scenario.params)
        if measured is None:
            if every:
                say(f"{scenario.name}: not recorded on {name}")
                continue
            raise InputError(
                f"{scenario.name}: no recording on {name} with these parameters; "
                f"`warpsim record {scenario.name}` makes one on a GPU"
            )
        comparison = _predict_and_compare(scenario, measured, name, params, exact)
        if stale(measured, launch):
            date = measured.recording.get("date")
            why = (
                f"the recording of {date} is stale: scenario or kernel changed since; `warpsim record {scenario.name}`"
            )
            comparison = Comparison(
                comparison.scenario, name, comparison.params, comparison.rows, (*comparison.notes, why), why
            )
        found.append(comparison)
        say(f"{scenario.name}: {_short(comparison)}")
    return found


def _against_gpu(
    loaded: Sequence[Scenario],
    gpu: str | None,
    params: Mapping[str, Any] | None,
    exact: bool | None,
    say: Callable[[str], None],
) -> list[Comparison]:
    from warpsim.recordings import measure

    launches = [s.bind(params) for s in loaded]
    found = []
    for scenario, measured in zip(loaded, measure(launches, say=say), strict=False):
        if isinstance(measured, WarpsimError):
            found.append(Comparison(scenario.name, gpu or "", dict(params or {}), (), (), str(measured)))
        else:
            found.append(_predict_and_compare(scenario, measured, gpu or measured.gpu, params, exact))
        say(f"{scenario.name}: {_short(found[-1])}")
    return found


def _against_report(
    scenario: Scenario, path: Path, gpu: str | None, params: Mapping[str, Any] | None, exact: bool | None
) -> Comparison:
    launch = scenario.bind(params)
    measured = report_result(launch, path, gpu or launch.gpu)
    return _predict_and_compare(scenario, measured, gpu or launch.gpu, params, exact)


def report_result(launch: Launch, path: Path, gpu: str) -> Result:
    """The launch of that kernel, grid and block in a user's Nsight Compute report, as a measured Result."""
    from warpsim.counters import read_report
    from warpsim.derivation import gpu_facts
    from warpsim.gpu import load_gpu
    from warpsim.metrics import OPTIONAL
    from warpsim.result import build_result

    stem = launch.entry.partition("<")[0].split("::")[-1].strip()
    profiled = read_report(path)
    named = [p for p in profiled if stem in p.kernel] or [p for p in profiled if p.kernel in launch.entry]
    if not named:
        raise InputError(
            f"{path}: no launch of kernel '{stem}'; it has {', '.join(sorted({p.kernel for p in profiled})[:5])}"
        )
    same = [p for p in named if p.grid == launch.grid and p.block == launch.block]
    if not same:
        shapes = ", ".join(f"{p.grid} x {p.block}" for p in named[:3])
        raise InputError(
            f"{path}: '{stem}' ran there with grid x block {shapes}, "
            f"the scenario has {launch.grid} x {launch.block}: use --set"
        )
    chosen: Profiled = same[0]
    metrics = {
        n: v
        for n, v in chosen.metrics.items()
        if n in METRICS and (v or n not in OPTIONAL) and not n.endswith((".pct", ".ratio"))
    }
    metrics |= {n: v for n, v in chosen.metrics.items() if n in REQUIRED}
    for kind in ("read", "write"):  # some reports have bytes instead of sectors
        sectors, size = f"dram__sectors_{kind}.sum", chosen.metrics.get(f"dram__bytes_{kind}.sum")
        if sectors not in metrics and size is not None:
            metrics[sectors] = round(size / 32)
    metrics = {n: v for n, v in metrics.items() if n in REQUIRED or (n in METRICS and not METRICS[n].derived)}
    return build_result(
        scenario=launch.name, kernel=launch.entry, source="measured", gpu=gpu_facts(load_gpu(gpu)),
        launch={
            "grid": list(launch.grid), "block": list(launch.block), "registers": 0, "shared": launch.dynamic_shared,
            "ctas_per_sm": 0,
        },
        metrics=metrics, extra={}, params=launch.params, recording={"counters": f"report {path.name}"},
    )  # fmt: skip


def _predict_and_compare(
    scenario: Scenario, measured: Result, gpu: str, params: Mapping[str, Any] | None, exact: bool | None
) -> Comparison:
    from warpsim.simulator import simulate_bound

    addresses = {str(b["name"]): int(b["address"]) for b in measured.buffers} or None
    try:
        launch = scenario.bind(params, addresses=addresses)
        predicted = simulate_bound(launch, gpu=gpu, exact=exact)
    except WarpsimError as error:
        return Comparison(scenario.name, gpu, dict(params or {}), (), (), str(error))
    comparison = compare(predicted, measured)
    known = not predicted.derived.get("trust", {}).get("unknowns")
    rows = compare_outputs(launch, measured.recording.get("samples", {})) if known else []
    return replace(comparison, rows=(*comparison.rows, *rows))


def compare_outputs(launch: Launch, samples: Mapping[str, Any]) -> list[Row]:
    """Sampled elements after the launch, of buffers whose contents the simulator has: integers equal, floats to 1e-4.

    Opaque buffers have no contents to compare. A row says how many of the samples agree.
    """
    rows = []
    for buffer in launch.allocations:
        taken = samples.get(buffer.name)
        if taken is None or buffer.data is None:
            continue
        lanes = buffer.element.lanes
        theirs = np.frombuffer(bytes.fromhex("".join(taken["hex"])), buffer.element.storage)
        index = np.asarray(taken["index"])[:, None] * lanes + np.arange(lanes)
        ours = np.asarray(buffer.data)[index.ravel()]
        if ours.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                same = np.isclose(ours.astype(float), theirs.astype(float), rtol=1e-4, atol=1e-30, equal_nan=True)
        else:
            same = ours == theirs
        agree, of = int(same.sum()), int(same.size)
        rows.append(
            Row(
                f"output {buffer.name}",
                "elements",
                agree,
                of,
                _relative(agree, of),
                "equal",
                "equal" if agree == of else "off",
            )
        )
    return rows


def _short(comparison: Comparison) -> str:
    if comparison.error:
        return comparison.error
    error = comparison.time_error
    time = "no time" if error is None else f"time {100 * error:+.1f} %"
    off = [row.metric for row in comparison.rows if not row.good]
    return time + (", all within tolerance" if not off else f", {len(off)} off: {', '.join(off[:3])}")


def summarize(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Figures over many scenarios: exact counts right, mean absolute errors of time, hit rates and DRAM bytes."""
    done = [c for c in comparisons if not c.error]
    times = [abs(c.time_error) for c in done if c.time_error is not None]
    counts = [row for c in done for row in c.rows if row.tolerance == "equal"]
    rates = {
        name: [abs(r.error) for c in done for r in c.rows if r.metric == name and r.error is not None] for name in _HITS
    }
    dram = []
    for c in done:
        sides = [
            sum(v for r in c.rows if r.metric.startswith("dram__sectors_") and (v := getattr(r, side)) is not None)
            for side in ("predicted", "measured")
        ]
        if sides[1] * 32 >= 1 << 20:  # below a megabyte the counter is mostly other traffic
            dram.append(abs(sides[0] - sides[1]) / sides[1])
    worst = max((c for c in done if c.time_error is not None), key=lambda c: abs(c.time_error or 0), default=None)
    return {
        "scenarios": len(comparisons),
        "compared": len(done),
        "passed": sum(c.passed for c in comparisons),
        "counts_equal": sum(r.verdict == "equal" for r in counts),
        "counts": len(counts),
        "scenarios_exact": sum(c.exact for c in comparisons),
        "missing": sum(len(c.missing) for c in comparisons),
        "time_error_mean": _mean(times),
        "time_error_median": statistics.median(times) if times else None,
        "time_error_worst": {"scenario": worst.scenario, "error": worst.time_error} if worst else None,
        "l1_hit_points_mean": _mean(rates[L1_HIT]),
        "l2_hit_points_mean": _mean(rates[L2_HIT]),
        "dram_bytes_error_mean": _mean(dram),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def failures(comparisons: Sequence[Comparison], over: float | None = None) -> list[str]:
    """Why a check fails, one line each: rows out of tolerance; with `over`, times off by more than that share."""
    lines = []
    for c in comparisons:
        if c.error:
            lines.append(f"{c.scenario}: {c.error}")
            continue
        for row in c.rows:
            timed = row.metric in (TIME, "sm__cycles_elapsed.max")
            bad = not row.good
            if over is not None and timed and row.verdict != "missing":
                bad = row.error is None or abs(row.error) > over
            if bad:
                lines.append(
                    f"{c.scenario}: {row.metric} {_value(row.predicted)} predicted, {_value(row.measured)} measured "
                    f"({row.verdict}, {row.tolerance})"
                )
    return lines


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Everything as a JSON object."""
    return {"schema": 1, "summary": summarize(comparisons), "comparisons": [c.to_dict() for c in comparisons]}


def _value(value: float | None) -> str:
    return (
        "–" if value is None else f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.2f}"
    )


def _error(row: Row) -> str:
    if row.error is None:
        return "–"
    return (
        f"{row.error:+.1f} pt" if "points" in row.tolerance else "0" if row.error == 0 else f"{100 * row.error:+.2f} %"
    )


def render(comparisons: Sequence[Comparison], *, verbose: bool = False) -> RenderableType:
    """Tables for a terminal: one a scenario (rows that are zero on both sides only if `verbose`), then the summary."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for c in comparisons:
        title = f"{c.scenario} on {c.gpu}" + "".join(f" {k}={v}" for k, v in c.params.items())
        if c.error and not c.rows:
            parts.append(Text(f"{title}: {c.error}", style="red"))
            continue
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim"
        )
        for name in ("metric", "predicted", "measured", "error", "tolerance", "verdict"):
            table.add_column(
                name,
                justify="left" if name in ("metric", "tolerance", "verdict") else "right",
                no_wrap=name != "metric",
                overflow="fold",
            )
        for row in c.rows:
            if row.predicted == row.measured == 0 and not verbose:
                continue
            style = "" if row.good else "red"
            table.add_row(
                row.metric,
                _value(row.predicted),
                _value(row.measured),
                _error(row),
                row.tolerance,
                row.verdict,
                style=style,
            )
        parts.append(table)
        parts += [Text(f"note: {note}", style="yellow") for note in c.notes]
        parts.append(Text(""))
    if len(comparisons) > 1:
        parts.append(_summary_table(comparisons))
    return Group(*parts)


def _summary_table(comparisons: Sequence[Comparison]) -> RenderableType:
    from rich.table import Table

    s = summarize(comparisons)
    table = Table(
        title="Summary", title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
    )
    table.add_column()
    table.add_column(justify="right")
    table.add_row("scenarios compared", f"{s['compared']} of {s['scenarios']}")
    table.add_row("scenarios within every tolerance", str(s["passed"]))
    table.add_row("counts that must be equal and are", f"{s['counts_equal']} of {s['counts']}")
    if s["missing"]:
        table.add_row("required metrics missing", str(s["missing"]))
    for key, label, scale, unit in (
        ("time_error_mean", "time, mean absolute error", 100, "%"),
        ("time_error_median", "time, median absolute error", 100, "%"),
        ("l1_hit_points_mean", "L1 hit rate, mean absolute error", 1, "points"),
        ("l2_hit_points_mean", "L2 hit rate, mean absolute error", 1, "points"),
        ("dram_bytes_error_mean", "DRAM bytes, mean absolute error", 100, "%"),
    ):  # fmt: skip
        if s[key] is not None:
            table.add_row(label, f"{scale * s[key]:.1f} {unit}")
    if s["time_error_worst"]:
        table.add_row(
            f"largest error of time: {s['time_error_worst']['scenario']}",
            f"{100 * s['time_error_worst']['error']:+.1f} %",
        )
    return table


def text(comparisons: Sequence[Comparison], *, verbose: bool = False, width: int = 140) -> str:
    """The tables as plain text."""
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(comparisons, verbose=verbose))
    return capture.get()
