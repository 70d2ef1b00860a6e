"""Ctrl-C and SIGTERM during training: finish the step, write a checkpoint, stop."""

import signal
from types import FrameType, TracebackType
from typing import Self

__all__ = ["StopSignal"]


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
