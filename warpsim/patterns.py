"""One warp instruction by itself: what its 32 addresses cost (`access`), and addresses from an index expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpsim import coalescing
from warpsim.cexpression import evaluate
from warpsim.errors import InputError
from warpsim.gpu import Gpu, load_gpu

__all__ = ["GlobalAccess", "SharedAccess", "access", "active_lanes", "pattern"]

_WIDTHS = (1, 2, 4, 8, 16)
_OPS = {
    "global": ("load", "store", "atomic", "red"),
    "shared": ("load", "store", "atomic", "ldmatrix_x1", "ldmatrix_x2", "ldmatrix_x4"),
}
_CODES = {
    "load": coalescing.LOAD,
    "store": coalescing.STORE,
    "red": coalescing.RED,
    "ldmatrix_x1": coalescing.LDMATRIX_X1,
    "ldmatrix_x2": coalescing.LDMATRIX_X2,
    "ldmatrix_x4": coalescing.LDMATRIX_X4,
}
_GLOBAL = ("sectors", "tags", "tag_wavefronts", "data_wavefronts", "l2_requests")
_ATOMIC_WIDTHS = (2, 4, 8, 16)
_ATOMIC_MEASURED = (4, 8)
_ADDRESS_BITS = 49  # virtual addresses of NVIDIA GPUs since Pascal
_FEW = 4000  # patterns that plain Python answers sooner than numba loads

Count = Any  # int, or NDArray[np.int64] for a batch


@dataclass(frozen=True)
class GlobalAccess:
    """Cost of a global access at L1TEX: integers, or arrays in the shape of the batch.

    `l2_requests` is what goes on to L2 if every sector misses L1. The `ideal_` figures are the least that the distinct
    bytes of the active lanes could take, lying contiguous and aligned. `exact` is false where the rule that gave one of
    the figures is not settled: for stores of many lines, whose data wavefronts then are those on a cold L1, for atomics
    of 2 and 16 bytes, and where the tag bank is not known. An atomic is any but compare and swap.
    """

    sectors: Count
    tags: Count
    tag_wavefronts: Count
    data_wavefronts: Count
    l2_requests: Count
    ideal_sectors: Count
    ideal_tags: Count
    ideal_tag_wavefronts: Count
    ideal_data_wavefronts: Count
    ideal_l2_requests: Count
    exact: Any


@dataclass(frozen=True)
class SharedAccess:
    """Cost of a shared-memory access: integers, or arrays in the shape of the batch.

    `conflicts` are the wavefronts beyond one for each lane group. `ideal_` and `exact` as for `GlobalAccess`.
    """

    data_wavefronts: Count
    conflicts: Count
    ideal_data_wavefronts: Count
    ideal_conflicts: Count
    exact: Any


@overload
def access(
    addresses: ArrayLike,
    *,
    width: int,
    op: str = ...,
    space: Literal["global"] = ...,
    active: ArrayLike | None = ...,
    gpu: str | Path | Gpu = ...,
) -> GlobalAccess: ...
@overload
def access(
    addresses: ArrayLike,
    *,
    width: int,
    op: str = ...,
    space: Literal["shared"],
    active: ArrayLike | None = ...,
    gpu: str | Path | Gpu = ...,
) -> SharedAccess: ...
@overload
def access(
    addresses: ArrayLike,
    *,
    width: int,
    op: str = ...,
    space: str,
    active: ArrayLike | None = ...,
    gpu: str | Path | Gpu = ...,
) -> GlobalAccess | SharedAccess: ...
def access(
    addresses: ArrayLike,
    *,
    width: int,
    op: str = "load",
    space: str = "global",
    active: ArrayLike | None = None,
    gpu: str | Path | Gpu = "h200",
) -> GlobalAccess | SharedAccess:
    """Count the sectors, tags, wavefronts and bank conflicts of one warp instruction, or of a batch of them.

    `addresses` are the byte addresses of lanes 0 to 31, in the last of any number of dimensions; in shared memory, byte
    offsets. `width` is the bytes a lane accesses, `active` the lanes that take part (default: all), `op` one of
    load, store, atomic, red (an atomic without result; global only), ldmatrix_x1, _x2, _x4 (shared only).

    >>> access([128 * lane for lane in range(32)], width=4).sectors
    32
    >>> access([128 * lane for lane in range(32)], width=4, space="shared").conflicts
    31
    """
    _check_kind(width, op, space)
    profile = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    table = _addresses(addresses)
    mask = _active(active, table.shape)
    shape = table.shape[:-1]
    limit = 1 << _ADDRESS_BITS if space == "global" else profile.shared.max_per_cta_kib * 1024
    if op == "ldmatrix_x1" or op == "ldmatrix_x2":  # the other lanes' addresses are not used
        mask = mask & (np.arange(32) < (8 if op == "ldmatrix_x1" else 16))
    _check_range(table, mask, width, space, limit)
    rows = np.where(mask, table, 0).astype(np.int64).reshape(-1, 32)
    lanes = mask.reshape(-1, 32)
    figures = _ideal(rows, lanes, width)
    exact = ((rows % width == 0) | ~lanes).all(axis=1)  # the hardware faults otherwise
    exact &= profile.figures["l1.tag_bank_masks"].source.startswith("measured")  # on this GPU
    masks = lanes @ (1 << np.arange(32, dtype=np.int64))
    if space == "global":
        counts = _count_global(rows, masks, width, op, profile.l1.tag_bank_masks)
        figures = {name: counts[:, i] for i, name in enumerate(_GLOBAL)} | figures
        known = max(profile.l1.tag_bank_masks).bit_length() + 7  # address bits with a known part in the tag bank
        settled = figures["tag_wavefronts"] <= 2  # always, for stores
        if op == "store":
            apart = _count_global(rows, masks, width, "load", profile.l1.tag_bank_masks)[:, 3]
            settled |= _settled_store(figures, apart, width)
        exact &= _same_above(rows, lanes, known) & (settled | (op != "store"))
        exact &= op in ("load", "store") or width in _ATOMIC_MEASURED
    else:
        counts = _count_shared(rows, masks, width, op)
        figures = {
            "data_wavefronts": counts[:, 0],
            "conflicts": counts[:, 0] - counts[:, 1],
            "ideal_data_wavefronts": figures["ideal_data_wavefronts"],
            "ideal_conflicts": np.zeros(len(rows), np.int64),
        }
        exact &= op != "atomic" or width in _ATOMIC_MEASURED
    kind = GlobalAccess if space == "global" else SharedAccess
    if shape == ():
        return kind(**{name: int(values[0]) for name, values in figures.items()}, exact=bool(exact[0]))
    return kind(**{name: values.reshape(shape) for name, values in figures.items()}, exact=exact.reshape(shape))


def _check_kind(width: int, op: str, space: str) -> None:
    if space not in _OPS:
        raise InputError(f"space {space!r}: allowed are global and shared")
    if op not in _OPS[space]:
        raise InputError(f"op {op!r} in {space} memory: allowed are {', '.join(_OPS[space])}")
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width not in _WIDTHS:
        raise InputError(f"width {width!r}: a lane accesses 1, 2, 4, 8 or 16 bytes")
    if op.startswith("ldmatrix") and width != 16:
        raise InputError(f"width {width} of {op}: a row is 16 bytes")
    if op in ("atomic", "red") and width not in _ATOMIC_WIDTHS:
        raise InputError(f"width {width} of op {op!r}: allowed are 2, 4, 8 and 16 bytes")


def _addresses(addresses: ArrayLike) -> NDArray[Any]:
    try:
        table = np.asarray(addresses)
    except ValueError:
        raise InputError("addresses: rows of different lengths; the last dimension is the 32 lanes") from None
    if table.ndim == 0 or table.shape[-1] != 32:
        raise InputError(f"addresses of shape {table.shape}: the last dimension must be the 32 lanes of a warp")
    if table.dtype.kind == "O" and all(isinstance(x, int) and not isinstance(x, bool) for x in table.ravel()):
        return table
    if table.dtype.kind not in "iu":
        raise InputError(f"addresses of type {table.dtype}: byte addresses are integers")
    return table


def _active(active: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if active is None:
        return np.ones(shape, bool)
    try:
        mask = np.asarray(active)
        if mask.dtype.kind not in "biu" or (mask.dtype.kind != "b" and not ((mask == 0) | (mask == 1)).all()):
            raise InputError(f"active of type {mask.dtype}: one boolean a lane")
        if mask.ndim == 0 or mask.shape[-1] != 32:
            raise ValueError
        return np.broadcast_to(mask.astype(bool), shape)
    except ValueError:
        given = np.shape(np.asarray(active, dtype=object))
        raise InputError(f"active of shape {given}: must be that of addresses, {shape}, or (32,)") from None


def _check_range(table: NDArray[Any], mask: NDArray[np.bool_], width: int, space: str, limit: int) -> None:
    bad = mask & ((table < 0) | (table > limit - width))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"lane {place[-1]}" + (f" of pattern {place[:-1]}" if len(place) > 1 else "")
        what = "negative" if table[place] < 0 else f"beyond the {limit} bytes of {space} memory"
        raise InputError(f"{where}: address {table[place]} is {what}, {width} bytes accessed")


def _ideal(rows: NDArray[np.int64], lanes: NDArray[np.bool_], width: int) -> dict[str, NDArray[np.int64]]:
    """The least that the distinct bytes of the active lanes could take."""
    starts = np.sort(np.where(lanes, rows, np.iinfo(np.int64).max - width), axis=1)
    step = np.minimum(np.diff(starts, axis=1), width)  # bytes that each start adds before the next
    used = np.arange(31) < lanes.sum(axis=1, keepdims=True) - 1
    size = (step * used).sum(axis=1) + width * lanes.any(axis=1)
    tags = -(-size // 128)
    return {
        "ideal_sectors": -(-size // 32),
        "ideal_tags": tags,
        "ideal_tag_wavefronts": -(-tags // 4),
        "ideal_data_wavefronts": tags,
        "ideal_l2_requests": tags,
    }


def _count_global(
    rows: NDArray[np.int64], masks: NDArray[np.int64], width: int, op: str, bank_masks: tuple[int, int]
) -> NDArray[np.int64]:
    code = _CODES.get(op, coalescing.ATOMIC)
    results = np.zeros((len(rows), 5), np.int64)
    if len(rows) <= _FEW:
        lines, out, scratch = [0] * coalescing.LINES, [0] * coalescing.OUT, [0] * coalescing.SCRATCH
        coalescing.many_requests(rows.tolist(), masks.tolist(), width, code, bank_masks, lines, out, scratch, results)
    else:
        coalescing.compiled().many_requests(
            rows, masks, width, code, np.array(bank_masks, np.int64), np.zeros(coalescing.LINES, np.uint64),
            np.zeros(coalescing.OUT, np.int64), np.zeros(coalescing.SCRATCH, np.int64), results,
        )  # fmt: skip
    return results


def _count_shared(rows: NDArray[np.int64], masks: NDArray[np.int64], width: int, op: str) -> NDArray[np.int64]:
    code = _CODES.get(op, coalescing.SHARED_ATOMIC)
    results = np.zeros((len(rows), 2), np.int64)
    if len(rows) <= _FEW:
        out, scratch = [0] * coalescing.OUT, [0] * coalescing.SCRATCH
        coalescing.many_shared_requests(rows.tolist(), masks.tolist(), width, code, out, scratch, results)
    else:
        coalescing.compiled().many_shared_requests(
            rows,
            masks,
            width,
            code,
            np.zeros(coalescing.OUT, np.int64),
            np.zeros(coalescing.SCRATCH, np.int64),
            results,
        )
    return results


def _settled_store(figures: dict[str, NDArray[np.int64]], apart: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Where a store's data wavefronts do not depend on how many of its tag wavefronts are taken together.

    That number varies from run to run, from 1 to STORE_DEPTH, but is STORE_DEPTH_NARROW for 1 and 2 bytes; `apart` are
    the data wavefronts if each tag wavefront goes by itself.
    """
    depth = coalescing.STORE_DEPTH if width >= 4 else coalescing.STORE_DEPTH_NARROW
    same = (apart == figures["data_wavefronts"]) | (width < 4)
    settled: NDArray[np.bool_] = same & (figures["tag_wavefronts"] <= depth)
    return settled


