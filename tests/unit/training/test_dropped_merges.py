"""Pairs whose merges are dropped when they are read."""

import numpy as np

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.tasks.translation.dropped_merges import DroppedMerges
from tests.unit.data.test_tokenizer import LINES
from tests.unit.training.tiny_task import MemorySplit

TOKENIZER = Tokenizer.train(LINES, vocab_size=400)
ROWS = [np.array(ids, dtype=np.int32) for ids in TOKENIZER.encode_batch(LINES)]


def dropped(*, longest: int = 1000, seed: int = 1) -> DroppedMerges:
    split = MemorySplit(ROWS, ROWS[::-1])
    return DroppedMerges(split, TOKENIZER, rate=0.4, seed=seed, longest=longest)


def test_both_sides_are_the_same_text_in_other_tokens():
    split = dropped()
    assert len(split) == len(LINES)
    assert split.src_lengths.tolist() == [len(row) for row in ROWS]
    rows = np.array([3, 0, 4])
    src, tgt = split.tokens(rows)
    assert [TOKENIZER.decode(row) for row in src] == [LINES[row] for row in rows]
    assert [TOKENIZER.decode(row) for row in tgt] == [LINES[::-1][row] for row in rows]
    assert sum(map(len, src)) > sum(len(ROWS[row]) for row in rows)


def test_draws_are_those_of_the_seed_and_the_rows_of_a_batch():
    def tokens(rows, seed=1):
        return [row.tolist() for row in dropped(seed=seed).tokens(np.array(rows))[0]]

    assert tokens([1, 2]) == tokens([1, 2])
    assert tokens([1, 2]) != tokens([2, 1])[::-1]
    assert tokens([1, 2]) != tokens([1, 2], seed=2)


def test_a_row_that_grows_beyond_the_bound_keeps_its_tokens():
    longest = len(ROWS[0]) + 8
    src, _ = dropped(longest=longest).tokens(np.zeros(200, dtype=np.int64))
    usual = [np.array_equal(row, ROWS[0]) for row in src]
    assert max(map(len, src)) <= longest
    # At this rate nearly every row grows: the usual ones are those that had grown too far.
    assert 0 < sum(usual) < 200
    free, _ = dropped().tokens(np.zeros(200, dtype=np.int64))
    assert max(map(len, free)) > longest
    assert sum(np.array_equal(row, ROWS[0]) for row in free) < sum(usual)
