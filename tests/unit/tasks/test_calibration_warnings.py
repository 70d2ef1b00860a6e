"""Warnings about the text that guides a compression: each fires on its own cause and on nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from lite_nlp.tasks.calibration_warnings import CalibrationFacts, calibration_warnings

SOUND = CalibrationFacts(
    name="500 sentences of data valid",
    scanned=856,
    tuned=90_000,
    scored=500,
    loss=1.6,
    own_loss=1.44,
    languages=("en", "de"),
    own_languages=("en-US", "deu"),
    given=True,
    quantized=0,
)


def test_sound_text_is_not_warned_of() -> None:
    assert calibration_warnings(SOUND) == []
    assert calibration_warnings(replace(SOUND, own_loss=None, languages=None, own_languages=None, tuned=None)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scanned": 37}, "measured on 37 predictions of 500 sentences of data valid, expected at least 200"),
        ({"tuned": 412}, "412 predictions of the train split to finetune on, expected at least 1,000"),
        ({"scored": 12}, "12 examples of 500 sentences of data valid are scored, expected at least 100"),
        (
            {"loss": 8.05},
            "perplexity on 500 sentences of data valid is 3,133.8, on its own validation split it was 4.2",
        ),
        ({"languages": ("de", "en")}, "which are de to en; the model is en-US to deu: give --data in its languages"),
        ({"quantized": 34}, "34 matrices of the model have been quantized before"),
    ],
)
def test_each_cause_has_its_warning(change: dict[str, Any], said: str) -> None:
    (warning,) = calibration_warnings(replace(SOUND, **change))
    assert said in warning


def test_the_size_of_the_packages_own_text_is_known() -> None:
    assert calibration_warnings(replace(SOUND, given=False, tuned=412, scored=99)) == []
    (warning,) = calibration_warnings(replace(SOUND, given=False, own_languages=("en", "cs")))
    assert warning.endswith("the model is en to cs: give --data")


def test_unknown_languages_are_not_compared() -> None:
    assert calibration_warnings(replace(SOUND, languages=("src", "tgt"))) == []
