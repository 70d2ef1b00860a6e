"""``lite-nlp compress``: what is refused or cannot be reached is told, and nothing is left behind."""

import errno
import re
from pathlib import Path

import pytest

from lite_nlp import prepare_data
from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.config.preset import Config
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.models.build import build_model
from tests.integration.conftest import LiteNlp

from .by_heart import Compress


def test_a_reference_that_does_not_fit_is_refused(run: Compress, home: Path, tmp_path: Path) -> None:
    tokenizer = open_sentence_pairs(home / "data").tokenizer
    config = LanguageModelConfig(
        family="transformer", tgt_vocab_size=tokenizer.vocab_size, embed_dim=16, ffn_dim=16, num_decoder_layers=1
    )
    save_model_directory(
        tmp_path / "language",
        config=Config(name="language", model=config),
        state=build_model(config).state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={},
    )
    done = run("--no-finetune", "--reference", tmp_path / "language", "--out", tmp_path / "small")
    assert done.code == 2
    assert "--reference language: expected a model of the same task: language: expected an encoder" in done.message
    done = run("--no-finetune", "--reference", tmp_path / "nowhere", "--out", tmp_path / "small")
    assert done.code == 1
    assert "nowhere: expected a model directory" in done.message
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--target-size", "1KB"),
            "model: cannot be compressed to 1,000 bytes: without any of its matrices the file has",
        ),
        (("--target-ratio", "1000"), "no smaller dimension that was tried would fit"),
        (("--target-size", "7KB", "--max-loss", "0"), "with a loss of at most 0.0 BLEU; the smallest loss reached"),
    ],
)
def test_what_cannot_be_reached(run: Compress, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    code, output, errors = run("--out", tmp_path / "small", "--no-finetune", *options)
    assert code == 1
    assert output == ""
    assert message in errors.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target-size", "small"), "expected a size such as 570KB"),
        (("--target-ratio", "1"), "expected more than 1"),
        (("--structured", "1"), "expected a fraction between 0 and 1"),
        (("--no-finetune", "--finetune-steps", "5"), "expected one of them"),
        (("--no-finetune", "--own-outputs"), "expected one of them"),
        (("--no-finetune", "--effort", "quick"), "--no-finetune and --effort: expected one of them"),
        (
            ("--finetune-steps", "5", "--cycles", "6"),
            "--cycles: expected at most the number of finetuning steps, 5, found 6",
        ),
        (("--effort", "quick", "--finetune-steps", "5"), "--effort and --finetune-steps: expected one of them"),
        (("--max-loss", "-1"), "should be greater than or equal to 0"),
    ],
)
def test_wrong_usage(run: Compress, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = run("--out", tmp_path / "small", *options)
    assert done.code == 2
    assert message in done.message
    assert list(tmp_path.iterdir()) == []


def test_a_target_out_of_reach_says_what_would_reach_it(run: Compress, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "small", "--no-finetune", "--target-size", "4KB")
    assert done.code == 1
    found = re.search(
        r"model: cannot be compressed to 4,000 bytes; the smallest file, with every matrix as coarse as it can be, has "
        r"(?P<size>[\d,]+) bytes, (?P<more>[\d,]+) too many, 1\.\d\d times the target: matrices",
        done.message,
    )
    assert found is not None, done.message
    size, more = (int(found[key].replace(",", "")) for key in ("size", "more"))
    assert size - more == 4000
    assert "at 3 bits for each weight, a comfortable rate" in done.message
    assert re.search(r"embed_dim 64 -> \d+.* parameters, about (3,\d{3}|4,000) bytes", done.message)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept(run: Compress, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    code, _, errors = run("--out", tmp_path)
    assert code == 1
    assert "output exists already" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_midway_leaves_nothing(run: Compress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if "kmeans" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, errors = run("--out", tmp_path / "small", "--no-finetune")
    assert code == 1
    assert "No space left on device" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89LNLP", "truncated: expected at least 24 bytes, found 5"),
        (b"PK", "not a container: expected the first bytes"),
        (None, "expected a model directory, a .lnlp file"),
    ],
)
def test_a_damaged_or_missing_model_is_named(
    lite_nlp: LiteNlp, tmp_path: Path, content: bytes | None, message: str
) -> None:
    damaged = tmp_path / "damaged.lnlp"
    if content is not None:
        damaged.write_bytes(content)
    code, _, errors = lite_nlp("compress", damaged, "--out", tmp_path / "small")
    assert code == 1
    assert "damaged.lnlp" in errors
    assert message in errors
    assert not (tmp_path / "small").exists()


def test_data_of_another_vocabulary_is_refused(run: Compress, home: Path, tmp_path: Path) -> None:
    texts = (home / "en.txt", home / "de.txt")
    prepare_data(tmp_path / "other", train=texts, valid=texts, src_lang="en", tgt_lang="de", vocab_size=280)
    code, _, errors = run("--out", tmp_path / "small", "--data", tmp_path / "other")
    assert code == 1
    assert "expected data tokenized with the model's own tokenizer" in errors.replace("\n", " ")
