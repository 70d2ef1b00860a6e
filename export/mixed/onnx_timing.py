"""Products as a mixed precision times them in ONNX Runtime."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.export.matrices import Form, ProductShape
from lite_nlp.export.onnx_conversion import OPSET
from lite_nlp.export.onnx_integers import find_matrices, quantize_weights
from lite_nlp.export.runtime.onnx_session import load_library

__all__ = ["onnx_product_call"]

#: Version of the format that every ONNX Runtime with the operators reads.
_IR_VERSION: Final = 10


def onnx_product_call(shape: ProductShape, products: int, form: Form) -> Callable[[], Any]:
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
