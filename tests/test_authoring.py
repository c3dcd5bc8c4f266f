"""Scenarios from command-line words, and the text that `init` writes."""

import tomllib

import numpy as np
import pytest

from warpsim.authoring import init_text, scenario_from_words
from warpsim.errors import InputError
from warpsim.library import find_kernel, list_kernels
from warpsim.scenario import parse
from warpsim.signature import kernels

SAXPY = 'extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {}\n'
MANY = """
template <typename T, int tile = 16, bool fast = false> __global__ void first(T* data, unsigned rows, half scale) {}
struct Item { int a, b; };
__global__ void second(const Item* items, void* raw, float i, int min, int) {}
__global__ void third(float4 v) {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    (tmp_path / "many.cu").write_text(MANY)
    (tmp_path / "empty.cu").write_text("int x;\n")
    np.save(tmp_path / "table.npy", np.arange(8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_words_of_the_command_line_make_a_launch(folder):
    launch = scenario_from_words(
        "saxpy.cu", entry="saxpy", grid="4096", block="256", args=["x=float:1Mi", "y=float:1Mi", "a=2", "n=1Mi"]
    ).bind()
    assert launch.grid == (4096, 1, 1)
    assert launch.block == (256, 1, 1)
    assert [(b.name, b.dtype, b.count, b.opaque) for b in launch.buffers] == [
        ("x", "float", 1 << 20, True),
        ("y", "float", 1 << 20, True),
    ]
    assert [(v.name, v.value) for v in launch.arguments[2:]] == [("a", 2), ("n", 1 << 20)]
    assert launch.kernel == str(folder / "saxpy.cu")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64,32", (64, 32, 1)), ("64x32x2", (64, 32, 2)), ("cdiv(1000,32), 2", (32, 2, 1)), ("0x10", (16, 1, 1))],
)
def test_a_grid_is_written_with_commas_or_x(folder, text, size):
    assert scenario_from_words("saxpy.cu", grid=text, block="32").bind().grid == size


def test_an_argument_may_carry_a_fill(folder):
    fills = ["zeros", "randint(100)", "permutation", "expr(3*i)", "file(table.npy)"]
    args = [f"a{i}=unsigned int:8:{fill}" for i, fill in enumerate(fills)]
    launch = scenario_from_words(
        "saxpy.cu", entry="saxpy", grid="1", block="32", args=args, shared="1Ki", defines=["T=32", "FAST"]
    ).bind()
    contents = [b.data.tolist() for b in launch.buffers]
    assert contents[0] == [0] * 8
    assert contents[1] == np.random.default_rng(0).integers(0, 100, 8).tolist()
    assert contents[2] == np.random.default_rng(0).permutation(8).tolist()
    assert contents[3] == [0, 3, 6, 9, 12, 15, 18, 21]
    assert contents[4] == list(range(8))
    assert launch.dynamic_shared == 1024
    assert launch.compile.define == {"T": "32", "FAST": "1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kernel": "no.cu", "grid": "1", "block": "1"}, "no kernel file 'no.cu'"),
        ({"grid": "1"}, "saxpy.cu: --block is missing"),
        ({"block": "1"}, "saxpy.cu: --grid is missing"),
        (
            {"kernel": "many.cu", "grid": "1", "block": "1"},
            "--entry is missing; the file has: first<...>, second, third",
        ),
        ({"grid": "1", "block": "1", "args": ["n"]}, "--arg n: write NAME=NUMBER or NAME=TYPE:COUNT[:FILL]"),
        ({"grid": "1", "block": "1", "args": ["n="]}, "--arg n=: write NAME=NUMBER"),
        ({"grid": "1", "block": "1", "args": ["n=rows"]}, "saxpy.cu: arg 'n': value: expression 'rows': unknown name"),
        ({"grid": "1", "block": "1", "args": ["x=flot:4"]}, "saxpy.cu: arg 'x': buffer: unknown element type 'flot'"),
        ({"grid": "1", "block": "1", "args": ["x=int:4:ones"]}, 'fill: "ones" is not known'),
        ({"grid": "1", "block": "1", "args": ["x=int:4:a b"]}, "cannot read the fill 'a b'"),
        ({"grid": "a", "block": "1"}, "saxpy.cu: launch.grid[0]: expression 'a': unknown name"),
        ({"grid": "", "block": "1"}, "launch.grid[0]: the expression is empty"),
        ({"grid": "1", "block": "2048"}, "launch.block[0]: 2048 is out of range"),
    ],
)
def test_wrong_words_give_one_line(folder, words, message):
    with pytest.raises(InputError) as error:
        scenario_from_words(words.pop("kernel", "saxpy.cu"), **words).bind()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", list_kernels())
def test_the_text_of_init_loads_for_every_shipped_kernel(name):
    path = find_kernel(name)
    for signature in kernels(path.read_text()):
        if any(kind in ("float4", "float2") for kind, _ in signature.parameters):
            continue
        text = init_text(path, entry=signature.name)
        for test in (False, True):
            launch = parse(text, path.with_suffix(".toml")).bind(test=test)
            assert len(launch.arguments) == len(signature.parameters)


def test_init_writes_what_the_source_says(folder):
    document = tomllib.loads(init_text("saxpy.cu"))
    assert document["kernel"] == "saxpy.cu"
    assert document["entry"] == "saxpy"
    assert document["params"] == {"n": 1048576, "a": 1.0}
    assert document["arg"] == [
        {"name": "x", "buffer": "float", "count": "n"},
        {"name": "y", "buffer": "float", "count": "n"},
        {"name": "a", "value": "a"},
        {"name": "n", "value": "n"},
    ]


def test_init_guesses_template_arguments_and_unknown_types(folder):
    first = parse(init_text("many.cu"), folder / "many.toml")
    assert first.entry == "first<float, {tile}, false>"
    assert first.bind().entry == "first<float, 16, false>"
    assert [a.name for a in first.bind().arguments] == ["data", "rows", "scale"]
    second = parse(init_text("many.cu", entry="second"), folder / "many.toml").bind()
    assert [a.name for a in second.arguments] == ["items", "raw", "i", "min", "arg4"]
    assert [b.dtype for b in second.buffers] == ["char", "char"]
    assert second.arguments[2].value == 1.0
    assert (
        parse(init_text("many.cu", entry="first<double, 8, true>"), folder / "x.toml").entry == "first<double, 8, true>"
    )


def test_init_keeps_what_it_is_given(folder):
    text = init_text("saxpy.cu", grid="16x2", block="128", shared=64, defines=["T=3"],
                     args=["x=float:8:randint(4)", "y=float:8", "a=3", "n=8"])  # fmt: skip
    launch = parse(text, folder / "saxpy.toml").bind()
    assert launch.grid == (16, 2, 1)
    assert launch.block == (128, 1, 1)
    assert launch.dynamic_shared == 64
    assert launch.compile.define == {"T": "3"}
    assert launch.buffers[0].data.max() < 4
    assert launch.arguments[2].value == 3


@pytest.mark.parametrize(
    ("kernel", "words", "message"),
    [
        ("no.cu", {}, "no kernel file 'no.cu'"),
        ("empty.cu", {}, "empty.cu: there is no __global__ function in it"),
        ("saxpy.cu", {"entry": "saxpi"}, "saxpy.cu: no kernel 'saxpi' (did you mean 'saxpy'?); the file has: saxpy"),
        ("saxpy.cu", {"args": ["n=1"]}, "kernel 'saxpy' has 4 parameters, 1 --arg given"),
        ("many.cu", {"entry": "third"}, "parameter 'v' is 'float4': write the scenario by hand"),
    ],
)
def test_init_says_what_is_wrong(folder, kernel, words, message):
    with pytest.raises(InputError) as error:
        init_text(kernel, **words)
    assert message in str(error.value)
