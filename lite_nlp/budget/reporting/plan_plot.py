"""The picture of a plan: bits per weight of every matrix over its sensitivity. Imports no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.budget.reporting.axes import Axis
from lite_nlp.budget.reporting.charts import LogAxis, Tick, short_count
from lite_nlp.budget.reporting.plan import MatrixPlan, PlanRecord
from lite_nlp.budget.reporting.plots import Mark, Note, Panel

__all__ = ["draw_plan"]

#: Size of the panel, and left, top, right and bottom of the plot in it; the names of numbered points are beside it.
_WIDTH: Final = 760.0
_HEIGHT: Final = 370.0
_PLOT: Final = (52.0, 52.0, 420.0, 324.0)
_NOTES_LEFT: Final = 436.0
_NOTE_HEIGHT: Final = 18.0
#: Characters of a line beside the plot.
_NOTE_LETTERS: Final = 48

#: The matrices that take most bytes have a number and a name.
_NUMBERED: Final = 12
#: Radii of points: proportional to the square root of the bytes, within these.
_SMALLEST, _LARGEST = 2.5, 13.0
#: Half the size of a number beside a point.
_NUMBER_RADIUS, _HALF_NUMBER = 8.0, 4.5
#: A number further from its point than this has a line to it.
_NEAR: Final = 12.0
#: Sensitivities beyond these are no figures that an axis could hold.
_LEAST_FIGURE, _MOST_FIGURE = 1e-12, 1e18


def draw_plan(plan: PlanRecord) -> Panel | None:
    """Lay out the matrices as points: sensitivity to the right, bits per weight upwards, area by expected bytes.

    Args:
        plan: The plan; matrices without a sensitivity, which nothing depends on, are left out.

    Returns:
        The plot, or None if there is no point.
    """
    drawn = [matrix for matrix in plan.heaviest() if _LEAST_FIGURE <= matrix.sensitivity <= _MOST_FIGURE]
    if not drawn:
        return None
    left, top, right, bottom = _PLOT
    x_axis = _decades([matrix.sensitivity for matrix in drawn], left, right)
    y_axis = Axis.over([matrix.bits_per_weight for matrix in drawn], start=bottom, end=top, zero=True)
    most = max(1, *(matrix.size_bytes for matrix in drawn))
    places = [
        _Place(
            x=x_axis.position(matrix.sensitivity),
            y=y_axis.position(matrix.bits_per_weight),
            radius=max(_SMALLEST, _LARGEST * math.sqrt(matrix.size_bytes / most)),
        )
        for matrix in drawn
    ]
    numbers = _place_numbers(places)
    labels = [*numbers, *((place.x, place.y) for place in places[len(numbers) :])]
    marks = [
        Mark(
            x=place.x,
            y=place.y,
            name=str(number) if number <= _NUMBERED else "",
            detail="",
            text=_describe(matrix),
            label_x=label[0],
            label_y=label[1] + _HALF_NUMBER,
            anchor="middle",
            apart=False,
            whisker=None,
            radius=place.radius,
            leader=_leader(place, label),
        )
        for number, (matrix, place, label) in enumerate(zip(drawn, places, labels, strict=True), start=1)
    ]
    rates = [matrix.bits_per_weight for matrix in drawn]
    mean = plan.lines(0)[-1].bits_per_weight
    return Panel(
        key="plan",
        title="Bits per weight over sensitivity; the area of a point is the bytes of its matrix",
        summary=(
            f"{len(drawn):,} of {len(plan.matrices):,} matrices, from {min(rates):.2f} to {max(rates):.2f} bits per "
            f"weight, {mean:.2f} on average. Sensitivity is the expected divergence at the coarsest probe, about 1 bit "
            "per weight, for a million weights."
        ),
        width=_WIDTH,
        height=_HEIGHT,
        plot=_PLOT,
        x_ticks=_powers(x_axis),
        y_ticks=y_axis.ticks(),
        x_title="sensitivity: nats per prediction and million weights",
        # The largest is drawn first, so that none covers a smaller one.
        marks=tuple(marks),
        notes=tuple(
            Note(x=_NOTES_LEFT, y=top + 10 + place * _NOTE_HEIGHT, text=_short(f"{place + 1}  {matrix.name}", matrix))
            for place, matrix in enumerate(drawn[:_NUMBERED])
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A point and its size."""

    x: float
    y: float
    radius: float


def _place_numbers(places: Sequence[_Place]) -> list[tuple[float, float]]:
    """The middles of the numbers of points: each as near to its point as it is free of all points and other numbers."""
    taken = [(place.x, place.y, place.radius) for place in places]
    found: list[tuple[float, float]] = []
    for place in places[:_NUMBERED]:
        candidates = [
            (place.x + away * math.cos(angle), place.y + away * math.sin(angle))
            for away in (place.radius + step for step in range(9, 90, 6))
            for angle in (math.pi * turn / 8 for turn in range(-4, 12))
        ]
        within = [candidate for candidate in candidates if _inside(*candidate)] or candidates[:1]
        free = (candidate for candidate in within if _room(candidate, taken) >= 0)
        x, y = next(free, None) or max(within, key=lambda candidate: _room(candidate, taken))
        taken.append((x, y, _NUMBER_RADIUS))
        found.append((x, y))
    return found


def _leader(place: _Place, label: tuple[float, float]) -> str:
    """The line from a point to its number, if that is not beside it."""
    away = math.hypot(label[0] - place.x, label[1] - place.y)
    if away <= place.radius + _NEAR:
        return ""
    part = (away - _NUMBER_RADIUS) / away
    end = place.x + part * (label[0] - place.x), place.y + part * (label[1] - place.y)
    return f"{place.x:.1f},{place.y:.1f} {end[0]:.1f},{end[1]:.1f}"


def _room(middle: tuple[float, float], taken: Sequence[tuple[float, float, float]]) -> float:
    """The distance of a number from the nearest of what is there; negative if it covers it."""
    x, y = middle
    return min(math.hypot(x - left, y - top) - radius - _NUMBER_RADIUS for left, top, radius in taken)


def _inside(x: float, y: float) -> bool:
    left, top, right, bottom = _PLOT
    return left + _NUMBER_RADIUS < x < right - _NUMBER_RADIUS and top < y < bottom - _NUMBER_RADIUS


def _describe(matrix: MatrixPlan) -> str:
    return (
        f"{matrix.name}: {matrix.weights:,} weights, {matrix.bits_per_weight:.2f} bits each, "
        f"{matrix.size_bytes:,} bytes, {matrix.sparsity:.1%} zeros, sensitivity {matrix.sensitivity:.3g}"
    )


def _short(text: str, matrix: MatrixPlan) -> str:
    """A line beside the plot; a long name loses its middle."""
    weights = f", {short_count(matrix.weights)}"
    room = _NOTE_LETTERS - len(weights)
    if len(text) > room:
        kept = room - 1
        text = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"
    return text + weights


def _decades(values: list[float], start: float, end: float) -> LogAxis:
    """The axis from a power of ten to another that holds all values."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = max(math.ceil(math.log10(max(values)) - 1e-9), low + 1)
    return LogAxis(low=10.0**low, high=10.0**high, start=start, end=end)


def _powers(axis: LogAxis) -> tuple[Tick, ...]:
    """Powers of ten, not more than fit."""
    first, last = round(math.log10(axis.low)), round(math.log10(axis.high))
    every = -(-(last - first) // 7)
    return tuple(
        Tick(position=axis.position(10.0**power), text=f"{10.0**power:g}") for power in range(first, last + 1, every)
    )
