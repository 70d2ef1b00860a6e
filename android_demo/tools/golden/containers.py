"""Vectors of the ``.lnlp`` container: one small file with every encoding, and damaged copies of it."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Literal

import numpy as np

from lite_nlp.compress.lnlp.bits import BitWriter
from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.decoders import parse_rans
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    quantize_vector,
)
from lite_nlp.compress.lnlp.grid_payload import parse_grid_rans
from lite_nlp.compress.lnlp.limits import limits_of
from lite_nlp.compress.lnlp.tensors import MAX_LEVEL, matrix_shape
from lite_nlp.compress.lnlp.vocabulary import encode_vocabulary
from lite_nlp.core.errors import ContainerError
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["container_vectors"]

#: What a reader must say of a damaged file; ``payload`` only when the tensor is decoded.
Failure = Literal["not a container", "newer", "older", "truncated", "altered", "malformed", "too large", "payload"]

#: What the Python reader's message looks like for each failure.
_SIGNS: Final[Mapping[Failure, str]] = {
    "not a container": r"not a container",
    "newer": r"newer format",
    "older": r"older format",
    "truncated": r"truncated",
    "altered": r"altered",
    "too large": r".*expected at most \d+ (weights|bytes of|bytes, found a size|files|tensors|aliases)",
    "malformed": r"header|sections|file '",
    "payload": r"tensor 'bad'",
}

#: Sizes of a file, of a codebook and of a tensor whose limits are told.
_LIMIT_CASES: Final = (
    (0, 1, 1),
    (100, 512, 255),
    (1_000_000, 513, 256),
    (1 << 26, 1024, 99_999),
    (1 << 40, 4096, 1 << 28),
)

_PREAMBLE: Final = Struct("<8sIIII")
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class _Parts:
    """A container taken apart: the header's JSON, the files stored as they are, and the sections behind it."""

    header: dict[str, Any]
    plain: bytes
    body: bytes

    @classmethod
    def of(cls, content: bytes) -> "_Parts":
        _, _, _, stored, size = _PREAMBLE.unpack_from(content)
        inflated = zlib.decompress(content[_PREAMBLE.size : _PREAMBLE.size + stored])
        body = content[_PREAMBLE.size + stored : -_DIGEST_BYTES]
        return cls(json.loads(inflated[:size]), inflated[size:], body)

    def join(self, *, raw: bytes | None = None, stored: bytes | None = None, size: int | None = None) -> bytes:
        """Serialize a file with a valid checksum, whatever its content."""
        raw = json.dumps(self.header, sort_keys=True, separators=(",", ":")).encode() if raw is None else raw
        stored = zlib.compress(raw + self.plain, 9) if stored is None else stored
        total = _PREAMBLE.size + len(stored) + len(self.body) + _DIGEST_BYTES
        size = len(raw) if size is None else size
        content = _PREAMBLE.pack(b"\x89LNLP\r\n\x1a", 2, total, len(stored), size) + stored + self.body
        return content + hashlib.sha256(content).digest()


def container_vectors() -> dict[str, Any]:
    """The file, its tensors, and damaged copies with the failure that each must give."""
    tensors = _tensors()
    aliases = {"output.weight": "coded", "äöü.weight": "raw"}
    content = container_bytes(
        tensors=tensors,
        files={
            "config.toml": b'name = "small"\n',
            "empty": b"",
            "notes.txt": "Übung macht den Meister.\n".encode() * 9,
            "tokenizer.json": _tokenizer(),
        },
        metadata={"kind": "model", "name": "kleines Modell ✓", "nested": {"list": [1, 2.5, None, True, "x"]}},
        aliases=aliases,
    )
    parsed = parse_container(content)
    state = parsed.state_dict()
    return {
        "container": _text(content),
        "metadata": parsed.metadata,
        "files": {name: _text(file) for name, file in parsed.files.items()},
        "aliases": parsed.aliases,
        "tensors": {
            name: {
                "encoding": tensor.encoding,
                "shape": list(tensor.shape),
                "values": _text(state[name].astype("<i8" if tensor.encoding == "int64" else "<f4").tobytes()),
            }
            for name, tensor in tensors.items()
        },
        "limits": [[*case, limits_of(*case)] for case in _LIMIT_CASES],
        "damaged": [*_edited(content), *_rebuilt(content)],
    }


