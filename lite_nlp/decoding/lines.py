"""Input lines: one item per line, as soon as it arrives, whatever it contains."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, cast

from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.core.packed import HEAD_BYTES, packing_of
from lite_nlp.core.suggestions import did_you_mean_path

__all__ = ["input_line", "one_line", "open_lines", "read_chunks", "read_file_lines", "require_text"]

#: Bytes requested at a time; a terminal or a pipe returns what it has, which may be one line.
_READ_BYTES: Final = 1 << 16

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@contextmanager
def open_lines(path: Path | None) -> Iterator[tuple[BinaryIO, str]]:
    """Open a text file, ``.gz`` or not, or standard input if ``path`` is None.

    A file is checked to its end first, so that a bad byte is reported before any work is done; a stream cannot be.

    Yields:
        The open stream and its name for messages.

    Raises:
        DataError: If the file cannot be read or is not UTF-8, or standard input is closed.
    """
    if path is None:
        if sys.stdin is None:
            raise DataError("standard input: expected an open stream, found a closed one")
        with _blocking(sys.stdin.buffer):
            yield sys.stdin.buffer, "standard input"
        return
    if path.is_file():
        with _open(path) as stream:
            for _ in read_chunks(stream, str(path)):
                pass
    with _open(path) as stream:
        yield stream, str(path)


def read_chunks(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    r"""Lines as they arrive: each list holds the complete lines of one read, at least one.

    Only ``\n`` ends a line; a ``\r`` before it, and a byte order mark before the first line, are dropped. A last line
    without ``\n`` counts.

    Args:
        stream: Anything with ``read1``: a file, standard input, ``io.BytesIO``.
        name: Stands for the stream in messages.

    Raises:
        DataError: If a line is not UTF-8; lines before it have been yielded.
    """
    number = 1
    rest: list[bytes] = []
    at_end = False
    while not at_end:
        block = _read(stream, name)
        at_end = not block
        complete, newline, unfinished = block.rpartition(b"\n")
        if at_end:
            lines = [b"".join(rest)] if any(rest) else []
        elif newline:
            lines = b"".join([*rest, complete]).split(b"\n")
            rest = [unfinished]
        else:
            rest.append(unfinished)
            continue
        if number == 1 and lines:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        decoded: list[str] = []
        for line in lines:
            try:
                decoded.append(line.removesuffix(b"\r").decode("utf-8"))
            except UnicodeDecodeError as error:
                if decoded:
                    yield decoded
                found = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
                raise DataError(f"{name}: line {number + len(decoded)}: expected UTF-8, found {found}") from error
        if decoded:
            yield decoded
        number += len(decoded)


def read_file_lines(path: Path) -> list[str]:
    """All lines of a text file, ``.gz`` or not.

    Raises:
        DataError: If the file cannot be read or is not UTF-8.
    """
    with _open(path) as stream:
        return [line for chunk in read_chunks(stream, str(path)) for line in chunk]


def input_line(text: str) -> str:
    """A line of a caller's as one of a file would be read: no byte order mark, no line break at its end or inside.

    Raises:
        UsageError: If it is no string.
    """
    return one_line(require_text(text).removeprefix("\ufeff"))


def require_text(text: object) -> str:
    """What a caller gave as text.

    Raises:
        UsageError: If it is no string.
    """
    if not isinstance(text, str):
        raise UsageError(f"text: expected a string, found {repr(text)[:60]}")
    return text


def one_line(text: str) -> str:
    """The text as one line: every kind of line break becomes a space."""
    return " ".join(text.splitlines())


@contextmanager
def _blocking(stream: BinaryIO) -> Iterator[None]:
    """Wait for input that is not there yet: a stream that the caller has set not to block looks as if it ended."""
    try:
        descriptor = stream.fileno()
        blocks = os.get_blocking(descriptor)
    except (OSError, ValueError):
        # It is no file of the system, or closed.
        blocks = True
    if blocks:
        yield
        return
    os.set_blocking(descriptor, True)
    try:
        yield
    finally:
        # Others may share the open file.
        os.set_blocking(descriptor, False)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
        # By its content, whatever its name: what is peeked at can still be read, from a pipe too.
        packing = packing_of(file.peek(HEAD_BYTES)[:HEAD_BYTES])
    except OSError as error:
        found = f"{error.strerror or error}{did_you_mean_path(path)}"
        raise DataError(f"{path}: expected a readable text file, found none: {found}") from error
    if packing not in (None, "gzip"):
        file.close()
        kind = "a zstd file" if packing == "zstd" else packing
        raise DataError(f"{path}: expected a text file, plain or .gz, found {kind}: unpack it first")
    with file, gzip.GzipFile(fileobj=file) if packing == "gzip" else nullcontext(file) as stream:
        yield cast(BinaryIO, stream)


def _read(stream: BinaryIO, name: str) -> bytes:
    try:
        block: bytes = stream.read1(_READ_BYTES)  # type: ignore[attr-defined]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: expected a readable text file, found: {error}") from error
    return block
