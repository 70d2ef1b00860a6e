"""The encoder-decoder: teacher-forced for training, step by step with caches for decoding."""

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.layers import decoder_specs, encoder_specs
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.models.attention import causal_mask
from lite_nlp.models.embeddings import Positions, build_input, build_output_projection, token_embedding
from lite_nlp.models.layers import DecoderLayer, EncoderLayer
from lite_nlp.models.linear import xavier_linear
from lite_nlp.models.state import INPUT_PREFIX, layer_prefix, part_of

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    """Turns source tokens into target tokens: the model of every family.

    Tied tables are one parameter under one name, so the state dict holds every tensor once.

    Args:
        config: The model's configuration.
    """

    def __init__(self, *, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        tied, width = config.tie_embeddings, config.table_dim
        # The Subformer's released code scales source and target differently where the tables are narrower than the
        # model; everywhere else the two are the same.
        self.src_scale, self.tgt_scale = width**0.5, config.embed_dim**0.5
        self.src_embedding = token_embedding(config.src_vocab_size, width, embed_dim=config.embed_dim)
        self.own_tgt_embedding = (
            None if tied == "all" else token_embedding(config.tgt_vocab_size, width, embed_dim=config.embed_dim)
        )
        self.own_output = xavier_linear(width, config.tgt_vocab_size, bias=False) if tied == "none" else None
        self.positions = Positions(
            max_positions=config.max_positions,
            # SAFE mixes tokens before the first layer, so that positions have to be in by then.
            embed_dim=width if config.embedding == "safe" else config.embed_dim,
        )
        self.src_input = build_input(config)
        self.tgt_input = build_input(config)
        self.output_proj = build_output_projection(config)
        self.encoder = nn.ModuleList(EncoderLayer(config=config, spec=spec) for spec in encoder_specs(config))
        self.decoder = nn.ModuleList(DecoderLayer(config=config, spec=spec) for spec in decoder_specs(config))
        # Linear attention has nothing of size (T, T): long targets must not pay for a mask either.
        self.needs_causal_mask = config.embedding == "safe" or any(
            spec.attention_dim and spec.self_attention == "softmax" for spec in decoder_specs(config)
        )
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

    def _logits(self, x: Tensor) -> Tensor:
        """Scores (..., V) of the target vocabulary from the last layer's output (..., D)."""
        normed: Tensor = self.decoder_norm(x)
        return F.linear(normed if self.output_proj is None else self.output_proj(normed), self.output_table)

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """Encode a batch of sources.

        Args:
            src_tokens: (B, S) int64, padded on the right.
            src_mask: (B, S) bool, True on real tokens; each row has at least one.

        Returns:
            The encoded source (B, S, D); rows where ``src_mask`` is False are meaningless.
        """
        embedded = F.embedding(src_tokens, self.src_embedding.weight) * self.src_scale
        x = self.src_input(embedded, self.positions.first(src_tokens.shape[1]), src_mask[:, None, None, :])
        for layer, owner in self._encoder_layers():
            x = layer(x, src_mask, owner)
        normed: Tensor = self.encoder_norm(x)
        return normed

    def forward(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of every next token, given the source and the target so far ``tgt_tokens`` (B, T)."""
        memory = self.encode(src_tokens, src_mask)
        embedded = F.embedding(tgt_tokens, self.tgt_table) * self.tgt_scale
        mask = causal_mask(tgt_tokens.shape[1], tgt_tokens.device) if self.needs_causal_mask else None
        x = self.tgt_input(embedded, self.positions.first(tgt_tokens.shape[1]), mask)
        for layer, owner in self._decoder_layers():
            x = layer(x, mask, memory, src_mask, owner)
        return self._logits(x)

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        """The state before the first target token.

        Args:
            memory: (B, S, D), from ``encode``.
            src_mask: (B, S) bool.
            capacity: Largest number of steps that will be taken.

        Returns:
            Named tensors, each with the batch first: ``position`` (B,), ``src_mask`` (B, S) and, for each layer,
            ``self_key``, ``self_value`` (B, H, capacity, head_dim), ``conv`` (B, K - 1, channels), ``cross_key``,
            ``cross_value`` (B, H, S, head_dim), where the layer has them; with linear attention ``self_state`` and
            ``cross_state`` (B, H, features, head_dim), ``self_normalizer`` and ``cross_normalizer`` (B, H, features)
            instead. Keyed by layer position, also where layers share parameters. With SAFE, its caches come before,
            under ``input``.
        """
        state = {"position": torch.zeros_like(src_mask[:, 0], dtype=torch.int64), "src_mask": src_mask}
        for name, value in self.tgt_input.init_state(memory, capacity).items():
            state[INPUT_PREFIX + name] = value
        for index, (layer, owner) in enumerate(self._decoder_layers()):
            for name, value in layer.init_state(memory, src_mask, capacity, owner).items():
                state[layer_prefix(index) + name] = value
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
        embedded = F.embedding(tokens[:, None], self.tgt_table) * self.tgt_scale
        positions = self.positions.at(position)[:, None, :]
        x, changed = self.tgt_input.step(embedded, positions, part_of(state, INPUT_PREFIX), position)
        new_state = {"position": position + 1, "src_mask": src_mask}
        new_state |= {INPUT_PREFIX + name: value for name, value in changed.items()}
        for index, (layer, owner) in enumerate(self._decoder_layers()):
            prefix = layer_prefix(index)
            x, changed = layer.step(x, part_of(state, prefix), position, src_mask, owner)
            new_state |= {prefix + name: value for name, value in changed.items()}
        return self._logits(x[:, 0]), {name: new_state[name] for name in state}
