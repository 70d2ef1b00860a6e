"""Labelled examples to scan, finetune and score on when a classifier is compressed. Needs torch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Scored, mean_measure
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.data.labelled.directory import LabelledBatch, LabelledSplit, open_labelled
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.decoding.classify import ClassifierModel
from lite_nlp.export.runtime import open_stored
from lite_nlp.export.runtime.task_engines import create_classifier_engine
from lite_nlp.models.build import Model
from lite_nlp.tasks.calibration import BundleScoring, Guidance, Predict, mean_loss, spaced, unpadded
from lite_nlp.tasks.changed_outputs import ScoredTexts
from lite_nlp.tasks.classification.evaluate import ONE_AT_A_TIME, check_fit, longest_sentence, score_classifier
from lite_nlp.tasks.classification.predict import classifier_inputs, torch_classifier
from lite_nlp.tasks.classification.scores import score_classifications
from lite_nlp.tasks.usefulness import accuracy_warnings
from lite_nlp.training.device import device_of

__all__ = ["guide_by_labels"]

_METRIC: Final = Metric(name="accuracy", label="accuracy", unit="points of accuracy")

#: Examples for the sensitivity scan, which evaluates hundreds of times.
_SCAN_EXAMPLES: Final = 256
_BATCH_TOKENS: Final = 2048

#: The sentences of a batch of examples.
_SIDES: Final = (attrgetter("first_tokens"), attrgetter("second_tokens"))


def guide_by_labels(loaded: LoadedModel, path: Path) -> Guidance:
    """Guidance from a directory of labelled examples: some training examples to scan, all others to finetune on.

    The whole validation split is scored and used for nothing else, so ``lite-nlp evaluate --split valid`` gives the
    score of a file's row in the ledger.

    Raises:
        DataError: If the directory is of another kind, damaged, lacks a split, does not fit the model, or has fewer
            than two training examples.
    """
    data = open_labelled(path)
    labels = check_fit(loaded, data)
    train, valid = data.split("train"), data.split("valid")
    if len(train) < 2:
        raise DataError(f"{path}: expected at least two examples to train on, found {len(train)}")
    positions = loaded.config.model.max_positions - 1
    rows = _Rows(train, max_tokens=min(loaded.config.training.max_tokens, positions))
    numbers = np.arange(len(train), dtype=np.int64)
    # At most half: scanned examples are not finetuned on.
    guiding = spaced(numbers, min(_SCAN_EXAMPLES, len(numbers) // 2))
    scan = rows.batches(guiding)
    predict = _predict_labels(np.array([labels.index(label) for label in data.info.labels]))
    name = f"{path} valid"

    known = data.info.labels
    references = [known[place] for place in valid.labels]

    def judge(model: ClassifierModel, own: Sequence[str], report: Progress, **sizes: Any) -> Scored:
        report.start(f"classifying {name}", None)
        predicted, scores = score_classifier(model, valid, known=known, labels=own, **sizes)
        outputs = [own[place] for place in predicted]
        right = [100.0 * (output == reference) for output, reference in zip(outputs, references, strict=True)]
        measures = {"accuracy": mean_measure(right)}
        return Scored(scores={"accuracy": round(scores.accuracy, 2)}, measures=measures, outputs=outputs)

    def score_other(other: LoadedModel, report: Progress) -> Scored:
        longest = longest_sentence(other.config)
        return judge(torch_classifier(other.model), check_fit(other, data), report, max_tokens=longest)

    def score_bundle(path: Path, report: Progress) -> dict[str, Scored]:
        found = {}
        for runtime in open_stored(path).manifest.entries:
            bundle = open_any_bundle(path, runtime=runtime)
            engine = create_classifier_engine(bundle, runtime=runtime, threads=torch.get_num_threads())
            sizes = {"max_tokens": engine.max_tokens - 1, "batch_tokens": ONE_AT_A_TIME}
            found[runtime] = judge(engine, engine.classes.labels, report, **sizes)
        return found

    def score(model: nn.Module, report: Progress) -> Scored:
        found = score_other(replace(loaded, model=cast(Model, model)), report)
        loss = round(mean_loss(predict, model, scan), 4)
        return replace(found, scores={**found.scores, "loss": loss})

    def inspect(scored: Scored) -> list[str]:
        places = [np.array([labels.index(label) for label in side]) for side in (scored.outputs or (), references)]
        return accuracy_warnings(score_classifications(*places, labels=labels))

    def sentences(places: Sequence[int]) -> list[str]:
        sides = valid.pairs.tokens(np.array(places, dtype=np.int64))[: valid.sentences]
        rows = zip(*([loaded.tokenizer.decode(row.tolist()) for row in side] for side in sides), strict=True)
        return [" / ".join(row) for row in rows]

    return Guidance(
        name=name,
        metric=_METRIC,
        predict=predict,
        scan=scan,
        tuning=lambda: rows.endless(np.setdiff1d(numbers, guiding)),
        tuned=len(numbers) - len(guiding),
        label_weight=0.3,
        score=score,
        score_other=score_other,
        bundles=BundleScoring(
            name=name,
            score_model=partial(score_other, loaded),
            score_bundle=score_bundle,
            sides=lambda: [
                [row for batch in scan for row in unpadded(side(batch))] for side in _SIDES[: valid.sentences]
            ],
        ),
        inspect=inspect,
        texts=ScoredTexts(
            metric="right, %",
            score=lambda output, reference: 100.0 * (output == reference),
            references=references,
            sources=sentences,
        ),
    )


class _Rows:
    """Examples in batches, their sentences cut off as in training."""

    def __init__(self, split: LabelledSplit, *, max_tokens: int) -> None:
        self._split = split
        self._max_tokens = max_tokens
        self._lengths = [np.minimum(side, max_tokens) for side in (split.first_lengths, split.second_lengths)]

    def batches(self, numbers: npt.NDArray[np.int64]) -> list[LabelledBatch]:
        """Batches of the rows with these numbers, from short to long."""
        return list(self._load(numbers, epoch=0, shuffle=False))

    def endless(self, numbers: npt.NDArray[np.int64]) -> Iterator[LabelledBatch]:
        """Batches of endless epochs, each in its own order; the same at every call."""
        for epoch in count():
            yield from self._load(numbers, epoch=epoch, shuffle=True)

    def _load(self, numbers: npt.NDArray[np.int64], *, epoch: int, shuffle: bool) -> Iterator[LabelledBatch]:
        first, second = (side[numbers] for side in self._lengths)
        for batch in make_batches(first, second, batch_tokens=_BATCH_TOKENS, seed=1, epoch=epoch, shuffle=shuffle):
            yield self._split.load(numbers[batch], max_tokens=self._max_tokens)


def _predict_labels(places: npt.NDArray[np.int64]) -> Predict:
    """A function that returns the log-probabilities (B, C) and labels (B,) of a batch.

    Args:
        places: For each label of the data, its index among the model's labels.
    """

    def predict(model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        device = device_of(model)
        logits = model(*classifier_inputs(batch, device))
        return F.log_softmax(logits, dim=-1, dtype=torch.float32), torch.from_numpy(places[batch.labels]).to(device)

    return predict
