"""The parser reads what ncu prints, and a machine without counters gives one clear line."""
# ruff: noqa: E501

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from warpsim import counters
from warpsim.errors import InputError, UnsupportedError

WIDE = """==PROF== Connected to process 4242 (/usr/bin/python3.12)
the program's own line, with, commas "and quotes"
==PROF== Profiling "copy_f1" - 0: 0%....50%....100% - 6 passes
==WARNING== Could not read some counters
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__sectors_read.sum","gpu__time_duration.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sm__warps_active.avg.pct_of_peak_sustained_active","smsp__x.sum"
"","","","","","","","","","","","sector","us","sector","%",""
"0","4242","python3.12","127.0.0.1","copy_f1(const float *, float *, int)","1","7","(256, 1, 1)","(65536, 1, 1)","0","9.0","2,097,400","49.89","2,097,152","71.20","n/a"
progress: 1 of 2
"1","4242","python3.12","127.0.0.1","void tile<(int)33>(const float *)","1","7","(32, 8, 1)","(4, 5, 6)","0","9.0","12","1,234.50","0","0.50","7"
==PROF== Disconnected from process 4242
"""

LONG = """==PROF== Connected
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","a.out","127.0.0.1","k(float *)","1","7","(128, 1, 1)","(10, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","Kbyte","1,024.5"
"0","1","a.out","127.0.0.1","k(float *)","1","7","(128, 1, 1)","(10, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","nsecond","10,240,000"
"1","1","a.out","127.0.0.1","k(float *)","1","7","(128, 1, 1)","(10, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","msecond","2"
"""


def test_wide_page_is_read_through_noise() -> None:
    first, second = counters.parse(WIDE)
    assert first.kernel == "copy_f1(const float *, float *, int)"
    assert (first.grid, first.block) == ((65536, 1, 1), (256, 1, 1))
    assert first.metrics == {
        "dram__sectors_read.sum": 2097400,
        "gpu__time_duration.sum": 49890,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 2097152,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 71.2,
    }
    assert first.unavailable == ("smsp__x.sum",)
    assert second.grid == (4, 5, 6)
    assert second.metrics["gpu__time_duration.sum"] == 1234500
    assert second.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0


def test_long_page_is_grouped_by_launch() -> None:
    first, second = counters.parse(LONG)
    assert first.metrics == {"dram__bytes_read.sum": 1024500, "gpu__time_duration.sum": 10240000}
    assert second.metrics == {"gpu__time_duration.sum": 2000000}


def test_swapped_separators_are_recognised_from_the_whole_file() -> None:
    german = WIDE.replace("2,097,400", "2.097.400").replace("2,097,152", "2.097.152").replace("49.89", "49,89")
    german = german.replace("1,234.50", "1.234,50").replace("71.20", "71,20").replace('"0.50"', '"0,50"')
    assert [x.metrics for x in counters.parse(german)] == [x.metrics for x in counters.parse(WIDE)]


def test_a_sum_of_events_has_no_fraction() -> None:
    text = LONG.replace("gpu__time_duration.sum", "lts__t_sectors.sum").replace("10,240,000", "117.344")
    text = text.replace("1,024.5", "3").replace("msecond", "").replace("nsecond", "sector")
    assert counters.parse(text)[0].metrics["lts__t_sectors.sum"] == 117344


def test_text_without_kernels_gives_no_launch() -> None:
    assert counters.parse("==ERROR== nothing\n") == []


def test_report_file_that_is_none_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("hello\n")
    with pytest.raises(InputError, match=r"a\.csv: no kernel in it; expected what `ncu --csv --page raw` prints"):
        counters.read_report(tmp_path / "a.csv")
    with pytest.raises(InputError, match="no such report"):
        counters.read_report(tmp_path / "b.csv")


def test_binary_report_without_reader_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.ncu-rep").write_bytes(b"NVR")
    monkeypatch.setitem(__import__("sys").modules, "ncu_report", None)
    with pytest.raises(UnsupportedError, match="pip install ncu-report"):
        counters.read_report(tmp_path / "a.ncu-rep")


def fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    tool = folder / "ncu"
    tool.write_text("#!/bin/sh\n" + body)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_collect_asks_for_the_metrics_and_reads_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_text(WIDE)
    fake_ncu(
        tmp_path,
        monkeypatch,
        f'echo "$@" > {tmp_path}/asked\nwhile [ "$1" != --log-file ]; do shift; done\ncp {tmp_path}/log "$2"\n',
    )
    launches = counters.collect(["worker", "job"], ["a__b.sum", "c__d.max"], cache="none")
    assert len(launches) == 2
    asked = (tmp_path / "asked").read_text()
    assert "--cache-control none" in asked
    assert "--clock-control none" in asked
    assert "--metrics a__b.sum,c__d.max worker job" in asked


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'",
            "reserves them for the administrator",
        ),
        (
            "echo '==ERROR== Failed to initialize the profiler'",
            "no counters: ==ERROR== Failed to initialize the profiler",
        ),
        ("exit 3", "ncu ended with status 3"),
    ],
)
def test_what_ncu_cannot_do_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    fake_ncu(tmp_path, monkeypatch, body + "\n")
    with pytest.raises(counters.CountersUnavailableError, match=message) as caught:
        counters.collect(["worker"])
    assert "\n" not in str(caught.value)


def test_missing_ncu_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(counters.CountersUnavailableError, match="install NVIDIA Nsight Compute"):
        counters.find_ncu()
