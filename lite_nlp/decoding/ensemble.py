"""Several models that search together: the mean of their probabilities decides."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.hypotheses import damaged_model
from lite_nlp.decoding.step_models import State, StepModel

__all__ = ["EnsembleModel"]

#: Rows whose probabilities are worked out at a time.
_BLOCK_ROWS: Final = 16


class EnsembleModel:
    """The step model of several with one vocabulary: its probabilities are the mean of theirs.

    As :class:`~lite_nlp.decoding.step_models.StepModel`, whatever else the members can do: they go step by step.

    Args:
        members: The models, at least one.
    """

    def __init__(self, members: Sequence[StepModel]) -> None:
        self._members = tuple(members)

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> list[State]:
        """Encode the sources, both (B, S), by every member."""
        return [member.start(src_tokens, src_mask, capacity) for member in self._members]

    def step(self, tokens: NDArray[np.int64], state: list[State]) -> tuple[NDArray[np.float32], list[State]]:
        """Consume one token per row, (B,); return the logarithm of the mean probabilities, (B, V), and the new state.

        Raises:
            ModelError: If the logits of a member are not finite where they should be.
        """
        found = [member.step(tokens, own) for member, own in zip(self._members, state, strict=True)]
        members = [logits for logits, _ in found]
        mean = np.empty_like(members[0])
        # Rows by rows, which stay in the processor's cache from one operation to the next.
        for start in range(0, len(mean), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            total = reduce(np.add, (_probabilities(logits[rows]) for logits in members))
            # What is too improbable for a float of 32 bits is never chosen: minus infinity. The end mark must be
            # possible: where the steps are used up, it is all that is left.
            np.maximum(total[:, EOS_ID], np.finfo(np.float32).tiny, out=total[:, EOS_ID])
            with np.errstate(divide="ignore"):
                np.log(total / np.float32(len(members)), out=mean[rows])
        return mean, [own for _, own in found]

    def reorder(self, state: list[State], rows: NDArray[np.int64]) -> list[State]:
        """The state whose row ``i`` is the present row ``rows[i]``, of every member."""
        return [member.reorder(own, rows) for member, own in zip(self._members, state, strict=True)]


def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    largest = logits.max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        raise damaged_model()
    probabilities: NDArray[np.float32] = np.exp(logits - largest)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return probabilities
