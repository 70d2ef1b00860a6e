"""The encoder-decoder: teacher-forced for training, step by step with caches for decoding.

Shape letters: B batch, S source tokens, T target tokens, D channels of the model, E channels of the embedding tables, V
types of the target vocabulary.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.models.embeddings import Positions, StackInput
from lite_nlp.models.layers import EncodedSource
from lite_nlp.models.stacks import DecoderStack, EncoderStack

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    """Turns source tokens into target tokens: the model of every family. ``build_model`` assembles it.

    Tied tables are one parameter under one name, so the state dict holds every tensor once.

    Args:
        config: The model's configuration.
        src_embedding: Source table (V_src, E).
        own_tgt_embedding: Target table (V, E); None where the source table serves both.
        own_output: Output projection from E to V; None where the target table serves as one.
        positions: Position table of both stacks.
        src_input: Block from the source table to the encoder.
        tgt_input: Block from the target table to the decoder.
        output_proj: From D to E before the output; None where D = E.
        encoder: Encoder layers.
        decoder: Decoder layers with cross-attention.
        encoder_norm: LayerNorm after the encoder, or identity.
        decoder_norm: LayerNorm after the decoder, or identity.
    """

    def __init__(
        self,
        *,
        config: EncoderDecoderConfig,
        src_embedding: nn.Embedding,
        own_tgt_embedding: nn.Embedding | None,
        own_output: nn.Linear | None,
        positions: Positions,
        src_input: StackInput,
        tgt_input: StackInput,
        output_proj: nn.Module | None,
        encoder: EncoderStack,
        decoder: DecoderStack,
        encoder_norm: nn.Module,
        decoder_norm: nn.Module,
    ) -> None:
        super().__init__()
        self.config = config
        # The Subformer's released code scales source and target differently where the tables are narrower than the
        # model; everywhere else the two are the same.
        self.src_scale, self.tgt_scale = config.table_dim**0.5, config.embed_dim**0.5
        self.src_embedding = src_embedding
        self.own_tgt_embedding = own_tgt_embedding
        self.own_output = own_output
        self.positions = positions
        self.src_input = src_input
        self.tgt_input = tgt_input
        self.output_proj = output_proj
        self.encoder = encoder
        self.decoder = decoder
        self.encoder_norm = encoder_norm
        self.decoder_norm = decoder_norm

    @property
    def tgt_table(self) -> Tensor:
        """The target embedding table (V, E), whichever module owns it."""
        return self.src_embedding.weight if self.own_tgt_embedding is None else self.own_tgt_embedding.weight

    @property
    def output_table(self) -> Tensor:
        """The output projection (V, E), whichever module owns it."""
        return self.tgt_table if self.own_output is None else self.own_output.weight

    def embed_target(self, tokens: Tensor) -> Tensor:
        """Scaled rows (..., E) of the target table."""
        scaled: Tensor = F.embedding(tokens, self.tgt_table) * self.tgt_scale
        return scaled

    def to_table(self, x: Tensor) -> Tensor:
        """The input (..., E) of ``output_table`` from the last layer's output (..., D)."""
        normed: Tensor = self.decoder_norm(x)
        return normed if self.output_proj is None else self.output_proj(normed)

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """Encode a batch of sources.

        Args:
            src_tokens: (B, S) int64, padded on the right.
            src_mask: (B, S) bool, True on real tokens; each row has at least one.

        Returns:
            The encoded source (B, S, D); rows where ``src_mask`` is False are meaningless.
        """
        embedded = F.embedding(src_tokens, self.src_embedding.weight) * self.src_scale
        positions = self.positions.first(src_tokens.shape[1])
        normed: Tensor = self.encoder_norm(self.encoder.encode(self.src_input, embedded, positions, src_mask))
        return normed

    def forward(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of every next token, given the source and the target so far ``tgt_tokens`` (B, T)."""
        return F.linear(self.hidden(src_tokens, src_mask, tgt_tokens), self.output_table)

    def hidden(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        """What ``output_table`` maps to the logits (B, T, E): a loss over few positions needs no more."""
        source = EncodedSource(memory=self.encode(src_tokens, src_mask), mask=src_mask)
        embedded = self.embed_target(tgt_tokens)
        positions = self.positions.first(tgt_tokens.shape[1])
        return self.to_table(self.decoder.decode(self.tgt_input, embedded, positions, source))

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
        return self.decoder.init_state(self.tgt_input, memory, capacity, EncodedSource(memory=memory, mask=src_mask))

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed one token per row and compute the logits of the next.

        Args:
            tokens: (B,) int64; the begin mark at the first step.
            state: From ``init_state`` or the step before; not changed.

        Returns:
            Logits (B, V) and the new state, with the same names, shapes and types.
        """
        embedded = self.embed_target(tokens[:, None])
        positions = self.positions.at(state["position"])[:, None, :]
        x, new_state = self.decoder.step(self.tgt_input, embedded, positions, state)
        return F.linear(self.to_table(x[:, 0]), self.output_table), new_state
