"""CUDA C++ to a cubin, with NVRTC from NVIDIA's wheels: no GPU and no driver."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warpsim import cache
from warpsim.errors import InputError, KernelError, UnsupportedError

__all__ = [
    "HEADERS",
    "Compiled",
    "compile_cubin",
    "compiler_version",
    "include_directories",
    "source_key",
    "wheel",
    "with_macros",
]

HOST_CODE = "only device code is compiled: put host code between #ifndef __CUDACC_RTC__ and #endif"
MISSING = "needs warpsim[cuda]: pip install 'warpsim[cuda]'"
HEADERS = Path(__file__).parent / "headers"  # of the C and C++ standard libraries, which NVRTC lacks
MAIN = "kernel.cu"  # what NVRTC is told the source is called, in the directory of the source for its quoted includes


@dataclass(frozen=True)
class Compiled:
    """A compiled source: the cubin and the mangled name of the entry in it."""

    cubin: bytes
    lowered: str
    compiler: str
    log: str


def compile_cubin(
    source: str,
    entry: str,
    arch: int,
    *,
    std: str = "c++17",
    options: Sequence[str] = (),
    define: Mapping[str, object] | None = None,
    filename: str = MAIN,
) -> Compiled:
    """Compile for sm_`arch`, with the options that CuPy passes after the caller's.

    `entry` is a kernel as C++ writes it (``f``, ``f<32>``, ``ns::g<float>``) or its mangled name. Compiled code is
    kept in the user's cache by source, entry, options and versions; a hit does not load the compiler.
    """
    flags = _flags(arch, std, options)
    version = compiler_version()
    key = cache.digest(source_key(source, entry, arch, std, options, define, filename), version, _header_versions())
    if known := _cached(key):
        return known
    binary, lowered, log = _compile(with_macros(source, define), entry, flags, arch, filename)
    result = Compiled(binary, lowered, f"NVRTC {version}", log)
    name = cache.digest(binary)
    cache.write(f"cubin/{name}", binary)
    index = {"cubin": name, "lowered": lowered, "compiler": result.compiler, "log": log}
    cache.write(f"source/{key}", json.dumps(index).encode())
    return result


def source_key(
    source: str,
    entry: str,
    arch: int,
    std: str,
    options: Sequence[str],
    define: Mapping[str, object] | None,
    filename: str,
) -> str:
    """Hash of all that a user gives the compiler, included files of the user's own too."""
    text = with_macros(source, define)
    included = _included(text, _user_directories(options, filename))
    return cache.digest("1", text, entry, "\0".join(_flags(arch, std, options)), *included)


def with_macros(source: str, define: Mapping[str, object] | None) -> str:
    """The source after its macros; with -D, a macro called T would break NVRTC's own header, which comes first."""
    lines = []
    for name, value in (define or {}).items():
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, ]*\))?", name):
            raise InputError(f"define {name!r}: not a macro name")
        lines.append(f"#define {name} {'' if value is None else int(value) if isinstance(value, bool) else value}\n")
    return "".join(lines) + "#line 1\n" + source if lines else source


@lru_cache
def wheel(distribution: str) -> tuple[str, Path] | None:
    """Version of an installed distribution and the directory it is installed in (importlib.metadata takes 20 ms)."""
    stem = distribution.replace("-", "_") + "-"
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(stem) and name.endswith(".dist-info"):
                return name[len(stem) : -len(".dist-info")], Path(place or ".")
    return None


@lru_cache
def compiler_version() -> str:
    """Full version of NVRTC (``13.0.88``); UnsupportedError where there is none."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        if (found := wheel(name)) and wheel("cuda-bindings"):
            return found[0]
    library = _library()
    status, major, minor = library.nvrtcVersion()
    _check(library, status, "nvrtcVersion")
    return f"{major}.{minor}"


@lru_cache
def include_directories() -> tuple[str, ...]:
    """Directories of the CUDA headers: of NVIDIA's wheels, else of the toolkit at CUDA_PATH."""
    found: list[Path] = []
    marks = ("cuda_fp16.h", "crt", "cuda/std", "cccl", "nv")
    for place in sys.path:
        directories = sorted(Path(place or ".").glob("nvidia/*/include"))
        found += [d for d in directories if any((d / mark).exists() for mark in marks)]
    toolkit = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    if not found and Path(toolkit, "include").is_dir():
        found.append(Path(toolkit, "include"))
    result: list[str] = []
    for directory in found:
        result += [str(d.absolute()) for d in (directory, directory / "cccl") if d.is_dir()]
    return tuple(dict.fromkeys(result))


