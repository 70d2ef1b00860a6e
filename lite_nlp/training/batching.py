"""Batches by process and step: whole epochs of batches, cut into steps and distributed over the processes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lite_nlp.data.pairs.batches import Batch, collate, make_batches

__all__ = ["EpochBatches", "Redraw", "Rows", "SplitRows", "Tokens", "Work", "deal", "load_ahead", "short_rows"]

#: Row numbers of one batch.
Rows = npt.NDArray[np.int64]

#: Token ids of each row.
Tokens = list[npt.NDArray[np.int32]]

S = TypeVar("S")
T = TypeVar("T")


class SplitRows(Protocol):
    """The part of a data split that training reads."""

    @property
    def src_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens per source row, without special tokens."""

    @property
    def tgt_lengths(self) -> npt.NDArray[np.int32]:
        """(rows,) tokens per target row, without special tokens."""

    def __len__(self) -> int: ...

    def tokens(self, indices: Rows) -> tuple[Tokens, Tokens]:
        """Source and target token ids of the rows, without special tokens."""


@dataclass(frozen=True)
class Work:
    """One batch of one step.

    Attributes:
        slot: Position of the batch in its step, over all processes; random numbers are drawn by it.
        rows: Row numbers in the split.
    """

    slot: int
    rows: Rows


def short_rows(split: SplitRows, *, max_tokens: int) -> Rows:
    """Numbers of the rows with at most ``max_tokens`` tokens on either side."""
    short = (split.src_lengths <= max_tokens) & (split.tgt_lengths <= max_tokens)
    return np.flatnonzero(short).astype(np.int64)


class Redraw(Protocol):
    """Other tokens for the rows of a batch whenever an epoch reads them."""

    def __call__(self, src: Tokens, tgt: Tokens, *, rows: Rows, epoch: int) -> tuple[Tokens, Tokens]:
        """Tokens of both sides in place of ``src`` and ``tgt``, which are those of ``rows``: a function of all four."""


@dataclass(frozen=True, kw_only=True)
class EpochBatches:
    """The batches of any epoch, a pure function of the seed and the epoch.

    Attributes:
        split: The split with the rows.
        rows: Numbers of the rows to use.
        batch_tokens: Bound of one batch, padding included.
        seed: Seed of the order.
        batches_per_step: Batches in an optimizer step over all processes.
        shuffle: Whether the order changes from epoch to epoch.
        redraw: Other tokens for the rows that are read; None keeps the split's.
    """

    split: SplitRows
    rows: Rows
    batch_tokens: int
    seed: int
    batches_per_step: int
    shuffle: bool = True
    redraw: Redraw | None = None

    def load(self, rows: Rows, epoch: int = 0) -> Batch:
        """Read and pad the rows of a batch of an epoch."""
        src, tgt = self.split.tokens(rows)
        return collate(*((src, tgt) if self.redraw is None else self.redraw(src, tgt, rows=rows, epoch=epoch)))

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch; the last may have fewer batches than the others, so that each row is read once."""
        batches = make_batches(
            self.split.src_lengths[self.rows],
            self.split.tgt_lengths[self.rows],
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
        )
        return [
            [
                Work(slot=slot, rows=self.rows[batch])
                for slot, batch in enumerate(batches[start : start + self.batches_per_step])
            ]
            for start in range(0, len(batches), self.batches_per_step)
        ]

    def endless_rows(self) -> Iterator[Rows]:
        """The rows of each batch of endless epochs, one batch after the other."""
        return (rows for _, rows in self._endless())

    def endless(self) -> Iterator[Batch]:
        """The batches of endless epochs; the same at every call."""
        return (self.load(rows, epoch) for epoch, rows in self._endless())

    def _endless(self) -> Iterator[tuple[int, Rows]]:
        return ((epoch, work.rows) for epoch in count() for step in self.steps(epoch) for work in step)


def deal(step: list[Work], *, process: int, processes: int) -> list[Work]:
    """One process's share of a step, possibly empty; the shares of all processes make up the step."""
    return step[process::processes]


def load_ahead(load: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """``load(item)`` of all items in order, each loaded in a thread while the previous one is in use."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending: Future[T] | None = None
        for item in items:
            following = pool.submit(load, item)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()
