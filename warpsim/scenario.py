"""Scenario files: the strict TOML schema, and binding parameters to get a launch.

    scenario = load("transpose_tiled")              # a path, or the name of a shipped scenario
    scenario = parse(text, path)                    # TOML text; `path` is what errors name and files lie beside
    launch = scenario.bind({"rows": 8192})          # → `warpsim.launch.Launch`, all numbers settled and checked
    launch = scenario.bind(test=True)               # with `[test_params]`, the smaller sizes of the test suite
    launch = scenario.bind(addresses=[...])         # buffers at measured addresses instead of the default ones
    constants = launch.pack(program.parameters)     # parameter bytes of constant bank 0

`warpsim.authoring` makes scenarios from the words of a command line, and text to edit from a kernel.

Every error is one `InputError` line: file, key, what was given, what is allowed. Unknown keys are errors, so that a
later `schema` can add keys without changing what a file means.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsim.document import ArgTable, CompileTable, Document, FillTable, Number, StateTable, at, read_document
from warpsim.elements import Element, element, scalar
from warpsim.errors import InputError
from warpsim.expressions import evaluate, evaluate_array, evaluate_integer, names_in, near
from warpsim.fills import Fill, check_size, load_array
from warpsim.launch import BufferArg, Compile, Launch, State, ValueArg, place
from warpsim.library import find_kernel, find_scenario

__all__ = ["Scenario", "extent", "load", "make", "parse"]

_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_THREADS = 1024


@dataclass(frozen=True)
class Scenario:
    """A scenario as read: its document, and the kernel source it names."""

    name: str
    path: Path | None  # of the TOML file
    kernel: str  # file of the source, or "(inline)"
    source: str = field(repr=False)
    document: Document = field(repr=False)

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
        if self.path is not None:
            return str(self.path)
        return self.name if self.kernel == "(inline)" else self.kernel

    def bind(
        self,
        params: Mapping[str, int | float | str] | None = None,
        *,
        test: bool = False,
        addresses: Sequence[int] | Mapping[str, int] | None = None,
    ) -> Launch:
        """Settle every number with *params* over the file's own (and over `[test_params]` if *test*)."""
        document = self.document
        with at(self.where):
            names = self._names(params or {}, test)
            launch = document.launch
            grid = extent("launch.grid", launch.grid, names)
            block = extent("launch.block", launch.block, names, block=True)
            with at("launch.dynamic_shared"):
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
            with at(f"params.{name}"):
                names[name] = evaluate(value)
        return names

    def _argument(self, table: ArgTable, names: Mapping[str, int | float]) -> BufferArg | ValueArg:
        key = f"arg '{table.name}'"
        if table.value is not None:
            with at(f"{key}: value"):
                value = evaluate(table.value, names)
            return ValueArg(table.name, value, table.struct or "", scalar(table.type) if table.type else None)
        assert table.buffer is not None
        assert table.count is not None
        with at(f"{key}: buffer"):
            kind = element(table.buffer)
        with at(f"{key}: count"):
            count = _within(evaluate_integer(table.count, names), 1, 2**48)
        with at(f"{key}: offset"):
            offset = _within(evaluate_integer(table.offset or 0, names), 0, 2**48)
        with at(f"{key}: fill"):
            fill = self._fill(table.fill, kind, count, names)
        return BufferArg(table.name, kind, count, fill, table.alias_of, offset, struct=table.struct or "")

    def _fill(
        self, table: str | FillTable | None, kind: Element, count: int, names: Mapping[str, int | float]
    ) -> Fill | None:
        if table is None:
            return None
        if isinstance(table, str):
            return Fill("zeros")
        with at("seed"):
            seed = _within(evaluate_integer(table.seed or 0, names), 0, 2**63 - 1)
        if table.randint is not None:
            with at("randint"):
                high = _within(evaluate_integer(table.randint, names), 1, 2**63 - 1)
                kind.convert(evaluate_array(str(high - 1), {}).reshape(1))
            return Fill("randint", high=high, seed=seed)
        if table.permutation:
            with at("permutation"):
                kind.convert(evaluate_array(str(count * kind.lanes - 1), {}).reshape(1))
            return Fill("permutation", seed=seed)
        if table.expr is not None:
            with at("expr"):
                if "i" in names and "i" in names_in(table.expr):
                    raise InputError("'i' is the element's index here, and a parameter too: rename the parameter")
                _check_names(table.expr, names)
            return Fill("expr", expression=str(table.expr), names={n: names[n] for n in names_in(table.expr) - {"i"}})
        if table.values is not None:
            with at("values"):
                check_size(len(table.values), kind, count, "the list")
                fill = Fill("values", values=tuple(evaluate(v, names) for v in table.values))
                fill.make(kind, count)
                return fill
        assert table.file is not None
        with at("file"):
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


