"""Drawings of one warp instruction: text for terminals, SVG for documents.

Shared memory: a row a lane, a column a bank, the cell holds the wavefront. Global memory: a row a line, a column a
4-byte word in its sector, the cell holds the lane; an atomic has a row a turn. Symbols tell all; colours repeat the
wavefront.
"""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING

from warpsim.picture import ATOMICS, Picture, figures, lanes_text, pattern, picture, sentences

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["STYLE", "draw", "figures", "pattern", "picture", "render", "svg"]

_SYMBOLS = "0123456789abcdefghijklmnopqrstuv"
_COLOURS = ("#44729f", "#d1484b", "#4b8a45", "#96608a", "#bf6510", "#0f8585", "#8a634c", "#b94f75")
_NAMES = {
    "sectors": "sectors",
    "tags": "tags (lines)",
    "tag_wavefronts": "tag wavefronts",
    "data_wavefronts": "data wavefronts",
    "l2_requests": "L2 requests",
    "conflicts": "bank conflicts",
}
_WIDTH = 100
_REMARK = 30  # characters for the lanes on a line; the cells hold them anyway

Cell = tuple[str, int]  # symbol and wavefront; wavefront -1: nothing there, -2: fetched for nothing
Row = tuple[str, list[Cell], str]  # label, cells, remark


