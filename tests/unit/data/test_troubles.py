import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lite_nlp.data.labelled.readers import LabelledFile
from lite_nlp.data.pairs.readers import TsvFile
from lite_nlp.data.sources import MEANINGS, BadLine, general_advice
from lite_nlp.data.troubles import Tally, excerpt


@given(st.one_of(st.binary(max_size=400), st.text(max_size=400)))
def test_an_excerpt_is_short_and_printable(text):
    shown = excerpt(text)
    assert shown.isprintable()
    # Nothing is longer than an escape of ten characters for each that is shown.
    assert len(shown) <= 10 * 80 + 3


def test_an_excerpt_shows_what_a_terminal_would_hide():
    assert excerpt("a\tb\x1b[2J\u202ec") == r"a\tb\x1b[2J\u202ec"
    assert excerpt(b"caf\xe9 \xc3\xa9") == r"caf\xe9 é"
    assert excerpt("x" * 81) == "x" * 80 + "..."


class Source:
    """A source of a given name."""

    def __init__(self, name):
        self.name = name

    def read(self, on_bad):
        raise NotImplementedError

    def advise(self, reason):
        return f"mend {reason}"


def test_three_lines_of_each_trouble_are_kept_and_ten_numbers():
    listed = io.StringIO()
    tally = Tally("train", "sentence pairs", listed)
    tally.begin(Source("a"))
    for number in range(1, 13):
        tally.add_usable()
        tally.add(BadLine("a", number, "empty_side", f"\t{number}"))
    tally.add_usable()
    skipped = tally.skipped()["empty_side"]
    assert (skipped.count, len(skipped.first), skipped.first[-1]) == (12, 10, "a:10")
    assert [(line.place, line.text) for line in skipped.examples] == [("a:1", r"\t1"), ("a:2", r"\t2"), ("a:3", r"\t3")]
    # Most lines are usable.
    assert skipped.advice is None
    assert tally.explanation() == ""
    assert json.loads(listed.getvalue().splitlines()[-1]) == {
        "split": "train", "file": "a", "line": 12, "reason": "empty_side",
    }  # fmt: skip


def test_advice_is_on_the_main_reason_of_each_source_that_is_mostly_skipped():
    tally = Tally("train", "sentence pairs")
    tally.begin(Source("good"))
    for _ in range(5):
        tally.add_usable()
    tally.add(BadLine("good", 6, "too_long", "x"))
    tally.begin(Source("bad"))
    tally.add_usable()
    for number, reason in enumerate(["extra_tab", "extra_tab", "empty_side"], start=2):
        tally.add(BadLine("bad", number, reason, "a\tb\tc"))
    advice = "bad: 2 of 4 lines skipped, extra_tab: mend extra_tab"
    assert {reason: lines.advice for reason, lines in tally.skipped().items()} == {
        "empty_side": None, "extra_tab": advice, "too_long": None,
    }  # fmt: skip
    assert tally.explanation() == f"\n{advice}\n  bad:2: a\\tb\\tc\n  bad:3: a\\tb\\tc"
    assert str(tally.nothing_usable()) == (
        "train: expected sentence pairs, found none (lines skipped: 1 empty_side, 2 extra_tab, 1 too_long)"
        + tally.explanation()
    )


@pytest.mark.parametrize(
    ("content", "columns", "reason", "advice"),
    [
        ("Go.\tVa !\tCC-BY 2.0 (France) #1\nHi.\tSalut !\tCC-BY 2.0 (France) #2\n", None, "extra_tab", "--columns 1,2"),
        ("1\tGo.\t7\tVa !\n2\tHi.\t8\tSalut !\n", None, "extra_tab", "the lines have 4 columns: give --columns 2,4"),
        ("a\tb\tc\n", None, "extra_tab", "the lines have 3 columns: give --columns 1,2"),
        ("Go.\tVa !\n", (1, 5), "missing_tab", "the lines have 2 columns, of which none is number 5"),
        ('"Go.","Va !"\n"Hi.","Salut !"\n', None, "missing_tab", "the lines have commas and no tabs"),
        ("Go.;Va !\n", None, "missing_tab", "the lines have semicolons and no tabs"),
        ("Go.\nHi.\n", None, "missing_tab", "give two aligned files as --train SRC TGT"),
        ('<?xml version="1.0"?>\n', None, "missing_tab", "give a TMX file as --tmx FILE"),
        ('{"en": "Go."}\n', None, "missing_tab", "give it as --jsonl FILE"),
        ("Go.\tVa !\n", None, "invalid_utf8", "iconv -f LATIN1"),
    ],
)
def test_a_table_advises_by_its_first_lines(tmp_path, content, columns, reason, advice):
    (tmp_path / "a.tsv").write_bytes(gzip.compress(content.encode()))
    assert advice in TsvFile(tmp_path / "a.tsv", columns).advise(reason)


def test_labelled_examples_advise_by_their_first_line(tmp_path):
    (tmp_path / "a.tsv").write_text("good\tYes.\tOui.\n")
    source = LabelledFile(tmp_path / "a.tsv")
    assert source.advise("missing_tab") == "write a label and 2 sentences on each line, as on the first"
    assert source.advise("empty_side") == general_advice("empty_side")


@pytest.mark.parametrize("reason", MEANINGS)
def test_every_reason_has_advice(reason):
    assert general_advice(reason)
