"""Products in an ONNX graph that are summed afterwards: a contraction written as multiplication and sum.

``Mul`` alone is no Mult-Add, and neither is a sum; together they are. The rule is the one of the operator-level counter
(:mod:`lite_nlp.budget.counter`): a product of two floating-point tensors is remembered, through operators that only
move its elements, until a sum takes it, which then counts one Mult-Add per element of the product. An addition takes
an outer product in the same way (a state to which it is added). Masks and single numbers make no products.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from export.onnx_operators import Shape

__all__ = ["Products"]

#: Operators whose first input comes out with all its elements, in another order or shape.
_MOVES: Final = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})

_SUMS: Final = frozenset({"CumSum", "ReduceMean", "ReduceSum"})


@dataclass(frozen=True)
class _Product:
    """Elements of a product, and whether it has more of them than either factor."""

    elements: int
    outer: bool


class Products:
    """What is known of the values of one graph, while it is walked in order."""

    def __init__(self) -> None:
        self._products: dict[str, _Product] = {}
        self._masks: set[str] = set()

    def follow(self, node: Any, tensors: Mapping[str, tuple[Shape, bool]]) -> int:
        """Take note of one node.

        Args:
            node: The ``NodeProto``.
            tensors: Shape of every input and output, and whether it is floating-point.

        Returns:
            Mult-Adds of the products that the node sums, 0 for most nodes.
        """
        if node.op_type == "Mul":
            self._multiply(node, tensors)
        elif node.op_type in _MOVES:
            self._move(node, tensors)
        elif node.op_type in _SUMS:
            return self._elements(node.input[0])
        elif node.op_type in ("Add", "Sub", "Sum"):
            return sum(self._elements(name, outer=True) for name in node.input)
        return 0

    def _multiply(self, node: Any, tensors: Mapping[str, tuple[Shape, bool]]) -> None:
        shape, floating = tensors[node.output[0]]
        factors = [tensors[name][0] for name in node.input]
        if floating and all(factors) and not self._masks.intersection(node.input):
            elements = prod(shape)
            outer = all(prod(factor) < elements for factor in factors)
            self._products[node.output[0]] = _Product(elements, outer)

    def _move(self, node: Any, tensors: Mapping[str, tuple[Shape, bool]]) -> None:
        taken, made = node.input[0], node.output[0]
        from_floating, to_floating = tensors[taken][1], tensors[made][1]
        if taken in self._masks or (to_floating and not from_floating):
            self._masks.add(made)
        if taken in self._products:
            self._products[made] = self._products[taken]

    def _elements(self, name: str, *, outer: bool = False) -> int:
        product = self._products.get(name)
        return product.elements if product is not None and (product.outer or not outer) else 0
