"""``lite-nlp train``: a preset or config file, trained on a data directory."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
)
from lite_nlp.cli.console import err, out
from lite_nlp.core.errors import OverBudgetError, TrainingError
from lite_nlp.tasks.registry import TrainingData, fit_vocabulary, open_training_data

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config
    from lite_nlp.models.build import Model

__all__ = ["train"]


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A preset's name or a config file.")],
    data: Annotated[Path, typer.Option("--data", help="Data directory, from `lite-nlp data prepare`.")],
    out_directory: Annotated[Path, typer.Option("--out", help="Directory of the run, then of the model.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one key of the config.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    init_from: Annotated[
        str | None, typer.Option("--init-from", metavar="MODEL", help="Begin with the weights of this model.")
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors", metavar="FILE", help="Classifiers: fix the embeddings to these word vectors (GloVe's format)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the run in --out.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
) -> None:
    """Train a model; run it under `accelerate launch` or `torchrun` to use many processes or machines.

    A model over budget is not trained (exit code 3) unless --allow-over-budget is given.
    """
    if resume and force:
        raise typer.BadParameter("--resume goes on with a run, --force throws it away: expected one of them")
    if vectors is not None and init_from is not None:
        raise typer.BadParameter("--vectors and --init-from both say what the embeddings are: expected one of them")
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, src_len=src_len, tgt_len=tgt_len,
        allow=allow_over_budget,
    )  # fmt: skip
    from lite_nlp.config.preset import load_config

    loaded = load_config(config, overrides or ())
    opened = open_training_data(data, loaded, vectors=vectors)
    fitted = fit_vocabulary(loaded, opened)
    # Launchers number the processes; the first speaks for all, and all stop.
    first = os.environ.get("RANK", "0") == "0"
    try:
        (gate if first else replace(gate, warn=lambda _: None)).check_model(fitted.model, target=config)
    except OverBudgetError:
        if first:
            raise
        raise typer.Exit(3) from None
    metrics = _train(
        fitted, opened, out_directory=out_directory, resume=resume, force=force, init_from=init_from,
        vectors=vectors, announce_vocabulary=fitted != loaded,
    )  # fmt: skip
    if metrics is not None:
        _print_metrics(out_directory, metrics)


def _train(
    config: "Config",
    data: TrainingData,
    *,
    out_directory: Path,
    resume: bool,
    force: bool,
    init_from: str | None,
    vectors: Path | None,
    announce_vocabulary: bool,
) -> dict[str, Any] | None:
    """Train in this process; the metrics in the first process, None in the others."""
    import torch

    from lite_nlp.models.build import build_model
    from lite_nlp.training.loop import TrainingJob, train
    from lite_nlp.training.processes import start_processes

    accelerator = start_processes()
    try:
        if announce_vocabulary and accelerator.is_main_process:
            err.print(f"vocabulary: {data.tokenizer.vocab_size} types, as in {data.path}", markup=False)
            if data.labels:
                err.print(f"labels: {', '.join(data.labels)}", markup=False, soft_wrap=True)
        torch.manual_seed(config.training.seed)
        model = build_model(config.model)
        if init_from is not None:
            model.load_state_dict(_initial_weights(init_from, config, data))
        if vectors is not None:
            _fix_vectors(model, vectors, config, data, quiet=not accelerator.is_main_process)
        job = TrainingJob(
            config=config,
            model=model,
            task=data.task(config),
            tokenizer_json=data.tokenizer.to_json(),
            out=out_directory,
            console=err,
            resume=resume,
            force=force,
        )
        metrics = train(job, accelerator)
        return metrics if accelerator.is_main_process else None
    finally:
        accelerator.end_training()


def _initial_weights(source: str, config: "Config", data: TrainingData) -> dict[str, Any]:
    """The weights of ``source``, if it is the same model but for dropout and reads the same tokens as the data."""
    from lite_nlp.artifacts.models import load_model

    loaded = load_model(source)
    if loaded.tokenizer.to_json() != data.tokenizer.to_json():
        raise TrainingError(
            f"--init-from {source}: expected a model with the tokenizer of {data.path}, found one with another; prepare"
            " the data with the model's tokenizer"
        )
    expected, found = config.model.model_dump(), loaded.config.model.model_dump()
    differences = [
        f"model.{key} is {value!r}, the config has {expected[key]!r}"
        for key, value in found.items()
        if value != expected[key] and not key.endswith("dropout")
    ]
    if differences:
        raise TrainingError(f"--init-from {source}: expected a model of the config, found: {'; '.join(differences)}")
    return dict(loaded.model.state_dict())


def _fix_vectors(model: "Model", path: Path, config: "Config", data: TrainingData, *, quiet: bool) -> None:
    """Fix a classifier's embeddings to the word vectors in a file."""
    import torch

    from lite_nlp.data.vectors import read_vectors
    from lite_nlp.models.build import as_classifier
    from lite_nlp.models.pretrained import fix_embeddings

    classifier = as_classifier(model, source="--vectors")
    vectors = read_vectors(path, data.tokenizer, dim=config.model.table_dim, seed=config.training.seed)
    fix_embeddings(classifier.embedding, torch.from_numpy(vectors.table))
    if not quiet:
        found, types = int(vectors.found.sum()), len(vectors.found)
        err.print(f"vectors: {found} of {types} types are words of {path}, the others stay random", markup=False)


def _print_metrics(path: Path, metrics: dict[str, Any]) -> None:
    valid = metrics["valid"]
    measures = "".join(
        f", {name} {valid[key]:.2f}" for key, name in (("bleu", "BLEU"), ("accuracy", "accuracy")) if key in valid
    )
    out.print(
        f"{path}: {metrics['steps']} steps, {metrics['epochs']} epochs, validation loss {valid['loss']:.4f},"
        f" perplexity {valid['perplexity']:.2f}{measures}, {metrics['tokens_per_second']:,.0f} tokens/s",
        markup=False,
        soft_wrap=True,
    )
