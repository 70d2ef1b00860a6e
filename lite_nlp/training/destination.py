"""Where a run may be: in a new or empty directory, or in that of an earlier run. Imports no torch."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.budget.reporting.history import read_log
from lite_nlp.core.errors import OutputError, UsageError
from lite_nlp.core.outputs import check_deleted_directory, check_shared_directory, refusals

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel

__all__ = ["HYPOTHESES_DIRECTORY", "RUN_DIRECTORIES", "RUN_FILES", "check_destination", "check_sources"]

#: Names of checkpoints: a step of 8 to 16 digits.
_STEPS: Final = tuple("step-" + "[0-9]" * digits for digits in range(8, 17))
_EVENTS: Final = "events.out.tfevents.*"

#: What a run writes; the directories with patterns of what is in them.
RUN_FILES: Final = (*MODEL_FILES, "log.jsonl", "curves.svg")
RUN_DIRECTORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "checkpoints": (*_STEPS, ".step-*.partial"),
    "tensorboard": (_EVENTS,),
}

#: A teacher's translations, made before a run begins. It says itself what it was made of, and is no part of what
#: ``--force`` overwrites.
HYPOTHESES_DIRECTORY: Final = "hypotheses"


def check_destination(path: Path, *, resume: bool, force: bool) -> None:
    """Check that a run may be in a directory; nothing of the check stays on the disk.

    One that holds a teacher's translations alone counts as empty: the run has not begun.

    Args:
        path: The directory.
        resume: Resume the run in it.
        force: Overwrite the run in it.

    Raises:
        OutputError: If it is not empty and neither is set, or what it holds is no run, or ``force`` would delete files
            of others, or the system refuses.
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
        if not _is_run(path):
            raise OutputError(
                f"{path}: expected the directory of a run, found other files: neither a step-* in checkpoints/, nor "
                f"steps in log.jsonl, nor all of {', '.join(MODEL_FILES)}; name a new directory in it"
            )
        if force:
            for name, owned in RUN_DIRECTORIES.items():
                check_deleted_directory(path / name, owned=owned)


def check_sources(path: Path, sources: "Iterable[tuple[str, str | Path | LoadedModel | None]]") -> None:
    """Check that a new run does not begin in the directory of a model that it reads, which it would replace.

    Args:
        path: The directory of the run.
        sources: What each of these models is to the run, such as ``the teacher's``, and where it is; the directory of a
            shipped or loaded one is not known, and need not be. None for one that the run does without.

    Raises:
        UsageError: If one of them is this directory, or a file in it.
        OutputError: If the system refuses a path.
    """
    for owner, source in sources:
        # The name of a shipped model is no path.
        if not isinstance(source, str | Path) or not os.path.exists(source):
            continue
        with refusals(path):
            model, run = (Path(os.path.realpath(place)) for place in (source, path))
        if model == run or (model.is_file() and model.is_relative_to(run)):
            raise UsageError(f"--out: expected another directory than {owner}, found {path}")


def _is_run(path: Path) -> bool:
    """Whether a directory is that of a run or a model: each name alone is common elsewhere."""
    if all((path / name).is_file() for name in MODEL_FILES):
        return True
    if any(any((path / "checkpoints").glob(pattern)) for pattern in _STEPS):
        return True
    log = path / "log.jsonl"
    first = next(read_log(log), None)
    if first is not None:
        return {"event", "step"} <= first[1].keys()
    # A run that ended before its first step.
    return log.is_file() and not log.stat().st_size and any((path / "tensorboard").glob(_EVENTS))
