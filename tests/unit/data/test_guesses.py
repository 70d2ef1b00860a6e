from pathlib import Path

import pytest

from lite_nlp.data import identify
from lite_nlp.data.identify import look_of, more_like, supported
from lite_nlp.data.pairs.guesses import check_look, table_languages

PAIRS = [
    ("Where is the station?", "Où est la gare ?"),
    ("I would like a coffee, please.", "Je voudrais un café, s'il vous plaît."),
    ("My sister lives in Lyon with her two children.", "Ma sœur habite à Lyon avec ses deux enfants."),
    ("It is raining again, take your umbrella.", "Il pleut encore, prends ton parapluie."),
    ("We had dinner by the river yesterday evening.", "Nous avons dîné au bord de la rivière hier soir."),
    ("He forgot his keys at the office.", "Il a oublié ses clés au bureau."),
    ("They are waiting for the last bus.", "Ils attendent le dernier bus."),
]
SWAPPED = [(tgt, src) for src, tgt in PAIRS]
UNKNOWN = (None, None)


def guess(name, sample, given=UNKNOWN):
    said = []
    return table_languages(Path(name), sample, given, said.append), said


@pytest.mark.parametrize("name", ["fra-eng.tsv", "eng-fra.tsv", "fra.txt", "eng.txt"])
def test_the_text_decides_which_side_is_which(name):
    for sample, languages in ((PAIRS, ("en", "fr")), (SWAPPED, ("fr", "en"))):
        found, said = guess(name, sample)
        assert found == languages
        assert said == [
            f"languages: {found[0]} -> {found[1]}, by name and text of {name} (else --src-lang, --tgt-lang)"
        ]


def test_the_name_decides_where_the_text_is_too_short():
    assert guess("fra-eng.tsv", PAIRS[:1])[0] == ("fr", "en")


def test_options_decide_before_name_and_text():
    assert guess("fra-eng.tsv", PAIRS, ("de", "es")) == (("de", "es"), [])
    assert guess("fra-eng.tsv", PAIRS, ("fr", None))[0] == ("fr", "en")
    assert guess("fra-eng.tsv", PAIRS, (None, "en"))[0] == ("fr", "en")


def test_a_name_without_languages_leaves_them_open_and_says_what_to_give():
    assert guess("pairs.tsv", PAIRS) == (
        ("src", "tgt"),
        ["warning: languages: not named by pairs.tsv: give them, --src-lang en --tgt-lang fr by the look of the text"],
    )
    found, said = guess("pairs.tsv", PAIRS[:1], (None, "it"))
    assert found == ("src", "it")
    assert said == ["warning: languages: not named by pairs.tsv: give them, as in --src-lang en --tgt-lang fr"]
    # A table without a usable line has another trouble.
    assert guess("pairs.tsv", [])[1] == []


@pytest.mark.parametrize(
    ("sample", "languages", "said"),
    [
        (PAIRS, ("en", "fr"), None),
        (PAIRS, ("src", "tgt"), None),
        (PAIRS[:1], ("fr", "en"), None),
        (SWAPPED, ("en", "fr"), "the source looks like fr and the target like en: swap the files, or"),
        (PAIRS, ("de", "fr"), "expected text in de, found it to look like en: check --src-lang"),
        (PAIRS, ("en", "ja"), "expected text in ja, found it to look like fr: check --tgt-lang"),
    ],
)
def test_doubts_about_the_languages_are_said(sample, languages, said):
    heard = []
    check_look(sample, languages, heard.append)
    assert [said in remark for remark in heard] == ([] if said is None else [True])


def test_without_room_for_the_model_there_are_no_doubts(monkeypatch):
    identify._identifier.cache_clear()
    try:
        with monkeypatch.context() as patch:
            from py3langid.langid import LanguageIdentifier

            def full(path):
                raise OSError("No space left on device")

            patch.setattr(LanguageIdentifier, "from_model_file", full)
            text = " ".join(src for src, _ in PAIRS)
            assert look_of(text) == []
            assert supported("en") is False
            assert more_like((text, text), ("en", "fr")) is None
    finally:
        identify._identifier.cache_clear()
