"""``lite-nlp compress``: sensitivity, pruning, k-means, entropy coding; the ledger."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp.cli.console import ProgressBars, out, print_json
from lite_nlp.cli.gate import (
    MAX_MACS,
    MAX_PARAMS,
    AllowOption,
    CountParamsOption,
    Gate,
    MaxMacsOption,
    MaxParamsOption,
    MaxSizeOption,
    SrcLenOption,
    TgtLenOption,
    enforce_budget,
    enforce_size,
    read_limits,
)
from lite_nlp.cli.quantities import parse_size
from lite_nlp.cli.translator_source import ModelArgument, ThreadsOption
from lite_nlp.core.files import atomic_directory, check_output

if TYPE_CHECKING:
    from torch import nn

    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.compress.ledger import CompressionSubject, StageRow
    from lite_nlp.compress.pipeline import Finetuning
    from lite_nlp.models.build import Model
    from lite_nlp.tasks.calibration import Guidance

__all__ = ["compress"]

#: Divergence from the original's predictions, in nats for each, that pruning may cause where no target is given:
#: fine-tuning takes about a third of it back.
_TOLERANCE: Final = 0.03
_TOLERANCE_WITHOUT_FINETUNING: Final = 0.015


def compress(
    out_directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the files; model.lnlp is the one to keep.")
    ],
    model: ModelArgument = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Data directory to judge by (valid) and fine-tune on (train): sentence pairs, running text for a "
            "language model, labelled examples for a classifier. Encoder-decoders alone can do without, by the "
            "package's own sentences.",
        ),
    ] = None,
    target_size: Annotated[
        str | None, typer.Option("--target-size", metavar="SIZE", help="Largest final file, such as 570KB or 4MB.")
    ] = None,
    target_ratio: Annotated[
        float | None, typer.Option("--target-ratio", help="Smallest ratio of the fp32 file to the final one.")
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option(
            "--max-loss",
            metavar="LOSS",
            min=0.0,
            help="Largest loss allowed, in the unit of the task: points of BLEU; perplexity added, of a language "
            "model; percentage points of accuracy, of a classifier.",
        ),
    ] = None,
    no_finetune: Annotated[bool, typer.Option("--no-finetune", help="Leave out the fine-tuning.")] = False,
    finetune_steps: Annotated[
        int | None, typer.Option("--finetune-steps", min=1, help="Steps of fine-tuning after pruning.")
    ] = None,
    structured_ffn: Annotated[
        float | None,
        typer.Option(
            "--structured-ffn", metavar="FRACTION", help="Remove this part of the feed-forward channels first."
        ),
    ] = None,
    threads: ThreadsOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
) -> None:
    """Make a model smaller, stage by stage; every figure is measured on the file that the stage wrote.

    A model over budget, or a final file over --max-size, ends it with exit code 3 unless --allow-over-budget is given.
    """
    if target_ratio is not None and target_ratio <= 1:
        raise typer.BadParameter(f"--target-ratio: expected more than 1, found {target_ratio}")
    if structured_ffn is not None and not 0 < structured_ffn < 1:
        raise typer.BadParameter(f"--structured-ffn: expected a fraction between 0 and 1, found {structured_ffn}")
    if no_finetune and finetune_steps is not None:
        raise typer.BadParameter("--no-finetune and --finetune-steps: expected one of them")
    limits = read_limits(max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size)
    gate = Gate(limits=limits, src_len=src_len, tgt_len=tgt_len, allow=allow_over_budget)
    target_bytes = None if target_size is None else parse_size(target_size)
    if target_bytes is not None and limits.max_size_bytes is not None and target_bytes > limits.max_size_bytes:
        raise typer.BadParameter(f"--target-size: expected at most --max-size {max_size}, found {target_size}")
    check_output(out_directory, force=force)

    import torch

    from lite_nlp.artifacts.models import load_model, read_config, resolve_source
    from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline

    if threads is not None:
        torch.set_num_threads(threads)
    loaded = load_model(model)
    named = model or loaded.name
    if structured_ffn is None:
        enforce_budget(loaded.config.model, gate, target=named)
    else:
        from lite_nlp.tasks.shrinking import check_shrinkable

        check_shrinkable(loaded)
    guidance = _guidance(loaded, data)
    options = CompressionOptions(
        tolerance=_TOLERANCE_WITHOUT_FINETUNING if no_finetune else _TOLERANCE,
        target_bytes=target_bytes,
        target_ratio=target_ratio,
        max_loss=max_loss,
    )
    with atomic_directory(out_directory, force=force) as directory, ProgressBars() as report:
        rows = run_pipeline(
            loaded.model,
            out=directory,
            subject=_subject(loaded, guidance, report, gate),
            options=options,
            shrink=None if structured_ffn is None else _shrinking(loaded, structured_ffn, gate, named),
            finetuning=None if no_finetune else _finetuning(loaded, guidance, finetune_steps),
            progress=report,
        )
        # Before the directory is put in place: what is too large is not left behind.
        file = directory / rows[-1].file
        config = read_config(resolve_source(str(file)))
        enforce_size(config.model, gate, target=named, size_bytes=file.stat().st_size)
    if as_json:
        stages = [row.as_dict() for row in rows]
        print_json({"model": loaded.name, "text": guidance.name, "metric": guidance.metric.name, "stages": stages})
    else:
        _print_ledger(loaded.name, guidance, out_directory, rows)


def _guidance(loaded: "LoadedModel", data: Path | None) -> "Guidance":
    """What the data, of the kind that the model's architecture is for, has for compression.

    Raises:
        typer.BadParameter: If there is no data for a model that cannot do without.
        DataError: If it is of another kind, damaged, or does not fit the model.
    """
    architecture = loaded.config.model.architecture
    if architecture == "encoder-decoder":
        from lite_nlp.tasks.translation.calibration import guide_by_pairs

        return guide_by_pairs(loaded, data)
    if architecture == "language-model":
        if data is None:
            raise typer.BadParameter("a language model is compressed by running text: --data is required")
        from lite_nlp.tasks.language_modelling.calibration import guide_by_text

        return guide_by_text(loaded, data)
    if data is None:
        raise typer.BadParameter("a classifier is compressed by labelled examples: --data is required")
    from lite_nlp.tasks.classification.calibration import guide_by_labels

    return guide_by_labels(loaded, data)


def _subject(loaded: "LoadedModel", guidance: "Guidance", report: ProgressBars, gate: Gate) -> "CompressionSubject":
    """The callbacks by which compression, which knows no task, reaches this one."""
    from lite_nlp.artifacts.models import load_model
    from lite_nlp.budget.closed_form.formulas import count_model
    from lite_nlp.compress.ledger import CompressionSubject
    from lite_nlp.tasks.calibration import divergence_from

    def count_macs(model: Any) -> int:
        src_len, tgt_len = gate.lengths(model.config)
        return count_model(model.config, src_len=src_len, tgt_len=tgt_len).macs_paper

    return CompressionSubject(
        name=loaded.name,
        files=lambda model: _embedded_files(loaded, model),
        load=lambda path: load_model(str(path)).model,
        metric=guidance.metric,
        score=lambda model: guidance.score(model, report),
        evaluate=divergence_from(guidance.predict, loaded.model, guidance.scan),
        count_macs=count_macs,
    )


def _embedded_files(loaded: "LoadedModel", model: Any) -> dict[str, bytes]:
    from lite_nlp.config.preset import dump_config

    config = loaded.config.model_copy(update={"model": model.config})
    # Scores that came with the model are those from before compression, and must not pass for the file's own.
    metrics = loaded.metrics
    if "uncompressed" not in metrics:
        kept: dict[str, Any] = {key: metrics[key] for key in ("languages", "labels") if key in metrics}
        metrics = {**kept, "uncompressed": metrics}
    return {
        "config.toml": dump_config(config).encode("utf-8"),
        "metrics.json": json.dumps(metrics, ensure_ascii=False).encode("utf-8"),
        "tokenizer.json": loaded.tokenizer.to_json(),
    }


def _finetuning(loaded: "LoadedModel", guidance: "Guidance", steps: int | None) -> "Finetuning":
    import copy

    from lite_nlp.compress.finetune import FinetuneOptions
    from lite_nlp.compress.pipeline import Finetuning
    from lite_nlp.tasks.calibration import distillation_loss

    steps = steps or guidance.tuning_steps
    return Finetuning(
        batches=guidance.tuning,
        loss=distillation_loss(guidance.predict, copy.deepcopy(loaded.model), guidance.label_weight),
        pruned=FinetuneOptions(steps=steps, learning_rate=2e-4),
        quantized=FinetuneOptions(steps=max(1, steps // 2), learning_rate=5e-5),
    )


def _shrinking(loaded: "LoadedModel", fraction: float, gate: Gate, named: str) -> "Callable[[nn.Module], Model]":
    """Structured pruning, with the smaller model held against the budget in place of the original."""
    from lite_nlp.tasks.shrinking import shrink_feed_forward

    def shrink(model: "nn.Module") -> "Model":
        smaller = shrink_feed_forward(loaded, model, fraction)
        enforce_budget(smaller.config, gate, target=named)
        return smaller

    return shrink


def _print_ledger(name: str, guidance: "Guidance", directory: Path, rows: Sequence["StageRow"]) -> None:
    metric = guidance.metric
    table = Table(title=f"{name}, {metric.label} on {guidance.name}", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    # A heading of several words wraps, so that the table fits 80 columns.
    for heading in ("ratio", "sparsity", "bits per weight", "Mult-Adds", metric.label):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.stage,
            f"{row.size_bytes:,}",
            f"{row.ratio:.2f}x",
            f"{row.sparsity:.1%}",
            f"{row.bits_per_weight:.2f}",
            f"{(row.macs or 0) / 1e6:.1f}M",
            f"{row.scores[metric.name]:.2f}",
        )
    out.print(table)
    out.print(str(directory / rows[-1].file), markup=False, soft_wrap=True)
