"""SASS: a cubin disassembled by nvdisasm and decoded into a `Program`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from warpsim import cache
from warpsim.errors import InputError, KernelError, UnsupportedError
from warpsim.frontend import nvrtc
from warpsim.frontend.cubin import ADDRESS64, DEFAULT_STACK, Cubin
from warpsim.frontend.lines import Row, line_table, user_rows
from warpsim.frontend.operands import parse_guard, parse_operands
from warpsim.frontend.program import Instruction, Parameter, Program

__all__ = ["decode", "disassemble", "disassembler", "load_program", "program_from_cubin", "ship"]

FORMAT = 4  # of a listing; a change invalidates cached ones
RESERVED_SHARED = 1024  # bytes that sm_90 and later keep at the start of a CTA's shared memory and count in its section
SHIPPED = Path(__file__).parent / "disassembly"

Listing = dict[str, Any]


def load_program(
    source: str,
    entry: str,
    arch: int,
    *,
    std: str = "c++17",
    options: Sequence[str] = (),
    define: Mapping[str, object] | None = None,
    filename: str = nvrtc.MAIN,
    shipped: bool = True,
) -> Program:
    """Compile and decode one kernel, from the cache where it is there.

    Where no compiler is installed the disassembly that ships with the package serves, if it has this source; not with
    `shipped=False` or WARPSIM_NO_SHIPPED set.
    """
    try:
        disassembler()
        compiled = nvrtc.compile_cubin(source, entry, arch, std=std, options=options, define=define, filename=filename)
    except UnsupportedError:
        if shipped and not os.environ.get("WARPSIM_NO_SHIPPED"):
            key = nvrtc.source_key(source, entry, arch, std, options, define, filename)
            for path in sorted(SHIPPED.glob(f"sm_{arch}/*-{key[:16]}.json")):
                return decode(json.loads(path.read_text()), entry, filename)
        raise
    return decode(disassemble(compiled.cubin, compiled.lowered, compiled.compiler), entry, filename)


def program_from_cubin(cubin: bytes, entry: str | None = None) -> Program:
    """Decode a kernel of a cubin from elsewhere (nvcc, Triton, Numba); without `entry` the only one in it."""
    parsed = Cubin(cubin)
    names = parsed.kernels()
    found = [n for n in names if entry in (None, n)]
    if not found and entry is not None:
        found = [n for n in names if re.match(rf"_Z(N.*)?L?(?<!\d){len(entry)}{re.escape(entry)}", n)]
    if len(found) != 1:
        wanted = "several kernels, name one" if entry is None else f"{entry!r} matches {len(found)} kernels"
        raise InputError(f"cubin: {wanted if names else 'no kernel'}; its kernels: {', '.join(names) or 'none'}")
    compiler = f"ptxas {parsed.compiler() or '(version not recorded)'}"
    return decode(disassemble(cubin, found[0], compiler), entry or found[0], "")


def ship(kernels: Iterable[Mapping[str, Any]], directory: Path | None = None) -> list[Path]:
    """Write the listings of kernels, each given by `load_program`'s arguments, for use without a compiler.

    A kernel that does not compile has none. Afterwards the directory holds these and no others.
    """
    directory = directory or SHIPPED
    written = []
    for arguments in kernels:
        given = {"std": "c++17", "options": (), "define": None, "filename": nvrtc.MAIN, **arguments}
        try:
            compiled = nvrtc.compile_cubin(**given)
        except KernelError:
            continue
        listing = disassemble(compiled.cubin, compiled.lowered, compiled.compiler)
        name = re.sub(r"\W+", "_", given["entry"]).strip("_")[:60]
        path = directory / f"sm_{given['arch']}" / f"{name}-{nvrtc.source_key(**given)[:16]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(listing))
        written.append(path)
    for path in set(directory.glob("sm_*/*.json")).difference(written):
        path.unlink()
    return written


def _text(listing: Listing) -> str:
    """A listing as JSON with a line for each field and for each instruction."""
    fields = {key: json.dumps(value) for key, value in sorted(listing.items())}
    fields["code"] = "[\n" + ",\n".join(json.dumps(text) for text in listing["code"]) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {value}" for key, value in fields.items()) + "\n}\n"


@lru_cache
def disassembler() -> tuple[str, str]:
    """Path and version of nvdisasm; UnsupportedError where there is none."""
    for name in ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu13"):
        if found := nvrtc.wheel(name):
            for path in sorted(found[1].glob("nvidia/*/bin/nvdisasm*")):
                return str(path), found[0]
    if path_found := shutil.which("nvdisasm"):
        text = subprocess.run([path_found, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"V(\d+\.\d+\.\d+)", text)
        return path_found, version[1] if version else "unknown"
    raise UnsupportedError(f"disassembling {nvrtc.MISSING} (no nvdisasm)")


def disassemble(cubin: bytes, entry: str, compiler: str = "") -> Listing:
    """The listing of one kernel: printed instructions, encodings, and what the cubin says about it. Cached."""
    tool, version = disassembler()
    binary = cache.digest(cubin)
    name = f"listing/{cache.digest(str(FORMAT), binary, entry, version, compiler)}"
    if known := cache.read(name):
        try:
            listing: Listing = json.loads(known)
            return listing
        except ValueError:
            pass
    document = _run(tool, cubin)
    parsed = Cubin(cubin)
    table = line_table(parsed)
    result: Listing = {}
    for kernel in parsed.kernels():
        listing = _listing(parsed, document, kernel, table)
        listing |= {"compiler": compiler, "disassembler": f"nvdisasm {version}"}
        own = f"listing/{cache.digest(str(FORMAT), binary, kernel, version, compiler)}"
        cache.write(own, json.dumps(listing).encode())
        if kernel == entry:
            result = listing
    if not result:
        raise InputError(f"cubin: no kernel {entry!r}; its kernels: {', '.join(parsed.kernels()) or 'none'}")
    return result


def decode(listing: Listing, name: str, filename: str) -> Program:
    """The program of a listing; `name` is the entry as C++ writes it, `filename` that of the source."""
    encodings = bytes.fromhex(listing["encodings"])
    functions: dict[str, int] = listing["functions"]
    places = {**functions, listing["entry"]: 0}
    lines = {index: (line, file) for index, line, file in listing["lines"]}
    line = (0, 0)
    instructions = []
    for index, text in enumerate(listing["code"]):
        line = lines.get(index, line)
        word = int.from_bytes(encodings[16 * index : 16 * index + 16], "little")
        instructions.append(_instruction(index, text, word, line, places))
    files = [filename if file == nvrtc.MAIN and filename else file for file in listing["files"]]
    data = bytes.fromhex(listing["globals"][0])
    return Program(
        arch=listing["arch"],
        entry=listing["entry"],
        name=name,
        instructions=tuple(instructions),
        parameters=tuple(Parameter(offset, size) for offset, size in listing["parameters"]),
        parameter_base=listing["parameter_base"],
        registers=listing["registers"],
        shared=listing["shared"],
        reserved_shared=listing["reserved_shared"],
        local=listing["local"],
        max_threads=listing["max_threads"],
        files=tuple(files),
        banks={int(bank): bytes.fromhex(content) for bank, content in listing["banks"].items()},
        globals_=data + bytes(listing["globals"][1] - len(data)),
        relocations=tuple((a, b) for a, b in listing["relocations"]),
        pointers=tuple((a, b, c) for a, b, c in listing["pointers"]),
        externals=tuple((a, b) for a, b in listing["externals"]),
        functions=functions,
        branch_targets={int(k): tuple(v) for k, v in listing["branch_targets"].items()},
        compiler=listing["compiler"],
        key=_key(listing),
    )


def _instruction(index: int, text: str, word: int, line: tuple[int, int], places: Mapping[str, int]) -> Instruction:
    guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, tail = rest.partition(" ")
    base, *suffixes = opcode.split(".")
    modifiers = tuple(suffixes)
    operands = parse_operands(base, modifiers, tail, word)
    if base in ("CALL", "RET"):
        operands = tuple(
            replace(o, kind="function", value=places.get(o.name, -1)) if o.kind == "unknown" else o for o in operands
        )
    control = word >> 105
    return Instruction(
        index=index,
        opcode=base,
        modifiers=modifiers,
        operands=operands,
        guard=parse_guard(guard),
        stall=control & 15,
        yield_=bool(control >> 4 & 1),
        write_barrier=control >> 5 & 7,
        read_barrier=control >> 8 & 7,
        wait_mask=control >> 11 & 63,
        line=line[0],
        file=line[1],
        text=text.replace(",", ", ").strip(),
        encoding=word,
    )


def _run(tool: str, cubin: bytes) -> list[Any]:
    """nvdisasm's JSON for a cubin: header and functions."""
    with tempfile.TemporaryDirectory(prefix="warpsim-") as place:
        path = Path(place, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-json", str(path)], capture_output=True, check=False)
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split())
        raise UnsupportedError(f"nvdisasm {disassembler()[1]} cannot read this cubin: {message}")
    document = json.loads(done.stdout)
    if not isinstance(document, list) or len(document) < 2:
        raise UnsupportedError(f"nvdisasm {disassembler()[1]} printed an unknown form of JSON")
    return document


