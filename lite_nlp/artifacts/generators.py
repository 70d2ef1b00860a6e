"""Continuation of text with a MODEL: the only place that combines a language model and a runtime."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, overload

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
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import Progress
from lite_nlp.decoding.continuation import GenerationOptions
from lite_nlp.decoding.generate import Generated, Generator

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = ["OpenedGenerator", "open_generator"]

_ARCHITECTURE: Final = "language-model"


class OpenedGenerator(Opened[Generator]):
    """An open language model and context manager; ``close`` frees it.

    Args:
        worker: What continues texts.
        options: How tokens are chosen.
        name: The model's name.
        runtime: The runtime's name.
        batch: Most texts continued at once.
    """

    kind: ClassVar[str] = "generator"

    def __init__(
        self, worker: Generator, *, options: GenerationOptions, name: str, runtime: str, batch: int = BATCH
    ) -> None:
        super().__init__(worker, name=name, runtime=runtime, batch=batch)
        self.options = options

    # A string is a sequence of strings too; the first signature that fits counts.
    @overload
    def generate(self, text: str) -> Generated: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, text: Sequence[str]) -> list[Generated]: ...
    def generate(self, text: str | Sequence[str]) -> Generated | list[Generated]:
        """Continue a text, or each of a sequence of texts, to the end of its last line.

        Args:
            text: A string, whose lines the model reads as lines of one text; or several texts.

        Returns:
            What follows a string; for a sequence a list, in order.

        Raises:
            ModelError: If the generator is closed.
        """
        texts = [text] if isinstance(text, str) else text
        found = list(self.generate_chunks([texts]))
        return found[0] if isinstance(text, str) else found

    def stream(self, text: str) -> Iterator[str]:
        """``text`` as it grows, token by token; stop iterating to cancel it.

        Raises:
            ModelError: If the generator is closed.
        """
        return self._opened().stream(text)

    def generate_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Generated]:
        """Continue texts that arrive in chunks, such as from ``read_chunks``; no chunk waits for a later one.

        Raises:
            ModelError: If the generator is closed.
        """
        return self._opened().generate_chunks(chunks, batch_size=self._batch)


def open_generator(
    model: str | Path | LoadedModel,
    *,
    runtime: str | None = None,
    threads: int | None = None,
    batch: int = BATCH,
    max_tokens: int = 100,
    temperature: float | None = None,
    top_k: int | None = None,
    seed: int = 1,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> OpenedGenerator:
    """Open a language model to continue texts: greedy, or sampled if a temperature or ``top_k`` is given.

    Args:
        model: A model directory, ``.lnlp`` file or bundle, or a loaded model.
        runtime: ``torch``, or ``onnx`` or ``executorch``, for which a model that is no bundle is exported to a cached
            one; None picks onnx for a bundle and torch for anything else.
        threads: Threads of the runtime, 1 to 512; None is ``OMP_NUM_THREADS``, or one per core that this process may
            use.
        batch: Most texts continued at once, 1 to 65,536.
        max_tokens: Most tokens that a text is continued by, at least 1; the positions of the model or bundle may allow
            fewer.
        temperature: Divisor of the logits before a token is drawn, 0.1 to 100; None is 1 where ``top_k`` is given.
        top_k: Only so many likeliest tokens may be drawn; None for all.
        seed: Of the random numbers, at least 0. Every text has its own, which depend on its place alone.
        warn: Receives a warning for each prompt that is too long or in unknown letters; None logs them.
        progress: Receives the progress of making a bundle.

    Returns:
        A context manager with ``generate`` (a string gives one result, a sequence a list), ``stream`` (the growing
        text) and ``close``.

    Raises:
        UsageError: If an option is out of range.
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If the model is missing, damaged, or no language model.
    """
    options = GenerationOptions(max_tokens=max_tokens, temperature=temperature, top_k=top_k, seed=seed)
    said = warn or logging.getLogger("lite_nlp").warning
    count = check_load(threads=threads, batch=batch)
    if isinstance(model, LoadedModel):
        name, chosen = model.name, choose_runtime(runtime)
        refuse_loaded(name, chosen)
        generator = _torch_generator(model, options, threads=count, warn=said)
    else:
        source = resolve_source(model)
        architecture = read_config(source).model.architecture
        if architecture != _ARCHITECTURE:
            raise ModelError(f"{source.name}: expected a {_ARCHITECTURE}, found a model of architecture {architecture}")
        name, chosen = source.name, choose_runtime(runtime, source)
        if chosen == "torch":
            generator = _torch_generator(load_for_torch(source), options, threads=count, warn=said)
        else:
            bundle = open_task_bundle(source, chosen, progress=progress)
            generator = _bundle_generator(bundle, options, runtime=chosen, threads=count, warn=said)
    return OpenedGenerator(generator, options=options, name=name, runtime=chosen, batch=batch)


def _torch_generator(
    loaded: LoadedModel, options: GenerationOptions, *, threads: int, warn: Callable[[str], None]
) -> Generator:
    from lite_nlp.decoding.torch_model import TorchTextModel
    from lite_nlp.models.build import as_language_model

    model = as_language_model(loaded.model, source=loaded.name)
    set_torch_threads(threads)
    return Generator(
        tokenizer=loaded.tokenizer,
        model=TorchTextModel(model, next(model.parameters()).device),
        options=options,
        max_positions=loaded.config.model.max_positions,
        warn=warn,
    )


def _bundle_generator(
    bundle: "Bundle", options: GenerationOptions, *, runtime: str, threads: int, warn: Callable[[str], None]
) -> Generator:
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.export.runtime.task_engines import create_text_engine

    engine = create_text_engine(bundle, runtime=runtime, threads=threads)
    return Generator(
        tokenizer=Tokenizer.from_json(bundle.tokenizer_json),
        model=engine,
        options=options,
        max_positions=engine.max_steps,
        warn=warn,
    )
