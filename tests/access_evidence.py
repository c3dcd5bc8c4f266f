"""The table of docs/access-rules.md: how many measured patterns the access rules get right, counter by counter.

python -m tests.access_evidence
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsim import access, coalescing
from warpsim.gpu import load_gpu

DATA = Path(__file__).parent / "data" / "patterns-h200.jsonl.gz"
COUNTERS = ("sectors", "tag_wavefronts", "data_wavefronts", "l2_requests", "conflicts")
Kind = tuple[str, str, int, str]


def patterns() -> list[dict[str, Any]]:
    """The measured patterns, one object each."""
    return [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]


def kind_of(pattern: dict[str, Any]) -> Kind:
    """Operation, space, width, and which atomic."""
    return pattern["op"], pattern["space"], pattern["width"], pattern.get("kind", "")


def predicted(pattern: dict[str, Any]) -> tuple[dict[str, int], bool]:
    """Figures at the real address and `exact`, from `access` but for compare and swap, which it does not have."""
    op, space, width, kind = kind_of(pattern)
    row = [address + pattern.get("base", 0) for address in pattern["addresses"]]
    if kind == "cas":
        lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
        if space == "shared":
            coalescing.shared_request(row, pattern["mask"], width, coalescing.SHARED_CAS, out, scratch)
            return {"data_wavefronts": out[0], "conflicts": out[0] - out[1]}, True
        masks = load_gpu("h200").l1.tag_bank_masks
        coalescing.atomic_request(row, pattern["mask"], width, masks, lines, out, scratch, coalescing.CAS)
        names = ("sectors", "tags", "tag_wavefronts", "data_wavefronts", "l2_requests")
        return dict(zip(names, out, strict=False)), True
    active = [bool(pattern["mask"] >> lane & 1) for lane in range(32)]
    op = "atomic" if (op, space) == ("red", "shared") else op  # a shared atomic costs the same without its result
    found = access(row, width=width, space=space, active=active, op=op)
    return vars(found), bool(found.exact)


def table() -> Iterator[str]:
    """Markdown rows: right of all for each counter, then what is said to be exact and of that what is right."""
    counters = " | ".join(name.replace("_", " ") for name in COUNTERS)
    yield f"| access | patterns | {counters} | exact | of these right |"
    yield "|---|---|---|---|---|---|---|---|---|"
    kinds: dict[Kind, list[dict[str, Any]]] = {}
    for pattern in patterns():
        kinds.setdefault(kind_of(pattern), []).append(pattern)
    for (op, space, width, kind), members in sorted(kinds.items(), key=lambda item: (item[0][1], item[0])):
        answers = [(*predicted(p), p["measured"]) for p in members]
        counted = [name if name in members[0]["measured"] else "" for name in COUNTERS]
        cells = [name and str(sum(figures[name] == m[name] for figures, _, m in answers)) for name in counted]
        sure = [(figures, measured) for figures, exact, measured in answers if exact]
        right = sum(all(figures[name] == value for name, value in measured.items()) for figures, measured in sure)
        name = f"{space} {op} {width} B{' ' + kind if kind else ''}"
        yield "| " + " | ".join([name, str(len(members)), *cells, str(len(sure)), str(right)]) + " |"


if __name__ == "__main__":
    print("\n".join(table()))
