"""Meters of translation: what a benchmark runs on an open engine, and the Mult-Adds it counts. Imports no torch."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.search import search
from lite_nlp.decoding.step_models import BeamCall, BeamModel, BeamSteps, GreedyModel, RowsModel, State, StepModel
from lite_nlp.export.runtime.latency import Measured

__all__ = ["MeteredBeamModel", "MeteredModel", "TranslationMeter"]


class TranslationMeter:
    """Translates sentences one at a time; see :class:`~lite_nlp.export.runtime.latency.Meter`.

    Args:
        model: The engine.
        sources: Token ids of the sentences without special ids.
        options: How to search.
        work: Of the engine's graphs; None if unknown, and then no Mult-Adds are counted.
        clock: Seconds.
    """

    def __init__(
        self,
        model: StepModel,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        *,
        work: GraphWork | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model, self._sources, self._options, self._clock = model, sources, options, clock
        if options.is_plain_greedy and isinstance(model, GreedyModel):
            self._metered: MeteredModel = MeteredGreedyModel(model, work, clock)
        elif isinstance(model, BeamModel):
            self._metered = MeteredBeamModel(model, work, clock)
        else:
            self._metered = MeteredModel(model, work, clock)
        # A search of one step is timed by itself where the steps of a call cannot be told apart from outside.
        self._in_calls = type(self._metered) is not MeteredModel

    @property
    def macs(self) -> int:
        """Mult-Adds of all that :meth:`run` has translated."""
        return self._metered.macs

    def probe(self, place: int) -> None:
        """Take one step for a sentence."""
        search(self._model, [self._sources[place]], replace(self._options, max_steps=1))

    def run(self, place: int) -> Measured:
        """Translate a sentence."""
        started = self._clock()
        tokens = search(self._metered, [self._sources[place]], self._options)[0].tokens
        whole = self._clock() - started
        if not self._in_calls:
            return Measured(tokens=tokens, first_s=self._metered.first_step_end - started, whole_s=whole)
        started = self._clock()
        self.probe(place)
        return Measured(tokens=tokens, first_s=self._clock() - started, whole_s=whole)


class MeteredModel:
    """A step model that counts the Mult-Adds that another executes and notes the end of its first step.

    Rows are counted as they are fed, padding and all: the figures are exact for whatever search runs on it.

    Args:
        model: Runs the graphs.
        work: Of its graphs; None if unknown, and then no Mult-Adds are counted.
        clock: Seconds.

    Attributes:
        macs: Executed so far.
        first_step_end: When the first step of the latest translation ended, by the clock.
    """

    def __init__(self, model: StepModel, work: GraphWork | None, clock: Callable[[], float]) -> None:
        self._model = model
        self._rows_model = model if isinstance(model, RowsModel) else None
        self._work = work
        self._clock = clock
        self._source = self._capacity = 0
        self._first = True
        self.macs = 0
        self.first_step_end = 0.0

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        """Encode the sources and count their Mult-Adds."""
        state = self._model.start(src_tokens, src_mask, capacity)
        rows, length = src_tokens.shape
        if self._work is not None:
            self.macs += rows * _total(self._work.encode, length, capacity)
        self._source, self._capacity = length, capacity
        self._first = True
        return state

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Feed one token per row."""
        slots = self._capacity if self._rows_model is None else self._rows_model.step_slots(state)
        result = self._model.step(tokens, state)
        if self._first:
            self.first_step_end = self._clock()
            self._first = False
        self.macs += len(tokens) * self._macs_of_steps(self._source, [slots])
        return result

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """Gather rows."""
        return self._model.reorder(state, rows)

    def _macs_of_steps(self, source: int, slots: Sequence[int]) -> int:
        """Mult-Adds of one row in steps that attend to so many tokens each, for a source of this length."""
        if self._work is None:
            return 0
        steps = Counter(slots)
        return sum(taken * _total(self._work.decode_step, source, count) for count, taken in steps.items())


class MeteredBeamModel(MeteredModel):
    """A metered model that searches with several hypotheses by itself.

    Its steps attend to the tokens so far, so that the Mult-Adds of each are those at so many slots.

    Args:
        model: Runs the graphs.
        work: As of ``MeteredModel``.
        clock: Seconds.
    """

    def __init__(self, model: BeamModel, work: GraphWork | None, clock: Callable[[], float]) -> None:
        super().__init__(model, work, clock)
        self._searching = model

    def search_beams(self, call: BeamCall, state: State) -> tuple[BeamSteps, State]:
        """Take steps and count the Mult-Adds of all hypotheses, dead ones and those of sentences that are done too."""
        made, state = self._searching.search_beams(call, state)
        slots = range(call.step + 1, call.step + len(made.tokens) + 1)
        self.macs += call.tokens.size * self._macs_of_steps(self._source, slots)
        return made, state


class MeteredGreedyModel(MeteredModel):
    """A metered model that decodes greedily in one call too.

    Args:
        model: Runs the graphs.
        work: As of ``MeteredModel``.
        clock: Seconds.
    """

    def __init__(self, model: GreedyModel, work: GraphWork | None, clock: Callable[[], float]) -> None:
        super().__init__(model, work, clock)
        self._greedy = model

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode the sources and count the Mult-Adds of the encoder and of all steps."""
        tokens, log_probs = self._greedy.decode_greedily(src_tokens, src_mask, limits, min_length)
        rows, length = src_tokens.shape
        if self._work is not None:
            encoder = _total(self._work.encode, length, len(tokens))
            self.macs += rows * encoder + self._macs_of_steps(length, self._greedy.greedy_slots(tokens, limits))
        return tokens, log_probs

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots that attention has in each step of each row."""
        return self._greedy.greedy_slots(tokens, limits)


def _total(kinds: Mapping[Any, Callable[[int, int], int]], length: int, capacity: int) -> int:
    return sum(polynomial(length, capacity) for polynomial in kinds.values())
