"""Language models and classifiers as bundles: the commands give what they give for the model itself."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.api.export import export_model
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.data.tokenizer import Tokenizer
from tests.integration.conftest import LiteNlp, write_model

LINES = ["a boy runs over the bridge", "is it raining", "the old man is waiting for the bus", "yes", "over the bus"]
LABELS = ["no", "yes"]
MODELS: dict[str, dict[str, Any]] = {
    "text": {
        "architecture": "language-model",
        "family": "lite-transformer",
        "decoder_kernel_sizes": (3,),
        "conv_num_heads": 2,
        "num_heads": 2,
        "max_positions": 40,
    },
    "single": {
        "architecture": "sequence-classifier",
        "family": "transformer",
        "num_classes": 2,
        "num_heads": 2,
        "max_positions": 24,
    },
    "pair": {"architecture": "pair-classifier", "family": "lstm", "num_classes": 2, "max_positions": 24},
}
#: A command that opens each model, and its input.
COMMANDS = {
    "text": (("generate", "--max-tokens", "9"), LINES),
    "single": (("classify",), LINES),
    "pair": (("classify",), [f"{first}\t{second}" for first, second in zip(LINES, LINES[::-1], strict=True)]),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory, a model directory, a plain bundle and a compact bundle for each model."""
    path = tmp_path_factory.mktemp("task-bundles")
    (path / "text.txt").write_text("".join(f"{line}\n" for line in LINES * 20), encoding="utf-8")
    tokenizer = Tokenizer.train(LINES, vocab_size=300).to_json()
    for name, options in MODELS.items():
        write_model(path / name, LINES, tokenizer=tokenizer, metrics={"labels": LABELS}, **options)
        export_model(path / name, out=path / f"{name}.zip", compact=name != "pair")
    (path / "tokenizer.json").write_bytes(tokenizer)
    rows = [f"{LABELS[place % 2]}\t{line} {place}\n" for place, line in enumerate(LINES * 20)]
    (path / "labelled.tsv").write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def run(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch) -> LiteNlp:
    monkeypatch.chdir(files)
    return lite_nlp


@pytest.mark.parametrize("name", MODELS)
def test_a_bundle_says_what_its_model_says(run: LiteNlp, name: str) -> None:
    (command, *words), lines = COMMANDS[name]
    stdin = "".join(f"{line}\n" for line in lines).encode()
    expected = run(command, name, *words, stdin=stdin)
    assert expected.code == 0, expected.err
    found = run(command, f"{name}.zip", *words, "--threads", "1", stdin=stdin)
    assert (found.code, found.out) == (0, expected.out), found.err
    shown = run.json(command, f"{name}.zip", *words, "--text", lines[0].split("\t")[0], *_second(lines[0]))
    assert shown["runtime"] == "onnx"
    assert shown["model"] == name


def _second(line: str) -> list[str]:
    _, tab, second = line.partition("\t")
    return ["--text", second] if tab else []


@pytest.mark.parametrize("name", MODELS)
def test_the_manifest_tells_the_task_and_the_proof(files: Path, name: str) -> None:
    manifest = open_any_bundle(files / f"{name}.zip").manifest
    task, graphs = (
        ("language-modelling", {"decode_step", "score"}) if name == "text" else ("classification", {"classify"})
    )
    assert manifest.task == task
    assert manifest.programs.onnx is not None
    assert set(manifest.programs.onnx.graphs) == graphs
    assert not manifest.runtimes
    assert (manifest.classes is not None) == (name != "text")
    if manifest.classes is not None:
        assert (manifest.classes.labels, manifest.classes.sentences) == (tuple(LABELS), 1 + (name == "pair"))
    proof = manifest.parity["onnx"]
    assert (proof["agreement"], proof["sentences"]) == (1.0, 48)
    assert 0 < proof["largest_error"] < 1e-5
    assert proof["log_probs"] > 90
    assert (proof["tokens"] > 100) == (name == "text")
    with zipfile.ZipFile(files / f"{name}.zip") as archive:
        document = json.loads(archive.read("manifest.json"))
    assert document["task"] == task
    assert document["onnx"] is None
    assert document["executorch"] is None
    assert (manifest.packed is None) == (name == "pair")


