from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.core.progress import SilentProgress
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.counting.onnx_search import count_search_work
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.counting.torch_programs import count_model_work
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.mixed import plan
from lite_nlp.export.mixed.onnx_timing import onnx_product_call
from lite_nlp.export.mixed.plan import PlannedMatrix, planned_forms
from lite_nlp.export.mixed.translation import TranslationDivergence
from lite_nlp.export.onnx_graphs import ENTRY, OnnxFiles, export_onnx
from lite_nlp.export.onnx_integers import find_matrices, quantize_weights
from lite_nlp.export.parity import BeamCalls, StepByStep
from lite_nlp.export.rounding import quantize_blocks
from lite_nlp.export.runtime.engine import SearchEngine
from lite_nlp.export.runtime.layout import Bounds, Precision
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.tracing import TracedModel, trace_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.export.conftest import build_wide, describe, members_of

BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)
WHOLE: list[Precision] = ["fp32", "int8"]
#: For random weights, whose predictions are no surer than chance: enough for some matrices in each form, by far, since
#: the losses depend a little on how a processor computes.
LIMIT = 0.1


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return build_wide()


@pytest.fixture(scope="module")
def traced(model: EncoderDecoder) -> TracedModel:
    return trace_model(model, BOUNDS)


@pytest.fixture(scope="module")
def divergence(traced: TracedModel) -> TranslationDivergence:
    random = np.random.default_rng(6)
    return TranslationDivergence(traced, [random.integers(3, 160, length).tolist() for length in (3, 8, 14)])


@pytest.fixture(scope="module")
def plans(traced: TracedModel, divergence: TranslationDivergence) -> list[tuple[PlannedMatrix, ...]]:
    """All of them, each nearer to the model than the one before."""
    with pytest.MonkeyPatch.context() as patch:
        # Whatever the machine's times are.
        patch.setattr(
            plan, "time_products", lambda shapes, make: {shape: {"fp32": 3, "int8": 2, "int4": 1} for shape in shapes}
        )
        found = plan.plan_forms(
            divergence,
            steps=[ENTRY.decode_step],
            limit=LIMIT,
            product_calls=[onnx_product_call],
            parameters={**traced.encode.state_dict, **traced.decode_step.state_dict},
            progress=SilentProgress(),
        )
        return list(found)


@pytest.fixture(scope="module")
def planned(plans: list[tuple[PlannedMatrix, ...]]) -> tuple[PlannedMatrix, ...]:
    return plans[0]


@pytest.fixture(scope="module")
def files(model: EncoderDecoder, traced: TracedModel, planned: tuple[PlannedMatrix, ...]) -> dict[str, OnnxFiles]:
    step = FusedDecoder(model)
    made = {precision: export_onnx(traced, step, rounding=Rounding(precision=precision)) for precision in WHOLE}
    return made | {
        "mixed": export_onnx(traced, step, rounding=Rounding(precision="mixed", forms=planned_forms(planned)))
    }


def test_products_and_tables_become_integers(model: EncoderDecoder, files: dict[str, OnnxFiles]) -> None:
    for content in (files["int8"].encode, files["int8"].decode_step, files["int8"].greedy, files["int8"].beam):
        graphs = [onnx.load_from_string(content).graph]
        graphs += [attribute.g for node in graphs[0].node for attribute in node.attribute if attribute.HasField("g")]
        stored = [tensor for graph in graphs for tensor in graph.initializer]
        matrices = [tensor for tensor in stored if len(tensor.dims) == 2 and min(tensor.dims) >= 64]
        assert {tensor.data_type for tensor in matrices} == {onnx.TensorProto.INT8}
        operators = {node.op_type for graph in graphs for node in graph.node}
        assert "DynamicQuantizeMatMul" in operators
        # The table's rows are made once, outside the loop of a search, when the graph is opened.
        integers = {tensor.name for tensor in stored if tensor.data_type == onnx.TensorProto.INT8}
        transposed = [[node for node in graph.node if integers & set(node.input)] for graph in graphs]
        assert {node.op_type for node in transposed[0]} <= {"Transpose", "DynamicQuantizeMatMul"}
        assert {node.op_type for nodes in transposed[1:] for node in nodes} <= {"DynamicQuantizeMatMul"}
    assert len(files["int8"].weights) < 0.32 * len(files["fp32"].weights)


@pytest.mark.parametrize("precision", ["int8", "mixed"])
def test_the_work_stays(
    model: EncoderDecoder, traced: TracedModel, files: dict[str, OnnxFiles], precision: str
) -> None:
    expected = count_model_work(model, traced.state, BOUNDS)
    made = files[precision]
    assert count_onnx_work(encode=made.encode, decode_step=made.decode_step, bounds=BOUNDS) == expected
    assert count_search_work(made.greedy, BOUNDS) == expected


