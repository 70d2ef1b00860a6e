"""The plan of a compression as tables for a rich console. Imports no torch."""

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lite_nlp.budget.reporting.plan import PlanLine, PlanRecord

__all__ = ["compared_table", "matrices_table", "nats", "thousandths"]

#: Matrices with a line of their own; the page and the ledger have all of them.
_SHOWN: Final = 12


def matrices_table(plan: PlanRecord) -> Table:
    """The matrices that take most bytes, and the sum: what they were given, and why. It fits 80 columns."""
    table = _table("Plan by matrix, those that take most bytes; divergence in thousandths of a nat", "matrix")
    for heading in ("bits", "zeros", "bytes", "Fisher,\n1 bit", "measured,\n1 bit", "as\nplanned"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in plan.lines(_SHOWN):
        table.add_row(*_cells(line))
    return table


def compared_table(plan: PlanRecord) -> Table:
    """The quantizers planned with, and what decided between them. It fits 80 columns."""
    wanted = "" if plan.target_bytes is None else f" for at most {plan.target_bytes:,} bytes"
    table = _table(f"Plan{wanted}: increase of the loss in nats", "quantizer")
    for heading in ("bytes", "expected", "untrained", "after brief training", ""):
        table.add_column(heading, justify="right")
    for row in plan.compared:
        remark = "chosen" if row.quantizer == plan.quantizer else "" if row.fits else "too large"
        table.add_row(
            Text(row.quantizer),
            f"{row.size_bytes:,}",
            nats(row.predicted),
            nats(row.loss),
            nats(row.tuned_loss),
            remark,
        )
    return table


def nats(value: float | None) -> str:
    """A divergence with three significant digits; empty for None."""
    return "" if value is None else f"{value:.3g}"


def thousandths(value: float) -> str:
    """A divergence in thousandths, with three significant digits or, from a hundred on, as a whole number."""
    scaled = 1000 * value
    return f"{scaled:,.0f}" if 100 <= abs(scaled) < 1e6 else f"{scaled:.3g}"


def _cells(line: PlanLine) -> tuple[Text | str, ...]:
    return (
        # Most names end alike, and a terminal is narrow.
        Text(line.name.removesuffix(".weight")),
        f"{line.bits_per_weight:.2f}",
        f"{line.sparsity:.0%}",
        f"{line.size_bytes:,}",
        *(("", "") if line.coarse is None else map(thousandths, line.coarse)),
        thousandths(line.predicted),
    )


def _table(title: str, first: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    # A long name goes on in the next line.
    table.add_column(first, overflow="fold")
    return table
