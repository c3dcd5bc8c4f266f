"""The access rules once more, by brute force over bytes: what laws hold the real ones against.

Written from the rules alone (docs/access-rules.md has them), not from `coalescing`: sets of bytes, no tricks, and the
tag bank straight from the profile's masks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["global_figures", "shared_figures", "tag_bank"]

Lane = tuple[int, int]  # number, address


def tag_bank(line: int, masks: Sequence[int]) -> int:
    """Bit i is the parity of the line's bits in mask i."""
    return sum(((line & mask).bit_count() & 1) << i for i, mask in enumerate(masks))


def _bytes(lanes: Iterable[Lane], width: int) -> set[int]:
    return {byte for _, address in lanes for byte in range(address, address + width)}


def _fullest_bank(touched: Iterable[int]) -> int:
    """The most distinct 4-byte words that one of 32 banks has."""
    return max(Counter(word % 32 for word in {byte // 4 for byte in touched}).values(), default=0)


def _groups(lanes: Sequence[Lane], size: int) -> list[list[Lane]]:
    return [[lane for lane in lanes if lane[0] // size == g] for g in range(32 // size)]


def _lanes(addresses: Sequence[int], active: Sequence[bool]) -> list[Lane]:
    return [(lane, int(addresses[lane])) for lane in range(32) if active[lane]]


def _group_size(width: int) -> int:
    return {8: 16, 16: 8}.get(width, 32)


def global_figures(
    op: str, width: int, addresses: Sequence[int], active: Sequence[bool], masks: Sequence[int]
) -> dict[str, int]:
    """Sectors, tags, tag wavefronts, data wavefronts and L2 requests of a load, store, atomic or red."""
    lanes = _lanes(addresses, active)
    touched = [byte for _, address in lanes for byte in range(address, address + width)]
    lines = list(dict.fromkeys(byte // 128 for byte in touched))  # in the order of first touch
    wavefront: dict[int, int] = {}
    depth: Counter[int] = Counter()
    for line in lines:
        bank = tag_bank(line, masks)
        wavefront[line] = depth[bank]
        depth[bank] += 1
    tag_wavefronts = max(depth.values(), default=0)
    groups = [_bytes(group, width) for group in _groups(lanes, _group_size(width))]
    depth_taken_together = {"store": 8 if width >= 4 else 4}.get(op, 1)  # tag wavefronts
    part = {line: 0 if k < depth_taken_together else k for line, k in wavefront.items()}
    data = sum(_fullest_bank(b for b in group if part[b // 128] == k) for group in groups for k in set(part.values()))
    found = {
        "sectors": len({byte // 32 for byte in touched}), "tags": len(lines), "tag_wavefronts": tag_wavefronts,
        "data_wavefronts": data, "l2_requests": len(lines),
    }  # fmt: skip
    if op in ("atomic", "red"):
        found |= _turns(lanes, width, op == "atomic", masks)
    return found


def _turns(lanes: Sequence[Lane], width: int, returns: bool, masks: Sequence[int]) -> dict[str, int]:
    """What an atomic takes: each tag bank serves one line a turn, and of it the lanes that are first on their word."""
    served: dict[int, list[Lane]] = {}  # by all banks in their k-th turn
    sectors = requests = data = 0
    for bank in range(4):
        left = [lane for lane in lanes if tag_bank(lane[1] // 128, masks) == bank]
        turn = 0
        while left:
            first: dict[int, Lane] = {}
            for lane in left:
                first.setdefault(lane[1] % 128 // width, lane)
            taken = [lane for lane in first.values() if lane[1] // 128 == left[0][1] // 128]
            left = [lane for lane in left if lane not in taken]
            served.setdefault(turn, []).extend(taken)
            sectors += len({address // 32 for _, address in taken})
            requests += 1
            turn += 1
    for turn_lanes in served.values():
        alone = len({address // 128 for _, address in turn_lanes}) == len(turn_lanes)  # one lane a line
        for group in _groups(turn_lanes, _group_size(width)):
            words = {byte // 4 for byte in _bytes(group, width)}
            out = {(word // 32, word % 32 & ~4) if alone else (word // 32, word % 32) for word in words}
            data += max(Counter(bank for _, bank in out).values(), default=0)
            data += _fullest_bank(_bytes(group, width)) if returns else 0
    return {
        "sectors": sectors, "tag_wavefronts": max(served, default=-1) + 1, "data_wavefronts": data,
        "l2_requests": requests,
    }  # fmt: skip


def shared_figures(op: str, width: int, addresses: Sequence[int], active: Sequence[bool]) -> dict[str, int]:
    """Wavefronts and bank conflicts of a load, store, atomic or ldmatrix."""
    lanes = _lanes(addresses, active)
    if op == "atomic":
        most = [max(Counter(a // 4 % 32 for _, a in g).values(), default=0) for g in _groups(lanes, _group_size(width))]
        used = sum(count > 0 for count in most)
        return {"data_wavefronts": sum(most), "conflicts": sum(most) - used}
    if op.startswith("ldmatrix"):
        lanes = [lane for lane in lanes if lane[0] < 8 * int(op[-1])]
    size = _group_size(width)
    if op == "load" and width >= 8:
        held = dict(lanes)
        for distance in (1, 2):
            if all(held.get(t ^ distance, address) == address for t, address in lanes):
                size *= 2
                break
    groups = [_bytes(group, width) for group in _groups(lanes, size)]
    total = sum(map(_fullest_bank, groups))
    return {"data_wavefronts": total, "conflicts": total - sum(map(bool, groups))}
