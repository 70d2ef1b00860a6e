"""The exporting half of a runtime: from a traced model to graphs and their Mult-Adds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import nn

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.export.matrices import ProductCall, Rounding
from lite_nlp.export.runtime.interface import RuntimeEntry
from lite_nlp.export.runtime.layout import Precision
from lite_nlp.export.tracing import TracedModel

__all__ = ["Export", "Exporter", "RuntimeGraphs"]


@dataclass(frozen=True, kw_only=True)
class RuntimeGraphs:
    """A model's graphs for one runtime.

    Attributes:
        entry: What the manifest says of them.
        files: The members of the bundle that the entry names.
        work: Mult-Adds of the graphs.
        search_work: Of the graphs of searches, by the name of the search.
    """

    entry: RuntimeEntry
    files: Mapping[str, bytes]
    work: GraphWork
    search_work: Mapping[str, GraphWork] = field(default_factory=dict)


class Export(Protocol):
    """Makes the graphs of a traced model and of its form for searches."""

    def __call__(
        self, traced: TracedModel, search_form: nn.Module, rounding: Rounding, *, compact: bool
    ) -> RuntimeGraphs:
        """Make them; ``compact`` says whether every byte counts.

        Raises:
            ModelError: If the runtime cannot run them.
            CountError: If their work cannot be told.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """A row of ``export.exporters.EXPORTERS``.

    Attributes:
        task: What it does, as progress is reported.
        export: Makes the graphs.
        versions: Name of a package, or of a version of the format, to the version in use: those that decide whether a
            runtime can read the files.
        precisions: Of the weights, that it can export.
        product_call: Makes what a mixed precision times, in the runtime; None where that is not among its precisions.
    """

    task: str
    export: Export
    versions: Callable[[], dict[str, str]]
    precisions: Sequence[Precision] = ("fp32",)
    product_call: ProductCall | None = None
