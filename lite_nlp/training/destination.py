"""Where a run may be: in a new or empty directory, or in that of an earlier run. Imports no torch."""

from pathlib import Path
from typing import Final

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.core.errors import OutputError
from lite_nlp.core.outputs import check_shared_directory, refusals

__all__ = ["HYPOTHESES_DIRECTORY", "RUN_DIRECTORIES", "RUN_FILES", "check_destination"]

#: What a run writes.
RUN_FILES: Final = (*MODEL_FILES, "log.jsonl", "curves.svg")
RUN_DIRECTORIES: Final = ("checkpoints", "tensorboard")

#: A teacher's translations, made before a run begins. It says itself what it was made of, and is no part of what
#: ``--force`` overwrites.
HYPOTHESES_DIRECTORY: Final = "hypotheses"

#: What shows that a directory is that of a run or a model; the other names are common elsewhere.
_MARKS: Final = ("checkpoints", "log.jsonl", "model.safetensors", "tensorboard")


def check_destination(path: Path, *, resume: bool, force: bool) -> None:
    """Check that a run may be in a directory; nothing of the check stays on the disk.

    One that holds a teacher's translations alone counts as empty: the run has not begun.

    Args:
        path: The directory.
        resume: Resume the run in it.
        force: Overwrite the run in it.

    Raises:
        OutputError: If it is not empty and neither is set, or what it holds is no run, or the system refuses.
    """
    check_shared_directory(path)
    with refusals(path):
        if not path.is_dir() or all(entry.name == HYPOTHESES_DIRECTORY for entry in path.iterdir()):
            return
        if not resume and not force:
            raise OutputError(
                f"{path}: output exists already; expected a new path, or --force to overwrite it, or --resume to "
                "continue the run in it"
            )
        if not any((path / name).exists() for name in _MARKS):
            raise OutputError(
                f"{path}: expected the directory of a run, found other files and none of {', '.join(_MARKS)}; name a "
                "new directory in it"
            )
