"""What open translators, generators and classifiers have in common."""

from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Self, TypeVar

from lite_nlp.artifacts.models import LoadedModel, Source, load_model
from lite_nlp.core.bounds import MAX_BATCH, MAX_THREADS, check_range
from lite_nlp.core.errors import ModelError, RuntimeUnavailableError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.progress import Progress
from lite_nlp.export.runtime.device import default_threads

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = [
    "BATCH",
    "Opened",
    "check_load",
    "choose_runtime",
    "load_for_torch",
    "open_task_bundle",
    "refuse_loaded",
    "set_torch_threads",
]

#: Default number of lines worked on at once.
BATCH: Final = 16

_Worker = TypeVar("_Worker")


class Opened(Generic[_Worker]):
    """A model in a runtime, open, and a context manager; ``close`` frees it.

    Args:
        worker: What works on lines.
        name: The model's name.
        runtime: The runtime's name.
        batch: Most lines worked on at once.
    """

    #: What it is, for messages.
    kind: ClassVar[str]

    def __init__(self, worker: _Worker, *, name: str, runtime: str, batch: int = BATCH) -> None:
        self._worker: _Worker | None = worker
        self._batch = batch
        self.name = name
        self.runtime = runtime

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> _Worker:
        if self._worker is None:
            raise ModelError(f"{self.name}: expected an open {self.kind}, found a closed one")
        return self._worker


def check_load(*, threads: int | None, batch: int) -> int:
    """Check how much is to be worked on at once.

    Args:
        threads: Threads of the runtime; None leaves the number to the machine.
        batch: Most lines worked on at once.

    Returns:
        The number of threads.

    Raises:
        UsageError: If one is out of range.
    """
    check_range("--threads", threads, 1, MAX_THREADS)
    check_range("--batch", batch, 1, MAX_BATCH)
    return threads or default_threads()


def choose_runtime(asked: str | None, source: Source | None = None) -> str:
    """The runtime asked for; without one, ONNX for a bundle, and torch for other files and loaded models (None)."""
    if asked is not None:
        return asked
    return "onnx" if source is not None and source.kind == "bundle" else "torch"


def load_for_torch(source: Source) -> LoadedModel:
    """Load a MODEL to run it in torch.

    Raises:
        MissingExtraError: If torch is not installed; a bundle runs without it, so the message names what does not.
        LiteNlpError: If the model cannot be loaded.
    """
    with needs_extra(f"{source.name}: running a model {source.kind} in torch", "train", whole=False):
        return load_model(source)


def open_task_bundle(source: Source, runtime: str, *, progress: Progress | None = None) -> "Bundle":
    """Open the bundle of a language model or classifier, exported into the cache if the MODEL is none.

    Args:
        source: The MODEL.
        runtime: What the bundle is to run in.
        progress: Receives the stages of an export.

    Raises:
        RuntimeUnavailableError: If no such bundle runs in it.
        LiteNlpError: If the model is missing or damaged, or cannot be exported.
    """
    from lite_nlp.artifacts.bundles import open_any_bundle
    from lite_nlp.artifacts.cache import cached_bundle
    from lite_nlp.export.runtime.programs import Programs

    known = tuple(Programs.model_fields)
    if runtime not in known:
        raise RuntimeUnavailableError(
            f"{source.name}: --runtime: expected torch or {' or '.join(known)}, which run language models and "
            f"classifiers, found {runtime}"
        )
    path = source.path if source.kind == "bundle" else cached_bundle(source, runtime=runtime, progress=progress)
    return open_any_bundle(path, runtime=runtime)


def refuse_loaded(name: str, runtime: str) -> None:
    """Refuse a runtime other than torch for a loaded model.

    Raises:
        RuntimeUnavailableError: If it is another.
    """
    if runtime != "torch":
        raise RuntimeUnavailableError(
            f"{name}: --runtime {runtime} runs a file: expected the path or the name of a model, found a loaded one"
        )


def set_torch_threads(threads: int) -> None:
    """Let torch use so many threads."""
    import torch

    torch.set_num_threads(threads)
