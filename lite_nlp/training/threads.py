"""The number of threads of torch, chosen by a short measurement of the work that is to be done."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import torch

from lite_nlp.core.bounds import MAX_THREADS, check_range
from lite_nlp.export.runtime.device import default_threads, usable_cores

__all__ = ["ThreadChoice", "fixed_threads", "measure_threads", "threads_restored"]

#: Seconds that a measurement may take, and the rounds after which it ends earlier.
_SECONDS: Final = 3.0
_ROUNDS: Final = 6
#: A number of threads that is so much slower than the fastest is not tried again.
_HOPELESS: Final = 0.6
#: More threads must be faster by this factor: they take cores from other programs.
_WORTHWHILE: Final = 1.05


@dataclass(frozen=True, kw_only=True)
class ThreadChoice:
    """A number of threads and its reason.

    Attributes:
        threads: The number chosen.
        cores: Cores that this process may use.
        rates: Units of work per second by number of threads; empty if nothing was measured.
        reason: Why nothing was measured.
    """

    threads: int
    cores: int
    rates: Mapping[int, float] = field(default_factory=dict)
    reason: str = ""

    def describe(self, unit: str) -> str:
        """The choice in one line, with the rates in ``unit`` per second."""
        rates = ", ".join(f"{count}: {rate:,.0f}" for count, rate in self.rates.items())
        return f"threads: {self.threads} of {self.cores} ({rates + f' {unit}/s' if rates else self.reason})"


def fixed_threads(threads: int | None = None, *, processes: int = 1) -> ThreadChoice | None:
    """The choice where there is nothing to measure; None where there is.

    Args:
        threads: The caller's number.
        processes: Processes that share this machine's cores.

    Raises:
        UsageError: If the caller's number is out of range.
    """
    check_range("--threads", threads, 1, MAX_THREADS)
    cores = max(1, usable_cores() // processes)
    if threads is not None:
        return ThreadChoice(threads=threads, cores=cores, reason="as asked for")
    if os.environ.get("OMP_NUM_THREADS"):
        return ThreadChoice(threads=default_threads(), cores=cores, reason="OMP_NUM_THREADS")
    if cores == 1:
        return ThreadChoice(threads=1, cores=1, reason="there is one core for each process")
    return None


def measure_threads(
    work: Callable[[], float],
    *,
    processes: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    seconds: float = _SECONDS,
) -> ThreadChoice:
    """Measure a piece of work with one thread, half of the cores and all of them.

    The candidates take turns, so that a change in the load of the machine meets all of them, and the medians are
    compared. Torch has the number chosen afterwards.

    Args:
        work: Does the piece of work and returns its units, such as tokens; called a few times.
        processes: Processes that share this machine's cores.
        clock: Seconds from any beginning.
        seconds: Time after which no further round begins.
    """
    cores = max(1, usable_cores() // processes)
    candidates = sorted({1, max(1, cores // 2), cores})
    rates: dict[int, list[float]] = {count: [] for count in candidates}
    begin = clock()
    for _ in range(_ROUNDS):
        for count in candidates:
            torch.set_num_threads(count)
            started = clock()
            units = work()
            rates[count].append(units / max(clock() - started, 1e-9))
        medians = {count: _median(found) for count, found in rates.items()}
        fastest = max(medians.values())
        # Not after the first round, which also starts the threads and allocates memory.
        if len(rates[candidates[0]]) > 2:
            candidates = [count for count in candidates if medians[count] >= _HOPELESS * fastest]
        if clock() - begin >= seconds or len(candidates) == 1:
            break
    chosen = min(count for count, rate in medians.items() if rate * _WORTHWHILE >= fastest)
    torch.set_num_threads(chosen)
    return ThreadChoice(threads=chosen, cores=cores, rates=medians)


@contextmanager
def threads_restored() -> Iterator[None]:
    """Give torch its number of threads back at the end."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _median(rates: list[float]) -> float:
    """The median without the first round, if there was another."""
    return statistics.median(rates[1:] or rates)
