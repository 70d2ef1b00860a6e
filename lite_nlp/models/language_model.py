"""The language model, a decoder alone: on running text for training, token by token with caches for generation."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from lite_nlp.config.layers import decoder_specs
from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.models.adaptive import AdaptiveVocabulary
from lite_nlp.models.attention import causal_mask
from lite_nlp.models.embeddings import PlainVocabulary, Positions, build_input
from lite_nlp.models.layers import CausalLayer
from lite_nlp.models.state import INPUT_PREFIX, layer_prefix, part_of

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """Gives the probability of every next token: the decoder of every family, without cross-attention.

    Args:
        config: The model's configuration, of architecture ``language-model``.
    """

    def __init__(self, *, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.scale = config.embed_dim**0.5
        self.vocabulary: PlainVocabulary | AdaptiveVocabulary = (
            AdaptiveVocabulary(config=config) if config.embedding == "adaptive" else PlainVocabulary(config=config)
        )
        self.positions = Positions(
            max_positions=config.max_positions,
            # SAFE mixes tokens before the first layer, so that positions have to be in by then.
            embed_dim=config.table_dim if config.embedding == "safe" else config.embed_dim,
        )
        self.input = build_input(config)
        specs = decoder_specs(config)
        self.layers = nn.ModuleList(CausalLayer(config=config, spec=spec) for spec in specs)
        # Linear attention has nothing of size (T, T): long texts must not pay for a mask either.
        self.needs_causal_mask = config.embedding == "safe" or any(
            spec.attention_dim and spec.self_attention == "softmax" for spec in specs
        )
        self.norm = nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()

    def _layers(self) -> Iterator[tuple[CausalLayer, CausalLayer]]:
        """Each layer, and the layer whose blocks it applies."""
        layers = [cast(CausalLayer, layer) for layer in self.layers]
        return ((layer, layers[layer.owner]) for layer in layers)

    def _hidden(self, tokens: Tensor) -> Tensor:
        """What the output is computed from, (B, T, D), for ``tokens`` (B, T)."""
        length = tokens.shape[1]
        mask = causal_mask(length, tokens.device) if self.needs_causal_mask else None
        x = self.input(self.vocabulary.embed(tokens) * self.scale, self.positions.first(length), mask)
        for layer, owner in self._layers():
            x = layer(x, mask, owner)
        normed: Tensor = self.norm(x)
        return normed

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of every next token, given the text so far.

        Args:
            tokens: (B, T) int64; padding, if any, on the right, where its logits are meaningless.
        """
        return self.vocabulary.logits(self._hidden(tokens))

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of known next tokens; with adaptive embeddings without a (B, T, V) tensor.

        Args:
            tokens: (B, T) int64, as in ``forward``.
            labels: (B, T) int64, the token after each; types of the vocabulary, also where there is padding.
        """
        return self.vocabulary.target_log_probs(self._hidden(tokens), labels)

    def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
        """The state before the first token, on the device of the weights.

        Args:
            batch_size: Texts B.
            capacity: Largest number of steps that will be taken.

        Returns:
            Named tensors, each with the batch first: ``position`` (B,) and, for each layer, what
            ``EncoderDecoder.init_state`` has, without anything of a source.
        """
        like = next(self.parameters()).new_zeros((batch_size, 1))
        state = {"position": torch.zeros_like(like[:, 0], dtype=torch.int64)}
        for name, value in self.input.init_state(like, capacity).items():
            state[INPUT_PREFIX + name] = value
        for index, (layer, owner) in enumerate(self._layers()):
            for name, value in layer.init_state(like, capacity, owner).items():
                state[layer_prefix(index) + name] = value
        return state

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed one token per row and get the logits of the next.

        Args:
            tokens: (B,) int64.
            state: From ``init_state`` or the step before; not changed.

        Returns:
            Logits (B, V) and the new state, with the same names, shapes and types.
        """
        position = state["position"]
        embedded = self.vocabulary.embed(tokens[:, None]) * self.scale
        positions = self.positions.at(position)[:, None, :]
        x, changed = self.input.step(embedded, positions, part_of(state, INPUT_PREFIX), position)
        new_state = {"position": position + 1}
        new_state |= {INPUT_PREFIX + name: value for name, value in changed.items()}
        for index, (layer, owner) in enumerate(self._layers()):
            prefix = layer_prefix(index)
            x, changed = layer.step(x, part_of(state, prefix), position, owner)
            new_state |= {prefix + name: value for name, value in changed.items()}
        return self.vocabulary.logits(self.norm(x)[:, 0]), {name: new_state[name] for name in state}
