"""The token mixer of a layer: attention, convolution, or both in parallel."""

import torch
from torch import Tensor, nn

from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.config.kinds import ATTENTION_KINDS
from lite_nlp.config.layers import LayerSpec
from lite_nlp.models.attention.registry import (
    AttentionSpec,
    CrossAttentionModule,
    SelfAttentionModule,
    attention_modules,
)
from lite_nlp.models.convolution import Convolution

__all__ = ["TokenMixer", "build_cross_attention"]


class TokenMixer(nn.Module):
    """Mixes information between tokens: the first channels by attention, the rest by convolution, in parallel.

    With both branches this is long-short range attention (Lite Transformer, section 4, figure 3); with only attention
    it is the Transformer's self-attention; with only convolution it is LightConv. Each branch has its own output Linear
    and nothing mixes the branches but the feed-forward block that follows.

    Args:
        config: The model's configuration.
        spec: The layer's widths, heads, taps and kinds.
        causal: Whether a token sees only itself and earlier tokens.
    """

    def __init__(self, *, config: LayeredConfig, spec: LayerSpec, causal: bool) -> None:
        super().__init__()
        self.widths = [spec.attention_dim, spec.conv_dim]
        self.attention = _build_self_attention(config, spec) if spec.attention_dim else None
        self.convolution = _build_convolution(config, spec, causal=causal) if spec.conv_dim else None

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
        """Tokens ``x`` (B, T, D), the first at ``position`` (B,); returns the output and the branches' new caches."""
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


def build_cross_attention(config: LayeredConfig, spec: LayerSpec) -> CrossAttentionModule:
    """The cross-attention of a decoder layer, at the encoder's width."""
    sizes = AttentionSpec(
        embed_dim=spec.memory_dim,
        num_heads=spec.cross_num_heads,
        dropout=config.attention_dropout,
        feature_size=spec.cross_feature_size,
        linear=spec.attention_linear,
        inner_channels=spec.cross_inner_dim,
        is_linear=ATTENTION_KINDS[spec.cross_attention].is_linear,
    )
    return attention_modules(spec.cross_attention).cross_attention(sizes)


def _build_self_attention(config: LayeredConfig, spec: LayerSpec) -> SelfAttentionModule:
    sizes = AttentionSpec(
        embed_dim=spec.attention_dim,
        num_heads=spec.num_heads,
        dropout=config.attention_dropout,
        feature_size=spec.self_feature_size,
        linear=spec.attention_linear,
        inner_channels=spec.inner_dim,
        is_linear=ATTENTION_KINDS[spec.self_attention].is_linear,
    )
    return attention_modules(spec.self_attention).self_attention(sizes)


def _build_convolution(config: LayeredConfig, spec: LayerSpec, *, causal: bool) -> Convolution:
    return Convolution(
        channels=spec.conv_dim,
        kernel_size=spec.kernel_size,
        num_heads=spec.conv_num_heads,
        inner_channels=spec.conv_inner_dim,
        dynamic=config.conv_type == "dynamic",
        glu=config.conv_glu,
        causal=causal,
        dropout=config.conv_dropout,
        linear=spec.conv_linear,
    )
