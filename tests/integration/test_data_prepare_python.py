"""``lite_nlp.prepare_data``: the kinds of data, the shapes of the arguments, and what does not go together."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import lite_nlp
from lite_nlp.core.errors import DataError, OutputError, UsageError
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.text.directory import open_running_text
from lite_nlp.data.tokenizer import Tokenizer


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with aligned texts, a table and labelled sentences of 40 lines, and a valid text of 4."""
    for name, lines in (("train", 40), ("valid", 4)):
        for language in ("en", "de"):
            text = "".join(f"{language} {name} number {i}\n" for i in range(lines))
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    (tmp_path / "all.tsv").write_text("".join(f"one {i}\teins {i}\n" for i in range(40)), encoding="utf-8")
    labelled = "".join(f"{'odd' if i % 2 else 'even'}\tnumber {i}\n" for i in range(40))
    (tmp_path / "labelled.tsv.gz").write_bytes(gzip.compress(labelled.encode()))
    return tmp_path


def test_aligned_files_alone_or_several(files: Path) -> None:
    train, valid = ((files / f"{name}.en", str(files / f"{name}.de")) for name in ("train", "valid"))
    one = lite_nlp.prepare_data(files / "one", train=train, valid=valid, vocab_size=300)
    assert one.kind == "pairs"
    assert (one.src_lang, one.tgt_lang) == ("en", "de")
    assert {name: split.pairs for name, split in one.splits.items()} == {"train": 40, "valid": 4}
    two = lite_nlp.prepare_data(str(files / "two"), train=[train, valid], src_lang="xx", vocab_size=300)
    assert two.kind == "pairs"
    assert (two.src_lang, two.tgt_lang) == ("xx", "de")
    # A twentieth of 44 pairs for each of validation and test.
    assert {name: split.pairs for name, split in two.splits.items()} == {"train": 40, "valid": 2, "test": 2}
    assert open_sentence_pairs(files / "two").info == two


def test_tables_and_a_tokenizer_at_hand(files: Path) -> None:
    tokenizer = Tokenizer.train(["one two three", "eins zwei drei"], vocab_size=270)
    info = lite_nlp.prepare_data(
        files / "data", tsv=files / "all.tsv", tokenizer=tokenizer, valid_pairs=3, test_pairs=0, task="summarization"
    )
    assert info.kind == "pairs"
    assert (info.src_lang, info.tgt_lang, info.task) == ("src", "tgt", "summarization")
    assert {name: split.pairs for name, split in info.splits.items()} == {"train": 37, "valid": 3}
    (files / "given.json").write_bytes(tokenizer.to_json())
    again = lite_nlp.prepare_data(files / "again", tsv=[files / "all.tsv"], tokenizer=files / "given.json")
    assert again.tokenizer == info.tokenizer


def test_columns_as_numbers_and_remarks(files: Path) -> None:
    said: list[str] = []
    info = lite_nlp.prepare_data(
        files / "data", tsv=str(files / "all.tsv"), columns=(2, 1), src_lang="deu", tgt_lang="en", say=said.append
    )
    assert info.kind == "pairs"
    # Codes of three letters become those of two; forty short lines have too few letters for a doubt.
    assert (info.src_lang, info.tgt_lang) == ("de", "en")
    assert said[-2].startswith("vocabulary: 500 tokens for ")
    assert said[-1] == f"vocabulary: the text gives {info.tokenizer.vocab_size} tokens of the 500 wanted"
    assert open_sentence_pairs(files / "data").split("train").texts()[0][0].startswith("eins")


def test_the_sample(files: Path) -> None:
    written = lite_nlp.write_sample(files / "new" / "sample.tsv")
    assert (written.path, written.pairs) == (files / "new" / "sample.tsv", 400)
    assert len(written.path.read_text(encoding="utf-8").splitlines()) == 400
    with pytest.raises(OutputError, match="output exists already"):
        lite_nlp.write_sample(str(written.path))


def test_running_text(files: Path) -> None:
    texts = [files / "train.en", files / "train.de"]
    info = lite_nlp.prepare_data(files / "data", text=texts, test_text=str(files / "valid.en"), vocab_size=280)
    assert info.kind == "text"
    assert {name: split.lines for name, split in info.splits.items()} == {"train": 80, "test": 4}
    assert open_running_text(files / "data").tokenizer.lowercase is False


