"""PTX becomes the cubin that the compiler would have made of it."""

from __future__ import annotations

import pytest

from warpsim.errors import InputError, KernelError, UnsupportedError
from warpsim.frontend import ptx, sass

bindings = pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.cuda

SOURCE = b"""extern "C" __global__ void reverse(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[n + threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}"""


def has_linker() -> bool:
    try:
        ptx.assemble("", 90)
    except UnsupportedError:
        return False
    except KernelError:
        return True
    return True


LINKER = has_linker()


@pytest.fixture
def text() -> str:
    _, program = bindings.nvrtcCreateProgram(SOURCE, b"reverse.cu", 0, [], [])
    bindings.nvrtcCompileProgram(program, 2, [b"-arch=compute_90", b"-lineinfo"])
    _, size = bindings.nvrtcGetPTXSize(program)
    data = b" " * size
    bindings.nvrtcGetPTX(program, data)
    return data.split(b"\0")[0].decode()


@pytest.mark.skipif(LINKER, reason="nvJitLink is installed")
def test_without_the_linker_the_message_says_what_to_install(text):
    with pytest.raises(UnsupportedError, match="nvidia-nvjitlink"):
        ptx.assemble(text, 90)


@pytest.mark.skipif(not LINKER, reason="nvJitLink is not installed")
def test_ptx_decodes_like_source(text):
    assembled = sass.program_from_cubin(ptx.assemble(text, 90))
    compiled = sass.load_program(SOURCE.decode(), "reverse", 90, options=["-ftz=false"])
    memory = [[i.text.split()[0] for i in p.instructions if i.opcode in ("LDG", "STS", "LDS", "STG", "BAR")]
              for p in (assembled, compiled)]  # fmt: skip
    assert memory[0] == memory[1]
    assert assembled.parameters == compiled.parameters
    assert assembled.shared == 256
    assert {i.line for i in assembled.instructions} == {i.line for i in compiled.instructions}


@pytest.mark.skipif(not LINKER, reason="nvJitLink is not installed")
def test_errors_name_the_line(text):
    with pytest.raises(KernelError, match=r"line \d+; error .*bogus"):
        ptx.assemble(text.replace("st.global", "bogus.global"), 90)
    with pytest.raises(InputError, match="-zzz"):
        ptx.assemble(text, 90, ["-zzz"])
