"""The k-means quantizer: every matrix has a codebook of centroids, and each weight is one of them.

Deep Compression (Han et al. 2016, section 3), with the importance of each weight in the fit (Choi et al. 2017, "Towards
the limit of network quantization", section 3.2). In training the weights themselves are trained and belong to the
nearest centroid in every forward pass, and the centroids follow them; with fixed members, as in the paper, a weight
could not leave its cluster, which costs much with few centroids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from lite_nlp.compress.lnlp.rans import entropy_bits
from lite_nlp.compress.quantize.kmeans import assign, fit_codebook
from lite_nlp.compress.quantize.protocol import Choice

__all__ = ["ClusteredWeights", "KMeansQuantizer", "TrainedClusters"]

FloatArray = NDArray[np.float32]

#: Numbers of centroids and sparsities that planning compares: 8 bits is the paper's.
_LEVELS: Final = (256, 128, 64, 32, 24, 16, 12, 8, 6, 4)
_SPARSITIES: Final = (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95)
#: Planning fits so many weights of a matrix, evenly spaced.
_SAMPLE: Final = 1 << 13
#: Rounds of Lloyd's algorithm each time that the centroids follow the trained weights.
_ROUNDS: Final = 2
#: Bits of a centroid with its frequency in the file.
_CENTROID_BITS: Final = 28
#: Importance counts in the fit between these multiples of its mean: a few weights are not to own the codebook.
_LEAST, _MOST = 0.1, 10.0
#: The unit of training, at least so much of the root mean square of the weights.
_SMALLEST_UNIT: Final = 1 / 16
#: Most centroids while training tightens from fine to planned.
_FINEST: Final = 256


class KMeansQuantizer:
    """K-means with a codebook of fp16 centroids for each matrix, zero among them where weights are pruned."""

    name: Final = "kmeans"
    prunes_first: Final = True

    def choices(self, values: FloatArray, importance: FloatArray) -> list[Choice]:
        """Numbers of centroids at several sparsities, fitted to a sample of the matrix.

        Raises:
            ModelError: If a weight is not finite.
        """
        flat, weight = values.reshape(-1), importance.reshape(-1)
        places = _sample_places(flat.size)
        sample, mattering = flat[places].astype(np.float32), weight[places].astype(np.float32)
        share = flat.size / len(places)
        found = []
        for sparsity in _SPARSITIES:
            pruned = _pruned(sample, sparsity)
            for levels in _LEVELS:
                codebook = _fit(pruned, mattering, levels)
                assignments = assign(pruned, codebook)
                error = sample - codebook[assignments]
                bits = share * entropy_bits(np.bincount(assignments, minlength=len(codebook)))
                found.append(
                    Choice(
                        levels=levels,
                        sparsity=sparsity,
                        bits=bits + _CENTROID_BITS * len(codebook),
                        distortion=0.5 * share * float(np.sum(mattering * error * error, dtype=np.float64)),
                    )
                )
        return found

    def fit(
        self, weights: Mapping[str, FloatArray], plan: Mapping[str, Choice], importance: Mapping[str, FloatArray]
    ) -> "ClusteredWeights":
        """Prune and cluster every matrix.

        Raises:
            ModelError: If a weight is not finite.
        """
        clusters = {}
        for name, values in weights.items():
            pruned = _pruned(values, plan[name].sparsity)
            codebook = _fit(pruned, importance[name], plan[name].levels)
            clusters[name] = ClusteredTensor(codebook, assign(pruned, codebook))
        return ClusteredWeights(clusters, plan, importance)


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
    """Weights in training that stand for the nearest of their centroids in every forward pass.

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
        self._matrices = {name: _Matrix.of(parameters[name], choice) for name, choice in plan.items()}

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The clustered parameters."""
        return [matrix.parameter for matrix in self._matrices.values()]

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The weights, each in its matrix's unit."""
        return [matrix.latent for matrix in self._matrices.values()]

    @torch.no_grad()
    def pass_gradients(self) -> None:
        """By the straight-through estimator."""
        for matrix in self._matrices.values():
            gradient = matrix.parameter.grad
            matrix.latent.grad = None if gradient is None else gradient.float() * matrix.unit
            matrix.parameter.grad = None

    @torch.no_grad()
    def update_weights(self) -> None:
        """Set every weight to its centroid."""
        for matrix in self._matrices.values():
            matrix.spread()

    def tighten(self, share: float, scale: float = 1.0) -> float:
        """Prune on and take centroids away, then let the centroids follow the weights.

        Sparsity rises by a cubic law (Zhu and Gupta 2017, arXiv 1710.01878), the number of centroids falls
        geometrically. A ``scale`` below 1 prunes more: zeros cost bits too, so that it takes more than
        its share of the weights.
        """
        self._recluster(min(max(share, 0.0), 1.0), min(scale, 1.0))
        self.update_weights()
        return sum(
            entropy_bits(np.bincount(cluster.assignments.reshape(-1))) + _CENTROID_BITS * len(cluster.codebook)
            for cluster in self.quantized().clusters.values()
        )

    def quantized(self) -> ClusteredWeights:
        """Centroids as fitted last, members as of now."""
        clusters = {}
        for name, matrix in self._matrices.items():
            values = matrix.values()
            codebook = matrix.codebook.cpu().numpy()
            assignments = assign(values, codebook)
            if matrix.threshold > 0:
                assignments[np.abs(values) < matrix.threshold] = int(np.argmin(np.abs(codebook)))
            clusters[name] = ClusteredTensor(codebook, assignments)
        return ClusteredWeights(clusters, self._plan, self._importance)

    def state(self) -> dict[str, Any]:
        """The codebooks, and below what magnitude weights are zero."""
        matrices = self._matrices.values()
        return {
            "codebooks": [matrix.codebook for matrix in matrices],
            "thresholds": [matrix.threshold for matrix in matrices],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with those."""
        for matrix, codebook, threshold in zip(
            self._matrices.values(), state["codebooks"], state["thresholds"], strict=True
        ):
            matrix.codebook, matrix.threshold = codebook, threshold
        self.update_weights()

    def _recluster(self, share: float, scale: float) -> None:
        for name, matrix in self._matrices.items():
            choice = self._plan[name]
            zeros = max(matrix.zeros, choice.sparsity * (1 - (1 - share) ** 3))
            kept = (1 - zeros) * scale**2
            levels = max(choice.levels, round(_FINEST ** (1 - share) * choice.levels**share))
            matrix.recluster(1 - kept, levels, self._importance[name])


@dataclass
class _Matrix:
    """A parameter, its trained weights, and the centroids that stand for them.

    Attributes:
        parameter: Of the model.
        latent: The weights in units of ``unit``.
        unit: A length of the order of the distance of centroids.
        codebook: (K,) ascending centroids.
        threshold: Weights below this in magnitude are zero.
        zeros: Fraction of the weights that were zero from the beginning.
        levels: Number of centroids that was asked for.
    """

    parameter: nn.Parameter
    latent: nn.Parameter
    unit: float
    codebook: Tensor
    threshold: float
    zeros: float
    levels: int = 0

    @classmethod
    def of(cls, parameter: nn.Parameter, choice: Choice) -> "_Matrix":
        values = parameter.detach().float()
        scale = float(values.square().mean().sqrt()) or 1.0
        # Six root mean squares hold nearly all weights.
        unit = scale * max(6.0 / choice.levels, _SMALLEST_UNIT)
        zeros = float((values == 0).float().mean())
        return cls(parameter, nn.Parameter(values / unit), unit, torch.zeros(1), 0.0, zeros)

    def values(self) -> FloatArray:
        array: FloatArray = (self.latent.detach() * self.unit).cpu().numpy()
        return array

    def recluster(self, sparsity: float, levels: int, importance: FloatArray) -> None:
        values = self.values()
        self.threshold = _threshold(values, sparsity)
        pruned = np.where(np.abs(values) < self.threshold, np.float32(0), values).reshape(-1)
        bounded = _bounded(importance).reshape(-1)
        if levels == self.levels:
            codebook = self.codebook.cpu().numpy()
        else:
            places = _sample_places(pruned.size)
            codebook = _fit(pruned[places], bounded[places], levels)
        self.levels = levels
        for _ in range(_ROUNDS):
            codebook = _refined(pruned, bounded, codebook)
        self.codebook = torch.from_numpy(codebook).to(self.parameter.device)

    def spread(self) -> None:
        weights = self.latent.detach() * self.unit
        if self.threshold > 0:
            weights = torch.where(weights.abs() < self.threshold, torch.zeros_like(weights), weights)
        middles = (self.codebook[1:] + self.codebook[:-1]) / 2
        self.parameter.copy_(self.codebook[torch.bucketize(weights, middles)])


def _fit(values: FloatArray, importance: FloatArray, levels: int) -> FloatArray:
    codebook: FloatArray = np.unique(fp16_codebook(fit_codebook(values, levels, weights=_bounded(importance))))
    return codebook


def _bounded(importance: FloatArray) -> FloatArray:
    mean = float(importance.mean())
    bounded: FloatArray = np.clip(importance, _LEAST * mean, _MOST * mean)
    return bounded


def _refined(values: FloatArray, importance: FloatArray, codebook: FloatArray) -> FloatArray:
    """One round of Lloyd's algorithm; zero stays where it is."""
    assignments = assign(values, codebook)
    mass = np.bincount(assignments, weights=importance, minlength=len(codebook))
    sums = np.bincount(assignments, weights=importance * values, minlength=len(codebook))
    means = np.divide(sums, mass, out=codebook.astype(np.float64), where=mass > 0)
    means[codebook == 0] = 0.0
    refined: FloatArray = np.unique(fp16_codebook(means.astype(np.float32)))
    return refined


def _sample_places(size: int) -> NDArray[np.int64]:
    """Evenly spaced."""
    places: NDArray[np.int64] = np.unique(np.linspace(0, size - 1, min(size, _SAMPLE)).astype(np.int64))
    return places


def _threshold(values: FloatArray, sparsity: float) -> float:
    """The magnitude below which a fraction ``sparsity`` of the values lies."""
    zeros = round(values.size * sparsity)
    return 0.0 if zeros == 0 else float(np.partition(np.abs(values).reshape(-1), zeros - 1)[zeros - 1]) * (1 + 1e-6)


def _pruned(values: FloatArray, sparsity: float) -> FloatArray:
    """Without the smallest weights: a fraction ``sparsity`` of all becomes zero."""
    pruned: FloatArray = np.where(np.abs(values) < _threshold(values, sparsity), np.float32(0), values)
    return pruned
