import json
import random
import subprocess
import sys
import unicodedata

import pytest

from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS
from lite_nlp.data.tokenizer import MIN_VOCAB_SIZE, Tokenizer

LINES = [
    "The old man walks his small dog along the river.",
    "Der alte Mann führt seinen kleinen Hund am Fluss aus.",
    "Two girls are playing in the garden behind the house.",
    "Zwei Mädchen spielen im Garten hinter dem Haus.",
    "Grüße aus dem schönen Österreich!",
] * 5

HARD_LINES = [
    "",
    " ",
    "   ",
    " leading",
    "trailing ",
    "  two  and   three  ",
    "\ttab\tand\r\x0b\x0c",
    "\n",
    "</s>",
    "<s> a </s> <pad>",
    " <s>",
    "👩‍👩‍👧‍👦 family 🇩🇪",
    "́ a lone accent",
    "\x00\x01\x7f\x80\x9f",
    "\ufeffmark",
    "\u2028\u2029\u00a0\u3000",
    "Привет, мир",
    "\U0001d518\U0001d52b \U0010ffff",
    "don't we'll I'm 'tis",
    "ﬁ Å Å ё",
    "Ġ is the space of the alphabet, Ċ the newline",
]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES, vocab_size=400)


def random_line(rng):
    planes = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF), (0x20, 0x20)]
    return "".join(chr(rng.randint(*rng.choice(planes))) for _ in range(rng.randint(0, 30)))


@pytest.mark.parametrize("line", HARD_LINES + LINES[:5])
def test_decode_inverts_encode(tokenizer, line):
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_decode_inverts_encode_on_random_text(tokenizer):
    rng = random.Random(7)
    for _ in range(2000):
        line = random_line(rng)
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_batch_encodes_like_single_lines(tokenizer):
    lines = HARD_LINES + LINES
    assert tokenizer.encode_batch(lines) == [tokenizer.encode(line) for line in lines]


def test_specials_have_fixed_ids_and_never_come_from_text(tokenizer):
    vocabulary = json.loads(tokenizer.to_json())["model"]["vocab"]
    assert [vocabulary[token] for token in SPECIAL_TOKENS] == [PAD_ID, BOS_ID, EOS_ID] == [0, 1, 2]
    for line in [*HARD_LINES, "</s>" * 50, *SPECIAL_TOKENS]:
        assert not {PAD_ID, BOS_ID, EOS_ID} & set(tokenizer.encode(line))


def test_specials_never_come_from_text_that_was_full_of_them():
    tokenizer = Tokenizer.train(["<s> a </s><pad></s>", "<s></s>"] * 50, vocab_size=400)
    ids = tokenizer.encode("<s> a </s><pad>")
    assert min(ids) > EOS_ID
    assert tokenizer.decode(ids) == "<s> a </s><pad>"


def test_decode_leaves_specials_out(tokenizer):
    ids = tokenizer.encode("the garden")
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "the garden"
    assert tokenizer.decode([EOS_ID]) == ""
    assert tokenizer.decode([]) == ""


def test_a_word_is_spelled_the_same_at_the_start_and_inside(tokenizer):
    alone, inside = tokenizer.encode("garden"), tokenizer.encode("the garden")
    assert inside[-len(alone) :] == alone


def test_decode_replaces_broken_characters(tokenizer):
    ids = tokenizer.encode("Привет")
    assert "�" in tokenizer.decode(ids[:2])


@pytest.mark.parametrize("token", [-1, 400, 10**6])
def test_decode_refuses_ids_outside_the_vocabulary(tokenizer, token):
    with pytest.raises(DataError, match=f"expected 0 to {tokenizer.vocab_size - 1}, found {token}"):
        tokenizer.decode([5, token])


def test_lone_surrogate_is_refused(tokenizer):
    with pytest.raises(DataError, match=r"lone surrogate U\+D800 at character 1"):
        tokenizer.encode("a\ud800")


def test_options_are_in_the_file():
    tokenizer = Tokenizer.train(LINES, vocab_size=300, lowercase=True, normalization="nfc")
    again = Tokenizer.from_json(tokenizer.to_json())
    assert (again.lowercase, again.normalization) == (True, "nfc")
    for line in HARD_LINES + LINES:
        assert again.decode(again.encode(line)) == unicodedata.normalize("NFC", line).lower()
    assert again.decode(again.encode("  GRÜSSE  A\u030a ")) == "  grüsse  å "


def test_nfkc_folds_compatibility_characters():
    tokenizer = Tokenizer.train(LINES, vocab_size=300, normalization="nfkc")
    assert tokenizer.decode(tokenizer.encode("ﬁn ①")) == "fin 1"


def test_round_trip_through_file(tmp_path, tokenizer):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer.to_json())
    again = Tokenizer.load(path)
    assert again.to_json() == tokenizer.to_json()
    assert again.sha256 == tokenizer.sha256
    assert again.vocab_size == tokenizer.vocab_size
    assert again.encode(LINES[0]) == tokenizer.encode(LINES[0])


