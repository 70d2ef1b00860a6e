"""Linear attention (T2R, Kasai et al. 2021, section 2.2): in parallel for training, as a recurrence for decoding.

A feature map phi replaces the exponential: the similarity of a query and a key is phi(q / sqrt(d)) . phi(k). Keys and
values are then accumulated in a state S (k, d) and a normalizer z (k) per head, whose size does not depend on the
length. Queries are divided by sqrt(d) and normalizers are at least 0.01, as in the authors' code; the paper states
neither. Only random features can make a normalizer negative: the code then takes the floor in self-attention, and the
absolute value first in cross-attention. Attention weights are never computed, so there is no dropout of them (nor is
there in the authors' fast path). In evaluation mode a learned map is merged into the projections.

Shape letters as in ``heads``, and k features per head, N chunks of c tokens.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.attention.feature_maps import FEATURE_MAPS, FeatureMap, FeatureMapBuilder
from lite_nlp.models.attention.heads import merge_heads, split_heads, split_parts
from lite_nlp.models.attention.merging import merge_projection
from lite_nlp.models.attention.registry import AttentionModules, AttentionSpec, register_attention
from lite_nlp.models.built_linear import is_traced

__all__ = [
    "CHUNK",
    "LinearCrossAttention",
    "LinearSelfAttention",
    "accumulate",
    "causal_linear_attention",
    "causal_sums",
    "read_sums",
]

#: Tokens whose similarities are computed directly; earlier tokens are in the state.
CHUNK: Final = 64

#: Smallest normalizer (the authors' code): a query that is similar to no key gets an output near zero.
_FLOOR: Final = 0.01


def _normalize(weighted: Tensor, similarity: Tensor) -> Tensor:
    """Divide sums of values (..., d) by the sums (..., 1) of their similarities, or by the floor if those are below."""
    return weighted / similarity.clamp(min=_FLOOR)


def _exact(*tensors: Tensor) -> list[Tensor]:
    """The tensors in fp32 (or fp64), which are precise enough for long sums."""
    return [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]


def _no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context without autocast; an empty one where autocast is off already, so that exporters see no context."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def accumulate(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """State (..., k, d) and normalizer (..., k) of features ``key`` (..., S, k) and ``value`` (..., S, d)."""
    return torch.matmul(key.transpose(-2, -1), value), key.sum(dim=-2)


def read_sums(query: Tensor, state: Tensor, normalizer: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over all keys of a state (equations 6 and 7): of values times similarity, and of similarity.

    Args:
        query: Features (..., T, k).
        state: (..., k, d).
        normalizer: (..., k).

    Returns:
        (..., T, d) and (..., T, 1).
    """
    return torch.matmul(query, state), torch.matmul(query, normalizer[..., None])


def causal_linear_attention(query: Tensor, key: Tensor, value: Tensor, *, chunk: int = CHUNK) -> Tensor:
    """Attention of every token to itself and to earlier tokens (equations 4 and 5), without a (T, T) matrix.

    Arguments as in ``causal_sums``.

    Returns:
        (B, H, T, d), in the type of ``value``.
    """
    with _no_autocast(value.device):
        return _normalize(*causal_sums(query, key, value, chunk=chunk)).to(value.dtype)


def causal_sums(query: Tensor, key: Tensor, value: Tensor, *, chunk: int = CHUNK) -> tuple[Tensor, Tensor]:
    """Sums over every token and those before it: of values times similarity, and of similarity.

    Within a chunk similarities are computed directly; the state before each chunk comes from a running sum over
    chunks. Time and memory grow linearly with T; all sums are in fp32.

    Args:
        query: Features (B, H, T, k).
        key: Features (B, H, T, k).
        value: (B, H, T, d).
        chunk: Tokens c of a chunk; the result does not depend on it.

    Returns:
        (B, H, T, d) and (B, H, T, 1).
    """
    length = value.shape[2]
    # A graph for texts of any length has no number of chunks: there, all tokens are one.
    size = length if is_traced(value) else min(chunk, length)
    padding = -length % size
    # Padding has no features: it adds nothing to any state.
    queries, keys, values = (
        F.pad(x, (0, 0, 0, padding)).reshape(*x.shape[:2], -1, size, x.shape[3]) for x in _exact(query, key, value)
    )  # (B, H, N, c, ...)
    local = torch.matmul(queries, keys.transpose(-2, -1)).tril()
    weighted = torch.matmul(local, values)
    similarity = local.sum(dim=-1, keepdim=True)
    if length > size:
        state, normalizer = accumulate(keys[:, :, :-1], values[:, :, :-1])
        # The first chunk has nothing before it.
        before = F.pad(state.cumsum(dim=2), (0, 0, 0, 0, 1, 0))
        normalizer_before = F.pad(normalizer.cumsum(dim=2), (0, 0, 1, 0))
        weighted_before, similarity_before = read_sums(queries, before, normalizer_before)
        weighted, similarity = weighted + weighted_before, similarity + similarity_before
    return weighted.flatten(2, 3)[:, :, :length], similarity.flatten(2, 3)[:, :, :length]


