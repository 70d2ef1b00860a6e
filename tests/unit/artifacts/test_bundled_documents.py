"""Documents inside a bundle that nobody vouches for: one kind of error, whatever is in them."""

from pathlib import Path

import numpy as np
import pytest

from lite_nlp.artifacts.bundles import decode_container, read_bundled_model
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import encode_fp32
from lite_nlp.core.errors import LiteNlpError
from lite_nlp.export.packing import Packing, pack_members
from tests.unit.export.own_model import TOKENIZER, write_bundle_without_graphs

CONTAINER = container_bytes(tensors={"t": encode_fp32(np.ones((2, 3), np.float32))}, files={}, metadata={})


def write(path: Path, **documents: bytes) -> Path:
    given = {"config.toml": b"name = 'x'\n", **{name.replace("_", "."): content for name, content in documents.items()}}
    files = {"tokenizer.json": TOKENIZER, **given}
    files, packed = pack_members(files, ["tokenizer.json"], Packing(CONTAINER, decode_container))
    write_bundle_without_graphs(path, files, packed)
    return path


def test_documents_are_read(tmp_path: Path) -> None:
    model = read_bundled_model(write(tmp_path / "a.zip", metrics_json=b'{"scores": {}}'))
    assert (model.metrics, model.config_toml) == ({"scores": {}}, "name = 'x'\n")


@pytest.mark.parametrize(
    "content",
    [
        b"no JSON",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 9000 + b"}",
        b"[]",
        b'{"a": NaN}',
    ],
)
def test_metrics_that_break_parsers(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "a.zip", metrics_json=content)
    with pytest.raises(LiteNlpError, match=r"a\.zip: metrics\.json: expected") as caught:
        read_bundled_model(path)
    assert len(str(caught.value)) < 500


def test_a_config_that_is_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", config_toml=b"\xff\xfe")
    with pytest.raises(LiteNlpError, match=r"a\.zip: config\.toml: expected text in UTF-8"):
        read_bundled_model(path)