def _tensors() -> dict[str, EncodedTensor]:
    random = np.random.default_rng(11)
    normal = random.normal(size=(6, 7)).astype(np.float32)
    special = np.array([0.0, -0.0, 1e-45, -1e-40, 3.4e38, -1.5, np.inf, np.nan], np.float32)
    half = np.array([0.0, -0.0, 6e-8, 6.1e-5, 65504.0, -1.5, 0.333251953125, 2.0], np.float32)
    sparse = np.where(random.random((5, 9)) < 0.3, random.normal(size=(5, 9)), 0.0).astype(np.float32)

    def clustered(shape: tuple[int, ...], centroids: int, scale: float = 1.0) -> ClusteredTensor:
        skewed = np.minimum(random.geometric(0.2, size=shape) - 1, centroids - 1)
        skewed.reshape(-1)[:centroids] = np.arange(min(centroids, skewed.size))
        return ClusteredTensor((scale * random.normal(size=centroids)).astype(np.float32), skewed.astype(np.uint16))

    coded = {
        "coded": clustered((40, 61), 30),
        "coded.wide": clustered((3, 1500), 300, 1e6),
        "coded.one": ClusteredTensor(np.array([0.25], np.float32), np.zeros((7,), np.uint16)),
    }
    return {
        "raw": encode_fp32(normal),
        "raw.special": encode_fp32(special),
        "raw.scalar": encode_fp32(np.array(2.5, np.float32)),
        "raw.empty": encode_fp32(np.zeros((0, 4), np.float32)),
        "half": encode_fp16(half.reshape(2, 4)),
        "counter": encode_int64(np.array([0, -1, 1 << 62, -(1 << 63)], np.int64)),
        "pruned": encode_pruned(sparse),
        "pruned.all": encode_pruned(np.zeros((3, 3), np.float32)),
        "clustered": encode_kmeans(clustered((9, 11), 20)),
        "clustered.two": encode_kmeans(clustered((13,), 2)),
        "clustered.one": encode_kmeans(clustered((4,), 1)),
        "clustered.256": encode_kmeans(clustered((300,), 256)),
        "clustered.300": encode_kmeans(clustered((310,), 300, 1e6)),
        **encode_kmeans_rans(coded),
        **_grids(random),
    }


def _grids(random: np.random.Generator) -> dict[str, EncodedTensor]:
    """Tensors on a grid: of every encoding, and with every part of the side information."""

    def levels(shape: tuple[int, ...], spread: float, step: float, exponents: int = 0, center: int = 0) -> GridTensor:
        rows, columns = matrix_shape(shape)
        scales = np.exp2(random.normal(size=(rows, 1)) + random.normal(size=(1, columns)))
        exact = np.rint(spread * scales * random.standard_t(3.0, size=(rows, columns))).reshape(shape) + center
        sides = [random.integers(-exponents, exponents + 1, count).astype(np.int8) for count in (rows, columns)]
        return GridTensor(np.clip(exact, -MAX_LEVEL, MAX_LEVEL).astype(np.int32), step, *sides)

    coded = {
        "grid.sparse": levels((120, 90), 0.2, 0.0123),
        "grid.exponents": levels((60, 8, 10), 1.5, 3.3e-3, exponents=9),
        "grid.escapes": levels((40, 50), 300.0, 1e-4, exponents=63),
        "grid.lanes": levels((170, 100), 0.8, 0.5),
        "grid.vector": quantize_vector(1.0 + 0.1 * random.normal(size=200), 6),
        "grid.scalar": levels((), 3.0, 7.5),
        "grid.zeros": levels((9, 1000), 0.0, 1.0),
        "grid.far": levels((7, 30), 2.0, 1e-30, center=-5_000_000),
        "grid.subnormal": levels((5, 6), 2.0, 1e-42, exponents=3),
        "grid.infinite": levels((5, 6), 50.0, 3e37, exponents=3),
    }
    fixed = {
        "fixed.exponents": levels((11, 3, 4), 2.0, 0.02, exponents=5),
        "fixed.equal": GridTensor(np.full(5, -3, np.int32), 0.1, np.zeros(1, np.int8), np.zeros(5, np.int8)),
        "fixed.wide": levels((60,), 1e5, 1e-7, center=4_000_000),
    }
    return {**encode_grid_rans(coded), **{name: encode_grid(tensor) for name, tensor in fixed.items()}}


