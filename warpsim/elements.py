"""Element types of buffers and kernel parameters, by their CUDA names: size, lanes, conversion to bits.

A vector type (`float4`) is stored as `lanes` components of its scalar type. bfloat16, which NumPy lacks, is
stored as its 16 bits in uint16. The eight-bit floats have a size but no conversion: buffers of them are opaque,
zero, or come from a file of bytes.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.errors import InputError

__all__ = ["ELEMENTS", "Element", "element", "element_of_dtype", "scalar"]


@dataclass(frozen=True, slots=True)
class Element:
    """One type: *name* as CUDA writes it, bytes an element, *lanes* components of NumPy type *storage*.

    *kind* is ``int``, ``float``, ``bool``, ``bfloat16`` or ``bits`` (no conversion).
    """

    name: str
    storage: np.dtype[Any]
    lanes: int = 1
    kind: str = "int"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.storage.itemsize * self.lanes

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers as components of this type; an error where one does not fit, never a wrapped value.

        Floating-point types round to nearest even; a fraction does not fit an integer type.
        """
        if values.dtype == self.storage and self.kind != "bfloat16":
            return np.ascontiguousarray(values)
        if self.kind == "bits":
            raise InputError(
                f"'{self.name}' has no number conversion: use a file of uint8, fill = \"zeros\" or no fill"
            )
        if values.dtype.kind not in "iufb":
            raise InputError(f"values of NumPy type {values.dtype} are not numbers for '{self.name}'")
        if self.kind == "bfloat16":
            return _bfloat16(values)
        if self.kind == "float":
            with np.errstate(over="ignore"):
                converted = values.astype(self.storage)
            wrong = np.isinf(converted) & np.isfinite(values.astype(np.float64))
        else:
            low, high = (0, 1) if self.kind == "bool" else _limits(self.storage)
            if values.dtype.kind == "f":
                # high + 1 is a power of two, exact in any float; high itself may not be
                wrong = ~((values >= low) & (values < float(high + 1)) & (values == np.floor(values)))
            elif values.size and low <= values.min() and values.max() <= high:
                return values.astype(self.storage)
            else:
                wrong = (values < low) | (values > high)
            converted = np.where(wrong, 0, values).astype(self.storage)
        if wrong.any():
            raise InputError(f"{values[wrong].flat[0]} does not fit '{self.name}'")
        return converted

    def pack(self, value: int | float) -> bytes:
        """The little-endian bytes of one scalar."""
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise InputError(f"{value} does not fit '{self.name}'")
        if self.kind == "int" and isinstance(value, float) and value.is_integer() and abs(value) < 2**64:
            value = int(value)
        if isinstance(value, float) and self.kind in ("int", "bool"):
            raise InputError(f"{value:g} is not a whole number, and the parameter is '{self.name}'")
        return self.convert(np.asarray([value])).tobytes()


def _limits(storage: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(storage)
    return int(limits.min), int(limits.max)


def _bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    """Round float32 to its upper 16 bits, ties to even."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def _table() -> dict[str, Element]:
    table: dict[str, Element] = {}

    def add(storage: str, *names: str, lanes: int = 1, kind: str = "int") -> None:
        for name in names:
            table[name] = Element(name, np.dtype(storage), lanes, kind)

    add("?", "bool", kind="bool")
    add("i1", "char", "signed char", "int8_t")
    add("u1", "unsigned char", "uint8_t")
    add("i2", "short", "short int", "int16_t")
    add("u2", "unsigned short", "unsigned short int", "uint16_t")
    add("i4", "int", "signed", "signed int", "int32_t")
    add("u4", "unsigned", "unsigned int", "uint32_t")
    add("i8", "long", "long int", "long long", "long long int", "int64_t", "ptrdiff_t", "intptr_t")
    add("u8", "unsigned long", "unsigned long int", "unsigned long long", "unsigned long long int")
    add("u8", "uint64_t", "size_t", "uintptr_t")
    add("f2", "half", "__half", kind="float")
    add("f4", "float", kind="float")
    add("f8", "double", kind="float")
    add("u2", "__nv_bfloat16", "nv_bfloat16", kind="bfloat16")
    add("f2", "half2", "__half2", lanes=2, kind="float")
    add("u2", "__nv_bfloat162", "nv_bfloat162", lanes=2, kind="bfloat16")
    add("u1", "__nv_fp8_e4m3", "__nv_fp8_e5m2", kind="bits")
    vectors = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8"}
    vectors |= {"ulong": "u8", "longlong": "i8", "ulonglong": "u8", "float": "f4", "double": "f8"}
    for name, storage in vectors.items():
        for lanes in (1, 2, 3, 4):
            add(storage, f"{name}{lanes}", lanes=lanes, kind="float" if storage[0] == "f" else "int")
    return table


ELEMENTS = _table()


def element(name: str) -> Element:
    """The type called *name*, `const` and spaces aside; an error that names close ones when there is none."""
    plain = " ".join(w for w in name.split() if w not in ("const", "volatile"))
    words = sorted(plain.split())
    if plain not in ELEMENTS and len(words) > 1:
        # C++ takes these words in any order: `long unsigned int`
        plain = next((n for n in ELEMENTS if sorted(n.split()) == words), plain)
    if plain not in ELEMENTS:
        close = difflib.get_close_matches(plain, ELEMENTS, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        known = (
            "bool, char, short, int, long long, their unsigned forms, half, float, double, __nv_bfloat16, int8_t ... "
        )
        raise InputError(f"unknown element type '{name}'{hint}; known: {known}and vectors such as float4, int2")
    return ELEMENTS[plain]


def scalar(name: str) -> Element:
    """The type of that name, which must be no vector."""
    kind = element(name)
    if kind.lanes > 1 or kind.kind == "bits":
        raise InputError(f"'{name}' is not the type of a single number: write a member for each")
    return kind


_BY_DTYPE = {
    "b1": "bool", "i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short", "i4": "int",
    "u4": "unsigned int", "i8": "long long", "u8": "unsigned long long", "f2": "half", "f4": "float", "f8": "double",
    "c8": "float2", "c16": "double2",
}  # fmt: skip


def element_of_dtype(dtype: np.dtype[Any]) -> Element:
    """The type whose elements a NumPy array of *dtype* holds; complex64 is float2."""
    code = f"{dtype.kind}{dtype.itemsize}"
    if code not in _BY_DTYPE or not dtype.isnative:
        raise InputError(f"NumPy type {dtype} has no CUDA element type; known: {', '.join(_BY_DTYPE.values())}")
    return ELEMENTS[_BY_DTYPE[code]]
