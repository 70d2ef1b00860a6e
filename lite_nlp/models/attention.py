"""Multi-head softmax attention with a fixed-capacity cache for incremental decoding.

Shape letters of the model code: B batch, T target tokens, S source tokens, C cache capacity, D channels of the module,
H heads, d channels of a head, K kernel size. Masks are boolean, True means "may attend".
"""

from dataclasses import asdict

import torch
from torch import Tensor, nn

from lite_nlp.config.kinds import DENSE, LinearSpec
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.linear import build_fused_linear, build_linear

__all__ = ["CrossAttention", "SelfAttention", "causal_mask", "merge_heads", "split_heads"]


def causal_mask(length: int, device: torch.device) -> Tensor:
    """The mask (1, 1, T, T) with which a token attends to itself and what came before."""
    positions = torch.arange(length, device=device)
    return (positions[None, :] <= positions[:, None])[None, None]


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, H d) -> (B, H, T, d)."""
    return x.view(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H d)."""
    return x.transpose(1, 2).flatten(2)


def _attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, dropout: float, training: bool) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1) of (B, H, T, d) queries over (B, H, S, d) keys.

    Two plain products instead of the fused operator: at a sentence's length its backward pass in bf16 takes half of a
    CPU training step, and every exporter takes these as they are.
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-2, -1))
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return torch.matmul(apply_dropout(weights, dropout, training), value)


class SelfAttention(nn.Module):
    """Self-attention (Vaswani et al. 2017, section 3.2) whose query, key and value come from one fused Linear.

    Args:
        embed_dim: Channels D of input and output.
        num_heads: Heads H, a divisor of the inner width.
        dropout: Drop rate of the attention weights while training.
        linear: The kind of the projections.
        expansion: Inner width, H d, as a multiple of D.
    """

    def __init__(
        self, *, embed_dim: int, num_heads: int, dropout: float, linear: LinearSpec = DENSE, expansion: int = 1
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = expansion * embed_dim // num_heads
        self.dropout = dropout
        self.in_proj = build_fused_linear(embed_dim, 3, linear, expansion=expansion)
        self.out_proj = build_linear(expansion * embed_dim, embed_dim, **asdict(linear))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend within ``x`` (B, T, D) under ``mask`` (broadcastable to (B, 1, T, T)); returns (B, T, D)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.in_proj(x).chunk(3, dim=-1))
        out = _attend(query, key, value, mask=mask, dropout=self.dropout, training=self.training)
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """Empty caches (B, H, C, d) for ``capacity`` tokens, with the batch, type and device of ``like``."""
        shape = (like.shape[0], self.num_heads, capacity, self.head_dim)
        return {"self_key": like.new_zeros(shape), "self_value": like.new_zeros(shape)}

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """One token ``x`` (B, 1, D) at ``position`` (B,); returns the output (B, 1, D) and the new caches."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.in_proj(x).chunk(3, dim=-1))
        slots = torch.arange(state["self_key"].shape[2], device=x.device)
        # A select instead of an indexed write keeps the step free of side effects, as the exported graphs need it.
        here = (slots[None, :] == position[:, None])[:, None, :, None]
        keys = torch.where(here, key, state["self_key"])
        values = torch.where(here, value, state["self_value"])
        mask = (slots[None, :] <= position[:, None])[:, None, None, :]
        out = _attend(query, keys, values, mask=mask, dropout=0.0, training=False)
        return self.out_proj(merge_heads(out)), {"self_key": keys, "self_value": values}


class CrossAttention(nn.Module):
    """Attention from the target to the encoded source; keys and values are projected once per sentence.

    Args:
        embed_dim: Channels D of target, source and output.
        num_heads: Heads H, a divisor of the inner width.
        dropout: Drop rate of the attention weights while training.
        linear: The kind of the projections.
        expansion: Inner width, H d, as a multiple of D.
    """

    def __init__(
        self, *, embed_dim: int, num_heads: int, dropout: float, linear: LinearSpec = DENSE, expansion: int = 1
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query_proj = build_linear(embed_dim, expansion * embed_dim, gain=2**-0.5, **asdict(linear))
        self.memory_proj = build_fused_linear(embed_dim, 2, linear, expansion=expansion)
        self.out_proj = build_linear(expansion * embed_dim, embed_dim, **asdict(linear))

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """What ``forward`` takes as state: keys and values, each (B, H, S, d), of the encoded source ``memory``.

        Args:
            memory: (B, S, D).
            src_mask: (B, S), not used here: ``forward`` masks the scores.
        """
        key, value = self.memory_proj(memory).chunk(2, dim=-1)
        return {"cross_key": split_heads(key, self.num_heads), "cross_value": split_heads(value, self.num_heads)}

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        """Attend from ``x`` (B, T, D) to what ``project_memory`` returned, under ``src_mask`` (B, S)."""
        query = split_heads(self.query_proj(x), self.num_heads)
        mask = src_mask[:, None, None, :]
        key, value = state["cross_key"], state["cross_value"]
        out = _attend(query, key, value, mask=mask, dropout=self.dropout, training=self.training)
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected
