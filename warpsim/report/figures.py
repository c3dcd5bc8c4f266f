"""Pictures of the report as inline SVG: memory chart, roofline, curves over time. Colours are the page's variables."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from warpsim.result import Result
from warpsim.text import byte_count, number, percent

__all__ = ["curve", "memory_chart", "roofline"]


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'


def _svg(width: int, height: int, title: str, body: Sequence[str]) -> str:
    label = html.escape(title, quote=True)
    inside = "".join(body)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}"><title>{label}</title>{inside}</svg>'


def memory_chart(result: Result) -> str:
    """SMs, L1 and shared memory, L2 and DRAM with the traffic between them and each level's hit rate and load."""
    derived = result.derived
    busy = derived["limiter"]["busy"]
    loads, stores = derived["global"]["load"], derived["global"]["store"]
    body: list[str] = []

    def box(x: int, y: int, height: int, name: str, lines: Sequence[str], load: float | None) -> None:
        shade = "" if load is None else f' style="fill-opacity:{0.08 + 0.6 * min(load, 1):.2f}"'
        body.append(f'<rect x="{x}" y="{y}" width="130" height="{height}" rx="8" class="level"{shade}/>')
        body.append(_text(x + 65, y + height / 2 - 7 * len(lines) + 2, name, kind="name"))
        body.extend(_text(x + 65, y + height / 2 - 7 * len(lines) + 19 + 16 * i, line) for i, line in enumerate(lines))

    def arrow(x: int, end: int, y: int, text: str, present: bool) -> None:
        kind = "flow" if present else "flow none"
        tip = 7 if end < x else -7
        body.append(f'<path d="M{x} {y}H{end + tip}" class="{kind}"/>')
        body.append(f'<path d="M{end} {y}l{tip} -4v8z" class="{"tip" if present else "tip none"}"/>')
        body.append(_text((x + end) / 2, y - 6, text))

    def load_of(*names: str) -> float | None:
        known = [busy[name] for name in names if name in busy]
        return max(known) if known else None

    box(4, 40, 240, "SMs", [f"issue {percent(busy['issue'])}"] if "issue" in busy else [], load_of("issue"))
    l1 = [f"hit {percent(loads['hit_rate'])}"]
    if "data stage" in busy:
        l1.append(f"data stage {percent(busy['data stage'])}")
    box(264, 40, 110, "L1", l1, load_of("data stage", "tag stage"))
    shared = derived["shared"]
    ways = [r["ways"] for r in shared.values() if r["ways"] is not None]
    box(
        264,
        190,
        90,
        "Shared memory",
        [f"{number(max(ways))} ways" if ways else "unused"],
        load_of("data stage") if ways else None,
    )
    box(
        524,
        40,
        240,
        "L2",
        [f"hit {percent(derived['l2']['hit_rate'])}", *_load(busy, "L2 slices")],
        load_of("L2 slices"),
    )
    share = derived["bandwidth"]["dram_share_of_peak"]
    box(784, 40, 240, "DRAM", [f"{percent(share)} of peak", *_load(busy, "DRAM")], load_of("DRAM"))
    arrow(264, 134, 78, _bytes(loads["requested_bytes"], loads["requests"]), bool(loads["requests"]))
    arrow(134, 264, 118, _bytes(stores["requested_bytes"], stores["requests"]), bool(stores["requests"]))
    for op, y, ends in (("load", 220, (264, 134)), ("store", 256, (134, 264))):
        wavefronts = shared[op]["wavefronts"]
        arrow(*ends, y, f"{_short(wavefronts)} wavefronts" if wavefronts else "–", bool(wavefronts))
    l2, dram = derived["l2"], derived["dram"]
    arrow(524, 394, 78, byte_count(l2["read_bytes"]), bool(l2["read_bytes"]))
    arrow(394, 524, 118, byte_count(l2["write_bytes"]), bool(l2["write_bytes"]))
    arrow(784, 654, 130, byte_count(dram["read_bytes"]), bool(dram["read_bytes"]))
    arrow(654, 784, 190, byte_count(dram["write_bytes"]), bool(dram["write_bytes"]))
    for x, text in ((199, "useful"), (459, "L2 traffic"), (719, "DRAM traffic")):
        body.append(_text(x, 28, text, kind="dim"))
    title = (
        f"Memory chart: L1 hit rate {percent(loads['hit_rate'])}; "
        f"L2 read {byte_count(l2['read_bytes'])}, written {byte_count(l2['write_bytes'])}, "
        f"hit rate {percent(l2['hit_rate'])}; "
        f"DRAM read {byte_count(dram['read_bytes'])}, written {byte_count(dram['write_bytes'])}"
    )
    return _svg(920, 290, title, body)


def _load(busy: Mapping[str, float], name: str) -> list[str]:
    return [f"busy {percent(busy[name])}"] if name in busy else []


def _bytes(size: float | None, requests: float | None) -> str:
    return byte_count(size) if size is not None else f"{_short(requests)} requests"


