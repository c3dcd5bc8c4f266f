"""Parity plot: predicted against measured time and DRAM bytes, both axes logarithmic, equality as the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsim.comparison import TIME, Comparison
from warpsim.errors import InputError, UnsupportedError

__all__ = ["save_parity"]

SUFFIXES = (".png", ".svg", ".pdf")


def save_parity(comparisons: Sequence[Comparison], path: str | Path) -> None:
    """Write the plot as PNG, SVG or PDF, by the file's suffix."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(f"{target}: the parity plot is written as {', '.join(SUFFIXES)}")
    try:
        import matplotlib
    except ImportError:
        raise UnsupportedError("the parity plot needs warpsim[report]: pip install 'warpsim[report]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    done = [c for c in comparisons if not c.error]
    if not done:
        raise InputError("nothing to plot: no scenario was compared")
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    try:
        _panel(axes[0], [(_pair(c, (TIME,), 1e-3), c.scenario) for c in done], "time (us)")
        sectors = ("dram__sectors_read.sum", "dram__sectors_write.sum")
        _panel(axes[1], [(_pair(c, sectors, 32e-6), c.scenario) for c in done], "DRAM bytes (MB)")
        figure.suptitle(f"predicted against measured on {', '.join(sorted({c.gpu for c in done}))}")
        try:
            figure.savefig(target, dpi=150)
        except OSError as error:
            raise InputError(f"{target}: cannot write: {error.strerror}") from None
    finally:
        plt.close(figure)


def _pair(comparison: Comparison, names: Sequence[str], scale: float) -> tuple[float, float]:
    """(measured, predicted), zero where a side lacks a metric."""
    rows = [row for row in comparison.rows if row.metric in names]
    return scale * sum(r.measured or 0 for r in rows), scale * sum(r.predicted or 0 for r in rows)


def _panel(axis: Any, points: Sequence[tuple[tuple[float, float], str]], what: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = [(x, y, name) for (x, y), name in points if x > 0 and y > 0]
    axis.set(xscale="log", yscale="log", xlabel=f"measured {what}", ylabel=f"predicted {what}", aspect="equal")
    if not shown:
        return
    low = min(min(x, y) for x, y, _ in shown) / 1.5
    high = max(max(x, y) for x, y, _ in shown) * 1.5
    axis.set_xlim(low, high)
    axis.set_ylim(low, high)
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        scale.set_minor_formatter(NullFormatter())
    axis.plot([low, high], [low, high], color="0.4", linewidth=1)
    axis.fill_between([low, high], [0.9 * low, 0.9 * high], [1.1 * low, 1.1 * high], color="0.9", label="±10 %")
    axis.scatter([p[0] for p in shown], [p[1] for p in shown], s=14)
    for x, y, name in sorted(shown, key=lambda p: -abs(p[1] / p[0] - 1))[:5]:
        if abs(y / x - 1) > 0.1:
            room = (high / low) ** 0.27  # of a name; away from the diagonal if there is
            left = x > high / room or (y > x and x > low * room)
            axis.annotate(
                name, (x, y), fontsize=7, xytext=(-5 if left else 5, -3), textcoords="offset points",
                ha="right" if left else "left",
            )  # fmt: skip
    axis.legend(loc="upper left")
