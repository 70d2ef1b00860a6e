"""Several models that search together: the mean of their probabilities decides."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lite_nlp.decoding.hypotheses import log_sum_exp
from lite_nlp.decoding.step_models import State, StepModel

__all__ = ["EnsembleModel"]


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
        total = np.zeros_like(found[0][0])
        for logits, _ in found:
            total += np.exp(logits - log_sum_exp(logits)[:, None].astype(np.float32))
        # What is too improbable for a float of 32 bits is never chosen: minus infinity.
        with np.errstate(divide="ignore"):
            mean = np.log(total / np.float32(len(found)))
        return mean, [own for _, own in found]

    def reorder(self, state: list[State], rows: NDArray[np.int64]) -> list[State]:
        """The state whose row ``i`` is the present row ``rows[i]``, of every member."""
        return [member.reorder(own, rows) for member, own in zip(self._members, state, strict=True)]
