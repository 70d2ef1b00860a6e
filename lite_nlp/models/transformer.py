"""The encoder-decoder: teacher-forced for training, step by step with caches for decoding."""

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.attention import causal_mask, xavier_linear
from lite_nlp.models.config import ModelConfig
from lite_nlp.models.embeddings import Positions, token_embedding
from lite_nlp.models.layers import DecoderLayer, EncoderLayer
from lite_nlp.models.specs import decoder_specs, encoder_specs

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    """A Transformer, Lite Transformer or LightConv that turns source tokens into target tokens.

    Tied tables are one parameter under one name, so the state dict holds every tensor once.

    Args:
        config: The model's configuration.
    """

    def __init__(self, *, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_scale = config.embed_dim**0.5
        self.src_embedding = token_embedding(config.src_vocab_size, config.embed_dim)
        tied = config.tie_embeddings
        self.own_tgt_embedding = None if tied == "all" else token_embedding(config.tgt_vocab_size, config.embed_dim)
        self.own_output = xavier_linear(config.embed_dim, config.tgt_vocab_size, bias=False) if tied == "none" else None
        self.positions = Positions(max_positions=config.max_positions, embed_dim=config.embed_dim)
        self.encoder = nn.ModuleList(EncoderLayer(config=config, spec=spec) for spec in encoder_specs(config))
        self.decoder = nn.ModuleList(DecoderLayer(config=config, spec=spec) for spec in decoder_specs(config))
        self.encoder_norm = nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()

    @property
    def tgt_table(self) -> Tensor:
        """The target embedding table (V, D), whichever module owns it."""
        return self.src_embedding.weight if self.own_tgt_embedding is None else self.own_tgt_embedding.weight

    @property
    def output_table(self) -> Tensor:
        """The output projection (V, D), whichever module owns it."""
        return self.tgt_table if self.own_output is None else self.own_output.weight

    def _encoder_layers(self) -> Iterator[tuple[EncoderLayer, EncoderLayer]]:
        """Each layer, and the layer whose blocks it applies."""
        layers = [cast(EncoderLayer, layer) for layer in self.encoder]
        return ((layer, layers[layer.owner]) for layer in layers)

    def _decoder_layers(self) -> Iterator[tuple[DecoderLayer, DecoderLayer]]:
        """Each layer, and the layer whose blocks it applies."""
        layers = [cast(DecoderLayer, layer) for layer in self.decoder]
        return ((layer, layers[layer.owner]) for layer in layers)

    def _embed(self, tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
        embedded = F.embedding(tokens, table) * self.embed_scale + positions
        return F.dropout(embedded, self.config.dropout, self.training)

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """Encode a batch of sources.

        Args:
            src_tokens: (B, S) int64, padded on the right.
            src_mask: (B, S) bool, True on real tokens; each row has at least one.

        Returns:
            The encoded source (B, S, D); rows where ``src_mask`` is False are meaningless.
        """
        x = self._embed(src_tokens, self.src_embedding.weight, self.positions.first(src_tokens.shape[1]))
        for layer, owner in self._encoder_layers():
            x = layer(x, src_mask, owner)
        normed: Tensor = self.encoder_norm(x)
        return normed

    def forward(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of every next token, given the source and the target so far ``tgt_tokens`` (B, T)."""
        memory = self.encode(src_tokens, src_mask)
        x = self._embed(tgt_tokens, self.tgt_table, self.positions.first(tgt_tokens.shape[1]))
        mask = causal_mask(tgt_tokens.shape[1], x.device)
        for layer, owner in self._decoder_layers():
            x = layer(x, mask, memory, src_mask, owner)
        return F.linear(self.decoder_norm(x), self.output_table)

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        """The state before the first target token.

        Args:
            memory: (B, S, D), from ``encode``.
            src_mask: (B, S) bool.
            capacity: Largest number of steps that will be taken.

        Returns:
            Named tensors, each with the batch first: ``position`` (B,), ``src_mask`` (B, S) and, for each layer,
            ``self_key``, ``self_value`` (B, H, capacity, head_dim), ``conv`` (B, K - 1, channels), ``cross_key``,
            ``cross_value`` (B, H, S, head_dim), where the layer has them. Keyed by layer position.
        """
        state = {"position": torch.zeros_like(src_mask[:, 0], dtype=torch.int64), "src_mask": src_mask}
        for index, (layer, owner) in enumerate(self._decoder_layers()):
            for name, value in layer.init_state(memory, src_mask, capacity, owner).items():
                state[f"layers.{index}.{name}"] = value
        return state

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed one token per row and get the logits of the next.

        Args:
            tokens: (B,) int64; the begin mark at the first step.
            state: From ``init_state`` or the step before; not changed.

        Returns:
            Logits (B, V) and the new state, with the same names, shapes and types.
        """
        position, src_mask = state["position"], state["src_mask"]
        x = self._embed(tokens[:, None], self.tgt_table, self.positions.at(position)[:, None, :])
        new_state = {"position": position + 1, "src_mask": src_mask}
        for index, (layer, owner) in enumerate(self._decoder_layers()):
            prefix = f"layers.{index}."
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            x, changed = layer.step(x, own, position, src_mask, owner)
            new_state |= {prefix + name: value for name, value in changed.items()}
        return F.linear(self.decoder_norm(x)[:, 0], self.output_table), {name: new_state[name] for name in state}
