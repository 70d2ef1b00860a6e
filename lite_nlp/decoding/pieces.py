"""Long text in pieces that a model translates well, in linear time. The app's core holds the same rule in Kotlin."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

__all__ = ["BLOCK_CHARACTERS", "STRETCH_TOKENS", "split_sentences", "split_text"]

#: Tokens of a piece of a sentence that is too long: models are trained on sentences; on long text without an end they
#: repeat themselves, and are slow, since each step looks back at all that was written.
STRETCH_TOKENS: Final = 40

#: Characters that are halved, and counted, together: without this bound halving takes a time of n log n, and a text of
#: one long word is tokenized as one.
BLOCK_CHARACTERS: Final = 4_096

#: Closing punctuation, with quotes and brackets after it, then space; or the ideographic full stops, without space.
_SENTENCE_END: Final = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？]\s*")  # noqa: RUF001 - these are the characters meant
_SPACE: Final = re.compile(r"\s+")


def split_text(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    """Cut a text into pieces of at most ``max_tokens`` tokens; only white space at the cuts is lost.

    It is cut at every sentence end: models trained on sentences translate a sentence best. A sentence that is too long
    is cut into pieces of at most :data:`STRETCH_TOKENS` tokens: blocks of characters that end at a space are halved at
    the space nearest to their middle, else in their middle, until they are short enough.

    Args:
        text: The text.
        count_tokens: Number of tokens of a piece; it is given at most :data:`BLOCK_CHARACTERS` characters.
        max_tokens: Bound of a piece; only a single character may exceed it.
    """
    stretch = min(max_tokens, STRETCH_TOKENS)
    pieces: list[str] = []
    for sentence in split_sentences(text):
        if len(sentence) <= BLOCK_CHARACTERS and count_tokens(sentence) <= max_tokens:
            pieces.append(sentence)
            continue
        for block in _blocks(sentence):
            pieces += _halve(block, count_tokens, stretch)
    return pieces


def split_sentences(text: str) -> list[str]:
    """Cut a text after closing punctuation; the parts are stripped, blank ones left out."""
    return _cut(text, (found.end() for found in _SENTENCE_END.finditer(text)))


def _blocks(text: str) -> list[str]:
    """Parts of at most :data:`BLOCK_CHARACTERS`; each but the last ends behind the last space that it can, if any."""
    places = []
    start = 0
    while len(text) - start > BLOCK_CHARACTERS:
        place = limit = start + BLOCK_CHARACTERS
        while place > start and not text[place - 1].isspace():
            place -= 1
        start = place if place > start else limit
        places.append(start)
    return _cut(text, places)


def _halve(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    if len(text) == 1 or count_tokens(text) <= max_tokens:
        return [text]
    spaces = [found.end() for found in _SPACE.finditer(text)]
    middle = len(text) // 2
    place = min(spaces, key=lambda space: abs(space - middle), default=middle)
    return [piece for half in _cut(text, [place]) for piece in _halve(half, count_tokens, max_tokens)]


def _cut(text: str, places: Iterable[int]) -> list[str]:
    """The stripped parts of ``text`` between ``places``, blank ones left out."""
    parts = (text[start:end].strip() for start, end in pairwise(_bounded(places, len(text))))
    return [part for part in parts if part]


def _bounded(places: Iterable[int], length: int) -> Iterator[int]:
    yield 0
    yield from places
    yield length
