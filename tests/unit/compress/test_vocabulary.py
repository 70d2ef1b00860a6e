import json
import zlib
from contextlib import suppress

import pytest

from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.vocabulary import decode_vocabulary, encode_vocabulary
from lite_nlp.core.errors import ContainerError
from lite_nlp.data.tokenizer import Tokenizer

_TEXT = ('"Ein" paar Wörter \\ und "ein" paar mehr', "a few words, and a few more words, ééé") * 3


@pytest.fixture(scope="module")
def content() -> bytes:
    return Tokenizer.train(_TEXT, vocab_size=350).to_json()


def test_a_tokenizer_comes_back_byte_for_byte(content: bytes) -> None:
    for document in (content, Tokenizer.train(_TEXT, vocab_size=259).to_json()):
        stored = encode_vocabulary(document)
        assert stored is not None
        assert decode_vocabulary(stored, len(document)) == document
        assert len(stored) < 0.4 * len(zlib.compress(document, 9))


def test_merges_that_spell_the_same_make_one_type() -> None:
    document = json.loads(Tokenizer.train(_TEXT, vocab_size=259).to_json())
    document["model"]["merges"] = [["a", "a"], ["aa", "a"], ["a", "aa"], ["aaa", "a"]]
    for place, text in enumerate(("aa", "aaa", "aaaa")):
        document["model"]["vocab"][text] = 259 + place
    content = (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()
    stored = encode_vocabulary(content)
    assert stored is not None
    assert decode_vocabulary(stored, len(content)) == content


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b'"!": 3', b'"!":  3'),
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: json.dumps(json.loads(content)).encode(),
        lambda content: content.replace(b'"<pad>"', b'"!!"').replace(b'"!": 3', b'"<pad>": 3'),
        lambda content: content.replace(b'"vocab"', b'"types"'),
        lambda content: content.replace(b'"merges": [', b'"merges": [3,'),
        lambda content: content[:-2],
        lambda _: b"",
        lambda _: b"[]",
        lambda _: b"\xff\xfe",
        lambda _: b"[" * 1000,
    ],
)
def test_another_document_is_stored_as_it_is(change, content: bytes) -> None:
    other = change(content)
    assert encode_vocabulary(other) is None
    file = container_bytes(tensors={}, files={"tokenizer.json": other, "a": b"b"}, metadata={})
    assert parse_container(file).files == {"tokenizer.json": other, "a": b"b"}


def test_a_file_with_a_tokenizer(content: bytes) -> None:
    files = {"a.txt": b"first", "tokenizer.json": content, "b.txt": b"last"}
    file = container_bytes(tensors={}, files=files, metadata={})
    assert parse_container(file).files == files
    assert list(parse_container(file).files) == list(files)
    assert len(file) < len(zlib.compress(content, 9))


def test_every_flipped_bit_gives_another_document_or_none(content: bytes) -> None:
    stored = encode_vocabulary(content)
    assert stored is not None
    start = 7 + int.from_bytes(stored[5:7], "little")
    found = []
    for place in range(start, len(stored)):
        altered = bytearray(stored)
        altered[place] ^= 1 << place % 8
        with suppress(ContainerError):
            found.append(decode_vocabulary(bytes(altered), len(content)))
    assert content not in found
