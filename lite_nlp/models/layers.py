"""Layers of encoders and decoders: a token mixer, cross-attention and a feed-forward block in residual connections."""

from typing import ClassVar, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.config.kinds import ATTENTION_KINDS, LinearSpec
from lite_nlp.config.layers import LayerSpec
from lite_nlp.models.attention.registry import CrossAttentionModule
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.linear import build_linear, dense_linear
from lite_nlp.models.roles import Role
from lite_nlp.models.subformer import PROJECTION_DROPOUT, WidthProjection
from lite_nlp.models.token_mixer import TokenMixer, build_cross_attention

__all__ = ["DecoderLayer", "EncodedSource", "EncoderLayer", "FeedForward"]


class EncodedSource(NamedTuple):
    """What a decoder attends to.

    Attributes:
        memory: Output (B, S, D) of the encoder.
        mask: (B, S) bool, True on real tokens.
    """

    memory: Tensor
    mask: Tensor


class FeedForward(nn.Module):
    """Linear, ReLU, Linear; flattened (no wider than the model) in the Lite Transformer.

    Args:
        embed_dim: Channels D of input and output.
        ffn_dim: Channels between the two Linears.
        dropout: Drop rate after the ReLU while training.
        linear: The kind of both.
    """

    def __init__(self, *, embed_dim: int, ffn_dim: int, dropout: float, linear: LinearSpec) -> None:
        super().__init__()
        self.up_proj = build_linear(embed_dim, ffn_dim, linear, role=Role.FFN_UP)
        self.down_proj = build_linear(ffn_dim, embed_dim, linear, role=Role.FFN_DOWN)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token of ``x`` (B, T, D) on its own."""
        hidden = apply_dropout(F.relu(self.up_proj(x)), self.dropout, self.training)
        projected: Tensor = self.down_proj(hidden)
        return projected


class _Layer(nn.Module):
    """Blocks inside residual connections, with the LayerNorm before (pre-norm) or after each sum (post-norm).

    The layer owns its LayerNorms and projections, and its blocks only where its spec says so: ``forward`` and ``step``
    are given the layer whose blocks they apply, so that every parameter has one place and one name however many
    positions share it.

    Args:
        config: The model's configuration.
        spec: This layer's widths, heads, taps and kinds; without ``memory_dim`` it has no cross-attention.
    """

    #: Whether a token sees only itself and earlier tokens.
    causal: ClassVar[bool]

    mixer: TokenMixer
    ffn: FeedForward
    cross: CrossAttentionModule
    cross_entry: WidthProjection
    cross_exit: WidthProjection
    cross_norm: nn.LayerNorm

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.dropout = config.dropout
        self.owner = spec.owner
        # Linear attention computes nothing of size (T, T), so long texts must not cost a mask of that size either.
        is_linear = ATTENTION_KINDS[spec.self_attention].is_linear
        self.needs_causal_mask = self.causal and spec.attention_dim > 0 and not is_linear
        # The order of these lines is that of the parameters, and so of the random numbers that initialise them.
        self.entry = (
            WidthProjection(input_dim=spec.input_dim, embed_dim=spec.embed_dim, dropout=PROJECTION_DROPOUT)
            if spec.input_dim != spec.embed_dim
            else None
        )
        self.extra_proj = (
            dense_linear(spec.embed_dim, spec.embed_dim, role=Role.FFN_EXTRA) if spec.extra_linear else None
        )
        if spec.is_owner:
            self.mixer = TokenMixer(config=config, spec=spec, causal=self.causal)
        self.mixer_norm = nn.LayerNorm(spec.embed_dim)
        if spec.memory_dim:
            self._add_cross_attention(config, spec)
        if spec.is_owner:
            self.ffn = FeedForward(
                embed_dim=spec.embed_dim, ffn_dim=spec.ffn_dim, dropout=config.ffn_dropout, linear=spec.ffn_linear
            )
        self.ffn_norm = nn.LayerNorm(spec.embed_dim)

    def _add_cross_attention(self, config: LayeredConfig, spec: LayerSpec) -> None:
        """Cross-attention at the encoder's width, with projections where the layer has another (Subformer, 3.4)."""
        if spec.is_owner:
            self.cross = build_cross_attention(config, spec)
        self.adapts_cross = spec.embed_dim != spec.memory_dim
        if self.adapts_cross and spec.is_owner:
            self.cross_entry = WidthProjection(input_dim=spec.embed_dim, embed_dim=spec.memory_dim, dropout=0.0)
            self.cross_exit = WidthProjection(input_dim=spec.memory_dim, embed_dim=spec.embed_dim, dropout=0.0)
        self.cross_norm = nn.LayerNorm(spec.embed_dim)

    def _enter(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The residual input, of this layer's width, and the mixer's input, of ``x`` from the layer before."""
        entered: Tensor = x if self.entry is None else self.entry(x)
        return entered, self._before(entered, self.mixer_norm)

    def _before(self, x: Tensor, norm: nn.Module) -> Tensor:
        normed: Tensor = norm(x) if self.pre_norm else x
        return normed

    def _after(self, x: Tensor, block_output: Tensor, norm: nn.Module) -> Tensor:
        summed = x + apply_dropout(block_output, self.dropout, self.training)
        normed: Tensor = summed if self.pre_norm else norm(summed)
        return normed

    def _feed_forward(self, x: Tensor, ffn: FeedForward) -> Tensor:
        """The residual connection around ``ffn`` and this position's own Linear."""
        out: Tensor = ffn(self._before(x, self.ffn_norm))
        if self.extra_proj is not None:
            out = self.extra_proj(apply_dropout(F.relu(out), self.dropout, self.training))
        return self._after(x, out, self.ffn_norm)


class EncoderLayer(_Layer):
    """Token mixer and feed-forward block, in both directions."""

    causal = False

    def forward(self, x: Tensor, src_mask: Tensor, owner: "EncoderLayer") -> Tensor:
        """Encode ``x`` (B, S, D) whose real tokens are True in ``src_mask`` (B, S), with the blocks of ``owner``."""
        x, mixer_input = self._enter(x)
        mixed = owner.mixer(mixer_input, src_mask[:, None, None, :], src_mask)
        return self._feed_forward(self._after(x, mixed, self.mixer_norm), owner.ffn)


class DecoderLayer(_Layer):
    """Causal token mixer, cross-attention if there is an encoder, and feed-forward block."""

    causal = True

    def forward(
        self, x: Tensor, mask: Tensor | None, owner: "DecoderLayer", source: EncodedSource | None = None
    ) -> Tensor:
        """Decode all of ``x`` (B, T, D) at once, with the blocks of ``owner``.

        Padding on the right needs no mask: every block is causal.

        Args:
            x: Output of the layer before.
            mask: (1, 1, T, T), needed where ``needs_causal_mask`` is true; the other mixers are causal by themselves.
            owner: The layer whose blocks are applied.
            source: What cross-attention attends to; None without cross-attention.
        """
        x, mixer_input = self._enter(x)
        mixed = owner.mixer(mixer_input, mask, None)
        src_mask = None if source is None else source.mask
        return self._finish(x, mixed, self._project_source(owner, source), src_mask, owner)

    def init_state(
        self, like: Tensor, capacity: int, owner: "DecoderLayer", source: EncodedSource | None = None
    ) -> dict[str, Tensor]:
        """This position's state: empty caches for ``capacity`` tokens, and the projected source.

        Layers that share blocks have a state each, since their inputs differ.
        """
        return {**owner.mixer.init_state(like, capacity), **self._project_source(owner, source)}

    def step(
        self,
        x: Tensor,
        state: dict[str, Tensor],
        position: Tensor,
        owner: "DecoderLayer",
        src_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Decode tokens ``x`` (B, T, D), the first at ``position`` (B,); returns output and tensors that changed."""
        x, mixer_input = self._enter(x)
        mixed, changed = owner.mixer.step(mixer_input, state, position)
        return self._finish(x, mixed, state, src_mask, owner), changed

    def _project_source(self, owner: "DecoderLayer", source: EncodedSource | None) -> dict[str, Tensor]:
        return owner.cross.project_memory(*source) if source is not None else {}

    def _finish(
        self,
        x: Tensor,
        mixed: Tensor,
        cross_state: dict[str, Tensor],
        src_mask: Tensor | None,
        owner: "DecoderLayer",
    ) -> Tensor:
        """The blocks after the mixer, the same for all tokens at once and for some."""
        x = self._after(x, mixed, self.mixer_norm)
        if src_mask is not None:
            attended = self._attend_source(self._before(x, self.cross_norm), cross_state, src_mask, owner)
            x = self._after(x, attended, self.cross_norm)
        return self._feed_forward(x, owner.ffn)

    def _attend_source(
        self, x: Tensor, cross_state: dict[str, Tensor], src_mask: Tensor, owner: "DecoderLayer"
    ) -> Tensor:
        """Cross-attention, which works at the encoder's width also where the layer has another."""
        query = owner.cross_entry(x) if self.adapts_cross else x
        attended: Tensor = owner.cross(query, cross_state, src_mask)
        return owner.cross_exit(attended) if self.adapts_cross else attended
