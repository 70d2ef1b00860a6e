"""Every feature map, and the numerators and normalizers of linear attention, against slow sums over pairs.

The two are compared apart, since a quotient hides a factor or a sign that both have; sums below the floor, above it and
below zero all occur, in self-attention, in cross-attention and step by step.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lite_nlp.models.attention.feature_maps import FEATURE_MAPS, FeatureMap
from lite_nlp.models.attention.linear_attention import (
    CHUNK,
    LinearCrossAttention,
    LinearSelfAttention,
    accumulate,
    causal_linear_attention,
    causal_sums,
    read_sums,
)
from lite_nlp.models.attention.registry import AttentionSpec
from tests.reference.slow_linear_attention import (
    FLOOR,
    attend,
    elu_features,
    learned_features,
    pair_sums,
    random_features,
)

Array = NDArray[np.float64]

HEADS, HEAD_DIM, VALUES = 2, 6, 3
#: Two angles a head make the estimates of the kernel coarse enough for sums below zero.
SIZES = {"t2r": 5, "elu": 0, "random-features": 4}


def _spec(kind: str) -> AttentionSpec:
    return AttentionSpec(embed_dim=HEADS * HEAD_DIM, num_heads=HEADS, feature_size=SIZES[kind])


def _features(kind: str) -> FeatureMap:
    torch.manual_seed(11)
    features = FEATURE_MAPS[kind](_spec(kind))
    assert isinstance(features, torch.nn.Module)
    features.double()
    for parameter in features.parameters():
        torch.nn.init.normal_(parameter, std=1.5)
    return features


def _phi(kind: str, features: FeatureMap, head: int) -> Callable[[Array], Array]:
    """The slow map of one head, with the weights of ``features``."""
    assert isinstance(features, torch.nn.Module)
    weights = {name: value[head].detach().numpy() for name, value in features.state_dict().items()}
    slow: dict[str, Callable[[Array], Array]] = {
        "t2r": lambda x: learned_features(x, weights["weight"], weights["bias"]),
        "elu": elu_features,
        "random-features": lambda x: random_features(x, weights["projections"], weights["temperature"]),
    }
    return slow[kind]


def _vectors(length: int, width: int, seed: int) -> Tensor:
    """(1, H, T, width)"""
    return torch.randn(1, HEADS, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _keys(length: int) -> Tensor:
    """Keys (1, H, T, d) that are alike, so that their errors add up: to sums well below zero for some queries."""
    return _vectors(1, HEAD_DIM, seed=1) + 0.3 * _vectors(length, HEAD_DIM, seed=5)


def _slow_sums(
    kind: str, features: FeatureMap, query: Tensor, key: Tensor, value: Tensor, seen: Callable[[int], list[int]]
) -> tuple[Array, Array]:
    """Numerators (H, T, VALUES) and normalizers (H, T) over the keys that ``seen`` lists for each query."""
    numerators = np.zeros((HEADS, query.shape[2], value.shape[3]))
    normalizers = np.zeros((HEADS, query.shape[2]))
    for head in range(HEADS):
        phi = _phi(kind, features, head)
        queries, keys, values = (x[0, head].detach().numpy() for x in (query, key, value))
        for token, vector in enumerate(queries):
            places = seen(token)
            sums = pair_sums(phi, vector, [keys[place] for place in places], [values[place] for place in places])
            numerators[head, token], normalizers[head, token] = sums
    return numerators, normalizers


def _close(actual: Tensor, expected: Array) -> None:
    torch.testing.assert_close(actual, torch.from_numpy(expected), rtol=1e-9, atol=1e-12)


def _covers(kind: str, normalizers: Array) -> bool:
    """Whether there are sums above the floor, and for random features also below it and below zero."""
    small = (normalizers < FLOOR).any() and (normalizers < 0).any()
    return bool((normalizers > FLOOR).any() and (small or kind != "random-features"))


@pytest.mark.parametrize("kind", SIZES)
def test_each_map_is_its_papers_equation(kind: str) -> None:
    features, x = _features(kind), _vectors(9, HEAD_DIM, seed=3)
    expected = np.array([[_phi(kind, features, head)(row) for row in x[0, head].numpy()] for head in range(HEADS)])
    _close(features(x)[0].detach(), expected)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("length", [1, 40, 2 * CHUNK + 9])
def test_causal_sums(kind: str, length: int) -> None:
    features = _features(kind)
    query, key, value = _vectors(length, HEAD_DIM, seed=4), _keys(length), _vectors(length, VALUES, seed=6)
    numerators, normalizers = _slow_sums(kind, features, query, key, value, lambda token: list(range(token + 1)))
    assert _covers(kind, normalizers) or length < 2 * CHUNK
    with torch.no_grad():
        phi_query, phi_key = features(query * HEAD_DIM**-0.5), features(key)
        weighted, similarity = causal_sums(phi_query, phi_key, value)
        out = causal_linear_attention(phi_query, phi_key, value)
    _close(weighted[0], numerators)
    _close(similarity[0, ..., 0], normalizers)
    _close(out[0], _quotients(numerators, normalizers, crosses=False))


@pytest.mark.parametrize("kind", SIZES)
def test_cross_sums(kind: str) -> None:
    """Keys that the mask hides do not count."""
    features, sources = _features(kind), 150
    query, key, value = _vectors(50, HEAD_DIM, seed=7), _keys(sources), _vectors(sources, VALUES, seed=9)
    for real in (sources, 2):
        hidden = torch.arange(sources)[:, None] >= real
        numerators, normalizers = _slow_sums(kind, features, query, key, value, lambda _, real=real: list(range(real)))
        assert _covers(kind, normalizers) or real < sources
        with torch.no_grad():
            state, normalizer = accumulate(features(key).masked_fill(hidden, 0.0), value)
            weighted, similarity = read_sums(features(query * HEAD_DIM**-0.5), state, normalizer)
        _close(weighted[0], numerators)
        _close(similarity[0, ..., 0], normalizers)


def _quotients(numerators: Array, normalizers: Array, *, crosses: bool) -> Array:
    out = np.zeros_like(numerators)
    for place in np.ndindex(normalizers.shape):
        out[place] = attend(numerators[place], float(normalizers[place]), crosses=crosses)
    return out


def _alike_keys(projection: torch.nn.Module, part: int) -> None:
    """Give part ``part`` of a projection a bias so large that keys are alike, as in ``_keys``."""
    with torch.no_grad():
        projection.get_parameter("bias").unflatten(0, (-1, HEADS * HEAD_DIM))[part].copy_(
            3 * torch.randn(HEADS * HEAD_DIM, generator=torch.Generator().manual_seed(3))
        )


def _module_parts(x: Tensor) -> Tensor:
    """(T, H d) -> (1, H, T, d)"""
    return x.view(1, -1, HEADS, HEAD_DIM).transpose(1, 2)


@pytest.mark.parametrize("kind", SIZES)
def test_steps_keep_the_sums_and_take_the_floor_below_zero(kind: str) -> None:
    length = 150
    attention = LinearSelfAttention(_spec(kind), _features(kind)).double()
    _alike_keys(attention.in_proj, part=1)
    x = torch.randn(1, length, HEADS * HEAD_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        query, key, value = (_module_parts(part) for part in attention.in_proj(x[0]).chunk(3, dim=-1))
        numerators, normalizers = _slow_sums(
            kind, attention.feature_map, query, key, value, lambda token: list(range(token + 1))
        )
        assert _covers(kind, normalizers)
        out = _quotients(numerators, normalizers, crosses=False).transpose(1, 0, 2).reshape(length, -1)
        expected = attention.out_proj(torch.from_numpy(out))
        state = attention.init_state(x, length)
        for token in range(length):
            stepped, state = attention.step(x[:, token : token + 1], state, torch.zeros(1))
            phi = attention.feature_map(query[:, :, token : token + 1] * HEAD_DIM**-0.5)
            weighted, similarity = read_sums(phi, state["self_state"], state["self_normalizer"])
            _close(weighted[0, :, 0], numerators[:, token])
            _close(similarity[0, :, 0, 0], normalizers[:, token])
            torch.testing.assert_close(stepped[0, 0], expected[token], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", SIZES)
def test_cross_attention_takes_the_absolute_value_before_the_floor(kind: str) -> None:
    attention = LinearCrossAttention(_spec(kind), _features(kind)).double()
    _alike_keys(attention.memory_proj, part=0)
    generator = torch.Generator().manual_seed(2)
    x, memory = (
        torch.randn(1, length, HEADS * HEAD_DIM, dtype=torch.float64, generator=generator) for length in (50, 150)
    )
    with torch.no_grad():
        key, value = (_module_parts(part) for part in attention.memory_proj(memory[0]).chunk(2, dim=-1))
        query = _module_parts(attention.query_proj(x[0]))
        sums = _slow_sums(kind, attention.feature_map, query, key, value, lambda _: list(range(150)))
        # A sum below zero whose absolute value is above the floor: the floor alone would give another quotient.
        assert (sums[1] < -FLOOR).any() or kind != "random-features"
        out = _quotients(*sums, crosses=True).transpose(1, 0, 2).reshape(50, -1)
        state = attention.project_memory(memory, torch.ones(1, 150, dtype=torch.bool))
        expected = attention.out_proj(torch.from_numpy(out))
        torch.testing.assert_close(attention(x, state)[0], expected, rtol=1e-9, atol=1e-9)
