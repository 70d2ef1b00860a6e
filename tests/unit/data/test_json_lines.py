import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.data.pairs.corpus import one_line
from lite_nlp.data.pairs.json_lines import JsonLinesFile, find_keys

UNKNOWN = (None, None)


def write(tmp_path, *objects):
    path = tmp_path / "a.jsonl"
    lines = (item if isinstance(item, str) else json.dumps(item) for item in objects)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
    return path


def read(path, keys):
    bad = []
    return [pair for _, pair in JsonLinesFile(path, keys).read(bad.append)], [(line.line, line.reason) for line in bad]


@pytest.mark.parametrize(
    ("item", "languages", "keys"),
    [
        ({"src": "Yes.", "tgt": "Oui.", "id": "7"}, UNKNOWN, ("src", "tgt")),
        ({"target": "Oui.", "source": "Yes."}, UNKNOWN, ("source", "target")),
        ({"en": "Yes.", "fr": "Oui."}, UNKNOWN, ("en", "fr")),
        ({"fr": "Oui.", "en": "Yes."}, UNKNOWN, ("fr", "en")),
        ({"fr": "Oui.", "en": "Yes."}, ("en", None), ("en", "fr")),
        ({"fr": "Oui.", "en": "Yes."}, (None, "fr"), ("en", "fr")),
        ({"eng": "Yes.", "fr_FR": "Oui."}, ("fr", "en"), ("fr_FR", "eng")),
        # The identifier beside a translation is no text in Indonesian.
        ({"id": "7", "translation": {"en": "Yes.", "fr": "Oui."}}, UNKNOWN, ("en", "fr")),
        ({"id": "7", "en": "Yes.", "fr": "Oui."}, UNKNOWN, ("en", "fr")),
        ({"id": "Ya.", "en": "Yes."}, UNKNOWN, ("id", "en")),
        ({"en": "Yes.", "fr": "Oui.", "de": "Ja."}, ("de", "fr"), ("de", "fr")),
    ],
)
def test_keys_are_found(tmp_path, item, languages, keys):
    path = write(tmp_path, item)
    assert find_keys(path, languages) == keys
    sides = item.get("translation", item)
    assert read(path, keys) == ([(sides[keys[0]], sides[keys[1]])], [])


def test_the_first_object_may_lack_a_side(tmp_path):
    objects = [{"en": "Yes.", "fr": None}, {"en": None, "fr": "Non."}, {"en": "No.", "fr": "Non."}]
    path = write(tmp_path, *objects)
    assert find_keys(path, UNKNOWN) == ("en", "fr")
    assert read(path, ("en", "fr")) == ([("No.", "Non.")], [(1, "missing_key"), (2, "missing_key")])
    nested = write(tmp_path, *({"id": "7", "translation": item} for item in objects))
    assert find_keys(nested, UNKNOWN) == ("en", "fr")


@pytest.mark.parametrize(
    ("item", "languages", "message"),
    [
        ({"question": "Yes?", "answer": "No."}, UNKNOWN, "found question, answer: name them with --columns"),
        ({"en": "Yes.", "fr": "Oui.", "de": "Ja."}, UNKNOWN, "found en, fr, de: name them"),
        ({"en": "Yes.", "fr": "Oui."}, ("es", "fr"), "found en, fr: name them"),
        ({"n": 1}, UNKNOWN, "found no key with text: name them"),
        ("Go.\tVa !", UNKNOWN, r"expected a JSON object on each line, found Go\.\\tVa !"),
        ('[{"en": "Yes."}]', UNKNOWN, "of which each element must be on a line of its own"),
    ],
)
def test_keys_that_are_not_clear_are_refused(tmp_path, item, languages, message):
    with pytest.raises(DataError, match=message):
        find_keys(write(tmp_path, item), languages)


def test_bad_lines_are_reported_by_number_and_the_rest_is_kept(tmp_path):
    path = write(
        tmp_path,
        {"en": "Yes.", "fr": "Oui."},
        "{",
        '["en", "fr"]',
        {"en": "Yes."},
        {"en": "Yes.", "fr": None},
        {"en": "Yes.", "fr": " "},
        {"en": "Yes.", "fr": "half \ud83d"},
        {"en": "x" * 2_001, "fr": "y" * 2_001},
        {"en": "Yes.", "fr": "Oui.", "rest": "x" * 200_000},
        "[" * 20_000,
        {"en": "Two\r\n  lines ", "fr": "deux\nlignes"},
    )
    assert read(path, ("en", "fr")) == (
        [("Yes.", "Oui."), ("Two lines", "deux lignes")],
        [
            (2, "invalid_json"), (3, "invalid_json"), (4, "missing_key"), (5, "missing_key"), (6, "empty_side"),
            (7, "invalid_utf8"), (8, "too_long"), (9, "too_long"), (10, "invalid_json"),
        ],
    )  # fmt: skip


def test_advice_lists_the_keys_that_there_are(tmp_path):
    path = write(tmp_path, "{", {"en": "Yes.", "fr": "Oui.", "n": 1}, {"en": "No.", "de": None, "tags": []})
    source = JsonLinesFile(path, ("en", "de"))
    few = "few objects have text in both"
    named = "other keys with text are fr; name two keys with --columns SRC_KEY,TGT_KEY"
    assert source.advise("missing_key") == f"{few} en and de: {named}"
    alone = JsonLinesFile(path, ("en", "fr")).advise("missing_key")
    assert alone == f"{few} en and fr: in the others one of them is null or missing, and no other key has text"
    assert "one JSON object on each line" in source.advise("invalid_json")


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), st.booleans())
def test_texts_come_back_in_one_line(tmp_path, pairs, nested):
    objects = [{"src": src, "tgt": tgt} for src, tgt in pairs]
    path = write(tmp_path, *({"translation": item} if nested else item for item in objects))
    found, bad = read(path, ("src", "tgt"))
    wanted = [(one_line(src).strip(), one_line(tgt).strip()) for src, tgt in pairs]
    assert found == [pair for pair in wanted if all(pair)]
    assert len(found) + len(bad) == len(pairs)
    assert all("\n" not in side and "\r" not in side for pair in found for side in pair)


@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path, content):
    path = tmp_path / "any.jsonl"
    path.write_bytes(b'{"src": "Yes.", "tgt": "Oui."}\n' + content)
    found, bad = read(path, ("src", "tgt"))
    assert len(found) == 1
    assert len(bad) == content.removesuffix(b"\n").count(b"\n") + 1
