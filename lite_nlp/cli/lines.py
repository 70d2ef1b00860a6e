"""Progress without a terminal: lines that appear while the work goes on."""

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["ProgressLines"]

#: Seconds between two lines of one piece of work, and between two looks at the clock.
_INTERVAL: Final = 15.0
_LOOK: Final = 1.0


class ProgressLines:
    """A line every 15 seconds for the piece of work under way, and one when it is done.

    Args:
        show: Prints a line.
        clock: Seconds from any beginning.
        watch: Whether a thread looks at the clock too, for work that reports nothing for long.
    """

    def __init__(
        self, show: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic, watch: bool = True
    ) -> None:
        self._show = show
        self._clock = clock
        self._watch = watch
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: str | None = None
        self._total: int | None = None
        self._done = 0
        self._figures = ""
        self._begun = self._last = 0.0

    def start(self, task: str, total: int | None) -> None:
        """Begin a piece of work; see :class:`lite_nlp.core.progress.Progress`."""
        self.finish()
        with self._lock:
            self._task, self._total, self._done, self._figures = task, total, 0, ""
            self._begun = self._last = self._clock()
        if self._watch and self._thread is None:
            self._thread = threading.Thread(target=self._look, name="progress", daemon=True)
            self._thread.start()

    def advance(self, steps: int = 1, figures: str = "") -> None:
        """Report completed steps, and figures to show with them."""
        with self._lock:
            self._done += steps
            self._figures = figures or self._figures
        self.look()

    def look(self) -> None:
        """Print a line if it is time for one."""
        with self._lock:
            now = self._clock()
            if self._task is None or now - self._last < _INTERVAL:
                return
            self._last = now
            seconds = now - self._begun
            parts = [self._count(), self._figures, _span(seconds)]
            if self._total and 0 < self._done < self._total:
                parts.append(f"{_span(seconds / self._done * (self._total - self._done))} left")
            self._show(f"{self._task}: {', '.join(filter(None, parts))}")

    def finish(self) -> None:
        """End the piece of work under way with a line."""
        with self._lock:
            if self._task is None:
                return
            parts = [f"{self._done:,}" if self._done else "", self._figures]
            self._show(
                f"{self._task}: {', '.join(filter(None, parts)) or 'done'} in {_span(self._clock() - self._begun)}"
            )
            self._task = None

    def close(self) -> None:
        """Stop looking at the clock; a piece of work that did not end gets no line."""
        self._over.set()
        with self._lock:
            self._task = None
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            self.look()

    def _count(self) -> str:
        if self._total:
            return f"{self._done:,} of {self._total:,}"
        return f"{self._done:,} done" if self._done else ""


def _span(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
