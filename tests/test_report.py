"""The HTML report: self-contained, well-formed, escaped, complete; loads in a browser where there is one."""

import dataclasses
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.synthetic import global_line, make, shared_line
from warpsim.comparison import compare
from warpsim.report import html
from warpsim.report.source import worst_pictures
from warpsim.result import Result

VOID = {"meta", "link", "br"}


class Balance(HTMLParser):
    """Raises where a tag is closed that is not the open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def worst(op: str, space: str, addresses: list[int]) -> dict[str, object]:
    return {"op": op, "space": space, "index": 3, "width": 4, "worst": {"active": 0xFFFFFFFF, "addresses": addresses}}


def full() -> Result:
    column = [128 * lane for lane in range(32)]
    lines = [
        {
            **global_line(7, "ld", 100, 3200, 400, 'x = in["<b>" & 32 * i];'),
            "accesses": [worst("LDG", "global", column)],
        },
        {**global_line(8, "st", 100, 400, 400), "accesses": [worst("STG", "global", [4 * lane for lane in range(32)])]},
        {**shared_line(9, "ld", 3200, 100, "s[threadIdx.x][0]"), "accesses": [worst("LDS", "shared", column)]},
    ]
    metrics = {
        "dram__sectors_read.sum": 6400,
        "lts__t_sectors_srcunit_tex_op_read.sum": 3200,
        "lts__t_sectors.sum": 4800,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1000,
        "l1tex__data_pipe_lsu_wavefronts.sum": 4000,
    }
    extra = {
        "requested_bytes": {"ld": 12800, "st": 12800},
        "useful_bytes": {"read": 12800, "write": 12800},
        "busy": {"DRAM": 0.9, "L2 slices": 0.4, "data stage": 0.3, "issue": 0.1},
        "in_flight_bytes": 1e6,
        "other_ops": {"MUFU": 5},
        "timeline": {
            "cycle": [6000, 12000, 18000],
            "bytes_in_flight": [0, 1e6, 2e6],
            "dram_bytes_per_second": [0, 1e12, 2e12],
        },
    }
    return make(lines, metrics, extra, kernel="k<a & b>")


def test_the_page_is_well_formed_small_and_needs_no_network() -> None:
    text = html(full())
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "<script" not in text


def test_dark_mode_print_and_phones_are_provided_for() -> None:
    text = html(full())
    assert text.count("prefers-color-scheme") == 3  # page, charts, drawings
    assert "@media print" in text
    assert 'name="viewport" content="width=device-width' in text
    for table in re.findall(r"<table.*?</table>", text):
        assert f'<div class="scroll">{table}' in text


def test_what_the_user_wrote_is_escaped() -> None:
    text = html(full())
    assert "x = in[&quot;&lt;b&gt;&quot; &amp; 32 * i];" in text
    assert "k&lt;a &amp; b&gt;" in text
    assert "<b>&quot;" not in text


def test_every_picture_is_valid_svg_with_a_text_alternative() -> None:
    pictures = re.findall(r"<svg.*?</svg>", html(full()), re.DOTALL)
    assert len(pictures) == 5  # memory chart, two warp instructions, curves, roofline
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.attrib["role"] == "img"
        assert len(root.attrib["aria-label"]) > 30
        assert root[0].tag == "title"
    assert "DRAM read 204.8 kB" in pictures[0]
    assert "51.2 kB between its sides" in pictures[0]
    assert "memory-bound" in pictures[4]


def test_every_section_has_its_figures() -> None:
    text = html(full())
    sections = re.findall(r"<h2>(.*?)</h2>", text)
    assert sections == [
        "Findings", "Memory chart", "Source", "Global memory", "Shared memory", "L2 and DRAM", "Bytes in flight",
        "Roofline", "How far to trust this",
    ]  # fmt: skip
    for finding in full().findings:
        assert f"<b>{finding['rule']}</b>" in text
    assert text.count('class="mark"') == 2  # the uncoalesced load and the bank conflict
    assert "not counted: 5 MUFU" in text


def test_the_worst_warp_instruction_of_a_marked_line_is_drawn_and_that_of_an_ideal_one_is_not() -> None:
    text = html(full())
    assert text.count("<details open>") == 2
    assert "worst warp instruction: 32 sectors, ideal 4" in text
    assert "worst warp instruction: 32 wavefronts, ideal 1" in text
    assert set(worst_pictures(full())) == {("k.cu", 7, "load"), ("k.cu", 8, "store"), ("k.cu", 9, "shared load")}


def test_of_several_instructions_of_a_line_the_worst_is_drawn() -> None:
    mild, bad = [8 * lane for lane in range(32)], [32 * lane for lane in range(32)]
    line = {**global_line(7, "ld", 200, 4000, 800), "accesses": [worst("LDG", "global", a) for a in (mild, bad, mild)]}
    (shown,) = worst_pictures(make([line])).values()
    assert shown.addresses == tuple(bad)


def test_the_headline_names_the_finding_with_the_most_to_gain() -> None:
    result = full()
    gain = {"time_ns": 10_000, "time_after_ns": 4_000, "speedup": 2.5, "how": "simulated again, the access ideal"}
    findings = [{**f, "gain": gain if f["rule"] == "bank-conflicts" else None} for f in result.findings]
    text = html(dataclasses.replace(result, findings=findings))
    assert "Most to gain: bank-conflicts in k.cu:9, 2.50 times faster." in text
    assert "10 us → 4 us: 2.50 times faster (simulated again, the access ideal)" in text
    bound = {**gain, "how": "estimate by busy shares"}
    text = html(dataclasses.replace(result, findings=[{**findings[0], "gain": bound}]))
    assert "about 2.50 times faster" in text


def test_trust_says_what_is_counted_what_is_modelled_and_what_a_gpu_measured() -> None:
    result = full()
    assert "all 1,056 CTAs were executed" in html(result)
    assert "the profile of h200 is compared with its GPU" in html(result)
    measured = dataclasses.replace(
        result, source="measured", metrics={**result.metrics, "gpu__time_duration.sum": 8000}
    )
    text = html(result, compare(result, measured))
    assert "Against the recording from a h200" in text
    assert "+25.0%" in text


def test_an_empty_result_and_one_without_profile_figures_make_a_page() -> None:
    bare = make(gpu={"dram_bandwidth": None, "dram_latency_ns": None, "flops": {}, "checked": False})
    text = html(bare)
    Balance().feed(text)
    assert "profile not checked against the GPU" in text
    Balance().feed(html(make()))
    Balance().feed(html(dataclasses.replace(make(), findings=[])))
    Balance().feed(html(dataclasses.replace(full(), gpu="a GPU of my own")))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1100, 390])
def test_a_browser_loads_it_without_a_complaint(tmp_path: Path, width: int) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no Chromium here")
    file = tmp_path / "report.html"
    file.write_text(html(full()), encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}",
         f"--screenshot={tmp_path / 'shot.png'}", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    assert (tmp_path / "shot.png").stat().st_size > 10_000
