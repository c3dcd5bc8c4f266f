"""GPU profiles: frozen specs, one per hardware component, read from `gpus/*.toml`.

Every figure in a profile is `{ value =, unit =, source = }`. The source is a vendor document, `measured: ...`,
`fitted: ...` (chosen so that end-to-end times agree) or `assumed` (nothing known: the H200's figure stands in).
A component of the machine answers to its spec alone; a mechanism is switched off by its figure (`dataclasses.replace`).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from warpsim.errors import InputError

__all__ = [
    "DRAM", "L1", "L2", "SM", "Crossbar", "Figure", "Gpu", "Launch", "Occupancy", "Peaks", "Shared", "assumed_numbers",
    "carveout_kib", "gpu_names", "load_gpu", "occupancy",
]  # fmt: skip

PROFILES = Path(__file__).parent / "gpus"


@dataclass(frozen=True)
class SM:
    """Residency limits and instruction issue of one SM."""

    count: int
    clock_mhz: float
    schedulers: int
    max_warps: int
    max_ctas: int
    max_threads_per_cta: int
    registers: int
    register_unit: int  # registers are given to a warp in units of this many
    max_registers_per_thread: int
    warp_unit: int  # warps of a CTA are counted in units of this many for registers
    int_cycles: float  # scheduler cycles of one warp instruction on the integer pipe
    fma_cycles: float
    imad_cycles: float  # on the part of the FMA pipe that multiplies integers and halves
    fp64_cycles: float
    xu_cycles: float
    register_ports: int  # reads a cycle of each of a scheduler's two banks of registers
    packing_power: float  # of the norm by which long runs of plain instructions crowd each other (machine/build.py)
    branch_latency: int  # cycles of a branch that is taken, beyond its stall cycles
    barrier_latency: int  # cycles from the last arrival to the warps' going on


@dataclass(frozen=True)
class L1:
    """L1TEX: tag stage, data stage, sectored cache, outstanding misses and stores."""

    total_kib: int  # L1 and shared memory together
    reserved_kib: int  # of it, not usable as cache
    line_bytes: int
    sector_bytes: int
    tag_banks: int
    tag_bank_masks: tuple[int, int]  # bank bit 0, 1 = parity of line number & mask
    hit_latency: int  # issue to use of a load that hits
    return_latency: int  # data at the SM's port to use
    store_wavefronts: int  # data-stage cycles of a store beyond its wavefronts
    miss_wavefronts: int  # data-stage cycles of a load with misses beyond its wavefronts
    store_merge_cycles: int  # a store's lines wait so long to take in later stores to the same lines
    store_merge_lines: int  # so many of an SM's last store lines can, those of stores to fewer lines; 0: none
    fill_wavefronts: float  # data-stage cycles of each line that comes back
    line_limit: int  # line misses outstanding, an SM
    store_limit: int  # lines of stores not yet acknowledged, an SM; 0: no limit
    queue: int  # memory instructions of a scheduler that can wait for the LSU


@dataclass(frozen=True)
class Shared:
    """Shared memory: capacity and latency; its wavefronts use the data stage of L1TEX."""

    banks: int
    bank_bytes: int
    carveouts_kib: tuple[int, ...]
    max_per_sm_kib: int
    max_per_cta_kib: int
    reserved_per_cta_kib: int
    default_carveout_kib: int  # of kernels that use no shared memory
    latency: int


@dataclass(frozen=True)
class Crossbar:
    """SM to L2 and back: one request and one return port an SM; reads of one line by SMs of a GPC merge."""

    gpcs: int
    merge_requests: int  # reads of SMs of a GPC that one request to L2 can serve; 1: none merge
    request_latency: int  # cycles
    return_latency: int
    request_cycles: float  # port cycles of a request
    store_sector_cycles: float  # port cycles of each stored sector, those of the request included
    return_sector_cycles: float  # port cycles of each returned sector


@dataclass(frozen=True)
class L2:
    """Sliced, sectored, write-back cache in one or two partitions."""

    clock_mhz: float
    size_bytes: int
    partitions: int
    slices: int
    interleave_bytes: int  # consecutive bytes that belong to one slice
    sets: int  # a slice
    ways: int
    dirty_ways: int  # of a set; 0: no limit
    kept_age: int  # lines that come into a set by which one that is dirty or was hit outlasts another
    near_copies: int  # 1: data of the far side that is read or written has a copy on the near side
    sector_cycles: float  # L2 cycles of a sector
    request_cycles: float  # L2 cycles of a request at least
    write_sector_cycles: float  # L2 cycles of a wholly written sector in each slice it goes to
    partial_write_cycles: float  # L2 cycles of a sector of which one word is written; less with more bytes
    atomic_request_cycles: float  # L2 cycles of an atomic operation or reduction of a warp on a line
    atomic_word_cycles: float  # beyond that, of each of its words
    atomic_return_cycles: float  # and of each sector, where old values go back
    atomic_cycles: float  # of each sector at least, and of each further operation on the same word
    atomic_latency: int  # SM cycles from there until the result of an atomic leaves the slice
    latency: int  # SM cycles in the slice
    hop_latency: int  # SM cycles from one partition to the other, one way
    fetch_bytes: int  # brought from DRAM by a read miss
    partial_lines: int  # partly written lines a slice keeps waiting for the rest; 0: any number


@dataclass(frozen=True)
class DRAM:
    """Channels with reads first, writes drained in batches, and a limit on row activations."""

    channels: int
    bandwidth_gbs: float  # all channels
    efficiency: float  # of it, what refresh leaves
    latency: int  # SM cycles of a read beyond its time on the channel
    latency_tail: float  # mean of the exponential part, where nothing else moves
    loaded_tail: float  # the same at the full data rate; between, in proportion
    far_latency: int  # beyond it, when the SM is on the other side
    piece_bytes: int  # consecutive bytes on one row of a channel
    activation_ns: float  # channel time that a row activation takes at least
    write_activation_ns: float  # the same of a write-back, among others that are drained with it
    row_ns: float  # channel time lost when the row changes
    open_pieces: int  # pieces a channel keeps open
    clump_bytes: int  # consecutive bytes that go to one channel
    drain_interval: int  # SM cycles after which waiting writes are drained
    drain_cycles: int  # SM cycles of channel time that waiting writes fill before they are drained
    turnaround: int  # SM cycles lost to a drain
    write_queue: int  # SM cycles of write backlog from which a store is acknowledged late; 0: never


@dataclass(frozen=True)
class Launch:
    """From the launch of a kernel to its first and last instructions."""

    fixed_ns: float
    dispatch_cycles: float  # between two CTAs, the whole GPU
    slot_turnaround: int  # from a CTA's last exit to the launch of the next in its place
    cold_start: int  # from the first launch on an SM to its first issue, code and constants coming through cold caches
    warp_start: int  # from the launch of a CTA to its warps' first issue


@dataclass(frozen=True)
class Peaks:
    """Peak rates, TFLOP/s dense; 0 where no source gives one."""

    fp32: float
    fp64: float
    fp16: float
    tensor_fp16: float
    tensor_tf32: float
    dram_gbs: float


@dataclass(frozen=True)
class Figure:
    """Where one number of a profile comes from."""

    value: Any
    unit: str
    source: str


@dataclass(frozen=True)
class Gpu:
    """A whole profile; `figures` maps `component.name` to value, unit and source."""

    name: str
    title: str
    arch: str  # sm_90
    checked: bool  # times were compared with this GPU
    sm: SM
    l1: L1
    shared: Shared
    crossbar: Crossbar
    l2: L2
    dram: DRAM
    launch: Launch
    peaks: Peaks
    figures: Mapping[str, Figure] = field(repr=False, compare=False)

    @property
    def clock_hz(self) -> float:
        """The SM clock in Hz."""
        return self.sm.clock_mhz * 1e6

    def __hash__(self) -> int:
        return hash((self.name, self.sm, self.l1, self.l2, self.dram))


_COMPONENTS: dict[str, type] = {
    "sm": SM, "l1": L1, "shared": Shared, "crossbar": Crossbar, "l2": L2, "dram": DRAM, "launch": Launch,
    "peaks": Peaks,
}  # fmt: skip


def _normal(name: str) -> str:
    name = name.strip().lower()
    for word in ("nvidia", "geforce", "tesla", "graphics", "sxm5", "sxm4", "sxm"):
        name = name.replace(word, "")
    return "".join(c for c in name if c.isalnum() or c == ".")


@cache
def _aliases() -> dict[str, Path]:
    """Every way a user may write a shipped GPU, normalised."""
    known: dict[str, Path] = {}
    for path in sorted(PROFILES.glob("*.toml")):
        head = tomllib.loads(path.read_text(encoding="utf-8"))["gpu"]
        for name in (path.stem, *head["aliases"]):
            known[_normal(name)] = path
    return known


def gpu_names() -> list[str]:
    """Names of the shipped profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def load_gpu(name: str | Path) -> Gpu:
    """The profile of that name, alias (H200, sm_90, 9.0, "NVIDIA H200") or TOML file."""
    text = str(name)
    if text.endswith(".toml") or "/" in text:
        path = Path(text)
        if not path.is_file():
            raise InputError(f"gpu: no such file: {text}")
        return _read(path.resolve())
    found = _aliases().get(_normal(text))
    if found is None:
        near = difflib.get_close_matches(_normal(text), _aliases(), n=1)
        hint = f", did you mean {_aliases()[near[0]].stem}?" if near else ""
        raise InputError(f"gpu: unknown GPU {text!r}{hint} (known: {', '.join(gpu_names())}, or a path to a .toml)")
    return _read(found)


