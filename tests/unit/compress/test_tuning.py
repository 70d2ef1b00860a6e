"""Tuning: weights keep their form at every step, tighten gradually, survive interruptions and losses that are NaN."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import GridTensor, grid_bits
from lite_nlp.compress.planning import plan_within
from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.quantize.protocol import HeldWeights, Quantizer, TrainableWeights
from lite_nlp.compress.quantize.trained_grid import GridQuantizer, TrainedGrid
from lite_nlp.compress.tuning import PrunedWeights, TuningOptions, tune
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ModelError

FloatArray = NDArray[np.float32]

QUANTIZERS: Sequence[Quantizer] = (KMeansQuantizer(), GridQuantizer())


class Regression(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(24, 64)
        self.down = nn.Linear(64, 24)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.down(torch.relu(self.up(x)))
        return hidden


def _model() -> Regression:
    torch.manual_seed(0)
    return Regression()


INPUTS = torch.randn(64, 24, generator=torch.Generator().manual_seed(1))
TARGETS = _model()(INPUTS).detach()


def _loss(model: nn.Module, _: object = None) -> Tensor:
    return F.mse_loss(model(INPUTS), TARGETS) / TARGETS.var()


def _trainable(model: nn.Module, quantizer: Quantizer, bits_per_weight: float) -> TrainableWeights:
    """Weights that training will tighten to so many bits each."""
    parameters = prunable_parameters(model)
    arrays = {name: parameter.detach().numpy().copy() for name, parameter in parameters.items()}
    importance: Mapping[str, FloatArray] = {name: np.ones_like(array) for name, array in arrays.items()}
    choices = {name: quantizer.choices(array, importance[name]) for name, array in arrays.items()}
    plan = plan_within(choices, bits=bits_per_weight * sum(array.size for array in arrays.values()))
    assert plan is not None
    return quantizer.fit(arrays, plan, importance).trainable(parameters)


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=lambda quantizer: quantizer.name)
def test_tuning_makes_up_for_much_of_the_loss(quantizer: Quantizer) -> None:
    model = _model()
    weights = _trainable(model, quantizer, 2.0)
    weights.tighten(1.0)
    untuned = float(_loss(model).detach())
    tuned_model = _model()
    tuned = _trainable(tuned_model, quantizer, 2.0)
    sizes: list[float] = []
    tune(
        tuned_model,
        repeat(0),
        _loss,
        weights=tuned,
        options=TuningOptions(steps=300),
        on_step=lambda _, bits: sizes.append(bits),
    )
    assert float(_loss(tuned_model).detach()) < 0.85 * untuned
    # The weights are those of the file at the end, whose size was approached from above.
    for name, values in tuned.quantized().values().items():
        np.testing.assert_allclose(tuned_model.get_parameter(name).detach().numpy(), values, rtol=1e-6)
    planned = 2.0 * sum(parameter.numel() for parameter in prunable_parameters(model).values())
    assert sizes[0] > 1.3 * sizes[-1]
    assert sizes[-1] < 1.1 * planned


def test_clusters_that_training_fills_more_evenly_take_no_more_than_planned() -> None:
    def peaked() -> Regression:
        """A model most of whose weights are near zero, where training does not leave them."""
        model = _model()
        with torch.no_grad():
            for parameter in prunable_parameters(model).values():
                parameter.copy_(25 * parameter**3)
        return model

    planned = _trainable(peaked(), KMeansQuantizer(), 3.0).tighten(1.0)
    model = peaked()
    weights = _trainable(model, KMeansQuantizer(), 3.0)
    tune(model, repeat(0), _loss, weights=weights, options=TuningOptions(steps=300))
    # 4 % more where nothing holds them.
    assert weights.tighten(1.0) < 1.005 * planned


def test_a_step_goes_down_the_mean_of_its_batches() -> None:
    # Of other inputs, so that there is something to learn.
    targets = TARGETS.roll(1, dims=0)
    halves = [(INPUTS[:32], targets[:32]), (INPUTS[32:], targets[32:])]

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1]) / TARGETS.var()

    def tuned(batches: list[tuple[Tensor, Tensor]], options: TuningOptions) -> tuple[Regression, list[float]]:
        model, losses = _model(), list[float]()
        weights = PrunedWeights(prunable_parameters(model), dict.fromkeys(prunable_parameters(model), 0.5))

        def note(value: float, _: float) -> None:
            losses.append(value)

        tune(model, iter(batches), loss, weights=weights, options=options, on_step=note)
        return model, losses

    whole, expected = tuned([(INPUTS, targets)] * 5, TuningOptions(steps=5))
    parts, found = tuned([*halves * 5, halves[0]], TuningOptions(steps=5, batches_per_step=2))
    torch.testing.assert_close(found, expected)
    first = _model().state_dict()
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], weight)
        assert not torch.equal(first[name], weight)
    assert len(tuned([*halves, halves[0]], TuningOptions(steps=5, batches_per_step=2))[1]) == 1


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=lambda quantizer: quantizer.name)
def test_weights_are_quantized_after_every_step(quantizer: Quantizer) -> None:
    model = _model()
    weights = _trainable(model, quantizer, 2.0)
    checked = []

    def check(_: float, bits: float) -> None:
        checked.append(quantized := weights.quantized().values())
        for name, values in quantized.items():
            np.testing.assert_allclose(model.get_parameter(name).detach().numpy(), values, rtol=1e-6, atol=1e-9)

    tune(model, repeat(0), _loss, weights=weights, options=TuningOptions(steps=25), on_step=check)
    assert len(checked) == 25
    assert all(checked)


class _Stopped(Exception):  # noqa: N818
    """Raised in the middle of a tuning."""


@pytest.mark.parametrize("held", ["kmeans", "grid", "pruned"])
def test_an_interrupted_tuning_goes_on_to_the_same_weights(held: str, tmp_path: Path) -> None:
    """Batches differ, so that the one after the interruption has to be the right one."""

    def batches() -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed(7)
        while True:
            yield torch.randn(16, 24, generator=generator)

    teacher = _model()

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return F.mse_loss(model(batch), teacher(batch).detach())

    def hold(model: nn.Module) -> HeldWeights:
        if held == "pruned":
            return PrunedWeights(prunable_parameters(model), {"up.weight": 0.5, "down.weight": 0.7})
        quantizer = next(quantizer for quantizer in QUANTIZERS if quantizer.name == held)
        return _trainable(model, quantizer, 2.0)

    before: list[int] = []

    def run(model: nn.Module, work: Work | None, on_step: Callable[[float, float], None]) -> None:
        options = TuningOptions(steps=60)
        weights = hold(model)
        tune(
            model,
            batches(),
            loss,
            weights=weights,
            options=options,
            work=work,
            on_step=on_step,
            on_resumed=before.append,
        )

    whole = _model()
    run(whole, None, lambda loss, bits: None)

    class Eager(Work):
        def due(self) -> bool:
            return True

    steps = 0

    def stop(loss: float, bits: float) -> None:
        nonlocal steps
        steps += 1
        if steps == 37:
            raise _Stopped

    interrupted = _model()
    with pytest.raises(_Stopped):
        run(interrupted, Eager(tmp_path / "work", "key").phase("tuned"), stop)
    resumed, taken = _model(), []
    run(resumed, Eager(tmp_path / "work", "key").phase("tuned"), lambda loss, bits: taken.append(loss))
    assert len(taken) == 60 - 37
    assert before == [37]
    for name, tensor in _state(whole).items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0)


def test_a_loss_without_a_value_is_stepped_back_from() -> None:
    calls = 0

    def loss(model: nn.Module, batch: object) -> Tensor:
        nonlocal calls
        calls += 1
        return _loss(model) * (math.nan if calls in (30, 31) else 1.0)

    model = _model()
    steps: list[float] = []
    weights = _trainable(model, GridQuantizer(), 2.0)
    options = TuningOptions(steps=80)
    tune(model, repeat(0), loss, weights=weights, options=options, on_step=lambda value, _: steps.append(value))
    assert calls > 80 + 2
    assert all(math.isfinite(value) for value in steps)
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())


def test_losses_that_are_never_numbers_are_refused() -> None:
    model = _model()
    weights = _trainable(model, GridQuantizer(), 2.0)
    before = _state(model)
    with pytest.raises(ModelError, match="expected losses that are numbers"):
        tune(
            model, repeat(0), lambda model, _: _loss(model) * math.nan, weights=weights,
            options=TuningOptions(steps=10),
        )  # fmt: skip
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())
    assert before.keys() == model.state_dict().keys()


def test_long_trainings_take_smaller_steps() -> None:
    def moved(steps: int) -> float:
        """How far the first step moves the weights."""
        model = _model()
        with torch.no_grad():
            model.down.weight.mul_(0.5)
        parameters = prunable_parameters(model)
        before = _state(model)
        held = PrunedWeights(parameters, dict.fromkeys(parameters, 0.0))
        tune(model, iter([0]), _loss, weights=held, options=TuningOptions(steps=steps))
        return max(float((tensor - before[name]).abs().max()) for name, tensor in model.state_dict().items())

    assert moved(1_000) > 0
    assert moved(100) == pytest.approx(moved(1_000), rel=1e-2)
    assert moved(4_000) == pytest.approx(moved(1_000) / 4, rel=1e-2)
    assert moved(10_000) == pytest.approx(moved(1_000) / 10, rel=1e-2)


def test_the_learning_rate_falls_once_in_each_cycle() -> None:
    once, thrice = TuningOptions(steps=200), TuningOptions(steps=600, cycles=3)
    rates = [thrice.rate(step) for step in range(600)]
    assert rates[:200] == [once.rate(step) for step in range(200)]
    assert max(rates[:200]) > 0.9
    for start in (200, 400):
        cycle = rates[start : start + 200]
        # From the middle of the first, after its warm-up, to the same end.
        assert cycle[0] < 0.1
        assert max(cycle) == pytest.approx(once.rate(110), rel=0.02)
        assert cycle[20:] == sorted(cycle[20:], reverse=True)
        assert cycle[-1] == pytest.approx(rates[199], rel=0.02)
    # A brief training has one cycle; steps that cycles do not divide are all taken.
    assert thrice.shortened(0.1, least=1) == TuningOptions(steps=60)
    assert all(0 < TuningOptions(steps=7, cycles=3).rate(step) <= 1 for step in range(7))


def _pruned(options: TuningOptions) -> tuple[Regression, list[float]]:
    """A model tuned while six tenths of one matrix are pruned, and the fraction of its zeros after each step."""
    model = _model()
    zeros: list[float] = []

    def record(_: float, bits: float) -> None:
        zeros.append(float((model.up.weight == 0).float().mean()))

    weights = PrunedWeights(prunable_parameters(model), {"up.weight": 0.6, "down.weight": 0.0})
    tune(model, repeat(0), _loss, weights=weights, options=options, on_step=record)
    return model, zeros


def test_weights_tighten_in_the_first_cycle() -> None:
    _, zeros = _pruned(TuningOptions(steps=120, cycles=2, tightening=0.5))
    assert zeros[9] < 0.5
    assert zeros[30] == pytest.approx(0.6, abs=1e-3)
    assert zeros[-1] == pytest.approx(0.6, abs=1e-3)


def test_pruning_rises_to_its_sparsity_and_stays() -> None:
    model, zeros = _pruned(TuningOptions(steps=60))
    assert zeros[0] < 0.1
    assert zeros == sorted(zeros)
    assert zeros[-1] == pytest.approx(0.6, abs=1e-3)
    assert not (model.down.weight == 0).any()


def test_tokens_that_no_batch_has_stay_within_their_grid() -> None:
    """Rows without gradients have next to no information; their steps are bounded."""
    torch.manual_seed(2)
    embedding = nn.Embedding(64, 32)
    importance = np.ones((64, 32), dtype=np.float32)
    importance[40:] = 1e-12
    values = embedding.weight.detach().numpy().copy()
    quantizer = GridQuantizer()
    choices = quantizer.choices(values, importance)
    plan = {"weight": choices[len(choices) // 2]}
    found = quantizer.fit({"weight": values}, plan, {"weight": importance}).values()["weight"]
    assert np.all(np.isfinite(found))
    assert np.abs(found).max() <= 3 * np.abs(values).max()


def test_the_size_of_a_grid_is_held_where_weights_gather_at_borders() -> None:
    """A small change of the steps throws many of them across, where a control loop would swing to and fro."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Linear(256, 256)
    weights = _trainable(model, GridQuantizer(), 2.0)
    assert isinstance(weights, TrainedGrid)
    wanted = weights.tighten(1.0)
    spread = 0.004 * torch.randn(model.weight.shape, generator=generator)
    with torch.no_grad():
        (latent,) = weights.trained
        latent.copy_(latent.abs().floor().add_(0.5).mul_(latent.sign()).add_(spread))
    sizes = [weights.tighten(1.0) for _ in range(12)]
    assert sizes[-1] == pytest.approx(wanted, rel=0.015)
    # Nothing trains in between, so that nothing is left to change.
    assert len(set(sizes[-4:])) == 1


