"""The states of an LSTM after all tokens of a batch as one operation of autograd, for training.

Written token by token, autograd adds to the gradient of the weight after every token, and a dozen small operations
wait for each other. Here the products over all tokens are one each, and only the product that needs the state before
stays in the loop. Tokens are packed: a step takes the rows that still have one, so that padding costs nothing.

Shape letters: B batch, T tokens, P real tokens of the batch, R rows of a step, D input channels, H hidden channels.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["Packing", "recurrent_states"]

#: Forget, input and output gate, and the candidate.
_NUM_GATES: Final = 4
_SIGMOID_BACKWARD: Final = torch.ops.aten.sigmoid_backward.grad_input
_TANH_BACKWARD: Final = torch.ops.aten.tanh_backward.default


class _Step(NamedTuple):
    """Places of one token of each row among the packed tokens.

    Attributes:
        here: The tokens.
        before: The tokens before them, in the same rows; empty in the first step.
    """

    here: slice
    before: slice


class Packing(NamedTuple):
    """Order of a batch's real tokens: the first of each row, then the second of each, the longest row always foremost.

    Attributes:
        taken: (P,) int64, for each packed token its place in the flattened batch.
        given: (B T,) int64, for each token of the flattened batch its packed place; P at padding.
        steps: The steps of the recurrence.
    """

    taken: Tensor
    given: Tensor
    steps: Sequence[_Step]

    @classmethod
    def of(cls, mask: Tensor) -> "Packing":
        """The order of the tokens that are True in ``mask`` (B, T), wherever padding is."""
        turn = (mask.cumsum(dim=1) - 1).flatten()
        foremost = mask.sum(dim=1).argsort(descending=True).argsort()
        real = mask.flatten().nonzero()[:, 0]
        taken = real[(turn[real] * len(mask) + foremost[real // mask.shape[1]]).argsort()]
        given = torch.full((mask.numel(),), len(taken), device=mask.device)
        given[taken] = torch.arange(len(taken), device=mask.device)
        steps = []
        before = end = 0
        for rows in torch.bincount(turn[real]).tolist():
            steps.append(_Step(slice(end, end + rows), slice(before, before + rows if end else 0)))
            before, end = end, end + rows
        return cls(taken, given, steps)


def recurrent_states(x: Tensor, mask: Tensor, *, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor) -> Tensor:
    """The states (B, T, H) after each token, zero at padding, with which the state before the first token begins.

    The gates are f, i, o and g in the order of the weights' rows: c' = sigmoid(f) c + sigmoid(i) tanh(g) and
    h' = sigmoid(o) tanh(c') (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000). Under autocast
    the matrices are multiplied in its type; cells and gradients are those of the weights' type.

    Args:
        x: (B, T, D).
        mask: (B, T) bool, True on real tokens.
        input_weight: (4 H, D).
        hidden_weight: (4 H, H).
        bias: (4 H,).
    """
    # tanh(g) = 2 sigmoid(2 g) - 1: all gates are then one sigmoid, which on a CPU takes a seventh of the time of tanh.
    hidden_dim = hidden_weight.shape[1]
    doubled = torch.ones_like(bias)
    doubled[-hidden_dim:] = 2.0
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else bias.dtype
    apply = cast(Callable[..., Tensor], _Recurrence.apply)
    with torch.autocast(device, enabled=False):
        states = apply(
            x,
            input_weight * doubled[:, None],
            hidden_weight * doubled[:, None],
            bias * doubled,
            Packing.of(mask),
            dtype,
        )
    return states.view(*mask.shape, hidden_dim)


class _Recurrence(torch.autograd.Function):
    """States (B T, H) of ``recurrent_states``, from weights whose candidate is doubled."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor, packing: Packing, dtype: Any
    ) -> Tensor:
        inputs = x.flatten(0, 1).index_select(0, packing.taken).to(dtype)  # (P, D)
        input_weight, hidden_weight = input_weight.to(dtype), hidden_weight.to(dtype)
        projected = torch.addmm(bias.to(dtype), inputs, input_weight.t())  # (P, 4 H)
        gates = projected if dtype == bias.dtype else torch.empty_like(projected, dtype=bias.dtype)
        # The last row stands for padding.
        states = bias.new_zeros(len(inputs) + 1, hidden_weight.shape[1])
        cells, squashed = torch.empty_like(states), torch.empty_like(states)
        # The states as factors of products.
        factors = states if dtype == bias.dtype else torch.empty_like(states, dtype=dtype)
        for here, before in packing.steps:
            if before.stop:
                projected[here].addmm_(factors[before], hidden_weight.t())
            open_gates = gates[here] if gates is projected else gates[here].copy_(projected[here])
            forget, enter, leave, candidate = open_gates.sigmoid_().chunk(_NUM_GATES, dim=1)
            cell = torch.mul(enter, candidate, out=cells[here]).mul_(2.0).sub_(enter)
            if before.stop:
                cell.addcmul_(forget, cells[before])
            squash = torch.mul(cell, 2.0, out=squashed[here]).sigmoid_().mul_(2.0).sub_(1.0)
            torch.mul(leave, squash, out=states[here])
            if factors is not states:
                factors[here] = states[here]
        ctx.save_for_backward(inputs, input_weight, hidden_weight, gates, cells, squashed, factors)
        ctx.packing, ctx.shape = packing, x.shape
        return states.index_select(0, packing.given)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_states: Tensor) -> tuple[Tensor | None, ...]:
        inputs, input_weight, hidden_weight, gates, cells, squashed, factors = ctx.saved_tensors
        packing: Packing = ctx.packing
        of_hidden = of_states.index_select(0, packing.taken)
        of_cells = torch.zeros_like(of_hidden)
        of_gates = torch.empty_like(gates)
        products = of_gates if inputs.dtype == of_gates.dtype else torch.empty_like(of_gates, dtype=inputs.dtype)
        for here, before in reversed(packing.steps):
            forget, enter, leave, candidate = gates[here].chunk(_NUM_GATES, dim=1)
            of_forget, of_enter, of_leave, of_candidate = of_gates[here].chunk(_NUM_GATES, dim=1)
            torch.mul(of_hidden[here], squashed[here], out=of_leave)
            of_cell = of_cells[here].add_(_TANH_BACKWARD(of_hidden[here].mul_(leave), squashed[here]))
            torch.mul(of_cell, candidate, out=of_enter).mul_(2.0).sub_(of_cell)
            torch.mul(of_cell, enter, out=of_candidate).mul_(2.0)
            if before.stop:
                torch.mul(of_cell, cells[before], out=of_forget)
            else:
                of_forget.zero_()
            step_gates = _SIGMOID_BACKWARD(of_gates[here], gates[here], grad_input=of_gates[here])
            if products is not of_gates:
                step_gates = products[here].copy_(step_gates)
            if before.stop:
                torch.mul(of_cell, forget, out=of_cells[before])
                of_hidden[before] += torch.mm(step_gates, hidden_weight)
        of_input_weight = torch.mm(products.t(), inputs).to(gates.dtype)
        after_first = products[packing.steps[0].here.stop :]
        factors_before = torch.cat([factors[step.before] for step in packing.steps])
        of_hidden_weight = torch.mm(after_first.t(), factors_before).to(gates.dtype)
        of_x = None
        if ctx.needs_input_grad[0]:
            packed = of_states.new_zeros(len(inputs) + 1, inputs.shape[1])
            packed[:-1] = products @ input_weight
            of_x = packed.index_select(0, packing.given).view(ctx.shape)
        return of_x, of_input_weight, of_hidden_weight, of_gates.sum(dim=0), None, None
