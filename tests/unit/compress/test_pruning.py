from itertools import pairwise

import pytest
import torch
from torch import nn

from lite_nlp.compress.prune.allocation import GRID, SensitivityCurve, allocate_sparsity
from lite_nlp.compress.prune.magnitude import (
    apply_masks,
    largest_sparsity,
    magnitude_mask,
    magnitude_masks,
    prunable_parameters,
    weights_restored,
)
from lite_nlp.compress.prune.sensitivity import scan_sensitivity
from lite_nlp.core.errors import ModelError

#: Where the grid has a sparsity of one half.
HALF = 20


class TwoMatrices(nn.Module):
    """One matrix that decides everything, one that decides nothing, and a bias."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.vital = nn.Linear(64, 64)
        self.idle = nn.Linear(64, 64)
        for layer in (self.vital, self.idle):
            nn.init.normal_(layer.weight, generator=generator)
        self.before = self.vital.weight.detach().clone()

    def loss(self) -> float:
        return float((self.vital.weight.detach() - self.before).square().mean())


def _curve(costs: list[float], weights: int = 100) -> SensitivityCurve:
    return SensitivityCurve(num_weights=weights, sparsities=(0.5, 0.9), loss_increases=tuple(costs), energies=GRID**2)


def test_prunable_are_matrices_and_tied_ones_count_once() -> None:
    model = nn.ModuleDict({"a": nn.Linear(64, 64), "b": nn.Linear(64, 64), "small": nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    assert list(prunable_parameters(model)) == ["a.weight"]
    assert list(prunable_parameters(model, min_elements=9)) == ["a.weight", "small.weight"]


def test_a_model_without_matrices_is_refused() -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices of at least 2048 elements"):
        prunable_parameters(nn.LayerNorm(4))


def test_the_smallest_weights_go() -> None:
    values = torch.tensor([[0.1, -3.0], [-0.2, 1.0]])
    assert magnitude_mask(values, 0.5).tolist() == [[False, True], [False, True]]
    assert magnitude_mask(values, 0.0).all()
    assert not magnitude_mask(values, 1.0).any()


def test_equal_weights_still_reach_the_sparsity() -> None:
    assert int(magnitude_mask(torch.ones(10), 0.3).sum()) == 7


def test_masks_are_applied_in_place_and_undone() -> None:
    model = TwoMatrices()
    parameters = prunable_parameters(model)
    masks = magnitude_masks(parameters, {"vital.weight": 0.5, "idle.weight": 0.25})
    with weights_restored(parameters):
        apply_masks(parameters, masks)
        assert int((model.vital.weight == 0).sum()) == 2048
        assert int((model.idle.weight == 0).sum()) == 1024
    assert torch.equal(model.vital.weight, model.before)


def test_weights_are_restored_after_an_error() -> None:
    def fail() -> None:
        with weights_restored(parameters):
            apply_masks(parameters, magnitude_masks(parameters, {"vital.weight": 1.0}))
            raise RuntimeError("midway")

    model = TwoMatrices()
    parameters = {"vital.weight": model.vital.weight}
    with pytest.raises(RuntimeError, match="midway"):
        fail()
    assert torch.equal(model.vital.weight, model.before)


def test_scan_finds_which_matrix_matters_and_leaves_the_weights_alone() -> None:
    model = TwoMatrices()
    calls = []
    curves = scan_sensitivity(
        model,
        lambda module: module.loss(),  # type: ignore[operator]
        parameters=prunable_parameters(model),
        sparsities=(0.5, 0.8),
        on_evaluation=lambda: calls.append(1),
    )
    assert len(calls) == 4
    assert model.loss() == 0.0
    assert curves["idle.weight"].loss_increases == (0.0, 0.0)
    halfway, most = curves["vital.weight"].loss_increases
    # Pruning removes exactly the energy that the curve says it does.
    total = float(model.before.square().mean())
    assert halfway == pytest.approx(total * float(curves["vital.weight"].energies[HALF]), rel=1e-3)
    assert 0 < halfway < most < total


@pytest.mark.parametrize("sparsities", [(), (0.5, 0.4), (0.0,), (0.99,)])
def test_impossible_scans(sparsities: tuple[float, ...]) -> None:
    model = TwoMatrices()
    with pytest.raises(ValueError, match="sparsities: expected ascending ones"):
        scan_sensitivity(model, lambda _: 0.0, parameters=prunable_parameters(model), sparsities=sparsities)


@pytest.mark.parametrize("target", [0.0, 0.1, 0.5, 0.8, 0.95])
def test_allocation_reaches_the_target(target: float) -> None:
    curves = {"a": _curve([0.1, 0.5], 1000), "b": _curve([0.0, 0.01], 300), "c": _curve([-0.1, 2.0], 50)}
    shares = allocate_sparsity(curves, target)
    zeros = sum(shares[name] * curve.num_weights for name, curve in curves.items())
    assert zeros == pytest.approx(target * 1350, abs=1e-6)
    assert all(0 <= share <= 0.95 + 1e-9 for share in shares.values())


def test_sensitive_matrices_keep_more() -> None:
    shares = allocate_sparsity({"vital": _curve([1.0, 5.0]), "idle": _curve([0.0, 0.0])}, 0.5)
    assert shares["idle"] > 0.9
    assert shares["vital"] < 0.1


def test_alike_matrices_share_alike() -> None:
    shares = allocate_sparsity({"a": _curve([0.1, 0.4]), "b": _curve([0.1, 0.4])}, 0.5)
    assert shares["a"] == pytest.approx(shares["b"], abs=0.03)


def test_costs_pass_through_what_was_measured_and_never_fall() -> None:
    costs = _curve([0.2, 0.1]).costs()
    assert costs[0] == 0
    assert costs[HALF] == pytest.approx(0.2, abs=2e-3)
    assert all(later >= earlier for earlier, later in pairwise(costs))


def test_impossible_target() -> None:
    with pytest.raises(ValueError, match=r"target sparsity: expected 0 to 0.95, found 1.0"):
        allocate_sparsity({"a": _curve([0.1, 0.2])}, 1.0)


def test_largest_sparsity_is_the_one_whose_loss_is_still_tolerated() -> None:
    model = TwoMatrices()
    parameters = {"vital.weight": model.vital.weight}
    curves = scan_sensitivity(model, lambda module: module.loss(), parameters=parameters)  # type: ignore[operator]
    tolerance = 0.1 * float(model.before.square().mean())
    found = largest_sparsity(
        model,
        lambda module: module.loss(),  # type: ignore[operator]
        parameters=parameters,
        curves=curves,
        tolerance=tolerance,
    )
    squares = model.before.square().flatten().sort().values.cumsum(0)
    exact = float((squares <= 0.1 * squares[-1]).double().mean())
    assert exact - 0.03 <= found <= exact
    assert model.loss() == 0.0
