"""The report page: headline, findings, memory chart, source lines, tables, bytes in flight, roofline, trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from warpsim import drawing, plots
from warpsim.errors import InputError
from warpsim.report.source import source_table
from warpsim.result import Result
from warpsim.svg import STYLE as CHART_STYLE
from warpsim.svg import Drawing
from warpsim.text import (
    COMPONENTS,
    bandwidth,
    byte_count,
    count,
    duration,
    extent,
    number,
    percent,
    shown_findings,
    trust_notes,
)

if TYPE_CHECKING:
    from warpsim.comparison import Comparison

__all__ = ["html"]

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#59636e;--paper:#fff;--panel:#f6f8fa;--rule:#d1d9e0;--blue:#0969da;
--bad:#b3261e;--good:#1a7f37;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9aa5b1;--paper:#0d1117;--panel:#161b22;--rule:#30363d;
--blue:#58a6ff;--bad:#ff8b82;--good:#57d364;--warn:#e3b341}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem;max-width:64rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}h3{font-size:.95rem;margin:1.2rem 0 .3rem}
p{margin:.3rem 0}.lead{font-size:1.05rem;margin:.8rem 0}
.dim{color:var(--dim)}.bad{color:var(--bad)}.good{color:var(--good)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:1rem 0}
.card{background:var(--panel);border:1px solid var(--rule);border-radius:8px;padding:.6rem .8rem}
.card b{display:block;font-size:1.15rem}.card span{display:block;color:var(--dim);font-size:.82rem;line-height:1.35}
.scroll,figure{overflow-x:auto}
.scroll{background:linear-gradient(90deg,var(--paper),transparent) 0 0/2rem 100% no-repeat local,
linear-gradient(-90deg,var(--paper),transparent) 100% 0/2rem 100% no-repeat local,
linear-gradient(90deg,var(--rule),transparent) 0 0/.7rem 100% no-repeat,
linear-gradient(-90deg,var(--rule),transparent) 100% 0/.7rem 100% no-repeat}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th{color:var(--dim);font-weight:500;font-size:.82rem;vertical-align:bottom}
th,td{padding:.25rem .7rem .25rem 0;text-align:right;border-bottom:1px solid var(--rule)}td{white-space:nowrap}
th:first-child,td:first-child,th.left,td.left{text-align:left}
code{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
td code{white-space:pre-wrap;overflow-wrap:anywhere}
tr.place td{white-space:normal;border:0;padding-top:.6rem;color:var(--dim)}
tr.place code{color:var(--ink);margin-left:.4rem}
tr.mark td{background:rgba(179,38,30,.12)}tr.drawing td{white-space:normal;padding:.1rem 0}
tr.drawing details{width:0;min-width:100%;overflow-x:auto}
summary{cursor:pointer;color:var(--dim);font-size:.85rem}summary:hover{color:var(--ink)}
.finding{border-left:4px solid var(--dim);padding:.2rem .8rem;margin:.7rem 0}
.warning{border-color:var(--bad)}.advice{border-color:var(--warn)}.info{border-color:var(--blue)}
.gain{display:inline-block;background:var(--panel);border:1px solid var(--rule);border-radius:6px;padding:0 .5rem;
margin-top:.2rem;font-size:.9rem}
.narrow{max-width:32rem}figure{margin:.6rem 0 0}figure svg{width:100%;min-width:40rem;height:auto;display:block}
details svg{width:100%;min-width:40rem;max-width:60rem;height:auto;display:block}
ul{padding-left:1.2rem;margin:.3rem 0}
@media(max-width:40rem){td.left{white-space:normal}th,td{padding-right:.4rem}td{font-size:.85rem}th{font-size:.75rem}}
@media print{html{font-size:11px}body{max-width:none;padding:0;font-size:11px}code{font-size:9.5px}
.scroll,figure{overflow:visible}th,td{padding-right:.5rem}
.finding,figure,table,.card{break-inside:avoid}
h2{break-after:avoid}figure svg,details svg{min-width:0}details:not([open]){display:none}}
"""

Row = Sequence[str]


