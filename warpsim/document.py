"""The document of a scenario file: its tables and keys, and every check that needs no parameter.

`read_document` takes what a TOML reader gives and returns a typed, frozen `Document`, or raises one `InputError`
line with the key, what was given and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from warpsim.elements import element, scalar
from warpsim.errors import InputError
from warpsim.expressions import RESERVED, evaluate, near

__all__ = ["ArgTable", "CompileTable", "Document", "FillTable", "Number", "StateTable", "at", "read_document"]

Number = int | float | str


class LaunchTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The `[launch]` table."""

    grid: list[Number]
    block: list[Number]
    dynamic_shared: Number = 0
    opt_in_shared: bool = False


class FillTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A `fill` that is a table."""

    randint: Number | None = None
    permutation: bool | None = None
    expr: Number | None = None
    values: list[Number] | None = None
    file: str | None = None
    seed: Number | None = None


class ArgTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One `[[arg]]`."""

    name: str
    buffer: str | None = None
    count: Number | None = None
    fill: str | FillTable | None = None
    alias_of: str | None = None
    offset: Number | None = None
    value: Number | None = None
    struct: str | None = None
    type: str | None = None


class CompileTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The `[compile]` table."""

    std: str | None = None
    options: list[str] = []
    define: dict[str, Any] = {}  # numbers, text or true and false


class StateTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The `[state]` table."""

    caches: Literal["cold", "flushed", "warm"] = "cold"
    clock_mhz: Number | None = None
    carveout_kb: Number | None = None


class Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole scenario file."""

    schema: int
    entry: str
    launch: LaunchTable
    description: str = ""
    kernel: str | None = None
    source: str | None = None
    gpu: str = "h200"
    params: dict[str, Any] = {}  # numbers: `_check_params` names the key, which msgspec does not
    test_params: dict[str, Any] = {}
    compile: CompileTable = CompileTable()
    state: StateTable = StateTable()
    arg: list[ArgTable] = []


_FILLS = ("randint", "permutation", "expr", "values", "file")


@contextmanager
def at(*where: object) -> Iterator[None]:
    """Put file and key in front of the message of an `InputError` from within."""
    try:
        yield
    except InputError as error:
        raise InputError(": ".join([*(str(w) for w in where), str(error)])) from None


def read_document(data: dict[str, Any]) -> Document:
    """The checked document of a scenario file as a TOML reader gives it."""
    schema = data.get("schema")
    if schema is None:
        raise InputError("schema: the key is missing; this version reads schema = 1")
    if isinstance(schema, bool) or schema != 1:
        raise InputError(f"schema: {schema!r} is not known; this version reads schema = 1")
    _check_keys(data)
    try:
        document = msgspec.convert(data, Document)
    except msgspec.ValidationError as error:
        raise InputError(_reworded(str(error), data)) from None
    if (document.kernel is None) == (document.source is None):
        raise InputError("kernel: give either kernel = \"FILE.cu\" or source = '''...''', not both and not neither")
    if not document.entry.strip():
        raise InputError("entry: the name of the kernel is empty")
    if document.source is not None and "__global__" not in document.source:
        raise InputError("source: there is no __global__ function in it")
    _check_params(document)
    for key, sizes in (("grid", document.launch.grid), ("block", document.launch.block)):
        if not 1 <= len(sizes) <= 3:
            raise InputError(f"launch.{key}: {len(sizes)} numbers (1 to 3)")
    for name, value in document.compile.define.items():
        if not name.isidentifier() or not name.isascii():
            raise InputError(f"compile.define: '{name}' is not a macro name")
        if not isinstance(value, (bool, int, float, str)):
            raise InputError(f"compile.define.{name}: {_kind(value)} given, a number, text or true or false wanted")
    _check_arguments(document.arg)
    return document


def _check_params(document: Document) -> None:
    for name, value in document.params.items():
        if not name.isidentifier():
            raise InputError(f"params: '{name}' is not a name (letters, digits, _)")
        if name in RESERVED:
            raise InputError(f"params: '{name}' has a meaning in expressions; give the parameter another name")
        _check_number(f"params.{name}", value)
    for name, value in document.test_params.items():
        if name not in document.params:
            listed = ", ".join(document.params) or "none"
            raise InputError(f"test_params: no parameter '{name}'{near(name, document.params)}; [params] has: {listed}")
        _check_number(f"test_params.{name}", value)


def _check_number(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{key}: {_kind(value)} given, a number wanted")
    with at(key):
        evaluate(value)


def _kind(value: Any) -> str:
    """What TOML calls the type of *value*."""
    names = {bool: "true or false", str: "text", list: "a list", dict: "a table", int: "an integer", float: "a number"}
    return names.get(type(value), "a date or time")


def _check_arguments(arguments: Sequence[ArgTable]) -> None:
    seen: set[str] = set()
    for position, argument in enumerate(arguments):
        if not argument.name.strip():
            raise InputError(f"arg[{position}].name: the name is empty")
        if argument.name in seen:
            raise InputError(f"arg '{argument.name}': the name is used twice")
        seen.add(argument.name)
        with at(f"arg '{argument.name}'"):
            _check_argument(argument)
            before = arguments[position - 1].struct if position else None
            if argument.struct not in (None, before) and argument.struct in [a.struct for a in arguments[:position]]:
                raise InputError(
                    f"struct: other arguments stand between this member of '{argument.struct}' and those before"
                )


def _check_argument(argument: ArgTable) -> None:
    if (argument.value is None) == (argument.buffer is None):
        raise InputError('give either buffer = "TYPE" with count, or value = NUMBER')
    if argument.value is not None:
        for key in ("count", "fill", "alias_of", "offset"):
            if getattr(argument, key) is not None:
                raise InputError(f"{key}: only a buffer has it, and this argument has a value")
        if (argument.struct is None) != (argument.type is None):
            raise InputError("type: a value that is a member of a struct has it, and no other; its name is CUDA's: int")
        if argument.type is not None:
            with at("type"):
                scalar(argument.type)
        return
    if argument.type is not None:
        raise InputError("type: only a value has it, and this argument is a buffer")
    with at("buffer"):
        element(argument.buffer or "")
    if argument.count is None:
        raise InputError("count: the key is missing; a buffer needs its number of elements")
    if argument.fill is not None and argument.alias_of is not None:
        raise InputError(f"fill: the contents are those of '{argument.alias_of}', fill that buffer instead")
    if isinstance(argument.fill, str) and argument.fill != "zeros":
        raise InputError(f'fill: "{argument.fill}" is not known; "zeros" or a table with one of {", ".join(_FILLS)}')
    if isinstance(argument.fill, FillTable):
        given = [k for k in _FILLS if getattr(argument.fill, k) is not None]
        if len(given) != 1:
            raise InputError(f"fill: {' and '.join(given) or 'nothing'} given; exactly one of {', '.join(_FILLS)}")
        if argument.fill.permutation is False:
            raise InputError("fill: permutation = false has no meaning; leave the fill out for an opaque buffer")
        if argument.fill.seed is not None and given[0] not in ("randint", "permutation"):
            raise InputError(f"fill: seed: only randint and permutation take a seed, not {given[0]}")


def _check_keys(data: Mapping[str, Any]) -> None:
    """Every unknown key, before types are looked at: the likeliest slip is a misspelt one."""
    _known(data, Document, "")
    for key, table in (("launch", LaunchTable), ("compile", CompileTable), ("state", StateTable)):
        if isinstance(data.get(key), dict):
            _known(data[key], table, f"{key}.")
    arguments = data.get("arg", [])
    if isinstance(arguments, dict):
        raise InputError("arg: one table, but a list is wanted: write [[arg]], not [arg]")
    for position, argument in enumerate(arguments if isinstance(arguments, list) else []):
        if isinstance(argument, dict):
            where = f"arg '{argument['name']}': " if isinstance(argument.get("name"), str) else f"arg[{position}]."
            _known(argument, ArgTable, where)
            if isinstance(argument.get("fill"), dict):
                _known(argument["fill"], FillTable, f"{where}fill.")


def _known(data: Mapping[str, Any], table: type[msgspec.Struct], where: str) -> None:
    allowed = table.__struct_fields__
    for key in data:
        if key not in allowed:
            raise InputError(f"{where}{key}: unknown key{near(key, allowed)}; allowed: {', '.join(sorted(allowed))}")


_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
_WORDS |= {"null": "nothing", "datetime": "a date", "date": "a date", "time": "a time"}


def _reworded(message: str, data: Mapping[str, Any]) -> str:
    """A validation message in the words of TOML, with the key in front."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").removeprefix(".")
    if match := re.match(r"arg\[(\d+)\]\.?(.*)", path):
        argument = data["arg"][int(match[1])]
        name = argument.get("name") if isinstance(argument, dict) else None
        path = f"arg '{name}': {match[2]}" if isinstance(name, str) else path
    path = path.removesuffix(": ")
    if missing := re.match(r"Object missing required field `(\w+)`", text):
        separator = "" if not path else ": " if path.endswith("'") else "."
        return f"{path}{separator}{missing[1]}: the key is missing"
    if wrong := re.match(r"Expected `(.*)`, got `(.*)`", text):
        kinds = {k for k in wrong[1].split(" | ") if k != "null"}
        if kinds >= {"int", "float"}:
            wanted = "a number or an expression" if "str" in kinds else "a number"
            kinds -= {"int", "float", "str"}
        else:
            wanted = ""
        listed = " or ".join([*([wanted] if wanted else []), *(_WORDS.get(k, k) for k in sorted(kinds))])
        text = f"{_WORDS.get(wrong[2], wrong[2])} given, {listed} wanted"
    elif enum := re.match(r"Invalid enum value (.*)", text):
        choices = ", ".join(StateTable.__annotations__["caches"].removeprefix("Literal[").removesuffix("]").split(", "))
        text = f"{enum[1]} is not known; one of {choices}".replace("'", '"')
    return f"{path}: {text}" if path else text
