"""The preparation of a data directory of any kind, in passes over the text that hold none of it in memory.

The steps: fit the rule that divides the training text, survey the training items, learn (or take) the vocabulary,
tokenize and write each split, write the facts. A kind says only what differs, as a :class:`DataFormat`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Generic, TypeVar

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.data.choices import SPLITS, Normalization, SplitName
from lite_nlp.data.directory import BAD_LINES_FILE, INFO_FILE, TOKENIZER_FILE, Facts, SkippedLines, TokenizerInfo
from lite_nlp.data.holdout import Assignment
from lite_nlp.data.sources import BadLine, Corpus, ItemSource, ignore_bad_line
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["DataFormat", "SplitPass", "VocabularyOptions", "prepare_directory"]

#: Line numbers kept in data.json for each reason; bad_lines.jsonl has all.
_FIRST_LINES: Final = 10

#: Items from one report of progress to the next.
_PROGRESS_ITEMS: Final = 1_000

ItemT = TypeVar("ItemT")
SplitT = TypeVar("SplitT", bound=Facts)
InfoT = TypeVar("InfoT", bound=Facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularyOptions:
    """The vocabulary of a data directory.

    Attributes:
        vocab_size: Tokens of the vocabulary, which the two languages of pairs share.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: An existing tokenizer to use instead of training one; the others then do not apply.
    """

    vocab_size: int = 8_000
    lowercase: bool = False
    normalization: Normalization = "none"
    tokenizer: Tokenizer | None = None


class DataFormat(ABC, Generic[ItemT, SplitT, InfoT]):
    """The part of a preparation that depends on the kind of data."""

    #: Name of the items in messages.
    contents: ClassVar[str]

    @abstractmethod
    def sides(self, item: ItemT) -> tuple[str, str]:
        """The two texts of an item that a split rule looks at."""

    @abstractmethod
    def texts(self, item: ItemT) -> Iterable[str]:
        """The texts of an item that the vocabulary is learned from."""

    def survey(self, training: Iterable[ItemT]) -> None:
        """Look at the training items before the rest; a format that need not leaves them unread."""
        del training

    def refuse(self, item: ItemT, source: str) -> BadLine | None:
        """Report an item of a split other than ``train`` that cannot be used after the survey."""
        del item, source
        return None

    @abstractmethod
    def write_split(self, directory: Path, split: "SplitPass[ItemT]", tokenizer: Tokenizer) -> SplitT:
        """Tokenize the items of a split, write them to the data directory, and count them."""

    @abstractmethod
    def info(self, tokenizer: TokenizerInfo, splits: dict[SplitName, SplitT]) -> InfoT:
        """The content of ``data.json``."""


def prepare_directory(
    out: Path,
    corpus: Corpus[ItemT],
    form: DataFormat[ItemT, SplitT, InfoT],
    *,
    vocabulary: VocabularyOptions,
    force: bool = False,
    progress: Progress | None = None,
) -> InfoT:
    """Write the data directory ``out``, whole or not at all.

    Args:
        out: The directory to make.
        corpus: The text.
        form: The kind of data.
        vocabulary: The vocabulary.
        force: Whether to replace an existing ``out``.
        progress: Receiver of progress, in items.

    Raises:
        DataError: If a source is missing or damaged, or a split has no usable item.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    with (
        atomic_directory(out, force=force) as partial,
        (partial / BAD_LINES_FILE).open("w", encoding="utf-8") as bad_lines,
    ):
        work = _Preparation(corpus, form, progress or SilentProgress())
        form.survey(work.split("train", "labels"))
        tokenizer = vocabulary.tokenizer or Tokenizer.train(
            (text for item in work.split("train", "vocabulary") for text in form.texts(item)),
            vocab_size=vocabulary.vocab_size,
            lowercase=vocabulary.lowercase,
            normalization=vocabulary.normalization,
        )
        splits = {
            name: form.write_split(partial, work.split(name, name, bad_lines), tokenizer) for name in work.split_names
        }
        (partial / TOKENIZER_FILE).write_bytes(tokenizer.to_json())
        info = form.info(TokenizerInfo.of(tokenizer), splits)
        (partial / INFO_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return info


class _Preparation(Generic[ItemT]):
    """A corpus together with the outcome of its split rule."""

    def __init__(self, corpus: Corpus[ItemT], form: DataFormat[ItemT, Any, Any], progress: Progress) -> None:
        self.corpus = corpus
        self.form = form
        self.progress = progress
        self.assignment: Assignment | None = None
        #: Items of each split, where a pass has counted them.
        self.sizes: dict[SplitName, int] = {}
        if corpus.rule is not None:
            everything = (item for source in corpus.splits["train"] for item in source.read(ignore_bad_line))
            self.assignment = corpus.rule.fit(map(form.sides, self.watch(everything, "splits", None)))

    @property
    def split_names(self) -> list[SplitName]:
        """The splits that are given, and those taken out of the training text."""
        taken = () if self.corpus.rule is None else self.corpus.rule.splits
        return [name for name in SPLITS if name in self.corpus.splits or name in taken]

    def split(self, name: SplitName, stage: str, bad_lines: IO[str] | None = None) -> "SplitPass[ItemT]":
        """A pass over the split ``name``, shown as ``stage``."""
        return SplitPass(self, name, stage, bad_lines)

    def watch(self, items: Iterable[ItemT], stage: str, total: int | None) -> Iterator[ItemT]:
        """Pass ``items`` on and report how many there were."""
        self.progress.start(stage, total)
        done = 0
        for done, item in enumerate(items, start=1):
            yield item
            if done % _PROGRESS_ITEMS == 0:
                self.progress.advance(_PROGRESS_ITEMS)
        self.progress.advance(done % _PROGRESS_ITEMS)


class SplitPass(Generic[ItemT]):
    """One pass over the items of a split. What it counts is complete at its end.

    Attributes:
        name: The split.
        sources: Names of the sources it is read from.
        overlapping: Training items left out because a sentence of theirs is in a held-out split.

    Raises:
        DataError: At its end, if there was no usable item.
    """

    def __init__(self, work: _Preparation[ItemT], name: SplitName, stage: str, bad_lines: IO[str] | None) -> None:
        self.name = name
        self.overlapping = 0
        self._work = work
        self._stage = stage
        self._tally = _Tally(name, bad_lines)
        self._own = name in work.corpus.splits
        self._sources: list[ItemSource[ItemT]] = list(work.corpus.splits[name if self._own else "train"])

    @property
    def sources(self) -> list[str]:
        """Names of the sources."""
        return [source.name for source in self._sources]

    @property
    def skipped(self) -> dict[str, SkippedLines]:
        """Bad lines by reason; those of a split taken out of the training text are counted with that text."""
        return self._tally.skipped()

    def __iter__(self) -> Iterator[ItemT]:
        found = 0
        for item in self._work.watch(self._items(), self._stage, self._work.sizes.get(self.name)):
            found += 1
            yield item
        self._work.sizes[self.name] = found
        if not found:
            counts = self._tally.counts
            skipped = ", ".join(f"{counts[reason]:,} {reason}" for reason in sorted(counts)) or "none"
            raise DataError(f"{self.name}: expected {self._work.form.contents}, found none (lines skipped: {skipped})")

    def _items(self) -> Iterator[ItemT]:
        form = self._work.form
        # A split that is given is not divided, unless it is what the others are taken from.
        assignment = self._work.assignment if self.name == "train" or not self._own else None
        index = -1
        for source in self._sources:
            for item in source.read(self._tally.add if self._own else ignore_bad_line):
                index += 1
                if assignment is not None:
                    split = assignment.split_of(index, *form.sides(item))
                    self.overlapping += split is None and self.name == "train"
                    if split != self.name:
                        continue
                refused = None if self.name == "train" else form.refuse(item, source.name)
                if refused is None:
                    yield item
                else:
                    self._tally.add(refused)


class _Tally:
    """Counts the bad lines of a split and writes each to the report file, if there is one."""

    def __init__(self, split: SplitName, file: IO[str] | None) -> None:
        self._split = split
        self._file = file
        self._first: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}

    def add(self, bad: BadLine) -> None:
        """Count and report a line."""
        self.counts[bad.reason] = self.counts.get(bad.reason, 0) + 1
        first = self._first.setdefault(bad.reason, [])
        if len(first) < _FIRST_LINES:
            first.append(f"{bad.file}:{bad.line}")
        if self._file is not None:
            entry = {"split": self._split, "file": bad.file, "line": bad.line, "reason": bad.reason}
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def skipped(self) -> dict[str, SkippedLines]:
        """The counts by reason, with the first lines of each."""
        return {
            reason: SkippedLines(count=self.counts[reason], first=self._first[reason]) for reason in sorted(self.counts)
        }
