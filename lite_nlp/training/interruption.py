"""What ends training before its last step: Ctrl-C, another signal, or the time that it was given."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from lite_nlp.core.signals import STOP_SIGNALS

__all__ = ["StopSignal", "TimeLimit"]


class StopSignal:
    """Context in which signals that ask a process to end only set ``name``; a second SIGINT does what it did before.

    One that was ignored before, as under ``nohup``, stays ignored.

    Attributes:
        name: Name of the signal that came, or None.
    """

    def __init__(self) -> None:
        self.name: str | None = None

    def __enter__(self) -> Self:
        found = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        self._before = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        # Not the others: a launcher passes on the SIGTERM that this process has been sent as well.
        if number == signal.SIGINT:
            signal.signal(number, self._before[number])


class TimeLimit:
    """The wall time that a call may train for.

    Args:
        minutes: None sets no limit.
        clock: Seconds from any beginning.
    """

    def __init__(self, minutes: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if minutes is None else clock() + 60.0 * minutes

    @property
    def seconds_left(self) -> float | None:
        """What is left of it, at least 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.seconds_left == 0.0
