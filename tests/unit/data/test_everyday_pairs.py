import re

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.data.pairs import everyday
from lite_nlp.data.pairs.everyday import EVERYDAY_FILE, read_everyday_pairs


def test_every_line_is_a_pair():
    assert len(read_everyday_pairs()) == 400


@pytest.mark.parametrize("side", [0, 1])
def test_sentences_are_distinct_clean_and_whole(side):
    sentences = [pair[side] for pair in read_everyday_pairs()]
    assert len({sentence.casefold() for sentence in sentences}) == len(sentences)
    for sentence in sentences:
        assert sentence == " ".join(sentence.split())
        assert re.fullmatch(r"[A-ZÄÖÜ].*[.!?]", sentence)
        assert 3 <= len(sentence.split()) <= 35


@pytest.mark.parametrize(("line", "found"), [("alone", 1), ("", 1), ("a\tb\tc", 3)])
def test_a_line_of_another_number_of_columns(line, found, tmp_path, monkeypatch):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / EVERYDAY_FILE).write_text(f"one\teins\n{line}\n", encoding="utf-8")
    monkeypatch.setattr(everyday, "files", lambda package: tmp_path)
    with pytest.raises(DataError, match=rf"everyday.en-de.tsv: line 2: expected two columns, found {found}"):
        read_everyday_pairs()
