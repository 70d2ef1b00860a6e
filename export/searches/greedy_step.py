"""One step of greedy search, traced: the model's step and the choice of the next token.

Shape letters: B rows, V types.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.export import Dim

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.torch_model import SteppedModel
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.searches.growing_state import STEPS, TracedStep, never_produced, state_example
from lite_nlp.export.tracing import trace_graph

__all__ = ["INPUTS", "OUTPUTS", "GreedyStep", "trace_greedy_step"]

#: Inputs before the state, with their shapes.
INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "step": (),
    "tokens": ("batch",),
    "ended": ("batch",),
    "log_probs": ("batch",),
    "limits": ("batch",),
    "min_length": (),
}

#: Outputs before the state: whether any row goes on, and what becomes of three of the inputs.
OUTPUTS: Final = ("going", "next.tokens", "next.ended", "next.log_probs")


class GreedyStep(nn.Module):
    """One step, from the tokens before to the next ones.

    It chooses as ``lite_nlp.decoding.search`` does with one hypothesis: the padding and the begin mark are never
    produced, the end mark goes before a token of equal probability and is forced in a row's last step. Rows that have
    ended go on, to no effect, until all have.

    Args:
        model: A ``SteppedModel``.
        state: Layout of its state.
        vocab_size: Types V.
    """

    never: Tensor
    not_yet: Tensor
    end: Tensor
    nothing: Tensor

    def __init__(self, model: nn.Module, state: Sequence[StateTensor], vocab_size: int) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("never", never_produced(vocab_size))
        self.register_buffer("not_yet", never_produced(vocab_size, EOS_ID + 1))
        # Exporters turn a Python number beside a vector into a chain of casts.
        self.register_buffer("end", torch.tensor(EOS_ID))
        self.register_buffer("nothing", torch.tensor(0.0))
        self.names = tuple(tensor.name for tensor in state)
        self.changing = tuple(tensor.name for tensor in state if tensor.changes)

    def forward(
        self,
        step: Tensor,
        tokens: Tensor,
        ended: Tensor,
        log_probs: Tensor,
        limits: Tensor,
        min_length: Tensor,
        state: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        """Take one step.

        Args:
            step: () int64, from 0.
            tokens: (B,) int64, of the step before; the begin mark at first.
            ended: (B,) bool.
            log_probs: (B,), of the tokens so far, the end mark among them.
            limits: (B,) int64, steps allowed.
            min_length: () int64, tokens before an end mark that is not forced.
            state: The model's.

        Returns:
            Whether any row goes on, ``tokens``, ``ended`` and ``log_probs`` for the next step, and the changed state.
        """
        model = cast(SteppedModel, self.model)
        logits, new_state = model.decode_step(tokens, dict(zip(self.names, state, strict=True)))
        # The first of the largest is the end mark, if it is among them.
        best = (logits + torch.where(step < min_length, self.not_yet, self.never)).argmax(dim=-1)
        chosen = torch.where(limits <= step + 1, self.end, best)
        gained = logits.log_softmax(dim=-1).gather(1, chosen[:, None]).squeeze(1)
        log_probs = log_probs + torch.where(ended, self.nothing, gained)
        ended = ended | (chosen == self.end)
        return (~ended.all(), chosen, ended, log_probs, *(new_state[name] for name in self.changing))


def trace_greedy_step(model: nn.Module, bounds: Bounds) -> TracedStep:
    """Trace one step of ``model`` (a ``SteppedModel`` in evaluation mode, on the CPU, fp32), for any sizes.

    Its arguments are ``INPUTS`` and the state, its results ``OUTPUTS`` and the changed state.

    Raises:
        ModelError: If the model breaks the protocol or cannot be traced.
    """
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        example = state_example(model)
        latest = example.tokens
        batch = Dim("batch", min=1, max=bounds.executorch_batch)
        rows = {0: batch}
        arguments = (
            torch.tensor(STEPS),
            latest,
            torch.zeros_like(latest, dtype=torch.bool),
            torch.zeros(len(latest)),
            torch.full_like(latest, 2 * STEPS),
            torch.tensor(0),
            tuple(value.contiguous() for value in example.tensors.values()),
        )
        sizes: tuple[Any, ...] = ({}, rows, rows, rows, rows, {}, example.dims(bounds, {True: batch, False: batch}))
        graph = GreedyStep(model, example.layout, example.vocab_size)
        program = trace_graph("decode_step", graph, arguments, sizes)
    return TracedStep(program=program, state=example.layout, growing=example.growing)
