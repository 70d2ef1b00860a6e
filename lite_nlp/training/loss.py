"""Label-smoothed cross entropy over a vocabulary, without the copies that dominate it on a CPU."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lite_nlp.data.vocabulary import PAD_ID

__all__ = ["SummedLoss", "label_smoothed_loss"]


class SummedLoss(NamedTuple):
    """Sums over the tokens of a batch that are not padding, in nats; 0-dimensional float32 tensors.

    Attributes:
        loss: The label-smoothed cross entropy, which has a gradient.
        nll: The plain negative log-likelihood, for reports; it has no gradient.
    """

    loss: Tensor
    nll: Tensor


class _LabelSmoothedLoss(torch.autograd.Function):
    """Computes the gradient together with the loss, while the probabilities are at hand."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        # logits (N, V), labels (N,)
        real = labels.ne(PAD_ID)
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        label_log_probs = log_probs.gather(1, labels[:, None])[:, 0]
        nll = -(label_log_probs * real).sum()
        uniform = -(log_probs.sum(dim=-1) * real).sum() / logits.shape[1]
        loss = (1.0 - smoothing) * nll + smoothing * uniform
        if ctx.needs_input_grad[0]:
            # d loss / d logits = softmax - (1 - smoothing) [label] - smoothing / V, and 0 on padding.
            gradient = log_probs.exp_().sub_(smoothing / logits.shape[1])
            gradient.scatter_add_(1, labels[:, None], gradient.new_full((len(labels), 1), smoothing - 1.0))
            gradient.masked_fill_(~real[:, None], 0.0)
            ctx.save_for_backward(gradient.to(logits.dtype))
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0], None, None


def label_smoothed_loss(logits: Tensor, labels: Tensor, *, smoothing: float) -> SummedLoss:
    """Cross entropy against ``(1 - smoothing) [label] + smoothing / V`` (Szegedy et al. 2016, section 7), summed.

    Args:
        logits: (B, T, V), float32 or bfloat16.
        labels: (B, T) int64; positions with the padding id count nothing.
        smoothing: Probability mass spread evenly over the vocabulary, in [0, 1).
    """
    vocab_size = logits.shape[-1]
    loss, nll = _LabelSmoothedLoss.apply(logits.reshape(-1, vocab_size), labels.reshape(-1), smoothing)  # type: ignore[no-untyped-call]
    return SummedLoss(loss=loss, nll=nll)
