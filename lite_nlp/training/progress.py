"""Display of training progress: a bar on a terminal, a line every 30 seconds in a log file."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lite_nlp.training.interruption import TimeLimit

__all__ = ["TrainingProgress"]

#: Seconds between two lines without a terminal.
_LINE_INTERVAL = 30.0

#: Weight of the newest step in the smoothed figures.
_NEWEST = 0.05


class TrainingProgress:
    """Loss, tokens per second and time left, on a console; use as a context.

    Args:
        console: The console; a quiet one shows nothing.
        total_steps: Steps of the whole training.
        step: Steps already taken.
        limit: The time that training may take.
        clock: Seconds from any beginning.
    """

    def __init__(
        self,
        *,
        console: Console,
        total_steps: int,
        step: int,
        limit: TimeLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._total = total_steps
        self._first = self._step = step
        self._loss: float | None = None
        self._rate: float | None = None
        self._step_seconds = 0.0
        self._limit = limit or TimeLimit(None)
        self._clock = clock
        self._last_line = clock()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal or console.quiet,
        )
        self._task = self._bar.add_task("training", total=total_steps, completed=step, figures="", left="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, *, loss: float, tokens: int, seconds: float) -> None:
        """Show a finished step.

        Args:
            loss: Per target token, in nats.
            tokens: Tokens of the step.
            seconds: Duration of the step.
        """
        self._step += 1
        self._loss = loss if self._loss is None else self._loss + _NEWEST * (loss - self._loss)
        rate = tokens / max(seconds, 1e-9)
        self._rate = rate if self._rate is None else self._rate + _NEWEST * (rate - self._rate)
        self._step_seconds = (
            seconds if self._step == self._first + 1 else self._step_seconds + _NEWEST * (seconds - self._step_seconds)
        )
        figures = f"loss {self._loss:.3f}, {self._rate:,.0f} tokens/s"
        left = self._remaining()
        self._bar.update(self._task, completed=self._step, figures=figures, left=f"{left} left")
        now = self._clock()
        if self._bar.disable and (self._step == self._first + 1 or now - self._last_line >= _LINE_INTERVAL):
            self._last_line = now
            self.note(f"step {self._step}/{self._total}: {figures}, {left} left")

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _remaining(self) -> str:
        """Time until the last step or the end of the time limit, whichever comes first."""
        seconds = int((self._total - self._step) * self._step_seconds)
        if (limit := self._limit.seconds_left) is not None:
            seconds = min(seconds, int(limit))
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
