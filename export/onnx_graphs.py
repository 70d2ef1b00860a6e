"""The graphs of a model as ONNX files that share one file of weights.

They are the encoder, a decoder step, a whole greedy search, and steps of beam search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import onnx
from torch import nn

from lite_nlp.export.counting.onnx_search import count_beam_work, count_search_work
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.exporter import RuntimeGraphs
from lite_nlp.export.matrices import UNROUNDED, Rounding
from lite_nlp.export.onnx_conversion import (
    WEIGHTS,
    convert_program,
    oldest_runtime,
    refuse_unsafe_operators,
    runtime_operators,
    share_weights,
)
from lite_nlp.export.onnx_integers import round_weights
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.onnx import OnnxEntry
from lite_nlp.export.searches import beam_step, greedy_step
from lite_nlp.export.searches.beam_loop import build_beam_search
from lite_nlp.export.searches.greedy_loop import build_search
from lite_nlp.export.tracing import TracedModel

__all__ = ["ENTRY", "OnnxFiles", "convert_model", "export_onnx", "onnx_runtime_graphs"]

#: What a bundle of standard operators holds. The prefix is there since a graph may not use one name twice.
ENTRY: Final = OnnxEntry(
    encode="encode.onnx",
    decode_step="decode_step.onnx",
    greedy="greedy.onnx",
    beam="beam.onnx",
    weights=WEIGHTS,
    new_prefix="new.",
    operators=(),
    oldest_runtime=oldest_runtime(()),
)

_ROWS: Final = ("batch",)


@dataclass(frozen=True)
class OnnxFiles:
    """The ONNX part of a bundle.

    Attributes:
        encode: The encoder's graph.
        decode_step: The decoder step's graph.
        greedy: The graph of a whole greedy search.
        beam: The graph of steps of beam search.
        weights: External data of all; a tensor that several use is stored once.
        operators: Those that are not of the ONNX standard, sorted.
    """

    encode: bytes
    decode_step: bytes
    greedy: bytes
    beam: bytes
    weights: bytes
    operators: tuple[str, ...]


def convert_model(traced: TracedModel) -> tuple[Any, Any]:
    """The ``ModelProto`` of the encoder and that of the decoder step, in fp32; they may be changed."""
    if not traced.conversions:
        sources = {"src_tokens": ("batch", "source"), "src_mask": ("batch", "source")}
        encode = convert_program(
            traced.encode, sources, [tensor.name for tensor in traced.state if tensor.origin == "encode"]
        )
        decode_step = convert_program(
            traced.decode_step,
            {"tokens": _ROWS, **{tensor.name: tensor.shape for tensor in traced.state}},
            ["logits", *_new_names(traced.state)],
        )
        traced.conversions.update(
            {ENTRY.encode: encode.SerializeToString(), ENTRY.decode_step: decode_step.SerializeToString()}
        )
    encode, decode_step = (
        onnx.load_from_string(traced.conversions[name]) for name in (ENTRY.encode, ENTRY.decode_step)
    )
    return encode, decode_step


def export_onnx(traced: TracedModel, search_form: nn.Module, *, rounding: Rounding = UNROUNDED) -> OnnxFiles:
    """Convert all graphs, optimized and checked.

    Args:
        traced: The model.
        search_form: The same model, a ``SteppedModel`` whose steps the graphs of searches take.
        rounding: Of the weights of products and tables.

    Raises:
        ModelError: If a graph has an operator that the app's ONNX Runtime runs wrongly.
    """
    encode, decode_step = convert_model(traced)
    step = greedy_step.trace_greedy_step(search_form, traced.bounds)
    body = convert_program(
        step.program, {**greedy_step.INPUTS, **step.shapes}, [*greedy_step.OUTPUTS, *_new_names(step.state)]
    )
    step_of_beams = beam_step.trace_beam_step(search_form, traced.bounds)
    body_of_beams = convert_program(
        step_of_beams.program,
        {**beam_step.INPUTS, **step_of_beams.shapes},
        [*beam_step.OUTPUTS, *_new_names(step_of_beams.state)],
    )
    round_weights((encode, decode_step, body, body_of_beams), rounding)
    greedy = build_search(encode, body, step, new_prefix=ENTRY.new_prefix)
    beam = build_beam_search(body_of_beams, step_of_beams, new_prefix=ENTRY.new_prefix)
    models = {"encode": encode, "decode_step": decode_step, "greedy": greedy, "beam": beam}
    refuse_unsafe_operators(models)
    operators = runtime_operators(models.values())
    graphs, weights = share_weights(models)
    return OnnxFiles(**graphs, weights=weights, operators=operators)


def _new_names(state: Sequence[StateTensor]) -> list[str]:
    return [ENTRY.new_prefix + tensor.name for tensor in state if tensor.changes]


def onnx_runtime_graphs(
    traced: TracedModel, search_form: nn.Module, rounding: Rounding, *, compact: bool
) -> RuntimeGraphs:
    """The graphs for ONNX Runtime; see :class:`~lite_nlp.export.exporter.Export`."""
    files = export_onnx(traced, search_form, rounding=rounding)
    work = count_onnx_work(encode=files.encode, decode_step=files.decode_step, bounds=traced.bounds)
    graphs = {
        ENTRY.encode: files.encode,
        ENTRY.decode_step: files.decode_step,
        ENTRY.greedy: files.greedy,
        ENTRY.beam: files.beam,
    }
    oldest = oldest_runtime(files.operators)
    return RuntimeGraphs(
        entry=ENTRY.model_copy(update={"operators": files.operators, "oldest_runtime": oldest}),
        files={**graphs, ENTRY.weights: files.weights},
        work=work,
        search_work={
            "greedy": count_search_work(files.greedy, traced.bounds),
            "beam": replace(work, decode_step=count_beam_work(files.beam, traced.bounds)),
        },
    )
