"""Accuracy of a classifier on a split of labelled examples. Needs torch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from lite_nlp.artifacts.classes import SENTENCES, read_labels
from lite_nlp.artifacts.models import LoadedModel, load_model, read_config, resolve_source
from lite_nlp.artifacts.opened import choose_runtime, open_task_bundle, refuse_loaded
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import advance_to
from lite_nlp.data.labelled.directory import LabelledDirectory, LabelledSplit, open_labelled
from lite_nlp.decoding.classify import ClassifierModel
from lite_nlp.export.runtime.device import default_threads
from lite_nlp.export.runtime.task_engines import create_classifier_engine
from lite_nlp.models.build import as_classifier
from lite_nlp.tasks.classification.predict import predict_labels, torch_classifier
from lite_nlp.tasks.classification.scores import AccuracyScores, score_classifications
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, Table
from lite_nlp.tasks.usefulness import accuracy_warnings

__all__ = ["ONE_AT_A_TIME", "check_fit", "evaluate_labelled", "longest_sentence", "score_classifier"]

#: Tokens read at once by a model in torch, padding included.
_BATCH_TOKENS: Final = 8_192

#: The same of a bundle in a runtime, as on a phone: integer products round the inputs of a whole call alike.
ONE_AT_A_TIME: Final = 1


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """A classifier in a runtime.

    Attributes:
        max_tokens: Most tokens read of a sentence, the end mark not counted.
        batch_tokens: Tokens read at once, padding included.
    """

    name: str
    runtime: str
    config: Config
    tokenizer_json: bytes
    labels: Sequence[str]
    model: ClassifierModel
    max_tokens: int
    batch_tokens: int = _BATCH_TOKENS


def evaluate_labelled(request: EvaluationRequest, data: Path) -> Evaluation:
    """Score a classifier.

    Args:
        request: The model and the split.
        data: Data directory of labelled examples.

    Raises:
        DataError: If the data is of another kind, has labels that the model does not know or another number of
            sentences, or is tokenized with another tokenizer.
    """
    directory, split = open_labelled(data), request.split or "test"
    examples = directory.split(split)
    scored = _open(request)
    labels = _check_labels(scored, directory)
    started = time.perf_counter()
    request.progress.start(f"classifying {data} {split}", len(examples))
    predicted, scores = score_classifier(
        scored.model,
        examples,
        max_tokens=scored.max_tokens,
        batch_tokens=scored.batch_tokens,
        known=directory.info.labels,
        labels=labels,
        on_progress=advance_to(request.progress),
    )
    seconds = time.perf_counter() - started
    longest = scored.max_tokens
    cut = int(np.count_nonzero((examples.first_lengths > longest) | (examples.second_lengths > longest)))
    shortened = f", {cut:,} of them cut off" if cut else ""
    return Evaluation(
        facts={
            "model": scored.name,
            "runtime": scored.runtime,
            "data": str(data),
            "split": split,
            **_figures(scores, cut=cut),
            "seconds": round(seconds, 3),
        },
        predictions=tuple(labels[place] for place in predicted),
        tables=_tables(scores, title=f"{scored.name} on {data} {split}"),
        notes=(f"{scores.examples:,} examples{shortened} in {seconds:.1f} s",),
        warnings=tuple(accuracy_warnings(scores)),
    )


def check_fit(loaded: LoadedModel, directory: LabelledDirectory) -> Sequence[str]:
    """Check that labels, tokenizer and sentences per example of the data fit the model; return the model's labels.

    Raises:
        DataError: If one of them does not fit, or the model does not record its labels.
    """
    return _check_labels(_torch_model(loaded), directory)


def _check_labels(scored: "_Scored", directory: LabelledDirectory) -> Sequence[str]:
    labels = scored.labels
    unknown = [label for label in directory.info.labels if label not in labels]
    if unknown:
        raise DataError(
            f"{directory.path}: expected labels that the model knows ({', '.join(labels)}), found {', '.join(unknown)}"
        )
    if directory.tokenizer.to_json() != scored.tokenizer_json:
        raise DataError(f"{directory.path}: expected data tokenized with the model's own tokenizer, found another one")
    architecture = scored.config.model.architecture
    expected = SENTENCES[architecture]
    if directory.info.sentences != expected:
        raise DataError(
            f"{directory.path}: expected examples of as many sentences as a {architecture} reads ({expected}), found "
            f"{directory.info.sentences}"
        )
    return labels


def score_classifier(
    model: ClassifierModel,
    examples: LabelledSplit,
    *,
    known: Sequence[str],
    labels: Sequence[str],
    max_tokens: int,
    batch_tokens: int = _BATCH_TOKENS,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[npt.NDArray[np.int64], AccuracyScores]:
    """Score a classifier on labelled examples.

    Args:
        model: In any runtime.
        examples: The examples; sentences too long for the model are cut off.
        known: The labels of the data, all of which the model knows.
        labels: The labels of the model.
        max_tokens: Most tokens read of a sentence, the end mark not counted.
        batch_tokens: Tokens read at once, padding included.
        on_progress: Receives the number of examples classified so far.

    Returns:
        (rows,) the index of each predicted label among the model's, and the scores.
    """
    predicted = predict_labels(
        model,
        examples,
        batch_tokens=batch_tokens,
        max_tokens=max_tokens,
        on_progress=on_progress,
    )
    # The data's labels as indices among the model's.
    expected = np.array([labels.index(label) for label in known])[examples.labels]
    return predicted, score_classifications(predicted, expected, labels=labels)


def _open(request: EvaluationRequest) -> "_Scored":
    """The classifier of a request in its runtime."""
    model = request.model
    source = None if isinstance(model, LoadedModel) else resolve_source(model)
    runtime = choose_runtime(request.runtime, source)
    if source is None or runtime == "torch":
        loaded = load_model(model)
        refuse_loaded(loaded.name, runtime)
        if request.threads is not None:
            torch.set_num_threads(request.threads)
        return _torch_model(loaded)
    bundle = open_task_bundle(source, runtime, progress=request.progress)
    engine = create_classifier_engine(bundle, runtime=runtime, threads=request.threads or default_threads())
    return _Scored(
        name=source.name,
        runtime=runtime,
        config=read_config(source),
        tokenizer_json=bundle.tokenizer_json,
        labels=engine.classes.labels,
        model=engine,
        max_tokens=engine.max_tokens - 1,
        batch_tokens=ONE_AT_A_TIME,
    )


def _torch_model(loaded: LoadedModel) -> "_Scored":
    model = as_classifier(loaded.model, source=loaded.name)
    return _Scored(
        name=loaded.name,
        runtime="torch",
        config=loaded.config,
        tokenizer_json=loaded.tokenizer.to_json(),
        labels=read_labels(loaded.metrics, model.config.num_classes, name=loaded.name),
        model=torch_classifier(model),
        max_tokens=longest_sentence(loaded.config),
    )


def longest_sentence(config: Config) -> int:
    """Most tokens of a sentence that the model reads, without the end mark."""
    return config.model.max_positions - 1


def _figures(scores: AccuracyScores, *, cut: int) -> dict[str, Any]:
    figures = scores.as_dict()
    return {
        "scores": {key: figures[key] for key in ("accuracy", "accuracy_low", "accuracy_high", "majority")},
        "classes": figures["classes"],
        "examples": scores.examples,
        "correct": scores.correct,
        "examples_cut": cut,
    }


def _tables(scores: AccuracyScores, *, title: str) -> tuple[Table, ...]:
    accuracy = Table(
        title=title,
        columns=("metric", "score", "95 % interval"),
        rows=(
            ("accuracy", f"{scores.accuracy:.2f}", f"{scores.accuracy_low:.2f} to {scores.accuracy_high:.2f}"),
            ("always the most frequent label", f"{scores.majority:.2f}", ""),
        ),
    )
    rows = []
    for found in scores.classes:
        counts = (f"{count:,}" for count in (found.examples, found.predicted, found.correct))
        rates = ("" if rate is None else f"{100 * rate:.2f}" for rate in (found.precision, found.recall))
        rows.append((found.label, *counts, *rates))
    columns = ("label", "examples", "predicted", "correct", "precision", "recall")
    return accuracy, Table(columns=columns, rows=tuple(rows))
