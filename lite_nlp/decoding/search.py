"""Greedy and beam search, one implementation for every engine, in NumPy.

The model is behind a small interface, ``StepModel``: the same search runs over PyTorch, ONNX Runtime and ExecuTorch.
Greedy search is beam search with one place.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.decoding.beams import BeamRun
from lite_nlp.decoding.hypotheses import (
    Blocked,
    Candidates,
    Hypothesis,
    best_extension,
    length_penalty,
    rank_extensions,
    repeated_ngrams,
)
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.step_models import BeamModel, GreedyModel, RowsModel, StepModel

__all__ = ["Hypothesis", "SearchOptions", "StepModel", "search", "search_best", "stream_search"]


def search(model: StepModel, src_rows: Sequence[Sequence[int]], options: SearchOptions) -> list[Hypothesis]:
    """The best hypothesis for every source, all of them in one batch.

    Every step ranks, for each sentence, all extensions of its live hypotheses. Ends among the ``beam_size`` best
    become finished hypotheses; the best ``beam_size`` others live on. A sentence is done, and leaves the batch, when
    ``beam_size`` hypotheses are finished, when no live one can overtake the best, or when its steps are used up. The
    result for a sentence does not depend on the others in the batch.

    Args:
        model: The engine.
        src_rows: Token ids of the sources, without special ids; the end mark is added here.
        options: Options of the search.

    Returns:
        One hypothesis per source, in the order of ``src_rows``.

    Raises:
        ModelError: If the model produces logits that are not finite.
    """
    return [best for best, *_ in search_best(model, src_rows, options, count=1)]


def search_best(
    model: StepModel, src_rows: Sequence[Sequence[int]], options: SearchOptions, *, count: int
) -> list[list[Hypothesis]]:
    """The best ``count`` hypotheses for every source, best first; arguments and errors as of :func:`search`.

    The search ends as that for the best one does, with the last of the ``count`` in the place of the best.

    Args:
        model: The engine.
        src_rows: Token ids of the sources, without special ids.
        options: Options of the search.
        count: 1 to ``options.beam_size``.

    Returns:
        One to ``count`` hypotheses per source: fewer where the steps are used up before so many are finished.
    """
    if not src_rows:
        return []
    if options.is_plain_greedy and isinstance(model, GreedyModel):
        return [[found] for found in _decode_greedily(model, src_rows, options)]
    limits = _limits(src_rows, options)
    if isinstance(model, BeamModel):
        beams = BeamRun(options, limits, count)
        for _ in beams.calls(model, *_pad_sources(src_rows)):
            pass
        return beams.found()
    found = []
    # As many sentences at once as the model is fast for; a larger beam is none of its few rows.
    few = model.most_rows // options.beam_size if isinstance(model, RowsModel) else 0
    group = few or len(src_rows)
    for start in range(0, len(src_rows), group):
        run = _Run(options, limits[start : start + group], count)
        for _ in run.steps(model, src_rows[start : start + group]):
            pass
        found += run.found()
    return found


def stream_search(model: StepModel, src_row: Sequence[int], options: SearchOptions) -> Iterator[list[int]]:
    """Search for one source step by step; stop iterating to cancel.

    Args:
        model: The engine.
        src_row: Token ids of the source, without special ids.
        options: Options of the search.

    Yields:
        The tokens of the best live hypothesis after each step, which a later step may replace where there are several;
        last the tokens that ``search`` returns.

    Raises:
        ModelError: If the model produces logits that are not finite.
    """
    limits = _limits([src_row], options)
    if isinstance(model, BeamModel):
        beams = BeamRun(options, limits, 1)
        for _ in beams.calls(model, *_pad_sources([src_row]), steps=1):
            yield beams.history[0, 0].tolist()
        yield beams.found()[0][0].tokens
        return
    run = _Run(options, limits, 1)
    for _ in run.steps(model, [src_row]):
        yield run.history[0].tolist()
    yield run.found()[0][0].tokens


def _decode_greedily(
    model: GreedyModel, src_rows: Sequence[Sequence[int]], options: SearchOptions
) -> Iterator[Hypothesis]:
    """The search's hypotheses from a model that takes all steps by itself."""
    limits = _limits(src_rows, options)
    tokens, log_probs = model.decode_greedily(*_pad_sources(src_rows), limits, options.min_length)
    for row, log_prob in zip(tokens.T.tolist(), log_probs.tolist(), strict=True):
        found = row[: row.index(EOS_ID)]
        yield Hypothesis(found, log_prob / float(length_penalty(len(found) + 1, options.length_penalty)))


def _limits(src_rows: Sequence[Sequence[int]], options: SearchOptions) -> NDArray[np.int64]:
    """(N,) steps allowed."""
    return np.array([options.steps(len(row)) for row in src_rows], np.int64)


