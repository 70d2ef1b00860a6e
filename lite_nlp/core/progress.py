"""Progress of long work, as the library reports it; the caller decides how it is shown."""

from typing import Protocol

__all__ = ["Progress", "SilentProgress"]


class Progress(Protocol):
    """Receiver of progress reports. One piece of work is under way at a time."""

    def start(self, task: str, total: int | None) -> None:
        """Begin a piece of work.

        Args:
            task: What it is, for people.
            total: Steps expected; None if that is not known.
        """

    def advance(self, steps: int = 1) -> None:
        """Report that so many steps of the work under way are done."""


class SilentProgress:
    """A receiver that shows nothing."""

    def start(self, task: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, steps: int = 1) -> None:
        """Show nothing."""
