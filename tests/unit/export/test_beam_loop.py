"""The graph of beam search against the search in NumPy, on a model of few words whose scores are often close."""

import itertools
from dataclasses import replace

import numpy as np
import onnx
import pytest

from lite_nlp.core.errors import BundleError, CountError, ModelError
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.beams import BeamRun
from lite_nlp.decoding.search import SearchOptions, search, search_best, stream_search
from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.counting.onnx_search import count_beam_work
from lite_nlp.export.onnx_graphs import ENTRY, OnnxFiles, export_onnx
from lite_nlp.export.runtime.engine import SearchEngine
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.tracing import TracedModel, trace_model
from tests.unit.export.conftest import describe, members_of
from tests.unit.export.own_model import OwnModel, build_own_model

WORDS = 9
BOUNDS = Bounds(source=12, capacity=32, executorch_batch=4)


@pytest.fixture(scope="module")
def own() -> OwnModel:
    model = build_own_model(WORDS)
    # Words that are about as probable as each other, and ends that come early and late.
    for parameter in model.cell.parameters():
        parameter.data *= 2.0
    model.output.weight.data *= 0.3
    model.output.weight.data[EOS_ID] *= 4.0
    model.output.bias.data.zero_()
    return model


@pytest.fixture(scope="module")
def traced(own: OwnModel) -> TracedModel:
    return trace_model(own, BOUNDS)


@pytest.fixture(scope="module")
def files(own: OwnModel, traced: TracedModel) -> OnnxFiles:
    return export_onnx(traced, own)


@pytest.fixture(scope="module")
def engine(traced: TracedModel, files: OnnxFiles) -> SearchEngine:
    manifest = describe(traced, types=WORDS)
    return SearchEngine(manifest, OnnxRunner(ENTRY, members_of(files).__getitem__, manifest.layout, threads=1))


@pytest.fixture(scope="module")
def rows() -> list[list[int]]:
    random = np.random.default_rng(3)
    return [random.integers(3, WORDS, length).tolist() for length in random.integers(1, 11, 40)]


CASES = [
    SearchOptions(beam_size=beam, length_penalty=alpha, min_length=least, max_length_ratio=ratio, max_length_extra=5)
    for (beam, alpha), least, ratio in itertools.product([(2, 0.6), (3, 0.0), (5, 2.0), (8, 1.0)], (0, 3), (0.0, 1.5))
] + [
    SearchOptions(beam_size=12, max_length_extra=2),
    SearchOptions(beam_size=1, no_repeat_ngram=2),
    SearchOptions(beam_size=4, no_repeat_ngram=1, min_length=5),
    SearchOptions(beam_size=3, no_repeat_ngram=3, max_steps=1),
    SearchOptions(beam_size=6, no_repeat_ngram=2, length_penalty=0.0),
]


@pytest.mark.parametrize("options", CASES, ids=lambda one: "-".join(str(value) for value in vars(one).values()))
@pytest.mark.parametrize("count", [1, 3])
def test_the_hypotheses_are_those_of_the_search_in_numpy(
    own: OwnModel, engine: SearchEngine, rows: list[list[int]], options: SearchOptions, count: int
) -> None:
    count = min(count, options.beam_size)
    expected = search_best(TorchStepModel(own), rows, options, count=count)
    found = search_best(engine, rows, options, count=count)
    assert [[one.tokens for one in best] for best in found] == [[one.tokens for one in best] for best in expected]
    scores = ([one.score for best in several for one in best] for several in (found, expected))
    # The cell amplifies differences of rounding.
    np.testing.assert_allclose(*scores, atol=5e-3)


def test_the_models_hypotheses_differ(own: OwnModel, rows: list[list[int]]) -> None:
    """What the comparison above rests on: outputs of many lengths, and others with other options."""
    found = [search(TorchStepModel(own), rows, options) for options in CASES]
    assert len({len(one.tokens) for several in found for one in several}) > 12
    assert len({tuple(tuple(one.tokens) for one in several) for several in found}) > 15


@pytest.mark.parametrize("options", [SearchOptions(beam_size=3), SearchOptions(beam_size=2, no_repeat_ngram=1)])
def test_streams_are_those_of_the_search_in_numpy(
    own: OwnModel, engine: SearchEngine, rows: list[list[int]], options: SearchOptions
) -> None:
    for row in rows[:8]:
        expected = list(stream_search(TorchStepModel(own), row, options))
        assert list(stream_search(engine, row, options)) == expected


