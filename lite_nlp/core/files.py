"""Output files and directories that appear complete or not at all.

What they may replace is in :mod:`lite_nlp.core.outputs`, whose checks a command calls before its work begins.
"""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import OutputError
from lite_nlp.core.outputs import (
    check_replaced_directory,
    check_replaced_file,
    existing_by_now,
    place_of,
    reason_of,
    refusals,
)
from lite_nlp.core.signals import undisturbed

__all__ = [
    "atomic_directory",
    "atomic_file",
    "make_directories",
    "remove_empty",
    "sha256_bytes",
    "sha256_file",
    "write_bytes",
    "write_text",
]

#: Bytes of an output's name in that of its partial file: the whole stays below the 143 bytes of the strictest systems.
_NAME_BYTES: Final = 64

#: Attempts to replace a directory that other processes replace too.
_ATTEMPTS: Final = 8

#: Errors of a system without hard links, such as FAT.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

#: Errors of a write that the system gives no file's name with.
_DISK_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

#: Errors of a directory that is renamed to where something else is.
_OCCUPIED: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


@contextmanager
def atomic_file(path: Path, *, force: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; move it to ``path`` if the block succeeds, remove it if it fails.

    Args:
        path: The file; missing directories above it are made.
        force: Whether a file of this name may be replaced. If not, of two processes that write one the second fails.

    Raises:
        OutputError: If there is something that may not be replaced, or the system refuses the write (full disk,
            missing permission).
    """
    with _appearing(path, lambda partial, place: _put_file(path, partial, place, force=force)) as partial:
        yield partial


@contextmanager
def atomic_directory(path: Path, *, force: bool = False, owned: Collection[str] | None) -> Iterator[Path]:
    """Yield a temporary directory beside ``path`` that becomes ``path`` if the block succeeds.

    Args:
        path: The directory; missing ones above it are made.
        force: Whether a directory of this name may be replaced.
        owned: Patterns of the files that may be lost then; see ``check_output_directory``.

    Raises:
        OutputError: If there is something that may not be replaced, or the system refuses the write.
    """
    with refusals(path):
        check_replaced_directory(path, force=force, owned=owned)

    def put(partial: Path, place: Path) -> None:
        if force:
            _replace_directory(path, partial, place, owned)
        else:
            _put_directory(path, partial, place)

    with _appearing(path, put) as partial:
        partial.mkdir()
        yield partial


def write_bytes(path: Path, content: bytes, *, force: bool = True) -> None:
    """Write ``content`` to ``path`` atomically; see :func:`atomic_file`."""
    with atomic_file(path, force=force) as partial:
        partial.write_bytes(content)


def write_text(path: Path, content: str, *, force: bool = True) -> None:
    """Write ``content`` as UTF-8 to ``path`` atomically; see :func:`atomic_file`."""
    write_bytes(path, content.encode("utf-8"), force=force)


def sha256_bytes(content: bytes) -> str:
    """Hexadecimal SHA-256 of ``content``."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of the file at ``path``, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_directories(folder: Path, made: list[Path]) -> None:
    """Make a directory and those above it; ``made`` receives the ones that were missing, the uppermost first.

    Raises:
        OSError: If the system refuses.
    """
    if folder.is_dir():
        return
    make_directories(folder.parent, made)
    try:
        folder.mkdir()
    except FileExistsError:
        # Another process made it in the meantime, or it is no directory.
        if not folder.is_dir():
            raise
    else:
        made.append(folder)


def remove_empty(made: Sequence[Path]) -> None:
    """Remove the directories of :func:`make_directories` again, unless something is in them."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


def _partial_name(place: Path) -> Path:
    # The name itself may be as long as the system allows, in bytes.
    start = os.fsencode(place.name)[:_NAME_BYTES].decode("ascii", "ignore")
    return place.with_name(f".{start}.{os.getpid()}-{secrets.token_hex(4)}.partial")


@contextmanager
def _appearing(path: Path, put: Callable[[Path, Path], None]) -> Iterator[Path]:
    """Yield the path of a partial output; ``put`` moves it to its place if the block succeeds."""
    place = place_of(path)
    partial, made, inside = _partial_name(place), list[Path](), False
    try:
        make_directories(place.parent, made)
        inside = True
        yield partial
        inside = False
        with undisturbed():
            put(partial, place)
    except BaseException as error:
        with undisturbed():
            rest = _clean(partial, made)
        if isinstance(error, OSError) and not (inside and _is_about_another_file(error, partial)):
            left = f"its partial file {partial} could not be removed" if rest else "nothing was left behind"
            raise OutputError(f"{path}: could not be written, {left}: {reason_of(error)}") from error
        raise


def _is_about_another_file(error: OSError, partial: Path) -> bool:
    """Whether an error in the block is of no part of the output: of a file that it reads, or of a network."""
    if error.filename is None:
        return error.errno not in _DISK_ERRORS
    return not str(error.filename).startswith(os.fspath(partial))


def _clean(partial: Path, made: list[Path]) -> bool:
    """Remove a partial output and the directories made for it; return whether something is left of the output."""
    with suppress(OSError):
        partial.unlink()
    shutil.rmtree(partial, ignore_errors=True)
    remove_empty(made)
    return os.path.lexists(partial)


def _put_file(path: Path, partial: Path, place: Path, *, force: bool) -> None:
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    check_replaced_file(path, force=True)
    if force:
        partial.replace(place)
        return
    try:
        # Unlike a rename, a link never replaces anything.
        place.hardlink_to(partial)
    except FileExistsError as error:
        raise existing_by_now(path) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _claim_and_replace(path, partial, place)
    else:
        partial.unlink()


def _claim_and_replace(path: Path, partial: Path, place: Path) -> None:
    """Put a file in its place where there are no hard links: the name is taken by an empty file first."""
    try:
        place.open("xb").close()
    except FileExistsError as error:
        raise existing_by_now(path) from error
    try:
        partial.replace(place)
    except OSError:
        place.unlink()
        raise


def _put_directory(path: Path, partial: Path, place: Path) -> None:
    try:
        # Onto nothing or an empty directory; the system refuses anything else.
        partial.rename(place)
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise existing_by_now(path) from error
        raise


def _replace_directory(path: Path, partial: Path, place: Path, owned: Collection[str] | None) -> None:
    """Move what is there away and the new directory in, so that one complete copy is on the disk at every moment."""
    old: list[Path] = []
    try:
        for _ in range(_ATTEMPTS):
            with suppress(OutputError):
                _put_directory(path, partial, place)
                break
            away = _partial_name(place)
            # Another process may have moved it away itself.
            with suppress(FileNotFoundError):
                check_replaced_directory(path, force=True, owned=owned)
                place.rename(away)
                old.append(away)
        else:
            raise existing_by_now(path)
    except BaseException:
        if old and not os.path.lexists(place):
            old.pop().rename(place)
        raise
    finally:
        for directory in old:
            shutil.rmtree(directory, ignore_errors=True)
    rest = [directory for directory in old if directory.exists()]
    if rest:
        raise OutputError(f"{path}: was written, but what it replaced could not be removed: the rest is {rest[0]}")
