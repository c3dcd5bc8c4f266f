"""The source part of the report: counters beside each line, and its worst warp instruction drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from warpsim.drawing import svg
from warpsim.errors import InputError
from warpsim.gpu import Gpu, load_gpu
from warpsim.patterns import SharedAccess
from warpsim.picture import Picture, picture
from warpsim.result import Result
from warpsim.text import line_rows, marks, shown_lines

__all__ = ["source_table", "worst_pictures"]

COLUMNS = ("access", "requests", "sectors a request (ideal)", "wavefronts", "ways", "L1 hit", "L2 hit")

DRAWINGS, LINES = 24, 400
"""Drawings (some 20 kB each) and source lines in a report at most, marked lines first."""

_KINDS = {
    "LDG": ("load", "load"), "LD": ("load", "load"), "LDGSTS": ("load", "load"), "STG": ("store", "store"),
    "ST": ("store", "store"), "ATOMG": ("atomic", "atomic"), "ATOM": ("atomic", "atomic"), "RED": ("reduction", "red"),
    "REDG": ("reduction", "red"), "LDS": ("shared load", "load"), "STS": ("shared store", "store"),
    "ATOMS": ("shared atomic", "atomic"),
}  # fmt: skip
"""Opcode: kind of access as the tables name it, and as `warpsim.access` does."""


def source_table(result: Result) -> str:
    """HTML rows of all lines with memory accesses, in source order."""
    marked = marks(result)
    drawings = _chosen(result, marked)
    head = "".join(f"<th{_left(i)}>{name}</th>" for i, name in enumerate(COLUMNS))
    lines, left = shown_lines(result, LINES)
    body = "".join(_rows(lines, marked, drawings))
    if not body:
        return '<p class="dim">no line with memory accesses is known</p>'
    more = f'<p class="dim">{left:,} more lines: --format json has them all</p>' if left else ""
    return (
        f'<div class="scroll"><table class="source"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{more}"
    )


def _left(column: int) -> str:
    return ' class="left"' if column < 1 else ""


def _rows(
    lines: Sequence[Mapping[str, Any]], marked: set[tuple[str, int, str]], drawings: Mapping[Any, Picture]
) -> Iterator[str]:
    whole = f'<td colspan="{len(COLUMNS)}" class="left">'
    for line in lines:
        text = escape(str(line.get("text", "")).strip())
        yield f'<tr class="place">{whole}{escape(line["file"])}:{line["line"]} <code>{text}</code></td></tr>'
        for access, *cells in line_rows(line):
            key = (line["file"], line["line"], access)
            hits = [_hit_rate(line["metrics"], names) for names in _HITS] if access == "load" else ["", ""]
            kind = ' class="mark"' if key in marked else ""
            row = map(escape, (access, *cells, *hits))
            yield f"<tr{kind}>{''.join(f'<td{_left(i)}>{cell}</td>' for i, cell in enumerate(row))}</tr>"
            if key in drawings:
                shown = " open" if key in marked else ""
                yield (
                    f'<tr class="drawing">{whole}<details{shown}><summary>worst warp instruction:'
                    f" {escape(_worst(drawings[key]))}</summary>{svg(drawings[key], inline=True)}</details></td></tr>"
                )


_HITS = [
    tuple(f"{name}_lookup_{kind}.sum" for kind in ("hit", "miss"))
    for name in ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "lts__t_sectors_srcunit_tex")
]


def _hit_rate(metrics: Mapping[str, float], names: Sequence[str]) -> str:
    hit, miss = names
    both = metrics.get(hit, 0) + metrics.get(miss, 0)
    return f"{100 * metrics.get(hit, 0) / both:.0f}%" if both else ""


def _worst(shown: Picture) -> str:
    here, least = _counts(shown)
    return f"{here} {'wavefronts' if shown.space == 'shared' else 'sectors'}, ideal {least}"


def _counts(shown: Picture) -> tuple[int, int]:
    """Wavefronts or sectors, and how many would do for this width."""
    counts = shown.counts
    if isinstance(counts, SharedAccess):
        return int(counts.data_wavefronts), int(counts.data_wavefronts - counts.conflicts)
    return int(counts.sectors), int(counts.ideal_sectors)


def _chosen(result: Result, marked: set[tuple[str, int, str]]) -> dict[tuple[str, int, str], Picture]:
    found = worst_pictures(result)
    bad = [key for key in found if _excess(found[key]) > 1]
    first = sorted(bad, key=lambda key: (key not in marked, -_excess(found[key])))
    return {key: found[key] for key in first[:DRAWINGS]}


def _excess(shown: Picture) -> float:
    here, least = _counts(shown)
    return here / max(least, 1)


def worst_pictures(result: Result) -> dict[tuple[str, int, str], Picture]:
    """(file, line, kind of access) -> its warp instruction with the most sectors or wavefronts for its bytes."""
    try:
        gpu = load_gpu(result.gpu)
    except InputError:  # a profile of the user's own, which is not at hand
        return {}
    found: dict[tuple[str, int, str], Picture] = {}
    for line in result.lines:
        for access in line.get("accesses", ()):
            if "worst" not in access or access["op"] not in _KINDS:
                continue
            kind, op = _KINDS[access["op"]]
            shown = _picture(access, op, gpu, f"{line['file']}:{line['line']}")
            key = (line["file"], line["line"], kind)
            if key not in found or _excess(shown) > _excess(found[key]):
                found[key] = shown
    return found


def _picture(access: Mapping[str, Any], op: str, gpu: Gpu, title: str) -> Picture:
    worst = access["worst"]
    active = [bool(worst["active"] >> lane & 1) for lane in range(32)]
    space = "shared" if access["space"] == "shared" else "global"
    return picture(worst["addresses"], width=access["width"], op=op, space=space, active=active, gpu=gpu, title=title)
