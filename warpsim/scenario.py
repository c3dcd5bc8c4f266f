"""Scenario files: the strict TOML schema, and binding parameters to get a launch.

    scenario = load("transpose_tiled")              # a path, or the name of a shipped scenario
    scenario = parse(text, path)                    # TOML text; `path` is what errors name and files lie beside
    scenario = scenario_from_words("k.cu", "copy<4>", "4096", "256", ["in=float:1Mi", "n=1048576"])
    launch = scenario.bind({"rows": 8192})          # → `warpsim.launch.Launch`, all numbers settled and checked
    launch = scenario.bind(test=True)               # with `[test_params]`, the smaller sizes of the test suite
    launch = scenario.bind(addresses=[...])         # buffers at measured addresses instead of the default ones
    constants = launch.pack(program.parameters)     # parameter bytes of constant bank 0
    text = init_text(Path("k.cu"))                  # a scenario to edit, for a kernel of that file

Every error is one `InputError` line: file, key, what was given, what is allowed. Unknown keys are errors, so that a
later `schema` can add keys without changing what a file means.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from warpsim.elements import Element, element
from warpsim.errors import InputError
from warpsim.expressions import RESERVED, evaluate, evaluate_array, evaluate_integer, names_in, near
from warpsim.launch import BufferArg, Compile, Fill, Launch, State, ValueArg, check_size, load_array, place
from warpsim.library import find_kernel, find_scenario
from warpsim.signature import Signature, kernels

__all__ = ["Scenario", "init_text", "load", "parse", "parse_settings", "scenario_from_words"]

Number = int | float | str
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_THREADS = 1024


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pass


class _LaunchTable(_Table):
    grid: list[Number]
    block: list[Number]
    dynamic_shared: Number = 0
    opt_in_shared: bool = False


class _FillTable(_Table):
    randint: Number | None = None
    permutation: bool | None = None
    expr: Number | None = None
    values: list[Number] | None = None
    file: str | None = None
    seed: Number | None = None


class _ArgTable(_Table):
    name: str
    buffer: str | None = None
    count: Number | None = None
    fill: str | _FillTable | None = None
    alias_of: str | None = None
    offset: Number | None = None
    value: Number | None = None


class _CompileTable(_Table):
    std: str | None = None
    options: list[str] = []
    define: dict[str, int | float | str | bool] = {}


class _StateTable(_Table):
    caches: Literal["cold", "flushed", "warm"] = "cold"
    clock_mhz: Number | None = None
    carveout_kb: Number | None = None


class _Document(_Table):
    schema: int
    entry: str
    launch: _LaunchTable
    description: str = ""
    kernel: str | None = None
    source: str | None = None
    gpu: str = "h200"
    params: dict[str, int | float] = {}
    test_params: dict[str, int | float] = {}
    compile: _CompileTable = _CompileTable()
    state: _StateTable = _StateTable()
    arg: list[_ArgTable] = []


_FILLS = ("randint", "permutation", "expr", "values", "file")


@contextmanager
def _at(*where: object) -> Iterator[None]:
    """Put file and key in front of the message of an `InputError` from within."""
    try:
        yield
    except InputError as error:
        raise InputError(": ".join([*(str(w) for w in where), str(error)])) from None


@dataclass(frozen=True)
class Scenario:
    """A scenario as read: its document, and the kernel source it names."""

    name: str
    path: Path | None  # of the TOML file
    kernel: str  # file of the source, or "(inline)"
    source: str = field(repr=False)
    document: _Document = field(repr=False)

    @property
    def description(self) -> str:
        """What the scenario shows."""
        return self.document.description

    @property
    def entry(self) -> str:
        """The kernel as the file writes it, `{param}` not filled in."""
        return self.document.entry

    @property
    def gpu(self) -> str:
        """The GPU that the file asks for."""
        return self.document.gpu

    @property
    def params(self) -> dict[str, int | float]:
        """The parameters and their defaults."""
        return dict(self.document.params)

    @property
    def test_params(self) -> dict[str, int | float]:
        """Smaller parameters with which the test suite runs the scenario."""
        return dict(self.document.test_params)

    @property
    def where(self) -> str:
        """What errors call this scenario."""
        return str(self.path) if self.path is not None else self.name

    def bind(
        self,
        params: Mapping[str, int | float | str] | None = None,
        *,
        test: bool = False,
        addresses: Sequence[int] | Mapping[str, int] | None = None,
    ) -> Launch:
        """Settle every number with *params* over the file's own (and over `[test_params]` if *test*)."""
        document = self.document
        with _at(self.where):
            names = self._names(params or {}, test)
            launch = document.launch
            grid = _extent("launch.grid", launch.grid, names, _GRID_LIMITS)
            block = _extent("launch.block", launch.block, names, _BLOCK_LIMITS)
            threads = block[0] * block[1] * block[2]
            if threads > _THREADS:
                raise InputError(f"launch.block: {'x'.join(map(str, block))} is {threads} threads (at most {_THREADS})")
            with _at("launch.dynamic_shared"):
                dynamic_shared = _within(evaluate_integer(launch.dynamic_shared, names), 0, 2**31 - 1)
            arguments = [self._argument(table, names) for table in document.arg]
            _check_aliases(arguments)
            return Launch(
                name=self.name,
                entry=_filled("entry", document.entry, names),
                source=self.source,
                kernel=self.kernel,
                gpu=document.gpu,
                grid=grid,
                block=block,
                dynamic_shared=dynamic_shared,
                opt_in_shared=launch.opt_in_shared,
                arguments=place(arguments, addresses),
                params=names,
                compile=_compile(document.compile, names),
                state=_state(document.state, names),
            )

    def _names(self, params: Mapping[str, int | float | str], test: bool) -> dict[str, int | float]:
        names = self.params
        if test:
            names |= self.document.test_params
        for name, value in params.items():
            if name not in names:
                listed = ", ".join(names) or "none"
                raise InputError(f"params: no parameter '{name}'{near(name, names)}; this scenario has: {listed}")
            with _at(f"params.{name}"):
                names[name] = evaluate(value)
        return names

    def _argument(self, table: _ArgTable, names: Mapping[str, int | float]) -> BufferArg | ValueArg:
        key = f"arg '{table.name}'"
        if table.value is not None:
            with _at(f"{key}: value"):
                return ValueArg(table.name, evaluate(table.value, names))
        assert table.buffer is not None and table.count is not None
        with _at(f"{key}: buffer"):
            kind = element(table.buffer)
        with _at(f"{key}: count"):
            count = _within(evaluate_integer(table.count, names), 1, 2**48)
        with _at(f"{key}: offset"):
            offset = _within(evaluate_integer(table.offset or 0, names), 0, 2**48)
        with _at(f"{key}: fill"):
            fill = self._fill(table.fill, kind, count, names)
        return BufferArg(table.name, kind, count, fill, table.alias_of, offset)

    def _fill(
        self, table: str | _FillTable | None, kind: Element, count: int, names: Mapping[str, int | float]
    ) -> Fill | None:
        if table is None:
            return None
        if isinstance(table, str):
            return Fill("zeros")
        with _at("seed"):
            seed = _within(evaluate_integer(table.seed or 0, names), 0, 2**63 - 1)
        if table.randint is not None:
            with _at("randint"):
                high = _within(evaluate_integer(table.randint, names), 1, 2**63 - 1)
                kind.convert(evaluate_array(str(high - 1), {}).reshape(1))
            return Fill("randint", high=high, seed=seed)
        if table.permutation:
            with _at("permutation"):
                kind.convert(evaluate_array(str(count * kind.lanes - 1), {}).reshape(1))
            return Fill("permutation", seed=seed)
        if table.expr is not None:
            with _at("expr"):
                if "i" in names and "i" in names_in(table.expr):
                    raise InputError("'i' is the element's index here, and a parameter too: rename the parameter")
                _check_names(table.expr, names)
            return Fill("expr", expression=str(table.expr), names={n: names[n] for n in names_in(table.expr) - {"i"}})
        if table.values is not None:
            with _at("values"):
                check_size(len(table.values), kind, count, "the list")
                fill = Fill("values", values=tuple(evaluate(v, names) for v in table.values))
                fill.make(kind, count)
                return fill
        assert table.file is not None
        with _at("file"):
            path = Path(table.file).expanduser()
            if self.path is not None:
                path = self.path.parent / path
            check_size(_numbers(load_array(path), kind), kind, count, f"'{path}'")
            return Fill("file", path=path)


