"""Text in pieces: nothing is lost, no piece is too long, and the work grows with the text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.decoding.pieces import BLOCK_CHARACTERS, STRETCH_TOKENS, split_sentences, split_text

WORDS = st.sampled_from(
    ["a", "word", "longer-word", ".", "!", "stop.", "猫。", " ", "\t", "\u3000", "x" * 900, "é" * 30]
)
TEXTS = st.lists(WORDS, max_size=40).flatmap(lambda words: st.sampled_from([" ".join(words), "".join(words)]))


def letters(text):
    return "".join(text.split())


@given(TEXTS, st.integers(1, 300))
@settings(deadline=None)
def test_pieces_are_the_text_and_short(text, limit):
    pieces = split_text(text, len, limit)
    assert letters("".join(pieces)) == letters(text)
    assert all(piece == piece.strip() and 0 < len(piece) <= limit for piece in pieces)
    # A sentence that the model takes is a piece; one that it does not take is cut into stretches.
    whole = [sentence for sentence in split_sentences(text) if len(sentence) <= limit]
    assert [piece for piece in pieces if piece in whole or len(piece) > STRETCH_TOKENS] == [
        piece for piece in pieces if piece in whole
    ]
    if len(text) <= limit and split_sentences(text) == [text]:
        assert pieces == [text]


MILLION = {
    "one word": "x" * 1_000_000,
    "wide characters": "猫" * 300_000,
    "punctuation": "." * 1_000_000,
    "full stops": "。" * 100_000,
    "spaces": "a" + " " * 1_000_000 + "b",
    "words": "word " * 200_000,
    "quotes": '."' * 500_000,
    "spaces before and after": " " * 400_000 + "x" * 200_000 + " " * 400_000,
    "words beyond a block": f"w {'x' * BLOCK_CHARACTERS} " * 200,
}


@pytest.mark.parametrize("name", MILLION)
def test_a_megabyte_is_counted_in_blocks_and_a_few_times(name):
    text = MILLION[name]
    counted = 0

    def count(piece):
        nonlocal counted
        assert len(piece) <= BLOCK_CHARACTERS
        counted += len(piece)
        return len(piece)

    pieces = split_text(text, count, 200)
    assert letters("".join(pieces)) == letters(text)
    # A block is counted as a whole, as halves, as quarters, ...: twelve times until there is one character.
    assert counted <= 13 * len(text)


@pytest.mark.parametrize(
    "size", [BLOCK_CHARACTERS - 1, BLOCK_CHARACTERS, BLOCK_CHARACTERS + 1, 2 * BLOCK_CHARACTERS + 5]
)
def test_a_block_ends_at_a_space_where_it_can(size):
    text = ("seven77 " * size)[:size].strip()
    assert set(re.findall(r"\S+", " ".join(split_text(text, len, 200)))) <= {"seven77", text.split()[-1]}
    word = "x" * size
    assert "".join(split_text(word, len, 200)) == word
