"""What an output may replace, and whether the system takes it: checked before the work for it begins.

The same rules hold again when the result takes its place, in :mod:`lite_nlp.core.files`.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import OutputError
from lite_nlp.core.signals import undisturbed

__all__ = [
    "check_deleted_directory",
    "check_output_directory",
    "check_output_file",
    "check_replaced_directory",
    "check_replaced_file",
    "check_shared_directory",
    "existing_by_now",
    "place_of",
    "reason_of",
    "refusals",
]

#: What a probe writes: a block, so that a full disk shows.
_PROBE_BYTES: Final = 4096

#: Foreign files that a message names.
_NAMED: Final = 3

_DIRECTORY: Final = "a directory"
_FILE: Final = "a file"
_KINDS: Final = (
    (stat.S_ISDIR, _DIRECTORY),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, _FILE),
)


def check_output_file(path: Path, *, force: bool) -> None:
    """Check, before the work for it begins, that a file can be written; nothing of the check stays on the disk.

    Args:
        path: The file about to be written.
        force: Whether the user allowed to overwrite a file.

    Raises:
        OutputError: If ``path`` is a file and ``force`` is false; if it is anything else, such as a directory, a
            symbolic link or a device; or if the system refuses a file there.
    """
    with refusals(path):
        check_replaced_file(path, force=force)
        _probe(path, place_of(path), directory=False)


def check_output_directory(path: Path, *, force: bool, owned: Collection[str] | None) -> None:
    """Check, before the work for it begins, that a directory can be written; nothing of the check stays on the disk.

    Args:
        path: The directory about to be written. An empty one counts as none.
        force: Whether the user allowed to replace a directory.
        owned: Patterns of the files that may be lost then, such as ``data.json`` and ``train/*.arrow``; None for all.

    Raises:
        OutputError: If ``path`` is a directory with content and ``force`` is false, or holds other files than
            ``owned``; if it is anything else, such as a file, a symbolic link or a device; or if the system refuses a
            directory there.
    """
    with refusals(path):
        check_replaced_directory(path, force=force, owned=owned)
        _probe(path, place_of(path), directory=True)


def check_shared_directory(path: Path) -> None:
    """Check that a directory, which may hold something already, can be made or written to, as that of a run.

    Raises:
        OutputError: If ``path`` is anything but a directory, or the system refuses a file in it.
    """
    with refusals(path):
        place = place_of(path)
        found = _kind(place)
        if found is None:
            _probe(path, place, directory=True)
        elif found == _DIRECTORY:
            _probe(path, place / "probe", directory=False)
        else:
            raise _no_directory(path, found)


def check_deleted_directory(path: Path, *, owned: Collection[str]) -> None:
    """Check, before a directory is deleted, that it holds nothing of anybody else's.

    Args:
        path: The directory; nothing need be there.
        owned: Patterns of what may be lost, such as ``step-*``; a directory that one covers goes with its content.

    Raises:
        OutputError: If it holds other files, or ``path`` is anything but a directory.
    """
    with refusals(path):
        found = _kind(path)
        if found == _DIRECTORY:
            _check_owned(path, path, owned)
        elif found is not None:
            raise _no_directory(path, found)


def place_of(path: Path) -> Path:
    """The path with a last part that is a name, which ``.`` and ``..`` are not."""
    return path.resolve() if path.name in ("", "..") else path


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn what the system refuses while nothing has been written into one of our errors."""
    try:
        yield
    except (OSError, ValueError) as error:
        # A ValueError is a path with a null character.
        raise OutputError(f"{path}: cannot be written: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """What the system says of an error, without the path, which the message has already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def check_replaced_file(path: Path, *, force: bool) -> None:
    """The part of :func:`check_output_file` that looks at what is there, which may have changed since."""
    found = _kind(place_of(path))
    if found not in (None, _FILE):
        raise OutputError(f"{path}: expected the path of a file to write, found {found}")
    if found is not None and not force:
        raise _existing(path)


def check_replaced_directory(path: Path, *, force: bool, owned: Collection[str] | None) -> None:
    """The part of :func:`check_output_directory` that looks at what is there, which may have changed since."""
    place = place_of(path)
    found = _kind(place)
    if found is None:
        return
    if found != _DIRECTORY:
        raise _no_directory(path, found)
    # Another process that replaces it too may move it away between two looks; then nothing is there to be lost.
    with suppress(FileNotFoundError):
        _check_content(path, place, force=force, owned=owned)


def existing_by_now(path: Path) -> OutputError:
    """The error of the second of two processes that write one output."""
    return OutputError(
        f"{path}: output exists already: another process wrote it in the meantime; nothing of this one was left behind"
    )


def _check_content(path: Path, place: Path, *, force: bool, owned: Collection[str] | None) -> None:
    if any(place.iterdir()):
        if not force:
            raise _existing(path)
        if owned is not None:
            _check_owned(path, place, owned)
    if os.path.ismount(place) or Path.cwd().is_relative_to(place.resolve()):
        raise OutputError(
            f"{path}: expected a directory that can be replaced, found a mount point or the current directory; name a "
            "new directory in it"
        )


def _check_owned(path: Path, place: Path, owned: Collection[str]) -> None:
    foreign = list(_foreign(place, owned))
    if foreign:
        named = ", ".join(foreign[:_NAMED]) + (" and more" if len(foreign) > _NAMED else "")
        raise OutputError(
            f"{path}: expected a directory that this command wrote, found other files, which --force would delete: "
            f"{named}; move them, or choose another path"
        )


def _existing(path: Path) -> OutputError:
    return OutputError(f"{path}: output exists already; expected a new path, or --force to overwrite it")


def _no_directory(path: Path, found: str) -> OutputError:
    return OutputError(f"{path}: expected the path of a directory to write, found {found}")


def _kind(place: Path) -> str | None:
    """What is at a path, in words; None if there is nothing."""
    try:
        mode = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return f"a symbolic link to {place.readlink()}; give the path that it stands for"
    return next((name for test, name in _KINDS if test(mode)), "something else")


def _foreign(directory: Path, owned: Collection[str], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths in a directory that no pattern covers, relative to its root; one more than a message names at most."""
    patterns = [tuple(pattern.split("/")) for pattern in owned]
    count = 0
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            parts = (*above, entry.name)
            fitting = [pattern for pattern in patterns if all(map(fnmatchcase, parts, pattern))]
            if entry.is_dir(follow_symlinks=False) and any(len(pattern) > len(parts) for pattern in fitting):
                found = list(_foreign(directory / entry.name, owned, parts))
            elif any(len(pattern) == len(parts) for pattern in fitting):
                found = []
            else:
                found = ["/".join(parts)]
            yield from found
            count += len(found)
            if count > _NAMED:
                return


def _probe(path: Path, place: Path, *, directory: bool) -> None:
    """Make the output in a directory of a random name, beside the first directory that is missing, and remove it."""
    root, missing = place.parent, [place.name]
    while not root.is_dir() and root != root.parent:
        if os.path.lexists(root):
            raise OutputError(f"{path}: expected directories above it, found that {root} is none")
        root, missing = root.parent, [root.name, *missing]
    probe = root / f".{os.getpid()}-{secrets.token_hex(4)}.partial"
    try:
        probe.mkdir()
        made = probe.joinpath(*missing)
        (made if directory else made.parent).mkdir(parents=True, exist_ok=True)
        (made / "probe" if directory else made).write_bytes(bytes(_PROBE_BYTES))
    finally:
        with undisturbed():
            shutil.rmtree(probe, ignore_errors=True)
