"""Nsight Compute as a subprocess, and its reports: kernel launches with their counters in base units.

`collect` runs a command under ``ncu`` and returns one `Launch` for each kernel launched between cudaProfilerStart and
cudaProfilerStop. `read_report` reads a CSV (wide or long page) or an .ncu-rep file of one's own; the latter needs the
package ncu-report. nsight-python does not serve: it profiles decorated functions, averages over runs, wants ncu 2026.2.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsim.errors import InputError, UnsupportedError
from warpsim.metrics import OPTIONAL, REQUIRED

__all__ = ["PROFILED", "CountersUnavailableError", "Launch", "collect", "find_ncu", "parse", "read_report"]

PROFILED: tuple[str, ...] = (*REQUIRED, *OPTIONAL)
"""Metrics asked for in a recording."""

_UNITS = {
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
    "kibyte": 2.0**10, "mibyte": 2.0**20, "gibyte": 2.0**30,
}  # fmt: skip
_IDENTITY = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "Section Name",
}  # fmt: skip
_MISSING = {"", "n/a", "nan", "-nan", "inf", "(!) n/a", "no data"}


class CountersUnavailableError(UnsupportedError):
    """Hardware counters cannot be read here; times still can."""


@dataclass(frozen=True)
class Launch:
    """One profiled kernel launch; metrics that ncu could not read are absent from `metrics`."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, int | float] = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()


def find_ncu() -> str:
    """The path of ncu, or an error that says where to get it."""
    found = shutil.which("ncu")
    if found is None:
        for root in (
            Path("/usr/local/cuda/bin/ncu"),
            *sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True),
        ):
            if root.exists():
                return str(root)
        raise CountersUnavailableError(
            "no counters: ncu is not on the PATH; install NVIDIA Nsight Compute. Times are still measured"
        )
    return found


