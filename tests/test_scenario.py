"""Scenario files: what a good one becomes, and the one clear line that each bad one gives."""

import textwrap
import tomllib

import numpy as np
import pytest

from warpsim.errors import InputError
from warpsim.launch import ALIGNMENT, BASE_ADDRESS
from warpsim.library import list_scenarios
from warpsim.scenario import load, parse

GOOD = """
schema = 1
description = "A scaled copy"
kernel = "scale.cu"
entry = "scale<{tile}>"
gpu = "H200"

[params]
n = 4096
tile = 32
factor = 1.5

[test_params]
n = 256

[compile]
std = "c++20"
options = ["--use_fast_math"]
define = { T = "{tile}", REAL = "float", DEBUG = false }

[state]
caches = "warm"
clock_mhz = 1500
carveout_kb = "2*32"

[launch]
grid = ["cdiv(n, tile)", 2]
block = ["tile"]
dynamic_shared = "4*tile"

[[arg]]
name = "in"
buffer = "float"
count = "n"

[[arg]]
name = "out"
buffer = "float2"
count = "n//2"
fill = "zeros"

[[arg]]
name = "index"
buffer = "int"
count = "n"
fill = { randint = "n//2", seed = 3 }

[[arg]]
name = "factor"
value = "factor"
"""

SOURCE = "template<int T> __global__ void scale(const float* in, float2* out, const int* index, float factor) {}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scale.cu").write_text(SOURCE)
    np.save(tmp_path / "short.npy", np.arange(5))
    np.save(tmp_path / "wide.npy", np.full(4096, 2.5))
    np.savez(tmp_path / "several.npz", a=np.arange(3), b=np.arange(3))
    (tmp_path / "junk.npy").write_text("not an array")
    return tmp_path


@pytest.fixture
def good(folder):
    return parse(GOOD, folder / "scale.toml")


def test_a_scenario_shows_what_its_file_says(good, folder):
    assert good.name == "scale"
    assert good.description == "A scaled copy"
    assert good.entry == "scale<{tile}>"
    assert good.gpu == "H200"
    assert good.params == {"n": 4096, "tile": 32, "factor": 1.5}
    assert good.test_params == {"n": 256}
    assert good.source == SOURCE
    assert good.kernel == str(folder / "scale.cu")


def test_binding_settles_every_number(good):
    launch = good.bind()
    assert launch.entry == "scale<32>"
    assert launch.grid == (128, 2, 1)
    assert launch.block == (32, 1, 1)
    assert launch.ctas == 256
    assert launch.threads == 32
    assert launch.dynamic_shared == 128
    assert launch.opt_in_shared is False
    assert launch.params == good.params
    assert [a.name for a in launch.arguments] == ["in", "out", "index", "factor"]
    assert [(b.dtype, b.count, b.bytes) for b in launch.buffers] == [
        ("float", 4096, 16384),
        ("float2", 2048, 16384),
        ("int", 4096, 16384),
    ]
    assert launch.arguments[3].value == 1.5
    assert launch.compile.std == "c++20"
    assert launch.compile.options == ("--use_fast_math",)
    assert launch.compile.define == {"T": "32", "REAL": "float", "DEBUG": "0"}
    assert (launch.state.caches, launch.state.clock_mhz, launch.state.carveout_kb) == ("warm", 1500.0, 64)


def test_overrides_and_test_sizes_replace_parameters(good):
    assert good.bind(test=True).grid == (8, 2, 1)
    assert good.bind({"n": "8*Ki"}).grid == (256, 2, 1)
    assert good.bind({"n": 64}, test=True).grid == (2, 2, 1)
    assert good.bind().grid == (128, 2, 1)


def test_defaults_are_those_of_the_contract():
    launch = parse(INLINE).bind()
    assert launch.gpu == "h200"
    assert launch.kernel == "(inline)"
    assert (launch.state.caches, launch.state.clock_mhz, launch.state.carveout_kb) == ("cold", None, None)
    assert (launch.dynamic_shared, launch.opt_in_shared, launch.compile.std) == (0, False, None)


INLINE = """
schema = 1
source = '''__global__ void f(int* p) {}'''
entry = "f"
[launch]
grid = [1]
block = [32]
"""


def _with_args(*args):
    return parse(INLINE + "".join(f"[[arg]]\n{textwrap.dedent(a)}\n" for a in args)).bind()


