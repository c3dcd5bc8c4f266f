"""Layouts of shared memory that free a request of bank conflicts, each tried on the request's own addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from warpsim.patterns import access

__all__ = ["Remedy", "padding", "remedies", "swizzle"]

BANKS_BYTES = 128  # 32 banks of 4 bytes


@dataclass(frozen=True)
class Remedy:
    """A layout and the data wavefronts that the request then needs."""

    text: str
    wavefronts: int
    place: Callable[[int], int]  # byte offset in the old layout -> in the new one


def remedies(addresses: Sequence[int], active: Sequence[bool], width: int, op: str = "load") -> list[Remedy]:
    """Padding and swizzle that leave no conflict; empty where neither does, or where there is none now."""
    now = access(list(addresses), width=width, op=op, space="shared", active=active)
    pitch = _pitch([a for a, on in zip(addresses, active, strict=True) if on])
    if not now.conflicts or not pitch:
        return []
    found = []
    unit = max(4, width)
    for pad in range(unit, BANKS_BYTES, unit):
        text = f"{pad} B of padding after every {pitch} B"
        if remedy := _tried(text, padding(pitch, pad), addresses, active, width, op):
            found.append(remedy)
            break
    text = f"XORing the place in its {BANKS_BYTES} B with the number of its {pitch} B row, in steps of {unit} B"
    if remedy := _tried(text, swizzle(pitch, unit), addresses, active, width, op):
        found.append(remedy)
    return found


def padding(pitch: int, pad: int) -> Callable[[int], int]:
    """`pad` bytes more after every `pitch` bytes."""
    return lambda offset: offset + offset // pitch * pad


def swizzle(pitch: int, unit: int) -> Callable[[int], int]:
    """Units of `unit` bytes change places within their 128 bytes: place XOR row."""
    return lambda offset: offset ^ (offset // pitch % (BANKS_BYTES // unit) * unit)


def _tried(
    text: str, place: Callable[[int], int], addresses: Sequence[int], active: Sequence[bool], width: int, op: str
) -> Remedy | None:
    moved = access([place(a) for a in addresses], width=width, op=op, space="shared", active=active)
    return None if moved.conflicts else Remedy(text, int(moved.data_wavefronts), place)


def _pitch(addresses: Sequence[int]) -> int:
    """Distance of the rows that collide: what the distances of accesses in one bank have in common."""
    apart = [abs(a - b) for a, b in combinations(addresses, 2) if a != b]
    return math.gcd(*[d for d in apart if d % BANKS_BYTES == 0] or apart or [0])
