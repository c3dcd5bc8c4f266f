"""Accuracy cases: the file is read strictly, and recordings come back as they were measured."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

from warpsim import cases
from warpsim.errors import InputError
from warpsim.result import Result

from .test_recordings import gpu  # noqa: F401  (a fixture)

FILE = """
[[kernel]]
file = "twice.cu"
entry = "{entry}"
kind = "doubling"
grid = ["cdiv(n, 128)"]
block = [128]
arg = [{{ name = "in", buffer = "float", count = "n", fill = {{ expr = "i" }} }}, {{ name = "out", buffer = "float", count = "n" }}, {{ name = "n", value = "n" }}]
case.small = {{ n = 1000 }}
case.large = {{ n = "4*Ki" }}
{more}
"""
SOURCE = (
    'extern "C" __global__ void twice(const float *in, float *out, int n) { out[threadIdx.x] = 2 * in[threadIdx.x]; }'
)


def folder(at: Path, entry: str = "twice", more: str = "") -> Path:
    (at / "twice.cu").write_text(SOURCE)
    (at / "cases.toml").write_text(FILE.format(entry=entry, more=more))
    return at


def test_parameters_of_each_launch_are_settled(tmp_path: Path) -> None:
    small, large = cases.load_cases(folder(tmp_path) / "cases.toml")
    assert (small.name, small.kind, small.tuned) == ("small", "doubling", False)
    assert small.scenario.bind().grid == (8, 1, 1)
    assert large.scenario.bind().grid == (32, 1, 1)


@pytest.mark.parametrize(("more", "said"), [
    ("speed = 3", "unknown key 'speed'"),
    ("[[kernel]]\nfile = 'twice.cu'", "key 'block' is missing"),
    ("[[kernel]]\nfile='twice.cu'\nentry='twice'\nkind='x'\ngrid=[1]\nblock=[32]\ncase.small={}", "same name: small"),
])  # fmt: skip
def test_a_wrong_case_file_is_one_line(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cases.load_cases(folder(tmp_path, more=more) / "cases.toml")


@pytest.mark.usefixtures("gpu")
def test_recordings_are_small_and_come_back(tmp_path: Path) -> None:
    place = folder(tmp_path)
    target = place / "recorded" / "h200.jsonl"
    assert cases.main([str(target), "--cases", str(place / "cases.toml"), "--repetitions", "3"]) == 0
    assert len(target.read_text()) < 2 * 6000
    small, large = cases.recorded_cases(place)
    assert small.note == large.note == ""
    assert isinstance(small.measured, Result)
    assert small.measured.missing == []
    assert [b["name"] for b in small.measured.buffers] == ["in", "out"]
    folder(tmp_path).joinpath("twice.cu").write_text(SOURCE.replace("2 *", "3 *"))
    assert [c.note for c in cases.recorded_cases(place)] == ["changed since it was recorded"] * 2


@pytest.mark.usefixtures("gpu")
def test_a_fault_costs_only_its_own_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = "[[kernel]]\nfile='twice.cu'\nentry='faulty'\nkind='x'\ngrid=[1]\nblock=[32]\narg=[{name='in',buffer='float',count=8},{name='out',buffer='float',count=8},{name='n',value=8}]\ncase.bad={}"
    (place := folder(tmp_path, more=more)).joinpath("twice.cu").write_text(SOURCE + SOURCE.replace("twice", "faulty"))
    assert cases.main([str(tmp_path / "r.jsonl"), "--cases", str(place / "cases.toml"), "--repetitions", "2"]) == 1
    assert "bad: " in capsys.readouterr().err
    assert set(cases.read_recordings(tmp_path / "r.jsonl")) == {"small", "large"}
    assert (
        cases.main([str(tmp_path / "r.jsonl"), "--cases", str(place / "cases.toml"), "--missing", "--only", "small"])
        == 0
    )


def test_the_cases_of_the_checkout_are_distinct_kinds() -> None:
    place = cases.case_folder()
    assert place is not None
    found = cases.folder_cases(place)
    untuned = [c for c in found if not c.tuned]
    assert len({c.kind for c in untuned}) >= 6
    for case in found:
        assert case.scenario.bind().arguments


def test_unseen_cases_are_of_kinds_that_the_others_lack() -> None:
    place = cases.case_folder()
    assert place is not None
    kinds = {path.name: {c.kind for c in cases.load_cases(path)} for path in place.glob("*.toml")}
    assert {"cases.toml", "unseen.toml", "blind.toml", "blind2.toml"} <= set(kinds)
    assert len(set().union(*kinds.values())) == sum(map(len, kinds.values()))