def test_buffers_lie_at_multiples_of_2_mib_in_order_2_mib_apart():
    launch = _with_args(
        'name="a"\nbuffer="char"\ncount=1',
        'name="b"\nbuffer="float4"\ncount="128*Ki"',
        'name="c"\nbuffer="int"\ncount=5\noffset=4',
        'name="d"\nbuffer="int"\ncount=2',
    )
    a, b, c, d = launch.buffers
    assert a.address == BASE_ADDRESS
    assert [x.address % ALIGNMENT for x in (a, b, c, d)] == [0, 0, 4, 0]
    for before, after in ((a, b), (b, c), (c, d)):
        assert after.address - (before.address + before.bytes) >= 2 << 20


def test_an_alias_shares_the_bytes_of_its_buffer_from_its_offset():
    launch = _with_args(
        'name="shifted"\nbuffer="int"\ncount=3\nalias_of="a"\noffset=4',
        'name="a"\nbuffer="int"\ncount=4\nfill={expr="10*i"}',
        'name="bytes"\nbuffer="unsigned char"\ncount=2\nalias_of="a"\noffset=4',
    )
    shifted, a, as_bytes = launch.buffers
    assert shifted.address == a.address + 4
    assert shifted.target is a
    assert shifted.data.tolist() == [10, 20, 30]
    assert as_bytes.data.tolist() == [10, 0]
    assert np.shares_memory(shifted.data, a.data)
    assert launch.allocations == (a,)


def test_measured_addresses_replace_the_default_ones():
    scenario = parse(INLINE + '[[arg]]\nname="a"\nbuffer="int"\ncount=4\n[[arg]]\nname="b"\nbuffer="int"\ncount=1\n'
                     'alias_of="a"\noffset=8\n[[arg]]\nname="c"\nbuffer="int"\ncount=4\n')  # fmt: skip
    for addresses in ([0x1000, 0x8000], {"a": 0x1000, "c": 0x8000, "b": 1}):
        launch = scenario.bind(addresses=addresses)
        assert [b.address for b in launch.buffers] == [0x1000, 0x1008, 0x8000]
    with pytest.raises(InputError, match="1 addresses for 2 buffers"):
        scenario.bind(addresses=[0x1000])
    with pytest.raises(InputError, match="no address for buffer 'c'"):
        scenario.bind(addresses={"a": 1})


def test_an_opaque_buffer_costs_no_memory_however_large():
    (buffer,) = _with_args('name="a"\nbuffer="float"\ncount="2**34"').buffers
    assert buffer.bytes == 1 << 36
    assert buffer.opaque
    assert buffer.data is None


@pytest.mark.parametrize(
    ("kind", "count", "fill", "expected"),
    [
        ("float", 3, '"zeros"', np.zeros(3, np.float32)),
        ("int", 1000, '{randint=50}', np.random.default_rng(0).integers(0, 50, 1000).astype(np.int32)),
        ("int", 1000, '{randint="5*10", seed="3+4"}', np.random.default_rng(7).integers(0, 50, 1000).astype(np.int32)),
        ("long long", 99, '{permutation=true}', np.random.default_rng(0).permutation(99)),
        ("unsigned", 99, '{permutation=true, seed=2}', np.random.default_rng(2).permutation(99).astype(np.uint32)),
        ("int", 4, '{expr="16*i"}', np.array([0, 16, 32, 48], np.int32)),
        ("half", 4, '{expr="i/4"}', np.array([0, 0.25, 0.5, 0.75], np.float16)),
        ("int2", 2, '{expr="i+1"}', np.array([1, 2, 3, 4], np.int32)),
        ("double", 2, '{values=[1, "0.5*3"]}', np.array([1, 1.5])),
        ("__nv_bfloat16", 2, '{values=[1, -2]}', np.array([0x3F80, 0xC000], np.uint16)),
        ("bool", 2, '{expr="i == 1"}', np.array([False, True])),
    ],
)  # fmt: skip
def test_a_fill_gives_the_contents_of_the_contract(kind, count, fill, expected):
    (buffer,) = _with_args(f'name="a"\nbuffer="{kind}"\ncount={count}\nfill={fill}').buffers
    assert buffer.data.dtype == expected.dtype
    assert (buffer.data == expected).all()
    assert buffer.data.nbytes == buffer.bytes


def test_an_expression_fill_is_the_same_in_pieces():
    (buffer,) = _with_args('name="a"\nbuffer="int"\ncount="2*Mi + 5"\nfill={expr="(7*i) % 1000003"}').buffers
    assert (buffer.data == (7 * np.arange(2 * 2**20 + 5)) % 1000003).all()


