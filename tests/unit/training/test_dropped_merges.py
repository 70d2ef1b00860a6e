"""Pairs whose merges are dropped when they are read."""

from dataclasses import replace

import numpy as np

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.tasks.translation.dropped_merges import DroppedMerges
from lite_nlp.training.batching import EpochBatches
from tests.unit.data.test_tokenizer import LINES
from tests.unit.training.tiny_task import MemorySplit

TOKENIZER = Tokenizer.train(LINES, vocab_size=400)
ROWS = [np.array(ids, dtype=np.int32) for ids in TOKENIZER.encode_batch(LINES)]
SPLIT = MemorySplit(ROWS, ROWS[::-1])


def draw(rows, *, epoch: int = 0, longest: int = 1000, seed: int = 1):
    dropped = DroppedMerges(TOKENIZER, rate=0.4, seed=seed, longest=longest)
    return dropped(*SPLIT.tokens(np.asarray(rows)), rows=np.asarray(rows), epoch=epoch)


def test_both_sides_are_the_same_text_in_other_tokens():
    rows = np.array([3, 0, 4])
    src, tgt = draw(rows)
    assert [TOKENIZER.decode(row) for row in src] == [LINES[row] for row in rows]
    assert [TOKENIZER.decode(row) for row in tgt] == [LINES[::-1][row] for row in rows]
    assert sum(map(len, src)) > sum(len(ROWS[row]) for row in rows)


def test_draws_are_those_of_the_seed_the_epoch_and_the_rows_of_a_batch():
    def tokens(rows, **options):
        return [row.tolist() for row in draw(rows, **options)[0]]

    assert tokens([1, 2]) == tokens([1, 2])
    assert tokens([1, 2]) != tokens([2, 1])[::-1]
    assert tokens([1, 2]) != tokens([1, 2], seed=2)
    assert tokens([1, 2], epoch=1) == tokens([1, 2], epoch=1)
    assert len({str(tokens([1, 2], epoch=epoch)) for epoch in range(4)}) == 4


def test_a_batch_of_the_same_rows_is_read_in_other_tokens_in_every_epoch():
    # A batch for each row, so that all epochs have the same ones.
    batches = EpochBatches(split=SPLIT, rows=np.arange(len(ROWS)), batch_tokens=1, seed=1, batches_per_step=1)
    batches = replace(batches, redraw=DroppedMerges(TOKENIZER, rate=0.4, seed=1, longest=1000))
    readings: dict[int, set[str]] = {}
    for epoch in range(5):
        for (work,) in batches.steps(epoch):
            (row,) = work.rows.tolist()
            readings.setdefault(row, set()).add(str(batches.load(work.rows, epoch).src_tokens.tolist()))
    assert len(readings) == len(ROWS)
    assert all(len(found) == 5 for row, found in readings.items() if len(LINES[row]) > 20)


def test_a_row_that_grows_beyond_the_bound_keeps_its_tokens():
    longest, many = len(ROWS[0]) + 8, np.zeros(200, dtype=np.int64)
    src, _ = draw(many, longest=longest)
    usual = [np.array_equal(row, ROWS[0]) for row in src]
    assert max(map(len, src)) <= longest
    # At this rate nearly every row grows: the usual ones are those that had grown too far.
    assert 0 < sum(usual) < 200
    free, _ = draw(many)
    assert max(map(len, free)) > longest
    assert sum(np.array_equal(row, ROWS[0]) for row in free) < sum(usual)