def _pad_sources(src_rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    lengths = np.array([len(row) + 1 for row in src_rows])
    tokens = np.full((len(src_rows), int(lengths.max())), PAD_ID, np.int64)
    for index, row in enumerate(src_rows):
        tokens[index, : len(row)] = row
        tokens[index, len(row)] = EOS_ID
    return tokens, np.arange(tokens.shape[1]) < lengths[:, None]


class _Run:
    """The state of a search: S sentences still in the batch, W live hypotheses each, N sentences in all."""

    def __init__(self, options: SearchOptions, limits: NDArray[np.int64], count: int) -> None:
        sentences = len(limits)
        self.options = options
        self.limits = limits  # (N,) steps allowed
        self.count = count  # hypotheses wanted
        self.best: list[list[Hypothesis]] = [[] for _ in range(sentences)]  # at most so many, best first
        self.least = np.full(sentences, -np.inf)  # (N,) score that a hypothesis must exceed to be one of them
        self.finished = np.zeros(sentences, np.int64)  # (N,) finished hypotheses
        self.sentences = np.arange(sentences)  # (S,) their indices among the N
        self.live = np.zeros((sentences, 1))  # (S, W) log-probabilities
        self.latest = np.full(sentences, BOS_ID, np.int64)  # (S * W,) tokens to consume next
        self.rows = np.arange(sentences)  # (S * W,) rows of the latest step that they follow
        self.fed = sentences  # rows of the latest step
        self.history = np.zeros((sentences, 0), np.int64)  # (S * W, T) tokens produced

    def steps(self, model: StepModel, src_rows: Sequence[Sequence[int]]) -> Iterator[None]:
        """Take the steps, one at a time, until every sentence is done."""
        src_tokens, src_mask = _pad_sources(src_rows)
        state = model.start(src_tokens, src_mask, int(self.limits.max()))
        for step in count(1):
            if not np.array_equal(self.rows, np.arange(self.fed)):
                state = model.reorder(state, self.rows)
            logits, state = model.step(self.latest, state)
            size = self.options.no_repeat_ngram
            blocked = repeated_ngrams(self.history, size) if size else None
            if self.options.beam_size == 1:
                self.advance_one(logits, step, blocked)
            else:
                self.advance(logits, step, blocked)
            if not len(self.sentences):
                return
            yield

    def found(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of every sentence, at least one: that of an empty output, if there is none."""
        return [best or [Hypothesis()] for best in self.best]

    def advance(self, logits: NDArray[np.float32], step: int, blocked: Blocked | None) -> None:
        """Extend all hypotheses by step ``step`` (from 1), by words that are not ``blocked``."""
        must_end = self.limits[self.sentences] <= step
        candidates = rank_extensions(
            logits,
            self.live,
            beam_size=self.options.beam_size,
            must_end=must_end,
            may_end=must_end | (step > self.options.min_length),
            blocked=blocked,
        )
        self._finish(candidates, step)
        first = np.arange(len(self.sentences))[:, None] * self.live.shape[1]
        self._go_on(~self._done(candidates, step), first + candidates.parents, candidates.scores, candidates.tokens)

    def advance_one(self, logits: NDArray[np.float32], step: int, blocked: Blocked | None) -> None:
        """:meth:`advance` of one hypothesis for each sentence, where nothing has to be ranked."""
        best = best_extension(logits, self.live[:, 0], blocked)
        ends, scores = best.ends, best.scores
        # Of equal ones the end counts, as it does where both are ranked.
        ended = (self.limits[self.sentences] <= step) | (scores == -np.inf)
        if step > self.options.min_length:
            ended |= ends >= scores
        penalty = float(length_penalty(step, self.options.length_penalty))
        for row in np.flatnonzero(ended & (ends > -np.inf)):
            self.best[self.sentences[row]] = [Hypothesis(self.history[row].tolist(), float(ends[row]) / penalty)]
        self._go_on(~ended, np.arange(len(scores))[:, None], scores[:, None], best.tokens[:, None])

    def _go_on(
        self,
        going: NDArray[np.bool_],
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        tokens: NDArray[np.int64],
    ) -> None:
        """Keep the sentences that are ``going`` (S,), with new hypotheses (S, W): rows extended, scores, tokens."""
        self.fed = len(self.latest)
        self.rows = rows[going].reshape(-1)
        self.sentences = self.sentences[going]
        self.live = scores[going]
        self.latest = tokens[going].reshape(-1)
        self.history = np.concatenate([self.history[self.rows], self.latest[:, None]], axis=1)

    def _finish(self, candidates: Candidates, step: int) -> None:
        scores = candidates.end_scores / length_penalty(step, self.options.length_penalty)
        width = self.live.shape[1]
        for sentence, beam in zip(*np.nonzero(candidates.ends), strict=True):
            index = self.sentences[sentence]
            self.finished[index] += 1
            if scores[sentence, beam] > self.least[index]:
                best = self.best[index]
                found = Hypothesis(self.history[sentence * width + beam].tolist(), float(scores[sentence, beam]))
                # Of equal scores the first one found stays before the others.
                insort(best, found, key=lambda hypothesis: -hypothesis.score)
                del best[self.count :]
                if len(best) == self.count:
                    self.least[index] = best[-1].score

    def _done(self, candidates: Candidates, step: int) -> NDArray[np.bool_]:
        """(S,) sentences whose best hypotheses are settled.

        A log-probability only falls as a hypothesis grows, so dividing the present one by the penalty of the greatest
        length bounds the score that a live hypothesis can still reach.
        """
        limits = self.limits[self.sentences]
        reachable = candidates.scores[:, 0] / length_penalty(limits, self.options.length_penalty)
        full = self.finished[self.sentences] >= self.options.beam_size
        settled: NDArray[np.bool_] = full | (limits <= step) | (self.least[self.sentences] >= reachable)
        return settled
