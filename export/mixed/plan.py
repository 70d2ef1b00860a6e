"""The plan of a mixed export: the form of each matrix, by measured loss and time."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from torch import Tensor

from lite_nlp.core.errors import QualityLossError
from lite_nlp.core.progress import Progress
from lite_nlp.export.matrices import Form, Matrix, ProductCall, ProductShape, array_digest
from lite_nlp.export.mixed.choice import Candidate, choose_forms
from lite_nlp.export.mixed.divergence import Divergence
from lite_nlp.export.mixed.timing import forms_without_delay, time_products
from lite_nlp.export.onnx_integers import find_matrices

__all__ = ["PlannedMatrix", "plan_forms", "planned_forms", "write_accepted"]

#: Where the losses of single matrices add up to less than the whole: how much nearer the next choice stays.
_CAUTION: Final = 0.9

#: Part of the limit, for the losses of single matrices to add up to, below which no other choice is tried.
_LEAST: Final = 1e-3

#: Plans at most: what a divergence costs in a task's metric only scoring tells.
_PLANS: Final = 4

#: Tokens of a usual sentence: rows of the products of a whole sentence, and calls of those for each token.
_TOKENS: Final = 16

_Written = TypeVar("_Written")


@dataclass(frozen=True, kw_only=True)
class PlannedMatrix:
    """A matrix of the plan.

    Attributes:
        matrix: The matrix; its name is that of the model's parameter, where it is one.
        form: Its form.
        losses: Of this matrix alone in each form that was worth measuring, in nats per prediction.
    """

    matrix: Matrix
    form: Form
    losses: Mapping[Form, float]

    def to_json(self) -> dict[str, Any]:
        """For ``metrics.json``."""
        return {
            "weight": self.matrix.name,
            "shape": [self.matrix.outputs, self.matrix.inputs],
            "form": self.form,
            "size_bytes": self.matrix.size_bytes(self.form),
            "losses": {form: round(loss, 6) for form, loss in self.losses.items()},
        }


def plan_forms(
    divergence: Divergence,
    *,
    steps: Collection[str],
    limit: float,
    product_calls: Sequence[ProductCall],
    parameters: Mapping[str, Tensor],
    progress: Progress,
) -> Iterator[tuple[PlannedMatrix, ...]]:
    """Choose the form of each matrix of the measured graphs, one for all runtimes.

    The first plan is within the limit, each other diverges half as far as the one before at most. They are made when
    they are asked for; the matrices are measured once.

    The losses are those of the graphs for ONNX Runtime. In ExecuTorch the weights are the same, but for scales of
    blocks on a grid, which it rounds to bf16; inputs are rounded by the row.

    Args:
        divergence: Measures the loss, in graphs that it holds.
        steps: Names of those that are called for each token.
        limit: Of the divergence of all matrices together, in nats per prediction, in the first plan.
        product_calls: Of the runtimes: in none of them a form may take longer than one with more bytes.
        parameters: Of the traced graphs, by which matrices are named.
        progress: Receives the stages.
    """
    matrices: dict[bytes, Matrix] = {}
    stepped = set()
    for name, model in divergence.models.items():
        for matrix in find_matrices(model):
            matrices.setdefault(matrix.key, matrix)
            if matrix.looped or name in steps:
                stepped.add(matrix.key)
    calls = {key: _TOKENS if key in stepped else 1 for key in matrices}
    progress.start("timing the products of the model's shapes", None)
    shapes = {
        key: ProductShape(_TOKENS // calls[key], matrix.inputs, matrix.outputs) for key, matrix in matrices.items()
    }
    timed = [time_products(shapes.values(), make) for make in product_calls]
    worth = {key: forms_without_delay([seconds[shape] for seconds in timed]) for key, shape in shapes.items()}
    progress.start("measuring the loss of each matrix", sum(len(forms) - 1 for forms in worth.values()))
    candidates = []
    for key, matrix in matrices.items():
        losses: dict[Form, float] = {"fp32": 0.0}
        for form in worth[key][1:]:
            losses[form] = divergence.measure({key: form})
            progress.advance()
        candidates.append(Candidate(matrix=matrix, calls=calls[key], losses=losses))
    names = {array_digest(value.detach().numpy()): name for name, value in parameters.items()}
    for _ in range(_PLANS):
        forms, diverges = _choose_together(candidates, divergence, limit)
        yield tuple(
            PlannedMatrix(
                matrix=candidate.matrix._replace(name=_parameter_name(candidate.matrix, names)),
                form=forms[key],
                losses=candidate.losses,
            )
            for key, candidate in zip(matrices, candidates, strict=True)
        )
        if diverges <= 0:
            return
        limit = diverges / 2


def write_accepted(
    plans: Iterable[Sequence[PlannedMatrix]], write: Callable[[Sequence[PlannedMatrix]], _Written]
) -> _Written:
    """Write a bundle by the first plan whose loss is accepted.

    Args:
        plans: At least one.
        write: Writes the bundle, or raises.

    Raises:
        QualityLossError: Of the last plan, if none is accepted.
    """
    left = iter(plans)
    plan = next(left)
    while True:
        try:
            return write(plan)
        except QualityLossError as error:
            following = next(left, None)
            if following is None:
                raise
            plan = following
            logging.getLogger("lite_nlp").warning(f"{error}; written again with half of the divergence")


def planned_forms(plan: Sequence[PlannedMatrix]) -> dict[bytes, Form]:
    """The form of each matrix by its key, and of each that is a part of one."""
    return {key: each.form for each in plan for key in (each.matrix.key, *each.matrix.joined)}


def _parameter_name(matrix: Matrix, names: Mapping[bytes, str]) -> str:
    """What the model calls a matrix; the graph's name where the model has none."""
    found = [names.get(key, matrix.name).removeprefix("model.") for key in matrix.joined or (matrix.key,)]
    return ", ".join(dict.fromkeys(found))


def _choose_together(
    candidates: Sequence[Candidate], divergence: Divergence, limit: float
) -> tuple[dict[bytes, Form], float]:
    """Forms whose loss, measured of all together, is within the limit; and that loss."""
    summed = limit
    while summed > limit * _LEAST:
        forms = choose_forms(candidates, summed)
        found = divergence.measure(forms)
        if found <= limit:
            return forms, found
        summed *= _CAUTION * limit / found
    return {candidate.matrix.key: "fp32" for candidate in candidates}, 0.0
