"""The state of a model in the form for searches, and an example of it a few steps on.

Caches of such a form are as long as the output so far. Shape letters: B rows, V types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.torch_model import SteppedModel
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.tracing import describe_state, example_inputs

__all__ = ["STEPS", "StateExample", "TracedStep", "never_produced", "state_example"]

#: Steps of the example, so that what grows with them is told from what is as large as something else.
STEPS: Final = 4


@dataclass(frozen=True, kw_only=True)
class StateExample:
    """A state to trace a step with.

    Attributes:
        layout: Of the state; a dimension that grows by one at each step has the size that it begins with.
        growing: For the tensors that grow, which dimension does.
        tokens: (B,) int64 to feed.
        tensors: The state by name, after ``STEPS`` steps.
        vocab_size: Types V.
    """

    layout: tuple[StateTensor, ...]
    growing: Mapping[str, int]
    tokens: Tensor
    tensors: Mapping[str, Tensor]
    vocab_size: int

    def dims(self, bounds: Bounds, rows: Mapping[bool, Dim]) -> tuple[dict[int, Dim], ...]:
        """The dynamic dimensions of each tensor.

        Args:
            bounds: Largest sizes.
            rows: The first dimension of the tensors that steps change (key True), and of the others.
        """
        past = Dim("past", min=1, max=bounds.capacity)
        named = {
            "source": Dim("source", min=1, max=bounds.source),
            "capacity": Dim("capacity", min=1, max=bounds.capacity),
        }
        sizes = []
        for tensor in self.layout:
            symbols = {axis: named[size] for axis, size in enumerate(tensor.shape[1:], 1) if isinstance(size, str)}
            grown = {self.growing[tensor.name]: past} if tensor.name in self.growing else {}
            sizes.append({0: rows[tensor.changes]} | symbols | grown)
        return tuple(sizes)


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """A traced step of a search.

    Attributes:
        program: Its arguments are those of the search and the state, its results those of the search and the changed
            state.
        state: Layout of the state; a dimension that grows by one at each step has the size that it begins with.
        growing: For the tensors that grow, which dimension does.
        changing_rows: Symbol of the first dimension of what changes.
    """

    program: ExportedProgram
    state: tuple[StateTensor, ...]
    growing: Mapping[str, int]
    changing_rows: str = "batch"

    @property
    def shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of each state tensor at any step, with the symbol ``past`` where it grows."""
        shapes = {}
        for tensor in self.state:
            shape: list[int | str] = list(tensor.shape)
            if tensor.changes:
                shape[0] = self.changing_rows
            if tensor.name in self.growing:
                shape[self.growing[tensor.name]] = "past"
            shapes[tensor.name] = tuple(shape)
        return shapes


def state_example(model: nn.Module) -> StateExample:
    """Take a few steps with ``model`` (a ``SteppedModel``).

    Raises:
        ModelError: If the model breaks the protocol.
    """
    layout = describe_state(model)
    stepped = cast(SteppedModel, model)
    tokens, _, first = example_inputs(stepped)
    latest = tokens[:, 0].contiguous()
    example = first
    for _ in range(STEPS):
        logits, example = stepped.decode_step(latest, example)
    growing = {
        name: axis
        for name, value in first.items()
        for axis, (before, after) in enumerate(zip(value.shape, example[name].shape, strict=True))
        if before != after
    }
    return StateExample(layout=layout, growing=growing, tokens=latest, tensors=example, vocab_size=logits.shape[-1])


def never_produced(vocab_size: int, least: int = EOS_ID) -> Tensor:
    """(V,) minus infinity for the types below ``least``, zero for the others.

    Added to the logits: one addition costs less than leaving the first of them out.
    """
    return torch.zeros(vocab_size).masked_fill(torch.arange(vocab_size) < least, float("-inf"))
