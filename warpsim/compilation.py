"""numba decorators whose on-disk cache is safe: it belongs to this very version of the package's sources.

numba notices a change in the file of a function only, not in what the function calls. Here the cache lies in the user's
cache directory under a digest of the sources that compiled functions come from, so an upgrade or an edit never meets
stale code.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import config

from warpsim import cache

__all__ = ["cfunc", "njit"]

_KEEP_SECONDS = 14 * 86400
_SOURCES = {
    # compiled functions call each other within a group only
    "machine": ("machine/*.py", "frontend/trace.py"),
    "access": (
        "coalescing.py",
        "frontend/context.py",
        "frontend/*mem*.py",
        "frontend/atomics.py",
        "frontend/divergence.py",
        "frontend/simt.py",
        "frontend/blocks.py",
    ),
}


@functools.cache
def _folder(group: str) -> str:
    package = Path(__file__).parent
    sources = sorted(path for pattern in _SOURCES[group] for path in package.glob(pattern))
    state = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sources]
    folder = cache.directory() / f"numba-{cache.digest(*state)[:16]}"
    if not folder.exists():
        for old in cache.directory().glob("numba-*"):
            with contextlib.suppress(OSError):
                if time.time() - old.stat().st_mtime > _KEEP_SECONDS:
                    shutil.rmtree(old, ignore_errors=True)
    return str(folder)


@contextlib.contextmanager
def _cached(module: str) -> Iterator[None]:
    """numba reads its cache directory when a function is decorated; other packages' functions keep theirs."""
    before = config.CACHE_DIR
    config.CACHE_DIR = _folder("machine" if module.startswith("warpsim.machine") else "access")
    try:
        yield
    finally:
        config.CACHE_DIR = before


def njit(function: Callable[..., Any] | None = None, *, signature: Any = None, **options: Any) -> Any:
    """`numba.njit(cache=True)`, as a decorator with or without options; compiled at once where it has a signature."""
    if function is None:
        return lambda f: njit(f, signature=signature, **options)
    with _cached(function.__module__):
        return numba.njit(signature, **{"cache": True, **options})(function)


class _Function:
    """A C function that is compiled when its address is first asked for."""

    def __init__(self, signature: Any, function: Callable[..., Any]) -> None:
        self._signature, self._function = signature, function

    @functools.cached_property
    def _compiled(self) -> Any:
        with _cached(self._function.__module__):
            return numba.cfunc(self._signature, cache=True)(self._function)

    @property
    def address(self) -> int:
        """Where its code lies."""
        address: int = self._compiled.address
        return address


def cfunc(signature: Any) -> Callable[[Callable[..., Any]], _Function]:
    """`numba.cfunc(signature, cache=True)`, compiled when it is needed."""
    return functools.partial(_Function, signature)
