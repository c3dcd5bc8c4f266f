"""Launches from Python arguments: arrays are the kernel's memory, shared where they share it."""

import numpy as np
import pytest

from warpsim.errors import InputError
from warpsim.kernel import Buffer, Kernel

SOURCE = 'extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {}\n'


@pytest.fixture
def saxpy():
    return Kernel(SOURCE, "saxpy")


def test_arrays_sizes_and_numbers_become_arguments(saxpy):
    x = np.arange(64, dtype=np.float32)
    launch = saxpy.launch(4, (32, 2), (x, Buffer("float", 1 << 30), np.float64(2), x.size))
    assert launch.grid == (4, 1, 1)
    assert launch.block == (32, 2, 1)
    assert [a.name for a in launch.arguments] == ["x", "y", "a", "n"]
    assert launch.buffers[0].data.tolist() == x.tolist()
    assert launch.buffers[1].data is None
    assert (launch.arguments[2].value, launch.arguments[3].value) == (2.0, 64)


def test_the_buffer_of_an_array_is_the_arrays_own_memory(saxpy):
    y = np.zeros((4, 8), np.float32, order="F")
    launch = saxpy.launch(1, 32, (Buffer(np.float32, 32), y, 1.0, 32))
    launch.buffers[1].data[:] = np.arange(32)
    assert y[1, 0] == 1


def test_arrays_that_share_memory_share_it_in_the_kernel(saxpy):
    x = np.arange(64, dtype=np.float32)
    shifted, whole = saxpy.launch(1, 32, (x[1:], x, 1, 63)).buffers
    assert shifted.alias_of == "y"
    assert shifted.address == whole.address + 4
    same, again = saxpy.launch(1, 32, (x, x, 1, 63)).buffers
    assert again.target is same


def test_structured_and_complex_numbers_map_to_vectors(saxpy):
    (buffer,) = Kernel("__global__ void f(float2* z) {}", "f").launch(1, 1, (np.ones(3, np.complex64),)).buffers
    assert (buffer.dtype, buffer.count, buffer.bytes) == ("float2", 3, 24)
    assert Buffer("float32", 3).element.name == "float"
    assert Buffer("float4", 3).element.itemsize == 16


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros((4, 4), np.float32)[:, ::2],), "argument 'arg0' of kernel 'saxpy': the array is not contiguous"),
        ((np.zeros(0, np.float32),), "the array is empty"),
        ((np.zeros(4, "U3"),), "has no CUDA element type"),
        (("text",), "str given; a NumPy array, a warpsim.Buffer or a number wanted"),
        ((Buffer("flot", 3),), "unknown element type 'flot' (did you mean 'float'?)"),
        ((Buffer("int", 0),), "a buffer of 0 elements (at least 1)"),
    ],
)
def test_a_wrong_argument_is_named(saxpy, args, message):
    with pytest.raises(InputError) as error:
        saxpy.launch(1, 32, args)
    assert message in str(error.value)


STRUCT = """
struct Params { const float* data; int stride; char shift; float scale; short last; };
extern "C" __global__ void f(Params p, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = p.scale * p.data[i * p.stride] + p.shift + p.last;
}
"""


@pytest.mark.cuda
@pytest.mark.parametrize("gpu", ["a100-80gb", "h200", "b200"])
def test_a_tuple_is_a_struct(gpu):
    data, out = np.arange(192, dtype=np.float32), np.zeros(64, np.float32)
    params = (data, np.int32(3), np.int8(-5), np.float32(2), np.int16(100))
    result = Kernel(STRUCT, "f").simulate(2, 32, (params, out, 64), gpu=gpu)
    assert out.tolist() == (2 * data[::3] + 95).tolist()
    assert [b["name"] for b in result.buffers] == ["p[0]", "out"]
    with pytest.raises(InputError, match=r"member 1 is 3: a struct's numbers are NumPy scalars"):
        Kernel(STRUCT, "f").launch(2, 32, ((data, 3), out, 64))
    with pytest.raises(InputError, match=r"the members take 16 bytes .*, the parameter 24"):
        Kernel(STRUCT, "f").simulate(2, 32, ((data, np.int32(3)), out, 64), gpu=gpu)


def test_arrays_that_overlap_in_part_are_refused(saxpy):
    x = np.zeros(64, np.float32)
    with pytest.raises(InputError, match="the arrays of 'x' and 'y' overlap, and neither holds the other"):
        saxpy.launch(1, 32, (x[1:], x[:-1], 1, 1))


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [(0, 32, "grid[0]: 0 is out of range"), (1, 2048, "block[0]: 2048"), ((1,) * 4, 1, "grid: 4 numbers (1 to 3)")],
)
def test_a_launch_has_the_limits_of_cuda(saxpy, grid, block, message):
    with pytest.raises(InputError) as error:
        saxpy.launch(grid, block, ())
    assert message in str(error.value)


def test_the_source_may_be_a_file(tmp_path):
    path = tmp_path / "saxpy.cu"
    path.write_text(SOURCE)
    assert Kernel(path, "saxpy").source == Kernel(str(path), "saxpy").source == SOURCE
    with pytest.raises(InputError, match="cannot read the kernel source"):
        Kernel(tmp_path / "no.cu", "saxpy")
