import numpy as np
import pytest

from lite_nlp.training.batching import EpochBatches, deal, load_ahead, load_batch, short_rows

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
    for step in epoch_batches(4).steps(0):
        parts = [deal(step, process=process, processes=processes) for process in range(processes)]
        assert sorted(work.slot for part in parts for work in part) == list(range(len(step)))


def test_batches_are_the_same_cut_into_steps_of_any_size() -> None:
    def flat(size: int) -> list[list[int]]:
        return [work.rows.tolist() for step in epoch_batches(size).steps(1) for work in step]

    assert flat(1) == flat(2) == flat(5)


def test_a_batch_holds_its_rows() -> None:
    split = make_split(10, seed=1)
    batch = load_batch(split, np.array([4, 2]))
    assert batch.num_target_tokens == len(split.tgt[4]) + len(split.tgt[2]) + 2


def test_loading_ahead_keeps_the_order_and_passes_errors_on() -> None:
    assert list(load_ahead(lambda number: number * 2, range(5))) == [0, 2, 4, 6, 8]
    assert list(load_ahead(str, [])) == []
    loaded = load_ahead(lambda number: 6 // number, [2, 1, 0])
    assert [next(loaded), next(loaded)] == [3, 6]
    with pytest.raises(ZeroDivisionError):
        next(loaded)
