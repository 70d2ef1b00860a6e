"""Sizes and Mult-Adds of linear attention against the paper's formulas and its models' sizes, on the meta device."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lite_nlp.models.attention.feature_maps import FEATURE_MAPS
from lite_nlp.models.attention.linear_attention import LinearCrossAttention, LinearSelfAttention
from lite_nlp.models.attention.registry import AttentionSpec


def _on_meta(width: int, heads: int, size: int, kind: str = "t2r") -> tuple[LinearSelfAttention, LinearCrossAttention]:
    spec = AttentionSpec(embed_dim=width, num_heads=heads, feature_size=size)
    build_map = FEATURE_MAPS[kind]
    with torch.device("meta"):
        return LinearSelfAttention(spec, build_map(spec)), LinearCrossAttention(spec, build_map(spec))


def _numel(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


@pytest.mark.parametrize(
    ("width", "heads", "size", "floats"),
    [(1024, 8, 32, 33_024), (1024, 16, 4, 4_160), (1024, 16, 32, 33_280)],
)
def test_sizes_of_the_papers_models(width: int, heads: int, size: int, floats: int) -> None:
    """h k + r k floats of state; r k (d + 1) parameters of the map, which here is as many."""
    own, cross = _on_meta(width, heads, size)
    one = torch.empty(1, 1, width, device="meta")
    many = torch.empty(1, 4096, width, device="meta")
    mask = torch.ones(1, 4096, dtype=torch.bool, device="meta")
    assert _numel(own.init_state(one, capacity=1)) == _numel(own.init_state(one, capacity=4096)) == floats
    assert _numel(cross.project_memory(many, mask)) == floats
    assert sum(parameter.numel() for parameter in own.feature_map.parameters()) == floats
    assert sum(parameter.numel() for parameter in cross.feature_map.parameters()) == floats


def test_seven_tenths_less_state_than_elu() -> None:
    """Section 3.3, figure 3: "a 70% memory reduction" of causal 4 and cross 32 against 64 features each."""

    def floats(kind: str, causal: int, cross: int) -> int:
        one, mask = torch.empty(1, 1, 1024, device="meta"), torch.ones(1, 1, dtype=torch.bool, device="meta")
        own, other = _on_meta(1024, 16, causal, kind)[0], _on_meta(1024, 16, cross, kind)[1]
        return _numel(own.init_state(one, 1)) + _numel(other.project_memory(one, mask))

    assert (floats("t2r", 4, 32), floats("elu", 64, 64)) == (37_440, 133_120)


@pytest.mark.parametrize(
    ("width", "heads", "size", "merged"),
    [(1024, 8, 32, 524_288), (1024, 16, 4, 131_072), (1024, 16, 32, 1_048_576)],
)
def test_sizes_of_the_merged_maps(width: int, heads: int, size: int, merged: int) -> None:
    """W~q and W~k, r k x h each, in place of two h x h matrices and the map."""
    own, cross = (attention.eval() for attention in _on_meta(width, heads, size))
    for projections in ([own.merged], [cross.merged_query, cross.merged_memory]):
        # Beside them there is W_v, which stays.
        assert sum(projection.frozen_weight.numel() for projection in projections) == merged + width * width


class _Products(TorchDispatchMode):
    """Counts the Mult-Adds of matrix products, by the sizes of their operands."""

    macs = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
            self.macs += args[0].numel() * args[1].shape[-1]
        elif func is torch.ops.aten.addmm.default:
            self.macs += args[1].numel() * args[2].shape[-1]
        return func(*args, **(kwargs or {}))


def test_mult_adds_of_a_generated_token() -> None:
    """Language model of the paper, per layer: 524,288 for the features, 2,097,152 for value and output projection,
    32,768 to read the state and 256 for the normalizer; the state update is no matrix product."""
    attention = _on_meta(1024, 8, 32)[0].eval()
    x = torch.empty(1, 1, 1024, device="meta")
    state = attention.init_state(x, 1)
    with torch.no_grad(), _Products() as products:
        attention.step(x, state, torch.zeros(1, device="meta"))
    assert products.macs == 524_288 + 2_097_152 + 32_768 + 256


def test_a_wide_map_is_not_merged() -> None:
    """16 heads of 4 channels with 32 features: 64 x 2,048 Mult-Adds a map merged, 64 x 64 + 16 x 32 x 4 apart."""
    own, cross = _on_meta(64, 16, 32)
    assert [own.merged, cross.merged_query, cross.merged_memory] == [None] * 3
