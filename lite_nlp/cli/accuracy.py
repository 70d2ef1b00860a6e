"""What ``lite-nlp evaluate`` does with a classifier: its accuracy on a split of labelled examples."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from lite_nlp.cli.console import out, print_json, progress_bar
from lite_nlp.core.errors import DataError, RuntimeUnavailableError
from lite_nlp.core.files import check_output, write_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import nn

    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.data.labelled.directory import LabelledDirectory, LabelledSplit
    from lite_nlp.tasks.classification.scores import AccuracyScores

__all__ = ["check_fit", "evaluate_classifier", "score_classifier"]

#: Tokens read at once, padding included.
_BATCH_TOKENS: Final = 8_192


def evaluate_classifier(
    model: str | None,
    *,
    data: Path | None,
    split: str | None,
    threads: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Score a classifier and print the scores.

    Args:
        model: The MODEL argument.
        data: Data directory of labelled examples.
        split: Split of it; None is ``test``.
        threads: Threads of torch; None leaves them.
        output: File to write the classifications to, one label per line.
        force: Whether to overwrite ``output``.
        as_json: Whether to print one JSON object.

    Raises:
        DataError: If the data is of another kind, has labels that the model does not know or another number of
            sentences, or is tokenized with another tokenizer.
        OutputError: If ``output`` exists and ``force`` is false, or the system refuses the write.
    """
    if data is None:
        raise typer.BadParameter("a classifier is evaluated on labelled examples: --data is required")
    try:
        import torch
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            "evaluate: a classifier needs torch, which is not installed; expected the extra lite-nlp[train]"
        ) from error
    import numpy as np

    from lite_nlp.artifacts.models import load_model
    from lite_nlp.data.labelled.directory import open_labelled
    from lite_nlp.models.build import as_classifier

    if output is not None:
        check_output(output, force=force)
    directory, name = open_labelled(data), split or "test"
    examples = directory.split(name)
    loaded = load_model(model)
    classifier = as_classifier(loaded.model, source=loaded.name)
    labels = check_fit(loaded, directory)
    if threads is not None:
        torch.set_num_threads(threads)
    started = time.perf_counter()
    with progress_bar() as progress:
        task = progress.add_task(f"classifying {data} {name}", total=len(examples))
        predicted, scores = score_classifier(
            classifier,
            loaded.config,
            examples,
            known=directory.info.labels,
            labels=labels,
            on_progress=lambda done: progress.update(task, completed=done),
        )
    seconds = time.perf_counter() - started
    if output is not None:
        write_text(output, "".join(f"{labels[place]}\n" for place in predicted))
    max_tokens = _longest(loaded.config)
    cut = int(np.count_nonzero((examples.first_lengths > max_tokens) | (examples.second_lengths > max_tokens)))
    if as_json:
        print_json(_as_json(scores, model=loaded.name, data=str(data), split=name, cut=cut, seconds=seconds))
    else:
        _print_tables(scores, title=f"{loaded.name} on {data} {name}", cut=cut, seconds=seconds)


def check_fit(loaded: "LoadedModel", directory: "LabelledDirectory") -> Sequence[str]:
    """The labels of the model, if the data has no others, its tokenizer, and as many sentences per example.

    Raises:
        DataError: If something of that does not fit, or the model does not say its labels.
    """
    from lite_nlp.models.build import as_classifier

    labels = loaded.metrics.get("labels")
    classes = as_classifier(loaded.model, source=loaded.name).config.num_classes
    if not isinstance(labels, list) or len(labels) != classes:
        raise DataError(f"{loaded.name}: expected the names of {classes} labels in metrics.json, found {labels!r}")
    unknown = [label for label in directory.info.labels if label not in labels]
    if unknown:
        raise DataError(
            f"{directory.path}: expected labels that the model knows ({', '.join(labels)}), found {', '.join(unknown)}"
        )
    if directory.tokenizer.to_json() != loaded.tokenizer.to_json():
        raise DataError(f"{directory.path}: expected data tokenized with the model's own tokenizer, found another one")
    architecture = loaded.config.model.architecture
    expected = 2 if architecture == "pair-classifier" else 1
    if directory.info.sentences != expected:
        raise DataError(
            f"{directory.path}: expected examples of as many sentences as a {architecture} reads ({expected}), found "
            f"{directory.info.sentences}"
        )
    return labels


def score_classifier(
    model: "nn.Module",
    config: "Config",
    examples: "LabelledSplit",
    *,
    known: Sequence[str],
    labels: Sequence[str],
    on_progress: Callable[[int], None] | None = None,
) -> "tuple[npt.NDArray[np.int64], AccuracyScores]":
    """Score a classifier on labelled examples.

    Args:
        model: In evaluation mode.
        config: Its config.
        examples: What to classify; of sentences too long for the model the end is left out.
        known: The labels of the data, all of which the model knows.
        labels: Those of the model.
        on_progress: Told how many examples are done.

    Returns:
        (rows,) the place of each example's label among the model's, and the scores.
    """
    import numpy as np

    from lite_nlp.tasks.classification.predict import predict_labels
    from lite_nlp.tasks.classification.scores import score_classifications

    predicted = predict_labels(
        model, examples, batch_tokens=_BATCH_TOKENS, max_tokens=_longest(config), on_progress=on_progress
    )
    # The data's labels as places in the model's.
    expected = np.array([labels.index(label) for label in known])[examples.labels]
    return predicted, score_classifications(predicted, expected, labels=labels)


def _longest(config: "Config") -> int:
    """Tokens of a sentence that the model reads, without the end mark."""
    return config.model.max_positions - 1


def _as_json(
    scores: "AccuracyScores", *, model: str, data: str, split: str, cut: int, seconds: float
) -> dict[str, Any]:
    figures = scores.as_dict()
    return {
        "model": model,
        "runtime": "torch",
        "data": data,
        "split": split,
        "scores": {key: figures[key] for key in ("accuracy", "accuracy_low", "accuracy_high", "majority")},
        "classes": figures["classes"],
        "examples": scores.examples,
        "correct": scores.correct,
        "examples_cut": cut,
        "seconds": round(seconds, 3),
    }


def _print_tables(scores: "AccuracyScores", *, title: str, cut: int, seconds: float) -> None:
    table = Table("metric", "score", "95 % interval", title=title)
    table.add_row("accuracy", f"{scores.accuracy:.2f}", f"{scores.accuracy_low:.2f} to {scores.accuracy_high:.2f}")
    table.add_row("always the most frequent label", f"{scores.majority:.2f}", "")
    out.print(table)
    classes = Table("label", "examples", "classified so", "right", "precision", "recall")
    for found in scores.classes:
        rates = ("" if rate is None else f"{100 * rate:.2f}" for rate in (found.precision, found.recall))
        counts = (f"{count:,}" for count in (found.examples, found.predicted, found.correct))
        classes.add_row(escape(found.label), *counts, *rates)
    out.print(classes)
    shortened = f", {cut:,} of them cut off" if cut else ""
    out.print(f"{scores.examples:,} examples{shortened} in {seconds:.1f} s", markup=False, soft_wrap=True)
