"""The proof of a bundle of a language model or classifier: whatever differs is found."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.tasks.parity import compare_classifiers, compare_language_models

TYPES = 11
ROWS = [[3, 4, 5, 6], [7], [], [8, 9, 10, 3, 4, 5, 6, 7], *[[number] * 3 for number in range(3, 11)]]


class TableText:
    """The next token's logits depend on the token alone."""

    max_read = 3

    def most_rows(self, prompt: int, limit: int) -> None:
        """Any number."""

    def __init__(self) -> None:
        self.table = np.random.default_rng(0).normal(size=(TYPES, TYPES)).astype(np.float32)

    def start(self, rows: int, capacity: int) -> int:
        return rows

    def read(self, tokens: NDArray[np.int64], state: int) -> tuple[NDArray[np.float32], int]:
        return self.table[tokens[:, -1]], state

    def reorder(self, state: int, rows: NDArray[np.int64]) -> int:
        return len(rows)

    def score(self, tokens: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float32]:
        logits = self.table[tokens].astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        found: NDArray[np.float32] = np.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0].astype(
            np.float32
        )
        return found


class CountingClassifier:
    def __init__(self, *, slope: float = 0.4) -> None:
        self.slope = slope

    def classify(self, sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> NDArray[np.float32]:
        lengths = sum(mask.sum(axis=1) for _, mask in sentences)
        return np.stack([self.slope * lengths, np.full(len(lengths), 2.1)], axis=1).astype(np.float32)


def compare(other: TableText) -> Any:
    return compare_language_models(TableText(), other, ROWS, max_tokens=5, max_positions=12)


def test_the_same_model_agrees() -> None:
    found = compare(TableText())
    found.require(runtime="onnx")
    assert found.to_json() == {
        "sentences": len(ROWS),
        "tokens": found.tokens,
        "agreement": 1.0,
        # Each token of the texts, and the end marks; and all types after each text.
        "log_probs": sum(len(row) + 1 + TYPES for row in ROWS),
        "largest_error": 0.0,
    }
    assert found.tokens > len(ROWS)
    same = compare_classifiers(CountingClassifier(), CountingClassifier(), [ROWS, ROWS[::-1]])
    same.require(runtime="onnx")
    assert (same.rows, same.tokens, same.log_probs) == (len(ROWS), 0, 2 * len(ROWS))


def test_another_token_is_found() -> None:
    other = TableText()
    # The likeliest after 4 is another, the probabilities of texts stay.
    other.read = lambda tokens, state: (  # type: ignore[method-assign]
        np.roll(other.table[tokens[:, -1]], 1, axis=1),
        state,
    )
    with pytest.raises(
        BundleError, match=r"onnx: expected the model's own tokens and labels, found others in \d+ of 12"
    ):
        compare(other).require(runtime="onnx")


def test_other_words_after_many_tokens_at_once_are_found() -> None:
    other = TableText()
    # In a batch one row has no token beside its mark: there tokens are read one by one.
    other.read = lambda tokens, state: (  # type: ignore[method-assign]
        other.table[tokens[:, -1]] + np.float32(tokens.shape[1] == other.max_read) * np.arange(TYPES, dtype=np.float32),
        state,
    )
    with pytest.raises(BundleError, match=r"onnx: expected log-probabilities within .* found a difference of"):
        compare(other).require(runtime="onnx")


def test_another_probability_is_found() -> None:
    other = TableText()
    other.table = other.table + np.float32(1e-3) * np.arange(TYPES, dtype=np.float32)
    with pytest.raises(BundleError, match=r"log-probabilities within .* of the model's, found a difference of 0"):
        compare(other).require(runtime="onnx")
    other.score = lambda tokens, labels: np.full(tokens.shape, np.nan, np.float32)  # type: ignore[method-assign]
    with pytest.raises(BundleError, match="found a difference of inf"):
        compare(other).require(runtime="onnx")


def test_another_label_is_found() -> None:
    found = compare_classifiers(CountingClassifier(), CountingClassifier(slope=0.8), [ROWS])
    with pytest.raises(BundleError, match=r"found others in \d of 12 rows, first in row \d"):
        found.require(runtime="onnx")
    close = compare_classifiers(CountingClassifier(), CountingClassifier(slope=0.401), [ROWS])
    assert close.disagreements == []
    with pytest.raises(BundleError, match="found a difference of"):
        close.require(runtime="onnx")
