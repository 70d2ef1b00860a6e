"""The size-quality plot of a compression: the bytes of each stage's file against its score. Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lite_nlp.budget.reporting.plots import MarkedPoint, Panel, draw_marks
from lite_nlp.budget.reporting.scores import LOWER_IS_BETTER, decimals, is_figure, metric_label

__all__ = ["draw_size_quality", "size_text"]

#: Least height of the score's axis, as a part of the largest score.
_LEAST_SPAN: Final = 0.1


def draw_size_quality(
    stages: Sequence[Mapping[str, Any]],
    *,
    metric: str | None = None,
    candidates: Sequence[Mapping[str, Any]] = (),
    reference: Mapping[str, Any] | None = None,
    lower_is_better: bool | None = None,
) -> Panel | None:
    """Lay out the stages of a ledger, each as a point.

    Args:
        stages: Rows of a ledger; those without a size or a score are left out.
        metric: Name of the score; None is the first that a row has.
        candidates: Rows that were measured and not kept, drawn small.
        reference: The figures of the model that the stages are compared with.
        lower_is_better: Whether smaller scores are better; None knows it of the usual ones.

    Returns:
        The plot, or None if no row has both figures.
    """
    names = [name for row in stages for name in row.get("scores", {})]
    if metric is None and names:
        metric = names[0]
    kept = [row for row in stages if _has_figures(row, metric)]
    if metric is None or not kept:
        return None
    label = metric_label(metric)
    # Two stages with the same file size and score are one point; its label names the later.
    points = [_point(row, metric, label, named=False) for row in candidates if _has_figures(row, metric)]
    points += [_point(row, metric, label, named=True) for row in kept]
    if reference is not None and _has_figures(reference, metric):
        other = {**reference, "stage": reference.get("model", "")}
        points.append(replace(_point(other, metric, label, named=True), apart=True))
    first, last = kept[0], kept[-1]
    if lower_is_better is None:
        lower_is_better = metric in LOWER_IS_BETTER
    return draw_marks(
        "size-quality",
        points,
        title=f"{label} over file size{', lower is better' if lower_is_better else ''}",
        summary=(
            f"From {size_text(first['size_bytes'])} with {label} {_score_text(first['scores'][metric])}"
            f" to {size_text(last['size_bytes'])} with {label} {_score_text(last['scores'][metric])}."
        ),
        x_title="megabytes",
        least_span=_LEAST_SPAN * max(abs(row["scores"][metric]) for row in kept) or 1.0,
    )


def size_text(size_bytes: int) -> str:
    """A size for people, 1000-based: ``3.67 MB``, ``570 KB``."""
    if size_bytes >= 999_500:
        return f"{size_bytes / 1e6:.{2 if size_bytes < 9_995_000 else 1}f} MB"
    return f"{size_bytes / 1e3:.0f} KB" if size_bytes >= 1000 else f"{size_bytes} bytes"


def _score_text(score: float) -> str:
    return f"{score:.{decimals(score)}f}"


def _has_figures(row: Mapping[str, Any], metric: str | None) -> bool:
    score = row.get("scores", {}).get(metric)
    return isinstance(row.get("size_bytes"), int) and is_figure(row["size_bytes"]) and is_figure(score)


def _point(row: Mapping[str, Any], metric: str, label: str, *, named: bool) -> MarkedPoint:
    size, score = row["size_bytes"], row["scores"][metric]
    stage = str(row.get("stage", ""))
    return MarkedPoint(
        x=size / 1e6,
        y=score,
        name=stage if named else "",
        detail=f"{size_text(size)}, {label} {_score_text(score)}",
        text=f"{stage}: {size:,} bytes, {label} {_score_text(score)}",
        interval=_interval(row, metric) if named else None,
    )


def _interval(row: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    ends = row["intervals"].get(metric) if isinstance(row.get("intervals"), Mapping) else None
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(map(is_figure, ends)):
        return None
    return float(ends[0]), float(ends[1])
