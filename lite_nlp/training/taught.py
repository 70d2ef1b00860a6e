"""The objective of a task with a teacher in it: what the run records, and which batches an epoch has."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.training.objective import Batches, Objective, SplitChoice

__all__ = ["TaughtObjective"]

B = TypeVar("B")


class TaughtObjective(Generic[B]):
    """A task's objective, which learns from a teacher; its validation and scores are those of the task.

    Args:
        task: The objective.
        identity: Teacher and options, as JSON values: a run with others cannot be resumed.
        facts: What ``metrics.json`` says of the distillation, beside its identity.
        choose: Chooses the batches of an epoch from those of the training split; None takes them as they are.
    """

    def __init__(
        self,
        task: Objective[B],
        *,
        identity: Mapping[str, Any],
        facts: Mapping[str, Any],
        choose: Callable[[Batches[B]], Batches[B]] | None = None,
    ) -> None:
        self._task = task
        self._identity = dict(identity)
        self._facts = dict(facts)
        self._choose = choose

    @property
    def measures(self) -> Mapping[str, str]:
        """See ``Objective``."""
        return self._task.measures

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> Batches[B]:
        """See ``Objective``."""
        found = self._task.batches(split, batches_per_step=batches_per_step, say=say)
        return self._choose(found) if self._choose is not None and split == "train" else found

    def batch_sums(self, model: nn.Module, batch: B, device: torch.device) -> Tensor:
        """See ``Objective``."""
        return self._task.batch_sums(model, batch, device)

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        """See ``Objective``."""
        return self._task.measure(model, examples=examples)

    def fingerprint(self) -> dict[str, Any]:
        """See ``Objective``."""
        return {**self._task.fingerprint(), "distillation": self._identity}

    def facts(self) -> dict[str, Any]:
        """See ``Objective``."""
        return {**self._task.facts(), "distillation": {**self._identity, **self._facts}}
