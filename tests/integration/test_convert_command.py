"""``lite-nlp convert t2r``, and finetuning what it writes."""

import json
from pathlib import Path

import pytest
import torch

from lite_nlp.artifacts.directory import load_model_directory, save_model_directory
from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.config.preset import Config, load_config
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.models.build import build_model
from tests.integration.conftest import LiteNlp
from tests.integration.tiny_training import write_files


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory, and a model of random weights that reads it: two layers, 16 channels, two heads."""
    path = tmp_path_factory.mktemp("convert")
    write_files(path)
    tokenizer = open_sentence_pairs(path / "data").tokenizer
    settings = ("family=transformer", "num_encoder_layers=2", "num_decoder_layers=2", "conv_dropout=0.0")
    kernels = ("kernel_sizes=[]", "decoder_kernel_sizes=[]")
    vocabulary = tuple(f"{side}_vocab_size={tokenizer.vocab_size}" for side in ("src", "tgt"))
    config = load_config(path / "tiny.toml", [f"model.{key}" for key in settings + kernels + vocabulary])
    torch.manual_seed(1)
    save_model_directory(
        path / "model",
        config=config,
        state=build_model(config.model).state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={"languages": {"source": "en", "target": "de"}, "valid": {"loss": 1.5}},
    )
    return path


def test_converts_and_reports(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    content = lite_nlp.json(
        "convert", "t2r", home / "model", "--cross", "8", "--causal", "4", "--out", tmp_path / "linear"
    )
    before = sum(tensor.numel() for tensor in load_model_directory(home / "model").state.values())
    # r k (d + 1) parameters and h k + r k floats a layer, for h = 16, r = 2, d = 8 and k = 4 and 8, in two layers.
    added = 2 * (2 * 4 * 9 + 2 * 8 * 9)
    assert content == {
        "schema_version": 1,
        "model": "model",
        "out": str(tmp_path / "linear"),
        "feature_map": "t2r",
        "converted": {"causal": True, "cross": True},
        "feature_size": {"causal": 4, "cross": 8},
        "softmax_layers": [],
        "params": {"before": before, "after": before + added, "added": added},
        "state_bytes": 4 * 2 * ((16 * 4 + 2 * 4) + (16 * 8 + 2 * 8)),
    }
    written = load_model_directory(tmp_path / "linear")
    assert (written.config.model.family, written.config.model.cross_feature_size) == ("t2r", 8)
    assert written.tokenizer_json == (home / "model" / "tokenizer.json").read_bytes()
    assert written.metrics["languages"] == {"source": "en", "target": "de"}
    assert "valid" not in written.metrics
    assert written.metrics["converted_from"]["metrics"]["valid"] == {"loss": 1.5}


def test_a_feature_size_for_both_and_layers_that_stay(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    words = (
        "--feature-size",
        "6",
        "--keep-every",
        "2",
        "--feature-map",
        "random-features",
        "--out",
        tmp_path / "linear",
    )
    content = lite_nlp.json("convert", "t2r", home / "model", *words)
    # Counted from the top, the second layer is the first from the bottom.
    assert content["softmax_layers"] == [1]
    assert content["feature_size"] == {"causal": 6, "cross": 6}
    # A temperature for each channel, in self- and cross-attention of one layer.
    assert content["params"]["added"] == 2 * 16


def test_elu_and_a_kind_that_stays(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    words = ("--feature-map", "elu", "--causal", "0", "--out", tmp_path / "linear")
    code, out, err = lite_nlp("convert", "t2r", home / "model", *words)
    assert code == 0, err
    # 16 x 8 + 2 x 8 floats in each of two layers.
    assert out == (
        f"{tmp_path / 'linear'}: model with linear cross-attention (elu), 0 additional parameters (0.00%), "
        "state of 1,152 bytes at any length, beside keys and values of softmax, which grow with the text\n"
    )
    model = load_model_directory(tmp_path / "linear").config.model
    assert (model.self_attention, model.cross_attention, model.cross_feature_size) == ("softmax", "elu", 0)


def test_cross_attention_that_stays_grows_with_the_source(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    code, out, err = lite_nlp("convert", "t2r", home / "model", "--cross", "0", "--out", tmp_path / "crossed")
    assert code == 0, err
    assert out.endswith(" at any length, beside keys and values of softmax, which grow with the text\n")


def test_a_converted_model_is_finetuned_and_translates(
    lite_nlp: LiteNlp, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear, run = tmp_path / "linear", tmp_path / "run"
    assert lite_nlp("convert", "t2r", home / "model", "--feature-size", "4", "--out", linear).code == 0
    steps = ("--set", "training.max_steps=30", "--set", "training.validate_every_steps=30")
    done = lite_nlp("train", linear, "--init-from", linear, "--data", home / "data", "--out", run, *steps)
    assert done.code == 0, done.err
    before, after = load_model_directory(linear), load_model_directory(run)
    assert after.config.model == before.config.model
    # All parameters are finetuned, the maps and what was there before.
    assert all(not torch.equal(after.state[name], tensor) for name, tensor in before.state.items())
    # From random weights the loss is about the logarithm of the vocabulary, which thirty steps beat.
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["valid"]["loss"] < 5.0
    done = lite_nlp("translate", run, stdin=b"one two\n")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--feature-map", "elu", "--feature-size", "8"], 2, "--feature-size: elu has a head's channels as features"),
        (["--feature-map", "elu", "--seed", "1"], 2, "--seed: expected no --feature-map elu with it"),
        (["--feature-map", "elu", "--cross", "8"], 2, "--cross: elu has a head's channels as features, expected none"),
        (["--feature-map", "cosine"], 2, "'cosine' is not one of"),
        (["--feature-size", "0"], 2, "for '--feature-size': Input should be greater than or equal to 1"),
        (["--causal", "0", "--cross", "0"], 2, "--causal and --cross: expected features of at least one of them"),
        (["--feature-map", "random-features", "--cross", "5"], 1, "cross_feature_size: expected an even number"),
        (["--keep-every", "1"], 2, "--keep-every: expected 0, or 2 to the number of decoder layers (2), found 1"),
        (["--keep-every", "5"], 2, "--keep-every: expected 0, or 2 to the number of decoder layers (2), found 5"),
    ],
)
def test_what_cannot_be_done(
    lite_nlp: LiteNlp, home: Path, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    done = lite_nlp("convert", "t2r", home / "model", *words, "--out", tmp_path / "linear")
    assert (done.code, done.out) == (code, "")
    assert message in done.message
    assert not (tmp_path / "linear").exists()


def test_an_output_is_kept_and_a_model_is_converted_once(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    linear = tmp_path / "linear"
    assert lite_nlp("convert", "t2r", home / "model", "--out", linear).code == 0
    done = lite_nlp("convert", "t2r", home / "model", "--out", linear)
    assert done.code == 1
    assert f"{linear}: output exists already" in done.message
    assert lite_nlp("convert", "t2r", home / "model", "--feature-size", "8", "--out", linear, "--force").code == 0
    assert load_model_directory(linear).config.model.self_feature_size == 8
    done = lite_nlp("convert", "t2r", linear, "--out", tmp_path / "twice")
    assert done.code == 1
    assert "linear: expected softmax self-attention in the decoder to convert, found 't2r'" in done.message


def test_a_language_model_has_self_attention_alone(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    tokenizer = open_sentence_pairs(home / "data").tokenizer
    model = LanguageModelConfig(
        family="transformer",
        tgt_vocab_size=tokenizer.vocab_size,
        embed_dim=16,
        ffn_dim=16,
        num_decoder_layers=2,
        num_heads=2,
    )
    save_model_directory(
        tmp_path / "text",
        config=Config(name="text", model=model),
        state=build_model(model).state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={},
    )
    content = lite_nlp.json("convert", "t2r", tmp_path / "text", "--feature-size", "4", "--out", tmp_path / "linear")
    assert content["converted"] == {"causal": True, "cross": False}
    assert content["state_bytes"] == 4 * 2 * (16 * 4 + 2 * 4)
    done = lite_nlp("convert", "t2r", tmp_path / "text", "--cross", "8", "--out", tmp_path / "crossed")
    assert done.code == 1
    assert "text: expected cross-attention to convert, found a language-model" in done.message
