"""The units of our blocks, and what goes with each: channels of Linears of every kind, heads, ranks, features.

torch-pruning's dependency graph finds the same for channels between dense Linears (a test compares the two); it does
not see heads, convolution kernels, feature maps, the factors of R2D2 and quaternion layers, or tables that are tied.
"""

from collections.abc import Iterator
from typing import Final, cast

import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.units import Slices, UnitGroup
from lite_nlp.models.attention.feature_maps import LearnedFeatures
from lite_nlp.models.convolution import Convolution
from lite_nlp.models.linear import LowRankLinear, QuaternionLinear, R2D2Linear

__all__ = [
    "attention_heads",
    "channels_together",
    "conv_heads",
    "feature_units",
    "ffn_channels",
    "has_free_heads",
    "linear_inputs",
    "linear_outputs",
    "low_rank_units",
    "strided",
]

_QUATERNION_PARTS: Final = 4
#: Projections into an attention, each with its number of parts (of query, key and value); a convolution has the first.
_ATTENTION_INPUTS: Final = {"in_proj": 3, "query_proj": 1, "memory_proj": 2}


def channels_together(linear: nn.Module) -> int:
    """How many channels of a Linear go together: those that share a row or column of its factors."""
    if isinstance(linear, R2D2Linear):
        return linear.n
    return _QUATERNION_PARTS if isinstance(linear, QuaternionLinear) else 1


def has_free_heads(block: nn.Module) -> bool:
    """Whether the heads of an attention or a convolution can go one by one: factors would mix them."""
    names = (*_ATTENTION_INPUTS, "out_proj")
    linears = [module for name, module in block.named_children() if name in names]
    return all(isinstance(linear, nn.Linear | LowRankLinear) for linear in linears)


def strided(width: int, together: int) -> Tensor:
    """The channels (width / together, together) of each unit, those at the same place of each of equal blocks."""
    return torch.arange(width).view(together, -1).t()


def linear_outputs(name: str, linear: nn.Module, channels: Tensor) -> Iterator[Slices]:
    """What goes with outputs ``channels`` (units, k) of a Linear; those of a factorized one are from ``strided``."""
    if isinstance(linear, LowRankLinear):
        yield from linear_outputs(f"{name}.up_proj", linear.up_proj, channels)
        return
    if isinstance(linear, nn.Linear):
        yield Slices(f"{name}.weight", 0, channels)
    else:
        yield Slices(f"{name}.components", 1, channels[:, :1])
    if linear.bias is not None:
        yield Slices(f"{name}.bias", 0, channels)


def linear_inputs(name: str, linear: nn.Module, channels: Tensor) -> Iterator[Slices]:
    """The same for inputs."""
    if isinstance(linear, LowRankLinear):
        yield Slices(f"{name}.down_proj.weight", 1, channels)
    elif isinstance(linear, nn.Linear):
        yield Slices(f"{name}.weight", 1, channels)
    else:
        yield Slices(f"{name}.components", 2, channels[:, :1])


def ffn_channels(name: str, ffn: nn.Module) -> UnitGroup:
    """The channels between the two Linears of a feed-forward block."""
    up, down = ffn.get_submodule("up_proj"), ffn.get_submodule("down_proj")
    channels = strided(cast(int, up.out_features), channels_together(up))
    slices = (*linear_outputs(f"{name}.up_proj", up, channels), *linear_inputs(f"{name}.down_proj", down, channels))
    return UnitGroup(name, slices)


def low_rank_units(name: str, linear: LowRankLinear) -> UnitGroup:
    """The channels between the two Linears of a low-rank layer."""
    ranks = torch.arange(linear.down_proj.out_features)[:, None]
    return UnitGroup(name, (Slices(f"{name}.down_proj.weight", 0, ranks), Slices(f"{name}.up_proj.weight", 1, ranks)))


def attention_heads(name: str, attention: nn.Module, *, num_heads: int, head_dim: int) -> UnitGroup:
    """The heads of an attention whose projections have free channels."""
    heads = torch.arange(num_heads * head_dim).view(num_heads, head_dim)
    slices: list[Slices] = []
    for projection, linear in attention.named_children():
        parts = _ATTENTION_INPUTS.get(projection, 0)
        if parts:
            channels = torch.cat([heads + part * heads.numel() for part in range(parts)], dim=1)
            slices += linear_outputs(f"{name}.{projection}", linear, channels)
    slices += linear_inputs(f"{name}.out_proj", attention.get_submodule("out_proj"), heads)
    each = torch.arange(num_heads)[:, None]
    maps = dict(attention.named_children()).get("feature_map")
    if maps is not None:
        slices += [Slices(f"{name}.feature_map.{tensor}", 0, each) for tensor in maps.state_dict()]
    return UnitGroup(name, tuple(slices))


def feature_units(name: str, attention: nn.Module) -> UnitGroup | None:
    """The features of an attention's learned map, the same ones of all heads; None with other maps."""
    found = dict(attention.named_children()).get("feature_map")
    if not isinstance(found, LearnedFeatures):
        return None
    each = torch.arange(found.feature_size)[:, None]
    weight, bias = f"{name}.feature_map.weight", f"{name}.feature_map.bias"
    return UnitGroup(f"{name}.feature_map", (Slices(weight, 1, each), Slices(bias, 1, each)))


def conv_heads(name: str, convolution: Convolution) -> UnitGroup:
    """The heads of a convolution whose Linears have free channels."""
    num_heads, inner, taps = convolution.num_heads, convolution.inner_channels, convolution.kernel_size
    heads = torch.arange(inner).view(num_heads, -1)
    # The gates of a GLU are a second half.
    entering = torch.cat([heads, heads + inner], dim=1) if convolution.glu else heads
    slices = [
        *linear_outputs(f"{name}.in_proj", convolution.in_proj, entering),
        *linear_inputs(f"{name}.out_proj", convolution.out_proj, heads),
    ]
    if convolution.kernel_proj is None:
        slices.append(Slices(f"{name}.kernel", 0, torch.arange(num_heads)[:, None]))
    else:
        slices.append(Slices(f"{name}.kernel_proj.weight", 0, torch.arange(num_heads * taps).view(num_heads, taps)))
        slices.append(Slices(f"{name}.kernel_proj.weight", 1, heads))
    return UnitGroup(name, tuple(slices))