def test_where_the_size_is_held_weights_at_the_borders_of_dead_zones_stay_on_both_sides() -> None:
    """They are the mean of two levels together: all on one side they are another weight each."""
    generator = torch.Generator().manual_seed(5)
    weights = _trainable(nn.Linear(256, 256), GridQuantizer(), 2.0)
    assert isinstance(weights, TrainedGrid)
    weights.tighten(0.9)
    weights.tighten(1.0)
    (latent,), (zone,) = weights.trained, weights.state()["zones"]
    with torch.no_grad():
        gathered = latent[:64]
        gathered.copy_(gathered.sign() * (zone + 0.001 * torch.randn(gathered.shape, generator=generator)))
    weights.tighten(1.0)
    before = np.abs(weights.quantized().tensors["weight"].levels[:64])
    with torch.no_grad():
        # More zeros among the others: fewer bits, and zeros that are cheaper.
        latent[64:128] *= 0.3
    weights.tighten(1.0)
    after = np.abs(weights.quantized().tensors["weight"].levels[:64])
    assert after.mean() == pytest.approx(before.mean(), abs=0.2)


def test_the_size_of_a_grid_is_counted_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """How the size depends on the steps is known from the adjustments before."""
    counted = []

    def count(tensors: Mapping[str, GridTensor]) -> dict[str, float]:
        counted.append(len(tensors))
        return grid_bits(tensors)

    monkeypatch.setattr("lite_nlp.compress.quantize.trained_grid.grid_bits", count)
    generator = torch.Generator().manual_seed(4)
    weights = _trainable(nn.Linear(256, 256), GridQuantizer(), 2.0)
    assert isinstance(weights, TrainedGrid)
    wanted = weights.tighten(1.0)
    (latent,) = weights.trained
    rounds = []
    for _ in range(20):
        with torch.no_grad():
            # As training spreads the weights of a model.
            latent.mul_(1.01).add_(0.05 * torch.randn(latent.shape, generator=generator))
        counted.clear()
        assert weights.tighten(1.0) == pytest.approx(wanted, rel=0.0035)
        rounds.append(len(counted))
    assert sum(rounds[3:]) <= 3.2 * len(rounds[3:])
