"""Mult-Adds of searches in ONNX graphs.

Of what comes before the loop of a search, and of one step of it; of beam search with one hypothesis of one sentence.
"""

from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, fit_graphs, fit_polynomials
from lite_nlp.budget.traced.work import WorkKind
from lite_nlp.core.errors import CountError
from lite_nlp.export.counting.onnx_walk import count_onnx
from lite_nlp.export.runtime.layout import Bounds

__all__ = ["count_beam_work", "count_search_work"]


def count_search_work(search: bytes, bounds: Bounds) -> GraphWork:
    """Count a search as if its parts were a bundle's graphs ``encode`` and ``decode_step``.

    A step is counted where its caches are as long as the capacity, as everywhere.

    Args:
        search: The graph, without its weights.
        bounds: Largest sizes of the bundle.

    Raises:
        CountError: If the work cannot be told, is no polynomial of the sizes, or is not in one loop.
    """
    before, step = _split(onnx.load_from_string(search))

    def count_before(source: int) -> Any:
        return count_onnx(before, {"batch": 1, "source": source}).by_kind()

    def count_step(source: int, capacity: int) -> Any:
        sizes = {"batch": 1, "source": source, "capacity": capacity, "past": capacity - 1}
        return count_onnx(step, sizes).by_kind()

    return fit_graphs(
        encode=count_before, decode_step=count_step, max_source=bounds.source, max_capacity=bounds.capacity
    )


def count_beam_work(search: bytes, bounds: Bounds) -> dict[WorkKind, Polynomial]:
    """Count a step of beam search, whose caches are as long as the capacity, for one hypothesis of one sentence.

    Args:
        search: The graph, without its weights.
        bounds: Largest sizes of the bundle.

    Raises:
        CountError: If the work cannot be told, is no polynomial of the sizes, or is not in one loop.
    """
    model = onnx.load_from_string(search)
    loop, body = _loop(model)
    # How many candidates there are is an input, which the shapes do not tell.
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.int64), "count"))
    inputs = [value for value in model.graph.input if value.name != "count"]
    before = [node for node in model.graph.node if node is not loop]
    del model.graph.node[:], model.graph.input[:], model.graph.output[:]
    model.graph.node.extend([*before, *body.node])
    model.graph.input.extend([*inputs, *body.input])
    ones = dict.fromkeys(("batch", "beam", "rows", "kept", "hypotheses", "blocked", "lengths"), 1)

    def count(source: int, capacity: int) -> Any:
        sizes = {**ones, "source": source, "capacity": capacity, "past": capacity - 1}
        return count_onnx(model, sizes).by_kind()

    return fit_polynomials(count, max_source=bounds.source, max_capacity=bounds.capacity)


def _loop(model: Any) -> tuple[Any, Any]:
    """The one loop of a model, and its body."""
    loops = [node for node in model.graph.node if node.op_type == "Loop"]
    if len(loops) != 1:
        raise CountError(f"the graph of a search: expected one Loop, found {len(loops)}")
    return loops[0], next(attribute.g for attribute in loops[0].attribute if attribute.name == "body")


def _split(model: Any) -> tuple[Any, Any]:
    """What comes before the loop, and the body of the loop with all that it takes as inputs, each as a model."""
    loop, body = _loop(model)
    before, step = deepcopy(model), deepcopy(model)
    # Caches with the capacity that the longest row needs: of no size that the encoder's inputs tell, and no work.
    caches = {
        node.name for node in model.graph.node if node.op_type == "ConstantOfShape" and node.output[0] in loop.input
    }
    after, kept = set(loop.output), []
    for node in model.graph.node:
        if not after.isdisjoint(node.input):
            after.update(node.output)
        elif node is not loop and node.name not in caches:
            kept.append(node)
    del before.graph.node[:], before.graph.output[:]
    before.graph.node.extend(kept)
    typed = {value.name: value for value in (*model.graph.input, *model.graph.value_info)}
    own = {value.name for value in body.input} | {name for node in body.node for name in node.output}
    taken = {name for node in body.node for name in node.input} - own
    # What the body takes besides the encoder's results, such as a table's rows, is made of them and of constants.
    made = []
    for node in reversed(kept):
        if not (taken - typed.keys()).isdisjoint(node.output):
            made.append(node)
            taken.update(node.input)
    del step.graph.node[:], step.graph.input[:], step.graph.output[:], step.graph.value_info[:]
    step.graph.node.extend([*reversed(made), *body.node])
    step.graph.input.extend([*body.input, *(typed[name] for name in sorted(taken & typed.keys()))])
    step.graph.initializer.extend(body.initializer)
    return before, step
