"""Output of the commands: results to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from lite_nlp.cli.lines import ProgressLines
from lite_nlp.core.version import SCHEMA_VERSION

__all__ = ["ProgressBars", "err", "out", "print_json", "warn"]

#: Results as text and tables. What is in square brackets is part of a name, here and below, and no style; and what is
#: between colons, such as the number of a line, is no emoji.
out = Console(highlight=False, markup=False, emoji=False)

#: Progress, warnings and logs.
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(content: Mapping[str, Any]) -> None:
    """Print exactly one JSON object, ``schema_version`` first, to stdout."""
    json.dump({"schema_version": SCHEMA_VERSION, **content}, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """Print a warning to stderr."""
    err.print(f"warning: {message}", soft_wrap=True)


class ProgressBars:
    """Progress on stderr: a bar for each piece of work on a terminal, lines now and then elsewhere."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=err,
        )
        self._lines = None if err.is_terminal else ProgressLines(_print_line)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lines is not None:
            if error is None:
                self._lines.finish()
            self._lines.close()
        elif self._task is not None:
            if error is None:
                self._finish()
            self._bars.stop()

    def start(self, task: str, total: int | None) -> None:
        """Begin a piece of work; see :class:`lite_nlp.core.progress.Progress`."""
        if self._lines is not None:
            self._lines.start(task, total)
            return
        self._finish()
        # Started only now, so that work without progress leaves no trace on the screen.
        self._bars.start()
        self._task = self._bars.add_task(task, total=total, figures="")

    def advance(self, steps: int = 1, figures: str = "") -> None:
        """Advance the bar of the current piece of work; figures are shown beside it."""
        if self._lines is not None:
            self._lines.advance(steps, figures)
        elif self._task is not None:
            self._bars.advance(self._task, steps)
            if figures:
                self._bars.update(self._task, figures=figures)

    def _finish(self) -> None:
        if self._task is not None:
            done = max(self._bars.tasks[self._task].completed, 1)
            self._bars.update(self._task, total=done, completed=done)


def _print_line(text: str) -> None:
    err.print(text, soft_wrap=True)
