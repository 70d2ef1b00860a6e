import numpy as np
import pytest

from lite_nlp.core.errors import ConfigError, ModelError
from lite_nlp.decoding.hypotheses import best_extension, length_penalty, rank_extensions, repeated_ngrams
from lite_nlp.decoding.search import SearchOptions, _Run, search, search_best, stream_search
from tests.unit.decoding.beam_double import BeamDouble


class FixedModel:
    """The same logits at every step, for every row."""

    def __init__(self, logits):
        self.logits = np.array(logits, np.float32)
        self.steps = 0

    def start(self, src_tokens, src_mask, capacity):
        self.src_tokens, self.src_mask, self.capacity = src_tokens, src_mask, capacity

    def step(self, tokens, state):
        self.steps += 1
        if self.steps == 1:
            self.first_tokens = tokens.copy()
        return np.tile(self.logits, (len(tokens), 1)), state

    def reorder(self, state, rows):
        return state


def test_no_sources_need_no_model():
    assert search(FixedModel([0.0]), [], SearchOptions()) == []


def test_sources_are_ended_and_padded_and_decoding_starts_with_bos():
    model = FixedModel([0, 0, 9, 0])
    search(model, [[3, 3, 3], [], [3]], SearchOptions())
    assert model.src_tokens.tolist() == [[3, 3, 3, 2], [2, 0, 0, 0], [3, 2, 0, 0]]
    assert model.src_mask.tolist() == [[True] * 4, [True, False, False, False], [True, True, False, False]]
    assert model.src_tokens.dtype == np.int64
    assert model.first_tokens.tolist() == [1, 1, 1]
    assert model.capacity == 16


def test_an_immediate_end_is_an_empty_translation_with_its_probability():
    found = search(FixedModel([0, 0, 2, 0]), [[3]], SearchOptions(length_penalty=0.0))[0]
    assert found.tokens == []
    assert found.score == pytest.approx(2 - np.log(3 + np.e**2))


@pytest.mark.parametrize("beam_size", [1, 2, 7])
def test_pad_and_bos_are_never_produced(beam_size):
    found = search(FixedModel([50, 40, 0, 1, 2]), [[3, 4]], SearchOptions(beam_size=beam_size))[0]
    assert set(found.tokens) <= {3, 4}


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_step_bound_follows_the_source_length_and_forces_the_end(beam_size):
    options = SearchOptions(beam_size=beam_size, max_length_ratio=1.5, max_length_extra=2, length_penalty=0.0)
    model = FixedModel([0, 0, -90, 5, 4, 4, 4, 4])
    found = search(model, [[3] * 2, [3] * 5], options)
    assert [len(hypothesis.tokens) for hypothesis in found] == [4, 8]
    assert model.steps == model.capacity == 9


def test_max_steps_bounds_every_sentence():
    found = search(FixedModel([0, 0, -90, 5]), [[3] * 50], SearchOptions(max_steps=7))[0]
    assert found.tokens == [3] * 6


def test_blocking_every_word_ends_the_sentence():
    found = search(FixedModel([0, 0, -9, 5, 4]), [[3] * 5], SearchOptions(no_repeat_ngram=1))[0]
    assert found.tokens == [3, 4]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_output_has_the_least_length_where_its_steps_allow(beam_size):
    options = SearchOptions(beam_size=beam_size, min_length=4, max_length_ratio=1.0, max_length_extra=1)
    found = search(FixedModel([0, 0, 9, 2, 1]), [[3] * 9, [3] * 4, [3]], options)
    assert [len(hypothesis.tokens) for hypothesis in found] == [4, 4, 1]
    assert [len(hypothesis.tokens) for hypothesis in search(FixedModel([0, 0, 9, 2]), [[3]], SearchOptions())] == [0]


def test_an_output_that_nothing_may_follow_ends_before_the_least_length():
    options = SearchOptions(min_length=4, no_repeat_ngram=1)
    assert search(FixedModel([0, 0, 1, 5, 4]), [[3] * 5], options)[0].tokens == [3, 4]


def test_fewer_words_than_places():
    found = search(FixedModel([0, 0, 1, 2]), [[3]], SearchOptions(beam_size=5, length_penalty=0.0))[0]
    assert found.tokens == []


