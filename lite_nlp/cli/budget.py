"""``lite-nlp budget``: parameters and Mult-Adds of a preset, config file, model or bundle. Imports no torch."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lite_nlp.api.budget import check_budget
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
from lite_nlp.cli.options import given_parameters
from lite_nlp.cli.pages import command_line, write_page
from lite_nlp.core.bounds import MAX_BEAM
from lite_nlp.core.outputs import check_output_file

if TYPE_CHECKING:
    from lite_nlp.budget.reporting.report import BudgetReport

__all__ = ["budget"]


def budget(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A preset, config file, model directory, .lnlp file, bundle or shipped model; else the default model.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key of a preset or config file."),
    ] = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    beam: Annotated[
        int, typer.Option("--beam", min=1, max=MAX_BEAM, help="Hypotheses of a search, in the executed convention.")
    ] = 1,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 when over budget.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    papers: Annotated[
        bool,
        typer.Option(
            "--papers", help="Compare every figure printed in the papers with the computed one; goes with --json alone."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the report as one self-contained page."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count parameters and Mult-Adds by part and check them against the mobile budget."""
    if papers:
        if others := given_parameters(context, but=("papers", "as_json")):
            raise typer.BadParameter(f"--papers: expected nothing but --json beside it, found {others[0]}")
        _show_papers(as_json=as_json)
        return
    limits = read_gate(max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size).limits
    if html is not None:
        check_output_file(html, force=force)
    report = check_budget(
        target,
        max_macs=limits.max_macs,
        max_params=limits.max_params,
        count_params=limits.count_params,
        max_size=limits.max_size_bytes,
        src_len=src_len,
        tgt_len=tgt_len,
        beam=beam,
        overrides=overrides or (),
    )
    _show(report, html=html, force=force, as_json=as_json)
    report.require_equal_graphs()
    if check:
        report.require()


def _show(report: "BudgetReport", *, html: Path | None, force: bool, as_json: bool) -> None:
    if html is not None:
        from lite_nlp.budget.reporting.html import render_page

        write_page(html, render_page(report, command=command_line()), force=force)
    if as_json:
        print_json(report.to_json())
    else:
        from lite_nlp.budget.reporting.tables import budget_tables

        out.print(budget_tables(report))


def _show_papers(*, as_json: bool) -> None:
    from lite_nlp.budget.reporting.papers import conformance

    cells = conformance()
    if as_json:
        verdicts = Counter(cell.agreement for cell in cells)
        print_json({"verdicts": dict(verdicts), "cells": [cell.to_json() for cell in cells]})
    else:
        from lite_nlp.budget.reporting.tables import papers_tables

        out.print(papers_tables(cells))
