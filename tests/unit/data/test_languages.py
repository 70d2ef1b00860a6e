from pathlib import Path

import pytest

from lite_nlp.data.languages import language_code, languages_in_name, languages_of_names, speaks


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("en", "en"), ("EN", "en"), ("en-US", "en"), ("pt_BR", "pt"), ("zh-Hans", "zh"),
        # Terminological and bibliographical codes of ISO 639-2, and members of a macrolanguage.
        ("fra", "fr"), ("fre", "fr"), ("deu", "de"), ("ger", "de"), ("chi", "zh"), ("cmn", "zh"), ("nob", "nb"),
        # Without a code of two letters.
        ("ceb", "ceb"),
        ("xx", None), ("txt", None), ("tsv", None), ("article", None), ("e1", None), ("", None), ("en-", None),
    ],
)  # fmt: skip
def test_codes_become_those_of_two_letters(tag, code):
    assert language_code(tag) == code


@pytest.mark.parametrize(
    ("tag", "wanted", "is_spoken"),
    [
        ("en", "en", True), ("en-US", "en", True), ("EN_us", "eng", True), ("en-US", "en-us", True),
        ("en-US", "en-GB", False), ("en", "en-US", False), ("fr", "en", False),
        ("zh-Hant", "zh", True), ("zh-Hant", "zh-Hans", False), ("zh-Hans-CN", "zh-Hans", True),
        ("modern", "Modern", True), ("modern", "original", False),
    ],
)  # fmt: skip
def test_a_language_includes_its_regions(tag, wanted, is_spoken):
    assert speaks(tag, wanted) is is_spoken


@pytest.mark.parametrize(
    ("src", "tgt", "languages"),
    [
        ("train.en", "train.de", ("en", "de")),
        ("data/train.eng.gz", "data/train.deu.zst", ("en", "de")),
        ("train.en.txt", "train.fr.txt", ("en", "fr")),
        ("train_en.txt", "train_fr.txt", ("en", "fr")),
        ("en.txt", "fra.txt", ("en", "fr")),
        ("Tatoeba.en-fr.en", "Tatoeba.en-fr.fr", ("en", "fr")),
        ("old.en", "my-new.de", ("en", "de")),
        ("train.en_US", "train.fr", ("en", "fr")),
        ("news.article", "news.summary", None),
        ("train.src", "train.tgt", None),
        ("a.txt", "b.txt", None),
        ("a.txt", "b.tsv", None),
        ("one.en", "two.en", None),
    ],
)
def test_languages_of_two_aligned_files(src, tgt, languages):
    assert languages_of_names(Path(src), Path(tgt)) == languages


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("fra-eng.tsv", ("fr", "en")),
        ("en_fr.tmx", ("en", "fr")),
        ("corpus.fr-en.tsv.gz", ("fr", "en")),
        ("my-data.en-fr.jsonl.zst", ("en", "fr")),
        ("en-US_fr-FR.tmx", ("en", "fr")),
        ("fr_FR-en_US.tmx", ("fr", "en")),
        ("ceb-eng.tsv", ("ceb", "en")),
        ("fra.txt", ("fr",)),
        ("train.fr.tsv", ("fr",)),
        ("pairs.tsv", ()),
        ("my_corpus.tsv", ()),
        ("to-do.tsv", ()),
        ("all.tsv", ()),
    ],
)
def test_languages_in_the_name_of_a_table(name, languages):
    assert languages_in_name(Path("some/en-de/folder") / name) == languages
