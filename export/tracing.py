"""A model as two traced graphs, ``encode`` and ``decode_step``, with the layout of the state between them.

The layout is found by running the model at two sets of sizes, not by knowing its family: what is batch, source length
or cache capacity is what differs accordingly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from lite_nlp.core.errors import LiteNlpError, ModelError
from lite_nlp.decoding.torch_model import SteppedModel
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.quiet import quiet_libraries

__all__ = [
    "DTYPES",
    "SIZES",
    "TORCH_TYPES",
    "DecodeStep",
    "Encode",
    "TracedModel",
    "describe_state",
    "example_inputs",
    "trace_graph",
    "trace_model",
]

#: Two sets of sizes, all different, to tell the symbols apart; the first also traces the graphs.
SIZES: Final = ({"batch": 2, "source": 5, "capacity": 7}, {"batch": 3, "source": 6, "capacity": 8})

#: Types of state tensors, in the words of the manifest.
DTYPES: Final = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool"}

#: The same, from the manifest's words.
TORCH_TYPES: Final = {name: dtype for dtype, name in DTYPES.items()}


class Encode(nn.Module):
    """The graph from source tokens and mask to the state tensors that depend on the source.

    Args:
        model: The model, a ``SteppedModel``.
        names: The state tensors to return, in this order.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, src_tokens: Tensor, src_mask: Tensor) -> tuple[Tensor, ...]:
        """Encode ``src_tokens`` (B, S) under ``src_mask`` (B, S)."""
        model = cast(SteppedModel, self.model)
        # The caches are made by the runtime; none of the returned tensors depends on the capacity.
        state = model.init_state(model.encode(src_tokens, src_mask), src_mask, 1)
        return tuple(state[name] for name in self.names)


