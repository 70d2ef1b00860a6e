"""``lite-nlp train``: a preset or config file, trained on a data directory."""

from pathlib import Path
from typing import Annotated

import typer

from lite_nlp.api.train import TrainedModel, train_model
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
from lite_nlp.cli.console import err, out, print_json, warn
from lite_nlp.cli.options import InitFromOption, MeasuredThreadsOption, OverridesOption, ResumeOption

__all__ = ["print_trained", "train"]


def train(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A preset's name, a config file, or a model directory with one.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Data directory, from `lite-nlp data prepare`.")],
    out_directory: Annotated[Path, typer.Option("--out", help="Directory of the run, then of the model.")],
    overrides: OverridesOption = None,
    resume: ResumeOption = False,
    init_from: InitFromOption = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors",
            metavar="FILE",
            help="Classifiers: freeze the embeddings at these word vectors (GloVe's format).",
        ),
    ] = None,
    threads: MeasuredThreadsOption = None,
    max_minutes: Annotated[
        float | None,
        typer.Option("--max-minutes", metavar="M", help="End the run after M minutes, as training.max_steps would."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the run in --out.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: the run's figures.")] = False,
) -> None:
    """Train a model; run it under `accelerate launch` or `torchrun` to use many processes or machines.

    A model over budget is not trained (exit code 3) unless --allow-over-budget is given.
    """
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, src_len=src_len, tgt_len=tgt_len,
        allow=allow_over_budget,
    )  # fmt: skip
    with said_once(gate) as heard:
        trained = train_model(
            config,
            data=data,
            out=out_directory,
            overrides=overrides or (),
            resume=resume,
            force=force,
            init_from=init_from,
            vectors=vectors,
            threads=threads,
            max_minutes=max_minutes,
            gate=heard,
            console=err,
        )
    if trained is not None:
        print_trained(trained, as_json=as_json)


def print_trained(trained: TrainedModel, *, as_json: bool) -> None:
    """Print a finished run: its warnings, then its figures in a line, or all of them as JSON."""
    metrics, valid = trained.metrics, trained.metrics["valid"]
    for warning in metrics["warnings"]:
        warn(warning)
    if as_json:
        print_json({"out": str(trained.path), **metrics})
        return
    measures = "".join(f", {label} {valid[name]:.2f}" for name, label in trained.labels.items() if name in valid)
    out.print(
        f"{trained.path}: {metrics['steps']} steps, {metrics['epochs']} epochs, validation loss {valid['loss']:.4f},"
        f" perplexity {valid['perplexity']:.2f}{measures}, {metrics['tokens_per_second']:,.0f} tokens/s",
        soft_wrap=True,
    )
