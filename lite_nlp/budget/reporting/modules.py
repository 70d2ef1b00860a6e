"""The budget of an arbitrary module, counted while it ran on example inputs. Imports no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lite_nlp.budget.gate.advice import list_excesses
from lite_nlp.budget.gate.limits import Limits, Verdict
from lite_nlp.budget.traced.work import ParameterCount, WorkCount
from lite_nlp.core.errors import OverBudgetError

__all__ = ["ModuleReport"]


@dataclass(frozen=True, kw_only=True)
class ModuleReport:
    """The work and the parameters of one module and their comparison with the limits.

    Attributes:
        target: Name of the module's class.
        work: The work of one call on the example inputs.
        parameters: The parameters.
        limits: The largest figures allowed; the Mult-Adds are those that ran, not the ``paper`` convention, which is
            defined for this project's architectures alone.
    """

    target: str
    work: WorkCount
    parameters: ParameterCount
    limits: Limits = field(default_factory=Limits)

    @property
    def family(self) -> str:
        """Empty: the module belongs to no family of this project."""
        return ""

    @property
    def lengths(self) -> dict[str, int]:
        """Empty: the lengths are those of the example inputs."""
        return {}

    @property
    def params(self) -> dict[str, Any]:
        """Parameters: ``total``, ``embeddings`` (look-up tables), ``paper`` (without these), by ``parts``.

        A part is the dotted path of a module and counts its own tensors alone; the outermost one is empty.
        """
        total, embeddings = self.parameters.total, self.parameters.embeddings
        return {
            "total": total,
            "embeddings": embeddings,
            "paper": total - embeddings,
            "parts": dict(self.parameters.by_module),
        }

    @property
    def macs(self) -> dict[str, Any]:
        """Mult-Adds: ``executed`` in one call (LayerNorm as one per element), by ``parts`` and ``kinds`` of work."""
        return {
            "executed": self.work.total,
            "parts": {part: {"executed": work.total} for part, work in self.work.by_module().items()},
            "kinds": dict(self.work.by_kind()),
        }

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Mult-Adds and parameters compared with their limits."""
        parts = {part: work.total for part, work in self.work.by_module().items()}
        return (
            Verdict(
                quantity="macs",
                found=self.work.total,
                limit=self.limits.max_macs,
                convention="executed",
                contributors=_largest(parts, self.target),
            ),
            Verdict(
                quantity="params",
                found=self.params[self.limits.count_params],
                limit=self.limits.max_params,
                convention=self.limits.count_params,
                contributors=_largest(self._counted_parameters(), self.target),
            ),
        )

    def _counted_parameters(self) -> dict[str, int]:
        """Parameters by part, in the convention of the limits."""
        if self.limits.count_params == "total":
            return dict(self.parameters.by_module)
        return {
            part: number - self.parameters.tables.get(part, 0) for part, number in self.parameters.by_module.items()
        }

    @property
    def within_budget(self) -> bool:
        """Whether all figures are within their limits."""
        return all(verdict.within for verdict in self.verdicts)

    @property
    def advice(self) -> tuple[()]:
        """Empty: only a config states dimensions that could be smaller."""
        return ()

    def require(self) -> None:
        """Require all figures to be within their limits.

        Raises:
            OverBudgetError: If a figure exceeds its limit; the message names the excess and the parts that cost most.
        """
        if not self.within_budget:
            raise OverBudgetError("\n".join([f"over budget: {self.target}", *list_excesses(self.verdicts)]))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, with those keys of ``docs/budget-schema.md`` that apply to a module."""
        return {
            "target": self.target,
            "params": self.params,
            "macs": self.macs,
            "limits": asdict(self.limits),
            "within_budget": self.within_budget,
            "checks": [verdict.to_json() for verdict in self.verdicts],
        }


def _largest(figures: Mapping[str, int], outermost: str) -> tuple[tuple[str, int], ...]:
    """Parts and their figures, largest first; the outermost module goes by its class."""
    named = ((part or outermost, figure) for part, figure in figures.items() if figure)
    return tuple(sorted(named, key=lambda item: -item[1]))