def _tokenizer() -> bytes:
    """A small tokenizer, whose characters JSON escapes among others."""
    text = ('"Ein" paar Wörter \\ und "ein" paar mehr', "ein paar \\\\ Wörter")
    return Tokenizer.train(text * 3, vocab_size=330).to_json()


def _edited(content: bytes) -> list[dict[str, Any]]:
    """Damage without a new checksum: truncation, appended bytes, overwritten bytes."""
    body = _PREAMBLE.size + int.from_bytes(content[16:20], "little")
    vectors = []

    def add(
        name: str,
        failure: Failure,
        *,
        keep: int | None = None,
        append: bytes = b"",
        at: tuple[int, bytes] | None = None,
    ) -> None:
        edits = [] if at is None else [[at[0], at[1].hex()]]
        vector = {"name": name, "keep": keep, "append": append.hex(), "edits": edits}
        _confirm(apply_damage(content, vector), failure, name)
        vectors.append({**vector, "failure": failure})

    # A beginning of the file is a truncated file, down to no byte at all.
    for keep in (0, 1, 7, 8, 11, 12, 23, 24, body - 1, body, body + 5, len(content) - 33, len(content) - 1):
        add(f"the first {keep} bytes", "truncated", keep=keep)
    add("one byte more", "altered", append=b"\0")
    add("twice", "altered", append=content[:64])
    for offset in range(8):
        add(f"magic, byte {offset}", "not a container", at=(offset, bytes([content[offset] ^ 1])))
    add("line ends translated", "not a container", at=(5, b"\n"))
    add("version 3", "newer", at=(8, b"\x03"))
    add("version 3 and cut off", "newer", keep=12, at=(8, b"\x03"))
    add("version 1", "older", at=(8, b"\x01"))
    add("version 0", "older", at=(8, b"\x00"))
    add("length, one less", "altered", at=(12, (len(content) - 1).to_bytes(4, "little")))
    add("length, one more", "truncated", at=(12, (len(content) + 1).to_bytes(4, "little")))
    for offset in (16, 19, 20, 23, 24, body - 1, body, body + 100):
        add(f"byte {offset}", "altered", at=(offset, bytes([content[offset] ^ 0x40])))
    add("digest", "altered", at=(len(content) - 1, bytes([content[-1] ^ 1])))
    return vectors


def apply_damage(content: bytes, vector: Mapping[str, Any]) -> bytes:
    """Apply a vector's edits to a file: overwrite, then truncate, then append."""
    damaged = bytearray(content)
    for offset, patch in vector["edits"]:
        new = bytes.fromhex(patch)
        damaged[offset : offset + len(new)] = new
    return bytes(damaged[: vector["keep"]]) + bytes.fromhex(vector["append"])


