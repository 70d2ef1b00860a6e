"""Batches bounded by tokens instead of rows, of rows of similar lengths, which need little padding.

Shapes: B rows of a batch, S longest source row, T longest target row, special tokens included in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lite_nlp.core.errors import DataError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID

__all__ = ["Batch", "collate", "make_batches", "pad_rows"]

IntArray = npt.NDArray[np.int64]
TokenRow = Sequence[int] | npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Rows padded on the right to one length.

    Attributes:
        src_tokens: (B, S) int64, each row tokens + eos.
        src_mask: (B, S) bool, True where a token is, False on padding.
        tgt_tokens: (B, T) int64, the inputs of the decoder: bos + tokens.
        labels: (B, T) int64, the tokens to predict: tokens + eos; padding is 0.
    """

    src_tokens: IntArray
    src_mask: npt.NDArray[np.bool_]
    tgt_tokens: IntArray
    labels: IntArray

    def __len__(self) -> int:
        return len(self.src_tokens)

    @property
    def num_target_tokens(self) -> int:
        """Labels that count in the loss: target tokens and one eos per row."""
        return int(np.count_nonzero(self.labels != PAD_ID))


def make_batches(
    src_lengths: npt.NDArray[np.integer],
    tgt_lengths: npt.NDArray[np.integer],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool,
) -> list[IntArray]:
    """Divide the rows of a split into batches; each row is in exactly one.

    Rows are sorted by length and cut where the next row would break the bound. Rows of equal lengths are in random
    order, so that a batch differs from epoch to epoch, and the batches themselves come in random order.

    Args:
        src_lengths: (rows,) tokens per source row, without special tokens.
        tgt_lengths: (rows,) tokens per target row, without special tokens.
        batch_tokens: Upper bound for rows * (longest source row + longest target row), padding and one special token
            per row and side included. A row longer than that alone is a batch of its own.
        seed: Seed of the order, not negative.
        epoch: Number of the epoch, not negative: each has its own order.
        shuffle: Whether to use the random orders; else rows and batches go from short to long, ties by row number,
            and ``seed`` and ``epoch`` change nothing.

    Returns:
        Row numbers, int64, one array per batch; the same arguments give the same list on every machine.

    Raises:
        DataError: If the lengths do not match or ``batch_tokens`` is not positive.
    """
    if len(src_lengths) != len(tgt_lengths):
        raise DataError(
            f"lengths: expected as many source as target rows, found {len(src_lengths)}, {len(tgt_lengths)}"
        )
    if batch_tokens < 1:
        raise DataError(f"batch_tokens: expected at least 1, found {batch_tokens}")
    src = np.asarray(src_lengths, dtype=np.int64) + 1
    tgt = np.asarray(tgt_lengths, dtype=np.int64) + 1
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(src)) if shuffle else np.arange(len(src))
    # Target lengths rise and fall in turn with each source length: where a batch spans two source lengths, the target
    # lengths on both sides of the step are alike.
    swinging = np.where(src[order] % 2 == 0, tgt[order], -tgt[order])
    order = order[np.lexsort((swinging, src[order]))]
    batches = _cut(order, src[order], tgt[order], batch_tokens)
    if not shuffle:
        return batches
    return [batches[index] for index in rng.permutation(len(batches))]


def _cut(order: IntArray, src: IntArray, tgt: IntArray, batch_tokens: int) -> list[IntArray]:
    """Cut ``order`` (with its sorted lengths) into the longest runs within the bound."""
    batches = []
    start = 0
    while start < len(order):
        # No run from here is longer than this, since the longest row only grows along it.
        window = max(1, batch_tokens // int(src[start] + tgt[start]))
        widths = np.maximum.accumulate(src[start : start + window]) + np.maximum.accumulate(tgt[start : start + window])
        padded = widths * np.arange(1, len(widths) + 1)
        size = max(1, int(np.searchsorted(padded, batch_tokens, side="right")))
        batches.append(order[start : start + size])
        start += size
    return batches


def collate(src_rows: Sequence[TokenRow], tgt_rows: Sequence[TokenRow]) -> Batch:
    """Pad the token ids of a batch and add the special tokens.

    Args:
        src_rows: B rows of source ids without special tokens; a row may be empty.
        tgt_rows: B rows of target ids without special tokens.

    Raises:
        DataError: If there are no rows or not as many target as source rows.
    """
    if not len(src_rows) or len(src_rows) != len(tgt_rows):
        raise DataError(f"batch: expected as many source as target rows, found {len(src_rows)} and {len(tgt_rows)}")
    src_tokens, src_mask = pad_rows(src_rows, last=EOS_ID)
    labels, tgt_mask = pad_rows(tgt_rows, last=EOS_ID)
    # The inputs of the decoder are the labels one step late, and end where the labels end.
    shifted = np.concatenate([np.full((len(labels), 1), BOS_ID, dtype=np.int64), labels[:, :-1]], axis=1)
    return Batch(
        src_tokens=src_tokens,
        src_mask=src_mask,
        tgt_tokens=np.where(tgt_mask, shifted, PAD_ID),
        labels=labels,
    )


def pad_rows(rows: Sequence[TokenRow], *, last: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Pad rows of token ids on the right, each followed by the token ``last``.

    Args:
        rows: B rows, at least one; a row may be empty.
        last: Id of the end mark.

    Returns:
        Tokens (B, L) int64, and the mask (B, L), True where a token is.
    """
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    positions = np.arange(int(lengths.max()) + 1)
    tokens = np.full((len(rows), len(positions)), PAD_ID, dtype=np.int64)
    tokens[positions < lengths[:, None]] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    tokens[np.arange(len(rows)), lengths] = last
    return tokens, positions <= lengths[:, None]
