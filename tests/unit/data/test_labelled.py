"""Labelled text: what a line must look like, and that everything written is read back."""

import gzip
import json
import shutil

import numpy as np
import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.data.directory import BAD_LINES_FILE, INFO_FILE
from lite_nlp.data.holdout import EveryNth, HoldOut
from lite_nlp.data.labelled.directory import LABELS_FILE, collate_labelled, open_labelled
from lite_nlp.data.labelled.prepare import prepare_labelled
from lite_nlp.data.labelled.readers import Example, LabelledCorpus, LabelledFile, collect_labels
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.vocabulary import VocabularyOptions

OPTIONS = VocabularyOptions(vocab_size=320)
COLORS = ["red", "green", "blue"]


def written(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return LabelledFile(path)


def single(n):
    """Examples of one sentence; the label says the remainder by three."""
    return [(COLORS[i % 3], f"sentence {i} about it" + " indeed" * (i % 5)) for i in range(n)]


def prepare(out, rule=None, **splits):
    corpus = LabelledCorpus(splits={name: [source] for name, source in splits.items()}, rule=rule)
    return prepare_labelled(out, corpus, vocabulary=OPTIONS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("labelled")
    train = written(directory / "train.tsv", ["\t".join(row) for row in single(300)])
    valid = written(directory / "valid.tsv", ["red\tone", "mauve\ttwo", "blue\tthree", "green", "green\tfour"])
    prepare(directory / "data", train=train, valid=valid)
    return directory / "data"


@pytest.fixture
def copied(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "copy")
    return tmp_path / "copy"


def test_labels_that_held_out_examples_take_with_them_are_told(tmp_path):
    # Eight premises, each in many examples: those of one label go with the held-out ones.
    lines = [f"{('neg', 'pos')[i % 8 < 2]}\tpremise {i % 8}\thypothesis {i}" for i in range(100)]
    train = written(tmp_path / "train.tsv", lines)
    message = (
        r"labels: expected at least two different ones, found '\w+'; \d+ examples share a sentence with a held-out"
    )
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "out", HoldOut(valid_pairs=4, test_pairs=3), train=train)


@pytest.mark.parametrize("sentences", [1, 2])
def test_a_label_that_stands_last_is_told(tmp_path, sentences):
    lines = ["\t".join([f"first {i}", f"second {i}"][:sentences]) + f"\t{COLORS[i % 3]}" for i in range(90)]
    train = written(tmp_path / "train.tsv", lines)
    message = (
        r"train.tsv: expected the label in the first column, found 90 different texts there in 90 examples, and 3 in "
        r"the last, such as 'red', 'green', 'blue': put the label first"
    )
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "out", HoldOut(valid_pairs=5, test_pairs=5), train=train)
    assert not (tmp_path / "out").exists()


def test_names_of_columns_on_the_first_line_are_no_class(tmp_path):
    lines = [f"{COLORS[i % 3]}\tsentence {i}" for i in range(90)]
    train = written(tmp_path / "train.tsv", ["Label\tsentence", *lines])
    message = (
        r"train.tsv: expected an example on each line, found the names .* on the first, with the label 'Label': rem"
    )
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "out", HoldOut(valid_pairs=5, test_pairs=5), train=train)
    # Where it stands on other lines too, it is a class.
    train = written(tmp_path / "train.tsv", ["Label\tsentence", *lines, "Label\tanother"])
    assert "Label" in prepare(tmp_path / "out", HoldOut(valid_pairs=5, test_pairs=5), train=train).labels


def test_everything_written_is_read_back(prepared):
    data = open_labelled(prepared)
    train = data.split("train")
    assert data.info.labels == sorted(COLORS)
    assert [data.info.labels[label] for label in train.labels] == [label for label, _ in single(300)]
    assert train.pairs.texts()[0] == [sentence for _, sentence in single(300)]
    assert data.info.splits["train"].by_label == {"blue": 100, "green": 100, "red": 100}
    assert data.info.splits["train"].second_tokens == 0
    assert data.info.splits["train"].first_tokens == sum(
        len(data.tokenizer.encode(sentence)) for _, sentence in single(300)
    )


