"""Projections with a learned feature map merged into them, for inference (T2R, section 2.2, equation 8)."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.attention.feature_maps import FeatureMap, LearnedFeatures
from lite_nlp.models.built_linear import BuiltLinear
from lite_nlp.models.linear import FactorizedLinear

__all__ = ["MergedProjection", "merge_projection"]


class MergedProjection(BuiltLinear):
    """A projection and the linear part of the learned feature map that follows it, as one Linear.

    Queries and keys themselves are never computed. The weight and bias are built in evaluation mode and kept like those
    of every ``BuiltLinear``; training uses the projection and the map, and the state dict holds their parameters, none
    of this module.

    Args:
        projection: Linear from D channels to ``len(scales)`` parts of H heads of d channels each, side by side.
        features: The map that follows, per head.
        scales: Per part, the factor between projection and map, or None for a part that is not mapped.
    """

    frozen_bias: Tensor | None

    def __init__(self, projection: nn.Module, features: LearnedFeatures, scales: Sequence[float | None]) -> None:
        num_heads, feature_size, head_dim = features.weight.shape
        #: Channels of each output part.
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
        """Whether a weight and bias are kept that may be applied to ``x``."""
        return self._kept_weight(x) is not None

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` (..., D) to the parts side by side, before the map's nonlinearity."""
        weight = self._kept_weight(x)
        if weight is None:
            joined = self.build_weight()
            return F.linear(x, joined[:, :-1], joined[:, -1])
        return F.linear(x, weight, self.frozen_bias)


def merge_projection(
    projection: nn.Module, features: FeatureMap, scales: Sequence[float | None]
) -> MergedProjection | None:
    """The merged form of a projection, or None where it takes more Mult-Adds or the map is not learned.

    It takes more where features are many and heads are narrow.
    """
    if not isinstance(features, LearnedFeatures):
        return None
    num_heads, feature_size, head_dim = features.weight.shape
    merged = MergedProjection(projection, features, scales)
    mapped = sum(scale is not None for scale in scales)
    apart = _macs(projection) + mapped * num_heads * feature_size * head_dim
    return merged if merged.in_features * merged.out_features < apart else None


def _map_part(part: Tensor, features: LearnedFeatures, scale: float) -> Tensor:
    """Rows (H k, D + 1) that compute the map of ``scale`` times the output of rows ``part`` (H d, D + 1)."""
    num_heads, _, head_dim = features.weight.shape
    mapped = torch.matmul(features.weight * scale, part.view(num_heads, head_dim, -1)).flatten(0, 1)
    return torch.cat([mapped[:, :-1], mapped[:, -1:] + features.bias.flatten()[:, None]], dim=1)


def _weight_and_bias(projection: nn.Module) -> tuple[Tensor, Tensor]:
    """The dense weight and the bias of a Linear of any kind."""
    if isinstance(projection, nn.Linear):
        return projection.weight, projection.bias
    factorized = cast(FactorizedLinear, projection)
    return factorized.build_weight(), cast(Tensor, factorized.bias)


def _macs(projection: nn.Module) -> int:
    """Mult-Adds of a projection per token, in inference."""
    if isinstance(projection, nn.Linear):
        return projection.in_features * projection.out_features
    return cast(FactorizedLinear, projection).macs
