"""Stacks of layers: an encoder over all tokens at once, a decoder over all tokens or some at a time."""

from collections.abc import Iterator
from typing import Final, cast

import torch
from torch import Tensor, nn

from lite_nlp.models.attention.heads import causal_mask
from lite_nlp.models.embeddings import StackInput
from lite_nlp.models.layers import DecoderLayer, EncodedSource, EncoderLayer

__all__ = ["DecoderStack", "EncoderStack"]

#: Prefix in the state of the tensors of a stack's input; layers have ``layers.N.``.
_INPUT_PREFIX: Final = "input."


class EncoderStack(nn.ModuleList):
    """Encoder layers, first to last, of which several may share their blocks."""

    def encode(self, stack_input: StackInput, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Encode a batch.

        Args:
            stack_input: The block from the tables to the first layer.
            embedded: (B, S, E).
            positions: (S, D), or (S, E) with SAFE.
            mask: (B, S) bool, True on real tokens.

        Returns:
            Output (B, S, D) of the last layer.
        """
        layers = [cast(EncoderLayer, layer) for layer in self]
        x: Tensor = stack_input(embedded, positions, mask[:, None, None, :])
        for layer in layers:
            x = layer(x, mask, layers[layer.owner])
        return x


class DecoderStack(nn.ModuleList):
    """Decoder layers, first to last, of which several may share their blocks; with or without cross-attention.

    Its state is a dict of named tensors, each with the batch first: ``position`` (B,), with an encoder ``src_mask``
    (B, S), under ``input.`` the caches of SAFE, and under ``layers.N.`` those of the layer at position N, also where
    layers share parameters, since their inputs differ.
    """

    @property
    def needs_causal_mask(self) -> bool:
        """Whether any layer needs a mask of size (T, T)."""
        return any(layer.needs_causal_mask for layer, _ in self._with_owners())

    def decode(
        self, stack_input: StackInput, embedded: Tensor, positions: Tensor, source: EncodedSource | None = None
    ) -> Tensor:
        """Decode all tokens at once.

        Args:
            stack_input: The block from the tables to the first layer.
            embedded: (B, T, E).
            positions: (T, D), or (T, E) with SAFE.
            source: What cross-attention attends to, if there is any.

        Returns:
            Output (B, T, D) of the last layer.
        """
        needs_mask = stack_input.needs_mask or self.needs_causal_mask
        mask = causal_mask(embedded.shape[1], embedded.device) if needs_mask else None
        x: Tensor = stack_input(embedded, positions, mask)
        for layer, owner in self._with_owners():
            x = layer(x, mask, owner, source)
        return x

    def init_state(
        self, stack_input: StackInput, like: Tensor, capacity: int, source: EncodedSource | None = None
    ) -> dict[str, Tensor]:
        """The state before the first token.

        Args:
            stack_input: The block from the tables to the first layer.
            like: Has the state's batch, type and device.
            capacity: Largest number of steps that will be taken.
            source: What cross-attention attends to, if there is any.
        """
        rows = like if source is None else source.mask
        state = {"position": torch.zeros_like(rows[:, 0], dtype=torch.int64)}
        if source is not None:
            state["src_mask"] = source.mask
        state |= _prefixed(_INPUT_PREFIX, stack_input.init_state(like, capacity))
        for number, (layer, owner) in enumerate(self._with_owners()):
            state |= _prefixed(_layer_prefix(number), layer.init_state(like, capacity, owner, source))
        return state

    def step(
        self,
        stack_input: StackInput,
        embedded: Tensor,
        positions: Tensor,
        state: dict[str, Tensor],
        length: int = 1,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Decode the next tokens.

        Args:
            stack_input: The block from the tables to the first layer.
            embedded: (B, T, E).
            positions: (B, T, D), or (B, T, E) with SAFE.
            state: From ``init_state`` or the step before; not changed.
            length: Tokens T.

        Returns:
            Output (B, T, D) of the last layer and the new state, with the same names, shapes and types.
        """
        position = state["position"]
        x, changed = stack_input.step(embedded, positions, _unprefixed(_INPUT_PREFIX, state), position)
        new_state = {**state, "position": position + length, **_prefixed(_INPUT_PREFIX, changed)}
        for number, (layer, owner) in enumerate(self._with_owners()):
            prefix = _layer_prefix(number)
            x, changed = layer.step(x, _unprefixed(prefix, state), position, owner, state.get("src_mask"))
            new_state |= _prefixed(prefix, changed)
        return x, new_state

    def _with_owners(self) -> Iterator[tuple[DecoderLayer, DecoderLayer]]:
        """Each layer, and the layer whose blocks it applies."""
        layers = [cast(DecoderLayer, layer) for layer in self]
        return ((layer, layers[layer.owner]) for layer in layers)


def _layer_prefix(number: int) -> str:
    return f"layers.{number}."


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _unprefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of ``state`` whose names start with ``prefix``, by the rest of the name."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
