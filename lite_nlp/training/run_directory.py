"""The directory of a run: a model directory from the first validation on, with the run's records beside it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import check_output
from lite_nlp.training.checkpoints import CheckpointStore
from lite_nlp.training.state import RunState

__all__ = ["RunDirectory"]

_OWN_FILES = ("config.toml", "model.safetensors", "tokenizer.json", "metrics.json", "log.jsonl", "curves.svg")
_OWN_DIRECTORIES = ("checkpoints", "tensorboard")


class RunDirectory:
    """The directory that a run writes to.

    Args:
        path: The directory; it need not exist yet.
        config: Written beside the weights.
        tokenizer_json: Written beside the weights.
    """

    def __init__(self, path: Path, *, config: Config, tokenizer_json: bytes) -> None:
        self.path = path
        self.checkpoints = CheckpointStore(path / "checkpoints")
        self._config = config
        self._tokenizer_json = tokenizer_json

    def open(self, *, resume: bool, force: bool) -> None:
        """Make the directory, or remove an old run from it; other files are kept.

        Args:
            resume: Resume the run in the directory: nothing is removed.
            force: Overwrite the run in the directory.

        Raises:
            OutputError: If it is not empty and neither is set, or the system refuses.
        """
        if not resume:
            try:
                check_output(self.path, force=force)
            except OutputError as error:
                raise OutputError(f"{error}, or --resume to continue the run in it") from error
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not resume:
                for name in _OWN_FILES:
                    (self.path / name).unlink(missing_ok=True)
                for name in _OWN_DIRECTORIES:
                    if (self.path / name).exists():
                        shutil.rmtree(self.path / name)
        except OSError as error:
            raise OutputError(f"{self.path}: could not be written: {error}") from error

    def save_model(self, state: Mapping[str, Tensor], metrics: Mapping[str, Any]) -> None:
        """Write the model files; each appears complete or not at all."""
        save_model_directory(
            self.path, config=self._config, state=state, tokenizer_json=self._tokenizer_json, metrics=metrics
        )

    def prune(self, state: RunState) -> None:
        """Keep the newest checkpoint, those that may be averaged, and the best."""
        keep = {state.step, *self.averaged_steps(state)}
        if state.best is not None:
            keep.add(state.best.step)
        self.checkpoints.prune(keep)

    def averaged_steps(self, state: RunState) -> list[int]:
        """Steps of the latest validated checkpoints, as many as the config averages."""
        return [validation.step for validation in state.validations[-self._config.training.average_checkpoints :]]
