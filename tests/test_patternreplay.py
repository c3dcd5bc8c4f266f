"""Patterns reach the GPU's table unchanged, and each gets the counters of its own launch."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsim import patternreplay, replayer
from warpsim.errors import InputError, UnsupportedError
from warpsim.patterntable import CELLS, RECORD, TABLE, Pattern, encode, random_patterns, read, write

FAKES = Path(__file__).parent / "fakes" / "gpu"


def lanes(row: Any, zero: int) -> list[int]:
    """What kernels/replay.cu makes of a table row: byte addresses of active lanes, from the arena or the window."""
    mask, shift, base = int(row["mask"]), int(row["shift"]), int(row["base"])
    return [base - zero + (int(row["offset"][k]) << shift) for k in range(32) if mask >> k & 1]


class RuleProfiler:
    """A profiler that counts what the table says: distinct sectors, plus a constant that every launch has."""

    measured = 0

    def __init__(self, context: int, metrics: Sequence[str], ranges: int) -> None:
        self.metrics = list(metrics)

    def measure(self, launch: Callable[[], None], count: int) -> list[list[float]]:
        cupy = sys.modules["cupy"]
        before = len(cupy.launches)
        launch()
        done = cupy.launches[before:]
        assert len(done) == count
        table = np.frombuffer(ctypes.string_at(cupy.constant["table"], TABLE * RECORD.itemsize), RECORD)
        rows = []
        for _, _, (first, number, zero, sink) in done:
            assert (zero, sink) == (0, 0)
            sectors = sum(
                int(table[p]["repeat"]) * len({a // 32 for a in lanes(table[p], 0)})
                for p in range(first, first + number)
            )
            rows.append([float(sectors + 5)] * len(self.metrics))
        RuleProfiler.measured += count
        return rows

    def __enter__(self) -> RuleProfiler:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    original = replayer._parameters
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(patternreplay, "RangeProfiler", RuleProfiler)
    import cupy  # type: ignore[import-not-found]

    yield cupy
    replayer._parameters = original
    sys.modules.pop("cupy", None)


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: "-".join(str(x) for x in c if x != ""))
def test_random_patterns_are_valid_and_encode_to_their_own_addresses(cell: tuple[str, str, int, str]) -> None:
    op, space, width, kind = cell
    made = random_patterns(op, space, width, 60, kind=kind, reach=1 << 30)
    arena = 0x7F12_3440_0000
    for pattern, row in zip(made, encode(made, arena), strict=True):
        pattern.check()
        wanted = [a for a, on in zip(pattern.addresses, pattern.active, strict=True) if on]
        assert lanes(row, arena if space == "global" else 0) == wanted
    assert len(set(made)) > 55


def test_lanes_far_apart_use_scaled_offsets() -> None:
    far = Pattern("load", "global", 4, (0, 1 << 35) + (128,) * 30)
    assert lanes(encode([far], 1 << 40)[0], 1 << 40) == [0, 1 << 35] + [128] * 30
    odd = Pattern("load", "global", 4, (0, (1 << 35) + 4) + (128,) * 30)
    with pytest.raises(InputError, match="too far apart"):
        encode([odd], 0)


def test_random_patterns_repeat_with_their_seed() -> None:
    a, b, c = (random_patterns("load", "global", 4, 5, seed=s) for s in (1, 1, 2))
    assert a == b
    assert a != c


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 3}, "load global 3 cannot be replayed; allowed: atomic global 4"),
        ({"addresses": [1] * 32}, "address 1 is not a multiple of 4"),
        ({"addresses": [0] * 31}, "32 addresses and 32 active flags are needed, 31 and 32 given"),
        ({"addresses": [-4] * 32}, "negative address -4"),
        ({"op": "ldmatrix_x4", "space": "shared", "width": 16, "active": [False] + [True] * 31}, "all 32 lanes active"),
    ],
)
def test_bad_patterns_name_file_line_and_fault(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    good = {"op": "load", "space": "global", "width": 4, "addresses": [0] * 32}
    (tmp_path / "p.jsonl").write_text(json.dumps(good) + "\n\n" + json.dumps(good | change) + "\n")
    with pytest.raises(InputError, match=rf"p\.jsonl:3: .*{message}"):
        list(read(tmp_path / "p.jsonl"))


def test_each_pattern_gets_its_own_counters_less_what_a_launch_counts_anyway(cupy: Any, tmp_path: Path) -> None:
    made = [p for op, width in (("load", 4), ("store", 8)) for p in random_patterns(op, "global", width, 450)]
    found = dict(patternreplay.measure(made))
    assert len(found) == 900
    for index, pattern in enumerate(made):
        base = found[index]["base"]
        assert base % patternreplay.BASE_ALIGNMENT == 0
        wanted = {(base + a) // 32 for a, on in zip(pattern.addresses, pattern.active, strict=True) if on}
        assert found[index]["measured"]["sectors"] == len(wanted)


def test_many_patterns_in_one_launch_give_the_sum_over_repeats(cupy: Any) -> None:
    made = random_patterns("load", "global", 4, 20)
    replay = patternreplay.PatternReplay()
    (total,) = patternreplay.totals(replay, made, range(1, 21), ["x"])
    sectors = [len({(replay.arena + a) // 32 for a, on in zip(p.addresses, p.active, strict=True) if on}) for p in made]
    assert total - 5 == sum(n * s for n, s in zip(range(1, 21), sectors, strict=True))
    assert cupy.launches[-1][1] == (20,)


def test_a_pattern_beyond_the_arena_is_refused(cupy: Any) -> None:
    replay = patternreplay.PatternReplay(1 << 20)
    with pytest.raises(InputError, match="reaches byte 2097156, the arena has 2097152"):
        replay.load([Pattern("load", "global", 4, (2 << 20,) * 32, name="far")])


def test_the_command_appends_what_it_measured(cupy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "in.jsonl", [{"tag": 7, **p.to_dict()} for p in random_patterns("load", "global", 4, 3)])
    assert (
        patternreplay.main([str(tmp_path / "out.jsonl"), "--patterns", str(tmp_path / "in.jsonl"), "--random", "2"])
        == 0
    )
    rows = [json.loads(x) for x in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 3 + 2 * len(CELLS)
    assert [r["tag"] for r in rows if "tag" in r] == [7, 7, 7]
    assert all({"base", "measured"} <= set(r) for r in rows)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"patterns": len(rows), "measured": len(rows)}


def test_counters_that_cupti_cannot_read_come_from_ncu(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError("CUPTI: no permission")

    monkeypatch.setattr(patternreplay, "RangeProfiler", refuse)
    asked: list[int] = []

    def ncu(table: Sequence[Pattern], metrics: Sequence[str], reach: int) -> list[list[float]]:
        asked.append(len(table))
        return [[1.0] * len(metrics)] + [[3.0] * len(metrics)] * (len(table) - 1)

    monkeypatch.setattr(patternreplay, "_values_ncu", ncu)
    said: list[str] = []
    found = dict(patternreplay.measure(random_patterns("load", "global", 4, 100), say=said.append))
    assert asked == [65, 37]
    assert found[99]["measured"]["sectors"] == 2
    assert said[0] == "CUPTI: no permission; using Nsight Compute"
