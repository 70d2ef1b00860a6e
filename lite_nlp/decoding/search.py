"""Greedy and beam search, one implementation for every engine, in NumPy.

The model is behind a small interface, ``StepModel``: the same search runs over PyTorch, ONNX Runtime and ExecuTorch.
Greedy search is beam search with one place.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.bounds import MAX_BEAM
from lite_nlp.core.errors import ConfigError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.decoding.hypotheses import (
    Blocked,
    Candidates,
    Extensions,
    Hypothesis,
    best_extensions,
    damaged_model,
    expand,
    length_penalty,
    repeated_ngrams,
    without,
)

__all__ = [
    "BeamModel",
    "GreedyModel",
    "Hypothesis",
    "SearchOptions",
    "State",
    "StepModel",
    "search",
    "search_best",
    "stream_search",
]

#: State of an engine between steps; opaque to the search.
State: TypeAlias = Any


class StepModel(Protocol):
    """A model that decodes one token of every row per step. B: rows, S: source tokens, V: vocabulary."""

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        """Encode the sources (both (B, S), mask True where there is a token) for at most ``capacity`` steps."""
        ...

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Consume one token per row, (B,); return the next token's logits, (B, V), and the new state."""
        ...

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """The state whose row ``i`` is the present row ``rows[i]``; rows may repeat or be left out."""
        ...


