"""The page of a compression: summary, stages, sizes by kind and by matrix, changed outputs. Imports no torch.

It is made from the JSON of the ledger alone, loads nothing and runs no script; the same ledger gives the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lite_nlp.budget.reporting.charts import Segment, short_count, stack
from lite_nlp.budget.reporting.plan import read_plan
from lite_nlp.budget.reporting.plan_plot import draw_plan
from lite_nlp.budget.reporting.plan_tables import nats, thousandths
from lite_nlp.budget.reporting.plots import Panel
from lite_nlp.budget.reporting.scores import decimals, metric_label
from lite_nlp.budget.reporting.size_quality import draw_size_quality, size_text
from lite_nlp.budget.reporting.templating import ENVIRONMENT
from lite_nlp.core.version import __version__

__all__ = ["KIND_NAMES", "draw_ledger", "render_compression"]

#: Kinds of bytes: name for people, and colour.
KIND_NAMES: Final[Mapping[str, tuple[str, int]]] = {
    "weights": ("plain weights", 6),
    "codebooks": ("codebooks and scales", 2),
    "symbols": ("symbols", 1),
    "tables": ("frequency tables", 4),
    "states": ("lane states", 5),
    "biases": ("biases, norms, buffers", 3),
    "vocabulary": ("vocabulary", 7),
    "files": ("other files", 8),
    "header": ("header, checksums", 0),
}

#: Width of the bar of the whole file, in units of its view box.
_BAR_WIDTH: Final = 960.0

#: Matrices with a row of their own.
_MOST_MATRICES: Final = 60


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """Bytes by kind as a stacked bar; ``width`` is its length as a percentage of the longest."""

    segments: tuple[Segment, ...]
    width: float


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    """A row of the chart of matrices, its cells as text."""

    name: str
    cells: tuple[str, ...]
    bar: _Bar


def draw_ledger(ledger: Mapping[str, Any]) -> Panel | None:
    """The size-quality plot of a ledger; None without sizes and scores.

    Args:
        ledger: The content of ``ledger.json``.
    """
    return draw_size_quality(
        ledger["stages"],
        metric=ledger["metric"],
        candidates=ledger["candidates"],
        reference=ledger["reference"],
        lower_is_better=ledger["lower_is_better"],
    )


def render_compression(ledger: Mapping[str, Any]) -> str:
    """Render the page of a compression as HTML.

    Args:
        ledger: The content of ``ledger.json``.
    """
    stages, metric = ledger["stages"], ledger["metric"]
    first, last = stages[0], stages[-1]
    kinds = {kind: KIND_NAMES.get(kind, (kind, 0)) for kind in last["bytes_by_kind"]}
    used = [kind for kind in kinds if any(row["bytes_by_kind"].get(kind) for row in stages)]
    panel = draw_ledger(ledger)
    plan = read_plan(ledger["plan"])
    return ENVIRONMENT.get_template("compression.html.j2").render(
        ledger=ledger,
        stages=stages,
        first=first,
        last=last,
        metric=metric,
        label=metric_label(metric),
        version=__version__,
        panel=panel,
        other_metrics={name: metric_label(name) for name in first["scores"] if name != metric},
        kinds=kinds,
        used_kinds=used,
        file_bar=stack(last["bytes_by_kind"], most=last["size_bytes"], width=_BAR_WIDTH),
        bar_width=_BAR_WIDTH,
        plan=plan,
        plan_panel=None if plan is None else draw_plan(plan),
        nats=nats,
        thousandths=thousandths,
        matrices=list(_matrices(ledger["tensors"], kinds)),
        verdict=_verdict(last["against_original"].get(metric)),
        seconds=sum(row["seconds"] for row in stages),
        score=_score,
        change=_change,
        test=_test,
        size=size_text,
        short=short_count,
    )


def _verdict(change: Mapping[str, float] | None) -> str:
    """What the paired test says of the last file, in words."""
    if change is None:
        return ""
    if change["p"] >= 0.05:
        return "no difference from the original beyond chance on these examples"
    return "different from the original beyond chance"


def _score(row: Mapping[str, Any], metric: str) -> str:
    """A score with its interval, where it has one."""
    if metric not in row["scores"]:
        return ""
    score, ends = row["scores"][metric], row["intervals"].get(metric)
    digits = decimals(score, *(ends or ()), whole=1.0)
    return f"{score:.{digits}f}" + ("" if ends is None else f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})")


def _change(change: Mapping[str, float] | None) -> str:
    """A difference with its interval; empty without one."""
    if change is None:
        return ""
    figures = [change[name] for name in ("difference", "low", "high")]
    digits = decimals(*figures, whole=0.1)
    return "{} ({} to {})".format(*(f"{figure:+.{digits}f}" for figure in figures))


def _test(change: Mapping[str, float]) -> str:
    """A difference with its interval and its probability."""
    return f"{_change(change)}, p = {change['p']:.3f}"


def _matrices(tensors: Sequence[Mapping[str, Any]], kinds: Mapping[str, Any]) -> Iterator[_Matrix]:
    """A row for each of the largest tensors with two dimensions or more, then one for each rest."""
    matrices = sorted((row for row in tensors if len(row["shape"]) > 1), key=lambda row: -row["size_bytes"])
    vectors = [row for row in tensors if len(row["shape"]) < 2]
    shown, rest = matrices[:_MOST_MATRICES], matrices[_MOST_MATRICES:]
    groups = [(row["name"], [row], ("\u00a0x\u00a0".join(map(str, row["shape"])), row["encoding"])) for row in shown]
    groups += [(f"{len(rest):,} further matrices", rest, ("", ""))] if rest else []
    groups += [(f"{len(vectors):,} biases, norms and buffers", vectors, ("", ""))] if vectors else []
    most = max((sum(row["size_bytes"] for row in rows) for _, rows, _ in groups), default=0)
    for name, rows, (shape, encoding) in groups:
        weights, size_bytes = (sum(row[key] for row in rows) for key in ("weights", "size_bytes"))
        zeros = sum(row["sparsity"] * row["weights"] for row in rows)
        by_kind = {kind: sum(row["bytes_by_kind"].get(kind, 0) for row in rows) for kind in kinds}
        yield _Matrix(
            name=name,
            cells=(
                shape,
                encoding,
                f"{weights:,}",
                f"{zeros / max(1, weights):.1%}",
                f"{8 * size_bytes / max(1, weights):.2f}",
                f"{size_bytes:,}",
            ),
            bar=_Bar(
                segments=stack(by_kind, most=max(1, size_bytes), width=100.0),
                width=100 * size_bytes / max(1, most),
            ),
        )
