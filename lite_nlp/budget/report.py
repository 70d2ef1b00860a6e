"""What ``lite-nlp budget`` says: one JSON object for scripts, tables for people. Imports no torch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table

from lite_nlp.budget.formulas import ModelCount
from lite_nlp.budget.limits import Limits, Verdict

__all__ = ["BudgetReport"]

_QUANTITIES: Final = {"macs": "Mult-Adds (paper)", "params": "parameters", "size_bytes": "file size in bytes"}

#: How many of the largest parts an over-budget message names.
_NAMED_PARTS: Final = 3


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """A counted target held against its limits.

    Attributes:
        target: What was counted: a preset, a file or a model.
        family: Its model family.
        count: Parameters and Mult-Adds.
        limits: What they were held against.
        verdicts: The outcome, one per limit.
        size_bytes: Size of the target if it is a file.
    """

    target: str
    family: str
    count: ModelCount
    limits: Limits
    verdicts: Sequence[Verdict]
    size_bytes: int | None = None

    @property
    def within_budget(self) -> bool:
        """Whether every figure is at most its limit."""
        return all(verdict.within for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """The object that scripts rely on; every figure is an integer, not rounded."""
        parts = self.count.by_part()
        content: dict[str, Any] = {
            "target": self.target,
            "family": self.family,
            "lengths": {"src": self.count.src_len, "tgt": self.count.tgt_len},
            "params": {
                "total": self.count.params_total,
                "embeddings": self.count.params_embeddings,
                "paper": self.count.params_paper,
                "parts": {part: cost.params for part, cost in parts.items()},
            },
            "macs": {
                "paper": self.count.macs_paper,
                "executed": self.count.macs_executed,
                "parts": {part: {"paper": cost.paper, "executed": cost.executed} for part, cost in parts.items()},
            },
        }
        if self.size_bytes is not None:
            content["size_bytes"] = self.size_bytes
        return {**content, "limits": asdict(self.limits), "within_budget": self.within_budget}

    def to_tables(self) -> RenderableType:
        """The same for people: costs per part, then every figure beside its limit."""
        return Group(self._parts_table(), self._limits_table())

    def overruns(self) -> list[str]:
        """One line per figure over its limit, with the parts that weigh most in it."""
        lines = []
        for verdict in self.verdicts:
            if verdict.within:
                continue
            line = f"{self._quantity(verdict)}: {verdict.found:,} found, at most {verdict.limit:,} allowed"
            largest = ", ".join(
                f"{part} {number:,} ({number / verdict.found:.0%})"
                for part, number in verdict.contributors[:_NAMED_PARTS]
            )
            lines.append(f"{line}; largest: {largest}" if largest else line)
        return lines

    def _quantity(self, verdict: Verdict) -> str:
        name = _QUANTITIES[verdict.quantity]
        return f"{name} ({self.limits.count_params})" if verdict.quantity == "params" else name

    def _parts_table(self) -> Table:
        count = self.count
        table = Table(title=f"{self.target} ({self.family}), {count.src_len} -> {count.tgt_len} tokens")
        table.add_column("part", no_wrap=True)
        for heading in ("parameters", "Mult-Adds\n(paper)", "Mult-Adds\n(executed)"):
            table.add_column(heading, justify="right")
        for part, cost in count.by_part().items():
            table.add_row(part, f"{cost.params:,}", f"{cost.paper:,}", f"{cost.executed:,}")
        table.add_section()
        table.add_row("total", f"{count.params_total:,}", f"{count.macs_paper:,}", f"{count.macs_executed:,}")
        table.add_row("without embeddings", f"{count.params_paper:,}")
        return table

    def _limits_table(self) -> Table:
        table = Table("limit")
        for heading in ("found", "allowed", ""):
            table.add_column(heading, justify="right")
        for verdict in self.verdicts:
            mark = "ok" if verdict.within else "over"
            table.add_row(self._quantity(verdict), f"{verdict.found:,}", f"{verdict.limit:,}", mark)
        return table
