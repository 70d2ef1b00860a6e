"""``lite-nlp evaluate``: how good a model is at its task, on a split of a data directory or on a pair of text files."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lite_nlp.cli.console import out, print_json, progress_bar
from lite_nlp.cli.model_source import read_config, resolve_source
from lite_nlp.cli.perplexity import evaluate_language_model
from lite_nlp.cli.translator_source import (
    BatchOption,
    BeamOption,
    LengthPenaltyOption,
    ModelArgument,
    NgramOption,
    OpenedTranslator,
    Runtime,
    RuntimeOption,
    ThreadsOption,
    open_translator,
)
from lite_nlp.errors import DataError, RuntimeUnavailableError
from lite_nlp.files import check_output, write_text

if TYPE_CHECKING:
    from lite_nlp.evaluation.translation import Scores

__all__ = ["evaluate"]


@dataclass(frozen=True)
class _TestSet:
    """What is translated and compared; ``split`` is None for text files."""

    name: str
    split: str | None
    sources: list[str]
    references: list[str]


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
        Path | None, typer.Option("--reference", metavar="TGT", help="Its translation, line by line.")
    ] = None,
    runtime: RuntimeOption = None,
    beam: BeamOption = 1,
    batch: BatchOption = 64,
    threads: ThreadsOption = None,
    length_penalty: LengthPenaltyOption = 0.6,
    no_repeat_ngram: NgramOption = 0,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare without regard to case.")] = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Keep the translations here.")] = None,
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
    """Score a model: BLEU and chrF with 95 % intervals and signatures, or perplexity, as its architecture has it."""
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

    from lite_nlp.decoding.search import SearchOptions

    try:
        from lite_nlp.evaluation.translation import score_translations
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            f"evaluate: needs {error.name}, which is not installed; expected the extra lite-nlp[train]"
        ) from error
    if output is not None:
        check_output(output, force=force)
    test_set = _read_test_set(data, split, input_path, reference)
    options = SearchOptions(beam_size=beam, length_penalty=length_penalty, no_repeat_ngram=no_repeat_ngram)
    opened = open_translator(model, runtime=runtime, threads=threads, options=options)
    started = time.perf_counter()
    translations = _translate(opened, test_set, batch)
    seconds = time.perf_counter() - started
    if output is not None:
        write_text(output, "".join(f"{line}\n" for line in translations))
    scores = score_translations(translations, test_set.references, lowercase=lowercase)
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


def _read_test_set(data: Path | None, split: str | None, source: Path | None, reference: Path | None) -> _TestSet:
    """The texts that the options name, which must be either those of a data directory or those of two files."""
    if data is not None and source is None and reference is None:
        from lite_nlp.data.corpus import open_data

        name = split or "test"
        sources, references = open_data(data).split(name).texts()
        return _TestSet(str(data), name, sources, references)
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
        return _TestSet(str(source), None, sources, references)
    raise typer.BadParameter("expected either --data (and --split) or both --input and --reference")


def _translate(opened: OpenedTranslator, test_set: _TestSet, batch: int) -> list[str]:
    translations: list[str] = []
    with progress_bar() as progress:
        task = progress.add_task(f"translating {test_set.name}", total=len(test_set.sources))
        for line in opened.translator.translate_lines(test_set.sources, batch_size=batch):
            translations.append(line)
            progress.update(task, completed=len(translations))
    return translations


def _print_table(opened: OpenedTranslator, test_set: _TestSet, beam: int, scores: "Scores", seconds: float) -> None:
    table = Table(
        "metric", "score", "95 % interval", title=f"{opened.name} on {test_set.name} {test_set.split or ''}".rstrip()
    )
    table.add_row("BLEU", f"{scores.bleu:.2f}", f"{scores.bleu_low:.2f} to {scores.bleu_high:.2f}")
    table.add_row("chrF", f"{scores.chrf:.2f}", f"{scores.chrf_low:.2f} to {scores.chrf_high:.2f}")
    out.print(table)
    out.print(f"BLEU {scores.bleu_signature}\nchrF {scores.chrf_signature}", markup=False, soft_wrap=True)
    out.print(
        f"{scores.sentences:,} sentences in {seconds:.1f} s, runtime {opened.runtime}, beam {beam}",
        markup=False,
        soft_wrap=True,
    )