def test_a_file_fill_lies_beside_the_scenario(folder):
    text = GOOD.replace('fill = { randint = "n//2", seed = 3 }', 'fill = { file = "index.npy" }')
    np.save(folder / "index.npy", np.arange(4096)[::-1])
    index = parse(text, folder / "scale.toml").bind().buffers[2]
    assert index.data.dtype == np.int32
    assert (index.data == np.arange(4096)[::-1]).all()


@pytest.mark.parametrize("name", list_scenarios(faults=True))
def test_every_shipped_scenario_loads_and_binds(name):
    scenario = load(name)
    assert scenario.description
    for test in (False, True):
        launch = scenario.bind(test=test)
        assert launch.ctas >= 1
        for buffer in launch.buffers:
            if test and not buffer.opaque:
                assert buffer.data.nbytes == buffer.bytes


# Each bad file: what is replaced in GOOD, by what, and what the one line must say besides the file.
BAD = {
    "broken TOML": ("entry =", "entry", ["not valid TOML", "line 5"]),
    "key twice": ("gpu =", 'entry = "g"\ngpu =', ["not valid TOML"]),
    "no schema": ("schema = 1", "", ["schema", "missing", "schema = 1"]),
    "newer schema": ("schema = 1", "schema = 2", ["schema", "2", "schema = 1"]),
    "schema as text": ("schema = 1", 'schema = "1"', ["schema", "'1'"]),
    "no entry": ('entry = "scale<{tile}>"', "", ["entry", "missing"]),
    "empty entry": ("scale<{tile}>", "", ["entry", "empty"]),
    "entry as number": ('"scale<{tile}>"', "3", ["entry", "an integer given, text wanted"]),
    "unknown name in entry": ("{tile}", "{tiel}", ["entry", "unknown name 'tiel'", "did you mean 'tile'?"]),
    "no kernel": ('kernel = "scale.cu"', "", ["kernel", "source"]),
    "kernel and source": ("gpu =", "source = '__global__'\ngpu =", ["kernel", "source"]),
    "kernel not found": ("scale.cu", "scael.cu", ["kernel", "no kernel file 'scael.cu'", "'scale.cu'"]),
    "source without kernel": ('kernel = "scale.cu"', 'source = "int f();"', ["source", "no __global__"]),
    "unknown key": ("gpu =", "gpus =", ["gpus: unknown key", "did you mean 'gpu'?", "allowed: arg, compile"]),
    "unknown table": ("[state]", "[states]", ["states: unknown key", "did you mean 'state'?"]),
    "unknown key in launch": ("grid =", "gird =", ["launch.gird: unknown key", "did you mean 'grid'?"]),
    "unknown key in arg": ('count = "n"', 'counts = "n"', ["arg 'in': counts: unknown key", "'count'"]),
    "unknown key in fill": ("randint", "randit", ["arg 'index': fill.randit: unknown key", "'randint'"]),
    "unknown key in state": ("clock_mhz", "clock", ["state.clock: unknown key", "'clock_mhz'"]),
    "unknown key in compile": ("std =", "standard =", ["compile.standard: unknown key", "std"]),
    "no launch": (GOOD[GOOD.index("[launch]") : GOOD.index("[[arg]]")], "", ["launch: the key is missing"]),
    "no grid": ('grid = ["cdiv(n, tile)", 2]', "", ["launch.grid", "missing"]),
    "grid not a list": ('["cdiv(n, tile)", 2]', "4", ["launch.grid", "an integer given, a list wanted"]),
    "empty grid": ('["cdiv(n, tile)", 2]', "[]", ["launch.grid", "0 numbers (1 to 3)"]),
    "grid of four": ('["cdiv(n, tile)", 2]', "[1, 1, 1, 1]", ["launch.grid", "4 numbers (1 to 3)"]),
    "fractional grid": ('"cdiv(n, tile)"', '"n/3"', ["launch.grid[0]", "'n/3'", "not a whole number"]),
    "zero grid": ('"cdiv(n, tile)"', '"n//8192"', ["launch.grid[0]", "0 is out of range (1 to 2147483647)"]),
    "grid too high": ('tile)", 2]', 'tile)", 65536]', ["launch.grid[1]", "65536", "1 to 65535"]),
    "grid is true": (
        'tile)", 2]',
        'tile)", true]',
        ["launch.grid[1]", "true or false given, a number or an expression"],
    ),
    "block too large": ('block = ["tile"]', "block = [64, 32]", ["launch.block", "64x32x1 is 2048 threads", "1024"]),
    "block too deep": ('block = ["tile"]', "block = [1, 1, 65]", ["launch.block[2]", "65", "1 to 64"]),
    "negative shared": ('"4*tile"', '"-tile"', ["launch.dynamic_shared", "-32 is out of range"]),
    "opt-in as number": (
        'block = ["tile"]',
        'block = ["tile"]\nopt_in_shared = 1',
        ["launch.opt_in_shared", "true or false"],
    ),
    "unknown name": (
        "cdiv(n, tile)",
        "cdiv(m, tile)",
        ["launch.grid[0]", "unknown name 'm'", "known names: factor, n, tile"],
    ),
    "unknown function": ("cdiv(n", "ceil(n", ["launch.grid[0]", "unknown function 'ceil'", "cdiv, max, min"]),
    "division by zero": ("cdiv(n, tile)", "n//(tile-32)", ["launch.grid[0]", "division by zero"]),
    "endless power": ("cdiv(n, tile)", "9**9**9", ["launch.grid[0]", "more than 256 bits"]),
    "bad expression": ("cdiv(n, tile)", "cdiv(n,", ["launch.grid[0]", "cannot read expression"]),
    "parameter as text": ("n = 4096", 'n = "4096"', ["params.n", "text given, a number wanted"]),
    "parameter not finite": ("n = 4096", "n = inf", ["params.n", "not a finite number"]),
    "parameter named cdiv": ("factor = 1.5", "factor = 1.5\ncdiv = 3", ["params", "'cdiv' has a meaning"]),
    "parameter not a name": ("factor = 1.5", 'factor = 1.5\n"a-b" = 3', ["params", "'a-b' is not a name"]),
    "unknown test parameter": ("n = 256", "m = 256", ["test_params", "no parameter 'm'", "n, tile, factor"]),
    "one table for arg": (GOOD[GOOD.index("[[arg]]") :], '[arg]\nname = "n"', ["arg: one table", "[[arg]]"]),
    "arg without name": ('name = "in"\n', "", ["arg[0].name", "missing"]),
    "empty name": ('name = "in"', 'name = ""', ["arg[0].name", "empty"]),
    "name twice": ('name = "out"', 'name = "in"', ["arg 'in'", "used twice"]),
    "unknown element type": (
        'buffer = "float"\n',
        'buffer = "flaot"\n',
        ["arg 'in'", "buffer", "'flaot'", "did you mean 'float'?"],
    ),
    "no count": ('buffer = "float"\ncount = "n"', 'buffer = "float"', ["arg 'in'", "count", "missing"]),
    "count of zero": ('count = "n//2"', "count = 0", ["arg 'out'", "count", "0 is out of range (1 to"]),
    "fractional count": ('count = "n//2"', "count = 2.5", ["arg 'out'", "count", "not a whole number"]),
    "count as list": (
        'count = "n//2"',
        "count = [1]",
        ["arg 'out': count", "a list given, a number or an expression wanted"],
    ),
    "value and buffer": (
        'value = "factor"',
        'value = 1\nbuffer = "int"',
        ["arg 'factor'", "either buffer", "or value"],
    ),
    "neither value nor buffer": ('value = "factor"', "", ["arg 'factor'", "either buffer", "or value"]),
    "value with count": ('value = "factor"', "value = 1\ncount = 3", ["arg 'factor'", "count", "only a buffer"]),
    "buffer too large": ('count = "n//2"', 'count = "2**45"', ["arg 'out'", "1 TiB"]),
    "alias of nothing": ('fill = "zeros"', 'alias_of = "on"', ["arg 'out'", "alias_of", "no buffer 'on'", "in, index"]),
    "alias of itself": ('fill = "zeros"', 'alias_of = "out"', ["arg 'out'", "alias_of", "no buffer 'out'"]),
    "alias past the end": (
        'fill = "zeros"',
        'alias_of = "in"\noffset = 4',
        ["arg 'out'", "reach past the 16384 bytes of 'in'"],
    ),
    "alias with a fill": (
        'fill = "zeros"',
        'fill = "zeros"\nalias_of = "in"',
        ["arg 'out'", "fill", "fill that buffer"],
    ),
    "negative offset": (
        'fill = "zeros"',
        'alias_of = "in"\noffset = -4',
        ["arg 'out'", "offset", "-4 is out of range"],
    ),
    "unknown fill": ('"zeros"', '"ones"', ["arg 'out'", "fill", '"ones" is not known', "zeros", "randint"]),
    "fill as number": ('"zeros"', "0", ["arg 'out': fill", "an integer given, a table or text wanted"]),
    "empty fill": ('"zeros"', "{}", ["arg 'out'", "fill", "exactly one of randint"]),
    "two fills": (
        "{ randint",
        "{ permutation = true, randint",
        ["arg 'index'", "randint and permutation", "exactly one"],
    ),
    "permutation = false": (
        '{ randint = "n//2", seed = 3 }',
        "{ permutation = false }",
        ["arg 'index'", "permutation = false"],
    ),
    "seed without use": (
        '{ randint = "n//2", seed = 3 }',
        '{ expr = "i", seed = 3 }',
        ["arg 'index'", "seed", "not expr"],
    ),
    "negative seed": ("seed = 3", "seed = -3", ["arg 'index': fill: seed", "-3 is out of range"]),
    "randint of nothing": ('randint = "n//2"', "randint = 0", ["arg 'index': fill: randint", "0 is out of range"]),
    "randint too high": (
        '{ randint = "n//2"',
        '{ randint = "2**40"',
        ["arg 'index': fill: randint", "does not fit 'int'"],
    ),
    "unknown name in a fill": (
        '{ randint = "n//2", seed = 3 }',
        '{ expr = "j" }',
        ["arg 'index': fill: expr", "unknown name 'j'"],
    ),
    "too few values": (
        '{ randint = "n//2", seed = 3 }',
        "{ values = [1, 2] }",
        ["arg 'index': fill: values", "2 numbers", "4096"],
    ),
    "no such file": ('{ randint = "n//2", seed = 3 }', '{ file = "no.npy" }', ["arg 'index': fill: file", "no.npy"]),
    "short file": (
        '{ randint = "n//2", seed = 3 }',
        '{ file = "short.npy" }',
        ["fill: file", "short.npy", "5 numbers", "4096"],
    ),
    "file of several arrays": (
        '{ randint = "n//2", seed = 3 }',
        '{ file = "several.npz" }',
        ["fill: file", "several.npz"],
    ),
    "file that is no array": (
        '{ randint = "n//2", seed = 3 }',
        '{ file = "junk.npy" }',
        ["fill: file", "cannot read", "junk.npy"],
    ),
    "unknown state": ('caches = "warm"', 'caches = "hot"', ["state.caches", '"hot"', '"cold", "flushed", "warm"']),
    "clock of zero": ("clock_mhz = 1500", "clock_mhz = 0", ["state.clock_mhz", "0 is out of range"]),
    "negative carve-out": ('"2*32"', "-1", ["state.carveout_kb", "-1 is out of range"]),
    "options as text": ('["--use_fast_math"]', '"--use_fast_math"', ["compile.options", "text given, a list wanted"]),
    "bad macro name": ("T =", '"1T" =', ["compile.define", "'1T' is not a macro name"]),
    "unknown name in a macro": ('"{tile}"', '"{tiles}"', ["compile.define.T", "unknown name 'tiles'"]),
    "parameter is true": ("n = 4096", "n = true", ["params.n", "true or false given, a number wanted"]),
    "macro as list": ('"{tile}"', "[1]", ["compile.define.T", "a list given"]),
    "a date": ("n = 4096", "n = 2026-01-01", ["params.n", "a date or time given, a number wanted"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gives_one_line_with_file_and_key(case, folder):
    old, new, fragments = BAD[case]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    path = folder / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load(path).bind()
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message
    assert error.value.exit_status == 2


def test_the_good_file_is_good(folder):
    path = folder / "good.toml"
    path.write_text(GOOD)
    assert tomllib.loads(GOOD)["schema"] == 1
    assert load(path).bind().buffers[2].data.max() < 2048


def test_an_override_must_name_a_parameter(good):
    with pytest.raises(InputError, match=r"no parameter 'rows'; this scenario has: n, tile, factor"):
        good.bind({"rows": 1})
    with pytest.raises(InputError, match=r"no parameter 'tiles' \(did you mean 'tile'\?\)"):
        good.bind({"tiles": 1})
    with pytest.raises(InputError, match=r"params\.n: cannot read expression"):
        good.bind({"n": "4 096"})


def test_a_number_that_does_not_fit_is_an_error_when_the_fill_is_made(folder):
    text = GOOD.replace('{ randint = "n//2", seed = 3 }', '{ file = "wide.npy" }')
    index = parse(text, folder / "bad.toml").bind().buffers[2]
    with pytest.raises(InputError, match=r"2\.5 does not fit 'int'"):
        _ = index.data


def test_a_missing_scenario_names_close_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no scenario 'transpose_tilde' \(did you mean 'transpose_tiled'\?\)"):
        load("transpose_tilde")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"x\.toml: cannot read the file"):
        load("x.toml")
    (tmp_path / "dir.toml").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        load("dir.toml")
