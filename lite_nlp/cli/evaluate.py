"""``lite-nlp evaluate``: scores of a model at its task, on a split of a data directory or on two text files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lite_nlp.api.evaluate import evaluate_model
from lite_nlp.cli.console import ProgressBars, out, print_json, warn
from lite_nlp.cli.options import (
    BeamOption,
    LengthPenaltyOption,
    LongInputOption,
    MaxLengthOption,
    MinLengthOption,
    ModelArgument,
    NgramOption,
    RuntimeOption,
    ThreadsOption,
)
from lite_nlp.core.bounds import MAX_BATCH, MAX_TOKENS
from lite_nlp.tasks.room import Evaluation

__all__ = ["evaluate"]


class MetricName(StrEnum):
    """Metrics of translations and summaries."""

    BLEU = "bleu"
    ROUGE = "rouge"


def evaluate(
    model: ModelArgument = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory, from `lite-nlp data prepare`.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of --data: train, valid or test (the default).")
    ] = None,
    input_path: Annotated[Path | None, typer.Option("--input", metavar="SRC", help="Source text, .gz or not.")] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", metavar="TGT", help="Its translation or summary, line by line.")
    ] = None,
    runtime: RuntimeOption = None,
    beam: BeamOption = 1,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", min=1, max=MAX_BATCH, help="Most sentences decoded at once; else 64.", show_default=False
        ),
    ] = None,
    threads: ThreadsOption = None,
    length_penalty: LengthPenaltyOption = None,
    no_repeat_ngram: NgramOption = None,
    min_length: MinLengthOption = None,
    max_length: MaxLengthOption = None,
    long_input: LongInputOption = None,
    metric: Annotated[
        MetricName | None,
        typer.Option(
            "--metric",
            help="BLEU and chrF of translations, or ROUGE of summaries; else that of the data's task, or bleu.",
            show_default=False,
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the translations or labels here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output.")] = False,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            min=0,
            max=MAX_TOKENS,
            help="Language models: least context of a scored token; else half a window.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", min=1, max=MAX_TOKENS, help="Language models: tokens read at once; else as in training."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a model at its task: BLEU and chrF or ROUGE with signatures, perplexity, or accuracy."""
    with ProgressBars() as progress:
        found = evaluate_model(
            model,
            data=data,
            split=split,
            source=input_path,
            reference=reference,
            metric=None if metric is None else metric.value,
            runtime=runtime,
            threads=threads,
            beam=beam,
            batch=batch,
            length_penalty=length_penalty,
            no_repeat_ngram=no_repeat_ngram,
            min_length=min_length,
            max_length=max_length,
            long_input=None if long_input is None else long_input.value,
            lowercase=lowercase,
            window=window,
            context=context,
            output=output,
            force=force,
            progress=progress,
            warn=warn,
        )
    if as_json:
        print_json(found.facts)
    else:
        _print_tables(found)
    for warning in found.warnings:
        warn(warning)


def _print_tables(found: Evaluation) -> None:
    for table in found.tables:
        shown = Table(*table.columns, title=table.title)
        for row in table.rows:
            shown.add_row(*row)
        out.print(shown)
    for note in found.notes:
        out.print(note, soft_wrap=True)
