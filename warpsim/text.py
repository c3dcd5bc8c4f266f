"""A Result as text: what `warpsim run` prints.

Colours appear on a terminal only; piped text is plain and 100 columns wide. Bytes are decimal (1 kB = 1000 B).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts

if TYPE_CHECKING:
    from warpsim.result import Result

__all__ = [
    "bandwidth", "byte_count", "count", "duration", "extent", "html", "line_rows", "make_console", "make_table",
    "marks", "number", "percent", "render", "show", "shown_findings", "shown_lines", "summary", "trust_notes",
]  # fmt: skip

WIDTH = 100

FEW, LINES = 4, 40
"""Findings of one kind, and rows of source lines, that are shown in full."""

COMPONENTS = {
    "tag stage": "the tag stage of L1",
    "data stage": "the data stage of L1 and shared",
    "request port": "the SMs' request ports to L2",
    "return port": "the SMs' return ports from L2",
    "L2 slices": "the L2 slices",
    "DRAM": "DRAM",
    "issue": "instruction issue",
    "dispatch": "CTA dispatch",
    "latency": "latency: no component is saturated",
}


def number(value: float | None, digits: int = 3) -> str:
    """A ratio or rate with few digits; a dash where it does not exist."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def count(value: float | None) -> str:
    """A counter, in full up to a billion."""
    if value is None:
        return "–"
    return f"{value / 1e9:.4g} G" if abs(value) >= 1e10 else f"{value:,.0f}"


def byte_count(value: float | None) -> str:
    """Bytes in decimal units."""
    return _scaled(value, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)), "B")


def bandwidth(value: float | None) -> str:
    """Bytes a second in decimal units."""
    return _scaled(value, (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)), "B/s")


def duration(ns: float | None) -> str:
    """Nanoseconds in the unit that fits."""
    return _scaled(ns, (("s", 1e9), ("ms", 1e6), ("us", 1e3)), "ns")


def percent(fraction: float | None) -> str:
    """A fraction of 1 as a percentage."""
    if fraction is None:
        return "–"
    digits = 1 if 0 < abs(fraction) < 0.1 or 0.99 < fraction < 1 else 0
    return f"{100 * fraction:.{digits}f}%"


def _scaled(value: float | None, units: tuple[tuple[str, float], ...], base: str) -> str:
    if value is None:
        return "–"
    for unit, size in units:
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} {base}"


def make_console(file: Any = None) -> Console:
    """A console on `file` (standard output): at most 120 columns on a terminal, 100 and no colour elsewhere."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        return Console(file=file, width=WIDTH, highlight=False, color_system=None, force_terminal=False)
    console.width = max(60, min(console.width, 120))
    return console


def make_table(*columns: str, title: str | None = None) -> Table:
    """A compact table; the first column is text on the left, the others are numbers on the right."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold",
        pad_edge=False, show_edge=False, header_style="dim",
    )  # fmt: skip
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", overflow="fold")
    return table


def summary(result: Result, width: int = WIDTH) -> str:
    """The report as plain text."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, highlight=False, color_system=None, force_terminal=False)
    render(result, console)
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def html(result: Result) -> str:
    """The report as an HTML fragment with inline styles, for notebooks."""
    console = Console(file=io.StringIO(), width=WIDTH, record=True, force_terminal=True, highlight=False)
    render(result, console)
    middling = [(0, 0, 0), (209, 56, 61), (43, 147, 72), (176, 125, 0), (47, 129, 247), (164, 91, 208), (18, 152, 166)]
    theme = TerminalTheme((255, 255, 255), (0, 0, 0), [*middling, (128, 128, 128)])  # for light pages and dark ones
    return console.export_html(
        theme=theme,
        inline_styles=True,
        code_format='<pre style="line-height:1.25;font-family:ui-monospace,Menlo,Consolas,monospace">{code}</pre>',
    )


def render(result: Result, console: Console) -> None:
    """Print the whole report."""
    console.print(_headline(result))
    for part in _sections(result, console.width):
        console.print()
        show(part, console)


def show(part: RenderableType, console: Console) -> None:
    """Print a part; on a narrow terminal the columns of a table stand closer, and headings wrap before cells do."""
    if isinstance(part, Table) and part.box and console.width < WIDTH:
        part.padding = (0, 1, 0, 0)
        if _natural(part, console) > console.width:
            for column in part.columns[1:]:
                column.header = str(column.header).replace(" ", "\n")
    console.print(part, markup=False)


def _natural(table: Table, console: Console) -> int:
    """Width of a table that nothing confines."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def _sections(result: Result, width: int) -> Iterator[RenderableType]:
    yield _launch(result)
    yield _global_table(result, width)
    if any(result.derived["shared"][op]["wavefronts"] for op in ("load", "store")):
        yield _shared_table(result)
    yield _levels_table(result)
    yield _facts(result)
    if result.lines:
        yield _lines_table(result, width)
    yield _findings(result)
    yield Group(*(Text(f"· {note}", "dim") for note in trust_notes(result)))


