"""Classification of lines by a model whose logits are known."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from lite_nlp.core.errors import DataError, ModelError
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.classify import Classification, Classifier, split_sentences

LABELS = ("few", "some", "many")


class CountingModel:
    """Its logits are the tokens of the sentences; keeps what it was given."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.rows: list[list[int]] = []

    def classify(self, sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> NDArray[np.float32]:
        self.batches.append(sentences[0][0].shape)
        for tokens, mask in sentences:
            assert (tokens[~mask] == 0).all()
            self.rows += [row[kept].tolist() for row, kept in zip(tokens, mask, strict=True)]
        counts = sum(mask.sum(axis=1) for _, mask in sentences)
        return np.stack([-0.5 * counts, np.zeros(len(counts)), 0.25 * counts - 1.0], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a b c d e f g"] * 2, vocab_size=300)


def classified(
    tokenizer: Tokenizer, chunks: Sequence[Sequence[Sequence[str]]], model: CountingModel, *, batch: int = 3
) -> tuple[list[Classification | None], list[str]]:
    told: list[str] = []
    classifier = Classifier(tokenizer=tokenizer, model=model, labels=LABELS, max_tokens=5, warn=told.append)
    return list(classifier.classify_chunks(chunks, batch_size=batch)), told


def test_line_breaks_and_a_byte_order_mark_are_no_words(tokenizer: Tokenizer) -> None:
    model = CountingModel()
    found, told = classified(tokenizer, [[["\ufeffa b\r\n"], ["a b"]]], model)
    assert found[0] == found[1]
    assert told == []


def test_probabilities_by_label_in_the_order_of_the_lines(tokenizer: Tokenizer) -> None:
    model = CountingModel()
    lines = [["a b c d e"], ["a"], [" "], ["a b c"], ["b"]]
    found, told = classified(tokenizer, [lines[:4], lines[4:]], model)
    assert told == []
    assert found[2] is None
    for (line,), one in zip(lines, found, strict=True):
        if one is None:
            continue
        count = len(line.split()) + 1
        expected = np.exp([-0.5 * count, 0.0, 0.25 * count - 1.0])
        assert list(one.probabilities) == list(LABELS)
        assert list(one.probabilities.values()) == pytest.approx(expected / expected.sum(), rel=1e-6)
        assert one.probability == one.probabilities[one.label] == max(one.probabilities.values())
    assert [one and one.label for one in found] == ["many", "some", None, "some", "some"]
    # Short ones together; every row ends with the end mark.
    assert model.batches == [(3, 6), (1, 2)]
    assert all(row[-1] == 2 for row in model.rows)


def test_batches_change_nothing(tokenizer: Tokenizer) -> None:
    lines = [[" ".join("abcde"[: 1 + number % 5])] for number in range(70)]
    found = [classified(tokenizer, [lines], CountingModel(), batch=batch)[0] for batch in (1, 2, 64)]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 70


def test_a_pair_with_one_blank_sentence_is_classified(tokenizer: Tokenizer) -> None:
    model = CountingModel()
    found, _ = classified(tokenizer, [[("", "a"), (" ", "")]], model)
    assert [one is None for one in found] == [False, True]
    assert model.rows[0] == [2]


@pytest.mark.parametrize("nothing", ["", " ", "\u2028", "\ufeff", "\u200b \u00ad"])
def test_what_cannot_be_seen_is_blank(tokenizer: Tokenizer, nothing: str) -> None:
    model = CountingModel()
    assert classified(tokenizer, [[[nothing], ["a"]]], model)[0][0] is None
    assert len(model.rows) == 1
    assert list(split_sentences([[nothing]], sentences=2, name="it")) == [[("", "")]]


def test_what_is_cut_off_or_unknown_is_told(tokenizer: Tokenizer) -> None:
    model = CountingModel()
    _, told = classified(tokenizer, [[["a"], ["a b c d e f g"]], [["これは"]]], model)
    assert told[0] == "line 2: cut off after 5 of its 7 tokens"
    assert told[1].startswith("line 3: 100% of its letters are unknown to the model's vocabulary; the label may be")
    assert max(map(len, model.rows)) == 6


def test_damaged_weights_are_told(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingModel, "classify", lambda *_: np.full((1, 3), np.nan, np.float32))
    with pytest.raises(ModelError, match="expected finite logits, found NaN"):
        classified(tokenizer, [[["a"]]], CountingModel())


def test_columns() -> None:
    chunks = [["a\tb", ""], ["c\t"], ["d\te", "f", "g\th"]]
    found = split_sentences(chunks, sentences=2, name="file")
    assert [next(found) for _ in range(3)] == [[("a", "b"), ("", "")], [("c", "")], [("d", "e")]]
    with pytest.raises(DataError, match="file: line 5: expected two sentences, separated by a tab, found 1 column"):
        next(found)
    with pytest.raises(DataError, match="line 1: expected one sentence, found 2 columns"):
        list(split_sentences([["a\tb"]], sentences=1, name="--text"))
