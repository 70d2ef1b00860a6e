"""The tokenizer of a model of every kind, read without the model."""

from pathlib import Path

import numpy as np
import pytest

from lite_nlp.artifacts.models import list_shipped, read_config, read_tokenizer, resolve_source
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import encode_fp32
from lite_nlp.core.errors import ContainerError, DataError
from lite_nlp.data.tokenizer import Tokenizer

WEIGHTS = {"t": encode_fp32(np.ones((2, 3), np.float32))}


def write_directory(folder: Path, tokenizer: bytes) -> Path:
    path = folder / "model"
    path.mkdir()
    (path / "tokenizer.json").write_bytes(tokenizer)
    return path


def write_container(folder: Path, tokenizer: bytes) -> Path:
    path = folder / "model.lnlp"
    path.write_bytes(container_bytes(tensors=WEIGHTS, files={"tokenizer.json": tokenizer}, metadata={}))
    return path


@pytest.mark.parametrize("write", [write_directory, write_container])
def test_it_is_the_one_that_was_written(write, tmp_path):
    written = Tokenizer.train(["good morning", "thank you"], vocab_size=270).to_json()
    assert read_tokenizer(resolve_source(write(tmp_path, written))).to_json() == written


@pytest.mark.parametrize("shipped", list_shipped(), ids=lambda shipped: shipped.name)
def test_a_bundle_has_as_many_types_as_its_model(shipped):
    source = resolve_source(shipped.name)
    types = read_tokenizer(source).vocab_size
    assert set(read_config(source).model.vocab_sizes.values()) == {types}


@pytest.mark.parametrize("write", [write_directory, write_container])
def test_a_damaged_one_is_named(write, tmp_path):
    source = resolve_source(write(tmp_path, b"{}"))
    with pytest.raises(DataError, match=r"model.*tokenizer\.json: expected a tokenizer\.json of byte-level BPE"):
        read_tokenizer(source)


def test_a_container_without_one(tmp_path):
    path = tmp_path / "model.lnlp"
    path.write_bytes(container_bytes(tensors=WEIGHTS, files={}, metadata={}))
    with pytest.raises(ContainerError, match=r"model\.lnlp: expected a model with tokenizer\.json, found no files"):
        read_tokenizer(resolve_source(path))
