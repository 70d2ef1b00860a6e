"""``lite-nlp evaluate``: how good a model is at its task, on a split of a data directory or on a pair of text files."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from lite_nlp.artifacts.models import read_config, resolve_source
from lite_nlp.cli.accuracy import evaluate_classifier
from lite_nlp.cli.console import out, print_json, progress_bar
from lite_nlp.cli.perplexity import evaluate_language_model
from lite_nlp.cli.translator_source import (
    BatchOption,
    BeamOption,
    LengthPenaltyOption,
    LongInputOption,
    MaxLengthOption,
    MinLengthOption,
    ModelArgument,
    NgramOption,
    OpenedTranslator,
    Runtime,
    RuntimeOption,
    SearchChoices,
    ThreadsOption,
    open_translator,
)
from lite_nlp.core.errors import DataError, RuntimeUnavailableError
from lite_nlp.core.files import check_output, write_text

if TYPE_CHECKING:
    from lite_nlp.tasks.translation.bleu import Scores
    from lite_nlp.tasks.translation.rouge import RougeScores

__all__ = ["Metric", "evaluate"]


class Metric(StrEnum):
    """What translations or summaries are measured by."""

    BLEU = "bleu"
    ROUGE = "rouge"


#: For each metric, its scores by the names that people know, and its signatures.
_SCORES: Final = {
    Metric.BLEU: {"BLEU": "bleu", "chrF": "chrf"},
    Metric.ROUGE: {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL", "ROUGE-Lsum": "rougeLsum"},
}
_SIGNATURES: Final = {
    Metric.BLEU: {"BLEU": "bleu_signature", "chrF": "chrf_signature"},
    Metric.ROUGE: {"ROUGE": "rouge_signature"},
}


@dataclass(frozen=True)
class _TestSet:
    """What is translated and compared, and by what; ``split`` is None for text files."""

    name: str
    split: str | None
    sources: list[str]
    references: list[str]
    metric: Metric


def evaluate(
    model: ModelArgument = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory, from `lite-nlp data prepare`.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of --data: train, valid or test (the default).")
    ] = None,
    input_path: Annotated[Path | None, typer.Option("--input", metavar="SRC", help="Source text, .gz or not.")] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", metavar="TGT", help="Its translation or summary, line by line.")
    ] = None,
    runtime: RuntimeOption = None,
    beam: BeamOption = 1,
    batch: BatchOption = 64,
    threads: ThreadsOption = None,
    length_penalty: LengthPenaltyOption = None,
    no_repeat_ngram: NgramOption = None,
    min_length: MinLengthOption = None,
    max_length: MaxLengthOption = None,
    long_input: LongInputOption = None,
    metric: Annotated[
        Metric | None,
        typer.Option(
            "--metric",
            help="BLEU and chrF of translations, or ROUGE of summaries; else what the data is for, or bleu.",
            show_default=False,
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare without regard to case.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Keep the translations or labels here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output.")] = False,
    context: Annotated[
        int | None,
        typer.Option("--context", min=0, help="Language models: least context of a scored token; else half --window."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option("--window", min=1, help="Language models: tokens read at once; else as in training."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a model by its task: BLEU and chrF or ROUGE with signatures, perplexity, or accuracy."""
    architecture = read_config(resolve_source(model)).model.architecture
    files = {"--input": input_path, "--reference": reference, "--output": output}
    if architecture == "language-model":
        _refuse(architecture, files | {"--runtime": runtime not in (None, Runtime.TORCH), "--beam": beam != 1})
        evaluate_language_model(
            model, data=data, split=split, window=window, context=context, threads=threads, as_json=as_json
        )
        return
    # No context is a protocol too, so that 0 is not nothing.
    _refuse(architecture, {"--context": context is not None, "--window": window})
    if architecture in ("sequence-classifier", "pair-classifier"):
        searching = {"--runtime": runtime not in (None, Runtime.TORCH), "--beam": beam != 1}
        _refuse(architecture, {"--input": input_path, "--reference": reference, **searching})
        evaluate_classifier(model, data=data, split=split, threads=threads, output=output, force=force, as_json=as_json)
        return

    if output is not None:
        check_output(output, force=force)
    test_set = _read_test_set(data, split, input_path, reference, metric)
    score = _scorer(test_set.metric, lowercase=lowercase)
    choices = SearchChoices(
        beam=beam, length_penalty=length_penalty, no_repeat_ngram=no_repeat_ngram, min_length=min_length,
        max_length=max_length, long_input=long_input,
    )  # fmt: skip
    opened = open_translator(model, runtime=runtime, threads=threads, choices=choices)
    started = time.perf_counter()
    translations = _translate(opened, test_set, batch)
    seconds = time.perf_counter() - started
    if output is not None:
        write_text(output, "".join(f"{line}\n" for line in translations))
    scores = score(translations, test_set.references)
    if not as_json:
        _print_table(opened, test_set, beam, scores, seconds)
        return
    print_json(
        {
            "model": opened.name,
            "runtime": str(opened.runtime),
            "beam": beam,
            "data": test_set.name,
            "split": test_set.split,
            "metric": str(test_set.metric),
            "scores": scores.as_dict(),
            "sentences": scores.sentences,
            "seconds": round(seconds, 3),
        }
    )


