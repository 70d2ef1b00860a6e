"""The budget report as tables for people on a terminal. Imports no torch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lite_nlp.budget.closed_form.counts import GROUPS, Cost
from lite_nlp.budget.reporting.bars import BarTable, Sparkline, add_bar_columns, share_cells, use_cells, use_style
from lite_nlp.budget.reporting.columns import GraphColumns, GraphRow
from lite_nlp.budget.reporting.papers import Cell, Quantity, read_published
from lite_nlp.budget.reporting.plan_tables import matrices_table
from lite_nlp.budget.reporting.records import ModelRecord
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.speed import SPEED_COLUMNS

__all__ = ["budget_tables", "figure_name", "graph_row_name", "model_tables", "papers_tables", "table_name"]

_FIGURES: Final[dict[Quantity, str]] = {
    "params": "parameters",
    "macs": "Mult-Adds",
    "params_change": "parameters, change",
    "params_ratio": "parameters, ratio",
    "macs_ratio": "Mult-Adds, ratio",
    "state_reduction": "state, reduction",
}

_CONVENTIONS: Final = ("Mult-Adds\n(paper)", "Mult-Adds\n(executed)")

_ORDERS: Final = ("quadratic", "linear", "constant")


def budget_tables(report: BudgetReport) -> RenderableType:
    """Render the totals over sentence lengths, the costs per group and part, and last the limits with their use."""
    count = report.count
    beam = f", beam {count.beam}" if count.beam > 1 else ""
    # As a text it is shown as it is, whatever markup its words look like.
    title = Text(f"{report.target} ({report.family}), {count.lengths} tokens{beam}", "italic")
    keeps = f"A hypothesis keeps {sum(report.state.values()):,} numbers from step to step."
    state = (keeps, "") if report.state else ()
    graphs = (_graphs_table(report, report.graphs), "") if report.graphs is not None else ()
    parts, limits = (BarTable(partial(table, report)) for table in (_parts_table, _limits_table))
    return Group(title, "", _lengths_table(report), "", *graphs, *state, parts, "", _growth(report), "", limits)


def model_tables(report: BudgetReport, record: ModelRecord) -> RenderableType:
    """Render the budget of a finished model and its scores, stages and plan of compression, training and files."""
    tables = (
        _scores_table(record),
        _examples_table(record),
        _speed_table(record),
        _stages_table(record),
        None if record.plan is None else matrices_table(record.plan),
        _training_table(record),
        _curves_table(record),
        _files_table(report, record),
    )
    # The budget comes last, so that its limits are what a terminal shows when all is printed.
    return Group(*(part for table in tables if table is not None for part in (table, "")), budget_tables(report))


def _scores_table(record: ModelRecord) -> Table | None:
    rows = record.score_rows()
    if not rows:
        return None
    table = _numbers_table("test set", "score", "value", "interval")
    before = ""
    for score in rows:
        interval = "" if score.interval is None else "{:.2f} to {:.2f}".format(*score.interval)
        name = "" if score.test_set == before else score.test_set
        table.add_row(Text(name), Text(score.metric), score.shown, interval)
        before = score.test_set
    return table


def _stages_table(record: ModelRecord) -> Table | None:
    if not record.stages:
        return None
    metrics = record.stage_metrics()
    table = _numbers_table("stage", "bytes", "ratio", "sparsity", "bits per weight", *metrics.values())
    for row in record.stage_rows():
        table.add_row(Text(row[0]), *row[1:])
    return table


def _training_table(record: ModelRecord) -> Table | None:
    if not record.training:
        return None
    table = _numbers_table("training", "")
    for name, value in record.training.items():
        table.add_row(Text(name), Text(value))
    return table


def _curves_table(record: ModelRecord) -> Table | None:
    lines = [(panel.title, line) for panel in record.curves() for line in panel.lines]
    if not lines:
        return None
    table = _table()
    table.add_column("curve", overflow="fold")
    for heading in ("first", "", "last"):
        table.add_column(heading, justify="right")
    for title, line in lines:
        first, last = (f"{value:,.{0 if value >= 1000 else 2}f}" for value in (line.values[0], line.values[-1]))
        name = title if line.name.lower() in title.lower() else f"{title}, {line.name}"
        table.add_row(Text(name), first, Sparkline(line.values), last)
    return table


def _examples_table(record: ModelRecord) -> Table | None:
    found = record.examples
    if found is None:
        return None
    table = _table()
    table.add_column(Text(f"{found.test_set}: source, output, reference"), overflow="fold")
    if found.scored:
        table.add_column(Text(found.metric), justify="right", no_wrap=True)
    for row in found.rows:
        score = () if not found.scored else ("" if row.score is None else f"{row.score:.1f}",)
        texts = (row.source, f"> {row.output}", f"= {row.reference}")
        table.add_row(Text("\n".join(texts)), *score, end_section=True)
    return table


def _speed_table(record: ModelRecord) -> Table | None:
    if record.speed is None:
        return None
    table = _numbers_table(*(column.replace(", ", "\n") for column in SPEED_COLUMNS))
    for cells in record.speed.rows():
        table.add_row(*map(Text, cells))
    return table


def _files_table(report: BudgetReport, record: ModelRecord) -> Table | None:
    if not record.files:
        return None
    table = _numbers_table("file", "bytes")
    for name, size in record.files.items():
        table.add_row(Text(name), f"{size:,}")
    table.add_section()
    if report.size_bytes is None:
        table.add_row("together", f"{sum(record.files.values()):,}")
    else:
        table.add_row("the file", f"{report.size_bytes:,}")
    return table


def papers_tables(cells: Sequence[Cell]) -> RenderableType:
    """Render one table for each paper with the reasons below it, and the number of cells of each verdict."""
    tables: list[RenderableType] = []
    for paper, content in read_published()["papers"].items():
        tables.extend(_paper_tables(content["title"], [cell for cell in cells if cell.paper == paper]))
    verdicts = Counter(cell.agreement for cell in cells)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    return Group(*tables, Text(f"{len(cells)} printed figures: {summary}"))


def _paper_tables(title: str, cells: Sequence[Cell]) -> Iterator[RenderableType]:
    """The paper's tables below each other in one, then the numbered remarks that its cells refer to."""
    yield Text(title, "italic")
    yield Text()
    table = _table()
    table.add_column("figure", overflow="fold")
    for heading in ("printed", "computed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    remarks: list[str] = []
    before: Cell | None = None
    for cell in cells:
        if before is None or cell.table != before.table:
            table.add_row(Text(table_name(cell)), style="bold")
        if before is None or (cell.table, cell.row) != (before.table, before.row) or cell.quantity == "params":
            table.add_row(Text(f"  {cell.row}"))
        mark = ""
        remark = "; ".join(text for text in (cell.reading, cell.reason) if text)
        if remark:
            if remark not in remarks:
                remarks.append(remark)
            mark = f" ({remarks.index(remark) + 1})"
        words = (f"    {figure_name(cell)}", cell.printed, cell.shown, cell.agreement + mark)
        table.add_row(*(Text(word) for word in words))
        before = cell
    yield table
    yield Text()
    for number, remark in enumerate(remarks, start=1):
        yield Text(f"({number}) {remark}")
    yield Text()


def table_name(cell: Cell) -> str:
    """Name the table or section of the paper that prints a figure."""
    return f"Table {cell.table}" if cell.table[0].isdecimal() else cell.table


def figure_name(cell: Cell) -> str:
    """Name a printed figure, with its lengths."""
    name = _FIGURES[cell.quantity]
    if cell.src_len and cell.tgt_len:
        return f"{name}, {cell.src_len} -> {cell.tgt_len}"
    length = cell.src_len or cell.tgt_len
    return name if length is None else f"{name}, {length} tokens"


def _table() -> Table:
    """A table narrow enough for 80 columns."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))


def _numbers_table(first: str, *headings: str) -> Table:
    """A table of right-aligned figures; on a narrow terminal a figure is broken rather than cut off."""
    table = _table()
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _parts_table(report: BudgetReport, bar_width: int) -> Table:
    count = report.count
    whole = count.macs_paper
    groups = sorted(report.part_groups(), key=lambda group: _weight(group.cost), reverse=True)
    table = _numbers_table("part", "parameters", *_CONVENTIONS)
    add_bar_columns(table, "share", bar_width)
    for group in groups:
        # The bar of the largest group is full, so that a few columns tell the groups apart.
        bar = share_cells(group.cost.paper, whole, width=bar_width, full=groups[0].cost.paper)
        table.add_row(GROUPS[group.group], *_figures(group.cost), *bar, style="bold")
        for part in sorted(group.parts, key=_weight, reverse=True):
            share = share_cells(part.paper, whole, width=bar_width, full=0)
            table.add_row(f"  {part.part}", *_figures(part), *share)
    table.add_section()
    table.add_row("total", f"{count.params_total:,}", f"{count.macs_paper:,}", f"{count.macs_executed:,}")
    table.add_row("without embeddings", f"{count.params_paper:,}")
    if report.paper_counts != "paper":
        table.add_row("as its paper counts", f"{report.params_paper:,}")
    return table


def _figures(cost: Cost) -> Iterator[str]:
    return (f"{figure:,}" for figure in (cost.params, cost.paper, cost.executed))


def _weight(cost: Cost) -> tuple[int, int, int]:
    return cost.paper, cost.executed, cost.params


def _growth(report: BudgetReport) -> Text:
    """Which groups grow how with the lengths, in one sentence."""
    growth = report.growth("executed", "both")
    groups: dict[str, list[str]] = {}
    for group in report.part_groups():
        if group.cost.executed:
            groups.setdefault(growth[group.group], []).append(GROUPS[group.group])
    orders = [
        f"{order}: {', '.join(groups[order])}" for order in ("quadratic", "linear", "constant") if order in groups
    ]
    return Text(f"Growth with the length, {'; '.join(orders)}.")


def _lengths_table(report: BudgetReport) -> Table:
    table = _numbers_table("tokens" if report.one_sequence else "source and target tokens", *_CONVENTIONS)
    rows = zip(report.over_lengths("paper", "both"), report.over_lengths("executed", "both"), strict=True)
    for paper, executed in rows:
        table.add_row(f"{paper.src_len}", f"{paper.total:,}", f"{executed.total:,}")
    return table


def _graphs_table(report: BudgetReport, graphs: GraphColumns) -> RenderableType:
    names = list(graphs.work)
    table = _numbers_table("Mult-Adds of the graphs", *(f"{name}\n({graphs.origins[name]})" for name in names))
    for row in graphs.rows(**report.sizes):
        table.add_row(graph_row_name(row, report), *(f"{row.figures[name]:,}" for name in names))
    table.add_section()
    totals = graphs.totals(**report.sizes)
    table.add_row("total", *(f"{totals[name]:,}" for name in names))
    bridge = _numbers_table("from the executed convention to the graphs", "Mult-Adds")
    bridge.add_row("executed", f"{report.count.macs_executed:,}")
    for item in report.overheads:
        bridge.add_row(f"{item.name} ({item.part})", f"{item.macs:+,}")
    bridge.add_row("together", f"{report.count.macs_executed + sum(item.macs for item in report.overheads):,}")
    differences = (Text(str(difference)) for difference in graphs.reconciliation.differences)
    return Group(table, "", *differences, f"{graphs.conclusion.capitalize()}.", "", bridge)


def graph_row_name(row: GraphRow, report: BudgetReport) -> str:
    """Name the graph, the number of its runs and the kind of work."""
    steps = report.count.tgt_len * report.count.beam
    graph = "encoder" if row.graph == "encode" else f"decoder step, {steps} times"
    return f"{graph}: {row.kind.replace('_', ' ')}"


def _limits_table(report: BudgetReport, bar_width: int) -> Table:
    table = _numbers_table("limit", "found", "allowed")
    add_bar_columns(table, "used", bar_width)
    table.add_column("", justify="right", no_wrap=True)
    for verdict in report.verdicts:
        style = use_style(verdict.found, verdict.limit)
        table.add_row(
            verdict.name,
            f"{verdict.found:,}",
            f"{verdict.limit:,}",
            *use_cells(verdict.found, verdict.limit, width=bar_width),
            Text("ok" if verdict.within else "over", style),
        )
    return table
