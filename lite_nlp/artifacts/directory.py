"""The model directory: ``config.toml``, ``model.safetensors``, ``tokenizer.json``, ``metrics.json``. No pickles."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.config.preset import Config, dump_config, parse_config
from lite_nlp.core.errors import ModelError
from lite_nlp.core.files import write_bytes, write_text
from lite_nlp.core.parsing import MAX_DOCUMENT_BYTES, parse_json_object, parsing, read_document
from lite_nlp.data.tokenizer_document import MAX_TOKENIZER_BYTES
from lite_nlp.models.build import Model, build_model, plan_model
from lite_nlp.models.built_linear import BuiltLinear

__all__ = ["ModelDirectory", "check_sizes", "load_model_directory", "model_from_state", "save_model_directory"]

_CONFIG, _WEIGHTS, _TOKENIZER, _METRICS = MODEL_FILES

#: Twice what a model of a billion parameters has.
_MAX_WEIGHTS_BYTES: Final = 8 << 30

#: Of the tables of positions, beside as many bytes as the weights have; the largest published ones have 6 MB.
_MAX_TABLE_BYTES: Final = 64 << 20

#: Matrices that are built from factors are at most so many times as large as all weights, beside as much as the tables:
#: R2D2's largest published n is 16.
_MAX_BUILT: Final = 16


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
    write_text(path / _CONFIG, dump_config(config))
    write_bytes(path / _TOKENIZER, tokenizer_json)
    write_text(path / _METRICS, json.dumps(metrics, indent=2) + "\n")
    # The weights come last: a directory that has them is complete.
    write_bytes(path / _WEIGHTS, save_safetensors(contiguous))


def load_model_directory(path: Path) -> ModelDirectory:
    """Read a model directory.

    Raises:
        ModelError: If a file is missing or damaged.
        ConfigError: If the config is invalid.
    """
    config_toml, metrics_json = (_read(path, name, MAX_DOCUMENT_BYTES) for name in (_CONFIG, _METRICS))
    weights = _read(path, _WEIGHTS, _MAX_WEIGHTS_BYTES)
    with parsing(str(path / _WEIGHTS), "a whole safetensors file", ModelError):
        state = load_safetensors(weights)
    return ModelDirectory(
        config=parse_config(config_toml, name=str(path / _CONFIG)),
        state=state,
        tokenizer_json=_read(path, _TOKENIZER, MAX_TOKENIZER_BYTES),
        metrics=parse_json_object(metrics_json, source=str(path / _METRICS), error=ModelError),
    )


def model_from_state(config: Config, state: Mapping[str, Tensor], *, source: str) -> Model:
    """Build the config's model and fill it with ``state``, strictly; returned in evaluation mode.

    Args:
        config: Describes the model.
        state: Every weight of it, under its name.
        source: Where the state came from, for error messages.

    Raises:
        ModelError: If weights are missing, unexpected, or of another shape or type, which is found before memory is
            allocated for the model; or if the config asks for tables of positions out of all proportion.
    """
    planned = plan_model(config.model)
    expected = planned.state_dict()
    problems = [f"missing {name}" for name in expected if name not in state]
    problems += [f"unexpected {name}" for name in state if name not in expected]
    problems += [
        f"{name} expected {_describe(expected[name])}, found {_describe(tensor)}"
        for name, tensor in state.items()
        if name in expected and (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype)
    ]
    if problems:
        raise ModelError(f"{source}: weights do not fit the config: {'; '.join(problems)}")
    check_sizes(planned, source)
    model = build_model(config.model)
    model.load_state_dict(dict(state))
    return model.eval()


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def check_sizes(planned: Model, source: str) -> None:
    """Check the size of what a config asks for and no file holds: tables of positions, matrices built from factors.

    Args:
        planned: The config's model, on the device "meta".
        source: Its name, for messages.

    Raises:
        ModelError: If they are out of all proportion to the weights.
    """
    weights = sum(tensor.nbytes for tensor in planned.state_dict().values())
    tables = sum(buffer.nbytes for buffer in planned.buffers())
    limit = _MAX_TABLE_BYTES + weights
    if tables > limit:
        raise ModelError(
            f"{source}: max_positions: expected tables of at most {limit} bytes beside weights of {weights}, "
            f"found {tables}"
        )
    layers = [layer for layer in planned.modules() if isinstance(layer, BuiltLinear)]
    built = sum(layer.in_features * layer.out_features * torch.float32.itemsize for layer in layers)
    limit = _MAX_TABLE_BYTES + _MAX_BUILT * weights
    if built > limit:
        raise ModelError(
            f"{source}: linear_n: expected matrices of at most {limit} bytes, built from weights of {weights}, found "
            f"{built}"
        )


def _read(path: Path, name: str, max_bytes: int) -> bytes:
    expected = f"a model directory with {name}"
    return read_document(path / name, expected=expected, error=ModelError, max_bytes=max_bytes)
