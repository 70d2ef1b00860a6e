"""``lite-nlp export``: what it says, and bundles that translate as the model does, with torch or without."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lite_nlp.artifacts.models import DEFAULT_MODEL, load_model
from lite_nlp.config.preset import parse_config
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import pipeline
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime import create_engine, open_bundle
from lite_nlp.export.runtime.manifest import DecodingDefaults
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.integration.conftest import LINES, MAX_SOURCE, SENTENCES, TORCH, LiteNlp, run_process


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


def test_executorch_translates_without_its_exporter(exported: tuple[Path, str, str]) -> None:
    """Which takes twice as long to import as torch."""
    words = ["translate", str(exported[0]), "--text", LINES[0], "--runtime"]
    done = run_process(*words, "executorch", missing=["executorch.exir", "torch._inductor"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == run_process(*words, "onnx").stdout


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


def test_a_plain_bundle_is_not_exported_again(
    exported: tuple[Path, str, str], tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    done = lite_nlp("export", exported[0], "--out", tmp_path / "again.zip")
    assert done.code == 1
    assert "with weights for torch, found an exported bundle with graphs alone" in done.message
