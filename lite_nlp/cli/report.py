"""``lite-nlp report``: a finished model's card, budget, records and outputs, as tables, JSON or one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lite_nlp.api.report_outputs import SAMPLES
from lite_nlp.cli.budget_options import (
    MAX_MACS,
    MAX_PARAMS,
    CountParamsOption,
    MaxMacsOption,
    MaxParamsOption,
    MaxSizeOption,
    SrcLenOption,
    TgtLenOption,
    read_gate,
)
from lite_nlp.cli.console import ProgressBars, out, print_json, warn
from lite_nlp.cli.pages import command_line, write_page
from lite_nlp.core.bounds import MAX_ITEMS
from lite_nlp.core.outputs import check_output_file

if TYPE_CHECKING:
    from lite_nlp.api.bench import BenchReport

__all__ = ["report"]

_RUN: Final = "Running the model"


def report(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|MODEL]",
            help="Directory of a run, model directory, .lnlp file, bundle .zip or shipped model; else the default "
            "model.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the report as one self-contained page."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Data directory to show outputs on.", rich_help_panel=_RUN),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Its split; else test.", rich_help_panel=_RUN, show_default=False),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            min=0,
            max=MAX_ITEMS,
            help="Outputs shown beside references: of --data, or else of everyday sentences, in English and German. "
            f"{SAMPLES} with --html or --data, else none.",
            rich_help_panel=_RUN,
            show_default=False,
        ),
    ] = None,
    bench: Annotated[
        bool, typer.Option("--bench", help="Measure the speed on this machine.", rich_help_panel=_RUN)
    ] = False,
    bench_json: Annotated[
        Path | None,
        typer.Option(
            "--bench-json",
            metavar="FILE",
            help="Show the speed that lite-nlp bench --out, or the Android app, measured.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
) -> None:
    """Report on a finished model: card, budget, scores, compression, training curves, speed and outputs."""
    from lite_nlp.api.report import report_model

    if bench and bench_json is not None:
        raise typer.BadParameter("--bench and --bench-json: expected one of them, found both")
    if samples is None and html is None and data is None:
        samples = 0
    limits = read_gate(max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size).limits
    if html is not None:
        check_output_file(html, force=force)
    with ProgressBars() as progress:
        found = report_model(
            model,
            max_macs=limits.max_macs,
            max_params=limits.max_params,
            count_params=limits.count_params,
            max_size=limits.max_size_bytes,
            src_len=src_len,
            tgt_len=tgt_len,
            data=data,
            split=split,
            samples=samples,
            bench=_measure(model, progress) if bench else bench_json,
            warn=warn,
            progress=progress,
        )
    if html is not None:
        write_page(html, found.to_html(command=command_line()), force=force)
    if as_json:
        print_json(found.to_json())
    else:
        out.print(found.tables())


def _measure(model: str | None, progress: ProgressBars) -> "BenchReport":
    from lite_nlp.api.bench import bench_model
    from lite_nlp.api.report import find_reported

    return bench_model(find_reported(model).path, warn=warn, progress=progress)
