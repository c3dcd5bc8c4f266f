"""Small CUDA kernels as trees: printed as CUDA C++, evaluated with NumPy, their accesses listed for counting.

A `SmallKernel` is statements over index expressions. All numbers are `unsigned`, so both readings wrap alike. It has an
input and an output buffer for each width it uses, one tile of shared memory, and `bins` for reductions:

    v = a4[i]   out4[i] = v   atomicAdd(&bins[i], 1)   tile[f(t)] = v ... v += tile[f(u)]   __syncthreads()   for   if

With `volatile` accesses the compiler keeps each one as written, so `evaluate` lists exactly what the kernel executes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Access", "Barrier", "Binary", "Evaluation", "Expression", "If", "Load", "Loop", "Name", "Number", "Reduce",
    "SmallKernel", "Statement", "Store", "Tile", "buffers", "evaluate", "expressions", "from_data", "inputs",
    "lines_of", "names", "scenario_text", "source", "statements", "to_data",
]  # fmt: skip

LIMIT = 1 << 14
"""Elements of a buffer; an index that can reach further is taken modulo this."""

THREAD = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BLOCK = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}

U32 = NDArray[np.uint32]


# ---- the tree


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """threadIdx, blockIdx, blockDim.x, a loop's variable, or `v`, the value that the kernel accumulates."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """`left sign right`; the divisor of / and % and the distance of shifts are constants."""

    sign: str
    left: Expression
    right: Expression


Expression = Number | Name | Binary


@dataclass(frozen=True, slots=True)
class Load:
    """`v = a{width}[index]`, or `v += ...`."""

    index: Expression
    width: int = 4
    add: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """`out{width}[index] = value`."""

    index: Expression
    value: Expression = Number(0)
    width: int = 4


@dataclass(frozen=True, slots=True)
class Reduce:
    """`atomicAdd(&bins[index], 1u)`."""

    index: Expression


@dataclass(frozen=True, slots=True)
class Barrier:
    """`__syncthreads()`; on the top level and in loops whose count is a constant."""


@dataclass(frozen=True, slots=True)
class Tile:
    """`tile[f(t)] = value`, a barrier, `v += tile[f(source)]`, a barrier.

    Thread t's word lies at row * pitch + (column ^ row * swizzle). `columns` is a power of two, and
    pitch >= columns, so that no two threads share a word. `source` is taken modulo the threads of a CTA. If
    `transposed`, consecutive threads walk down a column.
    """

    columns: int = 32
    pitch: int = 32
    swizzle: int = 0
    transposed: bool = False
    value: Expression = Name("threadIdx.x")
    source: Expression = Name("threadIdx.x")
    width: int = 4