def collect(
    command: Sequence[str],
    metrics: Sequence[str] = PROFILED,
    *,
    cache: str = "all",
    replay: str = "kernel",
    timeout: float | None = None,
) -> list[Launch]:
    """Run a command under ncu and return its profiled launches in order.

    `cache` is ncu's cache control: ``all`` flushes and invalidates before each pass, ``none`` leaves caches alone.
    `replay` ``kernel`` runs each kernel once a pass with memory restored, ``application`` runs the command once a pass.
    Clocks stay as they are.
    """
    ncu = find_ncu()
    with tempfile.TemporaryDirectory(prefix="warpsim-ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        arguments = [
            ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--cache-control", cache,
            "--replay-mode", replay, "--profile-from-start", "no", "--target-processes", "all", "--log-file", str(log),
            "--metrics", ",".join(metrics), *command,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                arguments, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise CountersUnavailableError(f"no counters: ncu did not finish within {timeout:g} s") from None
        text = log.read_text(errors="replace") if log.exists() else ""
    everything = f"{text}\n{done.stdout}\n{done.stderr}"
    if "ERR_NVGPUCTRPERM" in everything:
        raise CountersUnavailableError(
            "no counters: the driver reserves them for the administrator (ERR_NVGPUCTRPERM); run as root, or load the "
            "nvidia module with NVreg_RestrictProfilingToAdminUsers=0. Times are still measured"
        )
    launches = parse(text)
    if not launches:
        errors = [line for line in everything.splitlines() if "==ERROR==" in line or "Error" in line]
        detail = errors[0].strip() if errors else f"ncu ended with status {done.returncode}"
        raise CountersUnavailableError(f"no counters: {detail}")
    return launches


def parse(text: str) -> list[Launch]:
    """Launches from ncu's CSV, wide (``--page raw``) or long, whatever other lines stand around it."""
    header: list[str] | None = None
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith('"') or (header and line.count(",") >= len(header) - 1):
            cells = next(csv.reader([line]))
            if "Kernel Name" in cells:
                header = cells
            elif header and len(cells) == len(header):
                rows.append(cells)
        elif "Kernel Name" in line and line.count(",") > 3:
            header = next(csv.reader([line]))
    if header is None or not rows:
        return []
    if "Metric Name" in header:
        return _long(header, rows)
    return _wide(header, rows)


def read_report(path: str | Path) -> list[Launch]:
    """Launches of a user's own report: CSV text or .ncu-rep (needs the ncu-report package)."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"{file}: no such report")
    if file.suffix == ".ncu-rep":
        return _binary(file)
    launches = parse(file.read_text(encoding="utf-8", errors="replace"))
    if not launches:
        raise InputError(f"{file}: no kernel in it; expected what `ncu --csv --page raw` prints, or an .ncu-rep file")
    return launches


def _wide(header: list[str], rows: list[list[str]]) -> list[Launch]:
    units = [""] * len(header)
    name_at = header.index("Kernel Name")
    if not rows[0][name_at]:
        units = rows.pop(0)
    columns = [(i, name) for i, name in enumerate(header) if name not in _IDENTITY and "__" in name]
    swapped = _swapped((name, row[i]) for row in rows for i, name in columns)
    return [
        _launch(dict(zip(header, row, strict=True)), [(name, units[i], row[i]) for i, name in columns], swapped)
        for row in rows
    ]


def _long(header: list[str], rows: list[list[str]]) -> list[Launch]:
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        if cells["Metric Name"]:
            groups.setdefault((cells.get("Process ID", ""), cells["ID"]), []).append(cells)
    swapped = _swapped((c["Metric Name"], c["Metric Value"]) for group in groups.values() for c in group)
    return [
        _launch(group[0], [(c["Metric Name"], c["Metric Unit"], c["Metric Value"]) for c in group], swapped)
        for group in groups.values()
    ]


def _launch(identity: dict[str, str], cells: Iterable[tuple[str, str, str]], swapped: bool) -> Launch:
    metrics: dict[str, int | float] = {}
    unavailable = []
    for name, unit, text in cells:
        value = _number(text, swapped)
        if value is None:
            unavailable.append(name)
            continue
        scaled = value * _UNITS.get(unit.strip().lower().split("/")[0], 1.0)
        metrics[name] = int(scaled) if scaled == int(scaled) and not name.endswith((".pct", ".ratio")) else scaled
    grid, block = (_extent(identity.get(key, "")) for key in ("Grid Size", "Block Size"))
    return Launch(identity["Kernel Name"], grid, block, metrics, tuple(unavailable))


def _number(text: str, swapped: bool) -> float | None:
    word = text.strip()
    if word.lower() in _MISSING:
        return None
    word = word.replace(".", "").replace(",", ".") if swapped else word.replace(",", "")
    word = word.replace("\u00a0", "").replace("\u202f", "").replace(" ", "").replace("'", "")
    try:
        return float(word)
    except ValueError:
        return None


def _swapped(values: Iterable[tuple[str, str]]) -> bool:
    """Whether dots separate thousands: a sum of events has no fraction, and 1.234.567 is no English number."""
    verdict = False
    for name, text in values:
        word = text.strip()
        if re.fullmatch(r"\d{1,3}(\.\d{3}){2,}(,\d+)?|\d+(\.\d{3})+,\d+", word):
            return True
        if re.fullmatch(r"\d{1,3}(,\d{3}){2,}(\.\d+)?|\d+(,\d{3})+\.\d+", word):
            return False
        if name.endswith(".sum") and not name.startswith("gpu__time") and re.fullmatch(r"\d{1,3}\.\d{3}", word):
            verdict = True
    return verdict


def _extent(text: str) -> tuple[int, int, int]:
    numbers = [int(n) for n in re.findall(r"\d+", text)][:3]
    x, y, z = numbers + [1] * (3 - len(numbers))
    return x, y, z


def _binary(file: Path) -> list[Launch]:
    try:
        import ncu_report
    except ImportError:
        raise UnsupportedError(
            f"{file}: reading .ncu-rep files needs the package ncu-report (pip install ncu-report); or give the CSV "
            f"that `ncu --import {file.name} --csv --page raw` prints"
        ) from None
    try:
        report: Any = ncu_report.load_report(str(file))
    except Exception as error:  # the reader raises its own untyped errors
        raise InputError(f"{file}: not a readable Nsight Compute report: {error}") from None
    launches = []
    for r in range(report.num_ranges()):
        part = report.range_by_idx(r)
        for a in range(part.num_actions()):
            action = part.action_by_idx(a)
            metrics: dict[str, int | float] = {}
            for name in action.metric_names():
                metric = action.metric_by_name(name)
                value = metric.value() if metric is not None and "__" in name else None
                if isinstance(value, int | float):
                    scaled = value * _UNITS.get((metric.unit() or "").lower(), 1.0)
                    metrics[name] = (
                        int(scaled) if scaled == int(scaled) and not name.endswith((".pct", ".ratio")) else scaled
                    )
            grid, block = (
                tuple(_shape(action, f"launch__{what}_dim_{axis}") for axis in "xyz") for what in ("grid", "block")
            )
            launches.append(Launch(action.name(), grid, block, metrics))  # type: ignore[arg-type]
    if not launches:
        raise InputError(f"{file}: no kernel in it")
    return launches


def _shape(action: Any, name: str) -> int:
    metric = action.metric_by_name(name)
    return int(metric.value()) if metric is not None else 1
