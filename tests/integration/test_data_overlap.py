"""Test data that stands in train, for every way of giving splits: counted, named, warned of, and left out."""

import gzip
import json
from pathlib import Path

import pytest

import lite_nlp
from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.data.directory import read_overlaps
from lite_nlp.data.tokenizer import Tokenizer
from tests.unit.data.test_tmx import memory, unit

TOKENIZER = Tokenizer.train(["some text"], vocab_size=270)

TRAIN = [(f"the sentence with number {i}", f"der Satz mit Nummer {i}") for i in range(40)]
#: Two as they stand in train, two nearly, one with its source alone, one that is new.
TEST = [
    *TRAIN[3:5],
    *((f"The sentence, with number {i}!", f"der Satz  mit Nummer {i}") for i in (8, 9)),
    (TRAIN[20][0], "etwas anderes"),
    ("something new, for once", "zur Abwechslung etwas Neues"),
]


@pytest.fixture
def run(lite_nlp, monkeypatch, tmp_path):
    """The command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lite_nlp


def lines(path, rows):
    content = "".join(f"{row}\n" for row in rows).encode()
    Path(path).write_bytes(gzip.compress(content) if path.endswith(".gz") else content)
    return path


def aligned(name, pairs):
    return tuple(
        lines(f"{name}.{language}", side) for language, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True)
    )


def tabs(name, rows):
    return lines(name, ("\t".join(row) for row in rows))


def objects(name, pairs):
    return lines(name, (json.dumps({"translation": {"en": src, "de": tgt}}) for src, tgt in pairs))


def translation_memory(name, pairs):
    # A unit takes a line, after the two of the head.
    return str(memory(Path(), *(unit(("en", src), ("de", tgt)) for src, tgt in pairs), name=name))


def labelled(name, rows):
    return tabs(name, ((("odd", "even")[number % 2], *row) for number, row in enumerate(rows)))


def published(pairs, test):
    for name, rows in (("train", pairs), ("val", test), ("test2016", test)):
        for language, side in zip(("en", "de"), zip(*rows, strict=True), strict=True):
            lines(f"{name}.{language}.gz", side)
    return {"corpus": "multi30k", "from_dir": "."}


FIRST, FIRST_TEST = [(src,) for src, _ in TRAIN], [(src,) for src, _ in TEST]

#: The arguments of each way, and the overlap of the test set: exact, near, the source alone.
WAYS = {
    "aligned": (lambda: {"train": aligned("a", TRAIN), "test": aligned("t", TEST)}, (2, 2, 1)),
    "several": (
        lambda: {
            "train": [aligned("a", TRAIN[:4]), aligned("b", TRAIN[4:])],
            "test": [aligned("t", TEST[:3]), aligned("u", TEST[3:])],
        },
        (2, 2, 1),
    ),
    "tsv": (lambda: {"tsv": tabs("a.tsv", TRAIN), "test_file": tabs("t.tsv.gz", TEST)}, (2, 2, 1)),
    "tmx": (
        lambda: {"tmx": translation_memory("a.tmx", TRAIN), "test_file": translation_memory("t.tmx", TEST)},
        (2, 2, 1),
    ),
    "jsonl": (lambda: {"jsonl": objects("a.jsonl", TRAIN), "test_file": objects("t.jsonl", TEST)}, (2, 2, 1)),
    "published": (lambda: published(TRAIN, TEST), (2, 2, 1)),
    "held out": (lambda: {"tsv": tabs("a.tsv", TRAIN), "valid_pairs": 2, "test_file": tabs("t.tsv", TEST)}, (2, 2, 1)),
    "summarization": (
        lambda: {"tsv": tabs("a.tsv", TRAIN), "test_file": tabs("t.tsv", TEST), "task": "summarization"},
        (2, 2, 1),
    ),
    "text": (lambda: {"text": tabs("a.txt", FIRST), "test_text": tabs("t.txt", FIRST_TEST)}, (3, 2, 0)),
    "labelled": (lambda: {"labelled": labelled("a", FIRST), "test_labelled": labelled("t", FIRST_TEST)}, (3, 2, 0)),
    "labelled pairs": (lambda: {"labelled": labelled("a", TRAIN), "test_labelled": labelled("t", TEST)}, (2, 2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_giving_splits(way, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, (exact, near, source) = WAYS[way]
    options = {**make(), "tokenizer": TOKENIZER}
    kept = lite_nlp.prepare_data("kept", **options)
    overlap = kept.splits["test"].overlaps["train"]
    assert (overlap.exact, overlap.near, overlap.source, overlap.target) == (exact, near, source, 0)
    for name in ("train", "test"):
        assert (kept.splits[name].overlapping, kept.splits[name].near_duplicates) == (exact, near)
    assert kept.splits["train"].dropped == 0
    dropped = lite_nlp.prepare_data("dropped", **options, drop_overlap=True)
    assert dropped.splits["test"].overlapping == dropped.splits["test"].near_duplicates == 0
    assert dropped.splits["test"].overlaps["train"].source == source
    assert dropped.splits["train"].dropped == exact + near
    assert items(dropped.splits["train"]) == items(kept.splits["train"]) - exact - near
    assert read_overlaps(Path("dropped"), "test") == dropped.splits["test"].overlaps


def items(split):
    counts = split.model_dump()
    return next(counts[name] for name in ("pairs", "examples", "lines") if name in counts)


#: Writer of a table, its first line, and lines of a pair.
@pytest.mark.parametrize(("ending", "table", "first", "step"), [("tsv", tabs, 1, 1), ("tmx", translation_memory, 3, 3)])
def test_examples_name_files_and_lines(run, ending, table, first, step):
    train, test = table(f"a.{ending}", TRAIN), table(f"t.{ending}", TEST)
    languages = ("--src-lang", "en", "--tgt-lang", "de")
    arguments = ("data", "prepare", f"--{ending}", train, "--test-file", test, *languages, "--vocab-size", "300")
    code, out, err = run(*arguments, "--out", "kept", "--json")
    assert code == 0
    facts = json.loads(out)
    warnings = facts["warnings"]
    assert warnings[0].startswith("test: 2 of 6 stand in train, and 2 more but for case, punctuation and spacing; ")
    assert warnings[1].startswith("test: 1 of 6 share the source (first sentence) with train, where it stands beside")
    assert all(f"warning: {warning}\n" in err for warning in warnings)
    examples = facts["splits"]["test"]["overlaps"]["train"]["examples"]
    expected = (("exact", 0, 3), ("exact", 1, 4), ("near", 2, 8), ("near", 3, 9), ("source", 4, 20))
    assert [(example["kind"], example["line"], example["other_line"]) for example in examples] == [
        (kind, first + step * row, first + step * other) for kind, row, other in expected
    ]
    for row, other, named in ((0, 3, "(the same): the sentence with"), (2, 8, "(nearly the same): The sentence, with")):
        assert f"  {test}:{first + step * row} stands in train as {train}:{first + step * other} {named}" in err
    code, out, err = run(*arguments, "--out", "dropped", "--drop-overlap")
    assert code == 0
    assert "stand in train" not in err
    assert [cell.strip() for cell in out.splitlines()[4].split("│")][-4:-1] == ["2", "2", "4"]


def test_nothing_in_common_is_no_warning(run):
    train, test = aligned("a", TRAIN), aligned("t", [("something else", "etwas anderes")])
    code, out, err = run("data", "prepare", "--train", *train, "--test", *test, "--vocab-size", "300", "--out", "data")
    assert (code, "warning" in err, "overlap" in out) == (0, False, True)


def test_validation_that_stands_in_test_is_told(run):
    train, test = aligned("a", TRAIN[:30]), aligned("t", TRAIN[30:])
    valid = aligned("v", TRAIN[30:33])
    code, out, err = run(
        "data", "prepare", "--train", *train, "--valid", *valid, "--test", *test, "--out", "data", "--json"
    )
    assert code == 0
    assert json.loads(out)["splits"]["valid"]["overlaps"]["test"]["exact"] == 3
    assert "warning: valid: 3 of 3 stand in test" in err
    assert "v.en:1 stands in test as t.en:1 (the same)" in err


def test_dropping_everything_is_an_error_that_leaves_nothing(run):
    train, test = aligned("a", TRAIN), aligned("t", TRAIN)
    code, out, err = run("data", "prepare", "--train", *train, "--test", *test, "--out", "data", "--drop-overlap")
    assert (code, out) == (1, "")
    assert "do not stand in valid or test, found none: --drop-overlap leaves all 40 out" in err
    assert not Path("data").exists()


def test_there_must_be_something_to_compare_with(run):
    code, _, err = run(
        *("data", "prepare", "--train", *aligned("a", TRAIN), "--valid-pairs", "0", "--test-pairs", "0"),
        *("--out", "data", "--drop-overlap"),
    )
    assert code == 2
    assert "--drop-overlap: expected validation or test data" in err
    with pytest.raises(UsageError, match="--drop-overlap"):
        lite_nlp.prepare_data("data", tsv=tabs("a.tsv", TRAIN), valid_pairs=0, test_pairs=0, drop_overlap=True)


def test_a_label_whose_examples_are_all_dropped_is_named(tmp_path: Path) -> None:
    train = [("yes", f"a sentence of the number {number}") for number in range(50)]
    for name, rows in (("train", [*train, ("no", "the only one")]), ("test", [("no", "the only one"), train[0]])):
        (tmp_path / name).write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    options = {"labelled": tmp_path / "train", "test_labelled": tmp_path / "test", "vocab_size": 300}
    message = "--drop-overlap: expected training examples of the label 'no' that do not stand in the other splits too"
    with pytest.raises(DataError, match=message):
        lite_nlp.prepare_data(tmp_path / "data", **options, drop_overlap=True)
    assert not (tmp_path / "data").exists()


def test_what_held_out_pairs_take_from_training_is_told(run):
    # Each of ten sources stands beside ten targets: one pair held out takes nine others with it.
    tabs("pairs.tsv", [(f"order {i % 10} of the day", f"Befehl {i} des Tages") for i in range(100)])
    options = ("data", "prepare", "--tsv", "pairs.tsv", "--src-lang", "en", "--tgt-lang", "de", "--vocab-size", "280")
    done = run.json(*options, "--valid-pairs", "2", "--test-pairs", "1", "--out", "some")
    warning = (
        "train: 27 of 97 share a sentence with a held-out one and are left out; to keep more of them, hold out fewer "
        "(--valid-pairs, --test-pairs), or give text of another origin to validate and test on"
    )
    assert done["warnings"] == [warning]
    assert (done["splits"]["train"]["pairs"], done["splits"]["train"]["dropped"]) == (70, 27)
    done = run(*options, "--valid-pairs", "6", "--test-pairs", "4", "--out", "none")
    assert done.code == 1
    assert "besides those held out, found none: 90 share a sentence with one of them" in done.message
    assert not Path("none").exists()
