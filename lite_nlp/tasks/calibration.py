"""Guidance of a compression: the data, losses and scores for the scan, finetuning and the ledger. Needs torch."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.lnlp.container import quantized_matrices
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Scored
from lite_nlp.core.progress import Progress
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.tasks.calibration_warnings import CalibrationFacts, calibration_warnings
from lite_nlp.tasks.changed_outputs import ScoredTexts
from lite_nlp.training.device import autocast, device_of
from lite_nlp.training.mixed_loss import TeacherOutput, mixed_loss
from lite_nlp.training.soft_targets import SoftTargets

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel

__all__ = [
    "BundleScoring",
    "Guidance",
    "Keep",
    "Predict",
    "Project",
    "distillation_loss",
    "divergence_from",
    "information_loss",
    "inspect_calibration",
    "mean_loss",
    "projected_distillation_loss",
    "spaced",
    "unpadded",
]

#: Log-probabilities (N, C) float32 over all classes and labels (N,) of a model's predictions on a batch, no padding.
Predict = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]

#: What gives a model's logits on a batch, a product with a table, and its labels (B, T) with padding.
Project = Callable[[nn.Module, Any], tuple[TeacherOutput, Tensor]]


T = TypeVar("T")


class Keep(Protocol):
    """Keeps what an interrupted compression goes on from."""

    def __call__(self, name: str, make: Callable[[], T]) -> T:
        """What was made under a name before, or is made now."""


@dataclass(frozen=True, kw_only=True)
class BundleScoring:
    """Comparison of an exported bundle with the model that it was made from, on one text.

    Attributes:
        name: Display name of the text.
        score_model: Scores the model.
        score_bundle: Scores a bundle in each of its runtimes, which get one text at a time, as on a phone: integer
            products round the inputs of a whole call alike.
        sides: Token ids, without special ids, of what a model reads of texts that are not scored: of each sentence of
            an example, or of the texts alone, the rows.
    """

    name: str
    score_model: Callable[[Progress], Scored]
    score_bundle: Callable[[Path, Progress], Mapping[str, Scored]]
    sides: Callable[[], list[list[list[int]]]]


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """Everything that compression needs from a task. The scored data is neither scanned nor finetuned on.

    Attributes:
        name: Display name of the scored data.
        metric: The metric that compression reports and compares by.
        predict: Computes a model's predictions for a batch.
        project: The same before the output projection, so that a loss needs no logits of a whole batch; None where
            predictions are made in another way.
        scan: Batches of the sensitivity scan; never finetuned on.
        tuning: Makes an endless iterator of batches to finetune on.
        tuned: Predictions in one epoch of ``tuning``.
        label_weight: Weight of the labels, against the uncompressed model's own predictions, in finetuning; 0 if there
            are too few labels to learn from.
        own_outputs: Makes, for so many steps, what ``tuning`` is, with the model's own outputs in place of the data's
            targets; called with its weights as loaded. None where outputs are no text.
        score: Computes the scores of a model, that of ``metric`` among them. A ``Scored`` adds the statistics of single
            examples, for intervals and paired tests, and the outputs.
        score_other: Scores another model, with a tokenizer and a config of its own, on the same examples; raises a
            ``LiteNlpError`` if it cannot be. None if the task compares no models.
        bundles: Compares exported bundles of the model with it; None if the task has none.
        inspect: Warnings about the outputs of a compressed model; None if they are nothing that could be judged.
        texts: Sources and references of the scored examples; None where outputs are no text.
        languages: Codes of the source and target language of the data; None if it has no two languages.
    """

    name: str
    metric: Metric
    predict: Predict
    scan: Sequence[Any]
    tuning: Callable[[], Iterator[Any]]
    tuned: int
    label_weight: float
    score: Callable[[nn.Module, Progress], Mapping[str, float] | Scored]
    score_other: "Callable[[LoadedModel, Progress], Scored] | None" = None
    bundles: BundleScoring | None = None
    inspect: Callable[[Scored], Sequence[str]] | None = None
    project: Project | None = None
    own_outputs: Callable[[int, Keep, Progress], Callable[[], Iterator[Any]]] | None = None
    texts: ScoredTexts | None = None
    languages: tuple[str, str] | None = None


def unpadded(tokens: npt.NDArray[np.int64]) -> list[list[int]]:
    """Rows (B, T) without padding and the end mark behind each text."""
    return [row[row != PAD_ID][:-1].tolist() for row in tokens]


def mean_loss(predict: Predict, model: nn.Module, batches: Sequence[Any]) -> float:
    """Negative log-likelihood of the labels, in nats per label."""
    return _summed_loss(predict, model, batches)[0]


def _summed_loss(predict: Predict, model: nn.Module, batches: Sequence[Any]) -> tuple[float, int]:
    """The mean negative log-likelihood, and of how many labels."""
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            log_probs, labels = predict(model, batch)
            total -= float(log_probs.gather(1, labels[:, None]).sum())
            count += len(labels)
    return total / count, count


def inspect_calibration(guidance: Guidance, loaded: "LoadedModel", *, given: bool, finetuned: bool) -> list[str]:
    """Warnings about the text that guides a compression, and the model it starts from.

    Args:
        guidance: Of the compression.
        loaded: The model, with its weights as loaded.
        given: Whether the text was given, in place of the package's own.
        finetuned: Whether the model is to be finetuned.
    """
    loss, scanned = _summed_loss(guidance.predict, loaded.model, guidance.scan)
    uncompressed = loaded.metrics.get("uncompressed")
    recorded = loaded.metrics | (uncompressed if isinstance(uncompressed, dict) else {})
    valid = recorded.get("valid")
    own_loss = valid.get("nll") if isinstance(valid, dict) else None
    languages = recorded.get("languages")
    codes = [languages.get(side) for side in ("src", "tgt")] if isinstance(languages, dict) else []
    return calibration_warnings(
        CalibrationFacts(
            name=guidance.name,
            scanned=scanned,
            tuned=guidance.tuned if finetuned else None,
            scored=None if guidance.texts is None else len(guidance.texts.references),
            loss=loss,
            own_loss=own_loss if isinstance(own_loss, float) else None,
            languages=guidance.languages,
            own_languages=(str(codes[0]), str(codes[1])) if codes else None,
            given=given,
            quantized=len(quantized_matrices(loaded.stored)),
        )
    )


def divergence_from(predict: Predict, original: nn.Module, batches: Sequence[Any]) -> Callable[[nn.Module], float]:
    """Divergence of a model's predictions from the original's, which guides pruning.

    The mean Kullback-Leibler divergence, in nats per prediction. Unlike the loss on a few examples, which damage may
    lower by chance, it is zero only for the original and grows with the square of a small change of the weights.

    Args:
        predict: Computes a model's predictions for a batch.
        original: The uncompressed model, in evaluation mode; only its present predictions are kept.
        batches: The input of both models.
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


