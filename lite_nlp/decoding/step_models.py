"""The interfaces between a search and the model that it runs on, in NumPy."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BeamCall", "BeamModel", "BeamSteps", "GreedyModel", "RowsModel", "State", "StepModel"]

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

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots that attention has in each step of each row, where these tokens (T, B) were decoded."""
        ...


@runtime_checkable
class RowsModel(StepModel, Protocol):
    """A step model that is fastest where a search has few rows.

    Attributes:
        most_rows: In how many it is.
    """

    most_rows: int

    def step_slots(self, state: State) -> int:
        """Slots that attention has in the next step."""
        ...


@dataclass(frozen=True, kw_only=True)
class BeamCall:
    """What a call of a :class:`BeamModel` starts from, and when it ends.

    S: sentences, W: live hypotheses of each, K: finished ones kept of each. Scores are log-probabilities, divided by
    the penalty of their length where a hypothesis is finished.

    Attributes:
        tokens: (S, W) int64, the latest of each live hypothesis; the begin mark at first.
        parents: (S, W) int64, the rows of the state that they extend: at first that of the sentence, later one of W for
            each sentence of the call before.
        kept: (S,) int64, which of the state's sentences these are, in order; the others leave it.
        live: (S, W) float64, best first; minus infinity where there is none.
        best: (S, K) float64, scores of the best finished hypotheses, best first; minus infinity where there is none.
        finished: (S,) int64, how many have been finished.
        limits: (S,) int64, steps that a sentence may take in all.
        blocked: (S * W, B) int64, B at least 1, words that may not follow each hypothesis in any step of the call; -1
            for none.
        penalties: (L,) float64, the divisor for each length from 0 to that of the largest limit.
        count: Words that are ranked for each hypothesis: W, and the most that ``blocked`` has in a row.
        step: Steps before the call.
        steps: Most steps of it, at least 1.
        leave: It ends when so many sentences are done, 1 to S.
        min_length: Words before an end mark that is not forced.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    kept: NDArray[np.int64]
    live: NDArray[np.float64]
    best: NDArray[np.float64]
    finished: NDArray[np.int64]
    limits: NDArray[np.int64]
    blocked: NDArray[np.int64]
    penalties: NDArray[np.float64]
    count: int
    step: int
    steps: int
    leave: int
    min_length: int


@dataclass(frozen=True, kw_only=True)
class BeamSteps:
    """What comes of a :class:`BeamCall` of T steps.

    Attributes:
        tokens: (T, S, W) int64, the words of the live hypotheses after each step.
        parents: (T, S, W) int64, the hypotheses that they extend: 0 to W - 1, of the step before.
        live: (S, W), as of the call.
        best: (S, K), as of the call.
        origins: (S, K) int64, of the finished hypotheses: o below K is the one of that place before the call, and
            K + t * W + w one that ends hypothesis w at step t of the call, from 0.
        finished: (S,), as of the call.
        done: (S,) bool, whether nothing can change the best hypotheses of a sentence.
        sound: Whether all log-probabilities were numbers.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    live: NDArray[np.float64]
    best: NDArray[np.float64]
    origins: NDArray[np.int64]
    finished: NDArray[np.int64]
    done: NDArray[np.bool_]
    sound: bool


@runtime_checkable
class BeamModel(StepModel, Protocol):
    """A step model that also takes steps of beam search, and ranks and ends the hypotheses, by itself."""

    def search_beams(self, call: BeamCall, state: State) -> tuple[BeamSteps, State]:
        """Take steps until one of the conditions of the call ends it; the state is that of ``start`` or of a call."""
        ...
