"""Language models in the form for runtimes: what they say is what the models say."""

import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lite_nlp.artifacts.fused_text import fuse_attention
from lite_nlp.budget.traced.graphs import work_from_json
from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.decoding.continuation import GenerationOptions, continue_rows
from lite_nlp.decoding.torch_model import TorchTextModel
from lite_nlp.export.counting.task_graphs import count_modules
from lite_nlp.export.counting.torch_programs import count_in_place_work
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.onnx_integers import find_matrices
from lite_nlp.export.runtime import layout, program_runners, text_steps
from lite_nlp.export.runtime.bundle import open_bundle
from lite_nlp.export.runtime.layout import Bounds, Layout
from lite_nlp.export.runtime.manifest import parse_manifest
from lite_nlp.export.runtime.programs import kept_signatures, program_signatures
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.task_engines import TextEngine, create_text_engine
from lite_nlp.export.searches.in_place_step import InPlaceStep, trace_text_rows_in_place
from lite_nlp.export.searches.rows_in_place_step import RowsInPlaceStep
from lite_nlp.export.task_tracing import describe_text_state, task_graphs, trace_task_graph
from lite_nlp.export.tasks.divergence import TextDivergence
from lite_nlp.export.tasks.files import TracedTask
from lite_nlp.export.tasks.onnx import convert_task
from lite_nlp.models.language_model import LanguageModel
from tests.selection import VARIANT_NAMES, select
from tests.unit.export.own_tasks import TYPES, export
from tests.unit.models.language_models import LM_VARIANTS, language_model

#: Heads of 8 channels, which every operator takes; a convolution keeps a window beside the caches.
MIXED: dict[str, Any] = {
    "family": "lite-transformer",
    "embed_dim": 32,
    "decoder_kernel_sizes": (3, 5),
    "tgt_vocab_size": TYPES,
    "max_positions": 64,
}
#: A model of the family of pretrained transformers that became recurrent, with heads that every operator takes.
MIXED_SIZES: dict[str, Any] = {"embed_dim": 32, "num_decoder_layers": 2, "tgt_vocab_size": TYPES, "max_positions": 64}
BOUNDS = Bounds(source=20, capacity=24, executorch_batch=4)


def _texts(rows: int, length: int) -> Tensor:
    return torch.randint(3, TYPES, (rows, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("name", select(LM_VARIANTS, [*VARIANT_NAMES, "adaptive", "adaptive-t2r"]))
def test_the_state_may_stay_where_it_is(name: str) -> None:
    model = language_model(**LM_VARIANTS[name]).eval()
    fused, state = fuse_attention(model), describe_text_state(model)
    kept = InPlaceStep(fused, state, [tensor.name for tensor in state if "capacity" in tensor.shape], 12, "read")
    with torch.no_grad():
        # The second text begins where the first is still in the buffers.
        for text in _texts(2, 12) % model.config.tgt_vocab_size:
            for parts in ([1] * 12, [5, 1, 6]):
                place, expected = 0, model.init_state(1, 12)
                for part in text[None].split(parts, dim=1):
                    logits, expected = model.read(part, expected)
                    found = kept(part, torch.tensor([place]), ())
                    torch.testing.assert_close(found, logits, rtol=1e-5, atol=1e-5)
                    place += part.shape[1]


def test_it_has_the_weights_of_the_model() -> None:
    model = language_model(**MIXED)
    shared = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in fuse_attention(model).parameters()} == shared


@pytest.fixture(scope="module")
def mixed() -> LanguageModel:
    return language_model(**MIXED).eval()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, mixed: LanguageModel) -> Path:
    path = tmp_path_factory.mktemp("fused") / "mixed.zip"
    export(path, mixed, task="language-modelling", step_form=fuse_attention(mixed), bounds=BOUNDS)
    return path


def _engine(bundle: Path, runtime: str) -> TextEngine:
    return create_text_engine(open_bundle(bundle), runtime=runtime, threads=1)


def test_what_the_bundle_says(bundle: Path, mixed: LanguageModel) -> None:
    manifest = open_bundle(bundle).manifest
    onnx, executorch = manifest.programs.onnx, manifest.programs.executorch
    assert onnx is not None
    assert executorch is not None
    assert set(onnx.graphs) == {"read", "score"}
    assert onnx.operators == ("com.microsoft::GroupQueryAttention",)
    caches = [tensor.name for tensor in manifest.state if "capacity" in tensor.shape]
    assert len(caches) == 4
    assert onnx.caches == tuple(caches)
    assert set(executorch.calls) == {"read_in_place", "decode_rows_in_place", "score"}
    attended = [executorch.calls[name].kernels for name in ("read_in_place", "decode_rows_in_place")]
    assert [kernels["llama::custom_sdpa.out"] for kernels in attended] == [2, 2]
    # Of several rows, what is no cache is written where it is too: the position and two windows, and each at first.
    assert [kernels["llama::update_cache.out"] for kernels in attended] == [4, 10]
    assert executorch.names == onnx.names
    assert manifest.graphs["torch"] == manifest.graphs["onnx"] == manifest.graphs["executorch"]


