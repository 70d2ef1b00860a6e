"""A teacher: a trained model whose distributions a student learns from."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.training.device import device_of
from lite_nlp.training.soft_targets import SoftTargets

__all__ = ["Teacher"]

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")


class Teacher(Generic[M, T]):
    """A trained model's output on the inputs of a batch, without gradients, on their device.

    Args:
        model: In evaluation mode; it is moved to the device of the inputs and not changed otherwise.
        answer: What the model makes of the inputs.
        soft: How its distribution is mixed with the labels.
    """

    def __init__(self, model: M, answer: Callable[..., T], soft: SoftTargets) -> None:
        self._model = model
        self._answer = answer
        self.soft = soft

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> T:
        """The output for the model's inputs, as ``answer`` takes them after the model."""
        device = inputs[0].device
        if device_of(self._model) != device:
            self._model.to(device)
        return self._answer(self._model, *inputs)
