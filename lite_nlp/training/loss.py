"""Label-smoothed cross entropy over a vocabulary, in one pass through memory."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from lite_nlp.core.special_tokens import PAD_ID

__all__ = ["SummedLoss", "label_smoothed_loss"]

#: Logits processed at a time: on a CPU, as many as fit the cache of one core.
_CHUNK_ELEMENTS: Final = {"cpu": 2**18}
_CHUNK_ELEMENTS_ELSEWHERE: Final = 2**26


class SummedLoss(NamedTuple):
    """Sums over the tokens of a batch that are not padding.

    Attributes:
        loss: The label-smoothed cross entropy in nats, a 0-dimensional float32 tensor.
        nll: The plain negative log-likelihood in nats, for reports, likewise.
        gradient: (B, T, V), of ``loss`` with respect to the logits and in their memory; None if they need none.
    """

    loss: Tensor
    nll: Tensor
    gradient: Tensor | None


def label_smoothed_loss(logits: Tensor, labels: Tensor, *, smoothing: float) -> SummedLoss:
    """Cross entropy against ``(1 - smoothing) [label] + smoothing / V`` (Szegedy et al. 2016, section 7), summed.

    The logits are the largest tensor of a training step, and moving them dominates the cost. So the gradient is
    computed while the probabilities are in the cache, and overwrites the logits; ``logits.backward(gradient)`` follows.

    Args:
        logits: (B, T, V), float32 or bfloat16; overwritten if they require a gradient.
        labels: (B, T) int64; positions with the padding id are ignored.
        smoothing: Probability mass spread evenly over the vocabulary, in [0, 1).
    """
    vocab_size = logits.shape[-1]
    rows = max(1, _CHUNK_ELEMENTS.get(logits.device.type, _CHUNK_ELEMENTS_ELSEWHERE) // vocab_size)
    with torch.no_grad():
        flat = logits.detach().reshape(-1, vocab_size)
        loss = nll = torch.zeros((), device=logits.device)
        for chunk, chunk_labels in zip(torch.split(flat, rows), torch.split(labels.reshape(-1, 1), rows), strict=True):
            log_probs = torch.log_softmax(chunk.float(), dim=1)
            padding = chunk_labels.eq(PAD_ID)
            chunk_nll = -log_probs.gather(1, chunk_labels).masked_fill_(padding, 0.0).sum()
            uniform = -log_probs.mean(dim=1, keepdim=True).masked_fill_(padding, 0.0).sum()
            nll = nll + chunk_nll
            loss = loss + (1.0 - smoothing) * chunk_nll + smoothing * uniform
            if logits.requires_grad:
                # softmax - (1 - smoothing) [label] - smoothing / V, and 0 on padding
                gradient = log_probs.exp_().sub_(smoothing / vocab_size)
                gradient.scatter_add_(1, chunk_labels, gradient.new_full(chunk_labels.shape, smoothing - 1.0))
                chunk.copy_(gradient.masked_fill_(padding, 0.0))
    return SummedLoss(loss, nll, flat.view_as(logits) if logits.requires_grad else None)
