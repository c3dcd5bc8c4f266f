"""Scenario to Result, without a GPU: compile, execute, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.derivation import gpu_facts
from warpsim.frontend.context import S_REQUESTS
from warpsim.frontend.counts import Counts, count
from warpsim.frontend.independence import independent_loads
from warpsim.frontend.sass import load_program
from warpsim.frontend.simt import Executor
from warpsim.gpu import Gpu, Occupancy, load_gpu, occupancy
from warpsim.machine.build import MachineResult, Watch, simulate_launch
from warpsim.metrics import REQUIRED
from warpsim.result import Result, build_result
from warpsim.scenario import Scenario, load
from warpsim.uncertainty import expected

if TYPE_CHECKING:
    from warpsim.frontend.program import Program
    from warpsim.launch import Launch

__all__ = ["simulate", "simulate_bound"]


SAMPLED_WARPS = 200_000
"""Warps of a launch above which the timed machine may stop at a steady state unless asked not to: seconds of work."""


def simulate(
    scenario: Scenario | str | Path,
    *,
    gpu: str | Gpu | None = None,
    params: Mapping[str, int | float | str] | None = None,
    exact: bool | None = None,
    test: bool = False,
    addresses: Sequence[int] | Mapping[str, int] | None = None,
    timeline: bool = True,
    watch: Callable[[Gpu, Occupancy, MachineResult], None] | None = None,
    log: Watch | None = None,
) -> Result:
    """Simulate a scenario (or its path or name) and return what it costs.

    `gpu` overrides the scenario's; `params` its parameters; `test` takes its `[test_params]`; `exact` True times
    every CTA, False may stop at a steady state, None decides by size. All CTAs are executed and counted in either case.
    `watch` is handed what the machine saw, for traces; `log` says which requests it notes.
    Raises InputError, KernelError or UnsupportedError.
    """
    chosen = load(scenario) if isinstance(scenario, (str, Path)) else scenario
    launch = chosen.bind(params or {}, test=test, addresses=addresses)
    return simulate_bound(launch, gpu=gpu, exact=exact, timeline=timeline, watch=watch, log=log)


def simulate_bound(
    launch: Launch,
    *,
    gpu: str | Gpu | None = None,
    exact: bool | None = None,
    timeline: bool = True,
    watch: Callable[[Gpu, Occupancy, MachineResult], None] | None = None,
    log: Watch | None = None,
    prepare: Callable[[Executor], None] | None = None,
    program: Program | None = None,
) -> Result:
    """Simulate a launch whose parameters are settled; buffers with contents are changed in place, as on a GPU.

    `prepare` is handed each executor before it starts. `program` is the compiled kernel where the caller has it.
    """
    profile = gpu if isinstance(gpu, Gpu) else load_gpu(gpu or launch.gpu)
    how = launch.compile
    standard: dict[str, Any] = {"std": how.std} if how.std else {}
    program = program or load_program(
        launch.source,
        launch.entry,
        int(profile.arch.removeprefix("sm_")),
        **standard,
        options=how.options,
        define=how.define,
        filename=launch.kernel,
    )
    executor = Executor(launch, program, profile)
    shared = program.shared + launch.dynamic_shared
    fit = occupancy(profile, launch.threads, program.registers, shared, carveout=launch.state.carveout_kb)
    machine = _time(executor, launch, profile, fit, exact, prepare, log)
    if watch is not None:
        watch(profile, fit, machine)
    return _result(launch, profile, executor, machine, fit, timeline)


def _time(
    executor: Executor,
    launch: Launch,
    profile: Gpu,
    fit: Occupancy,
    exact: bool | None,
    prepare: Callable[[Executor], None] | None,
    log: Watch | None,
) -> MachineResult:
    state = launch.state
    warm_up = Executor(launch, executor.program, profile) if state.caches == "warm" else None
    if prepare is not None:
        for one in (executor, warm_up):
            if one is not None:
                prepare(one)
    large = executor.ctas * executor.warps_per_cta > SAMPLED_WARPS
    machine = simulate_launch(
        executor,
        profile,
        ctas_per_sm=fit.ctas_per_sm,
        carveout_kib=fit.carveout_kib,
        caches=state.caches,
        warm_up=warm_up,
        clock_mhz=state.clock_mhz,
        sample=large if exact is None else not exact,
        watch=log,
    )
    if machine.ctas_run < executor.ctas:  # CTAs are launched in order: the others are executed and counted, not timed
        executor.finish(np.empty(0, np.int64), machine.ctas_run)
    return machine


def _result(
    launch: Launch, profile: Gpu, executor: Executor, machine: MachineResult, fit: Occupancy, timeline: bool
) -> Result:
    counts = count(executor)
    metrics: dict[str, int | float] = {**dict.fromkeys(REQUIRED, 0), **counts.metrics}
    timed = machine.counters
    metrics |= {
        "gpu__time_duration.sum": machine.ns,
        "sm__cycles_elapsed.max": machine.cycles,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": timed["l1_load_hit_sectors"],
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum": timed["l1_load_miss_sectors"],
        "lts__t_requests_srcunit_tex.sum": timed["l2_requests"],
        "lts__t_sectors_srcunit_tex_op_read.sum": timed["l2_read_sectors"],
        "lts__t_sectors_srcunit_tex_op_write.sum": timed["l2_write_sectors"],
        "lts__t_sectors_srcunit_tex_lookup_hit.sum": timed["l2_hit_sectors"],
        "lts__t_sectors_srcunit_tex_lookup_miss.sum": timed["l2_miss_sectors"],
        "lts__t_sectors.sum": timed["l2_sectors"],
        "dram__sectors_read.sum": timed["dram_read_sectors"],
        "dram__sectors_write.sum": timed["dram_write_sectors"],
        "sm__warps_active.avg.pct_of_peak_sustained_active": timed["warps_active_pct"],
    }
    metrics = {
        name: value if isinstance(value, float) and not value.is_integer() else int(value)
        for name, value in metrics.items()
    }
    _add_machine_lines(executor, counts, machine)
    extra: dict[str, Any] = {
        "ideal": counts.ideal,
        "requested_bytes": counts.requested_bytes,
        "useful_bytes": counts.useful_bytes,
        "shared_requests": counts.shared_requests,
        "other_ops": counts.other_ops,
        "notes": counts.notes,
        "unknowns": counts.unknowns,
        "busy": machine.busy,
        "loads_per_warp": independent_loads(executor.program, executor.stats[:, S_REQUESTS].tolist()),
        **_in_flight(machine),
    }
    if timeline:
        extra["timeline"] = {name: values.tolist() for name, values in machine.series.items()}
    program = executor.program
    return build_result(
        scenario=launch.name,
        kernel=launch.entry,
        source="simulated",
        gpu=gpu_facts(profile),
        launch={
            "grid": list(launch.grid),
            "block": list(launch.block),
            "registers": program.registers,
            "shared": program.shared + launch.dynamic_shared,
            "ctas_per_sm": fit.ctas_per_sm,
            "limit": fit.limiter,
            "local": program.local,
        },
        metrics=metrics,
        extra=extra,
        params=dict(launch.params),
        state={"caches": launch.state.caches, "carveout_kb": fit.carveout_kib},
        buffers=[
            {
                "name": b.name,
                "address": b.address,
                "bytes": b.bytes,
                "touched": counts.touched.get(b.name if b.target is None else b.target.name, 0),
            }
            for b in launch.buffers
        ],
        compiler=program.compiler,
        clock_mhz=launch.state.clock_mhz or profile.sm.clock_mhz,
        coverage={"ctas": machine.ctas_run, "of": machine.ctas},
        lines=counts.lines,
        uncertainty=_uncertainty(profile, machine),
    )


def _uncertainty(profile: Gpu, machine: MachineResult) -> dict[str, Any]:
    """The error to expect of the time; for a sampled run with the 95 % half-width of its extrapolation."""
    table = expected(profile.name, machine.busy, machine.ns)
    if machine.ctas_run < machine.ctas:
        time = dict(table.get("gpu__time_duration.sum", {}))
        table["gpu__time_duration.sum"] = {**time, "sampling": machine.half_width}
    return table


def _in_flight(machine: MachineResult) -> dict[str, float]:
    """Mean bytes of loads under way while CTAs run."""
    series = machine.series.get("bytes_in_flight")
    return {"in_flight_bytes": float(series.mean())} if series is not None and len(series) else {}


_BY_LINE = {
    "l1_hit_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1_miss_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
    "l2_hit_sectors": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "l2_miss_sectors": "lts__t_sectors_srcunit_tex_lookup_miss.sum",
}


def _add_machine_lines(executor: Executor, counts: Counts, machine: MachineResult) -> None:
    """Hits and misses of the caches beside the executor's counters of each source line."""
    for line in counts.lines:
        for access in line["accesses"]:
            for source, name in _BY_LINE.items():
                value = int(machine.by_instruction[source][access["index"]])
                if value:
                    line["metrics"][name] = line["metrics"].get(name, 0) + value
