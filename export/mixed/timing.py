"""Time of a product in each form, for its shape, in ONNX Runtime on this machine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.export.onnx_conversion import OPSET
from lite_nlp.export.onnx_integers import Form, Matrix, find_matrices, quantize_weights
from lite_nlp.export.runtime.onnx_session import load_library

__all__ = ["ProductShape", "forms_without_delay", "time_products"]

#: How much longer a form may take than the one before it, with more bytes, to count as no slower. Two measurements of
#: the same product differ by less, mostly.
_TOLERANCE: Final = 1.1

#: Products timed in one call, each with weights of its own, so that these are read from where a model's are: at least,
#: at most, and weights in all.
_LEAST_PRODUCTS, _MOST_PRODUCTS, _WEIGHTS = 4, 32, 1 << 21

_ROUNDS: Final = 30

#: Version of the format that every ONNX Runtime with the operators reads.
_IR_VERSION: Final = 10


class ProductShape(NamedTuple):
    """(rows, inputs) times (inputs, outputs)."""

    rows: int
    inputs: int
    outputs: int


def time_products(shapes: Iterable[ProductShape]) -> dict[ProductShape, dict[Form, float]]:
    """Seconds of a product of each shape in each form that it can have, the least of interleaved rounds.

    One thread, as the app and the command use for a sentence.
    """
    return {shape: _time_forms(shape) for shape in dict.fromkeys(shapes)}


def forms_without_delay(seconds: Mapping[Form, float]) -> tuple[Form, ...]:
    """The forms that are worth their loss: those that, with fewer bytes than the one before, take no longer than it.

    Args:
        seconds: Of each form, from the most bytes to the fewest.
    """
    kept: list[Form] = []
    for form, found in seconds.items():
        if not kept or found <= _TOLERANCE * seconds[kept[-1]]:
            kept.append(form)
    return tuple(kept)


def _time_forms(shape: ProductShape) -> dict[Form, float]:
    products = min(max(_WEIGHTS // (shape.inputs * shape.outputs), _LEAST_PRODUCTS), _MOST_PRODUCTS)
    forms = Matrix(b"", "", shape.outputs, shape.inputs).forms
    calls = {form: _product_call(shape, products, form) for form in forms}
    return {form: least / products for form, least in _least_times(calls).items()}


def _least_times(calls: Mapping[Form, Callable[[], Any]]) -> dict[Form, float]:
    """Seconds of each call; taken in turns, so that whatever else the machine does slows all of them."""
    for call in calls.values():
        call()
    times: dict[Form, list[float]] = {form: [] for form in calls}
    for _ in range(_ROUNDS):
        for form, call in calls.items():
            start = perf_counter()
            call()
            times[form].append(perf_counter() - start)
    return {form: min(found) for form, found in times.items()}


def _product_call(shape: ProductShape, products: int, form: Form) -> Callable[[], Any]:
    """A run of a graph of products of one input with weights of their own, in ONNX Runtime."""
    random = np.random.default_rng(0)
    names = [f"y{number}" for number in range(products)]
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name], name=name) for name in names]
    weights = [
        numpy_helper.from_array(random.standard_normal((shape.inputs, shape.outputs), np.float32), f"w{name}")
        for name in names
    ]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Sum", names, ["y"], name="sum")],
        "products",
        [_float_value("x", (shape.rows, shape.inputs))],
        [_float_value("y", (shape.rows, shape.outputs))],
        initializer=weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION)
    quantize_weights(model, {matrix.key: form for matrix in find_matrices(model)})
    library = load_library()
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = library.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {"x": random.standard_normal((shape.rows, shape.inputs), np.float32)}
    return lambda: session.run(None, given)


def _float_value(name: str, shape: Sequence[int]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
