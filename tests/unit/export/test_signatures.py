"""A manifest that does not describe the graphs is refused when they are loaded, before they translate a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lite_nlp.core.errors import BundleError
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.engine import Engine, create_engine
from lite_nlp.export.runtime.manifest import Manifest, parse_manifest
from tests.unit.export.conftest import VOCAB_SIZE

FAMILY = "lite-transformer-dynamic"
TYPES = ["<pad>", "<s>", "</s>", *(f"t{number}" for number in range(VOCAB_SIZE - 3))]
TOKENIZER = json.dumps({"model": {"vocab": {token: number for number, token in enumerate(TYPES)}}}).encode()


@pytest.fixture(scope="module")
def files(small_onnx, small_executorch) -> dict[str, bytes]:
    graphs = small_onnx(FAMILY)[0]
    return {
        "tokenizer.json": TOKENIZER,
        "config.toml": b"name = 'small'\n",
        "encode.onnx": graphs.encode,
        "decode_step.onnx": graphs.decode_step,
        "greedy.onnx": graphs.greedy,
        "beam.onnx": graphs.beam,
        "weights.bin": graphs.weights,
        "model.pte": small_executorch(FAMILY)[0].content,
    }


@pytest.fixture(scope="module")
def document(small, files: dict[str, bytes]) -> dict[str, Any]:
    manifest: Manifest = small(FAMILY).manifest.model_copy(update={"files": describe_files(files)})
    content: dict[str, Any] = json.loads(manifest.to_json())
    return content


@pytest.fixture
def opened(document: dict[str, Any], files: dict[str, bytes], tmp_path: Path) -> Callable[..., Bundle]:
    """The bundle with another manifest, other files, or both."""

    def write(change: Callable[[dict[str, Any]], object] = lambda it: None, **others: bytes) -> Bundle:
        changed = json.loads(json.dumps(document))
        change(changed)
        content = {**files, **{name.replace("_onnx", ".onnx"): value for name, value in others.items()}}
        manifest = parse_manifest(json.dumps(changed).encode(), source="changed")
        manifest = manifest.model_copy(update={"files": describe_files(content)})
        write_bundle(tmp_path / "small.zip", manifest=manifest, files=content, force=True)
        return open_bundle(tmp_path / "small.zip")

    return write


def refusals(opened: Callable[..., Bundle], change: Callable[[dict[str, Any]], object], runtime: str) -> str:
    """The message of the refusal, of the manifest or of the graphs."""
    with pytest.raises(BundleError) as caught:
        load(opened(change), runtime)
    return str(caught.value)


def load(bundle: Bundle, runtime: str) -> None:
    """Load all graphs: ONNX Runtime's are loaded when they are needed."""
    Engine.try_out(create_engine(bundle, runtime=runtime, threads=1))


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_the_bundle_itself_runs(opened, runtime: str) -> None:
    engine = create_engine(opened(), runtime=runtime, threads=1)
    logits, _ = engine.step(np.array([1]), engine.start(np.array([[5, 2]]), np.ones((1, 2), np.bool_), 3))
    assert logits.shape == (1, VOCAB_SIZE)


#: What can be wrong with one tensor of the state; the second says whether it has to be known by its name.
MUTATIONS: dict[str, tuple[Callable[[list[dict[str, Any]], int], object], bool]] = {
    "dropped": (lambda state, at: state.pop(at), False),
    "renamed": (lambda state, at: state[at].update(name="other"), True),
    "of another type": (
        lambda state, at: state[at].update(dtype="int64" if state[at]["dtype"] == "float32" else "float32"),
        False,
    ),
    "with a dimension more": (lambda state, at: state[at]["shape"].append(3), False),
    "with a dimension less": (lambda state, at: state[at]["shape"].pop(), False),
    "with another size": (
        lambda state, at: state[at].update(
            shape=[*state[at]["shape"][:-1], "capacity", 7][: len(state[at]["shape"]) + 1]
        ),
        False,
    ),
    "with sizes transposed": (
        lambda state, at: state[at].update(shape=["batch", *state[at]["shape"][:0:-1], 1]),
        False,
    ),
    "of another origin": (
        lambda state, at: state[at].update(
            origin={"zeros": "encode", "encode": "zeros", "src_mask": "zeros"}[state[at]["origin"]]
        ),
        False,
    ),
    "that changes, or does not": (lambda state, at: state[at].update(changes=not state[at]["changes"]), False),
}


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_every_state_tensor_is_that_of_the_graphs(opened, document, mutation: str, runtime: str) -> None:
    change, by_name = MUTATIONS[mutation]
    if by_name and runtime == "executorch":
        pytest.skip("ExecuTorch binds by position: another name changes nothing")
    for at in range(len(document["state"])):
        message = refusals(opened, lambda it, at=at: change(it["state"], at), runtime)
        assert "expected" in message
        assert len(message) < 2000


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda it: it["vocabulary"].update(tgt_size=VOCAB_SIZE + 1), "logits"),
        (lambda it: it["vocabulary"].update(src_size=VOCAB_SIZE + 1), "do not run"),
        (lambda it: it["state"].append({**it["state"][0], "name": "more"}), "decode_step"),
    ],
)
def test_sizes_and_counts(opened, change: Callable[[dict[str, Any]], object], part: str, runtime: str) -> None:
    assert part in refusals(opened, change, runtime)


