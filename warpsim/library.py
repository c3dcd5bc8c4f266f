"""The kernels and scenarios that ship, found by name from anywhere.

They lie beside the package in a checkout or an sdist, and in `_shipped` inside it when installed from a wheel.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from warpsim.errors import InputError

__all__ = ["find_kernel", "find_scenario", "folder", "list_kernels", "list_scenarios"]

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: str) -> Path:
    """Where *kind* (`kernels` or `scenarios`) ships."""
    shipped = _PACKAGE / "_shipped" / kind
    return shipped if shipped.is_dir() else _PACKAGE.parent / kind


def list_scenarios(*, faults: bool = False) -> tuple[str, ...]:
    """Names of the shipped scenarios, sorted; with *faults* those too that a run must stop at, as `faults/endless`."""
    root = folder("scenarios")
    hidden = ("recorded/",) if faults else ("recorded/", "faults/")
    found = (p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*.toml"))
    return tuple(sorted(name for name in found if not name.startswith(hidden)))


def list_kernels() -> tuple[str, ...]:
    """File names of the shipped kernel sources, sorted."""
    return tuple(sorted(p.name for p in folder("kernels").glob("*.cu")))


def find_scenario(name: str | Path) -> Path:
    """The file of scenario *name*: a path, or the name of a shipped one with or without `.toml`."""
    given = Path(name)
    if given.is_file() and (given.suffix or given.name != str(name)):
        return given
    plain = str(name).removesuffix(".toml")
    fitting = [n for n in list_scenarios(faults=True) if plain in (n, n.rpartition("/")[2])]
    if fitting:
        return folder("scenarios") / f"{fitting[0] if plain not in fitting else plain}.toml"
    if given.is_file():
        return given
    if given.is_dir():
        raise InputError(f"'{name}' is a directory, not a scenario file")
    raise _unknown("scenario", str(name), list_scenarios(), "for a file and among the shipped ones, see 'warpsim list'")


def find_kernel(name: str | Path, beside: Path | None = None) -> Path:
    """The source file *name*: beside the scenario file *beside* first, then among the shipped kernels."""
    given = Path(name).expanduser()
    for place in ([beside.parent] if beside is not None else [Path()]) + [folder("kernels")]:
        if (place / given).is_file():
            return place / given
    here = beside.parent if beside is not None else Path()
    known = [*list_kernels(), *(p.name for p in here.glob("*.cu"))]
    raise _unknown("kernel file", str(name), known, f"in '{here}' and among the shipped kernels, see 'warpsim list'")


def _unknown(what: str, name: str, known: Iterable[str], where: str) -> InputError:
    from warpsim.expressions import near  # loads NumPy

    return InputError(f"no {what} '{name}'{near(name, known)}: looked {where}")
