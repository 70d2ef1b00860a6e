import numpy as np
import onnx
import pytest

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.counting.onnx_search import count_search_work
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.counting.torch_programs import count_model_work
from lite_nlp.export.onnx_graphs import ENTRY, OnnxFiles, export_onnx
from lite_nlp.export.onnx_int8 import quantize_rows
from lite_nlp.export.parity import RankedSteps, StepByStep
from lite_nlp.export.runtime.engine import SearchEngine
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.tracing import trace_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.export.conftest import build_wide, describe, members_of

BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return build_wide()


@pytest.fixture(scope="module")
def files(model: EncoderDecoder) -> dict[str, OnnxFiles]:
    traced = trace_model(model, BOUNDS)
    step = FusedDecoder(model)
    return {precision: export_onnx(traced, step, precision=precision) for precision in ("fp32", "int8")}


def test_rows_are_rounded_to_their_own_multiples() -> None:
    values = np.array([[0.5, -1.27, 0.012], [0, 0, 0], [300, 1, -254]], np.float32)
    integers, scales = quantize_rows(values)
    assert integers.dtype == np.int8
    np.testing.assert_array_equal(integers, [[50, -127, 1], [0, 0, 0], [127, 0, -108]])
    assert np.abs(integers * scales[:, None] - values).max() <= scales.max() / 2
    np.testing.assert_allclose(scales, [0.01, 1, 300 / 127], rtol=1e-6)


def test_products_and_tables_become_integers(model: EncoderDecoder, files: dict[str, OnnxFiles]) -> None:
    for content in (files["int8"].encode, files["int8"].decode_step, files["int8"].greedy, files["int8"].beam_step):
        graphs = [onnx.load_from_string(content).graph]
        graphs += [attribute.g for node in graphs[0].node for attribute in node.attribute if attribute.HasField("g")]
        stored = [tensor for graph in graphs for tensor in graph.initializer]
        matrices = [tensor for tensor in stored if len(tensor.dims) == 2 and min(tensor.dims) >= 64]
        assert {tensor.data_type for tensor in matrices} == {onnx.TensorProto.INT8}
        operators = {node.op_type for graph in graphs for node in graph.node}
        assert "DynamicQuantizeMatMul" in operators
    assert len(files["int8"].weights) < 0.32 * len(files["fp32"].weights)


def test_the_work_stays(model: EncoderDecoder, files: dict[str, OnnxFiles]) -> None:
    expected = count_model_work(model, trace_model(model, BOUNDS).state, BOUNDS)
    made = files["int8"]
    assert count_onnx_work(encode=made.encode, decode_step=made.decode_step, bounds=BOUNDS) == expected
    assert count_search_work(made.greedy, BOUNDS) == expected


def test_logits_are_close_to_those_of_fp32(model: EncoderDecoder, files: dict[str, OnnxFiles]) -> None:
    manifest = describe(trace_model(model, BOUNDS))
    vocabulary = manifest.vocabulary.model_copy(update={"src_size": 160, "tgt_size": 160})
    manifest = manifest.model_copy(update={"vocabulary": vocabulary})
    engines = {
        precision: SearchEngine(manifest, OnnxRunner(ENTRY, members_of(made).__getitem__, manifest.layout, threads=1))
        for precision, made in files.items()
    }
    tokens, mask = np.arange(3, 13, dtype=np.int64)[None], np.ones((1, 10), np.bool_)
    logits = {}
    for precision, engine in engines.items():
        logits[precision], _ = engine.step(np.array([1]), engine.start(tokens, mask, 4))
    error = np.abs(logits["int8"] - logits["fp32"]).max()
    assert 0 < error < 0.1 * np.abs(logits["fp32"]).max()
    # All forms of the search run on the same integers.
    options = SearchOptions(max_steps=6)
    rows = [[5, 9, 30], [77]]
    for row in rows:
        found = search(engines["int8"], [row], options)[0].tokens
        assert found == search(StepByStep(engines["int8"]), [row], options)[0].tokens
        assert found == search(RankedSteps(engines["int8"]), [row], options)[0].tokens
