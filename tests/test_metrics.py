"""Names, units and explanations of metrics."""

import pytest

from warpsim.errors import InputError
from warpsim.metrics import FLOP_WEIGHTS, METRICS, OPTIONAL, REQUIRED, expand, explain, find

CONTRACT = """gpu__time_duration.sum
l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st,atom,red}.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st,atom,red}.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_{hit,miss}.sum
l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum
l1tex__data_pipe_lsu_wavefronts.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}.sum
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{ld,st}.sum
lts__t_requests_srcunit_tex.sum
lts__t_sectors_srcunit_tex_op_{read,write}.sum
lts__t_sectors_srcunit_tex_lookup_{hit,miss}.sum
lts__t_sectors.sum
dram__sectors_{read,write}.sum
sm__cycles_elapsed.max
sm__warps_active.avg.pct_of_peak_sustained_active
smsp__inst_executed.sum
smsp__sass_thread_inst_executed_op_{fadd,fmul,ffma,dadd,dmul,dfma,hadd,hmul,hfma}_pred_on.sum"""


def test_the_required_metrics_are_those_of_the_contract() -> None:
    assert list(REQUIRED) == [name for line in CONTRACT.splitlines() for name in expand(line)]


def test_expand_takes_every_combination() -> None:
    assert expand("a{b,c}d{e,f}") == ["abde", "abdf", "acde", "acdf"]
    assert expand("plain") == ["plain"]


def test_every_metric_says_what_it_is() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.unit
        assert metric.meaning
        assert metric.compared
        assert metric.agreement in ("exact", "isolated", "tolerance")
        assert name in explain(name)


def test_nvprof_names_lead_to_one_metric_each() -> None:
    old = [name for metric in METRICS.values() for name in metric.nvprof]
    assert len(old) == len(set(old))
    assert not set(old) & set(METRICS)
    assert find("gld_transactions").name == "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert find("dram_read_transactions").name == "dram__sectors_read.sum"
    assert find("gld_transactions_per_request").derived == "global.load.sectors_per_request"
    assert "(gld_efficiency in nvprof)" in explain("gld_efficiency")


def test_a_name_without_its_suffix_is_understood() -> None:
    assert find("dram__sectors_read").name == "dram__sectors_read.sum"
    assert find(" lts__t_sectors.sum ").name == "lts__t_sectors.sum"


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(InputError, match=r"unknown metric 'dram__sectors_raed.sum'.*dram__sectors_read.sum"):
        find("dram__sectors_raed.sum")
    with pytest.raises(InputError, match="gld_efficiency"):
        find("gld_eficiency")
    with pytest.raises(InputError, match="lists all metrics"):
        find("zzzzzzzz")


def test_flops_count_a_fused_multiply_add_twice() -> None:
    assert len(FLOP_WEIGHTS) == 9
    assert set(FLOP_WEIGHTS) <= set(REQUIRED)
    assert FLOP_WEIGHTS["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == ("fp32", 2)
    assert FLOP_WEIGHTS["smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"] == ("fp64", 1)
    assert FLOP_WEIGHTS["smsp__sass_thread_inst_executed_op_hadd_pred_on.sum"] == ("fp16", 1)


def test_required_and_optional_metrics_do_not_overlap() -> None:
    assert not set(REQUIRED) & set(OPTIONAL)
