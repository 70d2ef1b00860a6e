"""Text in other tokens: the same text, merges of the tokenizer, and as many left out as asked for."""

import json

import numpy as np
import pytest

from lite_nlp.data.bpe_dropout import Segmentations
from lite_nlp.data.tokenizer import Tokenizer
from tests.unit.data.test_tokenizer import HARD_LINES, LINES


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, vocab_size=400)


def _rows(tokenizer: Tokenizer, lines: list[str]) -> list[np.ndarray]:
    return [np.array(ids, dtype=np.int32) for ids in tokenizer.encode_batch(lines)]


def _draw(tokenizer: Tokenizer, rate: float, lines: list[str], seed: int = 1) -> list[np.ndarray]:
    segmentations = Segmentations(tokenizer, rate=rate, seed=1)
    return segmentations.draw(_rows(tokenizer, lines), np.random.default_rng(seed))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.99])
def test_the_text_is_the_same(tokenizer: Tokenizer, rate: float) -> None:
    lines = [*LINES, *HARD_LINES]
    assert [tokenizer.decode(row) for row in _draw(tokenizer, rate, lines)] == lines


def test_types_longer_than_words_stay_whole() -> None:
    dashes = Tokenizer.train(["-" * 1000, "=" * 100, "a dash"] * 20, vocab_size=400)
    assert max(map(len, json.loads(dashes.to_json())["model"]["vocab"])) > 128
    usual = _rows(dashes, ["-" * 1000, "=" * 100])
    long, short = _draw(dashes, 0.9, ["-" * 1000, "=" * 100])
    assert np.array_equal(long, usual[0])
    assert len(short) > len(usual[1])


def test_without_dropout_tokens_are_the_usual_ones(tokenizer: Tokenizer) -> None:
    usual = _rows(tokenizer, LINES)
    assert all(map(np.array_equal, _draw(tokenizer, 0.0, LINES), usual))


def test_sequences_grow_with_the_rate_up_to_bytes(tokenizer: Tokenizer) -> None:
    text_bytes = sum(len(f" {line}".encode()) for line in LINES)
    lengths = [sum(map(len, _draw(tokenizer, rate, LINES))) for rate in (0.0, 0.05, 0.2, 0.6, 0.999)]
    assert lengths == sorted(lengths)
    assert lengths[1] > lengths[0]
    assert 0.98 * text_bytes < lengths[-1] <= text_bytes


def test_draws_differ_between_places_and_repeat_with_the_seed(tokenizer: Tokenizer) -> None:
    lines = LINES[:1] * 40
    first = _draw(tokenizer, 0.3, lines)
    assert len({tuple(row) for row in first}) > 5
    assert all(map(np.array_equal, first, _draw(tokenizer, 0.3, lines)))
    assert not all(map(np.array_equal, first, _draw(tokenizer, 0.3, lines, seed=2)))


def test_one_merge_is_left_out_as_often_as_asked_for() -> None:
    tokenizer = Tokenizer.train(["ab"] * 9, vocab_size=260)
    (pair,) = tokenizer.encode("ab")[-1:]
    row = np.full(4_000, pair, dtype=np.int32)
    # Of a token of one merge, so many draws of the table are the merge's two parts.
    kept = [
        float(np.mean(Segmentations(tokenizer, rate=0.25, seed=seed).draw([row], np.random.default_rng(0))[0] == pair))
        for seed in range(12)
    ]
    of_segmentations = [share / (share + (1 - share) / 2) for share in kept]
    assert np.mean(of_segmentations) == pytest.approx(0.75, abs=0.06)


def test_rows_may_be_empty(tokenizer: Tokenizer) -> None:
    segmentations = Segmentations(tokenizer, rate=0.5, seed=1)
    empty, row = np.zeros(0, dtype=np.int32), _rows(tokenizer, LINES)[0]
    rng = np.random.default_rng(1)
    assert [len(drawn) for drawn in segmentations.draw([empty, empty], rng)] == [0, 0]
    first, middle, last = segmentations.draw([empty, row, empty], rng)
    assert (len(first), len(last)) == (0, 0)
    assert tokenizer.decode(middle) == LINES[0]
