"""Lines of text files, plain or compressed.

A line ends at a newline; a carriage return before it and a byte order mark at the start of a file are not part of it.
"""

import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lite_nlp.core.errors import DataError
from lite_nlp.core.packed import HEAD_BYTES, packing_of
from lite_nlp.core.suggestions import did_you_mean_path

__all__ = ["LongLine", "read_blocks", "read_lines"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

#: What is decompressed at a time.
_ZSTD_BUFFER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line too long to be held in memory; ``start`` is its beginning."""

    start: bytes


class _ZstdError(EOFError):
    """A zstd stream that ends early or is damaged."""


def read_lines(path: Path, *, max_bytes: int) -> Iterator[bytes | LongLine]:
    """Yield the lines without their ends; one of more than ``max_bytes`` bytes is a :class:`LongLine`.

    Raises:
        DataError: If the file is missing, empty, an archive, UTF-16, or its compressed stream is damaged.
    """
    number = 0
    with _clear_errors(path, lambda: f"line {number:,}"), _open_text(path) as file:
        while line := file.readline(max_bytes + 2):
            number += 1
            if number == 1:
                _check_encoding(path, line)
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if len(line) > max_bytes and not line.endswith(b"\n"):
                _skip_line(file, max_bytes)
                yield LongLine(line)
                continue
            yield line.removesuffix(b"\n").removesuffix(b"\r")
    if not number:
        raise DataError(f"{path}: expected lines of text, found an empty file")


def read_blocks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file, plain or compressed, in blocks of at most ``size`` bytes.

    Raises:
        DataError: If the file is missing, an archive, or its compressed stream is damaged.
    """
    done = 0
    with _clear_errors(path, lambda: f"{done:,} bytes"), _open_text(path) as file:
        while block := file.read1(size):
            yield block
            done += len(block)


@contextmanager
def _clear_errors(path: Path, place: Callable[[], str]) -> Iterator[None]:
    """Turn the errors of reading a file into one that names it, and ``place`` where its compressed stream breaks."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        kind = "zstd" if isinstance(error, _ZstdError) else "gzip"
        raise DataError(f"{path}: expected a whole {kind} file, found it damaged after {place()}: {error}") from error
    except OSError as error:
        found = f"{error.strerror or error}{did_you_mean_path(path)}"
        raise DataError(f"{path}: expected a readable text file, found none: {found}") from error


def _open_text(path: Path) -> io.BufferedIOBase:
    """Open a file for reading bytes, through gzip or zstd where its content is that, whatever its name.

    Raises:
        DataError: If it is packed in another way, or can be read only once, as a pipe.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        # What has been read is gone when the next pass begins.
        raise DataError(
            f"{path}: expected a file, which is read several times, found a pipe or a device: write its content to a "
            "file first"
        )
    with path.open("rb") as file:
        packing = packing_of(file.read(HEAD_BYTES))
    if packing is None:
        return path.open("rb")
    if packing == "gzip":
        return gzip.open(path, "rb")
    if packing == "zstd":
        return io.BufferedReader(_ZstdFile(path), _ZSTD_BUFFER)
    raise DataError(f"{path}: expected a text file, plain, .gz or .zst, found {packing}: unpack it first")


def _check_encoding(path: Path, start: bytes) -> None:
    """Refuse a file whose first bytes show that no line would be usable.

    Raises:
        DataError: If it is UTF-16, or no text.
    """
    zeros = start[::2].count(0), start[1::2].count(0)
    # In UTF-16 every other byte of Latin letters is zero.
    if start.startswith(_UTF_16_MARKS) or (min(zeros) == 0 and 4 * max(zeros) > len(start)):
        raise DataError(
            f"{path}: expected UTF-8 text, found UTF-16: convert it, such as with iconv -f UTF-16 -t UTF-8 FILE"
        )
    if 3 * start.count(0) > len(start):
        raise DataError(f"{path}: expected UTF-8 text, found binary data: unpack it first if it is an archive")


class _ZstdFile(io.RawIOBase):
    """The content of a zstd file; one or several frames, as a stream."""

    def __init__(self, path: Path) -> None:
        # Slow to import, and needed for such files alone.
        import pyarrow

        self._stream: Any = pyarrow.input_stream(str(path), compression="zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except OSError as error:
            raise _ZstdError(str(error)) from error

    def close(self) -> None:
        self._stream.close()
        super().close()


def _skip_line(file: io.BufferedIOBase, piece_bytes: int) -> None:
    while (piece := file.readline(piece_bytes)) and not piece.endswith(b"\n"):
        pass
