"""Model directories: what is saved is what is loaded; damage is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lite_nlp.artifacts.directory import load_model_directory, model_from_state, save_model_directory
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import ConfigError, ModelError, OutputError
from tests.unit.models.conftest import randomized, small_config


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    config = Config(name="small", model=small_config(family="transformer"))
    path = tmp_path / "model"
    save_model_directory(
        path,
        config=config,
        state=randomized(config.model).state_dict(),
        tokenizer_json=b"{}",
        metrics={"steps": 3},
    )
    return path


def test_saved_and_loaded_equals_original(variant: dict[str, Any], tmp_path: Path) -> None:
    config = Config(name="small", model=small_config(**variant))
    model = randomized(config.model)
    save_model_directory(
        tmp_path, config=config, state=model.state_dict(), tokenizer_json=b'{"a": 1}', metrics={"steps": 3}
    )
    loaded = load_model_directory(tmp_path)
    assert (loaded.config, loaded.tokenizer_json, loaded.metrics) == (config, b'{"a": 1}', {"steps": 3})
    again = model_from_state(loaded.config, loaded.state, source="test")
    src, mask, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[True, True, False]]), torch.tensor([[1, 6, 7]])
    assert torch.equal(again(src, mask, tgt), model(src, mask, tgt))
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.toml",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    }


def test_every_tensor_has_one_name(variant: dict[str, Any]) -> None:
    state = randomized(small_config(**variant)).state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


@pytest.mark.parametrize("name", ["config.toml", "model.safetensors", "tokenizer.json", "metrics.json"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ModelError, match=f"expected a model directory with {name}"):
        load_model_directory(saved)


def test_truncated_weights(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(ModelError, match="expected a whole safetensors file"):
        load_model_directory(saved)


def test_damaged_json_and_config(saved: Path) -> None:
    (saved / "metrics.json").write_text("[1]")
    with pytest.raises(ModelError, match="expected a JSON object, found a list"):
        load_model_directory(saved)
    (saved / "metrics.json").write_text("{")
    with pytest.raises(ModelError, match=r"metrics\.json: expected JSON"):
        load_model_directory(saved)
    (saved / "metrics.json").write_text(json.dumps({}))
    (saved / "config.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="expected TOML"):
        load_model_directory(saved)


def test_weights_that_do_not_fit_are_all_listed() -> None:
    config = Config(name="small", model=small_config(family="transformer"))
    state = randomized(config.model).state_dict()
    state["extra"] = state.pop("encoder.0.ffn.up_proj.weight")
    state["src_embedding.weight"] = torch.zeros(5, 16)
    with pytest.raises(ModelError) as caught:
        model_from_state(config, state, source="somewhere")
    assert str(caught.value) == (
        "somewhere: weights do not fit the config: missing encoder.0.ffn.up_proj.weight; unexpected extra; "
        "src_embedding.weight expected float32 of shape (37, 16), found float32 of shape (5, 16)"
    )


def test_a_failing_write_leaves_the_old_weights(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (saved / "model.safetensors").read_bytes()
    config = load_model_directory(saved).config

    def full_disk(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OutputError, match="No space left on device"):
        save_model_directory(saved, config=config, state={}, tokenizer_json=b"", metrics={})
    assert (saved / "model.safetensors").read_bytes() == before
    assert not [path for path in saved.iterdir() if path.name.endswith(".partial")]
