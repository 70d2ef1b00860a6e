import json
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest

import lite_nlp as lite_nlp_package
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.bundles import decode_container, open_any_bundle
from lite_nlp.artifacts.column_steps import move_column_steps
from lite_nlp.artifacts.models import DEFAULT_MODEL, load_model
from lite_nlp.artifacts.packing import packing_of
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.limits import Limits
from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.compress.lnlp.container import write_container
from lite_nlp.compress.lnlp.encodings import GridTensor, encode_fp32, encode_grid
from lite_nlp.compress.stages import model_tensors
from lite_nlp.config.preset import parse_config
from lite_nlp.core.errors import OverBudgetError, UsageError
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import pipeline
from lite_nlp.export.exporter import RuntimeGraphs
from lite_nlp.export.exporters import EXPORTERS
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.packing import pack_members
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime import Bundle, create_engine, open_bundle
from lite_nlp.export.runtime.manifest import DecodingDefaults
from lite_nlp.export.runtime.member_maker import make_member
from lite_nlp.export.runtime.recipes import IntegersPart, Recipes, ScalesPart, TensorPart, read_recipes
from lite_nlp.export.runtime.rounded import read_codes
from lite_nlp.export.runtime.scaled import read_scalings
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.integration.conftest import MAX_SOURCE, SENTENCES, TORCH, LiteNlp, run_process

LINES = [*SENTENCES[:6], "", "A", "これは何ですか", "The old man is waiting for the bus. " * 20]
#: Of a model, by runtime.
Graphs: TypeAlias = dict[str, RuntimeGraphs]


def test_progress_on_stderr_and_one_object_on_stdout(exported: tuple[Path, str, str]) -> None:
    path, out, err = exported
    for stage in (
        "tracing",
        "converting to ONNX",
        "lowering to ExecuTorch",
        "counting the work",
        "comparing onnx",
        "comparing executorch",
    ):
        assert stage in err
    assert "Warning" not in err
    content = json.loads(out)
    assert (content["schema_version"], content["precision"], content["size_bytes"]) == (1, "fp32", path.stat().st_size)
    assert {entry["name"]: entry["size_bytes"] for entry in content["files"]} == {
        name: entry.size_bytes for name, entry in open_bundle(path).manifest.files.items()
    }
    assert {runtime: result["agreement"] for runtime, result in content["parity"].items()} == {
        "onnx": 1.0,
        "executorch": 1.0,
    }


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[pipeline.ModelCard]:
    """Cards of what is exported and not converted: that takes most of a minute and is tested elsewhere."""
    cards = []

    def write(path: Path, *, card: pipeline.ModelCard, **rest: Any) -> Any:
        path.write_bytes(b"")
        cards.append(card)
        bounds = SimpleNamespace(model_dump=dict)
        return SimpleNamespace(files={}, packed=None, precision="fp32", bounds=bounds, parity={})

    monkeypatch.setattr(pipeline, "export_bundle", write)
    return cards


