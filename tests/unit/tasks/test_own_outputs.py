"""Pairs to tune on whose targets are what the model says."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lite_nlp.compress.work import Work
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.tasks.translation.own_outputs import with_own_outputs
from lite_nlp.training.batching import EpochBatches
from tests.unit.training.tiny_task import MemorySplit

SOURCES = [f"{'sea ' * (1 + number % 7)}boat {number}" for number in range(60)]
REFERENCES = [f"Boot {number}" for number in range(60)]

TOKENIZER = Tokenizer.train([*SOURCES, *REFERENCES, *map(str.upper, SOURCES)], vocab_size=300)


def _encoded(texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
    return [np.array(row, dtype=np.int32) for row in TOKENIZER.encode_batch(texts)]


class Model:
    """Says the source in capitals, or what is set for it; remembers what it was asked."""

    def __init__(self, **said: str) -> None:
        self.said = said
        self.asked: list[str] = []

    def __call__(self, sources: Sequence[str]) -> list[str]:
        self.asked += sources
        return [self.said.get(source.replace(" ", "_"), source.upper()) for source in sources]


SPLIT = MemorySplit(_encoded(SOURCES), _encoded(REFERENCES))
#: The first two are not to be tuned on.
PAIRS = EpochBatches(split=SPLIT, rows=np.arange(2, 60), batch_tokens=120, seed=1, batches_per_step=1)


def taught(model: Model, *, steps: int = 1000, longest: int = 128, work: Work | None = None) -> EpochBatches:
    return with_own_outputs(
        PAIRS,
        steps=steps,
        longest=longest,
        texts=lambda rows: [SOURCES[row] for row in rows],
        translate=model,
        tokenizer=TOKENIZER,
        keep=work.keep if work else lambda name, make: make(),
        progress=SilentProgress(),
    )


def said(batch: Batch) -> list[tuple[str, ...]]:
    sides = (batch.src_tokens.tolist(), batch.labels.tolist())
    return [
        tuple(TOKENIZER.decode([number for number in row if number > 2]) for row in rows)
        for rows in zip(*sides, strict=True)
    ]


def test_every_source_has_what_the_model_says_of_it() -> None:
    model = Model()
    found = taught(model)
    per_epoch = len(found.steps(0))
    read = [pair for batch in islice(found.endless(), per_epoch) for pair in said(batch)]
    # Each once an epoch.
    assert sorted(read) == sorted((source, source.upper()) for source in SOURCES[2:])
    assert sorted(model.asked) == sorted(SOURCES[2:])


def test_as_many_sources_as_the_steps_read() -> None:
    model = Model()
    found = taught(model, steps=2)
    wanted = {row for step in PAIRS.steps(0)[:2] for work in step for row in work.rows.tolist()}
    assert len(wanted) < 50
    assert {SOURCES[row] for row in wanted} == set(model.asked)
    assert len(found.rows) == len(wanted)


def test_what_was_translated_is_kept(tmp_path: Path) -> None:
    first = taught(Model(), work=Work(tmp_path / "work", "key"))
    again = Model()
    second = taught(again, work=Work(tmp_path / "work", "key"))
    assert not again.asked
    batches = [said(next(found.endless())) for found in (first, second)]
    assert batches[0] == batches[1]


def test_long_outputs_and_empty_ones_are_left_out() -> None:
    model = Model(sea_sea_sea_boat_2="", sea_sea_sea_sea_boat_3="BOAT " * 100)
    found = taught(model, longest=64)
    read = {source for batch in islice(found.endless(), 40) for source, _ in said(batch)}
    assert read == set(SOURCES[4:])


def test_a_model_that_says_nothing_cannot_be_tuned_on_it() -> None:
    with pytest.raises(DataError, match="expected the model to say 1 to 1 tokens of some of 58 training sources"):
        taught(Model(), longest=1)
