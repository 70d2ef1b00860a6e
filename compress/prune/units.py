"""Structural units of a model (channels, heads, ranks): what goes with each of them, and what it is expected to cost.

A unit is removed as a whole, from every parameter that its removal changes the shape of. What is left then computes
what the model computes with these weights at zero.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "Slices",
    "UnitGroup",
    "channel_step",
    "numbers_left",
    "rank_units",
    "unit_losses",
    "without_units",
    "zero_units",
]

#: Widths stay multiples of this, which vector units and quantized kernels like; small ones need not.
_ROUND_TO: Final = 8
_SMALL: Final = 16


@dataclass(frozen=True, eq=False)
class Slices:
    """What of one dimension of a tensor goes with each unit.

    Attributes:
        tensor: Name of the parameter or buffer.
        dim: Its dimension.
        indices: (units, k) int64, the indices in that dimension that go with each unit; no index twice.
    """

    tensor: str
    dim: int
    indices: Tensor


@dataclass(frozen=True, eq=False)
class UnitGroup:
    """Units that are alike, of which any may go while others stay: the channels of one layer, say.

    Attributes:
        name: Name of the module that they belong to.
        slices: What goes with them, all of as many units; no two groups have slices of the same tensor and dimension.
    """

    name: str
    slices: tuple[Slices, ...]

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.slices[0].indices)


def channel_step(width: int, together: int = 1) -> int:
    """How many channels of a width go at once at least, where so many are one unit."""
    return together if width < _SMALL else math.lcm(_ROUND_TO, together)


def numbers_left(units: int, step: int) -> tuple[int, ...]:
    """Numbers of units that may be left, falling, all of them first, then the multiples of a step."""
    return (units, *range((units - 1) // step * step, 0, -step))


def unit_losses(
    group: UnitGroup, parameters: Mapping[str, Tensor], information: Mapping[str, NDArray[Any]]
) -> list[float]:
    """The loss that the removal of each unit is expected to cost, if losses of weights add up.

    Half of the sum of F w^2 over the weights that go with it, F being the diagonal Fisher information: the second-order
    Taylor expansion of the loss at weights that go to zero (Theis et al. 2018, arXiv 1801.05787, equation 4; Molchanov
    et al. 2019, arXiv 1906.10771).

    Args:
        group: The units.
        parameters: By name; slices of buffers count nothing.
        information: That of the parameters, of the same shapes.

    Returns:
        One figure per unit, in the unit of the information.
    """
    losses = torch.zeros(group.size, dtype=torch.float64)
    for part in group.slices:
        parameter = parameters.get(part.tensor)
        if parameter is None:
            continue
        weighted = torch.from_numpy(information[part.tensor]).double() * parameter.detach().cpu().double().square()
        along = weighted.transpose(0, part.dim).flatten(1).sum(dim=1) if weighted.dim() > 1 else weighted
        losses += 0.5 * along[part.indices].sum(dim=1)
    return [float(loss) for loss in losses]


def rank_units(losses: Sequence[float]) -> list[int]:
    """The units by their losses, least first; equal ones in their order."""
    return sorted(range(len(losses)), key=lambda unit: losses[unit])


def without_units(state: Mapping[str, Tensor], group: UnitGroup, removed: Iterable[int]) -> dict[str, Tensor]:
    """The tensors of a model without some units; those that do not change are the same objects."""
    smaller = dict(state)
    gone = sorted(set(removed))
    for part in group.slices if gone else ():
        tensor = smaller[part.tensor]
        keep = torch.ones(tensor.shape[part.dim], dtype=torch.bool)
        keep[part.indices[gone].flatten()] = False
        smaller[part.tensor] = tensor.index_select(part.dim, keep.nonzero().squeeze(1).to(tensor.device))
    return smaller


@torch.no_grad()
def zero_units(tensors: Mapping[str, Tensor], group: UnitGroup, removed: Iterable[int]) -> None:
    """Set to zero, in place, everything that goes with some units."""
    gone = sorted(set(removed))
    for part in group.slices if gone else ():
        tensors[part.tensor].index_fill_(part.dim, part.indices[gone].flatten().to(tensors[part.tensor].device), 0.0)
