"""The report page: headline, findings, memory chart, tables, source lines, roofline, curves, trust."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from warpsim.report.figures import curve, memory_chart, roofline
from warpsim.result import Result
from warpsim.text import (
    COMPONENTS,
    bandwidth,
    byte_count,
    count,
    duration,
    extent,
    line_rows,
    marks,
    number,
    percent,
    trust_notes,
)

__all__ = ["page"]

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#59636e;--paper:#fff;--panel:#f6f8fa;--rule:#d1d9e0;--blue:#0969da;
--bad:#c1272d;--good:#1a7f37;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9aa4af;--paper:#0d1117;--panel:#161b22;--rule:#30363d;
--blue:#58a6ff;--bad:#ff7b72;--good:#56d364;--warn:#e3b341}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem;max-width:62rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .6rem}p{margin:.3rem 0}
.dim{color:var(--dim)}.bad{color:var(--bad)}.good{color:var(--good)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:1rem 0}
.card{background:var(--panel);border:1px solid var(--rule);border-radius:8px;padding:.6rem .8rem}
.card b{display:block;font-size:1.2rem}.card span{color:var(--dim);font-size:.82rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th{color:var(--dim);font-weight:500;font-size:.82rem}th,td{padding:.25rem .7rem .25rem 0;text-align:right;
white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child,th.left,td.left{text-align:left}
code,td.code{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap}
td code{display:block;min-width:16rem;overflow-wrap:anywhere}
tr.mark td{background:color-mix(in srgb,var(--bad) 12%,transparent)}
.finding{border-left:4px solid var(--dim);padding:.2rem .8rem;margin:.6rem 0}
.warning{border-color:var(--bad)}.advice{border-color:var(--warn)}.info{border-color:var(--blue)}
figure{margin:0;overflow-x:auto}svg{width:100%;min-width:34rem;height:auto;display:block}
svg text{fill:var(--ink);font:12.5px system-ui,sans-serif}svg text.name{font-weight:600;font-size:14px}
svg text.dim{fill:var(--dim)}svg .level{fill:var(--blue);fill-opacity:.08;stroke:var(--rule)}
svg .flow{stroke:var(--ink);stroke-width:2;fill:none}svg .tip{fill:var(--ink)}svg .none{opacity:.25}
svg .axis{stroke:var(--dim);fill:none}svg .grid{stroke:var(--rule);fill:none}
svg .roof{stroke:var(--ink);stroke-width:2;fill:none}svg .other{stroke-width:1;stroke-dasharray:5 4}
svg .curve{stroke:var(--blue);stroke-width:2;fill:none}svg .useful{fill:var(--good)}svg .dram{fill:var(--blue)}
ul{padding-left:1.2rem}
@media print{body{max-width:none}.finding,figure,table{break-inside:avoid}svg{min-width:0}}
"""

Row = Sequence[str]


