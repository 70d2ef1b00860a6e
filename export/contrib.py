"""Attention in ONNX Runtime's own operators, where torch would write a dozen nodes.

Called, the functions compute what the operators compute; traced, they become one node each, of the domain
``com.microsoft``, which every ONNX Runtime since ``OLDEST_RUNTIME`` has on the CPU. ``GroupQueryAttention`` stands in
for ``DecoderMaskedMultiHeadAttention``, which version 1.24 runs wrongly on buffers that past and present share.

Shape letters: B rows, W hypotheses of a row, H heads, d channels of a head, P past tokens, S source tokens.
"""

from typing import Final

import torch
from torch import Tensor
from torch.onnx.ops import symbolic, symbolic_multi_out

__all__ = ["DOMAIN", "OLDEST_RUNTIME", "attend_source", "attend_with_cache", "can_attend_with_cache"]

DOMAIN: Final = "com.microsoft"

#: The version of ONNX Runtime in the Android app, with which the graphs are tested.
OLDEST_RUNTIME: Final = "1.24"

#: ``GroupQueryAttention`` takes heads of a multiple of this width.
_HEAD_MULTIPLE: Final = 8


def can_attend_with_cache(head_dim: int) -> bool:
    """Whether :func:`attend_with_cache` takes heads of ``head_dim`` channels."""
    return head_dim % _HEAD_MULTIPLE == 0


def attend_with_cache(projected: Tensor, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one token to itself and those before it (``GroupQueryAttention``).

    Args:
        projected: Query, key and value side by side, (B, 3 H d).
        key: Of the tokens before, (B, H, P, d).
        value: Likewise.
        position: (B,) int64, P in every row.

    Returns:
        The attended values (B, H d), and keys and values (B, H, P + 1, d) with the token's own.
    """
    rows, heads, past, head_dim = key.shape
    if not torch.compiler.is_exporting():
        query, own_key, own_value = projected.view(rows, 3, heads, 1, head_dim).unbind(1)
        keys, values = torch.cat([key, own_key], dim=2), torch.cat([value, own_value], dim=2)
        scores = torch.matmul(query * head_dim**-0.5, keys.transpose(-2, -1))
        return torch.matmul(scores.softmax(dim=-1), values).reshape(rows, -1), keys, values
    grown = (rows, heads, past + 1, head_dim)
    out, keys, values = symbolic_multi_out(
        f"{DOMAIN}::GroupQueryAttention",
        (projected[:, None], None, None, key, value, position.to(torch.int32), (position[:1] + 1).to(torch.int32)),
        {"num_heads": heads, "kv_num_heads": heads},
        dtypes=(torch.float32,) * 3,
        shapes=((rows, 1, heads * head_dim), grown, grown),
        version=1,
    )
    return out.reshape(rows, heads * head_dim), keys, values


def attend_source(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention of one token of each hypothesis to the source (``MultiHeadAttention``).

    The W hypotheses of a sentence, side by side, read its keys and values once.

    Args:
        query: (B W, H d).
        key: (B, H, S, d).
        value: Likewise.
        mask: (B, S) int32, 1 on real tokens and 0 on padding.

    Returns:
        The attended values (B W, H d).
    """
    rows, heads, _, head_dim = key.shape
    queries = query.view(rows, -1, heads * head_dim)
    if not torch.compiler.is_exporting():
        split = queries.view(rows, -1, heads, head_dim).transpose(1, 2)
        scores = torch.matmul(split * head_dim**-0.5, key.transpose(-2, -1))
        weights = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf")).softmax(dim=-1)
        return torch.matmul(weights, value).transpose(1, 2).reshape(query.shape)
    out = symbolic(
        f"{DOMAIN}::MultiHeadAttention",
        (queries, key, value, None, mask),
        {"num_heads": heads},
        dtype=torch.float32,
        shape=queries.shape,
        version=1,
    )
    return out.reshape(query.shape)
