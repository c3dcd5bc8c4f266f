"""A launch: one kernel with all numbers settled, its buffers placed and its parameters packed.

`Launch` is what the front end, the machine and the replayer take. Buffers lie at multiples of 2 MiB from
`BASE_ADDRESS`, in order, with at least 2 MiB between the end of one and the start of the next, so that no access
past a buffer lands in another. A buffer without a fill is opaque (`data` is None) and costs no memory; the others
make their contents when `data` is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsim.elements import ELEMENTS, Element, element
from warpsim.errors import InputError, UnsupportedError
from warpsim.fills import Fill
from warpsim.signature import parameter_types

__all__ = ["ALIGNMENT", "BASE_ADDRESS", "BufferArg", "Compile", "Launch", "State", "ValueArg", "place"]

ALIGNMENT = 2 << 20
BASE_ADDRESS = 0x7F00_0000_0000
_END_ADDRESS = 1 << 47  # of a 47-bit user address space


@dataclass(frozen=True)
class BufferArg:
    """A pointer argument. `address` is what the kernel gets; `offset` bytes of it lie before this buffer.

    An alias shares the bytes of `target`, the buffer called `alias_of`, from `offset` on. Neighbours with one `struct`
    are the members of one parameter.
    """

    name: str
    element: Element
    count: int
    fill: Fill | None = None
    alias_of: str | None = None
    offset: int = 0
    address: int = 0
    target: BufferArg | None = field(default=None, repr=False)
    struct: str = ""

    @property
    def dtype(self) -> str:
        """The element type by its CUDA name."""
        return self.element.name

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the buffer."""
        return self.count * self.element.itemsize

    @property
    def opaque(self) -> bool:
        """Whether the contents are unknown and take no memory."""
        return self.fill is None if self.target is None else self.target.opaque

    @cached_property
    def data(self) -> NDArray[Any] | None:
        """Initial contents as a flat array of components, None when opaque; an alias gives a view of its target.

        The array of a `warpsim.Kernel` argument is the caller's own.
        """
        if self.target is not None:
            if self.target.data is None:
                return None
            start = self.address - self.target.address
            whole = self.target.data.view(np.uint8)
            return whole[start : start + self.bytes].view(self.element.storage)
        return None if self.fill is None else self.fill.make(self.element, self.count)


@dataclass(frozen=True)
class ValueArg:
    """A number argument; its type is the kernel's, or that of a member of a struct."""

    name: str
    value: int | float
    struct: str = ""
    element: Element | None = None


@dataclass(frozen=True)
class Compile:
    """How the source is compiled: C++ standard, extra options and macros."""

    std: str | None = None
    options: tuple[str, ...] = ()
    define: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The machine before the launch: caches cold, flushed or warm; a fixed clock; shared-memory carve-out."""

    caches: str = "cold"
    clock_mhz: float | None = None
    carveout_kb: int | None = None


class ParameterLike(Protocol):
    """A kernel parameter of a cubin."""

    @property
    def offset(self) -> int:
        """Bytes from the parameter base."""

    @property
    def size(self) -> int:
        """Bytes."""


@dataclass(frozen=True)
class Launch:
    """A scenario with its parameters bound: everything one run needs but the GPU."""

    name: str
    entry: str
    source: str = field(repr=False)
    kernel: str  # file of the source, or "(inline)"
    gpu: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    opt_in_shared: bool
    arguments: tuple[BufferArg | ValueArg, ...]
    params: Mapping[str, int | float] = field(default_factory=dict)
    compile: Compile = field(default_factory=Compile)
    state: State = field(default_factory=State)

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return math.prod(self.block)

    @property
    def buffers(self) -> tuple[BufferArg, ...]:
        """The pointer arguments, aliases too."""
        return tuple(a for a in self.arguments if isinstance(a, BufferArg))

    @property
    def allocations(self) -> tuple[BufferArg, ...]:
        """The buffers that have memory of their own: all but aliases."""
        return tuple(b for b in self.buffers if b.target is None)

    def pack(
        self, parameters: Sequence[ParameterLike], *, entry: str | None = None, ptx_types: Sequence[str] | None = None
    ) -> bytes:
        """The bytes of constant bank 0 from the parameter base on.

        A value takes the type of the kernel's declaration; *entry* is the mangled name if it helps to find it, and
        *ptx_types* (`warpsim.signature.ptx_types`) decides where the source does not.
        """
        groups = [[*group] for _, group in groupby(self.arguments, key=lambda a: a.struct or id(a))]
        if len(parameters) != len(groups):
            names = ", ".join(group[0].struct or group[0].name for group in groups) or "none"
            raise InputError(
                f"{self.name}: kernel '{self.entry}' has {len(parameters)} parameters, "
                f"the scenario {len(groups)} arguments ({names})"
            )
        define = self.compile.define
        types = parameter_types(self.source, self.entry, len(parameters), define)
        if types is None and entry is not None:
            types = parameter_types(self.source, entry, len(parameters), define)
        image = bytearray(max((p.offset + p.size for p in parameters), default=0))
        for index, (parameter, group) in enumerate(zip(parameters, groups, strict=True)):
            declared = types[index] if types else ""
            ptx = ptx_types[index] if ptx_types and index < len(ptx_types) else ""
            struct = group[0].struct
            try:
                packed = _struct(group, parameter.size) if struct else _pack(group[0], parameter.size, declared, ptx)
            except (InputError, UnsupportedError) as error:
                name = struct or group[0].name
                raise type(error)(f"{self.name}: arg '{name}' of kernel '{self.entry}': {error}") from None
            image[parameter.offset : parameter.offset + parameter.size] = packed
        return bytes(image)


_BY_PTX = {"f32": "float", "f64": "double", "f16": "half", "bf16": "__nv_bfloat16"}
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long long"}
_FLOATS = {2: "half", 4: "float", 8: "double"}


def _struct(members: Sequence[BufferArg | ValueArg], size: int) -> bytes:
    """A struct's bytes, members aligned as C++ does it."""
    image = b""
    widest = 1
    for member in members:
        if isinstance(member, BufferArg):
            packed = member.address.to_bytes(8, "little")
        else:
            assert member.element is not None
            packed = member.element.pack(member.value)
        widest = max(widest, len(packed))
        image += bytes(-len(image) % len(packed)) + packed
    image += bytes(-len(image) % widest)
    if len(image) != size:
        said = ", ".join(
            f"{m.name} {m.element.name}{'*' if isinstance(m, BufferArg) else ''}" for m in members if m.element
        )
        raise InputError(f"the members take {len(image)} bytes ({said}), the parameter {size}")
    return image


