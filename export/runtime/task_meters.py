"""Meters of language models and classifiers, for benchmarks; see ``meters``. Imports no torch."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.budget.traced.graphs import TaskWork
from lite_nlp.decoding.classify import ClassifierModel, pad_sentences
from lite_nlp.decoding.continuation import GenerationOptions, TextStepModel, TokenRun, continue_steps
from lite_nlp.decoding.step_models import State
from lite_nlp.export.runtime.latency import Measured

__all__ = ["ClassificationMeter", "ContinuationMeter", "MeasuredText"]


class MeasuredText(TextStepModel, Protocol):
    """A language model that says how far the attention of its next tokens goes."""

    def attended(self, state: State, tokens: int) -> int:
        """Slots that the attention of so many next tokens goes over."""
        ...


class ContinuationMeter:
    """Continues texts one at a time; see :class:`~lite_nlp.export.runtime.latency.Meter`.

    The first token comes once the prompt is read, and the mark before it.

    Args:
        model: The engine.
        prompts: Token ids of the texts without special ids.
        options: How tokens are chosen, and how many.
        max_positions: Most steps that the model takes.
        work: Of the engine's graphs; None if unknown, and then no Mult-Adds are counted.
        clock: Seconds.
    """

    def __init__(
        self,
        model: MeasuredText,
        prompts: Sequence[Sequence[int]],
        options: GenerationOptions,
        *,
        max_positions: int,
        work: TaskWork | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model, self._counted = model, _CountedText(model, work)
        self._prompts, self._options, self._clock = prompts, options, clock
        self._max_positions = max_positions

    @property
    def macs(self) -> int:
        """Mult-Adds of all that :meth:`run` has continued."""
        return self._counted.macs

    def probe(self, place: int) -> None:
        """Read a text and choose its first token."""
        next(self._steps(self._model, place, TokenRun()))

    def run(self, place: int) -> Measured:
        """Continue a text."""
        run = TokenRun()
        started = self._clock()
        steps = self._steps(self._counted, place, run)
        next(steps)
        first = self._clock() - started
        for _ in steps:
            pass
        return Measured(tokens=run.tokens, first_s=first, whole_s=self._clock() - started)

    def _steps(self, model: TextStepModel, place: int, run: TokenRun) -> Iterator[None]:
        prompts, numbers = [self._prompts[place]], [place]
        return continue_steps(model, prompts, [run], self._options, max_positions=self._max_positions, numbers=numbers)


class ClassificationMeter:
    """Classifies examples one at a time; see :class:`~lite_nlp.export.runtime.latency.Meter`.

    What is produced is one class, so that the first result is the last one.

    Args:
        model: The engine.
        examples: Of each example the token ids of its sentences, without special ids.
        work: Of the engine's graph; None if unknown, and then no Mult-Adds are counted.
        clock: Seconds.

    Attributes:
        macs: Mult-Adds of all runs so far.
    """

    def __init__(
        self,
        model: ClassifierModel,
        examples: Sequence[Sequence[Sequence[int]]],
        *,
        work: TaskWork | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model, self._examples, self._work, self._clock = model, examples, work, clock
        self.macs = 0

    def probe(self, place: int) -> None:
        """Classify an example."""
        self._model.classify([pad_sentences([sentence]) for sentence in self._examples[place]])

    def run(self, place: int) -> Measured:
        """Classify an example, and count it."""
        started = self._clock()
        sentences = [pad_sentences([sentence]) for sentence in self._examples[place]]
        best = int(self._model.classify(sentences).argmax())
        whole = self._clock() - started
        if self._work is not None:
            # A classifier of single sentences has no second size, on which its work would depend.
            lengths = [tokens.shape[1] for tokens, _ in sentences]
            self.macs += sum(self._work.macs(lengths[0], lengths[-1]).values())
        return Measured(tokens=[best], first_s=whole, whole_s=whole)


class _CountedText:
    """A language model whose calls are counted, at the room that they attend to.

    Args:
        model: The engine.
        work: Of its graphs; None if unknown.

    Attributes:
        macs: Of all calls so far.
    """

    def __init__(self, model: MeasuredText, work: TaskWork | None) -> None:
        def count(tokens: int, room: int) -> int:
            kinds = {} if work is None else work.graphs["decode_step" if tokens == 1 else "read"]
            return sum(polynomial(tokens, room) for polynomial in kinds.values())

        self._model = model
        # The same for many steps, between which a clock runs.
        self._row_macs = cache(count)
        self.macs = 0

    @property
    def max_read(self) -> int:
        """Most tokens that are read at once."""
        return self._model.max_read

    def most_rows(self, prompt: int, limit: int) -> int | None:
        """Most rows to take at once."""
        return self._model.most_rows(prompt, limit)

    def start(self, rows: int, capacity: int) -> State:
        """The state before the first token."""
        return self._model.start(rows, capacity)

    def read(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Feed the next tokens of each row."""
        rows, count = tokens.shape
        self.macs += rows * self._row_macs(count, self._model.attended(state, count))
        return self._model.read(tokens, state)

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """Gather rows."""
        return self._model.reorder(state, rows)
