"""Language models and classifiers as bundles: the commands give what they give for the model itself."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from lite_nlp import bench_model, load_model, open_classifier, open_generator
from lite_nlp.api.export import export_model
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.budget.traced.graphs import TaskWork, work_from_json
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.export.runtime.latency import tokens_sha256
from tests.integration.conftest import LiteNlp, write_model

LINES = ["a boy runs over the bridge", "is it raining", "the old man is waiting for the bus", "yes", "over the bus"]
LABELS = ["no", "yes"]
BENCH_SCHEMA = json.loads(
    Path(__file__).parents[2].joinpath("lite_nlp", "assets", "bench.schema.json").read_text(encoding="utf-8")
)
MODELS: dict[str, dict[str, Any]] = {
    "text": {
        "architecture": "language-model",
        "family": "lite-transformer",
        "decoder_kernel_sizes": (3,),
        "conv_num_heads": 2,
        "num_heads": 1,
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
    "lstm": {"architecture": "lstm-classifier", "family": "lstm", "num_classes": 2, "max_positions": 24},
}
#: The runtimes that each model has graphs for.
RUNTIMES = {"text": ["onnx", "executorch"], "single": ["onnx", "executorch"], "pair": ["onnx"], "lstm": ["onnx"]}
#: A command that opens each model, and its input.
COMMANDS = {
    "text": (("generate", "--max-tokens", "9"), LINES),
    "single": (("classify",), LINES),
    "lstm": (("classify",), LINES),
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
    for runtime in RUNTIMES[name]:
        found = run(command, f"{name}.zip", *words, "--runtime", runtime, "--threads", "1", stdin=stdin)
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
        ("language-modelling", {"decode_step", "read", "score"}) if name == "text" else ("classification", {"classify"})
    )
    assert manifest.task == task
    assert list(manifest.programs.entries) == list(manifest.parity) == RUNTIMES[name]
    assert {entry.names for entry in manifest.programs.entries.values()} == {frozenset(graphs)}
    assert not manifest.runtimes
    assert (manifest.classes is not None) == (name != "text")
    if manifest.classes is not None:
        assert (manifest.classes.labels, manifest.classes.sentences) == (tuple(LABELS), 1 + (name == "pair"))
    for proof in manifest.parity.values():
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
    one, two = ("--src-len", "7"), ("--src-len", "7", "--tgt-len", "9")
    lengths = {"text": ("--tgt-len", "9"), "single": one, "lstm": one, "pair": two}
    found = run.json("budget", f"{name}.zip", *lengths[name])
    graphs = found["macs"]["graphs"]
    assert set(graphs) == {"torch", *RUNTIMES[name]}
    # A step of a language model attends to its whole capacity; a classifier does what the closed form says.
    assert graphs["onnx"] == found["macs"]["executed"] or name == "text"
    assert 0 < graphs["onnx"] <= graphs["torch"]
    assert graphs.get("executorch", graphs["onnx"]) == graphs["onnx"]
    done = run("budget", f"{name}.zip")
    assert done.code == 0, done.err


def test_a_report_without_samples_scores_the_data(run: LiteNlp) -> None:
    words = ("data", "prepare", "--labelled", "labelled.tsv", "--tokenizer", "tokenizer.json", "--out", "report-data")
    assert run(*words).code == 0
    found = run.json("report", "single.zip", "--data", "report-data", "--split", "valid", "--samples", "0")
    measured = found["scores"]["report-data valid, measured for this report"]
    assert measured == run.json("evaluate", "single.zip", "--data", "report-data", "--split", "valid")["scores"]
    assert found["examples"] is None


def test_evaluate_takes_bundles(run: LiteNlp) -> None:
    words = ("data", "prepare", "--text", "text.txt", "--tokenizer", "tokenizer.json", "--out", "text-data")
    assert run(*words).code == 0
    expected = run.json("evaluate", "text", "--data", "text-data", "--split", "valid", "--window", "16")
    for runtime in RUNTIMES["text"]:
        words = ("--split", "valid", "--window", "16", "--runtime", runtime)
        found = run.json("evaluate", "text.zip", "--data", "text-data", *words)
        assert found["runtime"] == runtime
        assert found["scores"]["nll"] == pytest.approx(expected["scores"]["nll"], rel=1e-5)
    done = run("evaluate", "text.zip", "--data", "text-data", "--window", "41")
    assert done.code == 2
    assert "--window: expected at most model.max_positions (40) tokens, found 41" in done.message

    words = ("data", "prepare", "--labelled", "labelled.tsv", "--tokenizer", "tokenizer.json", "--out", "labelled-data")
    assert run(*words).code == 0
    expected = run.json("evaluate", "single", "--data", "labelled-data", "--split", "train")
    for runtime in RUNTIMES["single"]:
        words = ("--split", "train", "--runtime", runtime)
        found = run.json("evaluate", "single.zip", "--data", "labelled-data", *words)
        assert (found.pop("runtime"), found.pop("seconds") >= 0) == (runtime, True)
        assert found.items() <= expected.items()


@pytest.mark.parametrize(
    ("name", "words", "metric", "scored"),
    [
        ("text", ("--text", "text.txt"), "perplexity", "tokens of int8-text valid"),
        ("single", ("--labelled", "labelled.tsv"), "accuracy", "int8-single valid"),
    ],
)
def test_a_bundle_in_integers_tells_what_it_lost(
    run: LiteNlp, name: str, words: tuple[str, ...], metric: str, scored: str
) -> None:
    data, out = f"int8-{name}", f"{name}-int8.zip"
    assert run("data", "prepare", *words, "--tokenizer", "tokenizer.json", "--out", data).code == 0
    options = ("--precision", "int8", "--data", data)
    found = run.json("export", name, *options, "--max-loss", "20", "--out", out)
    manifest = open_any_bundle(Path(out)).manifest
    assert manifest.precision == found["precision"] == "int8"
    assert set(manifest.parity) == set(RUNTIMES[name])
    quality = found["quality"]
    assert quality["metric"] == metric
    assert quality["data"].endswith(scored)
    assert quality["runtime"] in RUNTIMES[name]
    sign = 1 if metric == "perplexity" else -1
    assert quality["lost"] == pytest.approx(sign * (quality["after"][metric] - quality["before"][metric]), abs=1e-3)
    # The file gives what was measured, one text at a time, in the runtime where it lost most.
    if metric == "accuracy":
        told = run.json("evaluate", out, "--data", data, "--split", "valid", "--runtime", quality["runtime"])
        assert told["scores"][metric] == pytest.approx(quality["after"][metric], abs=0.01)


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


@pytest.mark.parametrize("name", MODELS)
def test_bench_measures_what_the_command_says(run: LiteNlp, files: Path, tmp_path: Path, name: str) -> None:
    (_, *words), lines = COMMANDS[name]
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    more = words if name == "text" else []
    settings = ("--threads", "1", "--repeats", "2", "--warmup", "0")
    found = run.json("bench", f"{name}.zip", "--input", source, *more, *settings)
    assert [error.message for error in Draft202012Validator(BENCH_SCHEMA).iter_errors(found)] == []
    assert [row["runtime"] for row in found["rows"]] == RUNTIMES[name]
    assert len({row["tokens_sha256"] for row in found["rows"]}) == 1
    macs = [row["macs"] for row in found["rows"]]
    assert found["settings"]["sentences"] == len(lines)
    bundle = open_any_bundle(files / f"{name}.zip")
    assert found["model"]["task"] == bundle.manifest.task
    work = work_from_json(bundle.manifest.graphs["onnx"], task=bundle.manifest.task)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    examples = [[tokenizer.encode(sentence) for sentence in line.split("\t")] for line in lines]
    assert found["settings"]["src_tokens"] == sum(len(sentence) for example in examples for sentence in example)
    if name == "text":
        assert found["settings"]["max_tokens"] == 9
        with open_generator(files / "text.zip", max_tokens=9) as generator:
            generated = generator.generate(lines)
        assert found["settings"]["tgt_tokens"] == sum(item.tokens for item in generated)
        assert not any(item.ended for item in generated)
        # The mark and the prompt are read at once; a step is taken for all new tokens but the last.
        assert isinstance(work, TaskWork)
        read, step = (list(work.graphs[graph].values()) for graph in ("read", "decode_step"))
        assert set(macs) == {
            sum(
                sum(kind(len(prompt) + 1, len(prompt) + 1) for kind in read)
                + sum(kind(1, len(prompt) + 2 + place) for kind in step for place in range(8))
                for [prompt] in examples
            )
        }
    else:
        with open_classifier(files / f"{name}.zip") as classifier:
            labels = [item.label for line in lines if (item := classifier.classify(_example(line))) is not None]
        assert found["rows"][0]["tokens_sha256"] == tokens_sha256([[LABELS.index(label)] for label in labels])
        lengths = [[len(sentence) + 1 for sentence in example] for example in examples]
        assert set(macs) == {sum(sum(work.macs(sizes[0], sizes[-1]).values()) for sizes in lengths)}
    page = run("bench", f"{name}.zip", "--input", source, *more, *settings)
    assert page.code == 0, page.err
    assert f"{len(lines)} sentences" in page.out
    assert ("continued by 9 tokens at most" in page.out) == (name == "text")


def _example(line: str) -> str | tuple[str, str]:
    first, tab, second = line.partition("\t")
    return (first, second) if tab else first


def test_a_loaded_model_is_measured_without_a_file(files: Path, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    # Numbers of NumPy count as those of Python.
    one = np.int64(1)
    report = bench_model(
        load_model(files / "single"), runtimes=["onnx"], input_path=source, threads=[one], repeats=one, warmup=0
    )
    assert report.model["task"] == "classification"
    assert report.settings["tgt_tokens"] == len(LINES)


def test_bench_takes_everyday_sentences_and_pairs_of_them(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(LINES, vocab_size=300).to_json()
    for name, sentences in (("single", 1), ("pair", 2)):
        options = {**MODELS[name], "max_positions": 128}
        write_model(tmp_path / name, LINES, tokenizer=tokenizer, metrics={"labels": LABELS}, **options)
        report = bench_model(tmp_path / name, runtimes=["onnx"], threads=[1], repeats=1, warmup=0)
        assert report.settings["sentences"] == report.settings["tgt_tokens"] == 32
        everyday = [english for english, _ in read_everyday_pairs()[:32]]
        tokens = sum(len(Tokenizer(tokenizer).encode(english)) for english in everyday)
        assert report.settings["src_tokens"] == sentences * tokens


def test_what_is_refused(run: LiteNlp) -> None:
    for words, message in (
        (
            ("translate", "text.zip", "--text", "a"),
            "expected a bundle of an encoder-decoder, found one for language-mo",
        ),
        (("bench", "single.zip", "--beam", "2"), "--beam: expected 1 with a bundle for classification, found 2"),
        (
            ("bench", "single.zip", "--max-tokens", "2"),
            "--max-tokens: expected a bundle for language-modelling, found one for classification",
        ),
        (("bench", "pair.zip", "--input", "text.txt"), "line 1: expected two sentences, separated by a tab, found 1"),
        (
            ("generate", "single.zip", "--text", "a"),
            "expected a language-model, found a model of architecture sequence",
        ),
        (
            ("classify", "text.zip", "--text", "a"),
            "expected a classifier, found a model of architecture language-model",
        ),
        (
            ("classify", "pair.zip", "--runtime", "executorch", "--text", "a", "--text", "b"),
            "expected an ExecuTorch program for --runtime executorch, found none",
        ),
        (
            ("classify", "pair", "--runtime", "executorch", "--text", "a", "--text", "b"),
            "executorch: expected a model without recurrent layers",
        ),
        (("export", "text", "--precision", "mixed", "--out", "no.zip"), "--data is required"),
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
