"""Errors that users meet, each with the exit status the command line gives it.

    WarpsimError
    ├── InputError         2  a scenario, argument or profile is wrong
    ├── KernelError        1  the kernel is at fault, or a check that was asked for failed
    └── UnsupportedError   3  an instruction, GPU or extra that is not there

The message is the whole story in one line: what was given, what is allowed, where.
"""

__all__ = ["InputError", "KernelError", "UnsupportedError", "WarpsimError"]


class WarpsimError(Exception):
    """Base of every error that warpsim raises on purpose."""

    exit_status = 1


class InputError(WarpsimError):
    """What the user gave is wrong; the message names file, key and what is allowed."""

    exit_status = 2


class KernelError(WarpsimError):
    """The kernel does what the GPU would fault on or leave undefined, or a check failed."""

    exit_status = 1


class UnsupportedError(WarpsimError):
    """The instruction, the GPU or the optional dependency is not available."""

    exit_status = 3
