"""What the pipeline asks of a quantizer: ways to store a matrix, fitted weights, weights that train while quantized.

``lite_nlp.compress.quantizers`` lists the quantizers; ``clustering`` and ``trained_grid`` are two to learn from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lite_nlp.compress.lnlp.encodings import EncodedTensor

__all__ = ["Choice", "HeldWeights", "QuantizedWeights", "Quantizer", "TrainableWeights"]

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One way to store a matrix, and what it is expected to cost.

    Attributes:
        levels: Number of different values, about; 256 is 8-bit k-means.
        step: Distance of neighbouring values where they are evenly spaced; 0 where they are not.
        sparsity: Fraction of zeros, 0 to 1.
        bits: Expected size of the matrix in the file, entropy-coded, in bits.
        distortion: Expected divergence of the predictions by this matrix alone, in nats per prediction.
    """

    levels: int
    step: float = 0.0
    sparsity: float
    bits: float
    distortion: float


class Quantizer(Protocol):
    """A way to store the weights of a matrix with few bits each."""

    @property
    def name(self) -> str:
        """Its name in the registry, which is also that of its stage in the ledger and of that stage's file."""

    @property
    def prunes_first(self) -> bool:
        """Whether a stage of pruned weights, not yet quantized, comes before; else zeros are values like others."""

    def choices(self, values: FloatArray, importance: FloatArray) -> Sequence[Choice]:
        """The ways to store one matrix, from which planning chooses.

        Args:
            values: The matrix, of any shape.
            importance: Diagonal Fisher information of its weights, positive; the distortion of a choice is half of the
                sum of importance times squared error.

        Raises:
            ModelError: If it cannot be quantized, such as a weight that is not finite.
        """

    def fit(
        self,
        weights: Mapping[str, FloatArray],
        plan: Mapping[str, Choice],
        importance: Mapping[str, FloatArray],
    ) -> "QuantizedWeights":
        """Quantize the matrices of a model as planned, without training.

        Args:
            weights: By name.
            plan: Under the same names, one of the choices.
            importance: Under the same names.
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
        """Prepare for training, which starts from the present values of ``parameters``.

        Args:
            parameters: The parameters of the model by the names of the matrices, before quantization.
        """


class HeldWeights(Protocol):
    """Weights in training that are held in some form, such as quantized, at every moment.

    One step is: forward and backward through the model, ``pass_gradients``, the optimizer's step on ``trained``,
    ``update_weights``. Every so many steps ``tighten`` takes the place of the last.
    """

    @property
    def rate(self) -> float:
        """Multiplies the learning rate of ``trained``."""

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The parameters of the model that are computed from others, and so not trained themselves."""

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """What is trained in their place."""

    def pass_gradients(self) -> None:
        """Turn the gradients of ``weights`` into gradients of ``trained``, and clear the former."""

    def update_weights(self) -> None:
        """Set ``weights``, in place, to what ``trained`` now stands for."""

    def tighten(self, share: float, scale: float = 1.0) -> float:
        """Go on from fine to coarse, and set ``weights`` anew.

        Args:
            share: How far: 0 is nearly as before, 1 is as planned; from 1 on the size is held there.
            scale: The planned bits are multiplied by this.

        Returns:
            An estimate of their present size, entropy-coded, in bits.
        """

    def state(self) -> dict[str, Any]:
        """What ``trained`` does not hold of the present state: tensors, numbers, lists and dictionaries of them."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a former ``state``, once ``trained`` is as it was; sets ``weights``."""


class TrainableWeights(HeldWeights, Protocol):
    """Quantized weights in training; ``trained`` is in units of the distance of neighbouring values."""

    def quantized(self) -> QuantizedWeights:
        """The weights as trained so far, as a file will hold them."""
