"""Loss on the validation split, over all processes."""

from typing import TypeVar

import torch
from accelerate import Accelerator
from torch import nn

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.core.errors import TrainingError
from lite_nlp.training.batching import deal, load_ahead
from lite_nlp.training.objective import Batches, Objective
from lite_nlp.training.processes import sum_over_processes

__all__ = ["check_metric", "validation_loss"]

B = TypeVar("B")


def check_metric(objective: Objective[B], config: TrainingConfig) -> None:
    """Refuse a measure for early stopping that the objective does not have.

    Raises:
        TrainingError: If so.
    """
    offered = ("loss", *objective.measures)
    if config.validate_metric not in offered:
        raise TrainingError(
            f"training.validate_metric: expected {' or '.join(offered)} with this task and data, found "
            f"{config.validate_metric}"
        )


def validation_loss(
    model: nn.Module, objective: Objective[B], batches: Batches[B], *, accelerator: Accelerator
) -> tuple[float, float]:
    """The task's loss and the negative log-likelihood, both per target and in nats.

    The model is in evaluation mode during the call and in training mode after it.
    """
    work = [
        mine
        for step in batches.steps(0)
        for mine in deal(step, process=accelerator.process_index, processes=accelerator.num_processes)
    ]
    totals = [0.0, 0.0, 0.0]
    model.eval()
    with torch.inference_mode():
        for batch in load_ahead(lambda item: batches.load(item.rows, 0), work):
            loss, nll, _, targets = objective.batch_sums(model, batch, accelerator.device).tolist()
            totals = [total + value for total, value in zip(totals, (loss, nll, targets), strict=True)]
    model.train()
    loss, nll, targets = sum_over_processes(accelerator, totals)
    return loss / targets, nll / targets
