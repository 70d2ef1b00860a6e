"""Sentence pairs in other tokens each time they are read, by BPE-dropout."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from lite_nlp.data.bpe_dropout import Segmentations
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.training.batching import Rows, SplitRows
from lite_nlp.training.device import seed_for

__all__ = ["DroppedMerges"]


class DroppedMerges:
    """A split whose rows are segmented anew whenever they are read.

    What is drawn is a function of the seed and the rows asked for, in their order. The batches of each epoch have other
    rows, and so other tokens too; those of a resumed run are those of one that was not interrupted.

    Args:
        split: The rows in their usual tokens; the lengths are theirs.
        tokenizer: Of both sides.
        rate: Probability that a merge is left out.
        seed: Seed of the draws.
        longest: Most tokens of a row; one that grows beyond keeps its usual tokens.
    """

    def __init__(self, split: SplitRows, tokenizer: Tokenizer, *, rate: float, seed: int, longest: int) -> None:
        self._split = split
        self._tokenizer = tokenizer
        self._rate = rate
        self._seed = seed
        self._longest = longest
        self.src_lengths = split.src_lengths
        self.tgt_lengths = split.tgt_lengths

    def __len__(self) -> int:
        return len(self._split)

    def tokens(self, indices: Rows) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
        """Source and target token ids of the rows, without special tokens."""
        rng = np.random.default_rng(seed_for(self._seed, *indices.tolist()))
        src, tgt = self._split.tokens(indices)
        return self._draw(src, rng), self._draw(tgt, rng)

    @cached_property
    def _segmentations(self) -> Segmentations:
        return Segmentations(self._tokenizer, rate=self._rate, seed=self._seed)

    def _draw(self, rows: list[npt.NDArray[np.int32]], rng: np.random.Generator) -> list[npt.NDArray[np.int32]]:
        drawn = self._segmentations.draw(rows, rng)
        return [new if len(new) <= self._longest else row for row, new in zip(rows, drawn, strict=True)]
