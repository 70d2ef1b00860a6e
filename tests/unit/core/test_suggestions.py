from pathlib import Path

import pytest

from lite_nlp.configs import list_presets
from lite_nlp.core.suggestions import did_you_mean, did_you_mean_path, expected_one_of


@pytest.mark.parametrize(
    ("found", "nearest"),
    [
        ("multi30k-transfomer", "multi30k-transformer"),
        ("Multi30K_Transformer", "multi30k-transformer"),
        ("multi30k-lite", "multi30k-lite-transformer"),
        ("iwslt-transformer-128", "transformer-iwslt-128"),
    ],
)
def test_the_nearest_preset(found: str, nearest: str) -> None:
    assert did_you_mean(found, list_presets()) == f"; did you mean '{nearest}'?"


def test_what_is_said_of_an_unknown_name() -> None:
    known = {"train": 1, "valid": 2}
    assert expected_one_of(known, "trian") == "expected one of train, valid, found 'trian'; did you mean 'train'?"
    assert expected_one_of(known, "heldout") == "expected one of train, valid, found 'heldout'"


def test_names_that_are_equally_near() -> None:
    known = ["num_encoder_layers", "num_decoder_layers", "num_heads"]
    expected = "; did you mean 'num_encoder_layers' or 'num_decoder_layers'?"
    assert did_you_mean("num_layers", known) == expected


@pytest.mark.parametrize("found", ["", "x", "completely-different"])
def test_what_is_near_to_nothing(found: str) -> None:
    assert did_you_mean(found, ["multi30k-transformer", "tatoeba"]) == ""


def test_a_path_that_goes_astray_at_one_name(tmp_path: Path) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "model.lnlp").touch()
    for wrong in ("runs/frist", "run/first", "runs/first/model.lnpl"):
        right = {"runs/first/model.lnpl": "runs/first/model.lnlp"}.get(wrong, "runs/first")
        assert did_you_mean_path(tmp_path / wrong) == f"; did you mean '{tmp_path / right}'?"
    assert did_you_mean_path(tmp_path / "runs" / "first") == ""
    assert did_you_mean_path(tmp_path / "run" / "frist") == ""


def test_a_known_name_goes_before_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tatoeba-en-d").mkdir()
    assert did_you_mean_path(Path("tatoeba-en-de2"), ["tatoeba-en-de"]) == "; did you mean 'tatoeba-en-de'?"
    assert did_you_mean_path(Path("tatoeba-en-d2")) == "; did you mean 'tatoeba-en-d'?"
