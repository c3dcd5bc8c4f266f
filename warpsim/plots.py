"""Charts of results: memory chart, roofline, what is under way over time, Little's law, parity.

Each takes Results and gives a `Drawing`, SVG that is legible on light and dark pages and has a text alternative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from warpsim.errors import InputError
from warpsim.svg import Axis, Canvas, Drawing, path_of
from warpsim.text import bandwidth, byte_count, number, percent

if TYPE_CHECKING:
    from warpsim.result import Result

__all__ = ["in_flight", "memory_chart", "parity", "roofline", "timeline"]

_WIDTH = 920


def memory_chart(result: Result) -> Drawing:
    """SMs, L1 and shared memory, L2 near and far, DRAM; bytes on the arrows, hit rates and load in the boxes."""
    derived = result.derived
    canvas = Canvas(960, 330)
    flows = _flows(result)
    most = max((size or 0 for size in flows.values()), default=0)
    busy = derived["limiter"]["busy"]

    def box(x: int, y: int, width: int, height: int, name: str, lines: Sequence[str], *servers: str) -> None:
        canvas.box(x, y, width, height, "box")
        load = max((busy[s] for s in servers if s in busy), default=0.0)
        canvas.box(x, y, width, height, "load", f"fill-opacity:{0.06 + 0.5 * min(load, 1):.2f}")
        top = y + height / 2 - 8 * len(lines) + 4
        canvas.text(x + width / 2, top, name, kind="name")
        for i, line in enumerate(lines):
            canvas.text(x + width / 2, top + 17 + 16 * i, line)

    def arrow(x: int, end: int, y: int, name: str, text: str | None = None) -> None:
        size = flows[name]
        faint = "" if size else " none"
        thick = 1.5 + (4 * (size / most) ** 0.5 if size and most else 0)
        tip = 10 if end > x else -10
        canvas.path(f"M{x} {y}H{end - tip}", f"flow{faint}", f"stroke-width:{thick:.1f}")
        canvas.path(f"M{end} {y}l{-tip - tip / 5:g} -6v12z", f"tip{faint}")
        canvas.text((x + end) / 2, y - 7, text if text is not None else byte_count(size))

    def load(**names: str) -> list[str]:
        return [f"{said} busy {percent(busy[name])}" for said, name in names.items() if name in busy]

    loads = derived["global"]["load"]
    box(2, 40, 122, 280, "SMs", [*load(issue="issue"), f"occupancy {percent(derived['occupancy']['achieved'])}"],
        "issue")  # fmt: skip
    box(262, 40, 140, 158, "L1", [f"hit rate {percent(loads['hit_rate'])}",
        *load(data="data stage", tags="tag stage")], "data stage", "tag stage")  # fmt: skip
    ways = [row["ways"] for row in derived["shared"].values() if row["wavefronts"] and row["ways"]]
    box(262, 220, 140, 100, "Shared memory", [_ways(ways)],
        *(("data stage",) if ways else ()))  # fmt: skip
    slices = [f"hit rate {percent(derived['l2']['hit_rate'])}", *load(slices="L2 slices")]
    if flows["cross"] is None:
        box(540, 40, 140, 280, "L2", slices, "L2 slices")
    else:
        canvas.box(540, 40, 140, 280, "box")
        canvas.box(540, 40, 140, 280, "load", f"fill-opacity:{0.06 + 0.5 * min(busy.get('L2 slices', 0), 1):.2f}")
        canvas.text(610, 62, "L2", kind="name")
        for row, line in enumerate(slices):
            canvas.text(610, 79 + 16 * row, line)
        for y, name in ((112, "near side"), (250, "far side")):
            canvas.box(552, y, 116, 58, "box")
            canvas.text(610, y + 34, name)
        canvas.path("M576 180V240", "flow", "stroke-width:2")
        canvas.path("M576 170l-6 12h12zM576 250l-6 -12h12z", "tip")
        canvas.text(590, 214, byte_count(flows["cross"]), "start")
    share = derived["bandwidth"]["dram_share_of_peak"]
    box(818, 40, 140, 280, "DRAM", [f"{percent(share)} of peak", *load(channels="DRAM")], "DRAM")
    arrow(262, 124, 72, "load")
    arrow(124, 262, 106, "store")
    for y, name in zip((140, 174), (n for n in ("atomic", "local") if flows[n]), strict=False):
        arrow(124, 262, y, name, f"{name} {byte_count(flows[name])}")
    for name, op, ends, y in (("shared load", "load", (262, 124), 250), ("shared store", "store", (124, 262), 292)):
        count = derived["shared"][op]["wavefronts"]
        arrow(*ends, y, name, f"{_short(count)} wavefronts" if count else "–")
    arrow(540, 402, 72, "L2 read")
    arrow(402, 540, 106, "L2 write")
    if flows["L2 atomic"]:
        arrow(402, 540, 140, "L2 atomic", f"atomic {byte_count(flows['L2 atomic'])}")
    arrow(818, 680, 150, "DRAM read")
    arrow(680, 818, 210, "DRAM write")
    for x, text in ((193, "asked for by lanes"), (471, "L1 to L2"), (749, "L2 to DRAM")):
        canvas.text(x, 26, text, kind="soft")
    crossing = "" if flows["cross"] is None else f", {byte_count(flows['cross'])} between its sides"
    alternative = (
        f"Memory chart: loads ask for {byte_count(flows['load'])}, stores write {byte_count(flows['store'])}; "
        f"L1 hit rate {percent(loads['hit_rate'])}; L2 read {byte_count(flows['L2 read'])}, written "
        f"{byte_count(flows['L2 write'])}, hit rate {percent(derived['l2']['hit_rate'])}{crossing}; "
        f"DRAM read {byte_count(flows['DRAM read'])}, written {byte_count(flows['DRAM write'])}"
    )
    return canvas.drawing(alternative)


def _ways(ways: Sequence[float]) -> str:
    return "not used" if not ways else f"{number(max(ways))}-way" if max(ways) > 1.05 else "no conflict"


def _flows(result: Result) -> dict[str, float | None]:
    """Bytes on each arrow; shared memory's are wavefronts of 128 bytes."""
    derived, metrics = result.derived, result.metrics
    table = derived["global"]

    def asked(row: Mapping[str, Any]) -> float | None:
        size: float | None = row["requested_bytes"]
        return size if size is not None or not row["sectors"] else 32 * row["sectors"]

    atomics = [asked(table[op]) or 0 for op in ("atomic", "reduction")]
    sides = metrics.get("lts__t_sectors.sum")
    l2 = derived["l2"]["bytes"]
    return {
        "load": asked(table["load"]),
        "store": asked(table["store"]),
        "atomic": sum(atomics),
        "local": 32 * sum(metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", 0) for op in ("ld", "st")),
        "shared load": 128 * (derived["shared"]["load"]["wavefronts"] or 0),
        "shared store": 128 * (derived["shared"]["store"]["wavefronts"] or 0),
        "L2 read": derived["l2"]["read_bytes"],
        "L2 write": derived["l2"]["write_bytes"],
        "L2 atomic": sum(32 * (table[op]["sectors"] or 0) for op in ("atomic", "reduction")),
        "DRAM read": derived["dram"]["read_bytes"],
        "DRAM write": derived["dram"]["write_bytes"],
        "cross": None if sides is None or l2 is None or 32 * sides <= l2 else 32 * sides - l2,  # None: one side
    }


def _short(value: float | None) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value is not None and value >= scale:
            return f"{value / scale:.3g} {unit}"
    return number(value)


def roofline(*results: Result) -> Drawing:
    """FLOP/s over FLOP a byte, both logarithmic: the roofs of the (first) GPU and a point for each result.

    Of one result, the intensity over useful and over DRAM bytes; of several, that over DRAM bytes.
    """
    first = _some(results)
    peak = first.derived["bandwidth"]["peak"]
    ridges = {k: v for k, v in first.derived["roofline"]["ridge"].items() if v}
    if not peak or not ridges:
        raise InputError(f"{first.scenario}: the profile of {first.gpu} has no peak rates, so no roofline")
    kinds = (("useful", "over useful bytes"), ("dram", "over DRAM bytes")) if len(results) == 1 else (("dram", ""),)
    points = []
    for result in results:
        rate, top = (result.derived["roofline"][key] for key in ("achieved_flops", "peak_flops"))
        for kind, label in kinds:
            at = result.derived["intensity"][kind]
            if at and rate:
                share = percent(rate / min(at * peak, top or math.inf))
                points.append((at, rate, label or result.scenario, kind, share))
    low = min([0.02, *(at / 2 for at, *_ in points)])
    x = Axis(low, max([8 * max(ridges.values()), *(2 * at for at, *_ in points)]), 110, 900, True)  # room for names
    y = Axis(min([low * peak, *(rate / 2 for _, rate, *_ in points)]), 1.6 * max(ridges.values()) * peak, 290, 14, True)
    canvas = Canvas(_WIDTH, 336)
    frame(canvas, x, y, [(v, f"{v:g}") for v in x.ticks()], [(v, _rate(v)) for v in y.ticks()])
    moved = "FLOP per byte" if len(results) == 1 else "FLOP per byte that DRAM moves"
    canvas.text((x.start + x.end) / 2, y.start + 36, moved, kind="soft")
    top = max(ridges.values())
    canvas.path(path_of([(x.start, y.at(low * peak)), (x.at(top), y.at(top * peak))]), "roof")
    for name, ridge in ridges.items():
        kind = "roof" if name == first.derived["roofline"]["precision"] else "other"
        canvas.path(f"M{x.at(ridge):.1f} {y.at(ridge * peak):.1f}H{x.end}", kind)
        canvas.text(
            x.end, y.at(ridge * peak) - 4, f"{name.replace('_', ' ')} {_rate(ridge * peak)}", "end", "soft halo"
        )
    slope = (y.at(low * peak) - y.at(top * peak)) / (x.at(top) - x.start)
    at = x.start + 0.3 * (x.at(top) - x.start)
    canvas.text(
        at - 8, y.start - (at - x.start) * slope + y.at(low * peak) - y.start - 8, bandwidth(peak), "end", "soft"
    )
    for row, (at, rate, label, kind, share) in enumerate(points):
        shape = "hollow" if kind == "useful" else "blue"
        canvas.dot(x.at(at), y.at(rate), shape, f"{label}: {number(at)} FLOP/B, {_rate(rate)}, {share} of the roof")
        if len(results) == 1:
            canvas.dot(x.end - 440, y.start - 34 + 18 * row, shape)
            said = f"{label}: {number(at)} FLOP/B, {_rate(rate)}, {share} of the roof"
            canvas.text(x.end - 428, y.start - 30 + 18 * row, said, "start")
    if len(results) > 1:
        names = [(x.at(at), y.at(rate), f"{label}, {share} of its roof") for at, rate, label, _, share in points]
        canvas.labels(names, x, y)
    if not points:
        canvas.text(x.end - 10, y.start - 14, "no floating-point operation is counted", "end", "soft")
    said = "; ".join(
        f"{label}: {number(at)} FLOP a byte at {_rate(rate)}, {share} of the roof"
        for at, rate, label, _, share in points
    )
    return canvas.drawing(f"Roofline of {first.gpu}: {said or 'no floating-point operation'}; {_bounds(results)}")


def _bounds(results: Sequence[Result]) -> str:
    return ", ".join(f"{r.scenario} {r.derived['roofline']['bound'] or 'unknown'}-bound" for r in results)


def _rate(flops: float) -> str:
    for unit, size in (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}"
    return f"{flops:.3g} FLOP/s"


def frame(
    canvas: Canvas, x: Axis, y: Axis, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]
) -> None:
    """Axes with grid lines and their labels."""
    for value, label in columns:
        canvas.path(f"M{x.at(value):.1f} {y.end}V{y.start}", "grid")
        if label:
            canvas.text(x.at(value), y.start + 17, label)
    for value, label in rows:
        canvas.path(f"M{x.start} {y.at(value):.1f}H{x.end}", "grid")
        canvas.text(x.start - 7, y.at(value) + 4, label, "end")
    canvas.path(f"M{x.start} {y.end}V{y.start}H{x.end}", "axis")


