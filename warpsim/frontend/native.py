"""Native code: LLVM IR to a callable address, compiled once and cached as object code."""

from __future__ import annotations

import functools
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from warpsim import cache

__all__ = ["compile_native"]

_engines: list[llvm.ExecutionEngine] = []  # keep what they compiled alive


@functools.cache
def _target() -> tuple[llvm.TargetMachine, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        features["prefer-256-bit"] = False
    flat = features.flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=flat, opt=2), f"{llvmlite.__version__} {cpu} {flat}"


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
    machine, host = _target()
    file = "native-" + cache.digest(key, host, _sources())
    stored = cache.read(file)
    if stored is None:
        module = _optimised(make_ir(), machine)
        stored = machine.emit_object(module)
        cache.write(file, stored)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_copy())
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(stored))
    engine.finalize_object()
    _engines.append(engine)
    address = engine.get_function_address(name)
    assert address
    return int(address)


def _target_copy() -> llvm.TargetMachine:
    """A machine that an engine may own."""
    target = llvm.Target.from_default_triple()
    return target.create_target_machine()
