"""Files of compiled code in the user's cache directory: written whole, checked when read, never required."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["digest", "directory", "read", "scratch", "write"]

_OWN = "numba-"  # how the folders of the package's own compiled code begin

_scratch: list[Path] = []


def digest(*parts: str | bytes) -> str:
    """SHA-256 of the parts, each with its length so that no two lists of parts agree by accident."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def directory() -> Path:
    """WARPSIM_CACHE_DIR, else warpsim below XDG_CACHE_HOME, else ~/.cache/warpsim."""
    if own := os.environ.get("WARPSIM_CACHE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(os.path.expanduser("~/.cache"))) / "warpsim"


@contextmanager
def scratch() -> Iterator[None]:
    """What kernels are compiled to goes where it is thrown away; the package's own code stays where it is."""
    with tempfile.TemporaryDirectory(prefix="warpsim-", ignore_cleanup_errors=True) as folder:
        _scratch.append(Path(folder))
        try:
            yield
        finally:
            _scratch.pop()


def _path(name: str) -> Path:
    return (_scratch[-1] if _scratch and not name.startswith(_OWN) else directory()) / name


def read(name: str) -> bytes | None:
    """What was written under this name, or None where nothing usable is there."""
    try:
        data = _path(name).read_bytes()
    except OSError:
        return None
    content = data[65:]
    return content if data[:64].decode("ascii", "replace") == hashlib.sha256(content).hexdigest() else None


def write(name: str, content: bytes) -> None:
    """Store under this name; a directory that cannot be written costs only the next run's time."""
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
    except OSError:
        return
