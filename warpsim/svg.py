"""Charts as SVG: a canvas, axes with ticks, and one style for light and dark pages.

A chart stands in a page that holds `STYLE`, or alone in a file that brings it along (`Drawing.document`). Colours are
plain values, not variables, so that other readers of SVG show them too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path

from warpsim.errors import InputError, UnsupportedError

__all__ = ["STYLE", "Axis", "Canvas", "Drawing", "check_target"]

_RULES = """
.chart text{font:12.5px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:$ink}
.chart .halo{paint-order:stroke;stroke:$paper;stroke-width:4px;stroke-linejoin:round}
.chart .name{font-size:14px;font-weight:600}.chart .soft{fill:$soft;font-size:11.5px}
.chart .paper{fill:$paper}.chart .box{fill:$panel;stroke:$rule}.chart .load{fill:$blue}
.chart .flow{stroke:$ink;fill:none}.chart .tip{fill:$ink}.chart .none{opacity:.3}
.chart .axis{stroke:$soft;fill:none}.chart .grid{stroke:$rule;fill:none}
.chart .line{stroke:$blue;stroke-width:2;fill:none;stroke-linejoin:round}
.chart .area{fill:$blue;fill-opacity:.14}
.chart .roof{stroke:$ink;stroke-width:2;fill:none}
.chart .limit{stroke:$bad;stroke-width:1.5;stroke-dasharray:6 4;fill:none}
.chart .other{stroke:$soft;stroke-width:1;stroke-dasharray:5 4;fill:none}.chart .band{fill:$soft;fill-opacity:.15}
.chart .blue{fill:$blue}.chart .good{fill:$good}.chart .bad{fill:$bad}
.chart .hollow{fill:none;stroke:$blue;stroke-width:2}
"""
_LIGHT = {
    "ink": "#1b1f24", "soft": "#59636e", "paper": "#ffffff", "panel": "#f6f8fa", "rule": "#d1d9e0", "blue": "#0969da",
    "good": "#1a7f37", "bad": "#b3261e",
}  # fmt: skip
_DARK = {
    "ink": "#e6edf3", "soft": "#9aa5b1", "paper": "#0d1117", "panel": "#161b22", "rule": "#30363d", "blue": "#58a6ff",
    "good": "#57d364", "bad": "#ff8b82",
}  # fmt: skip


def _coloured(theme: dict[str, str]) -> str:
    text = _RULES
    for name, value in theme.items():
        text = text.replace(f"${name}", value)
    return text


STYLE = f"{_coloured(_LIGHT)}@media (prefers-color-scheme:dark){{{_coloured(_DARK)}}}\n"
"""CSS of the classes that charts use; print is light."""


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a file name that does not say SVG or PNG, and PNG where nothing can draw it."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise InputError(f"{os.fspath(path)}: charts are written as .svg or .png")
    if suffix == ".png" and find_spec("matplotlib") is None:
        raise UnsupportedError(
            f"{os.fspath(path)}: PNG needs warpsim[report] (pip install 'warpsim[report]'); .svg needs nothing"
        )


@dataclass(frozen=True)
class Drawing:
    """A chart. Notebooks show it; `save` writes a file of its own; `inline` goes into a page with `STYLE`."""

    inline: str

    @property
    def document(self) -> str:
        """A standalone SVG document."""
        head, rest = self.inline.split(">", 1)
        return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{rest}\n'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart as SVG or, with the extra `report`, as PNG, by the file's suffix."""
        target = Path(path)
        check_target(target)
        try:
            if target.suffix.lower() == ".png":
                from warpsim.raster import save_png

                save_png(self.inline, _coloured(_LIGHT), target)
                return
            target.write_text(self.document, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{os.fspath(path)}: cannot write: {error.strerror}") from None

    def _repr_html_(self) -> str:
        return f'<div style="max-width:920px">{self.document}</div>'


class Canvas:
    """Shapes on a sheet of `width` x `height`; coordinates grow to the right and down."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> None:
        """A line of text; `anchor` is start, middle or end."""
        mark = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{mark}>{escape(text)}</text>')

    def path(self, data: str, kind: str, style: str = "") -> None:
        """A path in SVG's own notation."""
        self.parts.append(f'<path d="{data}" class="{kind}"{f" style={chr(34)}{style}{chr(34)}" if style else ""}/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, style: str = "") -> None:
        """A rectangle with round corners."""
        more = f' style="{style}"' if style else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{kind}"{more}/>'
        )

    def dot(self, x: float, y: float, kind: str, title: str = "") -> None:
        """A point, with a text that browsers show beside the pointer."""
        inner = f"><title>{escape(title)}</title></circle>" if title else "/>"
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"{inner}')

    def labels(
        self, points: Sequence[tuple[float, float, str]], x: Axis, y: Axis, among: Sequence[tuple[float, float]] = ()
    ) -> None:
        """Names beside points, each where it covers no point (of these and `among`) and no other name, if anywhere."""
        taken = [(i - 6, j - 6, i + 6, j + 6) for i, j in (*among, *(point[:2] for point in points))]
        for i, j, text in points:
            wide = 7.0 * len(text)
            for at, down, anchor, left in (
                (i + 9, 4, "start", i + 9), (i - 9, 4, "end", i - 9 - wide), (i, -10, "middle", i - wide / 2),
                (i, 19, "middle", i - wide / 2),
            ):  # fmt: skip
                box = (left, j + down - 10, left + wide, j + down + 3)
                inside = x.start <= box[0] and box[2] <= self.width and y.end - 8 <= box[1] and box[3] <= y.start + 4
                if inside and not any(
                    box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                    for other in taken
                ):
                    self.text(at, j + down, text, anchor, "soft halo")
                    taken.append(box)
                    break

    def drawing(self, title: str, description: str = "") -> Drawing:
        """The chart, with its text alternative."""
        label = escape(title, quote=True)
        more = f"<desc>{escape(description)}</desc>" if description else ""
        paper = f'<rect class="paper" width="{self.width}" height="{self.height}"/>'
        return Drawing(
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{label}">'
            f"<title>{label}</title>{more}{paper}{''.join(self.parts)}</svg>"
        )


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` on a stretch of the sheet; logarithmic where `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self, about: int = 4) -> list[float]:
        """Round values on it: powers of ten, or multiples of 1, 2 or 5 of a power."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            steps = (1, 2, 5) if last - first < 2 else (1,)
            values = [step * 10.0**power for power in range(first - 1, last + 1) for step in steps]
            return [value for value in values if self.low <= value <= self.high]
        span = self.high - self.low
        size = 10.0 ** math.floor(math.log10(span / about))
        step = next(size * m for m in (1, 2, 5, 10) if span / (size * m) <= about + 1)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """A polygonal line through points of the sheet."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
