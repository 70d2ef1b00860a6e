"""Static rANS entropy coder with interleaved lanes: streams, and the encoder, which takes many of them at a time.

Range asymmetric numeral systems (Duda 2013, arXiv 1311.2540; the interleaving is Giesen's, arXiv 1402.3392): a 32-bit
state per lane, renormalised by 16-bit words, with frequencies that sum to a power of two. A stream has one table of
frequencies or several, and the reader knows beforehand which symbol has which. ``FORMAT.md`` gives the arithmetic in
full, ``rans_decoder.py`` decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.limits import SYMBOLS_PER_LANE

__all__ = [
    "STATE_MIN",
    "RansStream",
    "RansSymbols",
    "encode_streams",
    "entropy_bits",
    "num_lanes",
    "quantize_frequencies",
]

#: Smallest state of a lane between two symbols; a state below it takes in one 16-bit word.
STATE_MIN: Final = 1 << 16

UIntArray = NDArray[np.unsignedinteger[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RansSymbols:
    """A sequence to be coded.

    Attributes:
        places: (n,) at least one: for each symbol, its place among the frequencies of all tables.
        frequencies: (S,) of all tables, one behind the other; each table's sum to ``2 ** scale_bits``.
        scale_bits: 8 to 15.
        carried: 0 to 65,535, a number that the stream carries for nothing; 0 for none.
    """

    places: IntArray
    frequencies: IntArray
    scale_bits: int
    carried: int = 0


@dataclass(frozen=True, kw_only=True)
class RansStream:
    """A coded sequence.

    Attributes:
        num_symbols: Number of symbols.
        states: (lanes,) uint32 state that each lane starts decoding from; at least ``2 ** 16``.
        words: uint16 words in the order in which the decoder takes them.
    """

    num_symbols: int
    states: NDArray[np.uint32]
    words: NDArray[np.uint16]

    @property
    def full_rows(self) -> int:
        """Rows of which every lane has a symbol; one that is not full may follow."""
        return self.num_symbols // len(self.states)

    def to_bytes(self) -> bytes:
        """States, then words."""
        return self.states.astype("<u4").tobytes() + self.words.astype("<u2").tobytes()


def num_lanes(num_symbols: int) -> int:
    """Lanes of a stream of so many symbols: few waste less, 24 bits each, many decode faster."""
    return -(-num_symbols // SYMBOLS_PER_LANE)


def entropy_bits(counts: IntArray) -> float:
    """Bits that an ideal static coder needs for symbols that occur ``counts`` times, in total."""
    present = counts[counts > 0].astype(np.float64)
    return float(np.sum(present * (np.log2(present.sum()) - np.log2(present)))) if present.size else 0.0


def quantize_frequencies(counts: IntArray, scale_bits: int) -> IntArray:
    """Scale ``counts`` to whole frequencies that sum to ``2 ** scale_bits``; a symbol that occurs keeps at least 1.

    Raises:
        ValueError: If nothing occurs, or more symbols occur than there are frequencies to give.
    """
    total = 1 << scale_bits
    present = counts > 0
    if not 0 < np.count_nonzero(present) <= total:
        raise ValueError(f"counts: expected 1 to {total} symbols that occur, found {np.count_nonzero(present)}")
    exact = counts.astype(np.float64) * (total / float(counts.sum()))
    frequencies = np.where(present, np.maximum(np.floor(exact), 1.0), 0.0).astype(np.int64)
    missing = total - int(frequencies.sum())
    if missing > 0:
        # At most one each: flooring loses less than 1 per symbol.
        order = np.argsort(np.where(present, frequencies - exact, np.inf), kind="stable")
        frequencies[order[:missing]] += 1
    while missing < 0:
        # The most frequent symbols lose least by giving up one.
        takers = np.argsort(-frequencies, kind="stable")[:-missing]
        takers = takers[frequencies[takers] > 1]
        frequencies[takers] -= 1
        missing += len(takers)
    return frequencies


def encode_streams(sequences: Sequence[RansSymbols]) -> list[RansStream]:
    """Code several sequences, each with tables of its own, all at once.

    Returns:
        One stream per sequence, in order. Equal input gives equal bytes.
    """
    if not sequences:
        return []
    # The longest first: the lanes that are at work in a row are then the first ones, and those of rows not full.
    counts = [num_lanes(len(sequence.places)) for sequence in sequences]
    order = sorted(range(len(sequences)), key=lambda index: -(len(sequences[index].places) // counts[index]))
    encoder = _Encoder([sequences[index] for index in order], [counts[index] for index in order])
    coded: dict[int, RansStream] = dict(zip(order, encoder.encode(), strict=True))
    return [coded[index] for index in range(len(sequences))]


class _Encoder:
    """The state of all lanes of some sequences, which are sorted by their full rows."""

    def __init__(self, sequences: Sequence[RansSymbols], counts: Sequence[int]) -> None:
        self._sequences = sequences
        self._counts = counts
        self._starts = np.cumsum([0, *counts]).tolist()
        bases = np.cumsum([0, *(len(sequence.frequencies) for sequence in sequences)])
        self._places = [sequence.places + base for sequence, base in zip(sequences, bases, strict=False)]
        self._frequency = np.concatenate([sequence.frequencies for sequence in sequences]).astype(np.uint64)
        # Where each table's slots begin is the running sum of all frequencies, less that of the tables before it.
        self._cumulative = np.concatenate(
            [
                (np.cumsum(sequence.frequencies) - sequence.frequencies) & ((1 << sequence.scale_bits) - 1)
                for sequence in sequences
            ]
        ).astype(np.uint64)
        self._shift = np.repeat([np.uint64(sequence.scale_bits) for sequence in sequences], counts)
        self._states = np.full(self._starts[-1], STATE_MIN, dtype=np.uint64)
        for start, sequence in zip(self._starts, sequences, strict=False):
            self._states[start] += np.uint64(sequence.carried)
        self._lanes: list[IntArray] = []
        self._words: list[NDArray[np.uint16]] = []

    def encode(self) -> list[RansStream]:
        """The streams, in the order of the sequences."""
        rows = [len(places) // count for places, count in zip(self._places, self._counts, strict=True)]
        running, ending = 0, 0
        # rANS is last in, first out: the encoder walks backwards so that the decoder walks forwards.
        for row in range(rows[0], -1, -1):
            while ending < len(rows) and rows[ending] >= row:
                rest = self._places[ending][row * self._counts[ending] :]
                if rest.size:
                    self._encode_row(rest, self._starts[ending])
                ending += 1
            while running < len(rows) and rows[running] > row:
                running += 1
            if running:
                self._encode_row(
                    np.concatenate(
                        [self._places[i][row * self._counts[i] : (row + 1) * self._counts[i]] for i in range(running)]
                    ),
                    0,
                )
        return self._collect()

    def _encode_row(self, places: IntArray, first: int) -> None:
        """Take one symbol into each lane from ``first`` on."""
        lanes = slice(first, first + len(places))
        state, shift, frequency = self._states[lanes], self._shift[lanes], self._frequency[places]
        full = np.flatnonzero(state >= frequency << (np.uint64(32) - shift))
        self._lanes.append(full + first)
        self._words.append((state[full] & np.uint64(0xFFFF)).astype(np.uint16))
        state[full] >>= np.uint64(16)
        quotient = state // frequency
        state[:] = (quotient << shift) + (state - quotient * frequency) + self._cumulative[places]

    def _collect(self) -> list[RansStream]:
        owners = np.repeat(np.arange(len(self._counts)), self._counts)[np.concatenate(self._lanes[::-1])]
        words = np.concatenate(self._words[::-1])[np.argsort(owners, kind="stable")]
        parts = np.split(words, np.cumsum(np.bincount(owners, minlength=len(self._counts)))[:-1])
        return [
            RansStream(
                num_symbols=len(sequence.places),
                states=self._states[start : start + count].astype(np.uint32),
                words=part,
            )
            for sequence, start, count, part in zip(self._sequences, self._starts, self._counts, parts, strict=False)
        ]
