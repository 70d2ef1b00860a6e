"""Recurrent layers of torch as loops whose length is not fixed when they are traced.

``torch.export`` unrolls ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` over the tokens of its example, so that the graph is one
for sources of that very length. While :func:`traceable_recurrence` lasts, they run as ``scan`` instead, which both ONNX
and ExecuTorch have: first the products with all inputs at once, then the recurrence.

Shape letters: T tokens, B rows, D input channels, H hidden channels, P channels of the output, G gates.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan_op
from torch.nn.utils.rnn import PackedSequence

from lite_nlp.core.errors import ModelError

__all__ = ["traceable_recurrence"]

#: One step: from the state, the products of a token's input, (B, G x H), and the weights of the recurrence, to the next
#: state, its output first.
_Step = Callable[[Sequence[Tensor], Tensor, Mapping[str, Tensor]], tuple[Tensor, ...]]


@contextmanager
def traceable_recurrence(model: nn.Module) -> Iterator[None]:
    """Let the recurrent layers of ``model`` run as loops that can be traced; the values stay."""
    layers = [module for module in model.modules() if isinstance(module, nn.LSTM | nn.GRU | nn.RNN)]
    for layer in layers:
        # An attribute of the instance goes before the method of its class.
        vars(layer)["forward"] = partial(_run, layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["forward"]


def _run(layer: nn.RNNBase, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    """Outputs and last states of a layer, as its own ``forward`` gives them in evaluation mode."""
    if isinstance(x, PackedSequence):
        raise ModelError(
            f"{type(layer).__name__}: expected a tensor (batch, tokens, channels), found a packed sequence, whose "
            "lengths are not known when a model is traced; run the layer on the padded tensor and multiply its output "
            "by the mask"
        )
    if x.dim() != 3:
        raise ModelError(f"{type(layer).__name__}: expected an input of 3 dimensions, found {x.dim()}")
    if layer.batch_first:
        x = x.transpose(0, 1)
    states = _first_states(layer, x, hx)
    directions = 1 + layer.bidirectional
    last: list[tuple[Tensor, ...]] = []
    for number in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            place = number * directions + direction
            suffix = f"_l{number}{'_reverse' * direction}"
            output, state = _run_direction(layer, suffix, x, tuple(value[place] for value in states))
            outputs.append(output)
            last.append(state)
        x = torch.cat(outputs, dim=-1) if directions == 2 else outputs[0]
    ends = tuple(torch.stack(values) for values in zip(*last, strict=True))
    return x.transpose(0, 1) if layer.batch_first else x, ends if isinstance(layer, nn.LSTM) else ends[0]


def _first_states(layer: nn.RNNBase, x: Tensor, hx: Any) -> tuple[Tensor, ...]:
    """The given first states, or zeros: (layers x directions, B, P), and (..., H) of an LSTM's cells."""
    if hx is not None:
        return tuple(hx) if isinstance(layer, nn.LSTM) else (hx,)
    places = layer.num_layers * (1 + layer.bidirectional)
    hidden = x.new_zeros(places, x.shape[1], layer.proj_size or layer.hidden_size)
    if not isinstance(layer, nn.LSTM):
        return (hidden,)
    return hidden, x.new_zeros(places, x.shape[1], layer.hidden_size)


def _run_direction(
    layer: nn.RNNBase, suffix: str, x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One direction of one layer over (T, B, D): outputs (T, B, P) and last state."""
    reverse = suffix.endswith("_reverse")
    # Where a gradient might be wanted, torch takes a loop apart to find it.
    inputs = F.linear(x, getattr(layer, f"weight_ih{suffix}"), getattr(layer, f"bias_ih{suffix}", None)).detach()
    if reverse:
        inputs = inputs.flip(0)
    weights = _recurrent_weights(layer, suffix)
    step, states = _make_step(layer), len(state)

    def combine(*given: Tensor) -> list[Tensor]:
        new = step(given[:states], given[states], dict(zip(weights, given[states + 1 :], strict=True)))
        # What leaves a step twice has to be two tensors.
        return [*new, new[0].clone()]

    # The operator itself: the function of the same name has torch compile the step first.
    *last, outputs = scan_op(combine, list(state), [inputs], tuple(weights.values()))
    return outputs.flip(0) if reverse else outputs, tuple(last)


def _recurrent_weights(layer: nn.RNNBase, suffix: str) -> dict[str, Tensor]:
    """What a step is multiplied by and what is added, of one direction of one layer.

    Plain matrices, transposed once: ExecuTorch hands Linear layers on whole, but not those in a loop.
    """
    found = {name: getattr(layer, name + suffix, None) for name in ("weight_hh", "bias_hh", "weight_hr")}
    return {
        name: value.detach().t().contiguous() if value.dim() == 2 else value.detach()
        for name, value in found.items()
        if value is not None
    }


def _make_step(layer: nn.RNNBase) -> _Step:
    """The step of a layer of this kind; torch's documentation of the layers has the equations."""
    activation = torch.relu if getattr(layer, "nonlinearity", "") == "relu" else torch.tanh

    def recur(hidden: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        if "bias_hh" not in weights:
            return hidden @ weights["weight_hh"]
        return torch.addmm(weights["bias_hh"], hidden, weights["weight_hh"])

    def lstm(state: Sequence[Tensor], token: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        hidden, cell = state
        enter, forget, candidate, leave = _parts(token + recur(hidden, weights), 4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        return hidden @ weights["weight_hr"] if "weight_hr" in weights else hidden, cell

    def gru(state: Sequence[Tensor], token: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        (hidden,) = state
        reset, update, candidate = _parts(token, 3)
        of_reset, of_update, of_candidate = _parts(recur(hidden, weights), 3)
        gate = (update + of_update).sigmoid()
        new = (candidate + (reset + of_reset).sigmoid() * of_candidate).tanh()
        return (new + gate * (hidden - new),)

    def plain(state: Sequence[Tensor], token: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (activation(token + recur(state[0], weights)),)

    if isinstance(layer, nn.LSTM):
        return lstm
    return gru if isinstance(layer, nn.GRU) else plain


def _parts(gates: Tensor, number: int) -> list[Tensor]:
    """The gates side by side, (B, G x H), one by one."""
    width = gates.shape[-1] // number
    return [gates.narrow(-1, place * width, width) for place in range(number)]