def _headline(result: Result) -> RenderableType:
    derived, source = result.derived, result.source
    head = Text()
    head.append(result.scenario, "bold cyan")
    if result.kernel and result.kernel != result.scenario:
        head.append(f"  {result.kernel}", "cyan")
    head.append(f"  on {result.gpu}, {source}")
    if not derived["trust"]["profile_checked"]:
        head.append("  (profile not checked against the GPU)", "yellow")
    limiter = derived["limiter"]
    line = Text(duration(result.time_ns), "bold")
    if derived["bandwidth"]["effective"] is not None:
        share = percent(derived["bandwidth"]["effective_share_of_peak"])
        line.append(f"  {bandwidth(derived['bandwidth']['effective'])} effective, {share} of peak", "not bold")
    if limiter["name"]:
        what = COMPONENTS.get(limiter["name"], limiter["name"])
        line.append("  limited by ", "not bold")
        line.append(what, "bold magenta")
        if limiter["name"] != "latency":
            line.append(f" ({percent(limiter['share'])} busy)", "not bold")
    return Group(head, line)


def _launch(result: Result) -> RenderableType:
    launch, occupancy = result.launch, result.derived["occupancy"]
    text = Text(
        f"grid {extent(launch['grid'])}, block {extent(launch['block'])}, {launch.get('registers', '–')} registers"
    )
    if launch.get("shared"):
        text.append(f", {launch['shared']:,} B shared")
    text.append(f"; {number(occupancy['ctas_per_sm'])} CTAs an SM")
    if occupancy["limit"]:
        text.append(f" (limited by {occupancy['limit']})")
    text.append(f"; occupancy {percent(occupancy['theoretical'])}, achieved {percent(occupancy['achieved'])}")
    if occupancy["waves"] is not None:
        text.append(f"; {number(occupancy['waves'])} waves")
    if result.params:
        text.append("\n" + ", ".join(f"{k} = {v}" for k, v in result.params.items()), "dim")
    return text