def _header_versions() -> str:
    wheels = (wheel(name) for name in ("nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt"))
    return " ".join(found[0] if found else "-" for found in wheels)


def _flags(arch: int, std: str, options: Sequence[str]) -> list[str]:
    """The compiler's options but for the system's include directories."""
    for option in options:
        if re.match(r"--?(gpu-architecture|gpu-code|arch|code)\b", option):
            raise InputError(f"compile option {option!r}: the architecture is the GPU's, here sm_{arch}")
    flags = [f"-arch=sm_{arch}", "-lineinfo"]
    if not any(re.match(r"--?std\b", option) for option in options):
        flags.append(f"-std={std}")
    flags += options
    if not any(re.match(r"--?(ftz|use_fast_math)\b", option) for option in options):
        flags.append("-ftz=true")
    return flags


def _program_name(filename: str) -> str:
    return os.path.join(os.path.abspath(os.path.dirname(filename)), MAIN)


def _user_directories(options: Sequence[str], filename: str) -> list[Path]:
    places = [Path(filename).parent]
    pending = iter(options)
    for option in pending:
        if found := re.fullmatch(r"(?:-I|--?include-path)=?\s*(.*)", option):
            places += [Path(found[1] or next(pending, "."))]
    return places


def _included(source: str, places: list[Path]) -> list[bytes]:
    """Contents of all files below the user's own include directories that the source includes, at any depth."""
    contents: list[bytes] = []
    seen: set[Path] = set()
    todo: list[tuple[bytes, Path | None]] = [(source.encode(), None)]
    while todo:
        text, parent = todo.pop()
        for name in re.findall(rb'#\s*include\s*[<"]([^>"\n]+)[>"]', text):
            for place in ([parent] if parent else []) + places:
                path = place / os.fsdecode(name)
                if path not in seen and path.is_file():
                    seen.add(path)
                    content = path.read_bytes()
                    contents += [name, content]
                    todo.append((content, path.parent))
                    break
    return contents


def _cached(key: str) -> Compiled | None:
    if not (index := cache.read(f"source/{key}")):
        return None
    try:
        entry = json.loads(index)
        binary = cache.read(f"cubin/{entry['cubin']}")
        return Compiled(binary, entry["lowered"], entry["compiler"], entry["log"]) if binary else None
    except (ValueError, KeyError, TypeError):
        return None


@lru_cache
def _library():  # type: ignore[no-untyped-def]  # cuda-bindings has no types
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise UnsupportedError(f"compiling CUDA C++ {MISSING} ({type(error).__name__}: {error})") from None
    return nvrtc


def _check(library, status, what: str) -> None:  # type: ignore[no-untyped-def]
    if status != library.nvrtcResult.NVRTC_SUCCESS:
        raise KernelError(f"NVRTC: {what} failed: {library.nvrtcGetErrorString(status)[1].decode()}")


