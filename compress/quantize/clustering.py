"""The k-means quantizer: every matrix has a codebook of centroids, and each weight is one of them.

Deep Compression (Han et al. 2016, section 3), with the importance of each weight in the fit (Choi et al. 2017, "Towards
the limit of network quantization", section 3.2).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.encodings import ClusteredTensor
from lite_nlp.compress.lnlp.rans import entropy_bits
from lite_nlp.compress.quantize.clusters import ClusteredWeights
from lite_nlp.compress.quantize.codebooks import CENTROID_BITS, fit, places_of_sample, pruned, threshold
from lite_nlp.compress.quantize.kmeans import assign
from lite_nlp.compress.quantize.protocol import Choice

__all__ = ["KMeansQuantizer"]

FloatArray = NDArray[np.float32]

#: Numbers of centroids and sparsities that planning compares: 8 bits is the paper's.
_LEVELS: Final = (256, 128, 64, 32, 24, 16, 12, 8, 6, 4)
_SPARSITIES: Final = (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95)
#: Planning fits so many weights of a matrix.
_SAMPLE: Final = 1 << 13


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
        places = places_of_sample(flat.size, _SAMPLE)
        sample, mattering = flat[places].astype(np.float32), weight[places].astype(np.float32)
        share = flat.size / len(places)
        found = []
        for sparsity in _SPARSITIES:
            kept = pruned(sample, threshold(sample, sparsity))
            for levels in _LEVELS:
                codebook = fit(kept, mattering, levels)
                assignments = assign(kept, codebook)
                squared = np.square(sample - codebook[assignments], dtype=np.float64)
                bits = share * entropy_bits(np.bincount(assignments, minlength=len(codebook)))
                found.append(
                    Choice(
                        levels=levels,
                        sparsity=sparsity,
                        bits=bits + CENTROID_BITS * len(codebook),
                        distortion=0.5 * share * float(np.sum(mattering * squared)),
                    )
                )
        return found

    def fit(
        self, weights: Mapping[str, FloatArray], plan: Mapping[str, Choice], importance: Mapping[str, FloatArray]
    ) -> ClusteredWeights:
        """Prune and cluster every matrix.

        Raises:
            ModelError: If a weight is not finite.
        """
        clusters = {}
        for name, values in weights.items():
            kept = pruned(values, threshold(values, plan[name].sparsity))
            codebook = fit(kept, importance[name], plan[name].levels)
            clusters[name] = ClusteredTensor(codebook, assign(kept, codebook))
        return ClusteredWeights(clusters, plan, importance)
