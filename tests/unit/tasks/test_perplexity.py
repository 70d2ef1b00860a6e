"""The scoring protocol, on models whose likelihoods are known in closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from lite_nlp.core.errors import UndefinedScoreError, UsageError
from lite_nlp.data.text.directory import TextSplitInfo, TokenStream
from lite_nlp.tasks.language_modelling.scores import LikelihoodModel, TextScores, score_text, window_likelihoods

VOCAB = 50
CPU = torch.device("cpu")


def stream(length: int) -> TokenStream:
    tokens = np.random.default_rng(3).integers(3, VOCAB, size=length).astype(np.int32)
    return TokenStream("text", tokens, vocab_size=VOCAB)


def likelihood(model: LikelihoodModel, text: TokenStream, *, window: int, context: int) -> float:
    """Negative log-likelihood of a whole text, each of whose tokens is scored once."""
    windows = window_likelihoods(model, text, window=window, context=context, device=CPU)
    assert windows[:, 1].sum() == len(text)
    return float(windows[:, 0].sum())


class Uniform:
    """Any token is as likely as any other."""

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        return torch.full(tokens.shape, -math.log(VOCAB))


class ByPlace:
    """A token costs as many nats as its place in the window, counted from 1; remembers what was asked of it."""

    def __init__(self) -> None:
        self.windows: list[Tensor] = []

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        self.windows.append(tokens)
        return -torch.arange(1.0, tokens.shape[1] + 1).expand(tokens.shape)


class Copying:
    """Certain that the next token is the one it has just read, up to one nat."""

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        return -(tokens != labels).float()


@pytest.mark.parametrize(("window", "context"), [(8, 0), (8, 3), (8, 7), (200, 100), (512, 480)])
def test_a_uniform_model_has_the_vocabulary_as_perplexity(window: int, context: int) -> None:
    text = stream(100)
    nll = likelihood(Uniform(), text, window=window, context=context)
    assert nll == pytest.approx(100 * math.log(VOCAB), rel=1e-6)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 11, 12, 40, 41, 43])
def test_every_token_has_its_context(length: int) -> None:
    """Windows of 8 with 5 of context: places 1 to 8 of the first, places 6, 7, 8 of the others."""
    expected = 0
    for index in range(length):
        expected += index + 1 if index < 8 else 6 + (index - 8) % 3
    assert likelihood(ByPlace(), stream(length), window=8, context=5) == expected


def test_without_context_windows_are_neighbours() -> None:
    model = ByPlace()
    assert likelihood(model, stream(20), window=8, context=0) == 2 * 36 + 10
    assert sum(int(window.shape[0]) for window in model.windows) == 3


def test_what_is_read_is_what_stands_before_what_is_said() -> None:
    repeated = TokenStream("text", np.array([7] * 30, dtype=np.int32), vocab_size=VOCAB)
    # Only the first token comes after something else: the line end before the text.
    assert likelihood(Copying(), repeated, window=8, context=3) == 1.0


def test_scores_per_token_word_character_and_byte() -> None:
    counts = TextSplitInfo(tokens=100, lines=4, words=16, characters=110, bytes=125, sources=["text"], skipped={})
    scores = score_text(Uniform(), stream(100), counts, window=64, context=32, device=CPU)
    nll = 100 * math.log(50.0)
    assert scores.as_dict() == {
        "perplexity": pytest.approx(50.0),
        "perplexity_low": pytest.approx(50.0),
        "perplexity_high": pytest.approx(50.0),
        # 16 words and 4 line ends: 50^(100/20)
        "word_perplexity": pytest.approx(50.0**5),
        "bits_per_character": pytest.approx(math.log2(50.0) * 100 / 110),
        "bits_per_byte": pytest.approx(math.log2(50.0) * 0.8),
        "nll": pytest.approx(nll),
    }
    assert (scores.tokens, scores.words, scores.window, scores.context) == (100, 20, 64, 32)
    assert scores.windows[:, 1].tolist() == [64, 32, 4]
    assert scores.measure.value == pytest.approx(50.0)
    assert scores.measure.interval == pytest.approx((50.0, 50.0))


def test_a_likelihood_that_is_no_number_is_no_score() -> None:
    class Damaged:
        def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
            return torch.full(tokens.shape, math.nan)

    counts = TextSplitInfo(tokens=100, lines=4, words=16, characters=110, bytes=125, sources=["text"], skipped={})
    with pytest.raises(UndefinedScoreError, match="expected finite log-probabilities, found NaN or infinity"):
        score_text(Damaged(), stream(100), counts, window=64, context=32, device=CPU)


def test_the_interval_is_that_of_windows_drawn_anew() -> None:
    """Windows of 4 tokens, each of one likelihood: the interval is narrower the more of them there are."""
    counts = TextSplitInfo(tokens=9, lines=1, words=1, characters=1, bytes=1, sources=["text"], skipped={})
    widths = []
    for length in (40, 4000):
        scores = score_text(ByPlace(), stream(length), counts, window=4, context=0, device=CPU)
        assert scores.interval is not None
        assert scores.interval[0] == pytest.approx(scores.perplexity)  # every window costs 1 + 2 + 3 + 4
        rows = np.stack([np.tile([4.0, 8.0], length // 8), np.full(length // 4, 4.0)], axis=1)
        varied = replace(scores, nll=float(rows[:, 0].sum()), windows=rows)
        low, high = varied.interval or (0.0, 0.0)
        assert varied.perplexity == pytest.approx(math.exp(1.5))
        assert low < varied.perplexity < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 5


def test_one_window_has_no_interval() -> None:
    counts = TextSplitInfo(tokens=5, lines=1, words=1, characters=1, bytes=1, sources=["text"], skipped={})
    scores = score_text(Uniform(), stream(5), counts, window=8, context=4, device=CPU).as_dict()
    assert (scores["perplexity_low"], scores["perplexity_high"]) == (None, None)


def test_a_hopeless_model_overflows_nothing() -> None:
    scores = TextScores(nll=1e6, tokens=1, words=1, characters=1, bytes=1, window=8, context=0, windows=np.ones((1, 2)))
    assert math.isfinite(scores.perplexity)
    assert math.isfinite(scores.word_perplexity)


@pytest.mark.parametrize("context", [-1, 8, 9])
def test_a_context_that_leaves_nothing_to_score_is_refused(context: int) -> None:
    with pytest.raises(UsageError, match=f"--context in windows of 8 tokens: expected 0 to 7, found {context}"):
        likelihood(Uniform(), stream(20), window=8, context=context)


def test_progress_ends_at_the_number_of_tokens() -> None:
    done: list[int] = []
    window_likelihoods(Uniform(), stream(5000), window=16, context=4, device=CPU, on_progress=done.append)
    assert done == sorted(done)
    assert done[-1] == 5000
    assert len(done) > 1