def test_labels_that_training_lacks_are_bad_lines_of_the_other_splits(prepared):
    data = open_labelled(prepared)
    assert data.split("valid").pairs.texts()[0] == ["one", "three", "four"]
    skipped = data.info.splits["valid"].skipped
    assert {reason: lines.count for reason, lines in skipped.items()} == {"missing_tab": 1, "unknown_label": 1}
    assert [lines.first[0].rpartition(":")[2] for lines in skipped.values()] == ["4", "2"]
    report = [json.loads(line) for line in (prepared / BAD_LINES_FILE).read_text().splitlines()]
    assert [(entry["line"], entry["reason"]) for entry in report] == [(2, "unknown_label"), (4, "missing_tab")]


def test_a_label_that_is_only_held_out_is_a_bad_line_there(tmp_path):
    rows = [f"{COLORS[i % 2]}\tsentence {i}" for i in range(20)]
    rows[9] = "mauve\tsentence 9"
    info = prepare(tmp_path / "data", EveryNth(5), train=written(tmp_path / "all.tsv", rows))
    assert info.labels == ["green", "red"]
    assert (info.splits["train"].examples, info.splits["valid"].examples) == (16, 3)
    assert info.splits["train"].skipped == {}
    assert info.splits["valid"].skipped["unknown_label"].first == [f"{tmp_path / 'all.tsv'}:10"]
    assert open_labelled(tmp_path / "data").split("valid").pairs.texts()[0] == [f"sentence {i}" for i in (4, 14, 19)]


def test_a_batch_has_end_marks_and_masks(prepared):
    data = open_labelled(prepared)
    train = data.split("train")
    batch = train.load(np.array([7, 0, 4]))
    rows = [[*data.tokenizer.encode(single(300)[row][1]), 2] for row in (7, 0, 4)]
    assert [row[mask].tolist() for row, mask in zip(batch.first_tokens, batch.first_mask, strict=True)] == rows
    assert not batch.first_tokens[~batch.first_mask].any()
    assert [data.info.labels[label] for label in batch.labels] == ["green", "red", "green"]
    assert batch.second_tokens is None
    assert batch.second_mask is None
    assert batch.num_tokens == sum(map(len, rows))
    assert len(batch) == 3


def test_pairs_keep_both_sentences(tmp_path):
    rows = [("yes" if i % 2 else "no", f"premise {i}", f"hypothesis {i} is longer") for i in range(40)]
    path = tmp_path / "pairs.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    prepare(tmp_path / "data", train=LabelledFile(path))
    data = open_labelled(tmp_path / "data")
    train = data.split("train")
    assert data.info.sentences == 2
    assert train.pairs.texts() == ([row[1] for row in rows], [row[2] for row in rows])
    batch = train.load(np.array([3, 30]))
    assert batch.second_tokens.shape == batch.second_mask.shape
    assert batch.second_tokens[0][batch.second_mask[0]].tolist() == [*data.tokenizer.encode(rows[3][2]), 2]
    assert batch.num_tokens == int(batch.first_mask.sum() + batch.second_mask.sum())


def test_batches_stay_within_the_bound(prepared):
    train = open_labelled(prepared).split("train")
    batches = make_batches(train.first_lengths, train.second_lengths, batch_tokens=200, seed=1, epoch=0, shuffle=True)
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    for rows in batches:
        assert train.load(rows).first_tokens.size <= 200


@pytest.mark.parametrize("columns", [1, 2])
def test_held_out_sentences_are_in_no_other_split(tmp_path, columns):
    # Every sentence is there three times, under other spellings.
    lines = []
    for i in range(240):
        text = f"sentence number {i % 80}" if i < 160 else f"Sentence, number {i % 80}!"
        lines.append("\t".join([COLORS[i % 3], text, f"second sentence {i}"][: 1 + columns]))
    source = written(tmp_path / "all.tsv", lines)
    info = prepare(tmp_path / "data", rule=HoldOut(valid_pairs=6, test_pairs=5), train=source)
    data = open_labelled(tmp_path / "data")
    splits = {
        name: {"".join(filter(str.isalnum, text)).lower() for text in data.split(name).pairs.texts()[0]}
        for name in ("train", "valid", "test")
    }
    assert [info.splits[name].examples for name in ("valid", "test")] == [6, 5]
    assert splits["train"].isdisjoint(splits["valid"] | splits["test"])
    assert splits["valid"].isdisjoint(splits["test"])
    assert sum(split.examples for split in info.splits.values()) + info.splits["train"].overlapping == 240
    assert info.splits["train"].overlapping == 22


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"red", "missing_tab"),
        (b"red\ta\tb", "extra_tab"),
        (b"\ttext", "empty_side"),
        (b"red\t ", "empty_side"),
        (b"red\t\xff", "invalid_utf8"),
        (b"red\t" + b"x" * 2001, "too_long"),
        (b"red\t" + b"x" * 20_000, "too_long"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, reason):
    path = tmp_path / "bad.tsv"
    path.write_bytes(b"red\tfine\n" + line + b"\nblue\tfine too\r\n")
    found = []
    examples = list(LabelledFile(path).read(found.append))
    assert examples == [(1, Example("red", "fine")), (3, Example("blue", "fine too"))]
    assert [(bad.file, bad.line, bad.reason) for bad in found] == [(str(path), 2, reason)]


