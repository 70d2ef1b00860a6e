"""The registry of tasks: data, architectures and room of each.

A new task is a folder with a room (:class:`lite_nlp.tasks.room.Room`) and a row here, or in a user's program a call of
:func:`register_task`. Imports no torch: a room is imported when it is first used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from lite_nlp.core.errors import ConfigError, DataError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.tasks.room import Room

__all__ = ["TASKS", "Task", "register_task", "task_of_architecture", "task_of_data", "task_of_metric"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A row of the registry.

    Attributes:
        name: The task's name, which ``data.json`` holds for sentence pairs; for other data the kind identifies it.
        data: Content of its data directories and the command that makes them, for messages.
        data_kind: The ``kind`` in ``data.json``.
        architectures: The values of ``model.architecture`` that can be trained on it.
        metric: Name of its scores in the option ``--metric``.
        options: Options of an evaluation that apply to it, beside the data and the threads.
        room: Imports the room.
        takes_vectors: Whether training takes pretrained word vectors.
    """

    name: str
    data: str
    data_kind: str
    architectures: tuple[str, ...]
    metric: str
    options: frozenset[str]
    room: Callable[[], Room]
    takes_vectors: bool = False

    def check_architecture(self, architecture: str, path: Path) -> None:
        """Refuse data that the architecture cannot be trained on.

        Raises:
            DataError: If none of the tasks of the architecture has data like this task's.
        """
        if architecture in self.architectures:
            return
        wanted = task_of_architecture(architecture)
        raise DataError(f"{path}: model.architecture = {architecture!r} learns from {wanted.data}, found {self.data}")


def _room(name: str) -> Callable[[], Room]:
    return lambda: cast(Room, import_module(f"lite_nlp.tasks.{name}.room"))


_SEARCH: Final = frozenset(
    (
        *("input", "reference", "output", "runtime", "beam", "batch", "metric", "lowercase"),
        *("length_penalty", "no_repeat_ngram", "min_length", "max_length", "long_input"),
    )
)

_PAIRS: Final = partial(
    Task,
    data="sentence pairs (data prepare --train)",
    data_kind="pairs",
    architectures=("encoder-decoder",),
    options=_SEARCH,
)

#: By name. Of several tasks of an architecture the first is the default.
TASKS: Final[dict[str, Task]] = {
    task.name: task
    for task in (
        _PAIRS(name="translation", metric="bleu", room=_room("translation")),
        _PAIRS(name="summarization", metric="rouge", room=_room("summarization")),
        Task(
            name="language-modelling",
            data="running text (data prepare --text)",
            data_kind="text",
            architectures=("language-model",),
            metric="perplexity",
            options=frozenset(("window", "context", "runtime")),
            room=_room("language_modelling"),
        ),
        Task(
            name="classification",
            data="labelled examples (data prepare --labelled)",
            data_kind="labelled",
            architectures=("sequence-classifier", "lstm-classifier", "pair-classifier"),
            metric="accuracy",
            options=frozenset(("output", "runtime")),
            room=_room("classification"),
            takes_vectors=True,
        ),
    )
}


def register_task(task: Task) -> None:
    """Add a task.

    Raises:
        ConfigError: If a task of that name, or of that kind of data, is registered already.
    """
    for known in TASKS.values():
        if task.name == known.name or task.data_kind == known.data_kind:
            raise ConfigError(
                f"task {task.name}: expected a new name and kind of data, found those of {known.name} "
                f"({known.data_kind})"
            )
    TASKS[task.name] = task


def task_of_data(path: Path) -> Task:
    """The task of a data directory.

    Raises:
        DataError: If it is no data directory, or of a kind without a task.
    """
    # Imported here, since translation on a device needs no reader of data directories.
    from lite_nlp.data.directory import data_task

    kind, name = data_task(path)
    for task in TASKS.values():
        if task.data_kind == kind and name in (None, task.name):
            return task
    known = sorted({task.data_kind for task in TASKS.values()})
    raise DataError(f"{path}: expected data of kind {', '.join(known)}, found {kind!r}")


def task_of_architecture(architecture: str) -> Task:
    """The default task of an architecture."""
    return next(task for task in TASKS.values() if architecture in task.architectures)


def task_of_metric(metric: str) -> Task:
    """The task with the given metric.

    Raises:
        ConfigError: If no task has it.
    """
    for task in TASKS.values():
        if task.metric == metric:
            return task
    raise ConfigError(f"metric: {expected_one_of([task.metric for task in TASKS.values()], metric)}")