class DecodeStep(nn.Module):
    """The graph from the next tokens and the state to logits and the changed state tensors.

    Args:
        model: The model, a ``SteppedModel`` or ``SteppedText``.
        state: Layout of the state.
        method: What takes them: ``decode_step``, one token of each row, or a language model's ``read``, several.
    """

    def __init__(self, model: nn.Module, state: Sequence[StateTensor], method: str = "decode_step") -> None:
        super().__init__()
        self.model = model
        self.method = method
        self.names = tuple(tensor.name for tensor in state)
        self.changing = tuple(tensor.name for tensor in state if tensor.changes)

    def forward(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Feed ``tokens``, (B,) or (B, T); returns logits (B, V) and the changing state tensors."""
        logits, new_state = getattr(self.model, self.method)(tokens, dict(zip(self.names, state, strict=True)))
        return (logits, *(new_state[name] for name in self.changing))


@dataclass(frozen=True, kw_only=True)
class TracedModel:
    """The traced graphs of a model.

    Attributes:
        encode: Of ``Encode``.
        decode_step: Of ``DecodeStep``.
        state: Layout of the state.
        bounds: Sizes for which the graphs are valid.
        tgt_vocab_size: Width of the logits.
        conversions: What the graphs have been converted to, by name, so that none is converted twice.
    """

    encode: ExportedProgram
    decode_step: ExportedProgram
    state: tuple[StateTensor, ...]
    bounds: Bounds
    tgt_vocab_size: int
    conversions: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


def trace_model(model: nn.Module, bounds: Bounds) -> TracedModel:
    """Trace ``model`` (in evaluation mode, on the CPU, fp32) with dynamic batch, source length and capacity.

    Args:
        model: A ``SteppedModel``.
        bounds: Largest sizes; not beyond the model's own.

    Raises:
        ModelError: If the model breaks the protocol, or a bound is below the sizes that it is traced with.
    """
    limits = {"batch": bounds.executorch_batch, "source": bounds.source, "capacity": bounds.capacity}
    for size, limit in limits.items():
        if limit < SIZES[1][size]:
            raise ModelError(f"{size}: expected a bound of at least {SIZES[1][size]}, found {limit}")
    state = describe_state(model)
    stepped = cast(SteppedModel, model)
    dims = {size: Dim(size, min=1, max=limit) for size, limit in limits.items()}
    rows = {0: dims["batch"]}
    sources = {0: Dim("sources", min=1, max=bounds.executorch_sources), 1: dims["source"]}
    tensors = tuple(
        {axis: dims[size] for axis, size in enumerate(tensor.shape) if isinstance(size, str)} for tensor in state
    )
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        tokens, mask, example = example_inputs(stepped)
        logits, _ = stepped.decode_step(tokens[:, 0], example)
        encode = trace_graph(
            "encode and init_state",
            Encode(model, [tensor.name for tensor in state if tensor.origin == "encode"]),
            (tokens, mask),
            (sources, sources),
        )
        values = tuple(value.contiguous() for value in example.values())
        decode_step = trace_graph(
            "decode_step", DecodeStep(model, state), (tokens[:, 0].contiguous(), values), (rows, tensors)
        )
    return TracedModel(
        encode=encode, decode_step=decode_step, state=state, bounds=bounds, tgt_vocab_size=logits.shape[-1]
    )


def trace_graph(method: str, graph: nn.Module, example: tuple[Any, ...], sizes: tuple[Any, ...]) -> ExportedProgram:
    """Trace one graph.

    Raises:
        ModelError: If torch cannot, in its own words: which size is fixed by the code, or which value it depends on.
    """
    try:
        # To remember what operators gave takes longer than to ask them again where sizes are symbols, most of which
        # are asked once.
        with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
            return torch.export.export(graph, example, dynamic_shapes=sizes)
    except LiteNlpError:
        raise
    # Whatever the code of a user's own model does ends up here.
    except Exception as error:
        raise ModelError(f"{method}: {_explain(error)}") from error


def _explain(error: Exception) -> str:
    """What kept torch from tracing a graph, and how to write it instead."""
    text = str(error)
    fixed = re.findall(r"marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)", text)
    if fixed:
        found = ", ".join(f"{name} fixed at {size}" for name, size in dict.fromkeys(fixed))
        return (
            f"expected a graph for any batch, source length and capacity, found {found}, as in the example; a Python "
            "loop over tokens, or a size turned into a number (int, .item()), fixes it: write operations on whole "
            "tensors, or nn.LSTM, nn.GRU or nn.RNN over the padded tensor"
        )
    if isinstance(error, GuardOnDataDependentSymNode) or "data-dependent" in text.lower():
        return (
            "expected a graph that does not depend on the numbers in its tensors, found one that does "
            f"({_first_line(text)}); torch.where in place of if, and a mask in place of lengths or "
            "pack_padded_sequence, make it one"
        )
    return f"expected what torch.export can trace, found: {_first_line(text)}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def describe_state(model: nn.Module) -> tuple[StateTensor, ...]:
    """Find the layout of the model's state by running it.

    Raises:
        ModelError: If a tensor's type or shape is none that a bundle can describe, or its first value is neither
            zero, nor ``src_mask``, nor computed from the source.
    """
    stepped = cast(SteppedModel, model)
    with torch.no_grad():
        runs = [example_inputs(stepped, sizes) for sizes in SIZES]
        (tokens, mask, first), (_, _, second) = runs
        _, new_state = stepped.decode_step(tokens[:, 0], first)
        poisoned = stepped.init_state(stepped.encode(tokens, mask) * float("nan"), mask, SIZES[0]["capacity"])
    if list(new_state) != list(first):
        raise ModelError(f"decode_step: expected the state {list(first)} back, found {list(new_state)}")
    tensors = []
    for name, value in first.items():
        if value.dtype not in DTYPES:
            raise ModelError(f"state {name}: expected float32, int64 or bool, found {value.dtype}")
        tensors.append(
            StateTensor.model_validate(
                {
                    "name": name,
                    "dtype": DTYPES[value.dtype],
                    "shape": _symbolic_shape(name, value, second[name]),
                    "origin": _origin(name, value, poisoned[name], mask),
                    "changes": new_state[name] is not value,
                }
            )
        )
    return tuple(tensors)


def example_inputs(
    model: SteppedModel, sizes: Mapping[str, int] = SIZES[0]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Source tokens, mask (with padding) and first state, with the sizes that graphs are traced with."""
    # Ids 0 to 3 are in every vocabulary.
    tokens = torch.arange(sizes["batch"] * sizes["source"]).reshape(sizes["batch"], sizes["source"]) % 4
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[-1, -1] = False
    return tokens, mask, model.init_state(model.encode(tokens, mask), mask, sizes["capacity"])


def _symbolic_shape(name: str, first: Tensor, second: Tensor) -> tuple[int | str, ...]:
    symbols = {(SIZES[0][symbol], SIZES[1][symbol]): symbol for symbol in SIZES[0]}
    shape: list[int | str] = []
    for pair in zip(first.shape, second.shape, strict=True):
        if pair[0] != pair[1] and pair not in symbols:
            raise ModelError(f"state {name}: expected a size that is fixed, or batch, source or capacity, found {pair}")
        shape.append(pair[0] if pair[0] == pair[1] else symbols[pair])
    if not shape or shape[0] != "batch":
        raise ModelError(f"state {name}: expected the batch as first dimension, found {shape}")
    return tuple(shape)


def _origin(name: str, value: Tensor, poisoned: Tensor, mask: Tensor) -> str:
    if value is mask:
        return "src_mask"
    if value.is_floating_point() and bool(poisoned.isnan().any()):
        return "encode"
    if bool(value.any()):
        raise ModelError(f"state {name}: expected zeros, src_mask or a function of the source, found other values")
    return "zeros"