@cache
def _read(path: Path) -> Gpu:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: not a GPU profile: {error}") from None
    head = table.pop("gpu", None)
    if not isinstance(head, dict) or {"title", "arch", "checked"} - head.keys():
        raise InputError(f"{path}: [gpu] needs title, arch and checked")
    unknown = table.keys() - _COMPONENTS.keys()
    if unknown:
        raise InputError(f"{path}: unknown table [{min(unknown)}], allowed: {', '.join(_COMPONENTS)}")
    figures: dict[str, Figure] = {}
    parts = {name: _component(path, name, kind, table.get(name, {}), figures) for name, kind in _COMPONENTS.items()}
    gpu = Gpu(
        name=path.stem, title=head["title"], arch=head["arch"], checked=bool(head["checked"]), figures=figures, **parts
    )
    _check(path, gpu)
    return gpu


def _component(path: Path, name: str, kind: type, table: dict[str, Any], figures: dict[str, Figure]) -> Any:
    wanted = {f.name: str(f.type) for f in fields(kind)}
    if unknown := table.keys() - wanted.keys():
        raise InputError(f"{path}: [{name}] has unknown key {min(unknown)!r}, allowed: {', '.join(wanted)}")
    if missing := wanted.keys() - table.keys():
        raise InputError(f"{path}: [{name}] lacks {min(missing)!r}")
    values: dict[str, Any] = {}
    for key, kind_name in wanted.items():
        entry = table[key]
        where = f"{path}: {name}.{key}"
        if not isinstance(entry, dict) or entry.keys() != {"value", "unit", "source"}:
            raise InputError(f'{where}: write {{ value = ..., unit = "...", source = "..." }}')
        value = entry["value"]
        if kind_name.startswith("tuple"):
            if not isinstance(value, list) or not all(isinstance(v, int) and v >= 0 for v in value):
                raise InputError(f"{where}: expected a list of integers, got {value!r}")
            value = tuple(value)
        elif isinstance(value, bool) or not isinstance(value, int if kind_name == "int" else (int, float)) or value < 0:
            raise InputError(
                f"{where}: expected a non-negative {'integer' if kind_name == 'int' else 'number'}, got {value!r}"
            )
        values[key] = float(value) if kind_name == "float" else value
        figures[f"{name}.{key}"] = Figure(value, str(entry["unit"]), str(entry["source"]))
    return kind(**values)


