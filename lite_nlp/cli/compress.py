"""``lite-nlp compress``: sensitivity, pruning, k-means, entropy coding; the ledger."""

from pathlib import Path
from typing import Annotated

import typer

from lite_nlp.api.compress import Effort, compress_model
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
from lite_nlp.cli.console import ProgressBars, print_json, warn
from lite_nlp.cli.ledger import print_ledger
from lite_nlp.cli.options import MeasuredThreadsOption, ModelArgument
from lite_nlp.core.bounds import MAX_ACCUMULATION, MAX_CYCLES, MAX_STEPS

__all__ = ["compress"]


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
            help="Data directory to score on (valid) and finetune on (train): sentence pairs, running text for a "
            "language model, labelled examples for a classifier. Optional for encoder-decoders, which else use the "
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
            help="Largest loss allowed, in the unit of the task's metric: points of BLEU or ROUGE, increase in "
            "perplexity, or percentage points of accuracy.",
        ),
    ] = None,
    no_finetune: Annotated[bool, typer.Option("--no-finetune", help="Skip finetuning.")] = False,
    effort: Annotated[
        Effort | None,
        typer.Option(
            "--effort",
            help="How long to finetune: in all about 3, 20 or 180 minutes on two cores; else quick, the only one "
            "without --data.",
            show_default=False,
        ),
    ] = None,
    finetune_steps: Annotated[
        int | None,
        typer.Option("--finetune-steps", min=1, max=MAX_STEPS, help="Finetuning steps in place of --effort."),
    ] = None,
    gradient_accumulation: Annotated[
        int | None,
        typer.Option(
            "--gradient-accumulation",
            min=1,
            max=MAX_ACCUMULATION,
            help="Batches of some 2,048 tokens a side in each finetuning step; else 4 with --effort thorough, and 1.",
            show_default=False,
        ),
    ] = None,
    cycles: Annotated[
        int | None,
        typer.Option(
            "--cycles",
            min=1,
            max=MAX_CYCLES,
            help="How often the learning rate falls in the finetuning, each time over as many of its steps; else once.",
            show_default=False,
        ),
    ] = None,
    own_outputs: Annotated[
        bool,
        typer.Option(
            "--own-outputs",
            help="Finetune on what the model itself says of the training sources, in place of the data's targets; "
            "encoder-decoders.",
        ),
    ] = False,
    structured: Annotated[
        float | None,
        typer.Option(
            "--structured",
            metavar="FRACTION",
            help="Remove this fraction of the Mult-Adds first: whole channels, heads and layers of the least loss.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="MODEL",
            help="Another model of the same task: compare sizes with its fp32 file, and scores with its own on the "
            "same examples.",
        ),
    ] = None,
    threads: MeasuredThreadsOption = None,
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
    """Compress a model stage by stage; every figure is measured on the file that the stage wrote.

    A model over budget, or a final file over --max-size, is refused with exit code 3 unless --allow-over-budget is
    given.
    """
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size, src_len=src_len,
        tgt_len=tgt_len, allow=allow_over_budget,
    )  # fmt: skip
    target_bytes = read_target_size(target_size, max_size=max_size)
    said: list[str] = []

    def warn_at_once(warning: str) -> None:
        said.append(warning)
        warn(warning)

    with ProgressBars() as progress:
        compressed = compress_model(
            model,
            out=out_directory,
            data=data,
            target_bytes=target_bytes,
            target_ratio=target_ratio,
            max_loss=max_loss,
            finetune=not no_finetune,
            finetune_steps=finetune_steps,
            gradient_accumulation=gradient_accumulation,
            cycles=cycles,
            effort=effort,
            own_outputs=own_outputs,
            structured=structured,
            reference=reference,
            threads=threads,
            gate=gate,
            force=force,
            progress=progress,
            warn=warn_at_once,
        )
    if as_json:
        print_json(compressed.as_dict())
    else:
        print_ledger(compressed)
    for warning in compressed.warnings[len(said) :]:
        warn(warning)
