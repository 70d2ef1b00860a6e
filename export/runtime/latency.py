"""Latency and throughput of a model: first result, examples, tokens and Mult-Adds per second. Imports no torch."""

import gc
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from lite_nlp.core.errors import ModelError
from lite_nlp.export.runtime.device import Memory, read_data_memory, read_memory, reset_peak_memory

__all__ = [
    "LatencyPlan",
    "LatencyRow",
    "Measured",
    "Meter",
    "Opening",
    "Summary",
    "measure_latency",
    "tokens_sha256",
]

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


class Measured(NamedTuple):
    """What came of an example.

    Attributes:
        tokens: Ids of what was produced: target tokens without the end mark, or the number of a class.
        first_s: Seconds from the ids of the example to the first of them.
        whole_s: Seconds to the last.
    """

    tokens: list[int]
    first_s: float
    whole_s: float


class Meter(Protocol):
    """An open engine that takes the examples of a measurement one at a time, by their places."""

    @property
    def macs(self) -> int:
        """Mult-Adds executed by all runs so far; 0 if the work of the graphs is not known."""
        ...

    def probe(self, place: int) -> None:
        """Take an example to its first result, uncounted."""
        ...

    def run(self, place: int) -> Measured:
        """Take an example to its end."""
        ...


@dataclass(frozen=True, kw_only=True)
class LatencyPlan:
    """Settings of a measurement.

    Attributes:
        examples: Number of examples, at least one.
        warmup: Times that all are taken before it counts.
        repeats: Times that they are taken for the figures, at least 1.
    """

    examples: int
    warmup: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The first opening of a bundle in a process that has loaded the runtime's library.

    Attributes:
        ms: From the file's name to the first result for the first example.
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
        first_token_ms: From the ids of an example to the first token or class.
        sentence_ms: From the ids of an example to all that is produced for it.
        seconds: Time for all examples of all repeats.
        tgt_tokens: Tokens or classes produced in one repeat, end marks not counted.
        repeats: How often all examples were taken.
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
        """For a report, where ``runtime``, ``version``, ``threads`` and ``precision`` are said besides."""
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


def measure_latency(
    open_file: Callable[[], _File],
    open_meter: Callable[[_File], Meter],
    plan: LatencyPlan,
    *,
    load_library: Callable[[], object],
    progress: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> LatencyRow:
    """Measure a model in this process, which must not have opened one before: the first opening is the cold one.

    Args:
        open_file: Opens the bundle.
        open_meter: Opens the engine of a bundle; called twice.
        plan: What to measure.
        load_library: Loads the runtime's library.
        progress: Called after each example.
        clock: Seconds.

    Raises:
        ModelError: If an example gives something else when it is taken again.
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
    meter = open_meter(file)
    cold += clock() - opened
    loaded = read_memory().resident
    meter.probe(0)
    opening = Opening(ms=1e3 * (clock() - started), memory=max(0, read_data_memory() - data_before))
    # Closed before the other one is opened: two at once would count the memory twice.
    del meter
    gc.collect()
    started = clock()
    meter = open_meter(file)
    warm = clock() - started

    def take_all() -> list[Measured]:
        found = []
        for place in range(plan.examples):
            found.append(meter.run(place))
            progress()
        return found

    for _ in range(plan.warmup):
        take_all()
    counted = meter.macs
    found = take_all()
    macs = meter.macs - counted
    tokens = [measured.tokens for measured in found]
    for _ in range(plan.repeats - 1):
        again = take_all()
        _expect_same(tokens, [measured.tokens for measured in again])
        found += again
    return LatencyRow(
        opening=opening,
        load_cold_ms=1e3 * cold,
        load_warm_ms=1e3 * warm,
        first_token_ms=Summary.of([1e3 * measured.first_s for measured in found]),
        sentence_ms=Summary.of([1e3 * measured.whole_s for measured in found]),
        seconds=sum(measured.whole_s for measured in found),
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
