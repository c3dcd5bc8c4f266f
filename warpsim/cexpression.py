"""Integer expressions in C syntax over the name `lane`, evaluated for the 32 lanes of a warp.

Literals (decimal, 0x, 0b, octal, with C's u and l suffixes), ( ), unary + - ~ !, * / %, + -, << >>, < <= > >=,
== !=, &, ^, |, &&, || and ? :, with C's precedence and meaning: division truncates, the
remainder has the dividend's sign, comparisons give 0 or 1. Values are 64-bit signed; what does not fit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from warpsim.errors import InputError

__all__ = ["evaluate"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*(?![0-9A-Za-z_.])"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|~!()?:]))"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_DEPTH = 40  # nested parentheses and choices
_LENGTH = 300  # tokens

Value = Callable[[int], int]


def evaluate(text: str) -> list[int]:
    """The value of the expression for lanes 0 to 31.

    >>> evaluate("lane % 4 * 8")[:6]
    [0, 8, 16, 24, 0, 8]
    """
    value = _Parser(text).parse()
    return [value(lane) for lane in range(32)]


class _Parser:
    """Recursive descent; each rule returns a function of the lane."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.depth = 0
        end = 0
        while text[end:].strip():
            match = _TOKEN.match(text, end)
            if match is None:
                where = end + len(text[end:]) - len(text[end:].lstrip())
                raise self.error(f"cannot read {text[where : where + 10]!r}", where)
            self.tokens.append((match[0].strip(), match.end() - len(match[0].lstrip())))
            end = match.end()
        self.next = 0
        if len(self.tokens) > _LENGTH:
            raise self.error(f"longer than {_LENGTH} tokens", self.tokens[_LENGTH][1])

    def error(self, what: str, where: int | None = None) -> InputError:
        if where is None:
            where = self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)
        text = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return InputError(f"expression {text!r}, column {where + 1}: {what}")

    def parse(self) -> Value:
        value = self.choice()
        if self.next < len(self.tokens):
            raise self.error(f"unexpected {self.peek()!r}")
        return value

    def peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def take(self, *signs: str) -> str:
        """The next token if it is one of these, else an empty string."""
        token = self.peek()
        if token not in signs:
            return ""
        self.next += 1
        return token

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.error(f"expected {sign!r}" + (f", found {self.peek()!r}" if self.peek() else ""))

    def choice(self) -> Value:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error("nested too deeply")
        test = self.binary(0)
        if self.take("?"):
            yes = self.choice()
            self.expect(":")
            no = self.choice()
            self.depth -= 1
            return lambda lane: yes(lane) if test(lane) else no(lane)
        self.depth -= 1
        return test

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while sign := self.take(*_LEVELS[level]):
            place = self.tokens[self.next - 1][1]
            left = self.operation(sign, left, self.binary(level + 1), place)
        return left

    def unary(self) -> Value:
        signs = []
        while sign := self.take("-", "+", "~", "!"):
            signs.append(sign)
        value = self.primary()
        for sign in reversed(signs):
            value = _unary(sign, value)
        return value

    def primary(self) -> Value:
        if self.take("("):
            value = self.choice()
            self.expect(")")
            return value
        token = self.peek()
        if token == "lane":
            self.next += 1
            return lambda lane: lane
        if token[:1].isdigit():
            number = self.number(token.rstrip("uUlL"))
            self.next += 1
            return lambda lane: number
        if token[:1].isalpha() or token[:1] == "_":
            raise self.error(f"unknown name {token!r}, only lane is known")
        raise self.error(f"expected a value, found {token!r}" if token else "expected a value, found the end")

    def number(self, token: str) -> int:
        octal = len(token) > 1 and token[0] == "0" and token[1].isdigit()
        try:
            number = int(token, 8 if octal else 0)
        except ValueError:
            raise self.error(f"{token!r} is not an octal number") from None
        if number >= 1 << 63:
            raise self.error(f"{token} does not fit 64 bits")
        return number

    def operation(self, sign: str, left: Value, right: Value, place: int) -> Value:
        if sign == "&&":
            return lambda lane: int(left(lane) != 0 and right(lane) != 0)
        if sign == "||":
            return lambda lane: int(left(lane) != 0 or right(lane) != 0)

        def value(lane: int) -> int:
            a, b = left(lane), right(lane)
            if sign in ("/", "%") and b == 0:
                raise self.error(f"division by zero in lane {lane}", place)
            if sign in ("<<", ">>") and not 0 <= b < 64:
                raise self.error(f"shift by {b} in lane {lane}", place)
            result = _binary(sign, a, b)
            if not -(1 << 63) <= result < 1 << 63:
                raise self.error(f"{a} {sign} {b} does not fit 64 bits in lane {lane}", place)
            return result

        return value


def _unary(sign: str, value: Value) -> Value:
    if sign == "-":
        return lambda lane: -value(lane)
    if sign == "~":
        return lambda lane: ~value(lane)
    if sign == "!":
        return lambda lane: int(value(lane) == 0)
    return value


def _binary(sign: str, a: int, b: int) -> int:
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "%":
            return abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "<<":
            return a << b
        case ">>":
            return a >> b
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "==":
            return int(a == b)
        case "!=":
            return int(a != b)
        case "<":
            return int(a < b)
        case "<=":
            return int(a <= b)
        case ">":
            return int(a > b)
        case _:
            return int(a >= b)
