"""What rounding costs: how far the predictions of a bundle's graphs are from those of the same graphs in fp32."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID
from lite_nlp.decoding.hypotheses import log_sum_exp
from lite_nlp.export.matrices import Form
from lite_nlp.export.onnx_conversion import share_weights
from lite_nlp.export.onnx_integers import find_matrices, quantize_weights
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.onnx import OnnxEntry, OnnxRunner
from lite_nlp.export.runtime.tensors import first_state

__all__ = ["Divergence"]

#: Steps of a source's output that are compared.
_MOST_STEPS: Final = 24


class Divergence:
    """Mean Kullback-Leibler divergence from the graphs in fp32, in nats per token, measured in ONNX Runtime.

    Every source is decoded greedily in fp32 first. Then graphs with rounded weights are given the same tokens, one row
    at a time as on a phone: inputs are quantized by the largest of a call, so that a batch would lose more.

    Args:
        encode: The encoder's ``ModelProto`` in fp32.
        decode_step: The decoder step's.
        entry: Their names, and the prefix of what changes.
        layout: Of the graphs.
        src_rows: Token ids of the sources, without special ids; at least one.
    """

    def __init__(
        self, encode: Any, decode_step: Any, *, entry: OnnxEntry, layout: Layout, src_rows: Sequence[Sequence[int]]
    ) -> None:
        self._models = {entry.encode: encode, entry.decode_step: decode_step}
        self._keys = {name: {matrix.key for matrix in find_matrices(model)} for name, model in self._models.items()}
        self._entry = entry
        self._layout = layout
        self._sources = [np.array([[*row[: layout.bounds.source - 1], EOS_ID]], np.int64) for row in src_rows]
        self._plain = {name: self._load(name, {}) for name in self._models}
        runs = [self._decode(source, self._plain, None) for source in self._sources]
        self._tokens = [tokens for tokens, _ in runs]
        self._expected = [log_probs for _, log_probs in runs]

    def measure(self, forms: Mapping[bytes, Form]) -> float:
        """The divergence with matrices in these forms, by their keys, and all others in fp32."""
        changed = {key for key, form in forms.items() if form != "fp32"}
        runners = {
            name: self._load(name, forms) if keys & changed else self._plain[name] for name, keys in self._keys.items()
        }
        total, count = 0.0, 0
        for source, tokens, expected in zip(self._sources, self._tokens, self._expected, strict=True):
            _, found = self._decode(source, runners, tokens)
            total += float((np.exp(expected) * (expected - found)).sum(dtype=np.float64))
            count += len(expected)
        return total / count

    def _load(self, name: str, forms: Mapping[bytes, Form]) -> OnnxRunner:
        """A runner of one of the graphs, with its weights rounded."""
        model = deepcopy(self._models[name])
        quantize_weights(model, forms)
        graphs, weights = share_weights({name: model})
        return OnnxRunner(self._entry, {**graphs, self._entry.weights: weights}.__getitem__, self._layout, threads=1)

    def _decode(
        self, source: NDArray[np.int64], runners: Mapping[str, OnnxRunner], given: Sequence[int] | None
    ) -> tuple[list[int], NDArray[np.float32]]:
        """Decode a source (1, S).

        Args:
            source: Ends with the end mark.
            runners: Of both graphs.
            given: The tokens that each step is to have given, in place of the likeliest.

        Returns:
            The T tokens, the end mark included, and the log-probabilities (T, V).
        """
        steps = min(_MOST_STEPS, self._layout.bounds.capacity)
        mask = np.ones(source.shape, np.bool_)
        encoded = runners[self._entry.encode].encode(source, mask)
        state = first_state(self._layout.state, encoded, mask, steps)
        tokens: list[int] = []
        rows: list[NDArray[np.float32]] = []
        latest = BOS_ID
        while len(tokens) < (steps if given is None else len(given)) and latest != EOS_ID:
            logits, changed = runners[self._entry.decode_step].decode_step(np.array([latest], np.int64), state)
            state |= changed
            latest = int(logits[0].argmax()) if given is None else given[len(tokens)]
            tokens.append(latest)
            rows.append(np.asarray(logits[0] - log_sum_exp(logits), np.float32))
        return tokens, np.stack(rows)
