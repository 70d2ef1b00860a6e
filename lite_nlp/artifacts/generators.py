"""Continuation of text with a MODEL: the only place that combines a language model and a runtime."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, overload

from lite_nlp.artifacts.models import LoadedModel, read_config, resolve_source
from lite_nlp.artifacts.opened import BATCH, Opened, load_for_torch, refuse_loaded, set_torch_threads
from lite_nlp.core.errors import ModelError, RuntimeUnavailableError
from lite_nlp.decoding.continuation import GenerationOptions
from lite_nlp.decoding.generate import Generated, Generator
from lite_nlp.export.runtime.device import default_threads

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
) -> OpenedGenerator:
    """Open a language model to continue texts: greedy, or sampled if a temperature or ``top_k`` is given.

    Args:
        model: A model directory or ``.lnlp`` file, or a loaded model.
        runtime: ``torch``, the one that runs language models.
        threads: Threads of the runtime; None is ``OMP_NUM_THREADS``, or one per core that this process may use.
        batch: Most texts continued at once.
        max_tokens: Most tokens that a text is continued by; the model's positions may allow fewer.
        temperature: Divisor of the logits before a token is drawn, 0.1 to 100; None is 1 where ``top_k`` is given.
        top_k: Only so many likeliest tokens may be drawn; None for all.
        seed: Of the random numbers. Every text has its own, which depend on its place alone.
        warn: Receives a warning for each prompt that is too long or in unknown letters; None logs them.

    Raises:
        UsageError: If an option is out of range.
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If the model is missing, damaged, or no language model.
    """
    options = GenerationOptions(max_tokens=max_tokens, temperature=temperature, top_k=top_k, seed=seed)
    chosen = runtime or "torch"
    if isinstance(model, LoadedModel):
        loaded = model
        refuse_loaded(loaded.name, chosen)
    else:
        source = resolve_source(model)
        architecture = read_config(source).model.architecture
        if architecture != _ARCHITECTURE:
            raise ModelError(f"{source.name}: expected a {_ARCHITECTURE}, found a model of architecture {architecture}")
        if chosen != "torch":
            raise RuntimeUnavailableError(
                f"{source.name}: --runtime: expected torch for a {_ARCHITECTURE}, found {chosen}"
            )
        loaded = load_for_torch(source)
    set_torch_threads(threads or default_threads())
    generator = _torch_generator(loaded, options, warn or logging.getLogger("lite_nlp").warning)
    return OpenedGenerator(generator, options=options, name=loaded.name, runtime=chosen, batch=batch)


def _torch_generator(loaded: LoadedModel, options: GenerationOptions, warn: Callable[[str], None]) -> Generator:
    from lite_nlp.decoding.torch_model import TorchTextModel
    from lite_nlp.models.build import as_language_model

    model = as_language_model(loaded.model, source=loaded.name)
    return Generator(
        tokenizer=loaded.tokenizer,
        model=TorchTextModel(model, next(model.parameters()).device),
        options=options,
        max_positions=loaded.config.model.max_positions,
        warn=warn,
    )
