from collections.abc import Iterator
from itertools import repeat

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.finetune import FinetuneOptions, finetune_pruned, finetune_quantized
from lite_nlp.compress.lnlp.encodings import ClusteredTensor
from lite_nlp.compress.prune.magnitude import magnitude_masks
from lite_nlp.compress.quantize.shared_centroids import SharedCentroids

Batch = tuple[Tensor, Tensor]


def _model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(8, 4)


def _batches() -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 8, generator=generator)
    return repeat((inputs, inputs @ torch.randn(8, 4, generator=generator)))


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def _clusters(model: nn.Linear) -> dict[str, ClusteredTensor]:
    assignments = np.random.default_rng(2).integers(0, 5, (4, 8)).astype(np.uint16)
    return {"weight": ClusteredTensor(np.array([-0.4, -0.1, 0, 0.2, 0.5], dtype=np.float32), assignments)}


def _shared(model: nn.Linear) -> SharedCentroids:
    return SharedCentroids({"weight": model.weight}, _clusters(model))


def test_pruned_weights_stay_zero_and_the_loss_falls() -> None:
    model = _model()
    masks = magnitude_masks({"weight": model.weight}, {"weight": 0.5})
    losses: list[float] = []
    finetune_pruned(
        model,
        _batches(),
        _loss,
        masks=masks,
        options=FinetuneOptions(steps=60, learning_rate=0.02),
        on_step=losses.append,
    )
    assert len(losses) == 60
    assert losses[-1] < 0.8 * losses[0]
    assert torch.equal(model.weight != 0, masks["weight"])
    assert model.weight.grad is None


def test_shared_weights_move_together_and_zero_stays() -> None:
    model = _model()
    clusters = _clusters(model)
    losses: list[float] = []
    weights = _shared(model)
    finetune_quantized(
        model,
        _batches(),
        _loss,
        weights=weights,
        options=FinetuneOptions(steps=80, learning_rate=0.02),
        on_step=losses.append,
    )
    tuned = weights.clusters()["weight"]
    assert losses[-1] < 0.9 * losses[0]
    assert tuned.codebook[2] == 0.0
    assert not np.any(np.delete(tuned.codebook, 2) == np.delete(clusters["weight"].codebook, 2))
    assert np.array_equal(tuned.assignments, clusters["weight"].assignments)
    assert np.array_equal(model.weight.detach().numpy(), tuned.values())


def test_a_centroids_gradient_is_the_sum_over_its_weights() -> None:
    # One step of plain descent by hand: Adam's first step has the size of the learning rate and the sign of the sum.
    model = _model()
    clusters = _clusters(model)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(clusters["weight"].values()))
    _loss(model, next(_batches())).backward()
    assert model.weight.grad is not None
    gradient = model.weight.grad.numpy()
    sums = np.array([gradient[clusters["weight"].assignments == index].sum() for index in range(5)])
    weights = _shared(model)
    finetune_quantized(model, _batches(), _loss, weights=weights, options=FinetuneOptions(steps=1, learning_rate=0.01))
    moved = weights.clusters()["weight"].codebook - clusters["weight"].codebook
    expected = -0.01 * np.sign(sums) * (clusters["weight"].codebook != 0)
    assert moved == pytest.approx(expected, abs=1e-5)


def test_an_interruption_leaves_consistent_weights() -> None:
    def interrupted() -> Iterator[Batch]:
        yield next(_batches())
        raise KeyboardInterrupt

    model = _model()
    masks = magnitude_masks({"weight": model.weight}, {"weight": 0.5})
    with pytest.raises(KeyboardInterrupt):
        finetune_pruned(model, interrupted(), _loss, masks=masks, options=FinetuneOptions(steps=9))
    assert torch.equal(model.weight != 0, masks["weight"])
    with pytest.raises(KeyboardInterrupt):
        finetune_quantized(model, interrupted(), _loss, weights=_shared(model), options=FinetuneOptions(steps=9))
    assert len(np.unique(model.weight.detach().numpy())) == 5


def test_batches_that_run_out_end_it() -> None:
    steps: list[float] = []
    finetune_pruned(
        _model(),
        iter([next(_batches())] * 3),
        _loss,
        masks={},
        options=FinetuneOptions(steps=10),
        on_step=steps.append,
    )
    assert len(steps) == 3


def test_trained_centroids_are_put_in_order_and_merged() -> None:
    weight = nn.Parameter(torch.zeros(1, 4))
    assignments = np.array([[0, 1, 2, 3]], dtype=np.uint16)
    clusters = ClusteredTensor(np.array([0.0, 5.0, 1.0, 1.0], dtype=np.float32), assignments)
    recoded = SharedCentroids({"w": weight}, {"w": clusters}).quantized().clusters["w"]
    assert recoded.codebook.tolist() == [0.0, 1.0, 5.0]
    assert recoded.values().tolist() == [[0.0, 5.0, 1.0, 1.0]]
