"""Records of a finished model besides its config: card, scores, stages of compression, training, speed, files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lite_nlp.budget.reporting.examples import Examples
from lite_nlp.budget.reporting.history import TrainingHistory
from lite_nlp.budget.reporting.plan import PlanRecord
from lite_nlp.budget.reporting.plan_plot import draw_plan
from lite_nlp.budget.reporting.plots import Panel
from lite_nlp.budget.reporting.scores import metric_label
from lite_nlp.budget.reporting.size_quality import draw_size_quality
from lite_nlp.budget.reporting.speed import Speed

__all__ = ["ModelRecord", "Score", "read_scores"]

#: Ends of the keys that bound a score's confidence interval.
_BOUNDS: Final = ("_low", "_high")

#: Scores that mean something only beside others.
_LOSSES: Final = ("loss", "nll")

#: Keys of ``metrics.json`` that are shown elsewhere or mean nothing to a reader.
_NOT_TRAINING: Final = ("schema_version", "languages", "labels", "scores", "valid", "uncompressed")


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score of a model on a test set.

    Attributes:
        test_set: What it was measured on.
        metric: Its name for people.
        value: The figure.
        interval: Its confidence interval; None without one.
    """

    test_set: str
    metric: str
    value: float
    interval: tuple[float, float] | None = None

    @property
    def shown(self) -> str:
        """The figure for people: counts in full, everything else with two decimals."""
        return f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.2f}"


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """The records of one model; each is empty where the model has none.

    Attributes:
        kind: How it is kept; ``loaded`` is in memory.
        path: Its file or directory; empty for a loaded model.
        files: Sizes in bytes by name: of the directory's files, of what a container embeds, of a bundle's members.
        scores: By test set, as its card, manifest or ``metrics.json`` has them.
        stages: Rows of the ledger of compression, oldest first; the last one is the file itself, with its size alone if
            the ledger is not beside it.
        candidates: Rows of files that the compression measured and did not keep.
        plan: Why each matrix of a compressed file is stored as it is; None without a ledger beside it.
        metrics: What ``metrics.json`` says of the training run; of a compressed model, before it was compressed.
        history: The steps and validations of the run, as its log has them.
        card: Facts about the model for people, by name: task, languages, where its data comes from.
        versions: Versions of the packages that wrote it, by name.
        speed: Measured speed; None without a measurement.
        examples: Outputs beside references; None if none were made.
    """

    kind: Literal["directory", "container", "bundle", "loaded"]
    path: str = ""
    files: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stages: Sequence[Mapping[str, Any]] = ()
    candidates: Sequence[Mapping[str, Any]] = ()
    plan: PlanRecord | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    history: TrainingHistory = field(default_factory=TrainingHistory)
    card: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    speed: Speed | None = None
    examples: Examples | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of its files together."""
        return sum(self.files.values())

    @property
    def validations(self) -> Sequence[Mapping[str, Any]]:
        """Scores on the validation split during training, by ascending ``step``."""
        return self.history.validations

    @property
    def validation_columns(self) -> tuple[str, ...]:
        """Everything that some validation measured, in the order in which it first occurs."""
        return tuple(dict.fromkeys(name for row in self.validations for name in row))

    def curves(self) -> tuple[Panel, ...]:
        """The curves of the training run; none without a log."""
        return self.history.panels()

    def size_quality(self) -> Panel | None:
        """The size-quality plot of the compression; None without scored stages."""
        return draw_size_quality(self.stages, candidates=self.candidates)

    def plan_panel(self) -> Panel | None:
        """The picture of the plan; None without one."""
        return None if self.plan is None else draw_plan(self.plan)

    @property
    def training(self) -> dict[str, str]:
        """The plain facts of the training run for people, by name."""
        return {
            key.replace("_", " "): _show(value)
            for key, value in self.metrics.items()
            if key not in _NOT_TRAINING and isinstance(value, str | int | float)
        }

    def score_rows(self) -> tuple[Score, ...]:
        """Every score with its test set: those of the records, then that of the validation split after training."""
        sets = dict(self.scores)
        if isinstance(valid := self.metrics.get("valid"), Mapping):
            sets["validation split, after training"] = valid
        return tuple(score for name, figures in sets.items() for score in _scores(name, figures))

    @property
    def headline(self) -> Score | None:
        """The score that says most: the first of the task's own, or else a loss; None without any."""
        rows = self.score_rows()
        return next((row for row in rows if row.metric not in _LOSSES), rows[0] if rows else None)

    def stage_metrics(self) -> dict[str, str]:
        """The scores in the ledger: names and what people call them."""
        names = (name for row in self.stages for name in row.get("scores", {}))
        return {name: metric_label(name) for name in names}

    def stage_rows(self) -> tuple[tuple[str, ...], ...]:
        """The ledger for people: stage, bytes, ratio, sparsity, bits per weight, scores; empty where not recorded."""
        return tuple(
            (
                str(row.get("stage", "")),
                _form(row.get("size_bytes"), "{:,}"),
                _form(row.get("ratio"), "{:.2f}x"),
                _form(row.get("sparsity"), "{:.1%}"),
                _form(row.get("bits_per_weight"), "{:.2f}"),
                *(_form(row.get("scores", {}).get(name), "{:.2f}") for name in self.stage_metrics()),
            )
            for row in self.stages
        )

    def to_json(self) -> dict[str, Any]:
        """The records for scripts."""
        return {
            "kind": self.kind,
            "path": self.path or None,
            "card": dict(self.card),
            "versions": dict(self.versions),
            "files": [{"name": name, "size_bytes": size} for name, size in self.files.items()],
            "scores": self.scores,
            "stages": list(self.stages),
            "candidates": list(self.candidates),
            "plan": None if self.plan is None else self.plan.model_dump(mode="json"),
            "training": self.metrics,
            "validations": list(self.validations),
            "curves": self.history.curves(),
            "speed": None if self.speed is None else self.speed.to_json(),
            "examples": None if self.examples is None else self.examples.to_json(),
        }


def read_scores(content: Mapping[str, Any], key: str = "scores") -> dict[str, Mapping[str, Any]]:
    """The scores by test set under ``key`` of a card or of metrics; empty if there are none in that form."""
    found = content.get(key)
    if not isinstance(found, Mapping) or not all(isinstance(figures, Mapping) for figures in found.values()):
        return {}
    return dict(found)


def _scores(test_set: str, figures: Mapping[str, Any]) -> Iterator[Score]:
    for key, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or key.endswith(_BOUNDS):
            continue
        low, high = (figures.get(f"{key}{end}") for end in _BOUNDS)
        bounded = isinstance(low, int | float) and isinstance(high, int | float)
        yield Score(
            test_set=test_set,
            metric=metric_label(key),
            value=value,
            interval=(float(low), float(high)) if bounded else None,  # type: ignore[arg-type]
        )


def _show(value: str | float) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _form(value: object, pattern: str) -> str:
    return pattern.format(value) if isinstance(value, int | float) else ""
