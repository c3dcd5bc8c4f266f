"""Source lines of instructions: the DWARF line table of a cubin, with NVIDIA's record of inlining."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from warpsim.frontend.cubin import Cubin

__all__ = ["Row", "line_table", "user_rows"]

# NVIDIA's extended opcode: number, within its sequence, of the row that made the call (0 none), then the callee's name
INLINED = 0x90
SYSTEM = re.compile(r"/(cuda|nvidia)[^/]*/(.*/)?include/")


@dataclass(frozen=True, slots=True)
class Row:
    """From byte `pc` of a code section on, code belongs to `line` of `file`; `caller` is the row it is inlined at."""

    pc: int
    line: int
    file: int
    caller: Row | None


def line_table(cubin: Cubin) -> tuple[list[str], dict[str, list[Row]]]:
    """Source files, and the rows of each kernel by pc; both empty where the cubin has no line table."""
    data = cubin.data(".debug_line")
    owners = {offset: symbol.name for offset, _, symbol, _ in cubin.relocations(".debug_line")}
    files: list[str] = []
    rows: dict[str, list[Row]] = {}
    start = 0
    while start + 10 <= len(data):
        length, version, header = struct.unpack_from("<IHI", data, start)
        if version in (2, 3, 4):
            _unit(data, start, start + 4 + length, start + 10 + header, version, owners, files, rows)
        start += 4 + length
    return files, rows


def user_rows(rows: Iterable[Row], files: list[str], system: Iterable[str]) -> list[tuple[int, int, int]]:
    """(pc, line, file) of each row, moved out of the CUDA headers to the line of the user's code that called them."""
    places = tuple(os.path.join(place, "") for place in system)
    hidden = [file.startswith(places) if places else False for file in files]
    hidden = [known or bool(SYSTEM.search(file)) for known, file in zip(hidden, files, strict=True)]
    result: list[tuple[int, int, int]] = []
    for row in rows:
        shown: Row | None = row
        while shown and hidden[shown.file]:
            shown = shown.caller
        shown = shown or row
        entry = (row.pc, shown.line, shown.file)
        if result and result[-1][0] == row.pc:
            result[-1] = entry
        elif not result or result[-1][1:] != entry[1:]:
            result.append(entry)
    return result


def _unit(
    data: bytes,
    start: int,
    end: int,
    program: int,
    version: int,
    owners: dict[int, str],
    files: list[str],
    rows: dict[str, list[Row]],
) -> None:
    """One unit of the table: its header, then the line program (DWARF 2 to 4, section 6.2)."""
    at = start + 10 + (version >= 4)  # version 4 has one more byte: operations an instruction
    step, _, base, span, opcodes = struct.unpack_from("<BBbBB", data, at)
    lengths = data[at + 5 : at + 4 + opcodes]
    at += 4 + opcodes
    first = len(files)
    directories = [""]
    while data[at]:
        name, at = _string(data, at)
        directories.append(name)
    at += 1
    while data[at]:
        name, at = _string(data, at)
        place, at = _unsigned(data, at)
        _, at = _unsigned(data, at)
        _, at = _unsigned(data, at)
        files.append(os.path.join(directories[place] if place < len(directories) else "", name))

    pc, line, file, context, owner = 0, 1, 1, 0, ""
    numbered: list[Row] = []  # of this sequence
    at = program

    def emit() -> None:
        caller = numbered[context - 1] if 0 < context <= len(numbered) else None
        numbered.append(Row(pc, line, first + file - 1, caller))
        if owner:
            rows.setdefault(owner, []).append(numbered[-1])

    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= opcodes:
            pc += (opcode - opcodes) // span * step
            line += base + (opcode - opcodes) % span
            emit()
        elif opcode == 0:
            size, at = _unsigned(data, at)
            after = at + size
            kind = data[at]
            if kind == 1:  # end of sequence
                pc, line, file, context, owner = 0, 1, 1, 0, ""
                numbered.clear()
            elif kind == 2:
                owner = owners.get(at + 1, "").removeprefix(".text.")
                pc = int.from_bytes(data[at + 1 : after], "little")
            elif kind == INLINED:
                context, _ = _unsigned(data, at + 1)
            at = after
        elif opcode == 1:
            emit()
        elif opcode == 2:
            value, at = _unsigned(data, at)
            pc += value * step
        elif opcode == 3:
            value, at = _signed(data, at)
            line += value
        elif opcode == 4:
            file, at = _unsigned(data, at)
        elif opcode == 8:
            pc += (255 - opcodes) // span * step
        elif opcode == 9:
            pc += int.from_bytes(data[at : at + 2], "little")
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = _unsigned(data, at)


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(errors="replace"), end + 1


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A LEB128 number and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return value - (1 << bits) if value >> (bits - 1) else value, end
