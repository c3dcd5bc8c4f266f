"""Counterfactuals: an access made ideal takes as long as the kernel that was written that way."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from warpsim.counterfactual import MACHINES, if_ideal, if_machine, with_gains
from warpsim.errors import InputError
from warpsim.recordings import find, stale
from warpsim.result import Result
from warpsim.scenario import load
from warpsim.simulator import simulate, simulate_bound

pytestmark = pytest.mark.cuda


def run(name: str, **params: Any) -> Result:
    return simulate(load(name), params=params)


@pytest.mark.parametrize(
    ("name", "access", "params", "written", "other"),
    [
        ("structs_aos", "load", {"n": 1 << 20}, "structs_soa", {"n": 1 << 20}),
        ("stride", "load", {"n": 1 << 19, "stride": 8}, "copy", {"n": 1 << 19}),
        ("stride", "load", {"n": 1 << 19, "stride": 33}, "copy", {"n": 1 << 19}),
        ("misaligned", "load", {"n": 1 << 19}, "copy", {"n": 1 << 19}),
        (
            "transpose_unpadded",
            "shared load",
            {"rows": 512, "cols": 512},
            "transpose_tiled",
            {"rows": 512, "cols": 512},
        ),
    ],
)
def test_an_ideal_access_takes_as_long_as_the_kernel_written_that_way(
    name: str, access: str, params: dict[str, Any], written: str, other: dict[str, Any]
) -> None:
    before = run(name, **params)
    found = if_ideal(load(name), before, access=access)
    assert found.time_ns == before.time_ns
    assert found.time_after_ns == pytest.approx(run(written, **other).time_ns, rel=0.05)  # slices differ


def test_an_access_that_is_ideal_already_gains_nothing() -> None:
    before = run("copy", n=1 << 18)
    assert if_ideal(load("copy"), before).time_after_ns == before.time_ns


def test_counts_and_data_stay_as_they_are() -> None:
    def launched(ideal: bool) -> tuple[Result, np.ndarray]:
        launch = load("histogram").bind({}, test=True)

        def prepare(executor: Any) -> None:
            if ideal:
                executor.idealise(range(executor.instructions), 1000, [1 << 20] * len(executor.buffers))

        result = simulate_bound(launch, prepare=prepare)
        return result, [b.data for b in launch.buffers if b.data is not None]

    (plain, before), (changed, after) = launched(False), launched(True)
    counted = [
        n
        for n in plain.metrics
        if n.startswith(("smsp__", "l1tex__t_requests", "l1tex__t_sectors_pipe_lsu_mem_global_op_st"))
    ]
    assert {n: plain.metrics[n] for n in counted} == {n: changed.metrics[n] for n in counted}
    assert plain.lines[0]["ideal"] == changed.lines[0]["ideal"]
    for x, y in zip(before, after, strict=True):
        assert np.array_equal(x, y)


def test_a_line_can_be_chosen_and_one_without_accesses_is_an_error() -> None:
    before = run("transpose_unpadded", rows=256, cols=256)
    lines = {a["op"]: row["line"] for row in before.lines for a in row["accesses"]}
    scenario = load("transpose_unpadded")
    gone = if_ideal(scenario, before, line=lines["LDS"])
    assert gone.speedup > 1.05
    assert if_ideal(scenario, before, line=lines["STS"]).time_after_ns == before.time_ns
    index = next(a["index"] for row in before.lines for a in row["accesses"] if a["op"] == "LDS")
    assert if_ideal(scenario, before, instructions=[index]).time_after_ns <= before.time_ns
    with pytest.raises(InputError, match="line 1 has no memory access"):
        if_ideal(scenario, before, line=1)
    with pytest.raises(InputError, match="'loads' given, allowed: load, store"):
        if_ideal(scenario, before, access="loads")


def test_spills_can_be_taken_away() -> None:
    before = simulate(load("spills"), params={"n": 65536})
    gone = if_ideal(load("spills"), before, access="local store")
    assert gone.time_after_ns < 0.9 * before.time_ns


@pytest.mark.parametrize("change", MACHINES)
def test_no_other_machine_is_slower(change: str) -> None:
    before = simulate(load("kv_component"), test=True)
    assert if_machine(load("kv_component"), before, change).time_after_ns <= 1.01 * before.time_ns


def test_an_unknown_machine_is_an_error() -> None:
    with pytest.raises(InputError, match="'magic' given, allowed: L2 of eight times its size, DRAM"):
        if_machine(load("copy"), run("copy", n=4096), "magic")


def test_findings_get_their_simulated_gains_the_largest_first() -> None:
    scenario = load("transpose_naive")
    before = simulate(scenario, params={"rows": 512, "cols": 512})
    after = with_gains(scenario, before)
    warnings = [f for f in after.findings if f["severity"] == "warning"]
    gains = [f["gain"]["speedup"] for f in warnings if f["gain"]]
    assert gains == sorted(gains, reverse=True)
    (found,) = [f for f in after.findings if f["rule"] == "uncoalesced"]
    assert found["gain"]["how"] == "simulated again, the access ideal"
    assert found["gain"]["speedup"] == pytest.approx(before.time_ns / found["gain"]["time_after_ns"])
    assert found["gain"]["speedup"] > 1.5
    assert dataclasses.replace(after, findings=[]) == dataclasses.replace(before, findings=[])


def test_a_budget_keeps_estimates_where_it_ends() -> None:
    scenario = load("transpose_naive")
    before = simulate(scenario, params={"rows": 256, "cols": 256})
    assert with_gains(scenario, before, budget=0).findings == before.findings


def test_a_finding_that_no_second_run_can_take_away_keeps_what_it_has() -> None:
    scenario = load("histogram")
    before = simulate(scenario, test=True)
    rules = {f["rule"]: f for f in with_gains(scenario, before).findings}
    assert rules["same-sector-writes"]["access"] in ("reduction", "atomic")
    assert rules["same-sector-writes"]["gain"] is None


def recorded(name: str, **params: Any) -> float:
    scenario = load(name)
    launch = scenario.bind(params)
    found = find(launch, "h200", default=scenario.params)
    assert found is not None
    assert not stale(found, launch)
    return found.time_ns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "access"),
    [
        ("transpose_unpadded_32x8", "transpose_tiled_32x8", "shared load"),
        ("transpose_unpadded", "transpose_tiled", "shared load"),
        ("bank_column", "bank_padded", "shared load"),
        ("column_walk", "row_walk", "load"),
        ("structs_aos", "structs_soa", "load"),
        ("misaligned", "copy", "load"),
        ("write_strided", "write_words", "store"),
    ],
)
def test_the_gain_is_within_15_percent_of_what_an_h200_gained(before: str, after: str, access: str) -> None:
    found = if_ideal(load(before), run(before), access=access)
    assert found.speedup == pytest.approx(recorded(before) / recorded(after), rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "stride"),
    [(1 << 20, 2), (1 << 20, 8), (1 << 20, 32), *((1 << 22, stride) for stride in (2, 4, 8, 16, 32, 33)), (1 << 24, 8)],
)
def test_a_strided_copy_made_contiguous_gains_what_an_h200_gained(n: int, stride: int) -> None:
    found = if_ideal(load("stride"), run("stride", n=n, stride=stride), access="load")
    measured = recorded("stride", n=n, stride=stride) / recorded("copy", n=n)
    assert found.speedup == pytest.approx(measured, rel=0.15)
