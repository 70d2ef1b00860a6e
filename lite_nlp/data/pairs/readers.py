"""Sentence pairs out of text files with a sentence or a pair on each line, streaming."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import DataError
from lite_nlp.data.lines import LongLine, read_lines
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, Pair, examine_bytes, max_line_bytes, raw_text, usable_pairs
from lite_nlp.data.sources import BadLine, OnBadLine, Reason, general_advice

__all__ = ["TextFiles", "TsvFile"]

#: Lines that advice on a file is based on.
_SAMPLE_LINES: Final = 100

#: What the columns may take that are not asked for.
_OTHER_COLUMNS_BYTES: Final = 1 << 16

#: A column whose cells begin with so many characters in common holds no sentences.
_COMMON_START: Final = 6


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Two text files, plain or compressed, whose lines belong together by number.

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

    @property
    def file(self) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return str(self.src)

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, Pair]]:
        """See :class:`~lite_nlp.data.sources.ItemSource`; unequal line counts raise at the end of the shorter file."""
        number = 0
        max_bytes = max_line_bytes(self.max_characters)
        src_lines, tgt_lines = (read_lines(path, max_bytes=max_bytes) for path in (self.src, self.tgt))
        for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines, fillvalue=b"\n"), start=1):
            # Only a line beyond the end of its file has a newline in it: readers take it off the others.
            if src == b"\n" or tgt == b"\n":
                break
            usable = examine_bytes(src, tgt, check_ratio=self.check_ratio, max_characters=self.max_characters)
            if isinstance(usable, str):
                on_bad(BadLine(str(self.src), number, usable, raw_text(src, tgt)))
            else:
                yield number, usable
        else:
            return
        rest = 1 + sum(1 for _ in (tgt_lines if src == b"\n" else src_lines))
        counts = (number - 1, number - 1 + rest) if src == b"\n" else (number - 1 + rest, number - 1)
        raise DataError(
            f"{self.src} and {self.tgt}: expected as many lines in both, found {counts[0]:,} and {counts[1]:,}"
        )

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return general_advice(reason)


@dataclass(frozen=True, slots=True)
class TsvFile:
    """A text file, plain or compressed, with columns separated by tabs on each line.

    Attributes:
        path: The file.
        columns: Numbers of the columns of source and target, from 1; None where each line must have just these two.
        check_ratio: Whether to skip absurd length ratios.
        max_characters: A side with more is too long.
    """

    path: Path
    columns: tuple[int, int] | None = None
    check_ratio: bool = True
    max_characters: int = MAX_CHARACTERS

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def file(self) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return str(self.path)

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, Pair]]:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return usable_pairs(self.name, self._lines(), self._examine, on_bad)

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        if reason not in ("missing_tab", "extra_tab"):
            return general_advice(reason)
        lines = [
            line.decode("utf-8", "replace") for line in islice(self._lines(), _SAMPLE_LINES) if isinstance(line, bytes)
        ]
        rows = [line.split("\t") for line in lines]
        usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else 1
        if usual == 1:
            return _advise_without_tabs(lines)
        if self.columns is not None:
            highest = max(self.columns)
            return f"the lines have {usual} columns, of which none is number {highest}: give two others as --columns"
        first, second = _sentence_columns([row for row in rows if len(row) == usual]) or (1, 2)
        return f"the lines have {usual} columns: give --columns {first},{second}"

    def _lines(self) -> Iterator[bytes | LongLine]:
        others = 0 if self.columns is None else _OTHER_COLUMNS_BYTES
        return read_lines(self.path, max_bytes=max_line_bytes(self.max_characters) + others)

    def _examine(self, line: bytes | LongLine) -> Pair | Reason:
        """The two sides of a line, or why it cannot be used."""
        if isinstance(line, LongLine):
            return "too_long"
        cells = line.split(b"\t")
        first, second = self.columns or (1, 2)
        if len(cells) < max(first, second):
            return "missing_tab"
        if self.columns is None and len(cells) > 2:
            return "extra_tab"
        return examine_bytes(
            cells[first - 1], cells[second - 1], check_ratio=self.check_ratio, max_characters=self.max_characters
        )


def _advise_without_tabs(lines: Sequence[str]) -> str:
    """What to do with a table whose first lines have no tab."""
    start = lines[0].lstrip() if lines else ""
    if start.startswith("<"):
        return "the file looks like XML: give a TMX file as --tmx FILE"
    if start.startswith("{"):
        return "the file looks like JSON lines: give it as --jsonl FILE"
    for separator, name in ((",", "commas"), (";", "semicolons"), ("|", "bars")):
        if lines and all(separator in line for line in lines):
            return f"the lines have {name} and no tabs: save the file with tabs between the columns"
    return "the lines have no tabs: separate the columns by tabs, or give two aligned files as --train SRC TGT"


def _sentence_columns(rows: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """The numbers of the two columns that hold sentences; None if there are not just two.

    Identifiers and dates are mostly no letters; attributions and addresses all begin alike.
    """
    found = []
    for number, cells in enumerate(zip(*rows, strict=True), start=1):
        characters = [character for cell in cells for character in cell if not character.isspace()]
        letters = sum(character.isalpha() for character in characters)
        alike = len(cells) > 1 and len({cell[:_COMMON_START] for cell in cells}) == 1
        if 2 * letters > len(characters) and not alike and len(set(cells)) > len(cells) // 2:
            found.append(number)
    return (found[0], found[1]) if len(found) == 2 else None
