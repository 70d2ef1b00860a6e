"""Contractions written by hand: elementwise products whose elements are then summed.

The rule. A product of two floating-point tensors is remembered, and stays so through views, permutations, padding,
casts, masking, dropout, and scaling by a number. When ``sum``, ``mean``, ``cumsum`` or an indexed addition consumes
it, its elements count, one Mult-Add each, once: this is a contraction written by hand, such as a convolution over
unfolded windows or a linear attention. When a plain addition or subtraction consumes it, it counts only if it is an
outer product (more elements than either factor), which is how a linear attention updates its state; gates, biases and
residual sums are additions too and count nothing. Not products in this sense: scaling by a number or a tensor without
axes, masking by a boolean or integer tensor or one cast from it, the square of a tensor, which is a statistic, and a
choice between a product and another tensor, such as that of a recurrent state between its new and its last value.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["ProductTracker"]

_SUMS = frozenset({"aten.sum", "aten.mean", "aten.nansum", "aten.cumsum", "aten.index_add", "aten.scatter_add"})
_ADDITIONS = frozenset({"aten.add", "aten.sub", "aten.rsub"})
#: Operators, besides views, through which a product stays one.
_CARRIERS = frozenset(
    {
        *("aten._reshape_alias", "aten._reshape_copy", "aten._to_copy", "aten._unsafe_view", "aten.cat", "aten.clone"),
        *("aten.constant_pad_nd", "aten.contiguous", "aten.div", "aten.expand", "aten.flip", "aten.gather"),
        *("aten.index", "aten.index_select", "aten.masked_fill", "aten.native_dropout", "aten.neg", "aten.repeat"),
        *("aten.roll", "aten.split_with_sizes", "aten.stack", "aten.tril", "aten.triu", "aten.unsafe_chunk"),
        *("aten.unsafe_split", "aten.unsafe_split_with_sizes", "aten.where"),
    }
)


@dataclass(eq=False)
class _Product:
    """A product not summed so far: its number of elements, and whether that exceeds both factors'."""

    macs: int
    outer: bool
    counted: bool = False


class ProductTracker:
    """A tracker of products from the multiplication to the sum; the module's docstring states the rule."""

    def __init__(self) -> None:
        self._products: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._masks: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    @staticmethod
    def knows(operator: str) -> bool:
        """Whether this rule decides the cost of ``operator`` (a base name)."""
        return operator in _SUMS or operator in _ADDITIONS or operator in ("aten.mul", "aten.addcmul")

    def observe(self, operator: str, arguments: Mapping[str, Any], result: Any, *, is_view: bool) -> int:
        """Record one call, in the order of execution.

        Args:
            operator: Base name of the operator.
            arguments: Its arguments by name.
            result: What it returned.
            is_view: Whether the result is a view of its argument, or a copy of one.

        Returns:
            The Mult-Adds that this call completes; 0 for most.
        """
        inputs = list(_tensors(arguments.values()))
        if operator == "aten.div":
            # What is divided by a product is none.
            inputs = [arguments["self"]]
        carried: tuple[_Product, ...] = ()
        mask = False
        macs = 0
        if operator == "aten.mul":
            carried, mask = self._multiply(inputs)
        elif operator == "aten.addcmul":
            product = _new_product(arguments["tensor1"], arguments["tensor2"], ())
            macs = product.macs if product.outer else 0
        elif operator in _SUMS:
            macs = _count(self._of(inputs))
        elif operator in _ADDITIONS:
            macs = _count(product for product in self._of(inputs) if product.outer)
            # The complement of a mask (1 - mask) is one too.
            mask = len(inputs) == 1 and self._is_mask(inputs[0])
        elif operator == "aten.where" and all(branch.dim() for branch in inputs[1:]):
            # A choice between two tensors of values leaves no product; masking chooses between one and a number.
            pass
        elif is_view or operator in _CARRIERS:
            carried = tuple(self._of(inputs))
            mask = bool(inputs) and all(self._is_mask(tensor) for tensor in inputs)
        for tensor in _tensors((result,)):
            self._note(tensor, carried, mask)
        return macs

    def _multiply(self, factors: list[Tensor]) -> tuple[tuple[_Product, ...], bool]:
        """What the product of ``factors`` carries on, and whether it is itself a mask."""
        carried = tuple(self._of(factors))
        masks = [self._is_mask(factor) for factor in factors]
        if all(masks):
            return (), True
        scaled = [factor for factor, is_mask in zip(factors, masks, strict=True) if factor.dim() and not is_mask]
        if len(scaled) < 2 or scaled[0] is scaled[1]:
            return carried, False
        return (_new_product(scaled[0], scaled[1], carried),), False

    def _of(self, tensors: Iterable[Tensor]) -> list[_Product]:
        """The products in ``tensors`` that nothing has summed so far, each once."""
        found = (product for tensor in tensors if tensor in self._products for product in self._products[tensor])
        return list(dict.fromkeys(product for product in found if not product.counted))

    def _is_mask(self, tensor: Tensor) -> bool:
        return not (tensor.is_floating_point() or tensor.is_complex()) or tensor in self._masks

    def _note(self, tensor: Tensor, products: tuple[_Product, ...], mask: bool) -> None:
        """Replace what is known of ``tensor``, which an operator in place may have known as something else."""
        for table, value in ((self._products, products), (self._masks, mask)):
            if value:
                table[tensor] = value
            elif tensor in table:
                del table[tensor]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among ``values``; an operator takes and returns them as they are or in a list."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _new_product(left: Tensor, right: Tensor, factors_products: tuple[_Product, ...]) -> _Product:
    """The product of two tensors; one with a factor that is an outer product is an outer product as well."""
    size = torch.broadcast_shapes(left.shape, right.shape).numel()  # type: ignore[no-untyped-call]
    outer = size > max(left.numel(), right.numel()) or any(product.outer for product in factors_products)
    return _Product(macs=size, outer=outer)


def _count(products: Iterable[_Product]) -> int:
    """Sum up ``products`` and remember that they are counted."""
    macs = 0
    for product in products:
        macs += product.macs
        product.counted = True
    return macs
