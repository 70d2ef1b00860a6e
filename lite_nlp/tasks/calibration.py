"""What guides, fine-tunes and judges a compression, whatever the model predicts. Needs torch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.metric import Metric
from lite_nlp.core.progress import Progress

__all__ = ["Guidance", "Predict", "distillation_loss", "divergence_from", "mean_loss", "spaced"]

#: Log-probabilities (N, C) of all that could be predicted, and labels (N,), of a model on a batch, padding left out.
Predict = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """All that compression has to know about a task. What judges neither guides nor is learned from.

    Attributes:
        name: What the model is judged on, for people.
        metric: What it is judged by.
        predict: What the model says about a batch.
        scan: Batches that guide pruning; never fine-tuned on.
        tuning: Makes an endless iterator of batches to fine-tune on.
        label_weight: Weight of the labels, against the uncompressed model's own predictions, in fine-tuning: 0 where
            there are too few to learn from.
        tuning_steps: Fine-tuning steps that suit the amount of data.
        score: The scores of a model, that of ``metric`` among them.
    """

    name: str
    metric: Metric
    predict: Predict
    scan: Sequence[Any]
    tuning: Callable[[], Iterator[Any]]
    label_weight: float
    tuning_steps: int
    score: Callable[[nn.Module, Progress], dict[str, float]]


def mean_loss(predict: Predict, model: nn.Module, batches: Sequence[Any]) -> float:
    """Negative log-likelihood of the labels, in nats per label."""
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            log_probs, labels = predict(model, batch)
            total -= float(log_probs.gather(1, labels[:, None]).sum())
            count += len(labels)
    return total / count


def divergence_from(predict: Predict, original: nn.Module, batches: Sequence[Any]) -> Callable[[nn.Module], float]:
    """How far a model's predictions are from the original's: what pruning is guided by.

    The mean Kullback-Leibler divergence, in nats per prediction. Unlike the loss on a few examples, which some damage
    lowers by luck, it is zero for the original only and grows with the square of a small change of the weights.

    Args:
        predict: What a model says about a batch.
        original: The uncompressed model, in evaluation mode; only its predictions now are kept.
        batches: What both models are fed.
    """
    with torch.inference_mode():
        wanted = [predict(original, batch)[0] for batch in batches]

    def divergence(model: nn.Module) -> float:
        total, count = 0.0, 0
        with torch.inference_mode():
            for batch, target in zip(batches, wanted, strict=True):
                found = predict(model, batch)[0]
                total += float(F.kl_div(found, target, reduction="sum", log_target=True))
                count += len(target)
        return total / count

    return divergence


def distillation_loss(predict: Predict, teacher: nn.Module, label_weight: float) -> Callable[[nn.Module, Any], Tensor]:
    """Cross entropy against what the uncompressed model predicts, in part against the labels (nats per label).

    Args:
        predict: What a model says about a batch.
        teacher: The uncompressed model, in evaluation mode; it is not changed.
        label_weight: Part of the labels, 0 to 1.
    """

    def loss(model: nn.Module, batch: Any) -> Tensor:
        log_probs, labels = predict(model, batch)
        with torch.no_grad():
            wanted = predict(teacher, batch)[0].exp()
        imitation = -(wanted * log_probs).sum(dim=-1).mean()
        if not label_weight:
            return imitation
        return (1 - label_weight) * imitation + label_weight * F.nll_loss(log_probs, labels)

    return loss


def spaced(numbers: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many of the numbers, evenly spaced."""
    return numbers[np.linspace(0, len(numbers) - 1, min(most, len(numbers))).astype(np.int64)]
