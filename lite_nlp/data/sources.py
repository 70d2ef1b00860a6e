"""Sources of text: what a corpus is made of, lines of files, and reports of lines that cannot be used.

A line ends at a newline; a carriage return before it and a byte order mark at the start of a file are not part of the
text. What cannot be used is reported by line number, never repaired.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, Protocol, TypeVar

from lite_nlp.core.errors import DataError
from lite_nlp.core.suggestions import did_you_mean_path
from lite_nlp.data.choices import SplitName
from lite_nlp.data.holdout import SplitRule

__all__ = [
    "BadLine",
    "Corpus",
    "ItemSource",
    "OnBadLine",
    "Reason",
    "ignore_bad_line",
    "open_text",
    "read_lines",
]

Reason = Literal["missing_tab", "extra_tab", "empty_side", "invalid_utf8", "length_ratio", "too_long", "unknown_label"]

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

#: An item of a corpus: a sentence pair, a line of text or a labelled example.
ItemT = TypeVar("ItemT")
ItemT_co = TypeVar("ItemT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was skipped.

    Attributes:
        file: Its file; of two aligned files, the source.
        line: Its number, from 1.
        reason: Why it cannot be used.
    """

    file: str
    line: int
    reason: Reason


OnBadLine = Callable[[BadLine], None]


def ignore_bad_line(bad: BadLine) -> None:
    """Report nothing: for further passes over a source whose bad lines are known already."""


class ItemSource(Protocol[ItemT_co]):
    """A sequence of items that is read anew, and alike, in each pass."""

    @property
    def name(self) -> str:
        """Name of the source in reports."""

    def read(self, on_bad: OnBadLine) -> Iterator[ItemT_co]:
        """Yield the item of each usable line in order; pass the other lines to ``on_bad``.

        Raises:
            DataError: If a file is missing, empty, truncated, or does not match its partner.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus(Generic[ItemT]):
    """The text that a data directory is prepared from.

    Attributes:
        splits: For each split, the sources it is made of, one after the other; ``train`` must be there.
        rule: Rule by which other splits are taken out of ``train``; None to take none.
    """

    splits: Mapping[SplitName, Sequence[ItemSource[ItemT]]]
    rule: SplitRule | None = None


def read_lines(path: Path, *, max_bytes: int) -> Iterator[bytes | None]:
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
        found = f"{error.strerror or error}{did_you_mean_path(path)}"
        raise DataError(f"{path}: expected a readable text file, found none: {found}") from error
    if not number:
        raise DataError(f"{path}: expected lines of text, found an empty file")


def open_text(path: Path) -> io.BufferedIOBase:
    """Open a file for reading bytes, through gzip where its content is gzip, whatever its name."""
    with path.open("rb") as file:
        magic = file.read(len(_GZIP_MAGIC))
    return gzip.open(path, "rb") if magic == _GZIP_MAGIC else path.open("rb")


def _skip_line(file: io.BufferedIOBase, piece_bytes: int) -> None:
    while (piece := file.readline(piece_bytes)) and not piece.endswith(b"\n"):
        pass
