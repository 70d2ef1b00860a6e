"""The report of a finished model: budget, size, scores, stages of compression, training. Imports no torch by itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from lite_nlp.api.budget import check_budget
from lite_nlp.artifacts.models import LoadedModel, Source, resolve_source
from lite_nlp.artifacts.records import read_record
from lite_nlp.budget.gate.limits import CountParams
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.records import ModelRecord
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.tables import model_tables

__all__ = ["ModelReport", "report_model"]


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A model's budget and its records.

    Attributes:
        budget: Parameters and Mult-Adds, with a verdict for each limit.
        record: Scores, stages of compression, training and files, as far as the model records them.
    """

    budget: BudgetReport
    record: ModelRecord

    def tables(self) -> RenderableType:
        """The report as tables for a rich console."""
        return model_tables(self.budget, self.record)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, with the keys that ``docs/budget.md`` lists."""
        return {
            "model": self.budget.target,
            "size_bytes": self.budget.size_bytes,
            **self.record.to_json(),
            "budget": self.budget.to_json(),
        }

    def to_html(self, *, command: str = "") -> str:
        """The report as one self-contained page.

        Args:
            command: The command line that makes the page, for its foot; empty to leave it out.
        """
        return render_page(self.budget, record=self.record, command=command)


def report_model(
    model: str | Path | LoadedModel | None = None,
    *,
    max_macs: int = 500_000_000,
    max_params: int = 10_000_000,
    count_params: CountParams = "paper",
    max_size: int | None = None,
    src_len: int | None = None,
    tgt_len: int | None = None,
) -> ModelReport:
    """Report on a finished model: budget, size, scores, stages of compression, training.

    Scores come from the card of a shipped model, the manifest of a bundle or ``metrics.json``; the stages from the
    ledger in a ``.lnlp`` file; the training from ``metrics.json`` and, for a run's directory, from its log. Nothing is
    measured again.

    Args:
        model: A MODEL, the directory of a run, or a loaded model; None is the default shipped model.
        max_macs: Most Mult-Adds, in the ``paper`` convention.
        max_params: Most parameters.
        count_params: Which count ``max_params`` bounds, ``total`` or ``paper``.
        max_size: Largest file in bytes, for a ``.lnlp`` file or a bundle; None sets no limit.
        src_len: Source tokens counted, end mark included; None is 30, or as many as the model takes.
        tgt_len: Target tokens counted, likewise.

    Raises:
        ModelError: If ``model`` names nothing, or its directory is damaged.
        ContainerError: If a ``.lnlp`` file is damaged.
        BundleError: If a bundle is damaged.
        UsageError: If there is no file for ``max_size`` to bound.
        ConfigError: If a length is beyond the model's positions.
    """
    source = model if isinstance(model, LoadedModel) else _find(model)
    budget = check_budget(
        source,
        max_macs=max_macs,
        max_params=max_params,
        count_params=count_params,
        max_size=max_size,
        src_len=src_len,
        tgt_len=tgt_len,
        recount=False,
    )
    return ModelReport(budget=budget, record=read_record(source))


def _find(model: str | Path | None) -> Source:
    """The MODEL, or the final file in a directory that ``compress`` wrote."""
    source = resolve_source(model)
    final = source.path / "model.lnlp"
    if source.kind == "directory" and final.is_file() and not (source.path / "config.toml").exists():
        return resolve_source(final)
    return source
