from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.data.pairs import tmx
from lite_nlp.data.pairs.guesses import tmx_languages
from lite_nlp.data.pairs.tmx import TmxFile, survey_languages

#: What XML can hold, line breaks aside, which become spaces.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff\u2028\u2029"),
    min_size=1,
    max_size=20,
).filter(str.strip)


def unit(*variants, attribute="xml:lang"):
    inner = "".join(f"<tuv {attribute}={quoteattr(tag)}><seg>{text}</seg></tuv>\n" for tag, text in variants)
    return f"<tu>{inner}</tu>\n"


def memory(tmp_path, *units, name="a.tmx", header='srclang="*all*"', prolog="", encoding="utf-8"):
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n{prolog}<tmx version="1.4"><header {header}/><body>\n'
    path = tmp_path / name
    path.write_bytes((text + "".join(units) + "</body></tmx>").encode(encoding))
    return path


def read(path, src="en", tgt="fr"):
    bad = []
    return [pair for _, pair in TmxFile(path, (src, tgt)).read(bad.append)], [(line.line, line.reason) for line in bad]


TWO = [unit(("en-US", "Yes."), ("fr-FR", "Oui.")), unit(("fr-FR", "Non."), ("en-GB", "No."))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_variants_are_matched_by_language_whatever_the_region_order_and_encoding(tmp_path, encoding):
    path = memory(tmp_path, *TWO, encoding=encoding)
    assert read(path) == ([("Yes.", "Oui."), ("No.", "Non.")], [])
    assert read(path, "fr", "en") == ([("Oui.", "Yes."), ("Non.", "No.")], [])
    assert read(path, "en-US", "fr") == ([("Yes.", "Oui.")], [(6, "missing_language")])


def test_the_exact_tag_comes_before_others_of_the_language(tmp_path):
    path = memory(tmp_path, unit(("en-GB", "lorry"), ("EN", "truck"), ("FR", "camion"), ("fr", "poids lourd")))
    assert read(path) == ([("truck", "camion")], [])
    assert read(path, "en-GB") == ([("lorry", "camion")], [])


def test_formatting_codes_are_left_out_and_highlights_kept(tmp_path):
    english = 'Press <bpt i="1">&lt;b></bpt><hi>OK</hi><ept i="1">&lt;/b></ept> &amp; <ph>{1}<sub>x</sub></ph>go.'
    path = memory(tmp_path, unit(("en", english), ("fr", "Appuyez\n   sur OK\n")))
    assert read(path) == ([("Press OK & go.", "Appuyez sur OK")], [])


def test_old_files_name_the_language_without_a_prefix(tmp_path):
    path = memory(tmp_path, unit(("EN", "Yes."), ("FR", "Oui."), attribute="lang"))
    assert read(path) == ([("Yes.", "Oui.")], [])


def test_bad_units_are_reported_by_the_line_they_start_on(tmp_path):
    units = [
        unit(("en", "Yes."), ("fr", " ")),
        unit(("en", "Yes."), ("de", "Ja.")),
        unit(("en", "x" * 2_001), ("fr", "y")),
        unit(("en", "short"), ("fr", "much longer " * 10)),
        unit(("en", "Yes."), ("fr", "Oui.")),
    ]
    assert read(memory(tmp_path, *units)) == (
        [("Yes.", "Oui.")],
        [(3, "empty_side"), (6, "missing_language"), (9, "too_long"), (12, "length_ratio")],
    )


def test_a_document_type_is_accepted_and_its_file_is_not_read(tmp_path):
    (tmp_path / "tmx14.dtd").write_text('<!ENTITY oui "Oui.">')
    for prolog in ('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', f'<!DOCTYPE tmx SYSTEM "{tmp_path}/tmx14.dtd">'):
        assert read(memory(tmp_path, *TWO, prolog=prolog))[0] == [("Yes.", "Oui."), ("No.", "Non.")]
        path = memory(tmp_path, unit(("en", "Yes."), ("fr", "a &oui; b")), prolog=prolog)
        # What the DTD would define is not there; the text around it is.
        assert read(path)[0] == [("Yes.", "a  b")]


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;',
    ],
)
def test_entities_are_refused(tmp_path, declaration):
    path = memory(tmp_path, unit(("en", "&a;"), ("fr", "x")), prolog=f"<!DOCTYPE tmx [{declaration}]>")
    with pytest.raises(DataError, match=r"a\.tmx: expected a TMX file without entities of its own, found the entity a"):
        read(path)


