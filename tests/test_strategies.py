"""Patterns and kernels: valid, within the bounds asked for, simplest where they should be, the same as scenarios."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import warpsim
from warpsim import batch, grammar, strategies
from warpsim.campaign.cases import DENSITIES, SPANS, case_data, case_of, features, scenario_of
from warpsim.campaign.chunks import LEAST, cells, plan
from warpsim.campaign.hunt import draw
from warpsim.grammar import Binary, Load, Name, Number, SmallKernel, Store, Tile
from warpsim.patterntable import CELLS, Pattern
from warpsim.scenario import parse


def span(p: Pattern) -> int:
    lanes = [a for a, on in zip(p.addresses, p.active, strict=True) if on]
    return max(lanes) + p.width - min(lanes)


def test_the_package_has_them() -> None:
    assert warpsim.strategies is strategies
    assert set(strategies.__all__) <= set(dir(strategies))


def test_the_simplest_pattern_is_one_lane_reading_the_first_word() -> None:
    p = find(strategies.patterns(), lambda _: True)
    assert (p.op, p.space, p.width, p.mask, p.addresses[0]) == ("load", "global", 4, 1, 0)


@pytest.mark.parametrize("draws", range(10))
def test_patterns_shrink_to_the_thread_index(draws: int) -> None:
    p = find(
        strategies.patterns(), lambda p: sum(p.active) == 32 and span(p) >= 128,
        settings=settings(max_examples=500, database=None), random=random.Random(draws),
    )  # fmt: skip
    assert (p.op, p.space, p.addresses) == ("load", "global", tuple(4 * lane for lane in range(32)))


def test_the_simplest_kernel_reads_at_the_thread_index() -> None:
    kernel = find(strategies.kernels(), lambda _: True)
    assert grammar.lines_of(kernel) == ["    unsigned v = 0;", "    v = a4[threadIdx.x];"]
    assert (kernel.grid, kernel.block) == ((1, 1, 1), (32, 1, 1))


@pytest.mark.parametrize("kind", [Tile, Store])
def test_kernels_shrink_to_the_one_statement_that_matters(kind: type) -> None:
    kernel = find(strategies.kernels(), lambda k: any(isinstance(s, kind) for s in grammar.statements(k.body)))
    assert len(list(grammar.statements(kernel.body))) <= 2
    assert kernel.ctas == 1


@given(st.sampled_from(cells()).flatmap(lambda c: st.tuples(st.just(c), strategies.patterns(
    op=c[0], space=c[1], width=c[2], kind=None, lanes=DENSITIES[c[3]], span=SPANS[c[1]][c[4]],
))))  # fmt: skip
@settings(max_examples=300)
def test_patterns_lie_in_the_cell_asked_for(drawn: tuple[tuple[str, str, int, str, str], Pattern]) -> None:
    (op, space, width, density, reach), p = drawn
    p.check()
    assert p.extent <= (strategies.patterns.__globals__["REACH"] if space == "global" else 32 << 10)
    assert ("cell", f"{op} {space} {width} {density} {reach}") in set(features(p))


@pytest.mark.parametrize("patterns", [LEAST * len(cells()), 20_000, 100_000])
def test_a_campaign_gives_every_cell_fifty_examples(patterns: int) -> None:
    counts = dict.fromkeys(cells(), 0)
    chunks = plan(patterns, 1_000, seed=3)
    for chunk in chunks:
        if chunk.cell is not None:
            counts[chunk.cell] += chunk.count
    assert min(counts.values()) >= 50
    assert max(counts.values()) - min(counts.values()) <= patterns / 10_000
    assert sum(chunk.count for chunk in chunks) == patterns + 1_000
    assert {cell[:3] for cell in counts} == {cell[:3] for cell in CELLS}


def test_the_examples_of_a_chunk_differ() -> None:
    chunk = next(c for c in plan(LEAST * len(cells()), 0, 0) if c.cell == ("load", "global", 1, "few", "near"))
    drawn = draw(chunk.strategy(), chunk.count, chunk.seed)
    assert len(drawn) == LEAST
    assert list(drawn) == list(draw(chunk.strategy(), chunk.count, chunk.seed))


@given(strategies.kernels())
@settings(max_examples=100)
def test_a_kernel_is_the_same_as_scenario_as_data_and_as_launch(kernel: SmallKernel) -> None:
    assert case_of(case_data(kernel)) == kernel
    launch = parse(scenario_of(kernel, "h200", 'a "quoted" one')).bind()
    other = batch.launch_of(kernel)
    assert (launch.grid, launch.block, launch.source) == (other.grid, other.block, other.source)
    assert [b.address for b in launch.buffers] == [b.address for b in other.buffers]
    for mine, theirs in zip(launch.buffers, other.buffers, strict=True):
        assert mine.data is not None
        assert np.array_equal(mine.data, theirs.data)


@given(strategies.patterns(kind=None))
@settings(max_examples=100)
def test_a_pattern_is_the_same_as_data_and_a_valid_scenario(p: Pattern) -> None:
    assert case_of(case_data(p)) == p
    launch = parse(scenario_of(p, "h200", "pattern")).bind()
    assert (launch.ctas, launch.threads) == (1, 32)


def test_expressions_print_with_c_precedence() -> None:
    t, one = Name("threadIdx.x"), Number(1)
    cases = {
        "threadIdx.x * 1u + 1u": Binary("+", Binary("*", t, one), one),
        "(threadIdx.x + 1u) * 1u": Binary("*", Binary("+", t, one), one),
        "threadIdx.x % (1u % 1u)": Binary("%", t, Binary("%", one, one)),
        "(threadIdx.x ^ 1u) & 1u": Binary("&", Binary("^", t, one), one),
    }
    for text, expression in cases.items():
        kernel = SmallKernel((Load(expression),))
        assert grammar.lines_of(kernel)[1] == f"    v = a4[{text}];"


def test_values_wrap_as_unsigned() -> None:
    product = Binary("*", Binary("+", Name("threadIdx.x"), Number(0xFFFFFFFF)), Number(3))
    found = grammar.evaluate(SmallKernel((Store(Name("threadIdx.x"), product),))).arrays["out4"]
    assert found[:3].tolist() == [0xFFFFFFFD, 0, 3]


def test_elements_that_two_threads_write_are_not_certain() -> None:
    half = Binary("/", Name("threadIdx.x"), Number(2))
    found = grammar.evaluate(SmallKernel((Store(half, Name("threadIdx.x")), Store(Number(40), Number(1)))))
    assert not found.certain["out4"][:16].any()
    assert found.certain["out4"][16:40].all()
    assert not found.certain["out4"][40]


def test_a_transposed_padded_tile_gives_every_thread_a_word_of_its_own() -> None:
    for tile in (Tile(32, 33), Tile(32, 32, 1), Tile(8, 9, 0, True), Tile(4, 8, 3, True), Tile(64, 64)):
        kernel = SmallKernel((tile,), block=(96, 1, 1))
        store = next(a for a in grammar.evaluate(kernel).accesses if a.op == "store")
        assert len(np.unique(store.addresses[store.active])) == 96
