"""The plan of a mixed export: the form of each matrix, by measured loss and time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.export.matrices import Form, Matrix, ProductCall, ProductShape, array_digest
from lite_nlp.export.mixed.choice import Candidate, choose_forms
from lite_nlp.export.mixed.divergence import Divergence
from lite_nlp.export.mixed.timing import forms_without_delay, time_products
from lite_nlp.export.onnx_graphs import ENTRY, convert_model
from lite_nlp.export.onnx_integers import find_matrices
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.tracing import TracedModel

__all__ = ["PlannedMatrix", "plan_forms"]

#: Limit of the divergence of all matrices together, in nats per token.
_LIMIT: Final = 0.01

#: Where the losses of single matrices add up to less than the whole: how much nearer the next choice stays.
_CAUTION: Final = 0.9

#: Sources that losses are measured on.
_SOURCES: Final = 16

#: Tokens of a usual sentence: rows of the encoder's products, and calls of the decoder's.
_TOKENS: Final = 16


@dataclass(frozen=True, kw_only=True)
class PlannedMatrix:
    """A matrix of the plan.

    Attributes:
        matrix: The matrix; its name is that of the model's parameter, where it is one.
        form: Its form.
        losses: Of this matrix alone in each form that was worth measuring, in nats per token.
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
    traced: TracedModel,
    *,
    product_calls: Sequence[ProductCall],
    src_rows: Sequence[Sequence[int]],
    progress: Progress | None = None,
) -> tuple[PlannedMatrix, ...]:
    """Choose the form of each matrix of the encoder and the decoder step, one for all runtimes.

    The losses are those of the graphs for ONNX Runtime. In ExecuTorch the weights are the same, but for scales of
    blocks on a grid, which it rounds to bf16; inputs are rounded by the row.

    Args:
        traced: The model.
        product_calls: Of the runtimes: in none of them a form may take longer than one with more bytes.
        src_rows: Token ids of the sources that losses are measured on; at least one.
        progress: Receives the stages.
    """
    progress = progress or SilentProgress()
    progress.start("converting the model to measure it", None)
    encode, decode_step = convert_model(traced)
    steps = find_matrices(decode_step)
    matrices = {matrix.key: matrix for matrix in (*find_matrices(encode), *steps)}
    stepped = {matrix.key for matrix in steps}
    calls = {key: _TOKENS if key in stepped else 1 for key in matrices}
    progress.start("timing the products of the model's shapes", None)
    shapes = {
        key: ProductShape(_TOKENS // calls[key], matrix.inputs, matrix.outputs) for key, matrix in matrices.items()
    }
    timed = [time_products(shapes.values(), make) for make in product_calls]
    worth = {key: forms_without_delay([seconds[shape] for seconds in timed]) for key, shape in shapes.items()}
    progress.start("measuring the loss of each matrix", sum(len(forms) - 1 for forms in worth.values()))
    spaced = src_rows[:: max(1, len(src_rows) // _SOURCES)][:_SOURCES]
    layout = Layout(traced.state, traced.bounds, traced.tgt_vocab_size)
    divergence = Divergence(encode, decode_step, entry=ENTRY, layout=layout, src_rows=spaced)
    candidates = []
    for key, matrix in matrices.items():
        losses: dict[Form, float] = {"fp32": 0.0}
        for form in worth[key][1:]:
            losses[form] = divergence.measure({key: form})
            progress.advance()
        candidates.append(Candidate(matrix=matrix, calls=calls[key], losses=losses))
    forms = _choose_together(candidates, divergence)
    names = _parameter_names(traced)
    return tuple(
        PlannedMatrix(
            matrix=candidate.matrix._replace(name=names.get(key, candidate.matrix.name)),
            form=forms[key],
            losses=candidate.losses,
        )
        for key, candidate in zip(matrices, candidates, strict=True)
    )


def _parameter_names(traced: TracedModel) -> dict[bytes, str]:
    """What the model calls its matrices, by their keys."""
    parameters = {**traced.encode.state_dict, **traced.decode_step.state_dict}
    return {array_digest(value.detach().numpy()): name.removeprefix("model.") for name, value in parameters.items()}


def _choose_together(candidates: Sequence[Candidate], divergence: Divergence) -> dict[bytes, Form]:
    """Forms whose loss, measured of all together, is within the limit."""
    limit = _LIMIT
    while True:
        forms = choose_forms(candidates, limit)
        found = divergence.measure(forms)
        if found <= _LIMIT or set(forms.values()) <= {"fp32"}:
            return forms
        limit *= _CAUTION * _LIMIT / found
