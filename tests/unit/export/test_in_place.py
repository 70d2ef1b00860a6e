"""A decoder step whose state stays in the program: traced, lowered, and in the search of one row."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.executorch_program import ExecuTorchProgram, export_executorch
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime.engine import GreedyEngine
from lite_nlp.export.runtime.executorch import ExecuTorchRunner
from lite_nlp.export.runtime.executorch_greedy import PassedRows, decode_row, decode_rows
from lite_nlp.export.runtime.layout import Bounds, Layout, StateTensor
from lite_nlp.export.searches.growing_state import state_example
from lite_nlp.export.searches.in_place_step import InPlaceStep, trace_in_place_steps
from lite_nlp.export.tracing import TracedModel, trace_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.export.conftest import BOUNDS, build_model_with, describe
from tests.unit.export.own_model import build_own_model

#: Heads of 4 channels; a window longer than most outputs; two layers.
LSRA: dict[str, Any] = {
    "family": "lite-transformer",
    "conv_type": "dynamic",
    "conv_glu": True,
    "num_heads": 2,
    "kernel_sizes": (5,),
    "decoder_kernel_sizes": (9, 3),
    "num_decoder_layers": 2,
}

#: A model of each kind of block.
FORMS: list[dict[str, Any]] = [
    {"family": "transformer"},
    {"family": "transformer", "pre_norm": True, "final_norm": True},
    LSRA,
    {**LSRA, "conv_type": "lightweight", "tie_embeddings": "none"},
    {"family": "lightconv", "kernel_sizes": (5,), "decoder_kernel_sizes": (9,)},
    {"family": "subformer", "embedding": "safe", "embedding_dim": 64},
    {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "quaternion", "linear_n": 4},
    {"family": "t2r", "self_attention": "elu", "cross_attention": "softmax"},
    {
        "family": "t2r",
        "self_attention": "t2r",
        "cross_attention": "t2r",
        "self_feature_size": 6,
        "cross_feature_size": 4,
    },
]

LAYOUT = Layout(
    state=(StateTensor(name="mask", dtype="bool", shape=("batch", "source"), origin="encode", changes=False),),
    bounds=Bounds(source=9, capacity=9, executorch_batch=8),
    tgt_size=6,
)


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_the_step_in_place_equals_the_models(options: dict[str, Any]) -> None:
    model = build_model_with(**options)
    fused = FusedDecoder(model)
    example = state_example(fused)
    step = InPlaceStep(fused, example.layout, example.growing, capacity=9)
    tokens, mask = torch.arange(3, 15)[None], torch.ones(1, 12, dtype=torch.bool)
    mask[:, 9:] = False
    with torch.no_grad():
        memory = model.encode(tokens, mask)
        source = fused.init_state(memory, mask, 0)
        given = tuple(source[tensor.name] for tensor in example.layout if not tensor.changes)
        # The second output finds what the first has left in the program.
        for length in (9, 4):
            state = model.init_state(memory, mask, 9)
            for place in range(length):
                token = torch.tensor([3 + 5 * place % 30])
                expected, state = model.decode_step(token, state)
                found = step(token, torch.tensor([place]), given)
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_model_without_such_a_form() -> None:
    """The model itself has caches with a capacity, and a form that does not say how they grow is not trusted."""
    assert trace_in_place_steps(build_model_with(**LSRA), BOUNDS) is None

    class Grown(FusedDecoder):
        writes_in_place = False

    assert trace_in_place_steps(Grown(build_model_with(**LSRA)), BOUNDS) is None
    # Its hidden state begins as a mean of the source, which the program would have to be given.
    assert trace_in_place_steps(build_own_model(), BOUNDS) is None


@cache
def lowered() -> tuple[EncoderDecoder, TracedModel, ExecuTorchProgram]:
    model = build_model_with(**LSRA)
    traced = trace_model(model, BOUNDS)
    return model, traced, export_executorch(traced, in_place=trace_in_place_steps(FusedDecoder(model), BOUNDS))


def _runner() -> ExecuTorchRunner:
    _, traced, program = lowered()
    return ExecuTorchRunner(describe(traced).layout, program.content, threads=1, in_place=True)


def test_one_sentence_after_the_other_gives_the_models_tokens(source_rows: list[list[int]]) -> None:
    model, traced, _ = lowered()
    engine = GreedyEngine(describe(traced), _runner())
    for options in (SearchOptions(max_steps=20), SearchOptions(max_steps=7, min_length=3)):
        report = compare_engines(Reference(TorchStepModel(model), source_rows), engine, options, batch=1)
        assert report.disagreements == ()
    row = source_rows[7]
    (alone,) = search(engine, [row], SearchOptions(max_steps=9))
    together = search(engine, [row, source_rows[3]], SearchOptions(max_steps=9))[0]
    assert alone.tokens == together.tokens
    assert alone.score == pytest.approx(together.score, abs=1e-5)


def test_sentences_of_several_threads_do_not_meet(source_rows: list[list[int]]) -> None:
    """A program keeps the state of one sentence: the others wait for its end."""
    engine, options = GreedyEngine(describe(lowered()[1]), _runner()), SearchOptions(max_steps=20)
    expected = [search(engine, [row], options)[0].tokens for row in source_rows]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda row: search(engine, [row], options)[0].tokens, source_rows * 4))
    assert found == expected * 4


def test_what_the_program_holds_and_counts() -> None:
    _, _, program = lowered()
    kernels = program.calls["decode_in_place"].kernels
    assert kernels["llama::update_cache.out"] == 4
    assert kernels["llama::custom_sdpa.out"] == 2
    total = {name: calls.delegated + sum(calls.kernels.values()) for name, calls in program.calls.items()}
    assert total["decode_in_place"] < total["decode_step"]
    # Caches as long as the tokens so far; all else as in the step with a capacity.
    assert list(program.work_in_place) == ["decode_in_place", "decode_rows_in_place"]
    assert all(work == program.work for work in program.work_in_place.values())


def test_slots_of_a_row_alone() -> None:
    runner = _runner()
    assert runner.greedy_slots(np.array([[3], [4], [2]]), np.array([9])) == [1, 2, 3]
    assert runner.greedy_slots(np.array([[3, 2], [2, 2]]), np.array([9, 5])) == [9, 9, 9]


def test_a_state_that_is_no_number_is_left_behind() -> None:
    """As if a sentence, or a method with which the memory is shared, had poisoned the program's windows."""
    runner = _runner()
    sources, mask = np.array([[5, 6, 7, 2]]), np.ones((1, 4), np.bool_)
    expected = runner.decode_greedily(sources, mask, np.array([6]), 0)
    method = runner._in_place
    given: dict[str, Any] = runner.encode(sources, mask) | {"src_mask": mask}
    poisoned = {name: np.full_like(value, np.nan) if value.dtype != bool else value for name, value in given.items()}
    layout = describe(lowered()[1]).layout

    def feed(place: int, tensors: dict[str, Any]) -> bool:
        arguments = [torch.from_numpy(tensors[tensor.name]) for tensor in layout.given]
        (logits,) = method([torch.tensor([1]), torch.tensor([place]), *arguments])
        return bool(logits.isnan().all())

    assert [feed(place, poisoned) for place in range(2)] == [True, True]
    assert feed(0, given)
    found = runner.decode_greedily(sources, mask, np.array([6]), 0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


class Script:
    """A program of one row with the logits of a list, of each position."""

    def __init__(self, steps: list[dict[int, float]]) -> None:
        self.steps = steps
        self.fed: list[tuple[int, int]] = []

    def __call__(self, tensors: list[Any]) -> list[Tensor]:
        token, position, _ = tensors
        self.fed.append((int(token), int(position)))
        logits = torch.full((1, 6), -1.0)
        for type_, value in self.steps[int(position)].items():
            logits[0, type_] = value
        return [logits]


def decode(step: Callable[[list[Any]], list[Any]], limit: int, min_length: int = 0) -> tuple[list[int], float]:
    return decode_row(step, LAYOUT, {"mask": np.ones((1, 3), np.bool_)}, limit, min_length)


def test_a_row_ends_by_itself() -> None:
    script = Script([{3: 5.0}, {4: 5.0}, {2: 5.0}])
    tokens, log_prob = decode(script, 9)
    assert tokens == [3, 4, 2]
    assert script.fed == [(1, 0), (3, 1), (4, 2)]
    alone = torch.tensor([-1.0, -1.0, -1.0, 5.0, -1.0, -1.0]).log_softmax(0)[3].item()
    assert log_prob == pytest.approx(3 * alone, rel=1e-6)


def test_limits_and_the_least_length_of_a_row() -> None:
    assert decode(Script([{3: 5.0}] * 9), 4)[0] == [3, 3, 3, 2]
    assert decode(Script([{2: 9.0, 4: 1.0}] * 9), 9, min_length=2)[0] == [4, 4, 2]
    # Of equal ones the end counts; where no word can follow, it does before the least length.
    assert decode(Script([{2: 1.0, 4: 1.0}]), 9)[0] == [2]
    assert decode(Script([dict.fromkeys((3, 4, 5), -np.inf)]), 9, min_length=3)[0] == [2]


@pytest.mark.parametrize("logits", [torch.zeros(2, 6), torch.zeros(1, 7), torch.zeros(1, 6).half()])
def test_other_logits_than_the_manifest_says(logits: Tensor) -> None:
    with pytest.raises(BundleError, match=r"decode_in_place: logits: expected torch.float32 \(1, 6\)"):
        decode(lambda tensors: [logits], 3)


def test_rows_and_a_row_choose_alike() -> None:
    """Random logits, with the rules of both searches."""
    random = np.random.default_rng(2)
    layout = Layout(
        state=(StateTensor(name="step", dtype="int64", shape=("batch",), origin="zeros", changes=True), *LAYOUT.state),
        bounds=LAYOUT.bounds,
        tgt_size=6,
    )
    for min_length in (0, 3):
        table = torch.from_numpy(random.normal(size=(9, 6)).round(1).astype(np.float32))
        state = {"step": np.zeros(1, np.int64), "mask": np.ones((1, 3), np.bool_)}
        passed = PassedRows(lambda tensors, table=table: [table[tensors[1]], tensors[1] + 1], layout, state)
        together = decode_rows(passed, np.array([9]), min_length)
        alone = decode(lambda tensors, table=table: [table[tensors[1]]], 9, min_length)
        assert alone[0] == together.tokens[0]
        assert alone[1] == pytest.approx(together.log_probs[0], abs=1e-5)
