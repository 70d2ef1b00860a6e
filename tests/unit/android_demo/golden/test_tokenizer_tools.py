"""The Kotlin tokenizer's Unicode tables, and the digests of corpora it is held against."""

import gzip
import hashlib
import json
import re
import sys

import pytest
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

pytest.importorskip("tools", reason="the Android demo is not here")

from tools.golden import corpus_digests, unicode_tables
from tools.golden.tokenizers import shipped_tokenizer

#: All tables have much below this, and asking for it takes a second.
STOP = 0x3000


def table(name):
    content = unicode_tables.TABLES.read_text(encoding="utf-8")
    literal = re.search(rf"const val {name}: String =\n((?: +\".*\n)+)", content).group(1)
    return [int(word, 36) for word in "".join(re.findall(r'"(.*)"', literal)).split()]


def members(name):
    codes = set()
    end = 0
    for gap, length in zip(*[iter(table(name))] * 2, strict=True):
        codes.update(range(end + gap, end + gap + length))
        end += gap + length
    return codes


@pytest.mark.parametrize(("name", "pattern"), [("LETTERS", r"\p{L}"), ("NUMBERS", r"\p{N}"), ("SPACES", r"\s")])
def test_classes_are_those_of_the_regular_expressions(name, pattern):
    split = pre_tokenizers.Split(Regex(pattern), behavior="removed")
    found = {code for code in range(STOP) if not split.pre_tokenize_str(chr(code))}
    assert {code for code in members(name) if code < STOP} == found


def test_lower_case_is_that_of_the_library():
    found = {}
    end = 0
    for gap, count, step, shift in zip(*[iter(table("LOWERCASE"))] * 4, strict=True):
        codes = range(end + gap, end + gap + count * step, step)
        found.update((code, chr(code + shift)) for code in codes)
        end = codes[-1] + 1
    assert table("LOWERCASE_TO_MANY") == [0x130, 2, ord("i"), 0x307]
    found[0x130] = "i\u0307"
    lowercase = normalizers.Lowercase()
    for code in range(STOP):
        assert found.get(code, chr(code)) == lowercase.normalize_str(chr(code)), hex(code)


def test_what_normalization_leaves_alone_is_in_no_table():
    active = members("NORMALIZED")
    assert {0x41, 0xC5, 0x30A, 0x1100, 0x11A8, 0xAC00, 0xFB01} <= active
    assert not active & {0x20, 0x30, 0x1F600}
    form = normalizers.NFKC()
    passive = [chr(code) for code in range(STOP) if code not in active]
    # Whatever is beside them, they stay: no mark moves past them, no letter takes them in.
    text = "".join(f"a\u0323\u0301{character}\u0323\u0302" for character in passive)
    expected = "".join(f"\u1ea1\u0301{character}\u0323\u0302" for character in passive)
    assert form.normalize_str(text) == expected


def test_the_versions_are_named():
    content = unicode_tables.TABLES.read_text(encoding="utf-8")
    assert f"`tokenizers` {tokenizers.__version__} " in content
    assert re.findall(r"Unicode (\d+\.\d)\.", content) == ["16.0", "16.0", "17.0", "9.0"]


def test_digests_are_of_ids_line_by_line(tmp_path, monkeypatch):
    folder = tmp_path / "corpora"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfHello there.\r\n\n\xc3\xbcber"))
    (folder / "b.md").write_text("no corpus", encoding="utf-8")
    out = tmp_path / "digests.json"
    monkeypatch.setattr(sys, "argv", ["corpus_digests", str(folder), "--out", str(out)])
    corpus_digests.main()
    shipped, lower = json.loads(out.read_text(encoding="ascii"))
    rows = [shipped_tokenizer().encode(line) for line in ("Hello there.", "", "\u00fcber")]
    text = "".join(" ".join(str(token) for token in ids) + "\n" for ids in rows)
    assert shipped == {
        "file": "inner/a.gz",
        "tokenizer": "shipped",
        "lines": 3,
        "tokens": sum(map(len, rows)),
        "ids_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    assert lower["tokenizer"] == "nfkc-lower"
    assert lower["ids_sha256"] != shipped["ids_sha256"]


def test_a_folder_without_text_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["corpus_digests", str(tmp_path), "--out", str(tmp_path / "digests.json")])
    with pytest.raises(SystemExit, match="expected text files"):
        corpus_digests.main()
    assert not (tmp_path / "digests.json").exists()
