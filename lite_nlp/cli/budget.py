"""``lite-nlp budget``: parameters and Mult-Adds of a preset, config file, model or bundle. Imports no torch."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lite_nlp.cli.console import err, out, print_json
from lite_nlp.cli.model_source import list_shipped, read_config, resolve_source
from lite_nlp.cli.quantities import parse_count, parse_size
from lite_nlp.configs import list_presets
from lite_nlp.errors import ConfigError

if TYPE_CHECKING:
    from lite_nlp.budget.limits import CountParams
    from lite_nlp.models.config import Config

__all__ = ["budget"]

_OVER_BUDGET = 3


@dataclass(frozen=True)
class _Target:
    """What is to be counted; ``size_bytes`` only if it is one file that ships."""

    name: str
    config: "Config"
    size_bytes: int | None = None


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
    src_len: Annotated[int, typer.Option("--src-len", min=1, help="Source tokens, with the end mark.")] = 30,
    tgt_len: Annotated[int, typer.Option("--tgt-len", min=1, help="Target tokens, with the end mark.")] = 30,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 when over budget.")] = False,
    max_macs: Annotated[
        str, typer.Option("--max-macs", metavar="COUNT", help="Most Mult-Adds, in the paper's convention.")
    ] = "500M",
    max_params: Annotated[str, typer.Option("--max-params", metavar="COUNT", help="Most parameters.")] = "10M",
    count_params: Annotated[
        str,
        typer.Option(
            "--count-params",
            metavar="total|paper",
            help="What --max-params bounds: all parameters, or the paper's count without embedding tables.",
        ),
    ] = "paper",
    max_size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="Largest .lnlp or bundle file, such as 4MB.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count parameters and Mult-Adds per part and hold them against the mobile budget."""
    from lite_nlp.budget.formulas import count_model
    from lite_nlp.budget.limits import Limits, check_budget
    from lite_nlp.budget.report import BudgetReport

    limits = Limits(
        max_macs=parse_count(max_macs),
        max_params=parse_count(max_params),
        count_params=_params_convention(count_params),
        max_size_bytes=None if max_size is None else parse_size(max_size),
    )
    counted = _read_target(target, overrides or ())
    if limits.max_size_bytes is not None and counted.size_bytes is None:
        raise typer.BadParameter(f"--max-size: expected a .lnlp file or a bundle to weigh, found {counted.name}")
    count = count_model(counted.config.model, src_len=src_len, tgt_len=tgt_len)
    report = BudgetReport(
        target=counted.name,
        family=counted.config.model.family,
        count=count,
        limits=limits,
        verdicts=check_budget(count, limits, size_bytes=counted.size_bytes),
        size_bytes=counted.size_bytes,
    )
    if as_json:
        print_json(report.to_json())
    else:
        out.print(report.to_tables())
    if check and not report.within_budget:
        for line in report.overruns():
            err.print(f"over budget: {line}", markup=False, soft_wrap=True)
        raise typer.Exit(_OVER_BUDGET)


def _params_convention(text: str) -> "CountParams":
    if text == "total":
        return "total"
    if text == "paper":
        return "paper"
    raise typer.BadParameter(f"--count-params: expected total or paper, found {text}")


def _read_target(target: str | None, overrides: Sequence[str]) -> _Target:
    """The config of whatever ``target`` names: presets first, then config files, then models.

    Raises:
        ConfigError: If it names nothing, or an override is wrong.
        LiteNlpError: If the model it names is damaged.
    """
    from lite_nlp.models.config import load_config

    if target is not None and (target in list_presets() or Path(target).suffix == ".toml"):
        return _Target(target, load_config(target, overrides))
    shipped = [model.name for model in list_shipped()]
    if target is not None and target not in shipped and not Path(target).exists():
        raise ConfigError(_unknown_target(target, shipped))
    source = resolve_source(target)
    if overrides:
        raise typer.BadParameter(f"--set changes a preset or config file, found the finished model {source.name}")
    size_bytes = None if source.kind == "directory" else source.path.stat().st_size
    return _Target(source.name, read_config(source), size_bytes)


def _unknown_target(target: str, shipped: Sequence[str]) -> str:
    presets = list_presets()
    close = difflib.get_close_matches(target, [*presets, *shipped], n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    return (
        f"{target}: expected a preset, a config file, a model directory, a .lnlp file, a bundle or a shipped model, "
        f"found nothing of that name{hint}\npresets: {', '.join(presets)}\n"
        f"shipped models: {', '.join(shipped) or 'none'}"
    )
