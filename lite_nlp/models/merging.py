"""Projections with a learned feature map merged into them, for inference (T2R, section 2.2, equation 8)."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.feature_maps import FeatureMap, LearnedFeatures
from lite_nlp.models.linear import BuiltLinear, LowRankLinear

__all__ = ["MergedProjection", "merge_projection"]


class MergedProjection(BuiltLinear):
    """What a projection and then the linear part of a learned feature map come to, as one Linear.

    Queries and keys themselves are never made. The weight and bias are built in evaluation mode and kept like those of
    every ``BuiltLinear``; training uses the projection and the map, and so does the state dict, which has nothing of
    this module.

    Args:
        projection: Linear from D channels to ``len(scales)`` parts of H heads of d channels each, side by side.
        features: The map that follows, per head.
        scales: Per part, the factor between projection and map, or None for a part that the map does not see.
    """

    frozen_bias: Tensor | None

    def __init__(self, projection: nn.Module, features: LearnedFeatures, scales: Sequence[float | None]) -> None:
        num_heads, feature_size, head_dim = features.weight.shape
        #: Channels of each part that comes out.
        self.widths = [num_heads * (head_dim if scale is None else feature_size) for scale in scales]
        super().__init__(cast(nn.Linear, projection).in_features, sum(self.widths), bias=False)
        self.register_buffer("frozen_bias", None, persistent=False)
        self.scales = tuple(scales)
        # In a tuple they are not registered: both belong to the attention, under its names.
        self._parts = (projection, features)

    def factors(self) -> tuple[nn.Parameter, ...]:
        """The parameters of the projection and of the map."""
        projection, features = self._parts
        return (*projection.parameters(), *features.parameters())

    def build_weight(self) -> Tensor:
        """The weight, with the bias as its last column."""
        projection, features = self._parts
        weight, bias = _weight_and_bias(projection)
        joined = torch.cat([weight, bias[:, None]], dim=1)
        return torch.cat(
            [
                part if scale is None else _map_part(part, features, scale)
                for part, scale in zip(joined.chunk(len(self.scales)), self.scales, strict=True)
            ]
        )

    def freeze(self) -> None:
        """Build weight and bias, and keep them for calls without gradients."""
        super().freeze()
        with torch.inference_mode(mode=False), torch.no_grad():
            if self.frozen_weight is not None:
                joined = self.frozen_weight
                self.frozen_weight, self.frozen_bias = joined[:, :-1].contiguous(), joined[:, -1].contiguous()

    def kept(self, x: Tensor) -> bool:
        """Whether there are a weight and bias that may be used on ``x``."""
        return self._kept_weight(x) is not None

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` (..., D) to the parts side by side; those for the map still lack its nonlinearity."""
        weight = self._kept_weight(x)
        if weight is None:
            joined = self.build_weight()
            return F.linear(x, joined[:, :-1], joined[:, -1])
        return F.linear(x, weight, self.frozen_bias)


def merge_projection(
    projection: nn.Module, features: FeatureMap, scales: Sequence[float | None]
) -> MergedProjection | None:
    """The merged form of a projection, if there is one and it takes fewer Mult-Adds.

    There is one for a learned map only. It takes more where features are many and heads are narrow.
    """
    if not isinstance(features, LearnedFeatures):
        return None
    num_heads, feature_size, head_dim = features.weight.shape
    merged = MergedProjection(projection, features, scales)
    mapped = sum(scale is not None for scale in scales)
    apart = _macs(projection) + mapped * num_heads * feature_size * head_dim
    return merged if merged.in_features * merged.out_features < apart else None


def _map_part(part: Tensor, features: LearnedFeatures, scale: float) -> Tensor:
    """Rows (H k, D + 1) for the map of ``scale`` times what the rows ``part`` (H d, D + 1) give."""
    num_heads, _, head_dim = features.weight.shape
    mapped = torch.matmul(features.weight * scale, part.view(num_heads, head_dim, -1)).flatten(0, 1)
    return torch.cat([mapped[:, :-1], mapped[:, -1:] + features.bias.flatten()[:, None]], dim=1)


def _weight_and_bias(projection: nn.Module) -> tuple[Tensor, Tensor]:
    """The dense weight and the bias of a member of the linear family."""
    if isinstance(projection, BuiltLinear):
        return projection.build_weight(), cast(Tensor, projection.bias)
    if isinstance(projection, LowRankLinear):
        return projection.up_proj.weight @ projection.down_proj.weight, projection.up_proj.bias
    linear = cast(nn.Linear, projection)
    return linear.weight, linear.bias


def _macs(projection: nn.Module) -> int:
    """Mult-Adds of a projection per token, in inference."""
    if isinstance(projection, LowRankLinear):
        return projection.down_proj.weight.numel() + projection.up_proj.weight.numel()
    linear = cast(nn.Linear, projection)
    return linear.in_features * linear.out_features
