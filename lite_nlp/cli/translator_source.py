"""A translator for whatever MODEL and ``--runtime`` name: torch for weights, ONNX or ExecuTorch for a bundle."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lite_nlp.artifacts.models import Source, load_model, resolve_source
from lite_nlp.cli.console import warn
from lite_nlp.core.errors import RuntimeUnavailableError
from lite_nlp.export.runtime.device import usable_cores

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config, DecodingConfig
    from lite_nlp.decoding.search import SearchOptions, StepModel
    from lite_nlp.decoding.translate import TextCodec, Translator

__all__ = [
    "BatchOption",
    "BeamOption",
    "LengthPenaltyOption",
    "LongInput",
    "LongInputOption",
    "MaxLengthOption",
    "MinLengthOption",
    "ModelArgument",
    "NgramOption",
    "OpenedTranslator",
    "Runtime",
    "RuntimeOption",
    "SearchChoices",
    "ThreadsOption",
    "longest_input",
    "open_translator",
]

#: Longest source in tokens given to a model at once; models are trained on sentences, not on pages.
_MAX_SOURCE_TOKENS: Final = 200


class Runtime(StrEnum):
    """What runs the model."""

    TORCH = "torch"
    ONNX = "onnx"
    EXECUTORCH = "executorch"


class LongInput(StrEnum):
    """What to do with a line that is too long for the model."""

    SPLIT = "split"
    TRUNCATE = "truncate"


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
    float | None,
    typer.Option(
        "--length-penalty",
        min=0.0,
        help="Larger values make beam search favour longer output; else as the model's config has it, or 0.6.",
        show_default=False,
    ),
]
NgramOption = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram",
        min=0,
        help="No run of so many tokens occurs twice in a line, 0 allows all; else as the model's config has it, or 0.",
        show_default=False,
    ),
]
MinLengthOption = Annotated[
    int | None,
    typer.Option(
        "--min-length",
        min=0,
        help="Fewest tokens of an output; else as the model's config has it, or 0.",
        show_default=False,
    ),
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        min=0,
        help="Most tokens of an output, 0 for as many as go with the input; else as the model's config has it, or 0.",
        show_default=False,
    ),
]
LongInputOption = Annotated[
    LongInput | None,
    typer.Option(
        "--long-input",
        help="An input too long for the model: translate it in pieces, or its beginning alone; else as the model's "
        "config has it, or split.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SearchChoices:
    """What the command line says about the search; None leaves it to the config of the model."""

    beam: int
    length_penalty: float | None = None
    no_repeat_ngram: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    long_input: LongInput | None = None

    def complete(self, decoding: "DecodingConfig") -> "DecodingConfig":
        """What is to be done, all told."""
        chosen = {name: getattr(self, name) for name in type(decoding).model_fields}
        return decoding.model_copy(update={name: value for name, value in chosen.items() if value is not None})


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
    config: "Config"


def open_translator(
    source: str | None, *, runtime: Runtime | None, threads: int | None, choices: SearchChoices
) -> OpenedTranslator:
    """Load a model into a runtime. Without torch installed, bundles still open.

    Args:
        source: The MODEL argument; None is the default shipped model.
        runtime: None picks onnx for a bundle and torch for anything else.
        threads: Threads of the runtime; None is one per core that this process may use.
        choices: How to search; what they leave open is up to the model's config, and the steps are bounded further by
            what the model or bundle can take.

    Raises:
        RuntimeUnavailableError: If the runtime is not installed or cannot run this kind of model.
        LiteNlpError: If the model is missing or damaged.
    """
    from lite_nlp.config.preset import DecodingConfig
    from lite_nlp.decoding.translate import Translator

    resolved = resolve_source(source)
    chosen = runtime or (Runtime.ONNX if resolved.kind == "bundle" else Runtime.TORCH)
    count = threads or usable_cores()
    engine = _open_torch(source, resolved, count) if chosen is Runtime.TORCH else _open_bundle(resolved, chosen, count)
    decoding = choices.complete(engine.config.decoding or DecodingConfig())
    translator = Translator(
        tokenizer=engine.tokenizer,
        model=engine.model,
        options=_search_options(choices.beam, decoding, engine.max_steps),
        # The end mark takes a place too.
        max_source_tokens=min(longest_input(engine.config, decoding.long_input), engine.max_source_tokens - 1),
        long_input=decoding.long_input,
        warn=warn,
    )
    return OpenedTranslator(translator, resolved.name, chosen)


def longest_input(config: "Config", long_input: str) -> int:
    """Most tokens of an input, the end mark not counted, as far as the model takes so many."""
    return config.training.max_tokens if long_input == "truncate" else _MAX_SOURCE_TOKENS


def _search_options(beam: int, decoding: "DecodingConfig", max_steps: int) -> "SearchOptions":
    """Options of a search of at most ``max_steps`` steps, of which the end mark takes one."""
    from lite_nlp.decoding.search import SearchOptions

    return SearchOptions(
        beam_size=beam,
        max_steps=min(max_steps, decoding.max_length + 1) if decoding.max_length else max_steps,
        min_length=decoding.min_length,
        length_penalty=decoding.length_penalty,
        no_repeat_ngram=decoding.no_repeat_ngram,
    )


def _open_torch(source: str | None, resolved: Source, threads: int) -> _Engine:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            f"{resolved.name}: running it needs torch, which is not installed; expected the extra lite-nlp[train], "
            "or an exported bundle, which runs without torch"
        ) from error
    from lite_nlp.decoding.torch_model import TorchStepModel

    torch.set_num_threads(threads)
    loaded = load_model(source)
    positions = loaded.config.model.max_positions
    model = TorchStepModel(loaded.encoder_decoder)
    return _Engine(loaded.tokenizer, model, positions, positions, loaded.config)


def _open_bundle(resolved: Source, runtime: Runtime, threads: int) -> _Engine:
    if resolved.kind != "bundle":
        raise RuntimeUnavailableError(
            f"{resolved.path}: --runtime {runtime} needs a bundle .zip made by `lite-nlp export`, found a model "
            f"{resolved.kind}"
        )
    from lite_nlp.artifacts.bundles import open_any_bundle
    from lite_nlp.config.preset import parse_config
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.export.runtime.engine import create_engine

    bundle = open_any_bundle(resolved.path)
    engine = create_engine(bundle, runtime=str(runtime), threads=threads)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    config = parse_config(bundle.read("config.toml").decode("utf-8"), name=str(resolved.path))
    return _Engine(tokenizer, engine, engine.max_source_tokens, engine.max_steps, config)
