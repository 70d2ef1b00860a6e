import numpy as np
import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.data.pairs.batches import collate, make_batches


def random_lengths(seed, rows=700):
    rng = np.random.default_rng(seed)
    src = rng.geometric(0.08, rows).astype(np.int32)
    tgt = np.maximum(0, src + rng.integers(-3, 4, rows)).astype(np.int32)
    return src, tgt


def padded_size(batch, src, tgt):
    return len(batch) * (int(src[batch].max()) + 1 + int(tgt[batch].max()) + 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch_tokens", [1, 60, 500, 4096])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_row_once_and_the_bound_holds(seed, batch_tokens, shuffle):
    src, tgt = random_lengths(seed)
    batches = make_batches(src, tgt, batch_tokens=batch_tokens, seed=seed, epoch=3, shuffle=shuffle)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(src)))
    for batch in batches:
        assert batch.dtype == np.int64
        assert len(batch) == 1 or padded_size(batch, src, tgt) <= batch_tokens


def test_a_row_above_the_bound_is_its_own_batch():
    src, tgt = np.array([3, 500, 3]), np.array([3, 2, 3])
    batches = make_batches(src, tgt, batch_tokens=40, seed=0, epoch=0, shuffle=True)
    assert sorted(batch.tolist() for batch in batches if 1 in batch) == [[1]]


def test_the_bound_counts_one_special_token_per_side():
    src, tgt = np.full(4, 4), np.full(4, 4)
    # A row is (4 + 1) + (4 + 1) = 10 positions.
    assert [len(b) for b in make_batches(src, tgt, batch_tokens=20, seed=0, epoch=0, shuffle=False)] == [2, 2]
    assert [len(b) for b in make_batches(src, tgt, batch_tokens=19, seed=0, epoch=0, shuffle=False)] == [1, 1, 1, 1]


def as_lists(batches):
    return [batch.tolist() for batch in batches]


def test_order_depends_on_seed_and_epoch_alone():
    src, tgt = random_lengths(1)
    options = {"batch_tokens": 300, "shuffle": True}
    first = as_lists(make_batches(src, tgt, seed=5, epoch=2, **options))
    assert first == as_lists(make_batches(src.astype(np.int64), tgt.copy(), seed=5, epoch=2, **options))
    assert first != as_lists(make_batches(src, tgt, seed=5, epoch=3, **options))
    assert first != as_lists(make_batches(src, tgt, seed=6, epoch=2, **options))
    # Not only the order of the batches changes, but who is in a batch with whom.
    other = as_lists(make_batches(src, tgt, seed=5, epoch=3, **options))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in other}


def test_without_shuffling_rows_go_from_short_to_long():
    src, tgt = random_lengths(2)
    batches = make_batches(src, tgt, batch_tokens=300, seed=1, epoch=1, shuffle=False)
    assert np.all(np.diff(src[np.concatenate(batches)]) >= 0)
    assert as_lists(batches) == as_lists(make_batches(src, tgt, batch_tokens=300, seed=9, epoch=9, shuffle=False))


def test_similar_lengths_are_together():
    src, tgt = random_lengths(3, rows=20_000)
    batches = make_batches(src, tgt, batch_tokens=4096, seed=0, epoch=0, shuffle=True)
    used = int(src.sum() + tgt.sum()) + 2 * len(src)
    padded = sum(padded_size(batch, src, tgt) for batch in batches)
    assert used / padded > 0.9


def test_no_rows_make_no_batches():
    empty = np.zeros(0, dtype=np.int32)
    assert make_batches(empty, empty, batch_tokens=10, seed=0, epoch=0, shuffle=True) == []


def test_wrong_arguments_are_named():
    lengths = np.ones(3, dtype=np.int32)
    with pytest.raises(DataError, match="expected as many source as target rows, found 3, 2"):
        make_batches(lengths, lengths[:2], batch_tokens=10, seed=0, epoch=0, shuffle=True)
    with pytest.raises(DataError, match="batch_tokens: expected at least 1, found 0"):
        make_batches(lengths, lengths, batch_tokens=0, seed=0, epoch=0, shuffle=True)


def test_collate_by_hand():
    batch = collate([[5, 6, 7], [8]], [np.array([9], dtype=np.int32), np.array([4, 3], dtype=np.int32)])
    assert batch.src_tokens.tolist() == [[5, 6, 7, EOS_ID], [8, EOS_ID, PAD_ID, PAD_ID]]
    assert batch.src_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.tgt_tokens.tolist() == [[BOS_ID, 9, PAD_ID], [BOS_ID, 4, 3]]
    assert batch.labels.tolist() == [[9, EOS_ID, PAD_ID], [4, 3, EOS_ID]]
    assert batch.num_target_tokens == 5
    assert len(batch) == 2


def test_collate_properties_on_random_rows():
    rng = np.random.default_rng(4)
    for _ in range(50):
        rows = int(rng.integers(1, 9))
        src, tgt = ([rng.integers(3, 50, rng.integers(0, 12)).astype(np.int32) for _ in range(rows)] for _ in range(2))
        batch = collate(src, tgt)
        assert batch.src_tokens.shape == batch.src_mask.shape == (rows, max(map(len, src)) + 1)
        assert batch.tgt_tokens.shape == batch.labels.shape == (rows, max(map(len, tgt)) + 1)
        assert {a.dtype for a in (batch.src_tokens, batch.tgt_tokens, batch.labels)} == {np.dtype(np.int64)}
        assert np.array_equal(batch.src_mask, batch.src_tokens != PAD_ID)
        for row in range(rows):
            n = len(tgt[row])
            assert batch.src_tokens[row, : len(src[row])].tolist() == src[row].tolist()
            assert batch.src_tokens[row, len(src[row])] == EOS_ID
            assert batch.tgt_tokens[row, : n + 1].tolist() == [BOS_ID, *tgt[row].tolist()]
            assert batch.labels[row, : n + 1].tolist() == [*tgt[row].tolist(), EOS_ID]
            assert not batch.tgt_tokens[row, n + 1 :].any()
            assert not batch.labels[row, n + 1 :].any()


def test_collate_refuses_unequal_rows():
    with pytest.raises(DataError, match="found 1 and 2"):
        collate([[5]], [[5], [6]])
    with pytest.raises(DataError, match="found 0 and 0"):
        collate([], [])
