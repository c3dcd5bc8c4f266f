"""Single-warp access patterns as data: JSON lines, random ones, and the table that kernels/replay.cu reads.

A pattern is what `warpsim.access` takes: `op`, `space`, `width`, 32 byte `addresses` (from the base of the arena or of
the shared window) and `active` lanes. `metrics_of` says which counters tell its sectors, tags and wavefronts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.errors import InputError
from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts

__all__ = ["CELLS", "RECORD", "TABLE", "Pattern", "encode", "metrics_of", "random_patterns", "read", "reading", "write"]

TABLE = 400
"""Patterns that fit into the constant memory of one launch (PATTERNS in replay.cu)."""

RECORD = np.dtype(
    [
        ("offset", np.uint32, 32), ("base", np.uint64), ("mask", np.uint32), ("operation", np.uint32),
        ("repeat", np.uint32), ("shift", np.uint32), ("spare", np.uint32, 2),
    ]
)  # fmt: skip
"""struct Pattern of replay.cu."""

# (op, space, width, kind) -> case label in replay.cu; the kind tells atomics apart
_OPERATIONS: dict[tuple[str, str, int, str], int] = {
    **{("load", "global", w, ""): 1 + i for i, w in enumerate((1, 2, 4, 8, 16))},
    **{("store", "global", w, ""): 6 + i for i, w in enumerate((1, 2, 4, 8, 16))},
    **{("load", "shared", w, ""): 11 + i for i, w in enumerate((1, 2, 4, 8, 16))},
    **{("store", "shared", w, ""): 16 + i for i, w in enumerate((1, 2, 4, 8, 16))},
    ("atomic", "global", 4, ""): 21, ("atomic", "global", 8, ""): 22, ("atomic", "global", 4, "exch"): 23,
    ("atomic", "global", 4, "cas"): 24, ("atomic", "global", 4, "fadd"): 25,
    ("red", "global", 4, ""): 26, ("red", "global", 8, ""): 27, ("red", "global", 4, "fadd"): 28,
    ("atomic", "shared", 4, ""): 29, ("red", "shared", 4, ""): 30, ("atomic", "shared", 4, "exch"): 31,
    ("atomic", "shared", 4, "cas"): 32,
    ("atomic", "shared", 8, ""): 36,  # an exchange: addition of 8 bytes is a loop of compare and swap
    ("ldmatrix_x1", "shared", 16, ""): 33, ("ldmatrix_x2", "shared", 16, ""): 34, ("ldmatrix_x4", "shared", 16, ""): 35,
}  # fmt: skip

CELLS: tuple[tuple[str, str, int, str], ...] = tuple(_OPERATIONS)
"""Every (op, space, width, kind) that can be replayed; `kind` is empty but for variants of atomics."""

_GLOBAL = {"load": "ld", "store": "st", "atomic": "atom", "red": "red"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One warp instruction; `addresses` are bytes from the base."""

    op: str
    space: str
    width: int
    addresses: tuple[int, ...]
    active: tuple[bool, ...] = (True,) * 32
    kind: str = ""
    name: str = ""

    @property
    def mask(self) -> int:
        """Active lanes, bit 0 for lane 0."""
        return sum(1 << lane for lane, on in enumerate(self.active) if on)

    @property
    def extent(self) -> int:
        """Bytes from the base to the end of the last access of an active lane."""
        return max((a + self.width for a, on in zip(self.addresses, self.active, strict=True) if on), default=0)

    @property
    def operation(self) -> int:
        """The case label in replay.cu."""
        return _OPERATIONS[self.op, self.space, self.width, self.kind]

    def check(self, where: str = "pattern") -> None:
        """Raise for a pattern that no GPU can run."""
        if (self.op, self.space, self.width, self.kind) not in _OPERATIONS:
            allowed = sorted({f"{o} {s} {w}" + (f" {k}" if k else "") for o, s, w, k in _OPERATIONS})
            given = f"{self.op} {self.space} {self.width} {self.kind}".strip()
            raise InputError(f"{where}: {given} cannot be replayed; allowed: {', '.join(allowed)}")
        if len(self.addresses) != 32 or len(self.active) != 32:
            raise InputError(
                f"{where}: 32 addresses and 32 active flags are needed, "
                f"{len(self.addresses)} and {len(self.active)} given"
            )
        lanes = [a for a, on in zip(self.addresses, self.active, strict=True) if on]
        if any(a < 0 for a in self.addresses):
            raise InputError(f"{where}: negative address {min(self.addresses)}")
        if any(a % self.width for a in lanes):
            raise InputError(
                f"{where}: address {next(a for a in lanes if a % self.width)} is not a multiple of {self.width}"
            )
        if self.op.startswith("ldmatrix") and not all(self.active):
            raise InputError(f"{where}: ldmatrix needs all 32 lanes active")

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        document: dict[str, Any] = {"name": self.name} if self.name else {}
        document |= {"op": self.op, "space": self.space, "width": self.width}
        document |= {"addresses": list(self.addresses), "active": list(self.active)}
        if self.kind:
            document["kind"] = self.kind
        return document


