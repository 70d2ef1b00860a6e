"""A long short-term memory whose gates are Linears of any kind (R2D2, section 3.1).

Shape letters: B batch, T tokens, D input channels, H hidden channels.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from lite_nlp.config.kinds import LinearSpec
from lite_nlp.models.built_linear import BuiltLinear, is_traced
from lite_nlp.models.linear import FactorizedLinear, build_linear
from lite_nlp.models.recurrence import recurrent_states
from lite_nlp.models.roles import Role, mark

__all__ = ["LSTM"]

#: Forget, input and output gate, and the candidate: the paper's order.
_NUM_GATES = 4


class LSTM(nn.Module):
    """One layer, left to right, over padded batches.

    Each gate has one Linear for the input and one for the hidden state, eight in all, and there is one bias vector:
    the layout with which the R2D2 paper's parameter counts (table 1) come out. The hidden state is sigmoid(o) tanh(c)
    as in the LSTM that the paper compares with; the paper's formula for h omits both functions.

    Args:
        input_dim: Channels D of the input.
        hidden_dim: Channels H of the states.
        linear: The kind of the gates' Linears.
    """

    def __init__(self, *, input_dim: int, hidden_dim: int, linear: LinearSpec) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.input_gates = nn.ModuleList(
            build_linear(input_dim, hidden_dim, linear, role=Role.LSTM_INPUT, bias=False) for _ in range(_NUM_GATES)
        )
        self.hidden_gates = nn.ModuleList(
            build_linear(hidden_dim, hidden_dim, linear, role=Role.LSTM_HIDDEN, bias=False) for _ in range(_NUM_GATES)
        )
        bias = nn.Parameter(torch.zeros(_NUM_GATES * hidden_dim))
        self.bias = mark(bias, Role.LSTM_BIAS, inputs=hidden_dim, outputs=hidden_dim)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Run over ``x`` (B, T, D), T >= 1, whose real tokens are True in ``mask`` (B, T).

        Returns:
            The states after each token (B, T, H), without a meaning at padding, and after the last one (B, H). Padding
            at any place leaves the state unchanged.
        """
        if torch.compiler.is_exporting():
            return self._exported(x, mask)
        return self._trained(x, mask) if self.training and not is_traced(x) else self._step_by_step(x, mask)

    def _trained(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """All tokens as one operation, with weights built once."""
        states = recurrent_states(
            x,
            mask,
            input_weight=_joint_weight(self.input_gates),
            hidden_weight=_joint_weight(self.hidden_gates),
            bias=self.bias,
        )
        places = torch.arange(mask.shape[1], device=mask.device)
        last = (mask * places).argmax(dim=1)
        return states, states[torch.arange(len(mask), device=mask.device), last]

    def _step_by_step(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Token by token, in a loop of Python."""
        inputs, recur = self._inputs(x), self._recurrence(x)
        hidden = x.new_zeros(x.shape[0], self.hidden_dim)
        cell = torch.zeros_like(hidden)
        states = []
        for token, keep in zip(inputs.unbind(1), mask[:, :, None].unbind(1), strict=True):
            hidden, cell = _step(token + recur(hidden), keep, hidden, cell)
            states.append(hidden)
        return torch.stack(states, dim=1), hidden

    def _exported(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Token by token, in a loop of the graph, whose length is not fixed when it is traced."""
        # Where a gradient might be wanted, torch takes a loop apart to find it.
        inputs, recur = self._inputs(x).detach(), self._recurrence(x.detach())
        hidden = x.new_zeros(x.shape[0], self.hidden_dim)

        def step(state: tuple[Tensor, Tensor], token: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, Tensor], Tensor]:
            new = _step(token[0] + recur(state[0]), token[1], *state)
            # What leaves a step twice has to be two tensors.
            return new, new[0].clone()

        tokens = inputs.transpose(0, 1), mask.transpose(0, 1)[:, :, None]
        (last, _), states = scan(step, (hidden, torch.zeros_like(hidden)), tokens)
        return states.transpose(0, 1), last

    def _inputs(self, x: Tensor) -> Tensor:
        """The gates' share of the input (B, T, 4 H)."""
        return _joint_map(self.input_gates, x)(x) + self.bias

    def _recurrence(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """The gates' map of the hidden state, (B, H) -> (B, 4 H)."""
        return _joint_map(self.hidden_gates, x)


def _step(gates: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state (B, H) after a token whose gates are (B, 4 H); unchanged where ``keep`` (B, 1) is False."""
    forget, enter, leave, candidate = gates.chunk(_NUM_GATES, dim=-1)
    new_cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    kept = torch.where(keep, leave.sigmoid() * new_cell.tanh(), hidden)
    return kept, torch.where(keep, new_cell, cell)


def _joint_map(gates: nn.ModuleList, x: Tensor) -> Callable[[Tensor], Tensor]:
    """The map of all gates, (..., D) -> (..., 4 H), for a sequence ``x``: one product where their weights are dense."""
    # A factorized weight is built once for all tokens, even where its factors would be cheaper for a single token.
    weights = [
        gate.dense_weight(x) if isinstance(gate, BuiltLinear) else gate.weight
        for gate in gates
        if isinstance(gate, (BuiltLinear, nn.Linear))
    ]
    if len(weights) == _NUM_GATES:
        weight = torch.cat(weights)
        return lambda inputs: F.linear(inputs, weight)
    return lambda inputs: torch.cat([gate(inputs) for gate in gates], dim=-1)


def _joint_weight(gates: nn.ModuleList) -> Tensor:
    """The dense weights of the gates, one below the other."""
    linears = (cast(nn.Linear | FactorizedLinear, gate) for gate in gates)
    return torch.cat([gate.weight if isinstance(gate, nn.Linear) else gate.build_weight() for gate in linears])
