"""``lite-nlp report``: a finished model's budget and records, as tables, JSON or one page. Imports no torch."""

from pathlib import Path
from typing import Annotated

import typer

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
from lite_nlp.cli.console import out, print_json
from lite_nlp.cli.pages import command_line, write_page
from lite_nlp.core.files import check_output

__all__ = ["report"]


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
        typer.Option("--html", metavar="FILE", dir_okay=False, help="Write the report as one self-contained page."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
) -> None:
    """Report on a finished model: its budget, size, scores, stages of compression and training."""
    from lite_nlp.api.report import report_model

    limits = read_gate(max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size).limits
    if html is not None:
        check_output(html, force=force)
    found = report_model(
        model,
        max_macs=limits.max_macs,
        max_params=limits.max_params,
        count_params=limits.count_params,
        max_size=limits.max_size_bytes,
        src_len=src_len,
        tgt_len=tgt_len,
    )
    if html is not None:
        write_page(html, found.to_html(command=command_line()))
    if as_json:
        print_json(found.to_json())
    else:
        out.print(found.tables())
