"""Locks between processes, which the system drops when a process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import make_directories, remove_empty
from lite_nlp.core.outputs import refusals

__all__ = ["Lock", "held_directory", "locked"]


class Lock(Enum):
    """What came of asking for a lock."""

    #: It is held.
    HELD = auto()
    #: Another process holds it, or has put another file in the place of the one that was locked.
    TAKEN = auto()
    #: The file system has no locks, as some network file systems.
    UNSUPPORTED = auto()


@contextmanager
def locked(path: Path, *, wait: bool, create: bool = False) -> Iterator[Lock]:
    """Hold the lock of a file or directory; nothing is written to it.

    Args:
        path: The file or directory.
        wait: Whether to wait for a process that holds it.
        create: Whether to make an empty file if there is none, in one step with opening it: a file made before could be
            removed by another process meanwhile.

    Raises:
        OSError: If ``path`` cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | (os.O_CREAT if create else 0), 0o666)
    try:
        yield _take(descriptor, path, wait=wait)
    finally:
        os.close(descriptor)


@contextmanager
def held_directory(path: Path, *, taken: str) -> Iterator[None]:
    """Hold a directory, made if it is missing, against other processes; one that stays empty is removed again.

    Args:
        path: The directory.
        taken: What is said of it where another process holds it.

    Raises:
        OutputError: If another process holds it, or the system refuses it.
    """
    made: list[Path] = []
    try:
        with refusals(path):
            make_directories(path, made)
        with locked(path, wait=False) as lock:
            if lock is Lock.TAKEN:
                raise OutputError(f"{path}: {taken}")
            yield
    finally:
        remove_empty(made)


def _take(descriptor: int, path: Path, *, wait: bool) -> Lock:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.TAKEN
    except OSError:
        return Lock.UNSUPPORTED
    try:
        same = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        same = False
    return Lock.HELD if same else Lock.TAKEN
