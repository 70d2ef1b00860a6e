"""What of one split stands in another: looked up by 64-bit hashes, so that no text is held in memory.

Two items are the same *exactly* (every text of theirs), *nearly* (the same but for case, punctuation and spacing), or
share one side: the source or first sentence, the target or second sentence. An item counts once, as the closest of
these. Memory is some 100 bytes for each item that is looked for, nothing for those that it is looked for among. Two
different sentences are taken for the same with a probability of 2^-64.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import numpy.typing as npt

from lite_nlp.data.choices import Sameness
from lite_nlp.data.keys import exact_key, sentence_key

__all__ = ["KINDS", "Keys", "Search", "make_keys", "place_of", "read_place"]

#: From the closest on.
KINDS: Final[tuple[Sameness, ...]] = get_args(Sameness)

KeyArray = npt.NDArray[np.uint64]
PlaceArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: Bits of a place that hold the number of the line; those above hold the number of the source.
_LINE_BITS: Final = 40
_NOWHERE: Final = np.iinfo(np.int64).max

#: Odd numbers that spread the hashes of two sides over the hash of a pair (those of splitmix64).
_SRC_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_TGT_FACTOR: Final = np.uint64(0x94D049BB133111EB)


def place_of(source: int, line: int) -> int:
    """A place as one number, by which places are in the order of reading.

    Args:
        source: Number of the source in its split.
        line: Number of the line in the source.
    """
    return source << _LINE_BITS | line


def read_place(place: int) -> tuple[int, int]:
    """Number of the source and of the line of a place."""
    return place >> _LINE_BITS, place & ((1 << _LINE_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Keys:
    """Hashes of N items.

    Attributes:
        by_kind: (N,) hashes for each kind of sameness; none of single sides where an item has one text.
        places: (N,) where the items stand, see :func:`place_of`.
    """

    by_kind: Mapping[Sameness, KeyArray]
    places: PlaceArray

    def __len__(self) -> int:
        return len(self.places)


def make_keys(items: Iterable[tuple[int, Sequence[str]]]) -> Keys:
    """The hashes of items, each a place and one or two texts, all as many."""
    places, hashes = array("q"), array("Q")
    for place, texts in items:
        places.append(place)
        for text in texts:
            hashes.append(exact_key(text))
            hashes.append(sentence_key(text))
    found = np.frombuffer(places, dtype=np.int64) if places else np.empty(0, dtype=np.int64)
    if not len(found):
        return Keys({}, found)
    table = np.frombuffer(hashes, dtype=np.uint64).reshape(len(found), -1)
    if table.shape[1] == 2:
        return Keys({"exact": table[:, 0], "near": table[:, 1]}, found)
    exact, near = (table[:, kind] * _SRC_FACTOR + table[:, 2 + kind] * _TGT_FACTOR for kind in (0, 1))
    return Keys({"exact": exact, "near": near, "source": table[:, 0], "target": table[:, 2]}, found)


class Search:
    """The items of a split, looked for among others.

    Args:
        sought: The items.
    """

    def __init__(self, sought: Keys) -> None:
        self._size = len(sought)
        #: For each kind the different hashes in order, and for each item which of them is its own.
        self._known = {kind: np.unique(keys, return_inverse=True) for kind, keys in sought.by_kind.items()}
        #: The first place of each hash among the others.
        self._first = {kind: np.full(len(keys), _NOWHERE) for kind, (keys, _) in self._known.items()}

    def recognizes(self, others: Keys, kind: Sameness) -> BoolArray:
        """(M,) which of M others are the same as an item in the given way."""
        if kind not in self._known or kind not in others.by_kind:
            return np.zeros(len(others), dtype=np.bool_)
        return self._locate(others.by_kind[kind], kind)[1]

    def look_among(self, others: Keys, *, but: BoolArray | None = None) -> None:
        """Look among ``others``, those aside for which (M,) ``but`` is true."""
        for kind, keys in others.by_kind.items():
            if kind not in self._known:
                continue
            rows, same = self._locate(keys, kind)
            if but is not None:
                same &= ~but
            np.minimum.at(self._first[kind], rows[same], others.places[same])

    def found(self) -> tuple[npt.NDArray[np.int8], PlaceArray]:
        """For each of N items the number of its closest kind of sameness in :data:`KINDS`, or -1, and the place."""
        closest, places = np.full(self._size, -1, dtype=np.int8), np.full(self._size, _NOWHERE)
        for number, kind in reversed(list(enumerate(KINDS))):
            if kind in self._known:
                at = self._first[kind][self._known[kind][1]]
                closest[at != _NOWHERE] = number
                places = np.where(at != _NOWHERE, at, places)
        return closest, places

    def _locate(self, keys: KeyArray, kind: Sameness) -> tuple[npt.NDArray[np.intp], BoolArray]:
        """For each key the row of the known hash that it would be, and whether it is."""
        known = self._known[kind][0]
        rows = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        same: BoolArray = known[rows] == keys
        return rows, same