def test_a_mixed_file_has_the_forms_of_its_plan(
    files: dict[str, OnnxFiles], planned: tuple[PlannedMatrix, ...]
) -> None:
    made = files["mixed"]
    forms = {one.matrix.name: one.form for one in planned}
    assert {"src_embedding.weight", "decoder.0.ffn.up_proj.weight", "encoder.0.ffn.up_proj.weight"} <= forms.keys()
    assert set(forms.values()) == {"fp32", "int8", "int4"}
    operators = {"int8": "DynamicQuantizeMatMul", "int4": "MatMulNBits"}
    for form, operator in operators.items():
        assert (f"com.microsoft::{operator}" in made.operators) == (form in forms.values())
    # What several graphs use is there once, whatever its form.
    stored = sum(one.matrix.size_bytes(one.form) for one in planned)
    whole = sum(one.matrix.size_bytes("fp32") for one in planned)
    assert len(made.weights) == pytest.approx(len(files["fp32"].weights) - whole + stored, abs=30_000)


def test_a_tied_matrix_of_four_bits_gives_the_rows_and_the_product_of_one_table() -> None:
    random = np.random.default_rng(8)
    table = random.standard_normal((80, 64)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Gather", ["table", "tokens"], ["rows"], name="look up"),
        onnx.helper.make_node("Gemm", ["rows", "table", "bias"], ["out"], name="product", transB=1),
    ]
    bias = random.standard_normal(80).astype(np.float32)
    graph = onnx.helper.make_graph(
        nodes,
        "tied",
        [onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, ["rows"])],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("rows", "out")],
        initializer=[onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    [matrix] = find_matrices(made)
    assert (matrix.outputs, matrix.inputs, matrix.forms) == (80, 64, ("fp32", "int8", "int4"))
    quantize_weights(made, {matrix.key: "int4"})
    assert [node.op_type for node in made.graph.node if node.domain] == ["MatMulNBits"]
    assert "table" not in {tensor.name for tensor in made.graph.initializer}

    rounded = quantize_blocks(table).restored()
    tokens = np.array([0, 79, 3, 3])
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    rows, out = session.run(None, {"tokens": tokens})
    np.testing.assert_allclose(rows, rounded[tokens], rtol=1e-6)
    # The inputs are rounded to 8 bits.
    np.testing.assert_allclose(out, rounded[tokens] @ rounded.T + bias, atol=0.02 * np.abs(out).max())


@pytest.mark.parametrize("precision", ["int8", "mixed"])
def test_logits_are_close_to_those_of_fp32(traced: TracedModel, files: dict[str, OnnxFiles], precision: str) -> None:
    manifest = describe(traced)
    vocabulary = manifest.vocabulary.model_copy(update={"src_size": 160, "tgt_size": 160})
    manifest = manifest.model_copy(update={"vocabulary": vocabulary})
    engines = {
        name: SearchEngine(manifest, OnnxRunner(ENTRY, members_of(made).__getitem__, manifest.layout, threads=1))
        for name, made in files.items()
    }
    tokens, mask = np.arange(3, 13, dtype=np.int64)[None], np.ones((1, 10), np.bool_)
    logits = {}
    for name, engine in engines.items():
        logits[name], _ = engine.step(np.array([1]), engine.start(tokens, mask, 4))
    error = np.abs(logits[precision] - logits["fp32"]).max()
    assert 0 < error < 0.1 * np.abs(logits["fp32"]).max()
    # All forms of the search run on the same integers.
    options = SearchOptions(max_steps=6)
    rows = [[5, 9, 30], [77]]
    for row in rows:
        found = search(engines[precision], [row], options)[0].tokens
        for by_steps in (StepByStep(engines[precision]), BeamCalls(engines[precision])):
            assert found == search(by_steps, [row], options)[0].tokens


def test_plans_come_nearer_to_the_model(
    plans: list[tuple[PlannedMatrix, ...]], divergence: TranslationDivergence
) -> None:
    losses = [divergence.measure(planned_forms(found)) for found in plans]
    sizes = [sum(each.matrix.size_bytes(each.form) for each in found) for found in plans]
    assert len(plans) > 1
    assert losses[0] <= LIMIT
    assert all(after <= before / 2 for before, after in pairwise(losses))
    assert sizes == sorted(sizes)
    assert [[each.losses for each in found] for found in plans] == [[each.losses for each in plans[0]]] * len(plans)
