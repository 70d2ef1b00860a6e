"""``lite-nlp distill``: a smaller model, trained on the outputs of a trained one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lite_nlp.api.distill import distill_model
from lite_nlp.cli.budget_options import (
    MAX_MACS,
    MAX_PARAMS,
    AllowOption,
    CountParamsOption,
    MaxMacsOption,
    MaxParamsOption,
    SrcLenOption,
    TgtLenOption,
    read_gate,
    said_once,
)
from lite_nlp.cli.console import ProgressBars, err
from lite_nlp.cli.options import InitFromOption, MeasuredThreadsOption, OverridesOption, ResumeOption, check_runtime
from lite_nlp.cli.quantities import check_number
from lite_nlp.cli.train import print_trained
from lite_nlp.core.bounds import MAX_BEAM, MAX_TEMPERATURE, MIN_TEMPERATURE
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = ["distill"]


class LevelName(StrEnum):
    """What the student learns from."""

    WORD = "word"
    SEQUENCE = "sequence"
    BOTH = "both"


def distill(
    teacher: Annotated[
        str,
        typer.Argument(metavar="TEACHER", help="A model directory, .lnlp file, bundle with weights, or shipped model."),
    ],
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help="The student: a preset's name, a config file, or a model directory with one."
        ),
    ],
    data: Annotated[Path, typer.Option("--data", help="Data directory, from `lite-nlp data prepare`.")],
    out_directory: Annotated[Path, typer.Option("--out", help="Directory of the run, then of the student.")],
    overrides: OverridesOption = None,
    ensemble: Annotated[
        list[str] | None,
        typer.Option(
            "--ensemble",
            metavar="MODEL",
            help="Sequence level: a further teacher of the same vocabulary, which translates together with TEACHER; "
            "repeatable.",
        ),
    ] = None,
    level: Annotated[
        LevelName | None,
        typer.Option(
            "--level",
            help="Learn from the teacher's distribution of every token or class, from its translations, or from both. "
            "Else both for sentence pairs (sequence where the vocabularies differ, the teacher reads fewer tokens than "
            "the student may, or with --ensemble), word for other tasks.",
            show_default=False,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            min=MIN_TEMPERATURE,
            max=MAX_TEMPERATURE,
            callback=check_number,
            help="Word level: logits of both models are divided by it; else 1.",
            show_default=False,
        ),
    ] = None,
    label_weight: Annotated[
        float | None,
        typer.Option(
            "--label-weight",
            min=0.0,
            max=1.0,
            callback=check_number,
            help="Word level: weight of the labels against the teacher, below 1; else 0.5.",
            show_default=False,
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam",
            min=1,
            max=MAX_BEAM,
            help="Sequence level: hypotheses of the teacher's search; else 5.",
            show_default=False,
        ),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            min=1,
            max=MAX_BEAM,
            help="Sequence level: learn from the N best hypotheses, weighted by their probabilities; else 1, or all "
            "with --interpolation.",
            show_default=False,
        ),
    ] = None,
    interpolation: Annotated[
        bool,
        typer.Option(
            "--interpolation", help="Sequence level: of the N best learn from the one nearest to the reference (BLEU)."
        ),
    ] = False,
    reference_weight: Annotated[
        float | None,
        typer.Option(
            "--reference-weight",
            min=0.0,
            max=1.0,
            callback=check_number,
            help="Sequence level: weight of the data's own targets against the teacher's, below 1; else 0.",
            show_default=False,
        ),
    ] = None,
    hypotheses: Annotated[
        Path | None,
        typer.Option(
            "--hypotheses",
            metavar="DIR",
            help="Sequence level: directory of the teacher's translations, reused if they are of the same teacher, "
            "data and search; else one in --out.",
            show_default=False,
        ),
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime",
            metavar="|".join(("torch", *RUNTIMES)),
            callback=check_runtime,
            help="Sequence level: runtime of the teacher's search; else torch, on a GPU if there is one.",
            show_default=False,
        ),
    ] = None,
    resume: ResumeOption = False,
    init_from: InitFromOption = None,
    threads: MeasuredThreadsOption = None,
    max_minutes: Annotated[
        float | None,
        typer.Option("--max-minutes", metavar="M", help="End after M minutes, the teacher's translations included."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Overwrite the run in --out, and damaged translations or those of another teacher or search.",
        ),
    ] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: the run's figures.")] = False,
) -> None:
    """Train a smaller model on the outputs of a trained one; with the options of `train`.

    A student over budget is not trained (exit code 3) unless --allow-over-budget is given.
    """
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, src_len=src_len, tgt_len=tgt_len,
        allow=allow_over_budget,
    )  # fmt: skip
    with said_once(gate) as heard:
        trained = distill_model(
            teacher,
            config,
            data=data,
            out=out_directory,
            ensemble=ensemble or (),
            level=None if level is None else level.value,
            temperature=temperature,
            label_weight=label_weight,
            beam=beam,
            n_best=n_best,
            interpolation=interpolation,
            reference_weight=reference_weight,
            hypotheses=hypotheses,
            runtime=runtime,
            overrides=overrides or (),
            resume=resume,
            force=force,
            init_from=init_from,
            threads=threads,
            max_minutes=max_minutes,
            gate=heard,
            progress=ProgressBars(),
            console=err,
        )
    if trained is not None:
        print_trained(trained, as_json=as_json)