def _listing(cubin: Cubin, document: list[Any], entry: str, table: tuple[list[str], dict[str, list[Row]]]) -> Listing:
    version = document[0]["SM"]["version"]
    arch = version["major"] * 10 + version["minor"]
    function = next(f for f in document[1] if f["function-name"] == entry)
    code = _code(function["sass-instructions"])
    functions = {name: offset // 16 for name, offset in cubin.functions(entry).items()}
    files, rows = table
    system = nvrtc.include_directories()
    lines = user_rows(rows.get(entry, ()), files, system)
    info = cubin.kernel_info(entry)
    reserved = RESERVED_SHARED if arch >= 90 else 0
    content, starts = cubin.globals_()
    banks = {
        "2": cubin.data(f".nv.constant2.{entry}"),
        "3": cubin.data(".nv.constant3"),
        "4": cubin.data(".nv.constant4"),
    }
    relocations, pointers, externals = [], [], []
    for bank, section in ((4, ".nv.constant4"), (3, ".nv.constant3"), (-1, ".nv.global.init")):
        for offset, kind, symbol, addend in cubin.relocations(section):
            target = starts.get(symbol.section, 0) + symbol.value + addend
            if kind in ADDRESS64 and symbol.section in starts and bank == 4:
                relocations.append((offset, target))
            elif kind in ADDRESS64 and symbol.section in starts:
                pointers.append((bank, offset, target))
            elif bank == 4:
                externals.append((offset, symbol.name))
    return {
        "format": FORMAT,
        "arch": arch,
        "entry": entry,
        "code": code,
        "encodings": cubin.data(f".text.{entry}")[: 16 * len(code)].hex(),
        "lines": [(pc // 16, line, file) for pc, line, file in lines if pc < 16 * len(code)],
        "files": [_file_name(file, system) for file in files],
        "parameters": info.parameters,
        "parameter_base": info.parameter_base,
        "registers": info.registers,
        "shared": max(0, cubin.size(f".nv.shared.{entry}") - reserved),
        "reserved_shared": reserved,
        "local": max(info.frame, DEFAULT_STACK) if _recursive(code, functions) else info.frame,
        "max_threads": info.max_threads,
        "banks": {bank: data.hex() for bank, data in banks.items() if data},
        "globals": (content.rstrip(b"\0").hex(), len(content)),
        "relocations": relocations,
        "pointers": pointers,
        "externals": externals,
        "functions": functions,
        "branch_targets": {pc // 16: [t // 16 for t in targets] for pc, targets in info.branch_targets.items()},
    }


def _file_name(path: str, system: Iterable[str]) -> str:
    """What lines call a source file: the main one plain, a CUDA header as it is included, others by path."""
    if os.path.basename(path) == nvrtc.MAIN:
        return nvrtc.MAIN
    inside = [os.path.relpath(path, place) for place in system if path.startswith(os.path.join(place, ""))]
    return min(inside, key=len) if inside else path


def _code(instructions: list[dict[str, Any]]) -> list[str]:
    """Printed instructions without the padding at the end."""
    code: list[str] = []
    for item in instructions:
        guard, operands = item.get("predicate", ""), item.get("operands", "")
        if guard and not guard.startswith("@"):  # P2R and R2P: PR is an operand
            first, _, others = operands.partition(",")
            operands = f"{guard},{operands}" if item["opcode"].startswith("R2P") else f"{first},{guard},{others}"
            guard = ""
        code.append(f"{guard} {item['opcode']} {operands}".strip())
    while code and code[-1] == "NOP":
        code.pop()
    return code


def _key(listing: Listing) -> str:
    """Hash of what a kernel does, not of where its source lies or which line code comes from."""
    other = ("lines", "files", "compiler", "disassembler")
    return cache.digest(json.dumps({k: v for k, v in listing.items() if k not in other}, sort_keys=True))


def _recursive(code: list[str], functions: Mapping[str, int]) -> bool:
    """Whether a device function can call itself: then the cubin does not know how deep the stack gets."""
    starts = sorted((start, name) for name, start in functions.items())
    calls: dict[str, set[str]] = {name: set() for name in functions}
    for number, (start, name) in enumerate(starts, 1):
        for text in code[start : starts[number][0] if number < len(starts) else None]:
            target = text.rpartition(" ")[2]
            if " CALL." in f" {text}" and target in functions:
                calls[name].add(target)
    for name in functions:
        reached: set[str] = set()
        pending = list(calls[name])
        while pending:
            target = pending.pop()
            if target not in reached:
                reached.add(target)
                pending += calls[target]
        if name in reached:
            return True
    return False
