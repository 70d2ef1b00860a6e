"""What the removal of units is expected to cost: the Fisher information's estimate, corrected by measurements."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from lite_nlp.compress.prune.structure import Probe
from lite_nlp.compress.prune.units import UnitGroup
from lite_nlp.tasks.shrinking.widths import Width

__all__ = ["WidthEstimate", "probed_units"]

#: Fractions of the units of a width that are removed to check its estimate.
_PROBED: Final = (0.125, 0.25, 0.5, 0.75)


def probed_units(width: Width) -> list[int]:
    """Numbers of units left to measure the loss at, falling."""
    smaller = width.choices[1:]
    nearest = {min(smaller, key=lambda units: abs(units - (1 - gone) * width.units)) for gone in _PROBED}
    return sorted(nearest, reverse=True)


class WidthEstimate:
    """Expected losses of one width at every number of units left.

    Args:
        width: The width.
        losses: Expected loss of each unit, by the name of its group.
        measure: The measured increase of the loss with so many units left in every group.
    """

    def __init__(self, width: Width, losses: Mapping[str, Sequence[float]], measure: Callable[[int], float]) -> None:
        self._width = width
        self._sums = {group.name: [0.0, *itertools.accumulate(sorted(losses[group.name]))] for group in width.groups}
        self.probes = [
            Probe(key=width.key, units=units, predicted=self._predicted(units, width.groups), measured=measure(units))
            for units in probed_units(width)
        ]
        points = sorted((width.units - probe.units, math.log(probe.factor)) for probe in self.probes)
        self._gone, self._logarithms = [gone for gone, _ in points], [logarithm for _, logarithm in points]
        expected = (self._corrected(units) for units in width.choices)
        # To remove more costs no less.
        self._expected = dict(zip(width.choices, itertools.accumulate(expected, max), strict=True))

    def loss(self, units: int, groups: Sequence[UnitGroup]) -> float:
        """The expected loss with so many units left in each of some of the groups, the others being gone."""
        everywhere = self._predicted(units, self._width.groups)
        share = self._predicted(units, groups) / everywhere if everywhere > 0 else len(groups) / len(self._sums)
        return share * self._expected[units]

    def _predicted(self, units: int, groups: Sequence[UnitGroup]) -> float:
        gone = self._width.units - units
        return sum(self._sums[group.name][gone] for group in groups)

    def _corrected(self, units: int) -> float:
        """The prediction times what is interpolated between the probes, constant beyond them."""
        gone = self._width.units - units
        factor = math.exp(float(np.interp(gone, self._gone, self._logarithms)))
        return factor * self._predicted(units, self._width.groups)
