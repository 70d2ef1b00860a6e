"""The channels of any module that can go, and what goes with each of them.

torch-pruning's dependency graph (Fang et al. 2023, arXiv 2301.12900) finds the layers whose shapes depend on a channel,
so nothing here knows the module. What it finds is checked: a module without half of the channels has to compute what it
computes with all that goes with them at zero.
"""

import copy
from collections import defaultdict
from typing import Any, Final, NamedTuple

import torch
import torch_pruning as tp
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves

from lite_nlp.compress.prune.resizing import fit_shapes, is_depthwise
from lite_nlp.compress.prune.units import Slices, UnitGroup, without_units, zero_units
from lite_nlp.core.errors import ModelError

__all__ = ["channel_groups", "without_channels"]

#: Layers whose output channels begin a group.
_ROOTS: Final = (_ConvNd, nn.Linear, nn.Embedding, nn.LSTM)
_GATES: Final = 4

#: What a module raises where its code counts on sizes that it no longer has.
_MISFITS: Final = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)

#: Largest difference of two computations of the same, relative to the largest of the results.
_CLOSE: Final = 1e-4


def channel_groups(module: nn.Module, example_inputs: tuple[Any, ...], *, name: str) -> list[UnitGroup]:
    """The channels that can go without more than rounding errors beside those of their own weights at zero.

    They are those between Linear layers, convolutions, tables and one-layer LSTMs of one direction, through what has no
    weights, BatchNorm, PReLU and parameters. Left out are those that reach the output, parts of a grouped convolution,
    other layers (a LayerNorm over the channels computes something else of fewer), or a parameter that has two names.

    Args:
        module: In evaluation mode, with gradients; it is only read.
        example_inputs: Arguments of one forward call.
        name: Of the module, for messages.

    Returns:
        Groups of disjoint tensors' dimensions, in the order of the layers that they begin with.

    Raises:
        ModelError: If the graph of the module cannot be followed.
    """
    copied = copy.deepcopy(module)
    try:
        with torch.enable_grad():
            graph = tp.DependencyGraph().build_dependency(copied, example_inputs=example_inputs, verbose=False)
        found = list(graph.get_all_groups(root_module_types=_ROOTS))
    except (*_MISFITS, AttributeError, KeyError, NotImplementedError) as error:
        raise ModelError(
            f"{name}: structured pruning: expected a module that torch-pruning can follow: {error}"
        ) from error
    places = _Places(copied)
    with torch.no_grad():
        groups = [
            group for each in found if (group := _units(each, places)) and _is_exact(module, group, example_inputs)
        ]
    order = {layer: number for number, layer in enumerate(dict(module.named_modules()))}
    taken: set[tuple[str, int]] = set()
    disjoint = []
    for group in sorted(groups, key=lambda group: order[group.name]):
        touched = {(part.tensor, part.dim) for part in group.slices}
        if not touched & taken:
            taken |= touched
            disjoint.append(group)
    return disjoint


def without_channels(module: nn.Module, removed: list[tuple[UnitGroup, list[int]]]) -> nn.Module:
    """A copy of a module without some channels of each group."""
    state: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    smaller = state
    for group, channels in removed:
        smaller = without_units(smaller, group, channels)
    copied = copy.deepcopy(module)
    fit_shapes(copied, {name: tensor for name, tensor in smaller.items() if tensor is not state[name]})
    return copied


class _Place(NamedTuple):
    """A dimension of a tensor, in which so many blocks of all channels stand side by side."""

    tensor: str
    dim: int
    parts: int = 1


class _Places:
    """Where the channels of the layers of a module lie in its tensors."""

    def __init__(self, module: nn.Module) -> None:
        self.tensors: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.layers = dict(module.named_modules())
        self._names = {id(layer): name for name, layer in self.layers.items()}
        self._parameters: defaultdict[int, list[str]] = defaultdict(list)
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self._parameters[id(parameter)].append(name)

    def of(self, node: Any, handler: Any) -> list[_Place] | None:
        """Those of a node of the dependency graph, a layer or a parameter that none owns; None of one not known."""
        layer = node.module
        if isinstance(layer, nn.Parameter):
            names = self._parameters[id(layer)]
            return [_Place(names[0], node.pruning_dim % layer.dim())] if len(names) == 1 else None
        if any(len(self._parameters[id(parameter)]) > 1 for parameter in layer.parameters()):
            return None
        if not [*layer.parameters(), *layer.buffers()]:
            # A norm without weights says its number of channels all the same, and torch warns of another.
            return None if isinstance(layer, _NormBase) else []
        found = _places_in(layer, leaving=handler.__name__ == "prune_out_channels")
        if found is None:
            return None
        prefix = f"{self._names[id(layer)]}.".removeprefix(".")
        named = [place._replace(tensor=prefix + place.tensor) for place in found]
        # A weight may be computed from others, as by a parametrization.
        return named if all(place.tensor in self.tensors for place in named) else None


