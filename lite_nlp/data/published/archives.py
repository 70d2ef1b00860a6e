"""Archives of published corpora: single files out of them, within bounds on what they may unpack to."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

from lite_nlp.core.errors import DataError, LiteNlpError
from lite_nlp.core.files import atomic_directory

__all__ = ["Member", "extract", "open_archive"]

#: Bytes that an archive may unpack to, for each of its own: text of published corpora takes up to a tenth when packed.
MAX_EXPANSION: Final = 64
_ALWAYS_BYTES: Final = 64 << 20

#: Bytes that may be read at once: a header, or a whole story; files are copied in blocks.
MAX_READ_BYTES: Final = 16 << 20
_BLOCK_BYTES: Final = 1 << 18

#: Bit of a member's flags that says that it is encrypted.
_ENCRYPTED: Final = 1

#: Methods of a zip that Python has; deflate64, for one, it has not.
_METHODS: Final = {
    zipfile.ZIP_STORED: "stored",
    zipfile.ZIP_DEFLATED: "deflated",
    zipfile.ZIP_BZIP2: "packed by bzip2",
    zipfile.ZIP_LZMA: "packed by LZMA",
}

_OPENERS: Final[Mapping[bytes, Callable[[Path, Any], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


class Member(Protocol):
    """The content of a file in an archive."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most ``size``; all that are left, but no more than 16 MiB, if that is negative."""
        ...


def extract(archive: Path, members: Sequence[str], out: Path) -> list[Path]:
    """Extract single files from a tar or zip archive.

    Args:
        archive: The archive.
        members: Paths of the files in it.
        out: Directory for them, made whole or not at all; if it holds them already, the archive is not read.

    Returns:
        The extracted files, in the order of ``members``.

    Raises:
        DataError: If the archive is damaged, lacks a member, or unpacks to more than it may.
        OutputError: If ``out`` cannot be written.
    """
    names = {member: member.replace("/", "_") for member in members}
    if not all((out / name).is_file() for name in names.values()):
        with atomic_directory(out, force=True, owned=None) as directory:
            _extract(archive, {member: directory / name for member, name in names.items()})
    return [out / name for name in names.values()]


def _extract(archive: Path, wanted: Mapping[str, Path]) -> None:
    missing = set(wanted)
    with open_archive(archive) as members:
        for name, content in members:
            if name in missing:
                with wanted[name].open("wb") as copy:
                    while block := content.read(_BLOCK_BYTES):
                        copy.write(block)
                missing.remove(name)
    if missing:
        raise DataError(f"{archive}: expected it to hold {', '.join(sorted(missing))}, found no such file")


@contextmanager
def open_archive(archive: Path) -> Iterator[Iterator[tuple[str, Member]]]:
    """Open a tar or zip archive.

    Yields:
        Name and content of each regular file, in the order of the archive; a content can be read until the next one is
        asked for. Damage is found at the end of the iteration at the latest.

    Raises:
        DataError: If the archive is damaged, encrypted, of an unknown method, or unpacks to more than it may.
    """
    with _damage(archive):
        file = archive.open("rb")
    with file:
        budget = _Budget(archive)
        members = (_zip_members if zipfile.is_zipfile(file) else _tar_members)(archive, file, budget)
        yield _guarded(archive, members)


def _guarded(archive: Path, members: Iterator[tuple[str, Member]]) -> Iterator[tuple[str, Member]]:
    while True:
        with _damage(archive):
            found = next(members, None)
        if found is None:
            return
        yield found


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """Turn whatever a library raises at an archive into our error; what reads it writes nothing."""
    try:
        yield
    except LiteNlpError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{archive}: expected a whole archive, found a damaged one: {reason}") from error


class _Budget:
    """What may still be unpacked of an archive."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self.limit = _ALWAYS_BYTES + MAX_EXPANSION * archive.stat().st_size
        self.used = 0

    def check(self, place: int, size: int) -> int:
        """Refuse to read ``size`` bytes at ``place`` of what is unpacked, if that is too much."""
        if size > MAX_READ_BYTES:
            raise DataError(f"{self._archive}: expected pieces of {MAX_READ_BYTES:,} bytes at most, found {size:,}")
        if place + size > self.limit:
            raise DataError(
                f"{self._archive}: expected at most {self.limit:,} bytes in it, {MAX_EXPANSION} times its size, "
                "found more"
            )
        return size


class _Content:
    """A member whose damage is our error, and whose bytes count; it is opened when it is first read."""

    def __init__(self, archive: Path, opener: Callable[[], IO[bytes]], budget: _Budget) -> None:
        self._archive = archive
        self._opener = opener
        self._file: IO[bytes] | None = None
        self._budget = budget

    def read(self, size: int = -1, /) -> bytes:
        with _damage(self._archive):
            if size >= 0:
                return self._next(size)
            blocks, found = [], 0
            while block := self._next(_BLOCK_BYTES):
                blocks.append(block)
                found += len(block)
                self._budget.check(0, found)
            return b"".join(blocks)

    def _next(self, size: int) -> bytes:
        if self._file is None:
            self._file = self._opener()
        block = self._file.read(self._budget.check(self._budget.used, size))
        self._budget.used += len(block)
        return block


def _zip_members(archive: Path, file: IO[bytes], budget: _Budget) -> Iterator[tuple[str, Member]]:
    with zipfile.ZipFile(file) as opened:
        for info in opened.infolist():
            if not info.is_dir():
                yield info.filename, _Content(archive, partial(_open_zipped, archive, opened, info), budget)


def _open_zipped(archive: Path, opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & _ENCRYPTED:
        raise DataError(f"{archive}: expected files that are not encrypted, found {info.filename}")
    if info.compress_type not in _METHODS:
        raise DataError(
            f"{archive}: expected files that are {', '.join(_METHODS.values())}, found {info.filename} by method "
            f"{info.compress_type}"
        )
    return opened.open(info)


def _tar_members(archive: Path, file: IO[bytes], budget: _Budget) -> Iterator[tuple[str, Member]]:
    file.seek(0)
    start = file.read(8)
    opener = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), open)
    with opener(archive, "rb") as unpacked:
        bounded = _BoundedStream(unpacked, budget)
        with tarfile.open(fileobj=cast("IO[bytes]", bounded), mode="r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    # The stream counts what is read, by its place in the whole.
                    yield member.name.removeprefix("./"), _Content(archive, partial(_given, content), _Budget(archive))
            # The checksum of a compressed tar is at its very end, behind the last file.
            while bounded.read(_BLOCK_BYTES):
                pass


def _given(content: IO[bytes]) -> IO[bytes]:
    return content


class _BoundedStream:
    """What is packed in a compressed tar, read and skipped within bounds."""

    def __init__(self, file: IO[bytes], budget: _Budget) -> None:
        self._file = file
        self._budget = budget

    def read(self, size: int = -1) -> bytes:
        return self._file.read(self._budget.check(self._file.tell(), MAX_READ_BYTES + 1 if size < 0 else size))

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0:
            self._budget.check(place, 0)
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()
