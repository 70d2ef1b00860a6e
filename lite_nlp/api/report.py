"""The report of a finished model: card, budget, scores, compression, training, speed, outputs. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from lite_nlp.api.budget import check_budget
from lite_nlp.api.report_outputs import EVERYDAY_LANGUAGES, SAMPLES, Outputs, run_on_data, run_on_everyday
from lite_nlp.artifacts.models import LoadedModel, Source, resolve_source
from lite_nlp.artifacts.records import read_record
from lite_nlp.budget.gate.limits import CountParams
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.records import ModelRecord
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.speed import Speed
from lite_nlp.budget.reporting.tables import model_tables
from lite_nlp.core.bounds import MAX_ITEMS, check_range
from lite_nlp.core.errors import DataError, LiteNlpError, UsageError
from lite_nlp.core.parsing import parse_json, read_document
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.tasks.registry import task_of_architecture

if TYPE_CHECKING:
    from lite_nlp.api.bench import BenchReport

__all__ = ["ModelReport", "find_reported", "report_model"]


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A model's budget and its records.

    Attributes:
        budget: Parameters and Mult-Adds, with a verdict for each limit.
        record: Card, scores, stages of compression, training and files, as far as the model records them; speed and
            outputs, as far as they were asked for.
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
    data: str | Path | None = None,
    split: str | None = None,
    samples: int | None = 0,
    bench: "str | Path | BenchReport | None" = None,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> ModelReport:
    """Report on a finished model: card, budget, scores, stages of compression, training, speed and outputs.

    Scores come from the card of a shipped model, the manifest of a bundle or ``metrics.json``; the stages from the
    ``ledger.json`` beside a ``.lnlp`` file, or from the file; the training from ``metrics.json`` and, for a run's
    directory, from its log. None of these is measured again. With ``samples`` or ``data`` the model is run.

    Args:
        model: A MODEL, the directory of a run or of a compression, or a loaded model; None is the default shipped
            model.
        max_macs: Most Mult-Adds, in the ``paper`` convention.
        max_params: Most parameters.
        count_params: Which count ``max_params`` bounds, ``total`` or ``paper``.
        max_size: Largest file in bytes, for a ``.lnlp`` file or a bundle; None sets no limit.
        src_len: Source tokens counted, end mark included; None is 30, or as many as the model takes.
        tgt_len: Target tokens counted, likewise.
        data: Data directory to run the model on. A language model or classifier is scored on the whole split.
        split: Its split; None is ``test``.
        samples: How many outputs are shown beside their references: of ``data``, or else of the package's everyday
            sentences if the model translates between English and German. None is 8, if there is something to show. With
            0 nothing is shown, and the model is run only to be scored on ``data``.
        bench: The measured speed: a file that ``lite-nlp bench --out`` or the Android app wrote, or what
            ``bench_model`` returned.
        warn: Receives warnings, such as that outputs need a package that is not installed; None drops them.
        progress: Receives the progress of running the model.

    Returns:
        The report: ``budget``, ``record``, ``to_json()``, ``to_html()``, and ``tables()`` for a rich console.

    Raises:
        ModelError: If ``model`` names nothing, or its directory is damaged.
        ContainerError: If a ``.lnlp`` file is damaged.
        BundleError: If a bundle is damaged.
        DataError: If ``data`` or ``bench`` is damaged, or does not fit the model.
        UsageError: If ``count_params`` is another word, there is no file for ``max_size`` to bound, or there is a split
            without data, or ``samples`` without data for a model that does not translate between English and German.
        ConfigError: If a length is beyond the model's positions.
    """
    check_range("--samples", samples, 0, MAX_ITEMS)
    if split is not None and data is None:
        raise UsageError(f"--split {split}: expected --data DIR beside it, found none")
    source = model if isinstance(model, LoadedModel) else find_reported(model)
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
    record = read_record(source)
    task = task_of_architecture(budget.model.architecture).name
    record = replace(record, card={"task": task, **record.card})
    if bench is not None:
        record = replace(record, speed=_read_speed(bench, source, task=task))
    if samples != 0 or data is not None:
        outputs = _run(
            source, budget.model.architecture, record.card, None if data is None else Path(data), split or "test",
            samples, progress or SilentProgress(), warn,
        )  # fmt: skip
        record = replace(record, examples=outputs.examples, scores={**record.scores, **outputs.scores})
    return ModelReport(budget=budget, record=record)


def find_reported(model: str | Path | None) -> Source:
    """The MODEL, or the final file in a directory that ``compress`` wrote.

    Raises:
        ModelError: If ``model`` names nothing.
    """
    source = resolve_source(model)
    final = source.path / "model.lnlp"
    if source.kind == "directory" and final.is_file() and not (source.path / "config.toml").exists():
        return resolve_source(final)
    return source


def _run(
    source: Source | LoadedModel,
    architecture: str,
    card: Mapping[str, Any],
    data: Path | None,
    split: str,
    samples: int | None,
    progress: Progress,
    warn: Callable[[str], None] | None,
) -> Outputs:
    """The model's outputs on the data or, if it can, on the everyday sentences.

    Raises:
        UsageError: If it cannot, and a number of samples was asked for.
    """
    model = source if isinstance(source, LoadedModel) else source.path
    shown = SAMPLES if samples is None else samples
    if data is not None:
        return run_on_data(
            model, data, architecture=architecture, split=split, samples=shown, progress=progress, warn=warn
        )
    languages = card.get("languages")
    if architecture != "encoder-decoder" or languages not in EVERYDAY_LANGUAGES:
        if samples is not None:
            found = architecture if languages is None else f"{architecture} of {languages}"
            raise UsageError(
                f"--samples {samples}: expected --data DIR beside it, or a model that translates between English and "
                f"German, found {found}"
            )
        return Outputs()
    try:
        return run_on_everyday(model, languages=languages, samples=shown, progress=progress)
    except LiteNlpError as error:
        # The rest of the report does not depend on running the model.
        if warn is not None:
            warn(f"no outputs in the report: {error}")
        return Outputs()


def _read_speed(bench: "str | Path | BenchReport", source: Source | LoadedModel, *, task: str) -> Speed:
    """The benchmark, which must be of this bundle if the model is one, and else of a model of its task."""
    if isinstance(bench, str | Path):
        name = str(bench)
        document = read_document(Path(bench), expected="the JSON of lite-nlp bench", error=DataError)
        speed = Speed.read(parse_json(document, source=name, error=DataError), name=name)
    else:
        name, speed = "bench", Speed.read({"schema_version": 1, **bench.as_dict()}, name="bench")
    if isinstance(source, Source) and source.kind == "bundle":
        from lite_nlp.export.runtime import open_stored

        expected = open_stored(source.path).manifest_sha256
        if speed.manifest_sha256 != expected:
            raise DataError(
                f"{name}: expected a benchmark of {source.name} (manifest {expected[:12]}), found one of {speed.model}"
                f" (manifest {speed.manifest_sha256[:12]})"
            )
    # The app, which measures translators alone, says no task; bundles of all encoder-decoders translate.
    found = speed.content["model"].get("task", "translation")
    others = {"language-modelling", "classification"}
    if found != task and not others.isdisjoint((found, task)):
        raise DataError(f"{name}: expected a benchmark of a model for {task}, found one of {speed.model}, for {found}")
    return speed
