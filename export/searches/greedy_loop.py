"""The encoder's graph and one step of greedy search as one ONNX graph, the step in a ``Loop``."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.signatures import LOG_PROBS, TOKENS
from lite_nlp.export.searches.greedy_step import OUTPUTS
from lite_nlp.export.searches.growing_state import TracedStep
from lite_nlp.export.searches.loop_body import move_invariants, rename_body, share_initializers

__all__ = ["build_search"]

#: Name of the loop's node, and the prefix of the names in its body.
_LOOP: Final = "search"
_PREFIX: Final = "step/"

#: Prefix of the values before the first step, and of those after the last.
_FIRST, _LAST = "first/", "last/"

_DTYPES: Final = {"float32": np.float32, "int64": np.int64, "bool": np.bool_}

_GOING, *_CARRIED, _GAINED = OUTPUTS

#: What becomes of an input at the next step.
_NEXT: Final = dict(zip(("tokens", "ended"), _CARRIED, strict=True))


def build_search(encode: Any, step: Any, traced: TracedStep, *, new_prefix: str) -> Any:
    """Put the loop behind the encoder.

    Args:
        encode: The encoder's ``ModelProto``: inputs ``src_tokens`` and ``src_mask``, outputs the state of that origin.
        step: The step's, with the inputs ``INPUTS`` and the state, the outputs ``OUTPUTS`` and the changed state.
        traced: What ``step`` was made from.
        new_prefix: What precedes a changing state tensor's name among the outputs of ``step``.

    Returns:
        A ``ModelProto`` with the further inputs ``limits`` (B,) and ``min_length`` (), int64, and the outputs
        ``TOKENS`` (T, B) int64, the tokens of T steps, and ``LOG_PROBS`` (B,).
    """
    model = deepcopy(encode)
    graph, body = model.graph, deepcopy(step.graph)
    changing = [tensor for tensor in traced.state if tensor.changes]
    # Of the state, what the steps do not change is the outer graph's.
    outer = {
        "limits": "limits",
        "min_length": "min_length",
        **{tensor.name: _made_as(tensor) for tensor in traced.state if not tensor.changes},
    }
    outer |= share_initializers(graph, body)
    rename_body(body, outer, prefix=_PREFIX)
    move_invariants(graph, body, outer.values())
    del body.value_info[:]
    carried = [*_NEXT, *(tensor.name for tensor in changing)]
    inputs = {value.name: value for value in body.input}
    outputs = {value.name: value for value in body.output}
    results = [_NEXT.get(name, new_prefix + name) for name in carried]
    # A result stands in the body's outputs once more, as what the steps leave behind.
    left = _PREFIX + "left"
    body.node.append(helper.make_node("Identity", [_PREFIX + _NEXT["tokens"]], [left], name=left))
    loop_body = helper.make_graph(
        list(body.node),
        _LOOP,
        [inputs[_PREFIX + "step"], helper.make_tensor_value_info(_PREFIX + "go_on", TensorProto.BOOL, [])]
        + [inputs[_PREFIX + name] for name in carried],
        [outputs[_PREFIX + name] for name in (_GOING, *results)]
        + [helper.make_tensor_value_info(left, TensorProto.INT64, ["batch"]), outputs[_PREFIX + _GAINED]],
    )
    around, gained = _Around(graph), _LAST + _GAINED
    loop = helper.make_node(
        "Loop",
        [around.most_steps(), around.constant("yes", np.array(True)), *around.values(changing)],
        [*(_LAST + name for name in carried), TOKENS, gained],
        name=_LOOP,
        body=loop_body,
    )
    graph.node.append(loop)
    around.sum_until_end(TOKENS, gained, LOG_PROBS)
    graph.input.append(helper.make_tensor_value_info("limits", TensorProto.INT64, ["batch"]))
    graph.input.append(helper.make_tensor_value_info("min_length", TensorProto.INT64, []))
    # Whoever counts the loop's work looks up the shapes of what it takes from the encoder.
    graph.value_info.extend(graph.output)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(TOKENS, TensorProto.INT64, ["steps", "batch"]))
    graph.output.append(helper.make_tensor_value_info(LOG_PROBS, TensorProto.FLOAT, ["batch"]))
    known = {opset.domain for opset in model.opset_import}
    model.opset_import.extend(opset for opset in step.opset_import if opset.domain not in known)
    return model


class _Around:
    """Adds the values before the first step to a graph, and what comes of all steps together."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._known: set[str] = set()

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A constant; returns its name."""
        name = _FIRST + name
        if name not in self._known:
            self._known.add(name)
            self._graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def most_steps(self) -> str:
        """The largest of the limits, a scalar."""
        return self._node("ReduceMax", ["limits"], "most_steps", keepdims=0)

    def values(self, changing: Sequence[StateTensor]) -> list[str]:
        """Names of the first values of all that the loop carries, in order."""
        filled = {
            "tokens": self._filled("tokens", ("batch",), np.array([BOS_ID], np.int64)),
            "ended": self._filled("ended", ("batch",), np.zeros(1, np.bool_)),
        }
        for tensor in changing:
            if tensor.origin == "zeros":
                zero: NDArray[Any] = np.zeros(1, _DTYPES[tensor.dtype])
                filled[tensor.name] = self._filled(tensor.name, tensor.shape, zero)
            else:
                filled[tensor.name] = _made_as(tensor)
        return list(filled.values())

    def sum_until_end(self, tokens: str, gained: str, total: str) -> None:
        """Sum what each row gained (T, B) until its first end mark in ``tokens`` (T, B), that one included."""
        axis = self.constant("axis", np.array([0], np.int64))
        ends = self._node("Equal", [tokens, self.constant("end", np.array(EOS_ID))], "ends")
        counts = self._node("Cast", [ends], "counts", to=TensorProto.INT32)
        before = self._node("CumSum", [counts, axis], "before", exclusive=1)
        over = self._node("Cast", [before], "over", to=TensorProto.BOOL)
        kept = self._node("Where", [over, self.constant("nothing", np.array(0, np.float32)), gained], "kept")
        self._graph.node.append(helper.make_node("ReduceSum", [kept, axis], [total], name=total, keepdims=0))

    def _filled(self, name: str, shape: Sequence[int | str], value: NDArray[Any]) -> str:
        sizes = [self._size(size) for size in shape]
        dims = sizes[0] if len(sizes) == 1 else self._node("Concat", sizes, f"{name}/shape", axis=0)
        return self._node("ConstantOfShape", [dims], name, value=numpy_helper.from_array(value))

    def _size(self, size: int | str) -> str:
        """Name of a vector of one element, the size."""
        if isinstance(size, int):
            return self.constant(f"size{size}", np.array([size], np.int64))
        if _FIRST + size in self._known:
            return _FIRST + size
        self._known.add(_FIRST + size)
        if size == "capacity":
            return self._node("ReduceMax", ["limits"], size, keepdims=1)
        axis = ("batch", "source").index(size)
        return self._node("Shape", ["src_tokens"], size, start=axis, end=axis + 1)

    def _node(self, operator: str, inputs: Iterable[str], name: str, **attributes: Any) -> str:
        name = _FIRST + name
        self._graph.node.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name


def _made_as(tensor: StateTensor) -> str:
    """The name by which the outer graph knows a state tensor that depends on the source."""
    return "src_mask" if tensor.origin == "src_mask" else tensor.name
