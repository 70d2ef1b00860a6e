"""What an interrupted compression goes on with: only its own work, and no directory of anybody else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite_nlp import compress_model, prepare_data
from lite_nlp.api import compress
from lite_nlp.artifacts.models import load_model
from lite_nlp.budget.gate.enforcement import BudgetGate
from tests.integration.conftest import write_model

LINES = ["a man runs", "two dogs play in the snow", "she reads a book", "the boy is on a bike"]


class WorkBeginsError(Exception):
    """Raised where the work of a compression would begin."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a data directory and a model of random weights."""
    _prepare(tmp_path, LINES)
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
            compress_model(load_model(home / "model"), data=home / "data", out=home / "out", **options)
        return keys[-1]

    monkeypatch.setattr(compress, "resumable_work", stop)
    return key_of


def _prepare(home: Path, lines: list[str]) -> None:
    (home / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    texts = (home / "text.txt", home / "text.txt")
    prepare_data(home / "data", train=texts, valid=texts, vocab_size=300, force=True)


def test_work_counted_at_other_lengths_is_other_work(key_of: Callable[..., str]) -> None:
    usual = key_of(structured=0.1)
    assert key_of(structured=0.1, gate=BudgetGate(src_len=30, tgt_len=30)) == usual
    assert key_of(structured=0.1, gate=BudgetGate(src_len=5, tgt_len=30)) != usual
    assert key_of(structured=0.1, gate=BudgetGate(src_len=30, tgt_len=5)) != usual
