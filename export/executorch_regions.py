"""Norms and cut products in operators that XNNPACK takes, so that it computes a step in fewer calls.

What stands between two products and is left to ExecuTorch's own kernels ends one call of XNNPACK and begins another:
with integers, whose products are short, that is a sixteenth of a step and a fifth of the encoder. In fp32 it is a
fiftieth, and a compact bundle could not make weights that are cut.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from lite_nlp.export.executorch_edits import add_constant, add_mean, call_operator, constant_values
from lite_nlp.export.rounding import MIN_OUTPUTS

__all__ = ["join_regions"]

_ATEN: Final = torch.ops.aten


def join_regions(program: ExportedProgram) -> dict[str, str]:
    """Rewrite a program in place; its values stay, but for rounding.

    * A layer norm over the last dimension becomes products with one output channel, which are its mean and its
      variance, and operators on whole tensors.
    * A Linear whose output is cut into parts, or halved by a gated linear unit, becomes a Linear for each part, unless
      a part would be too narrow for integers.

    Args:
        program: In the operators of ATen, ``linear``, ``layer_norm`` and ``glu`` among them. No other program shares
            its state.

    Returns:
        Of the weights of parts, by the names of their placeholders, the weight that they are rows of.
    """
    return _Joiner(program).run()


class _Joiner:
    """One pass over a program."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._graph = program.graph
        self._first: Node = next(iter(program.graph.nodes))
        self._call = partial(call_operator, self._graph)
        # What is added, by what it is: layers that share a weight share its parts.
        self._constants: dict[Any, Node] = {}
        self._wholes: dict[str, str] = {}

    def run(self) -> dict[str, str]:
        """Replace the nodes, drop the weights that none needs any more; see :func:`join_regions`."""
        from executorch.backends.transforms.utils import delete_constant_placeholder

        rules: dict[Any, Callable[[Any], Node | None]] = {
            _ATEN.layer_norm.default: self._normalize,
            _ATEN.glu.default: self._gate,
            _ATEN.slice.Tensor: self._cut,
        }
        before = {node for node in self._graph.nodes if node.op == "placeholder"}
        for node in list(self._graph.nodes):
            if node.target not in rules:
                continue
            with self._graph.inserting_before(node):
                made = rules[node.target](node)
            if made is not None:
                node.replace_all_uses_with(made)
                self._graph.erase_node(node)
        self._graph.eliminate_dead_code()
        for node in before:
            if not node.users and self._values(node) is not None:
                delete_constant_placeholder(self._program, node)
        self._graph.lint()
        self._program.graph_module.recompile()
        return self._wholes

    def _normalize(self, node: Any) -> Node | None:
        """``layer_norm`` of one dimension."""
        x, sizes, *rest = node.args
        if len(sizes) != 1:
            return None
        weight, bias, epsilon = [*rest, *(None, None, 1e-5)[len(rest) :]][:3]
        size = sizes[0]
        mean = self._constant(("mean", size), lambda: add_mean(self._program, size, before=self._first))
        offset = self._constant(("offset", epsilon), partial(self._add_offset, epsilon))
        centred = self._call(_ATEN.sub.Tensor, x, self._call(_ATEN.linear.default, x, mean))
        variance = self._call(_ATEN.linear.default, self._call(_ATEN.mul.Tensor, centred, centred), mean, offset)
        normal = self._call(_ATEN.mul.Tensor, centred, self._call(_ATEN.rsqrt.default, variance))
        if weight is not None:
            normal = self._call(_ATEN.mul.Tensor, normal, weight)
        return normal if bias is None else self._call(_ATEN.add.Tensor, normal, bias)

    def _gate(self, node: Any) -> Node | None:
        """``glu`` of a Linear that nothing else uses."""
        product, axis = (*node.args, -1)[:2]
        size = _size(product)
        if not self._can_split(product) or len(product.users) != 1 or axis not in (-1, len(size) - 1):
            return None
        half = size[-1] // 2
        if _becomes_narrow(size[-1], half):
            return None
        value, gate = self._part(product, 0, half), self._part(product, half, size[-1])
        return self._call(_ATEN.mul.Tensor, value, self._call(_ATEN.sigmoid.default, gate))

    def _cut(self, node: Any) -> Node | None:
        """A slice of a Linear of which nothing but slices is used."""
        product = node.args[0]
        if not self._can_split(product) or not all(_is_part(user, product) for user in product.users):
            return None
        outputs = _size(product)[-1]
        if any(_becomes_narrow(outputs, _size(user)[-1]) for user in product.users):
            return None
        return self._part(product, node.args[2], min(node.args[3], outputs))

    def _can_split(self, node: Any) -> bool:
        weights = node.args[1:] if node.target is _ATEN.linear.default else (None,)
        return all(weight is not None and self._values(weight) is not None for weight in weights)

    def _part(self, product: Any, start: int, end: int) -> Node:
        """The outputs of a Linear from one channel to before another."""
        x, *weights = product.args
        parts = [
            self._constant((weight, start, end), partial(self._add_rows, weight, start, end)) for weight in weights
        ]
        return self._call(_ATEN.linear.default, x, *parts)

    def _add_rows(self, weight: Node, start: int, end: int) -> Node:
        values: Any = self._values(weight)
        # No view: what is stored is the part alone.
        part = add_constant(self._program, f"{weight.name}_{start}_{end}", values[start:end].clone(), before=weight)
        self._wholes[part.name] = weight.name
        return part

    def _constant(self, key: Any, make: Callable[[], Node]) -> Node:
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def _add_offset(self, epsilon: float) -> Node:
        name = f"offset_{len(self._constants)}"
        return add_constant(self._program, name, torch.tensor([epsilon]), before=self._first)

    def _values(self, node: Any) -> Tensor | None:
        return constant_values(self._program, node)


def _is_part(node: Any, product: Any) -> bool:
    """Whether a node is a slice of a product's output channels."""
    if node.target is not _ATEN.slice.Tensor or len(node.args) != 4:
        return False
    source, axis, start, end = node.args
    whole = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    return whole and source is product and axis in (-1, len(_size(product)) - 1)


def _becomes_narrow(outputs: int, part: int) -> bool:
    """Whether a part of a Linear would stay in fp32 where the whole becomes integers."""
    return part < MIN_OUTPUTS <= outputs


def _size(node: Any) -> Any:
    return node.meta["val"].shape
