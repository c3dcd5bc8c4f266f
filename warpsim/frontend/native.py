"""Native code: LLVM IR to a callable address, compiled once and cached as object code."""

from __future__ import annotations

import functools
from pathlib import Path

import llvmlite.binding as llvm

from warpsim import cache
from warpsim.machinecode import host, load, target

__all__ = ["compile_native"]


@functools.cache
def _sources() -> str:
    """A digest of what emits code, so that an upgrade or an edit never meets stale object code."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return cache.digest(*(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files))


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The passes that vectors of 32 lanes gain from. Combining instructions takes most of -O1 and gains nothing."""
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def compile_native(make_ir: functools.partial[str], key: str, name: str) -> int:
    """Address of function `name` of the IR that `make_ir()` gives, cached under `key` for this processor."""
    file = "native-" + cache.digest(key, host(), _sources())
    stored = cache.read(file)
    if stored is None:
        module = _optimised(make_ir(), target())
        stored = target().emit_object(module)
        cache.write(file, stored)
    return load(stored, name)
