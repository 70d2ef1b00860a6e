"""Sentence pairs in other tokens each time they are read, by BPE-dropout."""

from functools import cached_property

import numpy as np

from lite_nlp.data.bpe_dropout import Segmentations
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.training.batching import Rows, Tokens
from lite_nlp.training.device import seed_for

__all__ = ["DroppedMerges"]


class DroppedMerges:
    """Segments the rows of a batch anew in every epoch that reads them.

    What is drawn is a function of the seed, the epoch and the rows in their order, so that a resumed run reads what one
    that was not interrupted does.

    Args:
        tokenizer: Of both sides.
        rate: Probability that a merge is left out.
        seed: Seed of the draws.
        longest: Most tokens of a row; one that grows beyond keeps its usual tokens.
    """

    def __init__(self, tokenizer: Tokenizer, *, rate: float, seed: int, longest: int) -> None:
        self._tokenizer = tokenizer
        self._rate = rate
        self._seed = seed
        self._longest = longest

    def __call__(self, src: Tokens, tgt: Tokens, *, rows: Rows, epoch: int) -> tuple[Tokens, Tokens]:
        """See :class:`~lite_nlp.training.batching.Redraw`."""
        rng = np.random.default_rng(seed_for(self._seed, epoch, *rows.tolist()))
        return self._draw(src, rng), self._draw(tgt, rng)

    @cached_property
    def _segmentations(self) -> Segmentations:
        return Segmentations(self._tokenizer, rate=self._rate, seed=self._seed)

    def _draw(self, rows: Tokens, rng: np.random.Generator) -> Tokens:
        drawn = self._segmentations.draw(rows, rng)
        return [new if len(new) <= self._longest else row for row, new in zip(rows, drawn, strict=True)]
