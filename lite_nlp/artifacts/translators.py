"""Translation with any MODEL: the only place that combines a model, its ``[decoding]`` section and a runtime.

Torch runs weights, ONNX Runtime and ExecuTorch run bundles; bundles open without torch.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args, overload

from lite_nlp.artifacts.input_length import longest_input
from lite_nlp.artifacts.models import LoadedModel, Source, read_config, resolve_source
from lite_nlp.artifacts.opened import (
    BATCH,
    Opened,
    check_load,
    choose_runtime,
    load_for_torch,
    refuse_loaded,
    set_torch_threads,
)
from lite_nlp.core.bounds import MAX_BEAM, MAX_LENGTH_PENALTY, MAX_TOKENS, check_range
from lite_nlp.core.errors import BundleError, ModelError, RuntimeUnavailableError, UsageError
from lite_nlp.core.parsing import decode_text
from lite_nlp.core.progress import Progress
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.decoding.translate import Alternative, LongInput, Translator

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config, DecodingConfig
    from lite_nlp.decoding.search import StepModel
    from lite_nlp.decoding.text_codec import TextCodec
    from lite_nlp.models.transformer import EncoderDecoder

__all__ = [
    "OpenedTranslator",
    "RunnableModel",
    "SearchChoices",
    "build_translator",
    "open_ensemble",
    "open_translator",
    "torch_engine",
]


@dataclass(frozen=True, kw_only=True)
class SearchChoices:
    """Search options of the caller; None leaves a value to the ``[decoding]`` section of the model's config.

    Attributes:
        beam: Hypotheses kept per sentence, 1 to 256; 1 is greedy search.
        length_penalty: Exponent of the length penalty of beam search.
        no_repeat_ngram: No run of so many tokens occurs twice in an output; 0 allows all.
        min_length: Fewest tokens of an output, of which a source of n tokens has at most 2 n + 9.
        max_length: Most tokens of an output, besides those; 0 is those alone.
        long_input: An input too long for the model: ``split`` it into pieces or ``truncate`` it.

    Raises:
        UsageError: If a number is out of range, the least length is above the greatest, or ``long_input`` is something
            else.
    """

    beam: int = 1
    length_penalty: float | None = None
    no_repeat_ngram: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    long_input: LongInput | None = None

    def __post_init__(self) -> None:
        check_range("--beam", self.beam, 1, MAX_BEAM)
        check_range("--length-penalty", self.length_penalty, 0, MAX_LENGTH_PENALTY)
        check_range("--no-repeat-ngram", self.no_repeat_ngram, 0, MAX_TOKENS)
        check_range("--min-length", self.min_length, 0, MAX_TOKENS)
        check_range("--max-length", self.max_length, 0, MAX_TOKENS)
        kinds = get_args(LongInput)
        if self.long_input is not None and self.long_input not in kinds:
            raise UsageError(f"--long-input: {expected_one_of(kinds, self.long_input)}")
        if self.max_length and (self.min_length or 0) > self.max_length:
            raise UsageError(
                f"--min-length: expected at most --max-length ({self.max_length}), found {self.min_length}"
            )

    def complete(self, decoding: "DecodingConfig") -> "DecodingConfig":
        """The section with the caller's values in place of its own, which give way to them where they contradict."""
        chosen = {name: getattr(self, name) for name in type(decoding).model_fields}
        complete = decoding.model_copy(update={name: value for name, value in chosen.items() if value is not None})
        if not complete.max_length or complete.min_length <= complete.max_length:
            return complete
        gives_way, wins = ("min_length", "max_length") if self.min_length is None else ("max_length", "min_length")
        return complete.model_copy(update={gives_way: getattr(complete, wins)})


@dataclass(frozen=True)
class RunnableModel:
    """A model in a runtime.

    Attributes:
        tokenizer: The model's tokenizer.
        model: The step model of the search.
        max_source_tokens: Longest source, the end mark included.
        max_steps: Most decoder steps.
        config: The config of the model.
    """

    tokenizer: "TextCodec"
    model: "StepModel"
    max_source_tokens: int
    max_steps: int
    config: "Config"


