"""Translation of lines: tokenize, batch, search, restore the order."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, Protocol

from lite_nlp.decoding.search import SearchOptions, StepModel, search, stream_search

__all__ = ["LongInput", "TextCodec", "Translator", "split_sentences", "split_text"]

#: Treatment of a line that is too long for the model: translate it in pieces, or its beginning alone.
LongInput = Literal["split", "truncate"]

#: A line with at least this fraction of letters that the vocabulary has no token for is reported.
_UNFAMILIAR: Final = 0.25

#: Batches per window: lines are sorted by length inside a window, and its translations come out together.
_WINDOW_BATCHES: Final = 16

#: Closing punctuation, with quotes and brackets after it, then space; or the ideographic full stops, without space.
_SENTENCE_END: Final = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？]\s*")  # noqa: RUF001 - these are the characters meant
_SPACE: Final = re.compile(r"\s+")


class TextCodec(Protocol):
    """The tokenizer interface of a translator."""

    def encode(self, text: str) -> list[int]:
        """Token ids without special ids."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids."""
        ...

    def unfamiliar(self, text: str) -> float:
        """Fraction of the letters of ``text`` that the vocabulary has no token for."""
        ...


class Translator:
    """Translator of lines with any engine: every line gets a translation, whatever it contains.

    An empty or blank line gives an empty line. A line of more than ``max_source_tokens`` tokens is cut into pieces
    (see ``split_text``), whose translations are joined by spaces, or cut off there: the summary of a text is not the
    summaries of its sentences. Letters unknown to the vocabulary are translated from their bytes. All three cases are
    reported to ``warn``.

    Args:
        tokenizer: Of the model.
        model: The engine.
        options: Search options.
        max_source_tokens: Longest source handed to the model, special ids not counted; at least 4, the bytes of one
            character.
        long_input: Whether a longer source is split or truncated.
        warn: Receives each warning, which starts with the line's number.
    """

    def __init__(
        self,
        *,
        tokenizer: TextCodec,
        model: StepModel,
        options: SearchOptions,
        max_source_tokens: int = 200,
        long_input: LongInput = "split",
        warn: Callable[[str], None],
    ) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._options = options
        self._max_source_tokens = max_source_tokens
        self._long_input = long_input
        self._warn = warn

    def translate_chunks(self, chunks: Iterable[Sequence[str]], *, batch_size: int) -> Iterator[str]:
        """Translate lines that arrive in chunks, such as ``read_chunks`` gives, one translation per line, in order.

        Nothing is held back for a later chunk. A large chunk is worked on in windows of some batches; the lines of a
        window are sorted by length, which saves padding, and put back in order.

        Args:
            chunks: Lists of lines.
            batch_size: Most sentences decoded at once.
        """
        window = batch_size * _WINDOW_BATCHES
        number = 1
        for chunk in chunks:
            for start in range(0, len(chunk), window):
                lines = chunk[start : start + window]
                yield from self._translate_window(lines, number, batch_size)
                number += len(lines)

    def translate_lines(self, lines: Sequence[str], *, batch_size: int) -> Iterator[str]:
        """Translate a complete list of lines, in order."""
        return self.translate_chunks([lines], batch_size=batch_size)

    def stream(self, line: str) -> Iterator[str]:
        """Translate one line and yield the text as it grows; the last is the whole translation.

        Stop iterating to cancel the search. With several hypotheses a later text may differ from an earlier one
        in more than its end.
        """
        finished: list[str] = []
        for tokens in self._encode(line, 1):
            output = ""
            for found in stream_search(self._model, tokens, self._options):
                output = self._tokenizer.decode(found)
                yield _one_line([*finished, output])
            finished.append(output)

    def _translate_window(self, lines: Sequence[str], first_number: int, batch_size: int) -> list[str]:
        pieces = [
            (index, tokens) for index, line in enumerate(lines) for tokens in self._encode(line, first_number + index)
        ]
        order = sorted(range(len(pieces)), key=lambda place: len(pieces[place][1]))
        outputs = [""] * len(pieces)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            found = search(self._model, [pieces[place][1] for place in batch], self._options)
            for place, hypothesis in zip(batch, found, strict=True):
                outputs[place] = self._tokenizer.decode(hypothesis.tokens)
        translations: list[list[str]] = [[] for _ in lines]
        for (index, _), output in zip(pieces, outputs, strict=True):
            translations[index].append(output)
        return [_one_line(parts) for parts in translations]

    def _encode(self, line: str, number: int) -> list[list[int]]:
        """Token ids of the pieces of a line; none if there is nothing to translate."""
        if not line.strip():
            return []
        tokens = self._tokenizer.encode(line)
        if not tokens:
            return []
        unfamiliar = self._tokenizer.unfamiliar(line)
        if unfamiliar >= _UNFAMILIAR:
            self._warn(
                f"line {number}: {unfamiliar:.0%} of its letters are unknown to the model's vocabulary; "
                "the translation may be meaningless"
            )
        if len(tokens) <= self._max_source_tokens:
            return [tokens]
        if self._long_input == "truncate":
            self._warn(f"line {number}: cut off after {self._max_source_tokens} of its {len(tokens)} tokens")
            return [tokens[: self._max_source_tokens]]
        pieces = split_text(line, lambda text: len(self._tokenizer.encode(text)), self._max_source_tokens)
        self._warn(
            f"line {number}: cut into {len(pieces)} pieces, translated one by one: it has {len(tokens)} tokens, "
            f"the model takes {self._max_source_tokens}"
        )
        return [ids for piece in pieces if (ids := self._tokenizer.encode(piece))]


def _one_line(parts: Iterable[str]) -> str:
    """The parts as one line: every kind of line break becomes a space."""
    return " ".join(" ".join(parts).splitlines())


def split_text(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    """Cut a text into pieces of at most ``max_tokens`` tokens; only white space at the cuts is lost.

    It is cut at every sentence end: models trained on sentences translate a sentence best. What is still too long is
    halved at the space nearest to its middle, else in its middle.

    Args:
        text: The text.
        count_tokens: Number of tokens of a piece.
        max_tokens: Bound of a piece; only a single character may exceed it.
    """
    return [piece for sentence in split_sentences(text) for piece in _halve(sentence, count_tokens, max_tokens)]


def split_sentences(text: str) -> list[str]:
    """Cut a text after closing punctuation; the parts are stripped, blank ones left out."""
    return _cut(text, [found.end() for found in _SENTENCE_END.finditer(text)])


def _halve(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    if len(text) == 1 or count_tokens(text) <= max_tokens:
        return [text]
    spaces = [found.end() for found in _SPACE.finditer(text)]
    middle = len(text) // 2
    place = min(spaces, key=lambda space: abs(space - middle), default=middle)
    return [piece for half in _cut(text, [place]) for piece in _halve(half, count_tokens, max_tokens)]


def _cut(text: str, places: Iterable[int]) -> list[str]:
    """The stripped parts of ``text`` between ``places``, blank ones left out."""
    bounds = [0, *places, len(text)]
    parts = [text[start:end].strip() for start, end in pairwise(bounds)]
    return [part for part in parts if part]
