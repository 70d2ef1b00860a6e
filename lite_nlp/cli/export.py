"""``lite-nlp export``: a model as a self-contained bundle, verified to give the same results."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from lite_nlp.api.export import MIN_BOUND, ExportedModel, export_model
from lite_nlp.cli.budget_options import (
    MAX_MACS,
    MAX_PARAMS,
    AllowOption,
    CountParamsOption,
    MaxMacsOption,
    MaxParamsOption,
    MaxSizeOption,
    SrcLenOption,
    TgtLenOption,
    read_gate,
    read_target_size,
)
from lite_nlp.cli.console import ProgressBars, err, out, print_json, warn
from lite_nlp.cli.ledger import print_ledger
from lite_nlp.cli.options import ExportThreadsOption, ModelArgument
from lite_nlp.core.bounds import MAX_STEPS, MAX_TOKENS
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS

__all__ = ["Precision", "export"]


class Precision(StrEnum):
    """Precision of the Linear layers' weights."""

    FP32 = "fp32"
    INT8 = "int8"
    MIXED = "mixed"


def export(
    output: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The bundle to write.")],
    model: ModelArgument = None,
    precision: Annotated[
        Precision,
        typer.Option(
            "--precision",
            help="Precision of the Linear layers' weights; mixed chooses fp32, 8 or 4 bits for each matrix.",
        ),
    ] = Precision.FP32,
    max_src_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-src-tokens",
            min=MIN_BOUND,
            max=MAX_TOKENS,
            help=f"Longest source or sentence, end mark included; else {DEFAULT_BOUNDS.source}, or what a model reads "
            "that cuts its input off, if that is more.",
            show_default=False,
        ),
    ] = None,
    max_tgt_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tgt-tokens",
            min=MIN_BOUND,
            max=MAX_TOKENS,
            help=f"Longest output, end mark included; else {DEFAULT_BOUNDS.capacity}, or all that a language model has "
            "positions for.",
            show_default=False,
        ),
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Store the weights once for all runtimes, as compressed as in MODEL.")
    ] = False,
    portable: Annotated[
        bool, typer.Option("--portable", help="ONNX graphs of standard operators alone, for other programs; slower.")
    ] = False,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size",
            metavar="SIZE",
            help="With --compact: largest bundle, such as 1MB; the model is compressed as far as that takes.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="With --target-size, int8 or mixed: data to score and finetune on.",
        ),
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option(
            "--max-loss",
            metavar="LOSS",
            min=0.0,
            help="With --precision int8 or mixed: largest loss, in the unit of the task's metric; else 0.3.",
        ),
    ] = None,
    no_finetune: Annotated[bool, typer.Option("--no-finetune", help="With --target-size: skip finetuning.")] = False,
    finetune_steps: Annotated[
        int | None,
        typer.Option(
            "--finetune-steps", min=1, max=MAX_STEPS, help="With --target-size: finetuning steps after pruning."
        ),
    ] = None,
    threads: ExportThreadsOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also list, on stderr, what ExecuTorch runs in kernels of its own.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
) -> None:
    """Export a model to a bundle: graphs, tokenizer, config and manifest in one .zip file.

    The bundle has graphs for ONNX Runtime and ExecuTorch, of recurrent models for ONNX Runtime alone. It is written
    only if the runtimes give the model's own tokens or labels for test sentences. A model over budget, or a bundle
    over --max-size, is refused with exit code 3 unless --allow-over-budget is given.
    """
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size, src_len=src_len,
        tgt_len=tgt_len, allow=allow_over_budget,
    )  # fmt: skip
    target_bytes = read_target_size(target_size, max_size=max_size)
    with ProgressBars() as progress:
        exported = export_model(
            model,
            out=output,
            precision=precision.value,
            compact=compact,
            portable=portable,
            max_src_tokens=max_src_tokens,
            max_tgt_tokens=max_tgt_tokens,
            target_bytes=target_bytes,
            data=data,
            max_loss=max_loss,
            finetune=not no_finetune,
            finetune_steps=finetune_steps,
            threads=threads,
            gate=gate,
            force=force,
            progress=progress,
        )
    if as_json:
        print_json(exported.as_dict())
    else:
        if exported.compressed is not None:
            print_ledger(exported.compressed, path=False)
        if exported.plan:
            _print_plan(exported)
        _print_files(exported)
    if verbose:
        _print_calls(exported)
    for warning in exported.warnings:
        warn(warning)


def _print_files(exported: ExportedModel) -> None:
    table = Table("file", title=str(exported.path))
    table.add_column("bytes", justify="right")
    for name, entry in exported.manifest.files.items():
        table.add_row(name, f"{entry.size_bytes:,}")
    table.add_section()
    table.add_row("the bundle", f"{exported.size_bytes:,}")
    if exported.made_bytes:
        table.add_section()
        for name, size_bytes in exported.made_bytes.items():
            table.add_row(f"{name}, made from it", f"{size_bytes:,}")
    out.print(table)


def _print_calls(exported: ExportedModel) -> None:
    calls = exported.calls
    if not calls:
        err.print("--verbose: the bundle has no ExecuTorch program")
        return
    # Whole names, on two lines rather than cut; those of the methods word by word leave room for them.
    table = Table(Column("ExecuTorch's own kernels, calls a run", overflow="fold"), pad_edge=False)
    for method in calls:
        table.add_column(method.replace("_", " "), justify="right", width=max(map(len, method.split("_"))))
    kernels = dict.fromkeys(kernel for called in calls.values() for kernel in called.kernels)
    for kernel in kernels:
        table.add_row(kernel, *(str(called.kernels.get(kernel, 0)) for called in calls.values()))
    table.add_section()
    table.add_row("all of them", *(str(sum(called.kernels.values())) for called in calls.values()))
    table.add_row("calls of XNNPACK", *(str(called.delegated) for called in calls.values()))
    err.print(table)


def _print_plan(exported: ExportedModel) -> None:
    """The form of each matrix, and what its forms lose; of a form that is not worth it nothing was measured."""
    table = Table("weight", title="Form of each matrix")
    table.add_column("shape", justify="right", no_wrap=True)
    table.add_column("form", no_wrap=True)
    for heading in ("bytes", "loss in int8", "loss in int4"):
        table.add_column(heading, justify="right")
    for planned in exported.plan:
        losses = (planned["losses"].get(form) for form in ("int8", "int4"))
        table.add_row(
            planned["weight"],
            " x ".join(str(size) for size in planned["shape"]),
            planned["form"],
            f"{planned['size_bytes']:,}",
            *("" if loss is None else f"{loss:.5f}" for loss in losses),
        )
    out.print(table)
