"""The model directory: ``config.toml``, ``model.safetensors``, ``tokenizer.json``, ``metrics.json``. No pickles."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from lite_nlp.config.preset import Config, dump_config, parse_config
from lite_nlp.core.errors import ModelError
from lite_nlp.core.files import write_bytes, write_text
from lite_nlp.models.build import Model, build_model

__all__ = ["MODEL_FILES", "ModelDirectory", "load_model_directory", "model_from_state", "save_model_directory"]

MODEL_FILES: Final = ("config.toml", "tokenizer.json", "metrics.json", "model.safetensors")


@dataclass(frozen=True)
class ModelDirectory:
    """The content of a model directory."""

    config: Config
    state: dict[str, Tensor]
    tokenizer_json: bytes
    metrics: dict[str, Any]


def save_model_directory(
    path: Path, *, config: Config, state: Mapping[str, Tensor], tokenizer_json: bytes, metrics: Mapping[str, Any]
) -> None:
    """Write the four files into ``path``, which is created if necessary; each appears complete or not at all.

    Args:
        path: The directory; other files in it are left alone.
        config: Written as ``config.toml``.
        state: The model's state dict.
        tokenizer_json: The tokenizer file's bytes.
        metrics: A JSON object.

    Raises:
        OutputError: If the system refuses a write.
    """
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    write_text(path / "config.toml", dump_config(config))
    write_bytes(path / "tokenizer.json", tokenizer_json)
    write_text(path / "metrics.json", json.dumps(metrics, indent=2) + "\n")
    # The weights come last: a directory that has them is complete.
    write_bytes(path / "model.safetensors", save_safetensors(contiguous))


def load_model_directory(path: Path) -> ModelDirectory:
    """Read a model directory.

    Raises:
        ModelError: If a file is missing or damaged.
        ConfigError: If the config is invalid.
    """
    contents = {name: _read(path, name) for name in ("config.toml", "model.safetensors", "tokenizer.json")}
    try:
        state = load_safetensors(contents["model.safetensors"])
    except SafetensorError as error:
        raise ModelError(f"{path / 'model.safetensors'}: expected a whole safetensors file, found: {error}") from error
    metrics_text = _read(path, "metrics.json")
    try:
        config_text = contents["config.toml"].decode("utf-8")
        metrics = json.loads(metrics_text)
    except ValueError as error:
        raise ModelError(f"{path}: config.toml or metrics.json is damaged: {error}") from error
    if not isinstance(metrics, dict):
        raise ModelError(f"{path / 'metrics.json'}: expected a JSON object, found {type(metrics).__name__}")
    return ModelDirectory(
        config=parse_config(config_text, name=str(path / "config.toml")),
        state=state,
        tokenizer_json=contents["tokenizer.json"],
        metrics=metrics,
    )


def model_from_state(config: Config, state: Mapping[str, Tensor], *, source: str) -> Model:
    """Build the config's model and fill it with ``state``, strictly; returned in evaluation mode.

    Args:
        config: Describes the model.
        state: Every weight of it, under its name.
        source: Where the state came from, for error messages.

    Raises:
        ModelError: If weights are missing, unexpected or of another shape; all of them are named.
    """
    model = build_model(config.model)
    expected = model.state_dict()
    problems = [f"missing {name}" for name in expected if name not in state]
    problems += [f"unexpected {name}" for name in state if name not in expected]
    problems += [
        f"{name} expected shape {tuple(expected[name].shape)}, found {tuple(tensor.shape)}"
        for name, tensor in state.items()
        if name in expected and tensor.shape != expected[name].shape
    ]
    if problems:
        raise ModelError(f"{source}: weights do not fit the config: {'; '.join(problems)}")
    model.load_state_dict(dict(state))
    return model.eval()


def _read(path: Path, name: str) -> bytes:
    try:
        return (path / name).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: expected a model directory with {name}, found none: {error}") from error
