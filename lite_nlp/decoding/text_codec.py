"""The tokenizer interface of translators, generators and classifiers, and what they have to say about a line."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, Protocol

__all__ = ["WHOLE_CHARACTERS", "TextCodec", "is_blank", "learned_spelling", "warn_of_letters"]

#: A line with at least this fraction of letters that the vocabulary has no token for is reported.
_UNFAMILIAR: Final = 0.25

#: Characters of a line that are tokenized at once, which takes some 150 bytes for each token: those of the longest
#: document that is summarized. What is beyond is only tokenized in pieces, if it is read at all.
WHOLE_CHARACTERS: Final = 100_000


_SPACES: Final = re.compile(r"\s{2,}|\t")

#: Apostrophes as phones and text processors write them, and the one of ASCII.
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc", "'"))

#: Soft hyphen, zero-width space, marks of direction, word joiner, byte order mark: left in text by what it was copied
#: from. Not the joiners U+200C and U+200D, which some scripts spell with.
_INVISIBLE: Final = str.maketrans(dict.fromkeys("\u00ad\u200b\u200e\u200f\u2060\ufeff"))

#: Other spellings of the same line, each tried on the result of those before it.
_RESPELLED: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text.translate(_INVISIBLE),
    lambda text: unicodedata.normalize("NFC", text),
    lambda text: text.translate(_APOSTROPHES),
)


class TextCodec(Protocol):
    """A tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Token ids without special ids."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids."""
        ...

    def unfamiliar(self, text: str) -> float:
        """Fraction of the letters of ``text`` that the vocabulary has no token for."""
        ...


def learned_spelling(tokenizer: TextCodec, text: str) -> str:
    """A line as the text that a model has learned from would spell it.

    White space around a line is no part of it there. A tab and a run of white space are one space; a single no-break
    space, which some languages write before punctuation, stays. What looks alike is spelled otherwise where the
    vocabulary then has fewer tokens for the line: without invisible characters, with composed letters (NFC), with the
    apostrophe of ASCII. Of "isn't" it may know "'t", and of the typographic spelling the letters alone, without the
    negation. A vocabulary learned from another spelling keeps that one.
    """
    text = _single_spaces(text)
    for respelled in _RESPELLED:
        other = _single_spaces(respelled(text))
        if other != text and _count_tokens(tokenizer, other) < _count_tokens(tokenizer, text):
            text = other
    return text


def is_blank(text: str) -> bool:
    """Whether a line has nothing to read: white space and invisible characters alone."""
    return not text.translate(_INVISIBLE).strip()


def _single_spaces(text: str) -> str:
    return _SPACES.sub(" ", text.strip())


def _count_tokens(tokenizer: TextCodec, text: str) -> int:
    return len(tokenizer.encode(text[:WHOLE_CHARACTERS]))


def warn_of_letters(tokenizer: TextCodec, text: str, number: int, *, result: str, warn: Callable[[str], None]) -> None:
    """Report a line if a quarter of its letters or more are unknown to the vocabulary.

    Args:
        tokenizer: Of the model.
        text: What of the line the model is given.
        number: Of the line, from 1.
        result: What the model makes of it, for the message.
        warn: Receives the warning.
    """
    unfamiliar = tokenizer.unfamiliar(text)
    if unfamiliar >= _UNFAMILIAR:
        warn(
            f"line {number}: {unfamiliar:.0%} of its letters are unknown to the model's vocabulary; "
            f"the {result} may be meaningless"
        )