def _global_table(result: Result, width: int) -> RenderableType:
    useful = "/useful" if width < WIDTH else "bytes/useful"
    table = make_table("Global memory (L1)", "requests", "sectors", "a request", "ideal", useful, "L1 hit")
    waste = result.derived["bytes_per_useful_byte"]
    names = {"load": "loads", "store": "stores", "atomic": "atomics", "reduction": "reductions", "async_copy": "LDGSTS"}
    for key, title in names.items():
        row = result.derived["global"].get(key)
        if row is None or not row["requests"]:
            continue
        ideal = row.get("ideal_sectors_per_request")
        here = row["sectors_per_request"]
        bad = ideal is not None and here is not None and here > 1.05 * ideal
        over = waste.get({"load": "l1_read", "store": "l1_write"}.get(key, ""))
        table.add_row(
            title,
            count(row["requests"]),
            count(row["sectors"]),
            Text(number(here, 4), "red" if bad else "green" if ideal is not None else ""),
            number(ideal, 4),
            number(over),
            percent(row["hit_rate"]) if "hit_rate" in row else "–",
        )
    local = {op: result.metrics.get(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum", 0) for op in ("ld", "st")}
    for op, title in (("ld", "local loads"), ("st", "local stores")):
        if local[op]:
            sectors = result.metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", 0)
            table.add_row(title, count(local[op]), count(sectors), number(sectors / local[op], 4), "–", "–", "–")
    return table if table.row_count else Text("no global memory accesses")


def _shared_table(result: Result) -> RenderableType:
    table = make_table("Shared memory", "requests", "wavefronts", "ideal", "conflicts", "ways")
    for key, title in (("load", "loads"), ("store", "stores")):
        row = result.derived["shared"][key]
        if row["wavefronts"]:
            style = "red" if row["ways"] and row["ways"] > 1.05 else "green"
            table.add_row(
                title, count(row["requests"]), count(row["wavefronts"]), count(row["ideal_wavefronts"]),
                count(row["conflicts"]), Text(number(row["ways"]), style),
            )  # fmt: skip
    return table


def _levels_table(result: Result) -> RenderableType:
    table = make_table("Below L1", "read", "/useful", "written", "/useful", "hit rate", "bandwidth", "of peak")
    derived = result.derived
    waste, band = derived["bytes_per_useful_byte"], derived["bandwidth"]
    for level, title in (("l2", "L2"), ("dram", "DRAM")):
        row = derived[level]
        table.add_row(
            title,
            byte_count(row["read_bytes"]),
            _wasteful(waste[f"{level}_read"]),
            byte_count(row["write_bytes"]),
            _wasteful(waste[f"{level}_write"]),
            percent(row["hit_rate"]) if level == "l2" else "",
            bandwidth(band[level]),
            percent(band["dram_share_of_peak"]) if level == "dram" else "",
        )
    useful = derived["useful"]
    table.add_row(
        "useful", byte_count(useful["read_bytes"]), "", byte_count(useful["write_bytes"]), "", "",
        bandwidth(band["effective"]), percent(band["effective_share_of_peak"]),
    )  # fmt: skip
    return table


def _wasteful(value: float | None) -> Text:
    return Text(number(value), "" if value is None else "red" if value > 1.25 else "green")


def _facts(result: Result) -> RenderableType:
    law, flops = result.derived["littles_law"], result.derived["flops"]
    roofline, intensity = result.derived["roofline"], result.derived["intensity"]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    if law["needed_bytes_per_sm"] is not None:
        text = ""
        if law["in_flight_bytes_per_sm"] is not None:
            text = f"{byte_count(law['in_flight_bytes_per_sm'])} an SM on average; "
        text += (
            f"Little's law asks for {byte_count(law['needed_bytes_per_sm'])} "
            f"({law['latency_ns']:.0f} ns x {bandwidth(result.derived['bandwidth']['peak'])})"
        )
        if law["warps_needed_per_sm"] is not None:
            text += (
                f": {law['warps_needed_per_sm']:,} warps with {byte_count(law['bytes_per_warp'])} each, "
                f"{number(law['warps_per_sm'])} resident"
            )
        grid.add_row("in flight", text)
    kinds = [f"{count(flops[p])} {p}" for p in ("fp32", "fp64", "fp16") if flops[p]]
    text = ", ".join(kinds) if kinds else "none"
    if flops["other_ops"]:
        text += "; not counted: " + ", ".join(f"{count(n)} {op}" for op, n in flops["other_ops"].items())
    if roofline["achieved_flops"]:
        text += f"; {roofline['achieved_flops'] / 1e9:,.4g} GFLOP/s"
    grid.add_row("FLOPs", text)
    ridge = ", ".join(f"{number(at)} {name.replace('_', ' ')}" for name, at in roofline["ridge"].items() if at)
    text = f"{number(intensity['useful'])} FLOP/B of useful, {number(intensity['dram'])} of DRAM bytes"
    if ridge:
        text += f"; ridge at {ridge}"
    if roofline["bound"]:
        text += f": {roofline['bound']}-bound"
    grid.add_row("intensity", text)
    busy = sorted(result.derived["limiter"]["busy"].items(), key=lambda item: -item[1])
    if busy:
        grid.add_row("busy", ", ".join(f"{name} {percent(share)}" for name, share in busy if share >= 0.005))
    return grid


def _lines_table(result: Result, width: int) -> RenderableType:
    """Counters per source line and kind of access, in source order; the marks are those of findings."""
    several = len({line["file"] for line in result.lines}) > 1
    marked = marks(result)
    rows: list[tuple[bool, tuple[str, ...]]] = []
    lines, left = shown_lines(result, LINES)
    for line in lines:
        name = f"{line['file']}:{line['line']}" if several else str(line["line"])
        text = str(line.get("text", "")).strip()
        for access, *cells in line_rows(line):
            rows.append(((line["file"], line["line"], access) in marked, (name, text, access, *cells)))
            name = text = ""
    if not rows:
        return Text("no line with memory accesses is known")
    per = "a request" if width < WIDTH else "sectors/request"
    titles = ("line", "source", "access", "requests", per, "wavefronts", "ways")
    widths = [max(len(title), *(len(cells[i]) for _, cells in rows)) for i, title in enumerate(titles)]
    room = max(10, width - 6 * (2 if width < WIDTH else 3) - 2 - sum(widths) + widths[1])
    table = make_table(*titles)
    table.columns[0].justify = "right"
    table.columns[1].justify = table.columns[2].justify = "left"
    for bad, (name, text, access, *cells) in rows:
        shown = text if len(text) <= room else text[: room - 1] + "…"
        table.add_row(Text(("! " if bad else "  ") + name), Text(shown), access, *cells, style="red" if bad else "")
    if left:
        return Group(table, Text(f"{left:,} more lines: --format json has them all", "dim"))
    return table


def shown_lines(result: Result, most: int) -> tuple[list[Mapping[str, Any]], int]:
    """In source order the lines with the most traffic, those that warnings point at first, and how many are left."""
    marked = {place[:2] for place in marks(result)}

    def rank(line: Mapping[str, Any]) -> tuple[bool, float]:
        moved = sum(
            (32 if "sectors" in name else 128) * value
            for name, value in line["metrics"].items()
            if name.startswith(("l1tex__t_sectors_pipe_lsu_mem", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"))
            and "lookup" not in name
        )
        return (line["file"], line["line"]) in marked, moved

    busy = [line for line in result.lines if next(line_rows(line), None)]
    chosen = sorted(busy, key=rank, reverse=True)[:most]
    return sorted(chosen, key=lambda line: (line["file"], line["line"])), len(busy) - len(chosen)


def shown_findings(result: Result) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Findings to show in full, the last of a kind of them with those that are not."""
    kinds: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for found in result.findings:
        kinds.setdefault((found["rule"], found.get("access")), []).append(found)
    for found in result.findings:
        kind = kinds[found["rule"], found.get("access")]
        if any(found is one for one in kind[:FEW]):
            yield found, kind[FEW:] if found is kind[:FEW][-1] else []


def marks(result: Result) -> set[tuple[str, int, str]]:
    """(file, line, access) of what warnings point at."""
    return {(f["file"], f["line"], f["access"]) for f in result.findings if "line" in f and f["severity"] == "warning"}


def line_rows(line: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """Access, requests, sectors a request with their ideal, wavefronts and ways, for each kind of access of a line."""
    metrics, ideal = line["metrics"], line.get("ideal", {})
    for op, access in (("ld", "load"), ("st", "store"), ("atom", "atomic"), ("red", "reduction")):
        requests, sectors = metrics.get(global_requests(op), 0), metrics.get(global_sectors(op), 0)
        if requests:
            least = ideal.get(global_sectors(op))
            beside = f" ({number(least / requests, 4)})" if least else ""
            yield access, count(requests), number(sectors / requests, 4) + beside, "", ""
    for op, access in (("ld", "shared load"), ("st", "shared store"), ("atom", "shared atomic")):
        wavefronts, conflicts = metrics.get(shared_wavefronts(op), 0), metrics.get(shared_conflicts(op), 0)
        if wavefronts:
            least = ideal.get(shared_wavefronts(op)) or wavefronts - conflicts
            yield access, "", "", count(wavefronts), number(wavefronts / least) if least else "–"
    for op, access in (("ld", "local load"), ("st", "local store")):
        requests = metrics.get(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum", 0)
        if requests:
            sectors = metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", 0)
            yield access, count(requests), number(sectors / requests, 4), "", ""


def extent(sizes: Sequence[int]) -> str:
    """A grid or block without its trailing ones: 128 x 128."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " x ".join(map(str, kept))


def _findings(result: Result) -> RenderableType:
    if not result.findings:
        return Text("no findings", "green")
    colours = {"warning": "bold red", "advice": "bold yellow", "info": "bold blue"}
    parts: list[RenderableType] = [Text("Findings", "bold")]
    for found, others in shown_findings(result):
        text = Text()
        text.append(found["rule"], colours[found["severity"]])
        text.append(f"  {found['message']}")
        if "line" in found:
            text.append(f"  [{found['where']}]", "cyan")
        parts.append(Padding(text, (0, 0, 0, 2)))
        note = found["advice"]
        gain = found["gain"]
        if gain and gain["speedup"] > 1.02:
            times = f"{duration(gain['time_ns'])} to {duration(gain['time_after_ns'])}"
            again = gain["how"].startswith("simulated")
            how = "simulated again without it:" if again else "about"
            note += f"; {how} {gain['speedup']:.2f} x faster ({times})"
        if note:
            parts.append(Padding(Text(note, "dim"), (0, 0, 0, 6)))
        if others:
            places = ", ".join(str(one["where"]) for one in others[:FEW]) + (", …" if len(others) > FEW else "")
            parts.append(Padding(Text(f"{len(others)} more like this: {places}", "dim"), (0, 0, 0, 6)))
    return Group(*parts)


def trust_notes(result: Result) -> list[str]:
    """What to know before believing the figures: unchecked or assumed profile, sampling, assumptions, versions."""
    trust = result.derived["trust"]
    notes = list(trust["notes"])
    if not trust["profile_checked"]:
        notes.insert(0, f"the profile of {result.gpu} has not been checked against this GPU")
    if trust["assumed"]:
        names = trust["assumed"]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        notes.append(f"assumed without a source: {shown}")
    coverage = result.coverage
    if coverage["ctas"] < coverage["of"]:
        timed = f"{coverage['ctas']:,} of {coverage['of']:,} CTAs"
        notes.append(f"sampled: {timed} timed, the rest extrapolated (--exact times all)")
    for name, bound in result.uncertainty.items():
        if isinstance(bound, Mapping) and bound.get("relative") is not None:
            why = f" ({bound['why']})" if bound.get("why") else ""
            notes.append(f"{name}: ± {percent(bound['relative'])}{why}")
    notes += [f"assumed: {unknown}" for unknown in trust["unknowns"]]
    if result.compiler:
        notes.append(f"compiled by {result.compiler}; SM clock {result.clock_mhz:,.0f} MHz")
    return notes
