"""Measured sensitivity against predictions, and what becomes of the choices."""

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.quantize.protocol import Choice
from lite_nlp.compress.quantize.trained_grid import GridQuantizer
from lite_nlp.compress.sensitivity import Probe, Sensitivity, correct_choices, measure_sensitivity


class TwoMatrices(nn.Module):
    """One matrix that decides everything, and one that decides nothing."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.vital = nn.Linear(64, 64)
        self.idle = nn.Linear(64, 64)
        for layer in (self.vital, self.idle):
            nn.init.normal_(layer.weight, generator=generator)
        self.before = self.vital.weight.detach().clone()

    def loss(self) -> float:
        return float((self.vital.weight.detach() - self.before).square().sum())


def test_the_quotient_of_measured_and_predicted_is_found() -> None:
    """The loss is the squared error itself: twice what an importance of one predicts."""
    model = TwoMatrices()
    parameters = prunable_parameters(model)
    importance = {name: np.ones(parameter.shape, dtype=np.float32) for name, parameter in parameters.items()}
    quantizer = GridQuantizer()
    choices = {
        name: quantizer.choices(parameter.detach().numpy(), importance[name]) for name, parameter in parameters.items()
    }
    calls: list[int] = []
    found = measure_sensitivity(
        model,
        lambda module: module.loss(),  # type: ignore[operator]
        quantizer=quantizer,
        parameters=parameters,
        importance=importance,
        choices=choices,
        on_evaluation=lambda: calls.append(1),
    )
    assert model.loss() == 0.0
    assert len(calls) == sum(len(sensitivity.probes) for sensitivity in found.values()) == 4
    fine, coarse = found["vital.weight"].probes
    assert fine.bits_per_weight > coarse.bits_per_weight
    assert fine.sparsity < coarse.sparsity
    assert fine.factor == pytest.approx(2.0, rel=0.02)
    assert coarse.factor == pytest.approx(2.0, rel=0.02)
    assert [probe.measured for probe in found["idle.weight"].probes] == [0.0, 0.0]
    corrected = correct_choices(choices, found)
    for before, after in zip(choices["vital.weight"], corrected["vital.weight"], strict=True):
        assert after.distortion == pytest.approx(2 * before.distortion, rel=0.02)
    assert corrected["idle.weight"][-1].distortion < 0.2 * choices["idle.weight"][-1].distortion


def test_between_the_probes_the_correction_is_interpolated() -> None:
    sensitivity = Sensitivity(100, (Probe(2.5, 0.4, 1.0, 2.0), Probe(1.0, 0.8, 1.0, 8.0)))
    assert sensitivity.factor(4.0) == pytest.approx(2.0)
    assert sensitivity.factor(1.75) == pytest.approx(4.0)
    assert sensitivity.factor(0.1) == pytest.approx(8.0)
    choice = Choice(levels=3, sparsity=0.7, bits=175.0, distortion=0.5)
    assert correct_choices({"a": [choice]}, {"a": sensitivity})["a"][0].distortion == pytest.approx(2.0)


@pytest.mark.parametrize(("measured", "factor"), [(-0.5, 0.1), (1e-9, 0.1), (1e9, 10.0), (0.5, 0.5)])
def test_noise_does_not_free_or_freeze_a_matrix(measured: float, factor: float) -> None:
    assert Probe(1.0, 0.5, 1.0, measured).factor == pytest.approx(factor)
