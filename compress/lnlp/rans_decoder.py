"""Decoder of the rANS streams of a container, by NumPy: many lanes and many streams at a time.

Streams are taken in groups whose tables and lanes are bounded, and their symbols are written in blocks of rows: besides
the result, memory is a constant whatever the mix of streams.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.rans import STATE_MIN, RansStream
from lite_nlp.core.errors import ContainerError

__all__ = ["NamedStream", "decode_streams"]

#: Entries in the tables of a group, eight bytes each: 512 tables of the default scale.
_GROUP_SLOTS: Final = 1 << 21

#: Lanes of a group, and of the part of a row that is decoded at once; some hundred bytes each.
_GROUP_LANES: Final = 1 << 16

#: Symbols that are gathered before they are written, four bytes each.
_BLOCK_SYMBOLS: Final = 1 << 20

Array = NDArray[Any]
IntArray = NDArray[np.int64]
UInt32Array = NDArray[np.uint32]


@dataclass(frozen=True)
class NamedStream:
    """A stream to decode.

    Attributes:
        name: Of its tensor, for messages.
        stream: The stream.
        values: (K,) array of what each symbol stands for, of one type for all streams that are decoded together.
    """

    name: str
    stream: RansStream
    values: Array


def decode_streams(streams: Iterable[NamedStream]) -> Iterator[Array]:
    """Decode streams, vectorised over the lanes of many of them.

    Args:
        streams: Taken only as far as a group reaches.

    Yields:
        The values of each stream's symbols, in order: (num_symbols,) arrays.

    Raises:
        ContainerError: If a stream is inconsistent: too few or too many words, a lane that does not end where the
            encoder began, or padding that is not the most frequent symbol. The message names the tensor.
    """
    group: list[NamedStream] = []
    slots = lanes = 0
    for named in streams:
        # A frequency of 0 takes memory too, though no slot.
        more_slots, more_lanes = max(1 << named.stream.scale_bits, len(named.values)), len(named.stream.states)
        if group and (slots + more_slots > _GROUP_SLOTS or lanes + more_lanes > _GROUP_LANES):
            yield from _decode_group(group)
            group = []
            slots = lanes = 0
        group.append(named)
        slots += more_slots
        lanes += more_lanes
    if group:
        yield from _decode_group(group)


def _decode_group(group: Sequence[NamedStream]) -> list[Array]:
    """Decode streams all at once."""
    # The longest first: the lanes that are still at work are then the first ones.
    order = sorted(range(len(group)), key=lambda index: -group[index].stream.rows)
    decoder = _GroupDecoder([group[index] for index in order])
    decoded: list[Array] = [np.empty(0)] * len(group)
    for index, output in zip(order, decoder.decode(), strict=True):
        decoded[index] = output
    return decoded


class _GroupDecoder:
    """The state of all lanes of some streams, which are sorted by their number of rows, the longest first."""

    def __init__(self, group: Sequence[NamedStream]) -> None:
        self._names = [named.name for named in group]
        self._streams = [named.stream for named in group]
        self._counts = [len(stream.states) for stream in self._streams]
        self._ends = list(accumulate(self._counts))
        self._tables = _Tables.build(group)
        self._base = self._spread(self._tables.bases, np.uint32)
        self._shift = self._spread([stream.scale_bits for stream in self._streams], np.uint32)
        self._mask = self._spread([(1 << stream.scale_bits) - 1 for stream in self._streams], np.uint32)
        self._state = np.concatenate([stream.states for stream in self._streams], dtype=np.uint32)
        owners = self._spread(range(len(group)), np.int64)
        self._words = _WordReader(self._names, [stream.words for stream in self._streams], owners)

    def decode(self) -> list[Array]:
        """The values of each stream's symbols."""
        lanes, rows = self._ends[-1], self._streams[0].rows
        outputs = [np.empty(stream.num_symbols, dtype=self._tables.values.dtype) for stream in self._streams]
        block = np.empty((min(rows, max(1, _BLOCK_SYMBOLS // lanes)), lanes), dtype=np.uint32)
        running = len(self._streams)
        for first in range(0, rows, len(block)):
            writing = running
            for row in range(first, min(rows, first + len(block))):
                while self._streams[running - 1].rows <= row:
                    running -= 1
                self._decode_row(block[row - first], self._ends[running - 1])
            for position in range(writing):
                self._write(position, block, first, outputs[position])
        self._words.finish()
        unfinished = np.flatnonzero(self._state != STATE_MIN)
        if unfinished.size:
            name = self._names[bisect_right(self._ends, int(unfinished[0]))]
            raise _damaged(name, "expected every lane to end in its start state, found another state")
        return outputs

    def _spread(self, values: Sequence[int], dtype: type[np.integer[Any]]) -> NDArray[Any]:
        """One value per stream, repeated for its lanes; a single stream, which may have many, takes no memory."""
        if len(values) == 1:
            return np.broadcast_to(dtype(values[0]), (self._counts[0],))
        return np.repeat(np.array(values, dtype=dtype), self._counts)

    def _decode_row(self, slots: UInt32Array, active: int) -> None:
        """Decode one symbol of each of the first lanes, as the place of its slot in the tables."""
        for first in range(0, active, _GROUP_LANES):
            part = slice(first, min(active, first + _GROUP_LANES))
            x = self._state[part]
            slot = x & self._mask[part]
            slot += self._base[part]
            slots[part] = slot
            step = self._tables.steps[slot]
            x >>= self._shift[part]
            x *= step >> np.uint32(16)
            x += step & np.uint32(0xFFFF)
            low = np.flatnonzero(x < STATE_MIN)
            if low.size:
                x[low] = (x[low] << np.uint32(16)) | self._words.take(low + first)

    def _write(self, position: int, block: UInt32Array, first: int, output: Array) -> None:
        """Write a stream's part of a block, whose first row is row ``first``, to its output."""
        stream, lanes = self._streams[position], self._counts[position]
        rows = min(stream.rows - first, len(block))
        if rows <= 0:
            return
        slots = block[:rows, self._ends[position] - lanes : self._ends[position]].reshape(-1)
        start = first * lanes
        kept = min(len(slots), stream.num_symbols - start)
        output[start : start + kept] = self._tables.values[slots[:kept]]
        low, high = self._tables.padding[position]
        padding = slots[kept:]
        if padding.size and (int(padding.min()) < low or int(padding.max()) >= high):
            raise _damaged(
                self._names[position], "expected the most frequent index as padding of the last row, found another"
            )


@dataclass(frozen=True)
class _Tables:
    """The tables of several streams, one behind the other.

    Attributes:
        bases: Where the table of each stream begins.
        steps: Per slot: frequency << 16 | slot - cumulative frequency.
        values: Per slot: what its symbol stands for.
        padding: The slots, as a range, of each stream's most frequent symbol, which fills its last row.
    """

    bases: list[int]
    steps: UInt32Array
    values: Array
    padding: list[tuple[int, int]]

    @classmethod
    def build(cls, group: Sequence[NamedStream]) -> "_Tables":
        bases = [0, *accumulate(1 << named.stream.scale_bits for named in group)]
        steps = np.empty(bases[-1], dtype=np.uint32)
        values = np.empty(bases[-1], dtype=group[0].values.dtype)
        padding = []
        for named, base, end in zip(group, bases[:-1], bases[1:], strict=True):
            frequencies = named.stream.frequencies
            first = np.cumsum(frequencies) - frequencies
            values[base:end] = np.repeat(named.values, frequencies)
            # Sums, not shifts: a frequency of 2 ** 15 fits as well, and one pass over the slots suffices.
            steps[base:end] = np.repeat((frequencies << 16) - first, frequencies) + np.arange(end - base)
            most = int(np.argmax(frequencies))
            padding.append((base + int(first[most]), base + int(first[most] + frequencies[most])))
        return cls(bases[:-1], steps, values, padding)


class _WordReader:
    """Hands each stream's words to its lanes in order, for all streams in one gather."""

    def __init__(self, names: Sequence[str], words: Sequence[NDArray[np.uint16]], owners: IntArray) -> None:
        self._names = names
        lengths = np.array([len(part) for part in words], dtype=np.int64)
        self._words = words[0] if len(words) == 1 else np.concatenate(words)
        self._ends = np.cumsum(lengths)
        self._next = self._ends - lengths
        self._owners = owners

    def take(self, lanes: IntArray) -> UInt32Array:
        """The next word for each of these lanes (ascending)."""
        owner = self._owners[lanes]
        taken = np.bincount(owner, minlength=len(self._next))
        before = np.cumsum(taken) - taken
        positions = (self._next - before)[owner]
        positions += np.arange(len(lanes))
        self._next += taken
        short = self._next > self._ends
        if short.any():
            raise _damaged(self._names[int(np.argmax(short))], "expected more words than there are")
        return self._words[positions].astype(np.uint32)

    def finish(self) -> None:
        """Check that every word was taken."""
        left = self._next != self._ends
        if left.any():
            position = int(np.argmax(left))
            count = int(self._ends[position] - self._next[position])
            raise _damaged(self._names[position], f"expected the words to end with the last index, found {count} more")


def _damaged(name: str, problem: str) -> ContainerError:
    return ContainerError(f"tensor {name!r}: {problem}")
