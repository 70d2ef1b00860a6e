"""The k-means quantizer: every matrix has a codebook of centroids, and each weight is one of them.

Deep Compression (Han et al. 2016, section 3); section 3.3 for fine-tuning, where the gradient of a centroid is the sum
of the gradients of the weights that share it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    encode_kmeans,
    encode_kmeans_rans,
    fp16_codebook,
)
from lite_nlp.compress.quantize.kmeans import assign, fit_codebook

__all__ = ["ClusteredWeights", "KMeansQuantizer", "SharedCentroids"]

FloatArray = NDArray[np.float32]


class KMeansQuantizer:
    """K-means with a codebook of fp16 centroids for each matrix, zero among them where weights are pruned."""

    name: Final = "kmeans"
    ladder: Final = (256, 64, 16, 8)

    def fit(self, weights: Mapping[str, FloatArray], num_levels: Mapping[str, int]) -> "ClusteredWeights":
        """Fit one codebook for each matrix; the number of levels is that of its centroids.

        Raises:
            ModelError: If a weight is not finite.
        """
        clusters = {}
        for name, values in weights.items():
            codebook = np.unique(fp16_codebook(fit_codebook(values, num_levels[name])))
            clusters[name] = ClusteredTensor(codebook, assign(values, codebook))
        return ClusteredWeights(clusters)


@dataclass(frozen=True)
class ClusteredWeights:
    """Matrices whose weights share centroids.

    Attributes:
        clusters: By name.
    """

    clusters: Mapping[str, ClusteredTensor]

    def values(self) -> dict[str, FloatArray]:
        """The centroid of every weight."""
        return {name: cluster.values() for name, cluster in self.clusters.items()}

    def encode(self) -> dict[str, EncodedTensor]:
        """Codebooks and indices of fixed width."""
        return {name: encode_kmeans(cluster) for name, cluster in self.clusters.items()}

    def encode_entropy(self) -> dict[str, EncodedTensor]:
        """Codebooks and indices coded by rANS."""
        return encode_kmeans_rans(self.clusters)

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "SharedCentroids":
        """Codebooks to train; the assignments are held."""
        return SharedCentroids(parameters, self.clusters)


class SharedCentroids:
    """Codebooks in training. A centroid that is exactly zero stays zero, so that pruned weights do.

    Args:
        parameters: The parameters of the model by name.
        clusters: Where they start, for some of these names.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], clusters: Mapping[str, ClusteredTensor]) -> None:
        self._clusters = dict(clusters)
        self._shared = {name: _SharedWeights.of(parameters[name], cluster) for name, cluster in clusters.items()}

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The clustered parameters."""
        return [shared.parameter for shared in self._shared.values()]

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """Their codebooks."""
        return [shared.codebook for shared in self._shared.values()]

    def pass_gradients(self) -> None:
        """Give each centroid the sum of the gradients of its weights, and the zero centroid none."""
        for shared in self._shared.values():
            shared.gather_gradient()

    def update_weights(self) -> None:
        """Set every weight to its centroid."""
        for shared in self._shared.values():
            shared.spread()

    def clusters(self) -> dict[str, ClusteredTensor]:
        """The trained codebooks, no longer ascending, with the assignments as they were."""
        return {
            name: ClusteredTensor(self._shared[name].codebook.detach().cpu().numpy().copy(), cluster.assignments)
            for name, cluster in self._clusters.items()
        }

    def quantized(self) -> ClusteredWeights:
        """The clusters with centroids as a file will hold them: rounded, ascending, and each value once."""
        recoded = {}
        for name, cluster in self.clusters().items():
            codebook, renumbered = np.unique(fp16_codebook(cluster.codebook), return_inverse=True)
            recoded[name] = ClusteredTensor(codebook, renumbered.astype(np.uint16)[cluster.assignments])
        return ClusteredWeights(recoded)


@dataclass(frozen=True)
class _SharedWeights:
    """A parameter whose elements are looked up in a trainable codebook."""

    parameter: nn.Parameter
    codebook: nn.Parameter
    indices: Tensor
    moving: Tensor

    @classmethod
    def of(cls, parameter: nn.Parameter, cluster: ClusteredTensor) -> "_SharedWeights":
        codebook = torch.from_numpy(cluster.codebook.copy()).to(parameter.device)
        indices = torch.from_numpy(cluster.assignments.astype("int64")).reshape(-1).to(parameter.device)
        return cls(parameter, nn.Parameter(codebook), indices, codebook != 0)

    def gather_gradient(self) -> None:
        if self.parameter.grad is None:
            self.codebook.grad = None
            return
        gradient = self.parameter.grad.reshape(-1).to(self.codebook.dtype)
        summed = torch.zeros_like(self.codebook).index_add_(0, self.indices, gradient)
        self.codebook.grad = summed * self.moving
        # The parameter itself is not the optimizer's; clipping must not count its gradient a second time.
        self.parameter.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        self.parameter.copy_(self.codebook[self.indices].view_as(self.parameter))
