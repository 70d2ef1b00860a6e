"""Translation of lines: cut into pieces, tokenize, batch, search, restore the order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.decoding.hypotheses import length_penalty
from lite_nlp.decoding.lines import input_line, one_line, require_text
from lite_nlp.decoding.pieces import split_text
from lite_nlp.decoding.search import SearchOptions, StepModel, search, search_best, stream_search
from lite_nlp.decoding.text_codec import WHOLE_CHARACTERS, TextCodec, learned_spelling, warn_of_letters

__all__ = ["Alternative", "LongInput", "Translator"]

#: Treatment of a line that is too long for the model: translate it in pieces, or its beginning alone.
LongInput = Literal["split", "truncate"]

#: Batches per window: pieces are sorted by length inside a window, and its translations come out together.
_WINDOW_BATCHES: Final = 16

#: A stream says all of its text again at every step up to so many characters, then at every piece.
_STREAMED_CHARACTERS: Final = 20_000

#: Its text, or its tokens where these are known.
_Piece: TypeAlias = str | list[int]


class Alternative(NamedTuple):
    """One of several translations of a line: ``text``, and ``log_prob``, the logarithm of its probability (nats)."""

    text: str
    log_prob: float


class Translator:
    """Translator of lines with any engine: every line gets a translation, whatever it contains.

    An empty or blank line gives an empty line. A byte order mark before a line, a line break behind it and white space
    around it count for nothing, line breaks inside for spaces; the rest is spelled as the vocabulary knows it
    (see :func:`~lite_nlp.decoding.text_codec.learned_spelling`). A line of more than ``max_source_tokens`` tokens is
    cut into pieces (see :func:`~lite_nlp.decoding.pieces.split_text`), whose translations are joined by spaces, or cut
    off there: the summary of a text is not the summaries of its sentences. Letters unknown to the vocabulary are
    translated from their bytes. All three cases are reported to ``warn``. Beside the text of a line and its
    translation, memory is that of a window of pieces, however long the line.

    Args:
        tokenizer: Of the model.
        model: The engine.
        options: Search options.
        max_source_tokens: Longest source handed to the model, special ids not counted; at least 1. Of a character of
            more tokens the first are read.
        long_input: Whether a longer source is split or truncated.
        warn: Receives each warning, which starts with the line's number.
        progress: Receives the progress of each line that is longer than a window, in pieces.
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
        progress: Progress | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._options = options
        self._max_source_tokens = max_source_tokens
        self._long_input = long_input
        self._warn = warn
        self._progress = progress or SilentProgress()

    def translate_chunks(self, chunks: Iterable[Sequence[str]], *, batch_size: int) -> Iterator[str]:
        """Translate lines that arrive in chunks, such as ``read_chunks`` gives, one translation per line, in order.

        Nothing is held back for a later chunk. A large chunk is worked on in windows of some batches; the pieces of a
        window are sorted by length, which saves padding, and put back in order. A line of more pieces than that is
        worked on alone.

        Args:
            chunks: Lists of lines.
            batch_size: Most sentences decoded at once.
        """
        window = batch_size * _WINDOW_BATCHES
        number = 0
        for chunk in chunks:
            lines: list[list[_Piece]] = []
            held = 0
            for line in chunk:
                number += 1
                pieces = self._cut(line, number)
                if len(lines) == window or held + len(pieces) > window:
                    yield from self._translate_window(lines, batch_size)
                    lines, held = [], 0
                if len(pieces) > window:
                    yield self._translate_long(pieces, number, batch_size)
                else:
                    lines.append(pieces)
                    held += len(pieces)
            yield from self._translate_window(lines, batch_size)

    def translate_lines(self, lines: Sequence[str], *, batch_size: int) -> Iterator[str]:
        """Translate a complete list of lines, in order."""
        return self.translate_chunks([lines], batch_size=batch_size)

    def stream(self, text: str) -> Iterator[str]:
        """Translate a text line by line and yield its translation as it grows; the last, of any text, is the whole.

        Stop iterating to cancel the search. With several hypotheses a later text may differ from an earlier one
        in more than its end. Of a long text, only whole pieces are yielded after some thousand words.
        """
        finished = ""
        told: str | None = None
        for number, line in enumerate(require_text(text).split("\n"), start=1):
            finished += "\n" if number > 1 else ""
            output = ""
            for place, piece in enumerate(self._cut(line, number)):
                finished += f"{output} " if place else ""
                for found in stream_search(self._model, self._tokens(piece), self._options):
                    output = one_line(self._tokenizer.decode(found))
                    if len(finished) < _STREAMED_CHARACTERS:
                        told = finished + output
                        yield told
                if len(finished) >= _STREAMED_CHARACTERS:
                    told = finished + output
                    yield told
            finished += output
        if told != finished:
            yield finished

    def find_alternatives(self, lines: Sequence[str]) -> list[list[Alternative]]:
        """All finished hypotheses of the search for lines, at most ``beam_size`` each, decoded in one batch.

        Those that the tokenizer spells alike are one, whose probability is their sum; empty ones are left out. Pieces
        of a line have alternatives each, the line has none: one that is too long gets no alternative, unless it is to
        be truncated. Nor does a blank one.

        Args:
            lines: The lines.

        Returns:
            For each line its alternatives, the best by the length-penalized score first; possibly none.
        """
        heads = [self._source(line)[:WHOLE_CHARACTERS] for line in lines]
        sources = [self._tokenizer.encode(head) if head else [] for head in heads]
        if self._long_input == "truncate":
            sources = [tokens[: self._max_source_tokens] for tokens in sources]
        usable = [place for place, tokens in enumerate(sources) if 0 < len(tokens) <= self._max_source_tokens]
        options = self._options
        found = search_best(self._model, [sources[place] for place in usable], options, count=options.beam_size)
        alternatives: list[list[Alternative]] = [[] for _ in lines]
        for place, hypotheses in zip(usable, found, strict=True):
            log_probs: dict[str, float] = {}
            for hypothesis in hypotheses:
                text = one_line(self._tokenizer.decode(hypothesis.tokens))
                if text.strip() and np.isfinite(hypothesis.score):
                    penalty = length_penalty(len(hypothesis.tokens) + 1, options.length_penalty)
                    log_prob = hypothesis.score * float(penalty)
                    log_probs[text] = float(np.logaddexp(log_probs.get(text, -np.inf), log_prob))
            alternatives[place] = [Alternative(*item) for item in log_probs.items()]
        return alternatives

    def _translate_window(self, lines: Sequence[Sequence[_Piece]], batch_size: int) -> Iterator[str]:
        outputs = iter(self._search([piece for pieces in lines for piece in pieces], batch_size, _ignore))
        for pieces in lines:
            yield " ".join(next(outputs) for _ in pieces)

    def _translate_long(self, pieces: Sequence[_Piece], number: int, batch_size: int) -> str:
        """The translation of a line that is longer than a window."""
        window = batch_size * _WINDOW_BATCHES
        self._progress.start(f"line {number}, pieces", len(pieces))
        return " ".join(
            output
            for start in range(0, len(pieces), window)
            for output in self._search(pieces[start : start + window], batch_size, self._progress.advance)
        )

    def _search(self, pieces: Sequence[_Piece], batch_size: int, advance: Callable[[int], None]) -> list[str]:
        """The translations of pieces, in order; ``advance`` is told how many are ready."""
        sources = [self._tokens(piece) for piece in pieces]
        order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
        outputs = [""] * len(sources)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            found = search(self._model, [sources[place] for place in batch], self._options)
            for place, hypothesis in zip(batch, found, strict=True):
                outputs[place] = one_line(self._tokenizer.decode(hypothesis.tokens))
            advance(len(batch))
        return outputs

    def _tokens(self, piece: _Piece) -> list[int]:
        # One character may be more tokens than the model takes: a ligature that normalization spells out.
        return self._tokenizer.encode(piece)[: self._max_source_tokens] if isinstance(piece, str) else piece

    def _source(self, line: str) -> str:
        """A line as the model is to read it."""
        return learned_spelling(self._tokenizer, input_line(line))

    def _cut(self, line: str, number: int) -> list[_Piece]:
        """The pieces of a line; none if there is nothing to translate."""
        line = self._source(line)
        head = line[:WHOLE_CHARACTERS]
        if not line:
            return []
        tokens = self._tokenizer.encode(head)
        if not tokens:
            return []
        warn_of_letters(self._tokenizer, head, number, result="translation", warn=self._warn)
        whole, limit = len(line) == len(head), self._max_source_tokens
        if whole and len(tokens) <= limit:
            return [tokens]
        found = f"{len(tokens)} tokens" if whole else f"more than {len(tokens)} tokens"
        if self._long_input == "truncate":
            self._warn(f"line {number}: cut off after {limit} of its {found}")
            return [tokens[:limit]]
        pieces = split_text(line, lambda text: len(self._tokenizer.encode(text)), limit)
        self._warn(
            f"line {number}: cut into {len(pieces)} pieces, translated one by one: it has {found}, "
            f"the model takes {limit}"
        )
        return list(pieces)


def _ignore(pieces: int) -> None:
    del pieces
