import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.data import preparation
from lite_nlp.data.directory import INFO_FILE, TOKENIZER_FILE
from lite_nlp.data.holdout import HoldOut
from lite_nlp.data.pairs.corpus import PairCorpus
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.pairs.prepare import prepare_pairs
from lite_nlp.data.pairs.storage import load_split, write_split
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions
from tests.unit.data.recorder import Recorder

#: More than one chunk of the writer and several of the file.
NUM_PAIRS = 6_100
OPTIONS = VocabularyOptions(vocab_size=320)


def prepare(out, train, rule=None, vocabulary=OPTIONS, **others):
    """The directory ``out`` of sources in memory, and of other splits."""
    splits = {name: [source] for name, source in {"train": train, **others}.items()}
    return prepare_pairs(out, PairCorpus(splits=splits, rule=rule, languages=("en", "de")), vocabulary=vocabulary)


class Given:
    """A source of pairs in memory."""

    name = file = "given"

    def __init__(self, pairs):
        self._pairs = pairs

    def read(self, on_bad):
        del on_bad
        yield from enumerate(self._pairs, start=1)


def numbered(n):
    return [(f"number {i} of a row" + " more" * (i % 7), f"Nummer {i} der Reihe  ä") for i in range(n)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    out = tmp_path_factory.mktemp("prepared") / "data"
    prepare(out, Given(numbered(NUM_PAIRS)), valid=Given(numbered(5)))
    return out


@pytest.fixture
def copied(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "copy")
    return tmp_path / "copy"


def test_everything_written_is_read_back(prepared):
    data = open_sentence_pairs(prepared)
    train = data.split("train")
    pairs = numbered(NUM_PAIRS)
    assert len(train) == data.info.splits["train"].pairs == NUM_PAIRS
    assert train.texts() == ([src for src, _ in pairs], [tgt for _, tgt in pairs])
    src, tgt = train.tokens(range(NUM_PAIRS))
    for side, rows, lengths in ((0, src, train.src_lengths), (1, tgt, train.tgt_lengths)):
        assert lengths.dtype == np.int32
        assert lengths.tolist() == [len(row) for row in rows]
        for row in range(0, NUM_PAIRS, 97):
            assert rows[row].dtype == np.int32
            assert data.tokenizer.decode(rows[row].tolist()) == pairs[row][side]
    assert data.info.splits["train"].src_tokens == train.src_lengths.sum()
    assert data.info.splits["train"].tgt_tokens == train.tgt_lengths.sum()
    assert (data.info.src_lang, data.info.tgt_lang) == ("en", "de")


def test_a_split_is_a_table_that_other_libraries_read(prepared):
    # As `datasets.load_from_disk` expects it: a list of files, each a stream of at most 1000 rows a batch.
    state = json.loads((prepared / "train" / "state.json").read_text())
    assert [file["filename"] for file in state["_data_files"]] == ["data-00000-of-00001.arrow"]
    features = json.loads((prepared / "train" / "dataset_info.json").read_text())["features"]
    assert features["src"] == {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"}
    assert features["tgt_text"] == {"dtype": "string", "_type": "Value"}
    with pa.ipc.open_stream((prepared / "train" / "data-00000-of-00001.arrow").read_bytes()) as stream:
        table = stream.read_all()
    assert json.loads(table.schema.metadata[b"huggingface"]) == {"info": {"features": features}}
    assert table.column_names == list(features)
    assert {batch.num_rows for batch in table.to_batches()} == {1000, NUM_PAIRS % 1000}


def test_a_split_may_be_several_files(copied):
    whole = open_sentence_pairs(copied).split("train").texts()
    state = json.loads((copied / "train" / "state.json").read_text())
    file = arrow_file(copied / "train")
    with pa.ipc.open_stream(file.read_bytes()) as stream:
        table = stream.read_all()
    file.unlink()
    state["_data_files"] = []
    for name, rows in (("first.arrow", table.slice(0, 2_500)), ("second.arrow", table.slice(2_500))):
        with pa.ipc.new_stream(copied / "train" / name, table.schema) as stream:
            stream.write_table(rows)
        state["_data_files"].append({"filename": name})
    (copied / "train" / "state.json").write_text(json.dumps(state))
    split = open_sentence_pairs(copied).split("train")
    assert split.texts() == whole
    assert split.texts([2_499, 2_500])[0] == [whole[0][2_499], whole[0][2_500]]


def test_rows_come_in_the_order_asked_for(prepared):
    train = open_sentence_pairs(prepared).split("train")
    rows = [NUM_PAIRS - 1, 0, 4_999, 5_000, 0]
    src, tgt = train.texts(np.array(rows))
    assert src == [numbered(NUM_PAIRS)[row][0] for row in rows]
    assert tgt == [numbered(NUM_PAIRS)[row][1] for row in rows]
    everything, _ = train.tokens(range(NUM_PAIRS))
    some, _ = train.tokens(rows)
    assert [row.tolist() for row in some] == [everything[row].tolist() for row in rows]
    assert train.tokens([]) == ([], [])


@pytest.mark.parametrize("row", [-1, NUM_PAIRS])
def test_rows_outside_are_refused(prepared, row):
    with pytest.raises(DataError, match=f"train: expected row numbers 0 to {NUM_PAIRS - 1}"):
        open_sentence_pairs(prepared).split("train").tokens([0, row])


def test_tokens_are_views_of_the_file(prepared):
    src, _ = open_sentence_pairs(prepared).split("train").tokens([3])
    assert not src[0].flags.writeable


def test_same_corpus_same_directory(prepared, tmp_path):
    prepare(tmp_path / "again", Given(numbered(NUM_PAIRS)), valid=Given(numbered(5)))
    files = [path.relative_to(prepared) for path in prepared.rglob("*") if path.is_file()]
    assert {Path(INFO_FILE), Path(TOKENIZER_FILE), Path("train/state.json")} < set(files)
    for file in files:
        assert (tmp_path / "again" / file).read_bytes() == (prepared / file).read_bytes()


def test_tokenizer_can_be_shared(prepared, tmp_path):
    tokenizer = Tokenizer.load(prepared / TOKENIZER_FILE)
    info = prepare(tmp_path / "other", Given(numbered(3)), vocabulary=VocabularyOptions(tokenizer=tokenizer))
    assert info.tokenizer == open_sentence_pairs(prepared).info.tokenizer
    assert open_sentence_pairs(tmp_path / "other").tokenizer.sha256 == tokenizer.sha256


def test_held_out_splits_are_written_and_counted(tmp_path):
    pairs = [(f"source {i}", f"target {i}") for i in range(100)] + [("Source 7!", "something else")]
    info = prepare(tmp_path / "out", Given(pairs), HoldOut(valid_pairs=60, test_pairs=30))
    data = open_sentence_pairs(tmp_path / "out")
    texts = {name: set(data.split(name).texts()[0]) for name in ("train", "valid", "test")}
    assert [len(texts[name]) for name in ("valid", "test")] == [60, 30]
    assert info.splits["train"].pairs + info.splits["train"].overlapping == 11
    assert not texts["train"] & (texts["valid"] | texts["test"])


def test_progress_ends_at_the_number_of_pairs(tmp_path):
    progress = Recorder()
    corpus = PairCorpus(splits={"train": [Given(numbered(1500))]}, languages=("en", "de"))
    prepare_pairs(tmp_path / "out", corpus, vocabulary=OPTIONS, progress=progress)
    assert progress.seen == [("vocabulary", 1500, 1500), ("train", 1500, 1500)]


def test_the_vocabulary_of_a_large_text_is_learned_from_a_part_of_it(tmp_path, monkeypatch):
    # Every third pair is read: the words of the others are in no token.
    monkeypatch.setattr(preparation, "MAX_VOCABULARY_ITEMS", 40)
    pairs = [(f"{word} {word}", word) for word in ("seen", "unknown", "foreign") * 40]
    info = prepare(tmp_path / "out", Given(pairs))
    tokens = json.loads((tmp_path / "out" / TOKENIZER_FILE).read_text())["model"]["vocab"]
    assert "Ġseen" in tokens
    assert not {"Ġunknown", "Ġforeign"} & set(tokens)
    assert info.splits["train"].pairs == 120


def test_no_pairs_leave_nothing_behind(tmp_path):
    with pytest.raises(DataError, match="train: expected sentence pairs, found none"):
        prepare(tmp_path / "out", Given([]))
    with pytest.raises(DataError, match="valid: expected sentence pairs, found none"):
        prepare(tmp_path / "out", Given(numbered(3)), valid=Given([]))
    assert list(tmp_path.iterdir()) == []


def test_interruption_leaves_nothing_behind(tmp_path):
    class Interrupted(Given):
        def read(self, on_bad):
            yield from super().read(on_bad)
            raise KeyboardInterrupt

    tokenizer = Tokenizer.train(["text"], vocab_size=300)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "out", Interrupted(numbered(10)), vocabulary=VocabularyOptions(tokenizer=tokenizer))
    assert list(tmp_path.iterdir()) == []


def test_existing_directory_is_kept_without_force(prepared):
    with pytest.raises(OutputError, match="output exists already"):
        prepare(prepared, Given(numbered(3)))
    assert len(open_sentence_pairs(prepared).split("train")) == NUM_PAIRS


def test_force_replaces(copied):
    corpus = PairCorpus(splits={"train": [Given(numbered(3))]}, languages=("en", "de"))
    prepare_pairs(copied, corpus, vocabulary=OPTIONS, force=True)
    assert len(open_sentence_pairs(copied).split("train")) == 3
    assert [path.name for path in copied.parent.iterdir()] == ["copy"]


def test_unknown_split_lists_those_there_are(prepared):
    with pytest.raises(DataError, match="split: expected one of train, valid, found 'test'"):
        open_sentence_pairs(prepared).split("test")


def test_no_data_directory_is_named(tmp_path):
    with pytest.raises(DataError, match=r"expected a data directory with data\.json, found none"):
        open_sentence_pairs(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"schema_version": 1'])
def test_damaged_facts_are_refused(copied, content):
    (copied / INFO_FILE).write_bytes(content)
    with pytest.raises(DataError, match=r"data\.json: expected .+, found"):
        open_sentence_pairs(copied)


def test_unknown_version_is_refused(copied):
    facts = json.loads((copied / INFO_FILE).read_text())
    (copied / INFO_FILE).write_text(json.dumps({**facts, "schema_version": 2}))
    with pytest.raises(DataError, match="schema_version"):
        open_sentence_pairs(copied)


def test_another_tokenizer_is_refused(copied):
    (copied / TOKENIZER_FILE).write_bytes(Tokenizer.train(["other"], vocab_size=300).to_json())
    with pytest.raises(DataError, match=r"tokenizer\.json: expected SHA-256"):
        _ = open_sentence_pairs(copied).tokenizer


def arrow_file(directory):
    return next(directory.glob("*.arrow"))


def truncate(split):
    file = arrow_file(split)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(split):
    arrow_file(split).write_bytes(b"")


def overwrite(split):
    arrow_file(split).write_bytes(b"no Arrow file at all" * 100)


@pytest.mark.parametrize("harm", [truncate, empty, overwrite, lambda split: arrow_file(split).unlink(), shutil.rmtree])
def test_damaged_splits_are_refused(copied, harm):
    harm(copied / "train")
    with pytest.raises(DataError, match=r"train(/state\.json)?: expected"):
        open_sentence_pairs(copied).split("train")


def test_a_split_of_another_directory_is_refused(copied, tmp_path):
    tokenizer = Tokenizer.load(copied / TOKENIZER_FILE)
    shutil.rmtree(copied / "valid")
    assert write_split(copied / "valid", numbered(4), tokenizer)[0] == 4
    assert len(load_split(copied / "valid", "valid")) == 4
    with pytest.raises(DataError, match="valid: expected 5 pairs, found 4"):
        open_sentence_pairs(copied).split("valid")
