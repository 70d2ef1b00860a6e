import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.core.errors import CountError, UnknownOperatorError
from lite_nlp.export.counting.onnx_walk import count_onnx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _model(nodes, inputs, outputs, constants=None, functions=(), domains=()):
    """A model of opset 20; inputs are name to shape (floats) or name to (type, shape)."""
    types = {name: (FLOAT, shape) if not isinstance(shape[-1], tuple) else shape for name, shape in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *kind) for name, kind in types.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def _weights(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "constants", "kind", "macs"),
    [
        # 2 * 7 rows, each 5 outputs of 3 products.
        (helper.make_node("MatMul", ["x", "w"], ["y"]), {"x": (2, 7, 3)}, {"w": _weights(3, 5)}, "matmul", 14 * 15),
        # The batch of the second operand is broadcast over the first's.
        (helper.make_node("MatMul", ["x", "z"], ["y"]), {"x": (1, 4, 3), "z": (6, 3, 5)}, {}, "matmul", 6 * 4 * 3 * 5),
        # A vector: 4 rows of 3 products.
        (helper.make_node("MatMul", ["x", "z"], ["y"]), {"x": (4, 3), "z": (3,)}, {}, "matmul", 12),
        (
            helper.make_node("Gemm", ["x", "w", "b"], ["y"]),
            {"x": (7, 3)},
            {"w": _weights(3, 5), "b": _weights(5)},
            "matmul",
            105,
        ),
        (
            helper.make_node("Gemm", ["x", "w"], ["y"], transA=1, transB=1),
            {"x": (3, 7)},
            {"w": _weights(5, 3)},
            "matmul",
            105,
        ),
        (
            helper.make_node("Einsum", ["x", "z"], ["y"], equation="bhtd,bhsd->bhts"),
            {"x": (2, 4, 7, 3), "z": (2, 4, 6, 3)},
            {},
            "matmul",
            2 * 4 * 7 * 6 * 3,
        ),
        # Index k is summed in z before anything is multiplied.
        (
            helper.make_node("Einsum", ["x", "z"], ["y"], equation="ij,jk->i"),
            {"x": (2, 3), "z": (3, 50)},
            {},
            "matmul",
            2 * 3,
        ),
        # 8 output channels, 9 positions, 3 taps over 4 channels.
        (
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1]),
            {"x": (1, 4, 9)},
            {"w": _weights(8, 4, 3)},
            "convolution",
            8 * 9 * 3 * 4,
        ),
        # Depthwise: a channel sees only its own taps; stride 2 halves the positions.
        (
            helper.make_node("Conv", ["x", "w"], ["y"], group=4, strides=[2]),
            {"x": (2, 4, 9)},
            {"w": _weights(4, 1, 3)},
            "convolution",
            2 * 4 * 4 * 3,
        ),
        # Every of the 2 x 9 inputs goes to 3 taps of 5 channels.
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2]),
            {"x": (1, 2, 9)},
            {"w": _weights(2, 5, 3)},
            "convolution",
            2 * 9 * 5 * 3,
        ),
        (
            helper.make_node("LayerNormalization", ["x", "w"], ["y"]),
            {"x": (2, 7, 16)},
            {"w": _weights(16)},
            "layer_norm",
            2 * 7 * 16,
        ),
        (helper.make_node("ReduceSumSquare", ["x"], ["y"]), {"x": (5, 6)}, {}, "contraction", 30),
    ],
)
def test_an_operator_by_its_formula(node, inputs, constants, kind: str, macs: int) -> None:
    work = count_onnx(_model([node], inputs, ["y"], constants), {})
    assert work.by_kind()[kind] == work.total == macs
    assert [entry.operator for entry in work.entries] == [node.op_type]


