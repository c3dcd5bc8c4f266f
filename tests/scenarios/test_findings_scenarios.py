"""For each rule a shipped scenario that triggers it and one that does not; each fix makes a second run faster."""

from functools import cache
from pathlib import Path
from typing import Any

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
    "small-grid": (at("copy", n=4096), at("copy", n=WAVE)),
    "low-bandwidth": (at("transpose_unpadded", rows=512, cols=512), at("in_flight_float4", total=1 << 22)),
    "memory-bound": (at("roofline_add"), at("roofline_matmul")),
    "compute-bound": (at("roofline_matmul"), at("roofline_add")),
}

FIXES = [  # before, after the advice is followed
    CASES["uncoalesced"],
    CASES["bank-conflicts"],
    CASES["local-memory"],
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


PASSES = """
schema = 1
source = '''
extern "C" __global__ void passes(const float4* in, float* out, int n, int passes) {
  float sum = 0;
  for (int p = 0; p < passes; ++p)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
      float4 v = __ldcg(in + i);
      sum += v.x + v.y + v.z + v.w;
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}'''
entry = "passes"
[params]
n = 1048576
[launch]
grid = [1056]
block = [256]
[[arg]]
name = "in"
buffer = "float4"
count = "n"
[[arg]]
name = "out"
buffer = "float"
count = "1056*256"
[[arg]]
name = "n"
value = "n"
[[arg]]
name = "passes"
value = 3
"""


def test_l2_thrashes_beyond_its_size_and_a_larger_one_would_help(tmp_path: Path) -> None:
    file = tmp_path / "passes.toml"
    file.write_text(PASSES, encoding="utf-8")
    scenario = load(file)
    assert "l2-thrash" not in {f["rule"] for f in simulate(scenario, timeline=False).findings}
    large = simulate(scenario, params={"n": 4 << 20}, timeline=False)
    assert "l2-thrash" in {f["rule"] for f in large.findings}
    assert if_machine(scenario, large, "L2 of eight times its size").speedup > 1.2


def test_every_rule_has_its_scenarios() -> None:
    assert set(RULES) - set(CASES) == {"dispatch-bound", "l2-thrash"}


def test_short_ctas_are_bound_by_their_dispatch() -> None:
    found: list[Any] = [f for f in result(at("copy", n=1 << 22)).findings if f["rule"] == "dispatch-bound"]
    busy = result(at("copy", n=1 << 22)).derived["limiter"]["busy"]["dispatch"]
    assert bool(found) == (busy > RULES["dispatch-bound"].limit)
    assert result(at("in_flight", warps=64, total=1 << 22)).derived["limiter"]["busy"]["dispatch"] < 0.1
