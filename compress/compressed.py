"""The outcome of a compression: its files, its ledger, and the pages and pictures of it. Imports no torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from lite_nlp.compress.metric import Metric
from lite_nlp.core.files import write_text
from lite_nlp.core.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from lite_nlp.budget.reporting.plan import PlanRecord
    from lite_nlp.compress.ledger import ReferenceModel, StageRow
    from lite_nlp.compress.prune.structure import Structure

__all__ = ["LEDGER_FILE", "LEDGER_FILES", "CompressedModel", "OutputChanges", "write_ledger"]

#: The ledger: what ``compress`` prints with ``--json``.
LEDGER_FILE: Final = "ledger.json"
_PLOT_FILE: Final = "size-quality.svg"
_PLAN_FILE: Final = "plan.svg"
_PAGE_FILE: Final = "compression.html"

#: What ``write_ledger`` writes beside the models.
LEDGER_FILES: Final = (LEDGER_FILE, _PLOT_FILE, _PLAN_FILE, _PAGE_FILE)


class OutputChanges(Protocol):
    """The outputs of two models beside each other, as the ledger takes them."""

    def as_dict(self) -> dict[str, Any]:
        """The changes as a JSON object: ``metric``, ``total``, ``unchanged``, ``better``, ``worse`` and ``rows``."""


@dataclass(frozen=True, kw_only=True)
class CompressedModel:
    """The files of a compression and their ledger.

    Attributes:
        name: The model's name.
        out: Directory of the files.
        text: Display name of the scored data; empty for a score of the caller's own.
        metric: The metric that a largest loss refers to.
        stages: One row for each file, in order; the last is the one to keep.
        structure: What structured pruning removed; None without it.
        candidates: Rows of files that were measured and dropped, since an attempt was too large or lost too much.
        reference: The model that the stages are compared with; None without one.
        changed_outputs: The outputs of the last file beside those of the first; None where outputs are no text.
        warnings: What was lost or is wrong with the final file, and what to try.
    """

    name: str
    out: Path
    text: str
    metric: Metric
    stages: "tuple[StageRow, ...]"
    structure: "Structure | None" = None
    candidates: "tuple[StageRow, ...]" = ()
    reference: "ReferenceModel | None" = None
    changed_outputs: OutputChanges | None = None
    warnings: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The final ``.lnlp`` file."""
        return self.out / self.stages[-1].file

    @property
    def plan(self) -> "PlanRecord | None":
        """Why each matrix of the final file is stored as it is."""
        return self.stages[-1].plan

    def as_dict(self) -> dict[str, Any]:
        """The ledger, as JSON takes it."""
        from lite_nlp.compress.significance import RESAMPLES, SEED

        last = self.stages[-1]
        measure = last.scored.measures.get(self.metric.name)
        return {
            "model": self.name,
            "text": self.text,
            "metric": self.metric.name,
            "lower_is_better": self.metric.lower_is_better,
            "stages": [row.as_dict() for row in self.stages],
            "structured": None if self.structure is None else self.structure.as_dict(),
            "candidates": [row.as_dict() for row in self.candidates],
            "plan": None if self.plan is None else self.plan.model_dump(mode="json"),
            "tensors": [row.as_dict() for row in last.tensors],
            "bootstrap": None
            if measure is None
            else {"resamples": RESAMPLES, "seed": SEED, "examples": measure.examples},
            "reference": None if self.reference is None else self.reference.as_dict(),
            "changed_outputs": None if self.changed_outputs is None else self.changed_outputs.as_dict(),
            "warnings": list(self.warnings),
        }


def write_ledger(compressed: CompressedModel, directory: Path) -> None:
    """Write the ledger of a compression as JSON and as a page, and its pictures: size against quality, and the plan.

    Args:
        compressed: The compression.
        directory: Where its files are at present.

    Raises:
        OutputError: If the system refuses a write.
    """
    from lite_nlp.budget.reporting.compression import draw_ledger, render_compression
    from lite_nlp.budget.reporting.plan_plot import draw_plan
    from lite_nlp.budget.reporting.plots import render_svg

    content = {"schema_version": SCHEMA_VERSION, **compressed.as_dict()}
    write_text(directory / LEDGER_FILE, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
    write_text(directory / _PAGE_FILE, render_compression(content))
    if panel := draw_ledger(content):
        write_text(directory / _PLOT_FILE, render_svg([panel], title=f"Compression of {content['model']}"))
    if compressed.plan is not None and (panel := draw_plan(compressed.plan)):
        write_text(directory / _PLAN_FILE, render_svg([panel], title=f"Plan of {content['model']}"))