def _compile(source: str, entry: str, flags: list[str], arch: int, filename: str) -> tuple[bytes, str, str]:
    """Cubin, mangled entry and log; errors say what the compiler said first."""
    mangled = entry.startswith("_Z") and entry.isidentifier()
    status, binary, lowered, log = _run(source, [] if mangled else [entry], flags, filename)
    message = _first_error(log, filename)
    if status == "NVRTC_ERROR_INVALID_OPTION":
        if "architecture" in log:
            raise UnsupportedError(f"NVRTC {compiler_version()} does not compile for sm_{arch}: {log.strip()}")
        raise InputError(f"compile options {' '.join(flags)}: {' '.join(log.split())}")
    if message.startswith("__nv_name_map"):  # NVRTC parses the entry after the source
        problem = message.partition(": ")[2]
        raise InputError(f"{filename}: no kernel {entry!r}: {problem}; {_kernels(source, flags, filename)}")
    if status != "NVRTC_SUCCESS":
        hint = (
            f" ({HOST_CODE})" if re.search(r"host function|cudaMalloc|iostream|source file \"vector\"", message) else ""
        )
        raise KernelError(f"{message or f'{filename}: {status}: ' + ' '.join(log.split())}{hint}")
    from warpsim.frontend.cubin import Cubin

    name = entry if mangled else lowered[0]
    if name not in Cubin(binary).kernels():
        raise InputError(f"{filename}: {entry!r} is not a kernel; {_kernels(source, flags, filename)}")
    return binary, name, log


def _run(source: str, names: list[str], flags: list[str], filename: str) -> tuple[str, bytes, list[str], str]:
    library = _library()
    status, program = library.nvrtcCreateProgram(source.encode(), _program_name(filename).encode(), 0, [], [])
    _check(library, status, "nvrtcCreateProgram")
    try:
        for name in names:
            library.nvrtcAddNameExpression(program, name.encode())
        everything = [o.encode() for o in [*flags, *(f"-I{d}" for d in (*include_directories(), HEADERS))]]
        (status,) = library.nvrtcCompileProgram(program, len(everything), everything)
        _, size = library.nvrtcGetProgramLogSize(program)
        # Python shares bytes of length 1: the NUL of an empty log would be written into all of them.
        log = b" " * max(size, 2)
        library.nvrtcGetProgramLog(program, log)
        text = log.split(b"\0")[0].decode(errors="replace").strip()
        if status != library.nvrtcResult.NVRTC_SUCCESS:
            return status.name, b"", [], text
        lowered = [library.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in names]
        _, size = library.nvrtcGetCUBINSize(program)
        binary = b" " * size
        library.nvrtcGetCUBIN(program, binary)
        return status.name, binary, lowered, text
    finally:
        library.nvrtcDestroyProgram(program)


def _first_error(log: str, filename: str) -> str:
    """The first error of a log in one line: file, line, message."""
    for line in log.splitlines():
        if found := re.match(r"(.*)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)", line):
            return f"{filename if found[1] == _program_name(filename) else found[1]}:{found[2]}: {found[3]}"
        if found := re.match(r"ptxas (?:fatal|error|.*; error)\s*:\s*(.*)", line):
            return f"{filename}: ptxas: {found[1].strip()}"
    return ""


def _kernels(source: str, flags: list[str], filename: str) -> str:
    """What kernels the source has, for an error message: those in its cubin and its templates."""
    from warpsim.frontend.cubin import Cubin

    status, binary, _, _ = _run(source, [], flags, filename)
    names = [_plain(name) for name in Cubin(binary).kernels()] if status == "NVRTC_SUCCESS" else []
    plain = re.sub(r"__launch_bounds__\s*\([^)]*\)", "", source)
    templates = re.findall(r"template\s*<([^;{}()]*)>\s*(?:static\s+|inline\s+)*__global__[^;{]*?(\w+)\s*\(", plain)
    names += [f"{name}<{' '.join(parameters.split())}>" for parameters, name in templates]
    return "its kernels: " + ", ".join(dict.fromkeys(names)) if names else "it has no kernel"


def _plain(mangled: str) -> str:
    """The C++ name of a mangled function that is no template, without its parameters."""
    if not mangled.startswith("_Z"):
        return mangled
    rest = mangled[3:] if mangled.startswith("_ZN") else mangled[2:]
    parts = []
    while found := re.match(r"L?(\d+)", rest):
        length = int(found[1])
        parts.append(rest[found.end() : found.end() + length])
        rest = rest[found.end() + length :]
    return "::".join(parts) if parts and not rest.startswith("I") else mangled