def _numbers(contents: Any, kind: Element) -> int:
    """How many components of *kind* an array from a file gives."""
    return int(contents.size) * (2 if contents.dtype.kind == "c" else 1)


def _check_names(expression: Number, names: Mapping[str, int | float]) -> None:
    """A dry run over one index finds unknown names and wrong syntax before anything is simulated."""
    known = {**names, "i": 0}
    for name in names_in(expression):
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InputError(
                f"expression '{expression}': unknown name '{name}'{near(name, known)}; known names: {listed}"
            )


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InputError(f"{value} is out of range ({low} to {high})")
    return value


def _extent(
    key: str, sizes: Sequence[Number], names: Mapping[str, int | float], limits: tuple[int, int, int]
) -> tuple[int, int, int]:
    found = [1, 1, 1]
    for axis, size in enumerate(sizes):
        with _at(f"{key}[{axis}]"):
            found[axis] = _within(evaluate_integer(size, names), 1, limits[axis])
    return found[0], found[1], found[2]


def _filled(key: str, text: str, names: Mapping[str, int | float]) -> str:
    """`{param}` in *text* replaced by its number."""

    def number(match: re.Match[str]) -> str:
        with _at(key):
            return str(evaluate(match[1], names))

    return re.sub(r"\{([^{}]*)\}", number, text)


