import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.data.directory import data_task
from lite_nlp.data.pairs.corpus import PairCorpus
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.pairs.prepare import prepare_pairs
from lite_nlp.data.pairs.readers import TsvFile
from lite_nlp.data.text.directory import TextInfo, TokenStream, cut_blocks, open_running_text
from lite_nlp.data.text.prepare import prepare_text
from lite_nlp.data.text.readers import MAX_LINE_BYTES, TextCorpus, TextFile, text_in_files
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions

LINES = ["First Citizen:", "", "  We are accounted poor citizens.", "Ünd naïve café ☕"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def prepare(out: Path, *, force: bool = False, **splits: Path) -> TextInfo:
    corpus = text_in_files({name: [path] for name, path in splits.items()})  # type: ignore[misc]
    return prepare_text(out, corpus, vocabulary=VocabularyOptions(vocab_size=280), force=force)


def text_of(directory: Path, split: str) -> str:
    data = open_running_text(directory)
    stream = data.stream(split)
    ids = stream.read(0, len(stream)).tolist()
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == 2:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(data.tokenizer.decode(line) for line in lines)


def test_the_tokens_are_the_text(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    info = prepare(tmp_path / "data", train=text, valid=text)
    assert text_of(tmp_path / "data", "train") == text.read_text(encoding="utf-8")
    train = info.splits["train"]
    assert train.lines == 4
    assert train.words == 2 + 0 + 5 + 4
    assert train.characters == len(text.read_text(encoding="utf-8"))
    assert train.bytes == text.stat().st_size
    assert train.tokens * 4 == (tmp_path / "data" / "train.tokens").stat().st_size
    assert set(info.splits) == {"train", "valid"}
    assert data_task(tmp_path / "data") == ("text", None)


def test_tokens_are_little_endian_integers_with_an_end_mark_for_each_line(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["ab"], vocab_size=259)
    options = VocabularyOptions(tokenizer=tokenizer)
    text = write(tmp_path / "text.txt", ["ab", "", "b"])
    prepare_text(tmp_path / "data", TextCorpus(splits={"train": [TextFile(text)]}), vocabulary=options)
    space, a, b = tokenizer.encode("ab")
    expected = b"".join(number.to_bytes(4, "little") for number in (space, a, b, 2, 2, space, b, 2))
    assert (tmp_path / "data" / "train.tokens").read_bytes() == expected


def test_the_last_lines_are_held_out(tmp_path: Path) -> None:
    lines = [f"line number {number}" for number in range(65)]
    text = write(tmp_path / "text.txt", lines)
    info = prepare(tmp_path / "data", train=text)
    assert {name: split.lines for name, split in info.splits.items()} == {"train": 59, "valid": 3, "test": 3}
    parts = [text_of(tmp_path / "data", name) for name in ("train", "valid", "test")]
    assert "".join(parts) == text.read_text()


def test_gzip_line_ends_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    long = b"x" * (MAX_LINE_BYTES + 2)
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\n\xff bad\n" + long + b"\ntwo"))
    info = prepare_text(
        tmp_path / "data",
        TextCorpus(splits={"train": [TextFile(path)]}),
        vocabulary=VocabularyOptions(vocab_size=260),
    )
    assert text_of(tmp_path / "data", "train") == "one\ntwo\n"
    assert info.splits["train"].skipped["invalid_utf8"].first == [f"{path}:2"]
    assert info.splits["train"].skipped["too_long"].first == [f"{path}:3"]
    bad = [json.loads(line) for line in (tmp_path / "data" / "bad_lines.jsonl").read_text().splitlines()]
    assert [(line["line"], line["reason"]) for line in bad] == [(2, "invalid_utf8"), (3, "too_long")]


def test_bad_lines_of_a_text_that_is_divided_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"".join(b"\xff\n" if number == 39 else b"good line\n" for number in range(40)) + b"last\n")
    info = prepare(tmp_path / "data", train=path)
    assert {name: split.lines for name, split in info.splits.items()} == {"train": 36, "valid": 2, "test": 2}
    assert {name: list(split.skipped) for name, split in info.splits.items()} == {
        "train": ["invalid_utf8"], "valid": [], "test": [],
    }  # fmt: skip
    assert len((tmp_path / "data" / "bad_lines.jsonl").read_text().splitlines()) == 1


def test_too_little_text_and_existing_output_are_refused(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    with pytest.raises(DataError, match=r"expected at least 20 lines, to hold out a twentieth .*, found 4"):
        prepare(tmp_path / "data", train=text)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"valid: expected lines of text, found none \(lines skipped: 1 invalid_utf8\)"):
        prepare(tmp_path / "data", train=text, valid=bad)
    assert not (tmp_path / "data").exists()
    prepare(tmp_path / "data", train=text, valid=text)
    with pytest.raises(OutputError):
        prepare(tmp_path / "data", train=text, valid=text)
    prepare(tmp_path / "data", train=text, valid=text, force=True)


def test_one_kind_of_data_is_not_taken_for_another(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    prepare(tmp_path / "text", train=text, valid=text)
    pairs = write(tmp_path / "pairs.tsv", ["one\teins", "two\tzwei"])
    prepare_pairs(
        tmp_path / "pairs",
        PairCorpus(splits={"train": [TsvFile(pairs)]}, languages=("en", "de")),
        vocabulary=VocabularyOptions(vocab_size=260),
    )
    with pytest.raises(DataError, match=r"text: expected a data directory of sentence pairs, found one of running"):
        open_sentence_pairs(tmp_path / "text")
    with pytest.raises(DataError, match=r"pairs: expected a data directory of running text, found one of sentence p"):
        open_running_text(tmp_path / "pairs")
    with pytest.raises(DataError, match=r"split: expected one of train, valid, found 'test'"):
        open_running_text(tmp_path / "text").stream("test")


@pytest.mark.parametrize("damage", ["cut", "longer", "missing"])
def test_a_damaged_text_is_noticed(tmp_path: Path, damage: str) -> None:
    text = write(tmp_path / "text.txt", LINES)
    prepare(tmp_path / "data", train=text, valid=text)
    path = tmp_path / "data" / "train.tokens"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-3] if damage == "cut" else content + b"\x05\0\0\0")
    with pytest.raises(DataError, match=r"train\.tokens: expected"):
        open_running_text(tmp_path / "data").stream("train")


def test_an_id_outside_the_vocabulary_is_noticed() -> None:
    stream = TokenStream("text", np.array([5, 9, 0, 4], dtype=np.int32), vocab_size=9)
    assert stream.read(3, 4).tolist() == [4]
    for start in (1, 2):
        with pytest.raises(DataError, match=r"text: expected token ids 1 to 8, found"):
            stream.read(start, start + 1)


def test_blocks_read_the_token_before_the_one_they_say() -> None:
    stream = TokenStream("text", np.arange(10, 17, dtype=np.int32), vocab_size=20)
    blocks = cut_blocks(stream, np.array([-2, 1, 4]), block_tokens=3)
    # Before the text stands a line end; what is outside the text is padding.
    assert blocks.tokens.tolist() == [[2, 0, 0], [10, 11, 12], [13, 14, 15]]
    assert blocks.labels.tolist() == [[10, 0, 0], [11, 12, 13], [14, 15, 16]]
    last = cut_blocks(stream, np.array([6]), block_tokens=3)
    assert (last.tokens.tolist(), last.labels.tolist()) == ([[15]], [[16]])