def _check(path: Path, gpu: Gpu) -> None:
    """What the machine relies on."""
    rules = [
        (gpu.sm.max_warps <= 64, "sm.max_warps: at most 64"),
        (gpu.sm.schedulers in (1, 2, 4), "sm.schedulers: 1, 2 or 4"),
        (gpu.l1.line_bytes == 128 and gpu.l1.sector_bytes == 32, "l1: lines of 128 B and sectors of 32 B only"),
        (len(gpu.l1.tag_bank_masks) == 2, "l1.tag_bank_masks: two masks"),
        (gpu.l2.partitions in (1, 2), "l2.partitions: 1 or 2"),
        (gpu.l2.slices % gpu.l2.partitions == 0, "l2.slices: a multiple of l2.partitions"),
        (0 < gpu.l2.ways <= 32, "l2.ways: 1 to 32"),
        (gpu.l1.tag_banks == 4, "l1.tag_banks: 4 only"),
        (gpu.l1.total_kib <= 256, "l1.total_kib: at most 256"),
        (gpu.l1.store_merge_lines <= 64, "l1.store_merge_lines: at most 64"),
        (1 <= gpu.l1.queue <= 16, "l1.queue: 1 to 16"),
        (
            gpu.sm.count * (gpu.l1.line_limit + gpu.l1.store_limit + 5000) < 1 << 24,
            "sm.count x (l1.line_limit + l1.store_limit): below 16 million",
        ),
        (gpu.l2.fetch_bytes in (32, 64, 128), "l2.fetch_bytes: 32, 64 or 128"),
        (gpu.dram.piece_bytes >= 128, "dram.piece_bytes: at least a line"),
        (min(gpu.crossbar.request_latency, gpu.crossbar.return_latency, gpu.dram.latency) > 0, "latencies: at least 1"),
        (
            min(gpu.sm.count, gpu.l2.slices, gpu.dram.channels, gpu.sm.clock_mhz, gpu.l2.clock_mhz) > 0,
            "counts: above 0",
        ),
    ]
    for holds, rule in rules:
        if not holds:
            raise InputError(f"{path}: {rule}")


