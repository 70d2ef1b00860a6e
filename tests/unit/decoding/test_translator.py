import json
import unicodedata
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.pieces import split_text
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.decoding.translate import Translator
from tests.unit.data.recorder import Recorder

TRAINING_TEXT = [
    "a small house stands by the river",
    "the children swim in the river in summer",
    "Größe und Übermut",
] * 5


class EchoModel:
    """Gives back the source, token by token, and keeps what it was asked."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size
        self.batches = []

    def start(self, src_tokens, src_mask, capacity):
        self.batches.append(src_mask.sum(axis=1).tolist())
        return src_tokens, 0

    def step(self, tokens, state):
        source, place = state
        logits = np.zeros((len(tokens), self.vocab_size), np.float32)
        logits[np.arange(len(tokens)), source[:, place]] = 20
        return logits, (source, place + 1)

    def reorder(self, state, rows):
        return state[0][rows], state[1]


class Setup:
    def __init__(self, max_source_tokens=200, tokenizer=None, long_input="split", progress=None):
        self.tokenizer = tokenizer or Tokenizer.train(TRAINING_TEXT, vocab_size=320)
        self.model = EchoModel(self.tokenizer.vocab_size)
        self.warnings = []
        self.translator = Translator(
            tokenizer=self.tokenizer,
            model=self.model,
            options=SearchOptions(max_length_ratio=1.0, max_length_extra=2),
            max_source_tokens=max_source_tokens,
            long_input=long_input,
            warn=self.warnings.append,
            progress=progress,
        )

    def translate(self, lines, batch_size=4):
        return list(self.translator.translate_lines(lines, batch_size=batch_size))


def test_line_breaks_and_a_byte_order_mark_are_no_words():
    setup = Setup()
    plain = ["a small house", "the river in summer"]
    assert setup.translate(["\ufeffa small house\r", "the river\r\nin summer\n"]) == setup.translate(plain)
    assert list(setup.translator.stream("\ufeffa small house\r\nthe river"))[-1] == "a small house\nthe river"
    marked, found = (setup.translator.find_alternatives([line]) for line in ("\ufeffa small house\r\n", plain[0]))
    assert marked == found
    assert setup.warnings == []


@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_a_line_is_spelled_as_the_vocabulary_knows_it(apostrophe: str) -> None:
    tokenizer = Tokenizer.train([f"he isn{apostrophe}t in the river", "the house"] * 9, vocab_size=320)
    setup, learned = Setup(tokenizer=tokenizer), f"he isn{apostrophe}t in"
    typed = [learned, "\t he  isn\u2019t\u00a0 in\u3000", "  he isn\u2019t in ", "he   isn\u2019t in"]
    assert setup.translate(typed) == [learned] * 4
    assert {alternative.text for alternative in setup.translator.find_alternatives(typed)[1]} == {learned}
    assert list(setup.translator.stream("\n".join(typed)))[-1] == "\n".join([learned] * 4)
    assert setup.warnings == []


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_are_composed_as_the_vocabulary_knows_them(form: Literal["NFC", "NFD"]) -> None:
    learned = unicodedata.normalize(form, "schöne Häuser")
    setup = Setup(tokenizer=Tokenizer.train([learned, "the river in summer"] * 9, vocab_size=320))
    assert setup.translate([learned, unicodedata.normalize("NFD", learned)]) == [learned] * 2


def test_invisible_characters_are_no_words() -> None:
    setup = Setup()
    typed = ["the riv\u00ader in\u200b summer", "\u200ethe house\u200f \ufeff", "\u2060 \u200b", "the \u200d house"]
    assert setup.translate(typed) == ["the river in summer", "the house", "", "the \u200d house"]


def test_a_single_space_of_another_kind_stays() -> None:
    assert Setup().translate(["the\u00a0house\u202f!", "the\thouse"]) == ["the\u00a0house\u202f!", "the house"]


def test_order_is_kept_and_batches_are_sorted_by_length():
    setup = Setup()
    lines = ["the river in summer " * (1 + number % 5) + str(number) for number in range(11)]
    assert setup.translate(lines) == lines
    lengths = [length for batch in setup.model.batches for length in batch]
    assert lengths == sorted(lengths)
    assert [len(batch) for batch in setup.model.batches] == [4, 4, 3]
    assert setup.warnings == []


def test_chunks_are_translated_without_waiting_for_the_next():
    setup = Setup()
    asked = []

    def chunks():
        for line in ["the house", "the river"]:
            asked.append(line)
            yield [line]

    translations = setup.translator.translate_chunks(chunks(), batch_size=8)
    assert next(translations) == "the house"
    assert asked == ["the house"]
    assert list(translations) == ["the river"]


def test_no_lines():
    assert Setup().translate([]) == []


@pytest.mark.parametrize("blank", ["", " ", "\t  ", "\u00a0\u2003", "\r"])
def test_blank_lines_stay_empty_and_do_not_reach_the_model(blank):
    setup = Setup()
    assert setup.translate([blank]) == [""]
    assert setup.model.batches == []
    assert setup.translate(["the house", blank, "the river"]) == ["the house", "", "the river"]


def test_whatever_ends_a_line_becomes_a_space_in_the_output():
    assert Setup().translate(["a\nb\rc\x0bd\u2028e"]) == ["a b c d e"]


def test_a_foreign_alphabet_is_translated_with_a_warning():
    setup = Setup()
    assert setup.translate(["the house", "Река и дом", "the river"]) == ["the house", "Река и дом", "the river"]
    assert len(setup.warnings) == 1
    assert setup.warnings[0].startswith("line 2: 100% of its letters are unknown to the model's vocabulary")


def test_line_numbers_count_over_chunks_and_windows():
    setup = Setup()
    chunks = [["the house"] * 20, ["the river", "река"]]
    list(setup.translator.translate_chunks(chunks, batch_size=1))
    assert [warning.split(":")[0] for warning in setup.warnings] == ["line 22"]


def test_a_long_line_is_cut_and_nothing_is_lost():
    setup = Setup(max_source_tokens=12)
    line = "The children swim. In summer the river is warm! Is it? " + "by the small house in the river " * 10
    assert setup.translate(["the house", line, "the river"]) == ["the house", line.strip(), "the river"]
    assert all(length <= 13 for batch in setup.model.batches for length in batch)
    assert len(setup.warnings) == 1
    assert setup.warnings[0].startswith("line 2: cut into ")
    assert setup.warnings[0].endswith("the model takes 12")


def test_a_long_line_is_cut_off_where_that_is_asked_for():
    setup = Setup(max_source_tokens=12, long_input="truncate")
    line = " ".join(["the small house by the river."] * 10)
    kept = setup.tokenizer.decode(setup.tokenizer.encode(line)[:12])
    assert setup.translate(["the house", line]) == ["the house", kept]
    assert setup.warnings == [f"line 2: cut off after 12 of its {len(setup.tokenizer.encode(line))} tokens"]


def test_ten_thousand_words():
    setup = Setup()
    line = " ".join(["river", "summer", "Größe", "swim"] * 2500)
    assert setup.translate([line], batch_size=16) == [line]
    assert len(setup.warnings) == 1


def test_a_line_of_many_windows_is_translated_alone_with_progress():
    progress = Recorder()
    setup = Setup(max_source_tokens=8, progress=progress)
    line = "the river. " * 100
    lines = ["the house", line.strip(), "", "the small house"]
    assert setup.translate(lines, batch_size=2) == lines
    # A window is 32 pieces; what is before the line does not wait for it.
    assert progress.seen == [("line 2, pieces", 100, 100)]
    assert [len(batch) for batch in setup.model.batches] == [1, *[2] * 50, 1]


def test_memory_does_not_grow_with_the_line():
    """What is tokenized at once is the beginning of a line, and then pieces of it."""
    encoded = []

    class Watched:
        def __init__(self, tokenizer):
            self._tokenizer = tokenizer

        def __getattr__(self, name):
            return getattr(self._tokenizer, name)

        def encode(self, text):
            encoded.append(len(text))
            return self._tokenizer.encode(text)

    setup = Setup(tokenizer=Tokenizer.train(TRAINING_TEXT, vocab_size=320))
    setup.translator._tokenizer = Watched(setup.tokenizer)
    line = "river " * 25_000
    assert setup.translate([line], batch_size=64) == [line.strip()]
    assert sorted(encoded)[-2:][0] <= 4096 < max(encoded) == 100_000
    assert setup.warnings[0].endswith("it has more than 16668 tokens, the model takes 200")
    short = Setup(long_input="truncate")
    assert short.translate([line]) == [("river " * 200).strip()]
    assert short.warnings == ["line 1: cut off after 200 of its more than 16668 tokens"]


class BranchingModel:
    """Says one of two tokens, then the end, whatever the source: each output of one token has the same probability."""

    def __init__(self, tokens, vocab_size):
        self.tokens, self.vocab_size = tokens, vocab_size

    def start(self, src_tokens, src_mask, capacity):
        return len(src_tokens)

    def step(self, tokens, state):
        logits = np.full((len(tokens), self.vocab_size), -1e4, np.float32)
        logits[:, 2] = np.where(tokens == 1, -1e4, 0)
        for token, logit in self.tokens.items():
            logits[:, token] = np.where(tokens == 1, logit, -1e4)
        return logits, state

    def reorder(self, state, rows):
        return state


def alternatives(said, lines, **changes):
    """What is found of a model that begins with one of the texts of ``said``, which are one token each, or none."""
    tokenizer = Tokenizer.train(TRAINING_TEXT, vocab_size=320)
    tokens = {tokenizer.encode(text)[0]: logit for text, logit in said.items()}
    translator = Translator(
        tokenizer=tokenizer,
        model=BranchingModel(tokens, tokenizer.vocab_size),
        options=SearchOptions(beam_size=4, length_penalty=changes.pop("length_penalty", 0.6)),
        warn=pytest.fail,
        **changes,
    )
    return translator.find_alternatives(lines)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_alternatives_have_their_probabilities(length_penalty):
    found = alternatives({"river": 2.0, "house": 1.0}, ["the river", "a house"], length_penalty=length_penalty)
    expected = np.log(np.exp([2.0, 1.0]) / np.exp([2.0, 1.0]).sum())
    for line in found:
        assert [alternative.text for alternative in line][:2] == ["river", "house"]
        assert [alternative.log_prob for alternative in line][:2] == pytest.approx(expected, abs=1e-5)


def test_a_line_that_is_too_long_or_blank_has_no_alternatives():
    lines = ["", "  ", "the river", "the children swim in the river in summer and winter"]
    found = alternatives({"river": 2.0}, lines, max_source_tokens=6)
    assert [bool(line) for line in found] == [False, False, True, False]
    found = alternatives({"river": 2.0}, lines, max_source_tokens=6, long_input="truncate")
    assert [bool(line) for line in found] == [False, False, True, True]


def test_a_character_of_more_tokens_than_the_model_takes_is_cut():
    tokenizer = Tokenizer.train(TRAINING_TEXT, vocab_size=320, normalization="nfkc")
    # Normalization spells this ligature out, in 18 letters.
    ligature = "\ufdfa"
    assert len(tokenizer.encode(ligature)) > 6
    setup = Setup(max_source_tokens=6, tokenizer=tokenizer)
    line = f"the river {ligature} the house"
    (output,) = setup.translate([line])
    assert output.startswith("the river")
    assert output.endswith("the house")
    # The end mark takes a place too.
    assert max(max(batch) for batch in setup.model.batches) == 7
    assert list(setup.translator.stream(line))[-1] == output


def test_hypotheses_that_are_spelled_alike_are_one():
    tokenizer = Tokenizer.train(TRAINING_TEXT, vocab_size=320)
    vocabulary = json.loads(tokenizer.to_json())["model"]["vocab"]
    (whole,) = tokenizer.encode("the")
    letters = [vocabulary[letter] for letter in "\u0120the"]
    # Whatever else is said goes on for ever, and so is no hypothesis.
    following = {1: [whole, letters[0]], whole: [2], **{a: [b] for a, b in pairwise([*letters, 2])}}

    class Speller(BranchingModel):
        """Says a word as one token, or letter by letter."""

        def step(self, tokens, state):
            logits = np.full((len(tokens), self.vocab_size), -1e4, np.float32)
            logits[:, 2] = -2e4
            for row, token in enumerate(tokens.tolist()):
                logits[row, following.get(token, [token])] = 0
            return logits, state

    translator = Translator(
        tokenizer=tokenizer,
        model=Speller({}, tokenizer.vocab_size),
        options=SearchOptions(beam_size=2, length_penalty=0.0),
        warn=pytest.fail,
    )
    (((text, log_prob), *others),) = translator.find_alternatives(["river"])
    assert text == "the"
    assert log_prob == pytest.approx(0.0, abs=1e-5)
    assert all(other.log_prob < -1000 for other in others)


def test_a_long_stream_says_whole_pieces():
    setup = Setup()
    line = "the river. " * 2_500
    texts = list(setup.translator.stream(f"{line}\n\nthe house\n"))
    assert texts[-1] == f"{line.strip()}\n\nthe house\n"
    assert all(after.startswith(before) for before, after in pairwise(texts))
    late = [text for text in texts if len(text) > 20_100]
    assert len(late) <= 700


def test_a_long_word_is_cut_anywhere():
    setup = Setup(max_source_tokens=10)
    word = "Größenübermut" * 20
    assert "".join(setup.translate([word])[0].split()) == word


@pytest.mark.parametrize(
    ("text", "longest", "pieces"),
    [
        ("One. Two! Three? Four", 20, ["One.", "Two!", "Three?", "Four"]),
        ('He said: "Yes." Then he left.', 20, ['He said: "Yes."', "Then he left."]),
        ("It costs 3.50 euros. Good.", 20, ["It costs 3.50 euros.", "Good."]),
        ("一。二。三", 20, ["一。", "二。", "三"]),
        ("aaaa bb cccc dd eeee ff", 10, ["aaaa", "bb cccc", "dd eeee ff"]),
        ("aaaaaaaaaaaaaaaa", 8, ["aaaaaaaa", "aaaaaaaa"]),
        ("  one.  ", 20, ["one."]),
    ],
)
def test_where_a_text_is_cut(text, longest, pieces):
    assert split_text(text, len, longest) == pieces


def test_a_single_character_is_never_cut():
    assert split_text("ab", lambda text: 4 * len(text), 3) == ["a", "b"]
