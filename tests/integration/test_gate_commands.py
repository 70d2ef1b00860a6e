"""The budget as a gate in ``train``, ``compress`` and ``export``: exit code 3, and nothing written.

The tiny model has 16 channels, one layer a side and kernels of 3. At 30 -> 30 tokens its encoder costs 42,240 Mult-Adds
(attention 22,080, convolution 3,840, feed-forward 15,360, norms 960) and its decoder 102,240 (the same with three norms
and 59,520 for cross-attention).
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.preset import load_config
from lite_nlp.core.files import atomic_file
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.models.build import build_model
from tests.integration.conftest import Done, LiteNlp

from .tiny_training import write_files

MACS = 144_480

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a config, a data directory and a model of random weights."""
    path = tmp_path_factory.mktemp("gate")
    write_files(path)
    tokenizer = open_sentence_pairs(path / "data").tokenizer
    sizes = [f"model.{side}_vocab_size={tokenizer.vocab_size}" for side in ("src", "tgt")]
    config = load_config(path / "tiny.toml", sizes)
    torch.manual_seed(1)
    save_model_directory(
        path / "model",
        config=config,
        state=build_model(config.model).state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={},
    )
    return path


@pytest.fixture
def train(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> Run:
    words = ["train", home / "tiny.toml", "--data", home / "data", "--set", "training.max_steps=1"]
    return lambda *more: lite_nlp(*words, "--out", tmp_path / "out", *more)


@pytest.fixture
def compress(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> Run:
    words = ["compress", home / "model", "--data", home / "data", "--no-finetune", "--out", tmp_path / "out"]
    return lambda *more: lite_nlp(*words, *more)


def _refused(done: Done, figure: str, tmp_path: Path) -> None:
    """It ended over budget because of ``figure``, with nothing on stdout and nothing left behind."""
    assert (done.code, done.out) == (3, ""), done.err
    assert "over budget: " in done.err
    assert figure in done.err
    assert "--allow-over-budget goes on nevertheless" in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_train_refuses_to_start(train: Run, tmp_path: Path) -> None:
    done = train("--max-macs", str(MACS - 1))
    _refused(done, f"Mult-Adds (paper): {MACS:,} found, at most {MACS - 1:,} allowed", tmp_path)
    assert "tiny.toml, 30 -> 30 tokens" in done.err
    assert "model.embed_dim 16 -> " in done.err


def test_the_page_shows_what_the_command_says(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```\n(over budget: .*?)^```", page, re.DOTALL | re.MULTILINE)
    words = ["train", "multi30k-lite-transformer", "--data", home / "data", "--out", tmp_path / "out"]
    done = lite_nlp(*words, "--max-macs", "15M")
    assert (done.code, done.err) == (3, shown)


def test_train_starts_at_the_limit_or_where_told(train: Run, tmp_path: Path) -> None:
    done = train("--max-macs", str(MACS))
    assert done.code == 0, done.err
    assert "over budget" not in done.err
    done = train("--max-macs", "1K", "--allow-over-budget", "--force")
    assert done.code == 0, done.err
    assert "going on: --allow-over-budget" in done.err
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_train_counts_the_vocabulary_of_the_data(train: Run, tmp_path: Path) -> None:
    # The config's 8000 types would have 128,000 parameters in the table alone; the data has at most 280 types.
    done = train("--count-params", "total", "--max-params", "20K")
    assert done.code == 0, done.err


def test_train_and_distill_advise_no_vocabulary_that_is_not_the_datas(
    train: Run, lite_nlp: LiteNlp, home: Path, tmp_path: Path
) -> None:
    # The joint table has 16 parameters for each of 280 types: three of them are to go.
    model = load_config(home / "model").model
    most = count_config(model, src_len=30, tgt_len=30).params_total - 3 * 16
    limit = ("--count-params", "total", "--max-params", str(most))
    words = ["--data", home / "data", "--out", tmp_path / "out", *limit]
    for done in (train(*limit), lite_nlp("distill", home / "model", home / "tiny.toml", *words)):
        _refused(done, "parameters (total): ", tmp_path)
        assert f"  data prepare --vocab-size 277: {MACS:,} Mult-Adds, {most:,} parameters\n" in done.err
        assert "vocab_size" not in done.err


def test_a_checkpointed_run_is_held_against_the_budget_too(train: Run, tmp_path: Path) -> None:
    assert train().code == 0
    before = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert train("--resume", "--max-macs", "1K").code == 3
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == before


def test_of_many_processes_only_the_first_says_why(train: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    done = train("--max-macs", "1K")
    assert (done.code, done.out, done.err) == (3, "", "")
    monkeypatch.setenv("RANK", "0")
    _refused(train("--max-macs", "1K"), "Mult-Adds (paper)", tmp_path)


def test_shorter_sentences_may_be_within(train: Run, tmp_path: Path) -> None:
    # One token: encoder 4 x 64 + 16 + 128 + 512 + 32, decoder 4 x 64 + 16 + 128 + 4 x 256 + 32 + 512 + 48.
    words = ["--src-len", "1", "--tgt-len", "1", "--max-macs"]
    _refused(train(*words, "2959"), "Mult-Adds (paper): 2,960 found", tmp_path)
    assert train(*words, "2960").code == 0


def test_compress_refuses_before_the_work(compress: Run, tmp_path: Path) -> None:
    done = compress("--max-macs", str(MACS - 1))
    _refused(done, f"Mult-Adds (paper): {MACS:,} found", tmp_path)
    _refused(compress("--max-params", "1K"), "parameters (paper)", tmp_path)


def test_structured_pruning_may_bring_a_model_under(compress: Run, tmp_path: Path) -> None:
    words = ["--structured", "0.25", "--max-macs"]
    _refused(compress(*words, "1K"), "Mult-Adds (paper): ", tmp_path)
    done = compress(*words, str(3 * MACS // 4))
    assert done.code == 0, done.err
    stages = json.loads((tmp_path / "out" / "ledger.json").read_text(encoding="utf-8"))["stages"]
    assert stages[0]["macs"] == MACS
    assert stages[-1]["macs"] <= 3 * MACS // 4


def test_compress_leaves_no_file_that_is_too_large(compress: Run, tmp_path: Path) -> None:
    _refused(compress("--max-size", "1KB"), "file size in bytes: ", tmp_path)
    done = compress("--max-size", "1KB", "--allow-over-budget")
    assert done.code == 0, done.err
    size = (tmp_path / "out" / "model.lnlp").stat().st_size
    assert f"file size in bytes: {size:,} found, at most 1,000 allowed" in done.err
    assert "lite-nlp compress" in done.err
    # The file says how many seconds its stages took, with more digits or fewer.
    done = compress("--force", "--max-size", str(size + 100), "--max-macs", str(MACS))
    assert done.code == 0, done.err
    assert "over budget" not in done.err


def test_the_ledger_counts_at_the_lengths_asked_for(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    words = ["compress", home / "model", "--data", home / "data", "--no-finetune", "--out", tmp_path / "out"]
    stages = lite_nlp.json(*words, "--src-len", "1", "--tgt-len", "1")["stages"]
    assert {stage["macs"] for stage in stages} == {2960}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target-size", "5KB", "--max-size", "4KB"), "--target-size: expected at most --max-size 4KB, found 5KB"),
        (("--max-size", "small"), "expected a size such as 570KB"),
        (("--max-macs", "4MB"), "expected a count such as 500M"),
        (("--count-params", "some"), "--count-params: expected total or paper, found some"),
        (("--src-len", "0"), "--src-len"),
    ],
)
def test_wrong_usage(compress: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = compress(*words)
    assert (done.code, done.out) == (2, "")
    assert message in done.message
    assert list(tmp_path.iterdir()) == []


def test_a_length_beyond_the_model(compress: Run, tmp_path: Path) -> None:
    done = compress("--src-len", "65")
    assert done.code == 1
    assert "source length: expected 1 to 64 tokens (model.max_positions), found 65" in done.message
    assert list(tmp_path.iterdir()) == []


def test_export_refuses_before_the_work(lite_nlp: LiteNlp, home: Path, tmp_path: Path) -> None:
    done = lite_nlp("export", home / "model", "--out", tmp_path / "model.zip", "--max-macs", str(MACS - 1))
    _refused(done, f"Mult-Adds (paper): {MACS:,} found", tmp_path)
    assert "tracing" not in done.err


def test_export_leaves_no_bundle_that_is_too_large(
    lite_nlp: LiteNlp, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Converting takes most of a minute and is tested elsewhere; here it writes a bundle of 5000 bytes."""

    def write(path: Path, *, accept: Callable[[Path], None], **rest: Any) -> Any:
        with atomic_file(path) as partial:
            partial.write_bytes(b"0" * 5000)
            accept(partial)
        bounds = SimpleNamespace(model_dump=dict)
        return SimpleNamespace(files={}, packed=None, precision="fp32", bounds=bounds, parity={})

    monkeypatch.setattr("lite_nlp.export.pipeline.export_bundle", write)
    words: list[str | Path] = ["export", home / "model", "--out", tmp_path / "model.zip", "--max-size"]
    done = lite_nlp(*words, "4999")
    _refused(done, "file size in bytes: 5,000 found, at most 4,999 allowed", tmp_path)
    assert "export --compact of a .lnlp file that is small enough, or a smaller model" in done.err
    done = lite_nlp(*words, "5000", "--json")
    assert done.code == 0, done.err
    assert (tmp_path / "model.zip").stat().st_size == 5000
    (tmp_path / "model.zip").write_bytes(b"an older bundle")
    assert lite_nlp(*words, "4KB", "--force").code == 3
    assert (tmp_path / "model.zip").read_bytes() == b"an older bundle"
    done = lite_nlp(*words, "4KB", "--force", "--allow-over-budget")
    assert done.code == 0, done.err
    assert (tmp_path / "model.zip").stat().st_size == 5000