@runtime_checkable
class GreedyModel(StepModel, Protocol):
    """A step model that also decodes greedily in one call, to the tokens that the search would choose step by step."""

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode the sources (both (B, S)) in at most ``limits`` (B,) steps, to ``min_length`` tokens at least.

        Returns:
            Tokens (T, B), in each row as many as count up to the first end mark, and their log-probability (B,).
        """
        ...


@runtime_checkable
class BeamModel(StepModel, Protocol):
    """A step model that also ranks the next tokens by itself, and knows which hypotheses belong to one sentence.

    S: sentences, W: hypotheses of each.
    """

    def step_best(
        self,
        tokens: NDArray[np.int64],
        parents: NDArray[np.int64],
        kept: NDArray[np.int64],
        state: State,
        count: int,
    ) -> tuple[Extensions, State]:
        """Consume one token per hypothesis.

        Args:
            tokens: (S, W).
            parents: (S, W) rows of the state, each the hypothesis that a token extends; a sentence has one row at
                first, and after a step one for each of its hypotheses, sentence by sentence.
            kept: (S,) which of the state's sentences these are, in order; the others leave it.
            state: Of ``start`` or of the step before.
            count: Tokens wanted for each hypothesis.

        Returns:
            Extensions of S * W rows, at most ``count`` tokens for each, and the new state.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search.

    A sentence of n source tokens gets ``int(max_length_ratio * n) + max_length_extra`` steps, but at most
    ``max_steps``; the end mark takes one, and is forced in the last. An output of fewer than ``min_length`` tokens
    does not end unless its steps are used up or no token is allowed to follow.

    Attributes:
        beam_size: Hypotheses kept per sentence, 1 to 256; 1 is greedy search.
        max_length_ratio: Steps per source token.
        max_length_extra: Steps on top of that.
        max_steps: Bound for every source length; None for no bound.
        min_length: Fewest tokens of an output, the end mark not counted.
        length_penalty: Exponent of ``length_penalty``; no effect on greedy search but on the score.
        no_repeat_ngram: No n-gram of this many tokens occurs twice in an output; 0 allows all.

    Raises:
        ConfigError: If a value is out of range.
    """

    beam_size: int = 1
    max_length_ratio: float = 2.0
    max_length_extra: int = 10
    max_steps: int | None = None
    min_length: int = 0
    length_penalty: float = 0.6
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        smallest = {
            "beam_size": 1,
            "max_length_ratio": 0,
            "max_length_extra": 1,
            "min_length": 0,
            "length_penalty": 0,
            "no_repeat_ngram": 0,
        }
        for name, least in smallest.items():
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name}: expected at least {least}, found {getattr(self, name)}")
        if self.beam_size > MAX_BEAM:
            raise ConfigError(f"beam_size: expected at most {MAX_BEAM}, found {self.beam_size}")
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps: expected at least 1, found {self.max_steps}")

    @property
    def is_plain_greedy(self) -> bool:
        """Whether the most probable token is taken at every step, whatever came before it."""
        return self.beam_size == 1 and self.no_repeat_ngram == 0

    def steps(self, src_length: int) -> int:
        """Most steps for a sentence of ``src_length`` tokens, without the end mark."""
        steps = int(self.max_length_ratio * src_length) + self.max_length_extra
        return steps if self.max_steps is None else min(steps, self.max_steps)


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
    run = _Run.begin(src_rows, options, count=count)
    for _ in run.steps(model, src_rows):
        pass
    return run.found()


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
    run = _Run.begin([src_row], options, count=1)
    for _ in run.steps(model, [src_row]):
        yield run.history[0].tolist()
    yield run.found()[0][0].tokens


def _decode_greedily(
    model: GreedyModel, src_rows: Sequence[Sequence[int]], options: SearchOptions
) -> Iterator[Hypothesis]:
    """The search's hypotheses from a model that takes all steps by itself."""
    limits = np.array([options.steps(len(row)) for row in src_rows], np.int64)
    tokens, log_probs = model.decode_greedily(*_pad_sources(src_rows), limits, options.min_length)
    if np.isnan(log_probs).any():
        raise damaged_model()
    for row, log_prob in zip(tokens.T.tolist(), log_probs.tolist(), strict=True):
        found = row[: row.index(EOS_ID)]
        yield Hypothesis(found, log_prob / float(length_penalty(len(found) + 1, options.length_penalty)))


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
        self.kept = np.arange(sentences)  # (S,) sentences of the latest step that are still there
        self.history = np.zeros((sentences, 0), np.int64)  # (S * W, T) tokens produced

    @classmethod
    def begin(cls, src_rows: Sequence[Sequence[int]], options: SearchOptions, *, count: int) -> Self:
        """The state before the first step of a search for ``count`` hypotheses of each source."""
        return cls(options, np.array([options.steps(len(row)) for row in src_rows], np.int64), count)

    def steps(self, model: StepModel, src_rows: Sequence[Sequence[int]]) -> Iterator[None]:
        """Take the steps, one at a time, until every sentence is done."""
        src_tokens, src_mask = _pad_sources(src_rows)
        state = model.start(src_tokens, src_mask, int(self.limits.max()))
        advance: Callable[[State, int], State] = partial(self._advance_by_logits, model)
        if isinstance(model, BeamModel):
            advance = partial(self._advance_ranked, model)
        for step in count(1):
            state = advance(state, step)
            if not len(self.sentences):
                return
            yield

    def _advance_by_logits(self, model: StepModel, state: State, step: int) -> State:
        if not np.array_equal(self.rows, np.arange(self.fed)):
            state = model.reorder(state, self.rows)
        logits, state = model.step(self.latest, state)
        self.advance(best_extensions(logits, self.options.beam_size, self._blocked()), step)
        return state

    def _advance_ranked(self, model: BeamModel, state: State, step: int) -> State:
        places = len(self.sentences), -1
        blocked, wanted = self._blocked(), self.options.beam_size
        if blocked is not None:
            # So many that the best are among them, whatever is blocked.
            wanted += int(np.bincount(blocked[0], minlength=1).max())
        extensions, state = model.step_best(
            self.latest.reshape(places), self.rows.reshape(places), self.kept, state, wanted
        )
        if np.isnan(extensions.ends).any() or np.isnan(extensions.scores).any():
            raise damaged_model()
        self.advance(extensions if blocked is None else without(extensions, blocked), step)
        return state

    def _blocked(self) -> Blocked | None:
        """What may not follow: it would repeat an n-gram."""
        size = self.options.no_repeat_ngram
        return repeated_ngrams(self.history, size) if size else None

    def found(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of every sentence, at least one: that of an empty output, if there is none."""
        return [best or [Hypothesis()] for best in self.best]

    def advance(self, extensions: Extensions, step: int) -> None:
        """Extend all hypotheses by step ``step`` (from 1)."""
        candidates = expand(
            extensions,
            self.live,
            beam_size=self.options.beam_size,
            must_end=self.limits[self.sentences] <= step,
            may_end=(step > self.options.min_length) | (self.limits[self.sentences] <= step),
        )
        self._finish(candidates, step)
        going = ~self._done(candidates, step)
        self.fed = len(self.latest)
        first = np.arange(len(self.sentences))[:, None] * self.live.shape[1]
        self.rows = (first + candidates.parents)[going].reshape(-1)
        self.kept = np.nonzero(going)[0]
        self.sentences = self.sentences[going]
        self.live = candidates.scores[going]
        self.latest = candidates.tokens[going].reshape(-1)
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