def assumed_numbers(gpu: Gpu) -> list[str]:
    """Names (`component.key`) of the figures that no source gives."""
    return [name for name, figure in gpu.figures.items() if figure.source.startswith("assumed")]


@dataclass(frozen=True)
class Occupancy:
    """How many CTAs fit on an SM, and what stops one more."""

    ctas_per_sm: int
    limiter: str  # warps | ctas | registers | shared
    warps_per_sm: int
    carveout_kib: int


def carveout_kib(gpu: Gpu, ctas: int, shared_bytes: int) -> int:
    """The smallest shared-memory carve-out that holds so many CTAs."""
    if shared_bytes == 0:
        return gpu.shared.default_carveout_kib
    need = ctas * (shared_bytes + gpu.shared.reserved_per_cta_kib * 1024)
    return next((size for size in gpu.shared.carveouts_kib if size * 1024 >= need), gpu.shared.max_per_sm_kib)


def occupancy(gpu: Gpu, threads: int, registers: int, shared_bytes: int, *, carveout: int | None = None) -> Occupancy:
    """CTAs an SM holds: limits by warps, CTAs, registers (given out per warp) and shared memory (KiB `carveout`)."""
    if not 0 < threads <= gpu.sm.max_threads_per_cta:
        raise InputError(f"block of {threads} threads: 1 to {gpu.sm.max_threads_per_cta} allowed")
    if registers > gpu.sm.max_registers_per_thread:
        raise InputError(f"{registers} registers a thread: at most {gpu.sm.max_registers_per_thread}")
    if shared_bytes > gpu.shared.max_per_cta_kib * 1024:
        raise InputError(
            f"{shared_bytes} bytes of shared memory a CTA: at most {gpu.shared.max_per_cta_kib * 1024} on {gpu.name}"
        )
    warps = -(-threads // 32)
    per_warp = -(-max(registers, 1) * 32 // gpu.sm.register_unit) * gpu.sm.register_unit
    fitting = gpu.sm.registers // gpu.sm.warp_unit // per_warp * gpu.sm.warp_unit  # each sub-partition has its own
    room = (gpu.shared.max_per_sm_kib if carveout is None else carveout) * 1024
    limits = {
        "warps": gpu.sm.max_warps // warps,
        "ctas": gpu.sm.max_ctas,
        "registers": fitting // warps,
        "shared": room // (shared_bytes + gpu.shared.reserved_per_cta_kib * 1024) if shared_bytes else 10**9,
    }
    limiter = min(limits, key=lambda name: limits[name])
    ctas = limits[limiter]
    if ctas == 0:
        raise InputError(
            f"no CTA fits on an SM of {gpu.name}: {threads} threads, {registers} registers, "
            f"{shared_bytes} bytes shared ({limiter})"
        )
    chosen = carveout_kib(gpu, ctas, shared_bytes) if carveout is None else carveout
    return Occupancy(ctas, limiter, ctas * warps, chosen)
