"""Which channels any module loses for a given fraction of its Mult-Adds: those of the least loss for what they save."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from torch import nn

from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.prune.channels import channel_groups, without_channels
from lite_nlp.compress.prune.estimates import WidthEstimate, estimated_losses, probed_units
from lite_nlp.compress.prune.structure import Probe, Removal, Structure
from lite_nlp.compress.prune.units import UnitGroup, channel_step, numbers_left, rank_units
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import Progress

__all__ = ["remove_channels"]


@dataclass(frozen=True)
class _Step:
    """Channels that go at once.

    Attributes:
        price: Expected loss for each Mult-Add that is saved.
        group: Number of their group.
        left: Channels left of it.
    """

    price: float
    group: int
    left: int


def remove_channels(
    module: nn.Module,
    fraction: float,
    *,
    subject: CompressionSubject,
    example_inputs: tuple[Any, ...],
    work: Work | None,
    progress: Progress,
) -> tuple[nn.Module, Structure]:
    """The module without its least important channels.

    Channels of one layer are ranked by the loss that the Fisher information estimates; the estimates of each layer are
    corrected by measurements with an eighth to three quarters of its channels gone. Then whatever costs the least loss
    per Mult-Add goes, until the fraction is reached.

    Args:
        module: In evaluation mode, with gradients; left as it is.
        fraction: Fraction of the Mult-Adds to remove, above 0 and below 1.
        subject: How to evaluate and to count, and the batches and loss of the importance.
        example_inputs: Arguments of one forward call.
        work: Keeps the choice.
        progress: Receiver of progress reports.

    Raises:
        ModelError: If so much cannot go, or the graph of the module cannot be followed.
    """
    groups = channel_groups(module, example_inputs, name=subject.name)
    search = _Search(module, groups, subject, progress)
    limit = (1 - fraction) * search.whole
    removable = [(group, list(range(group.size - _choices(group)[-1]))) for group in groups]
    least = search.count(without_channels(module, removable))
    if least > limit:
        raise ModelError(
            f"{subject.name}: structured pruning: expected to remove {fraction:.1%} of {search.whole:,} Mult-Adds, "
            f"found that at most {1 - least / search.whole:.1%} can go, with the channels of {len(groups)} layers"
        )
    found = search.run(limit) if work is None else work.keep("structured", lambda: search.run(limit))
    smaller = search.module_of(found["left"], found["losses"])
    structure = Structure(
        fraction=fraction,
        macs_before=search.whole,
        macs_after=search.count(smaller),
        removed=tuple(
            Removal(kind=f"channels of {group.name}", key=group.name, before=group.size, after=left, expected_loss=lost)
            for group, left, lost in zip(groups, found["left"], found["expected"], strict=True)
            if left < group.size
        ),
        probes=tuple(Probe(**probe) for probe in found["probes"]),
        expected_loss=sum(found["expected"]),
        measured_loss=found["measured"],
    )
    return smaller, structure


class _Search:
    """The search for what to remove."""

    def __init__(
        self,
        module: nn.Module,
        groups: Sequence[UnitGroup],
        subject: CompressionSubject,
        progress: Progress,
    ) -> None:
        self._module = module
        self._groups = groups
        self._subject = subject
        self._progress = progress
        self.whole = self.count(module)

    def count(self, module: nn.Module) -> int:
        """Mult-Adds of a module, which the subject counts where there are example inputs."""
        return self._subject.count_macs(module) or 0

    def module_of(self, left: Sequence[int], losses: Sequence[Sequence[float]]) -> nn.Module:
        """The module with so many channels left of each group."""
        removed = [
            (group, rank_units(lost)[: group.size - units])
            for group, units, lost in zip(self._groups, left, losses, strict=True)
            if units < group.size
        ]
        return without_channels(self._module, removed)

    def run(self, limit: float) -> dict[str, Any]:
        """The choice that is within a number of Mult-Adds, as plain numbers and lists."""
        original = self._subject.evaluate(self._module)
        whole = [group.size for group in self._groups]
        expected = estimated_losses(self._module, self._groups, subject=self._subject, progress=self._progress)
        losses = [expected[group.name] for group in self._groups]

        @cache
        def measure(number: int, units: int) -> float:
            found = self._subject.evaluate(self._reduced(number, units, losses)) - original
            self._progress.advance()
            return found

        choices = [_choices(group) for group in self._groups]
        self._progress.start("structured pruning: layers", sum(len(probed_units(left)) for left in choices))
        losses = _scaled(losses, choices, measure)
        estimates = [
            WidthEstimate(
                key=group.name,
                choices=choices[number],
                groups=[group],
                losses={group.name: losses[number]},
                measure=partial(measure, number),
            )
            for number, group in enumerate(self._groups)
        ]
        steps: list[_Step] = []
        for number, (group, estimate) in enumerate(zip(self._groups, estimates, strict=True)):
            half = _middle(choices[number])
            saved = (self.whole - self.count(self._reduced(number, half, losses))) / (group.size - half)
            if saved > 0:
                points = [(saved * (group.size - left), estimate.loss(left, [group])) for left in choices[number]]
                steps += [_Step(price, number, choices[number][at]) for price, at in _lower_hull(points)]
        steps.sort(key=lambda step: step.price)

        def left_after(taken: int) -> list[int]:
            left = list(whole)
            for step in steps[:taken]:
                left[step.group] = step.left
            return left

        def is_enough(taken: int) -> bool:
            return self.count(self.module_of(left_after(taken), losses)) <= limit

        # Each further step leaves fewer Mult-Adds.
        left = left_after(bisect_left(range(len(steps)), True, key=is_enough))
        return {
            "left": left,
            "losses": losses,
            "probes": [asdict(probe) for estimate in estimates for probe in estimate.probes],
            "expected": [
                estimate.loss(units, [group]) if units < group.size else 0.0
                for group, units, estimate in zip(self._groups, left, estimates, strict=True)
            ],
            "measured": self._subject.evaluate(self.module_of(left, losses)) - original,
        }

    def _reduced(self, number: int, units: int, losses: Sequence[Sequence[float]]) -> nn.Module:
        """The module with so many channels left of one group, and all of the others."""
        left = [units if place == number else group.size for place, group in enumerate(self._groups)]
        return self.module_of(left, losses)


def _choices(group: UnitGroup) -> tuple[int, ...]:
    """Numbers of channels that may be left, falling, all of them first."""
    return numbers_left(group.size, channel_step(group.size))


def _middle(choices: Sequence[int]) -> int:
    """Of the numbers of channels at which losses are measured, one in the middle."""
    probed = probed_units(choices)
    return probed[len(probed) // 2]


def _scaled(
    losses: Sequence[Sequence[float]], choices: Sequence[Sequence[int]], measure: Callable[[int, int], float]
) -> list[list[float]]:
    """Losses of channels by group, in the unit of what ``measure`` finds with so many channels left of one group.

    The information of a mean loss is known up to a factor alone, that of weights without a loss not even so far.
    """
    measured = predicted = 0.0
    for number, lost in enumerate(losses):
        left = _middle(choices[number])
        if math.isfinite(found := measure(number, left)):
            measured += max(0.0, found)
            predicted += sum(sorted(lost)[: len(lost) - left])
    scale = measured / predicted if measured > 0 and predicted > 0 else 1.0
    return [[scale * loss for loss in lost] for lost in losses]


def _lower_hull(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, int]]:
    """The steps of the lower convex hull of (saved, lost), both rising: what is lost for each one saved, and the place.

    The steps rise in price; of equal ones there is one.
    """
    at = 0
    while at < len(points) - 1:
        saved, lost = points[at]
        prices = [(points[to][1] - lost) / (points[to][0] - saved) for to in range(at + 1, len(points))]
        at += len(prices) - prices[::-1].index(min(prices))
        yield min(prices), at
