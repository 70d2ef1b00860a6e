"""Layout of the report's charts: from figures to the positions that the template draws. Imports no torch.

Positions are in the units of an SVG view box, x to the right and y downwards.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Curve", "CurveChart", "Label", "LogAxis", "Point", "Segment", "Tick", "draw_curves", "short_count", "stack"]

_Name = TypeVar("_Name", bound=str)

#: Space between two segments of a bar, so that neighbours of similar colour stay two.
_GAP = 2.0

#: Least distance of two labels' baselines.
_LABEL_HEIGHT = 15.0

_SUFFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "K"))


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a stacked bar.

    Attributes:
        name: What it stands for.
        slot: Its place among all names, which decides its colour.
        value: Its figure.
        share: Its fraction of the bar's sum, 0 to 1.
        x: Where it starts.
        width: How wide it is drawn.
    """

    name: str
    slot: int
    value: int
    share: float
    x: float
    width: float


def stack(values: Mapping[_Name, int], *, most: int, width: float) -> tuple[Segment, ...]:
    """Lay out the segments of one stacked bar.

    Args:
        values: Figure of every name, not negative; a zero gets no segment but keeps its slot.
        most: The figure that is ``width`` wide, at least the sum of the values.
        width: Room for ``most``.
    """
    total = sum(values.values())
    segments = []
    before = 0
    for slot, (name, value) in enumerate(values.items()):
        if value:
            room = width * value / most
            segments.append(
                Segment(
                    name=name,
                    slot=slot,
                    value=value,
                    share=value / total,
                    x=width * before / most,
                    # A sliver narrower than the gap is drawn whole: it would vanish otherwise.
                    width=room - _GAP if room > 2 * _GAP else room,
                )
            )
        before += value
    return tuple(segments)


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A tick on an axis: its position and its text."""

    position: float
    text: str


@dataclass(frozen=True, kw_only=True)
class LogAxis:
    """A logarithmic axis from ``low`` at position ``start`` to ``high`` at position ``end``; both figures positive."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        """The position of ``value``, which is positive."""
        fraction = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + fraction * (self.end - self.start)

    def ticks(self) -> tuple[Tick, ...]:
        """The powers of ten on the axis."""
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return tuple(
            Tick(position=self.position(10**power), text=short_count(10**power)) for power in range(first, last + 1)
        )


@dataclass(frozen=True, kw_only=True)
class Label:
    """The label at the end of a curve: the baseline of its text, and the height of the curve's end."""

    y: float
    anchor: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """A data point of a curve and its position."""

    x: float
    y: float
    length: int
    value: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The curve of one group over the lengths.

    Attributes:
        name: What it stands for.
        slot: Its place among all names, which decides its colour; None for the total.
        points: Its figures, by ascending length.
        label: Where its name stands.
    """

    name: str
    slot: int | None
    points: tuple[Point, ...]
    label: Label

    @property
    def path(self) -> str:
        """The curve as the ``points`` attribute of an SVG polyline."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


@dataclass(frozen=True, kw_only=True)
class CurveChart:
    """Curves over lengths on two logarithmic axes: a straight line of slope 1 is linear, of slope 2 quadratic."""

    x_axis: LogAxis
    y_axis: LogAxis
    curves: tuple[Curve, ...]


def draw_curves(
    series: Mapping[str, Sequence[int]],
    lengths: Sequence[int],
    *,
    total: str,
    most: int,
    box: tuple[float, float, float, float],
) -> CurveChart:
    """Lay out one curve for every name with a figure above zero.

    Args:
        series: Figures by name, one per length; of one name all are zero, which leaves it out, or none is.
        lengths: Ascending, at least two, the first positive.
        total: Which name is the total.
        most: The largest figure that the chart has to hold, so that two charts can share their axes.
        box: Left, top, right and bottom of the plot.
    """
    left, top, right, bottom = box
    x_axis = LogAxis(low=lengths[0], high=lengths[-1], start=left, end=right)
    shown = {name: values for name, values in series.items() if any(values)}
    least = min(min(value for value in values if value) for values in shown.values())
    high = math.ceil(math.log10(most))
    low = min(math.floor(math.log10(least)), high - 1)
    y_axis = LogAxis(low=10**low, high=10**high, start=bottom, end=top)
    points = {
        name: tuple(
            Point(x=x_axis.position(length), y=y_axis.position(value), length=length, value=value)
            for length, value in zip(lengths, values, strict=True)
        )
        for name, values in shown.items()
    }
    labels = _place_labels({name: curve[-1].y for name, curve in points.items()}, bottom=bottom)
    slots = [name for name in series if name != total]
    curves = tuple(
        Curve(name=name, slot=None if name == total else slots.index(name), points=curve, label=labels[name])
        for name, curve in points.items()
    )
    return CurveChart(x_axis=x_axis, y_axis=y_axis, curves=curves)


def _place_labels(anchors: Mapping[str, float], *, bottom: float) -> dict[str, Label]:
    """Give each name a line beside the end of its curve, moved down, then up, as far as it takes to stay apart."""
    names = sorted(anchors, key=lambda name: anchors[name])
    lines: list[float] = []
    for name in names:
        lines.append(max(anchors[name], lines[-1] + _LABEL_HEIGHT) if lines else anchors[name])
    lowest = bottom
    for index in reversed(range(len(lines))):
        lines[index] = min(lines[index], lowest)
        lowest = lines[index] - _LABEL_HEIGHT
    return {name: Label(y=line, anchor=anchors[name]) for name, line in zip(names, lines, strict=True)}


def short_count(value: int) -> str:
    """Format a count with three significant digits and K, M, G or T: ``527M``, ``1.02G``, ``90.1M``, ``30``."""
    for factor, suffix in _SUFFIXES:
        # 999,500 and more would round to 1000K.
        if value * 2000 >= factor * 1999:
            scaled = value / factor
            digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            text = f"{scaled:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix
    return str(value)