def _same_above(rows: NDArray[np.int64], lanes: NDArray[np.bool_], bit: int) -> NDArray[np.bool_]:
    """Whether all active lanes agree in the address bits from `bit` on, whose part in the tag bank is not known."""
    high = rows >> bit
    highest = high.max(axis=1, keepdims=True, where=lanes, initial=0)
    agree: NDArray[np.bool_] = ((high == highest) | ~lanes).all(axis=1)
    return agree


def pattern(text: str, width: int) -> tuple[list[int], list[bool]]:
    """Byte addresses and active lanes from what users write: an element index in C syntax, or byte offsets.

    An expression over `lane` is the index of elements of `width` bytes, as in `s[32*lane]`. A list with commas holds
    the byte offsets of lanes 0, 1 and so on; the lanes that it does not reach are inactive.

    >>> pattern("32*lane", 4)[0][:3]
    [0, 128, 256]
    >>> pattern("0, 4, 8, 12", 4)[1].count(True)
    4
    """
    if "," not in text:
        return [width * index for index in evaluate(text)], [True] * 32
    offsets = []
    for item in text.strip(" []").removesuffix(",").split(","):
        try:
            offsets.append(int(item, 0))
        except ValueError:
            raise InputError(f"offsets {text!r}: {item.strip()!r} is not an integer") from None
    if len(offsets) > 32:
        raise InputError(f"offsets {text!r}: {len(offsets)} offsets, a warp has 32 lanes")
    return offsets + [0] * (32 - len(offsets)), [lane < len(offsets) for lane in range(32)]


def active_lanes(text: str) -> list[bool]:
    """Active lanes as users write them: a mask, lane numbers and ranges, or a condition on `lane` in C syntax.

    >>> [active_lanes(text).count(True) for text in ("0xff", "0-15, 20", "lane % 2 == 0")]
    [8, 17, 16]
    """
    if re.fullmatch(r"\s*0[xXbB][0-9a-fA-F]+\s*", text):
        mask = int(text, 0)
        if mask >> 32:
            raise InputError(f"active {text.strip()}: a mask has 32 bits")
        return [bool(mask >> lane & 1) for lane in range(32)]
    if re.fullmatch(r"[\s\d,-]+", text):
        lanes = set()
        for item in text.split(","):
            match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", item)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (32, 0)
            if first > last or last > 31:
                raise InputError(f"active {text!r}: {item.strip()!r} is not a lane or a range of lanes 0 to 31")
            lanes |= set(range(first, last + 1))
        return [lane in lanes for lane in range(32)]
    return [value != 0 for value in evaluate(text)]