def distillation_loss(
    predict: Predict, teacher: nn.Module, label_weight: float, *, precision: Literal["fp32", "bf16"] = "fp32"
) -> Callable[[nn.Module, Any], Tensor]:
    """Cross entropy against the uncompressed model's predictions, in part against the labels (nats per label).

    Args:
        predict: Computes a model's predictions for a batch.
        teacher: The uncompressed model, in evaluation mode; it is not changed.
        label_weight: Weight of the labels, 0 to 1.
        precision: In which both models multiply matrices; the log-probabilities are float32.
    """

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with autocast(device_of(model), precision):
            log_probs, labels = predict(model, batch)
            with torch.no_grad():
                wanted = predict(teacher, batch)[0].exp()
        imitation = -(wanted * log_probs).sum(dim=-1).mean()
        if not label_weight:
            return imitation
        return (1 - label_weight) * imitation + label_weight * F.nll_loss(log_probs, labels)

    return loss


def projected_distillation_loss(
    project: Project, teacher: nn.Module, label_weight: float, *, precision: Literal["fp32", "bf16"] = "fp32"
) -> Callable[[nn.Module, Any], Tensor]:
    """``distillation_loss``, but for its constant part the same, without the logits of a whole batch of either model.

    Args:
        project: Computes what is before the output projection, for a batch.
        teacher: As in ``distillation_loss``.
        label_weight: As in ``distillation_loss``, below 1.
        precision: As in ``distillation_loss``.
    """
    soft = SoftTargets(label_weight=label_weight)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with autocast(device_of(model), precision):
            own, labels = project(model, batch)
            with torch.no_grad():
                taught, _ = project(teacher, batch)
            found = mixed_loss(own.hidden, own.table, labels, teacher=taught, smoothing=0.0, soft=soft)
        return found.loss / int(labels.ne(PAD_ID).sum())

    return loss


def information_loss(predict: Predict) -> Callable[[nn.Module, Any], Tensor]:
    """A loss whose squared gradients estimate the diagonal Fisher information, in nats per prediction.

    The negative log-likelihood of labels drawn from the model's own predictions, summed over all N and divided by the
    root of N (Martens 2014, arXiv 1412.1193, section 5). The draws are the same in every process and on every device.
    """
    generator = torch.Generator().manual_seed(1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        log_probs, _ = predict(model, batch)
        drawn = torch.multinomial(log_probs.detach().exp().cpu(), 1, generator=generator).to(log_probs.device)
        summed: Tensor = -log_probs.gather(1, drawn).sum()
        return summed / math.sqrt(len(drawn))

    return loss


def spaced(numbers: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most ``most`` of the numbers, evenly spaced."""
    return numbers[np.linspace(0, len(numbers) - 1, min(most, len(numbers))).astype(np.int64)]