def test_without_a_model_the_shipped_one_is_exported(
    cards: list[pipeline.ModelCard], tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    done = lite_nlp("export", "--out", tmp_path / "model.zip")
    assert done.code == 0, done.err
    (card,) = cards
    shipped = load_model(DEFAULT_MODEL)
    assert (card.name, card.tokenizer_json) == (DEFAULT_MODEL, shipped.tokenizer.to_json())


def test_the_bundle_says_how_output_is_searched_for(
    cards: list[pipeline.ModelCard], model_path: Path, tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    summarizer = tmp_path / "summarizer"
    shutil.copytree(model_path, summarizer)
    config = summarizer / "config.toml"
    lines = ["", "[decoding]", "no_repeat_ngram = 3", "max_length = 40", 'long_input = "truncate"', ""]
    config.write_text(config.read_text(encoding="utf-8") + "\n".join(lines), encoding="utf-8")
    for model in (model_path, summarizer):
        done = lite_nlp("export", model, "--out", tmp_path / f"{model.name}.zip")
        assert done.code == 0, done.err
    plain, asked = (card.decoding for card in cards)
    assert plain is None
    longest = parse_config(config.read_text(encoding="utf-8"), name="summarizer").training.max_tokens
    assert asked == DecodingDefaults(
        length_penalty=0.6,
        no_repeat_ngram=3,
        min_length=0,
        max_length=40,
        long_input="truncate",
        max_source_tokens=longest,
    )


def test_the_manifest_describes_the_model(exported: tuple[Path, str, str], model_path: Path) -> None:
    bundle = open_bundle(exported[0])
    manifest = bundle.manifest
    assert manifest.name == "tiny-model"
    assert (manifest.languages.src, manifest.languages.tgt) == ("en", "de")
    # The source as asked for, the capacity as far as the model's positions reach.
    assert (manifest.bounds.source, manifest.bounds.capacity) == (MAX_SOURCE, 128)
    assert set(manifest.versions) == {"lite_nlp", "torch", "executorch", "onnx", "onnxruntime", "opset"}
    assert bundle.tokenizer_json == (model_path / "tokenizer.json").read_bytes()
    config = parse_config(bundle.read("config.toml").decode(), name="bundle")
    assert config.model.family == "lite-transformer"
    model = build_model(config.model)
    assert set(manifest.graphs) == {"torch", "onnx", "executorch", "merged"}
    assert manifest.graphs["onnx"] == manifest.graphs["executorch"] == manifest.graphs["torch"]
    assert manifest.budget["params"]["total"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_a_few_hundred_sentences_give_the_same_tokens(
    exported: tuple[Path, str, str], model_path: Path, runtime: str
) -> None:
    loaded = load_model(str(model_path))
    rows = [loaded.tokenizer.encode(line)[: MAX_SOURCE - 1] for line in SENTENCES[:300]]
    assert isinstance(loaded.model, EncoderDecoder)
    engine = create_engine(open_bundle(exported[0]), runtime=runtime, threads=1)
    report = compare_engines(Reference(TorchStepModel(loaded.model), rows), engine, SearchOptions(max_steps=24))
    assert report.disagreements == ()
    beam = compare_engines(
        Reference(TorchStepModel(loaded.model), rows[:24]), engine, SearchOptions(beam_size=4, max_steps=16)
    )
    assert beam.disagreements == ()


def test_translate_gives_the_same_text_in_every_runtime(
    exported: tuple[Path, str, str], model_path: Path, tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    source = tmp_path / "source.txt"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    found = []
    for words in ([model_path], [exported[0], "--runtime", "onnx"], [exported[0], "--runtime", "executorch"]):
        done = lite_nlp("translate", *words, "--input", source, "--threads", "1")
        assert done.code == 0, done.err
        found.append(done.out)
    assert found[0].count("\n") == len(LINES)
    # Torch cuts the long line only at the model's own 128 positions, the bundle at the 96 it was exported for.
    kept = [text.split("\n")[:-2] for text in found]
    assert kept[1] == kept[2] == kept[0]
    assert found[1] == found[2]


def test_onnx_translates_without_torch(exported: tuple[Path, str, str], tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    words = ["translate", str(exported[0]), "--runtime", "onnx", "--input", str(source)]
    blocked = run_process(*words, missing=TORCH)
    assert blocked.returncode == 0, blocked.stderr
    assert blocked.stdout == run_process(*words).stdout
    assert blocked.stdout.count("\n") == len(LINES)

    words[words.index("onnx")] = "executorch"
    refused = run_process(*words, missing=TORCH)
    assert refused.returncode == 1
    assert "--runtime executorch: needs the extra lite-nlp[export]" in refused.stderr


def test_an_existing_bundle_is_kept(exported: tuple[Path, str, str], model_path: Path, lite_nlp: LiteNlp) -> None:
    before = exported[0].read_bytes()
    done = lite_nlp("export", model_path, "--out", exported[0])
    assert done.code == 1
    assert "output exists already" in done.err
    assert exported[0].read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--out", "model.onnx"], 2, "expected a name that ends in .zip, found model.onnx"),
        ([], 2, "Missing option '--out'"),
        (["--out", "model.zip", "--precision", "int4"], 2, "'int4' is not one of 'fp32', 'int8', 'mixed'"),
        (
            ["--out", "model.zip", "--precision", "int8", "--compact", "--target-size", "1MB"],
            2,
            "int8: expected no --target-size with it: compress the model first",
        ),
        (["--out", "model.zip", "--precision", "int8", "--portable"], 2, "expected no --portable with it"),
        (["--out", "model.zip", "--precision", "mixed", "--portable"], 2, "mixed: expected no --portable with it"),
        (["--out", "model.zip", "--max-loss", "1"], 2, "--max-loss: expected --precision int8 or mixed with it"),
        (
            ["--out", "model.zip", "--data", "."],
            2,
            "--data: expected --target-size, or --precision int8 or mixed, with",
        ),
        (["--out", "model.zip", "--max-src-tokens", "7"], 2, "--max-src-tokens"),
    ],
)
def test_wrong_usage(
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = lite_nlp("export", model_path, *words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def grid_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with every matrix on a grid with steps by row and column, as compression leaves it."""
    random, made, tensors = np.random.default_rng(3), model_tensors(load_model(model_path).model), {}
    for name, tensor in made.tensors.items():
        values = tensor.numpy()
        if values.ndim == 2:
            rows, columns = (random.integers(-3, 4, size).astype(np.int8) for size in values.shape)
            scaled = values / np.exp2((rows[:, None] + columns) / 2)
            step = float(np.abs(scaled).max() / 20)
            grid = GridTensor(np.rint(scaled / step).astype(np.int32), step, rows, columns)
            tensors[name] = encode_grid(grid)
        else:
            tensors[name] = encode_fp32(values)
    files = {name: (model_path / name).read_bytes() for name in ("config.toml", "tokenizer.json", "metrics.json")}
    path = tmp_path_factory.mktemp("grid") / "tiny.lnlp"
    write_container(path, tensors=tensors, files=files, metadata={}, aliases=made.aliases)
    return path


@pytest.fixture(scope="module")
def int8_bundle(grid_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A bundle of integer weights, what the command said of it, and its stderr."""
    path = tmp_path_factory.mktemp("int8") / "tiny.zip"
    done = run_process("export", str(grid_path), "--precision", "int8", "--out", str(path), "--json", "--verbose")
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout), done.stderr


def test_integer_weights(int8_bundle: tuple[Path, dict[str, Any], str]) -> None:
    path, said, _ = int8_bundle
    manifest = open_bundle(path).manifest
    assert said["precision"] == manifest.precision == "int8"
    assert list(manifest.runtimes) == ["onnx", "executorch"]
    assert "com.microsoft::DynamicQuantizeMatMul" in manifest.runtimes["onnx"].operators
    assert all(0 <= manifest.parity[runtime]["agreement"] <= 1 for runtime in manifest.runtimes)
    assert said["quality"]["runtime"] in manifest.runtimes
    quality = said["quality"]
    assert quality["metric"] == "bleu"
    assert quality["lost"] == pytest.approx(quality["before"]["bleu"] - quality["after"]["bleu"], abs=0.01)
    assert quality["lost"] <= 0.3


def test_verbose_lists_what_xnnpack_does_not_take(int8_bundle: tuple[Path, dict[str, Any], str]) -> None:
    path, _, listed = int8_bundle
    calls = open_bundle(path).manifest.runtimes["executorch"].calls
    assert list(calls) == ["encode", "decode_step", "decode_in_place", "decode_rows_in_place"]
    rows = {cells[0].strip(): cells[1:] for line in listed.splitlines() if len(cells := line.split("│")[1:-1]) == 5}
    for kernel in {kernel for called in calls.values() for kernel in called.kernels}:
        counts = [called.kernels.get(kernel, 0) for called in calls.values()]
        assert [int(cell) for cell in rows[kernel]] == counts
    assert [int(cell) for cell in rows["all of them"]] == [sum(called.kernels.values()) for called in calls.values()]
    assert [int(cell) for cell in rows["calls of XNNPACK"]] == [called.delegated for called in calls.values()]
    assert all(called.delegated > 0 for called in calls.values())


def test_integer_weights_run_without_torch(int8_bundle: tuple[Path, dict[str, Any], str], tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in SENTENCES[:3]), encoding="utf-8")
    done = run_process("translate", str(int8_bundle[0]), "--runtime", "onnx", "--input", str(source), missing=TORCH)
    assert (done.returncode, done.stdout.count("\n")) == (0, 3), done.stderr
    other = run_process("translate", str(int8_bundle[0]), "--runtime", "executorch", "--input", str(source))
    assert (other.returncode, other.stdout.count("\n")) == (0, 3), other.stderr


def test_a_compact_bundle_of_integers_is_the_plain_one_in_fewer_bytes(
    int8_bundle: tuple[Path, dict[str, Any], str], grid_path: Path
) -> None:
    bundle, loaded = open_bundle(int8_bundle[0]), load_model(grid_path)
    scalings = move_column_steps(loaded.model, loaded.stored).scalings
    packing = replace(packing_of(None, loaded), scalings=scalings)
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    names = [name for name in files if name not in pipeline.STORED]
    made, packed = pack_members(files, names, packing, Rounding(precision="int8"))
    assert packed.codes is not None
    assert packed.exponents is not None
    recipes = read_recipes(packed, made[packed.recipes.file], source="recipes")
    parts, matrices = recipes.parts, {entry.tensor for entry in recipes.rounded}
    assert "src_embedding.weight" in matrices
    for name in ("weights.bin", "model.pte"):
        assert {part.integers for part in parts[name] if isinstance(part, IntegersPart)} == matrices
        assert {part.scales for part in parts[name] if isinstance(part, ScalesPart)} == matrices
    # What is left is the table of positions, whose last bits differ, and what stays in fp32.
    residuals = {name: len(made[member.residual]) for name, member in packed.members.items()}
    assert residuals["weights.bin"] < 0.3 * len(files["weights.bin"])
    contents = packing.decode(packing.container)
    exponents = read_scalings(recipes.scaled, made[packed.exponents], contents.own_tensors, source="exponents")
    contents = contents.scaled_by(exponents)
    rounded = read_codes(recipes.rounded, made[packed.codes], contents.tensors, source="codes")
    contents = replace(contents, rounded=rounded)
    # The integers are the model's own.
    for name, weights in rounded.items():
        np.testing.assert_allclose(weights.restored(), contents.tensors[name], rtol=1e-6, err_msg=name)
    for name, member in packed.members.items():
        content = b"".join(map(bytes, make_member(member, parts[name], [made[member.residual]], contents, source=name)))
        assert content == files[name]


def _recipes(bundle: Bundle) -> Recipes:
    """What the members of a compact bundle are made of."""
    packed = bundle.manifest.packed
    assert packed is not None
    return read_recipes(packed, bundle.read(packed.recipes.file), source="recipes")


def test_mixed_weights_run_without_torch_and_say_what_they_are(
    model_path: Path, tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    path = tmp_path / "tiny.zip"
    # Of random weights the scores are none.
    words = ["--precision", "mixed", "--max-loss", "100", "--compact"]
    done = lite_nlp("export", model_path, *words, "--out", path, "--json")
    assert done.code == 0, done.err
    said, bundle = json.loads(done.out), open_any_bundle(path)
    # Of so small matrices integers may be slower than fp32, and then none has them.
    rounded = {entry.tensor: entry.bits for entry in _recipes(bundle).rounded}
    bits = {"int8": 8, "int4": 4}
    forms = {planned["weight"]: planned["form"] for planned in said["plan"]}
    assert rounded == {name: bits[form] for name, form in forms.items() if form in bits}
    assert said["precision"] == bundle.manifest.precision == "mixed"
    assert list(bundle.manifest.runtimes) == ["onnx", "executorch"]
    plan = json.loads(bundle.read("metrics.json"))["mixed_precision"]
    assert said["plan"] == plan
    assert "src_embedding.weight" in {planned["weight"] for planned in plan}
    assert all(planned["losses"]["fp32"] == 0 for planned in plan)
    translated = run_process("translate", str(path), "--runtime", "onnx", "--text", SENTENCES[0], missing=TORCH)
    assert translated.returncode == 0, translated.stderr
    other = run_process("translate", str(path), "--runtime", "executorch", "--text", SENTENCES[0])
    assert other.returncode == 0, other.stderr


def test_a_plain_bundle_is_not_exported_again(
    exported: tuple[Path, str, str], tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    done = lite_nlp("export", exported[0], "--out", tmp_path / "again.zip")
    assert done.code == 1
    assert "with weights for torch, found an exported bundle with graphs alone" in done.message


class _Reversed(TorchStepModel):
    """A reference with its vocabulary turned round."""

    def step(self, tokens: Any, state: Any) -> Any:
        logits, state = super().step(tokens, state)
        return logits[:, ::-1].copy(), state


@pytest.fixture
def graphs(exported: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> Graphs:
    """Those of the bundle made before, which exports make instead of converting: that takes most of a minute."""
    bundle = open_bundle(exported[0])
    manifest = bundle.manifest
    traced = SimpleNamespace(state=manifest.state, bounds=manifest.bounds, tgt_vocab_size=manifest.vocabulary.tgt_size)
    monkeypatch.setattr(pipeline, "trace_model", lambda model, bounds: traced)
    work = {name: GraphWork.from_json(content) for name, content in manifest.graphs.items()}
    graphs = {
        runtime: RuntimeGraphs(
            entry=entry, files={name: bundle.read(name) for name in entry.members}, work=work[runtime]
        )
        for runtime, entry in manifest.runtimes.items()
    }
    for runtime, exporter in list(EXPORTERS.items()):
        remade = replace(exporter, export=lambda *_, runtime=runtime, compact: graphs[runtime])
        monkeypatch.setitem(EXPORTERS, runtime, remade)
    monkeypatch.setattr(pipeline, "count_merged_work", lambda traced: work["merged"])
    return graphs


def test_an_export_that_says_other_things_is_not_put_in_place(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words: list[str | Path] = ["export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--out"]
    assert lite_nlp(*words, tmp_path / "right.zip").code == 0
    assert (tmp_path / "right.zip").read_bytes() == exported[0].read_bytes()
    # The size of the finished bundle, which the command holds against the limit, keeps an older one in place.
    too_large = lite_nlp(*words, tmp_path / "right.zip", "--force", "--max-size", "10KB")
    assert (too_large.code, (tmp_path / "right.zip").read_bytes()) == (3, exported[0].read_bytes())

    # A program that leaves the decoder's work out.
    right = graphs["executorch"]
    graphs["executorch"] = replace(right, work=replace(right.work, decode_step={}))
    done = lite_nlp(*words, tmp_path / "less.zip")
    assert done.code == 1
    assert (
        "expected graphs that do the model's work, found differences: executorch: decode_step: matmul: -"
        in done.message
    )
    graphs["executorch"] = right

    monkeypatch.setattr("lite_nlp.decoding.torch_model.TorchStepModel", _Reversed)
    done = lite_nlp(*words, tmp_path / "wrong.zip")
    assert done.code == 1
    assert "onnx: expected the model's own token ids for all 50 sentences" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["right.zip"]


def test_a_compact_bundle_is_the_plain_one_in_fewer_bytes(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    path = tmp_path / "compact.zip"
    words: list[str | Path] = ["export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--compact", "--out", path]
    done = lite_nlp.json(*words)
    plain, compact = open_bundle(exported[0]), open_any_bundle(path)
    members = sorted(plain.manifest.files)
    assert {name: compact.read(name) for name in members} == {name: plain.read(name) for name in members}
    assert {entry["name"]: entry["size_bytes"] for entry in done["made"]} == {
        name: plain.manifest.files[name].size_bytes for name in members if name not in ("config.toml", "metrics.json")
    }
    assert done["parity"] == compact.manifest.parity == plain.manifest.parity
    assert done["size_bytes"] == path.stat().st_size < 0.6 * exported[0].stat().st_size

    # Every tensor that is worth a part is found in the program.
    assert compact.manifest.packed is not None
    tensors = decode_container(compact.read("weights.lnlp")).tensors
    parts = _recipes(compact).parts["model.pte"]
    found = {part.tensor for part in parts if isinstance(part, TensorPart)}
    assert found == {name for name, tensor in tensors.items() if tensor.nbytes >= 128}

    # A limit between both sizes lets the compact bundle through and not the plain one.
    limit = str((path.stat().st_size + exported[0].stat().st_size) // 2)
    assert lite_nlp(*words, "--force", "--max-size", limit).code == 0
    words.remove("--compact")
    refused = lite_nlp(*words, "--force", "--max-size", limit)
    assert refused.code == 3
    assert "lite-nlp export --compact" in refused.err
    assert open_any_bundle(path).manifest == compact.manifest


def test_a_compact_bundle_translates_without_torch_and_is_a_model_to_every_command(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    path = tmp_path / "compact.zip"
    assert lite_nlp("export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--compact", "--out", path).code == 0
    source = tmp_path / "source.txt"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    words = ["translate", str(path), "--input", str(source)]
    blocked = run_process(*words, missing=TORCH)
    assert blocked.returncode == 0, blocked.stderr
    assert blocked.stdout == lite_nlp("translate", exported[0], "--input", source).out
    assert lite_nlp("translate", path, "--input", source, "--runtime", "executorch").out == blocked.stdout

    counted = lite_nlp.json("budget", path)
    assert counted["size_bytes"] == path.stat().st_size
    assert counted["macs"] == lite_nlp.json("budget", exported[0])["macs"]
    assert lite_nlp("budget", path, "--check", "--max-size", "1KB").code == 3

    # Torch finds the weights in it, whatever it is then done with.
    with_torch = lite_nlp("translate", path, "--input", source, "--runtime", "torch", "--max-length", "20")
    directory = lite_nlp("translate", model_path, "--input", source, "--max-length", "20")
    assert (with_torch.code, with_torch.out) == (0, directory.out)
    assert load_model(path).metrics == load_model(model_path).metrics == {"languages": {"src": "en", "tgt": "de"}}
    words = ["export", str(path), "--max-src-tokens", str(MAX_SOURCE), "--out"]
    again, plain = tmp_path / "again" / path.name, tmp_path / "plain.zip"
    assert lite_nlp(*words, again, "--compact").code == lite_nlp(*words, plain).code == 0
    assert open_any_bundle(again).read("weights.lnlp") == open_any_bundle(path).read("weights.lnlp")
    assert open_bundle(plain).manifest.parity == open_bundle(exported[0]).manifest.parity

    with zipfile.ZipFile(path) as archive:
        stored = archive.read("weights.lnlp")
    content = path.read_bytes()
    path.write_bytes(content.replace(stored, stored[:-1] + bytes((stored[-1] ^ 1,))))
    damaged = lite_nlp("translate", path, "--text", "Hello.")
    assert damaged.code == 1
    assert "weights.lnlp: expected an intact member, found it altered or truncated" in damaged.message


def test_scores_of_metrics_json_are_in_the_manifest(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    scored = tmp_path / model_path.name
    shutil.copytree(model_path, scored)
    scores = {"test": {"bleu": 12.5, "sentences": 3}}
    (scored / "metrics.json").write_text(json.dumps({"scores": scores}), encoding="utf-8")
    words: list[str | Path] = ["export", scored, "--max-src-tokens", str(MAX_SOURCE), "--out"]
    assert lite_nlp(*words, tmp_path / "scored.zip").code == 0
    assert open_bundle(tmp_path / "scored.zip").manifest.scores == scores
    assert open_bundle(exported[0]).manifest.scores == {}


def test_scores_of_a_bundle_stay_with_it_when_it_is_exported_again(
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    """A shipped bundle has its scores from its card; the copy of another release has them in its manifest alone."""
    scores = {"test": {"bleu": 12.5, "sentences": 3}}
    words: list[str | Path] = ["--max-src-tokens", str(MAX_SOURCE), "--compact", "--out"]
    assert lite_nlp("export", model_path, *words, tmp_path / "compact.zip").code == 0
    scored = tmp_path / "scored.zip"
    with zipfile.ZipFile(tmp_path / "compact.zip") as source, zipfile.ZipFile(scored, "w") as target:
        for member in source.infolist():
            content = source.read(member)
            if member.filename == "manifest.json":
                content = json.dumps({**json.loads(content), "scores": scores}).encode()
            target.writestr(member, content)
    assert lite_nlp("export", scored, *words, tmp_path / "again.zip").code == 0
    assert open_any_bundle(tmp_path / "again.zip").manifest.scores == scores


def test_a_model_that_is_no_bundle_is_exported_into_the_cache_once(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path))
    # The graphs of the bundle made before take sources of no more tokens.
    write = partial(write_model_bundle, max_src_tokens=MAX_SOURCE)
    monkeypatch.setattr("lite_nlp.artifacts.cache.write_model_bundle", write)
    expected = lite_nlp("translate", exported[0], "--text", SENTENCES[0])
    for runtime in ("onnx", "executorch"):
        before = set(tmp_path.glob("bundles/*"))
        first = lite_nlp("translate", model_path, "--runtime", runtime, "--text", SENTENCES[0])
        assert (first.code, first.out) == (0, expected.out)
        assert "tracing the encoder" in first.err
        [bundle] = set(tmp_path.glob("bundles/*")) - before
        manifest = open_bundle(bundle).manifest
        assert (manifest.name, list(manifest.runtimes)) == (model_path.name, [runtime])

    graphs.clear()
    made = set(tmp_path.glob("bundles/*"))
    for runtime in ("onnx", "executorch"):
        again = lite_nlp("translate", model_path, "--runtime", runtime, "--text", SENTENCES[0])
        assert (again.code, again.out) == (0, first.out)
        assert "tracing" not in again.err
    assert set(tmp_path.glob("bundles/*")) == made


def test_a_loaded_model_is_exported_like_its_file(
    exported: tuple[Path, str, str], graphs: Graphs, model_path: Path, tmp_path: Path
) -> None:
    loaded, path = load_model(model_path), tmp_path / "loaded.zip"
    export_model = partial(lite_nlp_package.export_model, loaded, max_src_tokens=MAX_SOURCE)
    done = export_model(out=path)
    assert (done.path, done.size_bytes, done.made_bytes) == (path, path.stat().st_size, {})
    assert path.read_bytes() == exported[0].read_bytes()
    assert done.manifest.parity == open_bundle(exported[0]).manifest.parity

    compact = export_model(out=tmp_path / "compact.zip", compact=True)
    assert set(compact.made_bytes) == {*done.manifest.files} - {"config.toml", "metrics.json"}
    with pytest.raises(UsageError, match=r"expected a name that ends in \.zip, found model\.onnx"):
        export_model(out="model.onnx")
    gate = BudgetGate(limits=Limits(max_size_bytes=1_000))
    with pytest.raises(OverBudgetError, match="tiny-model"):
        export_model(out=tmp_path / "large.zip", gate=gate)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["compact.zip", "loaded.zip"]
