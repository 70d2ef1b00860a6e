"""Sources of text: what a corpus is made of, and reports of lines that cannot be used.

What cannot be used is reported by line number, never repaired.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from lite_nlp.data.choices import SplitName
from lite_nlp.data.holdout import SplitRule

__all__ = [
    "MEANINGS",
    "BadLine",
    "Corpus",
    "ItemSource",
    "OnBadLine",
    "Reason",
    "general_advice",
    "ignore_bad_line",
]

Reason = Literal[
    "missing_tab",
    "extra_tab",
    "empty_side",
    "invalid_utf8",
    "invalid_json",
    "missing_key",
    "missing_language",
    "length_ratio",
    "too_long",
    "unknown_label",
]

#: What each reason means, in a few words.
MEANINGS: Final[Mapping[str, str]] = {
    "missing_tab": "too few columns",
    "extra_tab": "too many columns",
    "empty_side": "no text in one of the places where it should be",
    "invalid_utf8": "bytes or characters that are not Unicode text",
    "invalid_json": "no JSON object",
    "missing_key": "a key is missing, or its value is no text",
    "missing_language": "one of the two languages is missing",
    "length_ratio": "one side is too long to be a translation of the other",
    "too_long": "more characters than a line may have",
    "unknown_label": "a label that no training example has",
}

#: What to do where most lines of a source are skipped for a reason, unless the source knows better.
_ADVICE: Final[Mapping[Reason, str]] = {
    "missing_tab": "separate the columns by tabs",
    "extra_tab": "remove the columns that are not used",
    "empty_side": "check that these are the right files and columns",
    "invalid_utf8": "the text is not UTF-8: convert it, such as with iconv -f LATIN1 -t UTF-8 FILE",
    "invalid_json": "write one JSON object on each line",
    "missing_key": "give the keys of source and target, --columns KEY,KEY",
    "missing_language": "give two languages that most units have, --src-lang and --tgt-lang",
    "length_ratio": "check that each line translates the one beside it",
    "too_long": "divide the text into sentences, one on each line",
    "unknown_label": "check that the label is the first column, and spelled as in the training examples",
}

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
        text: The line, or its beginning, as it was read.
    """

    file: str
    line: int
    reason: Reason
    text: bytes | str = b""


OnBadLine = Callable[[BadLine], None]


def ignore_bad_line(bad: BadLine) -> None:
    """Report nothing: for further passes over a source whose bad lines are known already."""


def general_advice(reason: Reason) -> str:
    """What to do where most lines of a source are skipped for ``reason``, whatever the format."""
    return _ADVICE[reason]


class ItemSource(Protocol[ItemT_co]):
    """A sequence of items that is read anew, and alike, in each pass."""

    @property
    def name(self) -> str:
        """Name of the source in reports."""

    @property
    def file(self) -> str:
        """The file in which lines are numbered; of two aligned files, the source."""

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, ItemT_co]]:
        """Yield number (from 1) and item of each usable line in order; pass the other lines to ``on_bad``.

        Raises:
            DataError: If a file is missing, empty, truncated, or does not match its partner.
        """

    def advise(self, reason: Reason) -> str:
        """What to do if most lines are skipped for ``reason``; the source may look at its first lines again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus(Generic[ItemT]):
    """The text that a data directory is prepared from.

    Attributes:
        splits: For each split, the sources it is made of, one after the other; ``train`` must be there.
        rule: Rule by which other splits are taken out of ``train``; None to take none.
    """

    splits: Mapping[SplitName, Sequence[ItemSource[ItemT]]]
    rule: SplitRule | None = None