def page(result: Result) -> str:
    """A self-contained HTML document."""
    parts = [
        _head(result),
        _findings(result),
        _section("Memory chart", f"<figure>{memory_chart(result)}</figure>"),
        _section("Global memory", _global(result)),
        _section("Shared memory", _shared(result)),
        _section("L2 and DRAM", _levels(result)),
        _section("Source", _source(result)),
        _section("Bytes in flight", _littles_law(result)),
        _section("Over time", _timeline(result)),
        _section("Roofline", _roofline(result)),
        _section("How far to trust this", _trust(result)),
    ]
    title = html.escape(f"{result.scenario} on {result.gpu}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style></head>\n'
        f"<body>{''.join(part for part in parts if part)}</body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>\n" if body else ""


def _table(columns: Row, rows: Iterable[Row], left: int = 1, marks: Sequence[bool] = ()) -> str:
    """A table of finished cells; the first `left` columns are text. Cells are escaped unless they begin with a tag."""

    def cell(text: str, tag: str, column: int) -> str:
        kind = ' class="left"' if column < left else ""
        return f"<{tag}{kind}>{text if text.startswith('<') else html.escape(text)}</{tag}>"

    head = "".join(cell(text, "th", i) for i, text in enumerate(columns))
    lines = []
    for index, row in enumerate(rows):
        kind = ' class="mark"' if index < len(marks) and marks[index] else ""
        lines.append(f"<tr{kind}>{''.join(cell(text, 'td', i) for i, text in enumerate(row))}</tr>")
    if not lines:
        return ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _judged(value: float | None, limit: float) -> str:
    if value is None:
        return "–"
    return f'<span class="{"bad" if value > limit else "good"}">{number(value, 4)}</span>'


def _head(result: Result) -> str:
    derived, launch = result.derived, result.launch
    limiter, band, occupancy = derived["limiter"], derived["bandwidth"], derived["occupancy"]
    cards = [(duration(result.time_ns), "time")]
    if band["effective"] is not None:
        share = percent(band["effective_share_of_peak"])
        cards.append((bandwidth(band["effective"]), f"effective bandwidth, {share} of peak"))
    if limiter["name"]:
        busy = "" if limiter["name"] == "latency" else f", {percent(limiter['share'])} busy"
        cards.append(
            (
                limiter["name"],
                f"limited by {COMPONENTS.get(limiter['name'], limiter['name'])}{busy}",
            )
        )
    cards.append((percent(occupancy["achieved"]), f"achieved occupancy of {percent(occupancy['theoretical'])}"))
    for key in ("load", "store"):
        row = derived["global"][key]
        if row["requests"]:
            ideal = number(row["ideal_sectors_per_request"], 4)
            cards.append((number(row["sectors_per_request"], 4), f"sectors a {key} request, ideal {ideal}"))
    detail = f"grid {extent(launch['grid'])}, block {extent(launch['block'])}, {launch.get('registers', '–')} registers"
    if launch.get("shared"):
        detail += f", {launch['shared']:,} B shared"
    if result.params:
        detail += "; " + ", ".join(f"{k} = {v}" for k, v in result.params.items())
    doubt = (
        "" if derived["trust"]["profile_checked"] else ' <span class="bad">(profile not checked against the GPU)</span>'
    )
    text = "".join(f'<div class="card"><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>' for a, b in cards)
    return (
        f"<header><h1>{html.escape(result.scenario)}</h1><p><code>{html.escape(result.kernel)}</code> on "
        f'{html.escape(result.gpu)}, {result.source}{doubt}</p><p class="dim">{html.escape(detail)}</p></header>'
        f'<div class="cards">{text}</div>\n'
    )


def _findings(result: Result) -> str:
    parts = []
    for found in result.findings:
        where = f" <code>{html.escape(found['where'])}</code>" if "line" in found else ""
        note = html.escape(found["advice"])
        gain = found["gain"]
        if gain and gain["speedup"] > 1.02:
            times = f"{duration(gain['time_ns'])} to {duration(gain['time_after_ns'])}"
            note += f"; at most {gain['speedup']:.2f} times faster ({times}, {gain['how']})"
        parts.append(
            f'<div class="finding {found["severity"]}"><b>{found["rule"]}</b>{where} {html.escape(found["message"])}'
            f'<p class="dim">{note}</p></div>'
        )
    return _section("Findings", "".join(parts) or '<p class="good">none</p>')


def _global(result: Result) -> str:
    waste = result.derived["bytes_per_useful_byte"]
    names = {"load": "loads", "store": "stores", "atomic": "atomics", "reduction": "reductions", "async_copy": "LDGSTS"}
    rows = []
    for key, title in names.items():
        row = result.derived["global"].get(key)
        if row is None or not row["requests"]:
            continue
        ideal = row.get("ideal_sectors_per_request")
        here = row["sectors_per_request"]
        shown = number(here, 4) if ideal is None else _judged(here, 1.05 * ideal)
        over = number(waste.get({"load": "l1_read", "store": "l1_write"}.get(key, "")))
        hit = percent(row["hit_rate"]) if "hit_rate" in row else "–"
        rows.append((title, count(row["requests"]), count(row["sectors"]), shown, number(ideal, 4), over, hit))
    return _table(("", "requests", "sectors", "sectors/request", "ideal", "bytes/useful byte", "L1 hit"), rows)


def _shared(result: Result) -> str:
    rows = []
    for key, title in (("load", "loads"), ("store", "stores")):
        row = result.derived["shared"][key]
        if row["wavefronts"]:
            numbers = (row["requests"], row["wavefronts"], row["ideal_wavefronts"], row["conflicts"])
            rows.append((title, *map(count, numbers), _judged(row["ways"], 1.05)))
    return _table(("", "requests", "wavefronts", "ideal", "conflicts", "ways"), rows)


def _levels(result: Result) -> str:
    derived = result.derived
    waste, band = derived["bytes_per_useful_byte"], derived["bandwidth"]
    rows = []
    for level, title in (("l2", "L2"), ("dram", "DRAM")):
        row = derived[level]
        rows.append(
            (
                title, byte_count(row["read_bytes"]), _judged(waste[f"{level}_read"], 1.25),
                byte_count(row["write_bytes"]), _judged(waste[f"{level}_write"], 1.25),
                percent(row["hit_rate"]) if level == "l2" else "", bandwidth(band[level]),
                percent(band["dram_share_of_peak"]) if level == "dram" else "",
            )
        )  # fmt: skip
    useful = derived["useful"]
    rows.append(
        (
            "useful", byte_count(useful["read_bytes"]), "", byte_count(useful["write_bytes"]), "", "",
            bandwidth(band["effective"]), percent(band["effective_share_of_peak"]),
        )
    )  # fmt: skip
    columns = ("", "read", "per useful byte", "written", "per useful byte", "hit rate", "bandwidth", "of peak")
    return _table(columns, rows)


def _source(result: Result) -> str:
    marked = marks(result)
    rows, bad = [], []
    for line in sorted(result.lines, key=lambda x: (x["file"], x["line"])):
        place = f"{line['file']}:{line['line']}"
        text = f"<code>{html.escape(str(line.get('text', '')).strip())}</code>"
        for access, *cells in line_rows(line):
            rows.append((place, text, access, *cells))
            bad.append((line["file"], line["line"], access) in marked)
            place = text = ""
    return _table(
        ("line", "source", "access", "requests", "sectors/request (ideal)", "wavefronts", "ways"), rows, 3, bad
    )


def _littles_law(result: Result) -> str:
    law = result.derived["littles_law"]
    if law["needed_bytes_per_sm"] is None:
        return ""
    rows = [
        ("bytes in flight an SM, mean", byte_count(law["in_flight_bytes_per_sm"])),
        ("Little's law asks for", byte_count(law["needed_bytes_per_sm"])),
        ("latency, unloaded", duration(law["latency_ns"])),
        ("latency in this run", _cycles(law["loaded_latency_cycles"])),
        ("bytes under way a warp", byte_count(law["bytes_per_warp"])),
        ("warps needed an SM", number(law["warps_needed_per_sm"])),
        ("warps resident an SM", number(law["warps_per_sm"])),
    ]
    return _table(("", ""), rows)


def _cycles(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} cycles"


def _timeline(result: Result) -> str:
    timeline: dict[str, Any] = result.derived.get("timeline", {})
    times = [cycle * 1e3 / result.clock_mhz for cycle in timeline.get("cycle", [])]
    if len(times) < 2:
        return ""
    needed = result.derived["littles_law"]["needed_bytes"]
    peak = result.derived["bandwidth"]["peak"]
    shown = (
        ("bytes_in_flight", "Bytes in flight, whole GPU", "MB", 1e-6, needed),
        ("dram_bytes_per_second", "DRAM bandwidth", "TB/s", 1e-12, peak),
        ("l2_bytes_per_second", "L2 bandwidth", "TB/s", 1e-12, None),
        ("warps_resident", "Resident warps, whole GPU", "warps", 1, None),
    )
    parts = []
    for key, title, unit, scale, limit in shown:
        if key in timeline:
            values = [scale * value for value in timeline[key]]
            bar = None if limit is None else scale * limit
            parts.append(f"<figure>{curve(f'{title} ({unit})', times, values, unit, bar)}</figure>")
    return "".join(parts)


def _roofline(result: Result) -> str:
    picture = roofline(result)
    flops, line = result.derived["flops"], result.derived["roofline"]
    kinds = ", ".join(f"{count(flops[p])} {p}" for p in ("fp32", "fp64", "fp16") if flops[p]) or "none"
    other = ", ".join(f"{count(n)} {op}" for op, n in flops["other_ops"].items())
    text = f"FLOPs: {kinds}" + (f"; not counted: {other}" if other else "")
    if line["bound"]:
        text += f"; {line['bound']}-bound"
    return f"<figure>{picture}</figure><p>{html.escape(text)}</p>" if picture else f"<p>{html.escape(text)}</p>"


def _trust(result: Result) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in trust_notes(result))
    return f'<ul class="dim">{notes}</ul><p class="dim">warpsim {html.escape(result.warpsim)}</p>'