def test_files_that_are_not_labelled_text(tmp_path):
    with pytest.raises(DataError, match="expected lines of a label and one or two sentences, separated by tabs"):
        written(tmp_path / "plain.txt", ["no tab", "a\tb\tc\td"]).sentences  # noqa: B018
    with pytest.raises(DataError, match="expected at least two different ones, found 'red'"):
        prepare(tmp_path / "data", train=written(tmp_path / "one.tsv", ["red\ta", "red\tb"]))
    with pytest.raises(DataError, match="expected at most 1,000 different ones, found more, such as"):
        collect_labels(Example(f"text {i}", "text") for i in range(1001))
    pairs, singles = (
        written(tmp_path / "p.tsv", ["a\tb\tc", "b\tb\tc"]),
        written(tmp_path / "s.tsv", ["a\tb", "b\tc"]),
    )
    with pytest.raises(DataError, match=r"s.tsv: expected as many sentences after each label as in .*p.tsv \(2\), fou"):
        prepare(tmp_path / "data", train=pairs, valid=singles)
    with pytest.raises(DataError, match=r"valid: expected labelled examples, found none \(lines skipped: 2 unknown_"):
        prepare(tmp_path / "data", train=singles, valid=written(tmp_path / "v.tsv", ["x\tb", "y\tc"]))
    assert not (tmp_path / "data").exists()


def test_damaged_directories(copied, tmp_path):
    with pytest.raises(DataError, match=r"expected a data directory with data\.json, found none"):
        open_labelled(tmp_path)
    with pytest.raises(DataError, match="split: expected one of train, valid, found 'test'"):
        open_labelled(copied).split("test")
    labels = copied / "valid" / LABELS_FILE
    np.save(labels, np.array([0, 1, 3], dtype=np.int32))
    with pytest.raises(DataError, match="expected labels 0 to 2, found 0 to 3"):
        open_labelled(copied).split("valid")
    np.save(labels, np.array([0, 1], dtype=np.int32))
    with pytest.raises(DataError, match="expected 3 examples, found 3 rows and 2 labels"):
        open_labelled(copied).split("valid")
    np.save(labels, np.array([0, 1, 1], dtype=np.int64))
    with pytest.raises(DataError, match="expected a list of int32, found int64"):
        open_labelled(copied).split("valid")
    labels.write_bytes(b"")
    with pytest.raises(DataError, match="expected one label per row, found a damaged file"):
        open_labelled(copied).split("valid")
    info = json.loads((copied / INFO_FILE).read_text())
    (copied / INFO_FILE).write_text(json.dumps(info | {"sentences": 3}))
    with pytest.raises(DataError, match="expected the facts of a data directory, found sentences"):
        open_labelled(copied)


def test_another_kind_of_data_is_named(prepared, tmp_path):
    with pytest.raises(DataError, match="expected a data directory of sentence pairs, found one of labelled examples"):
        open_sentence_pairs(prepared)
    info = json.loads((prepared / INFO_FILE).read_text())
    (tmp_path / INFO_FILE).write_text(json.dumps(info | {"kind": "pairs"}))
    with pytest.raises(DataError, match="expected a data directory of labelled examples, found one of sentence pairs"):
        open_labelled(tmp_path)


def test_an_empty_row_still_has_its_end_mark():
    batch = collate_labelled([np.array([], dtype=np.int32), np.array([5, 6], dtype=np.int32)], None, np.array([0, 1]))
    assert batch.first_tokens.tolist() == [[2, 0, 0], [5, 6, 2]]
    assert batch.first_mask.tolist() == [[True, False, False], [True, True, True]]
