"""Generated kernels compiled many at a time: one compilation and one disassembly for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from warpsim.elements import element
from warpsim.fills import Fill
from warpsim.frontend import nvrtc
from warpsim.frontend.program import Program
from warpsim.frontend.sass import decode, disassemble
from warpsim.grammar import SmallKernel, buffers, inputs, source
from warpsim.launch import BufferArg, Launch, place

if TYPE_CHECKING:
    from warpsim.frontend.simt import Executor
    from warpsim.gpu import Gpu

__all__ = ["execute", "launch_of", "programs", "unit"]


def unit(kernels: Sequence[SmallKernel]) -> str:
    """One source with all kernels, called k0, k1 and so on, each in its own file as the compiler sees it."""
    parts, head = [], dict[str, None]()
    for number, kernel in enumerate(kernels):
        text = source(replace(kernel, name=f"k{number}"))
        start = text.index('extern "C"')
        for function in text[:start].split("\nstatic "):  # the same functions in every kernel that has them
            if function.strip():
                head[f"static {function.removeprefix('static ').strip()}"] = None
        parts.append(text[start:])
    return "\n".join([*head, *parts])


def programs(kernels: Sequence[SmallKernel], arch: int) -> list[Program]:
    """The programs of kernels, compiled together; they are called k0, k1 and so on in them."""
    compiled = nvrtc.compile_cubin(unit(kernels), "k0", arch)
    return [
        decode(disassemble(compiled.cubin, f"k{number}", compiled.compiler), f"k{number}", nvrtc.MAIN)
        for number in range(len(kernels))
    ]


def launch_of(
    kernel: SmallKernel, gpu: str = "h200", addresses: Sequence[int] | Mapping[str, int] | None = None
) -> Launch:
    """The kernel's launch, its buffers filled as its scenario says."""
    arrays = inputs(kernel)
    arguments = [
        BufferArg(name, element(type_), count, Fill("array", array=arrays[name]))
        for name, (type_, count) in buffers(kernel).items()
    ]
    return Launch(
        name=kernel.name,
        entry=kernel.name,
        source=source(kernel),
        kernel="(generated)",
        gpu=gpu,
        grid=kernel.grid,
        block=kernel.block,
        dynamic_shared=0,
        opt_in_shared=False,
        arguments=place(arguments, addresses),
    )


def execute(launch: Launch, program: Program, gpu: Gpu) -> Executor:
    """Run it for its counts; `executor.arrays` holds the buffers afterwards."""
    from warpsim.frontend.simt import Executor

    executor = Executor(launch, program, gpu)
    executor.run()
    return executor
