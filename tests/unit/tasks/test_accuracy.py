"""Accuracy, its interval and the counts of each class."""

import json
import math

import numpy as np
import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.tasks.classification.scores import score_classifications, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_interval_is_the_published_one(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)
    mirrored = wilson_interval(trials - successes, trials)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=5e-5)


@pytest.mark.parametrize(("successes", "trials"), [(3, 7), (500, 1000), (999, 1000), (1, 1)])
def test_ends_of_the_interval_are_1_96_standard_errors_away(successes, trials):
    for end in wilson_interval(successes, trials):
        distance = abs(successes / trials - end)
        assert distance == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / trials), abs=1e-6)


def test_counts_of_each_class():
    # By hand: ant 2 of 3 right, bee 1 of 1, cow 0 of 1; nobody is said to be a cow.
    expected = np.array([0, 0, 0, 1, 2])
    predicted = np.array([0, 1, 0, 1, 0])
    scores = score_classifications(predicted, expected, labels=["ant", "bee", "cow"])
    assert (scores.accuracy, scores.majority) == (60.0, 60.0)
    assert (scores.correct, scores.examples) == (3, 5)
    assert [(found.label, found.examples, found.predicted, found.correct) for found in scores.classes] == [
        ("ant", 3, 3, 2),
        ("bee", 1, 2, 1),
        ("cow", 1, 0, 0),
    ]
    assert [found.precision for found in scores.classes] == [2 / 3, 1 / 2, None]
    assert [found.recall for found in scores.classes] == [2 / 3, 1.0, 0.0]
    assert scores.accuracy_low < 60.0 < scores.accuracy_high
    as_json = json.loads(json.dumps(scores.as_dict()))
    assert as_json["classes"][2] == {
        "label": "cow", "examples": 1, "predicted": 0, "correct": 0, "precision": None, "recall": 0.0,
    }  # fmt: skip


def test_a_class_that_never_occurs_has_no_recall():
    scores = score_classifications(np.array([0, 0]), np.array([0, 0]), labels=["ant", "bee"])
    assert scores.accuracy == 100.0
    assert scores.classes[1].recall is None


@pytest.mark.parametrize(
    ("predicted", "expected", "message"),
    [
        ([], [], r"expected one for each of one or more examples, found shapes \(0,\) and \(0,\)"),
        ([0], [0, 1], r"found shapes \(1,\) and \(2,\)"),
        ([0, 2], [0, 1], "classifications: expected 0 to 1, found 0 to 2"),
        ([0, 1], [0, -1], "labels: expected 0 to 1, found -1 to 0"),
    ],
)
def test_what_cannot_be_compared(predicted, expected, message):
    with pytest.raises(DataError, match=message):
        score_classifications(np.array(predicted, dtype=int), np.array(expected, dtype=int), labels=["a", "b"])


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_proportions_that_are_none(successes, trials):
    with pytest.raises(DataError, match="successes of at least one trial, found"):
        wilson_interval(successes, trials)