def test_logits_are_left_as_they_are():
    logits = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    kept = logits.copy()
    blocked = (np.array([0, 1]), np.array([3, 4]))
    live = np.zeros((2, 1))
    best_extension(logits, live[:, 0], blocked)
    ends = [False, True]
    rank_extensions(logits, live, beam_size=2, must_end=ends, may_end=ends, blocked=blocked)
    np.testing.assert_array_equal(logits, kept)
    np.testing.assert_array_equal(live, np.zeros((2, 1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_damaged_weights_are_an_error_not_a_translation(bad):
    with pytest.raises(ModelError, match="expected finite logits at every step, found NaN or infinity"):
        search(FixedModel([0, 0, 1, bad]), [[3]], SearchOptions())


def test_length_penalty_is_that_of_gnmt():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.0) == 1.0
    assert length_penalty(7, 1.0) == pytest.approx(2.0)
    assert length_penalty(19, 0.5) == pytest.approx(2.0)


def test_repeated_ngrams():
    history = np.array([[3, 4, 3, 4, 3], [3, 4, 5, 6, 7]])
    rows, tokens = repeated_ngrams(history, 2)
    assert sorted(set(zip(rows.tolist(), tokens.tolist(), strict=True))) == [(0, 4)]
    rows, tokens = repeated_ngrams(history, 3)
    assert sorted(set(zip(rows.tolist(), tokens.tolist(), strict=True))) == [(0, 4)]
    rows, tokens = repeated_ngrams(history, 1)
    assert set(zip(rows.tolist(), tokens.tolist(), strict=True)) == {(0, 3), (0, 4), *((1, t) for t in range(3, 8))}
    assert repeated_ngrams(history, 6)[0].size == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size: expected at least 1, found 0"),
        ({"beam_size": 257}, "beam_size: expected at most 256, found 257"),
        ({"length_penalty": -0.5}, "length_penalty: expected at least 0, found -0.5"),
        ({"length_penalty": float("nan")}, "length_penalty: expected at least 0, found nan"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram: expected at least 0, found -1"),
        ({"max_length_extra": 0}, "max_length_extra: expected at least 1, found 0"),
        ({"min_length": -1}, "min_length: expected at least 0, found -1"),
        ({"max_steps": 0}, "max_steps: expected at least 1, found 0"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**options)


class ChainModel:
    """Logits that depend on the source, and on all tokens so far: a mixed up state would show."""

    def __init__(self, types=9):
        self.types = types

    def start(self, src_tokens, src_mask, capacity):
        return np.where(src_mask, src_tokens, 0).sum(axis=1)

    def step(self, tokens, state):
        state = state * 31 % 1009 + tokens
        return np.stack([np.random.default_rng(value).normal(size=self.types) for value in state]).astype(
            np.float32
        ), state

    def reorder(self, state, rows):
        return state[rows]


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(),
        SearchOptions(beam_size=4),
        SearchOptions(beam_size=3, no_repeat_ngram=1),
        SearchOptions(beam_size=2, no_repeat_ngram=2, min_length=5),
        SearchOptions(beam_size=12, length_penalty=1.0),
        SearchOptions(no_repeat_ngram=1, min_length=3),
    ],
)
def test_a_model_that_searches_by_itself_gives_the_same_hypotheses(options):
    sources = [[3, 4, 5], [6], [8, 3, 3, 7, 4, 4], [5, 5], [7, 7, 7, 7], [3], [4, 8], [6, 6, 6]]
    count = min(2, options.beam_size)
    expected = search_best(ChainModel(), sources, options, count=count)
    model = BeamDouble(ChainModel())
    found = search_best(model, sources, options, count=count)
    assert [[one.tokens for one in best] for best in found] == [[one.tokens for one in best] for best in expected]
    np.testing.assert_allclose([best[0].score for best in found], [best[0].score for best in expected], rtol=1e-12)
    assert len({len(best[0].tokens) for best in found}) > 1
    # Sentences leave while others go on; what no word blocks takes many steps in a call.
    assert {len(call.tokens) for call in model.calls} > {8}
    assert all((call.steps == 1) is (options.no_repeat_ngram > 0) for call in model.calls)
    streams = [list(stream_search(model, sources[2], options)) for model in (ChainModel(), BeamDouble(ChainModel()))]
    assert streams[0] == streams[1]


def test_a_call_knows_what_may_not_follow():
    model = BeamDouble(ChainModel())
    search(model, [[3, 4], [5]], SearchOptions(beam_size=2, no_repeat_ngram=1, min_length=3))
    first, second, third = model.calls[:3]
    assert (first.blocked.tolist(), first.count) == ([[-1]] * 4, 2)
    assert (second.blocked.tolist(), second.count) == (second.tokens.reshape(-1, 1).tolist(), 3)
    assert third.blocked.shape == (4, 2)
    assert {call.steps for call in model.calls} == {1}


@pytest.mark.parametrize("options", [{"beam_size": 2}, {"no_repeat_ngram": 2}])
def test_a_model_that_searches_by_itself_may_be_damaged_too(options):
    class Damaged(ChainModel):
        def step(self, tokens, state):
            logits, state = super().step(tokens, state)
            logits[-1, 4] = np.nan
            return logits, state

    with pytest.raises(ModelError, match="found NaN or infinity"):
        search(BeamDouble(Damaged()), [[3]], SearchOptions(**options))


class DrawnModel:
    """Logits of few words, drawn anew at each step for each source: ties are common, and so are words ruled out."""

    def __init__(self, seed):
        self.seed = seed

    def start(self, src_tokens, src_mask, capacity):
        return np.arange(len(src_tokens)), 0

    def step(self, tokens, state):
        sources, step = state
        draws = [np.random.default_rng([self.seed, source, step]) for source in sources]
        logits = np.array([draw.integers(0, 3, 7) for draw in draws], np.float32)
        ruled_out = np.array([draw.random(7) < 0.4 for draw in draws])
        # The softmax has to have something.
        ruled_out[:, 0] = False
        return np.where(ruled_out, np.float32(-np.inf), logits), (sources, step + 1)

    def reorder(self, state, rows):
        return state[0][rows], state[1]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(min_length=3), SearchOptions(no_repeat_ngram=1)])
