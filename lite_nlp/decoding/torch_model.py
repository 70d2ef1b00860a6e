"""Torch modules behind the interfaces of the search, of continuation and of classification."""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.decoding.continuation import READ_TOKENS

__all__ = ["SteppedModel", "SteppedText", "TorchClassifier", "TorchStepModel", "TorchTextModel"]


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


class SteppedText(Protocol):
    """A language model that reads a text in parts. B: rows, T: tokens, V: types."""

    def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
        """The state before the first token, for at most ``capacity`` tokens; every tensor has the batch first.

        The logits do not depend on the capacity: an exported model's state begins with a small one and gets more
        zeros when that is used up.
        """
        ...

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Consume tokens (B,); return logits (B, V) and the new state with the same names, shapes and types."""
        ...

    def read(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Consume tokens (B, T), as so many steps would; return the last one's logits (B, V) and the new state."""
        ...

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""
        ...


_Model = TypeVar("_Model", bound=SteppedModel | SteppedText)

#: What a module returns for tokens and a state.
_Advanced = tuple[Tensor, dict[str, Tensor]]


class _TorchSteps(Generic[_Model]):
    """The steps of a module, without gradients, on the module's device.

    Args:
        model: In evaluation mode.
        device: Device of its weights.
    """

    def __init__(self, model: _Model, device: torch.device | str = "cpu") -> None:
        self._model = model
        self._device = torch.device(device)

    @torch.inference_mode()
    def _advance(
        self,
        call: Callable[[Tensor, dict[str, Tensor]], _Advanced],
        tokens: NDArray[np.int64],
        state: dict[str, Tensor],
    ) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        logits, state = call(torch.from_numpy(tokens).to(self._device), state)
        array: NDArray[np.float32] = logits.float().cpu().numpy()
        return array, state

    def reorder(self, state: dict[str, Tensor], rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """Gather rows of every tensor of the state."""
        return _gather(state, rows, self._device)


class TorchStepModel(_TorchSteps[SteppedModel]):
    """A module as a step model of the search.

    Args:
        model: In evaluation mode.
        device: Device of its weights.
    """

    @torch.inference_mode()
    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> dict[str, Tensor]:
        """Encode the sources, both (B, S), and make the state for ``capacity`` steps."""
        tokens = torch.from_numpy(src_tokens).to(self._device)
        mask = torch.from_numpy(src_mask).to(self._device)
        return self._model.init_state(self._model.encode(tokens, mask), mask, capacity)

    def step(
        self, tokens: NDArray[np.int64], state: dict[str, Tensor]
    ) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Feed one token per row, (B,); return logits (B, V) and the new state."""
        return self._advance(self._model.decode_step, tokens, state)


class TorchTextModel(_TorchSteps[SteppedText]):
    """A language model behind the interface of continuation.

    Args:
        model: In evaluation mode.
        device: Device of its weights.
    """

    max_read: Final = READ_TOKENS

    def most_rows(self, prompt: int, limit: int) -> None:
        """Any number of rows."""

    @torch.inference_mode()
    def start(self, rows: int, capacity: int) -> dict[str, Tensor]:
        """The state of so many rows for ``capacity`` tokens."""
        return self._model.init_state(rows, capacity)

    def read(
        self, tokens: NDArray[np.int64], state: dict[str, Tensor]
    ) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Feed the next tokens of each row, (B, T); return the last one's logits (B, V) and the new state."""
        return self._advance(self._model.read, tokens, state)

    @torch.inference_mode()
    def score(self, tokens: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""
        given = (torch.from_numpy(array).to(self._device) for array in (tokens, labels))
        array: NDArray[np.float32] = self._model.target_log_probs(*given).float().cpu().numpy()
        return array


class TorchClassifier:
    """A classifier behind the interface of classification, without gradients, on the module's device.

    Args:
        model: In evaluation mode; takes tokens and mask of each sentence, returns logits (B, C).
        device: Device of its weights.
    """

    def __init__(self, model: nn.Module, device: torch.device | str = "cpu") -> None:
        self._model = model
        self._device = torch.device(device)

    @torch.inference_mode()
    def classify(self, sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> NDArray[np.float32]:
        """The logits (B, C) for the tokens and mask, both (B, T), of each sentence."""
        arguments = [torch.from_numpy(array).to(self._device) for sentence in sentences for array in sentence]
        array: NDArray[np.float32] = self._model(*arguments).float().cpu().numpy()
        return array


@torch.inference_mode()
def _gather(state: dict[str, Tensor], rows: NDArray[np.int64], device: torch.device) -> dict[str, Tensor]:
    index = torch.from_numpy(rows).to(device)
    return {name: value.index_select(0, index) for name, value in state.items()}
