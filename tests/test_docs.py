"""Documentation runs: every command, every figure quoted, every picture.

`python -m tests.test_docs` draws the pictures in docs/pictures again.
"""

import os
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsim.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([DOCS / "tutorial.md", *(DOCS / "concepts").glob("*.md")])
PICTURES = DOCS / "pictures"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of the fenced blocks."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Arguments of each `warpsim` command, and the lines quoted from its output."""
    found: list[tuple[list[str], list[str]]] = []
    for language, text in blocks(page):
        if language == "sh":
            for line in text.strip().splitlines():
                program, *arguments = shlex.split(line)
                assert program == "warpsim"
                found.append((arguments, []))
        elif language == "text":
            found[-1][1].extend(text.strip().splitlines())
    yield from found


def plain(text: str) -> str:
    return " ".join(text.split())


CASES = {f"{page.stem}: {shlex.join(c)}": (c, quoted) for page in PAGES for c, quoted in commands(page)}


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES)
def test_a_command_runs_and_prints_what_is_quoted(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, quoted = CASES[case]
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0, capsys.readouterr().err
    printed = plain(capsys.readouterr().out)
    for line in quoted:
        assert plain(line) in printed
    for drawn in tmp_path.glob("*.svg"):
        kept = PICTURES / drawn.name
        new, old = ET.parse(drawn).getroot(), ET.parse(kept).getroot()
        if arguments[0] == "access":
            assert drawn.read_text() == kept.read_text(), f"python -m tests.test_docs draws {drawn.name} again"
        assert new.attrib["viewBox"].split()[:3] == old.attrib["viewBox"].split()[:3]
        assert texts(new) & texts(old)


def texts(root: ET.Element) -> set[str]:
    return {"".join(mark.itertext()) for mark in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.cuda
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_in_the_pages_runs(page: Path) -> None:
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), {})


@pytest.mark.parametrize("page", [*PAGES, *DOCS.glob("*.md")], ids=lambda page: page.stem)
def test_links_lead_somewhere_and_pictures_have_words(page: Path) -> None:
    for words, target in re.findall(r"\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target.partition("#")[0]).exists(), target
        assert words


def test_every_picture_is_shown_and_drawn_by_a_command() -> None:
    drawn = {a for arguments, _ in CASES.values() for a in arguments if a.endswith(".svg")}
    shown = {page: re.findall(r"\(([^)]+\.svg)\)", page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")}
    assert drawn == {Path(name).name for page in PAGES for name in shown[page]}
    assert {path.name for path in PICTURES.iterdir()} == {Path(name).name for names in shown.values() for name in names}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    os.chdir(PICTURES)
    for command in {shlex.join(c): c for c, _ in CASES.values() if any(a.endswith(".svg") for a in c)}.values():
        print(shlex.join(command))
        main(command) and sys.exit(1)
