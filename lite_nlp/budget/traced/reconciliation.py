"""Comparison of the work of a bundle's graphs with that of the model they were exported from. Imports no torch.

What may differ, and nothing else, each to the unit:

* An exporter that finds the same computation twice in a graph may do it once. A decoder whose layers share parameters
  projects the encoded source with the same weights for every layer; ONNX's exporter merges these products, ExecuTorch's
  keeps them. Then the graph must do exactly the work of the model with all equal computations merged.
* Where a language model's tokens, one or several, are read by one graph, one is read by the formula for several. Linear
  attention has another for one token alone.

Whatever else exporters fuse or fold at export (biases into products, constants into
constants, transpositions into weights) changes no Mult-Add of these models and is not tolerated if it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lite_nlp.budget.traced.graphs import Polynomial, Work
from lite_nlp.budget.traced.work import WORK_KINDS, WorkKind

__all__ = ["MERGED", "MODEL", "Difference", "Reconciliation", "reconcile"]

#: The column of the model, against which those of the runtimes' graphs are held.
MODEL: Final = "torch"

#: Name under which a manifest records the model's work with equal computations done once.
MERGED: Final = "merged"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Work of one graph in which a column differs from the model.

    Attributes:
        column: Such as ``onnx``.
        graph: Name of the graph.
        kind: The kind of work.
        excess: What the column does beyond the model, in the source length S and the capacity C; negative for less.
        explanation: Why it may; None if nothing explains it.
    """

    column: str
    graph: str
    kind: WorkKind
    excess: Polynomial
    explanation: str | None

    def __str__(self) -> str:
        reason = self.explanation or "nothing explains it"
        return f"{self.column}: {self.graph}: {self.kind}: {self.excess} Mult-Adds beyond the model's: {reason}"


@dataclass(frozen=True)
class Reconciliation:
    """The comparison of the columns of a bundle.

    Attributes:
        columns: Names of the columns, the one that the others are held against first.
        differences: Empty if all columns are equal.
    """

    columns: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether every difference is explained."""
        return not self.unexplained

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """The differences without an explanation."""
        return tuple(difference for difference in self.differences if difference.explanation is None)


def reconcile(columns: Mapping[str, Work], *, merged: Work | None = None) -> Reconciliation:
    """Compare the columns with the model's, or with the first one if there is none of the model.

    Args:
        columns: Work by column: ``torch`` (the model), and one for each runtime.
        merged: The model's work with equal computations done once; None if not known.
    """
    if not columns:
        return Reconciliation((), ())
    reference = MODEL if MODEL in columns else next(iter(columns))
    others = [name for name in columns if name != reference]
    differences = [
        difference for name in others for difference in _differences(name, columns[name], columns[reference], merged)
    ]
    return Reconciliation((reference, *others), tuple(differences))


def _differences(column: str, found: Work, expected: Work, merged: Work | None) -> list[Difference]:
    differences = []
    for graph in expected.graphs:
        excesses = _excesses(found, expected, graph)
        # All kinds of a graph together: one that merges merges everything.
        explanation = None
        if merged is not None and not any(_excesses(found, merged, graph).values()):
            explanation = "computations that the model repeats are done once"
        elif graph == "decode_step" and any(_reads_as_several(found, work) for work in (expected, merged)):
            explanation = "one token is read as several are"
        differences += [
            Difference(
                column=column,
                graph=graph,
                kind=kind,
                excess=excess,
                explanation=explanation,
            )
            for kind, excess in excesses.items()
            if excess
        ]
    return differences


def _excesses(found: Work, expected: Work, graph: str) -> dict[WorkKind, Polynomial]:
    return _beyond(found.graphs[graph], expected.graphs[graph])


def _reads_as_several(found: Work, expected: Work | None) -> bool:
    """Whether a step does the work that the model's reading of several tokens would be of one."""
    several = {} if expected is None else expected.graphs.get("read", {})
    read = {kind: work.at_source(1) for kind, work in several.items()}
    return bool(read) and not any(_beyond(found.graphs["decode_step"], read).values())


def _beyond(
    found: Mapping[WorkKind, Polynomial], expected: Mapping[WorkKind, Polynomial]
) -> dict[WorkKind, Polynomial]:
    nothing = Polynomial()
    return {kind: found.get(kind, nothing) - expected.get(kind, nothing) for kind in WORK_KINDS}