#: Headers wrong in one field: the failure, the field's value, and the way to it.
_BAD_FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "header: metadata a list": ("malformed", [], "metadata"),
    **{
        f"header: file name {name!r}": ("malformed", name, "files", 0, "name")
        for name in ("../up", ".hidden", "a/b", "", "x" * 129, "a\\b", "ä")
    },
    "header: tensor, length -1": ("malformed", -1, "tensors", "lengths", 0),
    "header: tensor, length as text": ("malformed", "4", "tensors", "lengths", 0),
    "header: tensor, length true": ("malformed", True, "tensors", "lengths", 0),
    "header: tensor, length 1.0": ("malformed", 1.0, "tensors", "lengths", 0),
    "header: tensor, length 2^63": ("malformed", 1 << 63, "tensors", "lengths", 0),
    "header: tensor, no name": ("malformed", None, "tensors", "names", 0),
    "header: tensors, no lengths": ("malformed", None, "tensors", "lengths"),
    "header: tensors, a shape too few": ("malformed", [[4]], "tensors", "shapes"),
    "header: tensors, shapes an object": ("malformed", {}, "tensors", "shapes"),
    "header: tensors, a list": ("malformed", [], "tensors"),
    "header: tensor, shape as text": ("malformed", "2", "tensors", "shapes", 0),
    "header: tensor, shape negative": ("malformed", [-1, 4], "tensors", "shapes", 0),
    "header: tensor, shape of nine dimensions": ("malformed", [1] * 9, "tensors", "shapes", 0),
    "header: tensor, unknown encoding": ("malformed", "fp8", "tensors", "encodings", 0),
    "header: tensor, the name of another": ("malformed", "half", "tensors", "names", 0),
    "header: too many weights": ("too large", [1 << 28, 2], "tensors", "shapes", 0),
    "header: too many weights in an empty shape": ("too large", [0, 1 << 60], "tensors", "shapes", 0),
    "header: too many tensors": (
        "too large",
        {key: [None] * 10_001 for key in ("names", "shapes", "encodings", "lengths")},
        "tensors",
    ),
    "header: too many files": ("too large", [None] * 65, "files"),
    "header: too many aliases": ("too large", {f"a{index}": "raw" for index in range(10_001)}, "aliases"),
    "header: too many values": ("malformed", [0] * 100_000, "metadata", "x"),
    "header: tensor, encoding a list": ("malformed", [], "tensors", "encodings", 0),
    "header: alias of nothing": ("malformed", "none", "aliases", "b"),
    "header: alias of its own name": ("malformed", "raw", "aliases", "raw"),
    "header: alias of a number": ("malformed", 1, "aliases", "b"),
    "header: file, a list": ("malformed", [], "files", 0),
    "header: file, length -1": ("malformed", -1, "files", 0, "length"),
    "header: file, length null": ("malformed", None, "files", 0, "length"),
    "sections longer than the file": ("malformed", 1 << 40, "tensors", "lengths", 0),
    "sections shorter than the file": ("malformed", 1, "tensors", "lengths", 0),
    "sections of a file more": ("malformed", 5, "files", 0, "length"),
    "file: 17 MiB stated": ("too large", 17 << 20, "files", 0, "size"),
    "file: larger than stated": ("malformed", 1, "files", 0, "size"),
    "file: smaller than stated": ("malformed", 999, "files", 0, "size"),
}


#: JSON that is refused wherever it stands.
_BAD_VALUES: Final[dict[str, bytes]] = {
    "NaN": b"NaN",
    "an infinite number": b"1e999",
    "half of a surrogate pair": b'"\\ud83d"',
    "halves in the wrong order": b'"\\ude00\\ud83d"',
    "half a pair as a key": b'{"\\udfff":0}',
    "an integer of 65 bits": b"9223372036854775808",
    "257 levels": b"[" * 255 + b"]" * 255,
    "two equal keys": b'{"a":0,"a":0}',
}


