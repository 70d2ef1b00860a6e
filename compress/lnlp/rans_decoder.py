"""Decoder of the rANS streams of a container, by NumPy: many lanes and many streams at a time.

Streams are taken in groups whose tables and lanes are bounded, and their symbols are written in blocks of rows: besides
the result, memory is a constant whatever the mix of streams.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.rans import STATE_MIN, RansStream
from lite_nlp.core.errors import ContainerError

__all__ = ["DecodedStream", "NamedStream", "SymbolTables", "decode_streams"]

#: Entries in the tables of a group, eight bytes each: 1,024 tables of the default scale. With half of it a model of
#: five million weights takes two groups, and twice as many rows.
_GROUP_SLOTS: Final = 1 << 22

#: Lanes of a group, and of the part of a row that is decoded at once; some hundred bytes each.
_GROUP_LANES: Final = 1 << 16

#: Symbols that are gathered before they are written, four bytes each.
_BLOCK_SYMBOLS: Final = 1 << 20

Array = NDArray[Any]
IntArray = NDArray[np.int64]
UInt32Array = NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class SymbolTables:
    """The tables of a stream.

    Attributes:
        scale_bits: The frequencies of each table sum to ``2 ** scale_bits``.
        frequencies: (S,) of all tables, one behind the other.
        values: (S,) what each symbol stands for, of one type for all streams that are decoded together.
        choose: The table of each of ``count`` symbols from ``start`` on, as an unsigned array; left out, there is one.
    """

    scale_bits: int
    frequencies: IntArray
    values: Array
    choose: Callable[[int, int], NDArray[np.unsignedinteger[Any]]] | None = None

    @property
    def num_slots(self) -> int:
        """Entries once they are spread out."""
        return int(self.frequencies.sum())


@dataclass(frozen=True)
class NamedStream:
    """A stream to decode.

    Attributes:
        name: Of its tensor, for messages.
        stream: The stream.
        tables: Its tables.
    """

    name: str
    stream: RansStream
    tables: SymbolTables


@dataclass(frozen=True)
class DecodedStream:
    """What a stream held.

    Attributes:
        values: (num_symbols,) what its symbols stand for.
        carried: The number that it carried besides, 0 to 65,535.
    """

    values: Array
    carried: int


def decode_streams(streams: Iterable[NamedStream]) -> Iterator[DecodedStream]:
    """Decode streams, vectorised over the lanes of many of them.

    Args:
        streams: Taken only as far as a group reaches.

    Yields:
        What each of them held, in order.

    Raises:
        ContainerError: If a stream is inconsistent: too few or too many words, or a lane that does not end where the
            encoder began. The message names the tensor.
    """
    group: list[NamedStream] = []
    slots = lanes = 0
    for named in streams:
        # A frequency of 0 takes memory too, though no slot.
        more_slots = max(named.tables.num_slots, len(named.tables.values))
        more_lanes = len(named.stream.states)
        if group and (slots + more_slots > _GROUP_SLOTS or lanes + more_lanes > _GROUP_LANES):
            yield from _decode_group(group)
            group = []
            slots = lanes = 0
        group.append(named)
        slots += more_slots
        lanes += more_lanes
    if group:
        yield from _decode_group(group)


def _decode_group(group: Sequence[NamedStream]) -> list[DecodedStream]:
    """Decode streams all at once."""
    # The longest first: the lanes that are at work in a row are then the first ones, and those of rows not full.
    order = sorted(range(len(group)), key=lambda index: -group[index].stream.full_rows)
    decoded = dict(zip(order, _GroupDecoder([group[index] for index in order]).decode(), strict=True))
    return [decoded[index] for index in range(len(group))]


class _GroupDecoder:
    """The state of all lanes of some streams, which are sorted by their full rows."""

    def __init__(self, group: Sequence[NamedStream]) -> None:
        self._group = group
        self._streams = [named.stream for named in group]
        self._rows = [stream.full_rows for stream in self._streams]
        self._counts = [len(stream.states) for stream in self._streams]
        self._ends = list(accumulate(self._counts))
        self._tables = _SpreadTables.build([named.tables for named in group])
        bits = [named.tables.scale_bits for named in group]
        self._shift = self._spread(bits, np.uint32)
        self._mask = self._spread([(1 << width) - 1 for width in bits], np.uint32)
        self._state = np.concatenate([stream.states for stream in self._streams], dtype=np.uint32)
        owners = self._spread(range(len(group)), np.int64)
        self._words = _WordReader([named.name for named in group], [stream.words for stream in self._streams], owners)

    def decode(self) -> list[DecodedStream]:
        """What each stream held."""
        lanes, rows = self._ends[-1], self._rows[0] + 1
        outputs = [np.empty(stream.num_symbols, dtype=self._tables.values.dtype) for stream in self._streams]
        block = np.empty((min(rows, max(1, _BLOCK_SYMBOLS // lanes)), lanes), dtype=np.uint32)
        running = ending = len(self._streams)
        for first in range(0, rows, len(block)):
            writing = ending
            last = min(rows, first + len(block))
            for position in range(writing):
                self._choose_tables(position, block[: last - first], first)
            for row in range(first, last):
                while running and self._rows[running - 1] <= row:
                    running -= 1
                if running:
                    self._decode_lanes(block[row - first], 0, self._ends[running - 1])
                while ending and self._rows[ending - 1] <= row:
                    ending -= 1
                    start = self._ends[ending] - self._counts[ending]
                    rest = self._streams[ending].num_symbols - row * self._counts[ending]
                    if rest:
                        self._decode_lanes(block[row - first], start, start + rest)
            for position in range(writing):
                part = outputs[position][first * self._counts[position] : last * self._counts[position]]
                part[:] = self._tables.values[self._part(position, block[: last - first]).reshape(-1)[: len(part)]]
        self._words.finish()
        return [DecodedStream(output, self._carried(position)) for position, output in enumerate(outputs)]

    def _spread(self, values: Sequence[int], dtype: type[np.integer[Any]]) -> NDArray[Any]:
        """One value per stream, repeated for its lanes; a single stream, which may have many, takes no memory."""
        if len(values) == 1:
            return np.broadcast_to(dtype(values[0]), (self._counts[0],))
        return np.repeat(np.array(values, dtype=dtype), self._counts)

    def _part(self, position: int, block: UInt32Array) -> UInt32Array:
        """A stream's part of a block."""
        return block[:, self._ends[position] - self._counts[position] : self._ends[position]]

    def _choose_tables(self, position: int, block: UInt32Array, first: int) -> None:
        """Set a stream's part of a block, whose first row is row ``first``, to the places of its symbols' tables."""
        tables, count = self._group[position].tables, self._counts[position]
        part = self._part(position, block)
        base = np.uint32(self._tables.bases[position])
        if tables.choose is None:
            part[:] = base
            return
        start = first * count
        chosen = tables.choose(start, min(part.size, self._streams[position].num_symbols - start)).astype(np.uint32)
        chosen <<= np.uint32(tables.scale_bits)
        chosen += base
        full = len(chosen) // count
        part[:full] = chosen[: full * count].reshape(full, count)
        part[full : full + 1, : len(chosen) - full * count] = chosen[full * count :]

    def _decode_lanes(self, slots: UInt32Array, start: int, stop: int) -> None:
        """Decode one symbol of each of some lanes: from the place of its table to that of its slot."""
        for first in range(start, stop, _GROUP_LANES):
            part = slice(first, min(stop, first + _GROUP_LANES))
            x = self._state[part]
            slot = slots[part]
            slot += x & self._mask[part]
            step = self._tables.steps.take(slot)
            x >>= self._shift[part]
            x *= step >> np.uint32(16)
            x += step & np.uint32(0xFFFF)
            (low,) = (x < STATE_MIN).nonzero()
            if low.size:
                x[low] = (x.take(low) << np.uint32(16)) | self._words.take(low + first if first else low)

    def _carried(self, position: int) -> int:
        """The number that the end of a stream's first lane carries; that the others carry none is checked."""
        end = self._state[self._ends[position] - self._counts[position] : self._ends[position]]
        if int(end[0]) >> 17 or np.any(end[1:] != STATE_MIN):
            raise _damaged(
                self._group[position].name, "expected every lane to end in its start state, found another state"
            )
        return int(end[0]) - STATE_MIN


