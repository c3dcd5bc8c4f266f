"""Every metric that warpsim reports: Nsight Compute's name, unit, meaning, what it is compared with.

Values are in base units: nanoseconds, bytes, sectors, cycles, percent. `REQUIRED` metrics are in every Result;
`OPTIONAL` ones where a kernel uses local memory, LDGSTS or shared atomics; `RATIOS` are not stored, because they
follow from the others, but `explain` knows them and says where a Result keeps the same figure.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from warpsim.errors import InputError

__all__ = [
    "FLOP_WEIGHTS", "METRICS", "OPTIONAL", "RATIOS", "REQUIRED", "Metric", "expand", "explain", "find",
    "global_requests", "global_sectors", "shared_conflicts", "shared_wavefronts",
]  # fmt: skip

EXACT = "equal, integer for integer, for whole kernels"
ALONE = "equal for a warp that runs alone; under load the counter also holds conflicts that no address explains"
CLOSE = "within the tolerance that the comparison prints"


@dataclass(frozen=True, slots=True)
class Metric:
    """One counter; `agreement` is ``exact``, ``isolated`` or ``tolerance``: how prediction and GPU must agree."""

    name: str
    unit: str
    meaning: str
    compared: str
    agreement: str = "tolerance"
    nvprof: tuple[str, ...] = ()
    derived: str = ""  # for ratios: where in Result.derived


def expand(pattern: str) -> list[str]:
    """Expand the first and all further ``{a,b}`` groups of a name, in order."""
    head, brace, rest = pattern.partition("{")
    if not brace:
        return [pattern]
    choices, _, tail = rest.partition("}")
    return [head + choice + end for choice in choices.split(",") for end in expand(tail)]


def global_requests(op: str) -> str:
    """Name of the request counter of global `op`: ld, st, atom or red."""
    return f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"


def global_sectors(op: str) -> str:
    """Name of the sector counter of global `op`: ld, st, atom or red."""
    return f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"


def shared_wavefronts(op: str) -> str:
    """Name of the data-stage wavefront counter of shared `op`: ld or st."""
    return f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"


def shared_conflicts(op: str) -> str:
    """Name of the bank-conflict counter of shared `op`: ld or st."""
    return f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"


_OPS = {
    "ld": ("loads", ("global_load_requests",), ("gld_transactions",)),
    "st": ("stores", ("global_store_requests",), ("gst_transactions",)),
    "atom": ("atomics whose result is used", ("global_atom_requests",), ("atomic_transactions",)),
    "red": ("atomics whose result is unused (RED)", ("global_red_requests",), ()),
}

_FLOAT = {
    "fadd": ("fp32 additions and subtractions", ("flop_count_sp_add",)),
    "fmul": ("fp32 multiplications", ("flop_count_sp_mul",)),
    "ffma": ("fp32 fused multiply-adds", ("flop_count_sp_fma",)),
    "dadd": ("fp64 additions and subtractions", ("flop_count_dp_add",)),
    "dmul": ("fp64 multiplications", ("flop_count_dp_mul",)),
    "dfma": ("fp64 fused multiply-adds", ("flop_count_dp_fma",)),
    "hadd": ("fp16 additions and subtractions", ("flop_count_hp_add",)),
    "hmul": ("fp16 multiplications", ("flop_count_hp_mul",)),
    "hfma": ("fp16 fused multiply-adds", ("flop_count_hp_fma",)),
}

FLOP_WEIGHTS: dict[str, tuple[str, int]] = {
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": (
        {"f": "fp32", "d": "fp64", "h": "fp16"}[op[0]],
        2 if op.endswith("fma") else 1,
    )
    for op in _FLOAT
}
"""Metric -> (precision, FLOPs an instruction): additions + multiplications + 2 x fused multiply-adds."""


def _required() -> list[Metric]:
    table = [
        Metric(
            "gpu__time_duration.sum", "ns", "time from the start to the end of the kernel",
            "the machine's finish time at the stated SM clock, launch time included", nvprof=("duration", "gpu_time"),
        )
    ]  # fmt: skip
    for op, (what, requests, _) in _OPS.items():
        table.append(
            Metric(
                global_requests(op), "requests", f"requests to L1TEX by global {what}: one a warp instruction",
                "warp instructions executed with at least one active lane", "exact", requests,
            )
        )  # fmt: skip
    for op, (what, _, sectors) in _OPS.items():
        compared = "distinct 32 B sectors over the bytes of all active lanes, summed over requests"
        if op in ("atom", "red"):
            compared = "per sector the most lanes on one word of it, summed over sectors and requests"
        table.append(
            Metric(
                global_sectors(op), "sectors", f"32 B sectors that global {what} ask L1TEX for", compared, "exact",
                sectors,
            )
        )  # fmt: skip
    table += [
        Metric(
            f"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_{kind}.sum", "sectors",
            f"sectors of global loads that {'were present in L1' if kind == 'hit' else 'had to come from L2'}",
            "L1 look-ups of the modelled cache; a sector still under way counts as a miss" if kind == "miss"
            else "L1 look-ups of the modelled cache",
        )
        for kind in ("hit", "miss")
    ]  # fmt: skip
    table += [
        Metric(
            "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum", "wavefronts",
            "passes of global loads through the L1 tag stage (four tag banks, one tag each)",
            "largest number of distinct lines in one tag bank, summed over requests", "isolated",
        ),
        Metric(
            "l1tex__data_pipe_lsu_wavefronts.sum", "wavefronts",
            "passes through the L1 data stage: shared, global and local accesses, fills included",
            "address rule of every access; the GPU's counter lies above it under load", "isolated",
        ),
    ]  # fmt: skip
    for op, what, old in (("ld", "loads", "load"), ("st", "stores", "store")):
        table.append(
            Metric(
                shared_wavefronts(op), "wavefronts", f"passes of shared-memory {what} through the data stage",
                "largest number of distinct words in one bank, summed over lane groups and requests", "isolated",
                (f"shared_{old}_transactions",),
            )
        )  # fmt: skip
    for op, what in (("ld", "loads"), ("st", "stores")):
        table.append(
            Metric(
                shared_conflicts(op), "wavefronts", f"extra passes of shared-memory {what} caused by bank conflicts",
                "wavefronts minus the non-empty lane groups", "isolated", (f"shared_{op}_bank_conflict",),
            )
        )  # fmt: skip
    table += [
        Metric(
            "lts__t_requests_srcunit_tex.sum", "requests",
            "requests of the SMs at L2: up to four sectors of one line each",
            "load tags that miss L1, plus lines of stores and atomics",
        ),
        Metric(
            "lts__t_sectors_srcunit_tex_op_read.sum", "sectors", "sectors that the SMs read at L2",
            "sectors of loads that miss L1", nvprof=("l2_tex_read_transactions",),
        ),
        Metric(
            "lts__t_sectors_srcunit_tex_op_write.sum", "sectors", "sectors that the SMs write at L2",
            "sectors of stores, which L1 passes on", nvprof=("l2_tex_write_transactions",),
        ),
        Metric(
            "lts__t_sectors_srcunit_tex_lookup_hit.sum", "sectors",
            "sectors of the SMs' requests found in L2; stores that need no fill count as hits",
            "L2 look-ups of the model",
        ),
        Metric(
            "lts__t_sectors_srcunit_tex_lookup_miss.sum", "sectors", "sectors of the SMs' requests not found in L2",
            "L2 look-ups of the model",
        ),
        Metric(
            "lts__t_sectors.sum", "sectors",
            "all sector look-ups at L2: a miss from the far partition is looked up twice, and fills count too",
            "near, home and fill look-ups of the model",
        ),
        Metric(
            "dram__sectors_read.sum", "sectors",
            "32 B sectors read from DRAM: reads of L2 misses and fills of partly written sectors",
            "DRAM reads of the model, in its granules", nvprof=("dram_read_transactions",),
        ),
        Metric(
            "dram__sectors_write.sum", "sectors",
            "32 B sectors written to DRAM; what stays dirty in L2 at the end is not counted",
            "write-backs of the model", nvprof=("dram_write_transactions",),
        ),
        Metric(
            "sm__cycles_elapsed.max", "cycles", "SM clock cycles of the kernel",
            "the machine's finish time in cycles", nvprof=("elapsed_cycles_sm",),
        ),
        Metric(
            "sm__warps_active.avg.pct_of_peak_sustained_active", "%",
            "achieved occupancy: resident warps, averaged over time, of the most that an SM can hold",
            "resident warps of the modelled SMs", nvprof=("achieved_occupancy",),
        ),
        Metric(
            "smsp__inst_executed.sum", "instructions", "warp instructions executed, predicated-off ones included",
            "instructions the executor ran", "exact", ("inst_executed",),
        ),
    ]  # fmt: skip
    for op, (text, names) in _FLOAT.items():
        table.append(
            Metric(
                f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", "thread instructions",
                f"{text}, counted per active thread", "threads that executed the opcode with a true predicate",
                "exact", names,
            )
        )  # fmt: skip
    return table


def _optional() -> list[Metric]:
    table: list[Metric] = []
    for op, what, old in (("ld", "loads", "load"), ("st", "stores", "store")):
        table += [
            Metric(
                f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum", "requests",
                f"requests of local-memory {what}: register spills and indexed local arrays",
                "LDL and STL instructions with an active lane", "exact", (f"local_{old}_requests",),
            ),
            Metric(
                f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", "sectors", f"sectors of local-memory {what}",
                "sectors of the interleaved local addresses", "exact", (f"local_{old}_transactions",),
            ),
            Metric(
                f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}_lookup_hit.sum", "sectors",
                f"sectors of local-memory {what} found in L1", "L1 look-ups of the modelled cache",
            ),
            Metric(
                f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}_lookup_miss.sum", "sectors",
                f"sectors of local-memory {what} not found in L1", "L1 look-ups of the modelled cache",
            ),
        ]  # fmt: skip
    for kind, what in (("access", "through L1"), ("bypass", "past L1")):
        for unit in ("requests", "sectors"):
            table.append(
                Metric(
                    f"sm__sass_l1tex_t_{unit}_pipe_lsu_mem_global_op_ldgsts_cache_{kind}.sum", unit,
                    f"{unit} of asynchronous copies to shared memory (LDGSTS, cp.async) {what}",
                    "the global side of LDGSTS instructions", "exact",
                )
            )  # fmt: skip
    table += [
        Metric(
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum", "wavefronts",
            "passes through the data stage with which LDGSTS writes shared memory",
            "bank rule of the shared side of LDGSTS", "isolated",
        ),
        Metric(
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", "wavefronts",
            "passes of shared-memory atomics through the data stage",
            "most lanes in one bank, same address included, summed over requests", "isolated",
        ),
        Metric(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum", "wavefronts",
            "extra passes of shared-memory atomics", "wavefronts minus requests", "isolated",
        ),
        Metric(
            "smsp__sass_inst_executed_op_shared_ld.sum", "instructions", "shared-memory load instructions (LDS)",
            "LDS instructions executed", "exact", ("shared_load",),
        ),
        Metric(
            "smsp__sass_inst_executed_op_shared_st.sum", "instructions", "shared-memory store instructions (STS)",
            "STS instructions executed", "exact", ("shared_store",),
        ),
        Metric(
            "smsp__inst_executed_op_ldsm.sum", "instructions", "matrix loads from shared memory (LDSM, ldmatrix)",
            "LDSM instructions executed", "exact",
        ),
        Metric(
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "wavefronts",
            "passes of all shared-memory accesses through the data stage", "bank rule of every access", "isolated",
        ),
        Metric(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "wavefronts",
            "extra passes of all shared-memory accesses", "wavefronts minus the non-empty lane groups", "isolated",
        ),
        Metric(
            "smsp__inst_executed_pipe_lsu.sum", "instructions", "warp instructions sent to the load-store unit",
            "loads, stores, atomics and shuffles executed", "exact",
        ),
    ]  # fmt: skip
    return table


def _ratios() -> list[Metric]:
    table: list[Metric] = []
    for op, word, old in (("ld", "load", "gld"), ("st", "store", "gst")):
        table += [
            Metric(
                f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio", "sectors/request",
                f"sectors a request of global {word}s; 4 is ideal for 4 B a lane, 16 for 16 B a lane",
                "sectors divided by requests; read it beside the ideal of the same accesses", "exact",
                (f"{old}_transactions_per_request",), f"global.{word}.sectors_per_request",
            ),
            Metric(
                f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct", "%",
                f"bytes of global {word}s that lanes asked for, of the bytes in the sectors they touch",
                "100 divided by the bytes a requested byte at L1", "exact", (f"{old}_efficiency",),
                f"bytes_per_useful_byte.l1_{'read' if op == 'ld' else 'write'}",
            ),
        ]  # fmt: skip
    table += [
        Metric(
            "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", "%", "L1 hit rate of global loads, by sectors",
            "hits divided by hits + misses of the modelled cache", nvprof=("global_hit_rate",),
            derived="global.load.hit_rate",
        ),
        Metric(
            "l1tex__t_sector_hit_rate.pct", "%", "L1 hit rate of all accesses; writes and local memory included",
            "Result keeps the rate of global loads", nvprof=("tex_cache_hit_rate",),
            derived="global.load.hit_rate",
        ),
        Metric(
            "lts__t_sector_hit_rate.pct", "%",
            "L2 hit rate of all traffic, instruction fetch included; high on tiny kernels whose data all miss",
            "hits of the SMs' sectors divided by their sectors", nvprof=("l2_tex_hit_rate",), derived="l2.hit_rate",
        ),
        Metric(
            "lts__t_sectors_op_read.sum", "sectors", "sectors read at L2 by anybody, far-partition repeats included",
            "lts__t_sectors_srcunit_tex_op_read.sum is what the SMs asked for", nvprof=("l2_read_transactions",),
            derived="l2.read_bytes",
        ),
        Metric(
            "lts__t_sectors_op_write.sum", "sectors",
            "sectors written at L2 by anybody, far-partition repeats included",
            "lts__t_sectors_srcunit_tex_op_write.sum is what the SMs wrote", nvprof=("l2_write_transactions",),
            derived="l2.write_bytes",
        ),
        Metric(
            "dram__bytes_read.sum", "bytes", "bytes read from DRAM", "32 x dram__sectors_read.sum",
            nvprof=("dram_read_bytes",), derived="dram.read_bytes",
        ),
        Metric(
            "dram__bytes_write.sum", "bytes", "bytes written to DRAM", "32 x dram__sectors_write.sum",
            nvprof=("dram_write_bytes",), derived="dram.write_bytes",
        ),
        Metric(
            "dram__bytes.sum.per_second", "bytes/s", "DRAM bandwidth in use, reads and writes",
            "DRAM bytes divided by time", nvprof=("dram_read_throughput", "dram_write_throughput"),
            derived="bandwidth.dram",
        ),
        Metric(
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "DRAM bandwidth in use, of its peak",
            "DRAM bytes divided by time and by the profile's peak", nvprof=("dram_utilization",),
            derived="bandwidth.dram_share_of_peak",
        ),
        Metric(
            "derived__memory_l2_theoretical_sectors_global_excessive", "sectors",
            "sectors of global accesses beyond what their bytes need: what coalescing would save",
            "sectors minus ideal sectors, per source line too", "exact", derived="global.load.ideal_sectors",
        ),
        Metric(
            "derived__memory_l1_conflicts_shared_nway", "ways",
            "wavefronts a shared request; a conflict-free 16 B load shows 4 there",
            "Result's ways divides by the ideal wavefronts, so that no conflict is always 1", "exact",
            ("shared_load_transactions_per_request",), "shared.load.ways",
        ),
        Metric(
            "smsp__sass_average_data_bytes_per_wavefront_mem_shared.pct", "%",
            "bytes a shared wavefront carries, of what it could", "ideal wavefronts divided by wavefronts", "exact",
            ("shared_efficiency",), "shared.load.ways",
        ),
    ]  # fmt: skip
    return table


REQUIRED: dict[str, Metric] = {m.name: m for m in _required()}
OPTIONAL: dict[str, Metric] = {m.name: m for m in _optional()}
RATIOS: dict[str, Metric] = {m.name: m for m in _ratios()}
METRICS: dict[str, Metric] = {**REQUIRED, **OPTIONAL, **RATIOS}


def find(name: str) -> Metric:
    """The metric of that Nsight Compute or nvprof name; an unknown name gets the nearest ones."""
    wanted = name.strip()
    if wanted in METRICS:
        return METRICS[wanted]
    old = {n: m for m in METRICS.values() for n in m.nvprof}
    if wanted in old:
        return old[wanted]
    stems = {n.rpartition(".")[0] if n.count(".") == 1 else n: m for n, m in METRICS.items()}
    if wanted in stems:
        return stems[wanted]
    near = difflib.get_close_matches(wanted, [*METRICS, *old], n=3, cutoff=0.5)
    if not near:
        near = [n for n in METRICS if wanted and wanted.lower() in n][:3]
    hint = f"did you mean {', '.join(near)}?" if near else "`warpsim explain` without a name lists all metrics"
    raise InputError(f"unknown metric {name!r}: {hint}")


def explain(name: str) -> str:
    """What a metric counts, in a few lines of plain text."""
    metric = find(name)
    lines = [metric.name]
    if name.strip() in metric.nvprof:
        lines[0] += f"  ({name.strip()} in nvprof)"
    lines += [f"  counts         {metric.meaning}", f"  unit           {metric.unit}"]
    lines.append(f"  compared with  {metric.compared}")
    agreement = {"exact": EXACT, "isolated": ALONE, "tolerance": CLOSE}[metric.agreement]
    lines.append(f"  must agree     {agreement}")
    if metric.nvprof:
        lines.append(f"  nvprof name    {', '.join(metric.nvprof)}")
    if metric.derived:
        lines.append(f"  in a Result    derived: {metric.derived}")
    else:
        always = "always present" if metric.name in REQUIRED else "present where the kernel has such accesses"
        lines.append(f"  in a Result    metrics, {always}")
    return "\n".join(lines)
