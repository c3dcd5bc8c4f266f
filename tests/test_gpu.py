"""GPU profiles: every figure has a source, names resolve as users write them, residency follows CUDA's rules."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from warpsim.errors import InputError
from warpsim.gpu import PROFILES, assumed_numbers, gpu_names, load_gpu, occupancy


@pytest.mark.parametrize("name", gpu_names())
def test_every_figure_has_unit_and_source(name: str) -> None:
    gpu = load_gpu(name)
    for key, figure in gpu.figures.items():
        component, field = key.split(".")
        value = getattr(getattr(gpu, component), field)
        assert value == (tuple(figure.value) if isinstance(figure.value, list) else figure.value)
        assert figure.source.split(":")[0] in {"vendor", "measured", "measured elsewhere", "fitted", "assumed"}, key
    assert gpu.checked == (name == "h200")
    if not gpu.checked:
        assert assumed_numbers(gpu)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("H200", "h200"), ("sm_90", "h200"), ("9.0", "h200"), ("NVIDIA H200", "h200"), ("A100", "a100-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"), ("sm_80", "a100-80gb"), ("RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"), ("sm_100", "b200"), ("H100", "h100"),
    ],
)  # fmt: skip
def test_aliases(alias: str, name: str) -> None:
    assert load_gpu(alias).name == name


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"unknown GPU 'h20', did you mean h200\? \(known: a100-80gb, b200"):
        load_gpu("h20")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count = {", "cuont = {", "unknown key 'cuont'"),
        ("value = 132,", 'value = "132",', "expected a non-negative integer"),
        ("value = 132,", "value = -1,", "expected a non-negative integer"),
        ("ways = { value = 32,", "ways = { value = 33,", "1 to 32"),
        ("[dram]", "[drum]", r"unknown table \[drum\]"),
        ("[gpu]", "[gpu", "not a GPU profile"),
        (', source = "vendor: H200 datasheet"', "", "write { value"),
    ],
)
def test_profile_errors_name_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (PROFILES / "h200.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_gpu(path)


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((PROFILES / "h200.toml").read_text())
    mine = load_gpu(str(path))
    assert mine.name == "mine"
    assert dataclasses.replace(mine, name="h200") == load_gpu("h200")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "ctas", "limiter"),
    [
        (256, 32, 0, 8, "warps"), (32, 16, 0, 32, "ctas"), (256, 64, 0, 4, "registers"), (1024, 40, 0, 1, "registers"),
        (96, 168, 0, 4, "registers"), (128, 16, 100 * 1024, 2, "shared"), (1024, 32, 122880, 1, "shared"),
        # What the driver says of an H200 of CTAs whose warps are no multiple of four.
        (192, 26, 0, 10, "warps"), (64, 48, 0, 20, "registers"), (64, 30, 0, 32, "warps"),
        (64, 34, 16, 24, "registers"), (64, 32, 8192, 25, "shared"), (32, 26, 0, 32, "ctas"),
    ],
)  # fmt: skip
def test_occupancy(threads: int, registers: int, shared: int, ctas: int, limiter: str) -> None:
    found = occupancy(load_gpu("h200"), threads, registers, shared)
    assert (found.ctas_per_sm, found.limiter) == (ctas, limiter)


def test_carveout_is_the_smallest_that_holds_the_ctas() -> None:
    assert occupancy(load_gpu("h200"), 1024, 16, 8192).carveout_kib == 32
    assert occupancy(load_gpu("h200"), 1024, 16, 0).carveout_kib == 8
    assert occupancy(load_gpu("h200"), 1024, 16, 122880).carveout_kib == 132


def test_a_cta_that_does_not_fit() -> None:
    with pytest.raises(InputError, match="shared memory a CTA"):
        occupancy(load_gpu("h200"), 128, 16, 228 * 1024)
    with pytest.raises(InputError, match="no CTA fits"):
        occupancy(load_gpu("h200"), 1024, 255, 0)