def read(path: str | Path) -> Iterator[tuple[Pattern, dict[str, Any]]]:
    """Patterns of a JSON-lines file, each with its whole object, so that other keys can be handed on."""
    file = Path(path)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            document = json.loads(line)
            pattern = Pattern(
                document["op"], document["space"], int(document["width"]), tuple(int(a) for a in document["addresses"]),
                tuple(bool(a) for a in document.get("active", [True] * 32)), document.get("kind", ""),
                document.get("name", ""),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{where}: not a pattern ({error}); keys: op, space, width, addresses, active") from None
        pattern.check(where)
        yield pattern, document


def write(path: str | Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append JSON lines; each is whole once written."""
    with Path(path).open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
        file.flush()


def encode(patterns: Sequence[Pattern], arena: int, repeats: Sequence[int] | None = None) -> NDArray[np.void]:
    """The constant-memory table; `arena` is the address of global offset 0."""
    table = np.zeros(len(patterns), RECORD)
    for row, pattern in enumerate(patterns):
        lanes = [a for a, on in zip(pattern.addresses, pattern.active, strict=True) if on] or [0]
        base = min(lanes)
        shift = 0
        distances = [a - base if on else 0 for a, on in zip(pattern.addresses, pattern.active, strict=True)]
        common = int(np.bitwise_or.reduce(np.array(distances, np.uint64)))
        while common and common >> shift >= 1 << 32:
            if common & ((1 << (shift + 1)) - 1):
                raise InputError(
                    f"pattern {pattern.name or row}: lanes lie too far apart for 32-bit offsets of their common step"
                )
            shift += 1
        start = base if pattern.space == "shared" else arena + base
        table[row] = (
            [d >> shift for d in distances],
            start,
            pattern.mask,
            pattern.operation,
            1 if repeats is None else repeats[row],
            shift,
            0,
        )
    return table


def metrics_of(op: str, space: str) -> dict[str, str]:
    """Counters that tell an access's figures: attribute of `warpsim.access` -> metric name."""
    if space == "global":
        code = _GLOBAL[op]
        return {
            "requests": global_requests(code),
            "sectors": global_sectors(code),
            "tag_wavefronts": f"l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_{code}.sum",
            "data_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
            "l2_requests": "lts__t_requests_srcunit_tex.sum",
        }
    figures = {"data_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"}
    if op in ("load", "store"):
        figures["conflicts"] = shared_conflicts(_GLOBAL[op])
        figures["op_wavefronts"] = shared_wavefronts(_GLOBAL[op])
    else:
        figures["conflicts"] = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    figures["requests"] = (
        "smsp__inst_executed_op_ldsm.sum" if op.startswith("ldmatrix") else "smsp__inst_executed_pipe_lsu.sum"
    )
    return figures


def reading(names: Sequence[str], values: Sequence[float], baseline: Sequence[float]) -> dict[str, int]:
    """Figures of one pattern: what its launch counted beyond a launch that accesses nothing."""
    return {name: round(value - zero) for name, value, zero in zip(names, values, baseline, strict=True)}


def random_patterns(
    op: str, space: str, width: int, count: int, *, kind: str = "", seed: int = 0, reach: int = 1 << 26
) -> list[Pattern]:
    """Varied patterns of one kind: strides, permutations, clusters, pairs, broadcasts, scatter, masks, odd bases.

    `reach` is the size of the global arena that scattered lanes use; shared patterns stay within 32 KiB.
    """
    cell = CELLS.index((op, space, width, kind))
    rng = np.random.default_rng([seed, cell])
    limit = 32 * 1024 if space == "shared" else reach
    lanes = np.arange(32)
    made: list[Pattern] = []
    while len(made) < count:
        family = int(rng.integers(0, 9))
        if family == 0:  # affine, any stride
            index = lanes * int(rng.integers(1, 64))
        elif family == 1:  # affine and permuted
            index = rng.permutation(32) * int(rng.integers(1, 40))
        elif family == 2:  # a few values, shared by lanes
            values = rng.integers(0, max(limit // width // 64, 2), int(rng.integers(1, 9)))
            index = values[rng.integers(0, len(values), 32)] + rng.integers(0, int(rng.integers(1, 5)), 32)
        elif family == 3:  # clusters: lines at random, lanes anywhere in them
            lines = rng.integers(0, limit // 128 - 64, int(rng.integers(1, 33)))
            index = lines[rng.integers(0, len(lines), 32)] * (128 // width) + rng.integers(0, 128 // width, 32)
        elif family == 4:  # pairs of lanes with one address, in either of the two ways that loads merge
            index = rng.integers(0, 512, 32)[lanes & ~int(rng.choice([1, 2]))]
        elif family == 5:  # XOR swizzle
            index = (lanes ^ int(rng.integers(0, 32))) + 32 * ((lanes * int(rng.integers(0, 8))) & 31)
        elif family == 6:  # rows and columns of a small matrix
            pitch = int(rng.integers(1, 70))
            index = (lanes % 8) * pitch + (lanes // 8) * int(rng.integers(0, 70))
        elif family == 7:  # scatter over a window
            index = rng.integers(0, int(2 ** rng.uniform(3, np.log2(limit // width))), 32)
        else:  # contiguous with a few lanes thrown elsewhere
            index = lanes.copy()
            some = rng.random(32) < rng.random() * 0.4
            index[some] = rng.integers(0, min(limit // width, 1 << 14), int(some.sum()))
        index = index + int(rng.integers(0, 64))
        addresses = (index.astype(np.int64) * width) % limit
        if rng.random() < 0.4 and space == "global":  # the tag bank depends on the whole address
            room = limit - int(addresses.max()) - width
            addresses = addresses + int(rng.integers(0, max(room // width, 1))) * width
        active = np.ones(32, bool)
        if rng.random() < 0.45 and not op.startswith("ldmatrix"):
            active = rng.random(32) < rng.choice([0.1, 0.3, 0.5, 0.8])
            if not active.any():
                active[int(rng.integers(0, 32))] = True
        made.append(
            replace(
                Pattern(op, space, width, tuple(int(a) for a in addresses), tuple(bool(a) for a in active), kind),
                name=f"{op}{width}{kind} {space} {len(made)}",
            )
        )
    return made
