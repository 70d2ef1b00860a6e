"""Intervals and paired tests against sacreBLEU's and against closed forms."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from lite_nlp.compress import significance
from lite_nlp.compress.significance import (
    SEED,
    Measure,
    Scored,
    changes_between,
    interval_of,
    mean_measure,
    paired_test,
)
from lite_nlp.tasks.translation.bleu import translation_measures

RNG = np.random.default_rng(7)
WORDS = [f"w{number}" for number in range(40)]
REFERENCES = [" ".join(RNG.choice(WORDS, size=12)) for _ in range(120)]


def _spoil(share: float, seed: int) -> list[str]:
    """The references with so many words replaced."""
    rng = np.random.default_rng(seed)
    return [
        " ".join("wrong" if rng.random() < share else word for word in reference.split()) for reference in REFERENCES
    ]


GOOD, BAD = _spoil(0.2, 1), _spoil(0.21, 5)


def test_scores_intervals_and_paired_tests_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    good, bad = (translation_measures(outputs, REFERENCES) for outputs in (GOOD, BAD))
    metrics = {"BLEU": BLEU(references=[REFERENCES]), "chrF2": CHRF(references=[REFERENCES])}
    found = PairedTest(
        [("good", GOOD), ("bad", BAD)], metrics, references=None, test_type="bs", n_samples=1000, n_jobs=1
    )()[1]
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        before, after = found[key]
        change = paired_test(good[name], bad[name])
        assert good[name].value == pytest.approx(before.score, abs=1e-6)
        assert change.difference == pytest.approx(after.score - before.score, abs=1e-6)
        # The same resamples: mean and width of the interval agree to the precision of sacreBLEU's floats of 32 bits.
        assert float(bad[name].resampled.mean()) == pytest.approx(after.mean, abs=1e-3)
        low, high = bad[name].interval
        assert (high - low) / 2 == pytest.approx(after.ci, abs=1e-3)
        # Theirs counts one direction of a difference, ours both.
        assert 1.5 * after.p_value < change.p < 3 * after.p_value
        assert change.low < change.difference < change.high


def test_a_paired_test_of_means_is_near_the_normal_one() -> None:
    rng = np.random.default_rng(3)
    before = rng.normal(50, 10, 400)
    after = before + rng.normal(-0.25, 2.0, 400)
    change = paired_test(mean_measure(before), mean_measure(after))
    lost = after - before
    error = lost.std() / math.sqrt(len(lost))
    assert change.difference == pytest.approx(lost.mean())
    # The probability that a normal number is as far from zero, in either direction.
    assert change.p == pytest.approx(math.erfc(abs(lost.mean()) / error / math.sqrt(2)), abs=0.03)
    assert change.low == pytest.approx(lost.mean() - 1.96 * error, abs=0.2 * error)
    assert change.high == pytest.approx(lost.mean() + 1.96 * error, abs=0.2 * error)
    # The scores vary far more than their difference.
    low, high = mean_measure(before).interval
    assert high - low > 3 * (change.high - change.low)


def test_equal_outputs_are_not_different() -> None:
    measure = translation_measures(GOOD, REFERENCES)["bleu"]
    change = paired_test(measure, translation_measures(GOOD, REFERENCES)["bleu"])
    assert change.as_dict() == {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}


def test_a_clear_difference_has_the_least_probability() -> None:
    right, wrong = np.full(300, 100.0), np.tile([100.0, 0.0], 150)
    change = paired_test(mean_measure(right), mean_measure(wrong))
    assert change.difference == -50
    assert change.p == pytest.approx(1 / 1001)


def test_outputs_without_any_match_have_a_score(recwarn: pytest.WarningsRecorder) -> None:
    measures = translation_measures(["nothing"] * 10, REFERENCES[:10])
    assert measures["bleu"].interval == (0.0, 0.0)
    assert not recwarn.list


def test_the_interval_cuts_off_a_fortieth_of_each_end() -> None:
    assert interval_of(np.random.default_rng(0).permutation(1000).astype(float)) == (25.0, 974.0)


def test_a_ratio_of_sums_is_resampled_as_a_whole() -> None:
    """Perplexity: windows of different lengths count by their tokens."""
    statistics = np.array([[10.0, 10.0], [90.0, 30.0]])
    measure = Measure(statistics=statistics, compute=lambda sums: math.exp(sums[0] / sums[1]))
    assert measure.value == pytest.approx(math.exp(100 / 40))
    assert {round(score, 6) for score in measure.resampled} == {
        round(math.exp(mean), 6) for mean in (1.0, 100 / 40, 3.0)
    }


def test_many_examples_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = mean_measure(np.random.default_rng(1).random(50))
    whole = measure.resample(40, 9)
    monkeypatch.setattr(significance, "_BLOCK", 170)
    assert measure.resample(40, 9) == pytest.approx(whole)


def test_what_cannot_be_compared_is_left_out_or_refused() -> None:
    one, two = mean_measure([1.0, 2.0]), mean_measure([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="paired test: expected as many examples, found 2 and 3"):
        paired_test(one, two)
    before = Scored(scores={"a": 1.5, "b": 1.5}, measures={"a": one, "b": one, "c": mean_measure([1.0])})
    after = Scored(scores={"a": 1.5, "b": 2.0}, measures={"a": one, "b": two, "c": mean_measure([2.0]), "d": one})
    assert set(changes_between(before, after)) == {"a"}
    # One example says nothing about others.
    assert set(before.intervals()) == {"a", "b"}
