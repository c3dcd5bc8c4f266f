"""One warp instruction taken apart for people: which lane touches what, in which wavefront, and who collides.

`figures` gives it as plain data, `sentences` in words; drawing.py draws it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsim.coalescing import tag_bank
from warpsim.gpu import Gpu, load_gpu
from warpsim.patterns import GlobalAccess, SharedAccess, access, active_lanes
from warpsim.patterns import pattern as addresses_of

__all__ = ["Line", "Picture", "figures", "lanes_text", "pattern", "picture", "sentences"]

ATOMICS = ("atomic", "red")
_COLLISIONS = 4  # collisions put in words


@dataclass(frozen=True)
class Line:
    """A line that the request touches, of an atomic one turn on it; `words` maps a word to the lanes on it."""

    number: int
    tag_bank: int
    wavefront: int  # tag wavefront
    words: dict[int, list[int]]
    covered: int  # mask of sectors with all bytes accessed

    @property
    def sectors(self) -> list[int]:
        """Sectors of the line, 0 to 3, that the request touches."""
        return sorted({word // 8 for word in self.words})

    @property
    def lanes(self) -> list[int]:
        """Lanes with a byte in the line."""
        return sorted({lane for lanes in self.words.values() for lane in lanes})


@dataclass(frozen=True)
class Picture:
    """A warp instruction with its counts; of `lines` and `groups` the one that its space has is filled."""

    title: str
    op: str
    space: str
    width: int
    gpu: Gpu
    addresses: tuple[int, ...]
    active: tuple[bool, ...]
    counts: GlobalAccess | SharedAccess
    lines: tuple[Line, ...]  # global, in the order of first touch; turns of an atomic, in their order
    groups: tuple[dict[int, dict[int, list[int]]], ...]  # shared: bank -> word -> lanes, of each lane group
    merged: bool  # shared: groups were merged

    @property
    def lanes(self) -> list[int]:
        """Active lanes; of ldmatrix those whose addresses are used."""
        return [lane for lane in range(32) if self.active[lane]]


def pattern(
    expression: str, *, width: int = 4, op: str = "load", space: str = "global", active: str | None = None,
    gpu: str | Gpu = "h200",
) -> Picture:  # fmt: skip
    """The picture of an element index in C syntax over `lane`, or of a list of byte offsets."""
    addresses, reached = addresses_of(expression, width)
    chosen = active_lanes(active) if active is not None else [True] * 32
    both = [a and b for a, b in zip(reached, chosen, strict=True)]
    return picture(addresses, width=width, op=op, space=space, active=both, gpu=gpu, title=expression)


def picture(
    addresses: Sequence[int], *, width: int, op: str = "load", space: str = "global",
    active: Sequence[bool] | None = None, gpu: str | Gpu = "h200", title: str = "",
) -> Picture:  # fmt: skip
    """The picture of 32 byte addresses; arguments as for `warpsim.access`."""
    profile = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    counts = access(list(addresses), width=width, op=op, space=space, active=active, gpu=profile)
    used = {"ldmatrix_x1": 8, "ldmatrix_x2": 16}.get(op, 32)
    on = tuple(lane < used and (active is None or bool(active[lane])) for lane in range(32))
    lines: tuple[Line, ...] = ()
    groups: tuple[dict[int, dict[int, list[int]]], ...] = ()
    if isinstance(counts, GlobalAccess):
        lines = (_turns if op in ATOMICS else _lines)(addresses, on, width, profile)
    else:
        size = {8: 16, 16: 8}.get(width, 32)
        whole = sum(any(on[first : first + size]) for first in range(0, 32, size))
        least = counts.data_wavefronts - counts.conflicts
        if op == "load" and least < whole:
            size *= 2
        groups = tuple(_banks(addresses, on, width, range(first, first + size)) for first in range(0, 32, size))
        return Picture(
            title,
            op,
            space,
            width,
            profile,
            tuple(addresses),
            on,
            counts,
            lines,
            groups,
            op == "load" and least < whole,
        )
    return Picture(title, op, space, width, profile, tuple(addresses), on, counts, lines, groups, False)


def _lines(addresses: Sequence[int], on: Sequence[bool], width: int, gpu: Gpu) -> tuple[Line, ...]:
    words: dict[int, dict[int, list[int]]] = {}
    touched: dict[int, set[int]] = defaultdict(set)
    for lane in range(32):
        if on[lane]:
            for byte in range(addresses[lane], addresses[lane] + width):
                lanes = words.setdefault(byte // 128, {}).setdefault(byte // 4 % 32, [])
                if lane not in lanes:
                    lanes.append(lane)
                touched[byte // 32].add(byte)
    filled = [0, 0, 0, 0]
    lines = []
    for number, places in words.items():
        bank = tag_bank(number, *gpu.l1.tag_bank_masks)
        covered = sum((len(touched[4 * number + sector]) == 32) << sector for sector in range(4))
        lines.append(Line(number, bank, filled[bank], places, covered))
        filled[bank] += 1
    return tuple(lines)


def _turns(addresses: Sequence[int], on: Sequence[bool], width: int, gpu: Gpu) -> tuple[Line, ...]:
    """Each tag bank serves the line of its first lane left, and the lanes there that come first on their word."""
    left: dict[int, list[int]] = defaultdict(list)
    for lane in range(32):
        if on[lane]:
            left[tag_bank(addresses[lane] // 128, *gpu.l1.tag_bank_masks)].append(lane)
    turns = []
    for bank, lanes in left.items():
        turn = 0
        while lanes:
            line = addresses[lanes[0]] // 128
            seen: set[int] = set()
            words: dict[int, list[int]] = {}
            later = []
            for lane in lanes:
                place = addresses[lane] % 128
                if addresses[lane] // 128 == line and place // max(width, 4) not in seen:
                    words |= {word % 32: [lane] for word in range(place // 4, (place + width - 1) // 4 + 1)}
                else:
                    later.append(lane)
                seen.add(place // max(width, 4))
            turns.append(Line(line, bank, turn, words, 0))
            lanes = later
            turn += 1
    return tuple(sorted(turns, key=lambda turn: (turn.wavefront, turn.tag_bank)))


def _banks(addresses: Sequence[int], on: Sequence[bool], width: int, lanes: range) -> dict[int, dict[int, list[int]]]:
    banks: dict[int, dict[int, list[int]]] = {}
    for lane in lanes:
        if on[lane]:
            for word in range(addresses[lane] // 4, (addresses[lane] + width - 1) // 4 + 1):
                banks.setdefault(word % 32, {}).setdefault(word, []).append(lane)
    return banks


def lanes_text(lanes: Sequence[int]) -> str:
    """Lane numbers with runs joined.

    >>> lanes_text([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for lane in sorted(lanes):
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def _who(lanes: Sequence[int]) -> str:
    lanes = sorted(set(lanes))
    return ("lane " if len(lanes) == 1 else "lanes ") + lanes_text(lanes)


def sentences(picture: Picture) -> list[str]:
    """What an engineer should notice, most important first."""
    if not picture.lanes:
        return ["No lane is active: the instruction makes no request."]
    said = _shared_sentences(picture) if picture.space == "shared" else _global_sentences(picture)
    if not picture.counts.exact:
        said.append(_doubt(picture))
    return said


def _shared_sentences(picture: Picture) -> list[str]:
    counts = picture.counts
    assert isinstance(counts, SharedAccess)
    said = []
    found = []
    for group in picture.groups:
        for bank, words in group.items():
            lanes = [lane for some in words.values() for lane in some]
            ways = len(lanes) if picture.op == "atomic" else len(words)
            if ways > 1:
                what = "take turns on one word of" if len(words) == 1 else "hit different words of"
                found.append((-ways, bank, f"{_who(lanes).capitalize()} {what} bank {bank}: {ways}-way."))
    said += [text for _, _, text in sorted(found)[:_COLLISIONS]]
    if len(found) > _COLLISIONS:
        said.append(f"And {len(found) - _COLLISIONS} more like these.")
    if not found:
        said.append("No bank conflict: each lane group needs one word of each bank at most.")
    if picture.merged:
        said.append("Lane pairs with equal addresses let this load merge neighbouring lane groups.")
    same = max(len(lanes) for group in picture.groups for words in group.values() for lanes in words.values())
    if same > 1 and picture.op == "load" and picture.width >= 4:
        said.append(f"Up to {same} lanes read one word: a broadcast, free.")
    return said


def _global_sentences(picture: Picture) -> list[str]:
    counts = picture.counts
    assert isinstance(counts, GlobalAccess)
    useful = len(
        {b for lane in picture.lanes for b in range(picture.addresses[lane], picture.addresses[lane] + picture.width)}
    )
    said = []
    touched = len({(line.number, sector) for line in picture.lines for sector in line.sectors})
    lines = len({line.number for line in picture.lines})
    verb = "write" if picture.op == "store" else "need"
    said.append(
        f"{len(picture.lanes)} {'lane' if len(picture.lanes) == 1 else 'lanes'} {verb} {useful} bytes"
        f" in {touched} {'sector' if touched == 1 else 'sectors'} of {lines} {'line' if lines == 1 else 'lines'}:"
        f" {useful / (32 * touched):.0%} of the {32 * touched} bytes are used."
    )
    if touched == counts.ideal_sectors + 1 and touched > 1 and useful >= 32:
        low = min(picture.addresses[lane] for lane in picture.lanes)
        if low % 32:
            said.append(f"The first byte lies {low % 32} bytes into a sector: aligned, one sector fewer would do.")
    if picture.op == "store":
        partial = touched - sum(line.covered.bit_count() for line in picture.lines)
        if partial:
            said.append(
                f"{partial} of {touched} sectors are written in part: L2 reads the rest from DRAM before they go back."
            )
    if picture.op in ATOMICS:
        words: dict[tuple[int, int], list[int]] = defaultdict(list)
        for item in picture.lines:
            for word, lanes in item.words.items():
                words[item.number, word] += lanes
        (line, word), lanes = max(words.items(), key=lambda item: len(item[1]))
        if len(lanes) > 1:
            said.append(
                f"{_who(lanes).capitalize()} take turns on one word, at {128 * line + 4 * word:#x}: {len(lanes)}-way."
            )
        if counts.l2_requests > lines:
            said.append(
                f"A turn serves one line, and each of its words once: {counts.l2_requests} turns in"
                f" {counts.tag_wavefronts} tag wavefronts, each an L2 request, with {counts.sectors} sectors in all."
            )
        return said
    banks: dict[int, list[Line]] = defaultdict(list)
    for item in picture.lines:
        banks[item.tag_bank].append(item)
    if counts.tag_wavefronts > counts.ideal_tag_wavefronts:
        bank = max(banks, key=lambda b: len(banks[b]))
        least = -(-lines // 4)
        said.append(
            f"{len(banks[bank])} of the {lines} lines fall into tag bank {bank}, which takes one a wavefront:"
            f" {counts.tag_wavefronts} tag wavefronts"
            + (f" ({least} if spread evenly)." if least < counts.tag_wavefronts else ".")
        )
    if picture.op == "load":
        said += _line_conflicts(picture)
    return said


def _line_conflicts(picture: Picture) -> list[str]:
    """Lines that go through in one tag wavefront and have words in the same data bank."""
    size = {8: 16, 16: 8}.get(picture.width, 32)
    found = []
    for wavefront in range(picture.counts.tag_wavefronts):  # type: ignore[union-attr]
        for first in range(0, 32, size):
            banks: dict[int, list[int]] = defaultdict(list)
            for line in picture.lines:
                if line.wavefront == wavefront:
                    for word, lanes in line.words.items():
                        if some := [lane for lane in lanes if first <= lane < first + size]:
                            banks[word].append(some[0])
            found += [(-len(lanes), wavefront, bank, lanes) for bank, lanes in banks.items() if len(lanes) > 1]
    said = [
        f"{_who(lanes).capitalize()} hit data bank {bank} in different lines of tag wavefront {wavefront}: {-ways}-way."
        for ways, wavefront, bank, lanes in sorted(found)[:2]
    ]
    if len(found) > 2:
        said.append(f"And {len(found) - 2} more like these.")
    return said


def _doubt(picture: Picture) -> str:
    if not picture.gpu.figures["l1.tag_bank_masks"].source.startswith("measured"):
        return f"Not checked on the {picture.gpu.title}: the rules are those of the H200."
    if any(picture.addresses[lane] % picture.width for lane in picture.lanes):
        return f"Not aligned to {picture.width} bytes: the hardware faults instead."
    if picture.op in ATOMICS:
        return "The rule for atomics is not settled for this pattern: it was right for all but 1 in 14 measured."
    if picture.op == "store":
        return "The rule for the data wavefronts of scattered stores is not settled: the figure is a lower bound."
    return "The lines differ in address bits whose part in the tag bank is not known."


def figures(picture: Picture) -> dict[str, Any]:
    """The picture as plain data, for JSON."""
    counts = {name: value for name, value in vars(picture.counts).items() if name != "exact"}
    return {
        "pattern": picture.title,
        "op": picture.op,
        "space": picture.space,
        "width": picture.width,
        "gpu": picture.gpu.name,
        "addresses": list(picture.addresses),
        "active": list(picture.active),
        "counts": {name: value for name, value in counts.items() if not name.startswith("ideal_")},
        "ideal": {name.removeprefix("ideal_"): value for name, value in counts.items() if name.startswith("ideal_")},
        "exact": picture.counts.exact,
        "lines": [
            {
                "address": 128 * line.number, "sectors": line.sectors, "lanes": line.lanes, "tag_bank": line.tag_bank,
                "tag_wavefront": line.wavefront,
            }
            for line in picture.lines
        ],
        "notes": sentences(picture),
    }  # fmt: skip
