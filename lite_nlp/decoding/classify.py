"""Classification of lines of text: tokenize, batch, classify, restore the order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import DataError, UndefinedScoreError
from lite_nlp.core.special_tokens import EOS_ID, PAD_ID
from lite_nlp.decoding.lines import input_line
from lite_nlp.decoding.text_codec import WHOLE_CHARACTERS, TextCodec, is_blank, learned_spelling, warn_of_letters

__all__ = ["Classification", "Classifier", "ClassifierModel", "pad_sentences", "require_finite", "split_sentences"]

#: Batches per window: examples are sorted by length inside a window, and its labels come out together.
_WINDOW_BATCHES: Final = 16


class ClassifierModel(Protocol):
    """A classifier of sentences or pairs of them. B: rows, T: tokens of the longest sentence, C: classes."""

    def classify(self, sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> NDArray[np.float32]:
        """The logits (B, C) for the tokens and mask, both (B, T), of each sentence of an example."""
        ...


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The classes of an example.

    Attributes:
        label: The likeliest.
        probability: Its probability, 0 to 1.
        probabilities: The probability of every label, in the model's order; their sum is 1.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier:
    """Classifies examples with any engine.

    A sentence that is too long for the model is cut off, as in training and ``evaluate``. That, and letters unknown to
    the vocabulary, which are read from their bytes, are reported to ``warn``.

    Args:
        tokenizer: Of the model.
        model: The engine.
        labels: Names of the classes, in the order of the logits.
        max_tokens: Most tokens read of a sentence, the end mark not counted.
        warn: Receives each warning, which starts with the line's number.
    """

    def __init__(
        self,
        *,
        tokenizer: TextCodec,
        model: ClassifierModel,
        labels: Sequence[str],
        max_tokens: int,
        warn: Callable[[str], None],
    ) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._labels = tuple(labels)
        self._max_tokens = max_tokens
        self._warn = warn

    def classify_chunks(
        self, chunks: Iterable[Sequence[Sequence[str]]], *, batch_size: int
    ) -> Iterator[Classification | None]:
        """Classify examples that arrive in chunks, in order; None for one whose sentences are all blank.

        Nothing is held back for a later chunk. A large chunk is worked on in windows of some batches, whose examples
        are sorted by length and put back in order.

        Args:
            chunks: Lists of examples; each example has as many sentences as the model reads.
            batch_size: Most examples classified at once.

        Raises:
            ModelError: If the model's logits are not finite.
        """
        window = batch_size * _WINDOW_BATCHES
        number = 1
        for chunk in chunks:
            for start in range(0, len(chunk), window):
                examples = chunk[start : start + window]
                yield from self._window(examples, number, batch_size)
                number += len(examples)

    def _window(self, examples: Sequence[Sequence[str]], first: int, batch_size: int) -> list[Classification | None]:
        rows = {
            place: [self._tokens(sentence, first + place) for sentence in example]
            for place, example in enumerate(examples)
            if not all(map(is_blank, example))
        }
        found: list[Classification | None] = [None] * len(examples)
        order = sorted(rows, key=lambda place: max(map(len, rows[place])))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            sentences = [pad_sentences(side) for side in zip(*(rows[place] for place in batch), strict=True)]
            for place, probabilities in zip(batch, _softmax(self._model.classify(sentences)), strict=True):
                found[place] = self._describe(probabilities)
        return found

    def _tokens(self, sentence: str, number: int) -> list[int]:
        sentence = learned_spelling(self._tokenizer, input_line(sentence))
        head = sentence[:WHOLE_CHARACTERS]
        tokens = self._tokenizer.encode(head)
        warn_of_letters(self._tokenizer, head, number, result="label", warn=self._warn)
        if len(tokens) > self._max_tokens or len(head) < len(sentence):
            more = "more than " if len(head) < len(sentence) else ""
            self._warn(f"line {number}: cut off after {self._max_tokens} of its {more}{len(tokens)} tokens")
        return tokens[: self._max_tokens]

    def _describe(self, probabilities: NDArray[np.float64]) -> Classification:
        best = int(probabilities.argmax())
        named = dict(zip(self._labels, probabilities.tolist(), strict=True))
        return Classification(label=self._labels[best], probability=float(probabilities[best]), probabilities=named)


def split_sentences(chunks: Iterable[Sequence[str]], *, sentences: int, name: str) -> Iterator[list[tuple[str, ...]]]:
    """The sentences of lines in which they are separated by tabs; a blank line has none but blank ones.

    Args:
        chunks: Lists of lines, such as ``read_chunks`` gives.
        sentences: Sentences of an example.
        name: Stands for the input in messages.

    Raises:
        DataError: If a line has another number of them; the lines before it in its chunk have been yielded.
    """
    number = 1
    expected = "one sentence" if sentences == 1 else "two sentences, separated by a tab"
    for chunk in chunks:
        examples: list[tuple[str, ...]] = []
        for line in chunk:
            example = ("",) * sentences if is_blank(line) else tuple(line.split("\t"))
            if len(example) != sentences:
                if examples:
                    yield examples
                columns = f"{len(example)} column{'s' * (len(example) > 1)}"
                raise DataError(f"{name}: line {number}: expected {expected}, found {columns}")
            examples.append(example)
            number += 1
        yield examples


def pad_sentences(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Tokens and mask, both (B, T), of rows without special tokens; the end mark is added."""
    lengths = np.array([len(row) + 1 for row in rows])
    mask = np.arange(int(lengths.max())) < lengths[:, None]
    tokens = np.full(mask.shape, PAD_ID, np.int64)
    tokens[mask] = [token for row in rows for token in (*row, EOS_ID)]
    return tokens, mask


def require_finite(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """The logits of a classifier.

    Raises:
        UndefinedScoreError: If one is no number.
    """
    if not np.isfinite(logits).all():
        raise UndefinedScoreError("model: expected finite logits, found NaN or infinity; its weights are damaged")
    return logits


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = require_finite(logits).astype(np.float64)
    shifted = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
