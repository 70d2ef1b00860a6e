"""A torch model behind the step interface of the search (``lite_nlp.decoding.search.StepModel``)."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["SteppedModel", "TorchStepModel"]


class SteppedModel(Protocol):
    """An encoder-decoder module that decodes step by step. B: rows, S: source tokens, D: channels, V: target types."""

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """Encode sources, both (B, S), mask True where there is a token, into (B, S, D)."""
        ...

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        """The state before the first target token, for at most ``capacity`` steps; every tensor has the batch first."""
        ...

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Consume tokens (B,); return logits (B, V) and the new state with the same names, shapes and types."""
        ...


class TorchStepModel:
    """A module as a step model of the search, without gradients, on the module's device.

    Args:
        model: In evaluation mode.
        device: Device of its weights.
    """

    def __init__(self, model: SteppedModel, device: torch.device | str = "cpu") -> None:
        self._model = model
        self._device = torch.device(device)

    @torch.inference_mode()
    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> dict[str, Tensor]:
        """Encode the sources, both (B, S), and make the state for ``capacity`` steps."""
        tokens = torch.from_numpy(src_tokens).to(self._device)
        mask = torch.from_numpy(src_mask).to(self._device)
        return self._model.init_state(self._model.encode(tokens, mask), mask, capacity)

    @torch.inference_mode()
    def step(
        self, tokens: NDArray[np.int64], state: dict[str, Tensor]
    ) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Feed one token per row, (B,); return logits (B, V) and the new state."""
        logits, state = self._model.decode_step(torch.from_numpy(tokens).to(self._device), state)
        array: NDArray[np.float32] = logits.float().cpu().numpy()
        return array, state

    @torch.inference_mode()
    def reorder(self, state: dict[str, Tensor], rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """Gather rows of every tensor of the state."""
        index = torch.from_numpy(rows).to(self._device)
        return {name: value.index_select(0, index) for name, value in state.items()}
