"""Rules over the figures of a Result: each fires where it should, says numbers, and stays silent elsewhere."""

import pytest

from tests.synthetic import global_line, make, shared_line
from warpsim.errors import InputError
from warpsim.findings import RULES, check, parse
from warpsim.result import Result


def rules(result: Result) -> list[str]:
    return [found["rule"] for found in result.findings]


def one(result: Result, rule: str) -> dict[str, object]:
    (found,) = [f for f in result.findings if f["rule"] == rule]
    return found


def violations(result: Result, wanted: str) -> list[str]:
    return check(result.metrics, result.derived, result.launch, result.lines, wanted)


def test_an_uncoalesced_load_names_line_sectors_and_ideal() -> None:
    found = one(make([global_line(5, "ld", 100, 3200, 400, "x = in[32 * i];")]), "uncoalesced")
    assert (found["where"], found["line"], found["value"]) == ("k.cu:5", 5, 8.0)
    assert "32 sectors a request, 4 would do (8 times the sectors, 89.6 kB too many)" in str(found["message"])


def test_coalesced_accesses_of_any_width_have_no_finding() -> None:
    result = make([global_line(1, "ld", 100, 400, 400), global_line(2, "st", 100, 1600, 1600)])
    assert not {"uncoalesced", "misaligned"} & set(rules(result))


@pytest.mark.parametrize(("sectors", "ideal"), [(500, 400), (1700, 1600), (300, 200)])
def test_one_sector_too_many_in_every_request_is_a_misalignment(sectors: int, ideal: int) -> None:
    result = make([global_line(1, "ld", 100, sectors, ideal)])
    assert one(result, "misaligned")["value"] == 1.0
    assert "uncoalesced" not in rules(result)


def test_a_rare_extra_sector_is_no_misalignment() -> None:
    assert "misaligned" not in rules(make([global_line(1, "ld", 100, 420, 400)]))


def test_bank_conflicts_tell_ways() -> None:
    result = make([shared_line(9, "ld", 3200, 100, "s[lane][0]"), shared_line(10, "st", 100, 100)])
    found = one(result, "bank-conflicts")
    assert (found["value"], found["line"], found["access"]) == (32.0, 9, "shared load")
    assert "32-way" in str(found["message"])
    assert "bank-conflicts" not in rules(make([shared_line(9, "ld", 400, 400)]))


def test_partly_written_sectors() -> None:
    result = make([global_line(2, "st", 100, 3200, 400)], extra={"requested_bytes": {"st": 12800}})
    assert one(result, "partial-stores")["value"] == pytest.approx(7 / 8)
    few = [global_line(1, "ld", 10_000, 40_000, 40_000), global_line(2, "st", 100, 100, 100)]
    assert "partial-stores" not in rules(make(few, extra={"requested_bytes": {"st": 400}}))
    whole = make([global_line(2, "st", 100, 400, 400)], extra={"requested_bytes": {"st": 12800}})
    assert "partial-stores" not in rules(whole)


