"""Object code of this processor in the running process: what it was compiled for, and how to get at it."""

from __future__ import annotations

import ctypes
import functools
import os
import re

import llvmlite
import llvmlite.binding as llvm

__all__ = ["host", "load", "target"]

_engines: list[llvm.ExecutionEngine] = []  # keep what they hold alive


@functools.cache
def target() -> llvm.TargetMachine:
    """This processor, with vectors as wide as it has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        features["prefer-256-bit"] = False
    triple = llvm.Target.from_default_triple()
    return triple.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2)


@functools.cache
def host() -> str:
    """What object code depends on: LLVM's version and the processor."""
    return f"{llvmlite.__version__} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _never() -> None:
    os.write(2, b"error: internal error: compiled code raised an exception\n")
    os._exit(70)


_NEVER = ctypes.CFUNCTYPE(None)(_never)


def _complete(code: bytes) -> None:
    """Where numba is not loaded, stand in for what its code refers to: exceptions, and counts of owners it has not."""
    for symbol in set(re.findall(rb"(?:NRT|numba)_\w+(?=\0)", code)):
        if llvm.address_of_symbol(symbol.decode()) is None:
            llvm.add_symbol(symbol.decode(), ctypes.cast(_NEVER, ctypes.c_void_p).value)


def load(code: bytes, name: str) -> int:
    """Address of function `name` of an object file, which stays loaded."""
    target()
    _complete(code)
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address = engine.get_function_address(name)
    assert address
    return int(address)
