"""Language models and classifiers as traced graphs with dynamic sizes.

The layout of a language model's state is found by running the model at two sets of sizes, as for encoder-decoders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lite_nlp.core.errors import ModelError
from lite_nlp.decoding.torch_model import SteppedText
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.programs import graph_sizes, least_tokens
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.signatures import Signature
from lite_nlp.export.tracing import DTYPES, SIZES, TORCH_TYPES, DecodeStep, trace_graph

__all__ = ["Score", "TaskGraph", "describe_text_state", "task_graphs", "trace_task_graph"]


class Score(nn.Module):
    """The graph from a text to the log-probabilities of its tokens.

    Args:
        model: A language model, called with tokens (B, T), that returns logits (B, T, V).
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""
        log_probs = F.log_softmax(self.model(tokens), dim=-1)
        return log_probs.gather(-1, labels[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class TaskGraph:
    """A graph to be traced.

    Attributes:
        module: Takes the tensors of the signature's inputs; ``DecodeStep`` all but the first as a tuple.
        signature: Names, types and sizes of its inputs and outputs.
    """

    module: nn.Module
    signature: Signature

    def arguments(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """The arguments of the module."""
        if isinstance(self.module, DecodeStep):
            return tensors[0], tuple(tensors[1:])
        return tuple(tensors)


def task_graphs(
    model: nn.Module, signatures: Mapping[str, Signature], state: Sequence[StateTensor]
) -> dict[str, TaskGraph]:
    """The graphs of a model by name.

    Args:
        model: A language model or a classifier in evaluation mode.
        signatures: Of the graphs.
        state: Layout of a language model's state.
    """
    modules: dict[str, nn.Module] = {
        "classify": model,
        "score": Score(model),
        "decode_step": DecodeStep(model, state),
        "read": DecodeStep(model, state, "read"),
    }
    return {name: TaskGraph(modules[name], signature) for name, signature in signatures.items()}


def trace_task_graph(name: str, graph: TaskGraph, bounds: Bounds, *, least: int | None = None) -> ExportedProgram:
    """Trace a graph for any sizes within the bounds.

    Args:
        name: Of the graph.
        graph: The graph.
        bounds: Largest sizes.
        least: Fewest source tokens; None for those that such a graph is called with.

    Raises:
        ModelError: If torch cannot, or a bound is below the sizes that it is traced with.
    """
    limits = graph_sizes(name, bounds)
    forms = list(graph.signature.inputs.values())
    used = {size for form in forms for size in form.shape if isinstance(size, str)}
    for size in sorted(used):
        if size != "batch" and limits[size] < SIZES[1][size]:
            raise ModelError(f"{size}: expected a bound of at least {SIZES[1][size]}, found {limits[size]}")
    # ONNX has no largest batch, and ExecuTorch's is set when memory is planned: of a bound of one or two torch would
    # make a number.
    limits["batch"] = max(limits["batch"], SIZES[1]["batch"])
    fewest = least_tokens(name) if least is None else least
    dims = {size: Dim(size, min=fewest if size == "source" else 1, max=limits[size]) for size in used}
    shapes = [{axis: dims[size] for axis, size in enumerate(form.shape) if isinstance(size, str)} for form in forms]
    tensors = []
    for form in forms:
        sizes = [SIZES[0][size] if isinstance(size, str) else int(size or 0) for size in form.shape]
        # A mask has a token in every row; ids 0 to 3 are in every vocabulary.
        tensors.append(torch.ones(sizes, dtype=TORCH_TYPES[form.dtype]))
    model: nn.Module = getattr(graph.module, "model", graph.module)
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        # The dimensions have the form of the arguments.
        wanted = (shapes[0], tuple(shapes[1:])) if isinstance(graph.module, DecodeStep) else tuple(shapes)
        return trace_graph(name, graph.module, graph.arguments(tensors), wanted)


def describe_text_state(model: nn.Module) -> tuple[StateTensor, ...]:
    """Find the layout of a language model's state by running it.

    Raises:
        ModelError: If a tensor's type or shape is none that a bundle can describe, or its first value is not zero.
    """
    stepped = cast(SteppedText, model)
    with torch.no_grad():
        first, second = (stepped.init_state(sizes["batch"], sizes["capacity"]) for sizes in SIZES)
        _, new_state = stepped.decode_step(torch.ones(SIZES[0]["batch"], dtype=torch.int64), first)
    if list(new_state) != list(first):
        raise ModelError(f"decode_step: expected the state {list(first)} back, found {list(new_state)}")
    tensors = []
    for name, value in first.items():
        if value.dtype not in DTYPES or bool(value.any()) or new_state[name] is value:
            raise ModelError(
                f"state {name}: expected zeros of float32, int64 or bool that a step changes, found {value.dtype}"
            )
        shape = [_symbol(name, *sizes) for sizes in zip(value.shape, second[name].shape, strict=True)]
        tensors.append(
            StateTensor.model_validate(
                {"name": name, "dtype": DTYPES[value.dtype], "shape": tuple(shape), "origin": "zeros", "changes": True}
            )
        )
    return tuple(tensors)


def _symbol(name: str, first: int, second: int) -> int | str:
    symbols = {(SIZES[0][symbol], SIZES[1][symbol]): symbol for symbol in ("batch", "capacity")}
    if first != second and (first, second) not in symbols:
        raise ModelError(f"state {name}: expected a size that is fixed, or batch or capacity, found {first}, {second}")
    return first if first == second else symbols[first, second]
