"""The example for other people's tests in the README is a test file that passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.cuda
def test_the_example_of_assertions_passes_and_fails_on_a_bad_kernel() -> None:
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "warpsim.testing" in block
    )
    names: dict[str, Any] = {}
    exec(code, names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
    names["SOURCE"] = names["SOURCE"].replace("in[i]", "in[i * 32 % n]")
    with pytest.raises(AssertionError, match="not coalesced"):
        names["test_scale_is_coalesced"]()
