"""The budget report of one target, the content of all outputs of ``lite-nlp budget``, and its JSON object.

Tables for people are in :mod:`lite_nlp.budget.reporting.tables`, the page in :mod:`lite_nlp.budget.reporting.html`.
Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from lite_nlp.budget.closed_form.counts import Convention, Cost, Group, ModelCount, group_of
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.lengths import Growth, LengthRow, Varied, growth, length_table
from lite_nlp.budget.closed_form.overhead import Overhead, count_overhead
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.budget.gate.advice import Advice, describe_excess
from lite_nlp.budget.gate.limits import Limits, Verdict
from lite_nlp.budget.reporting.columns import GraphColumns
from lite_nlp.budget.reporting.papers import Cell, ParameterConvention
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import BundleError, OverBudgetError

__all__ = ["CONVENTION_NAMES", "VARIED_LENGTHS", "BudgetReport", "PartGroup"]

#: Both conventions, in the order in which they stand beside each other.
CONVENTION_NAMES: Final[tuple[Convention, ...]] = ("paper", "executed")

#: Which lengths grow in the tables.
VARIED_LENGTHS: Final[tuple[Varied, ...]] = ("both", "source", "target")


@dataclass(frozen=True, kw_only=True)
class PartGroup:
    """A group of parts with its sum.

    Attributes:
        group: Its name.
        cost: The sum of its parts.
        parts: The parts; none where a single one has the group's name.
    """

    group: Group
    cost: Cost
    parts: tuple[Cost, ...]


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """The counts of one target and their comparison with the limits.

    Attributes:
        target: What was counted: a preset, a file or a model.
        model: Its architecture.
        count: Parameters and Mult-Adds.
        limits: What they were held against.
        verdicts: The outcome, one per limit.
        advice: What would bring it under the limits that it exceeds.
        size_bytes: Size of the target if it is a file.
        paper_counts: Which parameters the paper counts whose row the target reproduces.
        published: The figures that are printed for exactly this model.
        graphs: The work of its graphs, if it is a bundle that tells.
    """

    target: str
    model: ModelConfig
    count: ModelCount
    limits: Limits
    verdicts: Sequence[Verdict]
    advice: Sequence[Advice] = ()
    size_bytes: int | None = None
    paper_counts: ParameterConvention = "paper"
    published: Sequence[Cell] = ()
    graphs: GraphColumns | None = None

    @property
    def family(self) -> str:
        """The model family."""
        return self.model.family

    @property
    def within_budget(self) -> bool:
        """Whether all figures are within their limits."""
        return all(verdict.within for verdict in self.verdicts)

    @property
    def params_paper(self) -> int:
        """Parameters in the convention of the target's own paper; the limit always applies to Lite Transformer's."""
        figure: int = getattr(self.count, f"params_{self.paper_counts}")
        return figure

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths and beam at which the graphs of a bundle are counted."""
        return {"src_len": self.count.src_len, "tgt_len": self.count.tgt_len, "beam": self.count.beam}

    @property
    def overheads(self) -> tuple[Overhead, ...]:
        """Differences between the work of the graphs and the executed convention."""
        return count_overhead(self.model, **self.sizes)

    @property
    def state(self) -> dict[str, int]:
        """Size of the decoding state of one hypothesis in numbers, per part."""
        if not self.model.has_decoder:
            return {}
        return count_state(self.model, src_len=self.count.src_len, tgt_len=self.count.tgt_len)

    @property
    def one_sequence(self) -> bool:
        """Whether the model reads or writes a single sequence, as a language model does, and has only one length."""
        return not (self.count.src_len and self.count.tgt_len)

    @property
    def varied(self) -> tuple[Varied, ...]:
        """The lengths that can be varied."""
        return ("both",) if self.one_sequence else VARIED_LENGTHS

    @property
    def lengths(self) -> dict[str, int]:
        """Source and target tokens counted; 0 for a sequence that the model does not have."""
        return {"src": self.count.src_len, "tgt": self.count.tgt_len}

    @property
    def params(self) -> dict[str, Any]:
        """Parameters: ``total``, ``embeddings``, ``paper`` (in the way of ``paper_counts``), ``parts``, ``groups``."""
        return {
            "total": self.count.params_total,
            "embeddings": self.count.params_embeddings,
            "paper": self.params_paper,
            "paper_counts": self.paper_counts,
            "parts": {part: cost.params for part, cost in self.count.by_part().items()},
            "groups": {group: cost.params for group, cost in self.count.by_group().items()},
        }

    @property
    def macs(self) -> dict[str, Any]:
        """Mult-Adds: ``paper``, ``executed``, both by ``parts`` and ``groups``; of a bundle also of its ``graphs``."""
        graphs = {} if self.graphs is None else {"graphs": self.graphs.totals(**self.sizes)}
        return {
            "paper": self.count.macs_paper,
            "executed": self.count.macs_executed,
            "parts": {part: _both(cost) for part, cost in self.count.by_part().items()},
            "groups": {group: _both(cost) for group, cost in self.count.by_group().items()},
            **graphs,
        }

    def require(self) -> None:
        """Require all figures to be within their limits.

        Raises:
            OverBudgetError: If a figure exceeds its limit; the message names the excess, the parts that cost most and
                what would bring the model under.
        """
        if not self.within_budget:
            raise OverBudgetError(describe_excess(self.target, self.count.lengths, self.verdicts, self.advice))

    def require_equal_graphs(self) -> None:
        """Require the graphs of a bundle to do exactly the model's work.

        Raises:
            BundleError: If they differ from it in a way that nothing explains.
        """
        if self.graphs is not None and not self.graphs.reconciliation.agrees:
            differences = "; ".join(str(difference) for difference in self.graphs.reconciliation.unexplained)
            raise BundleError(
                f"{self.target}: expected graphs that do the model's work, found differences: {differences}"
            )

    def part_groups(self) -> tuple[PartGroup, ...]:
        """Every group in which the model has parameters or work, with its parts."""
        groups = []
        for group, cost in self.count.by_group().items():
            if cost.params or cost.paper or cost.executed:
                costs = tuple(member for member in self.count.costs if group_of(member) == group)
                count = ModelCount(src_len=self.count.src_len, tgt_len=self.count.tgt_len, costs=costs)
                parts = tuple(count.by_part().values())
                named_alike = [part.part for part in parts] == [group]
                groups.append(PartGroup(group=group, cost=cost, parts=() if named_alike else parts))
        return tuple(groups)

    def over_lengths(self, convention: Convention, vary: Varied) -> tuple[LengthRow, ...]:
        """Mult-Adds at lengths 1 to 1000; a length that is not varied stays as requested."""
        fixed = self.count.tgt_len if vary == "source" else self.count.src_len
        return length_table(self.model, convention=convention, vary=vary, fixed=fixed, beam=self.count.beam)

    def growth(self, convention: Convention, vary: Varied) -> dict[Group, Growth]:
        """Order of growth of the Mult-Adds of every group with the lengths."""
        return growth(self.model, convention=convention, vary=vary)

    def longest_within(self) -> int:
        """The most tokens, source and target alike, with which the Mult-Adds are within their limit; 0 if none."""
        fits, beyond = 0, self.model.max_positions + 1
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            if count_config(self.model, src_len=middle, tgt_len=middle).macs_paper <= self.limits.max_macs:
                fits = middle
            else:
                beyond = middle
        return fits

    def to_json(self) -> dict[str, Any]:
        """The JSON object specified in ``docs/budget-schema.md``; figures are exact integers."""
        count = self.count
        content: dict[str, Any] = {
            "target": self.target,
            "family": self.family,
            "lengths": self.lengths,
            "beam": count.beam,
            "params": self.params,
            "macs": self.macs,
            "state": {"numbers": sum(self.state.values()), "parts": self.state},
            "over_lengths": {
                vary: [
                    {
                        "src": paper.src_len if count.src_len else 0,
                        "tgt": paper.tgt_len if count.tgt_len else 0,
                        "paper": paper.total,
                        "executed": executed.total,
                    }
                    for paper, executed in zip(
                        self.over_lengths("paper", vary), self.over_lengths("executed", vary), strict=True
                    )
                ]
                for vary in self.varied
            },
            "growth": {
                vary: {convention: self.growth(convention, vary) for convention in CONVENTION_NAMES}
                for vary in self.varied
            },
        }
        if self.graphs is not None:
            overheads = [{"name": item.name, "part": item.part, "macs": item.macs} for item in self.overheads]
            content["graphs"] = {**self.graphs.to_json(**self.sizes), "overheads": overheads}
        if self.size_bytes is not None:
            content["size_bytes"] = self.size_bytes
        return {
            **content,
            "limits": asdict(self.limits),
            "within_budget": self.within_budget,
            "checks": [verdict.to_json() for verdict in self.verdicts],
            "advice": [item.to_json() for item in self.advice],
            "published": [cell.to_json() for cell in self.published],
        }


def _both(cost: Cost) -> dict[str, int]:
    return {"paper": cost.paper, "executed": cost.executed}
