"""The command line: exit statuses, one clear line for every failure, output where it was asked for."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import warpsim
from tests.synthetic import global_line, make, shared_line
from warpsim import cli
from warpsim.errors import InputError, KernelError, UnsupportedError
from warpsim.result import Result

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        status = cli.main(list(words))
        out, err = capfd.readouterr()
        return status, out, err

    return call


def process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsim", *words], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """`run` without a simulator: results made by hand; what it was asked for is recorded."""
    calls: list[dict[str, object]] = []

    def simulate(scenario: object, gpu: object, params: object, exact: object, watch: object) -> Result:
        calls.append({"scenario": scenario, "gpu": gpu, "params": params, "exact": exact, "watch": watch})
        name = getattr(scenario, "name", str(scenario))
        sectors = 3200 if name == "stride" else 400
        lines = [global_line(7, "ld", 100, sectors, 400, "x = in[i];"), shared_line(9, "ld", 200, 100)]
        return make(lines, scenario=name, params=dict(params or {}))

    monkeypatch.setattr(cli, "_simulate", simulate)
    # gains run the simulator again, which these results never came from
    monkeypatch.setattr("warpsim.counterfactual.with_gains", lambda _, result, **__: result, raising=False)
    return calls


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, warpsim.cli as c; c.main(['run', '--help']); c.main(['list', 'rules'])\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "numba", "llvmlite", "rich", "simpy", "cuda", "cupy", "hypothesis"} & set(loaded)


def test_importing_warpsim_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import warpsim\nprint(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names] == ["warpsim"]


def test_public_names_are_complete_and_lazy() -> None:
    assert set(warpsim.__all__) - {"__version__"} == set(warpsim._HOMES)
    assert set(warpsim.__all__) <= set(dir(warpsim))
    assert warpsim.Result is Result
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = warpsim.nonsense


def test_every_public_name_resolves() -> None:
    for name in warpsim.__all__:
        assert getattr(warpsim, name) is not None


def test_version_and_help_end_with_status_0(run: Run) -> None:
    assert run("--version")[0] == 0
    assert run("--help")[0] == 0
    status, out, _ = run("run", "-h")
    assert status == 0
    for option in (
        "--gpu",
        "--set",
        "--format",
        "-o",
        "--trace",
        "--sample",
        "--exact",
        "--fail-on",
        "--entry",
        "--grid",
    ):
        assert option in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "No such command 'nonsense'; see warpsim --help"),
        (["run"], "Missing argument 'SCENARIO|NAME|KERNEL.cu'; see warpsim run --help"),
        (["run", "--format", "xml", "copy"], "'xml' is not one of"),
        (["run", "no_such_scenario"], "no scenario 'no_such_scenario'"),
        (["run", "nothing.cu"], "nothing.cu"),
        (["run", "copy", "--set", "n"], "--set 'n': write NAME=VALUE"),
        (["run", "copy", "--set", "n=2*x"], "unknown name 'x'"),
        (["run", "copy", "--grid", "4"], "--grid goes with a CUDA source"),
        (["run", "copy", "--arg", "n=4"], "--arg goes with a CUDA source"),
        (["run", "copy", "--fail-on", "nonsense"], "unknown rule 'nonsense'"),
        (["access", "lane", "--svg", "map.png"], "--svg map.png: drawings are written as .svg"),
        (["run", "copy", "--trace-window", "1:2"], "--trace-window goes with --trace FILE"),
        (["diff", "a.json", "b.json", "--set", "n=4"], "--set: goes with a scenario; a.json and b.json are results"),
        (["explain", "gld_eficiency"], "did you mean gld_efficiency"),
        (["diff", "a.json", "b.json"], "a.json: cannot read"),
        (["sweep", "stride", "--set", "stride"], "write NAME=VALUES"),
        (["sweep", "stride", "--set", "stride=4..1"], "the end 1 lies below the start 4"),
        (["sweep", "stride", "--set", "stride=1..9:0"], "the step must move up"),
        (["sweep", "stride", "--set", "stride=a"], "'a'"),
        (["sweep", "stride", "--set", "stride=1..1Gi"], "more than 100,000 values"),
        (["sweep", "stride"], "Missing option '--set'"),
        (["init", "nothing.cu"], "nothing.cu"),
        (["compare", "--fail-over", "x"], "give a share such as 0.1 or 10%"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run: Run, words: Sequence[str], message: str) -> None:
    status, out, err = run(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("a"), 2), (KernelError("b\nc"), 1), (UnsupportedError("d"), 3), (KeyboardInterrupt(), 130),
        (RuntimeError("e"), 70), (FileNotFoundError(2, "No such file", "x"), 2),
    ],
)  # fmt: skip
def test_errors_have_their_status_and_never_a_traceback(
    run,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "_simulate", fail)
    got, _, err = run("run", "copy")
    assert got == status
    assert err.strip().count("\n") == 0
    assert "Traceback" not in err


def test_run_hands_on_what_was_asked_and_prints_text(run: Run, simulated: list[dict[str, object]]) -> None:
    status, out, err = run("run", "copy", "--gpu", "H100", "--set", "n=4*Ki", "--set", "m = 2", "--exact")
    assert (status, err) == (0, "")
    assert "copy" in out.splitlines()[0]
    assert "x = in[i];" in out
    call = simulated[0]
    assert (call["gpu"], call["params"], call["exact"]) == ("H100", {"n": 4096, "m": 2}, True)
    run("run", "copy", "--sample")
    run("run", "copy")
    assert [c["exact"] for c in simulated[1:]] == [False, None]


def test_run_takes_a_cuda_source(run: Run, simulated: list[dict[str, object]], tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void f(const float* in, float* out, int n) { out[threadIdx.x] = in[n]; }\n")
    words = ["--entry", "f", "--grid", "4,2", "--block", "256", "--arg", "in=float:1Mi", "--arg", "out=float:1Mi"]
    status, _, err = run("run", str(source), *words, "--arg", "n=1048576")
    assert (status, err) == (0, "")
    launch = simulated[0]["scenario"].bind()  # type: ignore[attr-defined]
    assert (launch.grid, launch.block, launch.buffers[0].count) == ((4, 2, 1), (256, 1, 1), 1 << 20)


def test_run_writes_json_that_is_a_result(run: Run, simulated: list[dict[str, object]], tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    assert run("run", "copy", "--format", "json", "-o", str(target)) == (0, "", "")
    assert Result.load(target).scenario == "copy"
    _, out, _ = run("run", "copy", "--format", "json")
    assert json.loads(out)["scenario"] == "copy"
    assert simulated


def test_fail_on_prints_the_result_and_exits_1(run: Run, simulated: list[dict[str, object]]) -> None:
    status, out, err = run("run", "stride", "--fail-on", "uncoalesced", "--fail-on", "bank-conflicts:1.5")
    assert status == 1
    assert "stride" in out
    assert [line.split(": ")[1] for line in err.splitlines()] == ["uncoalesced", "bank-conflicts"]
    assert run("run", "copy", "--fail-on", "uncoalesced", "--fail-on", "bank-conflicts:2")[0] == 0
    assert simulated


def test_diff_says_what_changed(run: Run, simulated: list[dict[str, object]], tmp_path: Path) -> None:
    a = tmp_path / "a.json"
    run("run", "copy", "--format", "json", "-o", str(a))
    status, out, _ = run("diff", str(a), "stride")
    assert status == 0
    assert "sectors of global loads: 400 to 3,200 (8 times)" in out
    assert "new: uncoalesced" in out
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" not in out  # equal on both sides
    document = json.loads(run("diff", str(a), "stride", "--format", "json", "--all")[1])
    rows = {row["name"]: row for row in document["rows"]}
    assert rows["global.load.sectors_per_request"]["ratio"] == 8
    assert rows["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]["ratio"] == 1
    assert simulated


def test_sweep_runs_every_combination_in_order(run: Run, simulated: list[dict[str, object]], tmp_path: Path) -> None:
    words = ["sweep", "copy", "--set", "a=1,3", "--set", "b=2..8:*2", "--jobs", "1"]
    status, out, _ = run(*words, "--format", "csv")
    assert status == 0
    rows = [line.split(",") for line in out.splitlines()]
    column = {name: i for i, name in enumerate(rows[0])}
    assert [(r[column["params.a"]], r[column["params.b"]]) for r in rows[1:]] == [
        ("1", "2"), ("1", "4"), ("1", "8"), ("3", "2"), ("3", "4"), ("3", "8"),
    ]  # fmt: skip
    _, text, _ = run(*words, "--metric", "dram_read_transactions")
    assert "dram__sectors_read.sum" in text
    assert len(json.loads(run(*words, "--format", "json")[1])) == 6
    assert len(simulated) == 18
    chart = tmp_path / "sweep.svg"
    assert run(*words, "--plot", str(chart))[0] == 0
    drawn = chart.read_text(encoding="utf-8")
    assert drawn.count("<circle") == 6
    assert "gpu__time_duration.sum of" in drawn
    assert ">b 2</text>" in drawn
    assert run(*words, "--plot", "sweep.pdf")[2] == "error: sweep.pdf: charts are written as .svg or .png\n"


def test_sweep_says_at_which_point_it_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scenario: object, gpu: object, params: object, *_: object) -> Result:
        if params == {"a": 2}:
            raise KernelError("out of bounds")
        return make()

    monkeypatch.setattr(cli, "_simulate", fail)
    status, _, err = run("sweep", "copy", "--set", "a=1..3", "--jobs", "1")
    assert (status, err) == (1, "error: at a=2: out of bounds\n")


def test_list_and_explain(run: Run) -> None:
    table = json.loads(run("list", "--format", "json")[1])
    assert {"scenarios", "kernels", "gpus", "rules"} <= set(table)
    assert "copy" in {row["name"] for row in table["scenarios"]}
    assert "h200" in {row["name"] for row in table["gpus"]}
    _, out, _ = run("list", "gpus")
    assert "a100-80gb  NVIDIA A100" in out
    assert "not checked against the GPU" in out
    _, out, _ = run("explain", "gld_transactions", "dram__sectors_read.sum")
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum  (gld_transactions in nvprof)" in out
    assert len(json.loads(run("explain", "--format", "json")[1])) > 50


def test_init_writes_a_scenario_that_loads_and_does_not_overwrite(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void f(const float* in, float* out, int n) { out[threadIdx.x] = in[n]; }\n")
    target = tmp_path / "k.toml"
    assert run("init", str(source), "-o", str(target))[0] == 0
    assert warpsim.load(target).bind().entry == "f"
    status, _, err = run("init", str(source), "-o", str(target))
    assert (status, err) == (2, f"error: {target} exists; --force overwrites it\n")
    assert run("init", str(source), "-o", str(target), "--force")[0] == 0


def test_a_closed_pipe_is_no_error() -> None:
    code = f"{sys.executable} -m warpsim explain | head -1"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "always in a result:\n"
    assert done.stderr == ""


def test_output_that_the_terminal_cannot_write_is_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, warpsim.cli as c; print('·'); sys.exit(c.main(['list', 'rules']))"],
        capture_output=True, check=False, env={"PYTHONIOENCODING": "ascii:replace"},
    )  # fmt: skip
    assert done.returncode == 0


def test_a_missing_gpu_is_status_3() -> None:
    pytest.importorskip("warpsim.recordings")
    try:
        import cupy  # noqa: F401
    except ImportError:
        done = process("record", "copy")
        assert done.returncode == 3
        assert "warpsim[gpu]" in done.stderr
        assert done.stderr.count("\n") == 1


def test_diff_says_which_result_was_measured(run: Run, tmp_path: Path) -> None:
    make().save(tmp_path / "a.json")
    make(source="measured").save(tmp_path / "b.json")
    status, out, _ = run("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--all")
    assert status == 0
    assert "A: made, simulated" in out
    assert "B: made, measured" in out
    status, _, err = run("plot", "parity", str(tmp_path / "b.json"), "-o", str(tmp_path / "p.svg"))
    assert (status, err.count("\n")) == (2, 1)
    assert "b.json: measured; parity takes simulated results" in err
