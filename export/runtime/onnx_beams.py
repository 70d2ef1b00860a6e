"""Steps of beam search in ONNX Runtime, between which the state stays in its own tensors. Imports no torch.

Shape letters: S sentences, W hypotheses of each, R rows of the state before.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.onnx_session import OnnxGraph, Value
from lite_nlp.export.runtime.signatures import CANDIDATES, COUNT, END_LOG_PROBS, LOG_PROBS

__all__ = ["BeamTensors", "OnnxBeams"]

#: Symbol of the size that grows with the output, as the graph names it.
_PAST: Final = "past"


@dataclass(frozen=True)
class BeamTensors:
    """State of a beam search.

    Attributes:
        source: What depends on the source alone, (S, ...), by name.
        values: The same in ONNX Runtime's form.
        changing: What a step changes, (R, ...), likewise.
    """

    source: State
    values: dict[str, Value]
    changing: dict[str, Value]


class OnnxBeams:
    """A graph of a step of beam search.

    Args:
        graph: With the signature ``beam_step_signature``.
        layout: Of the bundle's graphs.
        new_prefix: What precedes a changing state tensor's name among the outputs.
    """

    def __init__(self, graph: OnnxGraph, layout: Layout, *, new_prefix: str) -> None:
        self._graph = graph
        self._layout = layout
        self._names = {name: new_prefix + name for name in layout.changing}

    def begin(self, state: State, *, capacity: int) -> BeamTensors:
        """The state before the first step.

        Args:
            state: As the steps of ``decode_step`` take it; tensors of zeros have other sizes here.
            capacity: Most steps.

        Raises:
            BundleError: If the graph's tensors have sizes that are not known.
        """
        source: State = {}
        changing: State = {}
        for tensor in self._layout.state:
            value = state[tensor.name]
            if not tensor.changes:
                source[tensor.name] = value
            elif tensor.origin == "zeros" and tensor.name in self._graph.input_shapes:
                shape = self._graph.input_shapes[tensor.name]
                sizes = {_PAST: 0, "capacity": capacity}
                if not all(isinstance(size, int) or size in sizes for size in shape[1:]):
                    raise BundleError(f"beam_step: {tensor.name}: expected a shape of known sizes, found {shape}")
                changing[tensor.name] = np.zeros(
                    (len(value), *(sizes.get(size, size) for size in shape[1:])), tensor.dtype
                )
            else:
                changing[tensor.name] = value
        return BeamTensors(
            source=source, values=self._graph.as_values(source), changing=self._graph.as_values(changing)
        )

    def step(
        self,
        tokens: NDArray[np.int64],
        parents: NDArray[np.int64],
        kept: NDArray[np.int64],
        state: BeamTensors,
        count: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32], BeamTensors]:
        """One step; see :class:`~lite_nlp.export.runtime.interface.SearchRunner`."""
        source, values = state.source, state.values
        if any(len(kept) != len(value) for value in source.values()):
            source = {name: value[kept] for name, value in source.items()}
            values = self._graph.as_values(source)
        given: dict[str, NDArray[Any]] = {"tokens": tokens, "parents": parents, COUNT: np.array([count], np.int64)}
        found = self._graph.run_values({**self._graph.as_values(given), **values, **state.changing})
        changing = {name: found[new] for name, new in self._names.items()}
        ranked = (found[name].numpy() for name in (CANDIDATES, LOG_PROBS, END_LOG_PROBS))
        return *ranked, BeamTensors(source=source, values=values, changing=changing)
