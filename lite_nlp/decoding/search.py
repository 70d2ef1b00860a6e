"""Greedy and beam search, one implementation for every engine, in NumPy.

The model is behind a small interface, ``StepModel``: the same search runs over PyTorch, ONNX Runtime and ExecuTorch.
Greedy search is beam search with one place.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.decoding.beams import BeamRun
from lite_nlp.decoding.hypotheses import (
    Blocked,
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
        yield list(run.history[0])
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
        self.limits: list[int] = limits.tolist()  # N steps allowed
        penalties = length_penalty(np.arange(int(limits.max()) + 1), options.length_penalty)
        self.penalties: list[float] = penalties.tolist()  # by length
        self.count = count  # hypotheses wanted
        self.best: list[list[Hypothesis]] = [[] for _ in range(sentences)]  # at most so many, best first
        self.least = [-np.inf] * sentences  # score that a hypothesis must exceed to be one of them
        self.finished = [0] * sentences  # finished hypotheses
        self.sentences = list(range(sentences))  # S indices among the N
        self.live = np.zeros((sentences, 1))  # (S, W) log-probabilities
        self.latest = [BOS_ID] * sentences  # S * W tokens to consume next
        self.rows = self.sentences  # S * W rows of the latest step that they follow
        self.fed = sentences  # rows of the latest step
        self.history: list[list[int]] = [[] for _ in range(sentences)]  # S * W, tokens produced
        self.produced = np.zeros((sentences, 0), np.int64)  # (S * W, T), the same where n-grams are blocked

    def steps(self, model: StepModel, src_rows: Sequence[Sequence[int]]) -> Iterator[None]:
        """Take the steps, one at a time, until every sentence is done."""
        src_tokens, src_mask = _pad_sources(src_rows)
        state = model.start(src_tokens, src_mask, max(self.limits))
        for step in count(1):
            if self.rows != list(range(self.fed)):
                state = model.reorder(state, np.array(self.rows, np.int64))
            logits, state = model.step(np.array(self.latest, np.int64), state)
            size = self.options.no_repeat_ngram
            blocked = repeated_ngrams(self.produced, size) if size else None
            if self.options.beam_size == 1:
                self.advance_one(logits, step, blocked)
            else:
                self.advance(logits, step, blocked)
            if not self.sentences:
                return
            yield

    def found(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of every sentence, at least one: that of an empty output, if there is none."""
        return [best or [Hypothesis()] for best in self.best]

    def advance(self, logits: NDArray[np.float32], step: int, blocked: Blocked | None) -> None:
        """Extend all hypotheses by step ``step`` (from 1), by words that are not ``blocked``."""
        must_end = [self.limits[index] <= step for index in self.sentences]
        ranked = rank_extensions(
            logits,
            self.live,
            beam_size=self.options.beam_size,
            must_end=must_end,
            may_end=[last or step > self.options.min_length for last in must_end],
            blocked=blocked,
        )
        going, width = _Going([], [], [], []), self.live.shape[1]
        for place, (index, found) in enumerate(zip(self.sentences, ranked, strict=True)):
            first = place * width
            for hypothesis in found.ends:
                self._finish(index, self.history[first + hypothesis], found.end_scores[hypothesis], step)
            if not self._is_settled(index, found.scores[0], step):
                rows = [first + parent for parent in found.parents]
                going.add(index, rows, found.tokens, found.scores)
        self._go_on(going)

    def advance_one(self, logits: NDArray[np.float32], step: int, blocked: Blocked | None) -> None:
        """:meth:`advance` of one hypothesis for each sentence, where nothing has to be ranked."""
        best, going = best_extension(logits, self.live[:, 0], blocked), _Going([], [], [], [])
        each = zip(self.sentences, best.ends.tolist(), best.scores.tolist(), best.tokens.tolist(), strict=True)
        for row, (index, end, score, token) in enumerate(each):
            # Of equal ones the end counts, as it does where both are ranked.
            preferred = step > self.options.min_length and end >= score
            if self.limits[index] > step and score > -np.inf and not preferred:
                going.add(index, [row], [token], [score])
            elif end > -np.inf:
                self.best[index] = [Hypothesis(self.history[row], end / self.penalties[step])]
        self._go_on(going)

    def _go_on(self, going: "_Going") -> None:
        self.fed = len(self.latest)
        self.sentences, self.rows, self.latest = going.sentences, going.rows, going.tokens
        self.live = np.array(going.scores)
        self.history = [[*self.history[row], token] for row, token in zip(self.rows, self.latest, strict=True)]
        if self.options.no_repeat_ngram and self.rows:
            self.produced = np.column_stack([self.produced[self.rows], self.latest])

    def _finish(self, index: int, tokens: list[int], log_prob: float, step: int) -> None:
        """Take a hypothesis that ends at step ``step`` as one of a sentence's best, if it is."""
        self.finished[index] += 1
        score = log_prob / self.penalties[step]
        if score > self.least[index]:
            best = self.best[index]
            # Of equal scores the first one found stays before the others.
            insort(best, Hypothesis(tokens, score), key=lambda hypothesis: -hypothesis.score)
            del best[self.count :]
            if len(best) == self.count:
                self.least[index] = best[-1].score

    def _is_settled(self, index: int, log_prob: float, step: int) -> bool:
        """Whether a sentence's best hypotheses are settled, the best live one having ``log_prob``.

        A log-probability only falls as a hypothesis grows, so dividing the present one by the penalty of the greatest
        length bounds the score that a live hypothesis can still reach.
        """
        limit = self.limits[index]
        full = limit <= step or self.finished[index] >= self.options.beam_size
        return full or self.least[index] >= log_prob / self.penalties[limit]


class _Going(NamedTuple):
    """What goes on after a step.

    Attributes:
        sentences: S indices.
        rows: S * W rows of the step that the new hypotheses extend.
        tokens: By which they do.
        scores: For each sentence their W log-probabilities.
    """

    sentences: list[int]
    rows: list[int]
    tokens: list[int]
    scores: list[list[float]]

    def add(self, index: int, rows: list[int], tokens: list[int], scores: list[float]) -> None:
        """Add a sentence."""
        self.sentences.append(index)
        self.rows.extend(rows)
        self.tokens.extend(tokens)
        self.scores.append(scores)
