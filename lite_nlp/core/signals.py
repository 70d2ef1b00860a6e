"""Signals that end a command: SIGINT, SIGTERM and SIGHUP become an exception, so that whatever is half done is undone.

Python turns SIGINT alone into an exception; the other two end the process on the spot, and partial files stay.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["STOP_SIGNALS", "Stopped", "stopped_by_signals", "undisturbed"]

#: Signals that ask a process to end. Windows has no SIGHUP.
STOP_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(SystemExit):
    """A signal asked the process to end.

    A ``SystemExit``, since nothing that handles errors on the way takes that for an error of its own.

    Attributes:
        signal_name: Name of the signal.
        code: What a shell reports for a process that this signal ended: 128 and its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal_name = signal.Signals(number).name


class _State:
    """Whether signals have to wait, and the one that does."""

    depth = 0
    pending: int | None = None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Context in which the signals raise :class:`Stopped`; one that is ignored, as under ``nohup``, stays ignored."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    taken = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in taken:
            signal.signal(number, _stop)
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Context for a few system calls that belong together: a signal that comes in the meantime is raised at the end."""
    if threading.current_thread() is not threading.main_thread():
        # Signals disturb the main thread alone.
        yield
        return
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        number, _State.pending = (_State.pending, None) if _State.depth == 0 else (None, _State.pending)
        if number is not None:
            raise Stopped(number)


def _stop(number: int, frame: FrameType | None) -> None:
    if _State.depth:
        _State.pending = number
    else:
        raise Stopped(number)
