"""The bound of a beam."""

from typing import Final

from lite_nlp.core.errors import UsageError

__all__ = ["MAX_BEAM", "check_beam"]

#: Most hypotheses of a search. Every vocabulary has a token for each of the 256 bytes, so there are always as many
#: different extensions; quality falls long before (Koehn and Knowles, 2017, section 3.6), and memory grows with each.
MAX_BEAM: Final = 256


def check_beam(beam: int) -> None:
    """Refuse a beam that no search can have.

    Raises:
        UsageError: If it is not 1 to :data:`MAX_BEAM`.
    """
    if not 1 <= beam <= MAX_BEAM:
        raise UsageError(f"--beam: expected 1 to {MAX_BEAM} hypotheses, found {beam}")
