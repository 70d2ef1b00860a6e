import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lite_nlp import prepare_data
from lite_nlp.artifacts.directory import load_model_directory
from tests.integration.conftest import LiteNlp

from .tiny_training import write_files

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("train")
    write_files(path)
    return path


@pytest.fixture
def run(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run ``lite-nlp train tiny.toml --data data --out TMP/run`` with more words: code, stdout, stderr in a line."""
    monkeypatch.chdir(files)

    def run(*arguments: str, config: str = "tiny.toml", data: str = "data") -> tuple[int, str, str]:
        done = lite_nlp("train", config, "--data", data, "--out", tmp_path / "run", *arguments)
        return done.code, done.out, done.message

    return run


def test_training_takes_the_vocabulary_of_the_data_and_reports(run: Run, files: Path, tmp_path: Path) -> None:
    code, out, errors = run()
    assert code == 0, errors
    saved = load_model_directory(tmp_path / "run")
    types = json.loads((files / "data" / "data.json").read_text())["tokenizer"]["vocab_size"]
    assert saved.config.model.src_vocab_size == saved.config.model.tgt_vocab_size == types != 8000
    assert saved.tokenizer_json == (files / "data" / "tokenizer.json").read_bytes()
    assert f"vocabulary: {types} types, as in data" in errors
    assert "step 40, epoch" in errors
    assert re.fullmatch(r"\S+: 40 steps, \d+ epochs, validation loss \S+, perplexity \S+, \S+ tokens/s\n", out)


def test_bf16_and_bleu(run: Run, tmp_path: Path) -> None:
    code, out, errors = run(
        "--set", "training.precision=bf16", "--set", "training.validate_metric=bleu", "--set", "training.max_steps=20"
    )  # fmt: skip
    assert code == 0, errors
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["precision"] == "bf16"
    assert 0.0 <= metrics["valid"]["bleu"] <= 100.0
    assert ", BLEU " in out
    # Weights stay in float32 whatever they are multiplied in.
    assert {str(tensor.dtype) for tensor in load_model_directory(tmp_path / "run").state.values()} == {"torch.float32"}


def test_a_run_that_its_time_ends_says_what_to_try(run: Run, tmp_path: Path) -> None:
    code, out, errors = run("--max-minutes", "0.00001", "--threads", "1", "--json")
    assert code == 0, errors
    assert "threads: 1 of" in errors
    assert "warning: validation perplexity is" in errors
    assert "1 steps are within the warm-up of the learning rate (10)" in errors
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert json.loads(out) == {"out": str(tmp_path / "run"), **metrics}
    assert (metrics["steps"], metrics["ended_by"]) == (1, "max_minutes")
    assert len(metrics["warnings"]) == 1
    assert run("--resume", "--max-minutes", "0")[0] == 2


def test_a_finished_run_can_be_made_longer(run: Run) -> None:
    assert run("--set", "training.max_steps=10")[0] == 0
    code, out, errors = run("--set", "training.max_steps=20", "--resume")
    assert code == 0, errors
    assert "resuming after step 10" in errors
    assert ": 20 steps" in out


def test_a_run_goes_on_with_its_own_data_alone(run: Run, files: Path, tmp_path: Path) -> None:
    """Other pairs of the same words, of as many tokens in all."""
    assert run("--set", "training.max_steps=10")[0] == 0
    sources, targets = files / "train.en", files / "train.de"
    turned = tmp_path / "turned.en"
    turned.write_text("\n".join(reversed(sources.read_text().splitlines())) + "\n")
    valid = files / "valid.en", files / "valid.de"
    prepare_data(tmp_path / "other", train=(turned, targets), valid=valid, tokenizer=files / "data" / "tokenizer.json")
    code, _, errors = run("--set", "training.max_steps=20", "--resume", data=str(tmp_path / "other"))
    assert code == 1
    assert "cannot resume: expected the run's own config and data" in errors
    assert "found: data.sha256 was " in errors


def test_bpe_dropout_draws_the_same_tokens_in_a_resumed_run(run: Run, tmp_path: Path) -> None:
    words = ("--threads", "1", "--set", "training.bpe_dropout=0.2", "--set")
    assert run(*words, "training.max_steps=10")[0] == 0
    code, _, errors = run(*words, "training.max_steps=16", "--resume")
    assert code == 0, errors
    (tmp_path / "run").rename(tmp_path / "resumed")
    assert run(*words, "training.max_steps=16")[0] == 0
    (tmp_path / "run").rename(tmp_path / "whole")
    assert run("--threads", "1", "--set", "training.max_steps=16")[0] == 0
    resumed, whole, usual = (load_model_directory(tmp_path / name).state for name in ("resumed", "whole", "run"))
    assert all(resumed[name].equal(whole[name]) for name in whole)
    assert not all(usual[name].equal(whole[name]) for name in whole)


def test_an_existing_run_and_contradictory_options(run: Run) -> None:
    assert run("--set", "training.max_steps=5")[0] == 0
    code, _, errors = run()
    assert code == 1
    assert "output exists already; expected a new path, or --force to overwrite it, or --resume" in errors
    code, _, errors = run("--resume", "--force")
    assert code == 2
    assert run("--set", "training.max_steps=5", "--force")[0] == 0


def test_a_model_can_be_trained_on(run: Run, files: Path, tmp_path: Path) -> None:
    assert run("--set", "training.max_steps=20")[0] == 0
    (tmp_path / "run").rename(tmp_path / "first")
    code, _, errors = run(
        "--set", "training.max_steps=1", "--set", "training.learning_rate=1e-9", "--init-from", str(tmp_path / "first")
    )  # fmt: skip
    assert code == 0, errors
    first, second = (load_model_directory(tmp_path / name) for name in ("first", "run"))
    assert all((first.state[name] - second.state[name]).abs().max() < 1e-6 for name in first.state)


def test_a_model_of_more_types_can_be_trained_on(run: Run, files: Path, tmp_path: Path) -> None:
    assert run("--set", "training.max_steps=3")[0] == 0
    (tmp_path / "run").rename(tmp_path / "first")
    first = load_model_directory(tmp_path / "first")
    types = len(json.loads(first.tokenizer_json)["model"]["vocab"])
    texts = (files / "valid.en", files / "valid.de")
    prepare_data(tmp_path / "fewer", train=texts, valid=texts, tokenizer=tmp_path / "first", vocab_size=types - 9)
    code, _, errors = run(
        *("--set", "training.max_steps=1", "--set", "training.learning_rate=1e-9"),
        *("--init-from", str(tmp_path / "first")),
        data=str(tmp_path / "fewer"),
    )
    assert code == 0, errors
    assert f"weights: of the first of {types} types of first" in errors
    second = load_model_directory(tmp_path / "run")
    assert second.config.model.src_vocab_size == types - 9
    for name, tensor in second.state.items():
        assert (first.state[name][: len(tensor)] - tensor).abs().max() < 1e-6
    (tmp_path / "run").rename(tmp_path / "second")
    code, _, errors = run("--init-from", str(tmp_path / "second"))
    assert code == 1
    assert "expected a model with the tokenizer of data, or with one that begins with its types" in errors


def test_a_model_of_another_shape_or_vocabulary_is_refused(run: Run, files: Path, tmp_path: Path) -> None:
    assert run("--set", "training.max_steps=1")[0] == 0
    (tmp_path / "run").rename(tmp_path / "first")
    code, _, errors = run("--set", "model.ffn_dim=24", "--init-from", str(tmp_path / "first"))
    assert code == 1
    assert "expected a model of the config, found: model.ffn_dim is 16, the config has 24" in errors
    texts = (files / "valid.en", files / "valid.de")
    prepare_data(tmp_path / "other", train=texts, valid=texts, vocab_size=270)
    code, _, errors = run("--init-from", str(tmp_path / "first"), data=str(tmp_path / "other"))
    assert code == 1
    assert "expected a model with the tokenizer of" in errors
    code, _, errors = run("--init-from", str(tmp_path / "nowhere"))
    assert code == 1
    assert "expected a model directory" in errors


@pytest.mark.parametrize(
    ("arguments", "config", "data", "message"),
    [
        ([], "tiny.toml", "nowhere", "nowhere: expected a data directory with data.json, found none"),
        ([], "nowhere.toml", "data", "nowhere.toml: expected a config file or the name of a preset"),
        (["--set", "training.speed=1"], "tiny.toml", "data", "unknown key training.speed"),
        (
            ["--set", "model.num_heads=3"],
            "tiny.toml",
            "data",
            "num_heads: expected a divisor of the attention channels",
        ),
        (["--set", "training.max_steps=soon"], "tiny.toml", "data", "training.max_steps: "),
        (
            ["--set", "model.embed_dim=1024", "--set", "model.max_positions=131072"],
            "tiny.toml",
            "data",
            "max_positions: expected tables of at most",
        ),
    ],
)
def test_bad_input_is_an_error_that_names_it(
    run: Run, tmp_path: Path, arguments: list[str], config: str, data: str, message: str
) -> None:
    code, out, errors = run(*arguments, config=config, data=data)
    assert code == 1
    assert message in errors
    assert "Traceback" not in errors
    assert out == ""
    assert not (tmp_path / "run").exists()


def test_data_without_a_validation_split_is_refused(run: Run, files: Path, tmp_path: Path) -> None:
    texts = (files / "train.en", files / "train.de")
    prepare_data(tmp_path / "other", train=texts, valid_pairs=0, test_pairs=0, vocab_size=270)
    code, _, errors = run(data=str(tmp_path / "other"))
    assert code == 1
    assert "split: expected one of train, found 'valid'" in errors
