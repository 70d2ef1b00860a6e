"""Rewriting of traced graphs for ExecuTorch: operators that it lowers wrongly or slowly become others; the values stay.

ExecuTorch's own kernels broadcast element by element and copy what only changes its shape. XNNPACK is fast at both, so
attention, and the choice between a cache and a new entry, become products, sums and softmaxes of whole tensors, which
it takes.

Shape letters: B rows, H heads, T queries, S keys, C capacity, d channels of a head.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram, default_decompositions
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.dialect.common.cse_pass import CSEPass

from lite_nlp.export.decomposing import decompose_program, known_operators
from lite_nlp.export.executorch_integers import quantize_program, separate_weights, weight_forms
from lite_nlp.export.executorch_regions import join_regions
from lite_nlp.export.executorch_tables import turn_tables
from lite_nlp.export.matrices import UNROUNDED, Rounding

__all__ = ["prepare_program"]

_ATEN: Final = torch.ops.aten

#: Added to a masked score: its weight becomes exactly zero, without the infinities that can make nan.
_MASKED: Final = -1e30


def prepare_program(
    program: ExportedProgram, *, rounding: Rounding = UNROUNDED, tied: Collection[int] = ()
) -> ExportedProgram:
    """Rewrite a traced graph.

    * Attention in plain operators becomes the fused one, and that products of three-dimensional tensors, a sum for the
      mask, and a softmax. Its own rewriting guards against fully masked rows, which the models do not have.
    * The choice between a new entry and a cache becomes a weighted sum of both.
    * Splits become slices, and what only adds or moves dimensions of size 1 a reshape (the strides of a transposition
      otherwise contradict the runtime's idea of the layout).
    * Norms and cut products beside integers get the form of
      :func:`~lite_nlp.export.executorch_regions.join_regions`.
    * What several layers compute alike, such as masks, is computed once.
    * All else becomes operators of core ATen, but for ``linear``; layer norms and gated linear units that stay beside
      integers are left for the lowering to decompose.

    Args:
        program: Stays as it is.
        rounding: Of the weights of products and tables.
        tied: Tables of :func:`~lite_nlp.export.executorch_tables.find_tied_tables`, which are stored turned where they
            stay in fp32.
    """
    # The nodes alone are copied, not the weights.
    graph, copied = deepcopy(program.graph), copy(program)
    inputs = set(program.graph_signature.user_inputs)
    for node in list(graph.nodes):
        if node.target is _ATEN.softmax.int:
            _fuse_attention(graph, node)
        elif node.target is _ATEN.where.self:
            _write_by_weights(graph, node, inputs)
    graph.eliminate_dead_code()
    graph.lint()
    copied._graph_module = GraphModule(program.graph_module, graph)
    whole = (_ATEN.layer_norm.default, _ATEN.glu.default) if rounding.is_needed else ()
    with known_operators():
        rewritten = decompose_program(copied, _decompositions(whole))
    # Both programs would hold one table of constants, and the lowering takes out of it what XNNPACK packs.
    rewritten._constants, rewritten._state_dict = dict(rewritten._constants), dict(rewritten._state_dict)
    if rounding.is_needed:
        forms = weight_forms(rewritten, rounding)
        parts = join_regions(rewritten)
        quantize_program(rewritten, forms | {part: forms[whole] for part, whole in parts.items() if whole in forms})
    turn_tables(rewritten, tied)
    merged = CSEPass()(rewritten.graph_module)
    if merged is not None:
        rewritten._graph_module = merged.graph_module
    if rounding.is_needed:
        separate_weights(rewritten)
    return rewritten


def _decompositions(whole: Collection[Any]) -> Any:
    """A table of what operators become: those of ``_REPLACEMENTS``, and of torch's own what these leave alone.

    Args:
        whole: Operators that stay what they are, beside ``linear``.
    """
    table: Any = default_decompositions()
    for operator in (_ATEN.linear.default, *whole):
        table.pop(operator)
    for operator, replace in _REPLACEMENTS.items():
        usual = table.pop(operator, None)
        table[operator] = replace if usual is None else partial(_replace_or_decompose, replace, usual)
    return table


def _replace_or_decompose(
    replace: Callable[..., Any], usual: Callable[..., Any], *arguments: Any, **options: Any
) -> Any:
    """What ``replace`` makes of a call, or, where it does not apply, the usual decomposition."""
    made = replace(*arguments, **options)
    return usual(*arguments, **options) if made is NotImplemented else made


class _Attention(NamedTuple):
    """The nodes of an attention in plain operators: the mask is False where a key does not count."""

    query: Any
    key: Any
    value: Any
    mask: Any
    output: Any


def _find_attention(softmax: Any) -> _Attention | None:
    """The attention that a softmax is part of: ``softmax(masked_fill(q @ k.T, ~mask, -inf)) @ v`` of (B, H, T, d)."""
    users, filled = list(softmax.users), softmax.args[0]
    if [user.target for user in users] != [_ATEN.matmul.default] or users[0].args[0] is not softmax:
        return None
    if filled.target is not _ATEN.masked_fill.Scalar or filled.args[2] != -torch.inf:
        return None
    scores, hidden, _ = filled.args
    if scores.target is not _ATEN.matmul.default or hidden.target is not _ATEN.bitwise_not.default:
        return None
    query, turned = scores.args
    if turned.target is not _ATEN.transpose.int or turned.args[1:] != (-2, -1):
        return None
    found = _Attention(query, turned.args[0], users[0].args[1], hidden.args[0], users[0])
    sizes = [node.meta["val"].shape for node in found]
    if any(len(size) != 4 for size in sizes) or sizes[3][1] != 1:
        return None
    return found if _same_sizes(sizes[0][:2], sizes[1][:2]) and _same_sizes(sizes[1][:2], sizes[2][:2]) else None


def _fuse_attention(graph: Graph, softmax: Any) -> None:
    """Make the plain operators around a softmax the fused one, whose query is not scaled any more."""
    found = _find_attention(softmax)
    if found is None:
        return
    with graph.inserting_before(found.output):
        fused = graph.call_function(_ATEN.scaled_dot_product_attention.default, found[:4], {"scale": 1.0})
    _replace(graph, found.output, fused)


def _write_by_weights(graph: Graph, chosen: Any, inputs: set[str]) -> None:
    """Write ``where(here, new, cache)`` of a state tensor as ``new * here + cache * (1 - here)``: equal if finite."""
    here, new, cache = chosen.args
    if cache.name not in inputs or chosen.meta["val"].dtype != torch.float32:
        return
    with graph.inserting_before(chosen):

        def call(target: Callable[..., Any], *arguments: Any) -> Node:
            return graph.call_function(target, arguments)

        weight = call(_ATEN.to.dtype, here, torch.float32)
        written = call(_ATEN.mul.Tensor, new, weight)
        kept = call(_ATEN.mul.Tensor, cache, call(_ATEN.rsub.Scalar, weight, 1.0))
        output = call(_ATEN.add.Tensor, written, kept)
    _replace(graph, chosen, output)


def _replace(graph: Graph, old: Any, new: Any) -> None:
    new.meta = dict(old.meta)
    old.replace_all_uses_with(new)
    graph.erase_node(old)


def _same_sizes(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return all(_same_size(one, other) for one, other in zip(first, second, strict=True))


def _same_size(first: Any, second: Any) -> bool:
    """Whether two sizes are the same number or symbol, without asking for the number of a symbol."""
    if isinstance(first, int) or isinstance(second, int):
        return isinstance(first, int) and isinstance(second, int) and first == second
    return bool(first.node.expr == second.node.expr)


def _matmul(left: Tensor, right: Tensor) -> Any:
    """Products over (B, H, ..., ...) without broadcasting, which would copy both sides."""
    if left.dim() != 4 or right.dim() != 4:
        return NotImplemented
    if not _same_sizes(left.shape[:2], right.shape[:2]):
        return NotImplemented
    product = torch.bmm(left.flatten(0, 1), right.flatten(0, 1))
    return product.reshape(*left.shape[:3], right.shape[3])


def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    """By a softmax, which XNNPACK has: of the probabilities only the greatest, which is not near 0, has its log taken.

    ExecuTorch's own kernel takes 0.1 s for 64 rows of 8,000 where XNNPACK's integer products came before it.
    """
    if dtype not in (None, x.dtype):
        return NotImplemented
    return x - x.amax(dim, keepdim=True) + x.softmax(dim).amax(dim, keepdim=True).log()


def _unsqueeze(x: Tensor, dim: int) -> Tensor:
    place = dim % (x.dim() + 1)
    return x.reshape([*x.shape[:place], 1, *x.shape[place:]])


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Softmax attention of (B, H, T, d) over (B, H, S, d) under a boolean mask, in products over B x H."""
    if attn_mask is None or attn_mask.dtype != torch.bool or dropout_p or is_causal or enable_gqa:
        return NotImplemented
    rows, heads = query.shape[:2]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scaled = query if factor == 1.0 else query * factor
    added = (1.0 - attn_mask.to(torch.float32)) * _MASKED
    added = added.expand(rows, heads, *added.shape[-2:]).flatten(0, 1)
    # (B * H, T, d) x (B * H, d, S) -> (B * H, T, S)
    scores = torch.bmm(scaled.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)) + added
    return torch.bmm(scores.softmax(dim=-1), value.flatten(0, 1)).reshape(query.shape)


