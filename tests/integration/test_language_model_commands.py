"""Running text to a language model and its perplexity, by the commands alone."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lite_nlp import evaluate_model
from lite_nlp.artifacts.directory import load_model_directory, model_from_state
from lite_nlp.core.errors import UsageError
from lite_nlp.data.text.directory import open_running_text
from tests.integration.conftest import LiteNlp

from .tiny_training import write_files

CONFIG = """
name = "tiny-lm"

[model]
architecture = "language-model"
family = "{family}"
embed_dim = 16
ffn_dim = 16
num_decoder_layers = 1
num_heads = 2
max_positions = 128
{keys}

[training]
batch_tokens = 128
block_tokens = 32
learning_rate = 3e-3
label_smoothing = 0.0
warmup_steps = 5
max_steps = 20
validate_every_steps = 10
checkpoint_every_steps = 10
average_checkpoints = 1
"""

#: Not a multiple of anything; the last line has a word of two bytes a letter.
LINES = [f"{'what ' * (number % 4)}is number {number}?" for number in range(97)] + ["", "", "Größe"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directories of pairs and of text, two configs of language models, and one of another architecture."""
    path = tmp_path_factory.mktemp("language-model")
    write_files(path)
    (path / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (path / "lm.toml").write_text(CONFIG.format(family="transformer", keys=""), encoding="utf-8")
    adaptive = 'embedding = "adaptive"\nadaptive_cutoffs = [100, 200]\nadaptive_factor = 2'
    (path / "adaptive.toml").write_text(CONFIG.format(family="transformer", keys=adaptive), encoding="utf-8")
    return path


@pytest.fixture
def run(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch) -> LiteNlp:
    """The command line where the files are; the text is prepared by the first test that runs."""
    monkeypatch.chdir(files)
    if not Path("text").exists():
        done = lite_nlp("data", "prepare", "--text", "text.txt", "--vocab-size", "280", "--out", "text")
        assert done.code == 0, done.err
    return lite_nlp


def train(run: LiteNlp, out: str, config: str = "lm.toml", *words: str) -> None:
    done = run("train", config, "--data", "text", "--out", out, "--force", *words)
    assert done.code == 0, done.err


@pytest.mark.parametrize("config", ["lm.toml", "adaptive.toml"])
def test_train_and_evaluate(run: LiteNlp, config: str) -> None:
    train(run, "run", config)
    saved = load_model_directory(Path("run"))
    # Evaluated in the blocks of validation, the likelihood is that of validation.
    scores = run.json("evaluate", "run", "--data", "text", "--split", "valid", "--context", "0")
    assert scores["scores"]["perplexity"] == pytest.approx(saved.metrics["valid"]["perplexity"], rel=1e-4)
    assert (scores["window"], scores["context"]) == (32, 0)

    # The test text fits one window: its likelihood is that of one pass over all of it.
    stream = open_running_text("text").stream("test")
    ids = torch.from_numpy(stream.read(0, len(stream)))
    model = model_from_state(saved.config, saved.state, source="run")
    with torch.no_grad():
        logits = model(torch.cat([torch.tensor([2]), ids[:-1]])[None])  # type: ignore[operator]
    expected = F.cross_entropy(logits[0], ids, reduction="sum").item()
    scores = run.json("evaluate", "run", "--data", "text", "--window", "128")
    assert scores["scores"]["nll"] == pytest.approx(expected, rel=1e-5)
    assert scores["context"] == 64
    held_out = "".join(f"{line}\n" for line in LINES[95:])
    assert scores["tokens"] == len(ids)
    assert scores["words"] == len(held_out.split()) + 5
    assert (scores["characters"], scores["bytes"]) == (len(held_out), len(held_out.encode()))
    assert scores["scores"]["bits_per_byte"] == pytest.approx(expected / np.log(2) / len(held_out.encode()), rel=1e-5)


def test_lines_are_continued(run: LiteNlp, tmp_path: Path) -> None:
    train(run, "run")
    lines = ["what is", "", "number 7", "what what"]
    text = "".join(f"{line}\n" for line in lines)
    (tmp_path / "prompts.txt").write_text(text, encoding="utf-8")
    words = ("generate", "run", "--max-tokens", "8")
    code, out, err = run(*words, "--input", tmp_path / "prompts.txt", "--threads", "1")
    assert code == 0, err
    found = out.removesuffix("\n").split("\n")
    assert len(found) == len(lines)
    assert all(after.startswith(before) for before, after in zip(lines, found, strict=True))
    assert run(*words, "--batch", "1", stdin=text.encode()).out == out
    assert run(*words, "--text", "what is").out == f"{found[0]}\n"
    assert run(*words, "--text", "").out == f"{found[1]}\n"

    content = run.json(*words, "--input", tmp_path / "prompts.txt", "--output", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == out
    assert {key: content[key] for key in ("model", "runtime", "max_tokens", "temperature", "top_k", "seed")} == {
        "model": "run", "runtime": "torch", "max_tokens": 8, "temperature": None, "top_k": None, "seed": None,
    }  # fmt: skip
    for line, text_after, one in zip(lines, found, content["outputs"], strict=True):
        assert (one["prompt"], one["text"]) == (line, text_after)
        assert one["text"] == one["prompt"] + one["continuation"]
        assert one["tokens"] <= 8
        assert one["ended"] == (one["tokens"] < 8)
        assert one["log_prob"] < 0

    drawn = run.json(*words, "--text", "what is", "--temperature", "2", "--top-k", "50")
    assert (drawn["temperature"], drawn["top_k"], drawn["seed"]) == (2.0, 50, 1)
    again = run.json(*words, "--text", "what is", "--temperature", "2", "--top-k", "50", "--seed", "1")
    assert again == drawn
    other = run.json(*words, "--text", "what is", "--temperature", "2", "--top-k", "50", "--seed", "2")
    assert other["outputs"] != drawn["outputs"]


def test_what_generate_refuses(run: LiteNlp, tmp_path: Path) -> None:
    train(run, "run")
    (tmp_path / "bad.txt").write_bytes(b"good\nb\xe4d\n")
    for code, words, message in (
        (2, ("run", "--seed", "2", "--text", "a"), "--seed: expected with --temperature or --top-k"),
        (2, ("run", "--text", "a", "--input", "b"), "--text and --input: expected one of them, found both"),
        (2, (), "Missing argument 'MODEL'"),
        (1, ("run", "--input", tmp_path / "bad.txt", "--output", tmp_path / "out"), "line 2: expected UTF-8"),
        (1, ("tatoeba-en-de", "--text", "a"), "expected a language-model, found a model of architecture encoder-dec"),
        (1, ("missing", "--text", "a"), "missing: expected a model directory"),
    ):
        done = run("generate", *words)
        assert (done.code, done.out) == (code, "")
        assert message in done.message
    assert not (tmp_path / "out").exists()


def test_the_table_for_people(run: LiteNlp) -> None:
    train(run, "run")
    done = run("evaluate", "run", "--data", "text")
    assert done.code == 0
    for row in ("perplexity per token", "perplexity per word", "bits per character", "bits per byte"):
        assert row in done.out
    assert "windows of 32 tokens, of which at least 16 are context only" in done.out


def test_a_run_goes_on_and_another_begins_with_its_weights(run: LiteNlp) -> None:
    train(run, "run")
    words = ("--set", "training.max_steps=30", "--resume")
    done = run("train", "lm.toml", "--data", "text", "--out", "run", *words)
    assert done.code == 0, done.err
    assert "resuming after step 20" in done.err
    train(run, "second", "lm.toml", "--init-from", "run", "--set", "training.learning_rate=1e-9")
    losses = [json.loads((Path(out) / "metrics.json").read_text())["valid"]["loss"] for out in ("run", "second")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_swap_to_linear_attention_then_finetune(run: LiteNlp) -> None:
    train(run, "run", "lm.toml", "--set", "training.max_steps=60")
    done = run("convert", "t2r", "run", "--feature-size", "4", "--out", "linear", "--force")
    assert done.code == 0, done.err
    train(run, "tuned", "linear", "--init-from", "linear")
    assert load_model_directory(Path("tuned")).config.model.self_attention == "t2r"
    before, after = (
        run.json("evaluate", model, "--data", "text")["scores"]["perplexity"] for model in ("linear", "tuned")
    )
    assert after < before


def test_data_of_another_kind_is_refused(run: LiteNlp) -> None:
    train(run, "run")
    for words, message in (
        (
            ("train", "lm.toml", "--data", "data", "--out", "no"),
            "data: model.architecture = 'language-model' learns from running text (data prepare --text), found sentence"
            " pairs",
        ),
        (
            ("train", "tiny.toml", "--data", "text", "--out", "no"),
            "text: model.architecture = 'encoder-decoder' learns from sentence pairs (data prepare --train), found"
            " running text",
        ),
        (
            ("evaluate", "run", "--data", "data"),
            "data: expected a data directory of running text, found one of sentence pairs",
        ),
        (
            ("evaluate", "--data", "text"),
            "text: expected a data directory of sentence pairs, found one of running text",
        ),
        (("translate", "run"), "run: expected an encoder-decoder, found a language-model"),
    ):
        done = run(*words)
        assert done.code == 1, words
        assert message in done.message
    assert not Path("no").exists()


def test_wrong_options(run: LiteNlp) -> None:
    train(run, "run")
    for words, message in (
        (("run",), "a language model is evaluated on running text: --data is required"),
        (("run", "--data", "text", "--beam", "2"), "--beam does not go with a model of architecture language-model"),
        (("run", "--input", "a", "--reference", "b"), "--input does not go with a model of architecture"),
        (("--data", "data", "--context", "0"), "--context does not go with a model of architecture encoder-decoder"),
        (("--data", "data", "--window", "9"), "--window does not go with a model of architecture encoder-decoder"),
    ):
        done = run("evaluate", *words)
        assert done.code == 2, words
        assert message in done.message
    for words, code, message in (
        (("--window", "129"), 2, "--window: expected at most model.max_positions (128) tokens, found 129"),
        (("--window", "8", "--context", "8"), 2, "--context in windows of 8 tokens: expected 0 to 7, found 8"),
        (("--split", "dev"), 1, "split: expected one of train, valid, test, found 'dev'"),
    ):
        done = run("evaluate", "run", "--data", "text", *words)
        assert done.code == code, words
        assert message in done.message


def test_windows_that_are_no_number_of_tokens(run: LiteNlp) -> None:
    train(run, "run")
    for options, message in (
        ({"window": 2.5}, "--window: expected a whole number, found 2.5"),
        ({"window": 0}, "--window: expected 1 to 1,048,576, found 0"),
        ({"context": 1.5}, "--context in windows of 32 tokens: expected a whole number, found 1.5"),
        ({"context": -1}, "--context in windows of 32 tokens: expected 0 to 31, found -1"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            evaluate_model("run", data="text", **options)


def test_what_the_data_and_the_config_must_agree_on(run: LiteNlp) -> None:
    train(run, "run")
    other = ("data", "prepare", "--text", "text.txt", "--vocab-size", "265", "--lowercase", "--out", "other", "--force")
    assert run(*other).code == 0
    for words, message in (
        (("evaluate", "run", "--data", "other"), "expected data tokenized with the model's own tokenizer"),
        (
            ("train", "lm.toml", "--data", "other", "--out", "no", "--init-from", "run"),
            "--init-from run: expected a model with the tokenizer of other, or with one that begins with its types",
        ),
        (
            ("train", "lm.toml", "--data", "text", "--out", "no", "--set", "training.block_tokens=200"),
            "training.block_tokens: expected at most model.max_positions (128), found 200",
        ),
        (
            ("train", "adaptive.toml", "--data", "text", "--out", "no", "--set", "model.adaptive_cutoffs=[100,5000]"),
            "tiny-lm with the vocabulary of text: ",
        ),
    ):
        done = run(*words)
        assert done.code == 1, words
        assert message in done.message
    assert not Path("no").exists()
