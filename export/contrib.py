"""Attention in the runtimes' own operators, where torch would write a dozen nodes.

Called, the functions compute what the operators compute. Traced, they become one node each of the domain
``com.microsoft``, which every ONNX Runtime since ``OLDEST_RUNTIME`` has on the CPU. ``GroupQueryAttention`` stands in
for ``DecoderMaskedMultiHeadAttention``, which version 1.24 runs wrongly on buffers that past and present share. Within
:func:`caches_in_place` they are those of ExecuTorch's library for language models, and caches are written in place.

Shape letters: B rows, W hypotheses of a row, H heads, d channels of a head, P past tokens, S source tokens, C slots of
a cache, T tokens of a row. Within :func:`caches_in_place` a dimension of 1 token may be left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from math import prod
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.onnx.ops import symbolic, symbolic_multi_out

from lite_nlp.export.runtime.quiet import quiet_libraries, quiet_native_code

__all__ = [
    "DOMAIN",
    "IN_PLACE_LIBRARY",
    "OLDEST_RUNTIME",
    "attend_in_slots",
    "attend_source",
    "attend_with_cache",
    "caches_in_place",
    "load_in_place_library",
    "takes_slots",
    "writes_in_place",
]

DOMAIN: Final = "com.microsoft"

#: The version of ONNX Runtime in the Android app, with which the graphs are tested.
OLDEST_RUNTIME: Final = "1.24"

#: Namespace of ExecuTorch's operators on caches, ``update_cache`` and ``custom_sdpa``.
IN_PLACE_LIBRARY: Final = "llama"

#: ``GroupQueryAttention`` takes heads of a multiple of this width; others keep torch's operators.
_HEAD_MULTIPLE: Final = 8


class _Place(NamedTuple):
    """Where the present tokens go in the caches; see :func:`caches_in_place`."""

    slot: int
    ancestors: Tensor | None


#: Set while caches are written in place.
_place: ContextVar[_Place | None] = ContextVar("place", default=None)


@contextmanager
def caches_in_place(slot: int, ancestors: Tensor | None = None) -> Iterator[None]:
    """Context in which attention to a cache writes the caches that it is given, of fixed length.

    Args:
        slot: Of the first present token, from 0; the others follow. A symbol while a graph is traced.
        ancestors: (B, T) int64, slots of the tokens of each row, the present one last. None for one row whose tokens
            are in order from slot 0.
    """
    load_in_place_library()
    token = _place.set(_Place(slot, ancestors))
    try:
        yield
    finally:
        _place.reset(token)


def writes_in_place() -> bool:
    """Whether attention to a cache writes the caches that it is given."""
    return _place.get() is not None


def load_in_place_library() -> None:
    """Register ExecuTorch's operators on caches, for calls and for traces."""
    with quiet_libraries(), quiet_native_code():
        import_module("executorch.extension.llm.custom_ops.custom_ops")