class OpenedTranslator(Opened[Translator]):
    """An open translator and context manager; ``close`` frees the model."""

    kind: ClassVar[str] = "translator"

    # A string is a sequence of strings too; the first signature that fits counts.
    @overload
    def translate(self, text: str) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Sequence[str]) -> list[str]: ...
    def translate(self, text: str | Sequence[str]) -> str | list[str]:
        """Translate a text, line by line, or a sequence of lines.

        Args:
            text: A string, whose lines are translated one by one and joined again; or lines.

        Returns:
            A string for a string; for a sequence a list with one translation per item, in order.

        Raises:
            ModelError: If the translator is closed.
        """
        if isinstance(text, str):
            return "\n".join(self.translate_lines(text.split("\n")))
        return list(self.translate_lines(text))

    def stream(self, text: str) -> Iterator[str]:
        """The translation of ``text`` as it grows, token by token, later piece by piece; stop iterating to cancel it.

        The last is what ``translate`` gives, also for a blank text.

        Raises:
            ModelError: If the translator is closed.
        """
        return self._opened().stream(text)

    def translate_lines(self, lines: Sequence[str]) -> Iterator[str]:
        """Translations of lines, in order, as soon as they are ready; stop iterating to cancel the rest.

        Raises:
            ModelError: If the translator is closed.
            UsageError: If one string is given for the lines.
        """
        if isinstance(lines, str):
            raise UsageError("lines: expected a sequence of strings, found a string, which translate takes")
        return self.translate_chunks([lines])

    def translate_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[str]:
        """Translations of lines that arrive in chunks, such as from ``read_chunks``; no chunk waits for a later one.

        Raises:
            ModelError: If the translator is closed.
        """
        return self._opened().translate_chunks(chunks, batch_size=self._batch)

    def find_alternatives(self, lines: Sequence[str]) -> list[list[Alternative]]:
        """All finished hypotheses for lines; see :meth:`~lite_nlp.decoding.translate.Translator.find_alternatives`.

        Raises:
            ModelError: If the translator is closed.
        """
        return self._opened().find_alternatives(lines)


