"""Mult-Adds of ONNX operators: a small formula on shapes for each that does arithmetic, a reason for each that is free.

An operator in neither table is refused by the walk over a graph (:mod:`lite_nlp.export.counting.onnx_walk`), never
taken for free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from lite_nlp.budget.traced.work import WorkKind
from lite_nlp.core.errors import UnknownOperatorError

__all__ = ["CACHED", "FORMULAS", "FREE_REASONS", "NESTED", "RUNTIME_OPERATORS", "NodeCall", "Shape"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class NodeCall:
    """One node of a graph whose sizes are known.

    Attributes:
        operator: Its type.
        name: Its name in the graph, for messages.
        inputs: Shapes of its inputs; None where an optional one is left out.
        outputs: Shapes of its outputs.
        attributes: Its attributes, as Python values.
    """

    operator: str
    name: str
    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape]
    attributes: Mapping[str, Any]

    def shape(self, index: int) -> Shape:
        """The shape of a required input.

        Raises:
            UnknownOperatorError: If the node does not have it.
        """
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise UnknownOperatorError(f"{self.operator} {self.name}: expected an input {index}, found none")
        return found


def _matmul(call: NodeCall) -> int:
    """(..., M, K) x (..., K, N): K for every element of the product."""
    return prod(call.outputs[0]) * call.shape(0)[-1]


def _gemm(call: NodeCall) -> int:
    """(M, K) x (K, N), either transposed; the bias is an addition."""
    first = call.shape(0)
    return prod(call.outputs[0]) * first[0 if call.attributes.get("transA") else 1]


def _convolution(call: NodeCall) -> int:
    """Every element of the output takes the kernel's taps over the channels of its group."""
    weight = call.shape(1)  # (outputs, inputs / groups, *kernel)
    return prod(call.outputs[0]) * prod(weight[1:])


def _transposed_convolution(call: NodeCall) -> int:
    """Every element of the input is spread over the kernel's taps and the outputs of its group."""
    weight = call.shape(1)  # (inputs, outputs / groups, *kernel)
    return prod(call.shape(0)) * prod(weight[1:])


def _einsum(call: NodeCall) -> int:
    """One Mult-Add per combination of the indices of two operands; those summed within one operand are sums."""
    equation = call.attributes["equation"]
    equation = (equation.decode() if isinstance(equation, bytes) else equation).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    operands = terms.split(",")
    if len(operands) != 2 or not arrow or "." in equation or any(len(set(term)) < len(term) for term in operands):
        raise UnknownOperatorError(
            f"{call.operator} {call.name}: expected two operands without ellipsis or repeated index, and a named "
            f"result, found {equation}"
        )
    sizes = {
        index: size for place, term in enumerate(operands) for index, size in zip(term, call.shape(place), strict=True)
    }
    shared = set(operands[0]) & set(operands[1])
    return prod(size for index, size in sizes.items() if index in shared or index in result)


def _normalised(call: NodeCall) -> int:
    """One per normalised element."""
    return prod(call.outputs[0])


def _squares(call: NodeCall) -> int:
    """Every element times itself."""
    return prod(call.shape(0))


#: Operators that do arithmetic, with the kind of work and the formula.
FORMULAS: Final[Mapping[str, tuple[WorkKind, Callable[[NodeCall], int]]]] = {
    "MatMul": ("matmul", _matmul),
    "MatMulInteger": ("matmul", _matmul),
    "Gemm": ("matmul", _gemm),
    "Einsum": ("matmul", _einsum),
    "Conv": ("convolution", _convolution),
    "ConvInteger": ("convolution", _convolution),
    "ConvTranspose": ("convolution", _transposed_convolution),
    "LayerNormalization": ("layer_norm", _normalised),
    "GroupNormalization": ("layer_norm", _normalised),
    "RMSNormalization": ("layer_norm", _normalised),
    "BatchNormalization": ("batch_norm", _normalised),
    "InstanceNormalization": ("batch_norm", _normalised),
    "ReduceSumSquare": ("contraction", _squares),
    "ReduceL2": ("contraction", _squares),
}


