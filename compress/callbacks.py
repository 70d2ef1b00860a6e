"""What compression calls, made of a caller's own score, loss and batches."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lite_nlp.compress.significance import Scored, mean_measure
from lite_nlp.compress.tuning import TuningOptions
from lite_nlp.compress.weight_tuner import Finetuning
from lite_nlp.core.errors import ModelError, UsageError

__all__ = [
    "Score",
    "differentiable",
    "finetuning_of",
    "guiding_batches",
    "mean_loss",
    "negative",
    "no_loss",
    "one_score",
    "score_module",
    "worst_if_undefined",
]

#: A score, or the score of each example, whose mean is the score.
Score = float | Tensor | Sequence[float]

Batch = TypeVar("Batch")

#: Batches on which the loss is measured that guides pruning.
_GUIDING_BATCHES: Final = 8


def one_score(score: Callable[[nn.Module], Score], title: str, what: str) -> Callable[[nn.Module], float]:
    """``score`` as one number, in evaluation mode and without gradients."""
    return lambda model: score_module(score, model, title, what).scores[what]


def score_module(score: Callable[[nn.Module], Score], model: nn.Module, title: str, what: str) -> Scored:
    """The score of a model by its name, with the scores of single examples if there are any.

    Raises:
        ModelError: If it is no number, an empty list or a table.
    """
    model.eval()
    with torch.no_grad():
        found = score(model)
    try:
        values = np.asarray(found.double().cpu() if isinstance(found, Tensor) else found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{title}: expected one {what}, or one for each example, found {found!r:.80}") from error
    if values.ndim > 1 or not values.size:
        raise ModelError(f"{title}: expected one {what}, or one for each example, found shape {list(values.shape)}")
    return Scored(scores={what: float(values.mean())}, measures={what: mean_measure(values)} if values.ndim else {})


def negative(judge: Callable[[nn.Module], float]) -> Callable[[nn.Module], float]:
    """What is lower for a better module, of what is higher."""
    return lambda model: -judge(model)


def worst_if_undefined(guide: Callable[[nn.Module], float]) -> Callable[[nn.Module], float]:
    """The guide, infinite where it is not finite: weights may be so coarse that nothing can be computed with them."""

    def evaluate(model: nn.Module) -> float:
        found = guide(model)
        return found if math.isfinite(found) else math.inf

    return evaluate


def mean_loss(loss: Callable[[nn.Module, Batch], Tensor], batches: Iterable[Batch]) -> Callable[[nn.Module], float]:
    """The mean loss of a module on batches."""

    def mean(model: nn.Module) -> float:
        losses = [_one_number(loss(model, batch)) for batch in batches]
        return sum(losses) / len(losses)

    return mean


def _one_number(loss: Tensor) -> float:
    if isinstance(loss, Tensor) and loss.numel() != 1:
        raise UsageError(f"loss: expected one number as a tensor with gradients, found shape {list(loss.shape)}")
    return float(loss)


def guiding_batches(batches: Iterable[Batch]) -> list[Batch]:
    """The first batches, to measure the loss on the same ones each time.

    Raises:
        UsageError: If there are none, or they can be gone through only once.
    """
    if iter(batches) is batches:
        raise UsageError(
            "batches: expected what can be gone through again, such as a list or a DataLoader, found "
            f"{type(batches).__name__}"
        )
    guiding = list(islice(batches, _GUIDING_BATCHES))
    if not guiding:
        raise UsageError("batches: expected at least one, found none")
    return guiding


def finetuning_of(
    loss: Callable[[nn.Module, Batch], Tensor], batches: Iterable[Batch], options: TuningOptions
) -> Finetuning | None:
    """Fine-tuning with these options; none for 0 steps."""

    def endless() -> Iterator[Batch]:
        while True:
            passed = False
            for batch in batches:
                passed = True
                yield batch
            if not passed:
                raise UsageError("batches: expected what can be gone through again, found none at a later pass")

    if options.steps < 1:
        return None
    return Finetuning(batches=endless, loss=differentiable(loss), options=options)


def differentiable(loss: Callable[[nn.Module, Batch], Tensor]) -> Callable[[nn.Module, Batch], Tensor]:
    """The loss with gradients also in evaluation mode, where cuDNN's recurrent layers have none."""

    def differentiable(model: nn.Module, batch: Batch) -> Tensor:
        recurrent = any(isinstance(part, nn.RNNBase) for part in model.modules())
        with torch.backends.cudnn.flags(enabled=False) if recurrent else nullcontext():
            found = loss(model, batch)
        if not isinstance(found, Tensor) or not found.requires_grad:
            what = "one without" if isinstance(found, Tensor) else type(found).__name__
            raise UsageError(f"loss: expected one number as a tensor with gradients, found {what}")
        return found

    return differentiable


def no_loss(model: nn.Module, batch: object) -> Tensor:
    """The loss where there is none."""
    raise AssertionError("no batches to measure the importance on")
