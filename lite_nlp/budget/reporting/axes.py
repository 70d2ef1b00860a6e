"""Linear axes with round ticks. Imports no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lite_nlp.budget.reporting.charts import Tick, short_count

__all__ = ["Axis"]

#: Least difference of the ends, as a part of the larger; a double has seven digits more.
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear axis from ``low`` at position ``start`` to ``high`` at position ``end``, with round ticks.

    Attributes:
        low: The figure at its start.
        high: The figure at its end, larger.
        step: The distance of two ticks.
        start: Its first position.
        end: Its last position.
    """

    low: float
    high: float
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], *, start: float, end: float, zero: bool, ticks: int = 5) -> "Axis":
        """The axis that holds all values between two round figures.

        Args:
            values: At least one.
            start: Its first position.
            end: Its last position.
            zero: Whether it holds zero.
            ticks: About how many ticks it has.
        """
        held = [*values, 0.0] if zero else values
        low, high = min(held), max(held)
        if high - low <= _LEAST_SPREAD * max(abs(low), abs(high)):
            # A single value, or several that ticks could not tell apart, stands in the middle, or at the top over zero.
            spread = abs(high) / 10 or 1.0
            low, high = (low if zero else low - spread), high + spread
        step = _round_step((high - low) / ticks)
        return cls(
            low=step * math.floor(low / step + 1e-9),
            high=step * math.ceil(high / step - 1e-9),
            step=step,
            start=start,
            end=end,
        )

    @classmethod
    def until(cls, last: float, *, start: float, end: float) -> "Axis":
        """The axis from zero to ``last``, at least 1, which need not be round; its ticks are whole numbers."""
        return cls(low=0.0, high=last, step=max(1.0, _round_step(last / 6)), start=start, end=end)

    def position(self, value: float) -> float:
        """The position of ``value``."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> tuple[Tick, ...]:
        """The multiples of the step on the axis, from its start on."""
        number = math.floor((self.high - self.low) / self.step + 1e-9)
        figures = [self.low + index * self.step for index in range(number + 1)]
        return tuple(Tick(position=self.position(figure), text=_tick_text(figure, self.step)) for figure in figures)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def _tick_text(value: float, step: float) -> str:
    if step >= 1 and abs(value) >= 1000:
        return short_count(round(value))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**digits, 9) % 1:
        digits += 1
    return f"{value:.{digits}f}"
