"""Magnitude pruning: the prunable weights of a model, and masks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor, nn

from lite_nlp.core.errors import ModelError

__all__ = [
    "MIN_PRUNABLE_ELEMENTS",
    "apply_masks",
    "magnitude_mask",
    "magnitude_masks",
    "prunable_parameters",
    "weights_restored",
]

#: Smaller tensors (biases, norms, convolution kernels) save less than their codebook costs.
MIN_PRUNABLE_ELEMENTS: Final = 512


def prunable_parameters(model: nn.Module, *, min_elements: int = MIN_PRUNABLE_ELEMENTS) -> dict[str, nn.Parameter]:
    """The weight matrices of a model by name, tied ones once.

    Raises:
        ModelError: If there is none.
    """
    found = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim >= 2 and parameter.numel() >= min_elements and parameter.is_floating_point()
    }
    if not found:
        raise ModelError(
            f"{type(model).__name__}: expected weight matrices of at least {min_elements} elements to compress, "
            "found none"
        )
    return found


def magnitude_mask(values: Tensor, sparsity: float) -> Tensor:
    """Bool mask, True on what is kept: all but the ``sparsity`` fraction of smallest absolute value.

    Args:
        values: Weights of any shape.
        sparsity: From 0 to 1; the number of zeros is rounded to the nearest whole. Of equal values any may go.
    """
    zeros = round(values.numel() * sparsity)
    mask = torch.ones(values.numel(), dtype=torch.bool, device=values.device)
    if zeros:
        mask[torch.topk(values.detach().abs().reshape(-1), zeros, largest=False, sorted=False).indices] = False
    return mask.reshape(values.shape)


def magnitude_masks(parameters: Mapping[str, Tensor], sparsities: Mapping[str, float]) -> dict[str, Tensor]:
    """One mask for each parameter, at the sparsity under its name."""
    return {name: magnitude_mask(parameter, sparsities[name]) for name, parameter in parameters.items()}


@torch.no_grad()
def apply_masks(parameters: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> None:
    """Set to zero, in place, every weight whose mask is False."""
    for name, mask in masks.items():
        parameters[name].mul_(mask)


@contextmanager
def weights_restored(parameters: Mapping[str, Tensor]) -> Iterator[None]:
    """Restore these weights after the block, also if it fails."""
    saved = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(saved[name])
