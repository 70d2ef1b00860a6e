"""Several models that search together: probabilities by hand, and the search over them."""

import numpy as np
import pytest

from lite_nlp.core.errors import ModelError
from lite_nlp.core.special_tokens import EOS_ID, SPECIAL_TOKENS
from lite_nlp.decoding.ensemble import EnsembleModel
from lite_nlp.decoding.search import SearchOptions, search

FIRST = len(SPECIAL_TOKENS)
VOCAB = FIRST + 3


class TableModel:
    """The same logits at every step for each row, whose state is the row's number and the steps so far."""

    def __init__(self, logits):
        self.logits = np.array(logits, np.float32)

    def start(self, src_tokens, src_mask, capacity):
        del src_mask, capacity
        return np.stack([np.arange(len(src_tokens)), np.zeros(len(src_tokens), np.int64)], axis=1)

    def step(self, tokens, state):
        assert len(tokens) == len(state)
        return self.logits[state[:, 1]], state + np.array([0, 1])

    def reorder(self, state, rows):
        return state[rows]


def logits_of(*probabilities):
    """Logits of ordinary tokens, shifted at random, so that they are no log-probabilities; the end mark is last."""
    row = np.full(VOCAB, -np.inf)
    row[:FIRST] = -1e9
    row[FIRST:] = np.log(probabilities[:-1])
    row[EOS_ID] = np.log(probabilities[-1])
    return row + np.random.default_rng(len(probabilities)).normal()


def test_probabilities_are_the_mean_of_those_of_the_members():
    one, two = TableModel([logits_of(0.7, 0.1, 0.1, 0.1)]), TableModel([logits_of(0.1, 0.5, 0.2, 0.2)])
    ensemble = EnsembleModel([one, two])
    state = ensemble.start(np.ones((2, 3), np.int64), np.ones((2, 3), bool), 4)
    log_probs, state = ensemble.step(np.array([1, 1]), state)
    found = np.exp(log_probs.astype(np.float64))
    np.testing.assert_allclose(found[:, FIRST:], [[0.4, 0.3, 0.15]] * 2, rtol=1e-5)
    np.testing.assert_allclose(found[:, EOS_ID], 0.15, rtol=1e-5)
    assert [own[:, 1].tolist() for own in state] == [[1, 1], [1, 1]]
    again = ensemble.reorder(state, np.array([1, 1, 0]))
    assert [own[:, 0].tolist() for own in again] == [[1, 1, 0]] * 2


def test_what_no_member_holds_possible_is_not_chosen_and_no_warning_is_raised():
    sure = np.full(VOCAB, -500.0)
    sure[FIRST] = 0.0
    log_probs, _ = EnsembleModel([TableModel([sure])] * 2).step(np.array([1]), [np.zeros((1, 2), np.int64)] * 2)
    assert log_probs[0, FIRST] == pytest.approx(0.0, abs=1e-6)
    assert np.isneginf(log_probs[0, FIRST + 1])


def test_the_end_mark_stays_possible_where_the_steps_are_used_up():
    sure = np.full(VOCAB, -60.0)
    sure[FIRST] = 60.0
    (alone,) = search(TableModel([sure] * 4), [[FIRST]], SearchOptions(max_steps=4))
    (together,) = search(EnsembleModel([TableModel([sure] * 4)] * 2), [[FIRST]], SearchOptions(max_steps=4))
    assert together.tokens == alone.tokens == [FIRST] * 3


@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_follows_what_the_members_say_together(beam):
    # Alone the first model begins with token 0 and the second with token 1; together token 2 is the likeliest.
    one = TableModel([logits_of(0.5, 0.05, 0.4, 0.05), logits_of(0.1, 0.1, 0.1, 0.7)])
    two = TableModel([logits_of(0.05, 0.5, 0.4, 0.05), logits_of(0.1, 0.1, 0.1, 0.7)])
    options = SearchOptions(beam_size=beam, max_steps=2, length_penalty=0.0)

    def found(*members):
        return [hypothesis.tokens for hypothesis in search(EnsembleModel(members), [[7], [8, 9]], options)]

    assert found(one) == [[FIRST]] * 2
    assert found(two) == [[FIRST + 1]] * 2
    assert found(one, two) == [[FIRST + 2]] * 2


def test_a_damaged_member_is_an_error():
    bad = TableModel([np.full(VOCAB, np.nan)])
    good = TableModel([np.zeros(VOCAB)])
    state = [np.zeros((1, 2), np.int64)] * 2
    with pytest.raises(ModelError, match="expected finite logits"):
        EnsembleModel([good, bad]).step(np.array([1]), state)
