"""Roofline: FLOPs, arithmetic intensity over useful bytes, ridge points."""

from __future__ import annotations

import pytest

from tests.scenarios.checks import run
from warpsim.derivation import gpu_facts
from warpsim.gpu import gpu_names, load_gpu


@pytest.mark.parametrize(("name", "flops", "intensity"), [("add", 1, 1 / 12), ("scale", 1, 1 / 8)])
def test_element_wise_kernels(name: str, flops: int, intensity: float) -> None:
    result = run(f"roofline_{name}")
    assert result.derived["flops"]["total"] == flops * result.params["n"]
    assert result.derived["intensity"]["useful"] == pytest.approx(intensity)


def test_dot_product_has_a_quarter_of_a_flop_a_byte() -> None:
    result = run("roofline_dot")
    n = result.params["n"]
    assert result.derived["flops"]["total"] == pytest.approx(2 * n, rel=0.02)
    assert result.derived["intensity"]["useful"] == pytest.approx(1 / 4, rel=0.02)


@pytest.mark.parametrize("n", [64, 128])
def test_matrix_product_has_n_over_6_flops_a_byte(n: int) -> None:
    result = run("roofline_matmul", n=n)
    assert result.derived["flops"]["fp32"] == 2 * n**3
    assert result.derived["intensity"]["useful"] == pytest.approx(n / 6, rel=0.02)  # and a constant made by HFMA2


def test_relu_has_no_flop_and_one_other_op_an_element() -> None:
    result = run("roofline_relu")
    assert result.derived["flops"]["total"] == 0
    assert result.derived["intensity"]["useful"] == 0
    assert sum(result.derived["flops"]["other_ops"].values()) == result.params["n"]


@pytest.mark.parametrize(
    ("gpu", "precision", "ridge"),
    [
        ("a100-80gb", "fp32", 9.56),
        ("a100-80gb", "fp16_tensor", 312 / 2.039),
        ("a100-80gb", "tf32_tensor", 156 / 2.039),
        ("h100", "fp32", 66.9 / 3.35),
        ("h100", "fp16_tensor", 989 / 3.35),
        ("h200", "fp32", 67 / 4.8),
    ],
)
def test_ridge_points(gpu: str, precision: str, ridge: float) -> None:
    result = run("roofline_add", gpu=gpu)
    assert result.derived["roofline"]["ridge"][precision] == pytest.approx(ridge, rel=0.002)


@pytest.mark.parametrize("gpu", gpu_names())
def test_every_profile_has_an_fp32_ridge_point(gpu: str) -> None:
    facts = gpu_facts(load_gpu(gpu))
    assert facts["flops"]["fp32"] / facts["dram_bandwidth"] > 1
