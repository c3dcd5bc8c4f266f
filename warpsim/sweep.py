"""A scenario over a grid of parameter values, on all local cores, results in order."""

from __future__ import annotations

import csv
import gc
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from warpsim.errors import InputError, WarpsimError
from warpsim.expressions import evaluate
from warpsim.result import Result
from warpsim.workers import in_order

if TYPE_CHECKING:
    from warpsim.svg import Drawing

__all__ = ["COLUMNS", "as_csv", "as_plot", "as_table", "figure", "grid", "sweep", "values"]

Number = int | float
LIMIT = 100_000
TIME = "gpu__time_duration.sum"

COLUMNS = {
    "time": "metrics.gpu__time_duration.sum",
    "effective": "derived.bandwidth.effective",
    "of peak": "derived.bandwidth.effective_share_of_peak",
    "load sectors/req": "derived.global.load.sectors_per_request",
    "shared ways": "derived.shared.load.ways",
    "L1 hit": "derived.global.load.hit_rate",
    "L2 hit": "derived.l2.hit_rate",
    "DRAM bytes": "derived.dram.bytes",
    "limiter": "derived.limiter.name",
}
"""Column of the text table -> where its figure is."""


def values(text: str) -> list[Number]:
    """The values that ``1..64``, ``1..64:2`` (step), ``1..64:*2`` (factor), ``1,2,8`` or a mixture stand for."""
    found: list[Number] = []
    for piece in text.split(","):
        low, dots, rest = piece.partition("..")
        if not dots:
            found.append(_number(piece, text))
            continue
        high, colon, step = rest.partition(":")
        first, last = _number(low, text), _number(high, text)
        times = step.startswith("*")
        by = _number(step.removeprefix("*"), text) if colon else 1
        if by <= (1 if times else 0) or (times and first <= 0):
            raise InputError(f"range {text!r}: the step must move up; write 1..64, 1..64:2 (step) or 1..64:*2 (factor)")
        if last < first:
            raise InputError(f"range {text!r}: the end {last} lies below the start {first}")
        for index in itertools.count():
            value = first * by**index if times else first + by * index
            if value > last + (1e-9 if isinstance(value, float) else 0):
                break
            found.append(value)
            if len(found) > LIMIT:
                raise InputError(f"range {text!r} has more than {LIMIT:,} values")
    return found


def grid(axes: Mapping[str, Sequence[Number]]) -> list[dict[str, Number]]:
    """All combinations, the last axis fastest."""
    size = 1
    for axis in axes.values():
        size *= len(axis)
    if size > LIMIT:
        raise InputError(f"the sweep has {size:,} points, at most {LIMIT:,} are allowed")
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def sweep(
    run: Callable[[dict[str, Number]], Result],
    points: Sequence[dict[str, Number]],
    jobs: int = 0,
    scheduler: str | None = None,
) -> Iterator[Result]:
    """Results of `run(point)` in the order of the points, on `jobs` processes (0: a core each) or a Dask cluster.

    More than one process needs a picklable `run`.
    """
    yield from in_order(partial(_named, run), points, jobs=jobs, scheduler=scheduler)


def as_csv(results: Sequence[Result]) -> str:
    """One line a result, everything flat: scenario, parameters, metrics, derived figures."""
    rows = [result.flat() for result in results]
    names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _named(run: Callable[[dict[str, Number]], Result], point: dict[str, Number]) -> Result:
    try:
        return run(point)
    except WarpsimError as error:
        where = ", ".join(f"{name}={value}" for name, value in point.items())
        raise type(error)(f"at {where}: {error}" if where else str(error)) from None
    finally:
        gc.collect()  # the state of a launch lies in cycles: it would stay while the next point makes its own


def as_table(results: Sequence[Result], points: Sequence[dict[str, Number]], columns: Sequence[str] = ()) -> Any:
    """A rich table: the parameters, the usual figures where a result has them, and the metrics `columns`."""
    from warpsim import text

    shape: dict[str, Callable[[Any], str]] = {
        "time": text.duration, "effective": text.bandwidth, "of peak": text.percent, "L1 hit": text.percent,
        "L2 hit": text.percent, "DRAM bytes": text.byte_count, "limiter": str,
    }  # fmt: skip
    used = {name: at for name, at in COLUMNS.items() if any(figure(r, at) is not None for r in results)}
    table = text.make_table(*points[0], *used, *columns)
    for point, result in zip(points, results, strict=True):
        cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in point.values()]
        for name, at in used.items():
            value = figure(result, at)
            cells.append("–" if value is None else shape.get(name, text.number)(value))
        table.add_row(*cells, *(text.number(result.metrics.get(name), 6) for name in columns))
    return table


def as_plot(results: Sequence[Result], points: Sequence[dict[str, Number]], metric: str = TIME) -> Drawing:
    """A metric over the first parameter, a line for each combination of the others."""
    from warpsim import text
    from warpsim.plots import frame
    from warpsim.svg import Axis, Canvas, path_of

    across, *others = points[0]
    lines: dict[str, list[tuple[float, float]]] = {}
    for point, result in zip(points, results, strict=True):
        value = result.metrics.get(metric)
        if value is not None:
            name = ", ".join(f"{other} {point[other]:g}" for other in others)
            lines.setdefault(name, []).append((point[across], value))
    everything = [place for line in lines.values() for place in line]
    if not everything:
        raise InputError(f"nothing to plot: no point of the sweep has {metric}")
    low, high = min(x for x, _ in everything), max(x for x, _ in everything)
    top = max(y for _, y in everything)
    canvas = Canvas(920, 336)
    x = Axis(low, high if high > low else low + 1, 110, 880 if not others else 780)
    y = Axis(0, 1.08 * top or 1, 290, 26)
    written = text.duration if metric == TIME else text.count
    frame(canvas, x, y, [(v, f"{v:g}") for v in x.ticks(8)], [(v, written(v) if v else "0") for v in y.ticks()])
    canvas.text((x.start + x.end) / 2, y.start + 36, across, kind="soft")
    canvas.text(x.start, 15, metric, "start", "soft")
    for name, line in lines.items():
        places = [(x.at(a), y.at(b)) for a, b in line]
        canvas.path(path_of(places), "line")
        for (a, b), (i, j) in zip(line, places, strict=True):
            canvas.dot(i, j, "blue", f"{across} {a:g}{', ' if name else ''}{name}: {written(b)}")
        if name:
            canvas.text(places[-1][0] + 9, places[-1][1] + 4, name, "start", "soft")
    ends = (
        (f"{name}: " if name else "") + " to ".join(f"{written(b)} at {a:g}" for a, b in (line[0], line[-1]))
        for name, line in lines.items()
    )
    return canvas.drawing(f"{metric} of {results[0].scenario} over {across}: {'; '.join(ends)}")


def figure(result: Result, path: str) -> Any:
    """The value at ``metrics.NAME`` or ``derived.a.b``; None where it does not exist."""
    part, _, rest = path.partition(".")
    if part == "metrics":
        return result.metrics.get(rest)
    tree: Any = result.derived
    for key in rest.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _number(text: str, whole: str) -> Number:
    try:
        return evaluate(text.strip())
    except InputError as error:
        raise InputError(f"values {whole!r}: {error}; write 4, 1..64, 1..64:2, 1..64:*2 or 1,2,8") from None
