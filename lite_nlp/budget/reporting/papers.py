"""The published figures of the four papers, each compared with the closed form of the same row. Imports no torch.

The figures are in ``published.toml``. A cell's agreement says how the computed value, an exact number, relates to the
printed one: it rounds to it, only its truncation gives it, or neither ("off"); rows of models that cannot be built yet
are pending, and rows whose dims no paper gives are not reproducible.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config, load_config
from lite_nlp.core.errors import ConfigError

__all__ = [
    "Agreement",
    "Cell",
    "ParameterConvention",
    "Quantity",
    "conformance",
    "judge",
    "parameter_convention",
    "parse_printed",
    "read_published",
]

#: params, macs: a count. params_change: relative to the baseline row, as in -75%. params_ratio, macs_ratio: how many
#: times smaller than the baseline. state_reduction: by how much the decoding state is smaller than the baseline's.
Quantity = Literal["params", "macs", "params_change", "params_ratio", "macs_ratio", "state_reduction"]

Agreement = Literal["rounds", "truncates", "off", "pending", "not reproducible"]

#: Which of a count's parameter figures a paper prints, or one row of it.
ParameterConvention = Literal["total", "paper", "weights", "encoder", "encoder_weights", "encoder_partly_biased"]

_UNITS: Final = {
    "": Fraction(1),
    "x": Fraction(1),
    "%": Fraction(1, 100),
    "K": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
}
_PRINTED: Final = re.compile(r"(?P<bound>[<>]?)(?P<number>-?\d+(?:\.(?P<decimals>\d+))?)(?P<unit>[x%KMG]?)")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A published figure and the value computed for it.

    Attributes:
        paper: Short name of the paper.
        table: Number of its table, or the section that says it.
        row: The row's name as printed.
        reading: How dims were read that the paper leaves unclear; empty where it does not.
        quantity: What the figure is.
        printed: The figure as printed.
        src_len: Source tokens that Mult-Adds are counted at, or None.
        tgt_len: Target tokens, or None.
        model: What was counted: a preset and the keys changed; empty if nothing is computed.
        computed: The exact value, or None where nothing can be computed.
        expected: The value that others found for the row, or None: exact where it is an integer.
        agreement: How ``computed`` relates to ``printed``.
        reason: Why the figure is not simply the rounded one; empty where it is.
    """

    paper: str
    table: str
    row: str
    reading: str
    quantity: Quantity
    printed: str
    src_len: int | None
    tgt_len: int | None
    model: str
    computed: Fraction | None
    expected: int | str | None
    agreement: Agreement
    reason: str

    @property
    def deviation(self) -> float | None:
        """Relative deviation of the computed value from the printed one; None without a value, or for bounds."""
        value, _, bound = parse_printed(self.printed)
        return None if self.computed is None or bound else float(self.computed / value - 1)

    @property
    def shown(self) -> str:
        """The computed value for people: counts in full, changes in percent, ratios with two decimals."""
        if self.computed is None:
            return ""
        if self.quantity in ("params_change", "state_reduction"):
            return f"{float(self.computed):.2%}"
        return f"{float(self.computed):.2f}x" if self.quantity.endswith("_ratio") else f"{int(self.computed):,}"

    def to_json(self) -> dict[str, Any]:
        """The cell as JSON has it: counts as integers, changes and ratios as floats, absent things as null."""
        computed: int | float | None = None
        if self.computed is not None:
            computed = int(self.computed) if self.quantity in ("params", "macs") else float(self.computed)
        return {
            "paper": self.paper,
            "table": self.table,
            "row": self.row,
            "reading": self.reading or None,
            "quantity": self.quantity,
            "printed": self.printed,
            "lengths": None if self.src_len is None else {"src": self.src_len, "tgt": self.tgt_len},
            "model": self.model or None,
            "computed": computed,
            "deviation": self.deviation,
            "verdict": self.agreement,
            "reason": self.reason or None,
        }


@cache
def read_published() -> dict[str, Any]:
    """Read ``published.toml``, whose head explains its keys."""
    return tomllib.loads(files("lite_nlp.budget.reporting").joinpath("published.toml").read_text(encoding="utf-8"))


def parameter_convention(config: Config) -> ParameterConvention:
    """The parameter convention of the paper whose row a config reproduces; Lite Transformer's if it reproduces none."""
    published = read_published()
    titles = {paper["title"]: paper["params"] for paper in published["papers"].values()}
    usual: ParameterConvention = titles.get(config.reproduces.paper if config.reproduces else None, "paper")
    # A single row may be counted otherwise than the rest of its paper.
    own = (row["params"] for row in published["rows"] if row.get("preset") == config.name and "params" in row)
    return next(own, usual)