def _attention_with_cache(call: NodeCall) -> int:
    """Scores and values of tokens over all before them and themselves: (B, T, 3 H d) over (B, H, P, d)."""
    tokens = call.shape(0)[1]
    rows, heads, past, head_dim = call.shape(3)
    return 2 * rows * heads * tokens * (past + tokens) * head_dim


def _source_attention(call: NodeCall) -> int:
    """Scores and values of (B, T, H d) over (B, H, S, d)."""
    rows, tokens, _ = call.shape(0)
    _, heads, source, head_dim = call.shape(1)
    return 2 * rows * tokens * heads * source * head_dim


def _quantized_product(call: NodeCall) -> int:
    """(..., K) x (K, N)."""
    return prod(call.shape(0)) * call.shape(1)[1]


def _blockwise_product(call: NodeCall) -> int:
    """(..., K) x (N, K), the weights in blocks: (N, blocks, bytes of a block)."""
    return prod(call.shape(0)) * call.shape(1)[0]


def _grown_caches(inputs: Sequence[Shape]) -> list[Shape]:
    tokens = inputs[0][1]
    rows, heads, past, head_dim = inputs[3]
    grown = (rows, heads, past + tokens, head_dim)
    return [(rows, tokens, heads * head_dim), grown, grown]


#: Attention with caches of keys and values.
CACHED: Final = "GroupQueryAttention"

_OutputShapes = Callable[[Sequence[Shape]], Sequence[Shape]]

#: The operators of ONNX Runtime's own domain, all of them products, with their formula and the shapes of their outputs,
#: which ONNX does not know.
RUNTIME_OPERATORS: Final[Mapping[str, tuple[Callable[[NodeCall], int], _OutputShapes]]] = {
    "DynamicQuantizeMatMul": (_quantized_product, lambda inputs: [(*inputs[0][:-1], inputs[1][1])]),
    CACHED: (_attention_with_cache, _grown_caches),
    "MatMulNBits": (_blockwise_product, lambda inputs: [(*inputs[0][:-1], inputs[1][0])]),
    "MultiHeadAttention": (_source_attention, lambda inputs: [inputs[0]]),
}

_FREE_GROUPS: Final[Mapping[str, str]] = {
    "moves or selects elements": (
        "Cast CastLike Compress Concat DepthToSpace EyeLike Expand Flatten Gather GatherElements GatherND Identity Pad "
        "Reshape ReverseSequence ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile TopK Transpose Trilu "
        "Unsqueeze Where"
    ),
    "makes constants or reads sizes": "Constant ConstantOfShape OneHot Range Shape Size",
    "compares, or combines truth values": (
        "And ArgMax ArgMin BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterOrEqual IsInf IsNaN Less "
        "LessOrEqual Not Or Xor"
    ),
    "works on every element alone, which is no Mult-Add": (
        "Abs Add Ceil Celu Clip Cos DequantizeLinear Div DynamicQuantizeLinear Elu Erf Exp Floor Gelu HardSigmoid "
        "HardSwish LeakyRelu Log LogSoftmax Max Mean Min Mish Mod Mul Neg Pow QuantizeLinear Reciprocal Relu Round "
        "Selu Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu"
    ),
    "reduces without multiplying": (
        "CumSum ReduceLogSum ReduceLogSumExp ReduceL1 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
    ),
    "pools without weights": "AveragePool GlobalAveragePool GlobalMaxPool MaxPool",
    "does nothing in inference": "Dropout",
}

#: Why an operator is free, by its type. Products that are summed afterwards count nevertheless: the walk sees to that.
FREE_REASONS: Final[Mapping[str, str]] = {
    operator: reason for reason, operators in _FREE_GROUPS.items() for operator in operators.split()
}

#: Operators that hold graphs of their own, which run as often as the data say.
NESTED: Final = frozenset({"If", "Loop", "SequenceMap"})
