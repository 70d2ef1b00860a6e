"""The work of a bundle's graphs in a report, one column per runtime. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lite_nlp.budget.traced.graphs import Work
from lite_nlp.budget.traced.reconciliation import Reconciliation
from lite_nlp.budget.traced.work import WORK_KINDS, WorkKind

__all__ = ["GraphColumns", "GraphRow", "GraphRuns", "Origin"]

GraphRuns = Literal["encode", "decode_steps"]

#: Whether a column was counted from the graph just now, or is what the bundle's manifest says about it.
Origin = Literal["recounted", "recorded"]


@dataclass(frozen=True, kw_only=True)
class GraphRow:
    """One kind of work in one of the two graphs.

    Attributes:
        graph: The encoder, run once, or all decoder steps together.
        kind: The kind of work.
        figures: Mult-Adds by column.
    """

    graph: GraphRuns
    kind: WorkKind
    figures: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class GraphColumns:
    """The work of the graphs of one bundle, by column.

    Attributes:
        work: Their work by column: ``torch`` (the model), ``onnx``, ``executorch``.
        origins: Where each column comes from.
        reconciliation: The columns held against each other.
    """

    work: Mapping[str, Work]
    origins: Mapping[str, Origin]
    reconciliation: Reconciliation

    @property
    def conclusion(self) -> str:
        """The result of comparing the columns, in words."""
        if len(self.work) < 2:
            return "nothing to hold it against"
        return "the graphs agree" if self.reconciliation.agrees else "the graphs do not agree"

    def rows(self, *, src_len: int, tgt_len: int, beam: int) -> tuple[GraphRow, ...]:
        """Mult-Adds of one translation by graph and kind, without the kinds that do not occur.

        Args:
            src_len: Source tokens.
            tgt_len: Decoder steps, which is also the capacity of the caches.
            beam: Hypotheses of a step.
        """
        once = {column: work.macs(src_len, tgt_len, beam=0) for column, work in self.work.items()}
        whole = {column: work.macs(src_len, tgt_len, beam=beam) for column, work in self.work.items()}
        steps = {name: {kind: whole[name][kind] - once[name][kind] for kind in WORK_KINDS} for name in self.work}
        graphs: tuple[tuple[GraphRuns, dict[str, dict[WorkKind, int]]], ...] = (
            ("encode", once),
            ("decode_steps", steps),
        )
        rows = (
            GraphRow(graph=graph, kind=kind, figures={name: columns[name][kind] for name in columns})
            for graph, columns in graphs
            for kind in WORK_KINDS
        )
        return tuple(row for row in rows if any(row.figures.values()))

    def totals(self, *, src_len: int, tgt_len: int, beam: int) -> dict[str, int]:
        """Mult-Adds of one translation by column; arguments as of ``rows``."""
        return {column: sum(work.macs(src_len, tgt_len, beam=beam).values()) for column, work in self.work.items()}

    def to_json(self, *, src_len: int, tgt_len: int, beam: int) -> dict[str, Any]:
        """The columns as JSON, without the totals."""
        columns: dict[str, dict[str, Any]] = {
            name: {"origin": self.origins[name], "encode": {}, "decode_steps": {}} for name in self.work
        }
        for row in self.rows(src_len=src_len, tgt_len=tgt_len, beam=beam):
            for name, figure in row.figures.items():
                columns[name][row.graph][row.kind] = figure
        return {
            "agree": self.reconciliation.agrees,
            "columns": columns,
            "differences": [str(difference) for difference in self.reconciliation.differences],
        }
