"""A translator for whatever MODEL and ``--runtime`` name: torch for weights, ONNX or ExecuTorch for a bundle."""

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lite_nlp.cli.console import err
from lite_nlp.cli.model_source import Source, load_model, resolve_source
from lite_nlp.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    from lite_nlp.decoding.search import SearchOptions, StepModel
    from lite_nlp.decoding.translate import TextCodec, Translator

__all__ = [
    "BatchOption",
    "BeamOption",
    "LengthPenaltyOption",
    "ModelArgument",
    "NgramOption",
    "OpenedTranslator",
    "Runtime",
    "RuntimeOption",
    "ThreadsOption",
    "open_translator",
    "warn",
]

#: Longest source in tokens given to a model at once; models are trained on sentences, not on pages.
_MAX_SOURCE_TOKENS: Final = 200


class Runtime(StrEnum):
    """What runs the model."""

    TORCH = "torch"
    ONNX = "onnx"
    EXECUTORCH = "executorch"


ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A model directory, .lnlp file, bundle .zip or shipped model; else the default model.",
        show_default=False,
    ),
]
RuntimeOption = Annotated[
    Runtime | None,
    typer.Option(
        "--runtime", help="What runs the model; else onnx for a bundle, torch for others.", show_default=False
    ),
]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept per sentence; 1 is greedy search.")]
BatchOption = Annotated[int, typer.Option("--batch", min=1, help="Most sentences decoded at once.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads of the runtime; else one per core.", show_default=False)
]
LengthPenaltyOption = Annotated[
    float, typer.Option("--length-penalty", min=0.0, help="Larger values make beam search favour longer output.")
]
NgramOption = Annotated[
    int, typer.Option("--no-repeat-ngram", min=0, help="No run of so many tokens occurs twice in a line; 0 allows all.")
]


@dataclass(frozen=True)
class OpenedTranslator:
    """A translator, and what it is made of."""

    translator: "Translator"
    name: str
    runtime: Runtime


@dataclass(frozen=True)
class _Engine:
    """A loaded model and what it can take: source tokens, the end mark included, and decoder steps."""

    tokenizer: "TextCodec"
    model: "StepModel"
    max_source_tokens: int
    max_steps: int


def open_translator(
    source: str | None, *, runtime: Runtime | None, threads: int | None, options: "SearchOptions"
) -> OpenedTranslator:
    """Load a model into a runtime. Without torch installed, bundles still open.

    Args:
        source: The MODEL argument; None is the default shipped model.
        runtime: None picks onnx for a bundle and torch for anything else.
        threads: Threads of the runtime; None is one per core that this process may use.
        options: How to search; the steps are bounded further by what the model or bundle can take.

    Raises:
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If the model is missing or damaged.
    """
    from lite_nlp.decoding.translate import Translator

    resolved = resolve_source(source)
    chosen = runtime or (Runtime.ONNX if resolved.kind == "bundle" else Runtime.TORCH)
    count = threads or _usable_cores()
    engine = _open_torch(source, resolved, count) if chosen is Runtime.TORCH else _open_bundle(resolved, chosen, count)
    steps = engine.max_steps if options.max_steps is None else min(engine.max_steps, options.max_steps)
    translator = Translator(
        tokenizer=engine.tokenizer,
        model=engine.model,
        options=replace(options, max_steps=steps),
        # The end mark takes a place too.
        max_source_tokens=min(_MAX_SOURCE_TOKENS, engine.max_source_tokens - 1),
        warn=warn,
    )
    return OpenedTranslator(translator, resolved.name, chosen)


def warn(message: str) -> None:
    """Print a warning to stderr."""
    err.print(f"warning: {message}", markup=False, soft_wrap=True)


def _open_torch(source: str | None, resolved: Source, threads: int) -> _Engine:
    if resolved.kind == "bundle":
        raise RuntimeUnavailableError(
            f"{resolved.path}: --runtime torch needs a model directory, a .lnlp file or a shipped model, found an "
            "exported bundle; expected --runtime onnx or executorch"
        )
    try:
        import torch
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            f"{resolved.name}: running it needs torch, which is not installed; expected the extra lite-nlp[train], "
            "or an exported bundle, which runs without torch"
        ) from error
    from lite_nlp.models.step_model import TorchStepModel

    torch.set_num_threads(threads)
    loaded = load_model(source)
    positions = loaded.config.model.max_positions
    return _Engine(loaded.tokenizer, TorchStepModel(loaded.encoder_decoder), positions, positions)


def _open_bundle(resolved: Source, runtime: Runtime, threads: int) -> _Engine:
    if resolved.kind != "bundle":
        raise RuntimeUnavailableError(
            f"{resolved.path}: --runtime {runtime} needs a bundle .zip made by `lite-nlp export`, found a model "
            f"{resolved.kind}"
        )
    from export.runtime import open_bundle
    from export.runtime.engines import create_engine
    from lite_nlp.data.tokenizer import Tokenizer

    bundle = open_bundle(resolved.path)
    engine = create_engine(bundle, runtime=str(runtime), threads=threads)
    return _Engine(Tokenizer.from_json(bundle.tokenizer_json), engine, engine.max_source_tokens, engine.max_steps)


def _usable_cores() -> int:
    """Cores that this process may use: fewer than the machine's in a container, where the system can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
