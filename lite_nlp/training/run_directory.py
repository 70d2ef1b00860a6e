"""The directory of a run: a model directory from the first validation on, with the run's records beside it."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.core.locks import held_directory
from lite_nlp.core.outputs import refusals
from lite_nlp.training.checkpoints import Checkpoint, CheckpointStore
from lite_nlp.training.destination import RUN_DIRECTORIES, RUN_FILES, check_destination
from lite_nlp.training.state import RunState

__all__ = ["RunDirectory"]

_, _WEIGHTS, _, _ = MODEL_FILES


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

    @contextmanager
    def open(self, *, resume: bool, force: bool) -> Iterator[None]:
        """Make the directory, or remove an old run from it; other files are kept. One run at a time is in it.

        Args:
            resume: Resume the run in the directory: nothing is removed.
            force: Overwrite the run in the directory.

        Raises:
            OutputError: As of :func:`~lite_nlp.training.destination.check_destination`, or if another process trains in
                the directory.
        """
        # A run that failed before it wrote anything leaves nothing.
        with held_directory(self.path, taken="another process trains in this directory; expected another one"):
            # Only now: a run that ended in the meantime has left its files.
            check_destination(self.path, resume=resume, force=force)
            if force:
                with refusals(self.path):
                    self._remove_run()
            yield

    def _remove_run(self) -> None:
        for name in RUN_FILES:
            (self.path / name).unlink(missing_ok=True)
        for name in RUN_DIRECTORIES:
            if (self.path / name).exists():
                shutil.rmtree(self.path / name)

    def load_latest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The checkpoint to resume from, or None if the run has not begun.

        Args:
            warn: Receives a message about each damaged checkpoint that is skipped.

        Raises:
            TrainingError: If all checkpoints are damaged, or there is a model and none.
        """
        checkpoint = self.checkpoints.load_latest(warn)
        # A run has a checkpoint before it writes a model.
        if checkpoint is None and (self.path / _WEIGHTS).exists():
            raise TrainingError(
                f"{self.path}: expected checkpoints to resume from, found a model and no checkpoint; "
                "--init-from continues from its weights in another --out, --force starts anew"
            )
        return checkpoint

    def save_model(self, state: Mapping[str, Tensor], metrics: Mapping[str, Any]) -> None:
        """Write the model files; each appears complete or not at all."""
        save_model_directory(
            self.path, config=self._config, state=state, tokenizer_json=self._tokenizer_json, metrics=metrics
        )

    def prune(self, state: RunState) -> None:
        """Keep the newest checkpoint, those that may be averaged, and the best, with and without the closing one."""
        keep = {state.step, *self.averaged_steps(state)}
        for best in (state.best, state.best_of_all(self._config.training.validate_metric)):
            if best is not None:
                keep.add(best.step)
        self.checkpoints.prune(keep)

    def averaged_steps(self, state: RunState) -> list[int]:
        """Steps of the latest validated checkpoints, as many as the config averages."""
        count = self._config.training.average_checkpoints
        return [validation.step for validation in state.all_validations[-count:]]
