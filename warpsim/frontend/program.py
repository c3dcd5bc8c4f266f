"""A kernel as the hardware sees it: decoded SASS and what its cubin says about it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RZ", "URZ", "Instruction", "Operand", "Parameter", "Program"]

RZ = 255  # register number of the zero register
URZ = 255  # uniform zero register; printed number 63 up to sm_90 and 255 on sm_100 both decode to this


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction.

    `kind` is one of

    - ``reg`` / ``ureg``: `index`; 255 is RZ / URZ; `width64` where printed as `R4.64`
    - ``pred`` / ``upred``: `index` 0-7, 7 is PT / UPT; `invert` for `!`
    - ``imm``: `value`, the raw 32 bits from the encoding (unsigned; signs already applied by the assembler); the two
      printed halves of an fp16 pair are one operand, the first in the high half
    - ``const``: bank `bank` at byte `value` (+ register `index` or uniform register `uindex` where not None)
    - ``addr``: memory address: `index` base register or None (also for RZ), `width64`, `uindex` uniform register or
      None, `value` signed byte offset, `scale` 1, 4, 8 or 16; suffixes of the registers are in `modifiers` (``U32``;
      ``UR.64`` for the uniform one)
    - ``desc``: memory descriptor, before its address; no influence on it
    - ``special``: `name` of the special register
    - ``label``: `value` target as instruction index; ``function``: `name`, `value` its first
      instruction, -1 where it is not in the program
    - ``barrier``: convergence barrier B`index`
    - ``scoreboard``: SB`index`
    - ``predset``: PR, all predicates (P2R, R2P)
    - ``unknown``: `name` as printed (descriptors of tensor-core and bulk-copy instructions)

    `negate` is `-`, `invert` is `~` or `!`, `absolute` is `|x|`; `modifiers` are the suffixes
    (``H0_H0``, ``H1_H1``, ``B1``, ``F32`` ...) without `reuse`.
    """

    kind: str
    index: int | None = None
    value: int = 0
    bank: int = 0
    uindex: int | None = None
    scale: int = 1
    width64: bool = False
    negate: bool = False
    invert: bool = False
    absolute: bool = False
    name: str = ""
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction: `index` is pc / 16.

    `opcode` is the base (``LDG``), `modifiers` its suffixes in order (``("E", "CONSTANT")``), `operands`
    in printed order, destinations first. `guard` is None or a pred/upred operand. `text` is the printed form.
    `stall` cycles, `yield_`, `write_barrier` and `read_barrier` (0-5, or 7 for none) and `wait_mask`
    (six bits) are the control bits. `line` is the source line (0 unknown) of file `file` in `Program.files`.
    """

    index: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None
    stall: int
    yield_: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int
    line: int
    file: int
    text: str
    encoding: int  # 128 bits


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte `offset` from the parameter base of constant bank 0, `size` in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class Program:
    """One kernel of a cubin, ready to execute; equal to itself alone, and what is built from it is kept for it.

    `banks` holds constant banks 2, 3 and 4 as they are in the cubin (bank 0 is made at launch; bank 4 gets
    the addresses of `globals_` from `relocations`: (bank 4 offset, offset within globals)). `pointers` are 64-bit
    addresses of globals that initial values hold: (bank 3, or -1 for `globals_`; offset; offset within globals).
    `externals` names the driver's functions (vprintf, __assertfail) whose address belongs at an offset of bank 4.
    `shared` is the static shared size in bytes without the reserved part, which is `reserved_shared`. `local` is the
    bytes of local memory (stack) a thread needs. `functions` maps local device functions to their first instruction
    index when a CALL names one (they lie in `instructions` too). `branch_targets` maps the index of a BRX
    instruction to its possible targets.
    """

    arch: int  # 90 for sm_90
    entry: str  # mangled name
    name: str  # as C++ writes it
    instructions: tuple[Instruction, ...]
    parameters: tuple[Parameter, ...]
    parameter_base: int
    registers: int
    shared: int
    reserved_shared: int
    local: int
    max_threads: int  # from __launch_bounds__, 1024 without
    files: tuple[str, ...]
    banks: dict[int, bytes] = field(default_factory=dict)
    globals_: bytes = b""
    relocations: tuple[tuple[int, int], ...] = ()
    pointers: tuple[tuple[int, int, int], ...] = ()
    externals: tuple[tuple[int, str], ...] = ()
    functions: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[int, tuple[int, ...]] = field(default_factory=dict)
    compiler: str = ""  # "NVRTC 13.0.88"
    key: str = ""  # hash of code, data and layout, not of source lines: what compiled code is cached by
