"""Linear attention against a slow oracle, in parallel, step by step, and merged."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import Dim
from torch.utils._python_dispatch import TorchDispatchMode

from lite_nlp.config.kinds import DENSE, LinearSpec
from lite_nlp.models.attention.feature_maps import (
    FEATURE_MAPS,
    RANDOM_SCALE,
    FeatureMap,
    RandomFeatures,
)
from lite_nlp.models.attention.linear_attention import (
    CHUNK,
    LinearCrossAttention,
    LinearSelfAttention,
    causal_linear_attention,
)
from lite_nlp.models.attention.registry import AttentionSpec
from tests.reference.slow_linear_attention import (
    attend,
    elu_features,
    learned_features,
    pair_sums,
    random_features,
)

Array = NDArray[np.float64]

HEADS, WIDTH = 2, 12
SIZES = {"t2r": 5, "elu": 6, "random-features": 8}
LINEARS = {
    "dense": LinearSpec(),
    "r2d2": LinearSpec(kind="r2d2", n=3),
    "quaternion": LinearSpec(kind="quaternion"),
    "low-rank": LinearSpec(kind="low-rank", rank=9),
}


def _spec(kind: str, linear: LinearSpec = DENSE) -> AttentionSpec:
    return AttentionSpec(embed_dim=WIDTH, num_heads=HEADS, feature_size=SIZES[kind], linear=linear)


def _features(kind: str) -> FeatureMap:
    return FEATURE_MAPS[kind](_spec(kind))


def _randomized(module: torch.nn.Module) -> Any:
    """In fp64, with biases that are not zero, so that nothing hides."""
    generator = torch.Generator().manual_seed(5)
    module.double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    return module


def _self_attention(kind: str, linear: LinearSpec = DENSE) -> LinearSelfAttention:
    torch.manual_seed(1)
    return _randomized(LinearSelfAttention(_spec(kind, linear), _features(kind)))


def _cross_attention(kind: str, linear: LinearSpec = DENSE) -> LinearCrossAttention:
    torch.manual_seed(1)
    return _randomized(LinearCrossAttention(_spec(kind, linear), _features(kind)))


def _inputs(rows: int, length: int) -> Tensor:
    return torch.randn(rows, length, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _phi(kind: str, features: torch.nn.Module, head: int) -> Callable[[Array], Array]:
    """The feature map of one vector of one head, written out."""
    weights = {name: value.detach().numpy() for name, value in features.state_dict().items()}
    if kind == "t2r":
        return lambda x: learned_features(x, weights["weight"][head], weights["bias"][head])
    if kind == "elu":
        return elu_features
    return lambda x: random_features(x, weights["projections"][head], weights["temperature"][head])


def _oracle(
    kind: str, features: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *, sources: int | None
) -> Tensor:
    """Attention of one row, head by head and token by token.

    Each token attends to the first ``sources`` positions of another sequence, or to itself and those before it.
    """
    width = query.shape[-1] // HEADS
    out = np.zeros(query.shape)
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        phi = _phi(kind, features, head)
        queries, keys, values = (x.detach().numpy()[:, part] for x in (query, key, value))
        for token in range(len(queries)):
            seen = slice(token + 1 if sources is None else sources)
            sums = pair_sums(phi, queries[token], list(keys[seen]), list(values[seen]))
            out[token, part] = attend(*sums, crosses=sources is not None)
    return torch.from_numpy(out)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("length", [1, 9, CHUNK, CHUNK + 1, 2 * CHUNK + 10])
def test_parallel_form_equals_the_definition(kind: str, length: int) -> None:
    attention = _self_attention(kind)
    x = _inputs(2, length)
    out = attention(x)
    for row in range(2):
        query, key, value = attention.in_proj(x[row]).chunk(3, dim=-1)
        expected = _oracle(kind, attention.feature_map, query, key, value, sources=None)
        torch.testing.assert_close(out[row], attention.out_proj(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", SIZES)
def test_recurrence_equals_the_parallel_form(kind: str) -> None:
    attention = _self_attention(kind).float()
    x = _inputs(3, 2 * CHUNK + 7).float()
    state = attention.init_state(x, capacity=9)
    shapes = {name: value.shape for name, value in state.items()}
    steps = []
    with torch.inference_mode():
        for position in range(x.shape[1]):
            out, state = attention.step(x[:, position : position + 1], state, torch.full((3,), position))
            steps.append(out)
            assert {name: value.shape for name, value in state.items()} == shapes
        torch.testing.assert_close(torch.cat(steps, dim=1), attention(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", SIZES)
def test_cross_attention_equals_the_definition_without_the_padding(kind: str) -> None:
    attention = _cross_attention(kind)
    x, memory = _inputs(2, 4), _inputs(2, 11).flip(1)
    lengths = (11, 3)
    mask = torch.arange(11)[None, :] < torch.tensor(lengths)[:, None]
    out = attention(x, attention.project_memory(memory, mask))
    for row, length in enumerate(lengths):
        key, value = attention.memory_proj(memory[row]).chunk(2, dim=-1)
        query = attention.query_proj(x[row])
        expected = _oracle(kind, attention.feature_map, query, key, value, sources=length)
        torch.testing.assert_close(out[row], attention.out_proj(expected), rtol=1e-9, atol=1e-9)


def test_the_chunk_does_not_matter() -> None:
    torch.manual_seed(3)
    query, key, value = torch.rand(2, 3, 50, 4), torch.rand(2, 3, 50, 4), torch.randn(2, 3, 50, 5)
    whole = causal_linear_attention(query, key, value, chunk=50)
    for chunk in (1, 7, 25, 49, 64):
        torch.testing.assert_close(causal_linear_attention(query, key, value, chunk=chunk), whole, rtol=1e-5, atol=1e-6)


def test_a_graph_of_it_takes_texts_of_any_length() -> None:
    attention = _randomized(LinearSelfAttention(_spec("elu"), _features("elu"))).float().eval()
    example = torch.randn(2, 5, WIDTH)
    sizes = ({0: Dim("batch", min=1, max=8), 1: Dim("tokens", min=1, max=300)},)
    with torch.no_grad():
        graph = torch.export.export(_Whole(attention), (example,), dynamic_shapes=sizes).module()
        # One chunk and less, several of them, and a part of one.
        for length in (1, CHUNK, 2 * CHUNK + 1):
            x = torch.randn(3, length, WIDTH)
            torch.testing.assert_close(graph(x), _Whole(attention)(x), rtol=1e-4, atol=1e-4)


class _Whole(torch.nn.Module):
    def __init__(self, attention: LinearSelfAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x)


def test_a_similarity_below_the_floor_is_divided_by_the_floor() -> None:
    # One token: 0.02 * 0.1 = 0.002 of a value of 3, over 0.01 instead of 0.002.
    out = causal_linear_attention(
        torch.full((1, 1, 1, 1), 0.02), torch.full((1, 1, 1, 1), 0.1), torch.full((1, 1, 1, 1), 3.0)
    )
    assert out.item() == pytest.approx(0.6)
    nothing = causal_linear_attention(torch.zeros(1, 1, 3, 2), torch.rand(1, 1, 3, 2), torch.rand(1, 1, 3, 2))
    assert nothing.tolist() == [[[[0.0, 0.0]] * 3]]


def test_long_sums_in_low_precision_stay_exact() -> None:
    """A running mean of 4,096 ones: bf16 sums would stick at 256."""
    ones = torch.ones(1, 1, 4096, 1, dtype=torch.bfloat16)
    out = causal_linear_attention(ones, ones, ones)
    assert (out.dtype, out.min().item(), out.max().item()) == (torch.bfloat16, 1.0, 1.0)
    spec = AttentionSpec(embed_dim=4, num_heads=2)
    attention = LinearSelfAttention(spec, FEATURE_MAPS["elu"](spec)).bfloat16()
    x = torch.ones(1, 1, 4, dtype=torch.bfloat16)
    out, state = attention.step(x, attention.init_state(x, 1), torch.zeros(1))
    assert {value.dtype for value in state.values()} == {torch.float32}
    assert out.dtype == torch.bfloat16


def test_a_step_under_autocast_keeps_its_state_in_fp32() -> None:
    """As in a validation amid bf16 training, where activations come in bf16 and weights are fp32."""
    attention = _self_attention("t2r").float()
    x = _inputs(2, 1).float()
    exact, _ = attention.step(x, attention.init_state(x, 1), torch.zeros(2))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        out, state = attention.step(x.bfloat16(), attention.init_state(x, 1), torch.zeros(2))
    assert {value.dtype for value in state.values()} == {torch.float32}
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05)


class _Largest(TorchDispatchMode):
    """Notes the most elements that any operator's output has."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


