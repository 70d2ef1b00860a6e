"""Export of small modules that are no models of ours: layout, counted work, proof, and what is refused."""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.model import PairClassifierConfig
from lite_nlp.core.errors import BundleError, ModelError, RuntimeUnavailableError, UsageError
from lite_nlp.decoding.torch_model import TorchClassifier, TorchTextModel
from lite_nlp.export.matrices import Matrix, ProductShape
from lite_nlp.export.mixed import plan
from lite_nlp.export.onnx_conversion import all_graphs
from lite_nlp.export.packing import Packing
from lite_nlp.export.runtime import text_steps
from lite_nlp.export.runtime.bundle import open_bundle
from lite_nlp.export.runtime.engine import create_engine
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import Manifest, parse_manifest
from lite_nlp.export.runtime.member_maker import Contents
from lite_nlp.export.runtime.programs import Classes
from lite_nlp.export.runtime.task_engines import create_classifier_engine, create_text_engine
from lite_nlp.export.task_tracing import describe_text_state
from lite_nlp.export.tasks import pipeline as task_pipeline
from lite_nlp.models.build import build_model
from tests.unit.export.own_tasks import (
    CLASSES,
    RUNTIMES,
    TYPES,
    Bag,
    Bigram,
    Echo,
    Recall,
    Recurrent,
    export,
)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks")
    export(path / "bag.zip", Bag())
    export(path / "bigram.zip", Bigram())
    export(path / "rounded.zip", Bigram(), precision="int8")
    export(path / "recall.zip", Recall())
    return path


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_classifier_and_its_work(bundles: Path, runtime: str) -> None:
    bundle = open_bundle(bundles / "bag.zip", runtime=runtime)
    for column in ("torch", "onnx", "executorch", "merged"):
        assert bundle.manifest.graphs[column] == {"classify": {"matmul": [[8 * 3, 0, 0]]}}
    engine = create_classifier_engine(bundle, runtime=runtime, threads=1)
    tokens = np.array([[3, 4, 5], [6, 0, 0]])
    sentence = tokens, tokens > 0
    expected = TorchClassifier(Bag().eval()).classify([sentence])
    np.testing.assert_allclose(engine.classify([sentence]), expected, atol=1e-6)
    # More rows than a call of ExecuTorch's program takes.
    many = tuple(np.tile(array, (10, 1)) for array in sentence)
    np.testing.assert_allclose(engine.classify([many]), np.tile(expected, (10, 1)), atol=1e-6)
    long = np.full((1, 21), 3)
    for sentences, message in (
        ([sentence, sentence], "classify: expected 1 sentences, found 2"),
        ([(long, long > 0)], "exported for sentences of 1 to 20 tokens, end mark included, found"),
        ([(tokens * 100, tokens > 0)], f"classify: expected token ids 0 to {TYPES - 1}, found 0 to 600"),
    ):
        with pytest.raises(BundleError, match=message):
            engine.classify(sentences)