def open_translator(
    model: str | Path | LoadedModel | None = None,
    *,
    runtime: str | None = None,
    threads: int | None = None,
    beam: int = 1,
    batch: int = BATCH,
    length_penalty: float | None = None,
    no_repeat_ngram: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    long_input: LongInput | None = None,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> OpenedTranslator:
    """Open a MODEL for translation; for runtimes other than torch, it is exported to a cached bundle if it is none.

    Args:
        model: A model directory, ``.lnlp`` file, bundle or shipped name, or a loaded model; None is the default
            shipped model.
        runtime: ``torch``, or a runtime of bundles such as ``onnx`` or ``executorch``; None picks onnx for a bundle
            and torch for anything else.
        threads: Threads of the runtime, 1 to 512; None is ``OMP_NUM_THREADS``, or one per core that this process may
            use.
        beam: Hypotheses kept per sentence, 1 to 256; 1 is greedy search.
        batch: Most sentences decoded at once, 1 to 65,536.
        length_penalty: Exponent of the length penalty of beam search, 0 to 10. This and the values below are those of
            the model's ``[decoding]`` section where they are None.
        no_repeat_ngram: No run of so many tokens occurs twice in an output; 0 allows all.
        min_length: Fewest tokens of an output, without the end mark; a source of n tokens has at most 2 n + 9.
        max_length: Most tokens of an output, besides those; 0 is those alone.
        long_input: An input too long for the model: ``split`` it into pieces or ``truncate`` it.
        warn: Receives a warning for each line that is cut, shortened or in unknown letters; None logs them.
        progress: Receives the progress of making a bundle, and of lines that are cut into many pieces.

    Returns:
        A context manager with ``translate`` (a string gives a string, a sequence a list), ``translate_lines`` (each as
        soon as it is ready), ``stream`` (the growing text) and ``close``.

    Raises:
        UsageError: If a number is out of range, the least length is above the greatest, or ``long_input`` is something
            else.
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If the model is missing, damaged, or does not turn one text into another.
    """
    choices = SearchChoices(
        beam=beam,
        length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram,
        min_length=min_length,
        max_length=max_length,
        long_input=long_input,
    )
    count = check_load(threads=threads, batch=batch)
    engine, name, chosen = _open_engine(model, runtime, count, progress)
    translator = build_translator(engine, choices, warn=warn, progress=progress)
    return OpenedTranslator(translator, name=name, runtime=chosen, batch=batch)


def open_ensemble(
    models: Sequence[str | Path | LoadedModel], *, runtime: str, threads: int | None = None, beam: int = 1
) -> OpenedTranslator:
    """Open several models that translate together, each word by the mean of their probabilities.

    Args:
        models: As ``model`` of :func:`open_translator`, at least one, all with one vocabulary. The ``[decoding]``
            section is that of the first.
        runtime: See :func:`open_translator`, as for ``threads`` and ``beam``.
        threads: Threads of the runtime.
        beam: Hypotheses kept per sentence.

    Raises:
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If a model is missing, damaged, or does not turn one text into another.
    """
    from lite_nlp.decoding.ensemble import EnsembleModel

    choices = SearchChoices(beam=beam)
    count = check_load(threads=threads, batch=BATCH)
    opened = [_open_engine(model, runtime, count, None) for model in models]
    engines, names = [engine for engine, _, _ in opened], [name for _, name, _ in opened]
    together = replace(
        engines[0],
        model=engines[0].model if len(engines) == 1 else EnsembleModel([engine.model for engine in engines]),
        max_source_tokens=min(engine.max_source_tokens for engine in engines),
        max_steps=min(engine.max_steps for engine in engines),
    )
    return OpenedTranslator(build_translator(together, choices), name=" + ".join(names), runtime=runtime)


def build_translator(
    engine: RunnableModel,
    choices: SearchChoices | None = None,
    *,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> Translator:
    """The translator of an engine, with the caller's search options or else those of the ``[decoding]`` section.

    Args:
        engine: The model; its bounds apply to all options.
        choices: The caller's options; None leaves everything to the model.
        warn: Receives warnings about lines; None logs them.
        progress: Receives the progress of lines in many pieces.
    """
    from lite_nlp.config.preset import DecodingConfig
    from lite_nlp.decoding.options import SearchOptions

    choices = choices or SearchChoices()
    decoding = choices.complete(engine.config.decoding or DecodingConfig())
    return Translator(
        tokenizer=engine.tokenizer,
        model=engine.model,
        options=SearchOptions.of(decoding, beam=choices.beam, max_steps=engine.max_steps),
        # The end mark takes a place too.
        max_source_tokens=min(longest_input(engine.config, decoding.long_input), engine.max_source_tokens - 1),
        long_input=decoding.long_input,
        warn=warn or logging.getLogger("lite_nlp").warning,
        progress=progress,
    )


def torch_engine(model: "EncoderDecoder", config: "Config", tokenizer: "TextCodec") -> RunnableModel:
    """An encoder-decoder on the device of its weights, ready to run; in evaluation mode while it translates."""
    from lite_nlp.decoding.torch_model import TorchStepModel

    positions = config.model.max_positions
    step_model = TorchStepModel(model, next(model.parameters()).device)
    return RunnableModel(tokenizer, step_model, positions, positions, config)


def _open_engine(
    model: str | Path | LoadedModel | None, runtime: str | None, threads: int, progress: Progress | None
) -> tuple[RunnableModel, str, str]:
    """A MODEL or a loaded model in its runtime, its name, and the runtime's."""
    if isinstance(model, LoadedModel):
        chosen = choose_runtime(runtime)
        refuse_loaded(model.name, chosen)
        return _open_torch(model, threads), model.name, chosen
    source = resolve_source(model)
    chosen = choose_runtime(runtime, source)
    engine = (
        _open_torch(load_for_torch(source), threads)
        if chosen == "torch"
        else _open_bundle(source, chosen, threads, progress)
    )
    return engine, source.name, chosen


def _open_torch(loaded: LoadedModel, threads: int) -> RunnableModel:
    set_torch_threads(threads)
    return torch_engine(loaded.encoder_decoder, loaded.config, loaded.tokenizer)


def _open_bundle(source: Source, runtime: str, threads: int, progress: Progress | None) -> RunnableModel:
    from lite_nlp.artifacts.bundles import open_any_bundle
    from lite_nlp.artifacts.cache import cached_bundle
    from lite_nlp.config.preset import parse_config
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.export.runtime import create_engine
    from lite_nlp.export.runtime.manifest import CONFIG_FILE
    from lite_nlp.export.runtime.programs import TRANSLATION
    from lite_nlp.export.runtime.registry import RUNTIMES

    # Before an export, which takes a minute.
    if runtime not in RUNTIMES:
        raise RuntimeUnavailableError(f"--runtime: {expected_one_of(('torch', *RUNTIMES), runtime)}")
    path = source.path
    if source.kind != "bundle":
        architecture = read_config(source).model.architecture
        if architecture != "encoder-decoder":
            raise ModelError(f"{source.name}: expected an encoder-decoder, found a {architecture}")
        path = cached_bundle(source, runtime=runtime, progress=progress)
    bundle = open_any_bundle(path, runtime=runtime)
    if bundle.manifest.task != TRANSLATION:
        raise ModelError(f"{path}: expected a bundle of an encoder-decoder, found one for {bundle.manifest.task}")
    engine = create_engine(bundle, runtime=runtime, threads=threads)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    config_toml = decode_text(bundle.read(CONFIG_FILE), source=f"{path}: {CONFIG_FILE}", error=BundleError)
    config = parse_config(config_toml, name=str(path))
    return RunnableModel(tokenizer, engine, engine.max_source_tokens, engine.max_steps, config)
