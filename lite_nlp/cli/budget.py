"""``lite-nlp budget``: parameters and Mult-Adds of a preset, config file, model or bundle. Imports no torch."""

import difflib
import importlib.util
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lite_nlp.artifacts.models import list_shipped, read_config, resolve_source
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
from lite_nlp.cli.console import err, out, print_json
from lite_nlp.configs import list_presets
from lite_nlp.core.errors import BundleError, ConfigError, OverBudgetError
from lite_nlp.core.files import check_output, write_text

if TYPE_CHECKING:
    from lite_nlp.budget.reporting.columns import GraphColumns
    from lite_nlp.budget.reporting.papers import ParameterCount
    from lite_nlp.budget.reporting.report import BudgetReport
    from lite_nlp.config.preset import Config

__all__ = ["budget"]


@dataclass(frozen=True, kw_only=True)
class _Target:
    """What is to be counted.

    Attributes:
        name: How the reports call it.
        words: Its name on a command line; empty for the default model.
        config: Its config.
        size_bytes: Its size, if it is one file that ships.
        bundle: The bundle's path, if it is one.
        preset: Its name, if it is an unchanged preset.
    """

    name: str
    words: str
    config: "Config"
    size_bytes: int | None = None
    bundle: Path | None = None
    preset: str | None = None