def test_stores_to_one_sector_are_its_trips_to_l2() -> None:
    metrics = {"lts__t_sectors_srcunit_tex_op_write.sum": 800}
    extra = {"useful_bytes": {"read": 0, "write": 3200, "write_sectors": 100}}
    found = one(make(metrics=metrics, extra=extra), "same-sector-writes")
    assert found["value"] == 8.0
    assert "each written sector goes to L2 8 times, 25.6 kB for 3.2 kB" in found["message"]
    spilled = {**metrics, "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 700}
    assert "same-sector-writes" not in rules(make(metrics=spilled, extra=extra))
    metrics["lts__t_sectors_srcunit_tex_op_write.sum"] = 100
    assert "same-sector-writes" not in rules(make(metrics=metrics, extra=extra))


@pytest.mark.parametrize(
    ("touched", "dram", "fires"), [(60e6, 3, True), (60e6, 1.1, False), (5e6, 3, False), (60e6, 6, False)]
)
def test_l2_thrashes_when_data_near_its_size_comes_from_dram_again(touched: float, dram: float, fires: bool) -> None:
    metrics = {
        "lts__t_sectors_srcunit_tex_op_read.sum": 4 * touched // 32,
        "dram__sectors_read.sum": dram * touched // 32,
    }
    extra = {"useful_bytes": {"read": touched, "write": 0, "write_sectors": 0}}
    found = make(metrics=metrics, extra=extra, gpu={"l2_bytes": 50e6})
    assert ("l2-thrash" in rules(found)) is fires


def test_dram_granularity_is_sectors_read_for_each_that_was_asked_for() -> None:
    metrics = {"dram__sectors_read.sum": 2000, "lts__t_sectors_srcunit_tex_op_read.sum": 1000}
    assert one(make(metrics=metrics), "dram-granularity")["value"] == 2.0
    metrics["dram__sectors_read.sum"] = 1100
    assert "dram-granularity" not in rules(make(metrics=metrics))


def test_too_few_bytes_in_flight_only_while_nothing_else_is_saturated() -> None:
    assert "low-in-flight" in rules(make(extra={"in_flight_bytes": 1e6, "busy": {"DRAM": 0.4}}))
    assert "low-in-flight" not in rules(make(extra={"in_flight_bytes": 1e6, "busy": {"data stage": 0.95}}))
    assert "low-in-flight" not in rules(make(extra={"in_flight_bytes": 2.9e6, "busy": {"DRAM": 0.4}}))


@pytest.mark.parametrize(("ctas", "fires"), [(1056, False), (1057, True), (2100, False), (500, False)])
def test_a_tail_wave_leaves_slots_empty(ctas: int, fires: bool) -> None:
    """1056 CTAs fill 132 SMs with 8 each."""
    assert ("tail-wave" in rules(make(launch={"grid": [ctas]}))) is fires


@pytest.mark.parametrize(("ctas", "fires"), [(131, True), (132, False)])
def test_a_grid_smaller_than_the_gpu(ctas: int, fires: bool) -> None:
    assert ("small-grid" in rules(make(launch={"grid": [ctas]}))) is fires


def test_local_memory_and_dispatch() -> None:
    assert "local-memory" in rules(make(metrics={"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 8}))
    assert one(make(extra={"busy": {"dispatch": 0.95}}), "dispatch-bound")["value"] == 0.95
    assert not {"local-memory", "dispatch-bound"} & set(rules(make(extra={"busy": {"dispatch": 0.5}})))


def test_low_bandwidth_is_advice_below_half_the_peak_of_memory_bound_kernels() -> None:
    low = {"useful_bytes": {"read": 10_000_000, "write": 0}}  # 1 TB/s of 4.8
    assert one(make(extra=low), "low-bandwidth")["severity"] == "advice"
    assert "low-bandwidth" not in rules(make(extra={"useful_bytes": {"read": 30_000_000, "write": 0}}))
    compute = {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1 << 40}
    assert "low-bandwidth" not in rules(make(metrics=compute, extra=low))
    assert "compute-bound" in rules(make(metrics=compute, extra=low))
    assert "memory-bound" in rules(make(extra=low))


def test_a_kernel_that_moves_nothing_is_neither_slow_nor_bound_by_memory() -> None:
    nothing = make(extra={"useful_bytes": {"read": 0, "write": 0}})
    assert not set(rules(nothing)) & {"low-bandwidth", "memory-bound", "compute-bound"}


def test_the_gain_is_bounded_by_the_busiest_component_that_stays() -> None:
    line = [global_line(1, "ld", 100, 3200, 400)]
    gain = one(make(line, extra={"busy": {"DRAM": 1.0, "issue": 0.5}}), "uncoalesced")["gain"]
    assert isinstance(gain, dict)
    assert gain["speedup"] == pytest.approx(2.0)  # issue remains
    assert gain["time_after_ns"] == pytest.approx(5000)
    gain = one(make(line, extra={"busy": {"DRAM": 0.8}}), "uncoalesced")["gain"]
    assert isinstance(gain, dict)
    assert gain["time_after_ns"] == pytest.approx(10_000 * (0.2 + 0.8 / 8))  # waiting stays, DRAM work shrinks 8 times


def test_findings_come_with_the_largest_gain_first_and_facts_last() -> None:
    lines = [global_line(1, "ld", 100, 800, 400), global_line(2, "ld", 100, 3200, 400)]
    result = make(lines, extra={"busy": {"DRAM": 1.0}, "useful_bytes": {"read": 1000, "write": 0}})
    found = [f for f in result.findings if f["rule"] == "uncoalesced"]
    assert [f["line"] for f in found] == [2, 1]
    assert [f["severity"] for f in result.findings] == sorted(
        (f["severity"] for f in result.findings), key=["warning", "advice", "info"].index
    )


def test_fail_on_uses_its_own_limit_even_below_the_reported_one() -> None:
    result = make([shared_line(9, "ld", 200, 100), global_line(1, "ld", 100, 440, 400)])
    assert violations(result, "bank-conflicts") == [
        "bank-conflicts: k.cu:9: bank conflicts in a shared load: 2-way, 200 wavefronts where 100 would do "
        "(2, above the limit 1.1)"
    ]
    assert violations(result, "bank-conflicts:2") == []
    assert violations(result, "misaligned") == []
    assert len(violations(result, "misaligned:0.1")) == 1
    low = make(extra={"useful_bytes": {"read": 30_000_000, "write": 0}})  # 62.5 % of the peak
    assert violations(low, "low-bandwidth") == []
    assert "below the limit 0.8" in violations(low, "low-bandwidth:0.8")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "unknown rule 'nonsense'; allowed: uncoalesced, "),
        ("uncoalesced:", "the limit '' is not a number"),
        ("uncoalesced:nan", "the limit 'nan' is not a number"),
        ("uncoalesced:2x", "the limit '2x' is not a number"),
    ],
)
def test_a_wrong_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


def test_every_rule_can_be_asked_for_on_a_result_without_accesses() -> None:
    empty = make()
    for name in RULES:
        violations(empty, name)
    assert set(rules(empty)) <= {"memory-bound"}
