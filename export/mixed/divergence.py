"""What rounding costs: how far the predictions of a bundle's graphs are from those of the same graphs in fp32."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lite_nlp.decoding.hypotheses import log_sum_exp
from lite_nlp.export.matrices import Form
from lite_nlp.export.onnx_conversion import share_weights
from lite_nlp.export.onnx_integers import find_matrices, quantize_weights

__all__ = ["Divergence", "log_probs", "spread"]

#: Texts that losses are measured on.
_TEXTS: Final = 16

_Row = TypeVar("_Row")


class Divergence(ABC):
    """Mean Kullback-Leibler divergence from graphs in fp32, in nats per prediction, measured in ONNX Runtime.

    Graphs with rounded weights are given what those in fp32 were, one row at a time as on a phone: inputs are quantized
    by the largest of a call, so that a batch would lose more.

    Args:
        models: The ``ModelProto`` of the graphs by name, in fp32.

    Attributes:
        models: The same.
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        self.models = models
        self._keys = {name: {matrix.key for matrix in find_matrices(model)} for name, model in models.items()}
        self._plain = {name: self._rounded(name, {}) for name in models}
        self._expected = list(self.predict(self._plain))

    def measure(self, forms: Mapping[bytes, Form]) -> float:
        """The divergence with matrices in these forms, by their keys, and all others in fp32."""
        changed = {key for key, form in forms.items() if form != "fp32"}
        runners = {
            name: self._rounded(name, forms) if keys & changed else self._plain[name]
            for name, keys in self._keys.items()
        }
        total, count = 0.0, 0
        for expected, found in zip(self._expected, self.predict(runners), strict=True):
            total += float((np.exp(expected) * (expected - found)).sum(dtype=np.float64))
            count += len(expected)
        return total / count

    def _rounded(self, name: str, forms: Mapping[bytes, Form]) -> Any:
        """A runner of one of the graphs, with its weights rounded."""
        model = deepcopy(self.models[name])
        quantize_weights(model, forms)
        graphs, weights = share_weights({name: model})
        return self.load(name, graphs[name], weights)

    @abstractmethod
    def load(self, name: str, graph: bytes, weights: bytes) -> Any:
        """A runner of one of the graphs, from its file and that of its weights."""

    @abstractmethod
    def predict(self, runners: Mapping[str, Any]) -> Iterator[NDArray[np.float32]]:
        """The log-probabilities (N, V) of each text, which the first call may choose the inputs of all others by."""


def spread(rows: Sequence[_Row]) -> Sequence[_Row]:
    """As many of the rows as are measured, evenly spaced."""
    return rows[:: max(1, len(rows) // _TEXTS)][:_TEXTS]


def log_probs(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of logits (N, V)."""
    return np.asarray(logits - log_sum_exp(logits)[:, None], np.float32)
