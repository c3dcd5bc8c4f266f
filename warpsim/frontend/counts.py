"""Exact counters of an executed launch, under Nsight Compute's names, for the kernel and for each source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontend import context as ctx
from warpsim.frontend.blocks import fp_kind
from warpsim.frontend.faults import place_of
from warpsim.frontend.program import Instruction

if TYPE_CHECKING:
    from warpsim.frontend.simt import Executor

__all__ = ["Counts", "count", "thread_instructions"]

_GLOBAL = {
    "LDG": "ld",
    "LD": "ld",
    "STG": "st",
    "ST": "st",
    "ATOMG": "atom",
    "ATOM": "atom",
    "RED": "red",
    "REDG": "red",
}
_SHARED = {"LDS": "ld", "LDSM": "ld", "STS": "st", "ATOMS": "atom"}
_LOCAL = {"LDL": "ld", "STL": "st"}
_LSU = {*_GLOBAL, *_SHARED, *_LOCAL, "LDGSTS", "SHFL", "S2R"}
_OTHER_FP = {
    "FMNMX",
    "FMNMX3",
    "FSETP",
    "FSET",
    "FSEL",
    "MUFU",
    "FRND",
    "FCHK",
    "F2F",
    "F2I",
    "I2F",
    "I2FP",
    "DSETP",
    "DMNMX",
    "HSETP2",
    "HMNMX2",
}
_DATA_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


@dataclass
class Counts:
    """`metrics` and `ideal` are for the kernel; `lines` as `warpsim.result.build_result` takes them."""

    metrics: dict[str, int] = field(default_factory=dict)
    ideal: dict[str, int] = field(default_factory=dict)
    requested_bytes: dict[str, int] = field(default_factory=dict)
    useful_bytes: dict[str, int] = field(default_factory=dict)
    touched: dict[str, int] = field(
        default_factory=dict
    )  # bytes from the start of each buffer to the last one accessed
    shared_requests: dict[str, int] = field(default_factory=dict)
    other_ops: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)


def _per_instruction(executor: Executor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(executed warp instructions, executed thread instructions with a true guard) of each instruction, as counted."""
    executed = np.zeros(executor.instructions, np.int64)
    lanes = np.zeros(executor.instructions, np.int64)
    for b, (first, count) in enumerate(executor.code.blocks):
        executed[first : first + count] += executor.executed[b]
        lanes[first : first + count] += executor.lanes[b]
    for index in executor.code.guarded_fp:
        lanes[index] = executor.fp_lanes[index]
    executed += executor.stats[:, ctx.S_REISSUED]
    for index in _shared_barriers(executor.program.instructions):
        executed[index] *= 2
    return executed, lanes


def _shared_barriers(code: Sequence[Instruction]) -> list[int]:
    """BSYNC after collectives of several places that use one barrier: the H200 counts each twice."""
    after = [i for i in code if i.opcode == "BSYNC" and code[i.index - 1].opcode == "ENDCOLLECTIVE"]
    uses = Counter(i.operands for i in after)
    return [i.index for i in after if uses[i.operands] > 1]


def thread_instructions(executor: Executor) -> int:
    """Thread instructions executed, whatever their guards."""
    return int(sum(executor.lanes[b] * count for b, (_, count) in enumerate(executor.code.blocks)))


