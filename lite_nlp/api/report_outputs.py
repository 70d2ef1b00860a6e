"""Outputs of a model beside references, for its report. Needs torch, or the runtime of a bundle, when it runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.budget.reporting.examples import Example, Examples
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.progress import Progress

__all__ = ["EVERYDAY_LANGUAGES", "SAMPLES", "Outputs", "run_on_data", "run_on_everyday"]

T = TypeVar("T")

#: Outputs shown where no other number is asked for.
SAMPLES: Final = 8

#: Languages of the sentence pairs that come with the package, as they are and the other way round.
EVERYDAY_LANGUAGES: Final = ("en to de", "de to en")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a model made of a test set.

    Attributes:
        examples: Some of its outputs beside the references; None for a task without any.
        scores: Scores of the whole test set by its name, where the task measures them at once.
    """

    examples: Examples | None = None
    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def run_on_everyday(model: Path | LoadedModel, *, languages: str, samples: int, progress: Progress) -> Outputs:
    """Translate some of the everyday sentences that come with the package.

    Args:
        model: A MODEL that translates between English and German.
        languages: Its direction, one of ``EVERYDAY_LANGUAGES``.
        samples: How many of them, at least 1.
        progress: Receives the progress.

    Raises:
        LiteNlpError: If the model cannot be opened.
    """
    from lite_nlp.data.pairs.everyday import read_everyday_pairs

    pairs = read_everyday_pairs()
    if languages != EVERYDAY_LANGUAGES[0]:
        pairs = [(german, english) for english, german in pairs]
    return _translate(model, pairs, test_set="the package's everyday sentences", samples=samples, progress=progress)


def run_on_data(
    model: Path | LoadedModel,
    data: Path,
    *,
    architecture: str,
    split: str,
    samples: int,
    progress: Progress,
    warn: Callable[[str], None] | None,
) -> Outputs:
    """Run a model on a split of a data directory: translate some lines, or score the split for any other task.

    Args:
        model: A MODEL.
        data: The data directory.
        architecture: The model's architecture.
        split: The split.
        samples: How many examples are shown; with 0 nothing is translated, but the split is read.
        progress: Receives the progress.
        warn: Receives warnings about lines of text.

    Raises:
        LiteNlpError: If the model or the data is damaged, or one does not fit the other.
    """
    name = f"{data} {split}"
    if architecture == "encoder-decoder":
        from lite_nlp.data.pairs.directory import open_sentence_pairs

        chosen = open_sentence_pairs(data).split(split)
        if not samples:
            return Outputs()
        pairs = list(zip(*chosen.texts(), strict=True))
        return _translate(model, pairs, test_set=name, samples=samples, progress=progress)
    from lite_nlp.api.evaluate import evaluate_model

    found = evaluate_model(model, data=data, split=split, progress=progress, warn=warn)
    examples = None
    if found.predictions and samples:
        examples = _classified(data, split, found.predictions, test_set=name, samples=samples)
    return Outputs(examples=examples, scores={f"{name}, measured for this report": found.scores})


@needs_extra("outputs in a report", "runtime")
def _translate(
    model: Path | LoadedModel, pairs: Sequence[tuple[str, str]], *, test_set: str, samples: int, progress: Progress
) -> Outputs:
    from lite_nlp.artifacts.translators import open_translator

    chosen = _spread(pairs, samples)
    progress.start(f"translating {test_set}", len(chosen))
    rows = []
    with open_translator(model, warn=lambda _: None, progress=progress) as opened:
        outputs = opened.translate_lines([source for source, _ in chosen])
        for (source, reference), output in zip(chosen, outputs, strict=True):
            score = _sentence_chrf(output, reference)
            rows.append(Example(source=source, output=output, reference=reference, score=score))
            progress.advance()
    return Outputs(examples=Examples(test_set=test_set, metric="chrF", rows=rows, total=len(pairs)))


def _classified(data: Path, split: str, predictions: Sequence[str], *, test_set: str, samples: int) -> Examples:
    import numpy as np

    from lite_nlp.data.labelled.directory import open_labelled

    directory = open_labelled(data)
    examples, labels = directory.split(split), directory.info.labels
    rows = []
    for row in _spread(range(len(examples)), samples):
        sides = examples.pairs.tokens(np.array([row], dtype=np.int64))[: examples.sentences]
        texts = (directory.tokenizer.decode(side[0].tolist()) for side in sides)
        reference = labels[int(examples.labels[row])]
        right = 100.0 if predictions[row] == reference else 0.0
        rows.append(Example(source=" / ".join(texts), output=predictions[row], reference=reference, score=right))
    return Examples(test_set=test_set, metric="right, %", rows=rows, total=len(examples))


def _sentence_chrf(output: str, reference: str) -> float | None:
    """The chrF of one sentence, 0 to 100; None where sacreBLEU is not installed, as with the runtime alone."""
    try:
        from lite_nlp.tasks.translation.bleu import sentence_chrf
    except ModuleNotFoundError:
        return None
    return sentence_chrf(output, reference)


def _spread(items: Sequence[T], number: int) -> list[T]:
    """At most ``number`` items, evenly spread."""
    chosen = min(number, len(items))
    return [items[index * len(items) // chosen] for index in range(chosen)]
