"""Numbers that make no sense, in every option that takes one: wrong usage or a failure that is told, never a crash."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from lite_nlp.compress.pipeline import CompressionOptions
from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import UsageError
from lite_nlp.data.vocabulary import VocabularyOptions
from tests.integration.conftest import LiteNlp
from tests.integration.program import parameters

#: Words of a command line that fails by itself, so that no number here starts any work.
WORDS: Final[Mapping[str, str]] = {
    "budget": "missing",
    "bench": "missing",
    "classify": "missing --text Hi",
    "compress": "missing --out out",
    "convert t2r": "missing --out out",
    "data prepare": "--text missing.txt --out out",
    "distill": "missing multi30k-transformer --data missing --out out",
    "evaluate": "missing --data missing",
    "export": "missing --out out.zip",
    "generate": "missing --text Hi --top-k 2",
    "report": "missing",
    "train": "multi30k-transformer --data missing --out out",
    "translate": "missing --text Hi",
}

#: Options whose number is text to the library of the command line.
WRITTEN: Final = {
    *((words, "--max-macs") for words in ("budget", "train", "distill", "compress", "export", "report")),
    *((words, "--max-params") for words in ("budget", "train", "distill", "compress", "export", "report")),
    *((words, "--max-size") for words in ("budget", "compress", "export", "report")),
    *(("compress", "--target-size"), ("export", "--target-size"), ("bench", "--threads")),
}

NUMBERS: Final = ("nan", "-inf", "1e400", "-1", "0", "2000000000", "-" + "9" * 30, "9" * 5000, "", "1.5", "\udcff")

OPTIONS: Final = sorted({(words, row.opts[0]) for kind in (int, float) for words, row in parameters(kind)} | WRITTEN)


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=str)
def test_no_number_crashes_a_command(
    lite_nlp: LiteNlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Messages in a box take longer than the rest.
    monkeypatch.setattr("typer.core.HAS_RICH", False)
    for number in NUMBERS:
        code, out, err = lite_nlp(*command.split(), *WORDS[command].split(), f"{option}={number}")
        assert code in (1, 2), number
        assert out == ""
        assert err
        assert "Traceback" not in err
        assert len(err) < 7000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "option", "number"),
    [
        ("data prepare", "--vocab-size", "2000000000"),
        ("data prepare", "--vocab-size", str(MAX_VOCAB_SIZE + 1)),
        ("compress", "--target-ratio", "nan"),
        ("compress", "--target-ratio", "inf"),
        ("compress", "--max-loss", "nan"),
        ("compress", "--structured", "nan"),
        ("compress", "--structured", "1"),
        ("train", "--max-minutes", "nan"),
        ("train", "--max-minutes", "inf"),
        ("distill", "--max-minutes", "nan"),
        ("distill", "--temperature", "0"),
        ("distill", "--temperature", "nan"),
        ("distill", "--label-weight", "nan"),
        ("distill", "--label-weight", "1"),
        ("distill", "--reference-weight", "1"),
        ("distill", "--beam", "2000000000"),
        ("distill", "--n-best", "6"),
        ("generate", "--temperature", "nan"),
        ("generate", "--temperature", "0"),
        ("generate", "--top-k", "2000000000"),
        ("generate", "--max-tokens", "2000000000"),
        ("classify", "--batch", "2000000000"),
        ("translate", "--length-penalty", "nan"),
        ("translate", "--threads", "2000000000"),
        ("translate", "--beam", "2000000000"),
        ("bench", "--threads", "1,2000000000"),
        ("budget", "--max-macs", "1e400"),
    ],
)
def test_a_number_out_of_range_is_wrong_usage(lite_nlp: LiteNlp, command: str, option: str, number: str) -> None:
    done = lite_nlp(*command.split(), *WORDS[command].split(), option, number)
    assert done.code == 2
    assert option in done.message


def test_the_library_has_the_same_bounds() -> None:
    with pytest.raises(UsageError, match=f"--vocab-size: expected 259 to {MAX_VOCAB_SIZE:,}, found 2000000000"):
        VocabularyOptions(vocab_size=2_000_000_000)
    for name in ("target_ratio", "max_loss", "tolerance"):
        with pytest.raises(UsageError, match=f"{name}: expected"):
            CompressionOptions(**{name: float("nan")})
