"""Element types: sizes as CUDA has them, conversion that rounds or refuses and never wraps."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsim.elements import ELEMENTS, element, element_of_dtype
from warpsim.errors import InputError


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("char", 1), ("unsigned char", 1), ("bool", 1), ("short", 2), ("half", 2), ("__nv_bfloat16", 2), ("int", 4),
        ("unsigned", 4), ("unsigned int", 4), ("float", 4), ("half2", 4), ("long", 8), ("long long", 8), ("size_t", 8),
        ("double", 8), ("float2", 8), ("int2", 8), ("float3", 12), ("float4", 16), ("uint4", 16), ("double2", 16),
        ("longlong4", 32), ("uchar4", 4), ("uint32_t", 4), ("__nv_fp8_e4m3", 1),
    ],
)  # fmt: skip
def test_sizes_are_those_of_cuda(name, size):
    assert element(name).itemsize == size


def test_a_type_may_be_spelt_as_c_allows():
    assert element("const float").name == "float"
    assert element("long unsigned int").name == "unsigned long int"
    assert element(" unsigned   char ").itemsize == 1


def test_an_unknown_type_names_a_close_one():
    with pytest.raises(
        InputError, match=r"unknown element type 'float5' \(did you mean 'float\d?'\?\); known: .*float4"
    ):
        element("float5")


@pytest.mark.parametrize(
    ("name", "value", "packed"),
    [
        ("int", -2, struct.pack("<i", -2)),
        ("int", 3.0, struct.pack("<i", 3)),
        ("unsigned", 2**32 - 1, b"\xff" * 4),
        ("size_t", 2**64 - 1, b"\xff" * 8),
        ("short", -1, b"\xff\xff"),
        ("bool", 1, b"\x01"),
        ("float", 2, struct.pack("<f", 2.0)),
        ("double", 0.1, struct.pack("<d", 0.1)),
        ("half", 0.5, struct.pack("<e", 0.5)),
        ("__nv_bfloat16", 1.5, b"\xc0\x3f"),
    ],
)
def test_a_scalar_packs_to_its_bits(name, value, packed):
    assert element(name).pack(value) == packed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("int", 2**31, "2147483648 does not fit 'int'"),
        ("unsigned", -1, "-1 does not fit 'unsigned'"),
        ("char", 128, "128 does not fit 'char'"),
        ("bool", 2, "2 does not fit 'bool'"),
        ("size_t", 2**64, "does not fit 'size_t'"),
        ("long long", 2**63, "does not fit 'long long'"),
        ("int", 2.5, "2.5 is not a whole number, and the parameter is 'int'"),
        ("half", 1e6, "does not fit 'half'"),
        ("float", 1e300, "does not fit 'float'"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(name, value, message):
    with pytest.raises(InputError) as error:
        element(name).pack(value)
    assert message in str(error.value)


integer_types = st.sampled_from([n for n, e in ELEMENTS.items() if e.kind == "int" and e.lanes == 1])


@given(integer_types, st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), min_size=1, max_size=20))
def test_integers_convert_exactly_or_not_at_all(name, numbers):
    kind = element(name)
    limits = np.iinfo(kind.storage)
    if all(limits.min <= n <= limits.max for n in numbers):
        assert kind.convert(np.array(numbers, np.int64)).tolist() == numbers
    else:
        with pytest.raises(InputError, match="does not fit"):
            kind.convert(np.array(numbers, np.int64))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bfloat16_is_the_nearest_ties_to_even(value):
    bits = int(element("__nv_bfloat16").convert(np.array([value]))[0])
    exact = struct.unpack("<I", struct.pack("<f", value))[0]
    low = exact & 0xFFFF0000
    below, above = low >> 16, (low >> 16) + 1
    distance = exact - low
    nearest = below if distance < 0x8000 or (distance == 0x8000 and below % 2 == 0) else above
    assert bits == nearest


def test_a_numpy_type_has_its_cuda_element():
    for dtype, name in ((np.float32, "float"), (np.int64, "long long"), (np.bool_, "bool"), (np.complex64, "float2")):
        assert element_of_dtype(np.dtype(dtype)).name == name
    for dtype in ("U3", "M8[s]", ">f4", "O"):
        with pytest.raises(InputError, match="has no CUDA element type"):
            element_of_dtype(np.dtype(dtype))
