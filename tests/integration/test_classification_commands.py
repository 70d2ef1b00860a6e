"""Labelled text to a classifier and its accuracy, by the commands alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lite_nlp.artifacts.directory import load_model_directory, model_from_state
from lite_nlp.data.labelled.directory import open_labelled
from tests.integration.conftest import LiteNlp

from .tiny_training import write_files

CONFIG = """
name = "tiny-classifier"

[model]
{model}
embed_dim = 16
ffn_dim = 16
num_classes = 7
max_positions = 24

[training]
batch_tokens = 200
learning_rate = 1e-2
label_smoothing = 0.0
warmup_steps = 5
schedule = "constant"
max_steps = 120
max_tokens = 12
validate_metric = "accuracy"
validate_every_steps = 40
checkpoint_every_steps = 40
average_checkpoints = 1
"""
SINGLE = 'architecture = "sequence-classifier"\nfamily = "transformer"\nnum_encoder_layers = 1\nnum_heads = 2'
PAIR = 'architecture = "pair-classifier"\nfamily = "r2d2"\nlstm_linear = "r2d2"\nlinear_n = 4'

COLORS = ("red", "green", "blue")
#: One longer than the model can read.
SINGLES = [
    (COLORS[i % 3], f"number {i} is {COLORS[i % 3]}" + " indeed" * (40 if i == 70 else i % 4)) for i in range(150)
]
PAIRS = [
    ("same" if i % 2 else "other", f"the {COLORS[i % 3]} one, {i}", f"a {COLORS[(i + 1 + i % 2 * 2) % 3]} one, {i}")
    for i in range(120)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled text, two configs, word vectors, and a data directory of pairs of sentences."""
    path = tmp_path_factory.mktemp("classification")
    write_files(path)
    for name, rows in (("singles", SINGLES), ("pairs", PAIRS)):
        (path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    for name, model in (("single", SINGLE), ("pair", PAIR)):
        (path / f"{name}.toml").write_text(CONFIG.format(model=model), encoding="utf-8")
    vectors = [f"{word} " + " ".join(str(j + k) for k in range(16)) for j, word in enumerate(("red", "one"))]
    (path / "vectors.txt").write_text("\n".join(vectors) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def run(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch) -> LiteNlp:
    """The command line where the files are; data and models are made by the first test that runs."""
    monkeypatch.chdir(files)
    for name, config in (("singles", "single"), ("pairs", "pair")):
        if not (files / f"{name}-data").exists():
            words = ("data", "prepare", "--labelled", f"{name}.tsv", "--valid-pairs", "9", "--test-pairs", "8")
            done = lite_nlp(*words, "--vocab-size", "330", "--out", f"{name}-data")
            assert done.code == 0, done.err
            done = lite_nlp("train", f"{config}.toml", "--data", f"{name}-data", "--out", config)
            assert done.code == 0, done.err
    return lite_nlp


def test_what_is_trained_fits_the_data(run: LiteNlp, files: Path) -> None:
    saved = load_model_directory(files / "single")
    assert saved.config.model.num_classes == 3
    assert saved.metrics["labels"] == ["blue", "green", "red"]
    assert saved.metrics["train_examples"] == open_labelled(files / "singles-data").info.splits["train"].examples
    done = run("train", "single.toml", "--data", "singles-data", "--out", "again", "--set", "training.max_steps=2")
    assert "labels: blue, green, red" in done.message
    assert "training split: 1 of " in done.message
    assert "examples cut to 12 tokens a sentence" in done.message
    assert ", accuracy " in done.out


@pytest.mark.parametrize(("name", "config"), [("singles", "single"), ("pairs", "pair")])
def test_accuracy_is_that_of_the_saved_model(run: LiteNlp, files: Path, name: str, config: str) -> None:
    output = files / f"{config}.txt"
    found = run.json(
        "evaluate",
        config,
        "--data",
        f"{name}-data",
        "--split",
        "train",
        "--output",
        output,
        "--force",
        "--threads",
        "1",
    )
    # By another way: every example alone, cut where the positions end.
    saved = load_model_directory(files / config)
    model = model_from_state(saved.config, saved.state, source=config)
    split = open_labelled(files / f"{name}-data").split("train")
    texts = split.pairs.tokens(range(len(split)))
    predicted = []
    with torch.no_grad():
        for rows in zip(*texts, strict=True):
            inputs: list[torch.Tensor] = []
            for row in rows[: split.sentences]:
                tokens = torch.from_numpy(np.append(row[:23], 2).astype(np.int64))[None]
                inputs += [tokens, torch.ones_like(tokens, dtype=torch.bool)]
            predicted.append(int(model(*inputs).argmax()))
    labels = saved.metrics["labels"]
    assert output.read_text().splitlines() == [labels[place] for place in predicted]
    correct = int(np.sum(np.array(predicted) == split.labels))
    assert (found["correct"], found["examples"]) == (correct, len(split))
    assert found["scores"]["accuracy"] == pytest.approx(100 * correct / len(split))
    assert found["scores"]["accuracy_low"] < found["scores"]["accuracy"] <= found["scores"]["accuracy_high"]
    assert found["examples_cut"] == (1 if name == "singles" else 0)
    assert [row["label"] for row in found["classes"]] == labels
    # The words give the label away, and 120 steps are enough to see it.
    assert found["scores"]["accuracy"] > found["scores"]["majority"] + 10


@pytest.mark.parametrize(("name", "config"), [("singles", "single"), ("pairs", "pair")])
def test_the_labels_of_lines_are_those_of_evaluate(run: LiteNlp, tmp_path: Path, name: str, config: str) -> None:
    evaluated = run("evaluate", config, "--data", f"{name}-data", "--output", tmp_path / "labels.txt")
    assert evaluated.code == 0
    split = open_labelled(f"{name}-data").split("test")
    tokenizer = open_labelled(f"{name}-data").tokenizer
    sides = [[tokenizer.decode(row.tolist()) for row in side] for side in split.pairs.tokens(range(len(split)))]
    lines = ["\t".join(row) for row in zip(*sides[: split.sentences], strict=True)]
    (tmp_path / "lines.tsv").write_text("".join(f"{line}\n" for line in [*lines, ""]), encoding="utf-8")
    code, out, err = run("classify", config, "--input", tmp_path / "lines.tsv", "--threads", "1")
    assert code == 0, err
    rows = [row.split("\t") for row in out.removesuffix("\n").split("\n")]
    assert rows[-1] == [""]
    assert [label for label, _ in rows[:-1]] == (tmp_path / "labels.txt").read_text().splitlines()

    content = run.json("classify", config, "--input", tmp_path / "lines.tsv", "--output", tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == out
    assert (content["model"], content["runtime"]) == (config, "torch")
    assert content["outputs"].pop() == {"label": None, "probability": None, "probabilities": None}
    for (label, probability), one in zip(rows[:-1], content["outputs"], strict=True):
        assert list(one["probabilities"]) == content["labels"]
        assert sum(one["probabilities"].values()) == pytest.approx(1.0)
        assert one["probability"] == one["probabilities"][one["label"]] == max(one["probabilities"].values())
        assert (label, probability) == (one["label"], f"{one['probability']:.4f}")
    words = [word for side in lines[0].split("\t") for word in ("--text", side)]
    assert run("classify", config, *words).out == out.partition("\n")[0] + "\n"
    assert run("classify", config, stdin=lines[0].encode()).out == out.partition("\n")[0] + "\n"
    blank = ["--text", ""] * split.sentences
    assert run("classify", config, *blank).out == "\n"
    assert len(run.json("classify", config, *blank)["outputs"]) == 1


def test_what_classify_refuses(run: LiteNlp, tmp_path: Path) -> None:
    for code, words, message in (
        (1, ("pair", "--text", "red"), "--text: line 1: expected two sentences, separated by a tab, found 1 column"),
        (1, ("single", "--text", "a", "--text", "b"), "--text: line 1: expected one sentence, found 2 columns"),
        (2, ("single", "--text", "a", "--input", "b"), "--text and --input: expected one of them, found both"),
        (2, (), "Missing argument 'MODEL'"),
        (1, ("tatoeba-en-de", "--text", "a"), "expected a classifier, found a model of architecture encoder-decoder"),
        (1, ("missing", "--text", "a"), "missing: expected a model directory"),
    ):
        done = run("classify", *words, *(("--output", tmp_path / "out") if code == 1 else ()))
        assert (done.code, done.out) == (code, "")
        assert message in done.message
    assert not list(tmp_path.iterdir())


def test_the_table_shows_every_label(run: LiteNlp) -> None:
    done = run("evaluate", "single", "--data", "singles-data")
    assert done.code == 0, done.err
    assert "accuracy" in done.out
    assert all(color in done.out for color in COLORS)
    assert "8 examples in " in done.out


def test_vectors_stay_as_they_are(run: LiteNlp, files: Path, tmp_path: Path) -> None:
    words = ("train", "pair.toml", "--data", "pairs-data", "--out", tmp_path / "run", "--vectors", "vectors.txt")
    done = run(*words, "--set", "training.max_steps=3")
    assert done.code == 0, done.err
    data = open_labelled(files / "pairs-data")
    assert f"vectors: 2 of {data.tokenizer.vocab_size} types are words of vectors.txt" in done.message
    table = load_model_directory(tmp_path / "run").state["embedding.weight"]
    for row, word in enumerate(("red", "one")):
        (token,) = data.tokenizer.encode(word)
        assert table[token].tolist() == [row + k for k in range(16)]
    # Other vectors, or none, would make it another run.
    done = run(*words[:-2], "--set", "training.max_steps=5", "--resume")
    assert done.code == 1
    assert "vectors_sha256" in done.message
    done = run(*words, "--set", "training.max_steps=5", "--resume")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("train", "single.toml", "--data", "data"),
            1,
            "learns from labelled examples (data prepare --labelled), found",
        ),
        (("train", "tiny.toml", "--data", "singles-data"), 1, "found labelled examples (data prepare --labelled)"),
        (
            ("train", "pair.toml", "--data", "singles-data"),
            1,
            "as many sentences in each example as the pair-classifier has",
        ),
        (("train", "tiny.toml", "--data", "data", "--vectors", "vectors.txt"), 1, "--vectors: expected a classifier"),
        (("train", "pair.toml", "--data", "pairs-data", "--vectors", "singles.tsv"), 1, "a word and 16 numbers"),
        (
            ("train", "pair.toml", "--data", "pairs-data", "--vectors", "vectors.txt", "--init-from", "pair"),
            2,
            "--vectors and --init-from, which both set the embeddings: expected one of them, found both",
        ),
        (("evaluate", "single"), 2, "a classifier is evaluated on labelled examples: --data is required"),
        (
            ("evaluate", "single", "--data", "data"),
            1,
            "expected a data directory of labelled examples, found one of sen",
        ),
        (("evaluate", "single", "--data", "pairs-data"), 1, "expected labels that the model knows (blue, green, red)"),
        (
            ("evaluate", "single", "--data", "singles-data", "--split", "dev"),
            1,
            "split: expected one of train, valid, test",
        ),
        (("evaluate", "single", "--data", "singles-data", "--beam", "2"), 2, "--beam does not go with a model of"),
        (
            ("translate", "single", "--input", "singles.tsv"),
            1,
            "expected an encoder-decoder, found a sequence-classifier",
        ),
        (
            ("data", "prepare", "--labelled", "singles.tsv", "--tgt-lang", "de"),
            2,
            "--tgt-lang does not go with --label",
        ),
        (("data", "prepare", "--text", "singles.tsv", "--test-labelled", "singles.tsv"), 2, "needs --labelled"),
        (
            ("data", "prepare", "--labelled", "a", "--train", "b", "c"),
            2,
            "exactly one of --train, --tsv, --tmx, --jsonl, --text, --labelled and --corpus is required.",
        ),
        (
            ("data", "prepare", "--labelled", "singles.tsv", "--valid-labelled", "singles.tsv", "--valid-pairs", "3"),
            2,
            "--valid-labelled and --valid-pairs exclude each other",
        ),
        (
            ("data", "prepare", "--labelled", "pairs.tsv", "--test-labelled", "singles.tsv"),
            1,
            "as many sentences after",
        ),
        (("budget", "pair", "--check", "--max-params", "100"), 3, "over budget"),
    ],
)
def test_what_does_not_go_together(
    run: LiteNlp, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    out = () if words[0] in ("evaluate", "translate", "export", "budget") else ("--out", tmp_path / "out")
    done = run(*words, *out)
    assert done.code == code, done.err
    assert message in done.message
    assert not (tmp_path / "out").exists()


def test_a_damaged_model_that_lacks_its_labels(run: LiteNlp, files: Path, tmp_path: Path) -> None:
    for file in (files / "single").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    (tmp_path / "metrics.json").write_text(json.dumps(metrics | {"labels": ["red", "green"]}))
    done = run("evaluate", tmp_path, "--data", "singles-data")
    assert done.code == 1
    assert "expected the names of 3 labels in metrics.json, found ['red', 'green']" in done.message


def test_a_model_whose_weights_are_no_numbers_has_no_score(run: LiteNlp, files: Path, tmp_path: Path) -> None:
    for file in (files / "single").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["output.bias"][0] = torch.nan
    save_file(weights, tmp_path / "model.safetensors")
    done = run("evaluate", tmp_path, "--data", "singles-data", "--json")
    assert (done.code, done.out) == (1, "")
    assert "expected finite logits, found NaN or infinity; its weights are damaged" in done.message
