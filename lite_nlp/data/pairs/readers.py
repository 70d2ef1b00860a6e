"""Sentence pairs out of text files, streaming; what cannot be used is reported by line number, never repaired.

Lines are as in :mod:`lite_nlp.data.sources`; white space around a sentence is not part of it. Nothing else is changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import PairTask, SplitName
from lite_nlp.data.holdout import hold_out
from lite_nlp.data.sources import BadLine, Corpus, ItemSource, OnBadLine, Reason, read_lines

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DOCUMENT_CHARACTERS",
    "MAX_LENGTH_RATIO",
    "RATIO_FREE_CHARACTERS",
    "Pair",
    "PairCorpus",
    "TextFiles",
    "TsvFile",
    "languages_of_names",
    "max_line_bytes",
    "pairs_in_files",
]

#: Source and target sentence.
Pair = tuple[str, str]

#: Characters in a side above which a line is too long: about 330 English words.
MAX_CHARACTERS: Final = 2000

#: The same where a line is a whole document, such as an article to summarize: about 16,000 words.
MAX_DOCUMENT_CHARACTERS: Final = 100_000

#: One side may have at most this many times the characters of the other (the bound of Moses' clean-corpus-n) ...
MAX_LENGTH_RATIO: Final = 9

#: ... unless the longer side has at most this many: "No." may well be a whole clause in another language.
RATIO_FREE_CHARACTERS: Final = 40

#: Bytes that UTF-8 can need for a character.
_CHARACTER_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PairCorpus(Corpus[Pair]):
    """The sentence pairs that a data directory is prepared from.

    Attributes:
        languages: Codes of the source and target language.
        task: What the pairs are for.
    """

    languages: tuple[str, str]
    task: PairTask = "translation"


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

    def read(self, on_bad: OnBadLine) -> Iterator[Pair]:
        """See :class:`~lite_nlp.data.sources.ItemSource`; unequal line counts raise at the end of the shorter file."""
        number = 0
        max_bytes = max_line_bytes(self.max_characters)
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

    def read(self, on_bad: OnBadLine) -> Iterator[Pair]:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        for number, line in enumerate(read_lines(self.path, max_bytes=max_line_bytes(self.max_characters)), start=1):
            usable = self._examine(line)
            if isinstance(usable, str):
                on_bad(BadLine(self.name, number, usable))
            else:
                yield (usable[1], usable[0]) if self.swap else usable

    def _examine(self, line: bytes | None) -> Pair | Reason:
        """The first two columns of a line, or why it cannot be used."""
        if line is None:
            return "too_long"
        sides = line.split(b"\t")
        if len(sides) != self.columns:
            return "missing_tab" if len(sides) < self.columns else "extra_tab"
        return _examine([sides[0], sides[1]], check_ratio=self.check_ratio, max_characters=self.max_characters)


def _examine(sides: list[bytes | None], *, check_ratio: bool, max_characters: int) -> Pair | Reason:
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


def max_line_bytes(max_characters: int = MAX_CHARACTERS) -> int:
    """Bytes that UTF-8 can need for a line of two sides; a longer line is skipped without being held in memory."""
    return 2 * _CHARACTER_BYTES * max_characters + 2


def pairs_in_files(
    files: Mapping[SplitName, Sequence[tuple[Path, Path]]],
    tsv: Sequence[Path],
    *,
    languages: tuple[str, str],
    task: PairTask,
    valid_pairs: int | None,
    test_pairs: int | None,
) -> PairCorpus:
    """A corpus of pairs in files. Pairs to summarize may be long, and of any length ratio.

    Args:
        files: For each split, pairs of aligned text files.
        tsv: Files with tabs, for training.
        languages: Source and target language.
        task: What the pairs are for.
        valid_pairs: Pairs to hold out for validation; see :func:`lite_nlp.data.holdout.hold_out`.
        test_pairs: The same for the test.
    """
    long = task == "summarization"
    bound = MAX_DOCUMENT_CHARACTERS if long else MAX_CHARACTERS
    splits: dict[SplitName, list[ItemSource[Pair]]] = {
        "train": [TsvFile(path, check_ratio=not long, max_characters=bound) for path in tsv]
    }
    for name, pairs in files.items():
        check_ratio = name == "train" and not long
        splits.setdefault(name, []).extend(
            TextFiles(src, tgt, check_ratio=check_ratio, max_characters=bound) for src, tgt in pairs
        )
    given = {name: sources for name, sources in splits.items() if sources}
    rule = hold_out(valid_pairs, test_pairs, given=len(given) > 1)
    return PairCorpus(splits=given, rule=rule, languages=languages, task=task)


def languages_of_names(src: Path, tgt: Path) -> tuple[str, str] | None:
    """The endings of two file names, before ``.gz``, if they look like codes of two languages."""
    ends = [path.name.removesuffix(".gz").rpartition(".")[2] for path in (src, tgt)]
    if ends[0] == ends[1] or not all(re.fullmatch("[a-z]{2,3}", end) for end in ends):
        return None
    return ends[0], ends[1]