def extent(
    key: str, sizes: Sequence[Number], names: Mapping[str, int | float] | None = None, *, block: bool = False
) -> tuple[int, int, int]:
    """A grid or a block of 1 to 3 sizes, within CUDA's limits, as three."""
    if not 1 <= len(sizes) <= 3:
        raise InputError(f"{key}: {len(sizes)} numbers (1 to 3)")
    found = [1, 1, 1]
    for axis, size in enumerate(sizes):
        with at(f"{key}[{axis}]"):
            found[axis] = _within(evaluate_integer(size, names), 1, (_BLOCK_LIMITS if block else _GRID_LIMITS)[axis])
    threads = found[0] * found[1] * found[2]
    if block and threads > _THREADS:
        raise InputError(f"{key}: {'x'.join(map(str, found))} is {threads} threads (at most {_THREADS})")
    return found[0], found[1], found[2]


def _filled(key: str, text: str, names: Mapping[str, int | float]) -> str:
    """`{param}` in *text* replaced by its number."""

    def number(match: re.Match[str]) -> str:
        with at(key):
            return str(evaluate(match[1], names))

    return re.sub(r"\{([^{}]*)\}", number, text)


def _compile(table: CompileTable, names: Mapping[str, int | float]) -> Compile:
    define = {}
    for name, value in table.define.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        define[name] = _filled(f"compile.define.{name}", text, names)
    return Compile(table.std, tuple(table.options), define)


def _state(table: StateTable, names: Mapping[str, int | float]) -> State:
    clock = carveout = None
    if table.clock_mhz is not None:
        with at("state.clock_mhz"):
            clock = float(evaluate(table.clock_mhz, names))
            if not 1 <= clock <= 10_000:
                raise InputError(f"{clock:g} is out of range (1 to 10000 MHz)")
    if table.carveout_kb is not None:
        with at("state.carveout_kb"):
            carveout = _within(evaluate_integer(table.carveout_kb, names), 0, 1024)
    return State(table.caches, clock, carveout)


def _check_aliases(arguments: Sequence[BufferArg | ValueArg]) -> None:
    buffers = {a.name: a for a in arguments if isinstance(a, BufferArg)}
    for buffer in buffers.values():
        if buffer.alias_of is None:
            continue
        with at(f"arg '{buffer.name}': alias_of"):
            known = [n for n, b in buffers.items() if b.alias_of is None]
            if buffer.alias_of not in known:
                listed = ", ".join(known) or "none"
                raise InputError(f"no buffer '{buffer.alias_of}'{near(buffer.alias_of, known)}; buffers: {listed}")
            target = buffers[buffer.alias_of]
            if buffer.offset + buffer.bytes > target.bytes:
                reach = f"offset {buffer.offset} + {buffer.bytes} bytes reach past"
                raise InputError(f"{reach} the {target.bytes} bytes of '{target.name}'")


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
    with at(path or name):
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not valid TOML: {error}") from None
        return make(data, path, path.stem if path is not None else name)


def make(data: dict[str, Any], path: Path | None, name: str) -> Scenario:
    """The scenario of a document as a TOML reader gives it."""
    document = read_document(data)
    if document.source is not None:
        return Scenario(name, path, "(inline)", document.source, document)
    assert document.kernel is not None
    with at("kernel"):
        found = find_kernel(document.kernel, path)
        try:
            source = found.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read '{found}' as CUDA source text: {error}") from None
    return Scenario(name, path, str(found), source, document)
