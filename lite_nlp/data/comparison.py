"""The comparison of the splits of a corpus: what of one stands in another, and the removal of that from training."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import Overlap, SharedLine, SplitFacts
from lite_nlp.data.overlap import KINDS, Keys, Search, make_keys, read_place
from lite_nlp.data.passes import CorpusPasses, SplitPass
from lite_nlp.data.troubles import excerpt

__all__ = ["compare_splits"]

#: Training items that are looked at together.
_BATCH_ITEMS: Final = 4_096

#: Examples of each kind of sameness.
_EXAMPLES: Final = 3


def compare_splits(passes: CorpusPasses[Any], *, drop: bool) -> dict[SplitName, SplitFacts]:
    """Look for the items of valid and test in train, and for those of valid in test.

    Args:
        passes: The corpus.
        drop: Whether to leave the training items out that stand in valid or test, exactly or nearly.

    Returns:
        What is known of each split; the counts of valid and test are those after the removal.

    Raises:
        DataError: If a split has no usable item, or no training item is left.
    """
    names: list[SplitName] = [name for name in passes.split_names if name != "train"]
    if not names:
        return {"train": SplitFacts()}
    sought = {name: make_keys(_compared(passes, name, f"compare {name}")) for name in names}
    searches = {name: Search(keys) for name, keys in sought.items()}
    facts: dict[SplitName, SplitFacts] = {"train": _look_in_training(passes, list(searches.values()), drop=drop)}
    for name in names:
        in_train = _describe(passes, name, "train", sought[name], searches[name])
        overlaps: dict[SplitName, Overlap] = {"train": in_train}
        if name == "valid" and "test" in sought:
            search = Search(sought[name])
            search.look_among(sought["test"])
            overlaps["test"] = _describe(passes, name, "test", sought[name], search)
        facts[name] = SplitFacts(overlapping=in_train.exact, near_duplicates=in_train.near, overlaps=overlaps)
    return facts


def _compared(passes: CorpusPasses[Any], name: SplitName, stage: str | None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Place and texts of the items of a split that can be compared."""
    for _, place, item in passes.split(name, stage).placed():
        texts = passes.form.compared(item)
        if texts:
            yield place, texts


def _look_in_training(passes: CorpusPasses[Any], searches: Sequence[Search], *, drop: bool) -> SplitFacts:
    """Look among the training items, and have those left out that must be."""
    exact = near = 0
    unwanted: list[int] = []
    for rows, keys in _batches(passes):
        exactly = np.logical_or.reduce([search.recognizes(keys, "exact") for search in searches])
        same = np.logical_or.reduce([exactly, *(search.recognizes(keys, "near") for search in searches)])
        exact += int(exactly.sum())
        near += int((same & ~exactly).sum())
        if drop:
            unwanted += rows[same].tolist()
        for search in searches:
            search.look_among(keys, but=same if drop else None)
    excluded = passes.excluded
    passes.drop(unwanted)
    if not passes.sizes["train"]:
        raise DataError(
            f"train: expected {passes.form.contents} that do not stand in valid or test, found none: --drop-overlap "
            f"leaves all {len(unwanted):,} out"
        )
    return SplitFacts(
        overlapping=exact + excluded, near_duplicates=near, dropped=len(unwanted) + excluded, excluded=excluded
    )


def _batches(passes: CorpusPasses[Any]) -> Iterator[tuple[npt.NDArray[np.int64], Keys]]:
    """Numbers and hashes of the training items that can be compared."""
    items = passes.split("train", "compare train").placed()
    while batch := list(islice(items, _BATCH_ITEMS)):
        compared = [(row, place, texts) for row, place, item in batch if (texts := passes.form.compared(item))]
        yield (
            np.array([row for row, _, _ in compared], dtype=np.int64),
            make_keys((place, texts) for _, place, texts in compared),
        )


def _describe(passes: CorpusPasses[Any], name: SplitName, other: SplitName, sought: Keys, search: Search) -> Overlap:
    """What a search has found, with examples."""
    closest, places = search.found()
    counts = {kind: int((closest == number).sum()) for number, kind in enumerate(KINDS)}
    rows = sorted(row for number in range(len(KINDS)) for row in np.flatnonzero(closest == number)[:_EXAMPLES].tolist())
    own, others = (passes.split(split, None) for split in (name, other))
    examples = [
        SharedLine(
            kind=KINDS[closest[row]],
            **_line(own, int(sought.places[row]), ""),
            **_line(others, int(places[row]), "other_"),
            text=excerpt(" ||| ".join(texts)),
        )
        for row, texts in _texts_at(passes, name, rows)
    ]
    return Overlap(compared=len(sought), **counts, examples=examples)


def _line(split: SplitPass[Any], place: int, prefix: str) -> dict[str, Any]:
    source, line = read_place(place)
    return {f"{prefix}file": split.files[source], f"{prefix}line": line}


def _texts_at(passes: CorpusPasses[Any], name: SplitName, rows: Iterable[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The texts of some of the items that were compared, read anew: no more than they are held in memory."""
    wanted = list(rows)
    if not wanted:
        return
    for row, (_, texts) in enumerate(islice(_compared(passes, name, None), wanted[-1] + 1)):
        if row == wanted[0]:
            yield row, texts
            wanted.pop(0)
