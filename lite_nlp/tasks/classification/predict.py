"""Predictions of a classifier for labelled examples."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lite_nlp.data.labelled.directory import LabelledBatch, LabelledSplit
from lite_nlp.data.pairs.batches import make_batches

__all__ = ["classifier_inputs", "predict_labels"]


def classifier_inputs(batch: LabelledBatch, device: torch.device) -> tuple[Tensor, ...]:
    """The arguments of a classifier: tokens and mask of each sentence."""
    arrays = [batch.first_tokens, batch.first_mask]
    if batch.second_tokens is not None and batch.second_mask is not None:
        arrays += [batch.second_tokens, batch.second_mask]
    return tuple(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays)


def predict_labels(
    model: nn.Module,
    split: LabelledSplit,
    *,
    batch_tokens: int,
    max_tokens: int,
    on_progress: Callable[[int], None] | None = None,
) -> npt.NDArray[np.int64]:
    """The most likely class of every example, in the order of the split.

    Args:
        model: A classifier in evaluation mode.
        split: The examples.
        batch_tokens: Bound of one batch, padding included.
        max_tokens: Most tokens read of a sentence; longer ones are cut off.
        on_progress: Receives the number of examples classified so far.

    Returns:
        (rows,) int64.
    """
    predicted = np.zeros(len(split), dtype=np.int64)
    done = 0
    with torch.inference_mode():
        for rows, logits in _logits(model, split, batch_tokens=batch_tokens, max_tokens=max_tokens):
            predicted[rows] = logits.argmax(dim=-1).cpu().numpy()
            done += len(rows)
            if on_progress is not None:
                on_progress(done)
    return predicted


def _logits(
    model: nn.Module, split: LabelledSplit, *, batch_tokens: int, max_tokens: int
) -> Iterator[tuple[npt.NDArray[np.int64], Tensor]]:
    device = next(model.parameters()).device
    lengths = [np.minimum(side, max_tokens) for side in (split.first_lengths, split.second_lengths)]
    for rows in make_batches(*lengths, batch_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
        yield rows, model(*classifier_inputs(split.load(rows, max_tokens=max_tokens), device))
