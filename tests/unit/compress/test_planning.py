"""Plans: the best choice for each matrix, against all combinations."""

from itertools import product

import numpy as np
import pytest

from lite_nlp.compress.planning import lower_hull, plan_within, total_bits, total_distortion
from lite_nlp.compress.quantize.protocol import Choice


def _choice(bits: float, distortion: float) -> Choice:
    return Choice(levels=2, sparsity=0.0, bits=bits, distortion=distortion)


def _curve(seed: int, count: int = 6) -> list[Choice]:
    """Convex: each further bit saves less."""
    generator = np.random.default_rng(seed)
    bits = np.cumsum(generator.uniform(1, 5, count))
    falls = -np.sort(-generator.uniform(0.1, 3, count))
    return [_choice(float(b), float(d)) for b, d in zip(bits, 20 - np.cumsum(falls), strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_no_combination_of_as_few_bits_is_better(seed: int) -> None:
    choices = {name: _curve(10 * seed + place) for place, name in enumerate("abc")}
    for bits in np.linspace(8, 60, 9):
        plan = plan_within(choices, bits=float(bits))
        fitting = [found for found in product(*choices.values()) if sum(choice.bits for choice in found) <= bits]
        if plan is None:
            assert not fitting
            continue
        assert total_bits(plan) <= bits
        as_small = [found for found in fitting if sum(choice.bits for choice in found) <= total_bits(plan) + 1e-9]
        assert total_distortion(plan) == pytest.approx(min(sum(c.distortion for c in found) for found in as_small))


def test_a_plan_within_a_distortion_stops_before_it() -> None:
    choices = {"a": _curve(1), "b": _curve(2)}
    finest = {name: min(found, key=lambda choice: choice.distortion) for name, found in choices.items()}
    least = total_distortion(finest)
    assert plan_within(choices, distortion=least - 1e-6) is None
    assert plan_within(choices, distortion=least) == finest
    looser = plan_within(choices, distortion=least + 3)
    assert looser is not None
    assert least < total_distortion(looser) <= least + 3
    assert total_bits(looser) < total_bits(finest)


def test_choices_above_the_hull_are_never_taken() -> None:
    good = [_choice(1, 10), _choice(2, 4), _choice(4, 1)]
    dominated = [_choice(3, 4.5), _choice(3, 3.9), _choice(5, 1)]
    assert lower_hull([*dominated, *good]) == good[::-1]


def test_one_limit_is_expected() -> None:
    with pytest.raises(ValueError, match="neither or both"):
        plan_within({"a": _curve(1)})