def _call(sentences: int = 2, width: int = 2) -> BeamCall:
    run = BeamRun(SearchOptions(beam_size=width), np.full(sentences, 4), 1)
    return run._call(None)


def test_a_call_outside_the_state_is_refused(engine: SearchEngine) -> None:
    begun = engine.start(np.full((2, 3), 5), np.ones((2, 3), np.bool_), 4)
    call = _call()
    for changes, message in (
        ({"parents": call.parents + 1}, "parents: expected 0 to 1, found 1 to 2"),
        ({"parents": call.parents - 1}, "parents: expected 0 to 1, found -1 to 0"),
        ({"kept": call.kept + 1}, "kept: expected 0 to 1, found 1 to 2"),
        ({"tokens": call.tokens * WORDS}, "expected token ids 0 to 8, found 9 to 9"),
        ({"step": 1}, "expected at most 4 steps, the capacity of the state, found 5"),
    ):
        with pytest.raises(BundleError, match=message):
            engine.search_beams(replace(call, **changes), begun)
    made, state = engine.search_beams(call, begun)
    assert made.tokens.shape == made.parents.shape == (len(made.tokens), 2, 2)
    with pytest.raises(BundleError, match="parents: expected 0 to 3, found 4 to 4"):
        engine.search_beams(replace(call, parents=np.full((2, 2), 4), steps=1), state)


class _Fake(OnnxRunner):
    """Gives other results than the graph."""

    changes: dict[str, np.ndarray]

    def search_beams(self, call: BeamCall, state: object) -> tuple[BeamSteps, object]:
        made, state = super().search_beams(call, state)
        return replace(made, **self.changes), state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": np.full((1, 2, 2), WORDS)}, "tokens made: expected token ids 0 to 8, found 9 to 9"),
        ({"tokens": np.array(5)}, r"tokens: expected int64 \(1, 2, 2\)"),
        ({"parents": np.full((1, 2, 2), 2)}, "parents: expected 0 to 1, found 2 to 2"),
        ({"live": np.zeros((2, 2), np.float32)}, r"live: expected float64 \(2, 2\)"),
        ({"best": np.zeros((2, 1)), "origins": np.full((2, 1), 3)}, "origins: expected 0 to 2, found 3 to 3"),
        ({"origins": np.full((2, 2), 0)}, r"origins: expected int64 \(2, 1\)"),
        ({"finished": np.zeros(1, np.int64)}, r"finished: expected int64 \(2,\)"),
        ({"done": np.zeros(2, np.int64)}, r"done: expected bool \(2,\)"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_no_search_gives_is_refused(
    traced: TracedModel, files: OnnxFiles, changes: dict[str, np.ndarray], message: str
) -> None:
    manifest = describe(traced, types=WORDS)
    runner = _Fake(ENTRY, members_of(files).__getitem__, manifest.layout, threads=1)
    runner.changes = changes
    engine = SearchEngine(manifest, runner)
    begun = engine.start(np.full((2, 3), 5), np.ones((2, 3), np.bool_), 4)
    with pytest.raises(BundleError, match=message):
        engine.search_beams(replace(_call(), steps=1), begun)


def test_damaged_weights_are_told(traced: TracedModel, own: OwnModel, rows: list[list[int]]) -> None:
    damaged = build_own_model(WORDS)
    damaged.target.weight.data[5] = np.nan
    files, manifest = export_onnx(trace_model(damaged, BOUNDS), damaged), describe(traced, types=WORDS)
    engine = SearchEngine(manifest, OnnxRunner(ENTRY, members_of(files).__getitem__, manifest.layout, threads=1))
    with pytest.raises(ModelError, match="its weights are damaged"):
        search_best(engine, rows, SearchOptions(beam_size=8), count=1)


def test_a_graph_without_its_loop_is_not_counted(files: OnnxFiles) -> None:
    with pytest.raises(CountError, match="expected one Loop, found 0"):
        count_beam_work(files.encode, BOUNDS)


def test_what_the_steps_do_not_change_is_outside_the_loop(files: OnnxFiles) -> None:
    graph = onnx.load_from_string(files.beam).graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    assert "hidden" in loop.input
    assert "memory" not in loop.input
    body = next(attribute.g for attribute in loop.attribute if attribute.name == "body")
    # Nor is anything made of it again in every step.
    taken = {name for node in body.node for name in node.input}
    assert "memory" not in taken
    assert any("memory" in node.input and not taken.isdisjoint(node.output) for node in graph.node)
    assert not body.initializer