def test_a_step_writes_caches_where_they_are(
    bundle: Path, mixed: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_steps, "_ROOM", 8)
    engine, module = _engine(bundle, "onnx"), TorchTextModel(mixed)
    texts = _texts(3, 20).numpy()
    state, other = engine.start(3, 20), module.start(3, 20)
    assert [engine.attended(state, count) for count in (1, 2, 9)] == [1, 2, 9]
    held = []
    for part in np.split(texts, [1, 2, 3, 6, 7, 8, 9, 19], axis=1):
        logits, state = engine.read(part, state)
        expected, other = module.read(part, other)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        held.append(state.steps.tensors["layers.0.self_key"])
    # The same arrays from one call to the next, new ones where the room is used up.
    assert [after is before for before, after in pairwise(held)] == [True, True, True, True, True, False, False, True]


def test_rows_that_leave_take_their_caches_along(bundle: Path, mixed: LanguageModel) -> None:
    engine, module = _engine(bundle, "onnx"), TorchTextModel(mixed)
    texts = _texts(3, 4).numpy()
    state, other = engine.start(3, 4), module.start(3, 4)
    for place, rows in enumerate(([0, 1, 2], [2, 0], [1, 1, 0], [0])):
        state, other = engine.reorder(state, np.array(rows)), module.reorder(other, np.array(rows))
        part = texts[: len(rows), place : place + 1]
        logits, state = engine.read(part, state)
        expected, other = module.read(part, other)
        np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_program_has_one_text_at_a_time(bundle: Path, mixed: LanguageModel) -> None:
    engine, module = _engine(bundle, "executorch"), TorchTextModel(mixed)
    assert engine.max_read == 20
    first, second = _texts(2, 22).numpy()[:, None]
    # Two texts in turns, and the other method of the program in between: what is lost is read again.
    states = [engine.start(1, 22), engine.start(1, 22)]
    others = [module.start(1, 22), module.start(1, 22)]
    for cut in ((0, 20), (20, 21), (21, 22)):
        for place, text in enumerate((first, second)):
            part = text[:, slice(*cut)]
            logits, states[place] = engine.read(part, states[place])
            expected, others[place] = module.read(part, others[place])
            np.testing.assert_allclose(logits, expected, atol=1e-5)
        if cut == (20, 21):
            np.testing.assert_allclose(
                engine.score(first[:, :9], first[:, 1:10]), module.score(first[:, :9], first[:, 1:10]), atol=1e-5
            )
    assert engine.attended(states[0], 1) == 23
    assert engine.reorder(states[0], np.array([0])) == states[0]
    for call, message in (
        (
            lambda: engine.reorder(states[0], np.array([0, 0])),
            r"expected the only row of the state, found rows \[0, 0\]",
        ),
        (lambda: engine.read(first[:, :1], states[0]), "1 to 0 of each"),
    ):
        with pytest.raises(BundleError, match=message):
            call()


def test_a_program_has_one_batch_at_a_time(bundle: Path, mixed: LanguageModel) -> None:
    """Rows leave, are doubled and change places; other batches, texts and methods come in between."""
    engine, module = _engine(bundle, "executorch"), TorchTextModel(mixed)
    texts = _texts(4, 12).numpy()
    state, other = engine.start(4, 12), module.start(4, 12)
    for place, rows in enumerate(([0, 1, 2, 3], [3, 1, 1], [2, 0], [0], [0, 0, 0, 0])):
        state, other = engine.reorder(state, np.array(rows)), module.reorder(other, np.array(rows))
        part = texts[: len(rows), 2 * place : 2 * place + 2]
        logits, state = engine.read(part, state)
        expected, other = module.read(part, other)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        assert engine.attended(state, 1) == 2 * place + 3
        if place % 2:
            alone, others = (model.read(texts[:1, :9], model.start(1, 9))[0] for model in (engine, module))
            np.testing.assert_allclose(alone, others, atol=1e-5)
        elif place:
            engine.read(texts[:3, :1], engine.start(3, 1))
        else:
            engine.score(texts[:1, :9], texts[:1, 1:10])
    for call, message in (
        (lambda: engine.start(5, 8), "rows: expected at most 4 of 8 steps at once, found 5"),
        (lambda: engine.reorder(state, np.zeros(5, np.int64)), "rows: expected at most 4 at once, found 5"),
    ):
        with pytest.raises(BundleError, match=message):
            call()


