"""Kernels of a CUDA source text and the types of their parameters.

The type of a kernel's value parameter is the kernel's, so it is read from the declaration: macros of the file are
expanded (kernels are often made by one), `typedef` and `using` are followed, template parameters get the arguments
of the entry (`axpy<float>`). Includes are not read and `#if` is not decided. Where the PTX of the kernel is at hand
(`.nv_debug_ptx_txt` of a cubin compiled with -lineinfo), `ptx_types` is exact about floating point and size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Signature", "Template", "kernels", "parameter_types", "ptx_types", "split_arguments"]


@dataclass(frozen=True, slots=True)
class Template:
    """A template parameter: *kind* is `typename`, or the type of a value such as `int`."""

    kind: str
    name: str
    default: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A `__global__` function: its name, template parameters and (type, name) of each parameter."""

    name: str
    templates: tuple[Template, ...]
    parameters: tuple[tuple[str, str], ...]
    line: int


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(\(([^)\n]*)\))?[ \t]*(.*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUALIFIERS = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|class|enum|typename|static|inline|extern|std::|cuda::std::)(?=\W|$|\w)"
)


def kernels(source: str) -> tuple[Signature, ...]:
    """The kernels that *source* defines or declares, in order, each once."""
    return _kernels(_expand(source))


def _kernels(text: str) -> tuple[Signature, ...]:
    found: dict[tuple[str, int], Signature] = {}
    for match in re.finditer(r"\b__global__\b", text):
        signature = _signature(text, match.start(), match.end())
        if signature is not None:
            found.setdefault((signature.name, len(signature.parameters)), signature)
    return tuple(found.values())


def parameter_types(
    source: str, entry: str, count: int | None = None, define: Mapping[str, str] | None = None
) -> tuple[str, ...] | None:
    """The parameter types of *entry* (as a scenario writes it, or mangled), or None where the text does not say.

    *count* picks among overloads, *define* are macros given to the compiler. Pointers and references end in `*`.
    """
    name, arguments = _entry(entry)
    text = _expand(source, define)
    fitting = [s for s in _kernels(text) if s.name == name and count in (None, len(s.parameters))]
    if len(fitting) != 1 or (fitting[0].templates and arguments is None):
        return None
    signature = fitting[0]
    names = {**_aliases(text), **_bindings(signature.templates, arguments or [])}
    return tuple(_resolve(t, names) for t, _ in signature.parameters)


