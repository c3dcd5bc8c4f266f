"""Expressions: exact integers, closed grammar, errors that name the expression and what is known."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsim.errors import InputError
from warpsim.expressions import evaluate, evaluate_array, evaluate_integer, names_in

NAMES = {"rows": 4096, "cols": 100, "x": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rows", 4096),
        ("1 + 2*3 - 4", 3),
        ("-rows // 3", -1366),
        ("-7 % 4", 1),
        ("2**64 + 1", 2**64 + 1),
        ("2**-1", 0.5),
        ("rows/32", 128),
        ("rows/3", 4096 / 3),
        ("cdiv(cols, 32)", 4),
        ("cdiv(-5, 2)", -2),
        ("min(3, 1, 2)", 1),
        ("max(rows, cols)", 4096),
        ("4*Ki", 4096),
        ("1Mi", 1 << 20),
        ("2 Gi", 2 << 30),
        ("1.5Ki", 1536.0),
        ("0x10Ki + 1_000", 17384),
        ("rows if cols > 50 else 1", 4096),
        ("1 if rows < cols else 2 if cols == 100 else 3", 2),
        ("0 < cols <= 100", 1),
        ("0 < cols < 100", 0),
        ("not rows", 0),
        ("cols and 7", 7),
        ("0 or cols", 100),
        ("0 and 1/0", 0),
        ("1 if 1 else 1/0", 1),
        ("x*rows", 2048.0),
        ("rows\n  * 2", 8192),
    ],
)
def test_an_expression_has_its_value(text, value):
    result = evaluate(text, NAMES)
    assert result == value
    assert type(result) is type(value)


def test_a_number_is_its_own_value():
    assert evaluate(7) == 7
    assert evaluate(0.5) == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        ("   ", "the expression is empty"),
        ("1 +", "cannot read expression '1 +': invalid syntax"),
        ("row*4", "expression 'row*4': unknown name 'row' (did you mean 'rows'?); known names: cols, rows, x"),
        ("ceil(x)", "unknown function 'ceil'; known: cdiv, max, min"),
        ("cdvi(1, 2)", "did you mean 'cdiv'?"),
        ("cdiv(1)", "cdiv takes 2 arguments, 1 given"),
        ("min(1)", "min takes 2 arguments or more, 1 given"),
        ("rows/(cols-100)", "division by zero"),
        ("rows//0", "division by zero"),
        ("rows%0", "division by zero"),
        ("cdiv(1, 0)", "division by zero"),
        ("0**-1", "division by zero"),
        ("(-1.0)**0.5", "a fractional power of a negative number"),
        ("9**9**9", "an integer of more than 256 bits"),
        ("2**200 * 2**200", "an integer of more than 256 bits"),
        ("10.0**1000", "past the range of floating point"),
        ("1e308*10", "not a finite number"),
        ("2^20", "'2 ^ 20' is not allowed (a power is **)"),
        ("1 << 4", "is not allowed"),
        ("~1", "is not allowed"),
        ("rows.bit_length()", "is not allowed"),
        ("__import__('os')", "unknown function '__import__'"),
        ("[1][0]", "is not allowed"),
        ("(lambda: 1)()", "is not allowed"),
        ("'text'", "is not allowed"),
        ("True", "is not allowed"),
        ("1j", "is not allowed"),
        ("f'{rows}'", "is not allowed"),
        ("cdiv(a=1, b=2)", "is not allowed"),
        ("1 in 2", "only == != < <= > >= compare"),
        ("a := 1", "cannot read expression"),
        ("1; 2", "cannot read expression"),
        ("(" * 300 + "1" + ")" * 300, "cannot read expression"),
        ("1+" * 600 + "1", "1201 characters long (at most 1000)"),
    ],
)
def test_what_is_not_an_expression_is_refused_in_one_line(text, message):
    with pytest.raises(InputError) as error:
        evaluate(text, NAMES)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [True, None, [1]])
def test_only_numbers_and_text_are_evaluated(value):
    with pytest.raises(InputError, match="neither a number nor an expression"):
        evaluate(value)


def test_a_whole_number_may_come_from_a_float():
    assert evaluate_integer("x*4", NAMES) == 2
    with pytest.raises(InputError, match=r"expression 'rows/3' gives 1365\.33, which is not a whole number"):
        evaluate_integer("rows/3", NAMES)
    with pytest.raises(InputError, match=r"2\.5 is not a whole number"):
        evaluate_integer(2.5)


def test_names_in_leaves_out_what_is_built_in():
    assert names_in("cdiv(rows, 2)*Ki + i") == {"rows", "i"}
    assert names_in(3) == frozenset()


integers = st.integers(-(2**40), 2**40)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


@given(integers, integers, st.sampled_from(list(OPERATORS)))
def test_integer_arithmetic_is_exact(a, b, symbol):
    if symbol in ("//", "%") and b == 0:
        b = 1
    assert evaluate(f"a {symbol} b", {"a": a, "b": b}) == OPERATORS[symbol](a, b)


FORMULAS = [
    "16*i", "i % 7", "i // 3 - 5", "i*i", "i**3", "2**(i % 60)", "i/4", "i/4*2", "-i", "0 if i == 0 else 100//i",
    "i if i % 2 else 0.5", "(i < 3) + 1", "i and 7", "i or 9", "not i", "min(i, 3)", "max(i, 40, 2*i)", "cdiv(i, 3)",
    "2 < i <= 9", "i < 3 or 100//i", "i == 5 and i or k", "k", "(i % 3 == 0)*k", "i % 2.5", "i*2.0", "2.0**(i % 9)",
]  # fmt: skip


@given(st.sampled_from(FORMULAS), st.integers(0, 10_000), st.integers(-5, 5))
def test_an_array_holds_the_value_of_each_index(formula, low, k):
    index = np.arange(low, low + 40)
    result = evaluate_array(formula, {"i": index}, {"k": k})
    expected = [evaluate(formula, {"i": int(i), "k": k}) for i in index]
    assert result.shape == index.shape
    assert result.dtype in (np.int64, np.float64)
    assert result.tolist() == expected


def test_arrays_broadcast():
    lane, row = np.arange(32), np.arange(4)[:, None]
    result = evaluate_array("128*row + 4*lane", {"lane": lane, "row": row})
    assert (result == 128 * row + 4 * lane).all()


@pytest.mark.parametrize("text", ["i*2**61", "i**62", "i*2**63", "2**i*2**60", "i + 2**63 - 1", "(i*2**61)//4"])
def test_an_integer_past_64_bits_is_an_error_not_a_wrapped_value(text):
    with pytest.raises(InputError, match="64 bit"):
        evaluate_array(text, {"i": np.arange(8)})


def test_an_intermediate_that_only_seems_to_overflow_is_exact():
    # the ranges of both factors alone would allow 7 * 7 * 2**60
    assert evaluate_array("i * ((7 - i) * 2**58)", {"i": np.arange(8)}).tolist() == [
        i * (7 - i) * 2**58 for i in range(8)
    ]


def test_division_by_zero_at_any_index_is_an_error():
    with pytest.raises(InputError, match="division by zero"):
        evaluate_array("100 // i", {"i": np.arange(8)})


def test_bit_operations_are_for_addresses_only():
    lane = np.arange(32)
    swizzled = evaluate_array("4*(lane ^ (lane >> 3)) | 1 << 7", {"lane": lane}, bitwise=True)
    assert (swizzled == (4 * (lane ^ (lane >> 3)) | 1 << 7)).all()
    assert (evaluate_array("~lane & 7", {"lane": lane}, bitwise=True) == (~lane & 7)).all()
    with pytest.raises(InputError, match="not allowed"):
        evaluate_array("lane ^ 1", {"lane": lane})
    with pytest.raises(InputError, match="a shift outside 0 to 63"):
        evaluate_array("1 << 64", {"lane": lane}, bitwise=True)
