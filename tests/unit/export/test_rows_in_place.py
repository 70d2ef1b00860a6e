"""A decoder step of several rows whose state stays in the program: traced, lowered, and in searches."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.search import SearchOptions, search, search_best, stream_search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime.engine import EngineState, RowsEngine
from lite_nlp.export.runtime.executorch import ExecuTorchRunner
from lite_nlp.export.runtime.executorch_rows import ResidentRows
from lite_nlp.export.runtime.layout import Bounds, Layout, StateTensor
from lite_nlp.export.searches.growing_state import state_example
from lite_nlp.export.searches.rows_in_place_step import RowsInPlaceStep
from tests.unit.export.conftest import BOUNDS, build_model_with, describe
from tests.unit.export.test_in_place import FORMS, lowered


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_rows_that_extend_one_another_equal_the_models(options: dict[str, Any]) -> None:
    """Rows are left out, doubled and exchanged between steps, as in a search; nothing is moved in the caches."""
    model = build_model_with(**options)
    fused = FusedDecoder(model)
    example = state_example(fused)
    step = RowsInPlaceStep(fused, example.layout, example.growing, BOUNDS)
    tokens, mask = torch.arange(3, 27).reshape(2, 12), torch.ones(2, 12, dtype=torch.bool)
    mask[1, 9:] = False
    with torch.no_grad():
        memory = model.encode(tokens, mask)
        source = fused.init_state(memory, mask, 0)
        # The second search finds what the first has left in the program.
        for _ in range(2):
            state = model.init_state(memory, mask, 9)
            sentences = torch.tensor([0, 1])
            ancestors, used, parents = torch.zeros(2, 0, dtype=torch.int64), 0, torch.full((2,), step.most_rows)
            for place, kept in enumerate(([0, 1], [0, 0, 1], [2, 0, 0, 1], [3, 2, 1], [1, 1, 2, 0], [2], [0])):
                rows = torch.tensor(kept)
                state = {name: value[rows] for name, value in state.items()}
                sentences, ancestors, parents = sentences[rows], ancestors[rows], parents[rows]
                ancestors = torch.cat([ancestors, used + torch.arange(len(rows))[:, None]], dim=1)
                fed = (3 + 5 * place + torch.arange(len(rows))) % 30
                expected, state = model.decode_step(fed, state)
                given = tuple(source[tensor.name][sentences] for tensor in example.layout if not tensor.changes)
                found = step(fed, parents, ancestors, torch.tensor([used]), given)
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
                used, parents = used + len(rows), torch.arange(len(rows))


def _engine() -> RowsEngine:
    _, traced, program = lowered()
    manifest = describe(traced)
    return RowsEngine(manifest, ExecuTorchRunner(manifest.layout, program.content, threads=1, rows_in_place=True))


@pytest.mark.parametrize("beam", [2, 3, BOUNDS.executorch_batch, BOUNDS.executorch_batch + 1])
def test_beams_of_all_sizes_give_the_models_tokens(source_rows: list[list[int]], beam: int) -> None:
    """The last takes more rows than a program keeps; the others as many sentences at once as have room."""
    model, engine = TorchStepModel(lowered()[0]), _engine()
    options = SearchOptions(max_steps=14, beam_size=beam, no_repeat_ngram=3)
    assert compare_engines(Reference(model, source_rows), engine, options).disagreements == ()
    found = search_best(engine, source_rows[:3], options, count=2)
    expected = search_best(model, source_rows[:3], options, count=2)
    for one, other in zip(found, expected, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert [hypothesis.score for hypothesis in one] == pytest.approx([each.score for each in other], abs=1e-5)


def test_batches_of_all_sizes_give_the_models_tokens(source_rows: list[list[int]]) -> None:
    model, engine = TorchStepModel(lowered()[0]), _engine()
    for batch in (7, 2, BOUNDS.executorch_batch + 3):
        options = SearchOptions(max_steps=20)
        assert compare_engines(Reference(model, source_rows), engine, options, batch=batch).disagreements == ()


def test_slots_of_rows_whose_state_is_kept() -> None:
    assert _engine().greedy_slots(np.array([[3, 2], [2, 2]]), np.array([9, 5])) == [1, 2, 1]


def test_two_searches_by_turns_do_not_meet(source_rows: list[list[int]]) -> None:
    """A program keeps the state of one search: the other's tokens are fed again."""
    engine, options = _engine(), SearchOptions(max_steps=8, beam_size=3)
    expected = [search(engine, [row], options)[0].tokens for row in source_rows[:2]]
    streams = {place: stream_search(engine, row, options) for place, row in enumerate(source_rows[:2])}
    latest: dict[int, list[int]] = {}
    while streams:
        for place, stream in list(streams.items()):
            found = next(stream, None)
            if found is None:
                del streams[place]
            else:
                latest[place] = found
    assert [latest[0], latest[1]] == expected


