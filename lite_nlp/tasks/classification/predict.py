"""Predictions of a classifier for labelled examples."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lite_nlp.data.labelled.directory import LabelledBatch, LabelledSplit
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.decoding.classify import ClassifierModel, require_finite
from lite_nlp.decoding.torch_model import TorchClassifier
from lite_nlp.training.device import device_of

__all__ = ["classifier_inputs", "predict_labels", "torch_classifier"]


def classifier_inputs(batch: LabelledBatch, device: torch.device) -> tuple[Tensor, ...]:
    """The arguments of a classifier: tokens and mask of each sentence."""
    arrays = [batch.first_tokens, batch.first_mask]
    if batch.second_tokens is not None and batch.second_mask is not None:
        arrays += [batch.second_tokens, batch.second_mask]
    return tuple(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays)


def torch_classifier(model: nn.Module) -> TorchClassifier:
    """A module behind the interface of classification, on the device of its weights."""
    return TorchClassifier(model, device_of(model))


def predict_labels(
    model: ClassifierModel,
    split: LabelledSplit,
    *,
    batch_tokens: int,
    max_tokens: int,
    on_progress: Callable[[int], None] | None = None,
) -> npt.NDArray[np.int64]:
    """The most likely class of every example, in the order of the split.

    Args:
        model: A classifier in any runtime.
        split: The examples.
        batch_tokens: Bound of one batch, padding included.
        max_tokens: Most tokens read of a sentence; longer ones are cut off.
        on_progress: Receives the number of examples classified so far.

    Returns:
        (rows,) int64.

    Raises:
        UndefinedScoreError: If the model gives what is no number.
    """
    predicted = np.zeros(len(split), dtype=np.int64)
    done = 0
    lengths = [np.minimum(side, max_tokens) for side in (split.first_lengths, split.second_lengths)]
    for rows in make_batches(*lengths, batch_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
        batch = split.load(rows, max_tokens=max_tokens)
        sentences = [(batch.first_tokens, batch.first_mask)]
        if batch.second_tokens is not None and batch.second_mask is not None:
            sentences.append((batch.second_tokens, batch.second_mask))
        predicted[rows] = require_finite(model.classify(sentences)).argmax(axis=-1)
        done += len(rows)
        if on_progress is not None:
            on_progress(done)
    return predicted