def html(result: Result, comparison: Comparison | None = None) -> str:
    """A self-contained HTML document; `comparison` is this result against a recorded one, if there is one."""
    parts = [
        _head(result),
        _findings(result),
        _section("Memory chart", _figure(plots.memory_chart, result)),
        _section("Source", source_table(result)),
        _section("Global memory", _global(result)),
        _section("Shared memory", _shared(result)),
        _section("L2 and DRAM", _levels(result)),
        _section("Bytes in flight", _littles_law(result) + _figure(plots.timeline, result)),
        _section("Roofline", _roofline(result)),
        _section("How far to trust this", _trust(result, comparison)),
    ]
    title = escape(f"{result.scenario} on {result.gpu}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title}</title>'
        f"<style>{STYLE}{CHART_STYLE}{drawing.STYLE}</style></head>\n"
        f"<body>{''.join(part for part in parts if part)}</body></html>\n"
    )


def _figure(draw: Callable[..., Drawing], result: Result) -> str:
    """The chart, or nothing where the result lacks what it shows."""
    try:
        return f"<figure>{draw(result).inline}</figure>"
    except InputError:
        return ""


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>\n" if body else ""


def _table(columns: Row, rows: Iterable[Row], left: int = 1) -> str:
    """A table of finished cells; the first `left` columns are text. Cells are escaped unless they begin with a tag."""

    def cell(text: str, tag: str, column: int) -> str:
        kind = ' class="left"' if column < left else ""
        return f"<{tag}{kind}>{text if text.startswith('<') else escape(text)}</{tag}>"

    head = "".join(cell(text, "th", i) for i, text in enumerate(columns))
    lines = [f"<tr>{''.join(cell(text, 'td', i) for i, text in enumerate(row))}</tr>" for row in rows]
    if not lines:
        return ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _judged(value: float | None, limit: float) -> str:
    if value is None:
        return "–"
    return f'<span class="{"bad" if value > limit else "good"}">{number(value, 4)}</span>'


