"""The public assertions: silent on good kernels, naming line and numbers on bad ones."""

import pytest

from tests.synthetic import global_line, make, shared_line
from warpsim.testing import assert_coalesced, assert_max_sectors_per_request, assert_no_bank_conflicts

GOOD = make([global_line(1, "ld", 100, 400, 400, "x = in[i];"), shared_line(2, "ld", 100, 100)])
BAD = make(
    [
        global_line(1, "ld", 100, 400, 400, "x = in[i];"),
        global_line(3, "st", 1000, 32000, 4000, "out[32 * i] = x;"),
        shared_line(5, "ld", 3200, 100, "s[threadIdx.x][0]"),
    ]
)


def test_good_kernels_pass_and_come_back() -> None:
    assert assert_coalesced(GOOD) is GOOD
    assert assert_no_bank_conflicts(GOOD) is GOOD
    assert assert_max_sectors_per_request(GOOD, 4) is GOOD


def test_a_failure_names_every_line_with_its_numbers() -> None:
    with pytest.raises(AssertionError) as error:
        assert_coalesced(BAD)
    assert str(error.value) == (
        "made on h200: not coalesced\n"
        "  k.cu:3 `out[32 * i] = x;`: global store takes 32 sectors a request, 4 would do "
        "(1,000 requests, 28,000 sectors too many)"
    )
    with pytest.raises(AssertionError, match=r"k\.cu:5 .*: shared load has 32-way bank conflicts \(3,100 of 3,200"):
        assert_no_bank_conflicts(BAD)
    with pytest.raises(AssertionError, match=r"k\.cu:3 .* takes 32 sectors a request, at most 16 allowed"):
        assert_max_sectors_per_request(BAD, 16)


def test_op_and_factor_narrow_what_is_asked() -> None:
    assert_coalesced(BAD, op="load")
    assert_coalesced(BAD, factor=8)
    assert_no_bank_conflicts(BAD, op="store")
    assert_max_sectors_per_request(BAD, 4, op="load")
    with pytest.raises(ValueError, match="op 'loads' given, allowed: load, store"):
        assert_coalesced(BAD, op="loads")


def test_the_whole_kernel_is_judged_where_there_are_no_lines() -> None:
    bad = make(metrics=BAD.metrics, extra={"ideal": {k: v for x in BAD.lines for k, v in x["ideal"].items()}})
    with pytest.raises(AssertionError, match=r"^made on h200: not coalesced\n  k: global store"):
        assert_coalesced(bad)


def test_a_result_takes_no_launch_and_nonsense_no_assertion() -> None:
    with pytest.raises(TypeError, match="a Result takes no grid, gpu"):
        assert_coalesced(GOOD, grid=4, gpu="h100")
    with pytest.raises(TypeError, match="int given"):
        assert_coalesced(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a scenario takes no block"):
        assert_coalesced("copy", block=32)