def _largest(attention: LinearSelfAttention, length: int) -> int:
    with torch.device("meta"):
        x = torch.empty(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    with _Largest() as largest:
        attention(x).sum().backward()
    return largest.elements


@pytest.mark.parametrize("kind", SIZES)
def test_memory_grows_with_the_length_and_not_with_its_square(kind: str) -> None:
    attention = _self_attention(kind).to("meta")
    sizes = {length: _largest(attention, length) for length in (4096, 8192, 16384)}
    assert sizes[8192] == 2 * sizes[4096]
    assert sizes[16384] == 2 * sizes[8192]
    # Per token: a row of a chunk's similarities for each head, at most.
    assert sizes[8192] <= 8192 * HEADS * CHUNK


@pytest.mark.parametrize("linear", LINEARS)
@pytest.mark.parametrize("kind", SIZES)
def test_merged_equals_unmerged(kind: str, linear: str) -> None:
    own, cross = _self_attention(kind, LINEARS[linear]), _cross_attention(kind, LINEARS[linear])
    x, memory = _inputs(2, CHUNK + 9), _inputs(2, 6).flip(1)
    mask = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])

    def outputs() -> tuple[Tensor, ...]:
        with torch.no_grad():
            state = own.init_state(x, 1)
            step, state = own.step(x[:, :1], state, torch.zeros(2))
            return own(x), step, *state.values(), cross(x, cross.project_memory(memory, mask))

    unmerged = outputs()
    state_dict = own.state_dict().keys() | cross.state_dict().keys()
    own.eval()
    cross.eval()
    # Only a learned map is linear before its nonlinearity.
    merged = [own.merged, cross.merged_query, cross.merged_memory]
    if linear != "low-rank":
        assert [part is not None for part in merged] == [kind == "t2r"] * 3
    with torch.no_grad():
        assert all(part is None or part.kept(x) for part in merged)
    torch.testing.assert_close(outputs(), unmerged, rtol=1e-12, atol=1e-12)
    assert own.state_dict().keys() | cross.state_dict().keys() == state_dict
    with torch.no_grad():
        for parameter in [*own.parameters(), *cross.parameters()]:
            parameter.mul_(1.5)
    changed = outputs()
    assert not torch.allclose(changed[0], unmerged[0])
    own.train()
    cross.train()
    torch.testing.assert_close(outputs(), changed, rtol=1e-12, atol=1e-12)


