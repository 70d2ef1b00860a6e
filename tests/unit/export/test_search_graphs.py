import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.core.errors import BundleError, CountError, ModelError, RuntimeUnavailableError
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.counting.onnx_search import count_search_work
from lite_nlp.export.onnx_graphs import ENTRY, export_onnx
from lite_nlp.export.parity import BeamCalls, StepByStep
from lite_nlp.export.runtime.engine import SearchEngine
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.tracing import trace_model
from tests.selection import select
from tests.unit.export.conftest import BOUNDS, build_model_with, describe, members_of
from tests.unit.export.own_model import VOCAB_SIZE, build_own_model

KERNELS = {"kernel_sizes": (5,), "decoder_kernel_sizes": (9,)}
FAMILIES = ["transformer", "lite-transformer-dynamic", "lite-transformer-lightweight", "lightconv"]


def _operators(content: bytes) -> list[str]:
    """Operators of the loop's body."""
    graph = onnx.load_from_string(content).graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in loop.attribute if attribute.name == "body")
    return [node.op_type for node in body.node]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("max_steps", "min_length"), [(1, 0), (3, 2), (20, 0), (20, 9)])
def test_one_call_gives_what_steps_give(
    small, small_onnx, source_rows, name: str, max_steps: int, min_length: int
) -> None:
    options = SearchOptions(max_steps=max_steps, min_length=min_length, max_length_extra=2)
    engine = small_onnx(name)[1]
    found = search(engine, source_rows, options)
    expected = search(StepByStep(engine), source_rows, options)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    np.testing.assert_allclose([one.score for one in found], [one.score for one in expected], atol=1e-4)
    assert [one.tokens for one in found] == [one.tokens for one in search(small(name).reference, source_rows, options)]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "option",
    [{"beam_size": 4}, {"no_repeat_ngram": 1}, {"beam_size": 2, "no_repeat_ngram": 2, "min_length": 4}],
    ids=str,
)
def test_beams_where_one_call_of_the_greedy_search_cannot(
    small, small_onnx, source_rows, name: str, option: dict[str, int]
) -> None:
    options, engine = SearchOptions(max_steps=12, **option), small_onnx(name)[1]
    expected = search(small(name).reference, source_rows, options)
    for model in (engine, BeamCalls(engine), StepByStep(engine)):
        found = search(model, source_rows, options)
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        np.testing.assert_allclose([one.score for one in found], [one.score for one in expected], atol=1e-4)


def test_hypotheses_of_a_sentence_read_the_source_together(small_onnx) -> None:
    content = small_onnx("transformer")[0].beam
    assert _operators(content).count("MultiHeadAttention") == 1
    graph = onnx.load_from_string(content).graph
    shapes = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    rows = {name: sizes[0].dim_param for name, sizes in shapes.items() if sizes}
    assert rows["layers.0.cross_key"] == rows["src_mask"] == rows["tokens"] == "batch"
    assert rows["layers.0.self_key"] == rows["position"] == "rows"


@pytest.mark.parametrize("cross", ["elu", "softmax"])
def test_beams_of_a_model_whose_blocks_have_no_other_form(cross: str, source_rows) -> None:
    model = build_model_with(family="t2r", self_attention="elu", cross_attention=cross)
    traced = trace_model(model, BOUNDS)
    files, manifest = export_onnx(traced, FusedDecoder(model)), describe(traced)
    engine = SearchEngine(manifest, OnnxRunner(ENTRY, members_of(files).__getitem__, manifest.layout, threads=1))
    options = SearchOptions(max_steps=12, beam_size=3)
    expected = search(TorchStepModel(model), source_rows, options)
    assert [one.tokens for one in search(engine, source_rows, options)] == [one.tokens for one in expected]


def test_attention_is_one_operator(small_onnx) -> None:
    operators = _operators(small_onnx("transformer")[0].greedy)
    assert operators.count("GroupQueryAttention") == operators.count("MultiHeadAttention") == 1
    assert "Transpose" not in operators
    assert small_onnx("transformer")[0].operators == (
        "com.microsoft::GroupQueryAttention",
        "com.microsoft::MultiHeadAttention",
    )
    wide_heads = {"family": "lite-transformer", "conv_type": "dynamic", "conv_glu": True, "num_heads": 1}
    assert FusedDecoder(build_model_with(**wide_heads, **KERNELS)).plain_blocks == []


