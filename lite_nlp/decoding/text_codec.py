"""The tokenizer interface of translators, generators and classifiers, and what they have to say about a line."""

import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol

__all__ = ["WHOLE_CHARACTERS", "TextCodec", "learned_spelling", "warn_of_letters"]

#: A line with at least this fraction of letters that the vocabulary has no token for is reported.
_UNFAMILIAR: Final = 0.25

#: Characters of a line that are tokenized at once, which takes some 150 bytes for each token: those of the longest
#: document that is summarized. What is beyond is only tokenized in pieces, if it is read at all.
WHOLE_CHARACTERS: Final = 100_000


_SPACES: Final = re.compile(r"\s{2,}|\t")

#: Apostrophes as phones and text processors write them, and the one of ASCII.
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc", "'"))


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
    space, which some languages write before punctuation, stays. A typographic apostrophe is that of ASCII where the
    vocabulary then has fewer tokens for the line: of "isn't" it may know "'t", and of the other spelling the letters
    alone, without the negation. A vocabulary learned from that one keeps it.
    """
    text = _SPACES.sub(" ", text.strip())
    plain = text.translate(_APOSTROPHES)
    if plain == text:
        return text
    before, after = (len(tokenizer.encode(spelled[:WHOLE_CHARACTERS])) for spelled in (text, plain))
    return plain if after < before else text


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