def _instruction_metrics(
    executor: Executor, i: Instruction, executed: int, lanes: int, put: Callable[..., None]
) -> None:
    """Report what one instruction counted: put(name, value, ideal=None)."""
    put("smsp__inst_executed.sum", executed)
    kind = fp_kind(i)
    if kind:
        put(f"smsp__sass_thread_inst_executed_op_{kind}_pred_on.sum", lanes)
    if i.opcode in _LSU and not any(o.kind == "special" and "CTAID" in o.name.upper() for o in i.operands):
        put("smsp__inst_executed_pipe_lsu.sum", executed)
    s = executor.stats[i.index]
    if i.opcode in _GLOBAL:
        op = _GLOBAL[i.opcode]
        put(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum", s[ctx.S_REQUESTS])
        put(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum", s[ctx.S_SECTORS], s[ctx.S_IDEAL_SECTORS])
        if op == "ld":
            put("l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum", s[ctx.S_TAG_WAVEFRONTS])
        put("l1tex__data_pipe_lsu_wavefronts.sum", s[ctx.S_DATA_WAVEFRONTS])
    elif i.opcode == "LDGSTS":
        # Counted with the global loads as well; its shared side has counters of its own.
        put("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", s[ctx.S_REQUESTS])
        put("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", s[ctx.S_SECTORS], s[ctx.S_IDEAL_SECTORS])
        put("l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum", s[ctx.S_TAG_WAVEFRONTS])
        way = "bypass" if "BYPASS" in i.modifiers else "access"
        put(f"sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_{way}.sum", s[ctx.S_REQUESTS])
        put(
            f"sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_{way}.sum",
            s[ctx.S_SECTORS],
            s[ctx.S_IDEAL_SECTORS],
        )
        put("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum", s[ctx.S_IDEAL_WAVEFRONTS])
        put("l1tex__data_pipe_lsu_wavefronts.sum", s[ctx.S_IDEAL_WAVEFRONTS])
    elif i.opcode in _SHARED:
        op = _SHARED[i.opcode]
        put(f"{_WAVEFRONTS}_op_{op}.sum", s[ctx.S_DATA_WAVEFRONTS], s[ctx.S_IDEAL_WAVEFRONTS])
        put(f"{_DATA_CONFLICTS}_op_{op}.sum", s[ctx.S_CONFLICTS])
        put(f"{_WAVEFRONTS}.sum", s[ctx.S_DATA_WAVEFRONTS])
        put(f"{_DATA_CONFLICTS}.sum", s[ctx.S_CONFLICTS])
        put("l1tex__data_pipe_lsu_wavefronts.sum", s[ctx.S_DATA_WAVEFRONTS])
        if i.opcode == "LDSM":
            put("smsp__inst_executed_op_ldsm.sum", s[ctx.S_REQUESTS])
        elif op in ("ld", "st"):
            put(f"smsp__sass_inst_executed_op_shared_{op}.sum", s[ctx.S_REQUESTS])  # with an active lane
    elif i.opcode in _LOCAL:
        op = _LOCAL[i.opcode]
        put(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum", s[ctx.S_REQUESTS])
        put(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", s[ctx.S_SECTORS], s[ctx.S_IDEAL_SECTORS])
        put("l1tex__data_pipe_lsu_wavefronts.sum", s[ctx.S_DATA_WAVEFRONTS])


def _touched(executor: Executor, counts: Counts) -> None:
    counts.useful_bytes = {"read": 0, "write": 0, "write_sectors": 0}
    for k, name in enumerate(executor.buffer_names):
        row = executor.buffers[k]
        if row[ctx.B_HIGH] <= row[ctx.B_LOW]:
            counts.touched[name] = 0
            continue
        counts.touched[name] = int(row[ctx.B_HIGH] - row[ctx.B_BASE])
        first = int(row[ctx.B_LOW] - row[ctx.B_BASE]) // 128
        last = int(row[ctx.B_HIGH] - row[ctx.B_BASE] - 1) // 128 + 1
        for way, bits in (("read", executor.read_bits[k]), ("write", executor.write_bits[k])):
            words = bits.view(np.uint32)[first:last]
            for begin in range(0, len(words), 1 << 20):
                counts.useful_bytes[way] += 4 * int(np.bitwise_count(words[begin : begin + (1 << 20)]).sum())
            if way == "write":
                counts.useful_bytes["write_sectors"] += int(np.count_nonzero(words.view(np.uint8)))


def _worst(executor: Executor, index: int) -> dict[str, Any]:
    """The request of an instruction with the most sectors or wavefronts: mask of active lanes, 32 byte addresses."""
    row = executor.worst[index]
    active = int(row[ctx.W_ACTIVE])
    if not active:
        return {}
    on = (active >> np.arange(32)) & 1
    return {"worst": {"active": active & 0xFFFFFFFF, "addresses": (row[ctx.W_ADDRESSES :] * on).tolist()}}


def count(executor: Executor) -> Counts:
    """Everything the executor counted."""
    program = executor.program
    executed, lanes = _per_instruction(executor)
    counts = Counts()
    widths = {int(a[ctx.O_INDEX]): int(a[ctx.O_WIDTH]) for a in executor.code.accesses}
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    for i in program.instructions:
        ran = int(executed[i.index])
        if not ran:
            continue
        line = lines.setdefault((i.file, i.line), {"metrics": {}, "ideal": {}, "accesses": []})

        def put(name: str, value: int, ideal: int | None = None, line: dict[str, Any] = line) -> None:
            for table in (counts.metrics, line["metrics"]):
                table[name] = table.get(name, 0) + int(value)
            if ideal is not None:
                for table in (counts.ideal, line["ideal"]):
                    table[name] = table.get(name, 0) + int(ideal)

        _instruction_metrics(executor, i, ran, int(lanes[i.index]), put)
        if i.opcode in _OTHER_FP:
            counts.other_ops[i.opcode] = counts.other_ops.get(i.opcode, 0) + int(lanes[i.index])
        space = (
            "global"
            if i.opcode in _GLOBAL or i.opcode == "LDGSTS"
            else "shared"
            if i.opcode in _SHARED
            else "local"
            if i.opcode in _LOCAL
            else ""
        )
        if space:
            access = {"op": i.opcode, "space": space, "index": i.index, "width": widths[i.index]}
            line["accesses"].append(access | _worst(executor, i.index))
    for i in program.instructions:
        threads = int(executor.stats[i.index, ctx.S_THREADS])
        if not threads:
            continue
        if i.opcode in _GLOBAL or i.opcode == "LDGSTS":
            op = _GLOBAL.get(i.opcode, "ld")
            counts.requested_bytes[op] = counts.requested_bytes.get(op, 0) + threads * widths[i.index]
        if i.opcode in _SHARED and _SHARED[i.opcode] in ("ld", "st"):
            op = _SHARED[i.opcode]
            counts.shared_requests[op] = counts.shared_requests.get(op, 0) + int(
                executor.stats[i.index, ctx.S_REQUESTS]
            )
    _touched(executor, counts)
    for k, note in enumerate(executor.notes):
        if note & 2:
            counts.notes.append(
                "an unknown value was assumed to be ordinary (no sentinel, no slow path of a division or root) "
                f"at {place_of(program, k)}"
            )
        if note & 4:
            counts.notes.append(f"what printf itself executes is not counted, at {place_of(program, k)}")
        if note & 1:
            counts.unknowns.append(
                f"the result of {program.instructions[k].opcode} is not modelled, at {place_of(program, k)}"
            )
    for name, row in zip(executor.buffer_names, executor.buffers, strict=False):
        if row[ctx.B_DIRTY]:
            counts.unknowns.append(f"buffer '{name}' has unknown contents in part: the kernel stored unknown values")
    counts.lines = _lines(executor, lines)
    return counts


def _lines(executor: Executor, table: dict[tuple[int, int], dict[str, Any]]) -> list[dict[str, Any]]:
    program = executor.program
    source = executor.launch.source.splitlines()
    out = []
    for (file, number), entry in sorted(table.items()):
        name = program.files[file] if number and file < len(program.files) else ""
        own = Path(name).name == Path(executor.launch.kernel).name or (
            name and not Path(name).is_absolute() and file == 0
        )
        text = source[number - 1].strip() if own and 0 < number <= len(source) else ""
        out.append({"file": Path(name).name if name else "", "line": number, "text": text, **entry})
    return out
