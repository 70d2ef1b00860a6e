"""Weights are compared with the config before memory is allocated for the model."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from lite_nlp.artifacts.directory import load_model_directory, model_from_state, save_model_directory
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import ConfigError, LiteNlpError, ModelError
from lite_nlp.models.build import build_model
from tests.fuzz.memory import peak_bytes, reset_peak


def make_config(**changes: object) -> Config:
    sizes: dict[str, object] = {
        "family": "transformer", "src_vocab_size": 12, "tgt_vocab_size": 12, "embed_dim": 16, "ffn_dim": 16,
        "num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "cross_num_heads": 2, "max_positions": 32,
    }  # fmt: skip
    return Config(name="tiny", model=EncoderDecoderConfig.model_validate({**sizes, **changes}))


@pytest.fixture
def state() -> dict[str, Tensor]:
    return build_model(make_config().model).state_dict()


@pytest.fixture
def directory(tmp_path: Path, state: dict[str, Tensor]) -> Path:
    save_model_directory(tmp_path, config=make_config(), state=state, tokenizer_json=b"{}", metrics={"seconds": 1.5})
    return tmp_path


def test_a_model_comes_back(directory: Path, state: dict[str, Tensor]) -> None:
    loaded = load_model_directory(directory)
    model = model_from_state(loaded.config, loaded.state, source="tiny")
    assert not model.training
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.float64])
def test_weights_of_another_type_are_refused(state: dict[str, Tensor], dtype: torch.dtype) -> None:
    name = next(iter(state))
    shape = tuple(state[name].shape)
    with pytest.raises(ModelError) as caught:
        model_from_state(make_config(), {**state, name: state[name].to(dtype)}, source="tiny")
    found = str(dtype).removeprefix("torch.")
    assert f"{name} expected float32 of shape {shape}, found {found} of shape {shape}" in str(caught.value)


def test_missing_and_unexpected_weights_are_named(state: dict[str, Tensor]) -> None:
    first, second = list(state)[:2]
    changed = {name: tensor for name, tensor in state.items() if name != first} | {"more": state[second]}
    with pytest.raises(ModelError, match=f"tiny: weights do not fit the config: missing {first}; unexpected more"):
        model_from_state(make_config(), changed, source="tiny")


@pytest.mark.parametrize(
    "changes",
    [
        {"ffn_dim": 1 << 16, "embed_dim": 1 << 16},
        {"src_vocab_size": 1 << 19, "tgt_vocab_size": 1 << 19, "embed_dim": 1 << 12},
        {"max_positions": 1 << 17, "embed_dim": 1 << 14},
        {"num_encoder_layers": 200, "num_decoder_layers": 200, "ffn_dim": 1 << 16},
    ],
)
def test_a_large_config_over_small_weights_takes_no_memory(
    state: dict[str, Tensor], changes: dict[str, object]
) -> None:
    reset_peak()
    before = peak_bytes()
    with pytest.raises(ModelError, match=r"^tiny: weights do not fit the config: ") as caught:
        model_from_state(make_config(**changes), state, source="tiny")
    assert len(str(caught.value)) < 2000
    assert peak_bytes() - before < 200_000_000


def test_a_table_of_positions_out_of_proportion_is_refused(state: dict[str, Tensor]) -> None:
    # No weight has its size, so that all of them fit; 131,072 rows of 16 channels are 8 MB and allowed, of 1024 not.
    assert model_from_state(make_config(max_positions=1 << 17), state, source="tiny")
    wide = make_config(max_positions=1 << 17, embed_dim=1024)
    weights = build_model(make_config(embed_dim=1024).model).state_dict()
    with pytest.raises(ModelError, match="tiny: max_positions: expected tables of at most"):
        model_from_state(wide, weights, source="tiny")


def test_matrices_built_out_of_proportion_are_refused() -> None:
    # 16 matrices of 64 MB each, built from 2 MB: n = 64 is beyond every published model, n = 16 is not.
    shape = {"embed_dim": 4096, "ffn_dim": 4096, "num_heads": 1, "cross_num_heads": 1}
    config = make_config(**shape, attention_linear="r2d2", ffn_linear="r2d2", linear_n=64)
    with torch.device("meta"):
        planned = build_model(config.model).state_dict()
    weights = {name: torch.zeros(tensor.shape) for name, tensor in planned.items()}
    reset_peak()
    before = peak_bytes()
    with pytest.raises(ModelError, match=r"tiny: linear_n: expected matrices of at most \d+ bytes, built from weights"):
        model_from_state(config, weights, source="tiny")
    assert peak_bytes() - before < 200_000_000


HOSTILE = [b"", b"[" * 100_000, b"\xff", b"9" * 9000, b'{"a": NaN}', b"a = " + b"[" * 100_000, b"[]" * 3_000_000]


@pytest.mark.parametrize("content", HOSTILE)
@pytest.mark.parametrize("name", ["config.toml", "metrics.json", "model.safetensors"])
def test_hostile_files_are_refused_with_their_name(directory: Path, name: str, content: bytes) -> None:
    (directory / name).write_bytes(content)
    with pytest.raises((ModelError, ConfigError), match=name):
        load_model_directory(directory)


@pytest.mark.parametrize("name", ["config.toml", "metrics.json", "model.safetensors", "tokenizer.json"])
def test_a_directory_in_place_of_a_file_is_refused(directory: Path, name: str) -> None:
    (directory / name).unlink()
    (directory / name).mkdir()
    with pytest.raises(LiteNlpError, match=f"{name}: expected a model directory with {name}, found"):
        load_model_directory(directory)