@dataclass(frozen=True)
class _SpreadTables:
    """The tables of several streams, one behind the other.

    Attributes:
        bases: Where the tables of each stream begin.
        steps: Per slot: frequency << 16 | slot - cumulative frequency.
        values: Per slot: what its symbol stands for.
    """

    bases: list[int]
    steps: UInt32Array
    values: Array

    @classmethod
    def build(cls, tables: Sequence[SymbolTables]) -> "_SpreadTables":
        bases = [0, *accumulate(table.num_slots for table in tables)]
        steps = np.empty(bases[-1], dtype=np.uint32)
        values = np.empty(bases[-1], dtype=tables[0].values.dtype)
        for table, base, end in zip(tables, bases[:-1], bases[1:], strict=True):
            frequencies = table.frequencies
            first = np.cumsum(frequencies) - frequencies
            values[base:end] = np.repeat(table.values, frequencies)
            # Sums, not shifts: a frequency of 2 ** 15 fits as well, and one pass over the slots suffices.
            steps[base:end] = np.repeat((frequencies << 16) - first, frequencies) + np.arange(end - base)
        return cls(bases[:-1], steps, values)


class _WordReader:
    """Hands each stream's words to its lanes in order, for all streams in one gather."""

    def __init__(self, names: Sequence[str], words: Sequence[NDArray[np.uint16]], owners: IntArray) -> None:
        self._names = names
        lengths = np.array([len(part) for part in words], dtype=np.int64)
        self._words = words[0] if len(words) == 1 else np.concatenate(words)
        if not self._words.size:
            # For lanes that ask for a word where there is none.
            self._words = np.zeros(1, np.uint16)
        self._ends = np.cumsum(lengths)
        self._next = self._ends - lengths
        self._owners = owners
        self._places = np.arange(min(len(owners), _GROUP_LANES))

    def take(self, lanes: IntArray) -> UInt32Array:
        """The next word for each of these lanes (ascending); any word where there is none: ``finish`` tells."""
        owner = self._owners.take(lanes)
        taken = np.bincount(owner, minlength=len(self._next))
        positions = (self._next - taken.cumsum() + taken).take(owner)
        positions += self._places[: len(lanes)]
        self._next += taken
        words: UInt32Array = self._words.take(positions, mode="clip").astype(np.uint32)
        return words

    def finish(self) -> None:
        """Check that every word was taken, and none beyond the last."""
        left = self._next != self._ends
        if left.any():
            position = int(np.argmax(left))
            count = int(self._ends[position] - self._next[position])
            problem = (
                f"expected the words to end with the last index, found {count} more"
                if count > 0
                else "expected more words than there are"
            )
            raise _damaged(self._names[position], problem)


def _damaged(name: str, problem: str) -> ContainerError:
    return ContainerError(f"tensor {name!r}: {problem}")