def _head(result: Result) -> str:
    launch = result.launch
    detail = f"grid {extent(launch['grid'])}, block {extent(launch['block'])}, {launch.get('registers', '–')} registers"
    if launch.get("shared"):
        detail += f", {launch['shared']:,} B shared"
    if result.params:
        detail += "; " + ", ".join(f"{k} = {v}" for k, v in result.params.items())
    checked = result.derived["trust"]["profile_checked"]
    doubt = "" if checked else ' <span class="bad">(profile not checked against the GPU)</span>'
    cards = "".join(f'<div class="card"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in _cards(result))
    return (
        f"<header><h1>{escape(result.scenario)}</h1><p><code>{escape(result.kernel)}</code> on "
        f'{escape(result.gpu)}, {result.source}{doubt}</p><p class="dim">{escape(detail)}</p>'
        f'<p class="lead">{escape(_headline(result))}</p></header><div class="cards">{cards}</div>\n'
    )


def _headline(result: Result) -> str:
    """Time, limiter and the most valuable finding in two sentences."""
    limiter, band = result.derived["limiter"], result.derived["bandwidth"]
    said = f"Takes {duration(result.time_ns)}"
    if band["effective_share_of_peak"] is not None:
        said += f" at {percent(band['effective_share_of_peak'])} of the peak bandwidth"
    if limiter["name"] == "latency":
        said += "; no component is saturated, latency limits it"
    elif limiter["name"]:
        said += f", limited by {COMPONENTS.get(limiter['name'], limiter['name'])} ({percent(limiter['share'])} busy)"
    best = max(result.findings, key=lambda f: (f["gain"] or {}).get("speedup", 0), default=None)
    if best and best["gain"] and best["gain"]["speedup"] > 1.02:
        where = f" in {best['where']}" if "line" in best else ""
        said += f". Most to gain: {best['rule']}{where}, {_gain(best)}"
    return said + "."


def _gain(found: dict[str, Any]) -> str:
    gain = found["gain"]
    most = "" if gain["how"].startswith("simulated") else "about "
    if gain["speedup"] < 1.005:
        return "no faster"
    return f"{most}{gain['speedup']:.2f} times faster"


def _cards(result: Result) -> list[tuple[str, str]]:
    derived = result.derived
    limiter, band, occupancy = derived["limiter"], derived["bandwidth"], derived["occupancy"]
    cards = [(duration(result.time_ns), f"time, SM clock {result.clock_mhz:,.0f} MHz")]
    if band["effective"] is not None:
        share = percent(band["effective_share_of_peak"])
        cards.append((bandwidth(band["effective"]), f"effective bandwidth, {share} of peak"))
    if limiter["name"]:
        busy = "" if limiter["name"] == "latency" else f", {percent(limiter['share'])} busy"
        cards.append((limiter["name"], f"limited by {COMPONENTS.get(limiter['name'], limiter['name'])}{busy}"))
    cards.append((percent(occupancy["achieved"]), f"achieved occupancy of {percent(occupancy['theoretical'])}"))
    for key in ("load", "store"):
        row = derived["global"][key]
        if row["requests"]:
            ideal = number(row["ideal_sectors_per_request"], 4)
            cards.append((number(row["sectors_per_request"], 4), f"sectors a {key} request, ideal {ideal}"))
    return cards


def _findings(result: Result) -> str:
    parts = []
    for found, others in shown_findings(result):
        where = f" <code>{escape(found['where'])}</code>" if "line" in found else ""
        note = f'<p class="dim">{escape(found["advice"])}</p>' if found["advice"] else ""
        gain = found["gain"]
        if gain:
            times = f"{duration(gain['time_ns'])} → {duration(gain['time_after_ns'])}"
            note += f'<p class="gain">{escape(times)}: {_gain(found)} ({escape(gain["how"])})</p>'
        if others:
            more = "".join(f"<li><code>{escape(one['where'])}</code> {escape(_message(one))}</li>" for one in others)
            note += f"<details><summary>{len(others)} more like this</summary><ul>{more}</ul></details>"
        said = f"<b>{found['rule']}</b>{where} {escape(_message(found))}{note}"
        parts.append(f'<div class="finding {found["severity"]}">{said}</div>')
    return _section("Findings", "".join(parts) or '<p class="good">none</p>')


def _message(found: dict[str, Any]) -> str:
    return str(found["message"]).removeprefix(f"{found['rule']} ")


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
    return _table(("", "requests", "sectors", "sectors a request", "ideal", "bytes a useful byte", "L1 hit"), rows)


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
    rows = [row for row in rows if row[1] != "–"]
    return f'<div class="narrow">{_table(("", ""), rows)}</div>'


def _cycles(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} cycles"


def _roofline(result: Result) -> str:
    flops, line = result.derived["flops"], result.derived["roofline"]
    kinds = ", ".join(f"{count(flops[p])} {p}" for p in ("fp32", "fp64", "fp16") if flops[p]) or "none"
    other = ", ".join(f"{count(n)} {op}" for op, n in flops["other_ops"].items())
    text = f"FLOPs: {kinds}" + (f"; not counted: {other}" if other else "")
    if line["bound"]:
        text += f"; {line['bound']}-bound"
    return f"{_figure(plots.roofline, result)}<p>{escape(text)}</p>"


def _trust(result: Result, comparison: Comparison | None) -> str:
    coverage = result.coverage
    checked = "compared with its GPU" if result.derived["trust"]["profile_checked"] else "not compared with its GPU"
    rows = [
        ("requests, sectors, wavefronts, instructions", "counted", f"all {coverage['of']:,} CTAs were executed"),
        ("time, hit rates, L2 and DRAM bytes", "modelled", f"{coverage['ctas']:,} of {coverage['of']:,} CTAs timed; "
         f"the profile of {result.gpu} is {checked}"),
    ]  # fmt: skip
    if result.source == "measured":
        rows = [("all figures", "measured", f"on a {result.gpu}")]
    body = _table(("", "how", "on what"), rows, 3)
    if comparison is not None:
        shown = [row for row in comparison.rows if row.metric in _COMPARED and row.error is not None]
        body += f"<h3>Against the recording from a {escape(comparison.gpu)}</h3>"
        body += _table(
            ("", "simulated", "measured", "error"),
            [(_COMPARED[r.metric][0], _COMPARED[r.metric][1](r.predicted), _COMPARED[r.metric][1](r.measured),
              _error(r.error, r.unit)) for r in shown],
        )  # fmt: skip
    notes = "".join(f"<li>{escape(note)}</li>" for note in trust_notes(result))
    return f'{body}<ul class="dim">{notes}</ul><p class="dim">warpsim {escape(result.warpsim)}</p>'


_COMPARED: dict[str, tuple[str, Callable[..., str]]] = {
    "gpu__time_duration.sum": ("time", duration),
    "smsp__inst_executed.sum": ("instructions", count),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sectors of global loads", count),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("sectors of global stores", count),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("sectors read from L2", count),
    "dram__sectors_read.sum": ("sectors read from DRAM", count),
    "dram__sectors_write.sum": ("sectors written to DRAM", count),
}


def _error(error: float | None, unit: str) -> str:
    return "–" if error is None else f"{error:+.1f} points" if unit == "%" else f"{100 * error:+.1f}%"
