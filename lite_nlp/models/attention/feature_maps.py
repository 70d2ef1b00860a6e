"""Feature maps of linear attention: the similarity of a query and a key is the dot product of their features.

Shape letters as in ``heads``, and k features per head.
"""

from collections.abc import Callable
from typing import Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.models.attention.registry import AttentionSpec
from lite_nlp.models.roles import Role, mark

__all__ = [
    "FEATURE_MAPS",
    "RANDOM_SCALE",
    "EluFeatures",
    "FeatureMap",
    "FeatureMapBuilder",
    "LearnedFeatures",
    "RandomFeatures",
]

#: Smallest squared length by which a vector is normalized, so that a zero vector and its gradient stay finite.
_LEAST_SQUARES: Final = 1e-6

#: Factor of random features (T2R's released code) where sqrt(2 / k) would give an unbiased estimate of the kernel. It
#: cancels but for the floor under the normalizer, which with it is worth 200 / k pairs of equal vectors.
RANDOM_SCALE: Final = 0.01


class LearnedFeatures(nn.Module):
    """relu(W x + b), with one W and b per head, shared by queries and keys (T2R, equation 3b).

    Args:
        num_heads: Heads H.
        head_dim: Channels d of a head.
        feature_size: Features k of a head.
    """

    def __init__(self, *, num_heads: int, head_dim: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.weight = nn.Parameter(torch.zeros(num_heads, feature_size, head_dim))
        self.bias = nn.Parameter(torch.zeros(num_heads, feature_size))
        mark(self, Role.FEATURE_MAP, inputs=head_dim, outputs=feature_size)

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, k), none negative."""
        return F.relu(torch.matmul(x, self.weight.transpose(-2, -1)) + self.bias[:, None])


class EluFeatures(nn.Module):
    """elu(x) + 1 (Katharopoulos et al. 2020, equation 7): as many features as channels, no parameters.

    Args:
        head_dim: Channels d of a head.
    """

    def __init__(self, *, head_dim: int) -> None:
        super().__init__()
        self.feature_size = head_dim

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, d), all positive."""
        return F.elu(x) + 1


class RandomFeatures(nn.Module):
    """Sines and cosines of random projections (Peng et al. 2021): features of the Gaussian kernel.

    Vectors are scaled to length 1, since the features' error grows with length; the exponential of the dot product
    is then the Gaussian kernel times a constant, which the normalizer cancels. A temperature per head and channel
    is learned, as in their reparametrisation; the projections stay as drawn and are saved with the model.

    A sum of few estimates may be near zero or negative, and dividing by it gives gradients in the thousands: models
    learn with the features as small as in T2R's released code, where such sums are replaced by the floor.

    Args:
        num_heads: Heads H.
        head_dim: Channels d of a head.
        feature_size: Features k of a head, even: k / 2 sines and k / 2 cosines.
    """

    projections: Tensor

    def __init__(self, *, num_heads: int, head_dim: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        temperature = nn.Parameter(torch.ones(num_heads, head_dim))
        self.temperature = mark(temperature, Role.FEATURE_SCALE, inputs=1, outputs=1)
        self.register_buffer("projections", torch.randn(num_heads, feature_size // 2, head_dim))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, k) between -0.01 and 0.01; a vector's features have length 0.01 sqrt(k / 2)."""
        # Written out, since ONNX counts a norm as products and torch does not: the Mult-Adds of all graphs must agree.
        unit = x / (x * x).sum(dim=-1, keepdim=True).clamp(min=_LEAST_SQUARES).sqrt()
        rows: Tensor = self.projections * self.temperature[:, None]
        angles = torch.matmul(unit, rows.transpose(-2, -1))
        return torch.cat([angles.sin(), angles.cos()], dim=-1) * RANDOM_SCALE


class FeatureMap(Protocol):
    """What linear attention requires of a feature map, a ``torch.nn.Module``."""

    #: Features k of a head.
    feature_size: int

    def __call__(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, k)."""
        ...


FeatureMapBuilder = Callable[[AttentionSpec], FeatureMap]

#: Feature maps by the attention kind that uses them; ``elu`` has as many features as a head has channels.
FEATURE_MAPS: Final[dict[str, FeatureMapBuilder]] = {
    "t2r": lambda spec: LearnedFeatures(
        num_heads=spec.num_heads, head_dim=spec.head_dim, feature_size=spec.feature_size
    ),
    "elu": lambda spec: EluFeatures(head_dim=spec.head_dim),
    "random-features": lambda spec: RandomFeatures(
        num_heads=spec.num_heads, head_dim=spec.head_dim, feature_size=spec.feature_size
    ),
}
