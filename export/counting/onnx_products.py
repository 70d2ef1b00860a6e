"""Products in an ONNX graph that are summed afterwards: a contraction written as multiplication and sum.

The rule is that of :mod:`lite_nlp.budget.traced.contractions`, said of ONNX's operators: ``Mul`` of two floating-point
tensors is remembered, through operators that move, mask or scale its elements, until a sum takes it, which then counts
one Mult-Add per element of the product, once. An addition takes outer products only. Masks, numbers without axes and
the square of a tensor make no products.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from lite_nlp.export.counting.onnx_operators import Shape

__all__ = ["Products"]

#: Operators through which a product stays one.
_CARRIERS: Final = frozenset(
    {"Cast", "CastLike", "Compress", "Concat", "Div", "Dropout", "Expand", "Flatten", "Gather", "GatherElements"}
    | {"GatherND", "Identity", "Neg", "Pad", "Reshape", "ReverseSequence", "Slice", "Split", "Squeeze", "Tile"}
    | {"Transpose", "Trilu", "Unsqueeze", "Where"}
)

_SUMS: Final = frozenset({"CumSum", "ReduceMean", "ReduceSum", "ScatterElements", "ScatterND"})
_ADDITIONS: Final = frozenset({"Add", "Sub", "Sum"})


@dataclass(eq=False)
class _Product:
    """A product not summed so far: its number of elements, and whether that exceeds both factors'."""

    elements: int
    outer: bool
    counted: bool = False


class Products:
    """Products found in one graph, while its nodes are visited in order."""

    def __init__(self) -> None:
        self._products: dict[str, tuple[_Product, ...]] = {}
        self._masks: set[str] = set()

    def follow(self, node: Any, tensors: Mapping[str, tuple[Shape, bool]]) -> int:
        """Visit one node.

        Args:
            node: The ``NodeProto``.
            tensors: Shape of every input and output, and whether it is floating-point.

        Returns:
            Mult-Adds of the products that the node sums, 0 for most nodes.
        """
        # Integers that say where and how far are neither factors nor masks.
        inputs = [name for name in node.input if name and (tensors[name][1] or node.op_type not in _CARRIERS)]
        self._masks.update(name for name in node.input if name and not tensors[name][1])
        if node.op_type in _SUMS:
            return _count(self._of(inputs))
        if node.op_type in _ADDITIONS:
            # The complement of a mask (1 - mask) is one too.
            axed = [name for name in inputs if tensors[name][0]]
            self._note(node, (), mask=len(axed) == 1 and axed[0] in self._masks)
            return _count(product for product in self._of(inputs) if product.outer)
        if node.op_type == "Mul":
            self._multiply(node, tensors)
        elif node.op_type == "Where" and all(tensors[branch][0] for branch in node.input[1:]):
            # A choice between two tensors of values leaves no product.
            pass
        elif node.op_type in _CARRIERS:
            cast = node.op_type == "Cast" and node.input[0] in self._masks
            mask = cast or (bool(inputs) and all(name in self._masks for name in inputs))
            self._note(node, tuple(self._of(inputs)), mask=mask)
        return 0

    def _multiply(self, node: Any, tensors: Mapping[str, tuple[Shape, bool]]) -> None:
        carried = tuple(self._of(node.input))
        factors = [name for name in node.input if tensors[name][0] and name not in self._masks]
        if len(set(factors)) == 2:
            elements = prod(tensors[node.output[0]][0])
            larger = elements > max(prod(tensors[name][0]) for name in factors)
            carried = (_Product(elements, larger or any(product.outer for product in carried)),)
        self._note(node, carried, mask=all(name in self._masks for name in node.input))

    def _of(self, names: Iterable[str]) -> list[_Product]:
        """The products in the named values that nothing has summed so far, each once."""
        found = (product for name in names for product in self._products.get(name, ()))
        return list(dict.fromkeys(product for product in found if not product.counted))

    def _note(self, node: Any, products: tuple[_Product, ...], *, mask: bool) -> None:
        for name in node.output:
            if products:
                self._products[name] = products
            if mask:
                self._masks.add(name)


def _count(products: Iterable[_Product]) -> int:
    """Sum up ``products`` and remember that they are counted."""
    elements = 0
    for product in products:
        elements += product.elements
        product.counted = True
    return elements