@dataclass(frozen=True, slots=True)
class Loop:
    """`for (unsigned i = 0; i < count; i++)`; a count that differs between lanes diverges."""

    count: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`if (left sign right) { body }`."""

    left: Expression
    sign: str
    right: Expression
    body: tuple[Statement, ...]


Statement = Load | Store | Reduce | Barrier | Tile | Loop | If


@dataclass(frozen=True)
class SmallKernel:
    """A kernel and its launch."""

    body: tuple[Statement, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    volatile: bool = True
    seed: int = 0
    name: str = "small"

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def __repr__(self) -> str:
        """What Hypothesis prints: the kernel as a reader wants it."""
        return f"<<<{self.grid}, {self.block}>>>\n{source(self)}"


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, those inside loops and guards too."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, If)):
            yield from statements(statement.body)


def expressions(body: Sequence[Statement]) -> Iterator[Expression]:
    """All expressions of all statements."""
    for s in statements(body):
        match s:
            case Load(index=index) | Reduce(index=index):
                yield index
            case Store():
                yield from (s.index, s.value)
            case Tile():
                yield from (s.value, s.source)
            case Loop():
                yield s.count
            case If():
                yield from (s.left, s.right)


def names(expression: Expression) -> set[str]:
    """The names in an expression."""
    match expression:
        case Name(name):
            return {name}
        case Binary(_, left, right):
            return names(left) | names(right)
    return set()


# ---- printing

_PRECEDENCE = {"*": 10, "/": 10, "%": 10, "+": 9, "<<": 8, ">>": 8, "&": 5, "^": 4, "|": 3}
_COMPARED = 7  # precedence of < and ==


def text(expression: Expression, within: int = 0) -> str:
    """The expression in C."""
    match expression:
        case Number(value):
            return f"{value}u"
        case Name(name):
            return name
        case Binary(sign, left, right):
            level = _PRECEDENCE[sign]
            inner = f"{text(left, level)} {sign} {text(right, level + 1)}"
            return f"({inner})" if level < within or (within and within != level and min(level, within) < 9) else inner
    raise TypeError(expression)


def _word(tile: Tile, thread: str, threads: int) -> str:
    """The index of a thread's word; a whole column first if transposed."""
    rows = -(-threads // tile.columns)
    if rows == 1:
        row, column = "0u", thread
    elif tile.transposed:
        row, column = f"{thread} % {rows}u", f"{thread} / {rows}u"
    else:
        row, column = f"{thread} / {tile.columns}u", f"{thread} % {tile.columns}u"
    if tile.swizzle:
        column = f"(({column}) ^ ({row}) * {tile.swizzle}u % {tile.columns}u)"
    return column if row == "0u" else f"({row}) * {tile.pitch}u + {column}"


def _tile_words(kernel: SmallKernel) -> dict[int, int]:
    """Width -> elements of the tiles of that width."""
    sizes: dict[int, int] = {}
    for s in statements(kernel.body):
        if isinstance(s, Tile):
            sizes[s.width] = max(sizes.get(s.width, 0), -(-kernel.threads // s.columns) * s.pitch)
    return sizes


def widen(value: str, width: int) -> str:
    """A 32-bit value as an element of `width` bytes."""
    return {8: f"{value} * 0x100000001ull", 16: f"make_uint4({value}, {value}, {value}, {value})"}.get(width, value)


def narrow(element: str, width: int) -> str:
    """An element as a 32-bit value."""
    return {8: f"low({element})", 16: f"low({element})"}.get(width, element)


class _Printer:
    def __init__(self, kernel: SmallKernel) -> None:
        self.kernel = kernel
        self.threads = kernel.threads
        block = kernel.block
        self.thread = "threadIdx.x"
        if block[1] > 1 or block[2] > 1:
            self.thread = f"(threadIdx.x + threadIdx.y * {block[0]}u + threadIdx.z * {block[0] * block[1]}u)"
        self.bounds = Bounds(kernel)

    def index(self, expression: Expression) -> str:
        return text(self.bounds.wrapped(expression))

    def lines(self, body: Sequence[Statement], depth: int, loops: int) -> Iterator[str]:
        pad = "    " * depth
        for s in body:
            match s:
                case Load():
                    at = f"a{s.width}[{self.index(s.index)}]"
                    if s.width == 16 and self.kernel.volatile:
                        at = f"load16(&{at})"
                    yield f"{pad}v {'+=' if s.add else '='} {narrow(at, s.width)};"
                case Store():
                    at, value = f"out{s.width}[{self.index(s.index)}]", widen(f"({text(s.value)})", s.width)
                    if s.width == 16 and self.kernel.volatile:
                        yield f"{pad}store16(&{at}, {value});"
                    else:
                        yield f"{pad}{at} = {value.removeprefix('(').removesuffix(')') if s.width < 8 else value};"
                case Reduce():
                    yield f"{pad}atomicAdd(&bins[{self.index(s.index)}], 1u);"
                case Barrier():
                    yield f"{pad}__syncthreads();"
                case Tile():
                    yield from (pad + line for line in self.tile(s))
                case Loop():
                    name = "ijk"[loops]
                    # Unrolled around something that diverges, loops lose points where lanes meet again, and accesses
                    # that lanes make together in the source are then made one after the other.
                    if names(s.count) or any(isinstance(inner, (If, Loop)) for inner in s.body):
                        yield f"{pad}#pragma unroll 1"
                    yield f"{pad}for (unsigned {name} = 0; {name} < {text(s.count, _COMPARED)}; {name}++) {{"
                    yield from self.lines(s.body, depth + 1, loops + 1)
                    yield pad + "}"
                case If():
                    yield f"{pad}if ({text(s.left, _COMPARED)} {s.sign} {text(s.right, _COMPARED)}) {{"
                    yield from self.lines(s.body, depth + 1, loops)
                    yield pad + "}"

    def tile(self, s: Tile) -> Iterator[str]:
        name = f"tile{s.width}"
        source = f"(({text(s.source)}) % {self.threads}u)"
        at, other = (f"{name}[{_word(s, t, self.threads)}]" for t in (self.thread, source))
        value = widen(f"({text(s.value)})", s.width)
        yield f"put16(&{at}, {value});" if s.width == 16 and self.kernel.volatile else f"{at} = {value};"
        yield "__syncthreads();"
        yield f"v += {narrow(f'get16(&{other})' if s.width == 16 and self.kernel.volatile else other, s.width)};"
        yield "__syncthreads();"


_LOW8 = "__device__ unsigned low(unsigned long long x) { return (unsigned)x + (unsigned)(x >> 32); }"
_LOW16 = "__device__ unsigned low(uint4 x) { return x.x + x.y + x.z + x.w; }"
_VOLATILE = {
    "load16": """__device__ uint4 load16(const uint4* p) {
    uint4 x;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(__cvta_generic_to_global(p)) : "memory");
    return x;
}""",
    "store16": """__device__ void store16(uint4* p, uint4 x) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
        :: "l"(__cvta_generic_to_global(p)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}""",
    "get16": """__device__ uint4 get16(const uint4* p) {
    uint4 x;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
    return x;
}""",
    "put16": """__device__ void put16(uint4* p, uint4 x) {
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %2, %3, %4};"
        :: "r"((unsigned)__cvta_generic_to_shared(p)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}""",
}


def lines_of(kernel: SmallKernel) -> list[str]:
    """The lines inside the kernel's braces."""
    body = list(_Printer(kernel).lines(kernel.body, 1, 0))
    return ["    unsigned v = 0;", *body] if re.search(r"\bv\b", "\n".join(body)) else body


def _parameters(kernel: SmallKernel) -> list[tuple[str, str, str]]:
    """(name, CUDA type, declaration) of the buffers."""
    found = []
    for width, type_ in TYPES.items():
        volatile = _qualifier(kernel, width)
        restrict = "" if kernel.volatile else " __restrict__"
        if any(isinstance(s, Load) and s.width == width for s in statements(kernel.body)):
            found.append((f"a{width}", type_, f"const {volatile}{type_}*{restrict} a{width}"))
        if any(isinstance(s, Store) and s.width == width for s in statements(kernel.body)):
            found.append((f"out{width}", type_, f"{volatile}{type_}*{restrict} out{width}"))
    if any(isinstance(s, Reduce) for s in statements(kernel.body)):
        found.append(("bins", "unsigned", "unsigned* bins"))
    return found


def _qualifier(kernel: SmallKernel, width: int) -> str:
    """Of a type; accesses of 16 bytes are volatile by their functions."""
    return "volatile " if kernel.volatile and width < 16 else ""


def source(kernel: SmallKernel) -> str:
    """CUDA C++."""
    body = lines_of(kernel)
    joined = "\n".join(body)
    tiles = _tile_words(kernel)
    head = []
    if re.search(r"low\((a8|tile8)\[", joined):
        head.append(_LOW8)
    if re.search(r"low\((load16\(|get16\(|a16\[|tile16\[)", joined):
        head.append(_LOW16)
    head += [function for name, function in _VOLATILE.items() if f" {name}(" in joined or f"({name}(" in joined]
    head = [f"static {line}" for line in head]
    shared = [
        f"    __shared__ __align__(128) {_qualifier(kernel, width)}{TYPES[width]} tile{width}[{size}];"
        for width, size in sorted(tiles.items())
    ]
    declared = ", ".join(declaration for _, _, declaration in _parameters(kernel))
    return "\n".join([*head, f'extern "C" __global__ void {kernel.name}({declared}) {{', *shared, *body, "}", ""])


# ---- sizes


class Bounds:
    """Upper bounds of expressions, from the launch: they decide where an index needs `% LIMIT`."""

    def __init__(self, kernel: SmallKernel) -> None:
        self.known = {name: size - 1 for name, size in zip(THREAD, kernel.block, strict=True)}
        self.known |= {name: size - 1 for name, size in zip(BLOCK, kernel.grid, strict=True)}
        self.known["blockDim.x"] = kernel.block[0]
        self.known |= dict.fromkeys("ijk", 15)

    def most(self, expression: Expression) -> int:
        """No value is larger."""
        match expression:
            case Number(value):
                return value
            case Name(name):
                return self.known.get(name, 2**32 - 1)
            case Binary(sign, left, right):
                a, b = self.most(left), self.most(right)
                bits = (1 << max(a.bit_length(), b.bit_length())) - 1
                found = {
                    "+": a + b,
                    "*": a * b,
                    "&": min(a, b),
                    "<<": a << min(b, 31),
                    ">>": a,
                    "/": a,
                    "%": min(a, max(b - 1, 0)),
                }
                return min(found.get(sign, bits), 2**32 - 1)
        raise TypeError(expression)

    def wrapped(self, expression: Expression) -> Expression:
        """The index, modulo LIMIT if it could be larger."""
        return expression if self.most(expression) < LIMIT else Binary("%", expression, Number(LIMIT))


def buffers(kernel: SmallKernel) -> dict[str, tuple[str, int]]:
    """Name -> (CUDA type, elements) of the kernel's buffers, in the order of its parameters."""
    bounds = Bounds(kernel)
    sizes: dict[str, int] = {}
    for s in statements(kernel.body):
        if isinstance(s, (Load, Store, Reduce)):
            name = "bins" if isinstance(s, Reduce) else f"{'a' if isinstance(s, Load) else 'out'}{s.width}"
            sizes[name] = max(sizes.get(name, 0), bounds.most(bounds.wrapped(s.index)) + 1)
    return {name: (type_, sizes[name]) for name, type_, _ in _parameters(kernel)}


def inputs(kernel: SmallKernel) -> dict[str, NDArray[Any]]:
    """What the buffers hold before the launch, as components."""
    made: dict[str, NDArray[Any]] = {}
    for name, (_, count) in buffers(kernel).items():
        width = 4 if name == "bins" else int(name.removeprefix("a").removeprefix("out"))
        kind = np.dtype(f"u{min(width, 4) if width == 16 else width}")
        size = count * (4 if width == 16 else 1)
        made[name] = np.zeros(size, kind)
        if name != "bins":
            made[name] = np.random.default_rng(_seed(kernel, name)).integers(0, _high(width), size).astype(kind)
    return made


def _seed(kernel: SmallKernel, name: str) -> int:
    """Of a buffer's contents; outputs hold something too, so that a lost store of 0 is seen."""
    return kernel.seed + 1000 * name.startswith("out")


def _high(width: int) -> int:
    return 1 << min(8 * width, 16)


def scenario_text(kernel: SmallKernel, gpu: str = "h200", description: str = "") -> str:
    """A scenario file."""
    arguments = []
    for name, (type_, count) in buffers(kernel).items():
        fill = '"zeros"'
        if name != "bins":
            high = _high(int(name.removeprefix("a").removeprefix("out")))
            fill = f"{{ randint = {high}, seed = {_seed(kernel, name)} }}"
        arguments.append(f'[[arg]]\nname = "{name}"\nbuffer = "{type_}"\ncount = {count}\nfill = {fill}\n')
    parts = [
        "schema = 1",
        f"description = {json.dumps(description or 'A generated kernel')}",
        f'entry = "{kernel.name}"',
        f"gpu = {json.dumps(gpu)}",
        "source = '''",
        source(kernel) + "'''",
        "",
        "[launch]",
        f"grid = {list(kernel.grid)}",
        f"block = {list(kernel.block)}",
        "",
        *arguments,
    ]
    return "\n".join(parts)


# ---- evaluating


@dataclass
class Access:
    """One execution of one access by all warps: byte addresses within `buffer`, a row a warp."""

    buffer: str  # "tile" for shared memory, which lies at a multiple of 128
    op: str  # load, store or red
    width: int
    addresses: NDArray[np.int64]
    active: NDArray[np.bool_]


@dataclass
class Evaluation:
    """What a kernel did: its accesses in order, the buffers afterwards, and where their contents are certain."""

    accesses: list[Access] = field(default_factory=list)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    certain: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    barriers: int = 0  # executed by each thread


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "*": np.multiply, "&": np.bitwise_and, "^": np.bitwise_xor, "|": np.bitwise_or,
    "<<": np.left_shift, ">>": np.right_shift, "/": np.floor_divide, "%": np.remainder,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class _Evaluator:
    """Runs all threads in step, which is one of the orders that the barriers allow."""

    def __init__(self, kernel: SmallKernel) -> None:
        self.kernel = kernel
        threads, ctas = kernel.threads, kernel.ctas
        self.warps = -(-threads // 32)
        self.rows = ctas * self.warps
        lane = np.arange(self.rows * 32)
        self.thread = (lane % (32 * self.warps)).astype(np.uint32)
        cta = (lane // (32 * self.warps)).astype(np.uint32)
        self.cta = cta
        self.exists = self.thread < threads
        x, y, _ = kernel.block
        gx, gy, _ = kernel.grid
        self.values: dict[str, U32] = {
            "threadIdx.x": self.thread % x, "threadIdx.y": self.thread // x % y, "threadIdx.z": self.thread // (x * y),
            "blockIdx.x": cta % gx, "blockIdx.y": cta // gx % gy, "blockIdx.z": cta // (gx * gy),
            "blockDim.x": np.full(lane.size, x, np.uint32), "v": np.zeros(lane.size, np.uint32),
        }  # fmt: skip
        self.values = {name: value.astype(np.uint32) for name, value in self.values.items()}
        self.bounds = Bounds(kernel)
        self.found = Evaluation(arrays=inputs(kernel))
        self.elements = buffers(kernel)
        self.writer = {name: np.full(count, -1, np.int64) for name, (_, count) in self.elements.items()}
        self.found.certain = {name: np.ones(count, np.bool_) for name, (_, count) in self.elements.items()}

    def value(self, expression: Expression) -> U32:
        match expression:
            case Number(value):
                return np.full(self.thread.size, value, np.uint32)
            case Name(name):
                return self.values[name]
            case Binary(sign, left, right):
                result: U32 = _OPERATIONS[sign](self.value(left), self.value(right))
                return result
        raise TypeError(expression)

    def note(self, buffer: str, op: str, width: int, index: U32, mask: NDArray[np.bool_]) -> None:
        rows = (index.astype(np.int64) * width).reshape(-1, 32)
        self.found.accesses.append(Access(buffer, op, width, rows, mask.reshape(-1, 32).copy()))

    def run(self, body: Sequence[Statement], mask: NDArray[np.bool_], loops: int = 0) -> None:
        for s in body:
            match s:
                case Load():
                    index = self.value(self.bounds.wrapped(s.index))
                    self.note(f"a{s.width}", "load", s.width, index, mask)
                    element = _narrow(self.found.arrays[f"a{s.width}"], s.width)[np.where(mask, index, 0)]
                    self.assign(element, mask, s.add)
                case Store():
                    self.store(s, mask)
                case Reduce():
                    index = self.value(self.bounds.wrapped(s.index))
                    self.note("bins", "red", 4, index, mask)
                    np.add.at(self.found.arrays["bins"], index[mask], np.uint32(1))
                case Barrier():
                    self.found.barriers += 1
                case Tile():
                    self.tile(s, mask)
                case Loop():
                    count = self.value(s.count)
                    for i in range(int(count[mask].max(initial=0))):
                        self.values["ijk"[loops]] = np.full(self.thread.size, i, np.uint32)
                        self.run(s.body, mask & (i < count), loops + 1)
                case If():
                    self.run(s.body, mask & _COMPARISONS[s.sign](self.value(s.left), self.value(s.right)), loops)

    def assign(self, element: U32, mask: NDArray[np.bool_], add: bool) -> None:
        before = self.values["v"]
        self.values["v"] = np.where(mask, before + element if add else element, before)

    def store(self, s: Store, mask: NDArray[np.bool_]) -> None:
        name = f"out{s.width}"
        index = self.value(self.bounds.wrapped(s.index))
        self.note(name, "store", s.width, index, mask)
        # An element that two threads write holds either's value.
        who = np.flatnonzero(mask)
        at = index[mask]
        first = self.writer[name]
        order = np.argsort(at, kind="stable")
        same = at[order][1:] == at[order][:-1]
        self.found.certain[name][at[order][1:][same]] = False
        self.found.certain[name][at[(first[at] >= 0) & (first[at] != who)]] = False
        first[at] = who
        array = self.found.arrays[name]
        value = self.value(s.value)[mask]
        if s.width == 16:
            array.reshape(-1, 4)[at] = value[:, None]
        else:
            array[at] = (value.astype(np.uint64) * (0x100000001 if s.width == 8 else 1)).astype(array.dtype)

    def tile(self, s: Tile, mask: NDArray[np.bool_]) -> None:
        threads = self.kernel.threads
        rows = -(-threads // s.columns)

        def word(thread: U32) -> U32:
            row, column = (thread % rows, thread // rows) if s.transposed else (thread // s.columns, thread % s.columns)
            if s.swizzle:
                column = column ^ row * np.uint32(s.swizzle) % np.uint32(s.columns)
            return (row * np.uint32(s.pitch) + column).astype(np.uint32)

        other = self.value(s.source) % np.uint32(threads)
        value = self.value(s.value)
        kept = value & np.uint32((1 << min(8 * s.width, 32)) - 1)
        kept = kept * np.uint32(max(s.width // 4, 1))  # both or all four components are the value
        for op, thread in (("store", self.thread), ("load", other)):
            self.note("tile", op, s.width, word(thread), mask)
        held = kept.reshape(self.kernel.ctas, -1)
        self.assign(np.take_along_axis(held, other.reshape(held.shape).astype(np.int64), axis=1).ravel(), mask, True)
        self.found.barriers += 2


def _narrow(array: NDArray[Any], width: int) -> U32:
    if width == 16:
        total: U32 = array.reshape(-1, 4).sum(axis=1, dtype=np.uint32)
        return total
    if width == 8:
        return array.astype(np.uint32) + (array >> np.uint64(32)).astype(np.uint32)
    return array.astype(np.uint32)


def evaluate(kernel: SmallKernel) -> Evaluation:
    """Run the kernel with NumPy."""
    evaluator = _Evaluator(kernel)
    with np.errstate(over="ignore"):
        evaluator.run(kernel.body, evaluator.exists)
    return evaluator.found


def renamed(kernel: SmallKernel, name: str) -> SmallKernel:
    """The same kernel under another name, to compile many together."""
    return replace(kernel, name=name)


def addresses_of(buffers_: Mapping[str, int], access: Access) -> NDArray[np.int64]:
    """Absolute addresses; shared ones are offsets already."""
    return access.addresses + buffers_.get(access.buffer, 0)


# ---- as data

_NODES = {cls.__name__: cls for cls in (Number, Name, Binary, Load, Store, Reduce, Barrier, Tile, Loop, If)}


def to_data(kernel: SmallKernel) -> dict[str, Any]:
    """JSON from which `from_data` makes the kernel again."""

    def pack(value: Any) -> Any:
        if isinstance(value, tuple):
            return [pack(v) for v in value]
        if type(value).__name__ in _NODES:
            return {type(value).__name__: [pack(getattr(value, f.name)) for f in fields(value)]}
        return value

    return {f.name: pack(getattr(kernel, f.name)) for f in fields(kernel)}


def from_data(data: Mapping[str, Any]) -> SmallKernel:
    """The kernel of `to_data`."""

    def unpack(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(unpack(v) for v in value)
        if isinstance(value, dict):
            ((name, parts),) = value.items()
            return _NODES[name](*(unpack(p) for p in parts))
        return value

    return SmallKernel(**{name: unpack(value) for name, value in data.items()})
