"""Truncated sentence pairs, for articles longer than a model can read."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from lite_nlp.training.batching import Rows, SplitRows

__all__ = ["TruncatedRows"]


class TruncatedRows:
    """A split whose rows are cut off after ``max_tokens`` tokens on either side, before the end mark.

    Args:
        split: The complete rows.
        max_tokens: Most tokens kept of a side, without special tokens.
    """

    def __init__(self, split: SplitRows, *, max_tokens: int) -> None:
        self._split = split
        self.max_tokens = max_tokens

    def __len__(self) -> int:
        return len(self._split)

    @cached_property
    def src_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens kept per source row."""
        return np.minimum(self._split.src_lengths, self.max_tokens, dtype=np.int32)

    @cached_property
    def tgt_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens kept per target row."""
        return np.minimum(self._split.tgt_lengths, self.max_tokens, dtype=np.int32)

    @property
    def cut_sources(self) -> int:
        """Number of rows whose source is cut off."""
        return int(np.count_nonzero(self._split.src_lengths > self.max_tokens))

    @property
    def cut_targets(self) -> int:
        """Number of rows whose target is cut off."""
        return int(np.count_nonzero(self._split.tgt_lengths > self.max_tokens))

    def tokens(self, indices: Rows) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
        """Source and target token ids of the rows, without special tokens."""
        src, tgt = self._split.tokens(indices)
        return [row[: self.max_tokens] for row in src], [row[: self.max_tokens] for row in tgt]