@pytest.mark.parametrize(("beam", "together"), [(3, 1), (1, 3)])
def test_searches_of_several_threads_do_not_meet(
    source_rows: list[list[int]], beam: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam goes on after others' steps, its tokens fed again; a greedy batch is decoded at once."""
    engine, options = _engine(), SearchOptions(max_steps=8, beam_size=beam)
    batches = [source_rows[start : start + together] for start in range(0, 6, together)]

    def find(batch: list[list[int]]) -> list[float]:
        return [hypothesis.score for hypothesis in search(engine, batch, options)]

    expected = np.array(list(map(find, batches)))
    rows = engine._rows_runner._rows
    execute = rows._execute

    def dawdle(tensors: list[Any]) -> list[Any]:
        # A thread that does not wait for its turn comes in here.
        time.sleep(1e-4)
        return execute(tensors)

    monkeypatch.setattr(rows, "_execute", dawdle)
    with ThreadPoolExecutor(3) as pool:
        found = np.array(list(pool.map(find, batches * 3)))
    np.testing.assert_allclose(found, np.tile(expected, (3, 1)), atol=1e-5)


def test_a_state_can_be_stepped_from_twice(source_rows: list[list[int]]) -> None:
    engine = _engine()
    sources, mask = np.array([source_rows[0][:5]]), np.ones((1, 5), np.bool_)
    first, state = engine.step(np.array([1]), engine.start(sources, mask, 6))
    one, _ = engine.step(np.array([5]), state)
    two, _ = engine.step(np.array([7]), state)
    again, later = engine.step(np.array([5]), state)
    np.testing.assert_allclose(again, one, atol=1e-5)
    assert np.abs(two - one).max() > 1e-3
    assert engine.step_slots(later) == 3
    assert np.isfinite(first).all()


def test_more_rows_than_are_kept_go_on_in_the_other_steps(source_rows: list[list[int]]) -> None:
    engine = _engine()
    sources, mask = np.array([source_rows[0][:5]]), np.ones((1, 5), np.bool_)
    _, state = engine.step(np.array([1]), engine.start(sources, mask, 6))
    rows = np.zeros(engine.most_rows + 1, np.int64)
    tokens = 3 + np.arange(len(rows))
    many = engine.reorder(state, rows)
    assert isinstance(many, EngineState)
    assert engine.step_slots(many) == 6
    logits, _ = engine.step(tokens, many)
    few, _ = engine.step(tokens[:4], engine.reorder(state, rows[:4]))
    np.testing.assert_allclose(logits[:4], few, atol=1e-5)


def test_the_capacity_of_the_state_bounds_its_steps(source_rows: list[list[int]]) -> None:
    engine = _engine()
    state = engine.start(np.array([source_rows[0][:5]]), np.ones((1, 5), np.bool_), 2)
    for _ in range(2):
        _, state = engine.step(np.array([1]), state)
    with pytest.raises(BundleError, match="expected at most 2 steps"):
        engine.step(np.array([1]), state)


LAYOUT = Layout(
    state=(
        StateTensor(name="mask", dtype="bool", shape=("batch", "source"), origin="encode", changes=False),
        StateTensor(name="window", dtype="float32", shape=("batch", 2), origin="zeros", changes=True),
    ),
    bounds=Bounds(source=9, capacity=9, executorch_batch=4),
    tgt_size=6,
)


class Script:
    """A program that notes what it is given."""

    def __init__(self, shape: tuple[int, ...] | None = None) -> None:
        self.calls: list[tuple[NDArray[Any], ...]] = []
        self.shape = shape

    def __call__(self, tensors: list[Any]) -> list[Any]:
        self.calls.append(tuple(tensor.numpy().copy() for tensor in tensors[:4]))
        return [torch.zeros(self.shape or (len(tensors[0]), 6))]


def test_what_a_step_is_told() -> None:
    script = Script()
    rows = ResidentRows(script, LAYOUT)
    state = rows.begin({"mask": np.ones((1, 3), np.bool_)}, 1)
    _, state = rows.step(np.array([1]), state)
    state = rows.reorder(state, np.array([0, 0]), within=False)
    _, state = rows.step(np.array([4, 5]), state)
    _, state = rows.step(np.array([3]), rows.reorder(state, np.array([1]), within=False))
    told = [[array.tolist() for array in call] for call in script.calls]
    # Tokens, parents (4 for none), ancestors, place.
    assert told == [
        [[1], [4], [[0]], [0]],
        [[4, 5], [0, 0], [[0, 1], [0, 2]], [1]],
        [[3], [1], [[0, 2, 3]], [3]],
    ]


def test_other_logits_than_the_manifest_says_of_rows() -> None:
    rows = ResidentRows(Script((1, 7)), LAYOUT)
    with pytest.raises(BundleError, match=r"decode_rows_in_place: logits: expected torch.float32 \(1, 6\)"):
        rows.step(np.array([1]), rows.begin({"mask": np.ones((1, 3), np.bool_)}, 1))
