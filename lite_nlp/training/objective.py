"""The interface of a training objective: batches, loss and validation scores."""

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
    """The batches of one split: whole epochs, cut into optimizer steps."""

    @property
    def batches_per_step(self) -> int:
        """Batches in an optimizer step over all processes."""

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch: a pure function of the seed and the epoch."""

    def load(self, rows: Rows, epoch: int) -> B_co:
        """Read and pad the rows of a batch; called in another thread than training.

        Args:
            rows: Of a ``Work``, or some of them.
            epoch: The one that reads them; what is drawn anew for every epoch is a function of both.
        """


class Objective(Protocol[B]):
    """Batches, loss and validation scores of a task; the same in every process, without random numbers of its own."""

    @property
    def measures(self) -> Mapping[str, str]:
        """Display names of the scores that ``measure`` returns, by name; for all of them greater is better."""

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> Batches[B]:
        """The batches of a split; those of the training split change their order from epoch to epoch.

        Args:
            split: The split.
            batches_per_step: Batches in an optimizer step over all processes.
            say: Receives a message about what is left out of the split, if anything.

        Raises:
            TrainingError: If nothing of the split can be used.
        """

    def batch_sums(self, model: nn.Module, batch: B, device: torch.device) -> Tensor:
        """Run the model on a batch; if gradients are enabled, add them to the parameters' ``grad``.

        Returns:
            (4,) float32 on ``device``, sums over the batch: the loss to be minimized and the negative log-likelihood,
            in nats; the source tokens; and the number of targets, by which the loss and the gradient of a step are
            divided.
        """

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        """Scores of the model, in evaluation mode, on the validation split; called in the first process.

        Args:
            model: The model.
            examples: How many examples, spread over the split, are enough; None is all of them. A task whose scores
                cost no more than the loss may measure all in any case.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Properties of the data that must not change before a run is resumed, as JSON values."""

    def facts(self) -> dict[str, Any]:
        """Facts about the data for ``metrics.json``."""
