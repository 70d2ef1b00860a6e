"""The preparation of a data directory of any kind, in passes over the text that hold none of it in memory.

The steps: fit the rule that divides the training text, survey the training items, learn (or take) the vocabulary,
tokenize and write each split, write the facts. A kind says only what differs, as a :class:`DataFormat`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Generic, TypeVar

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.data.choices import SPLITS, SplitName
from lite_nlp.data.directory import (
    BAD_LINES_FILE,
    DATA_FILES,
    INFO_FILE,
    TOKENIZER_FILE,
    Facts,
    SkippedLines,
    TokenizerInfo,
)
from lite_nlp.data.holdout import Assignment
from lite_nlp.data.sources import BadLine, Corpus, ItemSource, ignore_bad_line
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.troubles import Tally
from lite_nlp.data.vocabulary import VocabularyOptions, train_vocabulary

__all__ = ["DataFormat", "SplitPass", "prepare_directory"]

#: Items from one report of progress to the next.
_PROGRESS_ITEMS: Final = 1_000

ItemT = TypeVar("ItemT")
SplitT = TypeVar("SplitT", bound=Facts)
InfoT = TypeVar("InfoT", bound=Facts)


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
    say: Callable[[str], None] | None = None,
) -> InfoT:
    """Write the data directory ``out``, whole or not at all.

    Args:
        out: The directory to make.
        corpus: The text.
        form: The kind of data.
        vocabulary: The vocabulary.
        force: Whether to replace an existing ``out``.
        progress: Receiver of progress, in items.
        say: Receiver of a remark on the size of the vocabulary, where that is chosen here.

    Raises:
        DataError: If a source is missing or damaged, or a split has no usable item.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    with (
        atomic_directory(out, force=force, owned=DATA_FILES) as partial,
        (partial / BAD_LINES_FILE).open("w", encoding="utf-8") as bad_lines,
    ):
        work = _Preparation(corpus, form, progress or SilentProgress())
        form.survey(work.split("train", "labels"))
        tokenizer = vocabulary.tokenizer or train_vocabulary(
            vocabulary,
            lambda stage: (text for item in work.split("train", stage) for text in form.texts(item)),
            say=say,
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
            for item in source.read(tally.add):
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
        self._tally = Tally(name, work.form.contents, bad_lines)
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
            raise self._tally.nothing_usable()

    def _items(self) -> Iterator[ItemT]:
        form = self._work.form
        # A split that is given is not divided, unless it is what the others are taken from.
        assignment = self._work.assignment if self.name == "train" or not self._own else None
        index = -1
        for source in self._sources:
            self._tally.begin(source)
            for item in source.read(self._tally.add if self._own else ignore_bad_line):
                index += 1
                if assignment is not None:
                    split = assignment.split_of(index, *form.sides(item))
                    self.overlapping += split is None and self.name == "train"
                    if split != self.name:
                        self._tally.add_usable()
                        continue
                refused = None if self.name == "train" else form.refuse(item, source.name)
                if refused is None:
                    self._tally.add_usable()
                    yield item
                else:
                    self._tally.add(refused)