def test_the_work_of_a_recurrent_pair_classifier(tmp_path: Path) -> None:
    config = PairClassifierConfig(
        family="lstm", src_vocab_size=TYPES, embedding_dim=12, embed_dim=8, ffn_dim=10, num_classes=3
    )
    pairs = Classes(labels=CLASSES.labels, sentences=2)
    work = export(tmp_path / "pair.zip", build_model(config).eval(), classes=pairs, runtimes=["onnx"]).graphs
    assert work["torch"] == work["onnx"]
    ((kind, counts),) = work["torch"]["classify"].items()
    found = sum(value * 7**first * 4**second for value, first, second in counts)
    assert (kind, found) == ("matmul", count_config(config, src_len=7, tgt_len=4).macs_executed)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_language_model_and_its_work(bundles: Path, runtime: str) -> None:
    bundle = open_bundle(bundles / "bigram.zip", runtime=runtime)
    token = 16 * 8 + 8 * TYPES
    last = {"matmul": [[token, 0, 0]]}
    work = {"decode_step": last, "read": last, "score": {"matmul": [[token, 1, 0]]}}
    for column in ("torch", "onnx", "executorch", "merged"):
        assert bundle.manifest.graphs[column] == work
    assert [(tensor.name, tensor.shape) for tensor in bundle.manifest.state] == [
        ("before", ("batch", 8)),
        ("steps", ("batch", "capacity")),
    ]
    engine, module = create_text_engine(bundle, runtime=runtime, threads=1), TorchTextModel(Bigram().eval())
    assert (engine.max_steps, engine.max_read, engine.max_tokens) == (16, 16, 20)
    tokens = np.array([[3, 4, 5], [6, 7, 8]])
    np.testing.assert_allclose(engine.score(tokens, tokens + 1), module.score(tokens, tokens + 1), atol=1e-5)
    for parts in ([1, 1, 1], [2, 1], [1, 2], [3]):
        state, other = engine.start(2, 3), module.start(2, 3)
        for part in np.split(tokens, np.cumsum(parts[:-1]), axis=1):
            logits, state = engine.read(part, state)
            expected, other = module.read(part, other)
            np.testing.assert_allclose(logits, expected, atol=1e-5)
    with pytest.raises(
        BundleError, match=r"tokens of 2 rows, 1 to 0 of each, .* capacity of 3 has left, found \(2, 1\)"
    ):
        engine.read(tokens[:, :1], state)
    one = engine.reorder(engine.start(2, 3), np.array([1]))
    for call, message in (
        (lambda: engine.start(1, 17), "exported for 1 to 16 steps, found 17 of 1 rows"),
        (
            lambda: engine.read(tokens[:, :1], one),
            r"read: expected tokens of 1 rows, 1 to 3 of each, .* found \(2, 1\)",
        ),
        (lambda: engine.read(np.array([3]), one), r"read: expected tokens of 1 rows, .* found \(1,\)"),
        (lambda: engine.read(np.full((1, 17), 3), engine.start(1, 16)), r"1 to 16 of each, .* found \(1, 17\)"),
        (lambda: engine.read(np.array([[TYPES]]), one), f"read: expected token ids 0 to {TYPES - 1}, found {TYPES}"),
        (lambda: engine.score(tokens, tokens[:1]), "score: the bundle was exported for texts of 1 to 20 tokens"),
        (lambda: engine.score(np.full((1, 21), 3), np.full((1, 21), 3)), "texts of 1 to 20 tokens"),
        (lambda: engine.score(tokens, tokens - 9), "score: expected token ids 0 to"),
    ):
        with pytest.raises(BundleError, match=message):
            call()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_room_of_a_state_grows_with_the_text(bundles: Path, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_steps, "_ROOM", 5)
    bundle = open_bundle(bundles / "recall.zip", runtime=runtime)
    engine, module = create_text_engine(bundle, runtime=runtime, threads=1), TorchTextModel(Recall().eval())
    for count, expected_rooms in ((1, [5] * 5 + [10] * 5 + [12] * 2), (3, [5, 10, 10, 12]), (6, [10, 12])):
        state, other = engine.start(2, 12), module.start(2, 12)
        rooms = []
        for first in range(3, 15, count):
            tokens = np.array([range(first, first + count), range(2 * first, 2 * first + count)])
            rooms.append(engine.attended(state, count))
            logits, state = engine.read(tokens, state)
            expected, other = module.read(tokens, other)
            np.testing.assert_allclose(logits, expected, atol=1e-5)
            assert state.steps.tensors["seen"].shape == (2, rooms[-1], 8)
        assert rooms == expected_rooms


