"""The names of a model directory's files."""

from typing import Final

__all__ = ["MODEL_FILES"]

#: Files of a model directory that belong to the model: configuration, weights, tokenizer, metrics.
MODEL_FILES: Final = ("config.toml", "model.safetensors", "tokenizer.json", "metrics.json")
