import numpy as np
import pytest

from lite_nlp.core.errors import TrainingError
from lite_nlp.tasks.translation.training import TranslationObjective
from lite_nlp.tasks.translation.truncation import TruncatedRows
from tests.unit.training.tiny_task import MemorySplit, make_config


def rows(*lengths):
    return [np.arange(3, 3 + length, dtype=np.int32) for length in lengths]


def split():
    """Sources of 1, 5 and 9 tokens, targets of 6, 2 and 7."""
    return MemorySplit(rows(1, 5, 9), rows(6, 2, 7))


def test_rows_end_after_the_bound():
    cut = TruncatedRows(split(), max_tokens=5)
    assert len(cut) == 3
    assert cut.src_lengths.tolist() == [1, 5, 5]
    assert cut.tgt_lengths.tolist() == [5, 2, 5]
    assert (cut.cut_sources, cut.cut_targets) == (1, 2)
    src, tgt = cut.tokens(np.array([2, 0]))
    assert [row.tolist() for row in src] == [[3, 4, 5, 6, 7], [3]]
    assert [row.tolist() for row in tgt] == [[3, 4, 5, 6, 7], [3, 4, 5, 6, 7]]


def make_objective(**training):
    return TranslationObjective(
        config=make_config(**training), train=split(), valid=split(), languages={"src": "a", "tgt": "b"}
    )


@pytest.mark.parametrize("name", ["train", "valid"])
def test_nothing_is_left_out_and_it_is_said_what_is_cut(name):
    objective, said = make_objective(max_tokens=5, truncate=True), []
    batches = objective.batches(name, batches_per_step=1, say=said.append)
    loaded = [batches.load(work.rows) for step in batches.steps(0) for work in step]
    assert sum(len(batch) for batch in loaded) == 3
    # 1 + 5 + 5 source tokens, 5 + 2 + 5 target tokens, and one end mark each.
    assert sum(int(batch.src_mask.sum()) for batch in loaded) == 14
    assert sum(batch.num_target_tokens for batch in loaded) == 15
    spoken = {"train": "training", "valid": "validation"}[name]
    assert said == [f"{spoken} split: 1 sources and 2 targets of 3 pairs cut off after 5 tokens"]


def test_without_it_long_pairs_are_left_out():
    objective, said = make_objective(max_tokens=6), []
    objective.batches("train", batches_per_step=1, say=said.append)
    assert said == ["training split: 1 of 3 pairs left out, longer than 6 tokens"]
    assert "truncated" not in objective.facts()
    with pytest.raises(TrainingError, match="expected at least one pair of at most 4 tokens a side, found none"):
        make_objective(max_tokens=4).batches("train", batches_per_step=1, say=said.append)


def test_metrics_count_what_is_cut():
    assert make_objective(max_tokens=5, truncate=True).facts() == {
        "languages": {"src": "a", "tgt": "b"},
        "train_pairs": 3,
        "truncated": {"max_tokens": 5, "sources": 1, "targets": 2},
    }


def test_a_run_is_not_resumed_with_another_bound():
    assert (
        make_objective(max_tokens=5, truncate=True).fingerprint()
        != make_objective(max_tokens=6, truncate=True).fingerprint()
    )