@pytest.mark.parametrize("rows", [1, 2])
def test_a_program_for_fewer_texts_than_it_can_be_traced_for(tmp_path: Path, rows: int) -> None:
    bounds = Bounds(source=20, capacity=16, executorch_batch=rows, executorch_sources=1)
    export(tmp_path / "few.zip", Recall(), bounds=bounds, runtimes=["executorch"])
    # What a program says of its sizes is checked where it is opened.
    engine = create_text_engine(open_bundle(tmp_path / "few.zip"), runtime="executorch", threads=1)
    module, tokens = TorchTextModel(Recall().eval()), np.array([[3, 4, 5], [6, 7, 8], [9, 3, 3]])
    state, other = engine.start(3, 8), module.start(3, 8)
    for part in (tokens, tokens[:, :1]):
        logits, state = engine.read(part, state)
        expected, other = module.read(part, other)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(engine.score(tokens, tokens + 1), module.score(tokens, tokens + 1), atol=1e-5)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_language_model_in_integers(bundles: Path, runtime: str) -> None:
    plain, rounded = (open_bundle(bundles / f"{name}.zip") for name in ("bigram", "rounded"))
    entry = rounded.manifest.programs.onnx
    assert entry is not None
    assert (entry.operators, entry.oldest_runtime) == (("com.microsoft::DynamicQuantizeMatMul",), "1.24")
    assert rounded.manifest.precision == "int8"
    assert rounded.manifest.graphs == plain.manifest.graphs
    proof = rounded.manifest.parity[runtime]
    assert 1e-4 < proof["largest_error"] < 0.1
    # The table alone has 64 outputs: it is stored once, as integers.
    sizes = [bundle.manifest.files["weights.bin"].size_bytes for bundle in (plain, rounded)]
    assert sizes[1] < TYPES * 8 + 4 * TYPES + 200 < 0.5 * sizes[0]
    engines = [create_text_engine(bundle, runtime=runtime, threads=1) for bundle in (plain, rounded)]
    tokens = np.array([[3, 4, 5], [6, 7, 8]])
    expected, found = (engine.score(tokens, tokens + 1) for engine in engines)
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert not np.array_equal(found, expected)


