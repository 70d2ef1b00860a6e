"""Passes over the splits of a corpus: what of the training text belongs to which, and what cannot be used."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Generic, TypeVar

from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.data.choices import SPLITS, SplitName
from lite_nlp.data.directory import Facts, SkippedLines, SplitFacts, TokenizerInfo
from lite_nlp.data.holdout import FEWER, Assignment
from lite_nlp.data.overlap import place_of
from lite_nlp.data.sources import BadLine, Corpus, ItemSource, ignore_bad_line
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.troubles import Tally

__all__ = ["CorpusPasses", "DataFormat", "SplitPass"]

#: Items from one report of progress to the next.
_PROGRESS_ITEMS: Final = 1_000

#: Where an item of the training text belongs, by the byte that remembers it: the two last are in no split, one by the
#: rule that divides the corpus, the other because it stands in a split that is given.
_PLACEMENTS: Final[tuple[SplitName | None, ...]] = ("train", "valid", "test", None, None)
_EXCLUDED: Final = 3
_DROPPED: Final = 4

ItemT = TypeVar("ItemT")
AnyT = TypeVar("AnyT")
SplitT = TypeVar("SplitT", bound=SplitFacts)
InfoT = TypeVar("InfoT", bound=Facts)


class DataFormat(ABC, Generic[ItemT, SplitT, InfoT]):
    """The part of a preparation that depends on the kind of data."""

    #: Name of the items in messages.
    contents: ClassVar[str]

    @abstractmethod
    def sides(self, item: ItemT) -> tuple[str, str]:
        """The two texts of an item that a split rule looks at."""

    @abstractmethod
    def texts(self, item: ItemT) -> tuple[str, ...]:
        """The texts of an item, which the vocabulary is learned from; of each item as many."""

    def survey(self, training: "SplitPass[ItemT]") -> None:
        """Look at the training items before the rest; a format that need not leaves them unread."""
        del training

    def compared(self, item: ItemT) -> tuple[str, ...]:
        """The texts of an item by which it is the same as another; none if it is too short for that to say anything."""
        return self.texts(item)

    def refuse(self, item: ItemT, file: str, line: int) -> BadLine | None:
        """Report an item of a split other than ``train`` that cannot be used after the survey."""
        del item, file, line
        return None

    @abstractmethod
    def write_split(self, directory: Path, split: "SplitPass[ItemT]", tokenizer: Tokenizer) -> SplitT:
        """Tokenize the items of a split, write them to the data directory, and count them."""

    @abstractmethod
    def info(self, tokenizer: TokenizerInfo, splits: dict[SplitName, SplitT]) -> InfoT:
        """The content of ``data.json``."""


class CorpusPasses(Generic[ItemT]):
    """A corpus together with the outcome of its split rule.

    Args:
        corpus: The text.
        form: The kind of data.
        progress: Receiver of progress, in items.
    """

    def __init__(self, corpus: Corpus[ItemT], form: DataFormat[ItemT, Any, Any], progress: Progress) -> None:
        self.corpus = corpus
        self.form = form
        self.progress = progress
        self.assignment: Assignment | None = None
        #: Items of each split, where a pass has counted them.
        self.sizes: dict[SplitName, int] = {}
        #: What is known of each split before it is written.
        self.facts: dict[SplitName, SplitFacts] = {}
        #: For each item of the training text, as far as passes have come, its number in the list of placements.
        self._placements = bytearray()
        if corpus.rule is not None:
            tally = Tally("train", form.contents)
            everything = self.watch(self._training_items(tally), "splits", None)
            try:
                self.assignment = corpus.rule.fit(map(form.sides, everything))
            except DataError as error:
                if tally.complete:
                    # Too few are left; where most were skipped, that is why.
                    raise DataError(f"{error}{tally.explanation()}") from error
                raise

    def _training_items(self, tally: Tally) -> Iterator[ItemT]:
        """All items of the training sources; raises at the end if there is none."""
        found = False
        for source in self.corpus.splits["train"]:
            tally.begin(source)
            for _, item in source.read(tally.add):
                tally.add_usable()
                found = True
                yield item
        if not found:
            raise tally.nothing_usable()
        tally.complete = True

    @property
    def split_names(self) -> list[SplitName]:
        """The splits that are given, and those taken out of the training text."""
        taken = () if self.corpus.rule is None else self.corpus.rule.splits
        return [name for name in SPLITS if name in self.corpus.splits or name in taken]

    def count_training(self) -> int:
        """Items of the training split, for which it is read if no pass has counted them yet."""
        if "train" not in self.sizes:
            for _ in self.split("train", None):
                pass
        return self.sizes["train"]

    @property
    def excluded(self) -> int:
        """Items that the split rule has put into no split, after a whole pass over the training text."""
        return self._placements.count(_EXCLUDED)

    def drop(self, numbers: Sequence[int]) -> None:
        """Leave items of the training split out from now on, after a whole pass over it."""
        for number in numbers:
            self._placements[number] = _DROPPED
        self.sizes["train"] -= len(numbers)

    def placement(self, number: int, item: ItemT) -> SplitName | None:
        """The split of an item of the training text; None if it is in no split.

        Args:
            number: Its number in that text, from 0; those before it have been asked for.
            item: The item.
        """
        if number == len(self._placements):
            assignment = self.assignment
            split = "train" if assignment is None else assignment.split_of(number, *self.form.sides(item))
            self._placements.append(_PLACEMENTS.index(split))
        return _PLACEMENTS[self._placements[number]]

    def split(self, name: SplitName, stage: str | None, bad_lines: IO[str] | None = None) -> "SplitPass[ItemT]":
        """A pass over the split ``name``, shown as ``stage``, or not at all."""
        return SplitPass(self, name, stage, bad_lines)

    def watch(self, items: Iterable[AnyT], stage: str | None, total: int | None) -> Iterator[AnyT]:
        """Pass ``items`` on and report how many there were, unless there is no stage to report."""
        if stage is None:
            yield from items
            return
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
        files: The files in which their lines are numbered.

    Raises:
        DataError: At its end, if there was no usable item.
    """

    def __init__(
        self, work: CorpusPasses[ItemT], name: SplitName, stage: str | None, bad_lines: IO[str] | None
    ) -> None:
        self.name = name
        self._work = work
        self._stage = stage
        self._tally = Tally(name, work.form.contents, bad_lines)
        self._own = name in work.corpus.splits
        self._sources: list[ItemSource[ItemT]] = list(work.corpus.splits[name if self._own else "train"])

    @property
    def sources(self) -> list[str]:
        """Names of the sources."""
        return [source.name for source in self._sources]

    @property
    def files(self) -> list[str]:
        """The files in which the lines of the sources are numbered."""
        return [source.file for source in self._sources]

    @property
    def excluded(self) -> int:
        """Items that the split rule has put into no split, after the pass over the training split."""
        return self._work.excluded

    @property
    def overlap(self) -> dict[str, Any]:
        """The fields of :class:`~lite_nlp.data.directory.SplitFacts`."""
        return dict(self._work.facts[self.name])

    @property
    def skipped(self) -> dict[str, SkippedLines]:
        """Bad lines by reason; those of a split taken out of the training text are counted with that text."""
        return self._tally.skipped()

    def __iter__(self) -> Iterator[ItemT]:
        for _, _, item in self.placed():
            yield item

    def placed(self) -> Iterator[tuple[int, int, ItemT]]:
        """The items, and before each its number among those of the sources, and its place."""
        found = 0
        for placed in self._work.watch(self._items(), self._stage, self._work.sizes.get(self.name)):
            found += 1
            yield placed
        self._work.sizes[self.name] = found
        if not found:
            if self.name == "train" and (taken := self._work.excluded):
                raise DataError(
                    f"train: expected {self._work.form.contents} besides those held out, found none: {taken:,} share a "
                    f"sentence with one of them and are left out; {FEWER}"
                )
            raise self._tally.nothing_usable()

    def _items(self) -> Iterator[tuple[int, int, ItemT]]:
        # A split that is given is not divided, unless it is what the others are taken from.
        divided = self.name == "train" or not self._own
        number = -1
        for source_number, source in enumerate(self._sources):
            self._tally.begin(source)
            for line, item in source.read(self._tally.add if self._own else ignore_bad_line):
                number += 1
                if divided and self._work.placement(number, item) != self.name:
                    self._tally.add_usable()
                    continue
                refused = None if self.name == "train" else self._work.form.refuse(item, source.file, line)
                if refused is None:
                    self._tally.add_usable()
                    yield number, place_of(source_number, line), item
                else:
                    self._tally.add(refused)
