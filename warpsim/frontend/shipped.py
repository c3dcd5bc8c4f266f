"""The disassembly that ships: of every kernel of every shipped scenario, for the architectures of the GPU profiles.

`python -m warpsim.frontend.shipped` writes it anew; a test compares it with what the compiler makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsim.frontend import nvrtc
from warpsim.frontend.sass import SHIPPED, ship
from warpsim.gpu import gpu_names, load_gpu
from warpsim.library import list_scenarios
from warpsim.scenario import load

__all__ = ["architectures", "shipped_kernels"]


def architectures() -> list[int]:
    """The architectures of the shipped GPU profiles: 90 for sm_90."""
    return sorted({int(load_gpu(name).arch.removeprefix("sm_")) for name in gpu_names()})


def shipped_kernels() -> Iterator[dict[str, Any]]:
    """Arguments of `load_program` for each kernel that a shipped scenario runs, once each."""
    seen = set()
    for name in list_scenarios(faults=True):
        scenario = load(name)
        for test in (False, True):
            launch = scenario.bind(test=test)
            how = launch.compile
            for arch in architectures():
                kernel: dict[str, Any] = {
                    "source": launch.source,
                    "entry": launch.entry,
                    "arch": arch,
                    "std": how.std or "c++17",
                    "options": how.options,
                    "define": how.define,
                    "filename": Path(launch.kernel).name,
                }
                if (key := nvrtc.source_key(**kernel)) not in seen:
                    seen.add(key)
                    yield kernel


if __name__ == "__main__":
    paths = ship(shipped_kernels())
    print(f"{len(paths)} listings in {SHIPPED}")
