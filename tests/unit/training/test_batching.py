from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest

from lite_nlp.training.batching import EpochBatches, Tokens, deal, load_ahead, short_rows

from .tiny_task import make_split


def epoch_batches(batches_per_step: int) -> EpochBatches:
    split = make_split(100, seed=5)
    rows = short_rows(split, max_tokens=4)
    return EpochBatches(split=split, rows=rows, batch_tokens=32, seed=7, batches_per_step=batches_per_step)


def test_every_row_is_in_exactly_one_batch_of_an_epoch() -> None:
    batches = epoch_batches(3)
    steps = batches.steps(2)
    rows = np.concatenate([work.rows for step in steps for work in step])
    assert sorted(rows) == batches.rows.tolist()
    assert all(len(step) == 3 for step in steps[:-1])
    assert 1 <= len(steps[-1]) <= 3


def test_rows_are_left_out_by_the_longer_side() -> None:
    split = make_split(100, seed=5)
    split.tgt[0] = np.arange(3, 10, dtype=np.int32)
    rows = short_rows(split, max_tokens=4)
    assert 0 not in rows
    assert all(len(split.src[row]) <= 4 and len(split.tgt[row]) <= 4 for row in rows)


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_processes_share_out_a_step(processes: int) -> None:
    steps = epoch_batches(4).steps(0)
    assert max(map(len, steps)) == 4
    for step in steps:
        parts = [deal(step, process=process, processes=processes) for process in range(processes)]
        assert sorted(work.slot for part in parts for work in part) == list(range(len(step)))


def test_batches_are_the_same_cut_into_steps_of_any_size() -> None:
    def flat(size: int) -> list[list[int]]:
        return [work.rows.tolist() for step in epoch_batches(size).steps(1) for work in step]

    assert flat(1) == flat(2) == flat(5)


def test_a_batch_holds_its_rows() -> None:
    batches = epoch_batches(1)
    rows, (_, tgt) = batches.rows[[4, 2]], batches.split.tokens(batches.rows[[4, 2]])
    assert batches.load(rows).num_target_tokens == len(tgt[0]) + len(tgt[1]) + 2


def test_a_batch_is_drawn_anew_in_every_epoch_and_alike_in_one() -> None:
    seen: list[tuple[int, list[int]]] = []

    def redraw(src: Tokens, tgt: Tokens, *, rows: npt.NDArray[np.int64], epoch: int) -> tuple[Tokens, Tokens]:
        seen.append((epoch, rows.tolist()))
        return [row[:1] for row in src], [row[:epoch] for row in tgt]

    batches = replace(epoch_batches(2), redraw=redraw)
    works = [work for step in batches.steps(1) for work in step]
    loaded = [batches.load(work.rows, 1) for work in works]
    assert seen == [(1, work.rows.tolist()) for work in works]
    # One token and the end mark of each side.
    assert all(batch.num_target_tokens == 2 * len(batch) for batch in loaded)
    seen.clear()
    first = sum(map(len, batches.steps(0)))
    list(islice(batches.endless(), first + 2))
    assert [epoch for epoch, _ in seen] == [0] * first + [1, 1]


def test_loading_ahead_keeps_the_order_and_passes_errors_on() -> None:
    assert list(load_ahead(lambda number: number * 2, range(5))) == [0, 2, 4, 6, 8]
    assert list(load_ahead(str, [])) == []
    loaded = load_ahead(lambda number: 6 // number, [2, 1, 0])
    assert [next(loaded), next(loaded)] == [3, 6]
    with pytest.raises(ZeroDivisionError):
        next(loaded)
