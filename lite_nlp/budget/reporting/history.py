"""The course of a training run, as its log records it, and its curves. Imports no torch."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from lite_nlp.budget.reporting.plots import Panel, Series, draw_series
from lite_nlp.budget.reporting.scores import is_figure, metric_label

__all__ = ["TrainingHistory", "read_log"]

#: Most points of a curve; each is the mean of as many steps as it takes.
_MOST_POINTS: Final = 160

#: What a validation measures beside the task's own scores.
_NOT_SCORES: Final = ("step", "epoch", "loss", "nll")

#: Before the name of a score that was measured on a part of the validation split.
_SAMPLE: Final = "sample_"

_TRAIN_COLOUR, _VALID_COLOUR, _SCORE_COLOUR, _SPEED_COLOUR = 1, 7, 2, 3


@dataclass
class TrainingHistory:
    """Figures of every step and every validation of a run, by ascending step.

    Attributes:
        steps: The optimizer steps.
        losses: Loss of each, per target, in nats.
        rates: Source and target tokens per second of each; NaN where not recorded.
        validations: What each validation found: ``step``, ``epoch``, ``loss``, ``nll`` and scores by name.
    """

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, content: Mapping[str, Any]) -> None:
        """Add a line of the log; an event that is no step and no validation, or an incomplete one, is left out.

        So is a score that is no figure: JSON has no NaN.
        """
        event, step = content.get("event"), content.get("step")
        if not is_figure(step) or not isinstance(step, int) or not is_figure(content.get("loss")):
            return
        if event == "train":
            self.steps.append(step)
            self.losses.append(float(content["loss"]))
            rate = content.get("tokens_per_second", math.nan)
            self.rates.append(float(rate) if is_figure(rate) else math.nan)
        elif event == "valid":
            self.validations.append({name: value for name, value in content.items() if is_figure(value)})

    @classmethod
    def read(cls, path: Path) -> Self:
        """The history in a run's ``log.jsonl``; empty without one, incomplete lines of a killed run left out."""
        history = cls()
        for _, content in read_log(path):
            history.add(content)
        return history

    def curves(self) -> dict[str, list[float]]:
        """The steps thinned to a curve: ``steps``, ``loss`` and ``tokens_per_second``, each a list of means."""
        groups = list(self._groups())
        rates = [[rate for rate in self.rates[group] if not math.isnan(rate)] for group in groups]
        return {
            "steps": [_mean(self.steps[group]) for group in groups],
            "loss": [_mean(self.losses[group]) for group in groups],
            "tokens_per_second": [_mean(found) for found in rates] if all(rates) else [],
        }

    def panels(self) -> tuple[Panel, ...]:
        """The curves: loss, the task's score or else the perplexity, and speed, each where there is something of it."""
        curves = self.curves()
        return tuple(panel for panel in (self._losses(curves), self._scores(), self._speed(curves)) if panel)

    def _groups(self) -> Iterator[slice]:
        """Runs of neighbouring steps, at most ``_MOST_POINTS`` and as equal as can be."""
        number = min(len(self.steps), _MOST_POINTS)
        for index in range(number):
            yield slice(index * len(self.steps) // number, (index + 1) * len(self.steps) // number)

    def _last_step(self) -> int:
        validated = (int(row["step"]) for row in self.validations[-1:])
        return max(*self.steps[-1:], *validated, 1, 1)

    def _losses(self, curves: Mapping[str, Sequence[float]]) -> Panel | None:
        series = []
        words = []
        if self.steps:
            pairs = list(zip(curves["steps"], curves["loss"], strict=True))
            series.append(Series(name="training", slot=_TRAIN_COLOUR, points=pairs))
            words.append(f"training {pairs[-1][1]:.3f} at the end")
        if self.validations:
            points = [(float(row["step"]), float(row["loss"])) for row in self.validations]
            series.append(Series(name="validation", slot=_VALID_COLOUR, points=points, dots=True))
            best = min(points, key=lambda point: point[1])
            words.append(f"validation {best[1]:.3f} at best, step {best[0]:,.0f}")
        if not series:
            return None
        return draw_series(
            "loss",
            series,
            title="Loss, nats per target",
            summary=f"{'; '.join(words)}.".capitalize(),
            x_title="step",
            x_end=self._last_step(),
            zero=False,
            digits=3,
        )

    def _scores(self) -> Panel | None:
        """The first score that the validations have; where none has one, the perplexity."""
        names = [name for row in self.validations for name in row if name not in _NOT_SCORES and is_figure(row[name])]
        if names:
            name = names[0]
            points = [(float(row["step"]), float(row[name])) for row in self.validations if is_figure(row.get(name))]
            label = metric_label(name.removeprefix(_SAMPLE))
            title = f"Validation {label}{', sample' if name.startswith(_SAMPLE) else ''}"
            best = max(points, key=lambda point: point[1])
        else:
            rows = [row for row in self.validations if is_figure(row.get("nll"))]
            points = [(float(row["step"]), math.exp(min(float(row["nll"]), 700.0))) for row in rows]
            if not points:
                return None
            label = title = "Validation perplexity"
            best = min(points, key=lambda point: point[1])
        return draw_series(
            "score",
            [Series(name=label, slot=_SCORE_COLOUR, points=points, dots=True)],
            title=title,
            summary=f"{best[1]:,.2f} at best, step {best[0]:,.0f}; {points[-1][1]:,.2f} at the last validation.",
            x_title="step",
            x_end=self._last_step(),
            zero=bool(names),
            digits=2,
        )

    def _speed(self, curves: Mapping[str, Sequence[float]]) -> Panel | None:
        rates = curves["tokens_per_second"]
        if not rates:
            return None
        points = list(zip(curves["steps"], rates, strict=True))
        return draw_series(
            "speed",
            [Series(name="tokens per second", slot=_SPEED_COLOUR, points=points)],
            title="Tokens per second",
            summary=f"{_mean(rates):,.0f} on average, source and target together; validations are not counted.",
            x_title="step",
            x_end=self._last_step(),
            zero=True,
            digits=0,
        )


def read_log(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines of a log, without their ends, and what they hold; those that are no JSON object are left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(content, dict):
                yield line.rstrip("\n"), content


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
