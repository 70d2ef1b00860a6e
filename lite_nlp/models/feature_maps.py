"""Feature maps of linear attention: how queries and keys become vectors whose dot product stands for their similarity.

Shape letters as in ``attention``, and k features per head.
"""

import math
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.kinds import AttentionKind

__all__ = ["EluFeatures", "FeatureMap", "LearnedFeatures", "RandomFeatures", "build_feature_map"]

#: Least sum of squares that a vector is divided by the root of: an all-zero one, and its gradient, stay finite.
_LEAST_SQUARES: Final = 1e-6


class LearnedFeatures(nn.Module):
    """relu(W x + b), with a W and b per head, shared by queries and keys (T2R, equation 3b).

    Initialised as a Linear of ``head_dim`` inputs is by default, like the authors' code.

    Args:
        num_heads: Heads H.
        head_dim: Channels d of a head.
        feature_size: Features k of a head.
    """

    def __init__(self, *, num_heads: int, head_dim: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        bound = head_dim**-0.5
        self.weight = nn.Parameter(torch.empty(num_heads, feature_size, head_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num_heads, feature_size).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, k), none negative."""
        return F.relu(torch.matmul(x, self.weight.transpose(-2, -1)) + self.bias[:, None])


class EluFeatures(nn.Module):
    """elu(x) + 1 (Katharopoulos et al. 2020, equation 7): as many features as channels, nothing to learn.

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
    then is the Gaussian kernel times a constant, which the normaliser takes out. A temperature per head and channel
    is learned, as in their reparametrisation; the projections stay as drawn and are saved with the model.

    Args:
        num_heads: Heads H.
        head_dim: Channels d of a head.
        feature_size: Features k of a head, even: k / 2 sines and k / 2 cosines.
    """

    projections: Tensor

    def __init__(self, *, num_heads: int, head_dim: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.scale = math.sqrt(2 / feature_size)
        self.temperature = nn.Parameter(torch.ones(num_heads, head_dim))
        self.register_buffer("projections", torch.randn(num_heads, feature_size // 2, head_dim))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, k) between -1 and 1; the features of one vector have length 1."""
        # Written out, since ONNX counts a norm as products and torch does not: the Mult-Adds of all graphs must agree.
        unit = x / (x * x).sum(dim=-1, keepdim=True).clamp(min=_LEAST_SQUARES).sqrt()
        rows: Tensor = self.projections * self.temperature[:, None]
        angles = torch.matmul(unit, rows.transpose(-2, -1))
        return torch.cat([angles.sin(), angles.cos()], dim=-1) * self.scale


#: What linear attention takes.
FeatureMap = LearnedFeatures | EluFeatures | RandomFeatures


def build_feature_map(kind: AttentionKind, *, num_heads: int, head_dim: int, feature_size: int) -> FeatureMap:
    """The feature map that a configuration names.

    Args:
        kind: ``t2r``, ``elu`` or ``random-features``.
        num_heads: Heads H.
        head_dim: Channels d of a head.
        feature_size: Features k of a head; not used by ``elu``, which has d.
    """
    if kind == "elu":
        return EluFeatures(head_dim=head_dim)
    if kind == "random-features":
        return RandomFeatures(num_heads=num_heads, head_dim=head_dim, feature_size=feature_size)
    return LearnedFeatures(num_heads=num_heads, head_dim=head_dim, feature_size=feature_size)
