"""Beam search in ONNX Runtime, between whose calls the state stays in its own tensors. Imports no torch.

Shape letters: S sentences, R rows of the state before.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.onnx_session import OnnxGraph, Value
from lite_nlp.export.runtime.signatures import BEAM_INPUTS, BEAM_OUTPUTS

__all__ = ["BeamTensors", "OnnxBeams"]

#: Symbol of the size that grows with the output, as the graph names it.
_PAST: Final = "past"


@dataclass(frozen=True)
class BeamTensors:
    """State of a beam search.

    Attributes:
        source: What depends on the source alone, (S, ...), by name.
        values: The same in ONNX Runtime's form.
        changing: What steps change, (R, ...), likewise.
    """

    source: State
    values: dict[str, Value]
    changing: dict[str, Value]


class OnnxBeams:
    """A graph of steps of beam search.

    Args:
        graph: With the signature ``beam_signature``.
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
                    raise BundleError(f"beam: {tensor.name}: expected a shape of known sizes, found {shape}")
                changing[tensor.name] = np.zeros(
                    (len(value), *(sizes.get(size, size) for size in shape[1:])), tensor.dtype
                )
            else:
                changing[tensor.name] = value
        return BeamTensors(
            source=source, values=self._graph.as_values(source), changing=self._graph.as_values(changing)
        )

    def search(self, call: BeamCall, state: BeamTensors) -> tuple[BeamSteps, BeamTensors]:
        """Take steps; see :class:`~lite_nlp.export.runtime.interface.SearchRunner`."""
        source, values = state.source, state.values
        if any(len(call.kept) != len(value) for value in source.values()):
            source = {name: value[call.kept] for name, value in source.items()}
            values = self._graph.as_values(source)
        given = {name: np.asarray(getattr(call, name), form.dtype) for name, form in BEAM_INPUTS.items()}
        given["count"] = given["count"].reshape(1)
        found = self._graph.run_values({**self._graph.as_values(given), **values, **state.changing})
        changing = {name: found[new] for name, new in self._names.items()}
        told = {name.partition(".")[2]: found[name].numpy() for name in BEAM_OUTPUTS}
        sound = not np.isnan(told.pop("log_prob_sum"))
        return BeamSteps(**told, sound=sound), BeamTensors(source=source, values=values, changing=changing)