def _rebuilt(content: bytes) -> list[dict[str, Any]]:
    """Hostile files: valid checksums over invalid content."""
    vectors = []

    def add(name: str, failure: Failure, damaged: bytes) -> None:
        _confirm(damaged, failure, name)
        vectors.append({"name": name, "content": _text(damaged), "failure": failure})

    small = _Parts.of(_small())
    add("header: no zlib stream", "malformed", small.join(stored=b"nothing"))
    add("header: larger than stated", "malformed", small.join(size=10))
    add("header: smaller than stated", "malformed", small.join(size=100_000))
    add("header: 5 MiB stated", "too large", small.join(size=5 << 20))
    add("header: no JSON", "malformed", small.join(raw=b"{"))
    add("header: not UTF-8", "malformed", small.join(raw=b'{"\xff": 1}'))
    add("header: a list", "malformed", small.join(raw=b"[]"))
    columns = b'{"encodings":[],"lengths":[],"names":[],"shapes":[]}'
    for name, value in _BAD_VALUES.items():
        raw = b'{"aliases":{},"files":[],"metadata":{"x":%s},"tensors":%s}' % (value, columns)
        add(f"header: {name}", "malformed", _Parts({}, b"", b"").join(raw=raw))
    whole = json.dumps(small.header).encode() + small.plain
    stored, size = zlib.compress(whole), len(whole) - len(small.plain)
    add("header: a byte after the stream", "malformed", small.join(stored=stored + b"x", size=size))
    add("header: a stream that is cut off", "malformed", small.join(stored=stored[:-1], size=size))
    add(
        "header: a byte in the stream after the files",
        "malformed",
        small.join(stored=zlib.compress(whole + b"x"), size=size),
    )
    add("header: a byte of the files too few", "malformed", small.join(stored=zlib.compress(whole[:-1]), size=size))
    for name, damaged in _bad_vocabularies().items():
        section = _Parts.of(container_bytes(tensors={}, files={}, metadata={}))
        section.header["files"] = [{"length": len(damaged[0]), "name": "t.json", "size": damaged[1]}]
        add(f"file: {name}", "malformed", _Parts(section.header, b"", damaged[0]).join())
    for key in small.header:
        without = {other: value for other, value in small.header.items() if other != key}
        add(f"header: no {key}", "malformed", _Parts(without, small.plain, small.body).join())
    for name, (failure, value, *place) in _BAD_FIELDS.items():
        parts = _Parts.of(_small())
        target: Any = parts.header
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value
        add(name, failure, parts.join())
    for name, tensor in _bad_payloads().items():
        add(f"payload: {name}", "payload", container_bytes(tensors={"bad": tensor}, files={}, metadata={}))
    return vectors


def _small() -> bytes:
    values = np.arange(4, dtype=np.float32)
    return container_bytes(
        tensors={"raw": encode_fp32(values), "half": encode_fp16(values)},
        files={"a.txt": b"a few words"},
        metadata={"kind": "model"},
        aliases={"tied": "raw"},
    )


def _bad_vocabularies() -> dict[str, tuple[bytes, int]]:
    """Stored merges with one defect each, and the size that is stated."""
    content = _tokenizer()
    stored, size = encode_vocabulary(content), len(content)
    if stored is None:
        raise ValueError("expected a tokenizer that its merges give back, found another")
    start = 7 + int.from_bytes(stored[5:7], "little")

    def rebuilt(skeleton: bytes) -> bytes:
        return stored[:5] + len(skeleton).to_bytes(2, "little") + skeleton + stored[start:]

    return {
        "merges of six bytes": (stored[:6], size),
        "merges without text": (rebuilt(b""), size),
        "merges with text of two parts": (rebuilt(zlib.compress(b"{\0}")), size),
        "merges with text of four parts": (rebuilt(zlib.compress(b"{\0\0\0}")), size),
        "merges with text that goes on": (rebuilt(zlib.compress(bytes(2)) + b"x"), size),
        "merges with text of 64 KiB and more": (rebuilt(zlib.compress(bytes(2) + b" " * (1 << 16))), size),
        "merges without special tokens": (bytes(2) + stored[2:], size),
        "too many merges": (stored[:2] + (100_001).to_bytes(3, "little") + stored[5:], size),
        "a merge more": (stored[:2] + (stored[2] + 1).to_bytes(1, "little") + stored[3:], size),
        "merges and a byte more": (stored + b"\1", size),
        "merges and a zero more": (stored + b"\0", size),
        "merges of types to come": (stored[:start] + b"\xff" * 9, size),
        "merges of a larger document": (stored, size + 1),
        "merges of a smaller document": (stored, size - 1),
        "merges of a document without room": (stored, 10),
    }


