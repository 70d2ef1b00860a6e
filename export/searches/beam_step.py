"""One step of beam search, traced: the model's step for all hypotheses, each of which extends one of the step before.

Shape letters: S sentences, W hypotheses of each, R rows of the state before, V types.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.export import Dim

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.torch_model import SteppedModel
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.searches.growing_state import TracedStep, never_produced, state_example
from lite_nlp.export.tracing import trace_graph

__all__ = ["INPUTS", "OUTPUTS", "BeamStep", "trace_beam_step"]

#: Inputs before the state, with their shapes.
INPUTS: Final[Mapping[str, tuple[str, ...]]] = {"tokens": ("batch", "beam"), "parents": ("batch", "beam")}

#: Outputs before the state: the logits of what may be chosen, log-probabilities, and those of the end mark.
OUTPUTS: Final = ("choices", "log_probs", "end_log_probs")

#: Sizes of the example besides ``tracing.SIZES``, all different.
_BEAM, _ROWS = 3, 9


class BeamStep(nn.Module):
    """One step for all hypotheses, each of which extends one of the step before.

    Args:
        model: A ``SteppedModel``. Where its attribute ``shares_source`` is true, its steps take what depends on the
            source once for each sentence; else that is repeated for each hypothesis.
        state: Layout of its state.
        vocab_size: Types V.
    """

    never: Tensor

    def __init__(self, model: nn.Module, state: Sequence[StateTensor], vocab_size: int) -> None:
        super().__init__()
        self.model = model
        self.shares_source = bool(getattr(model, "shares_source", False))
        self.register_buffer("never", never_produced(vocab_size, EOS_ID + 1))
        self.changes = {tensor.name: tensor.changes for tensor in state}

    def forward(self, tokens: Tensor, parents: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take one step.

        Args:
            tokens: (S, W) int64, the latest of each hypothesis; the begin mark at first.
            parents: (S, W) int64, 0 to R - 1: the hypotheses of the step before that they extend.
            state: What changes has R rows, the rest S.

        Returns:
            Logits (S W, V), minus infinity for what is never produced or is no word, log-probabilities (S W, V), those
            of the end mark (S W,), and the changed state, of S W rows.
        """
        model = cast(SteppedModel, self.model)
        rows = parents.reshape(-1)
        given = {}
        for (name, changes), value in zip(self.changes.items(), state, strict=True):
            if changes:
                given[name] = value.index_select(0, rows)
            else:
                given[name] = value if self.shares_source else _repeated(value, tokens)
        logits, new_state = model.decode_step(tokens.reshape(-1), given)
        log_probs = logits.log_softmax(dim=-1)
        changed = (new_state[name] for name, changes in self.changes.items() if changes)
        return (logits + self.never, log_probs, log_probs[:, EOS_ID], *changed)


def _repeated(value: Tensor, tokens: Tensor) -> Tensor:
    """Rows of ``value`` (S, ...) once for each of ``tokens`` (S, W)."""
    return value[:, None].expand(*tokens.shape, *value.shape[1:]).flatten(0, 1)


def trace_beam_step(model: nn.Module, bounds: Bounds) -> TracedStep:
    """Trace one step of ``model`` (a ``SteppedModel`` in evaluation mode, on the CPU, fp32), for any sizes.

    Its arguments are ``INPUTS`` and the state, its results ``OUTPUTS`` and the changed state.

    Raises:
        ModelError: If the model breaks the protocol or cannot be traced.
    """
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        example = state_example(model)
        batch, beam = (Dim(name, min=1, max=bounds.executorch_batch) for name in ("batch", "beam"))
        rows = Dim("rows", min=1, max=bounds.executorch_batch**2)
        places = torch.arange(_ROWS) % len(example.tokens)
        tensors = tuple(
            (example.tensors[tensor.name][places] if tensor.changes else example.tensors[tensor.name]).contiguous()
            for tensor in example.layout
        )
        tokens = example.tokens[:, None].repeat(1, _BEAM)
        parents = torch.arange(tokens.numel()).reshape(tokens.shape)
        hypotheses = {0: batch, 1: beam}
        program = trace_graph(
            "decode_step",
            BeamStep(model, example.layout, example.vocab_size),
            (tokens, parents, tensors),
            (hypotheses, hypotheses, example.dims(bounds, {True: rows, False: batch})),
        )
    return TracedStep(program=program, state=example.layout, growing=example.growing, changing_rows="rows")