def test_sizes_are_bound_and_followed_through_shape_arithmetic() -> None:
    # Heads are split by a Reshape to (batch, source, 2, -1 of 6), positions made by Range and cut by Slice.
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["source"], start=1, end=2),
        helper.make_node("Concat", ["batch", "source", "two", "minus_one"], ["heads"], axis=0),
        helper.make_node("Reshape", ["x", "heads"], ["split"]),
        helper.make_node("Transpose", ["split"], ["left"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["split"], ["right"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["left", "right"], ["scores"], name="scores"),
        helper.make_node("Squeeze", ["source"], ["length"]),
        helper.make_node("Add", ["length", "three"], ["longer"]),
        helper.make_node("Range", ["zero", "longer", "one"], ["steps"]),
        helper.make_node("Cast", ["steps"], ["floats"], to=FLOAT),
        helper.make_node("Unsqueeze", ["floats", "minus_one"], ["column"]),
        helper.make_node("MatMul", ["column", "w"], ["y"], name="positions"),
    ]
    constants = {
        "two": np.array([2]),
        "minus_one": np.array([-1]),
        "three": np.array(3),
        "zero": np.array(0),
        "one": np.array(1),
        "w": _weights(1, 10),
    }
    model = _model(nodes, {"x": ("batch", "source", 6)}, ["scores", "y"], constants)
    work = count_onnx(model.SerializeToString(), {"batch": 2, "source": 9})
    # Scores: 2 rows x 2 heads, 9 x 9 pairs of 3 products; positions: 9 + 3 rows, 1 x 10 weights.
    assert [entry.macs for entry in work.entries] == [2 * 2 * 81 * 3, 12 * 10]


def test_products_that_are_summed_count_once_per_element() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "z"], ["product"]),
        helper.make_node("Transpose", ["product"], ["moved"], perm=[1, 0]),
        helper.make_node("Where", ["mask", "moved", "zero"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axes"], ["y"]),
        helper.make_node("ReduceMean", ["masked", "axes"], ["again"]),
    ]
    inputs = {"x": (4, 5), "z": (1, 5), "mask": (TensorProto.BOOL, (5, 4))}
    constants = {"axes": np.array([1]), "zero": np.float32(0)}
    work = count_onnx(_model(nodes, inputs, ["y", "again"], constants), {})
    assert work.by_kind() == {"matmul": 0, "convolution": 0, "contraction": 20, "layer_norm": 0, "batch_norm": 0}


def test_an_outer_product_added_to_a_state_counts() -> None:
    nodes = [
        helper.make_node("Mul", ["key", "value"], ["outer"]),
        helper.make_node("Add", ["state", "outer"], ["y"]),
    ]
    inputs = {"key": (2, 8, 1), "value": (2, 1, 3), "state": (2, 8, 3)}
    assert count_onnx(_model(nodes, inputs, ["y"]), {}).total == 2 * 8 * 3


@pytest.mark.parametrize(
    "nodes",
    [
        # A gate with a residual sum, a scale, and a mask: none of them a contraction.
        [helper.make_node("Mul", ["x", "z"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])],
        [helper.make_node("Mul", ["x", "scale"], ["m"]), helper.make_node("ReduceSum", ["m"], ["y"])],
        [
            helper.make_node("Cast", ["mask"], ["floats"], to=FLOAT),
            helper.make_node("Unsqueeze", ["floats", "axes"], ["column"]),
            helper.make_node("Squeeze", ["column", "axes"], ["row"]),
            helper.make_node("Mul", ["x", "row"], ["m"]),
            helper.make_node("ReduceSum", ["m"], ["y"]),
        ],
        # A complement is a mask as well: (1 - mask) * x.
        [
            helper.make_node("Cast", ["mask"], ["floats"], to=FLOAT),
            helper.make_node("Sub", ["one", "floats"], ["complement"]),
            helper.make_node("Mul", ["complement", "x"], ["m"]),
            helper.make_node("ReduceSum", ["m"], ["y"]),
        ],
        # A choice between two values, as of a recurrent state.
        [
            helper.make_node("Mul", ["x", "z"], ["m"]),
            helper.make_node("Cast", ["mask"], ["here"], to=TensorProto.BOOL),
            helper.make_node("Where", ["here", "m", "x"], ["chosen"]),
            helper.make_node("ReduceSum", ["chosen"], ["y"]),
        ],
        # A square is a statistic of one tensor.
        [helper.make_node("Mul", ["x", "x"], ["m"]), helper.make_node("ReduceMean", ["m"], ["y"])],
        # A sum of what was not multiplied.
        [helper.make_node("Softmax", ["x"], ["m"]), helper.make_node("ReduceSum", ["m"], ["y"])],
    ],
)
def test_products_that_are_no_contraction(nodes) -> None:
    constants = {"scale": np.float32(0.5), "one": np.float32(1), "axes": np.array([0])}
    inputs = {"x": (4, 5), "z": (4, 5), "mask": (INT64, (4, 5))}
    assert count_onnx(_model(nodes, inputs, ["y"], constants), {}).total == 0


def test_local_functions_count_as_what_they_hold() -> None:
    square = helper.make_function(
        "own", "Twice", ["a"], ["b"],
        [helper.make_node("MatMul", ["a", "a"], ["c"]), helper.make_node("MatMul", ["c", "a"], ["b"])],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Twice", ["x"], ["m"], domain="own"),
        helper.make_node("Twice", ["m"], ["y"], domain="own"),
    ]
    work = count_onnx(_model(nodes, {"x": (3, 3)}, ["y"], functions=[square], domains=["own"]), {})
    assert work.total == 4 * 27
    assert sum(entry.calls for entry in work.entries) == 4


def test_weights_in_another_file_are_not_needed() -> None:
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"], {"w": _weights(3, 5)})
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "nowhere.bin")
    model.graph.initializer[0].ClearField("raw_data")
    assert count_onnx(model.SerializeToString(), {}).total == 30


LOOP = helper.make_node(
    "If", ["condition"], ["y"], name="choice",
    then_branch=helper.make_graph([], "then", [], []), else_branch=helper.make_graph([], "else", [], []),
)  # fmt: skip


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (LOOP, UnknownOperatorError, "If choice: expected nodes that run once"),
        (
            helper.make_node("Det", ["x"], ["y"], name="d"),
            UnknownOperatorError,
            "Det d: expected an operator whose Mult-Adds",
        ),
        (
            helper.make_node("FusedMatMul", ["x", "x"], ["y"], name="f", domain="com.microsoft"),
            UnknownOperatorError,
            "com.microsoft::FusedMatMul f: expected an operator",
        ),
        (
            helper.make_node("Einsum", ["x", "x", "x"], ["y"], name="e", equation="ij,jk,kl->il"),
            UnknownOperatorError,
            "Einsum e: expected two operands",
        ),
        (
            helper.make_node("Compress", ["x", "condition"], ["y"], name="c"),
            CountError,
            "Compress c: expected y to have a shape",
        ),
        (
            helper.make_node("MatMul", ["x", "long"], ["y"], name="m"),
            CountError,
            "MatMul m: expected shapes that fit it",
        ),
        (helper.make_node("MatMul", ["x", "none"], ["y"], name="m"), CountError, "found none named"),
    ],
)
def test_what_cannot_be_told_is_refused(node, error: type[Exception], message: str) -> None:
    constants = {"condition": np.array([True, False, True, True]), "long": _weights(99, 2)}
    model = _model([node], {"x": (4, 4)}, ["y"], constants, domains=["com.microsoft"])
    with pytest.raises(error, match=message):
        count_onnx(model, {})


def test_a_size_that_was_not_given() -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("batch", 4)}, ["y"])
    with pytest.raises(CountError, match="input x: expected the sizes source, found batch"):
        count_onnx(model, {"source": 3})
