"""What a compression has worked out so far, in a directory of its own: an interrupted one goes on from there."""

import io
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import torch

from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import write_bytes

__all__ = ["Work"]

T = TypeVar("T")

#: Seconds between two states of a training under way.
_STATE_EVERY: Final = 30.0
_KEY_FILE: Final = "key.txt"


class Work:
    """Results and training states of one compression, by name.

    Args:
        directory: For the files; made if it is missing, emptied if it belongs to another compression.
        key: Identifies the compression: model, data and options.

    Raises:
        OutputError: If the system refuses the directory.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self._directory = directory
        path = directory / _KEY_FILE
        if not path.is_file() or path.read_text(encoding="utf-8") != key:
            shutil.rmtree(directory, ignore_errors=True)
            try:
                directory.mkdir(parents=True)
            except OSError as error:
                raise OutputError(f"{directory}: could not be made: {error.strerror}") from error
            write_bytes(path, key.encode("utf-8"))
        self.resumed = any(file.suffix == ".pt" for file in directory.iterdir())
        self._phase = "state"
        self._kept = time.monotonic()

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """What was made under a name before, or is made now: tensors, numbers, text, lists and dictionaries of them."""
        path = self._directory / f"{name}.pt"
        found = _load(path)
        if found is None:
            found = make()
            _save(path, found)
        made: T = found
        return made

    def phase(self, name: str) -> "Work":
        """Use this name for the states of the training that begins; returns itself."""
        self._phase = name
        self._kept = time.monotonic()
        return self

    def due(self) -> bool:
        """Whether the last state is old enough for another."""
        return time.monotonic() - self._kept >= _STATE_EVERY

    def keep_state(self, state: dict[str, Any]) -> None:
        """Keep the state of the training under way, in place of the one before."""
        _save(self._directory / f"{self._phase}.pt", state)
        self._kept = time.monotonic()

    def state(self) -> dict[str, Any] | None:
        """The last state of the training under way; None if there is none."""
        state: dict[str, Any] | None = _load(self._directory / f"{self._phase}.pt")
        return state

    def remove(self) -> None:
        """Remove all of it, once the compression is done."""
        shutil.rmtree(self._directory, ignore_errors=True)


def _save(path: Path, content: object) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def _load(path: Path) -> Any:
    """The content of a file; None if there is none, or it is damaged: it is then worked out anew."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None
