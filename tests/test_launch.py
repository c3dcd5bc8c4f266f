"""Packing of kernel parameters: the type of a value is the kernel's."""

import struct
from dataclasses import dataclass

import pytest

from warpsim.elements import element
from warpsim.errors import InputError, UnsupportedError
from warpsim.frontend.sass import load_program
from warpsim.launch import BufferArg
from warpsim.library import list_scenarios
from warpsim.scenario import load, parse
from warpsim.signature import parameter_types


@dataclass
class Slot:
    offset: int
    size: int


def _launch(parameters, *values, entry="f"):
    text = f"schema = 1\nsource = '''{parameters}'''\nentry = '{entry}'\n[launch]\ngrid = [1]\nblock = [32]\n"
    for index, value in enumerate(values):
        kind = f'buffer = "{value}"\ncount = 8' if value in ("float", "int") else f"value = {value}"
        text += f'[[arg]]\nname = "a{index}"\n{kind}\n'
    return parse(text).bind()


def test_every_parameter_lands_at_its_offset_in_its_type():
    launch = _launch(
        'extern "C" __global__ void f(float* p, int n, double d, short s, float x, unsigned long long z, bool b) {}',
        "float", 7, 3, -2, '"1/2"', "1", "1",
    )  # fmt: skip
    slots = [Slot(0, 8), Slot(8, 4), Slot(16, 8), Slot(24, 2), Slot(28, 4), Slot(32, 8), Slot(40, 1)]
    assert launch.pack(slots) == struct.pack(
        "<QiIdhhfQB", launch.buffers[0].address, 7, 0, 3.0, -2, 0, 0.5, 1, 1
    )  # an integer given for `double` and `float` is converted


def _struct_launch(members: str):
    text = "schema = 1\nsource = 'struct P {}; __global__ void f(P p, int n) {}'\nentry = 'f'\n"
    text += "[launch]\ngrid = [1]\nblock = [32]\n"
    return parse(f"{text}{members}[[arg]]\nname = 'n'\nvalue = 7\n").bind()


MEMBERS = """
[[arg]]
struct = "p"
name = "flag"
value = 1
type = "char"
[[arg]]
struct = "p"
name = "data"
buffer = "float"
count = 8
[[arg]]
struct = "p"
name = "scale"
value = 0.5
type = "float"
"""


def test_neighbours_of_one_struct_are_one_parameter_laid_out_as_cpp_does():
    launch = _struct_launch(MEMBERS)
    (data,) = launch.buffers
    slots = [Slot(0, 24), Slot(24, 4)]
    assert launch.pack(slots) == struct.pack("<b7xQf4xi", 1, data.address, 0.5, 7)
    with pytest.raises(InputError, match=r"arg 'p' of kernel 'f': the members take 24 bytes \(flag char, data float\*"):
        launch.pack([Slot(0, 32), Slot(32, 4)])
    with pytest.raises(InputError, match=r"has 3 parameters, the scenario 2 arguments \(p, n\)"):
        launch.pack([*slots, Slot(28, 4)])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (MEMBERS.replace('type = "char"', ""), "arg 'flag': type: a value that is a member of a struct has it"),
        (MEMBERS.replace('type = "char"', 'type = "float2"'), "'float2' is not the type of a single number"),
        (MEMBERS.replace('struct = "p"\nname = "data"', 'name = "data"'), "arg 'scale': struct: other arguments stand"),
        (MEMBERS.replace("count = 8", 'count = 8\ntype = "int"'), "arg 'data': type: only a value has it"),
    ],
)
def test_members_are_checked(members, message):
    with pytest.raises(InputError, match=message):
        _struct_launch(members)


def test_a_template_parameter_takes_the_type_of_the_entry():
    source = "template<class T, int N> __global__ void f(T x, T* p) {}"
    slots = {"float": [Slot(0, 4), Slot(8, 8)], "double": [Slot(0, 8), Slot(8, 8)], "int": [Slot(0, 4), Slot(8, 8)]}
    for kind, code in (("float", "f"), ("double", "d"), ("int", "i")):
        launch = _launch(source, 3, "float", entry=f"f<{kind}, 4>")
        assert launch.pack(slots[kind])[: struct.calcsize(code)] == struct.pack(f"<{code}", 3)


