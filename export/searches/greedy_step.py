"""One step of greedy search, traced: the model's step and the choice of the next token.

Shape letters: B rows, V types.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim
from torch.onnx.ops import symbolic

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
    "limits": ("batch",),
    "min_length": (),
}

#: The operator's version in the opset of the graphs.
_GATHER_VERSION: Final = 13

#: Outputs before the state: whether any row goes on, what becomes of two of the inputs, and log-probabilities.
OUTPUTS: Final = ("going", "next.tokens", "next.ended", "gained")


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

    masks: Tensor
    end: Tensor

    def __init__(self, model: nn.Module, state: Sequence[StateTensor], vocab_size: int) -> None:
        super().__init__()
        self.model = model
        # Of the steps that may end an output, and of those before: a row is looked up in less time than one is chosen.
        masks = never_produced(vocab_size), never_produced(vocab_size, EOS_ID + 1)
        self.register_buffer("masks", torch.stack(masks))
        # Exporters turn a Python number beside a vector into a chain of casts.
        self.register_buffer("end", torch.tensor(EOS_ID))
        self.names = tuple(tensor.name for tensor in state)
        self.changing = tuple(tensor.name for tensor in state if tensor.changes)

    def forward(
        self,
        step: Tensor,
        tokens: Tensor,
        ended: Tensor,
        limits: Tensor,
        min_length: Tensor,
        state: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        """Take one step.

        Args:
            step: () int64, from 0.
            tokens: (B,) int64, of the step before; the begin mark at first.
            ended: (B,) bool.
            limits: (B,) int64, steps allowed.
            min_length: () int64, tokens before an end mark that is not forced.
            state: The model's.

        Returns:
            Whether any row goes on, ``tokens`` and ``ended`` for the next step, the log-probabilities (B,) of those
            tokens, and the changed state.
        """
        for tensor in state:
            # Torch would else not know that no hypotheses share a source, and write changes of shape for them.
            torch._check(tensor.shape[0] == tokens.shape[0])  # type: ignore[no-untyped-call]
        model = cast(SteppedModel, self.model)
        logits, new_state = model.decode_step(tokens, dict(zip(self.names, state, strict=True)))
        # The first of the largest is the end mark, if it is among them.
        best = _first_largest(logits + F.embedding((step < min_length).to(torch.int64), self.masks))
        chosen = torch.where(limits <= step + 1, self.end, best)
        gained = logits.log_softmax(dim=-1).gather(1, chosen[:, None]).squeeze(1)
        ended = ended | (chosen == self.end)
        return (~ended.all(), chosen, ended, gained, *(new_state[name] for name in self.changing))


def _first_largest(scores: Tensor) -> Tensor:
    """Places (B,) of the first of the largest scores (B, V) of each row.

    ONNX Runtime looks for a place one number at a time and for a maximum several at once: the block of each row that
    has the maximum comes first, the place within it after that.
    """
    size = scores.shape[1]
    width = min((width for width in range(1, size + 1) if size % width == 0), key=lambda width: width + size // width)
    blocks = scores.view(-1, size // width, width)
    best = blocks.amax(dim=-1).argmax(dim=-1)
    if torch.compiler.is_exporting():
        chosen = symbolic(
            "GatherND",
            (blocks, best[:, None]),
            {"batch_dims": 1},
            dtype=scores.dtype,
            shape=(scores.shape[0], width),
            version=_GATHER_VERSION,
        )
    else:
        chosen = blocks[torch.arange(len(blocks)), best]
    return best * width + chosen.argmax(dim=-1)


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
            torch.full_like(latest, 2 * STEPS),
            torch.tensor(0),
            tuple(value.contiguous() for value in example.tensors.values()),
        )
        sizes: tuple[Any, ...] = ({}, rows, rows, rows, {}, example.dims(bounds, {True: batch, False: batch}))
        graph = GreedyStep(model, example.layout, example.vocab_size)
        program = trace_graph("decode_step", graph, arguments, sizes)
    return TracedStep(program=program, state=example.layout, growing=example.growing)
