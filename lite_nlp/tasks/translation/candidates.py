"""Training pairs with a teacher's translations as targets: of each source one or several, with weights that sum to one.

An epoch reads each source once, with one of its targets, drawn by the weights. Over the epochs that is the loss against
the weighted targets, at the cost of one.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import BLEU

from lite_nlp.core.progress import Progress
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.data.pairs.storage import Split
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.translate import Alternative
from lite_nlp.tasks.distillation import SequenceTargets
from lite_nlp.tasks.translation.hypotheses import Hypotheses
from lite_nlp.training.batching import EpochBatches, Rows, SplitRows, Work

__all__ = ["Candidates", "DrawnBatches", "choose_candidates", "nearest"]

#: Sources whose targets are chosen and tokenized at a time.
_SOURCES: Final = 1_000

#: Random numbers that are drawn for targets are others than those of the batches' order.
_DRAWS: Final = 1


class _Target(NamedTuple):
    source: int
    text: str
    weight: float


class Candidates:
    """Pairs of a source and one of its targets, as a data split: the targets of a source follow each other.

    Args:
        split: The split with the sources.
        sources: (candidates,) int64, the row of each candidate's source, ascending.
        targets: (candidates,) token ids of the targets, without special tokens.
        weights: (candidates,) float64 above 0; those of a source sum to one.
    """

    def __init__(
        self,
        split: SplitRows,
        sources: Rows,
        targets: Sequence[Sequence[int]],
        weights: npt.NDArray[np.float64],
    ) -> None:
        self._split = split
        self.sources = sources
        self.weights = weights
        self.src_lengths = split.src_lengths[sources]
        self.tgt_lengths = np.fromiter(map(len, targets), dtype=np.int32, count=len(targets))
        # One array of all tokens takes a tenth of the memory of lists.
        self._tokens = np.fromiter(chain.from_iterable(targets), dtype=np.int32, count=int(self.tgt_lengths.sum()))
        self._ends = np.cumsum(self.tgt_lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.sources)

    def tokens(self, indices: Rows) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
        """Source and target token ids of the rows, without special tokens."""
        sources, _ = self._split.tokens(self.sources[indices])
        ends = self._ends[indices]
        begins = ends - self.tgt_lengths[indices]
        return sources, [self._tokens[begin:end] for begin, end in zip(begins, ends, strict=True)]


@dataclass(frozen=True, kw_only=True)
class DrawnBatches:
    """The batches of an epoch, of one candidate of each source: a pure function of the seed and the epoch.

    Attributes:
        every: The batches of all candidates that are short enough.
        candidates: The candidates.
    """

    every: EpochBatches
    candidates: Candidates

    @property
    def batches_per_step(self) -> int:
        """See :class:`~lite_nlp.training.objective.Batches`."""
        return self.every.batches_per_step

    def steps(self, epoch: int) -> list[list[Work]]:
        """See :class:`~lite_nlp.training.objective.Batches`."""
        return replace(self.every, rows=self._draw(epoch)).steps(epoch)

    def load(self, rows: Rows, epoch: int) -> Batch:
        """See :class:`~lite_nlp.training.objective.Batches`."""
        return self.every.load(rows, epoch)

    def _draw(self, epoch: int) -> Rows:
        """One of the rows of each source that has any; the weights of those that are too long go to its others."""
        rows = self.every.rows
        _, firsts, counts = np.unique(self.candidates.sources[rows], return_index=True, return_counts=True)
        weights = self.candidates.weights[rows]
        sums = np.cumsum(weights)
        before = (sums - weights)[firsts]
        random = np.random.default_rng([self.every.seed, epoch, _DRAWS]).random(len(firsts))
        wanted = before + random * np.add.reduceat(weights, firsts)
        drawn = np.searchsorted(sums, wanted, side="right")
        # Rounding of the sums must not lead to a neighbour.
        return rows[np.clip(drawn, firsts, firsts + counts - 1)]


def choose_candidates(
    split: Split, hypotheses: Hypotheses, tokenizer: Tokenizer, targets: SequenceTargets, *, progress: Progress
) -> Candidates:
    """Choose and weigh the targets of each source.

    Of n hypotheses the weights are their probabilities, made to sum to one, which puts the n-best list in the place of
    the sum over all sequences (Kim and Rush 2016, section 3.2), times what the reference leaves. A source without
    hypotheses has its reference alone, if that has a weight, or is left out.

    Args:
        split: The sources and references.
        hypotheses: The teacher's, for each row of the split.
        tokenizer: Of the student.
        targets: What is wanted of them.
        progress: Receives the progress of the comparison with the references, which takes a while.
    """
    if targets.interpolation:
        progress.start("comparing with the references", len(split))
    sources, weights = list[int](), list[float]()
    # Lists of Python's own numbers take four times the memory.
    tokens: list[Sequence[int]] = []
    for start in range(0, len(split), _SOURCES):
        rows = range(start, min(len(split), start + _SOURCES))
        _, references = split.texts(rows)
        chosen = [
            target
            for row, reference in zip(rows, references, strict=True)
            for target in _choose(row, reference, hypotheses[row], targets)
        ]
        sources += [target.source for target in chosen]
        weights += [target.weight for target in chosen]
        tokens += [array("i", ids) for ids in tokenizer.encode_batch([target.text for target in chosen])]
        if targets.interpolation:
            progress.advance(len(rows))
    return Candidates(split, np.array(sources, dtype=np.int64), tokens, np.array(weights, dtype=np.float64))


def _choose(row: int, reference: str, found: Sequence[Alternative], targets: SequenceTargets) -> Iterator[_Target]:
    kept = found[: targets.n_best]
    if targets.interpolation and kept:
        kept = [nearest(kept, reference)]
    of_reference = (targets.reference_weight if kept else 1.0) if targets.reference_weight else 0.0
    if kept:
        log_probs = np.array([alternative.log_prob for alternative in kept])
        probabilities = np.exp(log_probs - log_probs.max())
        weights = (1.0 - of_reference) * probabilities / probabilities.sum()
        for alternative, weight in zip(kept, weights.tolist(), strict=True):
            # One that the best is a million times as likely as may vanish.
            if weight > 0.0:
                yield _Target(row, alternative.text, weight)
    if of_reference:
        yield _Target(row, reference, of_reference)


def _similarity(hypothesis: str, reference: str) -> float:
    """Sentence BLEU (smoothed, of as many orders as the hypothesis has), 0 to 100."""
    return float(_BLEU.sentence_score(hypothesis, [reference]).score)


def nearest(found: Sequence[Alternative], reference: str) -> Alternative:
    """The hypothesis of the highest similarity; of a model's own training sources half have the reference itself."""
    same = (alternative for alternative in found if alternative.text == reference)
    return next(same, None) or max(found, key=lambda alternative: _similarity(alternative.text, reference))


_BLEU: Final = BLEU(effective_order=True)
