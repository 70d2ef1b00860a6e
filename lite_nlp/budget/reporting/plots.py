"""Plots of measured figures: layout of lines and labelled points on two axes, and SVG files of them.

One way for every chart of a report: positions are computed here and in :mod:`lite_nlp.budget.reporting.charts`, and
templates draw them as SVG. A page then needs no image files and no script, follows the reader's light or dark setting
by CSS, and the same figures give the same bytes; a plotting library would fix the colours when it draws, and is not
there where a report is made without the extras. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.budget.reporting.axes import Axis
from lite_nlp.budget.reporting.charts import Tick
from lite_nlp.budget.reporting.templating import ENVIRONMENT

__all__ = [
    "Dot",
    "Line",
    "Mark",
    "MarkedPoint",
    "Note",
    "Panel",
    "Series",
    "draw_marks",
    "draw_series",
    "render_svg",
]

#: Size of a panel, and left, top, right and bottom of the plot in it, in units of the view box.
_WIDTH: Final = 360.0
_HEIGHT: Final = 260.0
_PLOT: Final = (44.0, 52.0, 346.0, 214.0)
_WIDE: Final = 720.0
_WIDE_PLOT: Final = (52.0, 52.0, 690.0, 214.0)
_GAP: Final = 18.0
_TITLE_HEIGHT: Final = 44.0

#: Radii of points with and without a label.
_NAMED_RADIUS, _RADIUS = 6.0, 3.5

#: A label's estimated width for each letter, its height, and the distances from its point that are tried in turn: the
#: shift of its first line's baseline and the anchor of its text.
_LETTER: Final = 6.8
_LABEL: Final = 30.0
_PLACES: Final = (
    (0.0, -26.0, "middle"),
    (0.0, 22.0, "middle"),
    (11.0, -2.0, "start"),
    (-11.0, -2.0, "end"),
    (0.0, -58.0, "middle"),
    (0.0, 52.0, "middle"),
)


@dataclass(frozen=True, kw_only=True)
class Series:
    """Figures to be drawn as a line.

    Attributes:
        name: What it stands for.
        slot: Its colour, 1 to 7.
        points: Pairs of x and y, by ascending x.
        dots: Whether each point is marked.
    """

    name: str
    slot: int
    points: Sequence[tuple[float, float]]
    dots: bool = False


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A marked point of a line: its position and what it says when pointed at."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line as it is drawn.

    Attributes:
        name: What it stands for.
        slot: Its colour.
        path: Its corners, as the ``points`` attribute of an SVG polyline.
        values: Its figures on the axis upwards.
        dots: Its marked points.
    """

    name: str
    slot: int
    path: str
    values: tuple[float, ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True, kw_only=True)
class MarkedPoint:
    """A figure to be drawn as a point with a label.

    Attributes:
        x: Its figure on the axis to the right.
        y: Its figure on the axis upwards.
        name: The label's first line; empty for a small point without a label.
        detail: The label's second line.
        text: What it says when pointed at.
        interval: Ends of the interval of its figure on the axis upwards; None without one.
        apart: Whether it is no point of the way from mark to mark.
    """

    x: float
    y: float
    name: str = ""
    detail: str = ""
    text: str = ""
    interval: tuple[float, float] | None = None
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A labelled point as it is drawn; the label's two lines are at ``label_y`` and 14 units below it.

    ``whisker`` is the lower and the upper end of its interval, None without one; ``radius`` its size;
    ``leader`` a line from it to its label, as the ``points`` attribute of an SVG polyline.
    """

    x: float
    y: float
    name: str
    detail: str
    text: str
    label_x: float
    label_y: float
    anchor: str
    apart: bool
    whisker: tuple[float, float] | None
    radius: float
    leader: str = ""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A line of text beside a plot: where it begins, and what it says."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot, laid out; positions are in the units of its view box.

    Attributes:
        key: Names it within a page, for ids.
        title: Its heading.
        summary: What it shows, in words, with the figures that matter most.
        width: Width of the view box.
        height: Height of the view box.
        plot: Left, top, right and bottom of the area between the axes.
        x_ticks: Ticks to the right.
        y_ticks: Ticks upwards.
        x_title: What the axis to the right stands for.
        lines: Lines with a name.
        marks: Points with a label.
        trail: The way from mark to mark, as the ``points`` attribute of an SVG polyline.
        notes: Lines of text.
    """

    key: str
    title: str
    summary: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_title: str
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    trail: str = ""
    notes: tuple[Note, ...] = ()


