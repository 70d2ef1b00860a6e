"""A model's own translations of its training sources, to tune it on while it is compressed. Needs torch.

Greedy search picks what the model finds likeliest after what it has said itself. On the data's targets a coarser model
learns its distributions after the data's words alone; on these it learns them where its search goes (sequence-level
distillation, Kim and Rush 2016, section 3.2, of a model into itself).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.tasks.calibration import Keep
from lite_nlp.tasks.translation.candidates import Candidates
from lite_nlp.training.batching import EpochBatches, Rows

__all__ = ["with_own_outputs"]

#: Sources translated between two results that an interrupted compression goes on from.
_PART: Final = 4096


def with_own_outputs(
    pairs: EpochBatches,
    *,
    steps: int,
    longest: int,
    texts: Callable[[Rows], Sequence[str]],
    translate: Callable[[Sequence[str]], list[str]],
    tokenizer: Tokenizer,
    keep: Keep,
    progress: Progress,
) -> EpochBatches:
    """The pairs that so many steps read, with translations as targets.

    Args:
        pairs: With the data's targets.
        steps: Of tuning, a batch each.
        longest: Most tokens of a translation; sources of longer ones, or of none, are left out.
        texts: The source texts of rows, in order.
        translate: The translations of sources, in order.
        tokenizer: Of the model.
        keep: Keeps what was translated, so that an interrupted compression goes on from there.
        progress: Receives the progress of the translation.

    Raises:
        DataError: If no translation has between one token and ``longest``.
    """
    rows = _first_rows(pairs, steps)
    # Alike in length, they are translated faster.
    order = np.argsort(pairs.split.src_lengths[rows], kind="stable")
    sources = texts(rows[order])
    progress.start("translating what is tuned on", len(sources))
    found: list[str] = []
    for start in range(0, len(sources), _PART):
        part = sources[start : start + _PART]
        found += keep(f"own-outputs-{start}", partial(translate, part))
        progress.advance(len(part))
    targets: list[list[int]] = [[]] * len(rows)
    for place, tokens in zip(order, tokenizer.encode_batch(found), strict=True):
        targets[place] = tokens
    split = Candidates(pairs.split, rows, targets, np.ones(len(rows)))
    fitting = np.flatnonzero((split.tgt_lengths > 0) & (split.tgt_lengths <= longest))
    if not len(fitting):
        raise DataError(
            f"expected the model to say 1 to {longest} tokens of some of {len(rows):,} training sources, found none"
        )
    return replace(pairs, split=split, rows=fitting)


def _first_rows(pairs: EpochBatches, steps: int) -> Rows:
    """The rows that the first steps read, ascending."""
    wanted = set[int]()
    for _, rows in zip(range(steps), pairs.endless_rows(), strict=False):
        wanted.update(rows.tolist())
        if len(wanted) == len(pairs.rows):
            break
    return np.array(sorted(wanted), dtype=np.int64)
