"""What an interrupted compression goes on with: only its own work, and no directory of anybody else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite_nlp import compress_model, prepare_data
from lite_nlp.artifacts.models import load_model
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.compress import work
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import LiteNlpError, ModelError, OverBudgetError, UsageError
from lite_nlp.core.progress import SilentProgress
from tests.integration.conftest import write_model

LINES = ["a man runs", "two dogs play in the snow", "she reads a book", "the boy is on a bike"]


class WorkBeginsError(Exception):
    """Raised where the work of a compression would begin."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a data directory and a model of random weights."""
    _prepare(tmp_path, LINES, vocab_size=300)
    tokenizer = (tmp_path / "data" / "tokenizer.json").read_bytes()
    write_model(tmp_path / "model", LINES, tokenizer=tokenizer, family="transformer", num_heads=2)
    return tmp_path


@pytest.fixture
def key_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The key of the work of a compression, which goes no further."""
    keys: list[str] = []

    def stop(out: Path, key: str, progress: Any) -> None:
        keys.append(key)
        raise WorkBeginsError

    def key_of(**options: Any) -> str:
        with pytest.raises(WorkBeginsError):
            compress_model(load_model(home / "model"), out=home / "out", **{"data": home / "data", **options})
        return keys[-1]

    monkeypatch.setattr(work, "resumable_work", stop)
    return key_of


def _prepare(home: Path, lines: list[str], **options: Any) -> None:
    for name, content in (("train.txt", lines), ("valid.txt", ["birds sing"])):
        (home / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    train, valid = home / "train.txt", home / "valid.txt"
    prepare_data(home / "data", train=(train, train), valid=(valid, valid), force=True, **options)


def test_work_counted_at_other_lengths_is_other_work(key_of: Callable[..., str]) -> None:
    usual = key_of(structured=0.1)
    assert key_of(structured=0.1, gate=BudgetGate(src_len=30, tgt_len=30)) == usual
    assert key_of(structured=0.1, gate=BudgetGate(src_len=5, tgt_len=30)) != usual
    assert key_of(structured=0.1, gate=BudgetGate(src_len=30, tgt_len=5)) != usual


def test_the_same_data_may_be_named_otherwise(key_of: Callable[..., str], home: Path) -> None:
    (home / "other").symlink_to(home / "data")
    assert key_of(data=home / "other") == key_of()


def test_work_on_other_text_of_the_same_counts_is_other_work(key_of: Callable[..., str], home: Path) -> None:
    usual = key_of()
    facts = (home / "data" / "data.json").read_bytes()
    _prepare(home, LINES[::-1], tokenizer=home / "model")
    assert (home / "data" / "data.json").read_bytes() == facts
    assert key_of() != usual


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.toml", b"\n[decoding]\nmin_length = 3\n"),
        ("metrics.json", b'{"languages": {"src": "en", "tgt": "de"}}'),
    ],
)
def test_work_on_a_model_of_other_records_is_other_work(
    key_of: Callable[..., str], home: Path, file: str, content: bytes
) -> None:
    usual = key_of()
    path = home / "model" / file
    path.write_bytes(content if file.endswith(".json") else path.read_bytes() + content)
    assert key_of() != usual


@pytest.mark.parametrize("error", [UsageError("--reference: another task"), OverBudgetError("--max-size: too large")])
def test_an_option_that_is_refused_costs_no_work(tmp_path: Path, error: LiteNlpError) -> None:
    out = tmp_path / "new" / "out"
    with pytest.raises(type(error)), work.resumable_work(out, "key", SilentProgress()) as kept:
        assert kept is not None
        kept.keep("figures", lambda: 1)
        raise error
    assert (tmp_path / "new" / "out.partial" / "figures.pt").is_file()


def test_a_failed_compression_leaves_no_directory(tmp_path: Path) -> None:
    out = tmp_path / "new" / "sub" / "out"
    with pytest.raises(ModelError), work.resumable_work(out, "key", SilentProgress()):
        raise ModelError("out of reach")
    assert list(tmp_path.iterdir()) == []


def test_a_compression_interrupted_after_structured_pruning_ends_as_a_whole_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compressed(name: str) -> bytes:
        compress_model(home / "model", data=home / "data", out=home / name, structured=0.1, finetune_steps=1, threads=1)
        return (home / name / "model.lnlp").read_bytes()

    whole = compressed("whole")
    keep = Work.keep

    def keep_one(work: Work, name: str, make: Callable[[], Any]) -> Any:
        keep(work, name, make)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Work, "keep", keep_one)
        with pytest.raises(KeyboardInterrupt):
            compressed("resumed")
    assert (home / "resumed.partial" / "structured.pt").is_file()
    assert compressed("resumed") == whole
    assert not (home / "resumed.partial").exists()


def test_a_loaded_model_is_compressed_as_its_file_is(home: Path) -> None:
    """Whether it is in training, and whether its parameters are frozen, is the caller's, and stays so."""
    options: dict[str, Any] = {"data": home / "data", "finetune_steps": 2, "threads": 1}
    compress_model(home / "model", out=home / "of-file", **options)
    loaded = load_model(home / "model")
    loaded.model.train().requires_grad_(False)
    compress_model(loaded, out=home / "of-loaded", **options)
    files = [(home / name / "model.lnlp").read_bytes() for name in ("of-file", "of-loaded")]
    assert files[0] == files[1]
    assert loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


def test_a_reference_of_other_languages_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="--reference tatoeba-de-en: expected a model of the languages of the scored"):
        compress_model(home / "model", data=home / "data", reference="tatoeba-de-en", out=home / "small", threads=1)
