"""Sentence pairs as readers give them, and the bounds that a usable pair keeps to.

White space around a sentence is not part of it. Nothing else is changed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lite_nlp.data.choices import PairTask
from lite_nlp.data.lines import LongLine
from lite_nlp.data.sources import BadLine, Corpus, OnBadLine, Reason

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DOCUMENT_CHARACTERS",
    "MAX_LENGTH_RATIO",
    "RATIO_FREE_CHARACTERS",
    "Pair",
    "PairCorpus",
    "examine_bytes",
    "examine_texts",
    "max_line_bytes",
    "one_line",
    "raw_text",
    "usable_pairs",
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


def examine_bytes(
    src: bytes | LongLine, tgt: bytes | LongLine, *, check_ratio: bool, max_characters: int
) -> Pair | Reason:
    """The pair that two raw sides hold, or why they hold none."""
    if isinstance(src, LongLine) or isinstance(tgt, LongLine):
        return "too_long"
    try:
        sides = src.decode("utf-8"), tgt.decode("utf-8")
    except UnicodeDecodeError:
        return "invalid_utf8"
    return examine_texts(*sides, check_ratio=check_ratio, max_characters=max_characters)


def examine_texts(src: str, tgt: str, *, check_ratio: bool, max_characters: int) -> Pair | Reason:
    """The pair that two sides are, or why they are none."""
    src, tgt = src.strip(), tgt.strip()
    if not src or not tgt:
        return "empty_side"
    shorter, longer = sorted((len(src), len(tgt)))
    if longer > max_characters:
        return "too_long"
    if check_ratio and longer > RATIO_FREE_CHARACTERS and longer > MAX_LENGTH_RATIO * shorter:
        return "length_ratio"
    return src, tgt


def one_line(text: str) -> str:
    """``text`` with each line break, and the white space around it, as one space: a pair is a line a side."""
    if "\n" not in text and "\r" not in text:
        return text
    return " ".join(stripped for line in text.replace("\r", "\n").split("\n") if (stripped := line.strip()))


def max_line_bytes(max_characters: int = MAX_CHARACTERS) -> int:
    """Bytes that UTF-8 can need for a line of two sides; a longer line is skipped without being held in memory."""
    return 2 * _CHARACTER_BYTES * max_characters + 2


def raw_text(*lines: bytes | LongLine) -> bytes:
    """The lines as reports of bad lines show them."""
    return b" ||| ".join(line.start if isinstance(line, LongLine) else line for line in lines)


def usable_pairs(
    name: str,
    lines: Iterable[bytes | LongLine],
    examine: Callable[[bytes | LongLine], Pair | Reason],
    on_bad: OnBadLine,
) -> Iterator[tuple[int, Pair]]:
    """The pairs of a file with a pair on each line, and the number of each.

    Args:
        name: The file, as reports name it.
        lines: Its lines.
        examine: The pair of a line, or why it has none.
        on_bad: Receives each line without a pair.
    """
    for number, line in enumerate(lines, start=1):
        usable = examine(line)
        if isinstance(usable, str):
            on_bad(BadLine(name, number, usable, raw_text(line)))
        else:
            yield number, usable
