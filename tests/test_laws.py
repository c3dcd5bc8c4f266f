"""Each law on patterns and kernels of the default strategies, and on cases that break it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from warpsim import batch, cache, laws, reference, strategies
from warpsim.campaign.cases import case_of, judge_kernels, judge_pattern, scenario_of
from warpsim.campaign.hunt import draw
from warpsim.frontend import counts
from warpsim.gpu import load_gpu
from warpsim.grammar import Barrier, Binary, If, Load, Loop, Name, Number, Reduce, SmallKernel, Store, Tile
from warpsim.laws import Disagreement
from warpsim.patterntable import Pattern
from warpsim.scenario import parse

GPU = load_gpu("h200")
T = Name("threadIdx.x")
RECORDS = (Path(__file__).parent / "data" / "access-h200.jsonl").read_text().splitlines()


@pytest.mark.parametrize("name", laws.PATTERN_LAWS)
def test_law_of_patterns(name: str) -> None:
    """The law's own docstring says what holds."""
    law = laws.PATTERN_LAWS[name]
    assert law.__doc__

    @settings(max_examples=60)
    @given(strategies.patterns(kind=None))
    def holds(p: Pattern) -> None:
        law(p, GPU)

    holds()


def test_the_reference_counts_what_the_hardware_counted() -> None:
    """Brute force against counters of an H200, for loads in global and shared memory."""
    checked = 0
    for record in map(json.loads, RECORDS):
        if record["op"] != "load":
            continue
        if record["space"] == "global":
            found = reference.global_figures(
                "load", record["width"], record["addresses"], record["active"], GPU.l1.tag_bank_masks
            )
        else:
            found = reference.shared_figures("load", record["width"], record["addresses"], record["active"])
        for name, counted in record["expected"].items():
            if name in found:
                assert found[name] == counted, record["name"]
                checked += 1
    assert checked > 700


SPECIMENS: Sequence[SmallKernel] = (
    SmallKernel((Load(T), Store(T, Name("v")))),
    SmallKernel(
        (Load(Binary("*", T, Number(3)), 16), Store(Binary("^", T, Number(5)), Name("v"), 8)), (2, 1, 1), (96, 1, 1)
    ),
    SmallKernel((Tile(32, 33, 0, True, T, Binary("+", T, Number(1)), 4), Store(T, Name("v"))), (1, 1, 1), (64, 1, 1)),
    SmallKernel((Loop(Binary("%", T, Number(4)), (Load(Binary("+", T, Name("i")), 2, True),)), Store(T, Name("v"), 1))),
    SmallKernel((If(Binary("&", T, Number(3)), "==", Number(1), (Reduce(T),)), Barrier()), (3, 1, 1), (40, 1, 1)),
    SmallKernel(
        (Loop(Number(3), (Load(T, 8, True), Barrier())), Store(Name("blockIdx.x"), Name("v"))),
        (2, 2, 1), (8, 8, 1), False,
    ),
)  # fmt: skip


@pytest.mark.cuda
def test_laws_of_kernels_on_specimens_and_drawn_ones() -> None:
    with cache.scratch():
        kernels = [*SPECIMENS, *draw(strategies.kernels(), 14, 7)]
        for kernel, wrong in zip(kernels, judge_kernels(kernels, GPU, timed=False), strict=True):
            assert wrong == {}, kernel


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["is_deterministic", "takes_its_time", "larger_l2_keeps_hits"])
def test_law_of_the_machine(name: str) -> None:
    with cache.scratch():
        for kernel, wrong in zip(SPECIMENS[:3], judge_kernels(SPECIMENS[:3], GPU, (name,)), strict=True):
            assert wrong == {}, kernel


@pytest.mark.cuda
def test_counters_of_a_kernel_are_those_a_reader_counts() -> None:
    """64 threads: two requests of 4 sectors; a column of a tile without padding: 32 wavefronts a warp."""
    kernel = SmallKernel((Load(T), Tile(32, 32, 0, True, T, T), Store(T, Name("v"))), block=(1024, 1, 1))
    with cache.scratch():
        run = laws.run_kernel(kernel, batch.programs([kernel], 90)[0], GPU)
    expected = laws.expected_counters(run)
    assert expected["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 32
    assert expected["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 128
    assert expected["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == 32 * 32
    assert run.metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == 31 * 32
    assert run.barriers == 64


@pytest.mark.cuda
def test_a_load_that_the_compiler_moves_is_no_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads `v`, and only CTAs that execute the last atomicAdd load it: block 0 does not."""
    last = If(Binary("*", Name("blockIdx.x"), Number(2)), ">", Name("blockIdx.x"), (Reduce(T),))
    kernel = SmallKernel((If(T, "==", Number(0), (Reduce(T),)), Load(T), last), block=(1, 1, 1))
    with cache.scratch():
        run = laws.run_kernel(kernel, batch.programs([kernel], 90)[0], GPU)
        assert run.metrics.get("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 0) == 0
        laws.counters_equal_brute_force(run)
        monkeypatch.setitem(counts._GLOBAL, "LDG", "st")
        with pytest.raises(Disagreement):
            laws.counters_equal_brute_force(run)


@pytest.mark.cuda
def test_a_reduction_that_the_compiler_makes_of_one_lane_is_no_disagreement() -> None:
    """Behind the guard all lanes' indices are 0, and the compiler knows."""
    index = Binary("&", T, Number(18))
    kernel = SmallKernel((If(index, "==", Number(0), (Reduce(index),)),))
    with cache.scratch():
        run = laws.run_kernel(kernel, batch.programs([kernel], 90)[0], GPU)
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
    assert run.metrics[sectors] < laws.expected_counters(run)[sectors]
    laws.counters_equal_brute_force(run)
    run.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"] += 1
    with pytest.raises(Disagreement):
        laws.counters_equal_brute_force(run)


@pytest.mark.cuda
def test_a_wrong_output_is_a_disagreement() -> None:
    kernel = SPECIMENS[0]
    with cache.scratch():
        run = laws.run_kernel(kernel, batch.programs([kernel], 90)[0], GPU)
    run.arrays["out4"][3] ^= 1
    with pytest.raises(Disagreement, match="1 elements differ") as caught:
        laws.outputs_equal_numpy(run)
    assert list(caught.value.expected) == ["out4[3]"]


def test_a_crash_of_the_model_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(laws.patterns, "access", fail)
    found = judge_pattern(Pattern("load", "global", 4, tuple(range(0, 128, 4))), GPU, ("ignores_pages",))
    assert found["ignores_pages"].predicted == {"error": "ZeroDivisionError: by zero"}


@pytest.mark.cuda
def test_patterns_as_scenarios_cost_what_access_says() -> None:
    """The scenario that a failure is kept as makes the very access, among few others."""
    from warpsim.metrics import global_sectors, shared_conflicts
    from warpsim.simulator import simulate

    p = Pattern(
        "load",
        "global",
        8,
        tuple(8 * (5 * lane % 96) for lane in range(32)),
        tuple(lane % 3 != 1 for lane in range(32)),
    )
    q = Pattern("store", "shared", 4, tuple(128 * lane for lane in range(32)))
    with cache.scratch():
        found = simulate(parse(scenario_of(p, "h200", "")))
        other = simulate(parse(scenario_of(q, "h200", "")))
    expected = reference.global_figures("load", 8, p.addresses, p.active, GPU.l1.tag_bank_masks)
    assert found.metrics[global_sectors("ld")] == expected["sectors"]
    assert other.metrics[shared_conflicts("st")] == 31
    assert case_of({"pattern": p.to_dict()}) == p