def budget(
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
    beam: Annotated[int, typer.Option("--beam", min=1, help="Hypotheses of a search, in the executed convention.")] = 1,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 when over budget.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    papers: Annotated[
        bool, typer.Option("--papers", help="Every figure that the papers print beside the computed one; no TARGET.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", dir_okay=False, help="Write the report as one self-contained page."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count parameters and Mult-Adds per part and hold them against the mobile budget."""
    from lite_nlp.budget.closed_form.formulas import count_config
    from lite_nlp.budget.gate.advice import advise, describe_excess
    from lite_nlp.budget.gate.limits import check_limits
    from lite_nlp.budget.reporting.papers import conformance
    from lite_nlp.budget.reporting.report import BudgetReport

    if papers:
        if target is not None or html is not None or check:
            raise typer.BadParameter("--papers: expected no TARGET, --check or --html beside it, found one")
        _show_papers(as_json=as_json)
        return
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size, src_len=src_len,
        tgt_len=tgt_len,
    )  # fmt: skip
    limits = gate.limits
    if html is not None:
        check_output(html, force=force)
    counted = _read_target(target, overrides or ())
    if limits.max_size_bytes is not None and counted.size_bytes is None:
        raise typer.BadParameter(f"--max-size: expected a .lnlp file or a bundle to weigh, found {counted.name}")
    model = counted.config.model
    source, steps = gate.lengths(model)
    count = count_config(model, src_len=source, tgt_len=steps, beam=beam)
    verdicts = check_limits(count, limits, size_bytes=counted.size_bytes)
    advice = advise(
        model,
        limits,
        verdicts,
        src_len=source,
        tgt_len=steps,
        target=counted.words,
        bundle=counted.bundle is not None,
    )
    report = BudgetReport(
        target=counted.name,
        model=model,
        count=count,
        limits=limits,
        verdicts=verdicts,
        advice=advice,
        size_bytes=counted.size_bytes,
        paper_counts=_paper_counts(counted.config),
        published=[cell for cell in conformance() if cell.model == counted.preset] if counted.preset else (),
        graphs=_read_graphs(counted),
        command=_command_line(),
    )
    _show(report, html=html, as_json=as_json)
    if report.graphs is not None and not report.graphs.reconciliation.agrees:
        differences = "; ".join(str(difference) for difference in report.graphs.reconciliation.unexplained)
        raise BundleError(f"{counted.name}: expected graphs that do the model's work, found differences: {differences}")
    if check and not report.within_budget:
        raise OverBudgetError(describe_excess(counted.name, count, limits, verdicts, advice))


def _show(report: "BudgetReport", *, html: Path | None, as_json: bool) -> None:
    if html is not None:
        from lite_nlp.budget.reporting.html import render_page

        write_text(html, render_page(report))
        err.print(f"wrote {html}", markup=False, soft_wrap=True)
    if as_json:
        print_json(report.to_json())
    else:
        from lite_nlp.budget.reporting.tables import budget_tables

        out.print(budget_tables(report))


def _read_graphs(counted: _Target) -> "GraphColumns | None":
    """The work of a bundle's graphs, counted again as far as the installed packages allow; None if nothing is known."""
    if counted.bundle is None:
        return None
    from lite_nlp.artifacts.bundles import open_any_bundle
    from lite_nlp.budget.reporting.columns import GraphColumns
    from lite_nlp.export.counting.bundle import read_graphs

    model = None
    if importlib.util.find_spec("torch") is not None:
        import torch

        from lite_nlp.models.build import build_model

        with torch.device("meta"):
            model = build_model(counted.config.model).eval()
    graphs = read_graphs(open_any_bundle(counted.bundle), model=model)
    if not graphs.columns:
        return None
    return GraphColumns(work=graphs.columns, origins=graphs.origins, reconciliation=graphs.reconciliation)


def _paper_counts(config: "Config") -> "ParameterCount":
    """How the paper counts parameters whose row the config reproduces; like Lite Transformer if it reproduces none."""
    from lite_nlp.budget.reporting.papers import read_published

    published = read_published()
    titles = {paper["title"]: paper["params"] for paper in published["papers"].values()}
    counts: ParameterCount = titles.get(config.reproduces.paper if config.reproduces else None, "paper")
    # A single row may be counted otherwise than the rest of its paper.
    own = (row["params"] for row in published["rows"] if row.get("preset") == config.name and "params" in row)
    return next(own, counts)


def _show_papers(*, as_json: bool) -> None:
    from lite_nlp.budget.reporting.papers import conformance

    cells = conformance()
    if as_json:
        verdicts = Counter(cell.verdict for cell in cells)
        print_json({"verdicts": dict(verdicts), "cells": [cell.to_json() for cell in cells]})
    else:
        from lite_nlp.budget.reporting.tables import papers_tables

        out.print(papers_tables(cells))


def _command_line() -> str:
    """The words that this program was started with, as a shell takes them."""
    return _displayable(shlex.join(["lite-nlp", *sys.argv[1:]]))


def _displayable(name: str) -> str:
    """``name`` with backslash escapes for what is no printable character, such as a file name's stray bytes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def _read_target(target: str | None, overrides: Sequence[str]) -> _Target:
    """The config of whatever ``target`` names: presets first, then config files, then models.

    Raises:
        ConfigError: If it names nothing, or an override is wrong.
        LiteNlpError: If the model it names is damaged.
    """
    from lite_nlp.config.preset import load_config

    if target is not None and (target in list_presets() or Path(target).suffix == ".toml"):
        preset = target if target in list_presets() and not overrides else None
        return _Target(name=_displayable(target), words=target, config=load_config(target, overrides), preset=preset)
    shipped = [model.name for model in list_shipped()]
    if target is not None and target not in shipped and not Path(target).exists():
        raise ConfigError(_unknown_target(target, shipped))
    source = resolve_source(target)
    if overrides:
        raise typer.BadParameter(f"--set changes a preset or config file, found the finished model {source.name}")
    return _Target(
        name=_displayable(source.name),
        words=target or source.name,
        config=read_config(source),
        size_bytes=None if source.kind == "directory" else source.path.stat().st_size,
        bundle=source.path if source.kind == "bundle" else None,
    )


def _unknown_target(target: str, shipped: Sequence[str]) -> str:
    presets = list_presets()
    close = difflib.get_close_matches(target, [*presets, *shipped], n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    return (
        f"{_displayable(target)}: expected a preset, a config file, a model directory, a .lnlp file, a bundle or a "
        f"shipped model, found nothing of that name{hint}\npresets: {', '.join(presets)}\n"
        f"shipped models: {', '.join(shipped) or 'none'}"
    )
