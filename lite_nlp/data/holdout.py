"""Rules that divide a corpus that comes in one piece into training, validation and test.

The choice depends on the text alone, not on random numbers: the same corpus gives the same splits.
"""

import itertools
from array import array
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import SplitName
from lite_nlp.data.keys import sentence_key

__all__ = [
    "DEFAULT_PAIRS",
    "FEWER",
    "Assignment",
    "EveryNth",
    "HoldOut",
    "LastLines",
    "Shares",
    "SplitRule",
    "hold_out",
]

#: Pairs of a held-out split where the corpus is large enough ...
DEFAULT_PAIRS: Final = 2_000

#: ... and one pair of this many where it is not.
_SMALLEST_SHARE: Final = 20

#: What to do where too many would be held out, for a message.
FEWER: Final = "hold out fewer (--valid-pairs, --test-pairs), or give text of another origin to validate and test on"

#: Pairs of one sentence that are kept to choose from.
_OF_A_SENTENCE: Final = 4

#: Counters of sentences on each side.
_BUCKETS: Final = 1 << 20


class Assignment(Protocol):
    """The outcome of a rule: the split of each pair."""

    def split_of(self, index: int, src: str, tgt: str) -> SplitName | None:
        """The split of pair number ``index`` (from 0); None if it must be in no split."""


class SplitRule(Protocol):
    """A way to divide a corpus. A line of running text is a pair of twice the same."""

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """The splits that are taken out of the training text."""

    def fit(self, pairs: Iterator[tuple[str, str]]) -> Assignment:
        """Read the corpus once, if the rule depends on it.

        Raises:
            DataError: If the corpus is too small.
        """


