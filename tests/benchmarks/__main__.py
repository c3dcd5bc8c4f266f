"""Measure warpsim against its goals, print the table, write JSON; `--docs` remakes the table and plot of the docs.

    python -m tests.benchmarks [--output FILE.json] [--docs] [--only PART ...]

Parts: machine, run, scenarios, executor, sweep, start, growth. CPU time is that of whole processes, children included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.measures import command, executor_rate, first_run, machine_rate, textbook_rate
from warpsim.library import list_scenarios
from warpsim.svg import Axis, Canvas, Drawing, path_of

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    part: str
    what: str
    measured: str
    goal: str
    met: bool | None
    figures: dict[str, Any]


def machine() -> Iterator[Row]:
    """Requests a CPU second of the timed machine without its source; line requests against the textbook form's."""
    book, _ = textbook_rate()
    yield Row("machine", "textbook SimPy model, float copy", f"{book / 1e3:.1f} k warp and line requests/s", "", None,
              {"warp_requests_per_s": book})  # fmt: skip
    cases: tuple[tuple[str, str, dict[str, int]], ...] = (
        ("float copy", "copy", {}),
        ("float4 copy", "copy_float4", {}),
        ("gather of KV components", "kv_component", {}),
        ("transpose without tiles", "transpose_naive", {}),
    )
    for what, name, params in cases:
        rate = machine_rate(name, **params)
        warps, lines = rate.warp_requests / rate.seconds, rate.line_requests / rate.seconds
        yield Row(
            "machine", f"timed machine, {what}",
            f"{warps / 1e6:.2f} M warp requests/s, {lines / 1e6:.2f} M line requests/s, {lines / book:.0f} × textbook",
            "5 M, 10 M, 200 ×", warps >= 5e6 and lines >= 10e6 and lines >= 200 * book,
            {"scenario": name, "warp_requests": rate.warp_requests, "line_requests": rate.line_requests,
             "seconds": rate.seconds, "windows": rate.result.windows, "refills": rate.result.refills,
             "times_textbook": lines / book},
        )  # fmt: skip
        each = {part: 1e9 * seconds / rate.line_requests for part, seconds in rate.parts.items()}
        yield Row("machine", f"CPU ns a line request, {what}", ", ".join(f"{p} {v:.0f}" for p, v in each.items()), "",
                  None, each)  # fmt: skip


def run() -> Iterator[Row]:
    """Copies of 512 MiB from source to result."""
    cases = (
        ("float4 copy of 512 MiB, --exact", ["copy_float4", "--set", "n=33554432", "--exact"], 4.0),
        ("float4 copy of 512 MiB, --sample", ["copy_float4", "--set", "n=33554432", "--sample"], 1.5),
        ("float copy of 512 MiB, --exact", ["copy", "--set", "n=134217728", "--exact"], 10.0),
    )
    for what, arguments, goal in cases:
        spent = command(["run", *arguments, "--no-gains"])
        yield Row("run", what, f"{spent.cpu:.1f} s CPU, {spent.mib:.0f} MB", f"< {goal:g} s, < 300 MB",
                  spent.cpu < goal and spent.mib < 300, asdict(spent))  # fmt: skip


def scenarios() -> Iterator[Row]:
    """Every shipped scenario as a user runs it; a slow one again, since its kernel may have been compiled."""
    spent = {name: command(["run", name]) for name in list_scenarios()}
    for name, first in spent.items():
        if first.cpu > 1:
            spent[name] = min(first, command(["run", name]), key=lambda one: one.cpu)
    slow = sorted(spent, key=lambda name: -spent[name].cpu)
    under = {limit: sum(one.cpu < limit for one in spent.values()) for limit in (1, 2, 5)}
    worst = ", ".join(f"{name} {spent[name].cpu:.1f} s" for name in slow[:5])
    yield Row(
        "scenarios", f"{len(spent)} shipped scenarios, default mode, CPU",
        f"{under[1]} in < 1 s, {under[2]} in < 2 s, {under[5]} in < 5 s; {worst}", "< 2 s, most < 1 s",
        under[2] == len(spent) and under[1] > len(spent) / 2, {name: asdict(one) for name, one in spent.items()},
    )  # fmt: skip
    mib = max(one.mib for one in spent.values())
    yield Row("scenarios", "memory, largest of them", f"{mib:.0f} MB", "< 300 MB", mib < 300, {"mib": mib})


def executor() -> Iterator[Row]:
    """Thread instructions a CPU second without the timed machine."""
    plain = ("copy", "copy_float4", "transpose_naive", "transpose_tiled")
    rest = ("kv_component", "scatter", "matmul_naive", "matmul_tiled")
    for name, goal in (*((name, 400) for name in plain), *((name, 100) for name in rest)):
        rate = executor_rate(name) / 1e6
        yield Row("executor", f"SIMT executor, {name}", f"{rate:.0f} M thread instructions/s", f"≥ {goal} M",
                  rate >= goal, {"scenario": name, "per_s": rate * 1e6})  # fmt: skip


def sweep() -> Iterator[Row]:
    """64 strides of a read of 64 MiB."""
    spent = command(["sweep", "stride", "--set", "n=16777216", "--set", "stride=1..64"])
    yield Row("sweep", "sweep of 64 strides, 64 MiB each, 2 cores", f"{spent.wall:.0f} s, {spent.cpu:.0f} s CPU",
              "< 60 s", spent.wall < 60, asdict(spent))  # fmt: skip


