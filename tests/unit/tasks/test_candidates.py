"""The targets that a student draws from a teacher's translations: which, with what weights, and how often."""

import tracemalloc
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from lite_nlp.core.errors import UsageError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.pairs.storage import Split, load_split, write_split
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.translate import Alternative
from lite_nlp.tasks.distillation import SequenceTargets
from lite_nlp.tasks.translation.candidates import Candidates, DrawnBatches, choose_candidates
from lite_nlp.training.batching import EpochBatches, short_rows

PAIRS = [("one", "eins zwei drei vier"), ("two", "zwei"), ("three", "drei")]
FOUND = [
    [Alternative("vier", -1.0), Alternative("eins zwei drei", -2.0), Alternative("eins zwei drei vier", -3.0)],
    [Alternative("zwei", -0.5), Alternative("zweizwei", -4.0)],
    [],
]
TOKENIZER = Tokenizer.train([text for pair in PAIRS for text in pair] * 3, vocab_size=280)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    path: Path = tmp_path_factory.mktemp("split") / "train"
    write_split(path, PAIRS, TOKENIZER)
    return load_split(path, "train")


def choose(split: Split, **targets: object) -> Candidates:
    options = SequenceTargets(beam=3, **targets)  # type: ignore[arg-type]
    return choose_candidates(split, FOUND, TOKENIZER, options, progress=SilentProgress())


def texts(candidates: Candidates) -> list[str]:
    _, targets = candidates.tokens(np.arange(len(candidates)))
    return [TOKENIZER.decode(row.tolist()) for row in targets]


def test_the_best_hypothesis_alone_is_the_default(split: Split) -> None:
    candidates = choose(split)
    assert texts(candidates) == ["vier", "zwei"]
    assert candidates.sources.tolist() == [0, 1]
    assert candidates.weights.tolist() == [1.0, 1.0]
    sources, _ = candidates.tokens(np.array([1, 0]))
    assert [TOKENIZER.decode(row.tolist()) for row in sources] == ["two", "one"]
    assert candidates.tgt_lengths.tolist() == [len(TOKENIZER.encode(text)) for text in ("vier", "zwei")]
    assert candidates.src_lengths.tolist() == [len(TOKENIZER.encode(text)) for text in ("one", "two")]


@pytest.mark.parametrize("reference_weight", [0.0, 0.25])
def test_weights_of_the_n_best_are_their_probabilities_and_sum_to_one(split: Split, reference_weight: float) -> None:
    candidates = choose(split, n_best=3, reference_weight=reference_weight)
    sums = np.bincount(candidates.sources, candidates.weights)
    assert sums[sums > 0].tolist() == pytest.approx([1.0] * (3 if reference_weight else 2))
    of_first = candidates.weights[candidates.sources == 0]
    probabilities = np.exp([-1.0, -2.0, -3.0])
    expected = (1 - reference_weight) * probabilities / probabilities.sum()
    assert of_first[:3] == pytest.approx(expected)
    assert of_first[3:].tolist() == ([reference_weight] if reference_weight else [])


def test_a_source_without_hypotheses_has_its_reference_where_that_counts(split: Split) -> None:
    candidates = choose(split, reference_weight=0.4)
    assert [text for text, row in zip(texts(candidates), candidates.sources, strict=True) if row == 2] == ["drei"]
    assert candidates.weights[candidates.sources == 2].tolist() == [1.0]


def test_interpolation_takes_the_hypothesis_nearest_to_the_reference(split: Split) -> None:
    assert texts(choose(split, n_best=3, interpolation=True)) == ["eins zwei drei vier", "zwei"]
    # Only of those that are asked for.
    assert texts(choose(split, n_best=2, interpolation=True)) == ["eins zwei drei", "zwei"]
    assert choose(split, n_best=3, interpolation=True).weights.tolist() == [1.0, 1.0]