def _places_in(layer: nn.Module, *, leaving: bool) -> list[_Place] | None:
    """The same by the tensors' names in the layer, of channels that leave it or of those that enter."""
    bias = [_Place("bias", 0)] if getattr(layer, "bias", None) is not None else []
    match layer:
        case nn.Linear():
            return [_Place("weight", 0), *bias] if leaving else [_Place("weight", 1)]
        case _ConvNd() if is_depthwise(layer):
            return [_Place("weight", 0), *bias]
        case _ConvNd() if layer.groups == 1:
            dim = int(leaving == layer.transposed)
            return [_Place("weight", dim), *bias] if leaving else [_Place("weight", dim)]
        case _BatchNorm() | nn.PReLU():
            tensors = (*layer.named_parameters(), *layer.named_buffers())
            return [_Place(name, 0) for name, tensor in tensors if tensor.numel() > 1]
        case nn.Embedding():
            return [_Place("weight", 1)]
        case nn.LSTM() if layer.num_layers > 1 or layer.proj_size or (leaving and layer.bidirectional):
            return None
        case nn.LSTM() if leaving:
            gates = [_Place(name, 0, _GATES) for name, _ in layer.named_parameters()]
            return [*gates, _Place("weight_hh_l0", 1)]
        case nn.LSTM():
            return [_Place(name, 1) for name, _ in layer.named_parameters() if name.startswith("weight_ih")]
    return None


def _units(group: Any, places: _Places) -> UnitGroup | None:
    """A group of the dependency graph, named after the first layer that its channels leave; None if it cannot go."""
    width = len(group[0].idxs)
    if width == 1:
        return None
    slices: dict[tuple[str, int], Tensor] = {}
    for item in group:
        found = places.of(item.dep.target, item.dep.handler)
        if found is None:
            return None
        # Several go with one channel where channels are flattened.
        roots = torch.tensor(item.root_idxs).sort(stable=True)
        if len(item.idxs) % width or not torch.equal(
            roots.values, torch.arange(width).repeat_interleave(len(item.idxs) // width)
        ):
            return None
        channels = torch.tensor(item.idxs)[roots.indices].view(width, -1)
        for place in found:
            size = places.tensors[place.tensor].shape[place.dim] // place.parts
            indices = torch.cat([channels + part * size for part in range(place.parts)], dim=1)
            if not torch.equal(slices.setdefault((place.tensor, place.dim), indices), indices):
                return None
    left = {id(item.dep.target.module) for item in group if item.dep.handler.__name__ == "prune_out_channels"}
    name = next(name for name, layer in places.layers.items() if isinstance(layer, _ROOTS) and id(layer) in left)
    return UnitGroup(name, tuple(Slices(tensor, dim, indices) for (tensor, dim), indices in slices.items()))


def _is_exact(module: nn.Module, group: UnitGroup, example_inputs: tuple[Any, ...]) -> bool:
    """Whether a module without half of the channels computes what it computes with their weights at zero."""
    half = list(range(group.size // 2))
    zeroed = copy.deepcopy(module)
    zero_units({**dict(zeroed.named_parameters()), **dict(zeroed.named_buffers())}, group, half)
    try:
        found = _results(without_channels(module, [(group, half)]), example_inputs)
    except _MISFITS:
        return False
    expected = _results(zeroed, example_inputs)
    return len(found) == len(expected) and all(map(_is_close, found, expected))


def _results(module: nn.Module, example_inputs: tuple[Any, ...]) -> list[Tensor]:
    # A copy of the inputs too, which a module may change.
    return [value for value in tree_leaves(module(*copy.deepcopy(example_inputs))) if isinstance(value, Tensor)]


def _is_close(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    if not found.is_floating_point():
        return torch.equal(found, expected)
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=0.0, atol=_CLOSE * scale)
