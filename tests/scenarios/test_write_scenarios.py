"""Writes: partial sectors, random places, words of one line."""

from __future__ import annotations

import numpy as np

from tests.scenarios.checks import dram_read, per_request, run
from warpsim.metrics import global_requests, global_sectors

WRITTEN = "lts__t_sectors_srcunit_tex_op_write.sum"


def test_partial_sectors_make_reads() -> None:
    strided, whole = run("write_strided", n=1048576), run("write_words", n=1048576)
    assert per_request(strided.metrics, "st") == 32
    sectors = 1048576
    assert 0.6 * 32 * sectors < dram_read(strided) < 1.1 * 32 * sectors  # all but those that L2 still keeps waiting
    assert dram_read(whole) < 0.01 * 32 * sectors
    assert strided.metrics[global_requests("ld")] == 0


def test_random_scatter() -> None:
    result = run("scatter")
    n = result.params["n"]
    where = np.random.default_rng(1).permutation(n).reshape(-1, 32)
    sectors = sum(len(np.unique(row // 8)) for row in where)
    assert result.metrics[global_sectors("st")] == sectors
    assert per_request(result.metrics, "st") > 31


def test_words_of_one_line_from_several_ctas_merge_in_l2_and_padded_words_cost_sectors() -> None:
    together, padded = (run(f"write_{how}_lines", ctas=131072) for how in ("shared", "padded"))
    ctas = together.params["ctas"]
    for result in (together, padded):
        assert result.metrics[global_sectors("st")] == ctas
        assert 0.85 * ctas < result.metrics[WRITTEN] <= ctas  # few stores meet another of their line on their way to L2
    assert dram_read(padded) > 32 * ctas / 4  # partly written sectors that L2 cannot keep waiting are filled from DRAM
    assert dram_read(together) < 0.01 * dram_read(padded)  # the words of eight CTAs make a sector whole


def test_padding_a_threads_word_to_a_line_costs_sectors() -> None:
    assert per_request(run("write_words").metrics, "st") == 4
    assert per_request(run("write_padded_words").metrics, "st") == 32