def _split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    parts, start = [], 0
    for size in sizes:
        parts.append(x.narrow(dim, start, size))
        start += size
    return parts


def _split(x: Tensor, size: int, dim: int = 0) -> Any:
    length = x.shape[dim]
    if not isinstance(length, int):
        return NotImplemented
    return _split_with_sizes(x, [min(size, length - start) for start in range(0, length, size)], dim)


def _transpose(x: Tensor, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return _permute(x, order)


def _permute(x: Tensor, order: Sequence[int]) -> Any:
    axes = [axis % x.dim() for axis in order]
    moved = [axis for axis in axes if not (isinstance(x.shape[axis], int) and x.shape[axis] == 1)]
    if moved != sorted(moved):
        return NotImplemented
    return x.reshape([x.shape[axis] for axis in axes])


#: What operators become, by operator.
_REPLACEMENTS: Final[Mapping[Any, Callable[..., Any]]] = {
    _ATEN.scaled_dot_product_attention.default: _attention,
    _ATEN.log_softmax.int: _log_softmax,
    _ATEN.matmul.default: _matmul,
    _ATEN.split_with_sizes.default: _split_with_sizes,
    _ATEN.split.Tensor: _split,
    _ATEN.unsqueeze.default: _unsqueeze,
    _ATEN.transpose.int: _transpose,
    _ATEN.permute.default: _permute,
}
