"""CUDA C++ to cubins: entries, options, errors, headers, the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsim import cache
from warpsim.errors import InputError, KernelError, UnsupportedError
from warpsim.frontend import nvrtc
from warpsim.frontend.cubin import Cubin

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.cuda

COPY = 'extern "C" __global__ void copy(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x] / 3.0f; }'
MANY = """
template <int N> __global__ void fill(float* a) { a[0] = N; }
__global__ void twice(int* a) { a[0] = 1; }
__global__ void twice(float* a) { a[0] = 2; }
namespace inner {
template <typename T, int K>
__global__ void __launch_bounds__(128) bounded(T* a) { a[0] = K; }
__global__ void plain(int* a) { a[0] = 3; }
}
__device__ int helper(int a) { return a; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_compiler_is_the_pinned_one():
    assert nvrtc.compile_cubin(COPY, "copy", 90).compiler == "NVRTC 13.0.88"


def test_the_cubin_names_the_same_compiler():
    assert Cubin(nvrtc.compile_cubin(COPY, "copy", 90).cubin).compiler() == nvrtc.compiler_version()


@pytest.mark.parametrize(
    ("entry", "lowered"),
    [
        ("fill<32>", "_Z4fillILi32EEvPf"),
        ("inner::bounded<float, 3>", "_ZN5inner7boundedIfLi3EEEvPT_"),
        ("inner::plain", "_ZN5inner5plainEPi"),
        ("_Z5twicePi", "_Z5twicePi"),
        ("(void (*)(float*))twice", "_Z5twicePf"),
    ],
)
def test_entries_as_cpp_writes_them(entry, lowered):
    compiled = nvrtc.compile_cubin(MANY, entry, 90)
    assert compiled.lowered == lowered
    assert lowered in Cubin(compiled.cubin).kernels()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("missing", 'identifier "missing" is undefined'),
        ("fill", "cannot determine which instance of function template"),
        ("twice", "cannot determine which instance of overloaded function"),
        ("helper", "non-__global__ function"),
        ("fill<missing>", 'identifier "missing" is undefined'),
        ("", "expected an expression"),
        ("_Z7missingPi", "is not a kernel"),
    ],
)
def test_an_entry_that_is_not_there_names_the_kernels(entry, problem):
    with pytest.raises(InputError) as caught:
        nvrtc.compile_cubin(MANY, entry, 90, filename="some/many.cu")
    message = str(caught.value)
    assert problem in message
    assert message.startswith("some/many.cu: ")
    assert message.endswith("its kernels: twice, inner::plain, fill<int N>, bounded<typename T, int K>")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\n\n" + COPY.replace("in[", "on["), 'my.cu:3: identifier "on" is undefined'),
        ('#include "nowhere.h"\n' + COPY, 'my.cu:1: cannot open source file "nowhere.h"'),
        (COPY + "\nint main() { return 0; }", "my.cu:2: A function without execution space annotations"),
        (
            'extern "C" __global__ void copy(float* a) { __shared__ float s[20000]; s[threadIdx.x] = a[0];'
            " __syncthreads(); a[0] = s[a[2] > 3 ? 0 : 5]; }",
            "my.cu: ptxas: Entry function 'copy' uses too much shared data (0x13880 bytes, 0xc000 max)",
        ),
        ('extern "C" __global__ void copy(int* a) { asm("bogus;"); }', "my.cu: ptxas: "),
    ],
)
def test_the_compilers_first_error_in_one_line(source, message):
    with pytest.raises(KernelError) as caught:
        nvrtc.compile_cubin(source, "copy", 90, filename="my.cu")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_host_code_gets_a_hint():
    with pytest.raises(KernelError, match="__CUDACC_RTC__"):
        nvrtc.compile_cubin(COPY + "\nint main() { return 0; }", "copy", 90)


def test_unknown_options_architectures_and_macros():
    with pytest.raises(InputError, match="-bogus"):
        nvrtc.compile_cubin(COPY, "copy", 90, options=["-bogus"])
    with pytest.raises(InputError, match="the architecture is the GPU's, here sm_90"):
        nvrtc.compile_cubin(COPY, "copy", 90, options=["--gpu-architecture=sm_80"])
    with pytest.raises(InputError, match="c\\+\\+99"):
        nvrtc.compile_cubin(COPY, "copy", 90, std="c++99")
    with pytest.raises(InputError, match="not a macro name"):
        nvrtc.compile_cubin(COPY, "copy", 90, define={"a b": 1})
    with pytest.raises(UnsupportedError, match="sm_70"):
        nvrtc.compile_cubin(COPY, "copy", 70)


