import re
from collections.abc import Callable

import pytest

from lite_nlp.config.preset import Config, dump_config, load_config, parse_config
from lite_nlp.core.errors import ConfigError, UsageError
from tests.selection import PRESETS

PRESET = "lite-transformer-iwslt-160"


def _message(*overrides: str, preset: str = PRESET) -> str:
    with pytest.raises(ConfigError) as raised:
        load_config(preset, overrides)
    return str(raised.value)


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("model.width=8", ["unknown key model.width"]),
        ("optimizer.name=adam", ["unknown key optimizer"]),
        ("training.epochs=3", ["unknown key training.epochs"]),
        ("model.embed_dim=wide", ["model.embed_dim", "valid integer", "found 'wide'"]),
        ("model.embed_dim='160'", ["model.embed_dim", "valid integer", "found '160'"]),
        ("model.embed_dim=160.0", ["model.embed_dim", "valid integer", "found 160.0"]),
        ("model.conv_glu=1", ["model.conv_glu", "valid boolean", "found 1"]),
        ("model.family=mamba", ["model.family", "'transformer', 'lite-transformer'", "'t2r'", "found 'mamba'"]),
        ("model.dropout=1.0", ["model.dropout", "less than 1", "found 1.0"]),
        ("training.learning_rate=0", ["training.learning_rate", "greater than 0"]),
        ("training.learning_rate=nan", ["training.learning_rate", "finite number", "found nan"]),
        ("training.learning_rate=inf", ["training.learning_rate", "finite number", "found inf"]),
        ("training.clip_norm=inf", ["training.clip_norm", "finite number", "found inf"]),
        ("training.max_steps=0", ["training.max_steps", "greater than or equal to 1", "found 0"]),
        ("training.min_learning_rate=1", ["training", "min_learning_rate: expected at most learning_rate", "found 1"]),
    ],
)
def test_unknown_keys_and_wrong_values_name_key_expectation_and_finding(override: str, parts: list[str]) -> None:
    message = _message(override)
    assert message.startswith(f"{PRESET}: ")
    for part in parts:
        assert part in message


def test_all_problems_are_reported_at_once() -> None:
    message = _message("model.width=8", "training.epochs=3", "model.dropout=2.0")
    assert "unknown key model.width" in message
    assert "unknown key training.epochs" in message
    assert "model.dropout" in message


@pytest.mark.parametrize("override", ["model.embed_dim", "embed_dim=8", "=8", "model.=8", ""])
def test_malformed_overrides(override: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--set {override}: expected section.key=value")):
        load_config(PRESET, [override])


def test_an_override_below_a_plain_value() -> None:
    assert "expected a section, found the plain value name" in _message("name.first=lite")


def test_missing_keys_and_broken_toml() -> None:
    with pytest.raises(ConfigError, match=r"mine: .*missing key model.embed_dim"):
        parse_config('name = "mine"\n[model]\nfamily = "transformer"\nffn_dim = 4\n', name="mine")
    with pytest.raises(ConfigError, match=r"mine: expected TOML, found an error"):
        parse_config("name = ", name="mine")


def test_an_unknown_source_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match="expected a config file or the name of a preset, found an empty name"):
        load_config("")
    with pytest.raises(ConfigError, match=r"nowhere.toml: expected a config file or the name .*found neither$"):
        load_config("nowhere.toml")


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("model.ffn_dim=320", lambda config: config.model.ffn_dim == 320),
        ("model.kernel_sizes=[3, 3, 3, 3, 3, 5]", lambda config: config.model.kernel_sizes == (3, 3, 3, 3, 3, 5)),
        ("training.precision=bf16", lambda config: config.training.precision == "bf16"),
        ("training.clip_norm=1", lambda config: config.training.clip_norm == 1.0),
        ("model.conv_glu = true", lambda config: config.model.conv_glu is True),
    ],
)
def test_overrides_change_one_key(override: str, found: Callable[[Config], bool]) -> None:
    assert found(load_config(PRESET, [override]))


@pytest.mark.parametrize("preset", PRESETS)
def test_dumped_presets_read_back_equal(preset: str) -> None:
    config = load_config(preset)
    assert isinstance(config, Config)
    assert parse_config(dump_config(config), name=preset) == config


def test_fewest_and_most_tokens_of_an_output_do_not_contradict() -> None:
    message = _message("decoding.min_length=9", "decoding.max_length=3")
    assert "min_length: expected at most max_length (3), found 9" in message
