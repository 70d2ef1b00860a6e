"""Budget options shared by ``budget``, ``report``, ``train``, ``compress`` and ``export``. Imports nothing heavy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lite_nlp.cli.console import err
from lite_nlp.cli.quantities import parse_count, parse_size
from lite_nlp.core.bounds import MAX_TOKENS
from lite_nlp.core.errors import OverBudgetError

if TYPE_CHECKING:
    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.budget.gate.limits import CountParams

__all__ = [
    "MAX_MACS",
    "MAX_PARAMS",
    "AllowOption",
    "CountParamsOption",
    "MaxMacsOption",
    "MaxParamsOption",
    "MaxSizeOption",
    "SrcLenOption",
    "TgtLenOption",
    "read_gate",
    "read_target_size",
    "said_once",
]

#: The mobile setting of Lite Transformer (section 5.1).
MAX_MACS: Final = "500M"
MAX_PARAMS: Final = "10M"
_LENGTH: Final = 30

_PANEL: Final = "Budget"

MaxMacsOption = Annotated[
    str,
    typer.Option(
        "--max-macs", metavar="COUNT", help="Most Mult-Adds, in the paper's convention.", rich_help_panel=_PANEL
    ),
]
MaxParamsOption = Annotated[
    str, typer.Option("--max-params", metavar="COUNT", help="Most parameters.", rich_help_panel=_PANEL)
]
CountParamsOption = Annotated[
    str,
    typer.Option(
        "--count-params",
        metavar="total|paper",
        help="Count that --max-params bounds: all parameters, or the paper's count without embedding tables.",
        rich_help_panel=_PANEL,
    ),
]
MaxSizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-size", metavar="SIZE", help="Largest .lnlp or bundle file, such as 4MB.", rich_help_panel=_PANEL
    ),
]
SrcLenOption = Annotated[
    int | None,
    typer.Option(
        "--src-len",
        min=1,
        max=MAX_TOKENS,
        help=f"Source tokens counted, with the end mark: {_LENGTH}, or fewer if the model takes no more.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
TgtLenOption = Annotated[
    int | None,
    typer.Option(
        "--tgt-len",
        min=1,
        max=MAX_TOKENS,
        help=f"Target tokens counted, with the end mark: {_LENGTH}, or fewer if the model takes no more.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
AllowOption = Annotated[
    bool,
    typer.Option(
        "--allow-over-budget", help="Warn about a model over budget instead of stopping.", rich_help_panel=_PANEL
    ),
]


def read_gate(
    *,
    max_macs: str = MAX_MACS,
    max_params: str = MAX_PARAMS,
    count_params: str = "paper",
    max_size: str | None = None,
    src_len: int | None = None,
    tgt_len: int | None = None,
    allow: bool = False,
) -> "BudgetGate":
    """The budget gate of the options; an excess that it allows is reported on stderr.

    Raises:
        typer.BadParameter: If a value is no count, no size or no convention.
    """
    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.budget.gate.limits import Limits

    limits = Limits(
        max_macs=parse_count(max_macs, option="--max-macs"),
        max_params=parse_count(max_params, option="--max-params"),
        count_params=_params_convention(count_params),
        max_size_bytes=None if max_size is None else parse_size(max_size, option="--max-size"),
    )
    return BudgetGate(
        limits=limits,
        src_len=src_len,
        tgt_len=tgt_len,
        allow=allow,
        warn=lambda text: err.print(text, soft_wrap=True),
    )


def read_target_size(target_size: str | None, *, max_size: str | None) -> int | None:
    """Bytes of ``--target-size``; None if it is not given.

    Raises:
        typer.BadParameter: If it is no size, or more than ``--max-size``.
    """
    if target_size is None:
        return None
    target_bytes = parse_size(target_size, option="--target-size")
    if max_size is not None and target_bytes > parse_size(max_size, option="--max-size"):
        raise typer.BadParameter(f"--target-size: expected at most --max-size {max_size}, found {target_size}")
    return target_bytes


@contextmanager
def said_once(gate: "BudgetGate") -> Iterator["BudgetGate"]:
    """The gate for one of a launcher's processes: the first prints the messages, and all stop.

    Launchers number the processes by the variable RANK.
    """
    first = os.environ.get("RANK", "0") == "0"
    try:
        yield gate if first else replace(gate, warn=lambda _: None)
    except OverBudgetError as error:
        if first:
            raise
        raise typer.Exit(3) from error


def _params_convention(text: str) -> "CountParams":
    if text == "total":
        return "total"
    if text == "paper":
        return "paper"
    raise typer.BadParameter(f"--count-params: expected total or paper, found {text}")