def start() -> Iterator[Row]:
    """Start-up, and the first run ever."""
    for arguments, goal in ((["--help"], 0.3), (["list"], 0.3), (["access", "lane"], 0.5)):
        spent = min((command(arguments) for _ in range(3)), key=lambda one: one.cpu)
        yield Row("start", " ".join(arguments), f"{spent.cpu:.2f} s CPU", f"< {goal:g} s", spent.cpu < goal,
                  asdict(spent))  # fmt: skip
    spent = first_run(["run", "transpose_tiled"])
    yield Row("start", "first run ever, compiling everything", f"{spent.cpu:.0f} s CPU, {spent.mib:.0f} MB", "< 15 s",
              spent.cpu < 15,
              asdict(spent))  # fmt: skip


def growth() -> Iterator[Row]:
    """Float copies of 10^4 to 10^7 warp requests, every CTA timed."""
    points = []
    for requests in (10**4, 10**5, 10**6, 10**7):
        spent = command(["run", "copy", "--set", f"n={16 * requests}", "--exact", "--no-gains"])
        points.append({"warp_requests": requests, **asdict(spent)})
    (a, b) = points[-2:]
    ratio = (b["cpu"] / a["cpu"]) / 10
    heaviest = max(point["mib"] for point in points)
    yield Row("growth", "time from 10^6 to 10^7 warp requests", f"{10 * ratio:.1f} ×", "10 ×", ratio <= 1.05,
              {"points": points})  # fmt: skip
    yield Row("growth", "memory from 10^4 to 10^7", f"{points[0]['mib']:.0f} to {heaviest:.0f} MB", "flat, < 300 MB",
              heaviest < 300, {})  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    f.__name__: f for f in (machine, run, scenarios, executor, sweep, start, growth)
}


def plot(points: list[dict[str, float]]) -> Drawing:
    """CPU time and memory against warp requests, both axes logarithmic."""
    canvas = Canvas(720, 340)
    x = Axis(1e4, 1e7, 70, 680, log=True)
    y = Axis(0.1, 1000, 290, 30, log=True)
    for power in range(4, 8):
        place = x.at(10.0**power)
        canvas.path(f"M{place:.1f} 30V290", "grid")
        canvas.text(place, 308, f"10^{power}", kind="soft")
    for value in (0.1, 1, 10, 100, 1000):
        canvas.path(f"M70 {y.at(value):.1f}H680", "grid")
        canvas.text(62, y.at(value) + 4, f"{value:g}", "end", "soft")
    canvas.text(375, 330, "warp requests of a float copy, every CTA timed")
    for name, label, kind in (("cpu", "CPU seconds", "line"), ("mib", "peak memory, MB", "roof")):
        line = [(x.at(point["warp_requests"]), y.at(point[name])) for point in points]
        canvas.path(path_of(line), kind)
        for (px, py), point in zip(line, points, strict=True):
            canvas.dot(px, py, "blue" if name == "cpu" else "tip", f"{label}: {point[name]:.2f}")
        canvas.text(line[0][0] + 8, line[0][1] - 10, label, "start", "halo")
    figures = "; ".join(f"{p['warp_requests']:.0e} requests {p['cpu']:.1f} s, {p['mib']:.0f} MB" for p in points)
    return canvas.drawing("Time grows with the requests, memory does not", figures)


def table(rows: list[Row], old: str = "") -> str:
    """The rows as Markdown; those of the old table that were not measured stay."""
    sign = {True: "yes", False: "no", None: ""}
    lines = {r.what: f"| {r.what} | {r.measured} | {r.goal} | {sign[r.met]} |" for r in rows}
    kept = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    kept.pop("what", None)
    head = ["| what | measured | goal | met |", "|---|---|---|---|"]
    return "\n".join([*head, *(kept | lines).values()]) + "\n"


def host() -> str:
    """The machine that measures."""
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the figures as JSON")
    parser.add_argument("--docs", action="store_true", help="put table and plot into docs/performance.md")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    given = parser.parse_args()
    for warming in (["transpose_tiled"], ["copy", "--set", "n=16777216", "--sample"]):  # the caches
        command(["run", *warming])
    rows = []
    for part in given.only:
        for row in PARTS[part]():
            print(f"{row.what}: {row.measured}" + (f" (goal {row.goal})" if row.goal else ""), flush=True)
            rows.append(row)
    print("\n" + table(rows))
    if given.output is not None:
        record = {"host": host(), "rows": [asdict(row) for row in rows]}
        given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if given.docs:
        page = DOCS / "performance.md"
        old = page.read_text(encoding="utf-8")
        kept = "" if set(given.only) == set(PARTS) else old.partition("<!-- table -->")[2].partition("<!-- end")[0]
        text = f"<!-- table -->\n\nMeasured on: {host()}.\n\n{table(rows, kept)}\n<!-- end of table -->"
        new = re.sub(r"<!-- table -->.*<!-- end of table -->", lambda _: text, old, flags=re.DOTALL)
        page.write_text(new, encoding="utf-8")
        for row in rows:
            if "points" in row.figures:
                plot(row.figures["points"]).save(DOCS / "pictures" / "growth.svg")


if __name__ == "__main__":
    main()
