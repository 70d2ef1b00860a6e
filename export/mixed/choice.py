"""The fewest bytes read for a sentence within a limit of loss: which form each matrix gets.

The loss of a small change of several matrices is about the sum of their losses; the choice is measured as a whole
afterwards. As the measure of time among forms that cause no delay (:mod:`lite_nlp.export.mixed.timing`) stand the bytes
read, which are the same at every export.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lite_nlp.export.matrices import Form, Matrix

__all__ = ["Candidate", "choose_forms"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A matrix and what its forms cost.

    Attributes:
        matrix: The matrix.
        calls: How often a sentence's decoding reads it.
        losses: Loss of each form that is worth it, from the most bytes to the fewest; the first is fp32, without loss.
    """

    matrix: Matrix
    calls: int
    losses: Mapping[Form, float]

    def saved_bytes(self, before: Form, after: Form) -> int:
        """Bytes that a sentence's decoding reads less."""
        return self.calls * (self.matrix.size_bytes(before) - self.matrix.size_bytes(after))


@dataclass(frozen=True)
class _Move:
    """A change of one matrix's form."""

    place: int
    form: Form
    loss: float
    saved: int

    @property
    def worth(self) -> tuple[bool, float]:
        """Bytes for its loss; before all others, most bytes first, a move without loss."""
        return (True, self.saved) if self.loss <= 0 else (False, self.saved / self.loss)


def choose_forms(candidates: Sequence[Candidate], limit: float) -> dict[bytes, Form]:
    """Choose greedily: again and again the move that saves most bytes for its loss, while the sum is within the limit.

    Args:
        candidates: The matrices.
        limit: Of the summed loss.

    Returns:
        The form of each matrix by its key.
    """
    chosen: list[Form] = ["fp32"] * len(candidates)
    left = limit
    while moves := [move for move in _moves(candidates, chosen) if move.loss <= left]:
        best = max(moves, key=lambda move: move.worth)
        chosen[best.place] = best.form
        left -= best.loss
    return {candidate.matrix.key: form for candidate, form in zip(candidates, chosen, strict=True)}


def _moves(candidates: Sequence[Candidate], chosen: Sequence[Form]) -> list[_Move]:
    """Every change to a form of fewer bytes."""
    moves = []
    for place, (candidate, before) in enumerate(zip(candidates, chosen, strict=True)):
        for form, loss in candidate.losses.items():
            saved = candidate.saved_bytes(before, form)
            if saved > 0:
                moves.append(_Move(place, form, loss - candidate.losses[before], saved))
    return moves
