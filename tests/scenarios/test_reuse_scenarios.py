"""Reuse, fusion and register spills."""

from __future__ import annotations

import pytest

from tests.scenarios.checks import dram_read, l2_read, per_request, run, shared, source_of, time_of
from warpsim.frontend.sass import load_program
from warpsim.metrics import global_requests, global_sectors

FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
LOCAL = "l1tex__t_requests_pipe_lsu_mem_local_op_{}.sum"


def loads_of(entry: str) -> list[str]:
    program = load_program(source_of("reuse.cu"), entry, 90)
    return sorted(".".join((i.opcode, *i.modifiers)) for i in program.instructions if i.opcode == "LDG")


def test_restrict_changes_the_load_instruction_of_axpy() -> None:
    assert loads_of("axpy") == ["LDG.E", "LDG.E"]
    assert loads_of("axpy_restrict") == ["LDG.E", "LDG.E.CONSTANT"]


def test_restrict_changes_no_request_sector_or_byte_of_axpy() -> None:
    plain, restrict = run("axpy").metrics, run("axpy_restrict").metrics
    for name in plain:
        if "requests" in name or "l1tex__t_sectors" in name or name.startswith(("lts__t_sectors_srcunit", "dram__")):
            assert plain[name] == pytest.approx(restrict[name], rel=0.01), name


def test_tiles_divide_a_matrix_products_global_loads_by_32() -> None:
    n = 128
    naive, tiled = run("matmul_naive", n=n), run("matmul_tiled", n=n)
    assert naive.metrics[global_requests("ld")] == 2 * n**3 // 32
    assert tiled.metrics[global_requests("ld")] == 2 * n**3 // 32 // 32


@pytest.mark.parametrize("name", ["matmul_naive", "matmul_tiled"])
def test_a_matrix_products_dram_traffic_is_ideal_because_l2_serves_the_other_ctas(name: str) -> None:
    n = 256
    result = run(name, n=n)
    assert dram_read(result) == pytest.approx(2 * 4 * n * n, rel=0.1)
    missed = result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum"] * 32
    assert missed > 1.9 * dram_read(result)  # and some of it merges on its way to L2
    assert dram_read(result) < l2_read(result) <= missed
    assert result.derived["l2"]["hit_rate"] > 0.5


def test_tiled_matrix_product_is_faster() -> None:
    assert time_of(run("matmul_tiled", n=256)) < time_of(run("matmul_naive", n=256))


def test_l1_serves_four_of_the_five_reads_of_a_stencil() -> None:
    result = run("stencil5", rows=512, cols=512)
    interior = 510 * 510
    assert result.metrics[global_sectors("ld")] > 5 * interior / 8
    assert result.derived["global"]["load"]["hit_rate"] > 0.6
    assert dram_read(result) == pytest.approx(4 * 512 * 512, rel=0.1)


def test_row_and_column_sums() -> None:
    rows, columns = run("row_sums"), run("column_sums")
    assert per_request(rows.metrics, "ld") == 32
    assert per_request(columns.metrics, "ld") == 4
    assert rows.derived["global"]["load"]["hit_rate"] == pytest.approx(7 / 8, abs=0.05)  # a sector serves 8 turns
    assert columns.derived["global"]["load"]["hit_rate"] < 0.05
    for result in (rows, columns):
        assert dram_read(result) == pytest.approx(4 * 2048 * 64, rel=0.05)


def test_sequential_addressing_frees_a_tree_reduction_of_conflicts() -> None:
    strided, sequential = run("reduce_strided"), run("reduce_sequential")
    assert shared(strided)[1] > 0.5
    assert shared(sequential)[1] == 0
    assert strided.metrics[FADD] == sequential.metrics[FADD] == 255 * (16384 // 256)


def test_a_large_shared_carve_out_takes_l1s_hits() -> None:
    large, small = run("l1_carveout"), run("l1_carveout", carveout=100)
    assert large.derived["global"]["load"]["hit_rate"] > 0.7  # three passes of four
    assert small.derived["global"]["load"]["hit_rate"] < 0.6


def test_fusion_saves_the_trip_of_the_intermediate() -> None:
    multiply, add, fused = (run(f"fusion_{name}") for name in ("multiply", "add", "fused"))
    n = fused.params["n"]
    assert [r.derived["useful"]["bytes"] for r in (multiply, add, fused)] == [8 * n, 12 * n, 12 * n]
    apart = dram_read(multiply) + dram_read(add)
    assert apart == pytest.approx(1.5 * dram_read(fused), rel=0.02)


def test_spills_make_local_memory_traffic() -> None:
    spills, none = run("spills"), run("no_spills")
    assert spills.metrics[LOCAL.format("ld")] > 0
    assert spills.metrics[LOCAL.format("st")] > 0
    assert not none.metrics.get(LOCAL.format("ld"), 0)
    assert spills.metrics[global_sectors("ld")] == none.metrics[global_sectors("ld")]
    assert spills.launch["registers"] == 32 < none.launch["registers"]
    assert time_of(spills) > time_of(none)