def _compile(table: _CompileTable, names: Mapping[str, int | float]) -> Compile:
    define = {}
    for name, value in table.define.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        define[name] = _filled(f"compile.define.{name}", text, names)
    return Compile(table.std, tuple(table.options), define)


def _state(table: _StateTable, names: Mapping[str, int | float]) -> State:
    clock = carveout = None
    if table.clock_mhz is not None:
        with _at("state.clock_mhz"):
            clock = float(evaluate(table.clock_mhz, names))
            if not 1 <= clock <= 10_000:
                raise InputError(f"{clock:g} is out of range (1 to 10000 MHz)")
    if table.carveout_kb is not None:
        with _at("state.carveout_kb"):
            carveout = _within(evaluate_integer(table.carveout_kb, names), 0, 1024)
    return State(table.caches, clock, carveout)


def _check_aliases(arguments: Sequence[BufferArg | ValueArg]) -> None:
    buffers = {a.name: a for a in arguments if isinstance(a, BufferArg)}
    for buffer in buffers.values():
        if buffer.alias_of is None:
            continue
        with _at(f"arg '{buffer.name}': alias_of"):
            known = [n for n, b in buffers.items() if b.alias_of is None]
            if buffer.alias_of not in known:
                listed = ", ".join(known) or "none"
                raise InputError(f"no buffer '{buffer.alias_of}'{near(buffer.alias_of, known)}; buffers: {listed}")
            target = buffers[buffer.alias_of]
            if buffer.offset + buffer.bytes > target.bytes:
                raise InputError(
                    f"offset {buffer.offset} + {buffer.bytes} bytes reach past the {target.bytes} bytes of '{target.name}'"
                )


# --- reading -------------------------------------------------------------------------------------------------------


