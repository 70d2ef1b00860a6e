import errno
import hashlib
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lite_nlp.compress.lnlp.container import container_bytes, parse_container, read_container, write_container
from lite_nlp.compress.lnlp.encodings import (
    ENCODINGS,
    ClusteredTensor,
    EncodedTensor,
    encode_fp32,
    encode_kmeans_rans,
    encode_pruned,
)
from lite_nlp.compress.lnlp.limits import max_weights
from lite_nlp.core.errors import ContainerError, OutputError
from tests.fuzz.sealed import file_entry, header_of, seal, tensor_entry


def _tensors() -> dict[str, EncodedTensor]:
    rng = np.random.default_rng(0)
    clusters = ClusteredTensor(np.linspace(-1, 1, 9, dtype=np.float32), rng.integers(0, 9, (6, 5)).astype(np.uint16))
    return {
        "bias": encode_fp32(np.array([0.5, -1.0], dtype=np.float32)),
        "pruned": encode_pruned(np.array([[0, 0, 3], [0, 1, 0]], dtype=np.float32)),
        **encode_kmeans_rans({"weight": clusters}),
    }


def _content() -> bytes:
    return container_bytes(
        tensors=_tensors(),
        files={"config.toml": b"x = 1\n", "tokenizer.json": b"{}" * 100},
        metadata={"kind": "model", "name": "tiny", "letters": "äöü"},
        aliases={"output": "weight"},
    )


def test_golden_layout() -> None:
    content = container_bytes(tensors={"w": encode_fp32(np.array([1.0]))}, files={"a.txt": b"words"}, metadata={})
    raw = (
        b'{"aliases":{},"files":[{"name":"a.txt","size":5}],"metadata":{},'
        b'"tensors":{"encodings":["fp32"],"lengths":[4],"names":["w"],"shapes":[[1]]}}'
    )
    stored = zlib.compress(raw + b"words", 9)
    preamble = bytes.fromhex("894c4e4c500d0a1a 02000000") + b"".join(
        number.to_bytes(4, "little") for number in (24 + len(stored) + 4 + 32, len(stored), len(raw))
    )
    expected = preamble + stored + bytes.fromhex("0000803f")
    assert content == expected + hashlib.sha256(expected).digest()


def test_the_overhead_of_a_hundred_tensors_is_small() -> None:
    names = [f"encoder.{layer}.attention.{part}_proj.weight" for layer in range(25) for part in "qkvo"]
    tensors = {name: encode_fp32(np.ones(index + 1)) for index, name in enumerate(names)}
    payload = sum(len(tensor.payload) for tensor in tensors.values())
    assert len(container_bytes(tensors=tensors, files={}, metadata={"kind": "model"})) - payload < 1500


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.lnlp"
    size = write_container(
        path, tensors=_tensors(), files={"a.json": b"", "B-2": b"x" * 5000}, metadata={"n": 1}, aliases={"o": "weight"}
    )
    container = read_container(path)
    assert size == path.stat().st_size
    assert container.files == {"a.json": b"", "B-2": b"x" * 5000}
    assert container.metadata == {"n": 1}
    assert container.tensors == _tensors()
    state = container.state_dict()
    assert list(state) == ["bias", "pruned", "weight", "o"]
    assert state["bias"].tolist() == [0.5, -1.0]
    assert state["pruned"].tolist() == [[0, 0, 3], [0, 1, 0]]
    assert state["o"] is state["weight"]


def test_equal_content_gives_equal_bytes() -> None:
    assert _content() == _content()


def test_truncation_at_every_byte_is_noticed() -> None:
    content = _content()
    for end in range(len(content)):
        with pytest.raises(ContainerError, match="truncated: expected"):
            parse_container(content[:end])