def test_a_hypothesis_that_is_next_to_impossible_is_left_out(split: Split) -> None:
    found = [[Alternative("eins", -1.0), Alternative("zwei", -2000.0)], *FOUND[1:]]
    options = SequenceTargets(beam=3, n_best=3)
    candidates = choose_candidates(split, found, TOKENIZER, options, progress=SilentProgress())
    assert candidates.weights[candidates.sources == 0].tolist() == [1.0]


def test_targets_of_a_large_split_are_never_held_as_numbers_of_python() -> None:
    words = [f"word{number}" for number in range(100)]
    tokenizer = Tokenizer.train([" ".join(words)] * 3, vocab_size=600)
    text = " ".join(words[:30])
    rows = 10_000

    class Repeated:
        src_lengths = np.ones(rows, dtype=np.int32)

        def __len__(self) -> int:
            return rows

        def texts(self, indices: range) -> tuple[list[str], list[str]]:
            return [""] * len(indices), [text] * len(indices)

    found = [[Alternative(text, -1.0)]] * rows
    tracemalloc.start()
    try:
        candidates = choose_candidates(
            cast("Split", Repeated()), found, tokenizer, SequenceTargets(), progress=SilentProgress()
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Twice 4 bytes a token, a hundred a row, and a chunk of rows as lists; lists of all would take 40 a token.
    assert peak < 20 * int(candidates.tgt_lengths.sum(dtype=np.int64))


def batches(candidates: Candidates, *, max_tokens: int = 100, seed: int = 1) -> DrawnBatches:
    every = EpochBatches(
        split=candidates,
        rows=short_rows(candidates, max_tokens=max_tokens),
        batch_tokens=1_000,
        seed=seed,
        batches_per_step=1,
    )
    return DrawnBatches(every=every, candidates=candidates)


def drawn(found: DrawnBatches, epoch: int) -> list[int]:
    return sorted(row for step in found.steps(epoch) for work in step for row in work.rows.tolist())


def test_an_epoch_reads_each_source_once_with_a_target_drawn_by_its_weight(split: Split) -> None:
    candidates = choose(split, n_best=3, reference_weight=0.2)
    found, epochs = batches(candidates), 4_000
    counts = np.zeros(len(candidates))
    for epoch in range(epochs):
        rows = drawn(found, epoch)
        assert candidates.sources[rows].tolist() == [0, 1, 2]
        counts[rows] += 1
    # Four standard deviations of the rarest.
    assert counts / epochs == pytest.approx(candidates.weights, abs=0.032)


def test_the_draws_are_a_function_of_seed_and_epoch(split: Split) -> None:
    candidates = choose(split, n_best=3)
    first, again, other = (batches(candidates, seed=seed) for seed in (1, 1, 2))
    seen = [drawn(first, epoch) for epoch in range(20)]
    assert seen == [drawn(again, epoch) for epoch in range(20)] != [drawn(other, epoch) for epoch in range(20)]
    assert len({tuple(rows) for rows in seen}) > 1


def test_targets_that_are_too_long_leave_their_weight_to_the_others(split: Split) -> None:
    candidates = choose(split, n_best=3)
    short = int(candidates.tgt_lengths[0])
    found = batches(candidates, max_tokens=short)
    kept = set(short_rows(candidates, max_tokens=short).tolist())
    assert 0 in kept
    assert not {1, 2} & kept
    assert all(set(drawn(found, epoch)) <= kept for epoch in range(50))
    assert all(0 in drawn(found, epoch) for epoch in range(50))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, "--beam: expected 1 to 256, found 0"),
        ({"beam": 257}, "--beam: expected 1 to 256, found 257"),
        ({"n_best": 6}, "--n-best: expected 1 to 5, found 6"),
        ({"n_best": 0}, "--n-best: expected 1 to 5, found 0"),
        ({"interpolation": True}, "--interpolation: expected --n-best of at least 2 to choose from, found 1"),
        ({"reference_weight": 1.0}, "--reference-weight: expected 0 to less than 1"),
        ({"reference_weight": float("nan")}, "--reference-weight: expected 0 to less than 1"),
    ],
)
def test_values_out_of_range(values: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SequenceTargets(**values)  # type: ignore[arg-type]