def load(path: str | Path) -> Scenario:
    """The scenario in the file *path*, or the shipped one of that name."""
    found = find_scenario(path)
    try:
        text = found.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{found}: cannot read the file: {error}") from None
    return parse(text, found)


def parse(text: str, path: Path | None = None, name: str = "scenario") -> Scenario:
    """The scenario that TOML *text* describes; files it names lie beside *path*."""
    with _at(path or name):
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not valid TOML: {error}") from None
        return _scenario(data, path, path.stem if path is not None else name)


def _scenario(data: dict[str, Any], path: Path | None, name: str) -> Scenario:
    document = _document(data)
    if document.source is not None:
        return Scenario(name, path, "(inline)", document.source, document)
    assert document.kernel is not None
    with _at("kernel"):
        found = find_kernel(document.kernel, path)
        try:
            source = found.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read '{found}' as CUDA source text: {error}") from None
    return Scenario(name, path, str(found), source, document)


def _document(data: dict[str, Any]) -> _Document:
    schema = data.get("schema")
    if schema is None:
        raise InputError("schema: the key is missing; this version reads schema = 1")
    if isinstance(schema, bool) or schema != 1:
        raise InputError(f"schema: {schema!r} is not known; this version reads schema = 1")
    _check_keys(data)
    try:
        document = msgspec.convert(data, _Document)
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
    for name in document.compile.define:
        if not name.isidentifier() or not name.isascii():
            raise InputError(f"compile.define: '{name}' is not a macro name")
    _check_arguments(document.arg)
    return document


def _check_params(document: _Document) -> None:
    for name, value in document.params.items():
        if not name.isidentifier():
            raise InputError(f"params: '{name}' is not a name (letters, digits, _)")
        if name in RESERVED:
            raise InputError(f"params: '{name}' has a meaning in expressions; give the parameter another name")
        with _at(f"params.{name}"):
            evaluate(value)
    for name, value in document.test_params.items():
        if name not in document.params:
            listed = ", ".join(document.params) or "none"
            raise InputError(f"test_params: no parameter '{name}'{near(name, document.params)}; [params] has: {listed}")
        with _at(f"test_params.{name}"):
            evaluate(value)


def _check_arguments(arguments: Sequence[_ArgTable]) -> None:
    seen: set[str] = set()
    for position, argument in enumerate(arguments):
        if not argument.name.strip():
            raise InputError(f"arg[{position}].name: the name is empty")
        if argument.name in seen:
            raise InputError(f"arg '{argument.name}': the name is used twice")
        seen.add(argument.name)
        with _at(f"arg '{argument.name}'"):
            _check_argument(argument)


def _check_argument(argument: _ArgTable) -> None:
    if (argument.value is None) == (argument.buffer is None):
        raise InputError('give either buffer = "TYPE" with count, or value = NUMBER')
    if argument.value is not None:
        for key in ("count", "fill", "alias_of", "offset"):
            if getattr(argument, key) is not None:
                raise InputError(f"{key}: only a buffer has it, and this argument has a value")
        return
    with _at("buffer"):
        element(argument.buffer or "")
    if argument.count is None:
        raise InputError("count: the key is missing; a buffer needs its number of elements")
    if argument.fill is not None and argument.alias_of is not None:
        raise InputError(f"fill: the contents are those of '{argument.alias_of}', fill that buffer instead")
    if isinstance(argument.fill, str) and argument.fill != "zeros":
        raise InputError(f'fill: "{argument.fill}" is not known; "zeros" or a table with one of {", ".join(_FILLS)}')
    if isinstance(argument.fill, _FillTable):
        given = [k for k in _FILLS if getattr(argument.fill, k) is not None]
        if len(given) != 1:
            raise InputError(f"fill: {' and '.join(given) or 'nothing'} given; exactly one of {', '.join(_FILLS)}")
        if argument.fill.permutation is False:
            raise InputError("fill: permutation = false has no meaning; leave the fill out for an opaque buffer")
        if argument.fill.seed is not None and given[0] not in ("randint", "permutation"):
            raise InputError(f"fill: seed: only randint and permutation take a seed, not {given[0]}")


