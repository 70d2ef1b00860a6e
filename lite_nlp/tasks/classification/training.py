"""Training of classifiers: labelled sentences or pairs, cross entropy, accuracy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.artifacts.classes import SENTENCES
from lite_nlp.config.blocks import ClassifierConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.labelled.directory import LabelledBatch, LabelledSplit
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.tasks.classification.predict import classifier_inputs, predict_labels, torch_classifier
from lite_nlp.tasks.classification.scores import score_classifications
from lite_nlp.tasks.classification.teaching import ClassTeacher
from lite_nlp.tasks.pair_keys import refuse_pair_keys
from lite_nlp.training.batching import Rows, Work
from lite_nlp.training.device import autocast
from lite_nlp.training.mixed_loss import mixed_class_loss
from lite_nlp.training.objective import SplitChoice

__all__ = ["ClassificationObjective", "LabelledBatches"]


@dataclass(frozen=True, kw_only=True)
class LabelledBatches:
    """The batches of any epoch, a pure function of the seed and the epoch.

    Attributes:
        split: The examples; an epoch reads all of them.
        batch_tokens: Bound of one batch, padding and an end mark for each of two sentences included.
        max_tokens: Most tokens read of a sentence; longer ones are cut off.
        seed: Seed of the order.
        batches_per_step: Batches in an optimizer step over all processes.
        shuffle: Whether the order changes from epoch to epoch.
    """

    split: LabelledSplit
    batch_tokens: int
    max_tokens: int
    seed: int
    batches_per_step: int
    shuffle: bool = True

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch; the last may have fewer batches than the others, so that each row is read once."""
        batches = make_batches(
            np.minimum(self.split.first_lengths, self.max_tokens),
            np.minimum(self.split.second_lengths, self.max_tokens),
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
        )
        return [
            [Work(slot=slot, rows=rows) for slot, rows in enumerate(batches[start : start + self.batches_per_step])]
            for start in range(0, len(batches), self.batches_per_step)
        ]

    def load(self, rows: Rows, epoch: int = 0) -> LabelledBatch:
        """Read and pad the rows of a batch, the same in every epoch."""
        return self.split.load(rows, max_tokens=self.max_tokens)


class ClassificationObjective:
    """Objective of a classifier on labelled examples.

    Args:
        config: ``config.model`` fits the tokenizer and the labels.
        train: The training split.
        valid: The validation split.
        labels: Names of the classes, written to ``metrics.json``.
        vectors_sha256: SHA-256 of the pretrained vectors, if the embeddings are frozen at some.
        teacher: What the distribution of the classes is learned from, beside the label.

    Raises:
        TrainingError: If the model has another number of classes or of sentences than the data, or a key is set that is
            of sentence pairs alone.
    """

    def __init__(
        self,
        *,
        config: Config,
        train: LabelledSplit,
        valid: LabelledSplit,
        labels: Sequence[str],
        vectors_sha256: str | None = None,
        teacher: ClassTeacher | None = None,
    ) -> None:
        refuse_pair_keys(config.training)
        expected = SENTENCES[config.model.architecture]
        classes = config.model.num_classes if isinstance(config.model, ClassifierConfig) else 0
        for name, found, wanted in (
            ("sentences in each example", train.sentences, expected),
            ("classes", len(labels), classes),
        ):
            if found != wanted:
                raise TrainingError(
                    f"data: expected as many {name} as the {config.model.architecture} has ({wanted}), found {found}"
                )
        self._config = config
        self._splits: dict[SplitChoice, LabelledSplit] = {"train": train, "valid": valid}
        self._labels = tuple(labels)
        self._vectors = vectors_sha256
        self._teacher = teacher

    @property
    def measures(self) -> Mapping[str, str]:
        """See ``Objective``."""
        return {"accuracy": "accuracy"}

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> LabelledBatches:
        """See ``Objective``; sentences that are too long are cut off."""
        training, learning = self._config.training, split == "train"
        examples, max_tokens = self._splits[split], self._max_tokens(split)
        long = (examples.first_lengths > max_tokens) | (examples.second_lengths > max_tokens)
        if cut := int(np.count_nonzero(long)):
            name = "training" if learning else "validation"
            say(f"{name} split: {cut} of {len(examples)} examples cut to {max_tokens} tokens a sentence")
        return LabelledBatches(
            split=examples,
            batch_tokens=training.batch_tokens,
            max_tokens=max_tokens,
            seed=training.seed,
            batches_per_step=batches_per_step,
            shuffle=learning,
        )

    def batch_sums(self, model: nn.Module, batch: LabelledBatch, device: torch.device) -> Tensor:
        """See ``Objective``: the label-smoothed cross entropy, or the loss mixed with a teacher's.

        An example is one target.
        """
        training, smoothing = self._config.training, self._config.training.label_smoothing
        labels = torch.from_numpy(batch.labels).to(device)
        inputs = classifier_inputs(batch, device)
        taught = None
        with autocast(device, training.precision):
            logits: Tensor = model(*inputs)
            if self._teacher is not None and model.training:
                taught = self._teacher(*inputs)
        if self._teacher is None or taught is None:
            loss = F.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing)
        else:
            loss = mixed_class_loss(
                logits.float(), labels, teacher=taught, smoothing=smoothing, soft=self._teacher.soft
            )
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        nll = F.cross_entropy(logits.detach().float(), labels, reduction="sum")
        return torch.stack([loss.detach(), nll, *torch.tensor([batch.num_tokens, len(batch)], device=device)])

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        """See ``Objective``; all examples cost no more than the loss does."""
        del examples
        split = self._splits["valid"]
        predicted = predict_labels(
            torch_classifier(model),
            split,
            batch_tokens=self._config.training.batch_tokens,
            max_tokens=self._max_tokens("valid"),
        )
        return {"accuracy": score_classifications(predicted, split.labels, labels=self._labels).accuracy}

    def fingerprint(self) -> dict[str, Any]:
        """See ``Objective``."""
        figures: dict[str, Any] = {"labels": list(self._labels), "vectors_sha256": self._vectors}
        for name, split in self._splits.items():
            figures[f"{name}_examples"] = len(split)
            figures[f"{name}_first_tokens"] = int(split.first_lengths.sum(dtype="int64"))
            figures[f"{name}_second_tokens"] = int(split.second_lengths.sum(dtype="int64"))
        return figures

    def facts(self) -> dict[str, Any]:
        """See ``Objective``."""
        return {"labels": list(self._labels), "train_examples": len(self._splits["train"])}

    def _max_tokens(self, split: SplitChoice) -> int:
        """Longest sentence, without the end mark, which takes a position too."""
        positions = self._config.model.max_positions - 1
        return min(self._config.training.max_tokens, positions) if split == "train" else positions
