"""How much SimPy and the compiled code are called for: counts, which do not depend on the computer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import simpy

from tests.machine.streams import Stream, operation, request
from warpsim.frontend.trace import EXIT, LOAD, STORE
from warpsim.gpu import load_gpu
from warpsim.machine import crossbar, dram, l2, launch, sm
from warpsim.machine.build import WINDOW, simulate_launch


@pytest.mark.parametrize("ctas", [100, 4000])
def test_events_and_kernel_calls_follow_the_cycles_not_the_requests(ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event and one call a component and window, whatever happens in the window; launches come on top."""
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: Any) -> Any:
            calls[module.__name__.rpartition(".")[2]] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, call)

    for module, name in ((sm, "advance"), (crossbar, "send"), (l2, "advance"), (dram, "advance"), (launch, "start")):
        counted(module, name)
    step = simpy.Environment.step

    def counted_step(self: simpy.Environment) -> None:
        calls["events"] += 1
        step(self)

    monkeypatch.setattr(simpy.Environment, "step", counted_step)
    ops = [operation(LOAD, write_barrier=0), operation(STORE, wait_mask=1), operation(EXIT)]

    def trace(cta: int, warp: int) -> list[tuple[int, list[int]]]:
        lines = [(1 << 20) + (cta * 4 + warp) * 4 + k for k in range(4)]
        return [(0, request(lines) + request([line + (1 << 21) for line in lines]))]

    result = simulate_launch(Stream([ops], trace, ctas, 4), load_gpu("h200"), ctas_per_sm=8)
    windows = result.windows
    assert abs(windows - result.machine_cycles / WINDOW) <= 2
    assert calls["crossbar"] == calls["l2"] == calls["dram"] == windows + 1
    assert calls["sm"] == windows + 1 + result.refills
    assert result.refills == 0
    assert 1 <= calls["launch"] <= windows + 1
    assert 5 * windows <= calls["events"] <= 6 * windows + 8  # a timeout a process and window, retirements
    assert result.counters["l2_requests"] == 32 * ctas
