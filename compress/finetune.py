"""Fine-tuning of a compressed model: pruned weights stay zero, quantized weights stay quantized.

Deep Compression (Han et al. 2016), section 2 for pruned and section 3.3 for quantized weights.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.magnitude import apply_masks
from lite_nlp.compress.quantize.protocol import TrainableWeights

__all__ = ["FinetuneOptions", "finetune_pruned", "finetune_quantized"]

Batch = TypeVar("Batch")


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """Length and speed of fine-tuning.

    Attributes:
        steps: Optimizer steps, one batch each.
        learning_rate: Adam's highest learning rate; it falls along a half cosine to a tenth of this.
        clip_norm: Largest gradient norm.
    """

    steps: int
    learning_rate: float = 2e-4
    clip_norm: float = 1.0


def finetune_pruned(
    model: nn.Module,
    batches: Iterator[Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    *,
    masks: Mapping[str, Tensor],
    options: FinetuneOptions,
    on_step: Callable[[float], None] = lambda _: None,
) -> None:
    """Train every parameter of the model in place, holding pruned weights at zero.

    Interrupted at any moment, it leaves a model whose masks hold. The model's mode (training or evaluation) is left
    as it is; dropout is the caller's choice.

    Args:
        model: Trained in place.
        batches: At least as many as there are steps; fewer end it early.
        loss: Scalar loss of the model on a batch.
        masks: By parameter name; True on what is kept.
        options: Steps and learning rate.
        on_step: Called with the loss after each step.
    """
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.Adam(parameters.values(), lr=options.learning_rate, betas=(0.9, 0.98))

    def hold() -> None:
        apply_masks(parameters, masks)

    _train(model, batches, loss, optimizer=optimizer, options=options, before=lambda: None, hold=hold, on_step=on_step)


def finetune_quantized(
    model: nn.Module,
    batches: Iterator[Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    *,
    weights: TrainableWeights,
    options: FinetuneOptions,
    on_step: Callable[[float], None] = lambda _: None,
) -> None:
    """Train what quantized weights are computed from, and the other parameters, in place.

    Interrupted at any moment, it leaves a model whose quantized weights are quantized.

    Args:
        model: Trained in place; its quantized weights are set to what ``weights`` stands for first.
        batches: At least as many as there are steps; fewer end it early.
        loss: Scalar loss of the model on a batch.
        weights: The quantized weights of this model, which hold what was learned afterwards.
        options: Steps and learning rate.
        on_step: Called with the loss after each step.
    """
    computed = {id(parameter) for parameter in weights.weights}
    free = [parameter for parameter in model.parameters() if id(parameter) not in computed]
    optimizer = torch.optim.Adam([*free, *weights.trained], lr=options.learning_rate, betas=(0.9, 0.98))
    weights.update_weights()
    _train(
        model,
        batches,
        loss,
        optimizer=optimizer,
        options=options,
        before=weights.pass_gradients,
        hold=weights.update_weights,
        on_step=on_step,
    )


def _train(
    model: nn.Module,
    batches: Iterator[Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    *,
    optimizer: torch.optim.Optimizer,
    options: FinetuneOptions,
    before: Callable[[], None],
    hold: Callable[[], None],
    on_step: Callable[[float], None],
) -> None:
    """The loop of both: ``before`` runs between backward and the step, ``hold`` after the step and at the very end."""
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=max(1, options.steps), eta_min=options.learning_rate / 10
    )
    try:
        for _, batch in zip(range(options.steps), batches, strict=False):
            model.zero_grad(set_to_none=True)
            value = loss(model, batch)
            value.backward()  # type: ignore[no-untyped-call]
            before()
            nn.utils.clip_grad_norm_(trained, options.clip_norm)
            optimizer.step()
            schedule.step()
            hold()
            on_step(float(value.detach()))
    finally:
        hold()
        model.zero_grad(set_to_none=True)
