import re
from importlib.resources import files

import pytest

LINES = files("lite_nlp").joinpath("assets", "everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
PAIRS = [line.split("\t") for line in LINES]


def test_every_line_is_a_pair():
    assert len(PAIRS) == 400
    assert all(len(pair) == 2 for pair in PAIRS)


@pytest.mark.parametrize("side", [0, 1])
def test_sentences_are_distinct_clean_and_whole(side):
    sentences = [pair[side] for pair in PAIRS]
    assert len({sentence.casefold() for sentence in sentences}) == len(sentences)
    for sentence in sentences:
        assert sentence == " ".join(sentence.split())
        assert re.fullmatch(r"[A-ZÄÖÜ].*[.!?]", sentence)
        assert 3 <= len(sentence.split()) <= 35