def _check_keys(data: Mapping[str, Any]) -> None:
    """Every unknown key, before types are looked at: the likeliest slip is a misspelt one."""
    _known(data, _Document, "")
    for key, table in (("launch", _LaunchTable), ("compile", _CompileTable), ("state", _StateTable)):
        if isinstance(data.get(key), dict):
            _known(data[key], table, f"{key}.")
    arguments = data.get("arg", [])
    if isinstance(arguments, dict):
        raise InputError("arg: one table, but a list is wanted: write [[arg]], not [arg]")
    for position, argument in enumerate(arguments if isinstance(arguments, list) else []):
        if isinstance(argument, dict):
            where = f"arg '{argument['name']}': " if isinstance(argument.get("name"), str) else f"arg[{position}]."
            _known(argument, _ArgTable, where)
            if isinstance(argument.get("fill"), dict):
                _known(argument["fill"], _FillTable, f"{where}fill.")


def _known(data: Mapping[str, Any], table: type[_Table], where: str) -> None:
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
        choices = ", ".join(
            _StateTable.__annotations__["caches"].removeprefix("Literal[").removesuffix("]").split(", ")
        )
        text = f"{enum[1]} is not known; one of {choices}".replace("'", '"')
    return f"{path}: {text}" if path else text


# --- from words and to text ----------------------------------------------------------------------------------------


def parse_settings(settings: Sequence[str]) -> dict[str, int | float]:
    """`["rows=8192", "tile=4*Ki"]` of `--set` as numbers."""
    found: dict[str, int | float] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {setting}: write NAME=NUMBER")
        with _at(f"--set {name.strip()}"):
            found[name.strip()] = evaluate(value)
    return found


def scenario_from_words(
    kernel: str | Path,
    entry: str,
    grid: str,
    block: str,
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    dynamic_shared: int | str = 0,
    opt_in_shared: bool = False,
) -> Scenario:
    """The scenario that the words of `warpsim run KERNEL.cu --entry E --grid G --block B --arg A ...` describe.

    A grid is `4096`, `64,64` or `64x64`. An argument is `NAME=NUMBER`, or `NAME=TYPE:COUNT` for a buffer, with a
    fill behind a second colon: `zeros`, `permutation`, `randint(EXPR)`, `expr(EXPR)` or `file(PATH)`.
    """
    path = Path(kernel)
    data: dict[str, Any] = {
        "schema": 1,
        "kernel": str(path.absolute()),
        "entry": entry,
        "gpu": gpu,
        "launch": {
            "grid": _sizes(grid),
            "block": _sizes(block),
            "dynamic_shared": dynamic_shared,
            "opt_in_shared": opt_in_shared,
        },
        "arg": [_argument_words(a) for a in arguments],
    }
    if not path.is_file():
        raise InputError(f"no kernel file '{kernel}'")
    with _at(kernel):
        return _scenario(data, None, path.stem)


def _sizes(text: str) -> list[Number]:
    return [part.strip() for part in re.split(r"[,]|(?<=\d)x(?=\d)", text)]