def _short(value: float | None) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value is not None and value >= scale:
            return f"{value / scale:.3g} {unit}"
    return number(value)


def roofline(result: Result) -> str:
    """FLOP/s over FLOP/byte, both logarithmic: the GPU's roofs, the kernel over useful and over DRAM bytes."""
    line, intensity = result.derived["roofline"], result.derived["intensity"]
    peak, ridges = result.derived["bandwidth"]["peak"], {k: v for k, v in line["ridge"].items() if v}
    achieved = line["achieved_flops"]
    if not peak or not ridges:
        return ""
    points = [(intensity[k], k) for k in ("useful", "dram") if intensity[k] and achieved]
    low = min([0.02, *(at / 2 for at, _ in points)])
    high = max([2 * max(ridges.values()), *(2 * at for at, _ in points)])
    top = 1.6 * max(ridges.values()) * peak
    bottom = min([low * peak, *([achieved / 2] if achieved else [])])
    left, right, up, down = 110, 900, 16, 290

    def x(at: float) -> float:
        return left + (right - left) * math.log(at / low) / math.log(high / low)

    def y(rate: float) -> float:
        return down - (down - up) * math.log(rate / bottom) / math.log(top / bottom)

    body = [f'<path d="M{left} {up}V{down}H{right}" class="axis"/>']
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        body.append(f'<path d="M{x(10**power):.1f} {up}V{down}" class="grid"/>')
        body.append(_text(x(10.0**power), down + 16, f"{10.0**power:g}"))
    for power in range(math.ceil(math.log10(bottom)), math.floor(math.log10(top)) + 1):
        body.append(f'<path d="M{left} {y(10.0**power):.1f}H{right}" class="grid"/>')
        body.append(_text(left - 6, y(10.0**power) + 4, _rate(10.0**power), "end"))
    body.append(_text((left + right) / 2, down + 34, "FLOP per byte", kind="dim"))
    ceiling = max(ridges.values())
    body.append(f'<path d="M{x(low):.1f} {y(low * peak):.1f}L{x(ceiling):.1f} {y(ceiling * peak):.1f}" class="roof"/>')
    for name, ridge in ridges.items():
        used = name == line["precision"]
        body.append(
            f'<path d="M{x(ridge):.1f} {y(ridge * peak):.1f}H{right}" class="{"roof" if used else "roof other"}"/>'
        )
        body.append(_text(right, y(ridge * peak) - 4, f"{name.replace('_', ' ')} {_rate(ridge * peak)}", "end", "dim"))
    names = {"useful": "over useful bytes", "dram": "over DRAM bytes"}
    for at, kind in points:
        body.append(f'<circle cx="{x(at):.1f}" cy="{y(achieved):.1f}" r="5" class="{kind}"/>')
    for row, (at, kind) in enumerate(points):
        body.append(f'<circle cx="{left + 16}" cy="{up + 10 + 18 * row}" r="5" class="{kind}"/>')
        body.append(_text(left + 28, up + 14 + 18 * row, f"{names[kind]}: {number(at)} FLOP/B", "start"))
    if not points:
        body.append(_text(left + 12, up + 16, "no floating-point operation is counted", "start", "dim"))
    what = f"{number(intensity['useful'])} FLOP per useful byte, {number(intensity['dram'])} per DRAM byte"
    return _svg(920, 334, f"Roofline: {what}; {line['bound'] or 'unknown'}-bound", body)


def _rate(flops: float) -> str:
    for unit, size in (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}"
    return f"{flops:.3g} FLOP/s"


def curve(title: str, times: Sequence[float], values: Sequence[float], unit: str, limit: float | None = None) -> str:
    """One quantity over time (ns); `limit` is drawn as a dashed line."""
    left, right, up, down = 110, 900, 22, 150
    end = max(times, default=0) or 1
    top = 1.1 * max([*values, limit or 0, 1e-12])

    def at(t: float, v: float) -> str:
        return f"{left + (right - left) * t / end:.1f} {down - (down - up) * v / top:.1f}"

    body = [f'<path d="M{left} {up}V{down}H{right}" class="axis"/>', _text(left, 14, title, "start", "dim")]
    if values:
        body.append(f'<path d="M{"L".join(at(t, v) for t, v in zip(times, values, strict=True))}" class="curve"/>')
    for share in (0.5, 1.0):
        body.append(_text(left - 6, down - (down - up) * share / 1.1 + 4, f"{top / 1.1 * share:.3g}", "end"))
        body.append(_text(left + (right - left) * share, down + 16, f"{end * share / 1e3:.3g} us", "end"))
    if limit is not None:
        body.append(f'<path d="M{at(0, limit)}L{at(end, limit)}" class="roof other"/>')
    mean = sum(values) / len(values) if values else 0
    return _svg(920, 176, f"{title} ({unit}) over time: mean {mean:.3g}, peak {max(values, default=0):.3g}", body)
