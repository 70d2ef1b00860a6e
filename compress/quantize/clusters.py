"""Weights that share centroids, and such weights in training.

The weights themselves are trained and stand for the nearest centroid in every forward pass, and the centroids follow
them: with fixed members, as in Deep Compression (Han et al. 2016, section 3.3), a weight could not leave its cluster,
which costs much with few centroids. The gradient passes the rounding as if it were not there (the straight-through
estimator, Bengio et al. 2013, arXiv 1308.3432).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import ClusteredTensor, EncodedTensor, encode_kmeans, encode_kmeans_rans
from lite_nlp.compress.lnlp.rans import entropy_bits
from lite_nlp.compress.quantize.codebooks import (
    CENTROID_BITS,
    bounded_importance,
    fit,
    places_of_sample,
    pruned,
    refine,
    threshold,
)
from lite_nlp.compress.quantize.kmeans import assign
from lite_nlp.compress.quantize.protocol import Choice

__all__ = ["ClusteredWeights", "TrainedClusters"]

FloatArray = NDArray[np.float32]

#: The unit of training is the distance of centroids, at least so much of the root mean square of the weights.
_SMALLEST_UNIT: Final = 1 / 16
#: Most centroids while training tightens from fine to planned.
_FINEST: Final = 256
#: By what the share of the weights that are not zero is multiplied at most, at once, to hold the planned bits.
_LESS, _MORE = 0.97, 1.005
#: The centroids follow so many weights of a matrix.
_SAMPLE: Final = 1 << 15
#: Cells of equal width between the first and the last centroid, each of which has one nearest centroid: a weight is
#: looked up, not searched for. A matrix of 256 centroids has some 60 cells between two of them.
_CELLS: Final = 1 << 14


@dataclass(frozen=True)
class ClusteredWeights:
    """Matrices whose weights share centroids.

    Attributes:
        clusters: By name.
        plan: The choices that they come from.
        importance: What they were fitted by.
    """

    clusters: Mapping[str, ClusteredTensor]
    plan: Mapping[str, Choice]
    importance: Mapping[str, FloatArray]

    def values(self) -> dict[str, FloatArray]:
        """The centroid of every weight."""
        return {name: cluster.values() for name, cluster in self.clusters.items()}

    def encode(self) -> dict[str, EncodedTensor]:
        """Codebooks and indices of fixed width."""
        return {name: encode_kmeans(cluster) for name, cluster in self.clusters.items()}

    def encode_entropy(self) -> dict[str, EncodedTensor]:
        """Codebooks and indices coded by rANS."""
        return encode_kmeans_rans(self.clusters)

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "TrainedClusters":
        """The weights of the model, to train."""
        return TrainedClusters(parameters, self.plan, self.importance)


class TrainedClusters:
    """Weights in training that stand for the nearest of their centroids.

    Args:
        parameters: The parameters of the model by name, before quantization.
        plan: Their choices, under some of these names.
        importance: Under the same names.
    """

    rate: Final = 1.0

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], plan: Mapping[str, Choice], importance: Mapping[str, FloatArray]
    ) -> None:
        self._plan, self._importance = dict(plan), dict(importance)
        self._matrices = {name: _Matrix(parameters[name], choice, importance[name]) for name, choice in plan.items()}
        self._planned = sum(choice.bits for choice in plan.values())
        self._kept = 1.0

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The clustered parameters."""
        return [matrix.parameter for matrix in self._matrices.values()]

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The weights, each in its matrix's unit."""
        return [matrix.latent for matrix in self._matrices.values()]

    def pass_gradients(self) -> None:
        """By the straight-through estimator."""
        for matrix in self._matrices.values():
            matrix.pass_gradient()

    def update_weights(self) -> None:
        """Set every weight to its centroid."""
        for matrix in self._matrices.values():
            matrix.spread()

    def tighten(self, share: float, scale: float = 1.0) -> float:
        """Prune on and take centroids away, then let the centroids follow the weights.

        Sparsity rises by a cubic law (Zhu and Gupta 2017, arXiv 1710.01878), the number of centroids falls
        geometrically. A ``scale`` below 1 prunes more: zeros cost bits too, so that it takes more than
        its share of the weights.

        Training spreads the weights over the centroids more evenly than they were fitted, which takes more bits: of
        4.6M weights at 1.7 bits each a ninth more after 100 steps. Once everything is tightened, so many more are
        pruned, a few at a time, that it takes no more than planned.
        """
        share = min(max(share, 0.0), 1.0)
        bits = 0.0
        for name, matrix in self._matrices.items():
            choice = self._plan[name]
            zeros = max(matrix.zeros, choice.sparsity * (1 - (1 - share) ** 3))
            levels = max(choice.levels, round(_FINEST ** (1 - share) * choice.levels**share))
            bits += matrix.recluster(1 - (1 - zeros) * self._kept * min(scale, 1.0) ** 2, levels)
            matrix.spread()
        if share == 1.0 and bits > 0.0:
            self._kept = min(1.0, self._kept * min(_MORE, max(_LESS, scale * self._planned / bits)))
        return bits

    def quantized(self) -> ClusteredWeights:
        """Centroids as fitted last, members as of now."""
        clusters = {name: matrix.cluster() for name, matrix in self._matrices.items()}
        return ClusteredWeights(clusters, self._plan, self._importance)

    def state(self) -> dict[str, Any]:
        """The codebooks, how many centroids were asked for, and below what magnitude weights are zero."""
        return {
            "kept": self._kept,
            "matrices": {name: matrix.state() for name, matrix in self._matrices.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with those."""
        self._kept = float(state["kept"])
        for name, matrix in self._matrices.items():
            matrix.restore(state["matrices"][name])
            matrix.spread()


class _Matrix:
    """A parameter, its trained weights, and the centroids that stand for them.

    Attributes:
        parameter: Of the model.
        latent: The weights in units of the distance of centroids.
        zeros: Fraction of the weights that were zero from the beginning.
    """

    def __init__(self, parameter: nn.Parameter, choice: Choice, importance: FloatArray) -> None:
        values = parameter.detach().float()
        # Squares of large weights are no float32.
        scale = float(values.double().square().mean().sqrt()) or 1.0
        # Six root mean squares hold nearly all weights.
        self._unit = scale * max(6.0 / choice.levels, _SMALLEST_UNIT)
        self.parameter = parameter
        self.latent = nn.Parameter(values / self._unit)
        self.zeros = float((values == 0).float().mean())
        places = places_of_sample(values.numel(), _SAMPLE)
        self._places = torch.from_numpy(places)
        self._importance = bounded_importance(importance).reshape(-1)[places]
        self._levels, self._threshold = 0, 0.0
        self._set(np.zeros(1, dtype=np.float32))

    @torch.no_grad()
    def pass_gradient(self) -> None:
        gradient = self.parameter.grad
        self.latent.grad = None if gradient is None else gradient.float() * self._unit
        self.parameter.grad = None

    def recluster(self, sparsity: float, levels: int) -> float:
        """Prune to a sparsity, fit the centroids anew or let them follow; returns the bits that the matrix takes."""
        sample: FloatArray = (self.latent.detach().reshape(-1)[self._places] * self._unit).cpu().numpy()
        self._threshold = threshold(sample, sparsity)
        sample = pruned(sample, self._threshold)
        codebook = self._codebook if levels == self._levels else fit(sample, self._importance, levels)
        codebook = refine(sample, self._importance, codebook)
        self._levels = levels
        self._set(codebook)
        entropy = entropy_bits(np.bincount(assign(sample, codebook), minlength=len(codebook)))
        return entropy * self.latent.numel() / sample.size + CENTROID_BITS * len(codebook)

    @torch.no_grad()
    def spread(self) -> None:
        """Set every weight to its centroid."""
        self.parameter.copy_(self._centroids.index_select(0, self._places_of_weights()).view_as(self.parameter))

    def cluster(self) -> ClusteredTensor:
        places = self._nearest.index_select(0, self._places_of_weights()).view(self.parameter.shape)
        return ClusteredTensor(self._codebook, places.cpu().numpy().astype(np.uint16))

    def state(self) -> dict[str, Any]:
        return {
            "codebook": torch.from_numpy(self._codebook),
            "levels": self._levels,
            "threshold": self._threshold,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._levels, self._threshold = int(state["levels"]), float(state["threshold"])
        self._set(state["codebook"].numpy())

    def _set(self, codebook: FloatArray) -> None:
        self._codebook = codebook
        low, high = float(codebook[0]), float(codebook[-1])
        width = (high - low) / _CELLS or 1.0
        self._low, self._cells_per_unit = low, 1.0 / width
        nearest = assign((low + (np.arange(_CELLS) + 0.5) * width).astype(np.float32), codebook).astype(np.int32)
        device = self.parameter.device
        # A last cell holds the pruned weights.
        nearest = np.append(nearest, np.int32(np.argmin(np.abs(codebook))))
        self._nearest = torch.from_numpy(nearest).to(device)
        self._centroids = torch.from_numpy(codebook[nearest]).to(device)

    def _places_of_weights(self) -> Tensor:
        """The cell of every weight, flat."""
        weights = self.latent.detach().reshape(-1) * self._unit
        cells = ((weights - self._low) * self._cells_per_unit).clamp_(0, _CELLS - 1).to(torch.int32)
        if self._threshold > 0:
            cells.masked_fill_(weights.abs() < self._threshold, _CELLS)
        return cells
