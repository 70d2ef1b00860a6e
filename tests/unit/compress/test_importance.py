"""The diagonal Fisher information against the exact one of a small classifier."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.importance import diagonal_fisher
from lite_nlp.tasks.calibration import information_loss


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(4, 3)


INPUTS = torch.randn(50, 4, generator=torch.Generator().manual_seed(4))


def _predict(model: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor]:
    return F.log_softmax(model(batch), dim=-1), torch.zeros(len(batch), dtype=torch.int64)


def _exact(model: nn.Module) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """For a softmax of W x: F of W[c, j] is the mean over x of p_c (1 - p_c) x_j squared."""
    probabilities = F.softmax(model(INPUTS), dim=-1).detach().double().numpy()
    squares = INPUTS.double().numpy() ** 2
    return (probabilities * (1 - probabilities)).T @ squares / len(INPUTS)


def test_drawn_labels_give_the_fisher_information(model: nn.Module) -> None:
    parameters = {"weight": model.weight}
    loss = information_loss(_predict)
    found = diagonal_fisher(model, [INPUTS] * 800, loss, parameters=parameters)  # type: ignore[arg-type]
    np.testing.assert_allclose(found["weight"], _exact(model), rtol=0.35)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_it_predicts_the_divergence_of_a_small_change(model: nn.Module) -> None:
    change = 0.02 * torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    before = F.log_softmax(model(INPUTS), dim=-1).detach()
    assert isinstance(model, nn.Linear)
    divergences, predicted = [], []
    for row, column in np.ndindex(3, 4):
        moved = nn.Linear(4, 3)
        moved.load_state_dict(model.state_dict())
        with torch.no_grad():
            moved.weight[row, column] += change[row, column]
        after = F.log_softmax(moved(INPUTS), dim=-1).detach()
        divergences.append(float(F.kl_div(after, before, log_target=True, reduction="batchmean")))
        predicted.append(0.5 * float(_exact(model)[row, column]) * float(change[row, column]) ** 2)
    np.testing.assert_allclose(divergences, predicted, rtol=0.1)


def test_weights_without_gradients_keep_a_floor(model: nn.Module) -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return _predict(model, batch)[0][:, 0].sum()

    def batches() -> Iterator[Tensor]:
        blind = INPUTS.clone()
        blind[:, 0] = 0
        yield blind

    found = diagonal_fisher(model, batches(), loss, parameters={"weight": model.weight})  # type: ignore[arg-type]
    weight = found["weight"]
    assert np.all(weight[:, 0] > 0)
    assert weight[:, 0].max() < weight[:, 1:].mean()
    assert np.all(diagonal_fisher(model, [], loss, parameters={"weight": model.weight})["weight"] == 1)  # type: ignore[arg-type]
