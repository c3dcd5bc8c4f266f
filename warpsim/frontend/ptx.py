"""PTX to a cubin with nvJitLink, for kernels that other compilers leave as PTX."""

from __future__ import annotations

from collections.abc import Sequence

from warpsim.errors import InputError, KernelError, UnsupportedError

__all__ = ["assemble"]


def assemble(ptx: str, arch: int, options: Sequence[str] = ()) -> bytes:
    """The cubin of a PTX text for sm_`arch`; needs the wheel nvidia-nvjitlink beside the cuda extra."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError) as error:
        message = "assembling PTX needs nvJitLink: pip install 'warpsim[cuda]' nvidia-nvjitlink"
        raise UnsupportedError(f"{message} ({type(error).__name__})") from None
    flags = [f"-arch=sm_{arch}", "-lineinfo", *options]
    data = ptx.encode()
    try:
        linker = nvjitlink.create(len(flags), flags)
    except nvjitlink.nvJitLinkError as error:
        raise InputError(f"PTX options {' '.join(flags)}: {error}") from None
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, data, len(data), "kernel.ptx")
        nvjitlink.complete(linker)
        binary = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, binary)
        return bytes(binary)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        if log:
            nvjitlink.get_error_log(linker, log)
        text = log.split(b"\0")[0].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if "error" in line or "fatal" in line]
        raise KernelError(f"kernel.ptx: {lines[0] if lines else text.strip() or error}") from None
    finally:
        nvjitlink.destroy(linker)
