"""Tier 0: every shipped scenario runs on every GPU that ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenarios.checks import run
from warpsim.gpu import gpu_names
from warpsim.library import list_scenarios
from warpsim.metrics import REQUIRED


@pytest.mark.parametrize("name", list_scenarios())
@pytest.mark.parametrize("gpu", gpu_names())
def test_scenario_runs_on_gpu(name: str, gpu: str) -> None:
    result = run(name, gpu=gpu)
    assert result.gpu == gpu
    assert result.time_ns > 0
    assert [m for m in REQUIRED if m not in result.metrics] == []


def test_documentation_says_what_every_scenario_shows() -> None:
    text = (Path(__file__).parents[2] / "docs" / "shipped.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert set(list_scenarios()) - named == set()
