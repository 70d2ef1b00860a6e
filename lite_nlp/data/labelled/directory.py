"""The data directory of a classification task: labelled sentences or sentence pairs.

``DIR/{train,valid,test}/`` hold the sentences in the format of :mod:`lite_nlp.data.pairs.storage`, the first of each
example as source and the second, if there is one, as target; ``labels.npy`` beside them holds one int32 per row, the
number of its label in ``data.json``. The other files are as in :mod:`lite_nlp.data.directory`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt, PositiveInt

from lite_nlp.core.errors import DataError
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import (
    DataDirectory,
    Facts,
    SkippedLines,
    SplitFacts,
    TokenizerInfo,
    read_info,
    split_counts,
)
from lite_nlp.data.pairs.batches import IntArray, pad_rows
from lite_nlp.data.pairs.storage import Split, load_split

__all__ = [
    "LABELS_FILE",
    "LabelledBatch",
    "LabelledDirectory",
    "LabelledInfo",
    "LabelledSplit",
    "LabelledSplitInfo",
    "collate_labelled",
    "open_labelled",
]

LABELS_FILE: Final = "labels.npy"

BoolArray = npt.NDArray[np.bool_]


class LabelledSplitInfo(SplitFacts):
    """Counts of one split.

    Attributes:
        examples: Labelled sentences or pairs.
        first_tokens: Tokens of all first sentences, special tokens not counted.
        second_tokens: Tokens of all second sentences; 0 where there are none.
        by_label: Examples of each label, all labels in order.
        sources: The files it was read from.
        skipped: Bad lines by reason.
    """

    examples: PositiveInt
    first_tokens: NonNegativeInt
    second_tokens: NonNegativeInt
    by_label: dict[str, NonNegativeInt]
    sources: list[str]
    skipped: dict[str, SkippedLines]


class LabelledInfo(Facts):
    """The content of the ``data.json`` of labelled examples."""

    schema_version: Literal[1]
    kind: Literal["labelled"]
    sentences: Literal[1, 2]
    labels: list[str]
    tokenizer: TokenizerInfo
    splits: dict[SplitName, LabelledSplitInfo]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledBatch:
    """Examples padded on the right to one length.

    Attributes:
        first_tokens: (B, S) int64, each row tokens + end mark.
        first_mask: (B, S) bool, True where a token is.
        second_tokens: (B, T) int64, the same of the second sentences; None where an example is one sentence.
        second_mask: (B, T) bool, or None.
        labels: (B,) int64, 0 to the number of labels - 1.
    """

    first_tokens: IntArray
    first_mask: BoolArray
    second_tokens: IntArray | None
    second_mask: BoolArray | None
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_tokens(self) -> int:
        """Tokens of all sentences, end marks included, padding not."""
        second = 0 if self.second_mask is None else int(np.count_nonzero(self.second_mask))
        return int(np.count_nonzero(self.first_mask)) + second


class LabelledSplit:
    """Labelled examples by row number; only the rows asked for are read from disk.

    Attributes:
        pairs: First sentences as sources, second ones as targets.
        labels: (rows,) int32, the number of each row's label.
        sentences: Sentences of each example.
    """

    def __init__(self, pairs: Split, labels: npt.NDArray[np.int32], *, sentences: int) -> None:
        self.pairs = pairs
        self.labels = labels
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def first_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens per first sentence, without special tokens."""
        return self.pairs.src_lengths

    @property
    def second_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens per second sentence, 0 where there is none."""
        return self.pairs.tgt_lengths

    def load(self, rows: npt.NDArray[np.int64], *, max_tokens: int | None = None) -> LabelledBatch:
        """Read and pad the rows of a batch.

        Args:
            rows: Row numbers.
            max_tokens: Tokens of a sentence, without the end mark, beyond which the rest is left out.

        Raises:
            DataError: If a row number is outside the split.
        """
        first, second = ([row[:max_tokens] for row in side] for side in self.pairs.tokens(rows))
        labels = np.asarray(self.labels[rows], dtype=np.int64)
        return collate_labelled(first, second if self.sentences == 2 else None, labels)


def collate_labelled(
    first: list[npt.NDArray[np.int32]], second: list[npt.NDArray[np.int32]] | None, labels: IntArray
) -> LabelledBatch:
    """Pad the token ids of a batch and add the end marks.

    Args:
        first: B rows of ids without special tokens; a row may be empty.
        second: B rows for the second sentences; None where there are none.
        labels: (B,) int64.
    """
    first_tokens, first_mask = pad_rows(first, last=EOS_ID)
    second_tokens, second_mask = (None, None) if second is None else pad_rows(second, last=EOS_ID)
    return LabelledBatch(
        first_tokens=first_tokens,
        first_mask=first_mask,
        second_tokens=second_tokens,
        second_mask=second_mask,
        labels=labels,
    )


class LabelledDirectory(DataDirectory[LabelledInfo]):
    """An opened data directory of labelled examples."""

    def split(self, name: str) -> LabelledSplit:
        """The split ``train``, ``valid`` or ``test``.

        Raises:
            DataError: If the directory has no such split or it is damaged.
        """
        expected = split_counts(self.path, self.info.splits, name).examples
        pairs = load_split(self.path / name, name)
        labels = _load_labels(self.path / name / LABELS_FILE, num_labels=len(self.info.labels))
        if not len(pairs) == len(labels) == expected:
            raise DataError(
                f"{self.path / name}: expected {expected:,} examples, found {len(pairs):,} rows and "
                f"{len(labels):,} labels"
            )
        return LabelledSplit(pairs, labels, sentences=self.info.sentences)


def open_labelled(path: str | Path) -> LabelledDirectory:
    """Open the data directory ``path`` of labelled examples.

    Raises:
        DataError: If ``path`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    directory = Path(path)
    return LabelledDirectory(directory, read_info(directory, LabelledInfo, kind="labelled"))


def _load_labels(path: Path, *, num_labels: int) -> npt.NDArray[np.int32]:
    try:
        labels = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: expected one label per row, found a damaged file: {error}") from error
    if labels.dtype != np.int32 or labels.ndim != 1:
        raise DataError(f"{path}: expected a list of int32, found {labels.dtype} of shape {labels.shape}")
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < num_labels:
        raise DataError(f"{path}: expected labels 0 to {num_labels - 1}, found {labels.min()} to {labels.max()}")
    checked: npt.NDArray[np.int32] = labels
    return checked