def test_labelled_examples(files: Path) -> None:
    info = lite_nlp.prepare_data(
        files / "data", labelled=files / "labelled.tsv.gz", valid_pairs=np.int64(4), lowercase=True, vocab_size=280
    )
    assert info.kind == "labelled"
    assert (info.labels, info.sentences, info.tokenizer.lowercase) == (["even", "odd"], 1, True)
    assert {name: split.examples for name, split in info.splits.items()} == {"train": 34, "valid": 4, "test": 2}


def test_a_published_corpus_from_a_copy(files: Path) -> None:
    for language in ("en", "de"):
        (files / f"test.{language}").write_bytes((files / f"valid.{language}").read_bytes())
    info = lite_nlp.prepare_data(
        files / "data", corpus="tatoeba", from_dir=files, tgt_lang="en", normalization="nfkc", vocab_size=300
    )
    assert info.kind == "pairs"
    assert (info.src_lang, info.tgt_lang, info.tokenizer.normalization) == ("de", "en", "nfkc")
    assert {name: split.pairs for name, split in info.splits.items()} == {"train": 40, "valid": 4, "test": 4}


def test_existing_output_needs_force(files: Path) -> None:
    (files / "data").mkdir()
    (files / "data" / "mine").touch()
    # Before anything is read.
    with pytest.raises(OutputError, match="output exists already"):
        lite_nlp.prepare_data(files / "data", tsv=files / "nowhere.tsv")
    with pytest.raises(OutputError, match="found other files, which --force would delete: mine"):
        lite_nlp.prepare_data(files / "data", tsv=files / "nowhere.tsv", force=True)
    (files / "data" / "mine").rename(files / "data" / "data.json")
    lite_nlp.prepare_data(files / "data", tsv=files / "all.tsv", vocab_size=280, force=True)
    assert (files / "data" / "data.json").stat().st_size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of --train, --tsv, --tmx, --jsonl, --text, --labelled and --corpus is required"),
        ({"tsv": "a", "text": "b"}, "exactly one of"),
        ({"train": ("a", "b", "c")}, "expected two, source and target, found 3"),
        ({"tsv": "a", "test_text": "b"}, "--test-text needs --text"),
        ({"tmx": "a", "columns": (1, 2)}, "--columns needs --tsv or --jsonl"),
        ({"text": "a", "valid_file": "b"}, "--valid-file needs --tsv or --tmx or --jsonl"),
        ({"tsv": "a", "columns": (1, 2, 3)}, "--columns: expected two different columns, such as 1,2 or src,tgt"),
        ({"tsv": "a", "columns": ("en", "de")}, "--columns: expected two different numbers from 1"),
        ({"tsv": "a", "valid_labelled": ["b"]}, "--valid-labelled needs --labelled"),
        ({"text": "a", "from_dir": "b"}, "--from needs --corpus"),
        ({"text": "a", "valid": ("b", "c")}, "--valid does not go with --text, which holds no pairs"),
        ({"text": "a", "valid_pairs": 0}, "--valid-pairs does not go with --text"),
        ({"labelled": "a", "tgt_lang": "de"}, "--tgt-lang does not go with --labelled"),
        ({"labelled": "a", "test_labelled": "b", "test_pairs": 3}, "--test-labelled and --test-pairs exclude each"),
        ({"tsv": "a", "valid": ("b", "c"), "valid_pairs": 3}, "--valid and --valid-pairs exclude each other"),
        ({"tsv": "a", "valid_pairs": -1}, "--valid-pairs: expected 0 or more, found -1"),
        ({"tsv": "a", "task": "parsing"}, "--task: expected one of translation, summarization, found 'parsing'"),
        ({"tsv": "a", "normalization": "nfd"}, "--normalization: expected one of none, nfc, nfkc, found 'nfd'"),
        ({"corpus": "multi31k"}, "--corpus: expected one of multi30k, tatoeba, iwslt14, .*, found 'multi31k'"),
        ({"corpus": "multi30k", "test_pairs": 3}, "--test and --test-pairs do not go with --corpus"),
        ({"corpus": "multi30k", "task": "translation"}, "--task does not go with --corpus, which has its own"),
        ({"corpus": "snli", "src_lang": "en"}, "--src-lang does not go with --corpus snli, which holds no pairs"),
    ],
)
def test_arguments_that_do_not_go_together(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.prepare_data(tmp_path / "data", **arguments)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_no_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tsv: expected a readable text file, found none"):
        lite_nlp.prepare_data(tmp_path / "data", tsv=tmp_path / "none.tsv")
    assert list(tmp_path.iterdir()) == []
