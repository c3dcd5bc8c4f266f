"""Cubins to programs: every form decodes on every architecture, and what the cubin says arrives."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest

from warpsim.errors import InputError, UnsupportedError
from warpsim.frontend import nvrtc, sass
from warpsim.frontend.cubin import Cubin
from warpsim.frontend.lines import line_table
from warpsim.frontend.program import Instruction, Parameter, Program

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.cuda

ARCHITECTURES = [80, 86, 89, 90, 100]
FORMS = (Path(__file__).parent / "forms.cu").read_text()
TEMPLATES = {"scale<32>": "_Z5scaleILi32EEvPfPKfi", "shapes::pick<float, 3>": "_ZN6shapes4pickIfLi3EEEvPT_NS_5PointE"}
REGISTERS = {"64": 2, "128": 4}
FLOATS = ("FADD", "FMUL", "FFMA", "FSEL", "FSETP", "FMNMX")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def cubin(arch: int) -> bytes:
    return nvrtc.compile_cubin(FORMS, "scale<32>", arch).cubin


@cache
def program(arch: int, entry: str) -> Program:
    return sass.program_from_cubin(cubin(arch), entry)


@cache
def programs(arch: int) -> tuple[Program, ...]:
    return tuple(program(arch, name) for name in Cubin(cubin(arch)).kernels())


def everything(arch: int) -> list[tuple[Program, Instruction]]:
    return [(p, i) for p in programs(arch) for i in p.instructions]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_operand_of_every_kernel_is_known(arch):
    assert len(programs(arch)) >= 20
    unknown = [(p.name, i.text) for p, i in everything(arch) if any(o.kind == "unknown" for o in i.operands)]
    assert unknown == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_places_lie_in_the_program(arch):
    for p, i in everything(arch):
        for operand in i.operands:
            if operand.kind in ("label", "function"):
                assert 0 <= operand.value < len(p.instructions), (p.name, i.text)
        if i.opcode == "BSSY":
            assert i.operands[-1].value > i.index


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_indices_encodings_and_controls(arch):
    for p in programs(arch):
        section = Cubin(cubin(arch)).data(f".text.{p.entry}")
        assert [i.index for i in p.instructions] == list(range(len(p.instructions)))
        assert (
            b"".join(i.encoding.to_bytes(16, "little") for i in p.instructions) == section[: 16 * len(p.instructions)]
        )
        assert all(i.opcode == "BRA" and i.operands[-1].value == i.index for i in p.instructions[-1:])
        for i in p.instructions:
            assert i.write_barrier in (0, 1, 2, 3, 4, 5, 7)
            assert i.read_barrier in (0, 1, 2, 3, 4, 5, 7)
            assert i.stall > 0 or i.opcode in ("BRA", "ERRBAR")


def loaded(i: Instruction) -> set[int]:
    """Registers that a global load writes."""
    first = next(o.index for o in i.operands if o.kind == "reg")
    width = next((REGISTERS[m] for m in i.modifiers if m in REGISTERS), 1)
    return set(range(first, first + width)) - {255}


def reads(i: Instruction) -> set[int]:
    """Registers that an instruction may read, both of a pair."""
    used = set()
    for operand in i.operands[(i.operands[0].kind == "reg" and i.opcode not in ("STG", "STS", "ST")) :]:
        if operand.kind in ("reg", "addr") and operand.index is not None:
            used |= {operand.index, operand.index + 1} if operand.width64 else {operand.index}
    return used


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_whoever_reads_a_loaded_register_waits_for_its_scoreboard(arch):
    checked = 0
    for p in programs(arch):
        targets = {o.value for i in p.instructions for o in i.operands if o.kind == "label"}
        targets |= set(p.functions.values()) | {t for places in p.branch_targets.values() for t in places}
        pending: dict[int, int] = {}  # register: scoreboard
        for i in p.instructions:
            if i.index in targets:
                pending.clear()
            pending = {r: barrier for r, barrier in pending.items() if not i.wait_mask >> barrier & 1}
            if i.operands:
                late = reads(i) & set(pending)
                assert not late, (arch, p.name, i.text, late)
            if i.opcode == "LDG" and loaded(i):
                assert i.write_barrier < 6, (arch, p.name, i.text)
                pending |= dict.fromkeys(loaded(i), i.write_barrier)
                checked += 1
            if i.opcode in ("BRA", "BRX", "CALL", "RET", "EXIT", "BSYNC", "WARPSYNC"):
                pending.clear()
    assert checked > 50


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_printed_floats_are_the_encoded_ones(arch):
    checked = 0
    for _, i in everything(arch):
        numbers = re.findall(r"(?<![\w.])[+-]?(?:INF|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.\]])", i.text)
        values = [o.value for o in i.operands if o.kind == "imm"]
        if i.opcode in FLOATS and len(numbers) == 1 and len(values) == 1:
            decoded = struct.unpack("<f", struct.pack("<I", values[0]))[0]
            assert decoded == pytest.approx(float(numbers[0]), rel=1e-6), i.text
            checked += math.isfinite(decoded)
    assert checked > 10


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_hexadecimal_immediates_agree_with_the_encoding(arch):
    agree = 0
    for _, i in everything(arch):
        if i.opcode in ("IADD3", "VIADD", "ISETP", "IMAD", "LOP3", "PRMT", "MOV"):
            values = [o.value for o in i.operands if o.kind == "imm"]
            if values and "UMOV" not in i.text:
                assert i.encoding >> 32 & 0xFFFFFFFF in values or i.opcode == "LOP3", i.text
                agree += 1
    assert agree > 100


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("scale<32>", [(0, 8), (8, 8), (16, 4)]),
        ("mixed", [(0, 8), (8, 1), (16, 8), (24, 2)]),
        ("shapes::pick<float, 3>", [(0, 8), (8, 20)]),
        ("divisions", [(0, 8), (8, 8), (16, 4), (24, 8), (32, 8), (40, 4)]),
        ("halves", [(0, 8), (8, 8), (16, 2), (24, 8)]),
    ],
)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters_have_c_layout(arch, entry, expected):
    p = program(arch, TEMPLATES.get(entry, entry)) if entry != "shapes::pick<float, 3>" else loaded_pick(arch)
    assert p.parameters == tuple(Parameter(*pair) for pair in expected)
    assert p.parameter_base == {80: 0x160, 86: 0x160, 89: 0x160, 90: 0x210, 100: 0x380}[arch]


@cache
def loaded_pick(arch: int) -> Program:
    return sass.load_program(FORMS, "shapes::pick<float, 3>", arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_shared_local_and_launch_bounds(arch):
    assert program(arch, "tile").shared == 32 * 33 * 4
    assert program(arch, "constants").shared == 0
    assert {p.reserved_shared for p in programs(arch)} == {1024 if arch >= 90 else 0}
    assert program(arch, "local_array").local == 256
    assert program(arch, "loops").local == 0
    assert program(arch, "calls").local >= 128
    assert program(arch, "recursive").local == 1024
    assert program(arch, "misc").max_threads == 128
    assert program(arch, "tile").max_threads == 1024
    assert all(8 <= p.registers <= 64 for p in programs(arch))
    assert {p.arch for p in programs(arch)} == {arch}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_switch_knows_its_branch_targets(arch):
    p = program(arch, "switches")
    branches = [i.index for i in p.instructions if i.opcode == "BRX"]
    assert branches
    assert sorted(p.branch_targets) == branches
    assert all(len(targets) >= 3 for targets in p.branch_targets.values())
    words = {w for (w,) in struct.iter_unpack("<I", p.banks[2][: len(p.banks[2]) // 4 * 4])}
    assert {16 * t for targets in p.branch_targets.values() for t in targets} <= words


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_device_variables_and_their_addresses(arch):
    p = program(arch, "constants")
    assert p.banks[3][:12] == struct.pack("<fff", 1, 2, 3)
    table = p.globals_.index(struct.pack("<iiii", 10, 20, 30, 40))
    assert table in [target for _, target in p.relocations]
    assert all(0 <= offset < len(p.banks[4]) for offset, _ in p.relocations)
    assert (table + 4) in [target for bank, _, target in p.pointers if bank == -1]
    assert [name for _, name in program(arch, "prints").externals] == ["vprintf"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_calls_name_functions_of_the_program(arch):
    p = program(arch, "calls")
    assert {name.split("$")[-1] for name in p.functions} == {"_Z7collatzi", "_Z4deepPfi"}
    called = {o.value for i in p.instructions if i.opcode == "CALL" for o in i.operands if o.kind == "function"}
    assert called == set(p.functions.values())
    for name, start in p.functions.items():
        assert any(o.name == name and o.value == start for i in p.instructions for o in i.operands)


@pytest.mark.parametrize(
    ("arch", "entry", "text", "form"),
    [
        (80, "async_copy", "LDGSTS.E.BYPASS.128", ["addr", "addr"]),
        (90, "async_copy", "LDGSTS.E.BYPASS.128", ["addr", "desc", "addr"]),
        (80, "matrices", "LDSM.16.M88.4", ["reg", "addr"]),
        (90, "matrices", "LDSM.16.MT88.2", ["reg", "addr"]),
        (90, "matrices", "HMMA.16816.F16", ["reg", "reg", "reg", "reg"]),
        (90, "shuffles", "SHFL.DOWN", ["pred", "reg", "reg", "imm", "imm"]),
        (90, "shuffles", "MATCH.ANY", ["reg", "reg"]),
        (90, "misc", "S2UR", ["ureg", "special"]),
        (90, "loops", "BREAK", ["barrier", "pred"]),
        (80, "predicates", "P2R", ["reg", "predset", "reg", "imm"]),
        (90, "loops", "FCHK", ["pred", "reg", "reg"]),
        (90, "loops", "BSSY", ["barrier", "label"]),
        (90, "loops", "RET.REL.NODEC", ["reg", "function"]),
        (90, "halves", "HFMA2.BF16_V2", ["reg", "reg", "imm", "reg"]),
        (100, "calls", "BRA.U", ["upred", "label"]),
        (90, "local_array", "STL", ["addr", "reg"]),
        (90, "atomics", "ATOMG.E.CAS.STRONG.GPU", ["pred", "reg", "addr", "reg", "reg"]),
        (90, "atomics", "ATOMS.POPC.INC.32", ["reg", "addr"]),
        (80, "atomics", "RED.E.ADD.F32.FTZ.RN.STRONG.GPU", ["addr", "reg"]),
        (90, "doubles", "DFMA", ["reg", "reg", "reg", "reg"]),
    ],
)
def test_operand_forms(arch, entry, text, form):
    opcodes = {}
    for i in program(arch, entry).instructions:
        opcodes.setdefault(".".join((i.opcode, *i.modifiers)), []).append([o.kind for o in i.operands])
    assert form in opcodes[text]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_source_lines_are_those_nvdisasm_prints(arch, tmp_path):
    path = tmp_path / "forms.cubin"
    path.write_bytes(cubin(arch))
    done = subprocess.run([sass.disassembler()[0], "-json", "-g", str(path)], capture_output=True, check=True)
    _, functions, table = json.loads(done.stdout)
    files, rows = line_table(Cubin(cubin(arch)))
    names = [f["file"] for f in table["files"]]
    for function in functions:
        own = {row.pc: row for row in rows[function["function-name"]]}
        expected = mine = None
        for index, item in enumerate(function["sass-instructions"]):
            if "source-line" in item:
                expected = (names[item["source-file-id"]], item["source-line"])
            if 16 * index in own:
                mine = (Path(files[own[16 * index].file]).name, own[16 * index].line)
            assert mine == (Path(expected[0]).name, expected[1])


def test_lines_of_headers_move_to_the_code_that_called_them():
    p = program(90, "halves")
    body = FORMS.splitlines()
    first = next(n for n, line in enumerate(body, 1) if "void halves" in line)
    last = next(n for n, line in enumerate(body, 1) if "void async_copy" in line)
    assert {p.files[i.file] for i in p.instructions} == {"kernel.cu"} or p.files[p.instructions[0].file] == ""
    assert all(first <= i.line < last for i in p.instructions)


def test_lines_name_the_file_that_was_given():
    p = sass.load_program(FORMS, "tile", 90, filename="some/where/forms.cu")
    body = FORMS.splitlines()
    stores = [i for i in p.instructions if i.opcode == "STS"]
    assert {p.files[i.file] for i in stores} == {"some/where/forms.cu"}
    assert all("s[threadIdx.y]" in body[i.line - 1] or "dynamic" in body[i.line - 1] for i in stores)


def test_load_program_equals_its_cubin():
    loaded_one, decoded = sass.load_program(FORMS, "tile", 90, filename=""), program(90, "tile")
    assert loaded_one.instructions == decoded.instructions
    assert loaded_one.compiler == "NVRTC 13.0.88"
    assert decoded.compiler == "ptxas 13.0.88"


def test_the_key_ignores_comments_and_sees_code():
    tile = FORMS[FORMS.index("__global__ void tile") : FORMS.index("__global__ void local_array")]
    key = sass.load_program('extern "C" ' + tile, "tile", 90).key
    assert sass.load_program('// a comment\n\nextern "C" ' + tile, "tile", 90).key == key
    assert sass.load_program('extern "C" ' + tile.replace("= 1;", "= 2;"), "tile", 90).key != key


def test_a_cubin_with_several_kernels_wants_a_name():
    with pytest.raises(InputError, match=r"several kernels, name one; its kernels: .*tile"):
        sass.program_from_cubin(cubin(90))
    with pytest.raises(InputError, match="'missing' matches 0 kernels"):
        sass.program_from_cubin(cubin(90), "missing")
    assert sass.program_from_cubin(cubin(90), "mixed").entry == "_Z5mixedPicds"
    single = nvrtc.compile_cubin("__global__ void one(int* a) { a[0] = 1; }", "one", 90).cubin
    assert sass.program_from_cubin(single).entry == "_Z3onePi"


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02", b"PK\x03\x04 something else", bytes(200)])
def test_what_is_no_cubin_is_said_so(data):
    with pytest.raises(InputError, match="not a CUDA ELF file"):
        sass.program_from_cubin(data)


def test_shipped_listings_serve_where_nothing_can_compile(tmp_path, monkeypatch):
    kernels = [
        {"source": FORMS, "entry": "scale<32>", "arch": 90},
        {"source": FORMS, "entry": "switches", "arch": 80},
        {"source": FORMS, "entry": "tile", "arch": 90, "define": {"UNUSED": 3}},
    ]
    expected = [sass.load_program(**kernel) for kernel in kernels]
    (tmp_path / "sm_90").mkdir()
    (tmp_path / "sm_90" / "old-0123456789abcdef.json").write_text("{}")
    written = sass.ship(kernels, tmp_path)
    assert sorted(tmp_path.glob("*/*")) == sorted(written)
    assert len(written) == 3
    again = {path: path.read_bytes() for path in written}
    sass.ship(kernels, tmp_path)
    assert {path: path.read_bytes() for path in written} == again

    def none() -> tuple[str, str]:
        raise UnsupportedError("no compiler")

    monkeypatch.setattr(sass, "SHIPPED", tmp_path)
    monkeypatch.setattr(sass, "disassembler", none)
    assert [vars(sass.load_program(**kernel)) for kernel in kernels] == [vars(program) for program in expected]
    with pytest.raises(UnsupportedError, match="no compiler"):
        sass.load_program(FORMS, "tile", 90)
    with pytest.raises(UnsupportedError, match="no compiler"):
        sass.load_program(**kernels[0], shipped=False)
    monkeypatch.setenv("WARPSIM_NO_SHIPPED", "1")
    with pytest.raises(UnsupportedError, match="no compiler"):
        sass.load_program(**kernels[0])
