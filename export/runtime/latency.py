"""Latency and throughput of a model: first token, sentences, tokens and Mult-Adds per second. Imports no torch."""

import gc
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import ModelError
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.search import search
from lite_nlp.decoding.step_models import BeamCall, BeamModel, BeamSteps, GreedyModel, State, StepModel
from lite_nlp.export.runtime.device import Memory, read_data_memory, read_memory, reset_peak_memory

__all__ = ["LatencyPlan", "LatencyRow", "MeteredModel", "Opening", "Summary", "measure_latency", "tokens_sha256"]

_DIGITS: Final = 3

_File = TypeVar("_File")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of times in milliseconds; percentiles are interpolated linearly."""

    p50: float
    p90: float
    mean: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Summarize at least one time.

        Raises:
            ValueError: If there is none.
        """
        if not values:
            raise ValueError("times: expected at least one, found none")
        p50, p90 = np.percentile(values, (50, 90))
        return cls(p50=float(p50), p90=float(p90), mean=float(np.mean(values)), min=min(values), max=max(values))

    def to_json(self) -> dict[str, float]:
        """For a report."""
        return {name: round(value, _DIGITS) for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class LatencyPlan:
    """Settings of a measurement.

    Attributes:
        sources: Token ids of the sentences without special ids, at least one; translated one at a time.
        options: How to search.
        warmup: Times that all sentences are translated before it counts.
        repeats: Times that they are translated for the figures, at least 1.
    """

    sources: Sequence[Sequence[int]]
    options: SearchOptions
    warmup: int
    repeats: int

    @property
    def translations(self) -> int:
        """Number of translations in all, of warm-up and measurement."""
        return len(self.sources) * (self.warmup + self.repeats)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The first opening of a bundle in a process that has loaded the runtime's library.

    Attributes:
        ms: From the file's name to the end of the first decoder step of the first sentence.
        memory: Resident bytes that it added, without code of libraries; 0 if unknown.
    """

    ms: float
    memory: int


@dataclass(frozen=True, kw_only=True)
class LatencyRow:
    """One engine's figures.

    Attributes:
        opening: Of the bundle, with its file.
        load_cold_ms: The first opening of the engine in this process, loading its library included.
        load_warm_ms: Opening it again after it was closed.
        first_token_ms: From the ids of a sentence to the end of the first decoder step.
        sentence_ms: From the ids of a sentence to those of its translation.
        seconds: Time for all sentences of all repeats.
        tgt_tokens: Tokens produced in one repeat, end marks not counted.
        repeats: How often all sentences were translated.
        macs: Mult-Adds executed in one repeat; 0 if the work of the graphs is not known.
        memory: Resident memory before the engine was opened, once it was, and the most since.
        tokens_sha256: Of the produced ids.
    """

    opening: Opening
    load_cold_ms: float
    load_warm_ms: float
    first_token_ms: Summary
    sentence_ms: Summary
    seconds: float
    tgt_tokens: int
    repeats: int
    macs: int
    memory: Memory
    tokens_sha256: str

    def to_json(self) -> dict[str, Any]:
        """For a report, where ``runtime``, ``version`` and ``threads`` are said besides."""
        return {
            "opening": {"ms": round(self.opening.ms, _DIGITS), "memory_bytes": self.opening.memory},
            "load_cold_ms": round(self.load_cold_ms, _DIGITS),
            "load_warm_ms": round(self.load_warm_ms, _DIGITS),
            "first_token_ms": self.first_token_ms.to_json(),
            "sentence_ms": self.sentence_ms.to_json(),
            "tokens_per_s": round(self.tgt_tokens * self.repeats / self.seconds, _DIGITS),
            "macs": self.macs,
            "gmacs_per_s": round(self.macs * self.repeats / self.seconds / 1e9, _DIGITS),
            "memory_bytes": {"before": self.memory.before, "loaded": self.memory.loaded, "peak": self.memory.peak},
            "thermal": None,
            "tokens_sha256": self.tokens_sha256,
        }


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
        self._work = work
        self._clock = clock
        self._step_macs = 0
        self._first = True
        self.macs = 0
        self.first_step_end = 0.0

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        """Encode the sources and count their Mult-Adds."""
        state = self._model.start(src_tokens, src_mask, capacity)
        rows, length = src_tokens.shape
        if self._work is not None:
            self.macs += rows * _total(self._work.encode, length, capacity)
            self._step_macs = _total(self._work.decode_step, length, capacity)
        self._first = True
        return state

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Feed one token per row."""
        result = self._model.step(tokens, state)
        if self._first:
            self.first_step_end = self._clock()
            self._first = False
        self.macs += len(tokens) * self._step_macs
        return result

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """Gather rows."""
        return self._model.reorder(state, rows)


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
        self._source = 0

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        """Encode the sources and count their Mult-Adds."""
        self._source = src_tokens.shape[1]
        return super().start(src_tokens, src_mask, capacity)

    def search_beams(self, call: BeamCall, state: State) -> tuple[BeamSteps, State]:
        """Take steps and count the Mult-Adds of all hypotheses, dead ones and those of sentences that are done too."""
        made, state = self._searching.search_beams(call, state)
        if self._work is not None:
            slots = range(call.step + 1, call.step + len(made.tokens) + 1)
            steps = (_total(self._work.decode_step, self._source, slot) for slot in slots)
            self.macs += call.tokens.size * sum(steps)
        return made, state


class MeteredGreedyModel(MeteredModel):
    """A metered model that decodes greedily in one call too.

    Its steps attend to the tokens so far, so that the Mult-Adds of each are those at so many slots.

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
            steps = (_total(self._work.decode_step, length, slots) for slots in range(1, len(tokens) + 1))
            self.macs += rows * (_total(self._work.encode, length, len(tokens)) + sum(steps))
        return tokens, log_probs


def _total(kinds: Mapping[Any, Callable[[int, int], int]], length: int, capacity: int) -> int:
    return sum(polynomial(length, capacity) for polynomial in kinds.values())


def measure_latency(
    open_file: Callable[[], _File],
    open_model: Callable[[_File], StepModel],
    plan: LatencyPlan,
    *,
    load_library: Callable[[], object],
    work: GraphWork | None,
    progress: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> LatencyRow:
    """Measure a model in this process, which must not have opened one before: the first opening is the cold one.

    Args:
        open_file: Opens the bundle.
        open_model: Opens the engine of a bundle; called twice.
        plan: What to measure.
        load_library: Loads the runtime's library.
        work: Of the engine's graphs; None if unknown.
        progress: Called after each translated sentence.
        clock: Seconds.

    Raises:
        ModelError: If a sentence gives other tokens when it is translated again.
    """
    reset_peak_memory()
    before = read_memory().resident
    started = clock()
    load_library()
    cold = clock() - started
    data_before = read_data_memory()
    started = clock()
    file = open_file()
    opened = clock()
    model = open_model(file)
    cold += clock() - opened
    loaded = read_memory().resident
    search(model, [plan.sources[0]], replace(plan.options, max_steps=1))
    opening = Opening(ms=1e3 * (clock() - started), memory=max(0, read_data_memory() - data_before))
    # Closed before the other one is opened: two at once would count the memory twice.
    del model
    gc.collect()
    started = clock()
    model = open_model(file)
    if plan.options.is_plain_greedy and isinstance(model, GreedyModel):
        metered: MeteredModel = MeteredGreedyModel(model, work, clock)
    elif isinstance(model, BeamModel):
        metered = MeteredBeamModel(model, work, clock)
    else:
        metered = MeteredModel(model, work, clock)
    # A search of one step is timed by itself where the steps of a call cannot be told apart from outside.
    in_calls = type(metered) is not MeteredModel
    warm = clock() - started

    def translate_all() -> tuple[list[list[int]], list[float], list[float]]:
        tokens, first, whole = [], [], []
        for source in plan.sources:
            started = clock()
            tokens.append(search(metered, [source], plan.options)[0].tokens)
            whole.append(clock() - started)
            if in_calls:
                started = clock()
                search(model, [source], replace(plan.options, max_steps=1))
                metered.first_step_end = clock()
            first.append(metered.first_step_end - started)
            progress()
        return tokens, first, whole

    for _ in range(plan.warmup):
        translate_all()
    metered.macs = 0
    tokens, first_times, times = translate_all()
    macs = metered.macs
    for _ in range(plan.repeats - 1):
        again, first, whole = translate_all()
        _expect_same(tokens, again)
        first_times += first
        times += whole
    return LatencyRow(
        opening=opening,
        load_cold_ms=1e3 * cold,
        load_warm_ms=1e3 * warm,
        first_token_ms=Summary.of([1e3 * value for value in first_times]),
        sentence_ms=Summary.of([1e3 * value for value in times]),
        seconds=sum(times),
        tgt_tokens=sum(map(len, tokens)),
        repeats=plan.repeats,
        macs=macs,
        memory=Memory(before=before, loaded=loaded, peak=max(loaded, read_memory().peak)),
        tokens_sha256=tokens_sha256(tokens),
    )


def tokens_sha256(sentences: Sequence[Sequence[int]]) -> str:
    """Hash of produced token ids, for comparison across runtimes and devices.

    SHA-256 of the ids as decimal text joined by spaces, with a line end after each sentence.
    """
    text = "".join(" ".join(map(str, tokens)) + "\n" for tokens in sentences)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _expect_same(first: Sequence[Sequence[int]], again: Sequence[Sequence[int]]) -> None:
    for number, (tokens, others) in enumerate(zip(first, again, strict=True), start=1):
        if tokens != others:
            raise ModelError(f"sentence {number}: expected the same tokens every time, found {tokens} and {others}")