@pytest.mark.parametrize("name", MODELS)
def test_the_work_of_the_graphs_is_that_of_the_model(run: LiteNlp, name: str) -> None:
    found = run.json("budget", f"{name}.zip", "--src-len", "7", "--tgt-len", "9")
    graphs = found["macs"]["graphs"]
    assert set(graphs) == {"torch", "onnx"}
    # A step of a language model attends to its whole capacity; a classifier does what the closed form says.
    assert graphs["onnx"] == found["macs"]["executed"] or name == "text"
    assert 0 < graphs["onnx"] <= graphs["torch"]
    done = run("budget", f"{name}.zip")
    assert done.code == 0, done.err


def test_evaluate_takes_bundles(run: LiteNlp) -> None:
    words = ("data", "prepare", "--text", "text.txt", "--tokenizer", "tokenizer.json", "--out", "text-data")
    assert run(*words).code == 0
    expected = run.json("evaluate", "text", "--data", "text-data", "--split", "valid", "--window", "16")
    found = run.json("evaluate", "text.zip", "--data", "text-data", "--split", "valid", "--window", "16")
    assert found["runtime"] == "onnx"
    assert found["scores"]["nll"] == pytest.approx(expected["scores"]["nll"], rel=1e-5)
    done = run("evaluate", "text.zip", "--data", "text-data", "--window", "41")
    assert done.code == 1
    assert "window: expected at most model.max_positions (40) tokens, found 41" in done.message

    words = ("data", "prepare", "--labelled", "labelled.tsv", "--tokenizer", "tokenizer.json", "--out", "labelled-data")
    assert run(*words).code == 0
    expected = run.json("evaluate", "single", "--data", "labelled-data", "--split", "train")
    found = run.json("evaluate", "single.zip", "--data", "labelled-data", "--split", "train")
    assert (found.pop("runtime"), found.pop("seconds") >= 0) == ("onnx", True)
    assert found.items() <= expected.items()


def test_a_compact_bundle_runs_in_torch_too(run: LiteNlp) -> None:
    words = ("generate", "text.zip", "--text", LINES[0], "--max-tokens", "9")
    assert run(*words, "--runtime", "torch").out == run(*words).out
    done = run("classify", "pair.zip", "--runtime", "torch", "--text", "a", "--text", "b")
    assert done.code == 1
    assert "found an exported bundle with graphs alone; it runs with --runtime onnx" in done.message
    assert "executorch" not in done.message


@pytest.mark.parametrize("name", MODELS)
def test_a_bundle_needs_no_torch(run: LiteNlp, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (command, *words), lines = COMMANDS[name]
    text = ("--text", lines[0].split("\t")[0], *_second(lines[0]))
    expected = run(command, f"{name}.zip", *words, *text)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(command, f"{name}.zip", *words, *text) == expected
    assert expected.code == 0


def test_what_is_refused(run: LiteNlp) -> None:
    for words, message in (
        (
            ("translate", "text.zip", "--text", "a"),
            "expected a bundle of an encoder-decoder, found one for language-mo",
        ),
        (("bench", "single.zip"), "expected a bundle of an encoder-decoder, found one for classification"),
        (
            ("generate", "single.zip", "--text", "a"),
            "expected a language-model, found a model of architecture sequence",
        ),
        (
            ("classify", "text.zip", "--text", "a"),
            "expected a classifier, found a model of architecture language-model",
        ),
        (
            ("classify", "single", "--runtime", "executorch", "--text", "a"),
            "--runtime: expected torch or onnx, which run",
        ),
        (("generate", "text.zip", "--runtime", "executorch", "--text", "a"), "classifiers, found executorch"),
        (("export", "single", "--out", "no.zip", "--max-src-tokens", "4"), "Invalid value for '--max-src-tokens'"),
    ):
        done = run(*words)
        assert done.code in (1, 2), words
        assert message in done.message
    assert not Path("no.zip").exists()


def test_a_long_prompt_is_bounded_by_the_bundle(run: LiteNlp) -> None:
    done = run("generate", "text.zip", "--text", " ".join(LINES * 3), "--max-tokens", "99", "--json")
    assert done.code == 0
    assert "only the last 20 tokens of the prompt are read" in done.err
    assert json.loads(done.out)["outputs"][0]["tokens"] <= 20
