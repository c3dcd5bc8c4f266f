"""Coalescing: sectors a request of copies, walks and structs."""

from __future__ import annotations

import pytest

from tests.scenarios.checks import dram_read, line, load_miss, per_request, run, time_of


def test_contiguous_float_copy_takes_four_sectors_a_request() -> None:
    metrics = run("copy").metrics
    assert per_request(metrics, "ld") == 4
    assert per_request(metrics, "st") == 4


def test_float4_copy_takes_sixteen_sectors_a_request_all_useful() -> None:
    result = run("copy_float4")
    assert per_request(result.metrics, "ld") == 16
    assert result.derived["global"]["load"]["ideal_sectors_per_request"] == 16
    assert result.derived["bytes_per_useful_byte"]["l1_read"] == 1


@pytest.mark.parametrize(("stride", "sectors"), [(2, 8), (4, 16), (8, 32), (32, 32)])
def test_strided_reads(stride: int, sectors: int) -> None:
    metrics = run("stride", stride=stride).metrics
    assert per_request(metrics, "ld") == sectors
    assert per_request(metrics, "st") == 4


def test_stride_32_moves_8_times_the_useful_bytes_to_l2_and_16_times_at_dram() -> None:
    result = run("stride", stride=32)
    useful = 4 * result.params["n"]
    assert 32 * load_miss(result.metrics) / useful == 8
    assert dram_read(result) / useful == pytest.approx(16, rel=0.01)


def test_base_off_by_one_float_takes_five_sectors_a_request() -> None:
    metrics = run("misaligned").metrics
    assert per_request(metrics, "ld") == 5
    assert per_request(run("misaligned", offset=8).metrics, "ld") == 4  # a whole sector further


def test_row_walk_is_the_coalesced_one() -> None:
    rows = line(run("row_walk"), "data[row * width + col]")
    columns = line(run("column_walk"), "data[col * width + row]")
    assert per_request(rows, "ld") == 4
    assert per_request(columns, "ld") == 32


def test_one_field_of_16_byte_structs_against_separate_arrays() -> None:
    structs, arrays = run("structs_aos"), run("structs_soa")
    assert per_request(structs.metrics, "ld") == 16
    assert per_request(arrays.metrics, "ld") == 4
    assert dram_read(structs) == pytest.approx(4 * dram_read(arrays), rel=0.01)


def test_a_column_walk_costs_time() -> None:
    assert time_of(run("column_walk", width=1024)) > 1.1 * time_of(run("row_walk", width=1024))
