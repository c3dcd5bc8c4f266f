"""What a campaign examines: patterns and kernels, with their laws, features, data and scenario text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from typing import Any

from warpsim import batch, grammar, laws
from warpsim.errors import KernelError, UnsupportedError
from warpsim.frontend.program import Program
from warpsim.gpu import Gpu
from warpsim.grammar import SmallKernel
from warpsim.laws import Disagreement
from warpsim.patterntable import CELLS, Pattern

__all__ = [
    "DENSITIES", "SPANS", "Case", "case_data", "case_of", "feature_counts", "features", "judge_kernels",
    "judge_pattern", "laws_of", "scenario_of", "size_of", "small",
]  # fmt: skip

Case = Pattern | SmallKernel
Verdicts = dict[str, Disagreement]  # law -> how it does not hold

DENSITIES = {"few": (1, 8), "some": (9, 31), "all": (32, 32)}
"""Active lanes."""
SPANS = {
    "global": {"near": (1, 512), "middle": (513, 64 << 10), "far": ((64 << 10) + 1, 64 << 20)},
    "shared": {"near": (1, 512), "middle": (513, 4 << 10), "far": ((4 << 10) + 1, 32 << 10)},
}
"""Bytes from the first to the last accessed."""
_LINES = {"1": 1, "2-4": 4, "5-16": 16, "17-32": 64}


def laws_of(kind: str) -> tuple[str, ...]:
    """The laws of patterns or kernels that are checked without a GPU."""
    return tuple(laws.PATTERN_LAWS) if kind == "patterns" else ("is_accepted", *laws.KERNEL_LAWS, *laws.MACHINE_LAWS)


# ---- verdicts


def _guarded(check: Callable[[], None]) -> Disagreement | None:
    """What is wrong; a crash is a disagreement too."""
    try:
        check()
    except Disagreement as wrong:
        return wrong
    except Exception as error:
        return Disagreement({"error": None}, {"error": f"{type(error).__name__}: {error}"}, "crash")
    return None


def judge_pattern(pattern: Pattern, gpu: Gpu, names: Sequence[str] = ()) -> Verdicts:
    """The laws (all, or these) that do not hold for a pattern."""
    wanted = names or tuple(laws.PATTERN_LAWS)
    found = {name: _guarded(partial(laws.PATTERN_LAWS[name], pattern, gpu)) for name in wanted}
    return {name: wrong for name, wrong in found.items() if wrong is not None}


def judge_kernels(
    kernels: Sequence[SmallKernel], gpu: Gpu, names: Sequence[str] = (), timed: bool = True
) -> list[Verdicts]:
    """The laws (all, or these) that do not hold for each kernel; compiled together, one by one if that fails."""
    if not kernels:
        return []
    arch = int(gpu.arch.removeprefix("sm_"))
    try:
        programs: Sequence[Program] = batch.programs(kernels, arch)
    except (KernelError, UnsupportedError) as error:
        if len(kernels) > 1:
            return [judge_kernels([kernel], gpu, names, timed)[0] for kernel in kernels]
        return [{"is_accepted": laws.fault_of(error)}]
    return [_judge_kernel(k, p, gpu, names, timed) for k, p in zip(kernels, programs, strict=True)]


def _judge_kernel(kernel: SmallKernel, program: Program, gpu: Gpu, names: Sequence[str], timed: bool) -> Verdicts:
    found: Verdicts = {}
    wanted = [name for name in laws.KERNEL_LAWS if not names or name in names]
    if wanted or "is_accepted" in names:
        try:
            run = laws.run_kernel(kernel, program, gpu)
        except Exception as error:
            return {"is_accepted": laws.fault_of(error)}
        for name in wanted:
            wrong = _guarded(partial(laws.KERNEL_LAWS[name], run))
            if wrong is not None:
                found[name] = wrong
    wanted = [name for name in laws.MACHINE_LAWS if (timed and not names) or name in names]
    if wanted and not found:
        try:
            result = laws.time_kernel(kernel, gpu, program)
        except Exception as error:
            return {"is_accepted": laws.fault_of(error)}
        for name in wanted:
            wrong = _guarded(partial(laws.MACHINE_LAWS[name], result))
            if wrong is not None:
                found[name] = wrong
    return found


# ---- features


def _bin(value: int, bins: dict[str, tuple[int, int]]) -> str:
    return next((name for name, (_, high) in bins.items() if value <= high), list(bins)[-1])


def features(case: Case) -> Iterator[tuple[str, str]]:
    """(feature, value) pairs that coverage counts; "cell" is their cross product for patterns."""
    if isinstance(case, SmallKernel):
        yield from _kernel_features(case)
        return
    lanes = [a for a, on in zip(case.addresses, case.active, strict=True) if on]
    span = _bin(max(lanes) - min(lanes) + case.width, SPANS[case.space])
    density = _bin(len(lanes), DENSITIES)
    lines = len({byte // 128 for a in lanes for byte in (a, a + case.width - 1)})
    yield "op", f"{case.op} {case.space}"
    yield "width", str(case.width)
    yield "span", span
    yield "mask density", density
    yield "lines touched", next(name for name, high in _LINES.items() if lines <= high)
    yield "cell", f"{case.op} {case.space} {case.width} {density} {span}"


def feature_counts() -> dict[str, int]:
    """Values that each feature of patterns can have."""
    values: dict[str, Sized] = {
        "op": {cell[:2] for cell in CELLS},
        "width": {cell[2] for cell in CELLS},
        "span": SPANS["global"],
        "mask density": DENSITIES,
        "lines touched": _LINES,
    }
    return {name: len(every) for name, every in values.items()}


def _kernel_features(kernel: SmallKernel) -> Iterator[tuple[str, str]]:
    parts = list(grammar.statements(kernel.body))
    for kind in sorted({type(s).__name__.lower() for s in parts}):
        yield "statement", kind
    for width in sorted({s.width for s in parts if isinstance(s, (grammar.Load, grammar.Store, grammar.Tile))}):
        yield "kernel width", str(width)
    yield "accesses", "volatile" if kernel.volatile else "free"
    yield "threads", "1-32" if kernel.threads <= 32 else "33-128" if kernel.threads <= 128 else "129-256"
    yield "CTAs", "1" if kernel.ctas == 1 else "2-8"


def size_of(case: Case) -> dict[str, int]:
    """How small a shrunk case is: active lanes of a pattern, lines of a kernel."""
    if isinstance(case, SmallKernel):
        return {"lines": len(grammar.lines_of(case)), "statements": len(list(grammar.statements(case.body)))}
    return {"lanes": sum(case.active)}


def small(case: Case) -> bool:
    """Small enough to be read at a glance."""
    return len(grammar.lines_of(case)) <= 3 if isinstance(case, SmallKernel) else sum(case.active) <= 4


# ---- data


def case_data(case: Case) -> dict[str, Any]:
    """JSON from which `case_of` makes the case again."""
    if isinstance(case, SmallKernel):
        return {"kernel": grammar.to_data(case)}
    return {"pattern": case.to_dict()}


def case_of(data: dict[str, Any]) -> Case:
    """The case of `case_data`."""
    if "kernel" in data:
        return grammar.from_data(data["kernel"])
    p = data["pattern"]
    return Pattern(p["op"], p["space"], p["width"], tuple(p["addresses"]), tuple(p["active"]), p.get("kind", ""))


def scenario_of(case: Case, gpu: str, description: str) -> str:
    """The case as a scenario file with ordinary CUDA source."""
    if isinstance(case, SmallKernel):
        return grammar.scenario_text(case, gpu, description)
    return _pattern_scenario(case, gpu, description)


_VALUES = {1: "0", 2: "0", 4: "0u", 8: "0ull", 16: "make_uint4(0, 0, 0, 0)"}
_ATOMICS = {
    "": "atomicAdd(&{0}, 1)",
    "exch": "atomicExch(&{0}, 1)",
    "cas": "atomicCAS(&{0}, 0, 1)",
    "fadd": "atomicAdd(&{0}, 1.0f)",
}


def _pattern_scenario(p: Pattern, gpu: str, description: str) -> str:
    """One warp, whose lanes take their indices from constant memory, which costs no access at L1TEX."""
    type_ = "float" if p.kind == "fadd" else grammar.TYPES[p.width]
    place = "data[index[threadIdx.x]]"
    if p.op == "load":
        access = f"out[threadIdx.x] = {place};"
    elif p.op == "store":
        access = f"{place} = {_VALUES[p.width]};"
    elif p.op.startswith("ldmatrix"):
        access = f"out[threadIdx.x] = matrix(&{place});"
    else:
        call = _ATOMICS[p.kind].format(place)
        access = f"out[threadIdx.x] = {call};" if p.op == "atomic" else f"{call};"
    with_out = "out[" in access
    out_type = "unsigned" if p.op.startswith("ldmatrix") else type_
    count = max(p.extent // p.width, 1)
    indices = ", ".join(str(a // p.width) if on else "0" for a, on in zip(p.addresses, p.active, strict=True))
    guarded = access if all(p.active) else f"if ({hex(p.mask)}u >> threadIdx.x & 1u) {access}"
    parameters = [f"{type_}* data"] if p.space == "global" else []
    parameters += [f"{out_type}* out"] if with_out else []
    source = [f"__constant__ unsigned index[32] = {{{indices}}};"]
    if p.op.startswith("ldmatrix"):
        source.append(_matrix(int(p.op[-1])))
    source.append(f'extern "C" __global__ void access({", ".join(parameters)}) {{')
    if p.space == "shared":
        zero = "0.0f" if p.kind == "fadd" else _VALUES[p.width]
        source += [
            f"    extern __shared__ {type_} data[];",
            f"    for (unsigned i = threadIdx.x; i < {count}u; i += 32) data[i] = {zero};",
            "    __syncthreads();",
        ]
    source += [f"    {guarded}", "}", ""]
    arguments = []
    if p.space == "global":
        arguments.append(f'[[arg]]\nname = "data"\nbuffer = "{type_}"\ncount = {count}\nfill = "zeros"\n')
    if with_out:
        arguments.append(f'[[arg]]\nname = "out"\nbuffer = "{out_type}"\ncount = 32\nfill = "zeros"\n')
    dynamic = f"dynamic_shared = {count * p.width}\nopt_in_shared = true\n" if p.space == "shared" else ""
    return "\n".join([
        "schema = 1", f"description = {json.dumps(description)}", 'entry = "access"', f"gpu = {json.dumps(gpu)}",
        "source = '''", "\n".join(source) + "'''", "", "[launch]", "grid = [1]", "block = [32]", dynamic, *arguments,
    ])  # fmt: skip


def _matrix(count: int) -> str:
    outputs = ", ".join(f"%{i}" for i in range(count))
    bound = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    total = " + ".join(f"r[{i}]" for i in range(count))
    return f"""__device__ unsigned matrix(const uint4* p) {{
    unsigned r[{count}];
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{outputs}}}, [%{count}];"
        : {bound} : "r"((unsigned)__cvta_generic_to_shared(p)));
    return {total};
}}"""
