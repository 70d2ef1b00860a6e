"""Multi-head softmax attention with a fixed-capacity cache for incremental decoding.

Shape letters as in ``heads``.
"""

from typing import Final

import torch
from torch import Tensor, nn

from lite_nlp.models.attention.heads import merge_heads, split_heads, token_positions
from lite_nlp.models.attention.registry import AttentionModules, AttentionSpec, register_attention
from lite_nlp.models.dropout import apply_dropout

__all__ = ["CrossAttention", "SelfAttention", "short_softmax"]

#: Numbers of float32 in the widest register.
_FULL_REGISTER: Final = 16


def _attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, dropout: float, training: bool) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1) of (B, H, T, d) queries over (B, H, S, d) keys.

    Two plain products instead of the fused operator: at a sentence's length its backward pass in bf16 takes half of a
    CPU training step, and every exporter supports plain products.
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-2, -1))
    if training:
        # A sum has no backward pass of its own over all scores, and nothing needs the scores without it.
        scores += torch.zeros(mask.shape, dtype=scores.dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
    else:
        scores = scores.masked_fill(~mask, float("-inf"))
    short = training and scores.device.type == "cpu" and scores.shape[-1] < _FULL_REGISTER
    weights = short_softmax(scores) if short else scores.softmax(dim=-1)
    return torch.matmul(apply_dropout(weights, dropout, training), value)


def short_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension (Bridle 1990), for training on a CPU over fewer numbers than a register holds.

    PyTorch's own computes one exponential at a time there; element by element the same takes a fifth of the time.
    """
    wide = scores.float()
    # The maximum only keeps the powers finite; it cancels out, and needs no gradient.
    powers = (wide - wide.detach().amax(dim=-1, keepdim=True)).exp()
    return (powers / powers.sum(dim=-1, keepdim=True)).to(scores.dtype)


class SelfAttention(nn.Module):
    """Self-attention (Vaswani et al. 2017, section 3.2) with one fused Linear for query, key and value.

    Args:
        spec: Sizes and options.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.num_heads = spec.num_heads
        self.head_dim = spec.head_dim
        self.dropout = spec.dropout
        self.in_proj = spec.fused_projection(3)
        self.out_proj = spec.output_projection()

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, each (B, H, T, d), of ``x`` (B, T, D)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.in_proj(x).chunk(3, dim=-1))
        return query, key, value

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend within ``x`` (B, T, D) under ``mask`` (broadcastable to (B, 1, T, T)); returns (B, T, D)."""
        query, key, value = self._project(x)
        out = _attend(query, key, value, mask=mask, dropout=self.dropout, training=self.training)
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """Empty caches (B, H, C, d) for ``capacity`` tokens, with the batch, type and device of ``like``."""
        shape = (like.shape[0], self.num_heads, capacity, self.head_dim)
        return {"self_key": like.new_zeros(shape), "self_value": like.new_zeros(shape)}

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``x`` (B, T, D), the first at ``position`` (B,); returns the output (B, T, D) and the new caches."""
        query, key, value = self._project(x)
        positions = token_positions(position, x.shape[1])
        slots = torch.arange(state["self_key"].shape[2], device=x.device)
        # A copy with these slots written keeps the step free of side effects, as the exported graphs need it.
        here = positions[:, None, :, None].expand_as(key)
        keys, values = state["self_key"].scatter(2, here, key), state["self_value"].scatter(2, here, value)
        mask = (slots <= positions[:, :, None])[:, None]
        out = _attend(query, keys, values, mask=mask, dropout=0.0, training=False)
        return self.out_proj(merge_heads(out)), {"self_key": keys, "self_value": values}


class CrossAttention(nn.Module):
    """Attention from the target to the encoded source, whose keys and values are projected once per sentence.

    Args:
        spec: Sizes and options; the source has as many channels as the target.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.num_heads = spec.num_heads
        self.dropout = spec.dropout
        self.query_proj = spec.query_projection()
        self.memory_proj = spec.fused_projection(2)
        self.out_proj = spec.output_projection()

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """Keys and values ``cross_key`` and ``cross_value``, each (B, H, S, d), of the encoded source.

        Args:
            memory: (B, S, D).
            src_mask: (B, S), not used here: ``forward`` masks the scores.
        """
        key, value = self.memory_proj(memory).chunk(2, dim=-1)
        return {"cross_key": split_heads(key, self.num_heads), "cross_value": split_heads(value, self.num_heads)}

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        """Attend from ``x`` (B, T, D) to the result of ``project_memory`` under ``src_mask`` (B, S)."""
        query = split_heads(self.query_proj(x), self.num_heads)
        mask = src_mask[:, None, None, :]
        key, value = state["cross_key"], state["cross_value"]
        out = _attend(query, key, value, mask=mask, dropout=self.dropout, training=self.training)
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected


register_attention("softmax", AttentionModules(self_attention=SelfAttention, cross_attention=CrossAttention))
