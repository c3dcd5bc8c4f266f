"""Drawings of one warp instruction: each cell where the address says, each word of explanation true."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsim.drawing import draw, figures, pattern, picture, svg
from warpsim.errors import InputError
from warpsim.picture import sentences


def grid(text: str) -> list[str]:
    """The 32 cells of each row."""
    rows = re.findall(r"^ *(?:lane \d+|0x[0-9a-f]+)  ((?:\S{8} ){3}\S{8})  ", text, re.MULTILINE)
    return [row.replace(" ", "") for row in rows]


def test_a_column_of_32_floats_is_one_bank_in_32_wavefronts() -> None:
    text = draw(pattern("32*lane", space="shared"))
    assert grid(text) == [symbol + "·" * 31 for symbol in "0123456789abcdefghijklmnopqrstuv"]
    assert "data wavefronts     32      1  32 x" in text
    assert "Lanes 0-31 hit different words of bank 0: 32-way." in text


def test_padding_to_33_columns_makes_a_diagonal_in_one_wavefront() -> None:
    text = draw(pattern("33*lane", space="shared"))
    assert grid(text) == ["·" * lane + "0" + "·" * (31 - lane) for lane in range(32)]
    assert "No bank conflict" in text


def test_a_contiguous_load_fills_one_line_with_its_lanes() -> None:
    text = draw(pattern("lane"))
    assert grid(text) == ["0123456789abcdefghijklmnopqrstuv"]
    assert "32 lanes need 128 bytes in 4 sectors of 1 line: 100% of the 128 bytes are used." in text


def test_words_that_move_for_nothing_are_marked() -> None:
    assert grid(draw(pattern("4*lane", active="0-3"))) == ["0---1---2---3---" + "·" * 16]
    assert "25% of the 64 bytes are used" in draw(pattern("4*lane", active="0-3"))


def test_a_base_off_by_one_float_costs_a_sector_and_says_why() -> None:
    said = " ".join(sentences(pattern("lane + 1", op="store")))
    assert "in 5 sectors of 2 lines" in said
    assert "The first byte lies 4 bytes into a sector: aligned, one sector fewer would do." in said
    assert "2 of 5 sectors are written in part" in said


def test_merged_and_broadcast_loads_are_named() -> None:
    said = " ".join(sentences(pattern("lane/2", space="shared", width=16)))
    assert "Lane pairs with equal addresses let this load merge neighbouring lane groups." in said
    assert "Up to 2 lanes read one word: a broadcast, free." in said
    assert "merge" not in " ".join(sentences(pattern("lane/2", space="shared", width=16, op="store")))


def test_atomics_on_one_word_are_named() -> None:
    assert "Lanes 0-31 take turns on one word, at 0x0: 32-way." in sentences(pattern("0", op="red"))
    assert "Lanes 0-31 take turns on one word of bank 3: 32-way." in sentences(
        pattern("3", op="atomic", space="shared")
    )


def test_an_atomic_has_a_row_a_turn() -> None:
    text = draw(pattern("lane%4 + 32*(lane/16)", op="atomic", active="0-7,16-19"))
    assert grid(text) == [f"{cells}----" + "·" * 24 for cells in ("0123", "ghij", "4567")]
    assert re.findall(r"bank (\d), wavefront (\d), lanes (\S+)", text) == [
        ("0", "0", "0-3"), ("1", "0", "16-19"), ("0", "1", "4-7"),
    ]  # fmt: skip


def test_lines_of_one_tag_wavefront_that_share_a_data_bank_are_named() -> None:
    said = sentences(pattern("32*lane"))
    assert "8 of the 32 lines fall into tag bank 0, which takes one a wavefront: 8 tag wavefronts." in said
    assert "Lanes 0-3 hit data bank 0 in different lines of tag wavefront 0: 4-way." in said


def test_what_is_not_settled_is_said() -> None:
    assert "lower bound" in sentences(pattern("1000*lane + lane", op="store"))[-1]
    assert (
        sentences(pattern("lane", gpu="b200"))[-1] == "Not checked on the NVIDIA B200: the rules are those of the H200."
    )
    assert "the hardware faults" in sentences(pattern("1,5", width=4))[-1]
    assert sentences(pattern("lane", active="lane < 0")) == ["No lane is active: the instruction makes no request."]


@given(
    st.lists(st.integers(0, 4000), min_size=32, max_size=32), st.sampled_from([4, 8, 16]),
    st.sampled_from(["load", "store", "atomic"]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_drawings_agree_with_the_counts(index: list[int], width: int, op: str, mask: int) -> None:
    active = [bool(mask >> lane & 1) for lane in range(32)]
    addresses = [width * i for i in index]
    shared = picture(addresses, width=width, op=op, space="shared", active=active)
    cells = "".join(grid(draw(shared)))
    assert sum(cell != "·" for cell in cells) == mask.bit_count() * width // 4
    seen = {cell for cell in cells if cell != "·"}
    if "*" not in seen:
        assert len(seen) == shared.counts.data_wavefronts
    scattered = picture(addresses, width=width, op=op, active=active)
    rows = grid(draw(scattered))
    assert len(rows) == (scattered.counts.l2_requests if op == "atomic" else scattered.counts.tags)
    assert sum(row[8 * s : 8 * s + 8] != "·" * 8 for row in rows for s in range(4)) == scattered.counts.sectors
    if mask:
        assert max(line.wavefront for line in scattered.lines) + 1 == scattered.counts.tag_wavefronts


def test_colours_add_nothing_that_symbols_do_not_say() -> None:
    shown = pattern("5*lane", space="shared", width=8)
    coloured = draw(shown, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == draw(shown)


@pytest.mark.parametrize(
    ("expression", "space"), [("32*lane", "shared"), ("17*lane", "global"), ("lane < 3 ? 1 : 2", "global")]
)
def test_svg_is_well_formed_and_stands_alone_in_light_and_dark(expression: str, space: str) -> None:
    shown = pattern(expression, space=space)
    document = svg(shown)
    root = ElementTree.fromstring(document)
    name = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.iter(f"{name}text"):
        assert 0 <= float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height
    cells = [text.text for text in root.iter(f"{name}text") if text.attrib["class"] == "cell"]
    assert cells == [cell for cell in "".join(grid(draw(shown))) if cell not in "·-"]
    assert "prefers-color-scheme: dark" in document
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|url\(", document)
    assert root.find(f"{name}desc") is not None


def test_figures_are_the_picture_as_data() -> None:
    data = figures(pattern("2*lane", active="0xffff"))
    assert data["counts"] == {"sectors": 4, "tags": 1, "tag_wavefronts": 1, "data_wavefronts": 1, "l2_requests": 1}
    assert data["ideal"]["sectors"] == 2
    assert data["exact"] is True
    assert data["lines"] == [
        {"address": 0, "sectors": [0, 1, 2, 3], "lanes": list(range(16)), "tag_bank": 0, "tag_wavefront": 0}
    ]
    assert data["notes"] == ["16 lanes need 64 bytes in 4 sectors of 1 line: 50% of the 128 bytes are used."]


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(InputError, match="lane 1: address -4 is negative"):
        pattern("-lane")
    with pytest.raises(InputError, match="unknown name 'tid'"):
        pattern("tid")


def test_a_drawing_needs_no_compiler() -> None:
    code = (
        "import sys; from warpsim import drawing; p = drawing.pattern('32*lane', space='shared'); drawing.draw(p);"
        "drawing.svg(p); print(sorted(m for m in sys.modules if m.split('.')[0] in {'numba', 'llvmlite', 'cuda'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