def _bad_payloads() -> dict[str, EncodedTensor]:
    """Payloads that do not fit their encoding, each with one defect."""
    pruned = encode_pruned(np.array([0.0, 1.0, 2.0], np.float32)).payload
    bad: dict[str, tuple[str, tuple[int, ...], bytes]] = {
        "fp32 a byte short": ("fp32", (2,), bytes(7)),
        "fp32 a byte long": ("fp32", (2,), bytes(9)),
        "fp16 of the length of fp32": ("fp16", (2,), bytes(8)),
        "int64 short": ("int64", (1,), bytes(4)),
        "pruned without bitmap": ("pruned", (9,), b"\x00"),
        "pruned with a value too few": ("pruned", (3,), pruned[:-4]),
        "pruned with a value too many": ("pruned", (3,), pruned + bytes(4)),
        "pruned with bits after the last weight": ("pruned", (3,), b"\x0e" + pruned[1:] + bytes(4)),
        **_bad_clusters(),
        **_bad_grids(),
    }
    return {name: EncodedTensor(shape, encoding, payload) for name, (encoding, shape, payload) in bad.items()}


#: A defect: encoding, shape and payload.
_Defect = tuple[str, tuple[int, ...], bytes]


def _bad_clusters() -> dict[str, _Defect]:
    random = np.random.default_rng(12)
    clustered = ClusteredTensor(np.array([-1.0, 0.0, 1.0], np.float32), random.integers(0, 3, 50).astype(np.uint16))
    kmeans, rans = encode_kmeans(clustered).payload, encode_kmeans_rans({"x": clustered})["x"].payload
    side, stream = _side_of(rans, 50)

    def codebook(size: int = 3, first: int = 1, gaps: Sequence[int] = (2, 3), wide: bool = False) -> BitWriter:
        writer = BitWriter()
        writer.field(int(wide), 1)
        writer.number(size - 1)
        writer.field(first, 32 if wide else 16)
        writer.numbers(gaps)
        return writer

    def table(scale_bits: int, differences: Sequence[int], size: int = 3) -> bytes:
        writer = codebook(size, gaps=range(size - 1))
        writer.field(scale_bits - 8, 3)
        writer.numbers(differences)
        return writer.to_bytes()

    width_of_gaps = codebook(gaps=())
    width_of_gaps.field(30, 5)
    width_of_gaps.signed(0)
    width_of_gaps.field(0, 32)
    return {
        "kmeans of no byte": ("kmeans", (50,), b""),
        "kmeans with 4097 centroids": ("kmeans", (1,), codebook(4097, gaps=[0] * 4096).to_bytes() + bytes(2)),
        "kmeans with a number without end": ("kmeans", (50,), bytes(20)),
        "kmeans with a gap below zero": ("kmeans", (4,), codebook(gaps=(2, -1)).to_bytes() + b"\0"),
        "kmeans with centroids of 17 bits": ("kmeans", (4,), codebook(first=65_533, gaps=(1, 9)).to_bytes() + b"\0"),
        "kmeans with centroids of 33 bits": (
            "kmeans",
            (4,),
            codebook(first=(1 << 32) - 2, gaps=(0, 1), wide=True).to_bytes() + b"\0",
        ),
        "kmeans with gaps that do not end": ("kmeans", (4,), width_of_gaps.to_bytes() + bytes(9)),
        "kmeans with an index too large": ("kmeans", (50,), kmeans[:-13] + b"\xff" + kmeans[-12:]),
        "kmeans a byte short": ("kmeans", (50,), kmeans[:-1]),
        "kmeans a byte long": ("kmeans", (50,), kmeans + b"\x00"),
        "kmeans with bits after the last index": ("kmeans", (50,), kmeans[:-1] + bytes([kmeans[-1] | 0x80])),
        "rans with scale bits 13 for 3 centroids": ("kmeans+rans", (50,), table(13, (8000, -2730, -2730)) + stream),
        "rans with another sum of frequencies": ("kmeans+rans", (50,), table(12, (1, -1, 0)) + stream),
        "rans with a frequency of zero": ("kmeans+rans", (50,), table(8, (171, -256, 0)) + stream),
        "rans with a frequency below zero": ("kmeans+rans", (50,), table(8, (-86, 129, 128)) + stream),
        "kmeans with a bit after the codebook": ("kmeans", (4,), _with_last_bit(codebook().to_bytes()) + b"\0"),
        "rans without states": ("kmeans+rans", (50,), side),
        "rans of two lanes with one state": ("kmeans+rans", (8193,), side + stream[:4]),
        "rans with a state below 2^16": ("kmeans+rans", (50,), side + b"\xff\xff\x00\x00" + stream[4:]),
        "rans with another state": ("kmeans+rans", (50,), side + b"\x00\x00\x01\x01" + stream[4:]),
        "rans that carries a number": ("kmeans+rans", (1,), _carrying()),
        "rans with half a word": ("kmeans+rans", (50,), rans + b"\x00"),
        "rans with a word too many": ("kmeans+rans", (50,), rans + b"\x00\x00"),
        "rans with a word too few": ("kmeans+rans", (50,), rans[:-2]),
        "rans of no weights": ("kmeans+rans", (0,), rans),
    }


