"""Options that several commands share, and writing what they print."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from warpsim.errors import InputError

__all__ = [
    "exact_option",
    "format_option",
    "gpu_option",
    "output_option",
    "print_parts",
    "set_option",
    "settings",
    "write",
]

GPU_HELP = "GPU profile: a name or alias (h200, H200, sm_90) or a TOML file."
SET_HELP = "Override a scenario parameter; repeatable."


def gpu_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--gpu``."""
    return click.option("--gpu", metavar="G", help=GPU_HELP)(function)


def set_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--set K=V``."""
    return click.option("--set", "assignments", metavar="K=V", multiple=True, help=SET_HELP)(function)


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o FILE``."""
    return click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output.")(function)


def format_option(*choices: str) -> Callable[..., Any]:
    """Add ``--format``."""
    return click.option("--format", "form", type=click.Choice(choices), default="text", show_default=True)


def exact_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--sample`` and ``--exact``."""
    function = click.option("--exact", "exact", flag_value=True, type=bool, help="Time every CTA.")(function)
    return click.option(
        "--sample", "exact", flag_value=False, type=bool, default=None,
        help="Stop at a steady state and extrapolate. Default: exact where it takes a few seconds.",
    )(function)  # fmt: skip


def settings(assignments: Sequence[str]) -> dict[str, int | float]:
    """The numbers that ``--set`` gave."""
    found: dict[str, int | float] = {}
    for text in assignments:
        from warpsim.expressions import evaluate

        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise InputError(f"--set {text!r}: write NAME=VALUE")
        found[name] = evaluate(value)
    return found


def print_parts(parts: Sequence[Any], output: str | None) -> None:
    """Strings and rich tables, one below the other."""
    from warpsim.text import make_console, show

    if output is None and sys.stdout.isatty():
        console = make_console()
        for part in parts:
            show(part, console)
        return
    buffer = io.StringIO()
    console = make_console(buffer)
    console.width = 160
    for part in parts:
        show(part, console)
    write("".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines()), output)


def write(text: str, output: str | None) -> None:
    """Print `text`, or write it to a file atomically."""
    if output is None or output == "-":
        click.echo(text, nl=False)
        return
    from warpsim.result import write_atomically

    write_atomically(output, text)
