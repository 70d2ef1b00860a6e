"""The committed golden vectors are what the Python package makes now."""

import base64
import gzip
import json
import unicodedata

import numpy as np
import pytest

from lite_nlp.artifacts.models import load_model
from lite_nlp.compress.lnlp.container import parse_container
from lite_nlp.core.errors import ContainerError, DataError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel

pytest.importorskip("tools", reason="the Android demo is not here")

from tools.golden.__main__ import CORE, NATIVE, read_vectors
from tools.golden.containers import container_vectors
from tools.golden.damaged_containers import apply_damage
from tools.golden.pieces import piece_vectors
from tools.golden.search import FormulaModel, search_vectors
from tools.golden.tokenizers import character_tables, shipped_tokenizer, tokenizer_vectors, trained_tokenizers


def plain(vectors):
    """As they come back from JSON."""
    return json.loads(json.dumps(vectors))


@pytest.fixture(scope="module")
def shipped():
    return shipped_tokenizer()


def test_the_tokenizers_themselves(shipped):
    found = {"shipped": shipped, **trained_tokenizers()}
    for name, tokenizer in found.items():
        assert gzip.decompress((CORE / f"tokenizer-{name}.json.gz").read_bytes()) == tokenizer.to_json(), name
    assert {tokenizer.normalization for tokenizer in found.values()} == {"none", "nfc", "nfkc"}
    assert {tokenizer.lowercase for tokenizer in found.values()} == {False, True}


def test_texts(shipped):
    committed = read_vectors(CORE / "texts.json.gz")
    made = plain(tokenizer_vectors({"shipped": shipped, **trained_tokenizers()}))
    if unicodedata.unidata_version != committed["python_unicode"]:
        # Another Python knows other letters, of which the unfamiliar fraction counts how many are split.
        for vectors in (committed, made):
            del vectors["python_unicode"]
            for tokenizer in vectors["tokenizers"].values():
                tokenizer["texts"] = [row[:3] for row in tokenizer["texts"]]
    assert made == committed
    for text in committed["not_unicode"]:
        with pytest.raises(DataError, match="lone surrogate"):
            shipped.encode(text)
    for ids in committed["outside"]:
        with pytest.raises(DataError, match="token id"):
            shipped.decode(ids)


def test_texts_reach_every_property_of_the_tokenizer():
    rows = read_vectors(CORE / "texts.json.gz")["tokenizers"]["shipped"]["texts"]
    assert len(rows) > 900
    assert all(text == decoded for text, _, decoded, _ in rows)
    assert {0.0, 1.0} < {unfamiliar for *_, unfamiliar in rows}
    # Of the 256 bytes 13 are in no UTF-8, and some are never left alone by the merges.
    assert len({token for _, ids, _, _ in rows for token in ids if token < 259}) > 200


def test_characters():
    committed = read_vectors(CORE / "characters.json.gz")
    stop = 0x3000  # the rest takes long and comes from the same code
    made = plain(character_tables(stop))
    known = [made[part][name] for part, names in committed.items() if part in ("pattern", "python") for name in names]
    expected = [
        [[first, min(last, stop - 1)] for first, last in runs if first < stop]
        for part, names in committed.items()
        if part in ("pattern", "python")
        for runs in names.values()
    ]
    if unicodedata.unidata_version == read_vectors(CORE / "texts.json.gz")["python_unicode"]:
        assert known == expected
    assert made["pattern"] == dict(zip(committed["pattern"], expected, strict=False))
    for form in ("lower", "nfc", "nfkc"):
        assert made[form] == {code: text for code, text in committed[form].items() if int(code, 16) < stop}
    assert committed["lower"]["0130"] == "i̇"
    assert committed["nfkc"]["FB01"] == "fi"
    assert [0x20, 0x20] in committed["pattern"]["space"]


def test_pieces(shipped):
    committed = read_vectors(CORE / "pieces.json.gz")
    assert plain(piece_vectors(shipped)) == committed
    for vector in committed["pieces"]:
        # Nothing but white space is lost.
        assert "".join("".join(vector["pieces"]).split()) == "".join(vector["text"].split())