def test_heads_that_the_operator_does_not_take(small, small_onnx) -> None:
    """Its heads are of 4 channels, and the operator wants a multiple of 8: products and a softmax take its place."""
    assert FusedDecoder(small("lite-transformer-dynamic").model).plain_blocks == []
    operators = _operators(small_onnx("lite-transformer-dynamic")[0].greedy)
    assert "GroupQueryAttention" not in operators
    # One more for the kernel of the convolution.
    assert operators.count("Softmax") == 2
    assert operators.count("MultiHeadAttention") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"family": "transformer"},
        {"family": "transformer", "pre_norm": True, "final_norm": True},
        {"family": "lite-transformer", "conv_type": "dynamic", "conv_glu": True, "num_heads": 1, **KERNELS},
        {"family": "lite-transformer", "tie_embeddings": "none", "num_heads": 1, **KERNELS},
        {"family": "lightconv", **KERNELS},
        {
            "family": "subformer",
            "sharing": "sandwich",
            "sandwich_dim": 32,
            "num_encoder_layers": 3,
            "num_decoder_layers": 3,
        },
        {"family": "subformer", "embedding": "safe", "embedding_dim": 64},
        {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "quaternion", "linear_n": 4},
    ],
    ids=str,
)
def test_the_fused_form_equals_the_model(options: dict[str, Any]) -> None:
    model = build_model_with(**options)
    _expect_equal(model, FusedDecoder(model))


def _expect_equal(model: nn.Module, fused: nn.Module) -> None:
    tokens = torch.arange(3, 27).reshape(2, 12)
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 4:] = False
    with torch.no_grad():
        memory = model.encode(tokens, mask)
        states = [one.init_state(memory, mask, 9) for one in (model, fused)]
        for token in (1, 7, 30, 5):
            logits = []
            for place, one in enumerate((model, fused)):
                found, states[place] = one.decode_step(torch.tensor([token, token + 1]), states[place])
                logits.append(found)
            torch.testing.assert_close(logits[0], logits[1], atol=1e-5, rtol=0)


def test_blocks_without_another_form_are_named() -> None:
    model = build_model_with(family="t2r", self_attention="elu", cross_attention="elu")
    fused = FusedDecoder(model)
    assert fused.plain_blocks == ["decoder.0.cross", "decoder.0.mixer.attention"]
    _expect_equal(model, fused)


def test_heads_of_any_width_have_a_form() -> None:
    narrow = build_model_with(family="transformer", head_dim=6)
    fused = FusedDecoder(narrow)
    assert fused.plain_blocks == []
    _expect_equal(narrow, fused)


def test_the_model_s_own_steps_in_the_loop(small, source_rows) -> None:
    made = small("lite-transformer-dynamic")
    files = export_onnx(made.traced, made.model)
    assert files.operators == ()
    assert not {"GroupQueryAttention", "MultiHeadAttention"} & set(_operators(files.greedy))
    runner = OnnxRunner(ENTRY, members_of(files).__getitem__, made.manifest.layout, threads=1)
    engine = SearchEngine(made.manifest, runner)
    for beam_size in (1, 3):
        options = SearchOptions(max_steps=12, beam_size=beam_size)
        expected = search(made.reference, source_rows, options)
        assert [one.tokens for one in search(engine, source_rows, options)] == [one.tokens for one in expected]


#: Types that have the largest logit, and how many types there are, each of which is exported anew: every of both once.
LARGEST = [(4, 29), (17, 18, 23), (2, 9), (0, 1, 8), (29,)]
TYPES = [30, 31, 64]
EVERY_ONCE = [(largest, TYPES[place % len(TYPES)]) for place, largest in enumerate(LARGEST)]


@pytest.mark.parametrize("case", select(itertools.product(LARGEST, TYPES), EVERY_ONCE), ids=str)
def test_of_equal_logits_the_first_counts(source_rows, case: tuple[tuple[int, ...], int]) -> None:
    largest, types = case
    model = build_own_model(types)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.linspace(-2, -1, types).flip(0))
        model.output.bias[list(largest)] = 3.0
    engine = _own_engine(model, types)
    rows = [[3 + token % (types - 3) for token in row] for row in source_rows]
    (found, *_) = search(engine, rows, SearchOptions(max_steps=3))
    token = next(token for token in largest if token >= EOS_ID)
    assert found.tokens == ([] if token == EOS_ID else [token] * 2)
    (found, *_) = search(engine, rows, SearchOptions(max_steps=3, min_length=1))
    assert found.tokens[0] == next((token for token in largest if token > EOS_ID), None)