_CURVES = (
    ("bytes_in_flight", "bytes in flight", "Little's law asks for"),
    ("dram_bytes_per_second", "DRAM bandwidth", "peak"),
    ("l2_bytes_per_second", "L2 bandwidth", ""),
    ("warps_resident", "resident warps", ""),
)


def timeline(result: Result) -> Drawing:
    """Bytes in flight, bandwidths and resident warps of the whole GPU over the time of the kernel."""
    table: Mapping[str, Any] = result.derived.get("timeline", {})
    times = [cycle * 1e-3 / (result.clock_mhz * 1e-3) for cycle in table.get("cycle", ())]
    if len(times) < 2:
        raise InputError(f"{result.scenario}: this result has no series over time")
    limits = {
        "bytes_in_flight": result.derived["littles_law"]["needed_bytes"],
        "dram_bytes_per_second": result.derived["bandwidth"]["peak"],
    }
    shown = [curve for curve in _CURVES if any(table.get(curve[0], ()))]
    if not shown:
        raise InputError(f"{result.scenario}: nothing is under way at any time, so there is nothing to draw")
    canvas = Canvas(_WIDTH, 140 * len(shown) + 44)
    x = Axis(0, times[-1], 96, 900)
    said = []
    for row, (key, title, limit_name) in enumerate(shown):
        values = [value or 0.0 for value in table[key]]
        limit = limits.get(key)
        text = byte_count if key.startswith("bytes") else bandwidth if key.endswith("second") else number
        y = Axis(0, 1.12 * max([*values, limit or 0, 1e-12]), 140 * row + 130, 140 * row + 26)
        columns = [(v, f"{v:g} us" if row == len(shown) - 1 else "") for v in x.ticks(6)]
        frame(canvas, x, y, columns, [(v, text(v) if v else "0") for v in y.ticks(2)])
        points = [(x.at(t), y.at(v)) for t, v in zip(times, values, strict=True)]
        canvas.path(path_of([(points[0][0], y.start), *points, (points[-1][0], y.start)]) + "Z", "area")
        canvas.path(path_of(points), "line")
        mean = _mean(times, values)
        canvas.text(x.start, y.end - 8, f"{title}, mean {text(mean)}", "start", "name")
        said.append(f"{title}: mean {text(mean)}, most {text(max(values))}")
        if limit:
            canvas.path(f"M{x.start} {y.at(limit):.1f}H{x.end}", "limit")
            canvas.text(x.end, y.at(limit) - 5, f"{limit_name} {text(limit)}", "end")
            said[-1] += f", {limit_name} {text(limit)}"
    launch = result.time_ns * 1e-3 - times[-1]
    if launch > 0 and result.coverage["ctas"] == result.coverage["of"]:
        note = f"the launch itself takes {launch:.3g} of the {result.time_ns * 1e-3:.4g} us and is not shown"
        canvas.text(x.end, canvas.height - 6, note, "end", "soft")
    return canvas.drawing(f"Over {times[-1]:.3g} us: " + "; ".join(said))


