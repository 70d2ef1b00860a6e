"""A `tokenizer.json` is the one that the training writes, or it is refused: no option is passed over."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import BundleError, DataError
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.tokenizer_document import (
    BYTE_ALPHABET,
    MAX_TOKEN_BYTES,
    MAX_TOKENIZER_BYTES,
    check_trained,
    parse_tokenizer,
)
from tests.mutations import mutated

LINES = ["The old man walks his small dog.", "Der alte Mann f\u00fchrt seinen Hund.", "\u732b <s> </s> 1234"] * 4
TRAINED = Tokenizer.train(LINES, vocab_size=300, lowercase=True, normalization="nfkc")
DOCUMENT: dict[str, Any] = json.loads(TRAINED.to_json())
TEXTS = [*LINES, "", "  two  spaces", "GR\u00dcSSE \ufb01n", "\u1f600 \U0001f600\n\t", "</s><pad>", "don't 12ab"]


def attempt(document: Any) -> tuple[Tokenizer | None, str]:
    """The tokenizer, or the message of our error."""
    try:
        return Tokenizer.from_json(json.dumps(document).encode()), ""
    except DataError as error:
        return None, str(error)


def refusal(document: Any) -> str:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(DataError) as caught:
        Tokenizer.from_json(content)
    message = str(caught.value)
    assert message.startswith("tokenizer: expected a tokenizer.json of byte-level BPE, found a damaged one: ")
    assert len(message) < 2000
    return message


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


def test_the_alphabet_is_that_of_the_library() -> None:
    assert sorted(BYTE_ALPHABET) == sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("normalization", ["none", "nfc", "nfkc"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_what_the_training_writes_passes(lowercase: bool, normalization: Any) -> None:
    made = Tokenizer.train(LINES, vocab_size=290, lowercase=lowercase, normalization=normalization)
    document = parse_tokenizer(made.to_json(), source="t", error=DataError)
    assert check_trained(document) == (lowercase, normalization)


@settings(deadline=None, max_examples=300)
@given(
    mutated({key: value for key, value in DOCUMENT.items() if key != "model"}), mutated(DOCUMENT["model"]), st.data()
)
def test_a_changed_document_is_the_same_tokenizer_or_refused(rest: Any, model: Any, data: st.DataObject) -> None:
    parts = data.draw(st.sampled_from([(rest, DOCUMENT["model"]), ({**DOCUMENT}, model), (rest, model)]))
    document = {**parts[0], "model": parts[1]}
    found, message = attempt(document)
    assert len(message) < 2000
    if found is None or (found.lowercase, found.normalization) != (TRAINED.lowercase, TRAINED.normalization):
        # A tokenizer with another normalizer says so.
        return
    ids = [TRAINED.encode(text) for text in TEXTS]
    assert [found.encode(text) for text in TEXTS] == ids
    assert found.vocab_size == TRAINED.vocab_size
    assert [found.decode([number]) for number in range(found.vocab_size)] == [
        TRAINED.decode([number]) for number in range(found.vocab_size)
    ]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        *(("model", "dropout", value) for value in (0.1, 0.0, 1)),
        ("model", "end_of_word_suffix", "</w>"),
        ("model", "end_of_word_suffix", ""),
        ("model", "continuing_subword_prefix", "##"),
        ("model", "unk_token", "<pad>"),
        *(("model", key, value) for key in ("fuse_unk", "byte_fallback", "ignore_merges") for value in (True, 0, None)),
        ("model", "more", 1),
        ("pre_tokenizer", "trim_offsets", False),
        ("pre_tokenizer", "use_regex", False),
        ("pre_tokenizer", "add_prefix_space", True),
        ("pre_tokenizer", "type", "Whitespace"),
        ("normalizer", "more", None),
        ("decoder", "type", "WordPiece"),
    ],
)
def test_every_option_is_that_of_the_training(section: str, key: str, value: Any) -> None:
    assert section in refusal(edited(lambda it: it[section].update({key: value})))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.update(more=1), "document: expected no key 'more', found one"),
        (lambda it: it.pop("padding"), "document: expected a key 'padding', found none"),
        (lambda it: it.update(version="2.0"), "version: expected '1.0', found '2.0'"),
        (lambda it: it.update(added_tokens=[{}]), "added_tokens: expected a list of 0, found a list of 1"),
        (lambda it: it["decoder"]["decoders"][1].update(start=2), "decoder.decoders.1.start: expected 1, found 2"),
        (
            lambda it: it["decoder"]["decoders"][1].update(start=True),
            "decoder.decoders.1.start: expected 1, found True",
        ),
        (lambda it: it["decoder"]["decoders"].append({}), "decoder.decoders: expected a list of 2, found a list of 3"),
        (lambda it: it["normalizer"]["normalizers"].reverse(), "normalizer: expected a sequence of NFC or NFKC"),
        (lambda it: it["model"].pop("merges"), "merges: expected a list of at most"),
        (lambda it: it["model"]["merges"].append("t h"), "merges: expected pairs of types, found 't h'"),
        (lambda it: it["model"]["merges"].append(["t"]), "merges: expected pairs of types, found a list of 1"),
        (
            lambda it: it["model"]["merges"].append(["t", "nowhere"]),
            "types that come before the merge, found 'nowhere'",
        ),
        (lambda it: it["model"]["merges"].append(["<s>", "a"]), "types that come before the merge, found '<s>'"),
        (lambda it: it["model"]["merges"].append(["q", "z"]), "vocabulary: expected <pad>, <s>, </s>, the 256 bytes"),
        (lambda it: it["model"]["merges"].reverse(), "merges"),
        (
            lambda it: it["model"]["vocab"].update(x=it["model"]["vocab"]["y"], y=it["model"]["vocab"]["x"]),
            "vocabulary: ",
        ),
        (lambda it: it["model"]["vocab"].update(more=300), "vocabulary: "),
        (lambda it: it["model"]["vocab"].update({"<s>": True}), "found ids that are no integers"),
        (lambda it: it["model"]["vocab"].update({"<s>": 1.0}), "found ids that are no integers"),
        (lambda it: it["model"]["vocab"].update({"<s>": 2**62}), "vocabulary: "),
    ],
)
def test_differences_are_named(change: Callable[[dict[str, Any]], object], message: str) -> None:
    assert message in refusal(edited(change))


def test_a_merge_that_makes_a_special_token() -> None:
    merges = [["<", "s"], ["<s", ">"]]
    assert "found one that makes '<s>'" in refusal(edited(lambda it: it["model"].update(merges=merges)))


def test_a_type_that_is_too_long() -> None:
    merges, part = [], "a"
    while len(part) <= MAX_TOKEN_BYTES:
        merges.append([part, part])
        part += part
    assert f"text of at most {MAX_TOKEN_BYTES} bytes" in refusal(edited(lambda it: it["model"].update(merges=merges)))
    made = Tokenizer.train(["=" * 10_000] * 3, vocab_size=290)
    assert Tokenizer.from_json(made.to_json()).decode(made.encode("=" * 10_000)) == "=" * 10_000


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"model": {"vocab": {"a": ' + b"9" * 9000 + b"}}}",
        b'{"model": {"vocab": {"a": NaN}}}',
        b'{"model": {"vocab": {"\\ud800": 1}}}',
        b"\xff",
        b"3",
    ],
)
def test_documents_that_break_parsers(content: bytes) -> None:
    refusal(content)


def test_limits() -> None:
    def read(content: bytes) -> str:
        with pytest.raises(BundleError) as caught:
            parse_tokenizer(content, source="t", error=BundleError)
        return str(caught.value)

    assert "t: expected at most 67108864 bytes" in read(bytes(MAX_TOKENIZER_BYTES + 1))
    types = ",".join(f'"{number}":0' for number in range(MAX_VOCAB_SIZE + 1))
    assert f"t: expected at most {MAX_VOCAB_SIZE} types, found {MAX_VOCAB_SIZE + 1}" in read(
        b'{"model":{"vocab":{' + types.encode() + b"}}}"
    )
    assert "expected JSON of at most" in read(b"[" + b"[]," * 3_000_000 + b"[]]")
    with pytest.raises(DataError, match=f"vocab size: expected at most {MAX_VOCAB_SIZE}, found {MAX_VOCAB_SIZE + 1}"):
        Tokenizer.train(LINES, vocab_size=MAX_VOCAB_SIZE + 1)
