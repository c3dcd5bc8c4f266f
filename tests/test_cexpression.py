"""Index expressions mean what C means; offset lists and lane masks are read as written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsim.cexpression import evaluate
from warpsim.errors import InputError
from warpsim.patterns import active_lanes, pattern


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2*3", 7), ("(1 + 2)*3", 9), ("7 - 2 - 1", 4), ("-7/2", -3), ("-7%2", -1), ("7/-2", -3),
        ("1 << 3 + 1", 16), ("6 & 3 == 3", 0), ("1 | 2 ^ 3 & 2", 1), ("~0", -1), ("!5", 0), ("!!5", 1), ("--5", 5),
        ("0x1Fu", 31), ("010", 8), ("0b101", 5), ("2 ? 3 : 4 ? 5 : 6", 3), ("0 ? 3 : 0 ? 5 : 6", 6),
        ("2 && 0 || 3", 1), ("0 && 1/0", 0), ("-8 >> 1", -4), ("3 > 2 > 1", 0), ("5 != 4", 1), ("1 ? 2 : 1/0", 2),
        ("+3", 3),
    ],
)  # fmt: skip
def test_operators_have_the_precedence_and_meaning_of_c(text: str, value: int) -> None:
    assert evaluate(text) == [value] * 32


def test_lane_is_the_lane() -> None:
    assert evaluate("lane") == list(range(32))
    assert evaluate("lane < 16 ? 2*lane : lane ^ 31") == [2 * i if i < 16 else i ^ 31 for i in range(32)]


def expressions() -> st.SearchStrategy[str]:
    leaf = st.one_of(st.just("lane"), st.integers(0, 40).map(str), st.integers(0, 255).map(hex))
    binary = st.sampled_from(["+", "-", "*", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, binary, inner).map(" ".join),
            st.tuples(inner, st.sampled_from(["/", "%"]), st.integers(1, 9).map(str)).map(" ".join),
            st.tuples(st.sampled_from(["-", "~", "!"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
            inner.map(lambda t: f"({t})"),
            st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} ? {t[1]} : {t[2]}"),
        ),
        max_leaves=10,
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_values_equal_a_c_compilers(tmp_path: Path) -> None:
    texts: list[str] = []

    @given(st.lists(expressions(), min_size=20, max_size=20))
    def collect(some: list[str]) -> None:
        texts.extend(some)

    collect()
    known = {}
    for text in dict.fromkeys(texts):
        try:
            known[text] = evaluate(text)
        except InputError:  # does not fit 64 bits, or is too long
            continue
    assert len(known) > 200
    lines = "\n".join(
        f'for (long lane = 0; lane < 32; lane++) printf("%ld ", (long)({text})); puts("");' for text in known
    )
    source = tmp_path / "values.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{ {lines} return 0; }}\n")
    subprocess.run(["cc", "-w", "-fwrapv", "-o", str(tmp_path / "values"), str(source)], check=True)
    printed = subprocess.run([str(tmp_path / "values")], capture_output=True, text=True, check=True).stdout
    for (text, values), line in zip(known.items(), printed.splitlines(), strict=True):
        if max(map(abs, values)) < 1 << 31:  # literals are int in C, and the products of large ones wrap
            assert values == [int(word) for word in line.split()], text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected a value, found the end"),
        ("lane +", "column 7: expected a value, found the end"),
        ("threadIdx", "column 1: unknown name 'threadIdx', only lane is known"),
        ("32/lane", "column 3: division by zero in lane 0"),
        ("1 << lane*3", "column 3: 1 << 63 does not fit"),
        ("lane % (lane - 3)", "column 6: division by zero in lane 3"),
        ("1 << 64", "shift by 64 in lane 0"),
        ("(1", "column 3: expected ')'"),
        ("lane ? 1", "expected ':'"),
        ("1 2", "column 3: unexpected '2'"),
        ("1.5*lane", "column 1: cannot read '1.5*lane'"),
        ("__import__(lane)", "column 1: unknown name"),
        ("09", "'09' is not an octal number"),
        ("99999999999999999999", "does not fit 64 bits"),
        ("(" * 200, "nested too deeply"),
        ("+".join(["lane"] * 5000), "longer than 300 tokens"),
    ],
)
def test_bad_expressions_name_the_column(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


def test_patterns_are_element_indices_or_byte_offsets() -> None:
    assert pattern("32*lane", 4) == ([128 * lane for lane in range(32)], [True] * 32)
    assert pattern("0, 4,0x8", 4) == ([0, 4, 8] + [0] * 29, [True] * 3 + [False] * 29)
    for text, message in (("0,x", "'x' is not an integer"), (",".join(["0"] * 33), "33 offsets, a warp has 32 lanes")):
        with pytest.raises(InputError, match=message):
            pattern(text, 4)


def test_active_lanes_are_a_mask_ranges_or_a_condition() -> None:
    for text, lanes in (
        ("0xf0", {4, 5, 6, 7}), ("3", {3}), ("0-2, 30-31", {0, 1, 2, 30, 31}), ("lane >= 30", {30, 31}),
        ("0b11", {0, 1}),
    ):  # fmt: skip
        assert {lane for lane, on in enumerate(active_lanes(text)) if on} == lanes
    for text in ("0-32", "5-3", "1,,2", "0x1ffffffff"):
        with pytest.raises(InputError):
            active_lanes(text)
