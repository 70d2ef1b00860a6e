"""What integer weights cost: the task's metric of the file that was written, against the model it was made from."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lite_nlp.api.compression_subject import guide_compression
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.core.bounds import check_loss
from lite_nlp.core.errors import QualityLossError, UsageError
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.export.runtime.layout import Precision

if TYPE_CHECKING:
    from lite_nlp.tasks.calibration import Guidance

__all__ = ["DEFAULT_MAX_LOSS", "QualityGate", "QualityLoss"]

#: In the unit of the task's metric.
DEFAULT_MAX_LOSS = 0.3


@dataclass(frozen=True, kw_only=True)
class QualityLoss:
    """A comparison of a bundle with its model.

    Attributes:
        data: Name of the text.
        metric: Name of the metric.
        before: Scores of the model.
        after: Scores of the bundle, in the runtime where it lost most.
        runtime: That runtime.
        lost: How much worse the bundle is by the metric; negative if it is better.
    """

    data: str
    metric: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    runtime: str
    lost: float

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        scores = {"before": dict(self.before), "after": dict(self.after)}
        lost = {"runtime": self.runtime, "lost": round(self.lost, 4)}
        return {"data": self.data, "metric": self.metric, **scores, **lost}


class QualityGate:
    """Refuses a bundle that lost more than it may.

    The model is scored when the gate is made, before the work of an export.

    Args:
        loaded: The model.
        data: Data directory whose validation split is scored; None is the package's own sentences.
        precision: Of the weights, for messages.
        max_loss: Largest loss, in the unit of the metric.
        progress: Receives the stages.

    Attributes:
        warnings: Doubts about the text.

    Raises:
        UsageError: If ``max_loss`` is no number of at least 0, the model needs data and none is given, or the task
            compares no files.
        DataError: If the data is damaged or does not fit the model.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        data: Path | None,
        *,
        precision: Precision,
        max_loss: float,
        progress: Progress | None,
    ) -> None:
        from lite_nlp.tasks.calibration import inspect_calibration

        check_loss("--max-loss", max_loss)
        self._precision = precision
        self._max_loss = max_loss
        self._progress = progress or SilentProgress()
        self._guidance: Guidance = guide_compression(loaded, data)
        # That its weights were rounded before is no doubt about the text.
        unrounded = replace(loaded, stored={})
        self.warnings = tuple(inspect_calibration(self._guidance, unrounded, given=data is not None, finetuned=False))
        if self._guidance.bundles is None:
            raise UsageError(
                f"--precision {precision}: expected a model of a task that scores bundles, found one of a task that "
                "scores none"
            )
        self._scoring = self._guidance.bundles
        self._before = self._scoring.score_model(self._progress)

    @property
    def calibration(self) -> list[list[list[int]]]:
        """Token ids, without special ids, of texts that are not scored: of each sentence of an example the rows."""
        return self._scoring.sides()

    def measure(self, bundle: Path) -> QualityLoss:
        """Score a bundle in each of its runtimes.

        Raises:
            QualityLossError: If it lost more than it may.
        """
        metric = self._guidance.metric
        with tempfile.TemporaryDirectory(prefix="lite-nlp-") as folder:
            # Before it takes its place it has another name, and files are opened by theirs.
            named = Path(folder) / "bundle.zip"
            named.symlink_to(bundle.resolve())
            found = self._scoring.score_bundle(named, self._progress)
        losses = {name: metric.lost(self._before.scores, after.scores) for name, after in found.items()}
        runtime = max(losses, key=losses.__getitem__)
        after, lost = found[runtime], losses[runtime]
        if lost > self._max_loss:
            raise QualityLossError(
                f"--precision {self._precision}: expected a loss of at most {self._max_loss:g} {metric.unit} on "
                f"{self._scoring.name}, found {lost:.2f} in {runtime} ({self._before.scores[metric.name]:.2f} before, "
                f"{after.scores[metric.name]:.2f} after); --max-loss allows more"
            )
        return QualityLoss(
            data=self._scoring.name,
            metric=metric.name,
            before=self._before.scores,
            after=after.scores,
            runtime=runtime,
            lost=lost,
        )
