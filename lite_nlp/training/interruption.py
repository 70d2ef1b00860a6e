"""What ends training before its last step: Ctrl-C, SIGTERM, or the time that it was given."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

__all__ = ["StopSignal", "TimeLimit"]


class StopSignal:
    """Context in which SIGINT and SIGTERM only set ``name``; a second SIGINT interrupts at once.

    Attributes:
        name: Name of the signal that came, or None.
    """

    def __init__(self) -> None:
        self.name: str | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)


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
