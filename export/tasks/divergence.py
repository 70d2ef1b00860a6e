"""The divergence of language models and classifiers with rounded weights."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.classify import pad_sentences
from lite_nlp.export.mixed.divergence import Divergence, log_probs, spread
from lite_nlp.export.onnx_conversion import WEIGHTS
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.onnx_session import OnnxGraph
from lite_nlp.export.runtime.programs import CHANGED_PREFIX, classify_arguments
from lite_nlp.export.runtime.tensors import zero_state
from lite_nlp.export.tasks.files import TracedTask
from lite_nlp.export.tasks.onnx import convert_task

__all__ = ["ClassDivergence", "TextDivergence"]

#: Tokens of a text that are predicted.
_MOST_TOKENS: Final = 24


class _TaskDivergence(Divergence):
    """Of one of a task's graphs.

    Args:
        traced: The model.
        names: Of graphs, the first that there is.
    """

    def __init__(self, traced: TracedTask, *names: str) -> None:
        self._signatures = traced.signatures
        graphs = convert_task(traced)
        self._graph = next(name for name in names if name in graphs)
        super().__init__({self._graph: graphs[self._graph]})

    def load(self, name: str, graph: bytes, weights: bytes) -> OnnxGraph:
        """The graph in ONNX Runtime."""
        return OnnxGraph(name, graph, weights=(WEIGHTS, weights), signature=self._signatures[name], threads=1)


class TextDivergence(_TaskDivergence):
    """Of a language model's step, which is fed the tokens of texts, the end mark first.

    Args:
        traced: The model.
        state: Layout of its state.
        rows: Token ids of texts, without special ids; at least one. Some of them are measured.
    """

    def __init__(self, traced: TracedTask, state: Sequence[StateTensor], rows: Sequence[Sequence[int]]) -> None:
        self._state = state
        self._capacity = min(_MOST_TOKENS, traced.bounds.capacity)
        self._texts = [[EOS_ID, *row][: self._capacity] for row in spread(rows)]
        super().__init__(traced, "decode_step", "read")

    def predict(self, runners: Mapping[str, Any]) -> Iterator[NDArray[np.float32]]:
        """The log-probabilities of each text's tokens."""
        step = runners[self._graph]
        # (1,), or (1, 1) where the graph takes several tokens.
        shape = [1] * len(self._signatures[self._graph].inputs["tokens"].shape)
        for text in self._texts:
            state = zero_state(self._state, rows=1, capacity=self._capacity)
            found = []
            for token in text:
                outputs = step.run({"tokens": np.full(shape, token, np.int64), **state})
                found.append(outputs["logits"])
                state = {name: outputs[CHANGED_PREFIX + name] for name in state}
            yield log_probs(np.concatenate(found))


class ClassDivergence(_TaskDivergence):
    """Of a classifier.

    Args:
        traced: The model.
        sides: Of each sentence of an example the token ids of the sentences, without special ids; at least one. Some
            of them are measured.
    """

    def __init__(self, traced: TracedTask, sides: Sequence[Sequence[Sequence[int]]]) -> None:
        longest = traced.bounds.source - 1
        cut = [[list(row[:longest]) for row in spread(side)] for side in sides]
        self._examples = [[pad_sentences([row]) for row in example] for example in zip(*cut, strict=True)]
        super().__init__(traced, "classify")

    def predict(self, runners: Mapping[str, Any]) -> Iterator[NDArray[np.float32]]:
        """The log-probabilities of each example's classes."""
        (classify,) = runners.values()
        for sentences in self._examples:
            yield log_probs(classify.run(classify_arguments(sentences))["logits"])