def test_what_is_no_whole_tmx_file_is_refused(tmp_path):
    path = memory(tmp_path, *TWO)
    whole = path.read_bytes()
    for content, message in (
        (b"", r"a\.tmx: expected a TMX file, found an empty file"),
        (b"Go.\tVa !\n", r"a\.tmx: expected a TMX file, found no XML: syntax error"),
        (b"<html><body/></html>", r"a\.tmx: expected a TMX file, found the root element html"),
        (b"<tmx><body></body></tmx>", r"a\.tmx: expected translation units, found none"),
        (whole[:-13], r"a\.tmx: expected a whole TMX file, found it damaged at line 9: no element found"),
        (
            whole.replace(b"utf-8", b"utf-9"),
            r"a\.tmx: expected a TMX file in an encoding that can be read, found unknown",
        ),
        (whole.replace(b"Oui", b"\x01"), r"found it damaged at line 4: not well-formed"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read(path)


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.integers(1, 60))
def test_texts_come_back_however_the_file_is_divided(tmp_path, pairs, block):
    path = memory(tmp_path, *(unit(("en", escape(src)), ("fr", escape(tgt))) for src, tgt in pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmx, "_BLOCK", block)
        assert read(path) == ([(src.strip(), tgt.strip()) for src, tgt in pairs], [])


@settings(max_examples=50, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path, data):
    content = bytearray(memory(tmp_path, *TWO).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "b.tmx").write_bytes(content)
    try:
        pairs, bad = read(tmp_path / "b.tmx")
    except DataError:
        return
    assert len(pairs) + len(bad) <= len(TWO)


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = memory(tmp_path, *TWO * 5_000)
    reading = TmxFile(path, ("en", "fr")).read(lambda bad: None)
    parsed = tmx._Units(100)
    waiting = max(len(parsed.done) for _ in tmx._read_units(path, parsed))
    # A block holds some 500 of these units.
    assert waiting < 1_000
    assert sum(1 for _ in reading) == 10_000


def test_the_languages_of_a_file(tmp_path):
    path = memory(tmp_path, *TWO, header='srclang="fr-FR"')
    assert survey_languages(path).source == "fr-FR"
    assert sorted(survey_languages(path).tags) == ["en-GB", "en-US", "fr-FR"]
    # The header says which is the source, the name knows better, options best.
    assert tmx_languages(path, (None, None)) == ("fr", "en")
    assert tmx_languages(memory(tmp_path, *TWO, name="en_fr.tmx", header='srclang="fr"'), (None, None)) == ("en", "fr")
    assert tmx_languages(path, ("en", None)) == ("en", "fr")
    assert tmx_languages(path, (None, "fr")) == ("en", "fr")
    assert tmx_languages(path, ("en-US", None)) == ("en-US", "fr")
    # Without either, the order in which the variants come.
    assert tmx_languages(memory(tmp_path, *TWO), (None, None)) == ("en", "fr")


def test_a_language_that_comes_late_is_found(tmp_path):
    path = memory(tmp_path, *TWO * 600, unit(("en", "Yes."), ("it", "Sì.")), header='srclang="en"')
    assert tmx_languages(path, (None, None)) == ("en", "fr")
    assert tmx_languages(path, (None, "it")) == ("en", "it")
    assert read(path, "en", "it")[0] == [("Yes.", "Sì.")]


def test_languages_that_are_not_there_or_not_clear_are_refused(tmp_path):
    path = memory(tmp_path, *TWO, unit(("en", "Yes."), ("de", "Ja.")))
    for given_, message in (
        ((None, None), r"expected two languages, found en, fr, de: choose with --src-lang and --tgt-lang"),
        (("en", None), r"expected two languages, found"),
        (("es", "fr"), r"a\.tmx: expected units in es \(--src-lang\), found .*de"),
        (("fr", "en-AU"), r"a\.tmx: expected units in en-AU \(--tgt-lang\), found .*en-US"),
    ):
        with pytest.raises(DataError, match=message):
            tmx_languages(path, given_)
    assert tmx_languages(path, ("de", "en")) == ("de", "en")
    assert "give two of" in TmxFile(path, ("de", "fr")).advise("missing_language")
