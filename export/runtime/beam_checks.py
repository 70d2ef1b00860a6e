"""Checks of what goes into and comes out of a graph of beam search. Imports no torch."""

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.export.runtime.tensors import expect_tensor

__all__ = ["check_call", "check_steps"]


def check_call(call: BeamCall, *, sentences: int, rows: int, capacity: int) -> None:
    """Check the indices and the length of a call.

    Args:
        call: Its arrays have the shapes that its class says.
        sentences: In the state.
        rows: In the state, of what steps change.
        capacity: Steps that the state has place for, in all.

    Raises:
        BundleError: If an index is outside the state, or a step beyond the capacity.
    """
    for name, indices, size in (("parents", call.parents, rows), ("kept", call.kept, sentences)):
        if indices.min() < 0 or indices.max() >= size:
            raise BundleError(f"beam: {name}: expected 0 to {size - 1}, found {indices.min()} to {indices.max()}")
    last = call.step + call.steps
    if last > capacity:
        raise BundleError(f"beam: expected at most {capacity} steps, the capacity of the state, found {last}")


def check_steps(made: BeamSteps, call: BeamCall) -> None:
    """Check what a graph gave.

    Raises:
        BundleError: If a shape or a type is not what the manifest says, or an index points nowhere.
    """
    sentences, width = call.tokens.shape
    places = call.best.shape[1]
    steps = min(max(len(made.tokens), 1), call.steps) if made.tokens.ndim else 1
    hypotheses = steps, sentences, width
    for name, found, dtype, shape in (
        ("tokens", made.tokens, "int64", hypotheses),
        ("parents", made.parents, "int64", hypotheses),
        ("live", made.live, "float64", hypotheses[1:]),
        ("best", made.best, "float64", (sentences, places)),
        ("origins", made.origins, "int64", (sentences, places)),
        ("finished", made.finished, "int64", (sentences,)),
        ("done", made.done, "bool", (sentences,)),
    ):
        expect_tensor(f"beam: {name}", found, dtype, shape)
    _check_range("parents", made.parents, width)
    _check_range("origins", made.origins[made.best > -np.inf], places + steps * width)


def _check_range(name: str, indices: NDArray[np.int64], size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise BundleError(f"beam: {name}: expected 0 to {size - 1}, found {indices.min()} to {indices.max()}")
