"""What the removal of units is expected to cost: the Fisher information's estimate, corrected by measurements."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from torch import nn

from lite_nlp.compress.importance import diagonal_fisher
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.prune.structure import Probe
from lite_nlp.compress.prune.units import UnitGroup, unit_losses
from lite_nlp.core.progress import Progress

__all__ = ["WidthEstimate", "estimated_losses", "probed_units"]

#: Fractions of the units of a width that are removed to check its estimate.
_PROBED: Final = (0.125, 0.25, 0.5, 0.75)


def probed_units(choices: Sequence[int]) -> list[int]:
    """Numbers of units left to measure the loss at, falling, of those that may be left (falling, all of them first)."""
    whole, *smaller = choices
    nearest = {min(smaller, key=lambda units: abs(units - (1 - gone) * whole)) for gone in _PROBED}
    return sorted(nearest, reverse=True)


def estimated_losses(
    model: nn.Module, groups: Iterable[UnitGroup], *, subject: CompressionSubject, progress: Progress
) -> dict[str, list[float]]:
    """The loss that each unit is expected to cost by the Fisher information, by the name of its group."""
    batches = subject.informing()
    progress.start("structured pruning: importance", len(batches))
    parameters = dict(model.named_parameters())
    information = diagonal_fisher(model, batches, subject.information, parameters=parameters, on_batch=progress.advance)
    return {group.name: unit_losses(group, parameters, information) for group in groups}


class WidthEstimate:
    """Expected losses of one width at every number of units left.

    Args:
        key: Of the width, for its probes.
        choices: Numbers of units that may be left in every group, falling, all of them first.
        groups: The units, of as many groups as the width has places.
        losses: Expected loss of each unit, by the name of its group.
        measure: The measured increase of the loss with so many units left in every group.
    """

    def __init__(
        self,
        *,
        key: str,
        choices: Sequence[int],
        groups: Sequence[UnitGroup],
        losses: Mapping[str, Sequence[float]],
        measure: Callable[[int], float],
    ) -> None:
        self._whole = choices[0]
        self._groups = groups
        self._sums = {group.name: [0.0, *itertools.accumulate(sorted(losses[group.name]))] for group in groups}
        self.probes = [
            Probe(key=key, units=units, predicted=self._predicted(units, groups), measured=measure(units))
            for units in probed_units(choices)
        ]
        points = sorted((self._whole - probe.units, math.log(probe.factor)) for probe in self.probes)
        self._gone, self._logarithms = [gone for gone, _ in points], [logarithm for _, logarithm in points]
        expected = (self._corrected(units) for units in choices)
        # To remove more costs no less.
        self._expected = dict(zip(choices, itertools.accumulate(expected, max), strict=True))

    def loss(self, units: int, groups: Sequence[UnitGroup]) -> float:
        """The expected loss with so many units left in each of some of the groups, the others being gone."""
        everywhere = self._predicted(units, self._groups)
        share = self._predicted(units, groups) / everywhere if everywhere > 0 else len(groups) / len(self._sums)
        return share * self._expected[units]

    def _predicted(self, units: int, groups: Sequence[UnitGroup]) -> float:
        gone = self._whole - units
        return sum(self._sums[group.name][gone] for group in groups)

    def _corrected(self, units: int) -> float:
        """The prediction times what is interpolated between the probes, constant beyond them."""
        gone = self._whole - units
        factor = math.exp(float(np.interp(gone, self._gone, self._logarithms)))
        return factor * self._predicted(units, self._groups)
