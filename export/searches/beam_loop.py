"""Steps of beam search in a ``Loop``, with all that the search does between them, as one ONNX graph.

Shape letters: S sentences, W live hypotheses of each, K finished ones kept of each, C candidates of each hypothesis.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.export.runtime.signatures import BEAM_INPUTS, BEAM_OUTPUTS, TensorForm
from lite_nlp.export.searches.beam_step import OUTPUTS
from lite_nlp.export.searches.growing_state import TracedStep
from lite_nlp.export.searches.loop_body import move_invariants, rename_body

__all__ = ["build_beam_search"]

#: Name of the loop's node; prefixes of the values in its body, of what ranks in it, and of those before the loop.
_LOOP: Final = "search"
_PREFIX, _RANKING, _FIRST = "step/", "ranking/", "first/"

#: What the loop carries beside the state, all of it an input of the graph or made before the first step.
_CARRIED: Final = {
    "tokens": BEAM_INPUTS["tokens"],
    "parents": BEAM_INPUTS["parents"],
    "live": BEAM_INPUTS["live"],
    "best": BEAM_INPUTS["best"],
    "origins": BEAM_OUTPUTS["last.origins"],
    "finished": BEAM_INPUTS["finished"],
    "done": BEAM_OUTPUTS["last.done"],
    "log_prob_sum": BEAM_OUTPUTS["last.log_prob_sum"],
}

#: What each step leaves behind.
_MADE: Final = ("made.tokens", "made.parents")

_KINDS: Final = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


def build_beam_search(step: Any, traced: TracedStep, *, new_prefix: str) -> Any:
    """Put a step of beam search into a loop, and the search around it.

    Args:
        step: The step's ``ModelProto``, with the inputs ``beam_step.INPUTS`` and the state, the outputs ``OUTPUTS`` and
            the changed state.
        traced: What ``step`` was made from.
        new_prefix: What precedes a changing state tensor's name among the outputs.

    Returns:
        A ``ModelProto`` with the signature ``beam_signature``.
    """
    body = deepcopy(step.graph)
    state = {value.name: value for value in step.graph.input if value.name not in BEAM_INPUTS}
    changing = [tensor.name for tensor in traced.state if tensor.changes and tensor.name in state]
    outer = [name for name in state if name not in changing]
    rename_body(body, dict(zip(outer, outer, strict=True)), prefix=_PREFIX)
    del body.value_info[:]
    typed = {value.name: value for value in (*body.input, *body.output)}
    graph = helper.make_graph([], "beam", [], [])
    move_invariants(graph, body, outer)
    first = _First(graph)
    ranked = _Ranking(body, graph, first).result()
    carried = [*_CARRIED, *changing]
    loop_body = helper.make_graph(
        list(body.node),
        _LOOP,
        [
            helper.make_tensor_value_info(_PREFIX + "index", TensorProto.INT64, []),
            helper.make_tensor_value_info(_PREFIX + "go_on", TensorProto.BOOL, []),
            *(_value(_PREFIX + name, form) for name, form in _CARRIED.items()),
            *(typed[_PREFIX + name] for name in changing),
        ],
        [
            helper.make_tensor_value_info(ranked["going"], TensorProto.BOOL, []),
            *(_value(ranked[name], form) for name, form in _CARRIED.items()),
            *(typed[_PREFIX + new_prefix + name] for name in changing),
            *(_value(ranked[name], _CARRIED["tokens"]) for name in _MADE),
        ],
    )
    graph.node.append(
        helper.make_node(
            "Loop",
            ["steps", first.yes, *(first.values.get(name, name) for name in carried)],
            [*(f"last.{name}" for name in _CARRIED), *(new_prefix + name for name in changing), *_MADE],
            name=_LOOP,
            body=loop_body,
        )
    )
    graph.input.extend([*(_value(name, form) for name, form in BEAM_INPUTS.items()), *state.values()])
    graph.output.extend(_value(name, form) for name, form in BEAM_OUTPUTS.items())
    graph.output.extend(value for value in step.graph.output if value.name not in OUTPUTS)
    model = helper.make_model(graph, opset_imports=list(step.opset_import), ir_version=step.ir_version)
    model.functions.extend(step.functions)
    return model


class _Nodes:
    """Adds nodes to a graph, each named by what it gives.

    Args:
        graph: Receives the nodes.
        outer: Receives the constants.
        prefix: Of all names.
    """

    def __init__(self, graph: Any, outer: Any, prefix: str) -> None:
        self._graph = graph
        self._outer = outer
        self._prefix = prefix
        self._number = 0

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns the output's name."""
        return self._add(operator, inputs, [self._next(operator)], attributes)[0]

    def top(self, values: str, count: str) -> list[str]:
        """Names of the largest values in the last dimension and of their places, as many as ``count`` (1,) says.

        The largest come first, and of equal ones those that come first.
        """
        outputs = [self._next("largest"), self._next("places")]
        return self._add("TopK", [values, count], outputs, {"axis": -1})

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Add a constant; returns its name."""
        name = self._next("constant")
        array: NDArray[Any] = np.array(value, dtype)
        self._outer.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _next(self, what: str) -> str:
        self._number += 1
        return f"{self._prefix}{what}{self._number}"

    def _add(self, operator: str, inputs: Sequence[str], outputs: list[str], attributes: Any) -> list[str]:
        self._graph.node.append(helper.make_node(operator, inputs, outputs, name=outputs[0], **attributes))
        return outputs


class _First:
    """What is made before the first step.

    Args:
        graph: Receives its nodes.

    Attributes:
        yes: Name of a constant, true.
        hypotheses, candidates: Of the sizes (2,) S, W and (3,) S, W, C.
        width, kept: Of W and K, (1,).
        rows: Of the first row of each sentence, (S, 1).
        longest: Of the divisor of a score at the longest that a hypothesis can become, (S,).
        after: Of the number of the first step, from 1, ().
        values: Names of the first values of what the loop carries and no input is.
    """

    def __init__(self, graph: Any) -> None:
        nodes = _Nodes(graph, graph, _FIRST)
        self.yes = nodes.constant(True, np.bool_)
        self.hypotheses = nodes.add("Shape", "tokens")
        self.candidates = nodes.add("Concat", self.hypotheses, "count", axis=0)
        self.width = nodes.add("Shape", "tokens", start=1)
        self.kept = nodes.add("Shape", "best", start=1)
        none, one = nodes.constant(0), nodes.constant(1)
        sentences, width, kept = (
            nodes.add("Squeeze", size) for size in (nodes.add("Shape", "tokens", end=1), self.width, self.kept)
        )
        places = nodes.add("Mul", nodes.add("Range", none, sentences, one), width)
        self.rows = nodes.add("Unsqueeze", places, nodes.constant([1]))
        self.longest = nodes.add("Gather", "penalties", "limits")
        self.after = nodes.add("Add", "step", one)
        zero = numpy_helper.from_array(np.zeros(1, np.bool_))
        self.values = {
            "origins": nodes.add("Expand", nodes.add("Range", none, kept, one), nodes.add("Shape", "best")),
            "done": nodes.add("ConstantOfShape", nodes.add("Shape", "limits"), value=zero),
            "log_prob_sum": nodes.constant(0.0, np.float32),
        }


class _Ranking:
    """The search's part of a step, in the order of ``lite_nlp.decoding.hypotheses.rank_extensions``.

    Args:
        body: The step's graph; receives the nodes.
        graph: The graph around it; receives the constants.
        first: What was made before the loop.
    """

    def __init__(self, body: Any, graph: Any, first: _First) -> None:
        self._nodes = _Nodes(body, graph, _RANKING)
        self._first = first
        self._never = self._nodes.constant(-np.inf, np.float64)
        self._axes = {axis: self._nodes.constant([axis]) for axis in (-1, 1, 2)}

    def result(self) -> dict[str, str]:
        """Names of what comes of all that the loop carries, of ``_MADE``, and of ``going``: whether it goes on."""
        add, top, first = self._nodes.add, self._nodes.top, self._first
        carried = {name: _PREFIX + name for name in _CARRIED}
        choices, log_probs, end_log_probs = (_PREFIX + name for name in OUTPUTS)
        step = add("Add", _PREFIX + "index", first.after)
        last = add("LessOrEqual", "limits", step)

        # By logits: subtracting the normalizer could make two of them equal.
        _, words = top(choices, "count")
        scores = self._scores(words, add("GatherElements", log_probs, words, axis=-1), carried["live"])
        ends = add("Add", carried["live"], self._as_hypotheses(end_log_probs))
        may_end = add("Or", last, add("Greater", step, "min_length"))
        goes_on = add("Greater", add("ReduceMax", scores, self._axes[2], keepdims=0), self._never)
        ends = add("Where", add("And", add("Not", self._column(may_end)), goes_on), self._never, ends)
        scores = add("Where", self._column(last), self._never, self._by_sentence(scores))

        values, places = top(add("Concat", ends, scores, axis=-1), first.width)
        ended = add("And", add("Less", places, first.width), add("Greater", values, self._never))
        ended = add("And", ended, add("Not", self._column(carried["done"])))
        count = add("ReduceSum", add("Cast", ended, to=TensorProto.INT64), self._axes[1], keepdims=0)
        finished = add("Add", carried["finished"], count)
        score = add("Div", values, add("Gather", "penalties", step))
        score = add("Where", ended, score, self._never)
        best, kept = top(add("Concat", carried["best"], score, axis=-1), first.kept)
        # What ended here is told by the step within the call and by the hypothesis.
        number = add("Add", add("Mul", _PREFIX + "index", first.width), first.kept)
        origins = add("Concat", carried["origins"], add("Add", places, number), axis=-1)

        live, places = top(scores, first.width)
        parents = add("Div", places, "count")
        tokens = add("GatherElements", self._by_sentence(add("Reshape", words, first.candidates)), places, axis=-1)

        # A log-probability only falls as a hypothesis grows: what the best live one can still reach.
        reachable = add("Div", add("Gather", live, self._nodes.constant(0), axis=1), first.longest)
        settled = add("GreaterOrEqual", add("Gather", best, self._nodes.constant(-1), axis=1), reachable)
        full = add("GreaterOrEqual", finished, first.width)
        done = add("Or", add("Or", carried["done"], last), add("Or", settled, full))
        number = add("ReduceSum", add("Cast", done, to=TensorProto.INT64), keepdims=0)
        total = add("ReduceSum", end_log_probs, keepdims=0)
        return {
            "going": add("Less", number, "leave"),
            "tokens": tokens,
            "parents": add("Add", parents, first.rows),
            "live": live,
            "best": best,
            "origins": add("GatherElements", origins, kept, axis=-1),
            "finished": finished,
            "done": done,
            "log_prob_sum": add("Add", carried["log_prob_sum"], total),
            # A result stands among the body's outputs once more, as what the step leaves behind.
            _MADE[0]: add("Identity", tokens),
            _MADE[1]: parents,
        }

    def _scores(self, words: str, log_probs: str, live: str) -> str:
        """(S, W, C) log-probabilities of the hypotheses with one more word, minus infinity where it is blocked."""
        add = self._nodes.add
        equal = add("Equal", add("Unsqueeze", words, self._axes[-1]), add("Unsqueeze", "blocked", self._axes[1]))
        number = add("ReduceSum", add("Cast", equal, to=TensorProto.INT64), self._axes[-1], keepdims=0)
        gained = add("Reshape", add("Cast", log_probs, to=TensorProto.DOUBLE), self._first.candidates)
        blocked = add("Reshape", add("Cast", number, to=TensorProto.BOOL), self._first.candidates)
        return add("Where", blocked, self._never, add("Add", add("Unsqueeze", live, self._axes[-1]), gained))

    def _as_hypotheses(self, values: str) -> str:
        """(S W,) float32 as (S, W) float64."""
        add = self._nodes.add
        return add("Reshape", add("Cast", values, to=TensorProto.DOUBLE), self._first.hypotheses)

    def _by_sentence(self, values: str) -> str:
        """(S, W, C) as (S, W C)."""
        return self._nodes.add("Flatten", values, axis=1)

    def _column(self, values: str) -> str:
        """(S,) as (S, 1)."""
        return self._nodes.add("Unsqueeze", values, self._axes[1])


def _value(name: str, form: TensorForm) -> Any:
    """The description of a value in a graph."""
    return helper.make_tensor_value_info(name, _KINDS[form.dtype], form.shape)
