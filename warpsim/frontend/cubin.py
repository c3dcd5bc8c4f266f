"""A cubin as a file: an ELF64 object with one code section a kernel and NVIDIA's attribute sections."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from warpsim.errors import InputError

__all__ = ["Cubin", "KernelInfo", "Section", "Symbol"]

NOBITS = 8
FUNCTION = 2
ENTRY = 0x10  # st_other of a kernel, as against a device function
ADDRESS64 = (2, 4)  # relocation types: a 64-bit address, a 64-bit generic address

# Attributes of .nv.info
MAX_THREADS, PARAM_CBANK, FRAME_SIZE, MIN_STACK_SIZE = 0x05, 0x0A, 0x11, 0x12
KPARAM_INFO, REGCOUNT, BRANCH_TARGETS = 0x17, 0x2F, 0x34
DEFAULT_STACK = 1024  # bytes a thread gets where recursion leaves the depth unknown (cudaLimitStackSize)
UNKNOWN_STACK = 0xFFFFFFFF  # what compilers before 13 say of recursion


@dataclass(frozen=True)
class Section:
    """One ELF section; `data` is empty for sections without contents, whose `size` still counts."""

    name: str
    kind: int
    data: bytes
    size: int
    align: int


@dataclass(frozen=True)
class Symbol:
    """One ELF symbol: `section` is the index of the section that `value` is an offset into."""

    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


@dataclass
class KernelInfo:
    """What the attribute sections say about one kernel, sizes in bytes."""

    registers: int = 0
    frame: int = 0  # stack of the kernel and the functions it calls, but for recursion
    parameter_base: int = 0
    parameters: list[tuple[int, int]] = field(default_factory=list)  # (offset, size) in order
    max_threads: int = 1024
    branch_targets: dict[int, tuple[int, ...]] = field(default_factory=dict)  # BRX pc: target pcs


class Cubin:
    """Sections and symbols of a cubin; raises InputError for bytes that are none."""

    def __init__(self, data: bytes) -> None:
        try:
            self._parse(data)
        except (struct.error, ValueError, IndexError) as error:
            raise InputError(f"cubin: not a CUDA ELF file ({len(data)} bytes, {error})") from None

    def _parse(self, data: bytes) -> None:
        if data[:5] != b"\x7fELF\x02":
            raise ValueError(f"starts with {data[:4]!r}")
        (table,) = struct.unpack_from("<Q", data, 0x28)
        count, names = struct.unpack_from("<HH", data, 0x3C)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]

        def text(offset: int) -> str:
            return data[offset : data.index(b"\0", offset)].decode()

        self.sections = []
        for name, kind, _, _, offset, size, _, _, align, _ in headers:
            content = b"" if kind == NOBITS else data[offset : offset + size]
            self.sections.append(Section(text(headers[names][4] + name), kind, content, size, align))
        self.by_name = {s.name: s for s in self.sections}
        self.symbols: list[Symbol] = []
        for header, section in zip(headers, self.sections, strict=True):
            if section.name == ".symtab":
                strings = headers[header[6]][4]
                for name, info, other, index, value, size in struct.iter_unpack("<IBBHQQ", section.data):
                    self.symbols.append(Symbol(text(strings + name), info & 15, other, index, value, size))

    def data(self, name: str) -> bytes:
        """Contents of the section of that name, empty where there is none."""
        section = self.by_name.get(name)
        return section.data if section else b""

    def size(self, name: str) -> int:
        """Bytes of the section of that name, 0 where there is none."""
        section = self.by_name.get(name)
        return section.size if section else 0

    def kernels(self) -> list[str]:
        """Mangled names of all kernels."""
        return sorted(s.name for s in self.symbols if s.kind == FUNCTION and s.other & ENTRY and s.section)

    def functions(self, kernel: str) -> dict[str, int]:
        """Byte offset of each device function in the code section of a kernel."""
        code = self.sections.index(self.by_name[f".text.{kernel}"])
        return {s.name: s.value for s in self.symbols if s.kind == FUNCTION and s.section == code and s.name != kernel}

    def compiler(self) -> str:
        """Full version of the assembler that made this cubin (``13.0.88``), empty where it does not say."""
        for section in self.sections:
            if section.name.startswith(".note.nv") and (found := re.search(rb"V(\d+\.\d+\.\d+)", section.data)):
                return found[1].decode()
        return ""

    def kernel_info(self, kernel: str) -> KernelInfo:
        """Registers, parameters, launch bounds, branch tables."""
        info = KernelInfo()
        number = next(i for i, s in enumerate(self.symbols) if s.name == kernel and s.kind == FUNCTION)
        code = self.symbols[number].section
        stack = None
        frames = [0]
        for attribute, payload in _attributes(self.data(".nv.info")):
            if attribute not in (REGCOUNT, FRAME_SIZE, MIN_STACK_SIZE):
                continue
            symbol, value = struct.unpack_from("<II", payload)
            if attribute == REGCOUNT and symbol == number:
                info.registers = value
            elif attribute == FRAME_SIZE and self.symbols[symbol].section == code:
                frames.append(value)
            elif attribute == MIN_STACK_SIZE and symbol == number:
                stack = DEFAULT_STACK if value == UNKNOWN_STACK else value
        info.frame = max(frames) if stack is None else max(stack, *frames)
        parameters: dict[int, tuple[int, int]] = {}
        for attribute, payload in _attributes(self.data(f".nv.info.{kernel}")):
            if attribute == PARAM_CBANK:
                _, info.parameter_base, _ = struct.unpack_from("<IHH", payload)
            elif attribute == KPARAM_INFO:
                _, ordinal, offset, flags = struct.unpack_from("<IHHI", payload)
                parameters[ordinal] = (offset, flags >> 18)
            elif attribute == MAX_THREADS:
                x, y, z = struct.unpack_from("<III", payload)
                info.max_threads = x * y * z
            elif attribute == BRANCH_TARGETS:
                info.branch_targets |= _branch_tables(payload)
        info.parameters = [parameters[i] for i in sorted(parameters)]
        return info

    def globals_(self) -> tuple[bytes, dict[int, int]]:
        """Initial contents of all __device__ variables in one piece, and where each of their sections starts in it."""
        content = b""
        starts = {}
        for name in (".nv.global.init", ".nv.global"):
            if section := self.by_name.get(name):
                content += bytes(-len(content) % max(section.align, 16))
                starts[self.sections.index(section)] = len(content)
                content += section.data or bytes(section.size)
        return content, starts

    def relocations(self, section: str) -> Iterator[tuple[int, int, Symbol, int]]:
        """(offset, type, symbol, addend) of each relocation of a section."""
        for prefix, layout in ((".rela", "<QQq"), (".rel", "<QQ")):
            for fields in struct.iter_unpack(layout, self.data(prefix + section)):
                place = self.data(section)[fields[0] : fields[0] + 8]  # holds the addend where the record has none
                addend = fields[2] if len(fields) == 3 else int.from_bytes(place, "little")
                yield fields[0], fields[1] & 0xFFFFFFFF, self.symbols[fields[1] >> 32], addend


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Records of a .nv.info section: format byte, attribute byte, then a 16-bit value or a length and a payload."""
    position = 0
    while position + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form == 4:
            yield attribute, data[position : position + value]
            position += value
        else:
            yield attribute, value.to_bytes(2, "little")


def _branch_tables(payload: bytes) -> dict[int, tuple[int, ...]]:
    """Records (pc of the BRX, 0, count, targets) of an indirect-branch attribute."""
    words = [word for (word,) in struct.iter_unpack("<I", payload)]
    tables = {}
    position = 0
    while position + 3 <= len(words):
        count = words[position + 2]
        tables[words[position]] = tuple(words[position + 3 : position + 3 + count])
        position += 3 + count
    return tables