def test_several_texts_are_taken_at_once_where_that_is_faster(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _engine(bundle, "executorch")
    # Long prompts are read faster one by one.
    assert [engine.most_rows(*sizes) for sizes in ((0, 24), (12, 12), (13, 11), (20, 4))] == [4, 4, 1, 1]
    monkeypatch.setattr(layout, "_ROW_TOKENS", 10)
    assert [engine.most_rows(*sizes) for sizes in ((0, 10), (0, 11))] == [4, 1]
    assert _engine(bundle, "onnx").most_rows(20, 4) is None


def test_places_of_several_texts() -> None:
    """Together no more than for one, or a few hundred each."""
    rows = [Bounds(source=9, capacity=capacity, executorch_batch=8).row_tokens for capacity in (64, 300, 1024, 8192)]
    assert rows == [64, 256, 256, 1024]


@pytest.mark.parametrize("name", select(LM_VARIANTS, [*VARIANT_NAMES, "adaptive", "adaptive-t2r"]))
def test_rows_that_extend_one_another(name: str) -> None:
    model = language_model(**LM_VARIANTS[name]).eval()
    state = describe_text_state(model)
    caches = [tensor.name for tensor in state if "capacity" in tensor.shape]
    step = RowsInPlaceStep(fuse_attention(model), state, caches, BOUNDS)
    texts = _texts(4, 8) % model.config.tgt_vocab_size
    with torch.no_grad():
        # The second batch begins where the first is still in the buffers.
        for _ in range(2):
            expected, used = model.init_state(2, 8), 0
            ancestors, parents = torch.zeros(2, 0, dtype=torch.int64), torch.full((2,), step.most_rows)
            for place, kept in enumerate(([0, 1], [0, 0, 1], [2, 0, 0, 1], [3, 1], [1])):
                rows = torch.tensor(kept)
                expected = {name: value[rows] for name, value in expected.items()}
                ancestors = torch.cat([ancestors[rows], used + torch.arange(len(rows))[:, None]], dim=1)
                fed = texts[: len(rows), place]
                logits, expected = model.decode_step(fed, expected)
                found = step(fed, parents[rows], ancestors, torch.tensor([used]), ())
                torch.testing.assert_close(found, logits, rtol=1e-5, atol=1e-5)
                used, parents = used + len(rows), torch.arange(len(rows))


def test_linear_attention_beside_softmax(tmp_path: Path) -> None:
    """Which has one formula for one token and another for several: what reads either has the latter."""
    model = language_model(**LM_VARIANTS["t2r-every-second"] | MIXED_SIZES).eval()
    path = tmp_path / "hybrid.zip"
    manifest = export(path, model, task="language-modelling", step_form=fuse_attention(model), bounds=BOUNDS)
    assert manifest.programs.onnx is not None
    assert set(manifest.programs.onnx.graphs) == {"read", "score"}
    works = {name: work_from_json(work, task="language-modelling") for name, work in manifest.graphs.items()}
    assert {name: work.graphs["decode_step"]["contraction"](0, 8) > 0 for name, work in works.items()} == {
        "torch": True,
        "merged": True,
        "onnx": False,
        "executorch": False,
    }
    rows = [_texts(1, 9)[0].tolist(), _texts(1, 5)[0].tolist()]
    options = GenerationOptions(max_tokens=10)
    for engine in (_engine(path, "onnx"), _engine(path, "executorch")):
        found, expected = (
            continue_rows(one, rows, options, max_positions=24, numbers=range(2))
            for one in (engine, TorchTextModel(model))
        )
        assert [run.tokens for run in found] == [run.tokens for run in expected]


def test_a_step_of_rows_does_the_work_of_a_step(mixed: LanguageModel) -> None:
    state = describe_text_state(mixed)
    with quiet_libraries():
        program = prepare_program(trace_text_rows_in_place(fuse_attention(mixed), state, BOUNDS))
    signatures = program_signatures("language-modelling", Layout(state, BOUNDS, TYPES))
    graphs = task_graphs(mixed, signatures, state)
    step = count_modules({"decode_step": graphs["decode_step"]}, BOUNDS).graphs["decode_step"]
    assert count_in_place_work(program, kept_signatures(signatures, BOUNDS)["decode_rows_in_place"], BOUNDS) == step


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_rows_are_continued_as_in_torch(bundle: Path, mixed: LanguageModel, runtime: str) -> None:
    prompts = [row[:length] for row, length in zip(_texts(4, 10).tolist(), (0, 1, 5, 9), strict=True)]
    options = GenerationOptions(max_tokens=8, temperature=2.0, seed=3)
    found, expected = (
        continue_rows(model, prompts, options, max_positions=24, numbers=range(4))
        for model in (_engine(bundle, runtime), TorchTextModel(mixed))
    )
    assert [run.tokens for run in found] == [run.tokens for run in expected]
    assert len({tuple(run.tokens) for run in found}) == 4


def test_portable_graphs(tmp_path: Path) -> None:
    model = language_model(family="transformer", num_decoder_layers=1, tgt_vocab_size=TYPES, max_positions=64).eval()
    options = {"task": "language-modelling", "step_form": fuse_attention(model), "bounds": BOUNDS}
    manifest = export(tmp_path / "portable.zip", model, **options, portable=True, runtimes=["onnx"])
    assert manifest.programs.onnx is not None
    assert set(manifest.programs.onnx.graphs) == {"decode_step", "read", "score"}
    assert (manifest.programs.onnx.operators, manifest.programs.onnx.caches) == ((), ())


def test_heads_that_the_operator_does_not_take_keep_the_graphs_of_the_model() -> None:
    model = language_model(family="transformer", num_decoder_layers=1, num_heads=4, tgt_vocab_size=TYPES).eval()
    state = describe_text_state(model)
    signatures = program_signatures("language-modelling", Layout(state, BOUNDS, TYPES))
    graph = task_graphs(fuse_attention(model), signatures, state)["read"]
    read = trace_task_graph("read", graph, BOUNDS, least=1)
    assert convert_task(TracedTask(programs={}, signatures=signatures, bounds=BOUNDS, read=read)) == {}


def test_a_bundle_that_says_other_things_is_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        document = json.loads(archive.read("manifest.json"))
    onnx, executorch = (document["programs"][name] for name in ("onnx", "executorch"))
    calls = executorch["calls"]
    for name, entry, message in (
        (
            "onnx",
            {**onnx, "caches": ["layers.0.self_key", "other"]},
            "expected state that changes, found other",
        ),
        ("onnx", {**onnx, "caches": 300 * ["position"]}, "programs.onnx.caches"),
        ("executorch", {**executorch, "calls": {"read_in_place": calls["score"]}}, "decode_step, read, score alone"),
        ("executorch", {**executorch, "calls": {**calls, "write": calls["score"]}}, "decode_step, read, score alone"),
        (
            "executorch",
            {**executorch, "calls": {name: calls[name] for name in ("decode_rows_in_place", "score")}},
            "decode_step, read, score alone",
        ),
    ):
        changed = {**document, "programs": {**document["programs"], name: entry}}
        with pytest.raises(BundleError, match=message):
            parse_manifest(json.dumps(changed).encode(), source="own.zip")


def test_executorch_without_its_library_is_named(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_runners, "load_operators", lambda: False)
    with pytest.raises(RuntimeUnavailableError, match=r"library for language models .* found one without it"):
        _engine(bundle, "executorch")


def test_the_loss_of_a_mixed_precision_is_measured_token_by_token(mixed: LanguageModel) -> None:
    state = describe_text_state(mixed)
    signatures = program_signatures("language-modelling", Layout(state, BOUNDS, TYPES))
    graphs = {form: task_graphs(form, signatures, state) for form in (mixed, fuse_attention(mixed))}
    (own, other) = graphs.values()
    plain = {name: trace_task_graph(name, own[name], BOUNDS) for name in ("decode_step", "read")}
    measured = []
    for read in (None, trace_task_graph("read", other["read"], BOUNDS, least=1)):
        traced = TracedTask(programs=plain, signatures=signatures, bounds=BOUNDS, read=read)
        divergence = TextDivergence(traced, state, _texts(3, 8).tolist())
        (matrix,) = [one for one in find_matrices(*divergence.models.values()) if one.outputs == TYPES]
        measured.append([divergence.measure({}), divergence.measure({matrix.key: "int8"})])
        assert set(divergence.models) == {"decode_step" if read is None else "read"}
    assert measured[0][0] == measured[1][0] == 0
    assert measured[0][1] > 0
    assert measured[1][1] == pytest.approx(measured[0][1], rel=1e-3)
