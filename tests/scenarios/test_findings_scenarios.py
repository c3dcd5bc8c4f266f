"""For each rule a shipped scenario that triggers it and one that does not; each fix makes a second run faster."""

from functools import cache

import pytest

from warpsim.counterfactual import if_machine
from warpsim.findings import RULES
from warpsim.result import Result
from warpsim.scenario import load
from warpsim.simulator import simulate

pytestmark = pytest.mark.cuda

WAVE = 8 * 132 * 256  # threads of one wave of 256-thread CTAs on an H200

Run = tuple[str, tuple[tuple[str, int], ...]]


def at(name: str, **params: int) -> Run:
    return name, tuple(params.items())


@cache
def result(run: Run) -> Result:
    name, params = run
    return simulate(load(name), params=dict(params), timeline=False)


CASES: dict[str, tuple[Run, Run]] = {  # rule: (triggers it, does not)
    "uncoalesced": (at("structs_aos", n=1 << 19), at("structs_soa", n=1 << 19)),
    "misaligned": (at("misaligned", n=1 << 20), at("copy", n=1 << 20)),
    "bank-conflicts": (at("transpose_unpadded", rows=512, cols=512), at("transpose_tiled", rows=512, cols=512)),
    "partial-stores": (at("write_strided", n=1 << 18), at("write_words", n=1 << 18)),
    "same-sector-writes": (at("write_shared_lines", ctas=4096), at("write_padded_lines", ctas=4096)),
    "dram-granularity": (at("kv_component", tokens=1 << 17), at("copy", n=1 << 20)),
    "local-memory": (at("spills", n=1 << 15), at("no_spills", n=1 << 15)),
    "low-in-flight": (at("in_flight", warps=4, total=1 << 21), at("in_flight", warps=64, total=1 << 22)),
    "tail-wave": (at("copy", n=WAVE + WAVE // 8), at("copy", n=2 * WAVE)),
    "l2-thrash": (at("l2_capacity"), at("l2_capacity", kilobytes=256)),
    "dispatch-bound": (at("copy_small_ctas", n=1 << 18), at("copy_small_ctas", n=1 << 18, threads=256)),
    "small-grid": (at("copy", n=4096), at("copy", n=WAVE)),
    "low-bandwidth": (at("transpose_unpadded", rows=512, cols=512), at("in_flight_float4", total=1 << 22)),
    "memory-bound": (at("roofline_add"), at("roofline_matmul")),
    "compute-bound": (at("roofline_matmul"), at("roofline_add")),
}

FIXES = [  # before, after the advice is followed
    CASES["uncoalesced"],
    CASES["bank-conflicts"],
    CASES["local-memory"],
    CASES["dispatch-bound"],
    (at("in_flight", warps=4, total=1 << 21), at("in_flight", warps=32, total=1 << 21)),
    (at("misaligned", n=1 << 22), at("copy", n=1 << 22)),
    (at("write_strided", n=1 << 18), at("write_words", n=1 << 18)),
    (at("transpose_naive", rows=512, cols=512), at("transpose_tiled", rows=512, cols=512)),
    (at("transpose_naive_32x8", rows=512, cols=512), at("transpose_tiled_32x8", rows=512, cols=512)),
]


def rules(run: Run) -> set[str]:
    return {finding["rule"] for finding in result(run).findings}


@pytest.mark.parametrize("rule", CASES)
def test_a_scenario_triggers_the_rule_and_another_does_not(rule: str) -> None:
    bad, good = CASES[rule]
    assert rule in rules(bad)
    assert rule not in rules(good)


@pytest.mark.parametrize(("before", "after"), FIXES)
def test_the_fix_is_faster(before: Run, after: Run) -> None:
    assert result(after).time_ns < result(before).time_ns


def test_a_larger_l2_would_keep_what_this_one_loses() -> None:
    bad, _ = CASES["l2-thrash"]
    assert if_machine(load(bad[0]), result(bad), "L2 of eight times its size").speedup > 1.2


def test_every_rule_has_its_scenarios() -> None:
    assert set(RULES) == set(CASES)
