"""Output files and directories that appear complete or not at all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lite_nlp.core.errors import OutputError

__all__ = [
    "atomic_directory",
    "atomic_file",
    "check_output",
    "sha256_bytes",
    "sha256_file",
    "write_bytes",
    "write_text",
]


def check_output(path: Path, *, force: bool) -> None:
    """Refuse to overwrite an existing output.

    Args:
        path: The file or directory about to be written.
        force: Whether the user allowed overwriting.

    Raises:
        OutputError: If ``path`` exists (an empty directory does not count) and ``force`` is false.
    """
    if force or not path.exists():
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    raise OutputError(f"{path}: output exists already; expected a new path, or --force to overwrite it")


def _partial_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; move it over ``path`` if the block succeeds, remove it if it fails.

    Raises:
        OutputError: If the system refuses the write (full disk, missing permission).
    """
    partial = _partial_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written, nothing was left behind: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary directory beside ``path`` that becomes ``path`` if the block succeeds.

    Raises:
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
    """
    check_output(path, force=force)
    partial = _partial_name(path)
    try:
        partial.mkdir(parents=True)
        yield partial
        if path.exists():
            # Renaming the old directory away first keeps one complete copy on disk at every moment.
            old = _partial_name(path)
            path.rename(old)
            partial.rename(path)
            shutil.rmtree(old)
        else:
            partial.rename(path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written, nothing was left behind: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically."""
    with atomic_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write ``content`` as UTF-8 to ``path`` atomically."""
    write_bytes(path, content.encode("utf-8"))


def sha256_bytes(content: bytes) -> str:
    """Hexadecimal SHA-256 of ``content``."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of the file at ``path``, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
