import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.greedy import remove_greedily
from lite_nlp.compress.prune.units import Slices, UnitGroup, rank_units, unit_losses, without_units, zero_units


def pairs(width: int) -> Tensor:
    """Units of two neighbours."""
    return torch.arange(width).view(-1, 2)


GROUP = UnitGroup(
    "up", (Slices("0.weight", 0, pairs(6)), Slices("0.bias", 0, pairs(6)), Slices("2.weight", 1, pairs(6)))
)


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def test_removed_units_are_those_at_zero(model: nn.Sequential) -> None:
    smaller = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 3))
    smaller.load_state_dict(without_units(model.state_dict(), GROUP, [2, 0]))
    assert torch.equal(smaller[0].weight, model[0].weight[2:4])
    x = torch.randn(5, 4)
    zero_units(dict(model.named_parameters()), GROUP, [0, 2])
    torch.testing.assert_close(smaller(x), model(x))
    assert model[2].bias.abs().min() > 0


def test_nothing_is_removed(model: nn.Sequential) -> None:
    state = model.state_dict()
    assert all(without_units(state, GROUP, [])[name] is tensor for name, tensor in state.items())


def test_the_loss_of_a_unit_is_that_of_a_quadratic(model: nn.Sequential) -> None:
    """Where the loss is half of the sum of F w^2, it is exact."""
    generator = np.random.default_rng(0)
    parameters = dict(model.named_parameters())
    information = {name: generator.random(tuple(tensor.shape)) for name, tensor in parameters.items()}

    def loss() -> float:
        return sum(
            0.5 * float((information[name] * w.detach().double().numpy() ** 2).sum()) for name, w in parameters.items()
        )

    found = unit_losses(GROUP, parameters, information)
    before = loss()
    zero_units(parameters, GROUP, [1])
    assert before - loss() == pytest.approx(found[1], rel=1e-6)
    assert len(found) == GROUP.size == 3


def test_buffers_cost_nothing(model: nn.Sequential) -> None:
    parameters = {"0.weight": model[0].weight}
    information = {"0.weight": np.ones((6, 4))}
    expected = 0.5 * model[0].weight.detach().double().square().sum(dim=1).view(3, 2).sum(dim=1)
    assert unit_losses(GROUP, parameters, information) == pytest.approx(expected.tolist())


def test_units_are_ranked_by_their_losses() -> None:
    assert rank_units([0.3, 0.1, 0.3, 0.0]) == [3, 1, 0, 2]


def test_the_cheapest_loss_per_saving_goes_first() -> None:
    """Items of (loss, saving); what is left is a set of names."""
    items = {"a": (1.0, 1.0), "b": (1.0, 4.0), "c": (3.0, 6.0)}

    def moves(left: frozenset[str]) -> list[frozenset[str]]:
        return [left - {name} for name in sorted(left)]

    def chosen(limit: float) -> list[str]:
        left = remove_greedily(
            frozenset(items),
            moves=moves,
            loss=lambda left: sum(items[name][0] for name in items if name not in left),
            cost=lambda left: sum(items[name][1] for name in left),
            limit=limit,
        )
        return sorted(left)

    assert chosen(11.0) == ["a", "b", "c"]
    assert chosen(7.0) == ["a", "c"]
    # Only one more is needed: what a large item saves beyond that counts nothing.
    assert chosen(6.0) == ["c"]
    assert chosen(1.0) == ["a"]
    # Out of reach: as far as it gets.
    assert chosen(-1.0) == []
