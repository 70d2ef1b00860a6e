"""The divergence of an encoder-decoder with rounded weights."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID
from lite_nlp.export.mixed.divergence import Divergence, log_probs, spread
from lite_nlp.export.onnx_graphs import ENTRY, convert_model
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.runtime.tensors import first_state
from lite_nlp.export.tracing import TracedModel

__all__ = ["TranslationDivergence"]

#: Steps of a source's output that are compared.
_MOST_STEPS: Final = 24


class TranslationDivergence(Divergence):
    """Of the encoder and the decoder step: every source is decoded greedily in fp32, then by the same tokens.

    Args:
        traced: The model.
        src_rows: Token ids of sources, without special ids; at least one. Some of them are measured.
    """

    def __init__(self, traced: TracedModel, src_rows: Sequence[Sequence[int]]) -> None:
        self._layout = Layout(traced.state, traced.bounds, traced.tgt_vocab_size)
        longest = traced.bounds.source - 1
        self._sources = [np.array([[*row[:longest], EOS_ID]], np.int64) for row in spread(src_rows)]
        self._tokens: list[list[int]] = []
        encode, decode_step = convert_model(traced)
        super().__init__({ENTRY.encode: encode, ENTRY.decode_step: decode_step})

    def load(self, name: str, graph: bytes, weights: bytes) -> OnnxRunner:
        """A runner of the encoder or the step."""
        return OnnxRunner(ENTRY, {name: graph, ENTRY.weights: weights}.__getitem__, self._layout, threads=1)

    def predict(self, runners: Mapping[str, Any]) -> Iterator[NDArray[np.float32]]:
        """The log-probabilities of each source's tokens."""
        if not self._tokens:
            for source in self._sources:
                tokens, predicted = self._decode(source, runners, None)
                self._tokens.append(tokens)
                yield predicted
            return
        for source, given in zip(self._sources, self._tokens, strict=True):
            yield self._decode(source, runners, given)[1]

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
        encoded = runners[ENTRY.encode].encode(source, mask)
        state = first_state(self._layout.state, encoded, mask, steps)
        tokens: list[int] = []
        found: list[NDArray[np.float32]] = []
        latest = BOS_ID
        while len(tokens) < (steps if given is None else len(given)) and latest != EOS_ID:
            logits, changed = runners[ENTRY.decode_step].decode_step(np.array([latest], np.int64), state)
            state |= changed
            latest = int(logits[0].argmax()) if given is None else given[len(tokens)]
            tokens.append(latest)
            found.append(logits)
        return tokens, log_probs(np.concatenate(found))
