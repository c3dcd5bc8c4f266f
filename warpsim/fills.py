"""Initial contents of buffers: zeros, random numbers, permutations, expressions, lists and files.

A fill gives one number for each element; of a vector type (`float4`) one for each component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.elements import Element
from warpsim.errors import InputError
from warpsim.expressions import evaluate_array

__all__ = ["Fill", "check_size", "load_array"]

_CHUNK = 1 << 18  # elements computed at a time


@dataclass(frozen=True)
class Fill:
    """Initial contents of a buffer. *kind*: zeros, randint, permutation, expr, values, file or array."""

    kind: str
    high: int = 0
    seed: int = 0
    expression: str = ""
    names: Mapping[str, int | float] = field(default_factory=dict)
    values: tuple[int | float, ...] = ()
    path: Path | None = None
    array: NDArray[Any] | None = field(default=None, repr=False, compare=False)

    def make(self, kind: Element, count: int) -> NDArray[Any]:
        """*count* elements as a flat array of components."""
        size = count * kind.lanes
        match self.kind:
            case "zeros":
                return np.zeros(size, kind.storage)
            case "randint":
                rng = np.random.default_rng(self.seed)
                return _in_pieces(kind, size, lambda low, high: rng.integers(0, self.high, high - low))
            case "permutation":
                return kind.convert(np.random.default_rng(self.seed).permutation(size))
            case "values":
                return kind.convert(np.asarray(self.values))
            case "expr":
                return _in_pieces(
                    kind, size,
                    lambda low, high: evaluate_array(self.expression, {"i": np.arange(low, high)}, self.names),
                )  # fmt: skip
            case "file":
                return self._read(kind, count)
            case _:
                assert self.array is not None
                return self.array

    def _read(self, kind: Element, count: int) -> NDArray[Any]:
        assert self.path is not None
        contents = load_array(self.path)
        if contents.dtype.kind == "c":
            contents = np.ascontiguousarray(contents).view(contents.real.dtype)
        if kind.kind in ("bits", "bfloat16") and contents.dtype == kind.storage:
            return np.array(contents).ravel()
        check_size(contents.size, kind, count, str(self.path))
        return np.array(kind.convert(contents.ravel()))


def _in_pieces(kind: Element, size: int, values: Callable[[int, int], NDArray[Any]]) -> NDArray[Any]:
    """What `values` gives for one stretch after another, converted: no second array of this size."""
    out = np.empty(size, kind.storage)
    for low in range(0, size, _CHUNK):
        high = min(low + _CHUNK, size)
        out[low:high] = kind.convert(values(low, high))
    return out


def load_array(path: Path) -> NDArray[Any]:
    """The array of a .npy file, not read before it is used."""
    try:
        contents: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"no file '{path}'") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read '{path}' as a .npy file: {error}") from None
    if not isinstance(contents, np.ndarray):
        contents.close()
        raise InputError(f"'{path}' holds several arrays, one .npy array is wanted")
    array: NDArray[Any] = contents
    return array


def check_size(numbers: int, kind: Element, count: int, what: str) -> None:
    """*numbers* must fill *count* elements exactly."""
    if numbers != count * kind.lanes:
        of = f" of {kind.lanes} components" if kind.lanes > 1 else ""
        raise InputError(f"{what} has {numbers} numbers, the buffer {count} elements{of}")
