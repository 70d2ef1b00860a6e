"""Sentence pairs out of text files, streaming; what cannot be used is reported by line number, never repaired.

A line ends at a newline; a carriage return before it and a byte order mark at the start of a file are not part of the
text, nor is white space around a sentence. Nothing else is changed.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal, Protocol

from lite_nlp.core.errors import DataError

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DOCUMENT_CHARACTERS",
    "MAX_LENGTH_RATIO",
    "RATIO_FREE_CHARACTERS",
    "BadLine",
    "OnBadLine",
    "PairSource",
    "Reason",
    "TextFiles",
    "TsvFile",
    "ignore_bad_line",
    "open_text",
    "read_lines",
]

Reason = Literal["missing_tab", "extra_tab", "empty_side", "invalid_utf8", "length_ratio", "too_long", "unknown_label"]

#: Characters in a side above which a line is too long: about 330 English words.
MAX_CHARACTERS: Final = 2000

#: The same where a line is a whole document, such as an article to summarize: about 16,000 words.
MAX_DOCUMENT_CHARACTERS: Final = 100_000

#: One side may have at most this many times the characters of the other (the bound of Moses' clean-corpus-n) ...
MAX_LENGTH_RATIO: Final = 9

#: ... unless the longer side has at most this many: "No." may well be a whole clause in another language.
RATIO_FREE_CHARACTERS: Final = 40

#: What UTF-8 can need for a character.
_CHARACTER_BYTES: Final = 4

#: What UTF-8 can need for a line of two sides; a longer line is skipped without being held in memory.
_MAX_LINE_BYTES: Final = 2 * _CHARACTER_BYTES * MAX_CHARACTERS + 2

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was skipped: file (of two, the source), line number from 1, and why."""

    file: str
    line: int
    reason: Reason


OnBadLine = Callable[[BadLine], None]


class PairSource(Protocol):
    """Something that gives sentence pairs, the same ones each time it is asked."""

    @property
    def name(self) -> str:
        """What to call it in reports."""

    def pairs(self, on_bad: OnBadLine) -> Iterator[tuple[str, str]]:
        """Yield source and target of each usable line in order; pass the other lines to ``on_bad``.

        Raises:
            DataError: If a file is missing, empty, truncated, or does not match its partner.
        """


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Two text files, plain or gzip, whose lines belong together by number.

    Attributes:
        src: The source text.
        tgt: The target text.
        check_ratio: Whether to skip absurd length ratios; not for published test sets, whose scores are compared.
        max_characters: A side with more is too long.
    """

    src: Path
    tgt: Path
    check_ratio: bool = True
    max_characters: int = MAX_CHARACTERS

    @property
    def name(self) -> str:
        """Both files."""
        return f"{self.src} {self.tgt}"

    def pairs(self, on_bad: OnBadLine) -> Iterator[tuple[str, str]]:
        """See :class:`PairSource`; unequal line counts raise at the end of the shorter file."""
        number = 0
        max_bytes = _line_bytes(self.max_characters)
        src_lines, tgt_lines = (read_lines(path, max_bytes=max_bytes) for path in (self.src, self.tgt))
        for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines, fillvalue=b"\n"), start=1):
            # Only a line beyond the end of its file has a newline in it: readers take it off the others.
            if src == b"\n" or tgt == b"\n":
                break
            usable = _examine([src, tgt], check_ratio=self.check_ratio, max_characters=self.max_characters)
            if isinstance(usable, str):
                on_bad(BadLine(str(self.src), number, usable))
            else:
                yield usable
        else:
            return
        rest = 1 + sum(1 for _ in (tgt_lines if src == b"\n" else src_lines))
        counts = (number - 1, number - 1 + rest) if src == b"\n" else (number - 1 + rest, number - 1)
        raise DataError(
            f"{self.src} and {self.tgt}: expected as many lines in both, found {counts[0]:,} and {counts[1]:,}"
        )


@dataclass(frozen=True, slots=True)
class TsvFile:
    """A text file, plain or gzip, with source, tab and target on each line.

    Attributes:
        path: The file.
        columns: Columns of each line; those after the second are left out.
        swap: Whether the target is the first column.
        check_ratio: Whether to skip absurd length ratios.
        max_characters: A side with more is too long.
    """

    path: Path
    columns: int = 2
    swap: bool = False
    check_ratio: bool = True
    max_characters: int = MAX_CHARACTERS

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    def pairs(self, on_bad: OnBadLine) -> Iterator[tuple[str, str]]:
        """See :class:`PairSource`."""
        for number, line in enumerate(read_lines(self.path, max_bytes=_line_bytes(self.max_characters)), start=1):
            usable = self._examine(line)
            if isinstance(usable, str):
                on_bad(BadLine(self.name, number, usable))
            else:
                yield (usable[1], usable[0]) if self.swap else usable

    def _examine(self, line: bytes | None) -> tuple[str, str] | Reason:
        """The first two columns of a line, or why it cannot be used."""
        if line is None:
            return "too_long"
        sides = line.split(b"\t")
        if len(sides) != self.columns:
            return "missing_tab" if len(sides) < self.columns else "extra_tab"
        return _examine([sides[0], sides[1]], check_ratio=self.check_ratio, max_characters=self.max_characters)


def ignore_bad_line(bad: BadLine) -> None:
    """For a second pass over a source whose bad lines are known already."""


def _examine(sides: list[bytes | None], *, check_ratio: bool, max_characters: int) -> tuple[str, str] | Reason:
    """The pair that the raw sides hold, or why they hold none; a side of None was too long to be read."""
    if None in sides:
        return "too_long"
    try:
        src, tgt = (side.decode("utf-8").strip() for side in sides if side is not None)
    except UnicodeDecodeError:
        return "invalid_utf8"
    if not src or not tgt:
        return "empty_side"
    shorter, longer = sorted((len(src), len(tgt)))
    if longer > max_characters:
        return "too_long"
    if check_ratio and longer > RATIO_FREE_CHARACTERS and longer > MAX_LENGTH_RATIO * shorter:
        return "length_ratio"
    return src, tgt


def _line_bytes(max_characters: int) -> int:
    """What a line of two sides can need, as for :data:`MAX_CHARACTERS`."""
    return 2 * _CHARACTER_BYTES * max_characters + 2


def read_lines(path: Path, *, max_bytes: int = _MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """Yield the lines without their ends; None for a line of more than ``max_bytes`` bytes.

    Raises:
        DataError: If the file is missing, empty, or its gzip stream is damaged.
    """
    number = 0
    try:
        with open_text(path) as file:
            while line := file.readline(max_bytes + 2):
                number += 1
                if len(line) > max_bytes and not line.endswith(b"\n"):
                    _skip_line(file, max_bytes)
                    yield None
                    continue
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: expected a whole gzip file, found it damaged after line {number:,}: {error}"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: expected a readable text file, found none: {error.strerror or error}") from error
    if not number:
        raise DataError(f"{path}: expected lines of text, found an empty file")


def open_text(path: Path) -> io.BufferedIOBase:
    """Open a file for reading bytes, through gzip where it begins like a gzip file, whatever its name."""
    with path.open("rb") as file:
        magic = file.read(len(_GZIP_MAGIC))
    return gzip.open(path, "rb") if magic == _GZIP_MAGIC else path.open("rb")


def _skip_line(file: io.BufferedIOBase, piece_bytes: int) -> None:
    while (piece := file.readline(piece_bytes)) and not piece.endswith(b"\n"):
        pass
