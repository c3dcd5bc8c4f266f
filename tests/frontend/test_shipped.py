"""The disassembly that ships is what the compiler makes of the shipped kernels today."""

from __future__ import annotations

import pytest

from warpsim.errors import KernelError, UnsupportedError
from warpsim.frontend import nvrtc, sass
from warpsim.frontend.shipped import shipped_kernels

KERNELS = list(shipped_kernels())


def compiles(kernel) -> bool:
    try:
        nvrtc.compile_cubin(**kernel)
    except KernelError:
        return False
    return True


@pytest.mark.cuda
@pytest.mark.parametrize("arch", sorted({k["arch"] for k in KERNELS}))
def test_it_is_what_the_compiler_makes(arch, tmp_path):
    """Where this fails, `python -m warpsim.frontend.shipped` writes it anew."""
    pytest.importorskip("cuda.bindings.nvrtc")
    fresh = sass.ship([k for k in KERNELS if k["arch"] == arch], tmp_path)
    kept = {path.name: path.read_text() for path in (sass.SHIPPED / f"sm_{arch}").glob("*.json")}
    assert {path.name: path.read_text() for path in fresh} == kept


def test_every_scenario_loads_without_a_compiler(monkeypatch):
    def none() -> tuple[str, str]:
        raise UnsupportedError("no compiler")

    monkeypatch.setattr(sass, "disassembler", none)
    missing = []
    lined = 0
    for kernel in KERNELS:
        try:
            program = sass.load_program(**kernel)
        except UnsupportedError:
            missing.append(kernel["entry"])
            continue
        assert program.compiler == "NVRTC 13.0.88"
        assert program.arch == kernel["arch"]
        assert program.name == kernel["entry"]
        lined += program.instructions[0].line > 0
    assert lined > 0.95 * len(KERNELS)  # the endless loop has no line table on sm_100
    assert set(missing) <= {"static_shared"}  # the fault that no compiler accepts