def attend_with_cache(projected: Tensor, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one token to itself and those before it (``GroupQueryAttention``).

    Args:
        projected: Query, key and value side by side, (B, 1, 3 H d).
        key: Of the tokens before, (B, H, P, d); within :func:`caches_in_place` a whole cache of all rows, (1, C, H, d).
        value: Likewise.
        position: (B,) int64, P in every row.

    Returns:
        The attended values (B, 1, H d), and keys and values (B, H, P + 1, d) with the token's own; or the caches,
        written.
    """
    if (place := _place.get()) is not None:
        return _attend_in_place(projected, key, value, place), key, value
    rows, heads, past, head_dim = key.shape
    if not torch.compiler.is_exporting() or head_dim % _HEAD_MULTIPLE:
        query, own_key, own_value = projected.view(rows, 3, heads, 1, head_dim).unbind(1)
        keys, values = torch.cat([key, own_key], dim=2), torch.cat([value, own_value], dim=2)
        scores = torch.matmul(query * head_dim**-0.5, keys.transpose(-2, -1))
        return torch.matmul(scores.softmax(dim=-1), values).reshape(*projected.shape[:-1], -1), keys, values
    return _attend_grouped(projected, key, value, position, slots=past + 1)


def takes_slots(head_dim: int) -> bool:
    """Whether :func:`attend_in_slots` has an operator here for heads of so many channels."""
    return writes_in_place() or (torch.compiler.is_exporting() and head_dim % _HEAD_MULTIPLE == 0)


def attend_in_slots(projected: Tensor, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of tokens to themselves and those before them, in caches that have place for more.

    ``GroupQueryAttention``: one token of each row, or several of one row or of rows without any before them. A runtime
    that is given the caches' memory for the new ones writes where they are. Within :func:`caches_in_place`, tokens of
    one row or one of each. Only where :func:`takes_slots` says that there is an operator for it.

    Args:
        projected: Query, key and value side by side, (B, T, 3 H d).
        key: Cache (B, H, C, d); within :func:`caches_in_place` (1, C, H, d).
        value: Likewise.
        position: (B,) int64, slot of the first token, the same in every row.

    Returns:
        The attended values (B, T, H d), and the caches with the tokens' keys and values.
    """
    if (place := _place.get()) is not None:
        return _attend_in_place(projected, key, value, place), key, value
    return _attend_grouped(projected, key, value, position, slots=key.shape[2])


def attend_source(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention of one token of each hypothesis to the source (``MultiHeadAttention``).

    The W hypotheses of a sentence, side by side, read its keys and values once.

    Args:
        query: (B W, 1, H d).
        key: (B, H, S, d).
        value: Likewise.
        mask: (B, S) bool, true on real tokens.

    Returns:
        The attended values (B W, 1, H d).
    """
    rows, heads, _, head_dim = key.shape
    # With one hypothesis of each sentence there is no shape to change; torch would write a node for it.
    single = statically_known_true(query.shape[0] == rows)
    queries = query if single else query.view(rows, -1, heads * head_dim)
    if not torch.compiler.is_exporting() or writes_in_place():
        split = queries.view(rows, -1, heads, head_dim).transpose(1, 2)
        scores = torch.matmul(split * head_dim**-0.5, key.transpose(-2, -1))
        weights = scores.masked_fill(~mask[:, None, None, :], float("-inf")).softmax(dim=-1)
        return torch.matmul(weights, value).transpose(1, 2).reshape(query.shape)
    # As a bias, which is the same in all steps: from a mask the operator makes one at every call.
    bias = mask.to(torch.float32).log()[:, None, None, :]
    out = symbolic(
        f"{DOMAIN}::MultiHeadAttention",
        (queries, key, value, None, None, bias if single else bias.expand(-1, -1, queries.shape[1], -1)),
        {"num_heads": heads},
        dtype=torch.float32,
        shape=queries.shape,
        version=1,
    )
    return out if single else out.reshape(query.shape)


def _attend_grouped(
    projected: Tensor, key: Tensor, value: Tensor, position: Tensor, *, slots: int
) -> tuple[Tensor, Tensor, Tensor]:
    """``GroupQueryAttention`` of tokens (B, T, 3 H d), whose caches have so many slots afterwards."""
    rows, heads, _, head_dim = key.shape
    tokens = projected.shape[1]
    after, before = (rows, heads, slots, head_dim), position.to(torch.int32)
    # The last token's slot, and how many are in use with it.
    last = before if statically_known_true(tokens == 1) else before + (tokens - 1)
    out, keys, values = symbolic_multi_out(
        f"{DOMAIN}::GroupQueryAttention",
        (projected, None, None, key, value, last, last[0] + 1),
        {"num_heads": heads, "kv_num_heads": heads},
        dtypes=(torch.float32,) * 3,
        shapes=((rows, tokens, heads * head_dim), after, after),
        version=1,
    )
    return out, keys, values


def _attend_in_place(projected: Tensor, key: Tensor, value: Tensor, place: _Place) -> Tensor:
    """Attention (B, T, H d) of tokens whose keys and values go into the caches (1, C, H, d).

    One token of each row, or some of the only one.
    """
    rows, heads, head_dim = prod(projected.shape[:-1]), *key.shape[2:]
    parts = projected.chunk(3, dim=-1)
    if not torch.compiler.is_exporting():
        # Called, the operators take strides for those of plain tensors, which a program's always are.
        parts = tuple(part.contiguous() for part in parts)
    # (1, B, H, d) each
    query, own_key, own_value = (part.reshape(1, rows, heads, head_dim) for part in parts)
    library = getattr(torch.ops, IN_PLACE_LIBRARY)
    library.update_cache(own_key, key, place.slot)
    library.update_cache(own_value, value, place.slot)
    latest = place.slot
    if place.ancestors is not None:
        length = place.ancestors.shape[1]
        key, value = (_gather(cache, place.ancestors) for cache in (key, value))
        query, latest = query.view(rows, 1, heads, head_dim), length - 1
    # No mask, no dropout; causal: slots beyond the latest do not count.
    out: Tensor = library.custom_sdpa(query, key, value, latest, None, 0.0, True, head_dim**-0.5)
    return out.reshape(*projected.shape[:-1], -1)


def _gather(cache: Tensor, slots: Tensor) -> Tensor:
    """Entries (B, T, H, d) of a cache (1, C, H, d) at ``slots`` (B, T)."""
    return cache.flatten(0, 1).index_select(0, slots.reshape(-1)).view(*slots.shape, *cache.shape[2:])
