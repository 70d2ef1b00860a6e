"""What the pipeline asks of a quantizer: fit weights, store them, train them while they stay quantized.

``lite_nlp.compress.quantize.registry`` lists the quantizers; ``shared_centroids`` is one to learn from.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lite_nlp.compress.lnlp.encodings import EncodedTensor

__all__ = ["QuantizedWeights", "Quantizer", "TrainableWeights"]

FloatArray = NDArray[np.float32]


class Quantizer(Protocol):
    """A way to store the weights of a matrix with few bits each."""

    @property
    def name(self) -> str:
        """Its name in the registry, which is also that of its stage in the ledger and of that stage's file."""

    @property
    def ladder(self) -> Sequence[int]:
        """Numbers of levels to try where a size must be reached, in descending order; the first is the default."""

    def fit(self, weights: Mapping[str, FloatArray], num_levels: Mapping[str, int]) -> "QuantizedWeights":
        """Quantize the matrices of a model.

        A weight of exactly zero is pruned and must stay zero.

        Args:
            weights: By name, of any shape.
            num_levels: Under the same names, the number of different values that a matrix may have: ``2 ** bits``.

        Raises:
            ModelError: If weights cannot be quantized, such as one that is not finite.
        """


class QuantizedWeights(Protocol):
    """The quantized matrices of a model."""

    def values(self) -> Mapping[str, FloatArray]:
        """What the stored weights stand for, by name, exactly as a reader of the file will decode them."""

    def encode(self) -> Mapping[str, EncodedTensor]:
        """Every matrix with a fixed number of bits per weight."""

    def encode_entropy(self) -> Mapping[str, EncodedTensor]:
        """The same values entropy-coded; a matrix may be missing, and is then stored as ``encode`` has it."""

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "TrainableWeights":
        """Prepare for fine-tuning.

        Args:
            parameters: The parameters of the model by the names of the matrices.
        """


class TrainableWeights(Protocol):
    """Quantized weights in fine-tuning: parameters of the model that are computed from others, which are trained.

    One step is: forward and backward through the model, ``pass_gradients``, the optimizer's step on ``trained``,
    ``update_weights``.
    """

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The parameters of the model that are computed, and so not trained themselves."""

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """What is trained in their place, such as centroids or step sizes; nothing holds the weights as they are."""

    def pass_gradients(self) -> None:
        """Turn the gradients of ``weights`` into gradients of ``trained``, and clear the former."""

    def update_weights(self) -> None:
        """Set ``weights``, in place, to what ``trained`` now stands for."""

    def quantized(self) -> QuantizedWeights:
        """The weights as trained so far, as a file will hold them."""