@dataclass(frozen=True, slots=True)
class EveryNth:
    """Every n-th pair is for validation, as the published splits of IWSLT'14 and WMT'14 are made."""

    n: int

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """Validation only."""
        return ("valid",)

    def fit(self, pairs: Iterator[tuple[str, str]]) -> "EveryNth":
        """Leave the corpus unread, on which the rule does not depend."""
        del pairs
        return self

    def split_of(self, index: int, src: str, tgt: str) -> SplitName:
        """See :class:`Assignment`."""
        del src, tgt
        return "valid" if (index + 1) % self.n == 0 else "train"


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldOut:
    """Validation and test pairs chosen by the hash of their source sentence.

    No sentence of one split occurs in another on the same side, case, spaces and punctuation aside: pairs that share
    one with a held-out pair are in no split. Where these would be more than a twentieth of the corpus, pairs of the
    sentences that stand in most are not held out. Memory grows with the held-out splits, not with the corpus.

    Attributes:
        valid_pairs: Pairs for validation; 0 for none, None for 2000 or a twentieth of the corpus, whichever is less.
        test_pairs: The same for the test.
    """

    valid_pairs: int | None = None
    test_pairs: int | None = None

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """Those of which pairs are wanted."""
        wanted: list[tuple[SplitName, int | None]] = [("valid", self.valid_pairs), ("test", self.test_pairs)]
        return tuple(name for name, pairs in wanted if pairs != 0)

    def fit(self, pairs: Iterator[tuple[str, str]]) -> Assignment:
        """Choose the pairs.

        Raises:
            DataError: If the corpus is too small.
        """
        limits = [DEFAULT_PAIRS if wanted is None else wanted for wanted in (self.valid_pairs, self.test_pairs)]
        # Twice as many as needed, among which there is a choice.
        candidates, sides, count = _survey(pairs, 2 * sum(limits))
        share = max(1, count // _SMALLEST_SHARE)
        sizes = [
            min(DEFAULT_PAIRS, share) if wanted is None else wanted for wanted in (self.valid_pairs, self.test_pairs)
        ]
        pairs_held = _least_costly(candidates, sum(sizes), sides.others, count // _SMALLEST_SHARE)
        chosen = _Chosen(
            {pair.index: "valid" if place < sizes[0] else "test" for place, pair in enumerate(pairs_held)},
            {pair.src_key for pair in pairs_held},
            {pair.tgt_key for pair in pairs_held},
        )
        to_hold_out = f"to hold out {sizes[0]:,} to validate and {sizes[1]:,} for test"
        if count <= sum(sizes):
            raise DataError(f"corpus: expected more than {sum(sizes):,} pairs, {to_hold_out}, found {count:,}")
        if len(candidates) < sum(sizes):
            raise DataError(
                f"corpus: expected at least {sum(sizes):,} pairs of which no two have a sentence in common, "
                f"{to_hold_out}, since none may stand in two splits, found {len(candidates):,}: {FEWER}"
            )
        return chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Shares of the pairs by the hash of their source sentence, in constant memory.

    No source sentence of one split occurs in another, case, spaces and punctuation aside.

    Attributes:
        valid_percent: Share for validation, 0 to 100.
        test_percent: Share for the test; the sum is below 100.
    """

    valid_percent: int
    test_percent: int

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """Both."""
        return ("valid", "test")

    def fit(self, pairs: Iterator[tuple[str, str]]) -> "Shares":
        """Leave the corpus unread, on which the rule does not depend."""
        del pairs
        return self

    def split_of(self, index: int, src: str, tgt: str) -> SplitName:
        """See :class:`Assignment`."""
        del index, tgt
        place = sentence_key(src) % 100
        if place < self.valid_percent:
            return "valid"
        return "test" if place < self.valid_percent + self.test_percent else "train"


@dataclass(frozen=True, slots=True)
class LastLines:
    """The last twentieth of a running text for test, and the twentieth before it for validation, both in one piece."""

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """Both."""
        return ("valid", "test")

    def fit(self, pairs: Iterator[tuple[str, str]]) -> Assignment:
        """Count the lines.

        Raises:
            DataError: If there are fewer than twenty.
        """
        lines = sum(1 for _ in pairs)
        held = lines // _SMALLEST_SHARE
        if not held:
            raise DataError(
                f"text: expected at least {_SMALLEST_SHARE} lines, to hold out a twentieth to validate and a"
                f" twentieth for test, found {lines}"
            )
        return _Ranges(valid=lines - 2 * held, test=lines - held)


def hold_out(valid_pairs: int | None, test_pairs: int | None, *, given: bool) -> HoldOut | None:
    """The rule for the numbers asked for; None if nothing is to be held out.

    Args:
        valid_pairs: Pairs for validation, as in :class:`HoldOut`.
        test_pairs: The same for the test.
        given: Whether the corpus comes with a validation or test split; then a number of None means 0.
    """
    valid, test = (0 if given and wanted is None else wanted for wanted in (valid_pairs, test_pairs))
    rule = HoldOut(valid_pairs=valid, test_pairs=test)
    return rule if rule.splits else None


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The outcome of :class:`LastLines`: the numbers of the first lines for validation and for test."""

    valid: int
    test: int

    def split_of(self, index: int, src: str, tgt: str) -> SplitName:
        del src, tgt
        if index < self.valid:
            return "train"
        return "valid" if index < self.test else "test"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The outcome of :class:`HoldOut`: split by pair number, and the keys that training must not see."""

    by_index: dict[int, SplitName]
    src_keys: set[int]
    tgt_keys: set[int]

    def split_of(self, index: int, src: str, tgt: str) -> SplitName | None:
        if index in self.by_index:
            return self.by_index[index]
        if sentence_key(src) in self.src_keys or sentence_key(tgt) in self.tgt_keys:
            return None
        return "train"


@dataclass(frozen=True, slots=True, order=True)
class _Pair:
    """A pair that may be held out, ordered by the hash of its source."""

    src_key: int
    tgt_key: int
    index: int


class _Counts:
    """How many pairs have a sentence on each side, in constant memory: sentences of equal buckets count as one."""

    def __init__(self) -> None:
        self._src = array("I", bytes(4 * _BUCKETS))
        self._tgt = array("I", bytes(4 * _BUCKETS))

    def add(self, src_key: int, tgt_key: int) -> None:
        self._src[src_key % _BUCKETS] += 1
        self._tgt[tgt_key % _BUCKETS] += 1

    def others(self, pair: _Pair) -> int:
        """Pairs that have a sentence in common with this one, itself left out; those with both count twice."""
        others = self._src[pair.src_key % _BUCKETS] - 1
        # A sentence without a partner is both sides.
        if pair.tgt_key != pair.src_key:
            others += self._tgt[pair.tgt_key % _BUCKETS] - 1
        return others


def _survey(pairs: Iterator[tuple[str, str]], limit: int) -> tuple[list[_Pair], _Counts, int]:
    """About ``limit`` pairs with small source keys, by these, of which no two share a sentence; counts; all pairs."""
    kept: dict[int, list[_Pair]] = {}  # by target key
    of_source: Counter[int] = Counter()
    size = 0
    bound = 1 << 64  # no source key above it is among the smallest
    counts = _Counts()
    index = -1
    for index, (src, tgt) in enumerate(pairs):
        pair = _Pair(sentence_key(src), sentence_key(tgt), index)
        counts.add(pair.src_key, pair.tgt_key)
        if pair.src_key > bound or of_source[pair.src_key] == _OF_A_SENTENCE:
            continue
        group = kept.setdefault(pair.tgt_key, [])
        if any(other.src_key == pair.src_key for other in group):
            continue
        insort(group, pair)
        of_source[pair.src_key] += 1
        size += 1
        if len(group) > _OF_A_SENTENCE:
            dropped = group.pop().src_key
            of_source[dropped] -= 1
            if not of_source[dropped]:
                # Else there would be an entry for every source of a frequent target.
                del of_source[dropped]
            size -= 1
        if size > 4 * limit:
            smallest = sorted(itertools.chain.from_iterable(kept.values()))[: 2 * limit]
            size, bound = len(smallest), smallest[-1].src_key
            of_source = Counter(pair.src_key for pair in smallest)
            kept = {}
            for pair in smallest:
                kept.setdefault(pair.tgt_key, []).append(pair)
    chosen: list[_Pair] = []
    sources: set[int] = set()
    targets: set[int] = set()
    for pair in sorted(itertools.chain.from_iterable(kept.values())):
        if pair.src_key not in sources and pair.tgt_key not in targets:
            chosen.append(pair)
            sources.add(pair.src_key)
            targets.add(pair.tgt_key)
    return chosen[:limit], counts, index + 1


def _least_costly(pairs: list[_Pair], number: int, cost: Callable[[_Pair], int], allowed: int) -> list[_Pair]:
    """The first ``number`` of the pairs without those that cost most, as far as all together cost no more than allowed.

    Where no such choice is possible, the pairs that cost least.
    """
    costs = [(cost(pair), pair) for pair in pairs]
    for most in sorted({found for found, _ in costs}, reverse=True):
        first = list(itertools.islice(((found, pair) for found, pair in costs if found <= most), number))
        if len(first) < number:
            break
        if sum(found for found, _ in first) <= allowed:
            return [pair for _, pair in first]
    return sorted(pair for _, pair in sorted(costs)[:number])
