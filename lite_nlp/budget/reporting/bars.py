"""Bars and curves in tables on a terminal, as wide as there is room for. Imports no torch."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

__all__ = ["BarTable", "Sparkline", "add_bar_columns", "share_cells", "use_cells", "use_style"]

#: Part of a limit from which its bar is yellow.
_NEAR: Final = 0.75

#: Fewest and most columns of a bar, and the columns between two cells of a table.
_NARROWEST: Final = 5
_WIDEST: Final = 24
_BETWEEN: Final = 2

#: Heights of a curve's points.
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS: Final = "_.-=+*#"

_SHARE_STYLE: Final = "blue"
_TRACK_STYLE: Final = "grey42"


class BarTable:
    """A table whose bars take the room that its other columns leave.

    Args:
        build: Makes the table with bars of so many columns; 0 leaves them out.
    """

    def __init__(self, build: Callable[[int], Table]) -> None:
        self._build = build

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, as wide as the console at most; see rich's protocol."""
        bare = Measurement.get(console, options.update(width=10_000), self._build(0)).maximum
        room = min(_WIDEST, options.max_width - bare - _BETWEEN)
        yield self._build(room if room >= _NARROWEST else 0)


class Sparkline:
    """A curve in one line of text, from its smallest figure to its largest.

    Args:
        values: Its figures, at least one.
    """

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As many columns as figures, within bounds; see rich's protocol."""
        return Measurement(1, min(len(self._values), _WIDEST))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One character for each run of figures; see rich's protocol."""
        values, number = self._values, min(len(self._values), options.max_width)
        means = [
            fmean(values[index * len(values) // number : (index + 1) * len(values) // number])
            for index in range(number)
        ]
        levels = _ASCII_LEVELS if options.ascii_only else _LEVELS
        low, span = min(means), (max(means) - min(means)) or 1.0
        yield Text("".join(levels[round((mean - low) / span * (len(levels) - 1))] for mean in means), _SHARE_STYLE)


def add_bar_columns(table: Table, heading: str, width: int) -> None:
    """Add a column for bars, unless ``width`` is 0, and one for their percentages."""
    if width:
        table.add_column(heading, width=width, no_wrap=True)
    table.add_column("" if width else heading, justify="right", no_wrap=True)


def share_cells(value: int, whole: int, *, width: int, full: int) -> tuple[RenderableType, ...]:
    """The cells of ``add_bar_columns`` for a part: a bar on its own, and its share of the whole.

    Args:
        value: The part, not negative.
        whole: What is 100 %.
        width: Columns of a full bar; 0 leaves it out.
        full: What a full bar stands for, such as the largest part; 0 leaves this bar empty.
    """
    percent = _percent(value, whole)
    if not width:
        return (percent,)
    columns = max(1, round(width * value / full)) if value and full else 0
    return ProgressBar(total=1, completed=1, width=columns, finished_style=_SHARE_STYLE) if columns else "", percent


def use_cells(found: int, limit: int, *, width: int) -> tuple[RenderableType, ...]:
    """The cells of ``add_bar_columns`` for a limit: how much of it is used, in green, yellow or red.

    Rich draws the bar in ASCII where the terminal knows no more, and without its empty rest where there are no colours.
    """
    style = use_style(found, limit)
    percent = Text(_percent(found, limit), style)
    if not width:
        return (percent,)
    bar = ProgressBar(
        total=max(limit, 1),
        completed=min(found, limit),
        width=width,
        style=_TRACK_STYLE,
        complete_style=style,
        finished_style=style,
    )
    return bar, percent


def use_style(found: int, limit: int) -> str:
    """Green well within a limit, yellow near it, red beyond it."""
    if found > limit:
        return "bold red"
    return "yellow" if found >= _NEAR * limit else "green"


def _percent(value: int, most: int) -> str:
    """A share without decimals, 100 % only if it is exactly that; empty for none."""
    if not value:
        return ""
    if value * 200 < most:
        return "<1%"
    share = round(100 * value / most)
    if share == 100 and value != most:
        return "<100%" if value < most else ">100%"
    return f"{share}%"
