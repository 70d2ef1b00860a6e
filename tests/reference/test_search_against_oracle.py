"""The search against slow oracles: a beam search in plain Python over one sentence, and all sequences there are."""

import functools
import itertools
import math

import numpy as np
import pytest

from lite_nlp.decoding.search import SearchOptions, search, search_best
from tests.unit.decoding.beam_double import BeamDouble

PAD, BOS, EOS = 0, 1, 2
VOCAB = 6  # three words: 3, 4, 5


@functools.cache
def table_logits(seed, source, prefix):
    """Logits that depend on the whole source and the whole prefix, as those of a decoder do."""
    return np.random.default_rng([seed, *source, 99, *prefix]).normal(scale=1.5, size=VOCAB).astype(np.float32)


class TableModel:
    """A step model without weights whose state holds what it has read, so that a wrong reorder shows."""

    def __init__(self, seed):
        self.seed = seed
        self.rows = []

    def start(self, src_tokens, src_mask, capacity):
        self.capacity = capacity
        return [(tuple(tokens[mask].tolist()), ()) for tokens, mask in zip(src_tokens, src_mask, strict=True)]

    def step(self, tokens, state):
        self.rows.append(len(tokens))
        state = [(source, (*prefix, int(token))) for (source, prefix), token in zip(state, tokens, strict=True)]
        assert all(len(prefix) <= self.capacity for _, prefix in state)
        return np.stack([table_logits(self.seed, *row) for row in state]), state

    def reorder(self, state, rows):
        return [state[row] for row in rows]


def log_softmax(logits):
    logits = [float(value) for value in logits]
    largest = max(logits)
    total = math.log(sum(math.exp(value - largest) for value in logits)) + largest
    return [value - total for value in logits]


def repeats(tokens, size):
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return size > 0 and len(set(grams)) < len(grams)


def penalized(log_probability, steps, alpha):
    return log_probability / ((5 + steps) / 6) ** alpha


def oracle_beam(seed, row, options):
    """The finished hypotheses of beam search by its definition, best first.

    It stops only when enough are finished or no step is left.
    """
    source = (*row, EOS)
    limit = options.steps(len(row))
    live, finished = [(0.0, ())], []
    for step in range(1, limit + 1):
        candidates = []
        for score, tokens in live:
            log_probabilities = log_softmax(table_logits(seed, source, (BOS, *tokens)))
            for token in range(VOCAB):
                allowed = token == EOS if step == limit else token not in (PAD, BOS)
                if allowed and not (token != EOS and repeats((*tokens, token), options.no_repeat_ngram)):
                    candidates.append((score + log_probabilities[token], (*tokens, token)))
        candidates.sort(key=lambda candidate: -candidate[0])
        finished += [
            (penalized(score, step, options.length_penalty), tokens[:-1])
            for score, tokens in candidates[: options.beam_size]
            if tokens[-1] == EOS
        ]
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][: options.beam_size]
        if len(finished) >= options.beam_size or not live:
            break
    return sorted(finished, reverse=True)


def oracle_exhaustive(seed, row, options):
    source = (*row, EOS)
    best = (-math.inf, ())
    for words in range(options.steps(len(row))):
        for tokens in itertools.product(range(3, VOCAB), repeat=words):
            if repeats(tokens, options.no_repeat_ngram):
                continue
            score = sum(
                log_softmax(table_logits(seed, source, (BOS, *tokens[:place])))[token]
                for place, token in enumerate((*tokens, EOS))
            )
            best = max(best, (penalized(score, words + 1, options.length_penalty), tokens))
    return best


ROWS = [[3, 4, 5], [5], [4, 4, 3, 3, 5, 4], [3, 5], [4, 3, 4, 5]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("alpha", "ngram"), [(0.0, 0), (0.6, 0), (1.5, 2), (0.6, 1), (1.0, 3)])
def test_batched_search_equals_plain_beam_search(seed, beam_size, alpha, ngram):
    options = SearchOptions(
        beam_size=beam_size, length_penalty=alpha, no_repeat_ngram=ngram, max_length_ratio=1.5, max_length_extra=3
    )
    found = search(TableModel(seed), ROWS, options)
    for row, hypothesis in zip(ROWS, found, strict=True):
        score, tokens = oracle_beam(seed, row, options)[0]
        assert tuple(hypothesis.tokens) == tokens
        assert hypothesis.score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("beam_size", "count"), [(2, 2), (5, 1), (5, 3), (5, 5), (8, 8)])
@pytest.mark.parametrize(("alpha", "ngram"), [(0.0, 0), (0.6, 0), (1.5, 2)])
@pytest.mark.parametrize("model", [lambda model: model, BeamDouble], ids=["by-steps", "by-itself"])
def test_the_best_hypotheses_are_those_of_plain_beam_search(model, seed, beam_size, count, alpha, ngram):
    options = SearchOptions(
        beam_size=beam_size, length_penalty=alpha, no_repeat_ngram=ngram, max_length_ratio=1.5, max_length_extra=3
    )
    found = search_best(model(TableModel(seed)), ROWS, options, count=count)
    for row, hypotheses in zip(ROWS, found, strict=True):
        expected = oracle_beam(seed, row, options)[:count]
        assert [tuple(hypothesis.tokens) for hypothesis in hypotheses] == [tokens for _, tokens in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [score for score, _ in expected], abs=1e-5
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("alpha", "ngram"), [(0.0, 0), (0.8, 0), (2.0, 2), (1.0, 1)])
def test_a_beam_as_wide_as_the_tree_finds_the_best_sequence(seed, alpha, ngram):
    options = SearchOptions(
        beam_size=4**4, length_penalty=alpha, no_repeat_ngram=ngram, max_length_ratio=0.5, max_length_extra=3
    )
    rows = [[3, 4], [5], [4]]
    found = search(TableModel(seed), rows, options)
    for row, hypothesis in zip(rows, found, strict=True):
        score, tokens = oracle_exhaustive(seed, row, options)
        assert tuple(hypothesis.tokens) == tokens
        assert hypothesis.score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_one_place_is_greedy_search(seed):
    options = SearchOptions(max_length_ratio=2.0, max_length_extra=4)
    for row, hypothesis in zip(ROWS, search(TableModel(seed), ROWS, options), strict=True):
        tokens = []
        while len(tokens) < options.steps(len(row)) - 1:
            logits = table_logits(seed, (*row, EOS), (BOS, *tokens))
            token = max(range(EOS, VOCAB), key=lambda candidate: logits[candidate])
            if token == EOS:
                break
            tokens.append(token)
        assert hypothesis.tokens == tokens


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_does_not_depend_on_its_batch(beam_size):
    options = SearchOptions(beam_size=beam_size, length_penalty=1.0)
    together = search(TableModel(1), ROWS, options)
    alone = [search(TableModel(1), [row], options)[0] for row in ROWS]
    assert [found.tokens for found in together] == [found.tokens for found in alone]
    assert [found.score for found in together] == pytest.approx([found.score for found in alone], abs=1e-6)


def test_finished_sentences_leave_the_batch():
    model = TableModel(2)
    search(model, ROWS, SearchOptions(beam_size=2))
    assert model.rows[0] == len(ROWS)
    assert model.rows[1] <= 2 * len(ROWS)
    assert model.rows[1:] == sorted(model.rows[1:], reverse=True)
    assert model.rows[-1] < model.rows[1]
