"""Fine-tuning what is left: pruned weights stay zero, and shared weights move together.

Deep Compression (Han et al. 2016): section 2 for pruned connections, section 3.3 for shared centroids, whose gradient
is the sum of the gradients of the weights that share them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import ClusteredTensor
from lite_nlp.compress.prune.magnitude import apply_masks

__all__ = ["FinetuneOptions", "finetune_pruned", "finetune_shared"]

Batch = TypeVar("Batch")


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """How long and how fast to fine-tune.

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


def finetune_shared(
    model: nn.Module,
    batches: Iterator[Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    *,
    clusters: Mapping[str, ClusteredTensor],
    options: FinetuneOptions,
    on_step: Callable[[float], None] = lambda _: None,
) -> dict[str, ClusteredTensor]:
    """Train the centroids of clustered parameters and the other parameters, in place; assignments are held.

    A centroid that is exactly zero stays zero, so that pruned weights do. Interrupted at any moment, it leaves a
    model whose weights are their centroids.

    Args:
        model: Trained in place; its clustered parameters are set to their centroids first.
        batches: At least as many as there are steps; fewer end it early.
        loss: Scalar loss of the model on a batch.
        clusters: By parameter name.
        options: Steps and learning rate.
        on_step: Called with the loss after each step.

    Returns:
        The clusters with their trained codebooks (no longer ascending) and the assignments given.
    """
    parameters = dict(model.named_parameters())
    shared = {name: _SharedWeights.of(parameters[name], cluster) for name, cluster in clusters.items()}
    free = [parameter for name, parameter in parameters.items() if name not in shared]
    codebooks = [weights.codebook for weights in shared.values()]
    optimizer = torch.optim.Adam([*free, *codebooks], lr=options.learning_rate, betas=(0.9, 0.98))

    def gather() -> None:
        for weights in shared.values():
            weights.gather_gradient()

    def hold() -> None:
        for weights in shared.values():
            weights.spread()

    hold()
    _train(model, batches, loss, optimizer=optimizer, options=options, before=gather, hold=hold, on_step=on_step)
    return {
        name: ClusteredTensor(shared[name].codebook.detach().cpu().numpy().copy(), cluster.assignments)
        for name, cluster in clusters.items()
    }


@dataclass(frozen=True)
class _SharedWeights:
    """A parameter whose elements are looked up in a trainable codebook."""

    parameter: nn.Parameter
    codebook: nn.Parameter
    indices: Tensor
    moving: Tensor

    @classmethod
    def of(cls, parameter: nn.Parameter, cluster: ClusteredTensor) -> "_SharedWeights":
        codebook = torch.from_numpy(cluster.codebook.copy()).to(parameter.device)
        indices = torch.from_numpy(cluster.assignments.astype("int64")).reshape(-1).to(parameter.device)
        return cls(parameter, nn.Parameter(codebook), indices, codebook != 0)

    def gather_gradient(self) -> None:
        """Give each centroid the sum of its weights' gradients, and the zero centroid none."""
        if self.parameter.grad is None:
            self.codebook.grad = None
            return
        summed = torch.zeros_like(self.codebook).index_add_(0, self.indices, self.parameter.grad.reshape(-1))
        self.codebook.grad = summed * self.moving
        # The parameter itself is not the optimizer's; clipping must not count its gradient a second time.
        self.parameter.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        """Set every weight to its centroid."""
        self.parameter.copy_(self.codebook[self.indices].view_as(self.parameter))


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
    """The loop both share: ``before`` runs between backward and the step, ``hold`` after it and whatever happens."""
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
