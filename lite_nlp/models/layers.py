"""Token mixers (attention, convolution, or both in parallel), and the layers around them."""

from dataclasses import asdict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.config.kinds import LinearSpec
from lite_nlp.config.layers import LayerSpec
from lite_nlp.models.attention import CrossAttention, SelfAttention
from lite_nlp.models.convolution import Convolution
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.feature_maps import build_feature_map
from lite_nlp.models.linear import build_linear, xavier_linear
from lite_nlp.models.linear_attention import LinearCrossAttention, LinearSelfAttention
from lite_nlp.models.subformer import PROJECTION_DROPOUT, WidthProjection

__all__ = ["CausalLayer", "DecoderLayer", "EncoderLayer", "FeedForward", "TokenMixer"]


class TokenMixer(nn.Module):
    """Mixes information between tokens: the first channels by attention, the rest by convolution, in parallel.

    With both halves this is long-short range attention (Lite Transformer, section 4, figure 3); with only attention it
    is the Transformer's self-attention; with only convolution it is LightConv. Each branch has its own output Linear
    and nothing mixes the halves but the feed-forward block that follows.

    Args:
        config: The model's configuration.
        spec: The layer's widths, heads, taps and kinds.
        causal: Whether a token sees only itself and what came before.
    """

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec, causal: bool) -> None:
        super().__init__()
        self.widths = [spec.attention_dim, spec.conv_dim]
        self.attention = _self_attention(config, spec) if spec.attention_dim else None
        self.convolution = _convolution(config, spec, causal=causal) if spec.conv_dim else None

    def forward(self, x: Tensor, attention_mask: Tensor | None, token_mask: Tensor | None) -> Tensor:
        """Mix ``x`` (B, T, D); the masks are those of the two branches' ``forward``."""
        left, right = torch.split(x, self.widths, dim=-1)
        parts = []
        if self.attention is not None:
            parts.append(self.attention(left, attention_mask))
        if self.convolution is not None:
            parts.append(self.convolution(right, token_mask))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """The branches' empty caches, for the batch of ``like``."""
        state: dict[str, Tensor] = {}
        if self.attention is not None:
            state |= self.attention.init_state(like, capacity)
        if self.convolution is not None:
            state |= self.convolution.init_state(like)
        return state

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """One token ``x`` (B, 1, D) at ``position`` (B,); returns the output and the branches' new caches."""
        left, right = torch.split(x, self.widths, dim=-1)
        parts: list[Tensor] = []
        new_state: dict[str, Tensor] = {}
        if self.attention is not None:
            part, changed = self.attention.step(left, state, position)
            parts.append(part)
            new_state |= changed
        if self.convolution is not None:
            part, changed = self.convolution.step(right, state)
            parts.append(part)
            new_state |= changed
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1), new_state


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
        self.up_proj = build_linear(embed_dim, ffn_dim, **asdict(linear))
        self.down_proj = build_linear(ffn_dim, embed_dim, **asdict(linear))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token of ``x`` (B, T, D) on its own."""
        hidden = apply_dropout(F.relu(self.up_proj(x)), self.dropout, self.training)
        projected: Tensor = self.down_proj(hidden)
        return projected


class _ResidualLayer(nn.Module):
    """What encoder and decoder layers share: blocks inside residual connections, normalised before or after.

    The layer owns its LayerNorms and projections, and its blocks only where its spec says so: ``forward`` is given the
    layer whose blocks it applies, so that every parameter has one place and one name however many positions share it.
    """

    ffn: FeedForward

    def __init__(self, config: LayeredConfig, spec: LayerSpec) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.dropout = config.dropout
        self.owner = spec.owner
        self.entry = (
            WidthProjection(input_dim=spec.input_dim, embed_dim=spec.embed_dim, dropout=PROJECTION_DROPOUT)
            if spec.input_dim != spec.embed_dim
            else None
        )
        self.extra_proj = xavier_linear(spec.embed_dim, spec.embed_dim) if spec.extra_linear else None

    def _enter(self, x: Tensor) -> Tensor:
        """Bring ``x`` from the width of the layer before to that of this one."""
        entered: Tensor = x if self.entry is None else self.entry(x)
        return entered

    def _before(self, x: Tensor, norm: nn.Module) -> Tensor:
        normed: Tensor = norm(x) if self.pre_norm else x
        return normed

    def _after(self, x: Tensor, block_output: Tensor, norm: nn.Module) -> Tensor:
        summed = x + apply_dropout(block_output, self.dropout, self.training)
        normed: Tensor = summed if self.pre_norm else norm(summed)
        return normed

    def _feed(self, x: Tensor, ffn: FeedForward) -> Tensor:
        """The feed-forward block ``ffn``, and after it what this position has of its own."""
        out: Tensor = ffn(x)
        if self.extra_proj is not None:
            out = self.extra_proj(apply_dropout(F.relu(out), self.dropout, self.training))
        return out


class _SelfLayer(_ResidualLayer):
    """Token mixer and feed-forward block.

    Args:
        config: The model's configuration.
        spec: This layer's widths, heads, taps and kinds.
        causal: Whether a token sees only itself and what came before.
    """

    mixer: TokenMixer

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec, causal: bool) -> None:
        super().__init__(config, spec)
        if spec.is_owner:
            self.mixer = TokenMixer(config=config, spec=spec, causal=causal)
        self.mixer_norm = nn.LayerNorm(spec.embed_dim)
        if spec.is_owner:
            self.ffn = _feed_forward(config, spec)
        self.ffn_norm = nn.LayerNorm(spec.embed_dim)

    def _finish(self, x: Tensor, mixed: Tensor, owner: "_SelfLayer") -> Tensor:
        """What follows the mixer, the same for all tokens at once and for one."""
        x = self._after(x, mixed, self.mixer_norm)
        return self._after(x, self._feed(self._before(x, self.ffn_norm), owner.ffn), self.ffn_norm)


class EncoderLayer(_SelfLayer):
    """Token mixer and feed-forward block, in both directions.

    Args:
        config: The model's configuration.
        spec: This layer's widths, heads, taps and kinds.
    """

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec) -> None:
        super().__init__(config=config, spec=spec, causal=False)

    def forward(self, x: Tensor, src_mask: Tensor, owner: "EncoderLayer") -> Tensor:
        """Encode ``x`` (B, S, D) whose real tokens are True in ``src_mask`` (B, S), with the blocks of ``owner``."""
        x = self._enter(x)
        mixed = owner.mixer(self._before(x, self.mixer_norm), src_mask[:, None, None, :], src_mask)
        return self._finish(x, mixed, owner)


class CausalLayer(_SelfLayer):
    """A layer of a language model: causal token mixer and feed-forward block.

    Args:
        config: The model's configuration.
        spec: This layer's widths, heads, taps and kinds.
    """

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec) -> None:
        super().__init__(config=config, spec=spec, causal=True)

    def forward(self, x: Tensor, mask: Tensor | None, owner: "CausalLayer") -> Tensor:
        """All of ``x`` (B, T, D) at once, with the blocks of ``owner``; only softmax attention needs the causal mask.

        Padding on the right needs no mask: every block is causal.
        """
        x = self._enter(x)
        return self._finish(x, owner.mixer(self._before(x, self.mixer_norm), mask, None), owner)

    def init_state(self, like: Tensor, capacity: int, owner: "CausalLayer") -> dict[str, Tensor]:
        """This position's empty caches for ``capacity`` tokens, with the batch, type and device of ``like``."""
        return owner.mixer.init_state(like, capacity)

    def step(
        self, x: Tensor, state: dict[str, Tensor], position: Tensor, owner: "CausalLayer"
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One token ``x`` (B, 1, D) at ``position`` (B,); returns the output and the new caches."""
        x = self._enter(x)
        mixed, changed = owner.mixer.step(self._before(x, self.mixer_norm), state, position)
        return self._finish(x, mixed, owner), changed


class DecoderLayer(_ResidualLayer):
    """Causal token mixer, cross-attention and feed-forward block; sharing works as in ``EncoderLayer``.

    Args:
        config: The model's configuration.
        spec: This layer's widths, heads, taps and kinds.
    """

    mixer: TokenMixer
    cross: CrossAttention | LinearCrossAttention
    cross_entry: WidthProjection
    cross_exit: WidthProjection

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec) -> None:
        super().__init__(config, spec)
        if spec.is_owner:
            self.mixer = TokenMixer(config=config, spec=spec, causal=True)
        self.mixer_norm = nn.LayerNorm(spec.embed_dim)
        if spec.is_owner:
            self.cross = _cross_attention(config, spec)
        self.adapts_cross = spec.embed_dim != spec.memory_dim
        if self.adapts_cross and spec.is_owner:
            self.cross_entry = WidthProjection(input_dim=spec.embed_dim, embed_dim=spec.memory_dim, dropout=0.0)
            self.cross_exit = WidthProjection(input_dim=spec.memory_dim, embed_dim=spec.embed_dim, dropout=0.0)
        self.cross_norm = nn.LayerNorm(spec.embed_dim)
        if spec.is_owner:
            self.ffn = _feed_forward(config, spec)
        self.ffn_norm = nn.LayerNorm(spec.embed_dim)

    def forward(
        self, x: Tensor, tgt_mask: Tensor | None, memory: Tensor, src_mask: Tensor, owner: "DecoderLayer"
    ) -> Tensor:
        """Decode all of ``x`` (B, T, D) at once over the encoded source ``memory`` (B, S, D).

        Only softmax attention needs ``tgt_mask`` (1, 1, T, T); the other mixers are causal by themselves.
        No padding mask is needed on the target side: its padding is on the right and every block is causal.
        """
        x = self._enter(x)
        mixed = owner.mixer(self._before(x, self.mixer_norm), tgt_mask, None)
        x = self._after(x, mixed, self.mixer_norm)
        return self._finish(x, owner.cross.project_memory(memory, src_mask), src_mask, owner)

    def _cross(self, x: Tensor, cross_state: dict[str, Tensor], src_mask: Tensor, owner: "DecoderLayer") -> Tensor:
        """Cross-attention, which works at the encoder's width also where the layer has another."""
        query = owner.cross_entry(x) if self.adapts_cross else x
        attended: Tensor = owner.cross(query, cross_state, src_mask)
        return owner.cross_exit(attended) if self.adapts_cross else attended

    def _finish(self, x: Tensor, cross_state: dict[str, Tensor], src_mask: Tensor, owner: "DecoderLayer") -> Tensor:
        """The blocks after the mixer, the same for all tokens at once and for one."""
        crossed = self._cross(self._before(x, self.cross_norm), cross_state, src_mask, owner)
        x = self._after(x, crossed, self.cross_norm)
        return self._after(x, self._feed(self._before(x, self.ffn_norm), owner.ffn), self.ffn_norm)

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int, owner: "DecoderLayer") -> dict[str, Tensor]:
        """This position's state: empty caches for ``capacity`` tokens and the projected source ``memory`` (B, S, D).

        Layers that share blocks have a state each: they see different inputs.
        """
        return {**owner.mixer.init_state(memory, capacity), **owner.cross.project_memory(memory, src_mask)}

    def step(
        self, x: Tensor, state: dict[str, Tensor], position: Tensor, src_mask: Tensor, owner: "DecoderLayer"
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Decode one token ``x`` (B, 1, D) at ``position`` (B,); returns the output and the whole new state."""
        x = self._enter(x)
        mixed, changed = owner.mixer.step(self._before(x, self.mixer_norm), state, position)
        x = self._after(x, mixed, self.mixer_norm)
        return self._finish(x, state, src_mask, owner), {**state, **changed}


def _self_attention(config: LayeredConfig, spec: LayerSpec) -> SelfAttention | LinearSelfAttention:
    width, heads = spec.attention_dim, spec.num_heads
    linear, times = spec.attention_linear, spec.attention_expansion
    if spec.self_attention == "softmax":
        dropout = config.attention_dropout
        return SelfAttention(embed_dim=width, num_heads=heads, dropout=dropout, linear=linear, expansion=times)
    features = build_feature_map(
        spec.self_attention, num_heads=heads, head_dim=times * width // heads, feature_size=spec.self_feature_size
    )
    return LinearSelfAttention(embed_dim=width, num_heads=heads, feature_map=features, linear=linear, expansion=times)


def _cross_attention(config: LayeredConfig, spec: LayerSpec) -> CrossAttention | LinearCrossAttention:
    width, heads = spec.memory_dim, spec.cross_num_heads
    linear, times = spec.attention_linear, spec.attention_expansion
    if spec.cross_attention == "softmax":
        dropout = config.attention_dropout
        return CrossAttention(embed_dim=width, num_heads=heads, dropout=dropout, linear=linear, expansion=times)
    features = build_feature_map(
        spec.cross_attention, num_heads=heads, head_dim=times * width // heads, feature_size=spec.cross_feature_size
    )
    return LinearCrossAttention(embed_dim=width, num_heads=heads, feature_map=features, linear=linear, expansion=times)


def _feed_forward(config: LayeredConfig, spec: LayerSpec) -> FeedForward:
    return FeedForward(
        embed_dim=spec.embed_dim, ffn_dim=spec.ffn_dim, dropout=config.ffn_dropout, linear=spec.ffn_linear
    )


def _convolution(config: LayeredConfig, spec: LayerSpec, *, causal: bool) -> Convolution:
    return Convolution(
        channels=spec.conv_dim,
        kernel_size=spec.kernel_size,
        num_heads=config.conv_num_heads,
        dynamic=config.conv_type == "dynamic",
        glu=config.conv_glu,
        causal=causal,
        dropout=config.conv_dropout,
        linear=spec.conv_linear,
    )