def test_training_is_deterministic_across_processes(tokenizer):
    code = (
        "import sys, json; from lite_nlp.data.tokenizer import Tokenizer;"
        "print(Tokenizer.train(json.load(sys.stdin), vocab_size=400).sha256)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], input=json.dumps(LINES), capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    }
    assert found == {tokenizer.sha256}


def test_the_first_types_are_a_tokenizer_with_the_same_ids(tokenizer):
    types = tokenizer.vocab_size - 20
    first = tokenizer.first(types)
    assert first.vocab_size == types
    assert first.to_json() == Tokenizer.train(LINES, vocab_size=types).to_json()
    longer = 0
    for line in LINES:
        assert first.decode(first.encode(line)) == line
        longer += len(first.encode(line)) > len(tokenizer.encode(line))
    assert longer
    assert tokenizer.first(tokenizer.vocab_size).to_json() == tokenizer.to_json()
    bytes_alone = tokenizer.first(MIN_VOCAB_SIZE)
    assert len(bytes_alone.encode("Grüße")) == len(" Grüße".encode())


def test_what_begins_with_other_types(tokenizer):
    first = tokenizer.first(tokenizer.vocab_size - 1)
    assert tokenizer.begins_with(tokenizer)
    assert tokenizer.begins_with(first)
    assert tokenizer.begins_with(Tokenizer.from_json(json.dumps(json.loads(first.to_json()))))
    assert not first.begins_with(tokenizer)
    other = Tokenizer.train(["another text altogether"] * 3, vocab_size=MIN_VOCAB_SIZE + 5)
    assert not tokenizer.begins_with(other)
    lowercasing = Tokenizer.train(LINES, vocab_size=tokenizer.vocab_size, lowercase=True)
    assert not tokenizer.begins_with(lowercasing)


@pytest.mark.parametrize("types", [MIN_VOCAB_SIZE - 1, 100_000])
def test_first_types_beyond_the_vocabulary_are_refused(tokenizer, types):
    with pytest.raises(UsageError, match=rf"--vocab-size: expected {MIN_VOCAB_SIZE} .* to \d+, .* found {types}"):
        tokenizer.first(types)


def test_vocabulary_too_small_names_the_least():
    with pytest.raises(DataError, match=f"expected at least {MIN_VOCAB_SIZE} .*, found 100"):
        Tokenizer.train(LINES, vocab_size=100)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_is_refused(lines):
    with pytest.raises(DataError, match="expected text to learn from, found none"):
        Tokenizer.train(lines, vocab_size=300)


def test_error_in_the_text_reaches_the_caller():
    def lines():
        yield "good"
        raise DataError("the file ends early")

    with pytest.raises(DataError, match="the file ends early"):
        Tokenizer.train(lines(), vocab_size=300)


def test_unfamiliar_is_the_share_of_letters_without_a_token(tokenizer):
    assert tokenizer.unfamiliar("The garden, die Mädchen, 12!") == 0.0
    assert tokenizer.unfamiliar("Привет мир") == 1.0
    assert tokenizer.unfamiliar("漢字") == 1.0
    # Two of the five letters are Cyrillic; digits, emoji and punctuation are no letters.
    assert tokenizer.unfamiliar("the да 123 👍!") == pytest.approx(2 / 5)
    assert tokenizer.unfamiliar("") == 0.0
    assert tokenizer.unfamiliar("123 👍") == 0.0


def test_letters_of_the_training_text_are_familiar():
    tokenizer = Tokenizer.train(["привет мир"] * 20, vocab_size=300)
    assert tokenizer.unfamiliar("привет мир") == 0.0
    assert tokenizer.unfamiliar("жж") == 1.0


def damage(document, **changes):
    return json.dumps({**document, **changes})


def test_damaged_files_are_refused(tokenizer):
    content = tokenizer.to_json()
    document = json.loads(content)
    vocabulary = document["model"]["vocab"]
    special = {"id": 0, "content": "<pad>", "special": True}
    swapped = {**vocabulary, "<s>": 2, "</s>": 1}
    merging = [*document["model"]["merges"], ["</", "s>"]]
    hostile = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        content[: len(content) // 2],
        damage(document, model={**document["model"], "type": "Unigram"}),
        damage(document, model={**document["model"], "vocab": swapped}),
        damage(document, model={**document["model"], "vocab": {k: v + 1 for k, v in vocabulary.items()}}),
        damage(document, model={**document["model"], "vocab": {k: v for k, v in vocabulary.items() if k != "a"}}),
        damage(document, model={**document["model"], "merges": merging}),
        damage(document, model={**document["model"], "merges": [["x", "nowhere"]]}),
        damage(document, model={**document["model"], "vocab": []}),
        damage(document, added_tokens=[special]),
        damage(document, pre_tokenizer={"type": "Whitespace"}),
        damage(document, pre_tokenizer={**document["pre_tokenizer"], "add_prefix_space": True}),
        damage(document, normalizer=None),
        damage(document, normalizer={"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}),
        damage(document, decoder=None),
        damage(document, truncation={"max_length": 4}),
    ]
    for file in hostile:
        with pytest.raises(
            DataError, match=r"tokenizer: expected a tokenizer\.json of byte-level BPE, found a damaged"
        ):
            Tokenizer.from_json(file)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.json: expected a readable tokenizer\.json, found none"):
        Tokenizer.load(tmp_path / "nowhere.json")
