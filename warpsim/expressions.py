"""Expressions over a scenario's parameters: `cdiv(cols, 32)`, `4*Ki`, `rows if tall else cols`.

Arithmetic ``+ - * / // % **``, comparisons, ``a if c else b``, ``and or not``, ``min max cdiv`` and the factors
``Ki Mi Gi``, also as a suffix (``1Mi``). The text is parsed into a tree and the tree is walked over a closed set
of nodes: nothing of it ever runs as Python. Integers stay exact; ``/`` gives an integer where it divides evenly;
``//`` and ``%`` round down. A comparison is 1 or 0.

`evaluate` gives one number, `evaluate_array` an array over named index arrays (``16*i``), in int64 or float64;
an integer that leaves int64 is an error, never a wrapped value. `names_in` lists the names that an expression reads.
"""

from __future__ import annotations

import ast
import difflib
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.errors import InputError

__all__ = [
    "FACTORS",
    "FUNCTIONS",
    "RESERVED",
    "cdiv",
    "evaluate",
    "evaluate_array",
    "evaluate_integer",
    "names_in",
    "near",
]

FACTORS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
FUNCTIONS = ("cdiv", "max", "min")
RESERVED = frozenset(FACTORS) | frozenset(FUNCTIONS) | {"if", "else", "and", "or", "not", "True", "False", "None"}

_LONGEST = 1000  # characters of an expression
_MOST_BITS = 256  # of an integer on the way
_SUFFIXED = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?)\s*(Ki|Mi|Gi)\b")

