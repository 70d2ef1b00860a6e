"""How the C library treats the memory of tensors while training on a CPU.

glibc returns blocks above 32 MiB to the system as soon as they are freed. Every step allocates the same large tensors,
so that the system clears the same pages again and again: a tenth of a step where attention is over hundreds of tokens.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

__all__ = ["kept_memory"]

#: Options of glibc's ``mallopt`` and their values at the start of a process.
_TRIM_THRESHOLD: Final = -1
_TRIM_DEFAULT: Final = 128 * 1024
_MMAP_MAX: Final = -4
_MMAP_DEFAULT: Final = 65_536


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Context in which freed memory stays with the process, which then reuses it; at its end it is given back.

    Nothing happens on other devices and with other C libraries.
    """
    library = _glibc() if device.type == "cpu" else None
    if library is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, _MMAP_DEFAULT)
        library.mallopt(_TRIM_THRESHOLD, _TRIM_DEFAULT)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The process's C library, if it is glibc."""
    try:
        library = ctypes.CDLL(None)
        return library if library.gnu_get_libc_version else None
    except (AttributeError, OSError, TypeError):
        return None
