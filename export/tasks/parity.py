"""Proof that a bundle of a language model or classifier says what the model says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import EOS_ID, PAD_ID
from lite_nlp.decoding.classify import ClassifierModel
from lite_nlp.decoding.continuation import GenerationOptions, TextStepModel, continue_rows

__all__ = ["LOG_PROB_TOLERANCE", "ScoredModel", "TaskParity", "compare_classifiers", "compare_language_models"]

#: Largest difference of two log-probabilities (nats), relative to the larger one where that is beyond 1.
LOG_PROB_TOLERANCE: Final = 1e-4

#: Rows of a batch, of mixed lengths.
_BATCH: Final = 12

_Tokens = Sequence[Sequence[int]]


class ScoredModel(TextStepModel, Protocol):
    """A language model that reads texts in parts and that scores whole ones."""

    def score(self, tokens: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""
        ...


@dataclass
class TaskParity:
    """Agreement of a runtime with the model.

    Attributes:
        rows: Texts or examples compared.
        tokens: Tokens of the model's continuations, end marks not counted; 0 of classifiers.
        log_probs: Log-probabilities compared.
        largest_error: Largest difference of two log-probabilities, relative where they are beyond 1.
        disagreements: Rows whose tokens or label differ.
    """

    rows: int = 0
    tokens: int = 0
    log_probs: int = 0
    largest_error: float = 0.0
    disagreements: list[int] = field(default_factory=list)

    def compare(self, expected: NDArray[Any], found: NDArray[Any]) -> None:
        """Take the log-probabilities of both into account."""
        scale = np.maximum(1.0, np.abs(expected))
        error = np.abs(expected.astype(np.float64) - found) / scale
        self.log_probs += error.size
        # NaN is no small error.
        self.largest_error = max(self.largest_error, float(np.nan_to_num(error, nan=np.inf).max(initial=0.0)))

    def require(self, *, runtime: str) -> None:
        """Refuse any disagreement.

        Raises:
            BundleError: If there is one; the message names the first.
        """
        if self.disagreements:
            raise BundleError(
                f"{runtime}: expected the model's own tokens and labels, found others in {len(self.disagreements)} of "
                f"{self.rows} rows, first in row {self.disagreements[0]}"
            )
        if not self.largest_error <= LOG_PROB_TOLERANCE:
            raise BundleError(
                f"{runtime}: expected log-probabilities within {LOG_PROB_TOLERANCE} of the model's, found a difference "
                f"of {self.largest_error:.2g}"
            )

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "sentences": self.rows,
            "tokens": self.tokens,
            "agreement": 1 - len(self.disagreements) / self.rows,
            "log_probs": self.log_probs,
            "largest_error": self.largest_error,
        }


def compare_language_models(
    reference: ScoredModel, candidate: ScoredModel, rows: _Tokens, *, max_tokens: int, max_positions: int
) -> TaskParity:
    """Continue the first half of each row greedily with both, in batches of mixed lengths, score and read whole rows.

    A row is read alone, since a batch reads no more tokens at once than its shortest row has.

    Args:
        reference: The model in torch.
        candidate: The exported one.
        rows: Token ids of the texts, without special ids; at least one.
        max_tokens: Most tokens of a continuation.
        max_positions: Most steps and tokens that both take.
    """
    found = TaskParity(rows=len(rows))
    options = GenerationOptions(max_tokens=max_tokens)
    for start in range(0, len(rows), _BATCH):
        batch = [list(row[: max_positions - 1]) for row in rows[start : start + _BATCH]]
        prompts, numbers = [row[: len(row) // 2] for row in batch], range(len(batch))
        both = [
            continue_rows(model, prompts, options, max_positions=max_positions, numbers=numbers)
            for model in (reference, candidate)
        ]
        for index, (expected, other) in enumerate(zip(*both, strict=True), start):
            found.tokens += len(expected.tokens)
            if (expected.tokens, expected.ended) != (other.tokens, other.ended):
                found.disagreements.append(index)
        tokens, labels = _text_batch(batch)
        scores = reference.score(tokens, labels), candidate.score(tokens, labels)
        found.compare(*(score[labels != PAD_ID] for score in scores))
        for row in batch:
            found.compare(*(_log_softmax(_read(model, [EOS_ID, *row])) for model in (reference, candidate)))
    return found


def compare_classifiers(reference: ClassifierModel, candidate: ClassifierModel, sides: Sequence[_Tokens]) -> TaskParity:
    """Classify with both, in batches of mixed lengths, and compare labels and log-probabilities.

    Args:
        reference: The model in torch.
        candidate: The exported one.
        sides: For each sentence of an example, token ids of the sentences without special ids.
    """
    found = TaskParity(rows=len(sides[0]))
    for start in range(0, len(sides[0]), _BATCH):
        sentences = [_sentence_batch(side[start : start + _BATCH]) for side in sides]
        expected, other = (_log_softmax(model.classify(sentences)) for model in (reference, candidate))
        found.compare(expected, other)
        different = np.flatnonzero(expected.argmax(axis=1) != other.argmax(axis=1))
        found.disagreements += (start + different).tolist()
    return found


def _read(model: TextStepModel, tokens: Sequence[int]) -> NDArray[np.float32]:
    """The logits (1, V) after tokens, as many of which are read at once as the model takes."""
    state = model.start(1, len(tokens))
    for start in range(0, len(tokens), model.max_read):
        logits, state = model.read(np.array([tokens[start : start + model.max_read]], np.int64), state)
    return logits


def _text_batch(rows: _Tokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Inputs and labels, both (B, T): the end mark before each text and after it, padding on the right."""
    width = max(len(row) for row in rows) + 1
    tokens, labels = (np.full((len(rows), width), PAD_ID, np.int64) for _ in range(2))
    for index, row in enumerate(rows):
        tokens[index, : len(row) + 1] = [EOS_ID, *row]
        labels[index, : len(row) + 1] = [*row, EOS_ID]
    return tokens, labels


def _sentence_batch(rows: _Tokens) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    _, labels = _text_batch(rows)
    return labels, labels != PAD_ID


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found
