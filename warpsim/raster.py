"""Charts as PNG, drawn by matplotlib from the shapes of their SVG, in its light colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

__all__ = ["save_png"]

_INCH = 100  # units of a chart
_POINT = 72 / _INCH  # points of a unit
_DPI = 200

Style = dict[str, str]


def save_png(svg: str, rules: str, path: Path) -> None:
    """Write a `Drawing.inline` whose classes `rules` (CSS of one theme) describe."""
    from matplotlib.figure import Figure

    classes = {name: _declarations(body) for name, body in re.findall(r"\.chart \.?(\w+)\{([^}]*)\}", rules)}
    root = ElementTree.fromstring(svg)
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    figure = Figure(figsize=(width / _INCH, height / _INCH))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for order, shape in enumerate(root):
        style: Style = dict(classes["text"]) if shape.tag == "text" else {}
        for name in shape.get("class", "").split():
            style |= classes.get(name, {})
        style |= _declarations(shape.get("style", ""))
        if shape.tag == "text":
            _text(axes, shape, style, order)
        elif shape.tag in ("rect", "path", "circle"):
            axes.add_patch(_patch(shape, style, order))
    figure.savefig(path, dpi=_DPI, format="png")


def _declarations(body: str) -> Style:
    return {key.strip(): value.strip() for key, _, value in (part.partition(":") for part in body.split(";")) if value}


def _length(style: Style, key: str, default: float) -> float:
    return float(style.get(key, str(default)).removesuffix("px"))


def _text(axes: Any, shape: Any, style: Style, order: int) -> None:
    from matplotlib.patheffects import withStroke

    size = _length(style, "font-size", float(style["font"].split("px")[0]))
    effects = []
    if "stroke" in style:
        effects = [withStroke(linewidth=_POINT * _length(style, "stroke-width", 1), foreground=style["stroke"])]
    axes.text(
        float(shape.get("x")), float(shape.get("y")), shape.text or "", fontsize=_POINT * size, color=style["fill"],
        ha={"middle": "center", "end": "right"}.get(shape.get("text-anchor"), "left"), va="baseline",
        weight="bold" if style.get("font-weight") == "600" else "normal", path_effects=effects, zorder=order,
        parse_math=False,
    )  # fmt: skip


def _patch(shape: Any, style: Style, order: int) -> Any:
    from matplotlib import patches
    from matplotlib.colors import to_rgba

    stroke, fill = style.get("stroke", "none"), style.get("fill", "#000000")
    opacity = _length(style, "opacity", 1)
    dashes = [_POINT * float(part) for part in style.get("stroke-dasharray", "").split()]
    look: dict[str, Any] = {
        "edgecolor": "none" if stroke == "none" else to_rgba(stroke, opacity),
        "facecolor": "none" if fill == "none" else to_rgba(fill, opacity * _length(style, "fill-opacity", 1)),
        "linewidth": _POINT * _length(style, "stroke-width", 1), "linestyle": (0, dashes) if dashes else "solid",
        "joinstyle": "round", "capstyle": "butt", "zorder": order,
    }  # fmt: skip
    if shape.tag == "circle":
        return patches.Circle((float(shape.get("cx")), float(shape.get("cy"))), float(shape.get("r")), **look)
    if shape.tag == "path":
        return patches.PathPatch(_path(shape.get("d")), **look)
    x, y, wide, high, radius = (float(shape.get(name, 0)) for name in ("x", "y", "width", "height", "rx"))
    return patches.FancyBboxPatch((x, y), wide, high, boxstyle=f"round,pad=0,rounding_size={radius}", **look)


def _path(data: str) -> Any:
    """A path of the commands M, L, H, V, l, h, v and z."""
    from matplotlib.path import Path as Outline

    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    x = y = 0.0
    start = (0.0, 0.0)
    for letter, rest in re.findall(r"([MLHVlhvzZ])([^A-Za-z]*)", data):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", rest)]
        if letter in "zZ":
            points.append(start)
            codes.append(Outline.CLOSEPOLY)
            x, y = start
        while numbers:
            if letter in "hv":
                step = numbers.pop(0)
                x, y = (x + step, y) if letter == "h" else (x, y + step)
            elif letter in "HV":
                place = numbers.pop(0)
                x, y = (place, y) if letter == "H" else (x, place)
            else:
                across, down = numbers.pop(0), numbers.pop(0)
                x, y = (x + across, y + down) if letter == "l" else (across, down)
            codes.append(Outline.MOVETO if letter == "M" else Outline.LINETO)
            if letter == "M":
                start = (x, y)
            points.append((x, y))
    return Outline(points, codes)
