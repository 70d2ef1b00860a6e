"""The diagonal of the Fisher information: how much each weight matters to a model's predictions.

To second order the predictions move by half of the sum of F times the squared changes of the weights, in nats per
prediction (Theis et al. 2018, arXiv 1801.05787, equation 4). Compression spends its bits by it, and checks it against
measured losses (``sensitivity.py``).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["diagonal_fisher"]

#: Weights whose gradients were next to nothing on the batches seen still matter so much, as a fraction of the mean over
#: their matrix: those of tokens that did not occur, above all.
_FLOOR: Final = 1e-2


def diagonal_fisher(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[nn.Module, Any], Tensor],
    *,
    parameters: Mapping[str, nn.Parameter],
    on_batch: Callable[[], None] = lambda: None,
) -> dict[str, NDArray[np.float32]]:
    """Mean squared gradients of a loss, by weight.

    Args:
        model: Its weights and its mode stay as they are.
        batches: At least one.
        loss: A scalar whose squared gradient estimates the information: the negative log-likelihood of labels drawn
            from the model's own predictions, summed over N of them and divided by the root of N (products of the
            gradients of different predictions are then zero on average). With a mean loss on real labels the figures
            are those of the empirical Fisher information up to a factor.
        parameters: The weights, by name.
        on_batch: Called after each batch.

    Returns:
        An array of each parameter's shape, at least a hundredth of its mean everywhere; all ones where the loss does
        not depend on a parameter.
    """
    sums = {name: torch.zeros_like(parameter, dtype=torch.float32) for name, parameter in parameters.items()}
    count = 0
    for batch in batches:
        model.zero_grad(set_to_none=True)
        loss(model, batch).backward()  # type: ignore[no-untyped-call]
        for name, parameter in parameters.items():
            if parameter.grad is not None:
                sums[name] += parameter.grad.float().square()
        count += 1
        on_batch()
    model.zero_grad(set_to_none=True)
    return {name: _floored(total / max(1, count)) for name, total in sums.items()}


def _floored(information: Tensor) -> NDArray[np.float32]:
    mean = float(information.mean())
    if not 0 < mean < float("inf"):
        return np.ones(tuple(information.shape), dtype=np.float32)
    array: NDArray[np.float32] = information.clamp_min(_FLOOR * mean).cpu().numpy()
    return array
