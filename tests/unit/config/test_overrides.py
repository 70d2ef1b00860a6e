"""``--set``: lists, lists with one item per layer, and what is suggested for unknown keys."""

import logging
from pathlib import Path

import pytest

from lite_nlp.config.model import ARCHITECTURES
from lite_nlp.config.overrides import LAYER_LISTS
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import ConfigError, UsageError

PRESET = "multi30k-lite-transformer"


def _kernels(*overrides: str, preset: str = PRESET) -> tuple[tuple[int, ...], tuple[int, ...]]:
    dumped = load_config(preset, overrides).model.model_dump()
    return dumped["kernel_sizes"], dumped["decoder_kernel_sizes"]


def test_a_string_is_no_list_of_overrides() -> None:
    with pytest.raises(UsageError, match=r"overrides: expected a sequence of section\.key=value, found the string"):
        load_config("multi30k-transformer", "model.dropout=0.2")


def test_a_list_without_brackets() -> None:
    assert _kernels("model.kernel_sizes=3,5,7,9") == ((3, 5, 7, 9), (3, 7, 15, 31))
    assert _kernels("model.kernel_sizes = [3, 5, 7, 9]") == ((3, 5, 7, 9), (3, 7, 15, 31))
    assert _kernels("model.num_encoder_layers=1", "model.kernel_sizes=5")[0] == (5,)


def test_a_text_with_a_comma_is_no_list() -> None:
    config = load_config("transformer-iwslt-128", ["reproduces.row=small, tied"])
    assert config.reproduces is not None
    assert config.reproduces.row == "small, tied"


@pytest.mark.parametrize(
    ("layers", "sizes"), [(1, (3,)), (3, (3, 7, 15)), (4, (3, 7, 15, 31)), (6, (3, 7, 15, 31, 31, 31))]
)
def test_an_inherited_list_follows_the_number_of_layers(layers: int, sizes: tuple[int, ...]) -> None:
    assert _kernels(f"model.num_encoder_layers={layers}") == (sizes, (3, 7, 15, 31))
    assert _kernels(f"model.num_decoder_layers={layers}") == ((3, 7, 15, 31), sizes)


def test_a_list_does_not_follow_more_layers_than_a_model_may_have() -> None:
    # A list of so many sizes would take petabytes.
    with pytest.raises(ConfigError, match=r"model\.num_encoder_layers: .*less than or equal to 256, found 10{15}"):
        _kernels(f"model.num_encoder_layers={10**15}")


def test_the_change_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="lite_nlp"):
        _kernels("model.num_encoder_layers=2")
        _kernels("model.num_encoder_layers=4")
        _kernels("model.num_encoder_layers=2", "model.kernel_sizes=3,5")
    assert caplog.messages == [
        "--set: model.kernel_sizes follows model.num_encoder_layers = 2: [3, 7, 15, 31] becomes [3, 7]"
    ]


@pytest.mark.parametrize("overrides", [("model.kernel_sizes=3,7",), ("model.kernel_sizes=3", "model.embed_dim=64")])
def test_a_list_of_its_own_of_the_wrong_length_is_an_error(overrides: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="kernel_sizes: expected 4 sizes for a lite-transformer with 4 layers"):
        _kernels(*overrides)


def test_a_list_follows_the_number_of_layers_of_an_extending_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "{PRESET}"\nname = "mine"\n[model]\nnum_encoder_layers = 2\n', encoding="utf-8")
    assert _kernels(preset=str(path)) == ((3, 7), (3, 7, 15, 31))
    assert _kernels("model.num_encoder_layers=3", preset=str(path))[0] == (3, 7, 7)
    path.write_text(path.read_text(encoding="utf-8") + "kernel_sizes = [3]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected 2 sizes"):
        _kernels(preset=str(path))


def test_every_list_of_a_model_is_one_per_layer_or_known_not_to_be() -> None:
    lists = {
        key
        for member in ARCHITECTURES.values()
        for key, field in member.model_fields.items()
        if "tuple" in str(field.annotation)
    }
    assert lists == {*LAYER_LISTS, "adaptive_cutoffs"}
    for number in LAYER_LISTS.values():
        assert any(number in member.model_fields for member in ARCHITECTURES.values())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.emb_dim=8", "unknown key model.emb_dim; did you mean 'model.embed_dim'?"),
        ("training.embed_dim=8", "unknown key training.embed_dim; did you mean 'model.embed_dim'?"),
        ("training.max_stepz=8", "unknown key training.max_stepz; did you mean 'training.max_steps'?"),
        ("train.max_steps=8", "unknown key train; did you mean 'training'?"),
        ("embed_dim=8", "expected section.key=value; did you mean 'model.embed_dim'?"),
        ("model.family=lite-transfomer", "found 'lite-transfomer'; did you mean 'lite-transformer'?"),
        ("model.architecture=encoder_decoder", "found 'encoder_decoder'; did you mean 'encoder-decoder'?"),
        ("training.precision=fp23", "found 'fp23'; did you mean 'fp32'?"),
    ],
)
def test_the_nearest_key_or_value_is_suggested(override: str, message: str) -> None:
    with pytest.raises((ConfigError, UsageError)) as raised:
        load_config(PRESET, [override])
    assert str(raised.value).endswith(message)


def test_keys_of_other_architectures_are_not_suggested() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("r2d2-lstm-nli-dense", ["model.num_classe=2", "model.num_header=2"])
    assert "unknown key model.num_classe; did you mean 'model.num_classes'?" in str(raised.value)
    assert "num_heads" not in str(raised.value)
