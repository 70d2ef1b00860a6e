import pytest
import torch

from lite_nlp.compress.prune.estimates import WidthEstimate
from lite_nlp.compress.prune.units import Slices, UnitGroup

GROUPS = [UnitGroup(f"layer {place}", (Slices(f"{place}.weight", 0, torch.arange(32)[:, None]),)) for place in range(3)]
LOSSES = {group.name: [0.01] * 32 for group in GROUPS}


def estimate_of(measured: dict[int, float]) -> WidthEstimate:
    return WidthEstimate(
        key="width", choices=[32, 24, 16, 8], groups=GROUPS, losses=LOSSES, measure=lambda units: measured[units]
    )


def test_estimates_follow_the_measurements() -> None:
    # Twice what is predicted with a quarter gone, ten times with three quarters.
    measured = {24: 0.01 * 8 * 3 * 2, 16: 0.01 * 16 * 3 * 4, 8: 0.01 * 24 * 3 * 10}
    estimate = estimate_of(measured)
    assert {probe.units: probe.factor for probe in estimate.probes} == pytest.approx({24: 2.0, 16: 4.0, 8: 10.0})
    assert estimate.loss(32, GROUPS) == 0
    for units, loss in measured.items():
        assert estimate.loss(units, GROUPS) == pytest.approx(loss)
        # Of layers that are gone nothing can be lost any more.
        assert estimate.loss(units, GROUPS[:1]) == pytest.approx(loss / 3)


def test_to_remove_more_costs_no_less() -> None:
    estimate = estimate_of({24: 0.5, 16: 0.1, 8: -0.2})
    assert [estimate.loss(units, GROUPS) for units in (24, 16, 8)] == pytest.approx([0.5, 0.5, 0.5])
