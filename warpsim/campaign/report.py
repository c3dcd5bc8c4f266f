"""What a campaign found: figures, JSON, tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsim.cache import digest
from warpsim.campaign.cases import DENSITIES, SPANS, feature_counts
from warpsim.campaign.chunks import LEAST, cells
from warpsim.corpus import Entry
from warpsim.errors import InputError
from warpsim.gpu import Gpu

__all__ = ["Progress", "Report", "campaign_name", "check_sizes"]


@dataclass(frozen=True)
class Progress:
    """How far a campaign is: chunks done of all, and of this run cases and seconds; failures; features covered."""

    done: int
    of: int
    examples: int
    seconds: float
    failures: int
    coverage: str = ""


def check_sizes(patterns: int, kernels: int) -> None:
    """InputError unless there is something to examine."""
    if patterns < 0 or kernels < 0 or patterns + kernels == 0:
        raise InputError(f"a campaign of {patterns} patterns and {kernels} kernels: at least one case is needed")


def campaign_name(patterns: int, kernels: int, seed: int, gpu: Gpu) -> str:
    """Hash of all that decides a campaign's outcome: sizes, seed, profile, this version of the package."""
    package = Path(__file__).parent.parent
    sources = [path.read_bytes() for path in sorted(package.glob("**/*.py"))]
    return digest(str(patterns), str(kernels), str(seed), repr(gpu), *sources)[:16]


@dataclass
class Report:
    """Sums over finished chunks, and the failures they led to."""

    campaign: str
    corpus: str
    gpu: str
    examples: dict[str, int] = field(default_factory=dict)  # kind -> cases
    seconds: float = 0.0  # of this run, on the clock
    work_seconds: dict[str, float] = field(default_factory=dict)  # kind -> over all workers
    failed: dict[str, int] = field(default_factory=dict)  # law -> cases
    failures: list[Entry] = field(default_factory=list)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    chunks: tuple[int, int, int] = (0, 0, 0)  # done now, done before, of
    closed: list[str] = field(default_factory=list)  # replayed failures that hold now
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing disagreed."""
        return not self.failed and not self.failures

    @property
    def total(self) -> int:
        """All cases."""
        return sum(self.examples.values())

    def add(self, outcomes: Iterable[Mapping[str, Any]]) -> None:
        """Sum journal lines."""
        examples, seconds, failed = Counter(self.examples), Counter(self.work_seconds), Counter(self.failed)
        for line in outcomes:
            examples[line["kind"]] += line["examples"]
            seconds[line["kind"]] += line["seconds"]
            failed.update(line["failed"])
            for feature, values in line["coverage"].items():
                table = self.coverage.setdefault(feature, {})
                for value, count in values.items():
                    table[value] = table.get(value, 0) + count
        self.examples, self.work_seconds, self.failed = dict(examples), dict(seconds), dict(failed)

    @property
    def covered(self) -> str:
        """How many values of each feature of patterns were met, of those that there are."""
        return "  ".join(
            f"{name} {len(self.coverage.get(name, ()))}/{count}" for name, count in feature_counts().items()
        )

    @property
    def cells(self) -> dict[tuple[str, str, int, str, str], int]:
        """Examples of every cell, of those without any too."""
        found = self.coverage.get("cell", {})
        return {cell: found.get(" ".join(map(str, cell)), 0) for cell in cells()}

    def to_dict(self) -> dict[str, Any]:
        """JSON."""
        table = self.cells
        return {
            "schema": 1,
            "campaign": self.campaign,
            "corpus": self.corpus,
            "gpu": self.gpu,
            "ok": self.ok,
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
            "work_seconds": {kind: round(value, 3) for kind, value in self.work_seconds.items()},
            "chunks": dict(zip(("now", "before", "of"), self.chunks, strict=True)),
            "failed": self.failed,
            "failures": [
                {k: entry.document.get(k) for k in ("law", "what", "expected", "predicted", "size")}
                | {"name": entry.name}
                for entry in self.failures
            ],
            "closed": self.closed,
            "coverage": {k: dict(sorted(v.items())) for k, v in self.coverage.items() if k != "cell"},
            "cells": {
                "of": len(table),
                "least": min(table.values()),
                "below_50": sum(count < LEAST for count in table.values()),
                "examples": {" ".join(map(str, cell)): count for cell, count in sorted(table.items())},
            },
            "notes": self.notes,
        }

    def parts(self) -> list[Any]:
        """Lines and tables for a terminal."""
        from warpsim.text import make_table

        shown: list[Any] = []
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.examples.items()) or "nothing"
        _, before, of = self.chunks
        rate = f", {self.total / self.seconds:,.0f}/s" if self.seconds and not before and self.total else ""
        resumed = f" ({before} of {of} chunks were done before)" if before else ""
        shown.append(f"{kinds} in {self.seconds:.1f} s{rate}{resumed}")
        if self.coverage:
            table = make_table("feature", "cases")
            for feature, values in self.coverage.items():
                if feature != "cell":
                    table.add_row(feature, "  ".join(f"{value}: {count:,}" for value, count in values.items()))
            shown.append(table)
            if "cell" in self.coverage:
                shown += self._cell_parts()
        if self.failures:
            table = make_table("failure", "size", "expected", "predicted", "what")
            for entry in self.failures:
                d = entry.document
                size = ", ".join(f"{n} {unit}" for unit, n in d.get("size", {}).items())
                table.add_row(
                    entry.name, size, _figures(d.get("expected")), _figures(d.get("predicted")), str(d.get("what", ""))
                )
            shown.append(table)
        shown += [f"closed: {name}" for name in self.closed]
        shown += self.notes
        if not self.ok:
            laws = ", ".join(f"{law}: {count:,}" for law, count in sorted(self.failed.items()))
            shown.append(f"DISAGREEMENT in {sum(self.failed.values()):,} checks ({laws}); kept in {self.corpus}")
        else:
            shown.append("no disagreement")
        return shown

    def _cell_parts(self) -> list[Any]:
        from warpsim.text import make_table

        found = self.cells
        columns = [(density, span) for density in DENSITIES for span in SPANS["global"]]
        table = make_table("examples of a cell", *(f"{density} {span}" for density, span in columns))
        for op, space, width in dict.fromkeys(cell[:3] for cell in found):
            row = [found.get((op, space, width, *column)) for column in columns]
            if any(row):
                table.add_row(f"{op} {space} {width}", *("–" if count is None else str(count) for count in row))
        few = sum(count < LEAST for count in found.values())
        line = f"{len(found)} cells of op x space x width x mask density x span, "
        line += f"{min(found.values())} to {max(found.values())} different examples each"
        if few:
            line += f"; {few} have fewer than {LEAST}: it takes {LEAST * len(found):,} patterns to give each {LEAST}"
        return [table, line]


def _figures(values: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items()) if isinstance(values, dict) else str(values)
