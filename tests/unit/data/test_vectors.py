"""Pretrained word vectors: which token gets which."""

import gzip

import numpy as np
import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vectors import read_vectors

WORDS = ("the", "cat", "sat", "Paris", "mat")
TEXT = ["the cat sat on the mat in Paris", "Paris the cat", "the mat sat"] * 20


@pytest.fixture(scope="module")
def tokenizer():
    trained = Tokenizer.train(TEXT, vocab_size=320)
    assert all(len(trained.encode(word)) == 1 for word in WORDS)
    assert len(trained.encode("zebra")) > 1
    return trained


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def id_of(tokenizer, word):
    (token,) = tokenizer.encode(word)
    return token


def test_words_get_their_vectors_and_the_rest_random_ones(tokenizer, tmp_path):
    path = written(tmp_path / "v.txt", "the 1 2 3\nzebra 7 7 7\ncat -1 0.5 2e-1\nthe 9 9 9\nparis 4 5 6\n. . . 8 8 8\n")
    vectors = read_vectors(path, tokenizer, dim=3, seed=1)
    assert vectors.table.shape == (tokenizer.vocab_size, 3)
    assert vectors.table.dtype == np.float32
    # The first of two lines with a word counts, as files are by frequency; "Paris" is there in lower case only.
    expected = {"the": [1, 2, 3], "cat": [-1, 0.5, 0.2], "Paris": [4, 5, 6]}
    for word, vector in expected.items():
        assert vectors.table[id_of(tokenizer, word)] == pytest.approx(vector)
    assert set(np.flatnonzero(vectors.found)) == {id_of(tokenizer, word) for word in expected}
    assert not vectors.table[0].any()
    random = vectors.table[~vectors.found][1:]
    assert np.unique(random).size == random.size
    assert random.std() == pytest.approx(vectors.table[vectors.found].std(), rel=0.1)
    assert np.array_equal(read_vectors(path, tokenizer, dim=3, seed=1).table, vectors.table)
    assert not np.array_equal(read_vectors(path, tokenizer, dim=3, seed=2).table, vectors.table)


def test_a_head_of_two_counts_and_gzip_are_understood(tokenizer, tmp_path):
    with gzip.open(tmp_path / "v.vec.gz", "wt") as file:
        file.write("2 2\nthe 1 2 \ncat 3 4 \n")
    vectors = read_vectors(tmp_path / "v.vec.gz", tokenizer, dim=2, seed=1)
    assert vectors.table[id_of(tokenizer, "cat")].tolist() == [3.0, 4.0]
    assert vectors.found.sum() == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2 3\ncat 1 2\n", r"expected a word and 3 numbers .* on each line, found 2 numbers on line 2"),
        ("the 1 2 x\n", "expected 3 numbers on line 1, found other"),
        ("the 1 2 nan\n", "expected finite numbers on line 1"),
        ("zebra 1 2 3\n", "expected vectors of words that the vocabulary has as tokens, found none"),
    ],
)
def test_files_that_are_none(tokenizer, tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_vectors(written(tmp_path / "v.txt", text), tokenizer, dim=3, seed=1)


def test_files_that_cannot_be_read(tokenizer, tmp_path):
    with pytest.raises(DataError, match=r"missing\.txt: expected a readable text file, found none"):
        read_vectors(tmp_path / "missing.txt", tokenizer, dim=3, seed=1)
    (tmp_path / "latin.txt").write_bytes(b"the 1 2 3\ncaf\xe9 1 2 3\n")
    with pytest.raises(DataError, match="expected UTF-8 text, found other bytes on line 2"):
        read_vectors(tmp_path / "latin.txt", tokenizer, dim=3, seed=1)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"the 1 2 3\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"cut\.gz: expected a whole gzip file, found it damaged after line \d+"):
        read_vectors(tmp_path / "cut.gz", tokenizer, dim=3, seed=1)
    # An impossible block type in the first bytes of the stream is an error of zlib's own kind.
    head = gzip.compress(b"the 1 2 3\n")[:10]
    (tmp_path / "damaged.gz").write_bytes(head + b"\xff" * 20)
    with pytest.raises(DataError, match=r"damaged\.gz: expected a whole gzip file, found it damaged after line 0"):
        read_vectors(tmp_path / "damaged.gz", tokenizer, dim=3, seed=1)
    (tmp_path / "one-line.txt").write_text("the " + "1 " * 200_000)
    with pytest.raises(DataError, match="expected a word and 3 numbers on each line, found more on line 1"):
        read_vectors(tmp_path / "one-line.txt", tokenizer, dim=3, seed=1)


def test_a_byte_order_mark_is_no_part_of_the_first_word(tokenizer, tmp_path):
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbfthe 1 2 3\r\ncat 4 5 6\r\n")
    vectors = read_vectors(tmp_path / "v.txt", tokenizer, dim=3, seed=1)
    assert vectors.table[id_of(tokenizer, "the")].tolist() == [1.0, 2.0, 3.0]
    assert vectors.found.sum() == 2
