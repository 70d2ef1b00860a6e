"""Classification of text with a MODEL: the only place that combines a classifier, its labels and a runtime."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias, overload

from lite_nlp.artifacts.classes import SENTENCES, read_labels
from lite_nlp.artifacts.models import LoadedModel, read_config, resolve_source
from lite_nlp.artifacts.opened import (
    BATCH,
    Opened,
    check_load,
    choose_runtime,
    load_for_torch,
    open_task_bundle,
    refuse_loaded,
    set_torch_threads,
)
from lite_nlp.core.errors import DataError, ModelError
from lite_nlp.core.progress import Progress
from lite_nlp.decoding.classify import Classification, Classifier

__all__ = ["Example", "OpenedClassifier", "open_classifier"]

#: A sentence, or a pair of them.
Example: TypeAlias = str | tuple[str, str]


class OpenedClassifier(Opened[Classifier]):
    """An open classifier and context manager; ``close`` frees the model.

    Args:
        worker: What classifies examples.
        labels: Names of the classes.
        sentences: Sentences of an example, 1 or 2.
        name: The model's name.
        runtime: The runtime's name.
        batch: Most examples classified at once.
    """

    kind: ClassVar[str] = "classifier"

    def __init__(
        self,
        worker: Classifier,
        *,
        labels: Sequence[str],
        sentences: int,
        name: str,
        runtime: str,
        batch: int = BATCH,
    ) -> None:
        super().__init__(worker, name=name, runtime=runtime, batch=batch)
        self.labels = tuple(labels)
        self.sentences = sentences

    # A string and a tuple are sequences of strings too; the first signature that fits counts.
    @overload
    def classify(self, example: Example) -> Classification | None: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, example: Sequence[Example]) -> list[Classification | None]: ...
    def classify(self, example: Example | Sequence[Example]) -> Classification | list[Classification | None] | None:
        """Classify an example or a list of them.

        Args:
            example: A string is a sentence, a tuple a pair of sentences, any other sequence several examples.

        Returns:
            The classes of an example, None for a blank one; for several a list, in order.

        Raises:
            DataError: If an example has another number of sentences than the model reads.
            ModelError: If the classifier is closed.
        """
        if isinstance(example, str | tuple):
            return next(self.classify_chunks([[self._sentences(example)]]))
        return list(self.classify_chunks([[self._sentences(one) for one in example]]))

    def classify_chunks(self, chunks: Iterable[Sequence[Sequence[str]]]) -> Iterator[Classification | None]:
        """Classify examples, each a sequence of sentences, that arrive in chunks; no chunk waits for a later one.

        Raises:
            ModelError: If the classifier is closed.
        """
        return self._opened().classify_chunks(chunks, batch_size=self._batch)

    def _sentences(self, example: Example) -> tuple[str, ...]:
        sentences = (example,) if isinstance(example, str) else example
        if len(sentences) != self.sentences:
            raise DataError(f"{self.name}: expected examples of {self.sentences} sentences, found {len(sentences)}")
        return sentences


def open_classifier(
    model: str | Path | LoadedModel,
    *,
    runtime: str | None = None,
    threads: int | None = None,
    batch: int = BATCH,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> OpenedClassifier:
    """Open a classifier of sentences or of pairs of sentences.

    Args:
        model: A model directory, ``.lnlp`` file or bundle, or a loaded model.
        runtime: ``torch``, or ``onnx`` or ``executorch``, for which a model that is no bundle is exported to a cached
            one; None picks onnx for a bundle and torch for anything else.
        threads: Threads of the runtime, 1 to 512; None is ``OMP_NUM_THREADS``, or one per core that this process may
            use.
        batch: Most examples classified at once, 1 to 65,536.
        warn: Receives a warning for each sentence that is cut off or in unknown letters; None logs them.
        progress: Receives the progress of making a bundle.

    Returns:
        A context manager with ``classify`` (a string, or a tuple of two sentences, gives one result, any other sequence
        a list), ``labels`` and ``close``.

    Raises:
        UsageError: If a number is out of range.
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        DataError: If the model does not record the names of its labels.
        LiteNlpError: If the model is missing, damaged, or no classifier.
    """
    said = warn or logging.getLogger("lite_nlp").warning
    count = check_load(threads=threads, batch=batch)
    if isinstance(model, LoadedModel):
        refuse_loaded(model.name, choose_runtime(runtime))
        return _open_torch(model, threads=count, batch=batch, warn=said)
    source = resolve_source(model)
    architecture = read_config(source).model.architecture
    if architecture not in SENTENCES:
        raise ModelError(f"{source.name}: expected a classifier, found a model of architecture {architecture}")
    chosen = choose_runtime(runtime, source)
    if chosen == "torch":
        return _open_torch(load_for_torch(source), threads=count, batch=batch, warn=said)
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.export.runtime.task_engines import create_classifier_engine

    bundle = open_task_bundle(source, chosen, progress=progress)
    engine = create_classifier_engine(bundle, runtime=chosen, threads=count)
    classifier = Classifier(
        tokenizer=Tokenizer.from_json(bundle.tokenizer_json),
        model=engine,
        labels=engine.classes.labels,
        max_tokens=engine.max_tokens - 1,
        warn=said,
    )
    return OpenedClassifier(
        classifier,
        labels=engine.classes.labels,
        sentences=engine.classes.sentences,
        name=source.name,
        runtime=chosen,
        batch=batch,
    )


def _open_torch(loaded: LoadedModel, *, threads: int, batch: int, warn: Callable[[str], None]) -> OpenedClassifier:
    from lite_nlp.decoding.torch_model import TorchClassifier
    from lite_nlp.models.build import as_classifier

    model = as_classifier(loaded.model, source=loaded.name)
    config = loaded.config.model
    labels = read_labels(loaded.metrics, model.config.num_classes, name=loaded.name)
    set_torch_threads(threads)
    classifier = Classifier(
        tokenizer=loaded.tokenizer,
        model=TorchClassifier(model, next(model.parameters()).device),
        labels=labels,
        # The end mark takes a place too.
        max_tokens=config.max_positions - 1,
        warn=warn,
    )
    sentences = SENTENCES[config.architecture]
    return OpenedClassifier(
        classifier, labels=labels, sentences=sentences, name=loaded.name, runtime="torch", batch=batch
    )
