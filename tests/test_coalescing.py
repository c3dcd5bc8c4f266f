"""The access rules: laws with exact numbers, brute-force references, hardware counters of single warps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpsim
from tests.access_evidence import kind_of, patterns, predicted, table
from warpsim import coalescing
from warpsim.errors import InputError
from warpsim.gpu import load_gpu
from warpsim.patterns import GlobalAccess, SharedAccess, access, pattern

MASKS = load_gpu("h200").l1.tag_bank_masks
LANES = range(32)
ALL = 0xFFFFFFFF
ROOT = Path(__file__).parents[1]
RECORDS = [json.loads(line) for line in (ROOT / "tests" / "data" / "access-h200.jsonl").read_text().splitlines()]
PATTERNS = patterns()

many = settings(max_examples=600, deadline=None)


# ---- references: a few lines each, straight from the rules


def tag_bank(line: int) -> int:
    return sum(((line & mask).bit_count() & 1) << i for i, mask in enumerate(MASKS))


def lane_bytes(addresses: list[int], active: int, width: int, lanes: Any = LANES) -> list[int]:
    return [byte for lane in lanes if active >> lane & 1 for byte in range(addresses[lane], addresses[lane] + width)]


def most_words_in_a_bank(touched: list[int]) -> int:
    return max(Counter(word % 32 for word in {byte // 4 for byte in touched}).values(), default=0)


def groups(width: int) -> list[range]:
    size = {8: 16, 16: 8}.get(width, 32)
    return [range(first, first + size) for first in range(0, 32, size)]


def reference_load(addresses: list[int], active: int, width: int) -> tuple[int, int, int, int]:
    touched = lane_bytes(addresses, active, width)
    lines = list(dict.fromkeys(byte // 128 for byte in touched))
    bank_lines: list[list[int]] = [[], [], [], []]
    for line in lines:
        bank_lines[tag_bank(line)].append(line)
    wavefront = {line: k for bank in bank_lines for k, line in enumerate(bank)}
    data = sum(
        most_words_in_a_bank([b for b in lane_bytes(addresses, active, width, group) if wavefront[b // 128] == k])
        for k in range(max(map(len, bank_lines)))
        for group in groups(width)
    )
    return len({byte // 32 for byte in touched}), len(lines), max(map(len, bank_lines)), data


def reference_store(addresses: list[int], active: int, width: int) -> int:
    """Data wavefronts: the first tag wavefronts together, the others each by itself."""
    depth = 8 if width >= 4 else 4
    rank: dict[int, int] = {}
    size: Counter[int] = Counter()
    for line in dict.fromkeys(byte // 128 for byte in lane_bytes(addresses, active, width)):
        rank[line] = size[tag_bank(line)]
        size[tag_bank(line)] += 1
    part = {line: 0 if k < depth else k for line, k in rank.items()}
    return sum(
        most_words_in_a_bank([b for b in lane_bytes(addresses, active, width, group) if part[b // 128] == k])
        for k in set(part.values())
        for group in groups(width)
    )


def most_pieces_in_a_bank(pieces: list[tuple[int, set[int]]]) -> int:
    """The most (half) lines that meet in a bank; each has the banks that it uses."""
    together: dict[int, set[int]] = {}
    for piece, banks in pieces:
        together[piece] = together.get(piece, set()) | banks
    return max(Counter(bank for banks in together.values() for bank in banks).values(), default=0)


def reference_atomic(addresses: list[int], active: int, width: int, op: int) -> tuple[int, int, int, int]:
    """Sectors, tag wavefronts, data wavefronts and L2 requests, turn by turn."""
    cas, size = op == coalescing.CAS, 64 if op == coalescing.CAS else 128
    waves: dict[int, list[int]] = {}
    sectors = requests = 0
    for bank in range(4):
        left = [lane for lane in LANES if active >> lane & 1 and tag_bank(addresses[lane] // 128) == bank]
        turn = 0
        while left:
            seen: set[int] = set()
            taken = []
            for lane in left:
                word = addresses[lane] % 128 // max(width, 4)
                if addresses[lane] // size == addresses[left[0]] // size and word not in seen:
                    taken.append(lane)
                seen.add(word)
            waves.setdefault(turn, []).extend(taken)
            sectors += len({addresses[lane] // 32 for lane in taken})
            requests += 1
            turn += 1
            left = [lane for lane in left if lane not in taken]
    data = 0
    for lanes in waves.values():
        alone = len({addresses[lane] // size for lane in lanes}) == len(lanes)
        sent: dict[int, set[int]] = {}
        back: dict[int, set[int]] = {}
        for lane in lanes:
            words = {byte % 128 // 4 for byte in range(addresses[lane], addresses[lane] + width)}
            back[lane] = words
            if cas:
                sent[lane] = {word // 8 if alone else word % 16 for word in words}
            else:
                sent[lane] = {word & ~4 if alone else word for word in words}
        for group in groups(min(2 * width, 16) if cas else width):
            data += most_pieces_in_a_bank([(addresses[x] // size, sent[x]) for x in lanes if x in group])
        for group in groups(width) if op != coalescing.RED else []:
            data += most_pieces_in_a_bank([(addresses[x] // 128, back[x]) for x in lanes if x in group])
    return sectors, max(waves, default=-1) + 1, data, requests


def reference_shared(addresses: list[int], active: int, width: int, load: bool) -> tuple[int, int]:
    lanes = groups(width)
    on = [bool(active >> lane & 1) for lane in LANES]
    same = [all(addresses[t] == addresses[t ^ d] or not (on[t] and on[t ^ d]) for t in LANES) for d in (1, 2)]
    if load and width >= 8 and any(same):
        lanes = [range(a.start, b.stop) for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
    parts = [lane_bytes(addresses, active, width, group) for group in lanes]
    return sum(map(most_words_in_a_bank, parts)), sum(map(bool, parts))


# ---- the functions under test, called plainly


def load(addresses: list[int], active: int, width: int, op: int = coalescing.LOAD) -> tuple[list[int], list[int]]:
    lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    count = coalescing.global_request(addresses, active, width, op, MASKS, lines, out, scratch)
    return out[:4], lines[:count]


def shared(addresses: list[int], active: int, width: int, op: int = coalescing.LOAD) -> tuple[int, int]:
    out, scratch = [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    coalescing.shared_request(addresses, active, width, op, out, scratch)
    return out[0], out[1]


@st.composite
def accesses(draw: Any, span: int = 1 << 20) -> tuple[list[int], int, int]:
    """Addresses, active lanes and width: scattered over a window, strided, in rows, or in equal pairs."""
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    window = draw(st.sampled_from([64, 256, 1024, 4096, span])) // width
    kind = draw(st.sampled_from(["scatter", "stride", "rows", "pairs", "rising", "falling"]))
    raw = np.frombuffer(draw(st.binary(min_size=128, max_size=128)), np.uint32).astype(np.int64)
    lane = np.arange(32)
    if kind == "scatter":
        index = raw % window
    elif kind == "stride":
        index = lane * (raw[0] % 70) + raw[1] % window
    elif kind == "rows":
        index = lane // 8 * (raw[0] % 300) + lane % 8 * (raw[1] % 5)
    elif kind in ("rising", "falling"):
        index = np.sort(raw % window)[:: 1 if kind == "rising" else -1]
    else:
        index = (raw % window)[lane & ~(1 << (raw[0] & 1))]
    shift = draw(st.sampled_from([0, 0, 0, 1, 4])) if width > 1 else 0  # off the natural alignment
    active = draw(st.sampled_from([ALL, ALL, 0xFFFF, 0x55555555, 1 << 31, int(raw[2] & ALL)]))
    return [int(i) * width + shift for i in index], active, width


# ---- laws, global


@pytest.mark.parametrize(
    ("expression", "width", "sectors", "tags"),
    [
        ("lane", 4, 4, 1), ("lane", 8, 8, 2), ("lane", 16, 16, 4), ("lane", 1, 1, 1), ("lane", 2, 2, 1),
        ("2*lane", 4, 8, 2), ("4*lane", 4, 16, 4), ("8*lane", 4, 32, 8), ("32*lane", 4, 32, 32),
        ("lane + 1", 4, 5, 2), ("0", 4, 1, 1), ("31 - lane", 4, 4, 1), ("lane ^ 5", 4, 4, 1),
        ("lane/8*1024 + lane%8", 4, 4, 4), ("4*lane", 16, 32, 16),
    ],
)  # fmt: skip
def test_sectors_are_the_distinct_32_bytes_and_tags_the_distinct_128(
    expression: str, width: int, sectors: int, tags: int
) -> None:
    found = access(pattern(expression, width)[0], width=width)
    assert isinstance(found, GlobalAccess)
    assert (found.sectors, found.tags, found.l2_requests) == (sectors, tags, tags)


def test_a_tag_wavefront_takes_one_line_of_each_of_four_banks() -> None:
    same_bank = [line for line in range(4096) if tag_bank(line) == 0]
    one_each = [next(line for line in range(64) if tag_bank(line) == bank) for bank in range(4)]
    assert load([128 * same_bank[lane] + 4 * lane for lane in LANES], ALL, 4)[0][2] == 32
    assert load([128 * one_each[lane % 4] + 4 * lane for lane in LANES], ALL, 4)[0][2:] == [1, 1]


def test_tag_banks_use_the_whole_address() -> None:
    """32 lanes 33 lines apart were measured to take from 8 to 26 tag wavefronts, depending on the base."""
    bases = np.arange(600)[:, None]
    found = access(128 * (bases + 33 * np.arange(32)), width=4).tag_wavefronts
    assert (found.min(), found.max()) == (8, 26)


def test_lines_of_one_tag_wavefront_conflict_only_in_data_banks() -> None:
    lines = [next(line for line in range(64) if tag_bank(line) == bank) for bank in range(4)]
    assert load([128 * lines[lane % 4] + 4 * (lane // 4) for lane in LANES], ALL, 4)[0][2:] == [1, 4]
    assert load([128 * lines[lane % 4] + 4 * lane for lane in LANES], ALL, 4)[0][2:] == [1, 1]


@pytest.mark.parametrize(("width", "wavefronts"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_lane_groups_are_32_lanes_16_of_8_bytes_and_8_of_16(width: int, wavefronts: int) -> None:
    assert access(pattern("lane", width)[0], width=width).data_wavefronts == wavefronts
    assert access(pattern("lane", width)[0], width=width, op="store").data_wavefronts == wavefronts


def test_line_words_hold_touched_and_wholly_covered_sectors_in_order_of_first_touch() -> None:
    _, words = load([640 + 4 * lane if lane < 16 else 4 * (lane - 16) + 16 for lane in LANES], ALL, 4)
    assert words == [5 << 16 | 0b0011 << 4 | 0b0011, 0 << 16 | 0b0010 << 4 | 0b0111]
    assert load([16 + 4 * lane for lane in LANES], ALL, 4)[1] == [0b1110 << 4 | 0b1111, 1 << 16 | 0b0001]
    assert load([32 * lane for lane in LANES], ALL, 4)[1] == [line << 16 | 0b1111 for line in range(8)]


def test_atomics_on_one_word_take_turns() -> None:
    found = access([0] * 32, width=4, op="red")
    assert (found.sectors, found.l2_requests, found.tags) == (32, 32, 1)
    spread = access([4 * lane for lane in LANES], width=4, op="atomic")
    assert (spread.sectors, spread.l2_requests) == (4, 1)
    two = access([4 * (lane % 2) * 8 for lane in LANES], width=4, op="atomic")  # 16 lanes on each of two sectors
    assert (two.sectors, two.l2_requests) == (32, 16)


def test_operations_of_a_line_are_in_its_word() -> None:
    lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    addresses = [0] * 5 + [128 + 4 * lane for lane in range(27)]
    assert coalescing.atomic_request(addresses, ALL, 4, MASKS, lines, out, scratch) == 2
    assert [word >> 8 & 31 for word in lines[:2]] == [4, 0]


# ---- laws, shared


@pytest.mark.parametrize(
    ("expression", "width", "wavefronts", "conflicts"),
    [
        ("lane", 4, 1, 0), ("32*lane", 4, 32, 31), ("33*lane", 4, 1, 0), ("0", 4, 1, 0), ("2*lane", 4, 2, 1),
        ("lane", 8, 2, 0), ("lane", 16, 4, 0), ("lane", 1, 1, 0), ("34*lane", 4, 2, 1),
        ("32*lane + (lane ^ 3)", 4, 1, 0), ("2*lane", 16, 8, 4),
    ],
)  # fmt: skip
def test_wavefronts_are_the_distinct_words_of_the_fullest_bank(
    expression: str, width: int, wavefronts: int, conflicts: int
) -> None:
    for op in ("load", "store"):
        found = access(pattern(expression, width)[0], width=width, space="shared", op=op)
        assert isinstance(found, SharedAccess)
        assert (found.data_wavefronts, found.conflicts, found.ideal_conflicts) == (wavefronts, conflicts, 0)


@pytest.mark.parametrize("distance", [1, 2])
@pytest.mark.parametrize(("width", "merged", "apart"), [(8, 1, 2), (16, 2, 4)])
def test_loads_of_equal_lane_pairs_merge_their_groups_and_stores_never(
    distance: int, width: int, merged: int, apart: int
) -> None:
    index = {1: [lane >> 1 for lane in LANES], 2: [lane >> 2 << 1 | lane & 1 for lane in LANES]}[distance]
    addresses = [width * i for i in index]
    assert shared(addresses, ALL, width) == (merged, merged)
    assert shared(addresses, ALL, width, coalescing.STORE) == (apart, apart)
    addresses[31] += 1024
    assert shared(addresses, ALL, width)[1] == apart
    assert shared(addresses, ALL & ~(1 << 31), width)[1] == merged


def test_ldmatrix_takes_a_wavefront_a_matrix_when_its_rows_lie_in_different_banks() -> None:
    for matrices in (1, 2, 4):
        op = f"ldmatrix_x{matrices}"
        assert access([16 * lane for lane in LANES], width=16, op=op, space="shared").data_wavefronts == matrices
        column = access([128 * lane for lane in LANES], width=16, op=op, space="shared")
        assert (column.data_wavefronts, column.conflicts) == (8 * matrices, 7 * matrices)


def test_shared_atomics_take_a_wavefront_for_each_lane_in_a_bank() -> None:
    for stride, wavefronts in ((0, 32), (4, 1), (64, 16)):
        assert (
            access([stride * lane for lane in LANES], width=4, op="atomic", space="shared").data_wavefronts
            == wavefronts
        )


# ---- references


@many
@given(accesses())
def test_global_loads_equal_the_reference(case: tuple[list[int], int, int]) -> None:
    assert load(*case)[0] == list(reference_load(*case))


@many
@given(accesses())
def test_global_stores_equal_the_reference(case: tuple[list[int], int, int]) -> None:
    assert load(*case, coalescing.STORE)[0] == [*reference_load(*case)[:3], reference_store(*case)]


@many
@given(accesses(span=1 << 14), st.sampled_from([coalescing.ATOMIC, coalescing.RED, coalescing.CAS]))
def test_atomics_equal_the_reference(case: tuple[list[int], int, int], op: int) -> None:
    row, active, width = case
    width = max(width, 4)
    row = [address // width * width for address in row]
    lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
    count = coalescing.atomic_request(row, active, width, MASKS, lines, out, scratch, op)
    assert (out[0], out[2], out[3], out[4]) == reference_atomic(row, active, width, op)
    assert sum((word >> 8 & 31) + 1 for word in lines[:count]) == out[4]
    plain = load(row, active, width)
    assert (out[1], [word & ~0x1F00 for word in lines[:count]]) == (plain[0][1], [w & ~0x1F00 for w in plain[1]])


@many
@given(accesses())
def test_line_words_equal_the_reference(case: tuple[list[int], int, int]) -> None:
    touched = lane_bytes(*case)
    sectors = {byte // 32 for byte in touched}
    whole = {sector for sector, size in Counter(byte // 32 for byte in set(touched)).items() if size == 32}
    assert load(*case)[1] == [
        line << 16 | sum((4 * line + s in whole) << 4 + s | (4 * line + s in sectors) << s for s in range(4))
        for line in dict.fromkeys(byte // 128 for byte in touched)
    ]


@many
@given(accesses(span=1 << 16), st.booleans())
def test_shared_accesses_equal_the_reference(case: tuple[list[int], int, int], is_load: bool) -> None:
    assert shared(*case, coalescing.LOAD if is_load else coalescing.STORE) == reference_shared(*case, is_load)


@many
@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 1 << 30), st.sampled_from([coalescing.LOAD, coalescing.STORE]))
def test_the_contiguous_fast_path_equals_the_general_one(width: int, base: int, op: int) -> None:
    """Exchanging lanes 0 and 1 leaves the fast path and changes nothing but, perhaps, the order of lines."""
    addresses = [base * width + width * lane for lane in LANES]
    swapped = [addresses[1], addresses[0], *addresses[2:]]
    fast, words = load(addresses, ALL, width, op)
    slow, others = load(swapped, ALL, width, op)
    assert sorted(words) == sorted(others)
    if addresses[0] // 128 == (addresses[1] + width - 1) // 128:
        assert (fast, words) == (slow, others)
    if op == coalescing.LOAD:
        assert fast == list(reference_load(addresses, ALL, width))


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_compiled_rules_equal_plain_ones(width: int) -> None:
    random = np.random.default_rng(width)
    rows = [random.integers(0, 2 ** random.integers(6, 22), 32) // width * width for _ in range(300)]
    rows += [np.arange(32) * width * random.integers(0, 4) + width * random.integers(0, 4096) for _ in range(100)]
    masks = [ALL if random.random() < 0.5 else int(random.integers(0, ALL + 1)) for _ in rows]
    fast = coalescing.compiled()
    table, bank_masks = np.array(rows), np.array(MASKS)
    lines, out, scratch = np.zeros(64, np.uint64), np.zeros(8, np.int64), np.zeros(coalescing.SCRATCH, np.int64)
    plain_lines, plain_out, plain_scratch = [0] * 64, [0] * 8, [0] * coalescing.SCRATCH
    for row, mask in zip(table, masks, strict=True):
        cells = row.tolist()
        for op in (coalescing.LOAD, coalescing.STORE):
            count = fast.global_request(row, mask, width, op, bank_masks, lines, out, scratch)
            assert count == coalescing.global_request(
                cells, mask, width, op, MASKS, plain_lines, plain_out, plain_scratch
            )
            assert (out[:5].tolist(), lines[:count].tolist()) == (plain_out[:5], plain_lines[:count])
            fast.shared_request(row, mask, width, op, out, scratch)
            coalescing.shared_request(cells, mask, width, op, plain_out, plain_scratch)
            assert out[:2].tolist() == plain_out[:2]
        for op in (coalescing.ATOMIC, coalescing.RED, coalescing.CAS):
            count = fast.atomic_request(row, mask, width, bank_masks, lines, out, scratch, op)
            coalescing.atomic_request(cells, mask, width, MASKS, plain_lines, plain_out, plain_scratch, op)
            assert (out[:5].tolist(), lines[:count].tolist()) == (plain_out[:5], plain_lines[:count])
        for op in (coalescing.SHARED_ATOMIC, coalescing.SHARED_CAS):
            fast.shared_request(row, mask, width, op, out, scratch)
            coalescing.shared_request(cells, mask, width, op, plain_out, plain_scratch)
            assert out[:2].tolist() == plain_out[:2]


# ---- hardware


@pytest.mark.parametrize("op", ["load", "store", "atomic", "red", "ldmatrix_x1", "ldmatrix_x4"])
def test_single_warps_take_what_the_hardware_counted(op: str) -> None:
    records = [record for record in RECORDS if record["op"] == op]
    settled = 0
    for record in records:
        kind = {key: record[key] for key in ("width", "op", "space", "active")}
        found = access(record["addresses"], **kind)
        for name, counted in record["expected"].items():
            if found.exact or name != "data_wavefronts":
                assert getattr(found, name) == counted, record["name"]
        settled += bool(found.exact)
    assert settled == LEAST[op]


LEAST = {"load": 344, "store": 82, "atomic": 19, "red": 8, "ldmatrix_x1": 9, "ldmatrix_x4": 13}
CLASSES = sorted({kind_of(p) for p in PATTERNS})


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: " ".join(map(str, kind)).strip())
def test_measured_patterns(kind: tuple[str, str, int, str]) -> None:
    """Every counter equal wherever the rule is exact, and it is but for the data wavefronts of some stores."""
    records = [p for p in PATTERNS if kind_of(p) == kind]
    store = kind[:2] == ("store", "global")
    for record in records:
        figures, exact = predicted(record)
        assert exact or store
        for name, counted in record["measured"].items():
            if exact or name != "data_wavefronts":
                assert figures[name] == counted, (name, record)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_measured_stores_lie_between_all_lines_together_and_each_tag_wavefront_apart(width: int) -> None:
    """One of 1 or 2 bytes was seen to take one more than that."""
    records = [p for p in PATTERNS if (p["op"], p["space"], p["width"]) == ("store", "global", width)]
    for record in records:
        row = [address + record["base"] for address in record["addresses"]]
        together = sum(most_words_in_a_bank(lane_bytes(row, record["mask"], width, group)) for group in groups(width))
        apart = reference_load(row, record["mask"], width)[3]
        assert together <= record["measured"]["data_wavefronts"] <= apart + (width < 4)


def test_the_evidence_in_the_documentation_is_that_of_the_data() -> None:
    assert "\n".join(table()) in (ROOT / "docs" / "access-rules.md").read_text(encoding="utf-8")


# ---- warpsim.access


@many
@given(st.lists(accesses(span=1 << 16), min_size=1, max_size=3), st.sampled_from(["global", "shared"]))
def test_a_batch_is_its_patterns_one_by_one(cases: list[tuple[list[int], int, int]], space: str) -> None:
    width = cases[0][2]
    active = [[bool(mask >> lane & 1) for lane in LANES] for _, mask, _ in cases]
    together = access([row for row, _, _ in cases], width=width, space=space, active=active)
    for i, (row, _, _) in enumerate(cases):
        alone = access(row, width=width, space=space, active=active[i])
        assert {name: values[i] for name, values in vars(together).items()} == vars(alone)


def test_large_batches_give_what_small_ones_give() -> None:
    rows = np.array([record["addresses"] for record in RECORDS if record["space"] == "global" and record["width"] == 4])
    for op in ("load", "store", "red"):
        small = access(rows, width=4, op=op)
        large = access(np.tile(rows, (60, 1)).reshape(60, -1, 32), width=4, op=op)
        for name, values in vars(small).items():
            assert (getattr(large, name) == values).all(), name
            assert getattr(large, name).shape == (60, len(rows))


@given(accesses())
def test_no_access_costs_less_than_its_ideal(case: tuple[list[int], int, int]) -> None:
    row, mask, width = case
    active = [bool(mask >> lane & 1) for lane in LANES]
    for op in ("load", "store"):
        found = access(row, width=width, active=active, op=op)
        for name in ("sectors", "tags", "tag_wavefronts", "data_wavefronts", "l2_requests"):
            assert getattr(found, f"ideal_{name}") <= getattr(found, name)
    assert found.ideal_sectors == -(-len(set(lane_bytes(row, mask, width))) // 32)


def test_inactive_lanes_count_for_nothing() -> None:
    first = [lane < 8 for lane in LANES]
    found = access([4 * lane if lane < 8 else -1 for lane in LANES], width=4, active=first)
    assert (found.sectors, found.tags, found.ideal_sectors) == (1, 1, 1)
    nobody = access([0] * 32, width=4, active=[False] * 32)
    assert (nobody.sectors, nobody.tags, nobody.data_wavefronts, nobody.ideal_sectors) == (0, 0, 0, 0)


def test_exact_says_where_a_rule_is_open() -> None:
    scattered = [128 * 37 * lane for lane in LANES]
    assert access(scattered, width=4).exact
    assert not access([128 * 37 * lane + 4 * lane for lane in LANES], width=4, op="store").exact
    assert access(pattern("lane", 4)[0], width=4, op="store").exact
    assert not access(scattered, width=4, gpu="a100-80gb").exact
    assert not access([2, *range(4, 128, 4)], width=4).exact  # the hardware faults


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"addresses": list(range(31))}, "addresses of shape (31,): the last dimension must be the 32 lanes of a warp"),
        ({"addresses": 0}, "addresses of shape ()"),
        ({"addresses": [[0] * 32, [0] * 31]}, "rows of different lengths"),
        ({"addresses": [0.5] * 32}, "addresses of type float64: byte addresses are integers"),
        ({"width": 3}, "width 3: a lane accesses 1, 2, 4, 8 or 16 bytes"),
        ({"width": True}, "width True"),
        ({"space": "local"}, "space 'local': allowed are global and shared"),
        ({"op": "prefetch"}, "op 'prefetch' in global memory: allowed are load, store, atomic, red"),
        ({"op": "ldmatrix_x1"}, "op 'ldmatrix_x1' in global memory"),
        ({"op": "red", "space": "shared"}, "op 'red' in shared memory"),
        ({"op": "ldmatrix_x1", "space": "shared"}, "width 4 of ldmatrix_x1: a row is 16 bytes"),
        ({"op": "atomic", "width": 1}, "width 1 of op 'atomic': allowed are 2, 4, 8 and 16 bytes"),
        ({"addresses": [*range(31), -4]}, "lane 31: address -4 is negative"),
        ({"addresses": [[0] * 32, [-4] * 32]}, "lane 0 of pattern (1,): address -4 is negative"),
        ({"addresses": [232448] * 32, "space": "shared"}, "address 232448 is beyond the 232448 bytes of shared memory"),
        ({"addresses": [1 << 49] * 32}, "is beyond the 562949953421312 bytes of global memory"),
        ({"addresses": [1 << 70] * 32}, "is beyond"),
        ({"active": [True] * 31}, "active of shape (31,): must be that of addresses, (32,), or (32,)"),
        ({"active": [0.5] * 32}, "active of type float64: one boolean a lane"),
        ({"gpu": "h2000"}, "unknown GPU"),
    ],
)  # fmt: skip
def test_wrong_arguments_give_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    given_: dict[str, Any] = {"addresses": [0] * 32, "width": 4} | arguments
    with pytest.raises(InputError) as caught:
        warpsim.access(given_.pop("addresses"), **given_)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_access_loads_neither_numba_nor_a_compiler() -> None:
    code = (
        "import sys, warpsim; warpsim.access(range(32), width=4); print(sorted(m for m in sys.modules"
        " if m.split('.')[0] in {'numba', 'llvmlite', 'cuda', 'rich', 'simpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