def test_bounds_and_names_that_only_one_runtime_has(opened) -> None:
    def bounds(**changes: int) -> Callable[[dict[str, Any]], object]:
        return lambda it: it["bounds"].update(changes)

    for changes in ({"source": 48}, {"capacity": 10}, {"executorch_batch": 8}):
        assert "as the manifest says" in refusals(opened, bounds(**changes), "executorch")
    assert "outputs of decode_step" in refusals(opened, lambda it: it["onnx"].update(new_prefix="old."), "onnx")


def test_the_graphs_exchanged(opened, files: dict[str, bytes]) -> None:
    swapped = {"encode_onnx": files["decode_step.onnx"], "decode_step_onnx": files["encode.onnx"]}
    with pytest.raises(BundleError, match="inputs of encode: expected src_tokens, src_mask"):
        load(opened(**swapped), "onnx")


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_a_damaged_graph_is_refused_without_a_word(opened, files: dict[str, bytes], runtime: str, capfd) -> None:
    random = np.random.default_rng(2)
    refused = 0
    for _ in range(12):
        name = "encode_onnx" if runtime == "onnx" else "model.pte"
        content = bytearray(files[name.replace("_", ".")])
        # The beginning holds the structure in both formats.
        for place in random.integers(0, min(len(content), 3000), 3):
            content[place] ^= 1 << int(random.integers(8))
        try:
            load(opened(**{name: bytes(content)}), runtime)
        except BundleError:
            refused += 1
    assert refused > 6
    found = capfd.readouterr()
    assert (found.out, found.err) == ("", "")


def _start(engine: Engine, capacity: int) -> Any:
    return engine.start(np.array([[5, 6, 2], [7, 2, 0]]), np.array([[True] * 3, [True, True, False]]), capacity)


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_a_step_too_many_or_with_an_unknown_token_is_refused(opened, runtime: str) -> None:
    engine = create_engine(opened(), runtime=runtime, threads=1)
    state = _start(engine, 3)
    for tokens, message in (
        ([1, VOCAB_SIZE], f"expected token ids 0 to {VOCAB_SIZE - 1}, found 1 to {VOCAB_SIZE}"),
        ([-1, 1], f"expected token ids 0 to {VOCAB_SIZE - 1}, found -1 to 1"),
        ([1], "expected a token for each of 2 rows"),
        ([1, 1, 1], "expected a token for each of 2 rows"),
    ):
        with pytest.raises(BundleError, match=message):
            engine.step(np.array(tokens), state)
    for _ in range(3):
        _, state = engine.step(np.array([1, 5]), engine.reorder(state, np.array([1, 0])))
    with pytest.raises(BundleError, match="expected at most 3 steps, the capacity of the state, found one more"):
        engine.step(np.array([1, 5]), engine.reorder(state, np.array([0, 1])))


def test_rows_that_stay_with_their_source_keep_what_the_encoder_gave(opened) -> None:
    engine = create_engine(opened(), runtime="onnx", threads=1)
    state = engine.reorder(_start(engine, 3), np.array([0, 0, 1]))
    _, state = engine.step(np.array([5, 6, 7]), state)
    within, across = (engine.reorder(state, np.array(rows)) for rows in ([1, 0, 2], [2, 0, 1]))
    for tensor in engine._manifest.state:
        before = state.tensors[tensor.name]
        assert np.array_equal(within.tensors[tensor.name], before[[1, 0, 2]])
        assert np.array_equal(across.tensors[tensor.name], before[[2, 0, 1]])
        assert (within.tensors[tensor.name] is before) == (not tensor.changes)


class _Runner:
    """Gives whatever tensors it is told to."""

    def __init__(self, engine: Engine, **changes: Any) -> None:
        self._runner, self._changes = engine._runner, changes

    def encode(self, *arguments: Any) -> Any:
        return {name: self._change(name, value) for name, value in self._runner.encode(*arguments).items()}

    def decode_step(self, *arguments: Any) -> Any:
        logits, changed = self._runner.decode_step(*arguments)
        return self._change("logits", logits), {name: self._change(name, value) for name, value in changed.items()}

    def _change(self, name: str, value: Any) -> Any:
        return self._changes.get(name.rpartition(".")[2], lambda tensor: tensor)(value)


@pytest.mark.parametrize(
    "change", [lambda it: it[:, :1], lambda it: it[:1], lambda it: it.astype(np.float64), lambda it: None]
)
@pytest.mark.parametrize("name", ["logits", "cross_key", "self_key"])
def test_tensors_that_a_graph_gives_are_checked(opened, name: str, change: Callable[[Any], Any]) -> None:
    engine = create_engine(opened(), runtime="onnx", threads=1)
    wrong = Engine(opened().manifest, _Runner(engine, **{name: change}))
    if name == "logits" and change(np.zeros((2, 2))) is None:
        pytest.skip("a runner always gives logits")
    with pytest.raises(BundleError, match=r"expected float32 \(.*\) as the manifest says, found"):
        wrong.step(np.array([1, 5]), _start(wrong, 3))
