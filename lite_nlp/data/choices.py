"""Words that options and ``data.json`` choose from: splits, tasks of pairs, normalizations."""

from typing import Final, Literal

__all__ = ["SPLITS", "Normalization", "PairTask", "SplitName"]

#: Task that pairs are prepared for: it decides how a model's output is scored.
PairTask = Literal["translation", "summarization"]

#: Unicode normalization form that a tokenizer applies first.
Normalization = Literal["none", "nfc", "nfkc"]

SplitName = Literal["train", "valid", "test"]

#: All splits, in the order in which they are written; the last two may be absent.
SPLITS: Final[tuple[SplitName, ...]] = ("train", "valid", "test")
