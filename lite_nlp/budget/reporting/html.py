"""The report of a budget, or of a finished model, as one self-contained page: it loads nothing and runs no script.

The same report gives the same bytes: nothing in the page says when or where it was made. Imports no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lite_nlp.budget.closed_form.counts import GROUPS, Convention, Group
from lite_nlp.budget.closed_form.lengths import length_table
from lite_nlp.budget.gate.limits import Verdict
from lite_nlp.budget.reporting.charts import CurveChart, Segment, draw_curves, short_count, stack
from lite_nlp.budget.reporting.conventions import CONVENTIONS, PARAMETER_COUNTS
from lite_nlp.budget.reporting.papers import read_published
from lite_nlp.budget.reporting.plan_tables import nats, thousandths
from lite_nlp.budget.reporting.records import ModelRecord
from lite_nlp.budget.reporting.report import CONVENTION_NAMES, BudgetReport
from lite_nlp.budget.reporting.speed import SPEED_COLUMNS
from lite_nlp.budget.reporting.tables import figure_name, graph_row_name, table_name
from lite_nlp.budget.reporting.templating import ENVIRONMENT
from lite_nlp.core.version import __version__

__all__ = ["render_page"]

#: Lengths at which the curves have a point; between two of them they are straight.
_CURVE_LENGTHS: Final = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 55, 75, 100, 140, 200, 300, 400, 550, 750, 1000)

#: Widths in the SVG view boxes: a stacked bar as wide as the larger Mult-Adds figure; left, top, right and bottom of
#: the plot in each of the two panels of curves.
_BAR_WIDTH: Final = 960.0
_PLOT: Final = (44.0, 14.0, 330.0, 314.0)

_TOTAL: Final = "total"


@dataclass(frozen=True, kw_only=True)
class _Gauge:
    """A figure beside its limit. Positions are percentages of the bar, which always holds the limit's mark."""

    name: str
    verdict: Verdict
    filled: float
    limit_at: float


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """A row of the contribution chart; ``limit_x`` is None where the limit lies beyond the chart or none is held."""

    name: str
    total: int
    segments: tuple[Segment, ...]
    limit: int
    limit_x: float | None


@dataclass(frozen=True, kw_only=True)
class _LengthsRow:
    """A length and the totals of both conventions with it as both lengths, the source's and the target's."""

    length: int
    totals: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One convention's curves; ``limit_y`` is None where the limit does not apply or lies outside."""

    convention: Convention
    chart: CurveChart
    longest: int
    first: int
    last: int
    limit_y: float | None


def render_page(report: BudgetReport, *, record: ModelRecord | None = None, command: str = "") -> str:
    """Render the page as HTML.

    Args:
        report: A counted target; whatever it has, such as graphs or published figures, gets its section.
        record: The records of a finished model, shown beside its budget; None for the budget alone.
        command: The command line that prints the report, for the page's foot; empty to leave it out.
    """
    return ENVIRONMENT.get_template("report.html.j2").render(
        report=report,
        record=record,
        speed_columns=SPEED_COLUMNS,
        version=__version__,
        gauges=[_gauge(verdict) for verdict in report.verdicts],
        bars=_bars(report),
        bar_width=_BAR_WIDTH,
        slots={group: slot for slot, group in enumerate(GROUPS)},
        titles={**GROUPS, _TOTAL: _TOTAL},
        panels=_panels(report),
        lengths=_lengths(report),
        growth={
            vary: {convention: report.growth(convention, vary) for convention in CONVENTION_NAMES}
            for vary in report.varied
        },
        conventions=CONVENTIONS,
        parameter_counts=PARAMETER_COUNTS,
        settings=report.model.model_dump(exclude_defaults=True),
        short=short_count,
        nats=nats,
        thousandths=thousandths,
        table_name=table_name,
        figure_name=figure_name,
        graph_row_name=graph_row_name,
        paper_title=read_published()["papers"][report.published[0].paper]["title"] if report.published else "",
        command=command,
    )


def _gauge(verdict: Verdict) -> _Gauge:
    # A quarter of the bar lies beyond the limit, and more only where the figure itself needs it.
    most = max(verdict.limit * 4 / 3, verdict.found)
    return _Gauge(
        name=verdict.name,
        verdict=verdict,
        filled=100 * verdict.found / most,
        limit_at=100 * verdict.limit / most,
    )


def _bars(report: BudgetReport) -> list[_Bar]:
    """Both conventions on one scale, so that their lengths compare; parameters on a scale of their own."""
    count, limits, groups = report.count, report.limits, report.count.by_group()
    most_macs = max(count.macs_paper, count.macs_executed)
    return [
        _bar("Mult-Adds, paper", {group: cost.paper for group, cost in groups.items()}, most_macs, limits.max_macs),
        _bar("Mult-Adds, executed", {group: cost.executed for group, cost in groups.items()}, most_macs),
        _bar(
            "Parameters",
            {group: cost.params for group, cost in groups.items()},
            count.params_total,
            limits.max_params if limits.count_params == "total" else None,
        ),
    ]


def _bar(name: str, values: Mapping[Group, int], most: int, limit: int | None = None) -> _Bar:
    return _Bar(
        name=name,
        total=sum(values.values()),
        segments=stack(values, most=most, width=_BAR_WIDTH),
        limit=limit or 0,
        limit_x=_BAR_WIDTH * limit / most if limit is not None and limit <= most else None,
    )


def _panels(report: BudgetReport) -> list[_Panel]:
    """The curves of both conventions on the same axes."""
    series: dict[Convention, dict[str, list[int]]] = {}
    longest = min(_CURVE_LENGTHS[-1], report.model.max_positions)
    lengths = [*(length for length in _CURVE_LENGTHS if length < longest), longest]
    for convention in CONVENTION_NAMES:
        rows = length_table(report.model, convention=convention, lengths=lengths, beam=report.count.beam)
        series[convention] = {group: [row.groups[group] for row in rows] for group in GROUPS}
        series[convention][_TOTAL] = [row.total for row in rows]
    most = max(curves[_TOTAL][-1] for curves in series.values())
    panels = []
    for convention, curves in series.items():
        chart = draw_curves(curves, lengths, total=_TOTAL, most=most, box=_PLOT)
        limit, axis = report.limits.max_macs, chart.y_axis
        panels.append(
            _Panel(
                convention=convention,
                chart=chart,
                longest=longest,
                first=curves[_TOTAL][0],
                last=curves[_TOTAL][-1],
                limit_y=axis.position(limit) if convention == "paper" and axis.low <= limit <= axis.high else None,
            )
        )
    return panels


def _lengths(report: BudgetReport) -> list[_LengthsRow]:
    columns = [report.over_lengths(convention, vary) for vary in report.varied for convention in CONVENTION_NAMES]
    return [
        _LengthsRow(length=rows[0].src_len, totals=tuple(row.total for row in rows))
        for rows in zip(*columns, strict=True)
    ]