def _mean(times: Sequence[float], values: Sequence[float]) -> float:
    """Mean of samples that each stand for the time since the one before."""
    steps = [times[0], *(b - a for a, b in pairwise(times))]
    return sum(s * v for s, v in zip(steps, values, strict=True)) / sum(steps)


def in_flight(*results: Result) -> Drawing:
    """DRAM bandwidth over bytes in flight an SM, a point a result: what Little's law and the peak allow."""
    first = _some(results)
    law, peak = first.derived["littles_law"], first.derived["bandwidth"]["peak"]
    needed = law["needed_bytes_per_sm"]
    points = [(r.derived["littles_law"]["in_flight_bytes_per_sm"], r.derived["bandwidth"]["dram"], r) for r in results]
    points = [point for point in points if point[0] and point[1]]
    if not needed or not peak or not points:
        raise InputError(f"{first.scenario}: bytes in flight, latency or peak bandwidth are not known")
    canvas = Canvas(_WIDTH, 336)
    x = Axis(0, 1.08 * max(1.5 * needed, *(at for at, *_ in points)), 110, 900)
    y = Axis(0, 1.12 * max([peak, *(rate for _, rate, _ in points)]), 290, 14)
    frame(canvas, x, y, [(v, byte_count(v)) for v in x.ticks(7)], [(v, bandwidth(v) if v else "0") for v in y.ticks()])
    canvas.text((x.start + x.end) / 2, y.start + 36, "bytes of loads in flight an SM, mean over the run", kind="soft")
    canvas.text(x.start + 8, y.end + 12, "DRAM bandwidth", "start", "soft")
    canvas.path(path_of([(x.start, y.start), (x.at(needed), y.at(peak)), (x.end, y.at(peak))]), "roof")
    canvas.text(x.end, y.at(peak) - 6, f"peak {bandwidth(peak)}", "end")
    said = f"Little's law: bytes in flight / {law['latency_ns']:.0f} ns"
    canvas.text(x.at(0.7 * needed) - 10, y.at(0.7 * peak), said, "end")
    named = len({r.scenario for r in results}) > 1 or len(results) == 1
    labels = []
    for at, rate, result in points:
        label = result.scenario if named else _what(result, results)
        canvas.dot(x.at(at), y.at(rate), "blue", f"{label}: {byte_count(at)} an SM, {bandwidth(rate)}")
        labels.append((x.at(at), y.at(rate), label))
    canvas.labels(labels, x, y)
    said = "; ".join(f"{_what(r, results)} {byte_count(at)}, {bandwidth(rate)}" for at, rate, r in points)
    return canvas.drawing(
        f"DRAM bandwidth over bytes in flight an SM on {first.gpu}: {said}; the peak of {bandwidth(peak)} asks for "
        f"{byte_count(needed)}"
    )


