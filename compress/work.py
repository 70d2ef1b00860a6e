"""What a compression has worked out so far, in a directory of its own: an interrupted one goes on from there."""

import hashlib
import io
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from lite_nlp.core.errors import LiteNlpError, OutputError, OverBudgetError, UsageError
from lite_nlp.core.files import write_bytes
from lite_nlp.core.locks import held_directory
from lite_nlp.core.outputs import refusals
from lite_nlp.core.progress import Progress

__all__ = ["Work", "resumable_work", "work_key"]

T = TypeVar("T")

#: Seconds between two states of a training under way.
_STATE_EVERY: Final = 30.0
_KEY_FILE: Final = "key.txt"
#: A file that was being written when the process was killed.
_PARTIAL_FILE: Final = ".*.partial"
_RESULT_FILES: Final = ("*.pt", _PARTIAL_FILE)


@contextmanager
def resumable_work(out: Path, key: str | None, progress: Progress, *, anew: bool = False) -> Iterator["Work | None"]:
    """What a compression has worked out, beside its output.

    It is kept where the compression is interrupted, the disk is full, a limit of the gate is passed, which another may
    allow, or an option is refused: the work is of no other.

    Args:
        out: The output.
        key: Identifies the compression; None if nothing is to be kept.
        progress: Told what becomes of former work.
        anew: Whether former work is removed, whatever it is of.

    Raises:
        OutputError: If another process works there, or as of :class:`Work`.
    """
    if key is None:
        yield None
        return
    out = Path(os.path.abspath(out))
    directory = out.with_name(f"{out.name}.partial")
    with held_directory(directory, taken="another process compresses to this output; expected another one"):
        work = Work(directory, key, anew=anew)
        if work.resumed:
            progress.start(f"going on from {out.name}.partial", None)
        elif work.replaced:
            progress.start(f"beginning anew: {out.name}.partial is of another model, data or options", None)
        try:
            yield work
        except LiteNlpError as error:
            if not (work.holds_results and isinstance(error, OutputError | OverBudgetError | UsageError)):
                work.remove()
            raise
        work.remove()


def work_key(tensors: Mapping[str, Tensor], files: Mapping[str, bytes], *others: object) -> str:
    """What a compression depends on, as one line: an interrupted one goes on only with the same.

    Args:
        tensors: Of the model.
        files: What a file of it embeds.
        others: Options and the like, told apart by their representations.
    """
    digest = hashlib.sha256(repr(others).encode("utf-8"))
    for name, content in files.items():
        digest.update(name.encode("utf-8") + content)
    for name, tensor in tensors.items():
        values = tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8)
        digest.update(repr((name, tuple(tensor.shape), tensor.dtype)).encode("utf-8") + values.numpy().tobytes())
    return digest.hexdigest()


class Work:
    """Results and training states of one compression, by name.

    Args:
        directory: For the files; made if it is missing. Those of another compression are removed from it, and nothing
            else.
        key: Identifies the compression: model, data and options.
        anew: Whether it begins without what it holds of the same compression.

    Attributes:
        resumed: Whether it holds results of the same compression.
        replaced: Whether it held those of another one.

    Raises:
        OutputError: If the directory holds something, but no work, or the system refuses it.
    """

    def __init__(self, directory: Path, key: str, *, anew: bool = False) -> None:
        self._directory = directory
        self.replaced = False
        path = directory / _KEY_FILE
        with refusals(directory):
            directory.mkdir(exist_ok=True)
            if not path.is_file():
                _check_empty(directory)
            elif anew or path.read_bytes() != key.encode("utf-8"):
                self._clear()
                self.replaced = not anew
            if not path.is_file():
                write_bytes(path, key.encode("utf-8"))
            self.resumed = self.holds_results
        self._phase = "state"
        self._kept = time.monotonic()

    @property
    def holds_results(self) -> bool:
        """Whether anything has been worked out."""
        return any(file.suffix == ".pt" for file in self._directory.iterdir())

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
        """Remove all of it, once the compression is done, and the directory if it holds nothing else."""
        with suppress(OSError):
            self._clear()
            self._directory.rmdir()

    def _clear(self) -> None:
        # The key last: without it, what is left of an interrupted removal would be taken for somebody else's.
        for pattern in (*_RESULT_FILES, _KEY_FILE):
            for path in self._directory.glob(pattern):
                path.unlink()


def _check_empty(directory: Path) -> None:
    for path in directory.iterdir():
        if not fnmatch(path.name, _PARTIAL_FILE):
            raise OutputError(
                f"{directory}: expected the work of an interrupted compression, which is kept there, or nothing, found "
                f"{path.name} without a {_KEY_FILE}; move it, or choose another output"
            )


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
