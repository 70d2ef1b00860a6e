"""Summaries from the command line: long sources, the config's own way to decode, ROUGE."""

import json
from pathlib import Path
from typing import Any

import pytest

from lite_nlp import prepare_data
from lite_nlp.artifacts.directory import load_model_directory, model_from_state
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.decoding.translate import Translator
from tests.integration.conftest import LiteNlp, write_model

SENTENCES = [
    "The council met on Monday to talk about the old bridge.",
    "Nobody was hurt when the train stopped in the tunnel.",
    "Rain is expected in the north until the weekend.",
]
ARTICLES = [" ".join(SENTENCES[i:] + SENTENCES[:i]) * 2 for i in range(3)]
SUMMARIES = [f"{sentence} More later." for sentence in SENTENCES]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text files, a data directory to summarize, and models of the same random weights that decode in two ways."""
    path = tmp_path_factory.mktemp("summaries")
    (path / "articles.txt").write_text("".join(f"{line}\n" for line in ARTICLES))
    (path / "summaries.txt").write_text("".join(f"{line}\n" for line in SUMMARIES))
    texts = (path / "articles.txt", path / "summaries.txt")
    sides = {"src_lang": "article", "tgt_lang": "summary"}
    prepare_data(path / "data", train=texts, test=texts, task="summarization", vocab_size=300, **sides)
    for name in ("plain", "summarizer"):
        write_model(path / name, ARTICLES + SUMMARIES, family="transformer")
    config = path / "summarizer" / "config.toml"
    config.write_text(
        config.read_text().replace("max_tokens = 256", "max_tokens = 20")
        + '\n[decoding]\nmin_length = 9\nmax_length = 11\nno_repeat_ngram = 3\nlong_input = "truncate"\n'
    )
    return path


def test_the_config_says_how_to_decode(lite_nlp: LiteNlp, files: Path) -> None:
    code, out, err = lite_nlp("translate", files / "summarizer", "--input", files / "articles.txt")
    assert code == 0
    assert err.count("cut off after 20 of its") == 3
    directory = load_model_directory(files / "plain")
    translator = Translator(
        tokenizer=Tokenizer.from_json(directory.tokenizer_json),
        model=TorchStepModel(model_from_state(directory.config, directory.state, source="plain")),
        # The end mark takes one step more than the 11 tokens.
        options=SearchOptions(max_steps=12, min_length=9, no_repeat_ngram=3),
        max_source_tokens=20,
        long_input="truncate",
        warn=lambda message: None,
    )
    assert out.splitlines() == list(translator.translate_lines(ARTICLES, batch_size=16))


def test_the_command_line_has_the_last_word(lite_nlp: LiteNlp, files: Path) -> None:
    told = (
        *("--min-length", "9", "--max-length", "11", "--no-repeat-ngram", "3", "--length-penalty", "0.6"),
        *("--input", files / "articles.txt"),
    )
    by_config = lite_nlp("translate", files / "summarizer", "--input", files / "articles.txt", "--long-input", "split")
    by_hand = lite_nlp("translate", files / "plain", *told)
    assert by_config[:2] == by_hand[:2]
    assert "cut off" not in by_config[2]
    free = ("--min-length", "0", "--max-length", "0", "--no-repeat-ngram", "0", "--long-input", "split")
    unbound = lite_nlp("translate", files / "summarizer", *free, "--input", files / "articles.txt")
    assert unbound[:2] == lite_nlp("translate", files / "plain", "--input", files / "articles.txt")[:2]


def evaluate(lite_nlp: LiteNlp, *words: Any) -> dict[str, Any]:
    return lite_nlp.json("evaluate", *words)


def test_data_to_summarize_is_scored_by_rouge(lite_nlp: LiteNlp, files: Path) -> None:
    found = evaluate(lite_nlp, files / "summarizer", "--data", files / "data")
    assert found["metric"] == "rouge"
    assert {f"{name}{end}" for name in ("rouge1", "rouge2", "rougeL", "rougeLsum") for end in ("", "_low", "_high")} < {
        *found["scores"]
    }
    assert evaluate(lite_nlp, files / "summarizer", "--data", files / "data", "--metric", "bleu")["metric"] == "bleu"


def test_text_files_are_scored_by_what_is_asked_for(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    pair = (files / "summarizer", "--input", files / "articles.txt", "--reference")
    assert evaluate(lite_nlp, *pair, files / "summaries.txt", "--output", kept)["metric"] == "bleu"
    # Random weights may produce a line without a letter or digit, which has no words to score.
    lines = kept.read_text(encoding="utf-8").splitlines()
    words = [any(character.isascii() and character.isalnum() for character in line) for line in lines]
    found = evaluate(lite_nlp, *pair, kept, "--metric", "rouge")
    assert found["scores"]["rouge1"] == pytest.approx(100 * sum(words) / len(words))


def test_table(lite_nlp: LiteNlp, files: Path) -> None:
    code, out, _ = lite_nlp("evaluate", files / "summarizer", "--data", files / "data")
    assert code == 0
    assert all(word in out for word in ("ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum", "|stem:porter|"))
    assert "BLEU" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metric", "rouge", "--lowercase"], "--lowercase does not go with ROUGE"),
        (["--metric", "meteor"], "'meteor' is not one of"),
        (["--long-input", "drop"], "'drop' is not one of"),
        (["--max-length", "-1"], "--max-length"),
    ],
)
def test_wrong_usage(lite_nlp: LiteNlp, files: Path, words: list[str], message: str) -> None:
    code, out, err = lite_nlp("evaluate", files / "summarizer", "--data", files / "data", *words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_training_cuts_long_articles_and_counts_them(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "data"
    texts = (files / "articles.txt", files / "summaries.txt")
    sides = {"src_lang": "article", "tgt_lang": "summary"}
    prepare_data(prepared, train=texts, valid=texts, task="summarization", vocab_size=300, **sides)
    sizes = {
        "model.embed_dim": 16, "model.ffn_dim": 16, "model.num_heads": 2, "model.cross_num_heads": 2,
        "model.num_encoder_layers": 1, "model.num_decoder_layers": 1, "training.max_steps": 1,
        "training.max_tokens": 30, "training.gradient_accumulation": 1,
    }  # fmt: skip
    options = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
    out = tmp_path / "run"
    code, _, err = lite_nlp("train", "transformer-cnndm-512", "--data", prepared, "--out", out, *options)
    assert code == 0, err
    tokenizer = Tokenizer.load(prepared / "tokenizer.json")
    sources, targets = (sum(len(tokenizer.encode(line)) > 30 for line in side) for side in (ARTICLES, SUMMARIES))
    assert sources == 3
    said = f"training split: {sources} sources and {targets} targets of 3 pairs cut off after 30 tokens"
    assert said in " ".join(err.split())
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["truncated"] == {"max_tokens": 30, "sources": sources, "targets": targets}
    code, _, err = lite_nlp("translate", out, "--text", ARTICLES[0])
    assert code == 0
    assert "cut off after 30 of its" in err


def test_a_bundle_summarizes_as_its_model_does(lite_nlp: LiteNlp, files: Path) -> None:
    model, bundle = files / "summarizer", files / "summarizer.zip"
    done = lite_nlp("export", model, "--out", bundle, "--compact", "--max-src-tokens", "64", "--max-tgt-tokens", "64")
    assert done.code == 0, done.err
    words = ("--input", files / "articles.txt", "--beam", "2")
    expected = lite_nlp("translate", model, *words)
    for runtime in ("onnx", "executorch"):
        assert lite_nlp("translate", bundle, *words, "--runtime", runtime)[:2] == expected[:2]
    scored = (evaluate(lite_nlp, path, "--data", files / "data", "--beam", "2") for path in (model, bundle))
    by_model, by_bundle = scored
    assert (by_bundle["metric"], by_bundle["runtime"]) == ("rouge", "onnx")
    assert by_bundle["scores"] == by_model["scores"]
