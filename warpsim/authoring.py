"""Scenarios that nobody wrote as TOML yet: from the words of a command line, or as text to edit for a kernel.

scenario = scenario_from_words("k.cu", entry="copy<4>", grid="4096", block="256", args=["in=float:1Mi", "n=1Mi"])
text = init_text("k.cu")
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsim.document import Number, at
from warpsim.elements import element
from warpsim.errors import InputError
from warpsim.expressions import RESERVED, near
from warpsim.scenario import Scenario, make
from warpsim.signature import Signature, kernels

__all__ = ["init_text", "scenario_from_words"]


def scenario_from_words(
    kernel: str | Path,
    *,
    entry: str | None = None,
    grid: str | None = None,
    block: str | None = None,
    args: Sequence[str] = (),
    shared: int | str | None = None,
    defines: Sequence[str] = (),
) -> Scenario:
    """The scenario of `warpsim run KERNEL.cu --entry E --grid G --block B --arg A ...`.

    A grid is `4096`, `64,64` or `64x64`. An argument is `NAME=NUMBER`, or `NAME=TYPE:COUNT` for a buffer, with a
    fill behind a second colon: `zeros`, `permutation`, `randint(EXPR)`, `expr(EXPR)` or `file(PATH)`. The entry may
    be left out where the file has one kernel that is no template. Dynamic shared memory above 48 KB is opted in.
    """
    path = Path(kernel)
    source = _read(path)
    for word, value in (("--grid", grid), ("--block", block)):
        if value is None:
            raise InputError(f"{path}: {word} is missing; a CUDA source needs --entry, --grid, --block and --arg")
    if entry is None:
        found = kernels(source)
        if len(found) != 1 or found[0].templates:
            raise InputError(f"{path}: --entry is missing; the file has: {_listed(found)}")
        entry = found[0].name
    data: dict[str, Any] = {
        "schema": 1,
        "kernel": str(path.absolute()),
        "entry": entry,
        "launch": {
            "grid": _sizes(grid or ""),
            "block": _sizes(block or ""),
            "dynamic_shared": 0 if shared is None else shared,
            "opt_in_shared": True,
        },
        "compile": {"define": dict(_define(d) for d in defines)},
        "arg": [_argument(a) for a in args],
    }
    with at(kernel):
        return make(data, None, path.stem)


def init_text(
    kernel: str | Path,
    *,
    entry: str | None = None,
    grid: str | None = None,
    block: str | None = None,
    args: Sequence[str] = (),
    shared: int | str | None = None,
    defines: Sequence[str] = (),
) -> str:
    """A scenario to edit for *entry* of the source file *kernel*, or for its first kernel.

    What else is given takes the place of the guesses: one argument for each parameter, in order.
    """
    path = Path(kernel)
    found = kernels(_read(path))
    if not found:
        raise InputError(f"{path}: there is no __global__ function in it")
    chosen = found[0]
    if entry is not None:
        plain = entry.partition("<")[0].split("::")[-1].strip()
        fitting = [s for s in found if s.name == plain]
        if not fitting:
            raise InputError(
                f"{path}: no kernel '{entry}'{near(plain, [s.name for s in found])}; the file has: {_listed(found)}"
            )
        chosen = fitting[0]
    given = [_argument(a) for a in args]
    if given and len(given) != len(chosen.parameters):
        raise InputError(
            f"{path}: kernel '{chosen.name}' has {len(chosen.parameters)} parameters, {len(given)} --arg given"
        )
    draft = _Draft(path, chosen, given)
    others = [s.name for s in found if s is not chosen]
    tables = [
        *([f"# The file also has: {', '.join(others)}"] if others else []),
        "schema = 1",
        f"description = {_quoted(chosen.name)}",
        f"kernel = {_quoted(path.name)}                  # beside this file",
        f"entry = {_quoted(draft.entry(entry))}          # as C++ writes it; {{param}} is filled in",
        'gpu = "h200"',
        "",
        "[params]                         # for the expressions below; --set n=4096 overrides",
        *draft.params,
        "",
        "[test_params]                    # smaller sizes for a quick run",
        "n = 4096",
        "",
    ]
    if defines:
        tables += ["[compile.define]", *(f"{name} = {_quoted(value)}" for name, value in map(_define, defines)), ""]
    tables += [
        "[launch]                         # 1 to 3 integers or expressions",
        f"grid = {_list(_sizes(grid or 'cdiv(n, 256)'))}",
        f"block = {_list(_sizes(block or '256'))}",
        f"dynamic_shared = {_quoted(shared) if shared is not None else 0}               # bytes",
        "",
        "# One [[arg]] per kernel parameter, in order. A buffer without fill is opaque and costs no memory;",
        '# contents that decide addresses need one: fill = "zeros", { randint = "n" }, { expr = "16*i" }.',
        *draft.arguments,
    ]
    return "\n".join(tables) + "\n"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no kernel file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the file: {error}") from None


def _listed(found: Sequence[Signature]) -> str:
    return ", ".join(s.name + ("<...>" if s.templates else "") for s in found) or "no __global__ function"


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)  # a JSON string is a TOML basic string


def _list(sizes: Sequence[Number]) -> str:
    return f"[{', '.join(str(s) if str(s).isdigit() else _quoted(s) for s in sizes)}]"


def _sizes(text: str) -> list[Number]:
    """Split `64,64` and `64x64`, at commas outside brackets only."""
    return [part.strip() for part in re.split(r",(?![^(]*\))|(?<=\d)(?<!\b0)x(?=\d)", text)]


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name.strip(), value if equals else "1"


def _argument(text: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InputError(f"--arg {text}: write NAME=NUMBER or NAME=TYPE:COUNT[:FILL]")
    kind, *rest = (part.strip() for part in value.split(":", 2))
    if not rest:
        return {"name": name.strip(), "value": kind}
    argument: dict[str, Any] = {"name": name.strip(), "buffer": kind, "count": rest[0]}
    if len(rest) == 2:
        call = re.fullmatch(r"(\w+)(?:\((.*)\))?", rest[1])
        if call is None:
            raise InputError(f"--arg {text}: cannot read the fill '{rest[1]}'")
        if call[2] is not None:
            argument["fill"] = {call[1]: str(Path(call[2]).absolute()) if call[1] == "file" else call[2]}
        else:
            argument["fill"] = {"permutation": True} if call[1] == "permutation" else call[1]
    return argument


class _Draft:
    """The guesses of `init_text`: parameters, template arguments and `[[arg]]` tables."""

    def __init__(self, path: Path, signature: Signature, given: Sequence[dict[str, Any]]) -> None:
        self.path = path
        self.signature = signature
        self.params = ["n = 1048576"]
        self.taken = {"n"}
        self.bound: dict[str, str] = {}
        for template in signature.templates:
            if template.kind == "typename":
                self.bound[template.name] = template.default or "float"
            else:
                self.bound[template.name] = self.number(template.name, template.default or "32")
        self.arguments = [
            self.table(given[i] if given else self.guess(i, kind, name))
            for i, (kind, name) in enumerate(signature.parameters)
        ]

    def entry(self, given: str | None) -> str:
        if given is not None and ("<" in given or not self.bound):
            return given
        return (given or self.signature.name) + (f"<{', '.join(self.bound.values())}>" if self.bound else "")

    def number(self, name: str, default: str) -> str:
        """A template parameter that is a number: a scenario parameter where it can be one."""
        if not default.isdigit() or name in RESERVED:
            return default
        if name not in self.taken:
            self.taken.add(name)
            self.params.append(f"{name} = {default}")
        return f"{{{name}}}"

    def guess(self, position: int, kind: str, given: str) -> dict[str, Any]:
        name = given or f"arg{position}"
        stem = self.bound.get(kind.rstrip("*"), kind.rstrip("*"))
        if kind.endswith("*"):
            try:
                return {"name": name, "buffer": element(stem).name, "count": "n"}
            except InputError:
                return {"name": name, "buffer": "char", "count": "n", "comment": f"{kind}: count is in bytes"}
        try:
            known = element(stem)
        except InputError:
            known = element("int")
        if known.lanes > 1:
            raise InputError(
                f"{self.path}: parameter '{name}' is '{kind}': write the scenario by hand, an [[arg]] a member"
            )
        param = name if name not in RESERVED and name != "i" else f"{name}_"
        if param not in self.taken:
            self.taken.add(param)
            number = "1.0" if known.kind in ("float", "bfloat16") else "1" if known.kind == "bool" else "1024"
            self.params.append(f"{param} = {number}")
        return {"name": name, "value": param}

    def table(self, argument: dict[str, Any]) -> str:
        comment = f"   # {argument.pop('comment')}" if "comment" in argument else ""
        lines = ["[[arg]]"]
        for key, value in argument.items():
            if isinstance(value, dict):
                inner = ", ".join(f"{k} = {'true' if v is True else _quoted(v)}" for k, v in value.items())
                lines.append(f"{key} = {{ {inner} }}")
            else:
                lines.append(f"{key} = {_quoted(value)}{comment if key == 'buffer' else ''}")
        return "\n".join(lines)