def ptx_types(ptx: str, entry: str) -> tuple[str, ...] | None:
    """The parameter types of *entry* (its mangled name) by its PTX, as `u32`, `f64`, `b8[12]`; None if not there."""
    match = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx.replace("\0", "\n"), re.DOTALL)
    if match is None:
        return None
    found = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s[^\[,]*?\w(\[\d+\])?\s*(?:,|$)", match[1].strip())
    return tuple(kind + size for kind, size in found)


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside brackets; empty text has no arguments."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if parts or last else []


def _blank(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] in "\"'":
        return '""' if "__global__" in text else text
    return "\n" * text.count("\n") or " "


def _closing(text: str, start: int, pair: str = "()") -> int:
    """Position after the bracket that closes the one at *start*, or -1."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == pair[0]:
            depth += 1
        elif text[position] == pair[1]:
            depth -= 1
            if depth == 0:
                return position + 1
    return -1


def _expand(source: str, define: Mapping[str, str] | None = None) -> str:
    """The text without comments and directives, with its macros and those of *define* expanded."""
    text = _COMMENT.sub(_blank, source)
    given = {name: (None, value) for name, value in (define or {}).items()}
    macros: dict[str, tuple[list[str] | None, str]] = {**given}
    lines: list[str] = []
    pending, joined = "", 0
    for line in text.split("\n"):
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            joined += 1
            continue
        whole = pending + line
        if found := _DEFINE.match(whole):
            parameters = split_arguments(found[3]) if found[2] is not None else None
            if found[1] not in given:  # the file's own is a default, under #ifndef
                macros[found[1]] = (parameters, found[4].strip())
            whole = ""
        elif whole.lstrip().startswith("#"):
            whole = ""
        lines.append(whole + "\n" * joined)
        pending, joined = "", 0
    return _substitute("\n".join([*lines, pending]), macros, 0)


def _substitute(text: str, macros: dict[str, tuple[list[str] | None, str]], depth: int) -> str:
    if depth > 8 or not macros:
        return text
    out: list[str] = []
    position = 0
    for match in _WORD.finditer(text):
        if match.start() < position or match[0] not in macros:
            continue
        parameters, body = macros[match[0]]
        end = match.end()
        if parameters is not None:
            opening = re.compile(r"\s*\(").match(text, end)
            closing = _closing(text, opening.end() - 1) if opening else -1
            if opening is None or closing < 0:
                continue
            given = split_arguments(text[opening.end() : closing - 1])
            if parameters and parameters[-1] == "...":
                head = len(parameters) - 1
                given = [*given[:head], ", ".join(given[head:])]
                parameters = [*parameters[:head], "__VA_ARGS__"]
            values = dict(zip(parameters, given, strict=False))
            body = _WORD.sub(lambda m, v=values: v.get(m[0], m[0]), body)  # type: ignore[misc]
            body = re.sub(r"\s*##\s*", "", body)
            end = closing
        inner = {k: v for k, v in macros.items() if k != match[0]}
        out += [text[position : match.start()], _substitute(body, inner, depth + 1)]
        position = end
    return "".join([*out, text[position:]])


def _signature(text: str, before: int, after: int) -> Signature | None:
    position = after
    name = ""
    while True:
        match = re.compile(r"\s*(::|\w+|\[\[.*?\]\])\s*").match(text, position)
        if match is None:
            break
        name = match[1]
        position = match.end()
        if name in (
            "__launch_bounds__",
            "__cluster_dims__",
            "__maxnreg__",
            "__attribute__",
            "alignas",
            "__block_size__",
        ):
            position = _closing(text, position)
            if position < 0:
                return None
    if not name or position >= len(text) or text[position] != "(":
        return None
    end = _closing(text, position)
    if end < 0:
        return None
    parameters = []
    for parameter in split_arguments(text[position + 1 : end - 1]):
        split = _parameter(parameter)
        if split[0] != "void" or split[1]:
            parameters.append(split)
    return Signature(name, _templates(text, before), tuple(parameters), text.count("\n", 0, before) + 1)


def _parameter(text: str) -> tuple[str, str]:
    """`const float* __restrict__ in = 0` → (`float*`, `in`)."""
    text = re.sub(r"=.*", "", text, flags=re.DOTALL).strip()
    array = re.search(r"(\[[^\]]*\]\s*)+$", text)
    if array:
        text = text[: array.start()]
    text = " ".join(_QUALIFIERS.sub(" ", text).split())
    match = re.match(r"^(.*?[\s*&>])(\w+)$", text)
    kind, name = (match[1], match[2]) if match else (text, "")
    if name in _TYPE_WORDS:  # an unnamed parameter
        kind, name = text, ""
    kind = re.sub(r"\s*([*&])\s*", r"\1", kind.strip()).replace("&", "*")
    return kind + ("*" if array else ""), name


_TYPE_WORDS = {"int", "char", "short", "long", "unsigned", "signed", "float", "double", "bool"}


def _templates(text: str, before: int) -> tuple[Template, ...]:
    """The `template<...>` in front of a kernel; only specifiers may lie between."""
    head = text[:before]
    match = re.search(r"\btemplate\s*<((?:[^;{}])*)>\s*(?:static\s+|inline\s+|extern\s*\"C\"\s*)*$", head)
    if match is None:
        return ()
    inner = match[0]
    start = inner.rindex("template") if inner.count("template") > 1 else 0
    inner = inner[inner.index("<", start) + 1 : inner.rindex(">")]
    found = []
    for parameter in split_arguments(inner):
        left, _, default = parameter.partition("=")
        words = left.split()
        if words:
            kind = " ".join(words[:-1]) or words[0]
            found.append(Template("typename" if kind in ("typename", "class") else kind, words[-1], default.strip()))
    return tuple(found)


def _entry(entry: str) -> tuple[str, list[str] | None]:
    """Plain name and template arguments of an entry such as `ns::axpy<float, 4>` or `_ZN2ns4axpyIfLi4EEEvPT_`.

    The arguments are None where a mangled name has some that are not simple.
    """
    mangled = re.match(r"_Z(N?)(.*)", entry)
    if mangled and "<" not in entry:
        rest, name = mangled[2], ""
        while length := re.match(r"\d+", rest):
            size = int(length[0])
            name, rest = rest[length.end() : length.end() + size], rest[length.end() + size :]
            if not mangled[1]:
                break
        return name, _mangled_arguments(rest[1:]) if rest.startswith("I") else []
    name, _, arguments = entry.strip().partition("<")
    return name.split("::")[-1].strip(), split_arguments(arguments.rstrip().removesuffix(">"))


_CODES = {"a": "signed char", "b": "bool", "c": "char", "d": "double", "f": "float", "h": "unsigned char", "i": "int"}
_CODES |= {"j": "unsigned int", "l": "long", "m": "unsigned long", "s": "short", "t": "unsigned short"}
_CODES |= {"x": "long long", "y": "unsigned long long"}


def _mangled_arguments(text: str) -> list[str] | None:
    """Template arguments up to the closing `E`: builtin types, named types and numbers."""
    found = []
    while not text.startswith("E"):
        if number := re.match(r"L[a-z](n?)(\d+)E", text):
            found.append("-" * len(number[1]) + number[2])
            text = text[number.end() :]
        elif named := re.match(r"\d+", text):
            end = named.end() + int(named[0])
            found.append(text[named.end() : end])
            text = text[end:]
        elif text[:1] in _CODES:
            found.append(_CODES[text[0]])
            text = text[1:]
        else:
            return None
    return found


def _bindings(templates: tuple[Template, ...], arguments: list[str]) -> dict[str, str]:
    bound: dict[str, str] = {}
    for position, template in enumerate(templates):
        value = arguments[position] if position < len(arguments) else template.default
        if value:
            bound[template.name] = value
    return bound


def _aliases(text: str) -> dict[str, str]:
    """Names that the file gives to types, with what they stand for."""
    found = {m[2]: m[1] for m in re.finditer(r"\btypedef\s+([\w\s:]+?[\s*]+)(\w+)\s*;", text)}
    found |= {m[1]: m[2] for m in re.finditer(r"\busing\s+(\w+)\s*=\s*([^;]+);", text)}
    return found


def _resolve(kind: str, names: dict[str, str]) -> str:
    for _ in range(8):
        stem = kind.rstrip("*")
        if stem not in names:
            break
        target = " ".join(_QUALIFIERS.sub(" ", names[stem]).split())
        kind = re.sub(r"\s*\*\s*", "*", target) + kind[len(stem) :]
    return kind