def test_searches():
    committed = read_vectors(CORE / "search.json.gz")
    made = plain(search_vectors())
    scores = [[case.pop("scores") for case in vectors["cases"]] for vectors in (made, committed)]
    assert made == committed
    np.testing.assert_allclose(*[np.concatenate(rows) for rows in scores], rtol=0, atol=1e-6)
    cases = committed["cases"]
    assert {case["options"]["beam_size"] for case in cases} == {1, 3, 4, 5}
    assert sum(any(case["tokens"]) for case in cases) > 0.6 * len(cases)
    assert max(len(tokens) for case in cases for tokens in case["tokens"]) > 20


def test_the_formula_is_that_of_the_page():
    """By hand, in the words of the README."""
    mask = 0xFFFFFFFF
    h = 7
    for token in (3, 2, 1):  # one source token, the end mark, and the first token fed
        h = (h * 0x01000193 + token + 1) & mask
    value = h ^ (4 * 0x9E3779B1 & mask)
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & mask
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & mask
    value ^= value >> 16
    model = FormulaModel(seed=7)
    state = model.start(np.array([[3, 2, 0]]), np.array([[True, True, False]]), 1)
    logits, _ = model.step(np.array([1]), state)
    assert logits[0, 4] == (value % 4096) / 512


def test_containers():
    committed = read_vectors(CORE / "containers.json.gz")
    made = plain(container_vectors())
    # The compressed parts depend on the version of zlib; what they hold does not.
    for vectors in (made, committed):
        vectors.pop("container")
    damaged = [
        [(vector["name"].split(",")[0], vector["failure"]) for vector in vectors.pop("damaged")]
        for vectors in (made, committed)
    ]
    assert made == committed
    assert {failure for _, failure in damaged[1]} == {
        "not a container", "newer", "older", "truncated", "altered", "malformed", "too large", "payload",
    }  # fmt: skip
    assert {tensor["encoding"] for tensor in committed["tensors"].values()} == {
        "fp32", "fp16", "int64", "pruned", "kmeans", "kmeans+rans", "grid", "grid+rans",
    }  # fmt: skip
    assert sorted(set(damaged[0])) == sorted(set(damaged[1]))


def test_the_committed_containers_do_what_they_say():
    vectors = read_vectors(CORE / "containers.json.gz")
    good = base64.b64decode(vectors["container"])
    state = parse_container(good).state_dict()
    for name, tensor in vectors["tensors"].items():
        assert state[name].tobytes() == base64.b64decode(tensor["values"]), name
        assert list(state[name].shape) == tensor["shape"], name
    for vector in vectors["damaged"]:
        content = base64.b64decode(vector["content"]) if "content" in vector else apply_damage(good, vector)
        assert content != good
        with pytest.raises(ContainerError):
            parse_container(content).state_dict()


def test_translations_are_those_of_torch(shipped):
    """A few lines of those that ONNX Runtime translated, in the other runtime."""
    committed = read_vectors(NATIVE / "translations.json.gz")
    assert committed["tokenizer_sha256"] == shipped.sha256
    assert committed["max_source_tokens"] == 200
    lines = committed["lines"]
    assert len(lines) > 250
    assert sum(line["beam1"]["stable"] and line["beam4"]["stable"] for line in lines) > 0.9 * len(lines)
    assert max(len(line["pieces"]) for line in lines) > 5
    loaded = load_model(None)
    model = TorchStepModel(loaded.encoder_decoder)
    short = [
        line for line in lines if line["beam1"]["stable"] and len(line["pieces"]) == 1 and len(line["pieces"][0]) < 30
    ]
    for line in short[::20]:
        for piece, expected in zip(line["pieces"], line["beam1"]["tokens"], strict=True):
            assert search(model, [piece], SearchOptions(max_steps=512))[0].tokens == expected, line["text"]
            assert piece == shipped.encode(line["text"])