def _refuse(architecture: str, options: Mapping[str, object]) -> None:
    """Refuse options that have no meaning for an architecture."""
    for option, value in options.items():
        if value:
            raise typer.BadParameter(f"{option} does not go with a model of architecture {architecture}.")


def _scorer(metric: Metric, *, lowercase: bool) -> "Callable[[list[str], list[str]], Scores | RougeScores]":
    """What scores hypotheses against references.

    Raises:
        RuntimeUnavailableError: If what it needs is not installed.
    """
    if metric is Metric.ROUGE and lowercase:
        raise typer.BadParameter("--lowercase does not go with ROUGE, which never regards case.")
    try:
        if metric is Metric.ROUGE:
            from lite_nlp.tasks.translation.rouge import score_summaries

            return score_summaries
        from lite_nlp.tasks.translation.bleu import score_translations
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            f"evaluate: needs {error.name}, which is not installed; expected the extra lite-nlp[train]"
        ) from error
    return partial(score_translations, lowercase=lowercase)


def _read_test_set(
    data: Path | None, split: str | None, source: Path | None, reference: Path | None, metric: Metric | None
) -> _TestSet:
    """The texts that the options name, which must be either those of a data directory or those of two files."""
    if data is not None and source is None and reference is None:
        from lite_nlp.data.pairs.directory import open_data

        name = split or "test"
        directory = open_data(data)
        sources, references = directory.split(name).texts()
        meant = Metric.ROUGE if directory.info.task == "summarization" else Metric.BLEU
        return _TestSet(str(data), name, sources, references, metric or meant)
    if data is None and split is None and source is not None and reference is not None:
        from lite_nlp.decoding.lines import read_file_lines

        sources, references = read_file_lines(source), read_file_lines(reference)
        if len(sources) != len(references):
            raise DataError(
                f"{reference}: expected one line for each of the {len(sources)} lines of {source}, "
                f"found {len(references)}"
            )
        if not sources:
            raise DataError(f"{source}: expected at least one line, found none")
        return _TestSet(str(source), None, sources, references, metric or Metric.BLEU)
    raise typer.BadParameter("expected either --data (and --split) or both --input and --reference")


def _translate(opened: OpenedTranslator, test_set: _TestSet, batch: int) -> list[str]:
    translations: list[str] = []
    with progress_bar() as progress:
        task = progress.add_task(f"translating {test_set.name}", total=len(test_set.sources))
        for line in opened.translator.translate_lines(test_set.sources, batch_size=batch):
            translations.append(line)
            progress.update(task, completed=len(translations))
    return translations


def _print_table(
    opened: OpenedTranslator, test_set: _TestSet, beam: int, scores: "Scores | RougeScores", seconds: float
) -> None:
    table = Table(
        "metric", "score", "95 % interval", title=f"{opened.name} on {test_set.name} {test_set.split or ''}".rstrip()
    )
    found = scores.as_dict()
    for name, field in _SCORES[test_set.metric].items():
        table.add_row(name, f"{found[field]:.2f}", f"{found[f'{field}_low']:.2f} to {found[f'{field}_high']:.2f}")
    out.print(table)
    for name, field in _SIGNATURES[test_set.metric].items():
        out.print(f"{name} {found[field]}", markup=False, soft_wrap=True)
    out.print(
        f"{scores.sentences:,} sentences in {seconds:.1f} s, runtime {opened.runtime}, beam {beam}",
        markup=False,
        soft_wrap=True,
    )
