"""Locks between processes, which the system drops when a process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked"]


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of an existing file or directory; nothing is written to it.

    Args:
        path: The file or directory.
        wait: Whether to wait for a process that holds it.

    Yields:
        Whether it is held; False if another process holds it and ``wait`` is false. On a file system without locks it
        counts as held.

    Raises:
        OSError: If ``path`` cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        except OSError:
            # Some network file systems have no locks of directories: whoever uses one goes without.
            held = True
        yield held
    finally:
        os.close(descriptor)