def test_every_flipped_bit_is_noticed() -> None:
    content = _content()
    for place in range(len(content)):
        for bit in range(8):
            altered = bytearray(content)
            altered[place] ^= 1 << bit
            with pytest.raises(ContainerError, match=r"^(not a container|newer format|older format|altered|truncated)"):
                parse_container(bytes(altered))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"PK\x03\x04" + content[4:], "not a container: expected the first bytes"),
        (lambda content: content[:8] + b"\x03" + content[9:], "newer format: expected version 2, found 3"),
        (lambda content: content[:8] + b"\x01" + content[9:], "older format: expected version 2, found 1"),
        (lambda content: content + b"\n", r"altered: expected \d+ bytes, found \d+"),
        (lambda content: content[:40] + b"\xff\xff" + content[42:], "altered: the file fails its SHA-256 checksum"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "altered: the file fails its SHA-256 checksum"),
        (lambda _: b"", "truncated: expected at least 24 bytes, found 0"),
    ],
)
def test_each_defect_has_one_message(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.lnlp"
    path.write_bytes(change(_content()))
    with pytest.raises(ContainerError, match=f"model.lnlp: {message}"):
        read_container(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "header: expected JSON"),
        (b"[" * 100_000, "header: expected JSON"),
        (b"\xff", "header: expected JSON"),
        ([], "header: expected a JSON object, found a list"),
        (header_of(files=None), "expected an object with metadata"),
        (header_of(tensors={}), "expected tensors with names, shapes, encodings, lengths"),
        (header_of(tensors={"names": ["w"], "shapes": [], "encodings": [], "lengths": []}), "of one length"),
        (header_of([tensor_entry(b"", length=-1)]), "expected a tensor with a name and a length, found 'w' and -1"),
        (header_of([tensor_entry(b"", name=5)]), "expected a tensor with a name and a length, found 5 and 0"),
        (header_of([tensor_entry(b"", shape=[-1])]), r"tensor 'w': expected a shape of at most 8 sizes, found \[-1\]"),
        (header_of([tensor_entry(b"", shape=[True])]), "tensor 'w': expected a shape"),
        (header_of([tensor_entry(b"", shape=[1] * 9)]), "tensor 'w': expected a shape"),
        (header_of([tensor_entry(b"", encoding="zip")]), "expected an encoding among fp32, .* found 'zip'"),
        (header_of([tensor_entry(b"", encoding=[])]), r"expected an encoding among fp32, .* found \[\]"),
        (header_of([tensor_entry(b"", shape=[1 << 40])]), "expected at most 1677[0-9]+ weights in a file of"),
        (header_of([tensor_entry(b"", shape=[0, 1 << 62])]), "expected at most 1677[0-9]+ weights"),
        (header_of([tensor_entry(b"", name=f"t{i}") for i in range(10_001)]), "expected at most 10000 tensors"),
        (header_of(files=[file_entry(b"", name=f"f{i}") for i in range(65)]), "expected at most 64 files, found 65"),
        (header_of([tensor_entry(b"")], aliases={f"a{i}": "w" for i in range(10_001)}), "at most 10000 aliases"),
        (header_of(metadata={"a": [[]] * 100_000}), "expected JSON of at most 100000 values"),
        (b'{"aliases":{},"files":[],"metadata":{"a":NaN},"tensors":{}}', "NaN"),
        (b'{"aliases":{},"files":[],"metadata":{"a":"\\ud800"},"tensors":[]}', "lone surrogate"),
        (b'{"aliases":{},"files":[],"metadata":{"a":%s},"tensors":[]}' % (b"9" * 9000), "64 bits"),
        (header_of([tensor_entry(b""), tensor_entry(b"")]), "expected every name once"),
        (header_of([tensor_entry(b"", length=1 << 50)]), "sections: expected 1125899906842624 bytes in total, found 0"),
        (header_of(aliases={"a": "w"}), "alias 'a': expected a new name for a tensor, found 'w'"),
        (header_of([tensor_entry(b"")], aliases={"a": []}), "alias 'a'"),
        (header_of(files=["x"]), "expected a file with name and size, found 'x'"),
        (header_of(files=[file_entry(b"", name="../x")]), "file '../x': expected a plain"),
        (header_of(files=[file_entry(b"", length=None)]), "file 'x': expected a plain file name and a size"),
        (header_of(files=[file_entry(b"", size=1 << 40)]), "at most 16777[0-9]+ bytes of embedded files"),
        (
            header_of(files=[file_entry(b"", size=9 << 20, name=name) for name in "ab"]),
            "bytes of embedded files, found 18874368",
        ),
        (header_of(files=[file_entry(b"", size=5)]), "expected a zlib stream with 5 bytes more, found 0"),
        (header_of(files=[file_entry(b"", length=0)]), "file 'x': expected 7 bytes of sizes, found 0"),
    ],
)
def test_hostile_headers_are_refused(header: Any, message: str) -> None:
    with pytest.raises(ContainerError, match=message):
        parse_container(seal(header))


def test_a_header_that_inflates_without_end_is_refused() -> None:
    bomb = b"[" + b" " * 50_000_000 + b"]"
    with pytest.raises(ContainerError, match="header: expected JSON"):
        parse_container(seal(bomb, header_size=100))
    with pytest.raises(ContainerError, match="header: expected at most 4194304 bytes"):
        parse_container(seal(bomb))


def test_a_shape_larger_than_its_payload_is_refused_before_anything_is_allocated() -> None:
    payload = b"\0\0\x80\x3f"
    for encoding in ENCODINGS:
        entry = tensor_entry(payload, shape=[1 << 24], encoding=encoding)
        container = parse_container(seal(header_of([entry]), payload))
        with pytest.raises(ContainerError, match="tensor 'w'"):
            container.state_dict()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ContainerError, match=r"nowhere.lnlp: expected a compressed model file, found none: No such file"
    ):
        read_container(tmp_path / "nowhere.lnlp")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.lnlp")
    with pytest.raises(
        ContainerError, match=r"model.lnlp: expected a compressed model file, found something that is no"
    ):
        read_container(tmp_path / "model.lnlp")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.lnlp"
    path.write_bytes(b"old")

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_container(path, tensors=_tensors(), files={}, metadata={})
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.lnlp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": {"a/b": b""}}, "file 'a/b': expected a plain file name"),
        ({"files": {".hidden": b""}}, "file '.hidden'"),
        ({"aliases": {"x": "nothing"}}, "alias 'x'"),
        ({"aliases": {"bias": "weight"}}, "alias 'bias'"),
        ({"metadata": {"x": float("nan")}}, "not JSON compliant"),
    ],
)
def test_what_cannot_be_written_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        container_bytes(**{"tensors": _tensors(), "files": {}, "metadata": {}, **arguments})


def test_more_than_a_reader_accepts_is_not_written() -> None:
    # A header of a hundred bytes or so allows for a thousand weights more than an empty file.
    tensor = EncodedTensor((max_weights(0) + 10_000,), "fp32", b"")
    for arguments in (
        {"tensors": {"w": tensor}},
        {"tensors": {}, "files": {"x": bytes(17 << 20)}},
        {"tensors": {}, "metadata": {"x": [0] * 200_000}},
        {"tensors": {}, "files": {f"x{index}": b"" for index in range(65)}},
    ):
        with pytest.raises(ContainerError, match="header: expected"):
            container_bytes(**{"files": {}, "metadata": {}, **arguments})
