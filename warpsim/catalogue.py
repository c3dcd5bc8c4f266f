"""What ships with warpsim: scenarios, kernels, GPU profiles, rules of findings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

__all__ = ["catalogue", "catalogue_text"]

Rows = list[dict[str, Any]]


def catalogue(what: str = "all") -> dict[str, Rows]:
    """`scenarios`, `faults`, `kernels`, `gpus`, `rules` or all of them: name -> rows for `warpsim list`."""
    makers = {"scenarios": _scenarios, "faults": _faults, "kernels": _kernels, "gpus": _gpus, "rules": _rules}
    return {name: make() for name, make in makers.items() if what in ("all", name)}


def catalogue_text(table: dict[str, Rows]) -> str:
    """The catalogue as plain text, a line an entry."""
    lines: list[str] = []
    for title, rows in table.items():
        width = max((len(row["name"]) for row in rows), default=0)
        lines.append(f"{title} ({len(rows)})")
        lines += [f"  {row['name']:<{width}}  {row['description']}".rstrip() for row in rows]
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _scenarios() -> Rows:
    from warpsim.library import list_scenarios

    return _described(list_scenarios())


def _faults() -> Rows:
    from warpsim.library import list_scenarios

    return _described(name for name in list_scenarios(faults=True) if name.startswith("faults/"))


def _described(names: Iterable[str]) -> Rows:
    from warpsim.library import find_scenario

    rows: Rows = []
    for name in names:
        with find_scenario(name).open("rb") as file:
            document = tomllib.load(file)
        description, kernel = document.get("description", ""), document.get("kernel", "")
        rows.append({"name": name, "description": description, "kernel": kernel})
    return rows


def _kernels() -> Rows:
    from warpsim.library import find_kernel, list_kernels

    sources = {name: find_kernel(name).read_text(encoding="utf-8") for name in list_kernels()}
    return [{"name": name, "description": _first_comment(source)} for name, source in sources.items()]


def _first_comment(source: str) -> str:
    line = source.lstrip().partition("\n")[0].strip()
    return line.lstrip("/*").strip().removesuffix("*/").strip() if line.startswith(("//", "/*")) else ""


def _gpus() -> Rows:
    from warpsim.gpu import gpu_names, load_gpu

    rows: Rows = []
    for name in gpu_names():
        spec = load_gpu(name)
        doubt = "" if spec.checked else " (profile not checked against the GPU)"
        rows.append({"name": name, "description": spec.title + doubt, "arch": spec.arch, "checked": spec.checked})
    return rows


def _rules() -> Rows:
    from warpsim.findings import RULES

    return [
        {
            "name": rule.name,
            "description": f"{rule.meaning}; reported {'below' if rule.below else 'above'} {rule.limit:g}",
            "limit": rule.limit,
            "worse": "below" if rule.below else "above",
            "severity": rule.severity,
        }
        for rule in RULES.values()
    ]
