"""Overrides change a config that is given as an object as they change one that is read from a file."""

from pathlib import Path

import pytest

import lite_nlp
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import UsageError

PRESET = "multi30k-transformer"


def test_a_config_is_changed_as_its_preset_is() -> None:
    config, overrides = load_config(PRESET), ["model.ffn_dim=64", "model.num_encoder_layers=2", "training.seed=5"]
    assert load_config(config, overrides) == load_config(PRESET, overrides)
    assert config == load_config(PRESET)
    counted, named = (lite_nlp.count_model(target, overrides=overrides) for target in (config, PRESET))
    assert (counted.params, counted.macs) == (named.params, named.macs)
    with pytest.raises(UsageError, match="--set changes a preset or config file, found the finished model multi30k"):
        lite_nlp.count_model("multi30k-en-de", overrides=overrides)


def test_training_and_distillation_refuse_what_they_cannot_set(tmp_path: Path) -> None:
    config = load_config(PRESET)
    with pytest.raises(UsageError, match=r"--set nonsense: expected section\.key=value"):
        lite_nlp.train_model(config, data=tmp_path, out=tmp_path / "run", overrides=["nonsense"])
    with pytest.raises(UsageError, match=r"--set nonsense: expected section\.key=value"):
        lite_nlp.distill_model("multi30k-en-de", config, data=tmp_path, out=tmp_path / "run", overrides=["nonsense"])
