import gzip
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.data.lines import read_lines
from lite_nlp.data.pairs.corpus import (
    MAX_CHARACTERS,
    MAX_DOCUMENT_CHARACTERS,
    MAX_LENGTH_RATIO,
    RATIO_FREE_CHARACTERS,
)
from lite_nlp.data.pairs.readers import TextFiles, TsvFile
from lite_nlp.data.sources import BadLine, ignore_bad_line


def read(source):
    bad = []
    return [pair for _, pair in source.read(bad.append)], bad


def text_files(tmp_path, src, tgt, **options):
    (tmp_path / "a.en").write_bytes(src)
    (tmp_path / "a.de").write_bytes(tgt)
    return TextFiles(tmp_path / "a.en", tmp_path / "a.de", **options)


def tsv(tmp_path, content, **options):
    (tmp_path / "a.tsv").write_bytes(content)
    return TsvFile(tmp_path / "a.tsv", **options)


def reasons(bad):
    return [(line.line, line.reason) for line in bad]


def test_text_files_belong_together_by_number(tmp_path):
    pairs, bad = read(text_files(tmp_path, b"one\ntwo\n", "eins\nzwölf".encode()))
    assert pairs == [("one", "eins"), ("two", "zwölf")]
    assert bad == []


def test_gzip_is_known_by_its_content(tmp_path):
    source = text_files(tmp_path, gzip.compress(b"one\n"), b"eins\n")
    assert read(source) == ([("one", "eins")], [])


def test_line_ends_mark_and_outer_spaces_are_not_text(tmp_path):
    source = tsv(tmp_path, b"\xef\xbb\xbf one \t eins\r\ntwo\tzwei\n")
    assert read(source) == ([("one", "eins"), ("two", "zwei")], [])


def test_only_a_newline_ends_a_line(tmp_path):
    inner = "a\x0bb\x0cc\x85d\u2028e\rf  g"
    source = tsv(tmp_path, f"{inner}\t{inner}\n".encode())
    assert read(source) == ([(inner, inner)], [])


def test_bad_lines_are_reported_by_number_and_the_rest_is_kept(tmp_path):
    lines = [
        b"one\teins",
        b"no tab here",
        b"\tempty source",
        b"empty target\t  ",
        b"two\tzwei\tand more",
        b"caf\xe9\tlatin 1",
        b"short\t" + b"much longer " * 10,
        b"x" * (MAX_CHARACTERS + 1) + b"\t" + b"x" * MAX_CHARACTERS,
        b"",
        b"y" * 50_000 + b"\ty",
        b"last\tletzte",
    ]
    pairs, bad = read(tsv(tmp_path, b"\n".join(lines)))
    assert pairs == [("one", "eins"), ("last", "letzte")]
    assert reasons(bad) == [
        (2, "missing_tab"),
        (3, "empty_side"),
        (4, "empty_side"),
        (5, "extra_tab"),
        (6, "invalid_utf8"),
        (7, "length_ratio"),
        (8, "too_long"),
        (9, "missing_tab"),
        (10, "too_long"),
    ]
    assert bad[0] == BadLine(str(tmp_path / "a.tsv"), 2, "missing_tab", b"no tab here")


def test_bad_lines_of_two_files_keep_them_aligned(tmp_path):
    src = b"one\n\nthree\nfo\xffur\nfive\n" + b"x" * 40_000 + b"\nseven\n"
    tgt = b"eins\nzwei\n \nvier\nf\xc3\xbcnf\nsechs\nsieben\n"
    pairs, bad = read(text_files(tmp_path, src, tgt))
    assert pairs == [("one", "eins"), ("five", "fünf"), ("seven", "sieben")]
    assert reasons(bad) == [(2, "empty_side"), (3, "empty_side"), (4, "invalid_utf8"), (6, "too_long")]


@pytest.mark.parametrize(
    ("src", "tgt", "kept"),
    [
        ("a", "b" * RATIO_FREE_CHARACTERS, True),
        ("a", "b" * (RATIO_FREE_CHARACTERS + 1), False),
        ("a" * 10, "b" * (10 * MAX_LENGTH_RATIO), True),
        ("a" * 10, "b" * (10 * MAX_LENGTH_RATIO + 1), False),
        ("b" * (10 * MAX_LENGTH_RATIO + 1), "a" * 10, False),
        ("ä" * MAX_CHARACTERS, "ö" * MAX_CHARACTERS, True),
        ("ä" * (MAX_CHARACTERS + 1), "ö" * MAX_CHARACTERS, False),
    ],
)
def test_bounds_are_in_characters(tmp_path, src, tgt, kept):
    pairs, bad = read(tsv(tmp_path, f"{src}\t{tgt}\n".encode()))
    assert (len(pairs), len(bad)) == ((1, 0) if kept else (0, 1))


