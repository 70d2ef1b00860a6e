import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lite_nlp.data.pairs.directory import open_sentence_pairs


@pytest.fixture
def run(lite_nlp, monkeypatch, tmp_path):
    """The command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lite_nlp


def write_pairs(stem, n, src="en", tgt="de"):
    Path(f"{stem}.{src}").write_text("".join(f"{stem} number {i}\n" for i in range(n)), encoding="utf-8")
    Path(f"{stem}.{tgt}").write_text("".join(f"{stem} Nummer {i} für alle\n" for i in range(n)), encoding="utf-8")
    return f"{stem}.{src}", f"{stem}.{tgt}"


def test_several_corpora_become_one_data_directory(run):
    first, second, valid, test = (write_pairs(stem, n) for stem, n in (("a", 40), ("b", 20), ("v", 5), ("t", 4)))
    Path("b.de.gz").write_bytes(gzip.compress(Path("b.de").read_bytes()))
    code, out, err = run(
        *("data", "prepare", "--train", *first, "--train", second[0], "b.de.gz", "--valid", *valid, "--test", *test),
        *("--vocab-size", "300", "--out", "data", "--json"),
    )
    assert code == 0
    assert "train" in err
    facts = json.loads(out)
    assert facts["schema_version"] == 1
    assert facts["languages"] == {"src": "en", "tgt": "de"}
    assert {name: split["pairs"] for name, split in facts["splits"].items()} == {"train": 60, "valid": 5, "test": 4}
    data = open_sentence_pairs("data")
    assert data.tokenizer.vocab_size == 300 == facts["tokenizer"]["vocab_size"]
    src, tgt = data.split("train").texts([0, 40])
    assert (src, tgt) == (["a number 0", "b number 0"], ["a Nummer 0 für alle", "b Nummer 0 für alle"])
    assert data.split("test").texts()[0] == [f"t number {i}" for i in range(4)]


def test_bad_lines_are_counted_reported_and_listed(run):
    good = "".join(f"line {i} of many\tZeile {i} von vielen\n" for i in range(50))
    bad = b"no tab\n\tempty\nempty\t\n\xff\xfe\tx\nshort\t" + b"long " * 20 + b"\n"
    Path("all.tsv").write_bytes(good.encode() + bad + b"last line here\tletzte Zeile hier\n")
    code, out, err = run("data", "prepare", "--tsv", "all.tsv", "--vocab-size", "300", "--out", "data")
    assert code == 0
    assert "warning: train: 1 skipped, missing_tab: too few columns\n  all.tsv:51: no tab\n" in err
    assert "warning: train: 2 skipped, empty_side" in err
    assert "\n  all.tsv:52: \\tempty\n  all.tsv:53: empty\\t\n" in err
    assert "\n  all.tsv:54: \\xff\\xfe\\tx\n" in err
    assert "\n  all.tsv:55: short\\tlong long" in err
    assert "skipped" in out
    listed = [json.loads(line) for line in Path("data/bad_lines.jsonl").read_text().splitlines()]
    assert [(entry["line"], entry["reason"]) for entry in listed] == [
        (51, "missing_tab"),
        (52, "empty_side"),
        (53, "empty_side"),
        (54, "invalid_utf8"),
        (55, "length_ratio"),
    ]
    data = open_sentence_pairs("data")
    assert data.info.splits["train"].skipped["empty_side"].first == ["all.tsv:52", "all.tsv:53"]
    # 51 good lines: two are held out for each of the other splits.
    assert {name: split.pairs for name, split in data.info.splits.items()} == {"train": 47, "valid": 2, "test": 2}


def test_only_the_first_line_numbers_are_kept_in_the_facts(run):
    Path("all.tsv").write_text("good line\tgute Zeile\n" * 3 + "bad\n" * 25)
    arguments = ("--vocab-size", "300", "--valid-pairs", "0", "--test-pairs", "0", "--out", "data")
    code, _, err = run("data", "prepare", "--tsv", "all.tsv", *arguments)
    assert code == 0
    assert "25 skipped, missing_tab: too few columns\n  all.tsv:4: bad\n  all.tsv:5: bad\n  all.tsv:6: bad\n" in err
    assert "  all.tsv: 25 of 28 lines skipped, missing_tab: the lines have no tabs" in err
    skipped = open_sentence_pairs("data").info.splits["train"].skipped["missing_tab"]
    assert (skipped.count, skipped.first) == (25, [f"all.tsv:{n}" for n in range(4, 14)])
    assert len(Path("data/bad_lines.jsonl").read_text().splitlines()) == 25


def test_local_copy_of_a_named_corpus_and_a_shared_tokenizer(run):
    Path("copy").mkdir()
    for stem in ("train", "val", "test2016"):
        for language in ("en", "de"):
            Path(f"copy/{stem}.{language}").write_text("".join(f"{language} {stem} {i}\n" for i in range(9)))
    named = ("data", "prepare", "--corpus", "multi30k", "--from", "copy")
    assert run(*named, "--vocab-size", "300", "--lowercase", "--normalization", "nfkc", "--out", "one")[0] == 0
    assert run(*named, "--src-lang", "de", "--tokenizer", "one/tokenizer.json", "--out", "two")[0] == 0
    one, two = open_sentence_pairs("one"), open_sentence_pairs("two")
    assert one.info.tokenizer == two.info.tokenizer
    assert (one.tokenizer.lowercase, one.tokenizer.normalization) == (True, "nfkc")
    assert (two.info.src_lang, two.info.tgt_lang) == ("de", "en")
    assert two.split("valid").texts() == one.split("valid").texts()[::-1]
    assert run(*named, "--tokenizer", "one/tokenizer.json", "--lowercase", "--out", "three")[0] == 0
    for option, message in (
        (["--lowercase"], "--lowercase: expected a tokenizer that lowercases, found one that keeps the case"),
        (["--normalization", "nfkc"], "--normalization: expected a tokenizer with nfkc, found one with none"),
    ):
        done = run(*named, "--tokenizer", "tatoeba-en-de", *option, "--out", "four")
        assert done.code == 2
        assert message in done.message
        assert not Path("four").exists()


def test_the_first_types_of_the_tokenizer_of_a_model(run):
    src, tgt = write_pairs("a", 40)
    words = ("data", "prepare", "--train", src, tgt, "--tokenizer", "multi30k-en-de")
    assert run(*words, "--out", "whole")[0] == 0
    assert run(*words, "--vocab-size", "500", "--out", "first")[0] == 0
    whole, first = open_sentence_pairs("whole").tokenizer, open_sentence_pairs("first").tokenizer
    assert first.vocab_size == 500 < whole.vocab_size
    assert whole.begins_with(first)
    done = run(*words, "--vocab-size", "100000", "--out", "more")
    assert done.code == 2
    assert f"--vocab-size: expected 259 (bytes, special tokens) to {whole.vocab_size}" in done.message
    done = run(*words[:-1], "nowhere", "--out", "more")
    assert done.code == 1
    assert "nowhere: expected a model directory, a .lnlp file, a bundle .zip or a shipped model" in done.message
    assert not Path("more").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--train", "a.en"], "--train requires two files"),
        (["--train", "a.en", "--out"], "--train requires two files"),
        (["--train=a.en"], "--train requires two files"),
        ([], "exactly one of --train, --tsv, --tmx, --jsonl, --text, --labelled and --corpus"),
        (
            ["--tsv", "a", "--corpus", "multi30k"],
            "exactly one of --train, --tsv, --tmx, --jsonl, --text, --labelled and --corpus",
        ),
        (["--corpus", "multi31k"], "expected one of multi30k, tatoeba, iwslt14"),
        (["--tsv", "a", "--from", "b"], "--from needs --corpus"),
        (["--tsv", "a", "--cache", "b"], "--cache needs --corpus"),
        (["--tmx", "a", "--columns", "1,2"], "--columns needs --tsv or --jsonl"),
        (["--train", "a", "b", "--valid-file", "c"], "--valid-file needs --tsv or --tmx or --jsonl"),
        (["--tsv", "a", "--test-file", "c", "--test-pairs", "3"], "--test-file and --test-pairs exclude each other"),
        (
            ["--tsv", "a", "--columns", "1"],
            "--columns: expected two different columns, such as 1,2 or src,tgt, found 1",
        ),
        (["--tsv", "a", "--columns", "2,2"], "--columns: expected two different columns"),
        (
            ["--tsv", "a", "--columns", "0,1"],
            "--columns: expected two different numbers from 1, such as 1,2, found 0,1",
        ),
        (["--tsv", "a", "--columns", "en,de"], "--columns: expected two different numbers from 1"),
        (["--tsv", "a", "--valid", "b", "c", "--valid-pairs", "3"], "exclude each other"),
        (["--corpus", "tatoeba", "--test", "a", "b"], "do not go with --corpus"),
        (["--text", "a", "--tsv", "b"], "exactly one of"),
        (["--tsv", "a", "--valid-text", "b"], "--valid-text needs --text"),
        (["--text", "a", "--valid", "b", "c"], "--valid does not go with --text"),
        (["--text", "a", "--test-pairs", "0"], "--test-pairs does not go with --text"),
        (["--text", "a", "--src-lang", "en"], "--src-lang does not go with --text"),
        (["--tsv", "a", "--src-lang", ""], "--src-lang: expected a language code such as en, found none"),
        (["--tsv", "a", "--normalization", "nfd"], "nfd"),
        (["--tsv", "a", "--valid-pairs", "-1"], "greater than or equal to 0"),
    ],
)
def test_wrong_usage(run, words, message):
    done = run("data", "prepare", "--out", "data", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.message
    assert not Path("data").exists()


def test_failures_leave_no_output(run):
    src, tgt = write_pairs("a", 10)
    Path("short.de").write_text("only one\n")
    Path("empty.de").write_text("")
    Path("cut.de.gz").write_bytes(gzip.compress(b"x y z\n" * 10_000)[:-20])
    before = sorted(Path().iterdir())
    for words, message in (
        (["--train", src, "short.de"], "expected as many lines in both, found 10 and 1"),
        (["--train", src, "empty.de"], "empty.de: expected lines of text, found an empty file"),
        (["--train", src, "cut.de.gz"], "cut.de.gz: expected a whole gzip file"),
        (["--train", src, "none.de"], "none.de: expected a readable text file, found none"),
        (["--train", src, tgt, "--tokenizer", src], "a.en: expected a tokenizer.json of byte-level BPE"),
        (["--tsv", src], "found none (lines skipped: 10 missing_tab)"),
        (["--corpus", "iwslt14", "--from", "."], "expected a copy of iwslt14, found no train.de[.gz]"),
        (["--corpus", "iwslt14", "--src-lang", "fr"], "expected the languages de and en, found fr"),
    ):
        code, out, err = run("data", "prepare", *words, "--valid-pairs", "0", "--test-pairs", "0", "--out", "data")
        if words[0] == "--corpus":
            code, out, err = run("data", "prepare", *words, "--out", "data")
        assert (code, out) == (1, ""), err
        assert message in err
        assert sorted(Path().iterdir()) == before


def test_a_vocabulary_too_small_for_all_bytes_is_refused_before_anything_is_read(run):
    code, _, err = run("data", "prepare", "--train", "none.en", "none.de", "--vocab-size", "258", "--out", "data")
    assert (code, err) == (2, "error: --vocab-size: expected 259 to 524,288, found 258\n")


def test_existing_output_needs_force(run):
    pairs = write_pairs("a", 30)
    words = ("data", "prepare", "--train", *pairs, "--vocab-size", "300", "--out", "data")
    assert run(*words)[0] == 0
    code, _, err = run(*words)
    assert code == 1
    assert "data: output exists already; expected a new path, or --force to overwrite it" in err
    assert run(*words, "--force")[0] == 0


def command(preparation, *words):
    """The command line of a Python that makes some preparation of its process, then runs the command."""
    return [sys.executable, "-c", f"{preparation}; from lite_nlp.cli.main import main; main()", *words]


def test_full_disk_leaves_nothing_behind(tmp_path):
    (tmp_path / "all.tsv").write_text("".join(f"a longer line number {i}\tdie Zeile {i}\n" for i in range(8_000)))
    # A write beyond the limit fails midway, as on a full disk.
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))"
    )
    words = ("data", "prepare", "--tsv", "all.tsv", "--vocab-size", "300", "--out", "data")
    done = subprocess.run(command(limit, *words), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "data: could not be written, nothing was left behind" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["all.tsv"]


def test_interrupt_leaves_nothing_behind(tmp_path):
    (tmp_path / "all.tsv").write_text("".join(f"a longer line number {i}\tdie Zeile {i}\n" for i in range(100_000)))
    # A test run in the background may ignore interrupts, which its children would inherit.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words = ("data", "prepare", "--tsv", "all.tsv", "--vocab-size", "300", "--out", "data")
    with subprocess.Popen(command(listen, *words), cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob(".data*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    assert process.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["all.tsv"]


def test_running_text(run):
    Path("one.txt").write_text("".join(f"line number {i}\n\n" for i in range(50)))
    Path("two.txt.gz").write_bytes(gzip.compress(b"the end\n"))
    valid = Path("valid.txt")
    valid.write_bytes(b"a line to validate\n\xff\n")
    code, out, err = run(
        *("data", "prepare", "--text", "one.txt", "--text", "two.txt.gz", "--valid-text", "valid.txt"),
        *("--vocab-size", "270", "--out", "data", "--json"),
    )
    assert code == 0, err
    facts = json.loads(out)
    assert facts["kind"] == "text"
    assert {name: split["lines"] for name, split in facts["splits"].items()} == {"train": 101, "valid": 1}
    assert "warning: valid: 1 skipped, invalid_utf8" in err
    assert "\n  valid.txt:2: \\xff\n" in err
    code, out, err = run("data", "prepare", "--text", "one.txt", "--vocab-size", "270", "--out", "held")
    assert code == 0, err
    # A twentieth of 100 lines for each of validation and test.
    rows = [line.split() for line in out.splitlines()]
    assert [(row[1], row[3]) for row in rows if row[1:2] and row[1] in ("train", "valid", "test")] == [
        ("train", "90"), ("valid", "5"), ("test", "5"),
    ]  # fmt: skip
