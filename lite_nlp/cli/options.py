"""Options shared by several commands."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import typer

from lite_nlp.cli.quantities import check_number
from lite_nlp.core.bounds import MAX_BATCH, MAX_BEAM, MAX_LENGTH_PENALTY, MAX_THREADS, MAX_TOKENS
from lite_nlp.core.suggestions import did_you_mean
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = [
    "BatchOption",
    "BeamOption",
    "ExportThreadsOption",
    "InitFromOption",
    "LengthPenaltyOption",
    "LongInput",
    "LongInputOption",
    "MaxLengthOption",
    "MeasuredThreadsOption",
    "MinLengthOption",
    "ModelArgument",
    "NamedModelArgument",
    "NgramOption",
    "OverridesOption",
    "ResumeOption",
    "RuntimeOption",
    "ThreadsOption",
    "check_runtime",
    "given_parameters",
]


class LongInput(StrEnum):
    """Treatment of a line that is too long for the model."""

    SPLIT = "split"
    TRUNCATE = "truncate"


def check_runtime(name: str | None) -> str | None:
    """Refuse an unknown ``--runtime``.

    Raises:
        typer.BadParameter: If there is no runtime of this name.
    """
    known = ("torch", *RUNTIMES)
    if name is not None and name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, known))}{did_you_mean(name, known)}")
    return name


def given_parameters(context: typer.Context, *, but: Collection[str]) -> list[str]:
    """The parameters that the command line gives, even with the values of their defaults.

    Args:
        context: Of the command.
        but: Names of the command's parameters that are left out.

    Returns:
        Options as they are written, arguments in capitals, in the order of the command's parameters.
    """
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in but:
            written = parameter.opts[0]
            given.append(written if written.startswith("-") else written.upper())
    return given


ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A model directory, .lnlp file, bundle .zip or shipped model; else the default model.",
        show_default=False,
    ),
]
NamedModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model directory, .lnlp file or bundle .zip.", show_default=False)
]
RuntimeOption = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="|".join(("torch", *RUNTIMES)),
        callback=check_runtime,
        help="Runtime of the model; else onnx for a bundle, torch for any other.",
        show_default=False,
    ),
]
BeamOption = Annotated[
    int, typer.Option("--beam", min=1, max=MAX_BEAM, help="Hypotheses kept per sentence; 1 is greedy search.")
]
BatchOption = Annotated[int, typer.Option("--batch", min=1, max=MAX_BATCH, help="Most sentences decoded at once.")]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MAX_THREADS,
        help="Threads of the runtime; else OMP_NUM_THREADS, or one per core.",
        show_default=False,
    ),
]
MeasuredThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MAX_THREADS,
        help="Threads of torch; else OMP_NUM_THREADS, or as many as a short measurement finds fastest.",
        show_default=False,
    ),
]
ExportThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MAX_THREADS,
        help="Threads of torch; else OMP_NUM_THREADS, or one, and while compressing as many as are found fastest.",
        show_default=False,
    ),
]
OverridesOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one key of the config.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]
InitFromOption = Annotated[
    str | None,
    typer.Option(
        "--init-from",
        metavar="MODEL",
        help="Start from the weights of this model, of which the data may have the first types alone.",
    ),
]
LengthPenaltyOption = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=0.0,
        max=MAX_LENGTH_PENALTY,
        callback=check_number,
        help="Exponent of beam search's length penalty; larger values favour longer output. Else that of the model's "
        "config, or 0.6.",
        show_default=False,
    ),
]
NgramOption = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram",
        min=0,
        max=MAX_TOKENS,
        help="Prevent any run of this many tokens from occurring twice in a line; 0 allows all. Else that of the "
        "model's config, or 0.",
        show_default=False,
    ),
]
MinLengthOption = Annotated[
    int | None,
    typer.Option(
        "--min-length",
        min=0,
        max=MAX_TOKENS,
        help="Fewest tokens of an output, of which an input of n tokens has at most 2n + 9; else that of the model's "
        "config, or 0.",
        show_default=False,
    ),
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        min=0,
        max=MAX_TOKENS,
        help="Most tokens of an output, besides the 2n + 9 that an input of n tokens may have; 0 is these alone. Else "
        "that of the model's config, or 0.",
        show_default=False,
    ),
]
LongInputOption = Annotated[
    LongInput | None,
    typer.Option(
        "--long-input",
        help="Translate an input that is too long for the model in pieces, or its beginning alone; else that of the "
        "model's config, or split.",
        show_default=False,
    ),
]
