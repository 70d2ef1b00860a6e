import numpy as np
import onnx
import pytest

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.onnx_graphs import export_onnx
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.tracing import trace_model

FAMILIES = ["transformer", "lite-transformer-dynamic", "lite-transformer-lightweight", "lightconv"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_same_tokens_as_torch(small, small_onnx, source_rows, name: str, beam_size: int) -> None:
    options = SearchOptions(beam_size=beam_size, max_steps=20)
    report = compare_engines(Reference(small(name).reference, source_rows), small_onnx(name)[1], options)
    assert report.disagreements == ()
    assert report.sentences == len(source_rows)


def test_same_logits_as_torch_whatever_the_padding(small, small_onnx) -> None:
    engine, reference = small_onnx("lite-transformer-dynamic")[1], small("lite-transformer-dynamic").reference
    tokens = np.arange(3, 27, dtype=np.int64).reshape(2, 12)
    mask = np.ones((2, 12), np.bool_)
    mask[1, 4:] = False
    state, expected_state = engine.start(tokens, mask, 9), reference.start(tokens, mask, 9)
    for token in (1, 7, 30):
        logits, state = engine.step(np.full(2, token), state)
        expected, expected_state = reference.step(np.full(2, token), expected_state)
        np.testing.assert_allclose(logits, expected, atol=1e-5)

    alone = engine.start(tokens[1:, :4], mask[1:, :4], 3)
    for token in (1, 7, 30):
        logits_alone, alone = engine.step(np.full(1, token), alone)
    np.testing.assert_allclose(logits_alone[0], logits[1], atol=1e-5)


def test_a_table_used_by_both_graphs_is_stored_once(small, small_onnx) -> None:
    files = small_onnx("transformer")[0]
    model = small("transformer").model
    weights = [*model.parameters(), *model.buffers()]
    assert len(files.weights) <= sum(tensor.numel() * 4 for tensor in weights)
    assert len(files.weights) >= max(tensor.numel() * 4 for tensor in weights)


def test_graphs_name_their_sizes_and_tell_nothing_of_the_machine(small_onnx) -> None:
    files = small_onnx("lite-transformer-dynamic")[0]
    for content in (files.encode, files.decode_step):
        assert b".py" not in content
        graph = onnx.load_from_string(content).graph
        sizes = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param}
        assert sizes <= {"batch", "source", "capacity"}
    outputs = [value.name for value in onnx.load_from_string(files.decode_step).graph.output]
    assert outputs == [
        "logits",
        "new.position",
        "new.layers.0.self_key",
        "new.layers.0.self_value",
        "new.layers.0.conv",
    ]


def test_the_same_model_gives_the_same_bytes(small, small_onnx) -> None:
    made = small("lightconv")
    step = FusedDecoder(made.model)
    assert export_onnx(trace_model(made.model, made.traced.bounds), step) == small_onnx("lightconv")[0]


def test_a_graph_that_is_none(small) -> None:
    entry = small("lightconv").manifest.runtimes["onnx"]
    with pytest.raises(BundleError, match="ONNX Runtime does not accept a graph of the bundle"):
        entry.open_runner(lambda name: b"no graph", small("lightconv").manifest.layout, threads=1)


@pytest.mark.parametrize(
    ("source", "capacity", "message"),
    [
        (np.zeros((1, 25), np.int64), 5, "exported for at most 24 tokens, end mark included, found 25"),
        (np.zeros((1, 3), np.int64), 21, "exported for 1 to 20 decoder steps, found 21"),
        (np.zeros((1, 3), np.int64), 0, "exported for 1 to 20 decoder steps, found 0"),
        (np.zeros((1, 0), np.int64), 5, "expected tokens and mask of one shape"),
        (np.full((1, 3), 40), 5, "expected token ids 0 to 39, found 40 to 40"),
        (np.full((1, 3), -1), 5, "expected token ids 0 to 39, found -1 to -1"),
    ],
)
def test_sizes_beyond_the_bounds(small_onnx, source: np.ndarray, capacity: int, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        small_onnx("lightconv")[1].start(source, np.ones(source.shape, np.bool_), capacity)