def test_random_features_are_those_of_the_gaussian_kernel() -> None:
    torch.manual_seed(0)
    features = RandomFeatures(num_heads=1, head_dim=4, feature_size=200_000)
    x = torch.tensor([[3.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [-0.1, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    # The released code's factor cancels in the quotient of sums.
    phi = features(x[None, None])[0, 0] / (RANDOM_SCALE * 100_000**0.5)
    # exp(-|a - b|^2 / 2) of the unit vectors, whose squared distances are 2 - 2 cos.
    cosines = torch.tensor([1.0, 0.0, -1.0, 0.5**0.5])
    torch.testing.assert_close(phi @ phi[0], (cosines - 1).exp(), rtol=0.0, atol=0.01)
    zero = torch.zeros(1, 1, 1, 4, requires_grad=True)
    features(zero).sum().backward()
    assert torch.isfinite(zero.grad).all()
    assert "projections" in features.state_dict()


@pytest.mark.parametrize("kind", SIZES)
def test_gradients_equal_finite_differences(kind: str) -> None:
    torch.manual_seed(2)
    features = _features(kind).double()
    x = torch.randn(1, HEADS, 7, WIDTH // HEADS, dtype=torch.float64, requires_grad=True)
    value = torch.randn(1, HEADS, 7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, value: causal_linear_attention(features(x), features(x.flip(2)), value, chunk=3), (x, value)
    )


@pytest.mark.parametrize("kind", SIZES)
def test_gradients_reach_every_parameter_and_bf16_stays_finite(kind: str) -> None:
    for bf16 in (False, True):
        own, cross = _self_attention(kind).float(), _cross_attention(kind).float()
        x = _inputs(2, CHUNK + 3).float()
        mask = torch.tensor([[True] * (CHUNK + 3), [True] * 5 + [False] * (CHUNK - 2)])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            out = cross(own(x), cross.project_memory(x, mask))
        out.float().square().sum().backward()
        for name, parameter in [*own.named_parameters(), *cross.named_parameters()]:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
            assert parameter.grad.abs().max() > 0, name
