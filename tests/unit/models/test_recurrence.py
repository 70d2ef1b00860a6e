"""The LSTM as one operation of autograd: against the loop over tokens, against finite differences, and its packing."""

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.config.kinds import LinearSpec
from lite_nlp.models.lstm import LSTM
from lite_nlp.models.recurrence import Packing, recurrent_states

#: Padding on the right, on the left, in the middle, everywhere but on one token, nowhere.
MASK = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
KINDS = {
    "dense": LinearSpec(),
    "r2d2": LinearSpec(kind="r2d2", n=2),
    "quaternion": LinearSpec(kind="quaternion"),
    "low-rank": LinearSpec(kind="low-rank", rank=3),
}


def _cell(linear: LinearSpec) -> LSTM:
    cell = LSTM(input_dim=12, hidden_dim=8, linear=linear)
    generator = torch.Generator().manual_seed(3)
    for parameter in cell.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return cell


def _gradients(cell: LSTM, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """States, and gradients of the input and the parameters, of a loss to which every real state contributes."""
    states, last = cell(x, MASK)
    scale = torch.randn(states.shape, generator=torch.Generator().manual_seed(1)) * MASK[:, :, None]
    loss = (states.masked_fill(~MASK[:, :, None], 0.0) * scale).sum() + (last * scale.sum(dim=1)).sum()
    gradients = torch.autograd.grad(loss, [x, *cell.parameters()])
    return [states[MASK], last], list(gradients)


@pytest.mark.parametrize("kind", KINDS)
def test_training_equals_the_loop_over_tokens(kind: str) -> None:
    cell = _cell(KINDS[kind])
    x = torch.randn(5, 4, 12, requires_grad=True)
    trained = _gradients(cell.train(), x)
    looped = _gradients(cell.eval(), x)
    torch.testing.assert_close(trained, looped)


@pytest.mark.parametrize("fixed", [False, True])
def test_gradients_are_those_of_finite_differences(fixed: bool) -> None:
    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64).requires_grad_()

    x, weights = numbers(5, 4, 3), (numbers(8, 3), numbers(8, 2), numbers(8))
    if fixed:  # pretrained vectors
        x = x.detach()

    def states(x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor) -> Tensor:
        return recurrent_states(x, MASK, input_weight=input_weight, hidden_weight=hidden_weight, bias=bias)

    assert torch.autograd.gradcheck(states, (x, *weights))


def test_bf16_products_change_states_and_gradients_by_rounding_alone() -> None:
    cell = _cell(LinearSpec())
    x = torch.randn(5, 4, 12, requires_grad=True)
    expected, expected_gradients = _gradients(cell, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, gradients = _gradients(cell, x)
    # A bf16 number has 8 bits; errors add up over four tokens and the batch.
    for a, b in zip([*found, *gradients], [*expected, *expected_gradients], strict=True):
        assert a.dtype == torch.float32
        assert float((a - b).detach().abs().max()) < 0.05 * float(b.detach().abs().max())
    assert not torch.equal(found[0], expected[0])


def test_one_token_is_no_recurrence() -> None:
    mask = torch.ones(3, 1, dtype=torch.bool)
    x = torch.randn(3, 1, 12, requires_grad=True)
    cell = _cell(LinearSpec())
    states, last = cell(x, mask)
    states.sum().backward()
    torch.testing.assert_close(states[:, 0], last)
    assert all(gate.weight.grad.count_nonzero() == 0 for gate in cell.hidden_gates)


def test_packing_takes_each_real_token_once_and_steps_follow_rows() -> None:
    packing = Packing.of(MASK)
    assert sorted(packing.taken.tolist()) == MASK.flatten().nonzero()[:, 0].tolist()
    rows = packing.taken // MASK.shape[1]
    assert [step.here.stop - step.here.start for step in packing.steps] == [5, 4, 2, 1]
    for step in packing.steps[1:]:
        assert torch.equal(rows[step.here], rows[step.before])
        assert torch.all(packing.taken[step.here] > packing.taken[step.before])
    assert packing.given[packing.taken].tolist() == list(range(len(packing.taken)))
    assert packing.given[~MASK.flatten()].unique().tolist() == [len(packing.taken)]
