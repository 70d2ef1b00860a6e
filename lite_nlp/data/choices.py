"""Words that options and ``data.json`` choose from: splits, tasks of pairs, normalizations."""

from typing import Final, Literal

__all__ = ["SPLITS", "Normalization", "PairTask", "Sameness", "SplitName"]

#: Task that pairs are prepared for: it decides how a model's output is scored.
PairTask = Literal["translation", "summarization"]

#: Unicode normalization form that a tokenizer applies first.
Normalization = Literal["none", "nfc", "nfkc"]

#: How an item of one split is the same as one of another: in every text, as it is or but for case, punctuation and
#: spacing, or in the source (first sentence) or target (second sentence) alone.
Sameness = Literal["exact", "near", "source", "target"]

SplitName = Literal["train", "valid", "test"]

#: All splits, in the order in which they are written; the last two may be absent.
SPLITS: Final[tuple[SplitName, ...]] = ("train", "valid", "test")
