"""``lite-nlp data prepare`` on corpora as people have them, and with the mistakes that they make; ``data sample``."""

import gzip
import json
import re
from pathlib import Path

import pyarrow
import pytest

from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.pairs.everyday import read_everyday_pairs

PAIRS = read_everyday_pairs()[:60]
SMALL = ("--vocab-size", "280", "--valid-pairs", "2", "--test-pairs", "2", "--out", "data")


@pytest.fixture
def run(lite_nlp, monkeypatch, tmp_path):
    """The command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lite_nlp


def write(name, lines, encoding="utf-8"):
    content = "".join(f"{line}\n" for line in lines).encode(encoding)
    if name.endswith(".gz"):
        content = gzip.compress(content)
    if name.endswith(".zst"):
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        content = sink.getvalue().to_pybytes()
    Path(name).write_bytes(content)
    return name


def tmx_lines():
    yield '<tmx version="1.4"><header srclang="en-US"/><body>'
    for src, tgt in PAIRS:
        yield f'<tu><tuv xml:lang="de-AT"><seg>{tgt}</seg></tuv><tuv xml:lang="en-US"><seg>{src}</seg></tuv></tu>'
    yield "</body></tmx>"


#: Name of a file, its lines, the options to read it, and the languages that are found.
FORMATS = {
    "deu-eng.tsv.zst": ([f"{src}\t{tgt}" for src, tgt in PAIRS], ["--tsv"], "en -> de"),
    "deu.txt": ([f"{src}\t{tgt}\tCC-BY #{len(tgt)}" for src, tgt in PAIRS], ["--columns", "1,2", "--tsv"], "en -> de"),
    "reversed.de-en.tsv": ([f"{src}\t{tgt}" for src, tgt in PAIRS], ["--columns", "2,1", "--tsv"], "de -> en"),
    "a.tmx": (list(tmx_lines()), ["--tmx"], "en -> de"),
    "b.tmx.gz": (list(tmx_lines()), ["--src-lang", "deu", "--tmx"], "de -> en"),
    "a.jsonl": ([json.dumps({"src": src, "tgt": tgt}) for src, tgt in PAIRS], ["--jsonl"], "src -> tgt"),
    "b.jsonl": ([json.dumps({"en": src, "de": tgt}) for src, tgt in PAIRS], ["--jsonl"], "en -> de"),
    "c.jsonl.zst": (
        [json.dumps({"id": str(len(src)), "translation": {"de": tgt, "en": src}}) for src, tgt in PAIRS],
        ["--src-lang", "en", "--jsonl"],
        "en -> de",
    ),
    "d.en-de.jsonl": (
        [json.dumps({"question": src, "answer": tgt}) for src, tgt in PAIRS],
        ["--columns", "question,answer", "--jsonl"],
        "en -> de",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_pairs(run, name):
    lines, options, languages = FORMATS[name]
    done = run("data", "prepare", *options, write(name, lines), *SMALL)
    assert done.code == 0, done.err
    assert f"data: {languages}, 280 tokens" in done.out
    assert "skipped" not in done.err
    data = open_sentence_pairs("data")
    assert {split: counts.pairs for split, counts in data.info.splits.items()} == {"train": 56, "valid": 2, "test": 2}
    pairs = {pair for split in data.info.splits for pair in zip(*data.split(split).texts(), strict=True)}
    assert pairs == {pair if languages != "de -> en" else pair[::-1] for pair in PAIRS}


def test_aligned_files_may_be_zstd(run):
    sides = zip(*PAIRS, strict=True)
    files = [write(f"train.{language}.zst", side) for language, side in zip(("en", "de"), sides, strict=True)]
    assert "data: en -> de" in run("data", "prepare", "--train", *files, *SMALL).out


def test_held_out_pairs_may_be_in_files_of_the_same_format(run):
    train = write("train.jsonl", [json.dumps({"en": src, "de": tgt}) for src, tgt in PAIRS[:50]])
    # The keys of the first file decide, not the order of those of the others.
    valid = write("valid.jsonl", [json.dumps({"de": tgt, "en": src}) for src, tgt in PAIRS[50:]])
    words = ("data", "prepare", "--jsonl", train, "--valid-file", valid, "--vocab-size", "280", "--out", "data")
    assert run(*words).code == 0
    data = open_sentence_pairs("data")
    assert list(data.info.splits) == ["train", "valid"]
    assert data.split("valid").texts()[0] == [src for src, _ in PAIRS[50:]]


def test_three_columns_are_named_with_what_to_do(run):
    lines = [f"{src}\t{tgt}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{len(src)}" for src, tgt in PAIRS]
    done = run("data", "prepare", "--tsv", write("deu.txt", lines), "--out", "data")
    assert (done.code, done.out) == (1, "")
    assert "error: train: expected sentence pairs, found none (lines skipped: 60 extra_tab)" in done.err.splitlines()
    assert "\ndeu.txt: 60 of 60 lines skipped, extra_tab: the lines have 3 columns: give --columns 1,2\n" in done.err
    assert f"\n  deu.txt:1: {PAIRS[0][0]}\\t{PAIRS[0][1][:20]}" in done.err
    assert not Path("data").exists()
    # Of two files, one is as it should be: the same is a warning.
    good = write("good.tsv", [f"{src}\t{tgt}" for src, tgt in PAIRS])
    done = run("data", "prepare", "--tsv", good, "--tsv", "deu.txt", "--json", *SMALL)
    assert done.code == 0
    assert "  deu.txt: 60 of 60 lines skipped, extra_tab: the lines have 3 columns: give --columns 1,2\n" in done.err
    skipped = json.loads(done.out)["splits"]["train"]["skipped"]["extra_tab"]
    assert skipped["advice"].endswith("give --columns 1,2")
    assert [(line["file"], line["line"]) for line in skipped["examples"]] == [("deu.txt", n) for n in (1, 2, 3)]
    assert open_sentence_pairs("data").info.splits["train"].skipped["extra_tab"].count == 60


def test_too_few_pairs_left_say_why(run):
    lines = [f"{src}\t{tgt}\tx" for src, tgt in PAIRS] + ["one\teins", "two\tzwei"]
    done = run("data", "prepare", "--tsv", write("a.tsv", lines), "--out", "data")
    assert done.code == 1
    assert "to hold out 1 to validate and 1 for test, found 2\na.tsv: 60 of 62 lines skipped, extra_tab" in done.err


@pytest.mark.parametrize(
    ("name", "lines", "options", "message"),
    [
        ("a.csv", [f'"{src}","{tgt}"' for src, tgt in PAIRS], ["--tsv"], "the lines have commas and no tabs"),
        ("a.tsv", tmx_lines(), ["--tsv"], "give a TMX file as --tmx FILE"),
        ("a.tsv", ["x"], ["--tmx"], "a.tsv: expected a TMX file, found no XML"),
        ("a.tsv", ["Go.\tLos."], ["--jsonl"], r"a.tsv: expected a JSON object on each line, found Go.\tLos."),
        ("a.jsonl", ['{"q": "x", "a": "y"}'], ["--jsonl"], "found q, a: name them with --columns SRC_KEY,TGT_KEY"),
        ("a.jsonl", ['{"en": "x", "de": "y"}'], ["--columns", "en,fr", "--jsonl"], "other keys with text are de; name"),
        ("a.tmx", tmx_lines(), ["--src-lang", "fr", "--tmx"], "a.tmx: expected units in fr (--src-lang), found de-AT"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_what_to_do(run, name, lines, options, message):
    done = run("data", "prepare", *options, write(name, lines), "--out", "data")
    assert (done.code, done.out) == (1, ""), done.err
    assert message in done.message
    assert not Path("data").exists()


def test_a_file_of_another_encoding_or_cut_off_leaves_nothing(run):
    write("utf16.tsv", [f"{src}\t{tgt}" for src, tgt in PAIRS], "utf-16")
    whole = Path(write("cut.en-de.tsv.zst", [f"{src}\t{tgt}" for src, tgt in PAIRS])).read_bytes()
    Path("cut.en-de.tsv.zst").write_bytes(whole[: len(whole) // 2])
    for name, message in (
        ("utf16.tsv", "utf16.tsv: expected UTF-8 text, found UTF-16: convert it"),
        ("cut.en-de.tsv.zst", "cut.en-de.tsv.zst: expected a whole zstd file, found it damaged after line"),
    ):
        done = run("data", "prepare", "--tsv", name, "--out", "data")
        assert done.code == 1
        assert message in done.message
        assert not Path("data").exists()


def test_doubts_about_languages_are_warnings(run):
    en, de = (write(f"train.{code}", side) for code, side in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True))
    done = run("data", "prepare", "--train", de, en, "--src-lang", "en", "--tgt-lang", "de", *SMALL)
    assert done.code == 0
    assert "warning: languages: the source looks like de and the target like en: swap" in done.err
    done = run("data", "prepare", "--train", en, de, "--src-lang", "fr", "--force", *SMALL)
    assert "warning: languages: expected text in fr, found it to look like en: check --src-lang" in done.err
    table = write("pairs.tsv", [f"{src}\t{tgt}" for src, tgt in PAIRS])
    done = run("data", "prepare", "--tsv", table, "--force", *SMALL)
    assert "not named by pairs.tsv: give them, --src-lang en --tgt-lang de by the look of the text" in done.err
    done = run("data", "prepare", "--train", table, table, "--force", *SMALL)
    assert "all lines have tabs: give a file that holds both sides as --tsv FILE" in done.err
    swapped = write("pairs.jsonl", [json.dumps({"en": tgt, "de": src}) for src, tgt in PAIRS])
    done = run("data", "prepare", "--jsonl", swapped, "--columns", "en,de", "--force", *SMALL)
    assert "swap the keys (--columns de,en), or --src-lang and --tgt-lang" in done.err


def test_the_sample_is_a_corpus(run):
    done = run("data", "sample", "--out", "sample.en-de.tsv")
    assert (done.code, done.out) == (0, "sample.en-de.tsv: 400 sentence pairs, en -> de\n")
    command = re.fullmatch(r"next: lite-nlp (.*)\n", done.err)[1]
    done = run(*command.split())
    assert done.code == 0
    assert "vocabulary: 500 tokens for 32,542 characters of text" in done.err
    info = open_sentence_pairs("data/sample").info
    assert (info.src_lang, info.tgt_lang, info.splits["train"].pairs) == ("en", "de", 360)
    again = run("data", "sample", "--out", "sample.en-de.tsv")
    assert again.code == 1
    assert "sample.en-de.tsv: output exists already" in again.err
    assert run.json("data", "sample", "--out", "sample.en-de.tsv", "--force") == {
        "schema_version": 1, "path": "sample.en-de.tsv", "pairs": 400, "languages": {"src": "en", "tgt": "de"},
    }  # fmt: skip


def test_the_help_groups_every_option(run):
    text = run("data", "prepare", "--help").out
    titles = re.findall(r"^╭─ (.*?) ─+╮$", text, re.MULTILINE)
    assert titles == [
        "Options", "Sentence pairs", "Running text, for language models", "Labelled examples, for classifiers",
        "Published corpus", "Held-out data, where none is given", "Tokenizer", "Output",
    ]  # fmt: skip
    ungrouped = text.partition("Sentence pairs ─")[0]
    assert re.findall(r"--[a-z-]+", ungrouped) == ["--help"]