def draw_series(
    key: str,
    series: Sequence[Series],
    *,
    title: str,
    summary: str,
    x_title: str,
    x_end: float,
    zero: bool,
    digits: int,
) -> Panel:
    """Lay out lines on common axes; the axis to the right begins at zero.

    Args:
        key: Names the panel within a page.
        series: At least one, each with at least one point.
        title: The panel's heading.
        summary: What it shows, in words.
        x_title: What the axis to the right stands for.
        x_end: The last figure on it, positive.
        zero: Whether the axis upwards begins at zero too.
        digits: Decimals of a figure that is pointed at.
    """
    left, top, right, bottom = _PLOT
    # The last figure ends the axis: a round one beyond it would look like a run cut short.
    x_axis = Axis.until(x_end, start=left, end=right)
    y_axis = Axis.over([y for one in series for _, y in one.points], start=bottom, end=top, zero=zero)
    lines = []
    for one in series:
        places = [(x_axis.position(x), y_axis.position(y)) for x, y in one.points]
        marked = one.dots or len(places) == 1
        lines.append(
            Line(
                name=one.name,
                slot=one.slot,
                path=_path(places),
                values=tuple(y for _, y in one.points),
                dots=tuple(
                    Dot(x=x, y=y, text=f"{one.name} at {x_title} {point[0]:,.0f}: {point[1]:,.{digits}f}")
                    for (x, y), point in zip(places, one.points, strict=True)
                )
                if marked
                else (),
            )
        )
    return Panel(
        key=key,
        title=title,
        summary=summary,
        width=_WIDTH,
        height=_HEIGHT,
        plot=_PLOT,
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        x_title=x_title,
        lines=tuple(lines),
    )


def draw_marks(
    key: str, points: Sequence[MarkedPoint], *, title: str, summary: str, x_title: str, least_span: float
) -> Panel:
    """Lay out labelled points and the way from each to the next; the axis to the right begins at zero.

    Args:
        key: Names the panel within a page.
        points: At least one, in order.
        title: The panel's heading.
        summary: What it shows, in words.
        x_title: What the axis to the right stands for.
        least_span: Least difference between the ends of the axis upwards, so that noise does not look like a cliff.
    """
    left, top, right, bottom = _WIDE_PLOT
    x_axis = Axis.over([point.x for point in points], start=left, end=right, zero=True)
    figures = [figure for point in points for figure in (point.y, *(point.interval or ()))]
    middle = (max(figures) + min(figures)) / 2
    half = max(least_span, (max(figures) - min(figures)) * 1.5) / 2
    low = max(0.0, middle - half) if min(figures) >= 0 else middle - half
    y_axis = Axis.over([low, low + 2 * half], start=bottom, end=top, zero=False)
    places = [(x_axis.position(point.x), y_axis.position(point.y)) for point in points]
    named = [place for place, point in zip(places, points, strict=True) if point.name and not point.apart]
    return Panel(
        key=key,
        title=title,
        summary=summary,
        width=_WIDE,
        height=_HEIGHT,
        plot=_WIDE_PLOT,
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        x_title=x_title,
        marks=tuple(_place_marks(points, places, y_axis)),
        trail=_path(named),
    )


def _place_marks(points: Sequence[MarkedPoint], places: Sequence[tuple[float, float]], y_axis: Axis) -> list[Mark]:
    """Give each label the first place where it covers no other label, no point and no edge, else the first of all."""
    whiskers = [
        None if point.interval is None else (y_axis.position(point.interval[0]), y_axis.position(point.interval[1]))
        for point in points
    ]
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    taken += [(x - 1, ends[1], x + 1, ends[0]) for (x, _), ends in zip(places, whiskers, strict=True) if ends]
    marks = []
    for point, (x, y), whisker in zip(points, places, whiskers, strict=True):
        label_x, label_y, anchor = x, y, "middle"
        if point.name:
            width = _LETTER * max(len(point.name), len(point.detail))
            tried = [(x + right, y + down, anchor, width) for right, down, anchor in _PLACES]
            free = (place for place in tried if _is_free(_label_box(*place), taken))
            label_x, label_y, anchor, _ = next(free, tried[0])
            taken.append(_label_box(label_x, label_y, anchor, width))
        marks.append(
            Mark(
                x=x,
                y=y,
                name=point.name,
                detail=point.detail,
                text=point.text,
                label_x=label_x,
                label_y=label_y,
                anchor=anchor,
                apart=point.apart,
                whisker=whisker,
                radius=_NAMED_RADIUS if point.name else _RADIUS,
            )
        )
    return marks


def _label_box(x: float, y: float, anchor: str, width: float) -> tuple[float, float, float, float]:
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return left, y - 12, left + width, y - 12 + _LABEL


def _is_free(box: tuple[float, float, float, float], taken: Sequence[tuple[float, float, float, float]]) -> bool:
    left, top, right, bottom = box
    if left < _WIDE_PLOT[0] + 2 or right > _WIDE - 2 or top < _WIDE_PLOT[1] - 10 or bottom > _WIDE_PLOT[3] - 2:
        return False
    return all(right < other[0] or left > other[2] or bottom < other[1] or top > other[3] for other in taken)


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def render_svg(panels: Sequence[Panel], *, title: str) -> str:
    """Render panels beside each other as an SVG file that loads nothing.

    Args:
        panels: At least one.
        title: The heading over them.
    """
    lefts = [sum(panel.width + _GAP for panel in panels[:index]) for index in range(len(panels))]
    return ENVIRONMENT.get_template("plots.svg.j2").render(
        title=title,
        placed=list(zip(lefts, panels, strict=True)),
        width=sum(panel.width for panel in panels) + _GAP * (len(panels) - 1),
        height=max(panel.height for panel in panels) + _TITLE_HEIGHT,
        top=_TITLE_HEIGHT,
    )
