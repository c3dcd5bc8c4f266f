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
from warpsim.report import page
from warpsim.result import Result

VOID = {"meta", "link", "br", "path", "rect", "circle"}


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


def full() -> Result:
    lines = [
        global_line(7, "ld", 100, 3200, 400, 'x = in["<b>" & 32 * i];'),
        global_line(8, "st", 100, 400, 400),
        shared_line(9, "ld", 3200, 100, "s[threadIdx.x][0]"),
    ]
    metrics = {
        "dram__sectors_read.sum": 6400,
        "lts__t_sectors_srcunit_tex_op_read.sum": 3200,
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
            "cycle": [0, 9000, 18000],
            "bytes_in_flight": [0, 1e6, 2e6],
            "dram_bytes_per_second": [0, 1e12, 2e12],
        },
    }
    return make(lines, metrics, extra, kernel="k<a & b>")


def test_the_page_is_well_formed_small_and_needs_no_network() -> None:
    text = page(full())
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "@import" not in text
    assert "<script" not in text


def test_what_the_user_wrote_is_escaped() -> None:
    text = page(full())
    assert "x = in[&quot;&lt;b&gt;&quot; &amp; 32 * i];" in text
    assert "k&lt;a &amp; b&gt;" in text
    assert "<b>&quot;" not in text


def test_every_picture_is_valid_svg_with_a_text_alternative() -> None:
    pictures = re.findall(r"<svg.*?</svg>", page(full()))
    assert len(pictures) == 4  # memory chart, two curves, roofline
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.attrib["role"] == "img"
        assert len(root.attrib["aria-label"]) > 30
        assert root[0].tag == "title"
    assert "DRAM read 204.8 kB" in pictures[0]
    assert "memory-bound" in pictures[3]


def test_every_section_has_its_figures() -> None:
    text = page(full())
    sections = re.findall(r"<h2>(.*?)</h2>", text)
    assert sections == [
        "Findings", "Memory chart", "Global memory", "Shared memory", "L2 and DRAM", "Source", "Bytes in flight",
        "Over time", "Roofline", "How far to trust this",
    ]  # fmt: skip
    for finding in full().findings:
        assert f"<b>{finding['rule']}</b>" in text
    assert text.count('class="mark"') == 2  # the uncoalesced load and the bank conflict
    assert "not counted: 5 MUFU" in text


def test_an_empty_result_and_one_without_profile_figures_make_a_page() -> None:
    bare = make(gpu={"dram_bandwidth": None, "dram_latency_ns": None, "flops": {}, "checked": False})
    text = page(bare)
    Balance().feed(text)
    assert "profile not checked against the GPU" in text
    Balance().feed(page(make()))
    Balance().feed(page(dataclasses.replace(make(), findings=[])))


@pytest.mark.slow
def test_a_browser_loads_it_without_a_complaint(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no Chromium here")
    file = tmp_path / "report.html"
    file.write_text(page(full()), encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--screenshot={tmp_path / 'shot.png'}", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    assert (tmp_path / "shot.png").stat().st_size > 10_000
