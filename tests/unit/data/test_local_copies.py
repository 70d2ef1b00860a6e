"""Copies of published corpora that are there already, and which way round a corpus is read."""

import gzip

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.corpora import corpus_languages, local_examples, local_pairs, local_text
from lite_nlp.data.text.readers import TextFile
from tests.unit.data.published import examples_of, lines, pairs_of


def test_local_copies_of_examples_and_texts(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text(f"yes\t{split} one\t{split} two\n")
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"text\n"))
    corpus = local_examples(CORPORA["snli"], tmp_path)
    assert examples_of(corpus, "test") == [("yes", "test one", "test two")]
    assert local_text(CORPORA["tinyshakespeare"], tmp_path).splits == {"train": [TextFile(tmp_path / "train.txt.gz")]}
    with pytest.raises(DataError, match=r"expected a copy of wikitext-103, found no valid\.txt\[\.gz\], test\.txt"):
        local_text(CORPORA["wikitext-103"], tmp_path)


def test_local_copy_with_and_without_gzip(tmp_path):
    for stem in ("train", "val", "test2016"):
        (tmp_path / f"{stem}.en.gz").write_bytes(gzip.compress(lines("en", stem, 2)))
        (tmp_path / f"{stem}.de").write_bytes(lines("de", stem, 2))
    corpus = local_pairs(CORPORA["multi30k"], tmp_path, ("de", "en"))
    assert pairs_of(corpus, "valid") == [("val de 0", "val en 0"), ("val de 1", "val en 1")]
    assert corpus.rule is None


def test_local_copy_names_all_that_is_missing(tmp_path):
    (tmp_path / "train.en").write_bytes(b"one\n")
    with pytest.raises(DataError) as raised:
        local_pairs(CORPORA["tatoeba"], tmp_path, ("en", "de"))
    assert str(raised.value) == (
        f"{tmp_path}: expected a copy of tatoeba, found no train.de[.gz], valid.en[.gz], valid.de[.gz], "
        "test.en[.gz], test.de[.gz]"
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None), ("de", "en")),
        (("en", None), ("en", "de")),
        ((None, "de"), ("en", "de")),
        (("de", "en"), ("de", "en")),
    ],
)
def test_languages_follow_from_either(asked, expected):
    assert corpus_languages(CORPORA["iwslt14"], *asked) == expected


@pytest.mark.parametrize("asked", [("fr", None), ("en", "en"), ("de", "fr")])
def test_other_languages_are_refused(asked):
    with pytest.raises(DataError, match="corpus iwslt14: expected the languages de and en, found"):
        corpus_languages(CORPORA["iwslt14"], *asked)
