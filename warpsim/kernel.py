"""Kernels launched from Python: `Kernel(source, entry).simulate(grid, block, args)`.

Arguments are NumPy arrays, `Buffer` sizes or numbers, one per kernel parameter; a tuple of these is a struct by value.
An array's contents are what the kernel reads, and what it stores is in the array afterwards, as with CuPy. Arrays that
share memory share it in the kernel too.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from warpsim.elements import Element, element, element_of_dtype
from warpsim.errors import InputError
from warpsim.fills import Fill
from warpsim.launch import BufferArg, Compile, Launch, State, ValueArg, place
from warpsim.scenario import extent
from warpsim.signature import kernels

if TYPE_CHECKING:
    from warpsim.result import Result

__all__ = ["Buffer", "Kernel"]


@dataclass(frozen=True)
class Buffer:
    """A buffer of *count* elements without contents: it costs no memory. *dtype* is a CUDA or NumPy type."""

    dtype: str | DTypeLike
    count: int

    @property
    def element(self) -> Element:
        """The element type; a name means the CUDA type of that name first."""
        if isinstance(self.dtype, str):
            try:
                return element(self.dtype)
            except InputError as error:
                try:
                    return element_of_dtype(np.dtype(self.dtype))
                except TypeError:
                    raise error from None
        return element_of_dtype(np.dtype(self.dtype))


class Kernel:
    """The kernel *entry* of a CUDA C++ *source*: text, or the path of a file."""

    def __init__(
        self,
        source: str | Path,
        entry: str,
        *,
        std: str | None = None,
        options: Sequence[str] = (),
        define: Mapping[str, str | int | float] | None = None,
    ) -> None:
        self.entry = entry
        self.compile = Compile(std, tuple(options), {k: str(v) for k, v in (define or {}).items()})
        self.file = "(inline)"
        if isinstance(source, Path) or ("__global__" not in source and "\n" not in source and source.endswith(".cu")):
            self.file = str(source)
            try:
                source = Path(source).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"cannot read the kernel source '{self.file}': {error}") from None
        self.source = source

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        dynamic_shared: int = 0,
        gpu: str = "h200",
        state: State | None = None,
    ) -> Launch:
        """The launch with these arguments, checked and placed."""
        names = self._names(len(args))
        arguments: list[BufferArg | ValueArg] = []
        for name, argument in zip(names, args, strict=True):
            try:
                arguments += _members(name, argument) if isinstance(argument, tuple) else [_argument(name, argument)]
            except InputError as error:
                raise InputError(f"argument '{name}' of kernel '{self.entry}': {error}") from None
        name = self.entry.partition("<")[0]
        try:
            grid_size, block_size = extent("grid", _sizes(grid)), extent("block", _sizes(block), block=True)
            if dynamic_shared < 0:
                raise InputError(f"dynamic_shared: {dynamic_shared} is negative")
        except InputError as error:
            raise InputError(f"kernel '{self.entry}': {error}") from None
        return Launch(
            name=name,
            entry=self.entry,
            source=self.source,
            kernel=self.file,
            gpu=gpu,
            grid=grid_size,
            block=block_size,
            dynamic_shared=dynamic_shared,
            opt_in_shared=True,
            arguments=place(_shared(arguments)),
            compile=self.compile,
            state=state or State(),
        )

    def simulate(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        dynamic_shared: int = 0,
        gpu: str | None = None,
        exact: bool | None = None,
        state: State | None = None,
    ) -> Result:
        """Run it; arrays among *args* hold afterwards what the kernel stored."""
        from warpsim.simulator import simulate_bound

        launch = self.launch(grid, block, args, dynamic_shared=dynamic_shared, state=state)
        return simulate_bound(launch, gpu=gpu, exact=exact)

    def _names(self, count: int) -> list[str]:
        """Parameter names as the source gives them, so that messages and results show them."""
        plain = self.entry.partition("<")[0].split("::")[-1].strip()
        for signature in kernels(self.source):
            if signature.name == plain and len(signature.parameters) == count:
                names = [name or f"arg{i}" for i, (_, name) in enumerate(signature.parameters)]
                if len(set(names)) == count:
                    return names
        return [f"arg{i}" for i in range(count)]


def _sizes(size: int | Sequence[int]) -> Sequence[int]:
    return tuple(size) if isinstance(size, Sequence) else (operator.index(size),)


def _argument(name: str, argument: Any) -> BufferArg | ValueArg:
    if isinstance(argument, Buffer):
        if argument.count < 1:
            raise InputError(f"a buffer of {argument.count} elements (at least 1)")
        return BufferArg(name, argument.element, operator.index(argument.count))
    if isinstance(argument, np.ndarray) and argument.ndim:
        kind = element_of_dtype(argument.dtype)
        if not (argument.flags.c_contiguous or argument.flags.f_contiguous):
            raise InputError("the array is not contiguous; pass numpy.ascontiguousarray(...)")
        if not argument.size:
            raise InputError("the array is empty")
        return BufferArg(name, kind, argument.size, Fill("array", array=argument.ravel(order="K").view(kind.storage)))
    value = argument.item() if isinstance(argument, (np.generic, np.ndarray)) else argument
    if not isinstance(value, (int, float)):
        raise InputError(f"{type(argument).__name__} given; a NumPy array, a warpsim.Buffer or a number wanted")
    return ValueArg(name, int(value) if isinstance(value, bool) else value)


def _members(name: str, members: tuple[Any, ...]) -> list[BufferArg | ValueArg]:
    """A struct by its members: arrays, buffers and NumPy scalars, whose types are the members'."""
    found: list[BufferArg | ValueArg] = []
    for position, member in enumerate(members):
        argument = _argument(f"{name}[{position}]", member)
        if isinstance(argument, ValueArg):
            if not isinstance(member, np.generic):
                raise InputError(f"member {position} is {member!r}: a struct's numbers are NumPy scalars, np.int32(3)")
            argument = replace(argument, element=element_of_dtype(member.dtype))
        found.append(replace(argument, struct=name))
    if not found:
        raise InputError("a struct without members")
    return found


def _shared(arguments: Sequence[BufferArg | ValueArg]) -> list[BufferArg | ValueArg]:
    """Arrays within the memory of another become aliases of it."""
    arrays = [(a, a.fill.array) for a in arguments if isinstance(a, BufferArg) and a.fill and a.fill.array is not None]
    arrays.sort(key=lambda pair: -pair[1].nbytes)  # stable: of equal ones the first argument is the owner
    owners: list[tuple[str, int, int]] = []
    aliases: dict[str, BufferArg] = {}
    for argument, array in arrays:
        start, end = array.ctypes.data, array.ctypes.data + array.nbytes
        for owner, low, high in owners:
            if low <= start and end <= high:
                aliases[argument.name] = replace(argument, fill=None, alias_of=owner, offset=start - low)
                break
            if start < high and low < end:
                raise InputError(f"the arrays of '{owner}' and '{argument.name}' overlap, and neither holds the other")
        else:
            owners.append((argument.name, start, end))
    return [aliases.get(a.name, a) for a in arguments]
