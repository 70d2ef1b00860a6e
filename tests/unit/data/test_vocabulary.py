from itertools import repeat

import pytest

from lite_nlp.data.vocabulary import VocabularyOptions, choose_vocab_size, train_vocabulary


@pytest.mark.parametrize(
    ("characters", "size"),
    [
        (0, 500), (49_999, 500), (50_000, 1_000), (199_999, 1_000), (200_000, 2_000), (800_000, 4_000),
        (3_199_999, 4_000), (3_200_000, 8_000), (10**12, 8_000),
    ],
)  # fmt: skip
def test_the_size_doubles_where_the_text_quadruples(characters, size):
    assert choose_vocab_size(characters) == size


def words(count):
    """Lines of numbers, each seen twice, which give many merges."""
    return [f"{number * number % 10**7:07d}" for number in range(count // 2) for _ in range(2)]


def test_the_size_is_chosen_by_the_text_and_said():
    said = []
    lines = words(10_000)
    tokenizer = train_vocabulary(VocabularyOptions(), lambda stage: lines, say=said.append)
    assert tokenizer.vocab_size == 1_000
    assert said == ["vocabulary: 1,000 tokens for 70,000 characters of text (else --vocab-size)"]


def test_a_given_size_is_taken_without_a_word():
    said = []
    tokenizer = train_vocabulary(VocabularyOptions(vocab_size=300), lambda stage: words(1_000), say=said.append)
    assert (tokenizer.vocab_size, said) == (300, [])


def test_a_size_that_the_text_does_not_give_is_told():
    said = []
    tokenizer = train_vocabulary(
        VocabularyOptions(vocab_size=3_000), lambda stage: ["a few words"] * 9, say=said.append
    )
    assert said == [f"vocabulary: the text gives {tokenizer.vocab_size} tokens of the 3,000 wanted"]


def test_no_more_text_is_counted_than_the_largest_size_needs():
    stages = []

    def texts(stage):
        stages.append(stage)
        # Endless where the characters are counted.
        return repeat("0123456789" * 1_000) if stage == "vocabulary size" else words(100)

    said = []
    tokenizer = train_vocabulary(VocabularyOptions(), texts, say=said.append)
    assert stages == ["vocabulary size", "vocabulary"]
    assert said == [
        "vocabulary: 8,000 tokens for at least 3,200,000 characters of text (else --vocab-size)",
        f"vocabulary: the text gives {tokenizer.vocab_size} tokens of the 8,000 wanted",
    ]
