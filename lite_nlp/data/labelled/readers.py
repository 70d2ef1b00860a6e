"""Labelled sentences and sentence pairs out of text files.

Lines are as in :mod:`lite_nlp.data.sources`; white space around a sentence or label is not part of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import SplitName
from lite_nlp.data.holdout import FEWER, hold_out
from lite_nlp.data.lines import LongLine, read_lines
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, max_line_bytes, raw_text
from lite_nlp.data.sources import BadLine, Corpus, OnBadLine, Reason, general_advice, ignore_bad_line

__all__ = ["MAX_LABELS", "Example", "LabelledCorpus", "LabelledFile", "collect_labels", "examples_in_files"]

#: More different labels than this are taken for a mistake, such as a label column that holds text.
MAX_LABELS: Final = 1_000

#: Examples by which it is seen that the label stands last; fewer say nothing.
_LOOKED_AT: Final = 1_000
_FEWEST: Final = 20
#: Of a column of labels, the most different cells as a fraction of the lines; of one of sentences the least.
_FEW_LABELS: Final = 0.1
_MANY_SENTENCES: Final = 0.5

#: What the column of labels is called in the first line of files that have one.
_COLUMN_NAMES: Final = frozenset({"label", "labels", "gold_label", "class", "category", "sentiment", "target"})

#: Columns of a line with one sentence, and of one with two.
_COLUMNS: Final = (2, 3)


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled sentence or pair.

    Attributes:
        label: Any text without a tab.
        first: The sentence, or the first of a pair.
        second: The second of a pair; empty where there is none.
    """

    label: str
    first: str
    second: str = ""


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A text file, plain or compressed, with label, tab, sentence on each line, and for pairs tab, second sentence.

    Attributes:
        path: The file.
    """

    path: Path

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def sentences(self) -> int:
        """Sentences of each example, 1 or 2: the columns after the label in the first line that has two or three.

        Raises:
            DataError: If no line has two or three columns.
        """
        for line in read_lines(self.path, max_bytes=max_line_bytes()):
            if isinstance(line, bytes) and (columns := line.count(b"\t") + 1) in _COLUMNS:
                return columns - 1
        raise DataError(
            f"{self.path}: expected lines of a label and one or two sentences, separated by tabs, found none"
        )

    @property
    def file(self) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return str(self.path)

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, Example]]:
        """See :class:`~lite_nlp.data.sources.ItemSource`; every line must have the columns of the first."""
        columns = 1 + self.sentences
        for number, line in enumerate(read_lines(self.path, max_bytes=max_line_bytes()), start=1):
            usable = _examine(line, columns)
            if isinstance(usable, str):
                on_bad(BadLine(self.name, number, usable, raw_text(line)))
            else:
                yield number, usable

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        if reason in ("missing_tab", "extra_tab"):
            return (
                f"write a label and {self.sentences} sentence{'s' * (self.sentences > 1)} on each line, as on the first"
            )
        return general_advice(reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledCorpus(Corpus[Example]):
    """The labelled examples that a data directory is prepared from.

    Attributes:
        splits: For each split, the files it is made of, one after the other; ``train`` must be there.
    """

    splits: Mapping[SplitName, Sequence[LabelledFile]]

    @property
    def sentences(self) -> int:
        """Sentences of each example, 1 or 2.

        Raises:
            DataError: If the sources do not agree, or one has neither.
        """
        found = {source.name: source.sentences for sources in self.splits.values() for source in sources}
        first, expected = next(iter(found.items()))
        for name, sentences in found.items():
            if sentences != expected:
                raise DataError(
                    f"{name}: expected as many sentences after each label as in {first} ({expected}), found {sentences}"
                )
        return expected

    def check_columns(self) -> None:
        """Look at the first training examples.

        Raises:
            DataError: If the last column looks like the labels, and the first like sentences, or a file begins with the
                names of its columns.
        """
        files = {
            source.name: [example for _, example in islice(source.read(ignore_bad_line), _LOOKED_AT)]
            for source in self.splits["train"]
        }
        for file, looked_at in files.items():
            _check_header(file, [example.label for example in looked_at])
        name, examples = next(iter(files.items()))
        first = {example.label for example in examples}
        last = Counter(example.second or example.first for example in examples)
        few = len(last) <= _FEW_LABELS * len(examples) and len(first) >= _MANY_SENTENCES * len(examples)
        if len(examples) >= _FEWEST and few:
            shown = ", ".join(repr(text[:40]) for text, _ in last.most_common(3))
            raise DataError(
                f"{name}: expected the label in the first column, found {len(first):,} different texts there in "
                f"{len(examples):,} examples, and {len(last):,} in the last, such as {shown}: put the label first"
            )


def examples_in_files(
    files: Mapping[SplitName, Sequence[Path]], *, valid_examples: int | None, test_examples: int | None
) -> LabelledCorpus:
    """A corpus of labelled examples in files.

    Args:
        files: For each split, its files; ``train`` must have some.
        valid_examples: Examples to hold out for validation; see :func:`lite_nlp.data.holdout.hold_out`.
        test_examples: The same for the test.
    """
    splits = {name: [LabelledFile(path) for path in paths] for name, paths in files.items() if paths}
    rule = hold_out(valid_examples, test_examples, given=len(splits) > 1)
    return LabelledCorpus(splits=splits, rule=rule)


def _check_header(file: str, labels: Sequence[str]) -> None:
    """Refuse a file whose first label is the name of a column, and none of the labels after it.

    Raises:
        DataError: If it is one.
    """
    if len(labels) >= _FEWEST and labels[0].lower() in _COLUMN_NAMES and labels.count(labels[0]) == 1:
        raise DataError(
            f"{file}: expected an example on each line, found the names of the columns on the first, with the "
            f"label {labels[0]!r}: remove that line"
        )


def collect_labels(examples: Iterable[Example], *, excluded: Callable[[], int] = lambda: 0) -> tuple[str, ...]:
    """The different labels of ``examples``, sorted.

    Args:
        examples: Of the training split.
        excluded: At their end, how many others are left out since they share a sentence with a held-out one.

    Raises:
        DataError: If there are fewer than two or more than :data:`MAX_LABELS`.
    """
    labels: set[str] = set()
    for example in examples:
        labels.add(example.label)
        if len(labels) > MAX_LABELS:
            raise DataError(
                f"labels: expected at most {MAX_LABELS:,} different ones, found more, such as {example.label[:40]!r}; "
                "the label is the first column"
            )
    if len(labels) < 2:
        found = ", ".join(map(repr, labels)) or "none"
        others = excluded()
        reason = (
            f"; {others:,} examples share a sentence with a held-out one and are left out: {FEWER}" if others else ""
        )
        raise DataError(f"labels: expected at least two different ones, found {found}{reason}")
    return tuple(sorted(labels))


def _examine(line: bytes | LongLine, columns: int) -> Example | Reason:
    """The example that the raw line holds, or why it holds none."""
    if isinstance(line, LongLine):
        return "too_long"
    cells = line.split(b"\t")
    if len(cells) != columns:
        return "missing_tab" if len(cells) < columns else "extra_tab"
    try:
        texts = [cell.decode("utf-8").strip() for cell in cells]
    except UnicodeDecodeError:
        return "invalid_utf8"
    if not all(texts):
        return "empty_side"
    if max(map(len, texts)) > MAX_CHARACTERS:
        return "too_long"
    label, first, *second = texts
    return Example(label, first, second[0] if second else "")
