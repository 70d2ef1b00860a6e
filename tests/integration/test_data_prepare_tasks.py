"""``data prepare`` for tasks other than translation."""

import json
from pathlib import Path

import pytest

from lite_nlp.data.labelled.directory import open_labelled
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.text.directory import open_running_text

ARTICLE = "The council met again on Monday to talk about the bridge. " * 60
SMALL = ("--vocab-size", "300", "--out", "data")


@pytest.fixture
def run(lite_nlp, monkeypatch, tmp_path):
    """The command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lite_nlp


def write_articles(stem, n):
    """Articles far longer than their summaries, and longer than a sentence may be."""
    Path(f"{stem}.article").write_text("".join(f"{stem} {i}: {ARTICLE}\n" for i in range(n)))
    Path(f"{stem}.highlights").write_text("".join(f"{stem} {i}.\n" for i in range(n)))
    return f"{stem}.article", f"{stem}.highlights"


@pytest.mark.parametrize("tsv", [False, True])
def test_pairs_to_summarize_may_be_long_on_one_side(run, tsv):
    src, tgt = write_articles("train", 50)
    given = ("--train", src, tgt)
    if tsv:
        rows = zip(Path(src).read_text().splitlines(), Path(tgt).read_text().splitlines(), strict=True)
        Path("all.tsv").write_text("".join(f"{article}\t{summary}\n" for article, summary in rows))
        given = ("--tsv", "all.tsv")
    code, out, _ = run("data", "prepare", *given, "--task", "summarization", *SMALL, "--json")
    facts = json.loads(out)
    assert (code, facts["task"], facts["kind"]) == (0, "summarization", "pairs")
    assert {name: (split["pairs"], split["skipped"]) for name, split in facts["splits"].items()} == {
        "train": (46, {}),
        "valid": (2, {}),
        "test": (2, {}),
    }
    assert open_sentence_pairs("data").info.task == "summarization"
    assert run("data", "prepare", *given, *SMALL, "--force")[0] == 1


def test_pairs_are_for_translation_where_nothing_is_said(run):
    src, tgt = write_articles("train", 3)
    Path(src).write_text(Path(tgt).read_text())
    none_held_out = ("--valid-pairs", "0", "--test-pairs", "0")
    assert run("data", "prepare", "--train", src, tgt, *none_held_out, *SMALL)[0] == 0
    assert open_sentence_pairs("data").info.task == "translation"
    # Directories from before there was a choice do not say it.
    facts = json.loads(Path("data/data.json").read_text())
    del facts["task"]
    Path("data/data.json").write_text(json.dumps(facts))
    assert open_sentence_pairs("data").info.task == "translation"


def test_a_copy_of_cnn_dailymail(run):
    for split in ("train", "valid", "test"):
        write_articles(split, 4)
    code, out, _ = run("data", "prepare", "--corpus", "cnn-dailymail", "--from", ".", *SMALL, "--json")
    facts = json.loads(out)
    assert (code, facts["task"]) == (0, "summarization")
    assert facts["languages"] == {"src": "article", "tgt": "highlights"}
    assert facts["splits"]["test"]["pairs"] == 4


def test_a_copy_of_labelled_examples(run):
    for split in ("train", "valid", "test"):
        Path(f"{split}.tsv").write_text(f"yes\t{split} one\ttwo\nno\t{split} three\tfour\nno\tfive\tsix\n")
    code, out, _ = run("data", "prepare", "--corpus", "snli", "--from", ".", *SMALL)
    assert code == 0
    assert all(word in out for word in ("2 labels", "examples", "yes", "no"))
    info = open_labelled("data").info
    assert info.splits["valid"].by_label == {"no": 2, "yes": 1}
    code, out, _ = run("data", "prepare", "--corpus", "snli", "--from", ".", *SMALL, "--force", "--json")
    assert (code, json.loads(out)["kind"]) == (0, "labelled")


def test_a_copy_of_running_text(run):
    Path("train.txt").write_text("".join(f"Line {i} of the play.\n" for i in range(100)))
    code, out, _ = run("data", "prepare", "--corpus", "tinyshakespeare", "--from", ".", *SMALL, "--json")
    assert (code, json.loads(out)["kind"]) == (0, "text")
    assert {name: split.lines for name, split in open_running_text("data").info.splits.items()} == {
        "train": 90,
        "valid": 5,
        "test": 5,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--corpus", "snli", "--src-lang", "en"], "--src-lang does not go with --corpus snli, which holds no pairs."),
        (["--corpus", "wikitext-103", "--task", "summarization"], "--task does not go with --corpus wikitext-103"),
        (["--corpus", "multi30k", "--task", "summarization"], "--task does not go with --corpus, which has its own."),
        (["--text", "a.txt", "--task", "translation"], "--task does not go with --text"),
        (["--corpus", "nothing"], "--corpus: expected one of multi30k"),
    ],
)
def test_wrong_usage(run, words, message):
    code, out, err = run("data", "prepare", *words, *SMALL)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())
