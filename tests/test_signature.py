"""Kernel declarations read from CUDA source text."""

import pytest

from warpsim.signature import kernels, parameter_types, ptx_types, split_arguments

SOURCE = '''
#include <cuda_fp16.h>
// __global__ void commented(int no);
/* __global__ void also(int no); */
const char* text = "__global__ void quoted(int)";
typedef float real;
using index_t = const unsigned long long;
#define ARGUMENTS real x, int* q
#define COPY(NAME, T, ...) \\
    __global__ void NAME##_copy(const T* __restrict__ in, T* out, int n) { \\
        __VA_ARGS__ }
extern "C" __global__ void aliased(ARGUMENTS, index_t n) { }
namespace inner {
template <int P = 4, class T = float>
__global__ void __launch_bounds__(128 * 2, 2) many(T* p, float a, double b, __half h, unsigned char c,
    const long long q, bool flag, T v, std::size_t n, float array[], unsigned, float const* const tail = nullptr) { }
}
COPY(wide, float4, out[0] = in[0];)
template <typename T> struct Box { T t; };
__global__ void none() { }
static __global__ void none_either(void);
extern "C" { __global__ void overloaded(int a) {} __global__ void overloaded(int a, float b) {} }
'''  # fmt: skip


def test_kernels_are_found_through_macros_comments_and_attributes():
    assert [k.name for k in kernels(SOURCE)] == [
        "aliased", "many", "wide_copy", "none", "none_either", "overloaded", "overloaded",
    ]  # fmt: skip


def test_a_signature_has_the_types_and_names_of_its_parameters():
    many = next(k for k in kernels(SOURCE) if k.name == "many")
    assert many.parameters == (
        ("T*", "p"), ("float", "a"), ("double", "b"), ("__half", "h"), ("unsigned char", "c"), ("long long", "q"),
        ("bool", "flag"), ("T", "v"), ("size_t", "n"), ("float*", "array"), ("unsigned", ""), ("float*", "tail"),
    )  # fmt: skip
    assert [(t.kind, t.name, t.default) for t in many.templates] == [("int", "P", "4"), ("typename", "T", "float")]
    copy = next(k for k in kernels(SOURCE) if k.name == "wide_copy")
    assert copy.parameters == (("float4*", "in"), ("float4*", "out"), ("int", "n"))
    assert copy.templates == ()


def test_the_types_of_an_entry_follow_aliases_and_template_arguments():
    assert parameter_types(SOURCE, "aliased") == ("float", "int*", "unsigned long long")
    assert parameter_types(SOURCE, "inner::many<3, double>")[::7] == ("double*", "double")
    assert parameter_types(SOURCE, "many")[::7] == ("float*", "float")
    assert parameter_types(SOURCE, "_ZN5inner4manyILi4EfEEvPT0_fd")[:2] == ("float*", "float")
    assert parameter_types(SOURCE, "_Z4nonev") == ()


def test_a_mangled_name_brings_its_template_arguments():
    assert parameter_types(SOURCE, "_ZN5inner4manyILi4EdEEvPT0_fd")[::7] == ("double*", "double")
    assert parameter_types(SOURCE, "_ZN5inner4manyILin4E6__halfEEvPT0_fd")[::7] == ("__half*", "__half")
    assert parameter_types(SOURCE, "_ZN5inner4manyILi4EPKfEEvPT0_fd") is None


def test_a_macro_of_the_compiler_wins_over_the_default_of_the_file():
    source = "#ifndef REAL\n#define REAL float\n#endif\n__global__ void f(REAL x, REAL* p, WORD w) {}"
    assert parameter_types(source, "f") == ("float", "float*", "WORD")
    assert parameter_types(source, "f", define={"REAL": "double", "WORD": "short"}) == ("double", "double*", "short")


def test_what_the_text_does_not_settle_has_no_types():
    assert parameter_types(SOURCE, "missing") is None
    assert parameter_types(SOURCE, "overloaded") is None
    assert parameter_types(SOURCE, "overloaded", 2) == ("int", "float")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("f<a, b>, (c, d)", ["f<a, b>", "(c, d)"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_arguments_split_at_outer_commas(text, parts):
    assert split_arguments(text) == parts


def test_ptx_tells_the_types():
    ptx = (
        ".visible .entry f(\0.param .u64 f_param_0,\0.param .f32 f_param_1,\0"
        ".param .align 2 .b8 f_param_2[2],\0.param .u64 .ptr .align 1 f_param_3\0)\0{"
        ".visible .entry g()\0{"
    )
    assert ptx_types(ptx, "f") == ("u64", "f32", "b8[2]", "u64")
    assert ptx_types(ptx, "g") == ()
    assert ptx_types(ptx, "h") is None
