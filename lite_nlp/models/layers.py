"""Token mixers (attention, convolution, or both in parallel), and the encoder and decoder layers around them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.attention import CrossAttention, SelfAttention, xavier_linear
from lite_nlp.models.config import ModelConfig
from lite_nlp.models.convolution import Convolution

__all__ = ["DecoderLayer", "EncoderLayer", "FeedForward", "TokenMixer"]


class TokenMixer(nn.Module):
    """Mixes information between tokens: the first channels by attention, the rest by convolution, in parallel.

    With both halves this is long-short range attention (Lite Transformer, section 4, figure 3); with only attention it
    is the Transformer's self-attention; with only convolution it is LightConv. Each branch has its own output Linear
    and nothing mixes the halves but the feed-forward block that follows.

    Args:
        config: The model's configuration.
        kernel_size: Taps of the convolution; not used without one.
        causal: Whether a token sees only itself and what came before.
    """

    def __init__(self, *, config: ModelConfig, kernel_size: int, causal: bool) -> None:
        super().__init__()
        self.widths = [config.attention_dim, config.conv_dim]
        self.attention = (
            SelfAttention(embed_dim=config.attention_dim, num_heads=config.num_heads, dropout=config.attention_dropout)
            if config.attention_dim
            else None
        )
        self.convolution = (
            Convolution(
                channels=config.conv_dim,
                kernel_size=kernel_size,
                num_heads=config.conv_num_heads,
                dynamic=config.conv_type == "dynamic",
                glu=config.conv_glu,
                causal=causal,
                dropout=config.conv_dropout,
            )
            if config.conv_dim
            else None
        )

    def forward(self, x: Tensor, attention_mask: Tensor, token_mask: Tensor | None) -> Tensor:
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
    """

    def __init__(self, *, embed_dim: int, ffn_dim: int, dropout: float) -> None:
        super().__init__()
        self.up_proj = xavier_linear(embed_dim, ffn_dim)
        self.down_proj = xavier_linear(ffn_dim, embed_dim)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token of ``x`` (B, T, D) on its own."""
        hidden = F.dropout(F.relu(self.up_proj(x)), self.dropout, self.training)
        projected: Tensor = self.down_proj(hidden)
        return projected


class _ResidualLayer(nn.Module):
    """What encoder and decoder layers share: blocks inside residual connections, normalised before or after."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.dropout = config.dropout

    def _before(self, x: Tensor, norm: nn.Module) -> Tensor:
        normed: Tensor = norm(x) if self.pre_norm else x
        return normed

    def _after(self, x: Tensor, block_output: Tensor, norm: nn.Module) -> Tensor:
        summed = x + F.dropout(block_output, self.dropout, self.training)
        normed: Tensor = summed if self.pre_norm else norm(summed)
        return normed


class EncoderLayer(_ResidualLayer):
    """Token mixer and feed-forward block.

    Args:
        config: The model's configuration.
        kernel_size: Taps of this layer's convolution; not used without one.
    """

    def __init__(self, *, config: ModelConfig, kernel_size: int) -> None:
        super().__init__(config)
        self.mixer = TokenMixer(config=config, kernel_size=kernel_size, causal=False)
        self.mixer_norm = nn.LayerNorm(config.embed_dim)
        self.ffn = FeedForward(embed_dim=config.embed_dim, ffn_dim=config.ffn_dim, dropout=config.ffn_dropout)
        self.ffn_norm = nn.LayerNorm(config.embed_dim)

    def forward(self, x: Tensor, src_mask: Tensor) -> Tensor:
        """Encode ``x`` (B, S, D) whose real tokens are True in ``src_mask`` (B, S)."""
        mixed = self.mixer(self._before(x, self.mixer_norm), src_mask[:, None, None, :], src_mask)
        x = self._after(x, mixed, self.mixer_norm)
        return self._after(x, self.ffn(self._before(x, self.ffn_norm)), self.ffn_norm)


class DecoderLayer(_ResidualLayer):
    """Causal token mixer, cross-attention and feed-forward block.

    Args:
        config: The model's configuration.
        kernel_size: Taps of this layer's convolution; not used without one.
    """

    def __init__(self, *, config: ModelConfig, kernel_size: int) -> None:
        super().__init__(config)
        self.mixer = TokenMixer(config=config, kernel_size=kernel_size, causal=True)
        self.mixer_norm = nn.LayerNorm(config.embed_dim)
        self.cross = CrossAttention(
            embed_dim=config.embed_dim, num_heads=config.cross_num_heads, dropout=config.attention_dropout
        )
        self.cross_norm = nn.LayerNorm(config.embed_dim)
        self.ffn = FeedForward(embed_dim=config.embed_dim, ffn_dim=config.ffn_dim, dropout=config.ffn_dropout)
        self.ffn_norm = nn.LayerNorm(config.embed_dim)

    def forward(self, x: Tensor, tgt_mask: Tensor, memory: Tensor, src_mask: Tensor) -> Tensor:
        """Decode all of ``x`` (B, T, D) at once over the encoded source ``memory`` (B, S, D).

        No padding mask is needed on the target side: its padding is on the right and every block is causal.
        """
        mixed = self.mixer(self._before(x, self.mixer_norm), tgt_mask, None)
        x = self._after(x, mixed, self.mixer_norm)
        key, value = self.cross.project_memory(memory)
        return self._finish(x, key, value, src_mask)

    def _finish(self, x: Tensor, key: Tensor, value: Tensor, src_mask: Tensor) -> Tensor:
        """The blocks after the mixer, the same for all tokens at once and for one."""
        crossed = self.cross(self._before(x, self.cross_norm), key, value, src_mask)
        x = self._after(x, crossed, self.cross_norm)
        return self._after(x, self.ffn(self._before(x, self.ffn_norm)), self.ffn_norm)

    def init_state(self, memory: Tensor, capacity: int) -> dict[str, Tensor]:
        """Empty caches for ``capacity`` tokens and the projected source, of the batch of ``memory`` (B, S, D)."""
        key, value = self.cross.project_memory(memory)
        return {**self.mixer.init_state(memory, capacity), "cross_key": key, "cross_value": value}

    def step(
        self, x: Tensor, state: dict[str, Tensor], position: Tensor, src_mask: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Decode one token ``x`` (B, 1, D) at ``position`` (B,); returns the output and the whole new state."""
        mixed, changed = self.mixer.step(self._before(x, self.mixer_norm), state, position)
        x = self._after(x, mixed, self.mixer_norm)
        return self._finish(x, state["cross_key"], state["cross_value"], src_mask), {**state, **changed}