def test_ftz_is_what_cupy_passes_unless_the_caller_decides():
    def code(*options: str) -> bytes:
        return Cubin(nvrtc.compile_cubin(COPY, "copy", 90, options=options).cubin).data(".text.copy")

    assert code() == code("-ftz=true")
    assert code() != code("-ftz=false")
    assert code("--use_fast_math") != code()


def test_macros_reach_the_source():
    source = 'extern "C" __global__ void copy(int* a) { a[0] = WIDTH; }\n#ifdef FLAG\n#error seen\n#endif\n'
    nvrtc.compile_cubin(source, "copy", 90, define={"WIDTH": 32})
    nvrtc.compile_cubin(source.replace("WIDTH", "T"), "copy", 90, define={"T": 32})
    with pytest.raises(KernelError, match=r"my\.cu:3: .*seen"):
        nvrtc.compile_cubin(source, "copy", 90, define={"WIDTH": 32, "FLAG": None}, filename="my.cu")


@pytest.mark.parametrize(
    "header",
    ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_runtime.h", "cuda_pipeline.h", "mma.h", "math_constants.h"],
)
def test_device_headers_are_found(header):
    nvrtc.compile_cubin(f"#include <{header}>\n{COPY}", "copy", 90)


def test_cooperative_groups_is_found():
    nvrtc.compile_cubin(f"#include <cooperative_groups.h>\n{COPY}", "copy", 90)


@pytest.mark.parametrize("order", [1, -1])
def test_standard_headers_go_together(order):
    names = [
        "stdint.h", "cstdint", "stddef.h", "cstddef", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring",
        "math.h", "cmath", "float.h", "cfloat", "limits.h", "climits", "assert.h", "cassert", "stdbool.h",
    ]  # fmt: skip
    body = """
    extern "C" __global__ void copy(float* a, std::uint8_t b, int64_t c, size_t n) {
        a[0] = std::sqrt(a[1]) + std::fabs(a[2]) + FLT_MAX + INT_MAX + INFINITY + (n < SIZE_MAX) + offsetof(int2, y);
        assert(b < UINT8_MAX);
        printf("%d", (int)c);
    }"""
    nvrtc.compile_cubin("".join(f"#include <{name}>\n" for name in names[::order]) + body, "copy", 90)


def test_quoted_includes_lie_beside_the_source(tmp_path):
    (tmp_path / "value.cuh").write_text("#define VALUE 1\n")
    source = '#include "value.cuh"\nextern "C" __global__ void copy(int* a) { a[0] = VALUE; }'
    first = nvrtc.compile_cubin(source, "copy", 90, filename=str(tmp_path / "copy.cu")).cubin
    (tmp_path / "value.cuh").write_text("#define VALUE 2\n")
    second = nvrtc.compile_cubin(source, "copy", 90, filename=str(tmp_path / "copy.cu")).cubin
    assert Cubin(first).data(".text.copy") != Cubin(second).data(".text.copy")


def test_a_changed_header_of_a_header_is_seen(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "deep" / "b.cuh").write_text("// one\n")
    arguments = ("#include <deep/a.cuh>\n", "k", 90, "c++17", [f"-I{tmp_path}"], None, "kernel.cu")
    before = nvrtc.source_key(*arguments)
    assert before == nvrtc.source_key(*arguments)
    (tmp_path / "deep" / "b.cuh").write_text("// two\n")
    assert before != nvrtc.source_key(*arguments)


def test_a_cache_hit_loads_no_compiler(own_cache):
    nvrtc.compile_cubin(COPY, "copy", 90)
    code = (
        "import sys; from warpsim.frontend import nvrtc;"
        f"nvrtc.compile_cubin({COPY!r}, 'copy', 90);"
        "print([m for m in sys.modules if m.split('.')[0] in ('cuda', 'numpy', 'numba')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_damaged_cache_files_are_compiled_again(own_cache, damage):
    good = nvrtc.compile_cubin(COPY, "copy", 90)
    for path in [p for p in own_cache.rglob("*") if p.is_file()]:
        path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert nvrtc.compile_cubin(COPY, "copy", 90) == good
    assert cache.read(f"cubin/{cache.digest(good.cubin)}") == good.cubin


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("WARPSIM_CACHE_DIR", str(blocker / "below"))
    assert nvrtc.compile_cubin(COPY, "copy", 90).lowered == "copy"


def test_the_cache_lies_where_the_environment_says(monkeypatch):
    monkeypatch.delenv("WARPSIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.directory() == Path("/somewhere/warpsim")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == Path(os.path.expanduser("~/.cache/warpsim"))


def test_without_the_extra_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    nvrtc._library.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match=r"needs warpsim\[cuda\]: pip install 'warpsim\[cuda\]'"):
            nvrtc.compile_cubin(COPY, "copy", 90)
    finally:
        nvrtc._library.cache_clear()