def _pack(argument: BufferArg | ValueArg, size: int, declared: str, ptx: str) -> bytes:
    pointer = declared.endswith("*")
    if isinstance(argument, BufferArg):
        if size != 8 or (declared in ELEMENTS) or ptx.startswith("f"):
            raise InputError(f"a buffer, but the parameter is '{declared or ptx or f'{size} bytes'}'")
        return argument.address.to_bytes(8, "little")
    if size not in (1, 2, 4, 8):
        raise UnsupportedError(
            f"the parameter takes {size} bytes ('{declared or ptx}'): give its members, each with struct = \"NAME\""
        )
    kind: Element | None = ELEMENTS.get("unsigned long long" if pointer else declared)
    if ptx in _BY_PTX and (kind is None or kind.kind not in ("float", "bfloat16")):
        kind = ELEMENTS[_BY_PTX[ptx]]
    if kind is not None and kind.lanes > 1:
        raise UnsupportedError(
            f"the parameter is '{declared}': give its {kind.lanes} numbers, each with struct = \"NAME\""
        )
    if pointer and argument.value != 0:
        raise InputError(f"value {argument.value}, but the parameter is a pointer ('{declared}'): give it a buffer")
    if kind is None or kind.itemsize != size:
        # no declaration in sight: a float is a float, and an integer of either sign fits by its bits
        if isinstance(argument.value, float) and size in _FLOATS and not ptx.startswith(("u", "s")):
            return ELEMENTS[_FLOATS[size]].pack(argument.value)
        with suppress(InputError):
            return ELEMENTS[_INTEGERS[size]].pack(argument.value)
        return element("unsigned " + _INTEGERS[size]).pack(argument.value)
    return kind.pack(argument.value)


def place(
    arguments: Sequence[BufferArg | ValueArg], addresses: Sequence[int] | Mapping[str, int] | None = None
) -> tuple[BufferArg | ValueArg, ...]:
    """The arguments with the addresses of their buffers set and aliases resolved.

    *addresses* gives those of the buffers that are no aliases, in order or by name, as measured.
    """
    own = [a for a in arguments if isinstance(a, BufferArg) and a.alias_of is None]
    given: dict[str, int] = {}
    if isinstance(addresses, Mapping):
        given = {name: int(address) for name, address in addresses.items()}
        missing = [b.name for b in own if b.name not in given]
        if missing:
            raise InputError(f"no address for buffer '{missing[0]}'")
    elif addresses is not None:
        if len(addresses) != len(own):
            raise InputError(f"{len(addresses)} addresses for {len(own)} buffers")
        given = {b.name: int(address) for b, address in zip(own, addresses, strict=True)}
    placed: dict[str, BufferArg] = {}
    position = BASE_ADDRESS
    for buffer in own:
        address = given.get(buffer.name, position + buffer.offset)
        placed[buffer.name] = replace(buffer, address=address)
        position = -(-(position + buffer.offset + buffer.bytes) // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        if not given and position > _END_ADDRESS:
            raise InputError(
                f"arg '{buffer.name}': buffers of more than {(_END_ADDRESS - BASE_ADDRESS) >> 40} TiB together"
            )
    result: list[BufferArg | ValueArg] = []
    for argument in arguments:
        if isinstance(argument, ValueArg):
            result.append(argument)
        elif argument.alias_of is None:
            result.append(placed[argument.name])
        else:
            target = placed[argument.alias_of]
            address = target.address + argument.offset
            result.append(replace(argument, address=address, target=target))
    return tuple(result)