class Wide(Bag):
    """A recurrent layer of torch whose gates are a matrix of 256 outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.output = nn.LSTM(8, 64, batch_first=True), nn.Linear(64, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self.output(self.layer(self.table(tokens) * mask[:, :, None])[0].amax(1))
        return found


def gated(kind: str) -> nn.Module:
    """Our LSTM, whose four gates are matrices of their own, too large for the conversion to join them."""
    config = PairClassifierConfig(
        family="lstm", src_vocab_size=TYPES, embedding_dim=96, embed_dim=128, ffn_dim=9, num_classes=3, lstm_linear=kind
    )
    return build_model(config)


@pytest.mark.parametrize("name", ["torch", "dense", "r2d2"])
def test_recurrent_weights_become_integers(tmp_path: Path, name: str) -> None:
    torch.manual_seed(3)
    module = Wide() if name == "torch" else gated(name)
    classes = CLASSES if name == "torch" else Classes(labels=CLASSES.labels, sentences=2)
    bundles = {}
    for precision in ("fp32", "int8"):
        path = tmp_path / f"{precision}.zip"
        export(path, module, classes=classes, precision=precision, runtimes=["onnx"])
        bundles[precision] = open_bundle(path, runtime="onnx")
    assert bundles["int8"].manifest.graphs == bundles["fp32"].manifest.graphs
    model = onnx.load_from_string(bundles["int8"].read("classify.onnx"))
    graphs = list(all_graphs(model.graph))
    bodies = [graph for graph in graphs if graph is not graphs[0]]
    assert len(bodies) == classes.sentences
    for graph in bodies:
        operators = {node.op_type for node in graph.node}
        assert "DynamicQuantizeMatMul" in operators
        assert operators.isdisjoint({"MatMul", "Gemm"})
    matrices = [tensor for graph in graphs for tensor in graph.initializer if len(tensor.dims) == 2]
    assert {tensor.data_type for tensor in matrices if tensor.dims[0] >= 64} == {onnx.TensorProto.INT8}
    # Matrices with an operation before their product are no use any more.
    used = {name for graph in graphs for node in graph.node for name in node.input}
    used |= {value.name for graph in graphs for value in graph.output}
    assert all(used & set(node.output) for graph in graphs for node in graph.node)
    engines = [create_classifier_engine(bundle, runtime="onnx", threads=1) for bundle in bundles.values()]
    tokens = np.array([[3, 4, 5, 90, 7]])
    expected, found = (engine.classify([(tokens, tokens > 0)] * classes.sentences) for engine in engines)
    assert 0 < np.abs(found - expected).max() < 0.03


def test_a_compact_bundle_has_the_integers_of_gates_once(tmp_path: Path) -> None:
    torch.manual_seed(4)
    module = gated("dense").eval()
    tensors = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    packing = Packing(container=b"weights", decode=lambda container: Contents(tensors=tensors))
    manifest = export(
        tmp_path / "compact.zip",
        module,
        classes=Classes(labels=CLASSES.labels, sentences=2),
        precision="int8",
        runtimes=["onnx"],
        packing=packing,
    )
    # What the prediction misses compresses to little: the integers of all gates are found.
    gates = sum(tensor.size for name, tensor in tensors.items() if "gates" in name)
    assert manifest.files["weights.bin.residual"].size_bytes < 0.05 * gates


@pytest.mark.parametrize("name", ["text", "classes", "gates"])
def test_a_mixed_precision_of_other_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # Whatever the machine's times are.
    def times(shapes: Iterable[ProductShape], make: Any) -> dict[ProductShape, dict[str, float]]:
        forms = {shape: Matrix(b"", "", shape.outputs, shape.inputs).forms for shape in shapes}
        return {shape: {form: 3.0 - place for place, form in enumerate(able)} for shape, able in forms.items()}

    monkeypatch.setattr(plan, "time_products", times)
    monkeypatch.setattr(task_pipeline, "_MOST_DIVERGENCE", {"language-modelling": 1e-4, "classification": 1e-6})
    changes: dict[str, Any] = {}
    if name == "gates":
        torch.manual_seed(5)
        changes = {
            "classes": Classes(labels=CLASSES.labels, sentences=2),
            "calibration": [[[3, 4], [5]], [[6], [7, 8]]],
        }
    module = {"text": Bigram, "classes": Wide, "gates": lambda: gated("dense")}[name]()
    path = tmp_path / "mixed.zip"
    manifest = export(path, module, precision="mixed", runtimes=["onnx"], **changes)
    assert manifest.precision == "mixed"
    planned = {one["weight"]: one for one in json.loads(open_bundle(path).read("metrics.json"))["mixed_precision"]}
    expected = {
        "text": {"table.weight"},
        "classes": {"table.weight", "layer.weight_ih_l0", "layer.weight_hh_l0"},
        "gates": {"embedding.weight", *(_gates("input")), *(_gates("hidden"))},
    }[name]
    assert set(planned) == expected
    forms = {one["form"] for one in planned.values()}
    assert len(forms) > 1 or name == "text"
    assert forms != {"fp32"}
    for one in planned.values():
        assert all(loss >= 0 for loss in one["losses"].values())
        assert one["losses"]["fp32"] == 0
    operators = {"int8": "DynamicQuantizeMatMul", "int4": "MatMulNBits"}
    products = {one["form"] for one in planned.values() if not one["weight"].startswith("embed")}
    entry = manifest.programs.onnx
    assert entry is not None
    assert set(entry.operators) == {f"com.microsoft::{operators[form]}" for form in products - {"fp32"}}


def _gates(of: str) -> set[str]:
    return {", ".join(f"encoder.{of}_gates.{gate}.weight" for gate in range(4))}


def test_recurrent_layers_are_for_onnx_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = export(tmp_path / "recurrent.zip", Recurrent())
    assert "own: the bundle has graphs for ONNX Runtime alone: ExecuTorch cannot run recurrent layers" in caplog.text
    assert list(manifest.programs.entries) == list(manifest.parity) == ["onnx"]
    with pytest.raises(RuntimeUnavailableError, match="for --runtime executorch, found none"):
        create_classifier_engine(open_bundle(tmp_path / "recurrent.zip"), runtime="executorch", threads=1)
    with pytest.raises(ModelError, match="executorch: expected a model without recurrent layers"):
        export(tmp_path / "other.zip", Recurrent(), runtimes=["executorch"])
    with pytest.raises(UsageError, match="runtimes: expected one of onnx, executorch, found 'onyx'"):
        export(tmp_path / "other.zip", Recurrent(), runtimes=["onyx"])
    assert [path.name for path in tmp_path.iterdir()] == ["recurrent.zip"]


def test_a_bundle_is_opened_for_its_own_task(bundles: Path) -> None:
    bag, bigram = (open_bundle(bundles / f"{name}.zip") for name in ("bag", "bigram"))
    with pytest.raises(BundleError, match="expected a bundle for classification, found one for language-modelling"):
        create_classifier_engine(bigram, runtime="onnx", threads=1)
    with pytest.raises(BundleError, match="expected a bundle for language-modelling, found one for classification"):
        create_text_engine(bag, runtime="onnx", threads=1)
    with pytest.raises(RuntimeUnavailableError, match="expected ONNX graphs for --runtime onnx, found none"):
        create_engine(bag, runtime="onnx", threads=1)


def test_a_graph_that_says_something_else_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="onnx: expected "):
        export(tmp_path / "echo.zip", Echo())
    assert list(tmp_path.iterdir()) == []


def test_states_that_a_bundle_cannot_describe() -> None:
    class Ones(Bigram):
        def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
            return {"before": torch.ones(batch_size, 8), "steps": torch.zeros(batch_size, capacity)}

    class Odd(Bigram):
        def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
            return {"before": torch.zeros(batch_size, 8), "steps": torch.zeros(batch_size, 2 * capacity)}

    with pytest.raises(ModelError, match="state before: expected zeros of float32, int64 or bool that a step changes"):
        describe_text_state(Ones())
    with pytest.raises(ModelError, match="state steps: expected a size that is fixed, or batch or capacity, found 14"):
        describe_text_state(Odd())


def change(bundle: Path, **values: Any) -> Manifest:
    with zipfile.ZipFile(bundle) as archive:
        document = json.loads(archive.read("manifest.json"))
    return parse_manifest(json.dumps({**document, **values}).encode(), source="own.zip")


def test_manifests_that_are_refused(bundles: Path) -> None:
    path = bundles / "bag.zip"
    assert change(path).task == "classification"
    graphs = {"graphs": {"classify": "classify.onnx"}, "weights": "weights.bin", "operators": []}
    graphs["oldest_runtime"] = "1.18"
    calls = {"classify": {"delegated": 1, "kernels": {}}}
    translation = {"task": "translation", "graphs": {}, "classes": None}
    for values, message in (
        ({"task": "poetry"}, "task: Input should be 'translation', 'language-modelling' or 'classification'"),
        (translation, "programs: expected the graphs of no task alone"),
        (
            {**translation, "programs": {"onnx": {**graphs, "graphs": {}}}},
            "programs: expected the graphs of no task alone for translation, found none",
        ),
        (
            {"task": "language-modelling", "graphs": {}, "classes": None},
            "the graphs decode_step, read, score alone for",
        ),
        ({"classes": None}, "classes: expected them of a classifier, and of nothing else"),
        ({"classes": {"labels": ["a", "a"], "sentences": 1}}, "expected different names"),
        ({"classes": {"labels": ["a"], "sentences": 1}}, "at least 2 items"),
        ({"classes": {"labels": ["a", "b"], "sentences": 3}}, "classes.sentences"),
        (
            {"programs": {"onnx": {**graphs, "weights": "other.bin"}}},
            "files: expected an entry for other.bin, found none",
        ),
        ({"programs": {"onnx": {**graphs, "graphs": {}}}}, "programs: expected the graphs classify alone"),
        ({"programs": {"onnx": {**graphs, "oldest_runtime": "new"}}}, "programs.onnx.oldest_runtime"),
        (
            {"programs": {"executorch": {"program": "model.pte", "calls": {}}}},
            "programs: expected the graphs classify alone",
        ),
        ({"programs": {"executorch": {"program": "../model.pte", "calls": calls}}}, "files: expected an entry for ../"),
        ({"graphs": {"onnx": {"score": {}}}}, "work of graphs: expected the keys classify"),
    ):
        with pytest.raises(BundleError, match=message):
            change(path, **values)