def _carrying() -> bytes:
    """One index of one centroid, which leaves the state as it is, and another state than the first."""
    payload = encode_kmeans_rans({"x": ClusteredTensor(np.zeros(1, np.float32), np.zeros(1, np.uint16))})["x"].payload
    return payload[:-4] + ((1 << 16) + 5).to_bytes(4, "little")


def _with_last_bit(content: bytes) -> bytes:
    """Bits with the last one set, which must be one of those that fill up the last byte."""
    if content[-1] & 0x80:
        raise ValueError("expected bits that fill no whole number of bytes, found others")
    return content[:-1] + bytes([content[-1] | 0x80])


def _side_of(payload: bytes, num_weights: int) -> tuple[bytes, bytes]:
    """What is in front of the stream of indices, and the stream."""
    stream, _ = parse_rans(payload, num_weights)
    size = len(stream.to_bytes())
    return payload[:-size], payload[-size:]


def _bad_grids() -> dict[str, _Defect]:
    levels = np.random.default_rng(13).integers(-3, 4, (20, 30)).astype(np.int32)
    tensor = GridTensor(levels, 0.75, np.arange(20, dtype=np.int8), np.zeros(30, np.int8))
    fixed, coded = encode_grid(tensor).payload, encode_grid_rans({"x": tensor})["x"].payload
    stream = parse_grid_rans(coded, (20, 30))[0].to_bytes()
    zeros = encode_grid_rans({"x": GridTensor(np.zeros(9, np.int32), 1.0, np.zeros(1, np.int8), np.zeros(9, np.int8))})[
        "x"
    ]
    tail = parse_grid_rans(zeros.payload, (9,))[0].to_bytes()

    def side(
        *,
        shape: int = 2,
        center: int = 0,
        base: int = 0,
        widths: Sequence[int] = (0, 0),
        tilt: int = 0,
        classes: Sequence[int] = (),
        exponents: Sequence[int] = (0,),
        escapes: Sequence[int] = (),
        count: int | None = None,
    ) -> bytes:
        """The side information of a vector, and the stream of nine zeros."""
        writer = BitWriter()
        writer.field(shape, 3)
        writer.signed(center)
        writer.field(base, 7)
        for width in widths:
            writer.field(width, 3)
        writer.numbers([tilt] * 8)
        writer.numbers(classes)
        writer.numbers([0])
        writer.numbers(exponents)
        writer.number(len(escapes) if count is None else count)
        writer.numbers(escapes)
        return b"\x80\x3f" + writer.to_bytes() + tail

    def packed(least: int, width: int, content: bytes, *, step: bytes = b"\0\0\x80\x3f") -> bytes:
        writer = BitWriter()
        writer.field(width, 5)
        writer.signed(least)
        writer.numbers([0])
        writer.numbers([0])
        return step + writer.to_bytes() + content

    equal = BitWriter()
    equal.field(0, 5)
    equal.signed(0)
    equal.field(0b11, 2)
    return {
        "grid of three bytes": ("grid", (4,), fixed[:3]),
        "grid with a step of zero": ("grid", (4,), packed(0, 1, b"\x0a", step=bytes(4))),
        "grid with a step below zero": ("grid", (4,), packed(0, 1, b"\x0a", step=b"\0\0\x80\xbf")),
        "grid with a step of NaN": ("grid", (4,), packed(0, 1, b"\x0a", step=b"\0\0\xc0\x7f")),
        "grid with levels of 25 bits": ("grid", (4,), packed(0, 25, b"\xff" * 13)),
        "grid with an infinite scale": ("grid", (4,), b"\xff\xff\x7f\x7f" + _exponents(1) + b"\x0a"),
        "grid without its least level": ("grid", (4,), packed(0, 1, b"\x0f")),
        "grid with a bit too many": ("grid", (4,), packed(0, 2, b"\x44")),
        "grid with a level too large": ("grid", (4,), packed((1 << 23) - 1, 1, b"\x0a")),
        "grid with a least level too small": ("grid", (4,), packed(-(1 << 23), 1, b"\x0a")),
        "grid with bits after the last level": ("grid", (4,), packed(0, 1, b"\x1a")),
        "grid a byte short": ("grid", (20, 30), fixed[:-1]),
        "grid a byte long": ("grid", (20, 30), fixed + b"\0"),
        "grid with an exponent of 64": ("grid", (4,), b"\0\0\x80\x3f" + _exponents(64) + b"\x0a"),
        "grid with equal numbers in a long form": ("grid", (2,), b"\0\0\x80\x3f" + equal.to_bytes() + bytes(1)),
        "grid of no weights": ("grid", (0, 3), fixed),
        "levels of a byte": ("grid+rans", (9,), coded[:1]),
        "levels with shape 6": ("grid+rans", (9,), side(shape=6)),
        "levels with class 73": ("grid+rans", (9,), side(base=73)),
        "levels with a center too large": ("grid+rans", (9,), side(center=1 << 23)),
        "levels with a tilt of 32": ("grid+rans", (9,), side(tilt=32)),
        "levels with an exponent of -64": ("grid+rans", (9,), side(exponents=(-64,))),
        "levels with a class of 64": ("grid+rans", (9,), side(widths=(1, 0), classes=(64,))),
        "levels with too many tables": (
            "grid+rans",
            (9,),
            side(widths=(0, 1), classes=range(9), base=24),
        ),
        "levels with an escape too many": ("grid+rans", (9,), side(escapes=(900,))),
        "levels with more escapes than weights": ("grid+rans", (9,), side(count=10)),
        "levels with escapes that are not there": ("grid+rans", (9,), side(count=9)),
        "levels with an escape of 2^23": ("grid+rans", (9,), side(escapes=(1 << 23,))),
        "levels with a step of zero": ("grid+rans", (9,), b"\0\0" + zeros.payload[2:]),
        "levels with another state": ("grid+rans", (20, 30), coded[: -len(stream)] + b"\0\0\1\1" + stream[4:]),
        "levels with a word too many": ("grid+rans", (20, 30), coded + b"\1\0"),
        "levels with a word too few": ("grid+rans", (20, 30), coded[:-2]),
        "levels with half a word": ("grid+rans", (20, 30), coded[:-1]),
        "levels of no weights": ("grid+rans", (0,), coded),
        "levels of another shape": ("grid+rans", (30, 20), coded),
    }


def _exponents(value: int) -> bytes:
    """Side information of levels of one bit from 0 on, with this exponent for the row."""
    writer = BitWriter()
    writer.field(1, 5)
    writer.signed(0)
    writer.numbers([value])
    writer.numbers([0])
    return writer.to_bytes()


def _confirm(content: bytes, failure: Failure, name: str) -> None:
    """Check that the Python reader gives the expected failure."""
    try:
        parse_container(content).state_dict()
    except ContainerError as error:
        message = str(error)
    else:
        raise ValueError(f"{name}: expected a file that is refused, found an accepted one")
    found = next((kind for kind, sign in _SIGNS.items() if re.match(sign, message)), None)
    if found != failure:
        raise ValueError(f"{name}: expected the failure {failure!r}, found {found!r}: {message}")


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