def test_published_test_sets_keep_odd_ratios(tmp_path):
    source = text_files(tmp_path, b"a\n", b"b" * 100 + b"\n", check_ratio=False)
    assert read(source) == ([("a", "b" * 100)], [])


@pytest.mark.parametrize(
    ("columns", "pairs", "missing"),
    [
        ((1, 2), [("one", "eins"), ("two", "zwei")], []),
        ((2, 1), [("eins", "one"), ("zwei", "two")], []),
        ((3, 1), [("by whom", "one")], [(2, "missing_tab")]),
    ],
)
def test_tsv_with_more_columns_in_any_order(tmp_path, columns, pairs, missing):
    found, bad = read(tsv(tmp_path, b"one\teins\tby whom\ntwo\tzwei\n", columns=columns))
    assert found == pairs
    assert reasons(bad) == missing


@pytest.mark.parametrize(("src", "tgt"), [(3, 1), (1, 3), (2, 1), (1, 2)])
def test_unequal_files_name_both_counts(tmp_path, src, tgt):
    source = text_files(tmp_path, b"x\n" * src, b"y\n" * tgt)
    with pytest.raises(DataError, match=rf"a\.en and .*a\.de: expected as many lines in both, found {src} and {tgt}"):
        read(source)


def test_empty_lines_at_the_end_count_as_lines(tmp_path):
    with pytest.raises(DataError, match="found 2 and 1"):
        read(text_files(tmp_path, b"x\n\n", b"y\n"))


def test_missing_file_and_directory_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.tsv: expected a readable text file, found none"):
        read(TsvFile(tmp_path / "nowhere.tsv"))
    with pytest.raises(DataError, match="expected a readable text file, found none: Is a directory"):
        read(TsvFile(tmp_path))


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_empty_file_is_named(tmp_path, content):
    with pytest.raises(DataError, match=r"a\.tsv: expected lines of text, found an empty file"):
        read(tsv(tmp_path, content))


def test_truncated_and_altered_gzip_are_refused(tmp_path):
    whole = gzip.compress(b"".join(b"%d\tnumber %d\n" % (i, i * i) for i in range(3000)))
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], whole[:-4], bytes(altered)):
        with pytest.raises(DataError, match=r"a\.tsv: expected a whole gzip file, found it damaged after line"):
            list(tsv(tmp_path, content).read(ignore_bad_line))


def test_documents_may_be_long(tmp_path):
    article, summary = "word " * 5_000, "short"
    (tmp_path / "a").write_text(f"{article}\n{'x' * 1_000_000}\nfine\n")
    (tmp_path / "b").write_text(f"{summary}\nlong\nfine\n")
    options = {"check_ratio": False, "max_characters": MAX_DOCUMENT_CHARACTERS}
    pairs, bad = read(TextFiles(tmp_path / "a", tmp_path / "b", **options))
    assert pairs == [(article.strip(), summary), ("fine", "fine")]
    assert reasons(bad) == [(2, "too_long")]
    table = tsv(tmp_path, f"{article}\t{summary}\n".encode())
    assert read(replace(table, **options))[0] == [(article.strip(), summary)]
    assert reasons(read(table)[1]) == [(1, "too_long")]


def test_other_columns_may_be_long(tmp_path):
    table = replace(tsv(tmp_path, b"short\tkurz\t" + b"x" * 60_000 + b"\n"), columns=(1, 2))
    assert read(table) == ([("short", "kurz")], [])


def test_what_can_be_read_only_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: expected a file, which is read several times, found a pipe or a device"):
        list(read_lines(tmp_path / "pipe", max_bytes=10))


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\t\n"), max_size=20)


@settings(max_examples=80, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_two_columns_of_a_table_come_back(tmp_path, data):
    width = data.draw(st.integers(2, 5))
    first, second = data.draw(st.permutations(range(width)))[:2]
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=6))
    content = "first\t" * (width - 1) + "row\n" + "".join("\t".join(row) + "\n" for row in rows)
    found, bad = read(tsv(tmp_path, content.encode(), columns=(first + 1, second + 1)))
    wanted = [(row[first].strip(), row[second].strip()) for row in rows]
    assert found[1:] == [pair for pair in wanted if all(pair)]
    assert len(found) + len(bad) == len(rows) + 1
    assert {line.reason for line in bad} <= {"empty_side"}