class LinearSelfAttention(nn.Module):
    """Causal self-attention with a feature map; parameters as in ``SelfAttention``, and those of the map.

    Args:
        spec: Sizes and options.
        feature_map: Turns queries and keys (B, H, T, d) into features (B, H, T, k).
    """

    def __init__(self, spec: AttentionSpec, feature_map: FeatureMap) -> None:
        super().__init__()
        self.num_heads, self.inner_dim, self.head_dim = spec.num_heads, spec.inner_dim, spec.head_dim
        self.in_proj = spec.fused_projection(3)
        self.feature_map = feature_map
        self.out_proj = spec.output_projection()
        self.merged = merge_projection(self.in_proj, feature_map, (self.head_dim**-0.5, 1.0, None))

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys (B, H, T, k), and values (B, H, T, d), of ``x`` (B, T, D)."""
        if self.merged is not None and self.merged.kept(x):
            query, key, value = split_parts(self.merged(x), self.merged.widths, self.num_heads)
            return F.relu(query), F.relu(key), value
        query, key, value = split_parts(self.in_proj(x), [self.inner_dim] * 3, self.num_heads)
        return self.feature_map(query * self.head_dim**-0.5), self.feature_map(key), value

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend within ``x`` (B, T, D); ``mask`` is not used, since causality is built in. Returns (B, T, D)."""
        out = causal_linear_attention(*self._project(x))
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """State (B, H, k, d) and normalizer (B, H, k) before the first token; the same for any ``capacity``."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        state = like.new_zeros(
            (like.shape[0], self.num_heads, self.feature_map.feature_size, self.head_dim), dtype=dtype
        )
        normalizer = like.new_zeros((like.shape[0], self.num_heads, self.feature_map.feature_size), dtype=dtype)
        return {"self_state": state, "self_normalizer": normalizer}

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``x`` (B, T, D) (equations 6 and 7); returns the output (B, T, D) and the new state."""
        query, key, value = _exact(*self._project(x))
        before = state["self_state"], state["self_normalizer"]
        with _no_autocast(x.device):
            if x.shape[1] == 1:
                after = before[0] + key.transpose(-2, -1) * value, before[1] + key[:, :, 0]
                weighted, similarity = read_sums(query, *after)
            else:
                added = accumulate(key, value)
                after = before[0] + added[0], before[1] + added[1]
                earlier, present = read_sums(query, *before), causal_sums(query, key, value)
                weighted, similarity = earlier[0] + present[0], earlier[1] + present[1]
            out = _normalize(weighted, similarity).to(x.dtype)
        return self.out_proj(merge_heads(out)), {"self_state": after[0], "self_normalizer": after[1]}


class LinearCrossAttention(nn.Module):
    """Attention with a feature map to the encoded source, whose state is computed once per sentence.

    Parameters as in ``CrossAttention``, and those of the map.

    Args:
        spec: Sizes and options.
        feature_map: Turns queries and keys (B, H, T, d) into features (B, H, T, k).
    """

    def __init__(self, spec: AttentionSpec, feature_map: FeatureMap) -> None:
        super().__init__()
        self.num_heads, self.inner_dim, self.head_dim = spec.num_heads, spec.inner_dim, spec.head_dim
        self.query_proj = spec.query_projection()
        self.memory_proj = spec.fused_projection(2)
        self.feature_map = feature_map
        self.out_proj = spec.output_projection()
        self.merged_query = merge_projection(self.query_proj, feature_map, (self.head_dim**-0.5,))
        self.merged_memory = merge_projection(self.memory_proj, feature_map, (1.0, None))

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """Accumulate the encoded source ``memory`` (B, S, D) over the tokens where ``src_mask`` (B, S) is True.

        Returns:
            ``cross_state`` (B, H, k, d) and ``cross_normalizer`` (B, H, k).
        """
        if self.merged_memory is not None and self.merged_memory.kept(memory):
            key, value = split_parts(self.merged_memory(memory), self.merged_memory.widths, self.num_heads)
            key = F.relu(key)
        else:
            key, value = split_parts(self.memory_proj(memory), [self.inner_dim] * 2, self.num_heads)
            key = self.feature_map(key)
        with _no_autocast(memory.device):
            key, value = _exact(key.masked_fill(~src_mask[:, None, :, None], 0.0), value)
            state, normalizer = accumulate(key, value)
        return {"cross_state": state, "cross_normalizer": normalizer}

    def _query(self, x: Tensor) -> Tensor:
        """Features (B, H, T, k) of the queries of ``x`` (B, T, D)."""
        if self.merged_query is not None and self.merged_query.kept(x):
            return F.relu(split_heads(self.merged_query(x), self.num_heads))
        features: Tensor = self.feature_map(split_heads(self.query_proj(x), self.num_heads) * self.head_dim**-0.5)
        return features

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor | None = None) -> Tensor:
        """Attend from ``x`` (B, T, D) to the result of ``project_memory``, which has applied ``src_mask`` already."""
        query = self._query(x)
        with _no_autocast(x.device):
            (query,) = _exact(query)
            weighted, similarity = read_sums(query, state["cross_state"], state["cross_normalizer"])
            out = _normalize(weighted, similarity.abs()).to(x.dtype)
        projected: Tensor = self.out_proj(merge_heads(out))
        return projected


def _linear_attention(build_map: FeatureMapBuilder) -> AttentionModules:
    """Linear attention with the maps that ``build_map`` builds."""
    # Weights are drawn map first.
    return AttentionModules(
        self_attention=lambda spec: LinearSelfAttention(spec, build_map(spec)),
        cross_attention=lambda spec: LinearCrossAttention(spec, build_map(spec)),
    )


for _kind, _build_map in FEATURE_MAPS.items():
    register_attention(_kind, _linear_attention(_build_map))
