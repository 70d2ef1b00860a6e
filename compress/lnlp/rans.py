"""Static rANS entropy coder with interleaved lanes: streams, and the encoder, which takes many of them at a time.

Range asymmetric numeral systems (Duda 2013, arXiv 1311.2540; the interleaving is Giesen's, arXiv 1402.3392): a 32-bit
state per lane, renormalised by 16-bit words, with frequencies that sum to a power of two. ``FORMAT.md`` gives the
arithmetic in full, ``rans_decoder.py`` decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.limits import DEFAULT_SCALE_BITS, MAX_SCALE_BITS, MAX_SYMBOLS_PER_LANE

__all__ = [
    "STATE_MIN",
    "RansStream",
    "encode_streams",
    "entropy_bits",
    "quantize_frequencies",
]

#: Smallest state of a lane between two symbols; a state below it takes in one 16-bit word.
STATE_MIN: Final = 1 << 16
#: Few lanes waste less (16 bits each), many decode faster; 2048 symbols cost 0.008 bits each.
_SYMBOLS_PER_LANE: Final = 2048

UIntArray = NDArray[np.unsignedinteger[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RansStream:
    """One coded sequence of symbols.

    Attributes:
        num_symbols: Number of symbols, without the padding that fills the last row of lanes.
        scale_bits: The frequencies sum to ``2 ** scale_bits``.
        frequencies: (K,) frequency of each symbol; 0 for a symbol that never occurs.
        states: (lanes,) uint32 state that each lane starts decoding from; at least ``2 ** 16``.
        words: uint16 words in the order in which the decoder takes them.
    """

    num_symbols: int
    scale_bits: int
    frequencies: IntArray
    states: NDArray[np.uint32]
    words: NDArray[np.uint16]

    @property
    def rows(self) -> int:
        """Symbols that every lane decodes."""
        return -(-self.num_symbols // len(self.states))


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


@dataclass(frozen=True)
class _Lanes:
    """The layout of the lanes of several streams in one concatenated array, longest stream first."""

    order: list[int]
    starts: IntArray
    counts: IntArray
    rows: IntArray

    @classmethod
    def arrange(cls, lanes: Sequence[int], rows: Sequence[int]) -> "_Lanes":
        order = sorted(range(len(rows)), key=lambda index: -rows[index])
        counts = np.array([lanes[index] for index in order], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        return cls(order, starts, counts, np.array([rows[index] for index in order], dtype=np.int64))

    def active(self, row: int) -> tuple[int, int]:
        """How many streams, and how many lanes, have a symbol in this row."""
        streams = int(np.count_nonzero(self.rows > row))
        return streams, int(self.counts[:streams].sum())

    def spread(self, values: Sequence[int], dtype: type[np.integer[Any]]) -> NDArray[Any]:
        """One value per stream (in the caller's order) repeated for its lanes."""
        return np.repeat(np.array([values[index] for index in self.order], dtype=dtype), self.counts)


def encode_streams(
    sequences: Sequence[tuple[UIntArray, int]],
    *,
    scale_bits: int = DEFAULT_SCALE_BITS,
    symbols_per_lane: int = _SYMBOLS_PER_LANE,
) -> list[RansStream]:
    """Code several sequences, each with frequencies of its own, all at once.

    Args:
        sequences: (symbols, K) pairs: a non-empty 1-D array of symbols below K.
        scale_bits: 8 to 15; raised for a sequence with more than a quarter as many symbols as frequencies.
        symbols_per_lane: The number of lanes is chosen so that each codes about so many symbols, at most 4096.

    Returns:
        One stream per sequence, in order. Equal input gives equal bytes.
    """
    if not sequences:
        return []
    plans = [_plan(symbols, size, scale_bits, symbols_per_lane) for symbols, size in sequences]
    lanes = _Lanes.arrange([plan.lanes for plan in plans], [plan.padded.shape[0] for plan in plans])
    bases = np.cumsum([0, *(len(plan.frequencies) for plan in plans)]).tolist()
    base = lanes.spread(bases[:-1], np.int64)
    shift = lanes.spread([plan.scale_bits for plan in plans], np.uint64)
    frequency = np.concatenate([plan.frequencies for plan in plans]).astype(np.uint64)
    cumulative = np.concatenate([np.cumsum(plan.frequencies) - plan.frequencies for plan in plans]).astype(np.uint64)
    states = np.full(int(lanes.counts.sum()), STATE_MIN, dtype=np.uint64)
    emitted_lanes: list[IntArray] = []
    emitted_words: list[NDArray[np.uint16]] = []
    limit_shift = np.uint64(32) - shift
    # rANS is last in, first out: the encoder walks backwards so that the decoder walks forwards.
    for row in range(int(lanes.rows[0]) - 1, -1, -1):
        streams, active = lanes.active(row)
        symbols = np.concatenate([plans[index].padded[row] for index in lanes.order[:streams]])
        symbols += base[:active]
        state = states[:active]
        f = frequency[symbols]
        full = np.flatnonzero(state >= f << limit_shift[:active])
        emitted_lanes.append(full)
        emitted_words.append((state[full] & np.uint64(0xFFFF)).astype(np.uint16))
        state[full] >>= np.uint64(16)
        quotient = state // f
        state[:] = (quotient << shift[:active]) + (state - quotient * f) + cumulative[symbols]
    lane_of_word = np.concatenate(emitted_lanes[::-1])
    words = np.concatenate(emitted_words[::-1])
    stream_of_word = np.repeat(np.arange(len(plans)), lanes.counts)[lane_of_word]
    streams_out: list[RansStream | None] = [None] * len(plans)
    for position, index in enumerate(lanes.order):
        start, count = int(lanes.starts[position]), int(lanes.counts[position])
        streams_out[index] = RansStream(
            num_symbols=sequences[index][0].size,
            scale_bits=plans[index].scale_bits,
            frequencies=plans[index].frequencies,
            states=states[start : start + count].astype(np.uint32),
            words=words[stream_of_word == position],
        )
    return [stream for stream in streams_out if stream is not None]


@dataclass(frozen=True)
class _Plan:
    """A sequence prepared for coding: rows of lanes, the last row filled up with the cheapest symbol."""

    padded: IntArray
    frequencies: IntArray
    scale_bits: int

    @property
    def lanes(self) -> int:
        return int(self.padded.shape[1])


def _plan(symbols: UIntArray, size: int, scale_bits: int, symbols_per_lane: int) -> _Plan:
    counts = np.bincount(symbols, minlength=size).astype(np.int64)
    present = int(np.count_nonzero(counts))
    scale_bits = min(MAX_SCALE_BITS, max(scale_bits, (4 * present - 1).bit_length()))
    frequencies = quantize_frequencies(counts, scale_bits)
    lanes = -(-symbols.size // min(symbols_per_lane, MAX_SYMBOLS_PER_LANE))
    rows = -(-symbols.size // lanes)
    padded = np.full(rows * lanes, int(np.argmax(frequencies)), dtype=np.int64)
    padded[: symbols.size] = symbols
    return _Plan(padded.reshape(rows, lanes), frequencies, scale_bits)