def test_one_hypothesis_goes_on_as_if_it_were_ranked(monkeypatch, seed, options):
    sources = [[3] * (index % 4) for index in range(8)]
    found = search(DrawnModel(seed), sources, options)
    monkeypatch.setattr(_Run, "advance_one", _Run.advance)
    assert search(DrawnModel(seed), sources, options) == found


def _ranked_by_hand(logits, live, beam_size):
    """Scores and places of the best words of each sentence, and whether each end is among the best, one by one."""
    words, ends = [], []
    for scores, rows in zip(live, logits.astype(float).reshape(*live.shape, -1), strict=True):
        totals = scores[:, None] + rows - np.log(np.exp(rows).sum(axis=1))[:, None]
        ranked = [(-total, (place, token)) for (place, token), total in np.ndenumerate(totals[:, 3:])]
        best = sorted(ranked)[:beam_size]
        words.append([(-total, place, token + 3) if total < np.inf else None for total, (place, token) in best])
        every = sorted([*best, *((-total, (-1, place)) for place, total in enumerate(totals[:, 2]))])[:beam_size]
        kept = {place for total, (kind, place) in every if kind == -1 and total < np.inf}
        ends.append(sorted(kept))
    return words, ends


@pytest.mark.parametrize("beam_size", [1, 2, 5, 40])
@pytest.mark.parametrize("types", [1, 6, 63, 64, 65, 639, 640, 700, 6003])
def test_the_best_extensions_are_found_wherever_they_are(types, beam_size):
    random = np.random.default_rng(types)
    for spread in (1.0, 0.0):
        logits = (spread * random.normal(size=(9, types + 3))).astype(np.float32)
        # One row has its largest in the last column, one in the first; one has all but three ruled out.
        logits[0, -1], logits[1, 3], logits[2, 6:] = 9.0, 9.0, -np.inf
        # One sentence has a dead hypothesis, one has nothing but words that are ruled out.
        live, logits[6:, 3:] = np.round(-random.random((3, 3)), 2), -np.inf
        live[1, 2] = -np.inf
        found = rank_extensions(logits, live, beam_size=beam_size, must_end=[False] * 3, may_end=[True] * 3)
        words, ends = _ranked_by_hand(logits, live, beam_size)
        assert [one.ends for one in found] == ends
        for one, expected in zip(found, words, strict=True):
            alive = [word for word in expected if word is not None]
            scores = [score for score, _, _ in alive]
            assert len(one.scores) == len(one.parents) == len(one.tokens) == min(beam_size, 3 * types)
            np.testing.assert_allclose(one.scores[: len(alive)], scores, rtol=1e-5, atol=1e-5)
            assert all(score == -np.inf for score in one.scores[len(alive) :])
            places = list(zip(one.parents, one.tokens, strict=True))[: len(alive)]
            if spread:
                assert places == [(place, token) for _, place, token in alive]
            assert len(set(places)) == len(alive)
            assert all(3 <= token < types + 3 for token in one.tokens)


def test_of_equal_words_the_first_of_the_first_hypotheses_are_taken():
    logits = np.zeros((6, 700), np.float32)
    live = np.array([[-2.0, -1.0, -1.0], [-1.0, -3.0, -np.inf]])
    found = rank_extensions(logits, live, beam_size=4, must_end=[False] * 2, may_end=[True] * 2)
    assert [one.parents for one in found] == [[1] * 4, [0] * 4]
    assert [one.tokens for one in found] == [[3, 4, 5, 6]] * 2
    logits[1, 9:] = -1.0
    found = rank_extensions(logits, live, beam_size=700, must_end=[False] * 2, may_end=[True] * 2)
    # Where words are ruled out the others of a hypothesis are likelier.
    assert (found[0].parents[:6], found[0].tokens[:6]) == ([1] * 6, [*range(3, 9)])
    assert (found[0].parents[6:], found[0].tokens[6:]) == ([2] * 694, [*range(3, 697)])


@pytest.mark.parametrize("types", [1, 6, 6003])
def test_the_most_probable_word_is_the_first_of_equal_ones(types):
    logits = np.random.default_rng(types).integers(0, 3, (7, types + 3)).astype(np.float32)
    live = -np.arange(7.0)
    found = best_extension(logits, live)
    assert found.tokens.tolist() == [row.index(max(row)) + 3 for row in logits[:, 3:].tolist()]
    offsets = live - np.log(np.exp(logits.astype(float)).sum(axis=1))
    np.testing.assert_allclose(found.scores, offsets + logits[np.arange(7), found.tokens], rtol=1e-5)
    np.testing.assert_allclose(found.ends, offsets + logits[:, 2], rtol=1e-5)
