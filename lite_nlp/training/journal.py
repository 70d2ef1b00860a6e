"""The log of a run on disk: ``log.jsonl``, TensorBoard files and a picture of the curves."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from lite_nlp.budget.reporting.history import TrainingHistory, read_log
from lite_nlp.budget.reporting.plots import render_svg
from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import write_text

__all__ = ["Journal"]


class Journal:
    """A writer that appends the figures of each step and validation to ``log.jsonl`` and ``tensorboard/``.

    With each validation it draws ``curves.svg`` anew: loss, score and speed of all steps of the run so far.

    Args:
        path: The run's directory, which exists.
        step: The step to continue from; later records of a killed run are removed.
    """

    def __init__(self, path: Path, *, step: int) -> None:
        self._path = path / "log.jsonl"
        self._picture = path / "curves.svg"
        self._name = path.resolve().name
        self._history = _truncate(self._path, step=step)
        try:
            self._board = SummaryWriter(str(path / "tensorboard"), purge_step=step + 1)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{path}: the run's log could not be written: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._board.close()

    def record(self, event: str, *, step: int, figures: Mapping[str, float]) -> None:
        """Add one line, and the figures to TensorBoard, under ``event/name``; draw the curves if it is a validation.

        Raises:
            OutputError: If the system refuses the write.
        """
        content = {"event": event, "step": step, **figures}
        self._history.add(content)
        try:
            self._file.write(json.dumps(content) + "\n")
            self._file.flush()
            for name, value in figures.items():
                self._board.add_scalar(f"{event}/{name}", value, step)
        except OSError as error:
            raise OutputError(f"{self._path}: could not be written: {error}") from error
        if event == "valid" and (panels := self._history.panels()):
            write_text(self._picture, render_svg(panels, title=f"Training of {self._name}"))


def _truncate(path: Path, *, step: int) -> TrainingHistory:
    """Keep the lines up to ``step``, and return them; an incomplete line of a killed run is dropped."""
    history = TrainingHistory()
    if not path.exists():
        return history
    kept = []
    for line, content in read_log(path):
        last = content.get("step")
        if isinstance(last, int) and last <= step:
            kept.append(line + "\n")
            history.add(content)
    write_text(path, "".join(kept))
    return history
