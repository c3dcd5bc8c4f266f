"""Hardware-aware simulation of GPU memory accesses, cross-checked on real GPUs."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "Buffer", "Kernel", "Result", "Scenario", "__version__", "access", "compare", "load", "replay", "simulate",
    "strategies", "testing",
]  # fmt: skip

__version__ = "0.1.0"

_HOMES = {
    "Buffer": "warpsim.kernel",
    "Kernel": "warpsim.kernel",
    "Result": "warpsim.result",
    "Scenario": "warpsim.scenario",
    "access": "warpsim.patterns",
    "compare": "warpsim.comparison",
    "load": "warpsim.scenario",
    "replay": "warpsim.recordings",
    "simulate": "warpsim.simulator",
    "strategies": None,
    "testing": None,
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562), so that `import warpsim` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'warpsim' has no attribute {name!r}")
    home = _HOMES[name]
    value = importlib.import_module(f"warpsim.{name}") if home is None else getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