def _argument_words(text: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InputError(f"--arg {text}: write NAME=NUMBER or NAME=TYPE:COUNT[:FILL]")
    kind, *rest = (part.strip() for part in re.split(r"(?<!:):(?!:)", value, maxsplit=2))
    if not rest:
        return {"name": name.strip(), "value": kind}
    argument: dict[str, Any] = {"name": name.strip(), "buffer": kind, "count": rest[0]}
    if len(rest) == 2:
        call = re.fullmatch(r"(\w+)(?:\((.*)\))?", rest[1])
        if call is None:
            raise InputError(f"--arg {text}: cannot read fill '{rest[1]}'")
        if call[2] is not None:
            argument["fill"] = {call[1]: call[2]}
        else:
            argument["fill"] = {"permutation": True} if call[1] == "permutation" else call[1]
    return argument


def init_text(kernel: str | Path, entry: str | None = None) -> str:
    """A scenario to edit for *entry* of the source file *kernel*, or for its first kernel."""
    path = Path(kernel)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the file: {error}") from None
    found = kernels(source)
    if not found:
        raise InputError(f"{path}: there is no __global__ function in it")
    chosen = found[0]
    if entry is not None:
        plain = entry.partition("<")[0].split("::")[-1].strip()
        fitting = [s for s in found if s.name == plain]
        if not fitting:
            names = [s.name for s in found]
            raise InputError(f"{path}: no kernel '{entry}'{near(plain, names)}; it has: {', '.join(names)}")
        chosen = fitting[0]
    return _init(path, chosen, entry, [s.name for s in found if s is not chosen])


def _init(path: Path, signature: Signature, entry: str | None, others: Sequence[str]) -> str:
    params = ["n = 1048576                    # elements; --set n=4096 overrides"]
    arguments = []
    template_arguments = []
    bound: dict[str, str] = {}
    for template in signature.templates:
        if template.kind == "typename":
            bound[template.name] = template.default or "float"
            template_arguments.append(bound[template.name])
        else:
            params.append(f"{template.name} = {template.default if template.default.isdigit() else 32}")
            template_arguments.append(f"{{{template.name}}}")
    if entry is None or ("<" not in entry and template_arguments):
        entry = (entry or signature.name) + (f"<{', '.join(template_arguments)}>" if template_arguments else "")
    taken = {template.name for template in signature.templates} | {"n"}
    for position, (kind, given) in enumerate(signature.parameters):
        name = given or f"arg{position}"
        stem = bound.get(kind.rstrip("*"), kind.rstrip("*"))
        lines = ["[[arg]]", f'name = "{name}"']
        if kind.endswith("*"):
            lines += [_init_buffer(stem, kind), 'count = "n"']
        else:
            lines.append(f'value = "{_init_value(name, stem, kind, taken, params, path)}"')
        arguments.append("\n".join(lines))
    also = [f"# This file also has: {', '.join(others)}"] if others else []
    return "\n".join(
        [
            *also,
            "schema = 1",
            f'description = "{signature.name}"',
            f'kernel = "{path.name}"                # beside this file',
            f'entry = "{entry}"',
            'gpu = "h200"',
            "",
            "[params]",
            *params,
            "",
            "[test_params]                  # smaller sizes for a quick run",
            "n = 4096",
            "",
            "[launch]",
            'grid = ["cdiv(n, 256)"]        # CTAs: 1 to 3 integers or expressions',
            "block = [256]                  # threads: 1 to 3",
            "dynamic_shared = 0             # bytes",
            "",
            "# One [[arg]] per kernel parameter, in order. A buffer without fill is opaque and costs no memory; contents that",
            '# decide addresses need one: fill = "zeros", { randint = "n", seed = 0 }, { permutation = true }, { expr = "16*i" }',
            *arguments,
            "",
        ]
    )


def _init_buffer(stem: str, kind: str) -> str:
    try:
        return f'buffer = "{element(stem).name}"'
    except InputError:
        return f'buffer = "char"                 # {kind}: its size is not known here, count is in bytes'


def _init_value(name: str, stem: str, kind: str, taken: set[str], params: list[str], path: Path) -> str:
    try:
        known = element(stem)
    except InputError:
        known = element("int")
    if known.lanes > 1:
        raise InputError(f"{path}: parameter '{name}' is '{kind}': struct arguments are not supported")
    if not name.isidentifier() or name in RESERVED or name == "i":
        name = f"{name}_"
    if name not in taken:
        taken.add(name)
        number = "1.0" if known.kind in ("float", "bfloat16") else "1" if known.kind == "bool" else "1024"
        params.append(f"{name} = {number}")
    return name
