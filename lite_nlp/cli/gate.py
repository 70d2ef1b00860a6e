"""The mobile budget as a gate before and after work: the options that ``train``, ``compress`` and ``export`` share.

Over budget, a command exits with code 3 and says what weighs most and what would bring it under. Imports nothing heavy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lite_nlp.cli.console import err
from lite_nlp.cli.quantities import parse_count, parse_size

if TYPE_CHECKING:
    from lite_nlp.budget.gate.limits import CountParams, Limits
    from lite_nlp.config.model import ModelConfig

__all__ = [
    "MAX_MACS",
    "MAX_PARAMS",
    "OVER_BUDGET",
    "AllowOption",
    "CountParamsOption",
    "Gate",
    "MaxMacsOption",
    "MaxParamsOption",
    "MaxSizeOption",
    "SrcLenOption",
    "TgtLenOption",
    "enforce_budget",
    "enforce_size",
    "read_limits",
]

#: Exit code.
OVER_BUDGET: Final = 3

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
        help="What --max-params bounds: all parameters, or the paper's count without embedding tables.",
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
        help=f"Target tokens counted, with the end mark: {_LENGTH}, or fewer if the model takes no more.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
AllowOption = Annotated[
    bool,
    typer.Option(
        "--allow-over-budget", help="Go on over budget, with a warning, instead of exit code 3.", rich_help_panel=_PANEL
    ),
]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a command is told about the budget.

    Attributes:
        limits: What a model may cost.
        src_len: Source tokens to count; None for 30, or as many as the model takes.
        tgt_len: Target tokens to count, likewise.
        allow: Whether to go on over budget.
    """

    limits: "Limits"
    src_len: int | None = None
    tgt_len: int | None = None
    allow: bool = False

    def lengths(self, model: "ModelConfig") -> tuple[int, int]:
        """The source and target tokens that ``model`` is counted at."""
        usual = min(_LENGTH, model.max_positions)
        return self.src_len or usual, self.tgt_len or usual


def read_limits(
    *, max_macs: str = MAX_MACS, max_params: str = MAX_PARAMS, count_params: str = "paper", max_size: str | None = None
) -> "Limits":
    """The limits that the options state.

    Raises:
        typer.BadParameter: If one is no count, no size or no convention.
    """
    from lite_nlp.budget.gate.limits import Limits

    return Limits(
        max_macs=parse_count(max_macs),
        max_params=parse_count(max_params),
        count_params=_params_convention(count_params),
        max_size_bytes=None if max_size is None else parse_size(max_size),
    )


def enforce_budget(model: "ModelConfig", gate: Gate, *, target: str, quiet: bool = False) -> None:
    """Leave with exit code 3 if a model costs more than the limits allow; say on stderr why, and what would help.

    Args:
        model: The architecture.
        gate: The limits, and whether to go on nevertheless.
        target: How messages name the model.
        quiet: Say nothing, since another process does.

    Raises:
        typer.Exit: With code 3, if it is over budget and the gate does not allow that.
        ConfigError: If a length is beyond the model's positions.
    """
    _enforce(model, gate, target=target, quiet=quiet)


def enforce_size(model: "ModelConfig", gate: Gate, *, target: str, size_bytes: int, bundle: bool = False) -> None:
    """The same for the size of the file that a model was written to, and only for that.

    Args:
        model: The architecture.
        gate: The limits; without one on the size nothing is checked.
        target: How messages name the model.
        size_bytes: Of the file.
        bundle: Whether the file is an exported bundle.

    Raises:
        typer.Exit: With code 3, if the file is too large and the gate does not allow that.
    """
    _enforce(model, gate, target=target, size_bytes=size_bytes, bundle=bundle)


def _enforce(
    model: "ModelConfig",
    gate: Gate,
    *,
    target: str,
    size_bytes: int | None = None,
    bundle: bool = False,
    quiet: bool = False,
) -> None:
    from lite_nlp.budget.closed_form.formulas import count_model
    from lite_nlp.budget.gate.advice import advise, describe_excess
    from lite_nlp.budget.gate.limits import check_budget

    src_len, tgt_len = gate.lengths(model)
    count = count_model(model, src_len=src_len, tgt_len=tgt_len)
    # Of a file only the size: what its model costs has been said before the work began.
    verdicts = [
        verdict
        for verdict in check_budget(count, gate.limits, size_bytes=size_bytes)
        if size_bytes is None or verdict.quantity == "size_bytes"
    ]
    if all(verdict.within for verdict in verdicts):
        return
    if not quiet:
        advice = advise(model, gate.limits, verdicts, src_len=src_len, tgt_len=tgt_len, target=target, bundle=bundle)
        text = describe_excess(target, count, gate.limits, verdicts, advice)
        ending = "going on: --allow-over-budget" if gate.allow else "--allow-over-budget goes on nevertheless"
        err.print(f"{text}\n{ending}", markup=False, soft_wrap=True)
    if not gate.allow:
        raise typer.Exit(OVER_BUDGET)


def _params_convention(text: str) -> "CountParams":
    if text == "total":
        return "total"
    if text == "paper":
        return "paper"
    raise typer.BadParameter(f"--count-params: expected total or paper, found {text}")
