"""Optional dependencies: one error for every missing package."""

from collections.abc import Iterator
from contextlib import contextmanager

from lite_nlp.core.errors import RuntimeUnavailableError

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(work: str, extra: str) -> Iterator[None]:
    """Context that turns a missing package into an error that says how to install it.

    Args:
        work: What needs the packages, such as the name of a command.
        extra: The extra of ``lite-nlp`` that has them.

    Raises:
        RuntimeUnavailableError: In place of ``ModuleNotFoundError``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "lite_nlp":
            raise
        raise RuntimeUnavailableError(
            f"{work}: needs {error.name}, which is not installed; expected the extra lite-nlp[{extra}]"
        ) from error
