"""Progress of long work, as the library reports it; the caller decides how it is shown."""

from collections.abc import Callable
from typing import Protocol

__all__ = ["Progress", "SilentProgress", "advance_to"]


class Progress(Protocol):
    """Receiver of progress reports. One piece of work is under way at a time."""

    def start(self, task: str, total: int | None) -> None:
        """Begin a piece of work.

        Args:
            task: Its display name.
            total: Steps expected; None if that is not known.
        """

    def advance(self, steps: int = 1, figures: str = "") -> None:
        """Report completed steps of the current piece of work.

        Args:
            steps: Completed since the last report.
            figures: Figures to show with them, such as the loss; empty leaves those shown as they are.
        """


class SilentProgress:
    """A receiver that shows nothing."""

    def start(self, task: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, steps: int = 1, figures: str = "") -> None:
        """Show nothing."""


def advance_to(progress: Progress) -> Callable[[int], None]:
    """A function that takes the total of completed steps and reports those that are new."""
    told = 0

    def report(done: int) -> None:
        nonlocal told
        progress.advance(done - told)
        told = done

    return report
