"""Heads and masks of attention.

Shape letters of the model code: B batch, T target tokens, S source tokens, C cache capacity, D channels of the module,
H heads, d channels of a head, K kernel size. Masks are boolean, True means "may attend".
"""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["causal_mask", "merge_heads", "split_heads", "split_parts", "token_positions"]


def causal_mask(length: int, device: torch.device) -> Tensor:
    """The mask (1, 1, T, T) under which a token attends to itself and to earlier tokens."""
    positions = torch.arange(length, device=device)
    return (positions[None, :] <= positions[:, None])[None, None]


def token_positions(position: Tensor, length: int) -> Tensor:
    """Positions (B, T) of ``length`` tokens of each row, the first of them at ``position`` (B,)."""
    first = position[:, None]
    # The graph of a single token's step has no sum for it.
    return first if length == 1 else first + torch.arange(length, device=position.device)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, H d) -> (B, H, T, d)."""
    return x.view(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H d)."""
    return x.transpose(1, 2).flatten(2)


def split_parts(projected: Tensor, widths: Sequence[int], num_heads: int) -> list[Tensor]:
    """Split fused projections (B, T, sum of widths) into one tensor (B, H, T, width / H) for each width."""
    return [split_heads(part, num_heads) for part in torch.split(projected, list(widths), dim=-1)]