def parse_printed(printed: str, last_digit: str | None = None) -> tuple[Fraction, Fraction, str]:
    """Parse a figure as papers print it.

    Args:
        printed: Such as ``2.8M``, ``-75.0%``, ``2.5x`` or ``<0.2%``.
        last_digit: Worth of its last significant digit, such as ``10%``; None where that is its last one.

    Returns:
        Its value, the worth of its last digit, and ``<``, ``>`` or an empty string.

    Raises:
        ConfigError: If it is no such figure.
    """
    match = _PRINTED.fullmatch(printed)
    if match is None:
        raise ConfigError(f"printed figure: expected a number with x, %, K, M or G, found {printed!r}")
    unit = _UNITS[match["unit"]]
    step = unit / 10 ** len(match["decimals"] or "") if last_digit is None else parse_printed(last_digit)[0]
    return Fraction(match["number"]) * unit, step, match["bound"]


def judge(computed: Fraction, printed: str, last_digit: str | None = None) -> Agreement:
    """Compare an exact value with a printed figure; a bound (``<``, ``>``) that holds counts as rounding.

    Raises:
        ConfigError: If ``printed`` is no figure.
    """
    value, step, bound = parse_printed(printed, last_digit)
    if bound:
        holds = computed < value if bound == "<" else computed > value
        return "rounds" if holds else "off"
    if abs(computed - value) <= step / 2:
        return "rounds"
    beyond = abs(computed) - abs(value)
    return "truncates" if 0 <= beyond < step and computed * value > 0 else "off"


def conformance() -> list[Cell]:
    """Compute every cell of ``published.toml``, in its order.

    Raises:
        ConfigError: If the file names an unknown preset, baseline or figure.
    """
    published = read_published()
    rows: Sequence[Mapping[str, Any]] = published["rows"]
    models = {index: _model(row) for index, row in enumerate(rows)}
    baselines = {row["id"]: models[index] for index, row in enumerate(rows) if "id" in row}
    params = {name: paper["params"] for name, paper in published["papers"].items()}
    return [
        _cell(row, cell, models[index], baselines, row.get("params", params[row["paper"]]))
        for index, row in enumerate(rows)
        for cell in row["cells"]
    ]


def _model(row: Mapping[str, Any]) -> ModelConfig | None:
    return load_config(row["preset"], row.get("overrides", ())).model if "preset" in row else None


def _cell(
    row: Mapping[str, Any],
    cell: Mapping[str, Any],
    model: ModelConfig | None,
    baselines: Mapping[str, ModelConfig | None],
    params: ParameterConvention,
) -> Cell:
    baseline = None
    if "baseline" in cell:
        if cell["baseline"] not in baselines:
            raise ConfigError(f"baseline of {row['paper']}, {row['row']}: expected an id, found {cell['baseline']!r}")
        baseline = baselines[cell["baseline"]]
    computed = None
    if model is not None and (baseline is not None or "baseline" not in cell):
        lengths = {name: cell[name] for name in ("src_len", "tgt_len") if name in cell}
        own = _figure(cell["quantity"], model, lengths, params)
        other = None if baseline is None else _figure(cell["quantity"], baseline, lengths, params)
        computed = _relate(cell["quantity"], own, other)
    agreement: Agreement
    if computed is not None:
        agreement = judge(computed, cell["printed"], cell.get("last_digit"))
    else:
        agreement = "not reproducible" if "not_reproducible" in row else "pending"
    return Cell(
        paper=row["paper"],
        table=row["table"],
        row=row["row"],
        reading=row.get("reading", ""),
        quantity=cell["quantity"],
        printed=cell["printed"],
        src_len=cell.get("src_len"),
        tgt_len=cell.get("tgt_len"),
        model=" ".join([row["preset"], *row.get("overrides", ())]) if computed is not None else "",
        computed=computed,
        expected=cell.get("expected"),
        agreement=agreement,
        reason=cell.get("reason") or row.get("not_reproducible") or row.get("pending") or "",
    )


def _figure(quantity: Quantity, model: ModelConfig, lengths: Mapping[str, int], params: ParameterConvention) -> int:
    if quantity == "state_reduction":
        return sum(count_state(model, **lengths).values())
    count = count_config(model, **lengths)
    if quantity in ("macs", "macs_ratio"):
        return count.macs_paper
    figures: dict[ParameterConvention, int] = {
        "total": count.params_total,
        "paper": count.params_paper,
        "weights": count.params_weights,
        "encoder": count.params_encoder,
        "encoder_weights": count.params_encoder_weights,
        "encoder_partly_biased": count.params_encoder_partly_biased,
    }
    return figures[params]


def _relate(quantity: Quantity, own: int, baseline: int | None) -> Fraction:
    if baseline is None:
        return Fraction(own)
    if quantity == "params_change":
        return Fraction(own, baseline) - 1
    return 1 - Fraction(own, baseline) if quantity == "state_reduction" else Fraction(baseline, own)