def draw(picture: Picture, *, colour: bool = False) -> str:
    """The picture as text, with terminal colours or without."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer, width=_WIDTH, force_terminal=colour, color_system="truecolor" if colour else None, highlight=False,
        legacy_windows=False,
    )  # fmt: skip
    console.print(render(picture), soft_wrap=True)
    return buffer.getvalue()


def render(picture: Picture) -> Text:
    """The picture as a rich renderable."""
    from rich.text import Text

    text = Text()
    text.append(_heading(picture) + "\n\n", "bold")
    head, rows = _grid(picture)
    if rows:
        labels = max(len(label) for label, _, _ in rows)
        block = 8
        for line in head:
            text.append(" " * labels + "  " + line + "\n", "dim")
        for label, cells, remark in rows:
            text.append(f"{label:>{labels}}  ", "dim")
            for column, (symbol, wavefront) in enumerate(cells):
                if column and column % block == 0:
                    text.append(" ")
                style = f"bold white on {_COLOURS[wavefront % len(_COLOURS)]}" if wavefront >= 0 else "dim"
                text.append(symbol, style)
            text.append(f"  {remark}\n")
        text.append(" " * labels + "  " + _legend(picture) + "\n\n", "dim")
    names, values, ideals = zip(*_counts(picture), strict=True)
    wide = max(map(len, names))
    text.append(f"{'':{wide}} {'this':>6} {'ideal':>6}\n", "dim")
    for name, value, ideal in zip(names, values, ideals, strict=True):
        excess = f"  {value / ideal:.3g} x" if ideal and value > ideal else ""
        text.append(f"{name:{wide}} ")
        text.append(f"{value:6}", "bold red" if value > ideal else "bold green")
        text.append(f" {ideal:6}{excess}\n")
    text.append("\n" + "\n".join(sentences(picture)))
    return text


def _heading(picture: Picture) -> str:
    what = "reduction" if picture.op == "red" else picture.op
    title = f"{picture.title}: " if picture.title else ""
    return f"{title}{picture.space} {what}, {picture.width} bytes a lane, {picture.gpu.title}"


def _legend(picture: Picture) -> str:
    if picture.space == "shared":
        return "0-9, a-v: wavefront, * beyond 31; · not accessed"
    if picture.op in ATOMICS:
        return "a row a turn; 0-9, a-v: lane; - in a sector that moves but not used; · not touched"
    return "0-9, a-v: lane, + several lanes; - in a sector that moves but not used; · not touched"


def _counts(picture: Picture) -> list[tuple[str, int, int]]:
    """Name, count and ideal of each figure."""
    values = vars(picture.counts)
    return [(_NAMES[key], value, values[f"ideal_{key}"]) for key, value in values.items() if key in _NAMES]


def _grid(picture: Picture) -> tuple[list[str], list[Row]]:
    """Heading lines and rows of 32 cells."""
    return _bank_grid(picture) if picture.space == "shared" else _line_grid(picture)


def _bank_grid(picture: Picture) -> tuple[list[str], list[Row]]:
    head = ["bank 0   8        16       24"]
    turns: dict[tuple[int, int], int] = {}  # wavefront of each lane's access to a bank
    done = 0
    for group in picture.groups:
        for bank, words in group.items():
            turn = 0
            for lanes in words.values():
                for lane in lanes:
                    turns[lane, bank] = done + turn
                    turn += picture.op == "atomic"
                turn += picture.op != "atomic"
        if group:
            done += max(
                sum(map(len, words.values())) if picture.op == "atomic" else len(words) for words in group.values()
            )
    rows: list[Row] = []
    for lane in picture.lanes:
        cells = [_turn(turns.get((lane, bank), -1)) for bank in range(32)]
        rows.append((f"lane {lane}", cells, f"byte {picture.addresses[lane]}"))
    return head, rows


def _turn(wavefront: int) -> Cell:
    if wavefront < 0:
        return "·", -1
    return (_SYMBOLS[wavefront] if wavefront < len(_SYMBOLS) else "*"), wavefront


def _line_grid(picture: Picture) -> tuple[list[str], list[Row]]:
    head = ["sector 0 1        2        3"]
    rows: list[Row] = []
    for line in picture.lines:
        cells: list[Cell] = []
        for word in range(32):
            lanes = line.words.get(word, [])
            if lanes:
                cells.append((_SYMBOLS[lanes[0]] if len(lanes) == 1 else "+", line.wavefront))
            else:
                cells.append(("-", -2) if word // 8 in line.sectors else ("·", -1))
        lanes_on = ("lane " if len(line.lanes) == 1 else "lanes ") + lanes_text(line.lanes)
        if len(lanes_on) > _REMARK:
            lanes_on = f"{len(line.lanes)} lanes"
        remark = f"tag bank {line.tag_bank}, wavefront {line.wavefront}, {lanes_on}"
        rows.append((f"{128 * line.number:#x}", cells, remark))
    return head, rows


_STYLE = """
.warp { font: 13px system-ui, "DejaVu Sans", sans-serif; }
.warp .cell { fill: #ffffff; font: 10px ui-monospace, "DejaVu Sans Mono", monospace; text-anchor: middle; }
.warp .end { text-anchor: end; }
.warp .head { font-size: 15px; font-weight: 600; }
.warp .soft { font-size: 11px; }
"""
_LIGHT = {
    "paper": "#ffffff", "ink": "#1b1f24", "head": "#1b1f24", "soft": "#59636e", "empty": "#eef1f4", "waste": "#e3c2b0",
    "bad": "#b3261e", "good": "#1a7f37",
}  # fmt: skip
_DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "head": "#e6edf3", "soft": "#9aa5b1", "empty": "#21262d", "waste": "#6b4a3a",
    "bad": "#ff8b82", "good": "#57d364",
}  # fmt: skip


def svg(picture: Picture, *, inline: bool = False) -> str:
    """The picture as a standalone SVG document, for light and dark pages; its description is the text drawing.

    `inline`: for a page that holds `STYLE` already, and scales it.
    """
    _, rows = _grid(picture)
    size, gap, top = 17, 5, 74
    left = max(92, 18 + 7 * max((len(label) for label, _, _ in rows), default=0))
    parts: list[str] = []
    cells: dict[str, list[str]] = {}  # squares of one look are one path

    def put(x: float, y: float, text: str, kind: str = "ink") -> None:
        parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>')

    def column(i: int) -> int:
        return left + i * size + i // 8 * gap

    put(16, 28, _heading(picture), "head")
    what = "bank" if picture.space == "shared" else "sector"
    for i in range(0, 32, 8):
        put(column(i), top - 8, f"{what} {i if what == 'bank' else i // 8}", "soft")
    for number, (label, row, remark) in enumerate(rows):
        y = top + number * size
        put(left - 8, y + 12, label, "soft end")
        for i, (symbol, wavefront) in enumerate(row):
            look = {-1: 'class="empty"', -2: 'class="waste"'}.get(
                wavefront, f'fill="{_COLOURS[wavefront % len(_COLOURS)]}"'
            )
            cells.setdefault(look, []).append(f"M{column(i)} {y}h{size - 1}v{size - 1}h{1 - size}z")
            if wavefront >= 0:
                put(column(i) + size / 2 - 0.5, y + 12, symbol, "cell")
        put(column(31) + size + 10, y + 12, remark, "soft")
    y = top + len(rows) * size + 16
    if rows:
        put(left, y, _legend(picture).replace("- in", "tinted: in").replace("·", "grey:"), "soft")
    y += 30
    put(left + 100, y, "this", "soft end")
    put(left + 160, y, "ideal", "soft end")
    for name, value, ideal in _counts(picture):
        y += 19
        put(16, y, name)
        put(left + 100, y, str(value), "end bad" if value > ideal else "end good")
        put(left + 160, y, str(ideal), "ink end")
    y += 14
    for sentence in sentences(picture):
        y += 20
        put(16, y, sentence)
    width, height = 1040, y + 20
    squares = [f'<path {look} d="{"".join(outlines)}"/>' for look, outlines in cells.items()]
    body = "\n".join([f'<rect class="paper" width="{width}" height="{height}"/>', *squares, *parts])
    if inline:
        label = escape(f"{_heading(picture)}. {' '.join(sentences(picture))}", quote=True)
        return (
            f'<svg class="warp" role="img" aria-label="{label}" viewBox="0 0 {width} {height}">'
            f"<title>{escape(_heading(picture))}</title>{body}</svg>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="warp" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}">\n<title>{escape(_heading(picture))}</title>\n'
        f"<desc>{escape(draw(picture))}</desc>\n<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def _style() -> str:
    light, dark = (
        "\n".join(f".warp .{name} {{ fill: {value}; }}" for name, value in theme.items()) for theme in (_LIGHT, _DARK)
    )
    return f"{_STYLE}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


STYLE = _style()
"""CSS of the drawings, for light and dark pages."""