def test_ptx_decides_where_the_source_does_not():
    launch = _launch('#include "k.h"\n// __global__ void f is there', 2, 2)
    slots = [Slot(0, 4), Slot(4, 4)]
    assert launch.pack(slots) == struct.pack("<ii", 2, 2)
    assert launch.pack(slots, ptx_types=["f32", "u32"]) == struct.pack("<fi", 2.0, 2)


def test_a_float_is_a_float_where_no_type_is_known():
    launch = _launch("// __global__ elsewhere", 2.5, 4294967295, "2.0")
    assert launch.pack([Slot(0, 4), Slot(4, 4), Slot(8, 8)]) == struct.pack("<fId", 2.5, 4294967295, 2.0)


def test_the_number_of_arguments_is_the_kernels():
    launch = _launch("__global__ void f(int* a, int n) {}", "int", 1, 2)
    with pytest.raises(InputError, match=r"kernel 'f' has 2 parameters, the scenario 3 arguments \(a0, a1, a2\)"):
        launch.pack([Slot(0, 8), Slot(8, 4)])


@pytest.mark.parametrize(
    ("parameter", "size", "value", "error", "message"),
    [
        (
            "int n",
            4,
            "2.5",
            InputError,
            "arg 'a0' of kernel 'f': 2.5 is not a whole number, and the parameter is 'int'",
        ),
        ("int n", 4, "2147483648", InputError, "2147483648 does not fit 'int'"),
        ("unsigned n", 4, "-1", InputError, "-1 does not fit 'unsigned'"),
        ("float x", 4, "float", InputError, "a buffer, but the parameter is 'float'"),
        ("long long n", 8, "float", InputError, "a buffer, but the parameter is 'long long'"),
        ("float* p", 8, "3", InputError, "value 3, but the parameter is a pointer ('float*'): give it a buffer"),
        ("float4 v", 16, "3", UnsupportedError, "takes 16 bytes ('float4'): give its members, each with struct"),
        ("float2 v", 8, "3", UnsupportedError, "the parameter is 'float2': give its 2 numbers, each with struct"),
    ],
)
def test_an_argument_that_cannot_be_the_parameter_is_refused(parameter, size, value, error, message):
    launch = _launch(f"__global__ void f({parameter}) {{}}", value)
    with pytest.raises(error) as caught:
        launch.pack([Slot(0, size)])
    assert message in str(caught.value)


def test_zero_is_a_null_pointer():
    assert _launch("__global__ void f(float* p) {}", 0).pack([Slot(0, 8)]) == bytes(8)


def test_a_kernel_without_parameters_has_no_bytes():
    assert _launch("__global__ void f() {}").pack([]) == b""


@pytest.mark.cuda
@pytest.mark.parametrize("name", list_scenarios(faults=True))
def test_declared_types_have_the_sizes_of_the_compiled_kernel(name):
    """What the source text says about parameters agrees with what the compiler made of them."""
    pytest.importorskip("cuda.bindings")
    if name == "faults/static_shared":
        pytest.skip("the compiler refuses it, as it should")
    launch = load(name).bind(test=True)
    program = load_program(
        launch.source, launch.entry, 90, options=launch.compile.options, define=launch.compile.define,
        filename=launch.kernel,
    )  # fmt: skip
    types = parameter_types(launch.source, launch.entry, len(program.parameters))
    assert types is not None
    sizes = [8 if t.endswith("*") else element(t).itemsize for t in types]
    assert sizes == [p.size for p in program.parameters]
    packed = launch.pack(program.parameters)
    for parameter, argument in zip(program.parameters, launch.arguments, strict=True):
        if isinstance(argument, BufferArg):
            assert int.from_bytes(packed[parameter.offset : parameter.offset + 8], "little") == argument.address