def _what(result: Result, results: Sequence[Result]) -> str:
    """The parameters in which results differ."""
    varied = [k for k in result.params if len({str(r.params.get(k)) for r in results}) > 1]
    return ", ".join(f"{k} {result.params[k]}" for k in varied) or result.scenario


def parity(*pairs: tuple[Result, Result]) -> Drawing:
    """Predicted against measured time of pairs of results, both logarithmic; the band is ±10 %."""
    if pairs:
        _some([result for pair in pairs for result in pair])
    points = [(m.time_ns * 1e-3, p.time_ns * 1e-3, p.scenario) for p, m in pairs if m.time_ns and p.time_ns]
    if not points:
        raise InputError("nothing to plot: no pair of a predicted and a measured result")
    low = min(min(x, y) for x, y, _ in points) / 1.5
    high = 1.5 * max(max(x, y) for x, y, _ in points)
    canvas = Canvas(560, 520)
    x, y = Axis(low, high, 80, 540, True), Axis(low, high, 466, 14, True)
    ticks = [(v, f"{v:g}") for v in x.ticks()]
    frame(canvas, x, y, ticks, ticks)
    canvas.text((x.start + x.end) / 2, 504, "measured time, us", kind="soft")
    canvas.text(x.start + 8, y.end + 16, "predicted time, us", "start", "soft")
    band = [
        (low, low), (low / 0.9, low), (high, 0.9 * high), (high, high), (high / 1.1, high), (low, 1.1 * low)
    ]  # fmt: skip
    canvas.path(path_of([(x.at(a), y.at(b)) for a, b in band]) + "Z", "band")
    canvas.path(path_of([(x.start, y.start), (x.end, y.end)]), "other")
    for at, predicted, name in points:
        error = predicted / at - 1
        canvas.dot(x.at(at), y.at(predicted), "blue" if abs(error) <= 0.1 else "bad", f"{name}: {error:+.0%}")
    worst = sorted((p for p in points if abs(p[1] / p[0] - 1) > 0.1), key=lambda p: -abs(p[1] / p[0] - 1))
    canvas.labels(
        [(x.at(at), y.at(predicted), name) for at, predicted, name in worst[:8]],
        x,
        y,
        [(x.at(at), y.at(predicted)) for at, predicted, _ in points],
    )
    close = sum(abs(b / a - 1) <= 0.1 for a, b, _ in points)
    return canvas.drawing(f"Predicted against measured time: {close} of {len(points)} within 10 %")


def _some(results: Sequence[Result]) -> Result:
    if not results:
        raise InputError("nothing to plot: no result")
    for one in results:
        if not hasattr(one, "time_ns"):
            raise InputError(f"{type(one).__name__} given to a plot; each argument is a Result")
    return results[0]
