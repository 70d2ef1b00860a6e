"""The training objective as the loop sees it: batches, the loss on one, and the scores of validation."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.training.batching import Rows, Work

__all__ = ["Batches", "Objective", "SplitChoice"]

#: The split to learn from, or the one to validate on.
SplitChoice = Literal["train", "valid"]

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class Batches(Protocol[B_co]):
    """The batches of one split: whole epochs of them, cut into optimizer steps."""

    @property
    def batches_per_step(self) -> int:
        """Batches in an optimizer step over all processes."""

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch: a pure function of the seed and the epoch."""

    def load(self, rows: Rows) -> B_co:
        """Read and pad the rows of a batch; called in another thread than training."""


class Objective(Protocol[B]):
    """Batches, loss and validation scores of a task; equal in every process, and without random numbers of its own."""

    @property
    def measures(self) -> Mapping[str, str]:
        """The scores that ``measure`` gives beside the loss, all better when greater: what people call each name."""

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> Batches[B]:
        """The batches of a split, in an order that changes from epoch to epoch where it is the one to learn from.

        Args:
            split: Which one.
            batches_per_step: Batches in an optimizer step over all processes.
            say: Is told what is left out of the split, if anything.

        Raises:
            TrainingError: If nothing of the split can be used.
        """

    def batch_sums(self, model: nn.Module, batch: B, device: torch.device) -> Tensor:
        """Run the model on a batch; where gradients are enabled, add them to the parameters' ``grad``.

        Returns:
            (4,) float32 on ``device``, sums over the batch: the loss to be minimized and the negative log-likelihood,
            in nats; the tokens that were read only; and the targets, which the loss and the gradient of a step are
            divided by.
        """

    def measure(self, model: nn.Module) -> dict[str, float]:
        """The ``measures`` of the model, in evaluation mode, on the validation split; called in the first process."""

    def fingerprint(self) -> dict[str, Any]:
        """What of the data must be the same for a run to be resumed, as JSON takes it."""

    def facts(self) -> dict[str, Any]:
        """What ``metrics.json`` is to say about the data."""