def test_weights_that_are_no_numbers_are_named(source_rows) -> None:
    model = build_own_model()
    with torch.no_grad():
        model.target.weight.fill_(torch.nan)
    with pytest.raises(ModelError, match="its weights are damaged"):
        search(_own_engine(model, VOCAB_SIZE), [[3, 4], [5]], SearchOptions(max_steps=3))


def _own_engine(model: nn.Module, types: int) -> SearchEngine:
    traced = trace_model(model, BOUNDS)
    files, manifest = export_onnx(traced, model), describe(traced, types=types)
    return SearchEngine(manifest, OnnxRunner(ENTRY, members_of(files).__getitem__, manifest.layout, threads=1))


def test_weights_of_the_step_are_stored_once_for_all_graphs(small, small_onnx) -> None:
    files = small_onnx("transformer")[0]
    both = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in onnx.load_from_string(files.greedy).graph.initializer
        if tensor.external_data
    }
    places = [(place["offset"], place["length"]) for place in both.values()]
    assert len(places) == len(set(places))


def test_an_older_runtime_is_named(small, small_onnx, monkeypatch: pytest.MonkeyPatch) -> None:
    made, read = small("transformer"), members_of(small_onnx("transformer")[0]).__getitem__
    entry = ENTRY.model_copy(update={"oldest_runtime": "1.24"})
    monkeypatch.setattr(onnxruntime, "__version__", "1.9.1")
    with pytest.raises(RuntimeUnavailableError, match=r"expected ONNX Runtime 1.24 or newer.* found 1.9.1.*--portable"):
        entry.open_runner(read, made.manifest.layout, threads=1)
    monkeypatch.setattr(onnxruntime, "__version__", "1.24.3")
    entry.open_runner(read, made.manifest.layout, threads=1)


def test_a_graph_without_its_loop_is_not_counted(small_onnx) -> None:
    files = small_onnx("transformer")[0]
    with pytest.raises(CountError, match="expected one Loop, found 0"):
        count_search_work(files.encode, Bounds(source=9, capacity=10, executorch_batch=4))


class _Fake:
    """A runner whose search gives what it is told to."""

    def __init__(self, tokens: np.ndarray, log_probs: np.ndarray) -> None:
        self._found = tokens, log_probs

    def encode(self, src_tokens: np.ndarray, src_mask: np.ndarray) -> dict[str, np.ndarray]:
        raise AssertionError

    def decode_step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        raise AssertionError

    def decode_greedily(
        self, src_tokens: np.ndarray, src_mask: np.ndarray, limits: np.ndarray, min_length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._found

    def greedy_slots(self, tokens: np.ndarray, limits: np.ndarray) -> list[int]:
        raise AssertionError


@pytest.mark.parametrize(
    ("tokens", "log_probs", "message"),
    [
        ([[5], [7]], [-1.0], "expected an end mark in every row, found none in 2 steps"),
        ([[5], [1]], [-1.0], "expected token ids 2 to 39, found 1 to 5"),
        ([[5], [40]], [-1.0], "expected token ids 2 to 39, found 5 to 40"),
        ([[5, 2], [2, 2]], [-1.0], r"tokens: expected int64 \(2, 1\)"),
        ([[5], [2]], [-1.0, 0.0], r"log_probs: expected float32 \(1,\)"),
        ([[5], [5], [5], [2]], [-1.0], r"tokens: expected int64 \(3, 1\)"),
    ],
)
def test_what_no_search_gives_is_refused(small, tokens: list[list[int]], log_probs: list[float], message: str) -> None:
    runner = _Fake(np.array(tokens), np.array(log_probs, np.float32))
    engine = SearchEngine(small("transformer").manifest, runner)
    with pytest.raises(BundleError, match=message):
        search(engine, [[5, 6]], SearchOptions(max_steps=3))


def test_a_damaged_model_is_named(small) -> None:
    engine = SearchEngine(small("transformer").manifest, _Fake(np.array([[2]]), np.array([np.nan], np.float32)))
    with pytest.raises(ModelError, match="its weights are damaged"):
        search(engine, [[5, 6]], SearchOptions())


def test_sources_and_limits_within_the_bounds(small) -> None:
    made = small("transformer")
    engine = SearchEngine(made.manifest, _Fake(np.array([[2]]), np.zeros(1, np.float32)))
    with pytest.raises(BundleError, match="exported for at most 24 tokens"):
        search(engine, [[5] * 30], SearchOptions(max_steps=3))
    with pytest.raises(BundleError, match="decoder steps, found"):
        search(engine, [[5] * 3], SearchOptions(max_length_extra=made.traced.bounds.capacity + 1))