Number = int | float
_Value = Any  # a Python number, or an int64, float64 or bool array


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'rows'?)`, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def cdiv(a: Any, b: Any) -> Any:
    """The quotient rounded up: how many pieces of `b` cover `a`."""
    return -(-a // b)


def evaluate(expression: str | Number, names: Mapping[str, Number] | None = None) -> Number:
    """The number that *expression* gives with *names* bound; a number is its own value."""
    if isinstance(expression, bool) or not isinstance(expression, (str, int, float)):
        raise InputError(f"{expression!r} is neither a number nor an expression")
    if not isinstance(expression, str):
        return _finite(expression, str(expression))
    value = _Walker(expression, names or {}, bitwise=False).visit(_parse(expression))
    return _finite(int(value) if isinstance(value, bool) else value, expression)


def evaluate_integer(expression: str | Number, names: Mapping[str, Number] | None = None) -> int:
    """Like `evaluate`, for a place that takes whole numbers only."""
    value = evaluate(expression, names)
    if isinstance(value, float):
        if not value.is_integer():
            origin = (
                f"expression '{expression}' gives {value:g}, which" if isinstance(expression, str) else f"{value:g}"
            )
            raise InputError(f"{origin} is not a whole number")
        return int(value)
    return value


def evaluate_array(
    expression: str | Number,
    indices: Mapping[str, NDArray[Any]],
    names: Mapping[str, Number] | None = None,
    *,
    bitwise: bool = False,
) -> NDArray[Any]:
    """*expression* over the broadcast index arrays: int64 where it is whole everywhere by type, else float64.

    *bitwise* also allows ``& | ^ << >> ~``, for addresses of one warp; a scenario does not have them, since
    there ``2^20`` is more likely a power than an exclusive or.
    """
    shape = np.broadcast_shapes(*(np.shape(a) for a in indices.values())) if indices else ()
    arrays = {name: np.broadcast_to(np.asarray(a, np.int64), shape).ravel() for name, a in indices.items()}
    text = str(expression)
    value = _Walker(text, {**(names or {}), **arrays}, bitwise=bitwise).visit(_parse(text))
    if isinstance(value, np.ndarray):
        result = value.astype(np.int64) if value.dtype == bool else value
    else:
        number = _finite(int(value) if isinstance(value, bool) else value, text)
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise InputError(f"expression '{text}' gives {number}, past 64-bit integers")
        result = np.full(int(np.prod(shape)), number, np.float64 if isinstance(number, float) else np.int64)
    if result.dtype == np.float64 and not np.isfinite(result).all():
        raise InputError(f"expression '{text}' gives a value that is not finite")
    return result.reshape(shape)


def names_in(expression: str | Number) -> frozenset[str]:
    """The parameter names that *expression* reads."""
    if not isinstance(expression, str):
        return frozenset()
    return frozenset(n.id for n in ast.walk(_parse(expression)) if isinstance(n, ast.Name)) - RESERVED


def _finite(value: Number, text: str) -> Number:
    if isinstance(value, float) and not (value == value and abs(value) != float("inf")):
        raise InputError(f"expression '{text}' gives {value}, which is not a finite number")
    return value


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> ast.expr:
    if not text.strip():
        raise InputError("the expression is empty")
    if len(text) > _LONGEST:
        raise InputError(f"the expression is {len(text)} characters long (at most {_LONGEST})")
    try:
        return ast.parse(_SUFFIXED.sub(r"(\1*\2)", " ".join(text.split())), mode="eval").body
    except SyntaxError as error:
        raise InputError(f"cannot read expression '{_short(text)}': {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError(f"cannot read expression '{_short(text)}'") from None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."


_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_BITWISE: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Walker:
    """Walks the tree of one expression; names are numbers or flat arrays of one length."""

    def __init__(self, text: str, names: Mapping[str, _Value], *, bitwise: bool) -> None:
        self.text = text
        self.names = names
        self.bitwise = bitwise

    def fail(self, what: str) -> InputError:
        return InputError(f"expression '{_short(self.text)}': {what}")

    def refuse(self, node: ast.AST, hint: str = "") -> InputError:
        allowed = "+ - * / // % **, comparisons, a if c else b, and or not, min max cdiv, Ki Mi Gi"
        return self.fail(f"'{ast.unparse(node)}' is not allowed{hint}; allowed: {allowed}")

    def visit(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | complex() | str() | bytes() | None):
                raise self.refuse(node)
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.BinOp():
                return self.binary(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.apply("-", operator.sub, 0, self.visit(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.apply("+", operator.add, 0, self.visit(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand) if self.bitwise:
                return self.apply("-", operator.sub, -1, self.visit(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.visit(operand)
                return value == 0
            case ast.BoolOp(op=op, values=values):
                return self.connect(isinstance(op, ast.And), values)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self.compare(left, ops, comparators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choose(self.visit(test), body, orelse)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self.call(name, args)
            case ast.Call(func=ast.Name(id=name)) if name not in FUNCTIONS:
                raise self.fail(f"unknown function '{name}'{near(name, FUNCTIONS)}; known: {', '.join(FUNCTIONS)}")
        raise self.refuse(node)

    def name(self, name: str) -> _Value:
        if name in self.names:
            return self.names[name]
        if name in FACTORS:
            return FACTORS[name]
        known = [*self.names, *FACTORS]
        listed = ", ".join(sorted(self.names)) or "none"
        raise self.fail(f"unknown name '{name}'{near(name, known)}; known names: {listed}")

    def binary(self, node: ast.BinOp) -> _Value:
        kind = type(node.op)
        if kind in _BITWISE and not self.bitwise:
            raise self.refuse(node, " (a power is **)" if kind is ast.BitXor else "")
        left, right = self.visit(node.left), self.visit(node.right)
        if kind is ast.Div:
            return self.divide(left, right)
        if kind is ast.Pow:
            return self.power(left, right)
        if kind in _BITWISE:
            return self.bits(kind, left, right)
        if kind not in _BINARY:
            raise self.refuse(node)
        symbol, function = _BINARY[kind]
        if symbol in ("//", "%") and np.any(right == 0):
            raise self.fail("division by zero")
        return self.apply(symbol, function, left, right)

    def apply(self, symbol: str, function: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
        """One operation; on arrays of integers exact, or an error when a result leaves int64."""
        if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
            left, right = _plain(left), _plain(right)
            if isinstance(left, int) and isinstance(right, int) and symbol == "*":
                self.bound(left.bit_length() + right.bit_length())
            try:
                return function(left, right)
            except OverflowError:
                raise self.fail("a number past the range of floating point") from None
        left, right = _whole(left), _whole(right)
        if symbol == "/" or _floating(left) or _floating(right):
            with np.errstate(all="ignore"):
                return function(np.asarray(left, np.float64), np.asarray(right, np.float64))
        corners = [function(a, b) for a in _range(left) for b in _range(right)] if symbol in "+-*" else [0]
        if all(-(2**63) <= c < 2**63 for c in (*corners, *_range(left), *_range(right))):
            return function(left, right)
        return self.exact(function, left, right)

    def exact(self, function: Callable[[Any, Any], Any], left: _Value, right: _Value) -> NDArray[np.int64]:
        """The same in Python integers, where the ranges alone do not rule out an overflow."""
        result = function(np.asarray(left, object), np.asarray(right, object))
        if any(not -(2**63) <= int(v) < 2**63 for v in result):
            raise self.fail("an integer past 64 bits")
        return np.asarray(result.astype(np.int64))

    def divide(self, left: _Value, right: _Value) -> _Value:
        if np.any(right == 0):
            raise self.fail("division by zero")
        left, right = _whole(left), _whole(right)
        if not (_floating(left) or _floating(right)) and np.all(left % right == 0):
            return self.apply("//", operator.floordiv, left, right)
        return self.apply("/", operator.truediv, left, right)

    def power(self, base: _Value, exponent: _Value) -> _Value:
        whole = not (_floating(base) or _floating(exponent))
        bases, exponents = _range(_whole(base)), _range(_whole(exponent))
        if min(exponents) < 0 and np.any(base == 0):
            raise self.fail("division by zero")
        if min(bases) < 0 and not whole and np.any(np.mod(exponent, 1) != 0):
            raise self.fail("a fractional power of a negative number")
        if whole and min(exponents) >= 0:
            self.bound(max(int(abs(b)) for b in bases).bit_length() * max(exponents))
            if isinstance(base, np.ndarray) or isinstance(exponent, np.ndarray):
                if max(int(abs(b)) for b in bases) ** int(max(exponents)) < 2**63:
                    return np.power(_whole(base), _whole(exponent), dtype=np.int64)
                return self.exact(operator.pow, _whole(base), _whole(exponent))
            return _plain(base) ** _plain(exponent)
        return self.apply("**", operator.pow, *(v if isinstance(v, np.ndarray) else float(v) for v in (base, exponent)))

    def bits(self, kind: type[ast.operator], left: _Value, right: _Value) -> _Value:
        left, right = _whole(left), _whole(right)
        if _floating(left) or _floating(right):
            raise self.fail("a bit operation on a fraction")
        symbol, function = _BITWISE[kind]
        if symbol in ("<<", ">>"):
            if min(_range(right)) < 0 or max(_range(right)) > 63:
                raise self.fail("a shift outside 0 to 63")
            if symbol == "<<":
                return self.apply("*", operator.mul, left, self.power(2, right))
        return self.apply(symbol, function, left, right)

    def bound(self, bits: int | float) -> None:
        if bits > _MOST_BITS:
            raise self.fail(f"an integer of more than {_MOST_BITS} bits")

    def connect(self, conjunction: bool, values: list[ast.expr]) -> _Value:
        value = self.visit(values[0])
        for following in values[1:]:
            # `a and b` is b where a holds, `a or b` is b where it does not
            test = value != 0 if conjunction else value == 0
            value = self.choose(test, following, None, otherwise=value)
        return value

    def choose(self, test: _Value, body: ast.expr, orelse: ast.expr | None, otherwise: _Value = 0) -> _Value:
        """*body* where *test* holds; each side is evaluated only where it is chosen."""
        if not isinstance(test, np.ndarray):
            return self.visit(body) if test else otherwise if orelse is None else self.visit(orelse)
        mask = test != 0
        sides = []
        for where, branch in ((mask, body), (~mask, orelse)):
            if branch is None:
                value = otherwise[where] if isinstance(otherwise, np.ndarray) else otherwise
            elif where.any():
                part = {k: v[where] if isinstance(v, np.ndarray) else v for k, v in self.names.items()}
                value = _Walker(self.text, part, bitwise=self.bitwise).visit(branch)
            else:
                value = 0
            sides.append((where, _whole(value)))
        floating = any(_floating(v) for w, v in sides if w.any())
        result = np.empty(mask.shape, np.float64 if floating else np.int64)
        for where, value in sides:
            result[where] = value
        return result

    def compare(self, left: ast.expr, ops: list[ast.cmpop], comparators: list[ast.expr]) -> _Value:
        holds: _Value = True
        first = self.visit(left)
        for op, comparator in zip(ops, comparators, strict=True):
            if type(op) not in _COMPARE:
                raise self.fail("only == != < <= > >= compare")
            second = self.visit(comparator)
            result = _COMPARE[type(op)](first, second)
            holds = result if holds is True else np.logical_and(holds, result)
            first = second
        return holds if isinstance(holds, np.ndarray) else bool(holds)

    def call(self, name: str, args: list[ast.expr]) -> _Value:
        values = [self.visit(a) for a in args]
        if name == "cdiv":
            if len(values) != 2:
                raise self.fail(f"cdiv takes 2 arguments, {len(values)} given")
            if np.any(values[1] == 0):
                raise self.fail("division by zero")
            negative = self.apply("-", operator.sub, 0, values[0])
            return self.apply("-", operator.sub, 0, self.apply("//", operator.floordiv, negative, values[1]))
        if len(values) < 2:
            raise self.fail(f"{name} takes 2 arguments or more, {len(values)} given")
        if not any(isinstance(v, np.ndarray) for v in values):
            return min(values) if name == "min" else max(values)
        return functools.reduce(np.minimum if name == "min" else np.maximum, map(_whole, values))


def _plain(value: _Value) -> _Value:
    return int(value) if isinstance(value, bool) else value


def _whole(value: _Value) -> _Value:
    """Truth values as integers."""
    if isinstance(value, np.ndarray):
        return value.astype(np.int64) if value.dtype == bool else value
    return _plain(value)


def _floating(value: _Value) -> bool:
    return value.dtype == np.float64 if isinstance(value, np.ndarray) else isinstance(value, float)


def _range(value: _Value) -> tuple[Any, Any]:
    if isinstance(value, np.ndarray):
        return (value.min().item(), value.max().item()) if value.size else (0, 0)
    return value, value
