"""The commands with the simulator behind them, on shipped scenarios at small sizes."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import warpsim
from warpsim import cli
from warpsim.metrics import REQUIRED
from warpsim.result import Result
from warpsim.testing import assert_coalesced, assert_max_sectors_per_request, assert_no_bank_conflicts

Run = Callable[..., tuple[int, str, str]]
COPY = ("--set", "n=16Ki")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        status = cli.main(list(words))
        out, err = capfd.readouterr()
        return status, out, err

    return call


def test_run_gives_a_complete_result(run: Run) -> None:
    status, out, err = run("run", "copy", *COPY, "--format", "json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert list(document["metrics"])[: len(REQUIRED)] == list(REQUIRED)
    assert document["params"]["n"] == 16384
    assert document["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 512
    assert document["derived"]["global"]["load"]["sectors_per_request"] == 4
    assert document["derived"]["useful"] == {"read_bytes": 65536, "write_bytes": 65536, "bytes": 131072}
    assert document["gpu"] == "h200"
    assert document["coverage"] == {"ctas": 64, "of": 64}
    assert [row["name"] for row in document["buffers"]] == ["in", "out"]
    assert {"in", "out"} < {word for line in document["lines"] for word in line["text"].replace("[", " ").split()}


def test_every_form_of_output_is_made_of_it(run: Run, tmp_path: Path) -> None:
    page, trace = tmp_path / "r.html", tmp_path / "t.json"
    status, out, _ = run(
        "run", "copy", *COPY, "--format", "html", "-o", str(page), "--trace", str(trace), "--trace-sms", "all"
    )
    assert (status, out) == (0, "")
    assert page.read_text().startswith("<!doctype html>")
    events = json.loads(trace.read_text())["traceEvents"]
    assert Counter(e["name"].split(" ")[0] + e["cat"] for e in events if e["ph"] == "X") == {
        "CTActa": 64, "warpwarp": 512, "LDGrequest": 512, "STGrequest": 512,
    }  # fmt: skip
    assert {e["name"] for e in events if e.get("cat") == "request"} == {"LDG DRAM", "STG L2"}
    assert {e["name"] for e in events if e["ph"] == "C"} >= {"bytes in flight", "DRAM bandwidth"}
    assert "\nGlobal memory (L1) " in run("run", "copy", *COPY)[1]


def test_a_gpu_that_was_not_checked_says_so_in_every_form(run: Run) -> None:
    _, text, _ = run("run", "copy", *COPY, "--gpu", "A100-80GB")
    assert "profile not checked against the GPU" in text
    document = json.loads(run("run", "copy", *COPY, "--gpu", "a100-80gb", "--format", "json")[1])
    assert document["derived"]["trust"]["profile_checked"] is False
    assert (
        "profile not checked against the GPU" in run("run", "copy", *COPY, "--gpu", "a100-80gb", "--format", "html")[1]
    )


def test_fail_on_is_an_exit_status(run: Run) -> None:
    assert run("run", "bank_column", "--set", "ctas=8", "--fail-on", "bank-conflicts")[0] == 1
    assert run("run", "bank_padded", "--set", "ctas=8", "--fail-on", "bank-conflicts:1")[0] == 0


def test_the_same_run_twice_gives_the_same_json(run: Run) -> None:
    words = ("run", "transpose_tiled", "--set", "rows=64", "--set", "cols=64", "--format", "json")
    assert run(*words)[1] == run(*words)[1]


@pytest.mark.slow
def test_a_sweep_over_processes_keeps_the_order(run: Run) -> None:
    status, out, err = run(
        "sweep", "stride", "--set", "stride=1..8:*2", "--set", "n=16Ki", "--jobs", "2", "--format", "json"
    )
    assert (status, err) == (0, "")
    results = [Result.from_json(document) for document in json.loads(out)]
    assert [r.params["stride"] for r in results] == [1, 2, 4, 8]
    assert [r.derived["global"]["load"]["sectors_per_request"] for r in results] == [4, 8, 16, 32]


def test_diff_tells_what_padding_buys(run: Run) -> None:
    status, out, _ = run("diff", "bank_column", "bank_padded", "--set", "ctas=132")
    assert status == 0
    assert "times as fast as A" in out.splitlines()[0]
    assert "gone: bank-conflicts" in out


def test_assertions_take_scenarios_and_kernels() -> None:
    assert_coalesced("copy", params={"n": 16384})
    with pytest.raises(AssertionError, match=r"copy\.cu:\d+ .*global load takes 8 sectors a request, 4 would do"):
        assert_coalesced(warpsim.load("stride"), params={"n": 16384, "stride": 2})
    with pytest.raises(AssertionError, match="32-way bank conflicts"):
        assert_no_bank_conflicts("bank_column", params={"ctas": 8})
    assert_max_sectors_per_request("copy_float4", 16, params={"n": 16384})


@pytest.mark.cuda
def test_a_source_of_ones_own_runs_from_words(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        '#include <cuda_fp16.h>\nextern "C" __global__ void f(const float* in, float* out, int stride) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  out[i] = in[i * stride];\n}\n"
    )
    words = ["--entry", "f", "--grid", "8", "--block", "128", "--arg", "in=float:4Ki", "--arg", "out=float:1Ki"]
    status, out, err = run("run", str(source), *words, "--arg", "stride=2", "--format", "json")
    assert (status, err) == (0, "")
    result = Result.from_json(out)
    assert result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 8 * 4 * 8
    (line,) = [x for x in result.lines if "in[i * stride]" in x["text"]]
    assert line["line"] == 4
    assert Path(line["file"]).name == "k.cu"
    assert run("run", str(source), *words, "--arg", "stride=8")[0] == 1  # out of bounds
    source.write_text(source.read_text().replace("int i =", "int i = j +"))
    status, _, err = run("run", str(source), *words, "--arg", "stride=2")
    assert status in (1, 2)
    assert err.count("\n") == 1
    assert "j" in err


@pytest.mark.cuda
def test_assertions_take_kernels_with_a_launch() -> None:
    kernel = warpsim.Kernel("__global__ void f(float* x) { x[2 * threadIdx.x] = 1.0f; }", "f")
    with pytest.raises(AssertionError, match="global store takes 8 sectors a request, 4 would do"):
        assert_coalesced(kernel, 1, 64, [warpsim.Buffer("float", 128)])
