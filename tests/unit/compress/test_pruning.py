import pytest
import torch
from torch import nn

from lite_nlp.compress.prune.magnitude import (
    apply_masks,
    magnitude_mask,
    magnitude_masks,
    prunable_parameters,
    weights_restored,
)
from lite_nlp.core.errors import ModelError


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


def test_prunable_are_matrices_and_tied_ones_count_once() -> None:
    model = nn.ModuleDict({"a": nn.Linear(64, 64), "b": nn.Linear(64, 64), "small": nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    assert list(prunable_parameters(model)) == ["a.weight"]
    assert list(prunable_parameters(model, min_elements=9)) == ["a.weight", "small.weight"]


def test_a_model_without_matrices_is_refused() -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices of at least 512 elements"):
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
