"""A folder of failures and of finished work, which a campaign that is killed, or several at once, can share.

    corpus/failures/LAW-HASH/scenario.toml, failure.json     a failure: made whole elsewhere, then renamed into place
    corpus/journal/NAME.jsonl                                finished chunks, a line each; every process its own file
    corpus/examples/LAW/                                     Hypothesis's database, from which shrinking goes on

Names come from contents, so two campaigns that find the same failure write the same name, and no lock is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsim.cache import digest
from warpsim.errors import InputError

__all__ = ["Corpus", "Entry", "Journal"]


@dataclass(frozen=True)
class Entry:
    """One failure: its folder's name and failure.json."""

    name: str
    document: dict[str, Any]

    @property
    def law(self) -> str:
        """The law that did not hold."""
        return str(self.document["law"])


class Corpus:
    """The folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"corpus '{folder}': not a folder")

    @property
    def failures(self) -> Path:
        """Where the failures are."""
        return self.folder / "failures"

    def database(self, law: str) -> Path:
        """Hypothesis's database of a law."""
        return self.folder / "examples" / law.replace(":", "-")

    def add(self, law: str, scenario: str, document: Mapping[str, Any]) -> str:
        """Keep a failure and return its name; what is there already under that name stays.

        The name is of the law and the `case` alone, not of when and where it was found.
        """
        identity = json.dumps([law, document["case"]], sort_keys=True)
        name = f"{law.replace(':', '-')}-{digest(identity)[:12]}"
        target = self.failures / name
        if target.exists():
            return name
        self.failures.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self.failures, prefix=".part-"))
        try:
            for file, text in (
                ("scenario.toml", scenario),
                ("failure.json", json.dumps({"law": law, **document}, indent=1) + "\n"),
            ):
                with (scratch / file).open("w", encoding="utf-8") as out:
                    out.write(text)
                    out.flush()
                    os.fsync(out.fileno())
            scratch.chmod(0o755)
            scratch.rename(target)
        except OSError:
            if not target.exists():  # else another campaign was faster with the same failure
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return name

    def entries(self) -> list[Entry]:
        """All failures, by name."""
        found = []
        for file in sorted(self.failures.glob("[!.]*/failure.json")):
            try:
                found.append(Entry(file.parent.name, json.loads(file.read_text(encoding="utf-8"))))
            except (OSError, ValueError) as error:
                raise InputError(f"{file}: not a failure that a campaign wrote ({error})") from None
        return found

    def finished(self, campaign: str) -> dict[str, dict[str, Any]]:
        """Chunk -> what its journal line says, over all journals of this campaign."""
        found: dict[str, dict[str, Any]] = {}
        for file in sorted((self.folder / "journal").glob("*.jsonl")):
            for line in _whole_lines(file):
                if line.get("campaign") == campaign:
                    found.setdefault(line["chunk"], line)
        return found


def _whole_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; one that a killed process did not finish is no line."""
    with contextlib.suppress(FileNotFoundError):
        for text in file.read_bytes().split(b"\n")[:-1]:
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and "chunk" in line:
                    yield line


class Journal:
    """This process's own file of finished chunks: only ever appended to, a line at a time, and synced."""

    def __init__(self, corpus: Corpus, campaign: str) -> None:
        self.campaign = campaign
        folder = corpus.folder / "journal"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f"{socket.gethostname()}-{os.getpid()}-", suffix=".jsonl")
        self.path = Path(name)
        self._file = os.fdopen(handle, "ab", buffering=0)

    def write(self, line: Mapping[str, Any]) -> None:
        """Record a finished chunk."""
        self._file.write(json.dumps({"campaign": self.campaign, **line}, separators=(",", ":")).encode() + b"\n")
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it; an empty one goes."""
        self._file.close()
        if not self.path.stat().st_size:
            self.path.unlink()
