"""Checkpoints: directories that appear complete or not at all, without pickles, with a checksum for each file."""

import json
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from lite_nlp.core.errors import OutputError, TrainingError
from lite_nlp.core.files import atomic_directory, sha256_bytes
from lite_nlp.core.parsing import parse_json_object, parsing, read_document
from lite_nlp.training.state import RunIdentity, RunState

__all__ = ["Checkpoint", "CheckpointStore", "skip_damaged"]

_VERSION = 1

#: What ``CheckpointStore.directory`` makes: at least eight digits, zeros in front, and those of ASCII alone.
_STEP = re.compile(r"step-(0[0-9]{7}|[1-9][0-9]{7,15})")

_MODEL, _OPTIMIZER, _TRAINER = "model.safetensors", "optimizer.safetensors", "trainer.json"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Everything needed to resume a run.

    Attributes:
        model: The model's state dict.
        optimizer: Tensors from ``optimizer_state``.
        state: Progress of the run.
        identity: The identity of the run.
    """

    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    state: RunState
    identity: RunIdentity


class CheckpointStore:
    """The checkpoints of one run: ``step-00000500/`` and so on, each with its weights, optimizer and ``trainer.json``.

    Args:
        path: The directory of the checkpoints; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, oldest first."""
        found = (_STEP.fullmatch(entry.name) for entry in self.path.glob("step-*") if entry.is_dir())
        return sorted(int(match.group(1)) for match in found if match)

    def directory(self, step: int) -> Path:
        """The directory of a step's checkpoint."""
        return self.path / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; one of the same step is replaced.

        Raises:
            OutputError: If the system refuses a write; the other checkpoints are as they were.
        """
        with atomic_directory(self.directory(checkpoint.state.step), force=True, owned=None) as partial:
            files = {}
            for name, tensors in ((_MODEL, checkpoint.model), (_OPTIMIZER, checkpoint.optimizer)):
                content = save_safetensors({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
                (partial / name).write_bytes(content)
                files[name] = {"size_bytes": len(content), "sha256": sha256_bytes(content)}
            trainer = {
                "schema_version": _VERSION,
                "state": checkpoint.state.model_dump(mode="json"),
                "identity": checkpoint.identity.model_dump(mode="json"),
                "files": files,
            }
            (partial / _TRAINER).write_text(json.dumps(trainer, indent=2) + "\n", encoding="utf-8")

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint.

        Raises:
            TrainingError: If a file is missing or altered.
        """
        trainer = self._trainer(step)
        try:
            state = RunState.model_validate(trainer["state"])
            identity = RunIdentity.model_validate(trainer["identity"])
        except (KeyError, ValidationError) as error:
            raise TrainingError(f"{self.directory(step) / _TRAINER}: expected a run's state, found: {error}") from error
        return Checkpoint(
            model=self._tensors(step, _MODEL, trainer),
            optimizer=self._tensors(step, _OPTIMIZER, trainer),
            state=state,
            identity=identity,
        )

    def load_latest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest undamaged checkpoint, or None if there are no checkpoints.

        Args:
            warn: Receives a message about each damaged checkpoint that is skipped.

        Raises:
            TrainingError: If there are checkpoints and all of them are damaged.
        """
        steps = self.steps()
        problems = []
        for step in reversed(steps):
            try:
                return self.load(step)
            except TrainingError as error:
                problems.append(skip_damaged(error, warn))
        if problems:
            raise self._only_damaged(problems)
        return None

    def model_state(self, step: int) -> dict[str, Tensor]:
        """The weights of a checkpoint.

        Raises:
            TrainingError: If they are missing or altered.
        """
        return self._tensors(step, _MODEL, self._trainer(step))

    def average(self, steps: Sequence[int], warn: Callable[[str], None]) -> tuple[list[int], dict[str, Tensor]]:
        """The mean of the weights of several checkpoints (Vaswani et al. 2017, section 6.1), summed in double.

        Args:
            steps: Their steps.
            warn: Receives a message about each damaged checkpoint, which is left out.

        Returns:
            The steps that the mean is of, and the weights.

        Raises:
            TrainingError: If all of them are damaged.
        """
        sums: dict[str, Tensor] = {}
        types: dict[str, torch.dtype] = {}
        whole: list[int] = []
        problems: list[str] = []
        for step in steps:
            try:
                weights = self.model_state(step)
            except TrainingError as error:
                problems.append(skip_damaged(error, warn))
                continue
            whole.append(step)
            for name, tensor in weights.items():
                types[name] = tensor.dtype
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
        if not whole:
            raise self._only_damaged(problems)
        return whole, {name: (total / len(whole)).to(types[name]) for name, total in sums.items()}

    def prune(self, keep: Collection[int]) -> None:
        """Remove the checkpoints of all other steps, and what an interrupted write left behind.

        Raises:
            OutputError: If the system refuses to remove one.
        """
        unwanted = [self.directory(step) for step in self.steps() if step not in keep]
        try:
            for directory in [*unwanted, *self.path.glob(".step-*.partial")]:
                shutil.rmtree(directory)
        except OSError as error:
            raise OutputError(f"{self.path}: old checkpoints could not be removed: {error}") from error

    def _only_damaged(self, problems: Sequence[str]) -> TrainingError:
        return TrainingError(
            f"{self.path}: expected a whole checkpoint, found only damaged ones: {'; '.join(problems)}"
        )

    def _trainer(self, step: int) -> dict[str, Any]:
        path = self.directory(step) / _TRAINER
        document = read_document(path, expected="a checkpoint's JSON file", error=TrainingError)
        content = parse_json_object(document, source=str(path), error=TrainingError)
        if content.get("schema_version") != _VERSION:
            raise TrainingError(f"{path}: expected schema_version {_VERSION}, found another or none")
        return content

    def _tensors(self, step: int, name: str, trainer: Mapping[str, Any]) -> dict[str, Tensor]:
        path = self.directory(step) / name
        with parsing(f"{self.directory(step) / _TRAINER}: files", f"the size and SHA-256 of {name}", TrainingError):
            size, expected = max(0, int(trainer["files"][name]["size_bytes"])), trainer["files"][name]["sha256"]
        content = read_document(path, expected="a checkpoint's tensors", error=TrainingError, max_bytes=size)
        if sha256_bytes(content) != expected:
            raise TrainingError(f"{path}: damaged: expected SHA-256 {expected}, found {sha256_bytes(content)}")
        with parsing(str(path), "a safetensors file", TrainingError):
            return load_safetensors(content)


def skip_damaged(error: TrainingError, warn: Callable[[str], None]) -> str:
    """Warn of a damaged checkpoint; return what is wrong with it."""
    warn(f"skipping a damaged checkpoint: {error}")
    return str(error)
