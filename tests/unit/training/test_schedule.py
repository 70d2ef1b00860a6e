import math

import pytest

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.training.schedule import learning_rate


def rate(step: int, **settings: object) -> float:
    config = TrainingConfig.model_validate({"learning_rate": 0.8, "warmup_steps": 100, **settings})
    return learning_rate(step, config=config, total_steps=1100)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_warm_up_is_a_straight_line_to_the_peak(schedule: str) -> None:
    assert rate(1, schedule=schedule) == pytest.approx(0.008)
    assert rate(50, schedule=schedule) == pytest.approx(0.4)
    assert rate(100, schedule=schedule) == pytest.approx(0.8)


def test_inverse_sqrt_halves_when_the_step_is_four_times_the_warm_up() -> None:
    assert rate(400, schedule="inverse_sqrt") == pytest.approx(0.4)
    assert rate(10_000, schedule="inverse_sqrt") == pytest.approx(0.08)
    assert rate(10_000, schedule="inverse_sqrt", min_learning_rate=0.1) == 0.1


def test_inverse_sqrt_without_warm_up_starts_at_the_peak() -> None:
    assert rate(1, schedule="inverse_sqrt", warmup_steps=0) == pytest.approx(0.8)
    assert rate(4, schedule="inverse_sqrt", warmup_steps=0) == pytest.approx(0.4)


def test_cosine_goes_half_a_wave_down_to_the_minimum() -> None:
    settings = {"schedule": "cosine", "min_learning_rate": 0.2}
    assert rate(600, **settings) == pytest.approx(0.5)
    assert rate(350, **settings) == pytest.approx(0.2 + 0.3 * (1 + math.sqrt(0.5)))
    assert rate(1100, **settings) == pytest.approx(0.2)
    assert rate(5000, **settings) == pytest.approx(0.2)


def test_cosine_with_a_warm_up_longer_than_training_stays_at_the_peak_or_below() -> None:
    config = TrainingConfig(learning_rate=0.8, warmup_steps=100, schedule="cosine")
    rates = [learning_rate(step, config=config, total_steps=50) for step in range(1, 120)]
    assert max(rates) <= 0.8


def test_constant_stays() -> None:
    assert rate(9999, schedule="constant") == 0.8
