import gzip
import json
import sys
from pathlib import Path

import pytest

from lite_nlp import prepare_data
from tests.integration.conftest import LiteNlp, write_model

SOURCES = [
    "A boy runs over the bridge.",
    "Is it raining?",
    "The old man with the grey hat is waiting for the bus.",
    "Two women drink coffee in the garden.",
    "The shop is closed today.",
]
REFERENCES = [
    "Ein Junge läuft über die Brücke.",
    "Regnet es?",
    "Der alte Mann mit dem grauen Hut wartet auf den Bus.",
    "Zwei Frauen trinken im Garten Kaffee.",
    "Der Laden ist heute geschlossen.",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model of random weights, text files and a data directory."""
    path = tmp_path_factory.mktemp("evaluate")
    (path / "en.txt").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (path / "de.txt").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    texts = (path / "en.txt", path / "de.txt")
    prepare_data(path / "data", train=texts, test=texts, src_lang="en", tgt_lang="de", vocab_size=300)
    write_model(path / "tiny", SOURCES + REFERENCES, family="transformer")
    return path


def test_a_models_own_translations_score_one_hundred(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    assert lite_nlp("translate", files / "tiny", "--input", files / "en.txt", "--output", kept)[0] == 0
    again = tmp_path / "again.txt"
    content = lite_nlp.json(
        "evaluate", files / "tiny", "--input", files / "en.txt", "--reference", kept, "--batch", "2", "--output", again
    )
    assert content["scores"]["chrf"] == pytest.approx(100)
    assert again.read_bytes() == kept.read_bytes()


def test_json_of_a_split(lite_nlp: LiteNlp, files: Path) -> None:
    content = lite_nlp.json("evaluate", files / "tiny", "--data", files / "data", "--split", "test", "--beam", "2")
    assert {key: content[key] for key in ("model", "runtime", "beam", "split", "sentences")} == {
        "model": "tiny",
        "runtime": "torch",
        "beam": 2,
        "split": "test",
        "sentences": len(SOURCES),
    }
    assert content["seconds"] > 0
    # The test set is the training text.
    assert content["warnings"][-1].startswith("test: 5 of 5 stand in train, and 0 more but for case")
    assert 0 <= content["scores"]["chrf_low"] <= content["scores"]["chrf_high"] <= 100
    assert "|version:" in content["scores"]["bleu_signature"]


def test_a_model_of_no_use_is_called_so(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    for name in ("en.txt", "de.txt"):
        lines = (files / name).read_text(encoding="utf-8").splitlines()
        many = [f"{line[:-1]}, {number}." for number in range(5) for line in lines]
        (tmp_path / name).write_text("\n".join(many) + "\n", encoding="utf-8")
    words = ("evaluate", files / "tiny", "--input", tmp_path / "en.txt", "--reference", tmp_path / "de.txt")
    done = lite_nlp(*words, "--json", "--max-length", "12")
    assert done.code == 0, done.err
    # Random weights repeat themselves, or say nothing that any reference says.
    (warning,) = json.loads(done.out)["warnings"]
    assert "repeat themselves" in warning or "have the same output" in warning or warning.startswith("BLEU is 0.0")
    # The output that it quotes may be blanks, of which a message's words say nothing.
    assert f"warning: {' '.join(warning.split())}" in done.message


def test_split_and_text_files_agree(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    # A tokenizer of its own does not matter: the model reads the split's text, not its token ids.
    packed = tmp_path / "de.gz"
    packed.write_bytes(gzip.compress((files / "de.txt").read_bytes()))
    from_split = lite_nlp.json("evaluate", files / "tiny", "--data", files / "data")
    from_files = lite_nlp.json("evaluate", files / "tiny", "--input", files / "en.txt", "--reference", packed)
    assert from_split["split"] == "test"
    assert from_files["split"] is None
    assert from_split["scores"] == from_files["scores"]


def test_table(lite_nlp: LiteNlp, files: Path) -> None:
    code, out, _ = lite_nlp("evaluate", files / "tiny", "--data", files / "data", "--lowercase")
    assert code == 0
    assert "BLEU" in out
    assert "chrF" in out
    assert "case:lc" in out
    assert "5 sentences in" in out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--data", "data", "--input", "en.txt"],
        ["--input", "en.txt"],
        ["--split", "test"],
        ["--input", "en.txt", "--reference", "de.txt", "--split", "test"],
    ],
)
def test_wrong_usage(lite_nlp: LiteNlp, files: Path, words: list[str]) -> None:
    code, out, err = lite_nlp("evaluate", files / "tiny", *words)
    assert (code, out) == (2, "")
    assert "expected either --data (and --split) or both --input and --reference" in err


def test_texts_of_different_length(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("Eins\nZwei\n")
    code, _, err = lite_nlp("evaluate", files / "tiny", "--input", files / "en.txt", "--reference", short)
    assert code == 1
    assert "short.txt: expected one line for each of the 5 lines of" in err
    assert "found 2" in err


def test_empty_texts(lite_nlp: LiteNlp, files: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    code, _, err = lite_nlp("evaluate", files / "tiny", "--input", empty, "--reference", empty)
    assert code == 1
    assert "empty.txt: expected at least one line, found none" in err


def test_missing_split(lite_nlp: LiteNlp, files: Path) -> None:
    code, _, err = lite_nlp("evaluate", files / "tiny", "--data", files / "data", "--split", "valid")
    assert code == 1
    assert "split: expected one of train, test, found 'valid'" in err


def test_without_sacrebleu(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lite_nlp.tasks.translation.bleu", raising=False)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    code, _, err = lite_nlp("evaluate", files / "tiny", "--data", files / "data")
    assert code == 1
    assert "evaluate: needs the extra lite-nlp[train], install it with pip install 'lite-nlp[train]'" in err
